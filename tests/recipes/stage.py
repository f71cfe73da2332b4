"""Play a recipe of the page: in a folder of its own, with GPUs that only the files of the kernel have.

    python -m tests.recipes.stage FOLDER PLAY…

Rules kept here:

1. The commands are the page's.  On a machine smaller than the page's (16 CPUs, 4 GPUs) its numbers are replaced by the
   machine's, and nothing else.
2. GPUs are folders over ``/sys/bus/pci/devices``, in a mount namespace of the recipe's own; nothing else of the machine
   changes, and nothing that was there before can be seen from elsewhere.
3. The ledger, the home and all files are below the folder.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numawise.sets import bits_of, format_ids, ids_of, parse_ids
from tests.recipes.page import Recipe

PCI = Path("/sys/bus/pci/devices")
NODES = Path("/sys/devices/system/node")
HERE = Path(__file__).parent
PAGE_CPUS, PAGE_GPUS = 12, 4
NUMBER = re.compile(r"(--?[a-z_-]+ |num_cpus=|num_gpus=|nprocs=|range\(|args=\()(12|8|4|2)\b")
"""A number of CPUs, GPUs or ranks, behind its option or parameter."""
PATIENCE = 1800.0
LOOPBACK = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_NODE_IP_ADDRESS": "127.0.0.1",
    "HF_HUB_OFFLINE": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl": "self,vader",
    "OMPI_MCA_oob_tcp_if_include": "lo",
}
"""What keeps the launchers on this machine, and lets root start them."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The machine that recipes are played on."""

    cpus: int
    """CPUs that a recipe asks for."""
    gpus: tuple[int, ...]
    """The NUMA node of each GPU."""


def stage_here() -> Stage:
    """The page's machine where there are CPUs enough on two NUMA nodes, else one with a GPU for each CPU."""
    own = len(os.sched_getaffinity(0))
    nodes = sorted(ids_of(parse_ids((NODES / "online").read_text().strip())))
    if own >= 16 and len(nodes) > 1:
        return Stage(PAGE_CPUS, tuple(node for node in nodes[:2] for _ in range(2)))
    count = min(own, PAGE_GPUS)
    return Stage(count, (nodes[0],) * count)


def fitted(text: str, stage: Stage) -> str:
    """The page's numbers of CPUs and GPUs as this machine has them (rule 1)."""
    cpus, gpus = stage.cpus, len(stage.gpus)
    numbers = {"12": cpus, "8": min(8, cpus), "4": gpus, "2": min(2, gpus)}
    return NUMBER.sub(lambda number: f"{number[1]}{numbers[number[2]]}", text)


def grow_gpus(folder: Path, stage: Stage) -> Path:
    """The files of the GPUs (rule 2)."""
    for number, node in enumerate(stage.gpus):
        place = folder / f"0000:{0x10 + number:02x}:00.0"
        place.mkdir(parents=True)
        cpus = (NODES / f"node{node}" / "cpulist").read_text()
        files = {"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "numa_node": str(node)}
        for name, text in {**files, "local_cpulist": cpus.strip()}.items():
            (place / name).write_text(text + "\n")
    return folder


def prepared(recipe: Recipe, folder: Path, stage: Stage) -> dict[str, str]:
    """The folder with the recipe's files; the environment for its commands."""
    ranks, home = folder / "ranks", folder / "home"
    for place in (ranks, home):
        place.mkdir()
    grow_gpus(folder / "pci", stage)
    shutil.copy(HERE / "train.py", folder)
    for name, text in recipe.files.items():
        (folder / Path(name).name).write_text(fitted(text, stage))
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        **LOOPBACK,
        "HOME": str(home),
        "TMPDIR": str(folder),
        "REPORTS": str(ranks),
        "NUMAWISE_LEDGER": str(folder / "ledger"),
        "NUMAWISE_RESERVED_CPUS": "none" if stage.cpus < PAGE_CPUS else "0-1",
    }


