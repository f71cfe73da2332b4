"""What launchers put into the environment of two ranks, recorded for tests that have no launchers.

PATH=.venv-recipes/bin:$PATH python -m tests.recipes.record > tests/recipes/recorded/launchers.json
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.recipes.stage import LOOPBACK

HERE = Path(__file__).parent
COMMANDS = {
    "torchrun": "torchrun --nproc-per-node 2 --no-python python train.py",
    "accelerate": "accelerate launch --multi_gpu --num_processes 2 --no_python python train.py",
    "deepspeed": "deepspeed --num_gpus 2 --no_python --no_local_rank python train.py",
    "mpirun": "mpirun -np 2 --bind-to none python train.py",
    "mpiexec.hydra": "mpiexec.hydra -bind-to none -n 2 python train.py",
    "ray": "python actors.py",
}
PACKAGES = {"torchrun": "torch", "accelerate": "accelerate", "deepspeed": "deepspeed", "ray": "ray"}
ACTORS = """
import ray

@ray.remote(num_gpus=1)
class Worker:
    def train(self):
        import train
        train.main()

ray.init(num_cpus=2, num_gpus=2)
ray.get([worker.train.remote() for worker in [Worker.remote(), Worker.remote()]])
"""
VARYING = ("PID", "FD", "RUN_ID")


def recorded(name: str) -> dict[str, Any]:
    """Versions, command and variables of one launcher."""
    with tempfile.TemporaryDirectory(prefix="nw-", dir="/tmp") as place:
        folder = Path(place)
        (folder / "ranks").mkdir()
        shutil.copy(HERE / "train.py", folder)
        (folder / "actors.py").write_text(ACTORS)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": place,
            "TMPDIR": place,
            "REPORTS": f"{place}/ranks",
            **LOOPBACK,
        }
        subprocess.run(COMMANDS[name].split(), cwd=folder, env=environment, check=True, stdout=sys.stderr)
        ranks = [json.loads(file.read_text())["environment"] for file in (folder / "ranks").iterdir()]
    kept = [
        {key: text if not any(word in key for word in VARYING) else "1" for key, text in sorted(rank.items())}
        for rank in ranks
    ]
    version = metadata.version(PACKAGES[name]) if name in PACKAGES else ""
    if not version:
        said = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
        version = next(
            line.split()[-1] for line in said.splitlines() if "Version:" in line or "(Open MPI)" in line
        )
    return {"version": version, "command": COMMANDS[name], "ranks": sorted(kept, key=str)}


if __name__ == "__main__":
    json.dump({name: recorded(name) for name in COMMANDS if shutil.which(name)}, sys.stdout, indent=1)
    sys.stdout.write("\n")
