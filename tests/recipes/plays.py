"""Which commands of the page are played, what they need, and how what came of them is judged."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.recipes.page import Recipe, recipes
from tests.recipes.stage import Stage, fitted, judged, play, prepared, reports, started
from tests.waiting import until


@dataclass(frozen=True, slots=True)
class Play:
    """A command of a recipe."""

    title: str
    program: str
    """What must be installed for it."""
    command: int = 0
    """Which of the recipe's."""
    director: "Callable[[Recipe, str, Path, Stage], str] | None" = None
    """Who plays it; none: it is run to its end, and all ranks are judged."""
    guest: bool = True
    """It is played in a guest with two NUMA nodes, too."""

    def played(self, folder: Path, stage: Stage) -> str:
        """What the ranks said, after it was found good."""
        recipe = recipes()[self.title]
        command = fitted(recipe.commands[self.command], stage)
        return (self.director or to_its_end)(recipe, command, folder, stage)


def to_its_end(recipe: Recipe, command: str, folder: Path, stage: Stage) -> str:
    environment = prepared(recipe, folder, stage)
    play(command, folder, environment)
    return judged(reports(folder), stage)


def mpich(recipe: Recipe, command: str, folder: Path, stage: Stage) -> str:
    """``mpiexec`` is MPICH's, where Open MPI has one, too."""
    (folder / "bin").mkdir()
    shim = folder / "bin" / "mpiexec"
    shim.write_text('#!/bin/sh\nexec mpiexec.hydra "$@"\n')
    shim.chmod(0o755)
    environment = prepared(recipe, folder, stage)
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    play(command, folder, environment)
    return judged(reports(folder), stage)


def bound_by_the_launcher(recipe: Recipe, command: str, folder: Path, stage: Stage) -> str:
    """Without ``--bind-to none``, which people forget: inside a hold it is divided all the same."""
    assert " --bind-to none" in command
    return to_its_end(recipe, command.replace(" --bind-to none", ""), folder, stage)


def last_gpus(recipe: Recipe, command: str, folder: Path, stage: Stage) -> str:
    """In a hold of the machine's last GPUs: DeepSpeed shows its ranks the first ones, and bind the hold's."""
    count = len(stage.gpus)
    own = list(range(count // 2, count))
    cpus = min(4, stage.cpus // 2)
    command = re.sub(r"--cpus \d+ --gpus \d+", f"--cpus {cpus} --gpu-ids {','.join(map(str, own))}", command)
    command = command.replace(f"--num_gpus {count}", f"--num_gpus {len(own)}")
    out = play(command, folder, prepared(recipe, folder, stage))
    assert "the grant decides its GPUs" in out
    return judged(reports(folder), stage, set(own))


def ray_that_stays(recipe: Recipe, command: str, folder: Path, stage: Stage) -> str:
    """A cluster in a hold, a program that uses it, and its end by ``release``."""
    environment = prepared(recipe, folder, stage)
    script = folder / "actors.py"
    text, count = re.subn(r"ray\.init\(.*\)", 'ray.init(address="auto")', script.read_text())
    assert count == 1
    script.write_text(text)
    first, second = (fitted(line, stage) for line in recipe.commands[2:])
    with started(f"{command} >ray.log 2>&1", folder, environment) as running:
        try:
            log = folder / "ray.log"
            until(lambda: "runtime started" in (log.read_text() if log.exists() else ""), "Ray is up")
            play(first, folder, environment)
            found = judged(reports(folder), stage)
            play(second, folder, environment)
            running.wait(60)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
    return found


def unit_is_valid(recipe: Recipe, command: str, folder: Path, stage: Stage) -> str:
    """systemd reads the unit; the programs it names are ours, as they are not installed there."""
    del command, stage
    (unit,) = [text for name, text in recipe.files.items() if name.endswith(".service")]
    file = folder / "numawise@train.service"
    file.write_text(unit.replace("/usr/local/bin/numawise", str(shutil.which("numawise"))))
    done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
    about = [line for line in done.stderr.splitlines() if file.name in line or "numawise" in line]
    assert not about, "\n".join(about)
    return "systemd-analyze verify: nothing to say"


def compose_takes_it(recipe: Recipe, command: str, folder: Path, stage: Stage) -> str:
    """``docker compose up`` shows its configuration instead; nothing is started."""
    compose = shutil.which("docker-compose")
    (folder / "bin").mkdir()
    shim = folder / "bin" / "docker"
    shim.write_text(f'#!/bin/sh\n[ "$1 $2" = "compose up" ] && exec {compose} config --output up.yaml\n')
    shim.chmod(0o755)
    (folder / "compose.yaml").write_text("services:\n  train:\n    image: box\n    gpus: all\n")
    environment = prepared(recipe, folder, stage)
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    play(command, folder, environment)
    if "docker" not in command:
        play(recipe.commands[2], folder, environment)
    text = (folder / "up.yaml").read_text()
    count = min(2, len(stage.gpus))
    for words in ("cpuset: ", 'mem_limit: "4294967296"', "driver: nvidia", "capabilities:"):
        assert words in text, text
    for number in range(count):
        assert f'- "{number}"' in text, text
    assert "count: -1" not in text, f"all GPUs are asked for: {text}"
    return "docker compose config: CPUs, memory and GPUs are the hold's"


# fmt: off
PLAYS = {
    "torchrun":                        Play("torchrun", "torchrun"),
    "torchrun, without a hold":        Play("torchrun", "torchrun", 1),
    "torch.multiprocessing.spawn":     Play("torch.multiprocessing.spawn", "torchrun"),
    "accelerate":                      Play("accelerate", "accelerate"),
    "DeepSpeed":                       Play("DeepSpeed", "deepspeed"),
    "DeepSpeed, other GPUs":           Play("DeepSpeed", "deepspeed", 0, last_gpus),
    "Ray":                             Play("Ray", "ray", guest=False),  # an emulated guest misses its deadlines
    "Ray that stays":                  Play("Ray", "ray", 1, ray_that_stays, guest=False),
    "Open MPI":                        Play("MPI", "mpirun"),
    "Open MPI, bound by the launcher": Play("MPI", "mpirun", 0, bound_by_the_launcher),
    "MPICH":                           Play("MPI", "mpiexec.hydra", 1, mpich),
    "A systemd unit":                  Play("A systemd unit", "systemd-analyze", 0, unit_is_valid, guest=False),
    "docker compose, in a hold":       Play("docker compose", "docker-compose", 0, compose_takes_it, guest=False),
    "docker compose, without":         Play("docker compose", "docker-compose", 1, compose_takes_it, guest=False),
}
# fmt: on
NOT_PLAYED = {
    "Slurm": "its daemons are not started here; its variables are in tests/unit/apps/launch/test_launchers.py"
}