def started(command: str, folder: Path, environment: dict[str, str]) -> "subprocess.Popen[str]":
    """A command in the recipe's mount namespace, in a session of its own."""
    script = f"mount --bind {shlex.quote(str(folder / 'pci'))} {PCI} && {command}"
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def play(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Run a command to its end; what it printed."""
    with started(command, folder, environment) as running:
        try:
            out, _ = running.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            out, _ = running.communicate()
            raise AssertionError(f"{command} did not end\n{out}") from None
    assert running.returncode == 0, f"{command}: status {running.returncode}\n{out}"
    return out


def reports(folder: Path) -> list[dict[str, Any]]:
    """What the ranks left."""
    return [json.loads(file.read_text()) for file in sorted((folder / "ranks").iterdir())]


def judged(found: list[dict[str, Any]], stage: Stage, only: set[int] | None = None) -> str:
    """Each rank is bound, near to its GPU, and apart from the others; raise where one is not.

    There is a rank for each GPU; ``only`` where the hold has but some.
    """
    meant = set(range(len(stage.gpus))) if only is None else only
    assert len(found) == len(meant), f"{len(found)} ranks of {len(meant)} said where they are"
    lines, taken, numbers = [], 0, set()
    for report in found:
        environment = report["environment"]
        number = gpu_of(report)
        numbers.add(number)
        node = stage.gpus[number]
        cpus = bits_of(report["cpus"])
        near = parse_ids((NODES / f"node{node}" / "cpulist").read_text().strip())
        assert cpus, report
        assert not cpus & taken, f"the rank of GPU {number} shares CPUs with another: {report}"
        assert not cpus & ~near, f"the rank of GPU {number} is not on NUMA node {node} of its GPU: {report}"
        held = environment.get("NUMAWISE_CPUS", "")
        assert not held or not cpus & ~parse_ids(held), (
            f"the rank of GPU {number} is not within its hold: {report}"
        )
        assert report["policy"] in ("", f"bind:{node}"), f"memory of the rank of GPU {number}: {report}"
        assert int(environment["OMP_NUM_THREADS"]) <= cpus.bit_count(), report
        taken |= cpus
        lines.append(f"GPU {number} on NUMA node {node}: CPUs {format_ids(cpus)}, memory {report['policy']}")
    assert numbers == meant, f"GPUs {sorted(numbers)} have a rank, not {sorted(meant)}"
    return "\n".join(sorted(lines))


def gpu_of(report: dict[str, Any]) -> int:
    """Which GPU a rank counts as its own: by its number within what it sees."""
    environment = report["environment"]
    seen = environment["CUDA_VISIBLE_DEVICES"].split(",") if "CUDA_VISIBLE_DEVICES" in environment else None
    if "RAY_RAYLET_PID" in environment:
        assert seen is not None
        assert len(seen) == 1, seen
        return int(seen[0])
    spawned = re.fullmatch(r"SpawnProcess-(\d+)", report["process"])
    names = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
    number = int(next((environment[name] for name in names if name in environment), -1))
    number = int(spawned[1]) - 1 if spawned else number
    assert number >= 0, report
    return int(seen[number]) if seen else number


def main(arguments: list[str]) -> int:
    """In a guest: play what is named, and print for each what came of it as a line of JSON."""
    from tests.recipes.plays import PLAYS  # noqa: PLC0415 - it imports this module

    hosts, own = Path("/etc/hosts"), os.uname().nodename
    if "NUMA_VM" in os.environ and own not in hosts.read_text().split():
        hosts.write_text(f"{hosts.read_text()}127.0.0.1 {own}\n")  # torch looks for the guest by its name
    folder = Path(arguments[0])
    for title in arguments[1:]:
        place = folder / re.sub(r"\W+", "-", title)
        place.mkdir(parents=True)
        try:
            line = [title, "ok", PLAYS[title].played(place, stage_here())]
        except AssertionError as problem:
            line = [title, "failed", str(problem)[-4000:]]
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
