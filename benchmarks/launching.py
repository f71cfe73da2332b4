"""What ``numawise run`` costs before its job begins, beside other ways to start one."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.ledger import hold, wall_ms
from numawise.ledger.store import Ledger

ROUNDS = 7
POOL_GOAL, GOAL, PS_GOAL, HELP_GOAL, SIMULATE_GOAL, COMMIT_GOAL = 90.0, 110.0, 80.0, 60.0, 200.0, 10.0
SERVER = "examples/8gpu-server"
SPENT = "cut -d' ' -f1 /proc/$PPID/schedstat"
"""Printed by the job: nanoseconds that its launcher has run until then."""
IMAGE = "busybox"
MACHINE = "0123456789abcdef0123456789abcdef"


def starts() -> Iterator[tuple[str, float, float | None, str]]:
    """What, CPU milliseconds, the goal, and how others compare."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPYCACHEPREFIX": f"{folder}/compiled",
            "NUMAWISE_LEDGER": f"{folder}/ledger.db",
        }

        def until_exec(*flags: str) -> float:
            command = [sys.executable, "-m", "numawise", "run", "-q", *flags, "--", "sh", "-c", SPENT]
            return int(subprocess.run(command, env=environment, check=True, capture_output=True).stdout) / 1e6

        until_exec()  # makes the ledger
        plain = _best(until_exec)
        yield "numawise run -- true, until exec", plain, POOL_GOAL, _others(plain)
        placed = _best(lambda: until_exec("--cpus", "1", "--memory", "64m"))
        yield "numawise run --cpus 1 --memory 64m, until exec", placed, GOAL, ""
        affinity = _best(lambda: until_exec("--cpus", "1", "--mode", "affinity"))
        yield "numawise run --cpus 1 --mode affinity, until exec", affinity, GOAL, ""
        python = _children_of([sys.executable, "-c", "pass"], environment) or 1.0
        for words, goal in (
            (("ps",), PS_GOAL),
            (("--help",), HELP_GOAL),
            (("check", "--help"), HELP_GOAL),
            (
                (
                    "simulate",
                    "--machine",
                    f"{SERVER}/machine.yaml",
                    "--kubelet-config",
                    f"{SERVER}/kubelet.yaml",
                    f"{SERVER}/pods/05-affinity-check.yaml",
                ),
                SIMULATE_GOAL,
            ),
        ):
            command = [sys.executable, "-m", "numawise", *words]
            spent = _children_of(command, environment) or 0.0
            yield f"numawise {' '.join(words)[:30]}", spent, goal, f"{spent / python:.1f} x python -c pass"
        with Ledger.open(Path(folder) / "commits", MACHINE) as ledger:

            def add(count: int) -> None:
                with ledger.change() as change:
                    change.add(hold(count))

            middle, slow = wall_ms(add, 40)
        yield "commit of a hold, by the wall clock", middle, COMMIT_GOAL, f"95 % below {slow:.1f} ms"


def _others(ours: float) -> str:
    """CPU time of other launchers for the same, as ratios."""
    told = []
    for name, command in (
        ("python -c pass", [sys.executable, "-c", "pass"]),
        ("numactl", ["numactl", "--physcpubind=+0", "true"]),
        ("docker run", ["docker", "run", "--rm", IMAGE, "true"]),
    ):
        if not shutil.which(command[0]):
            told.append(f"{name}: not installed")
            continue
        spent = _children_of(command)
        told.append(f"{name}: does not run here" if spent is None else f"{spent / ours:.2f} x by {name}")
    return "; ".join(told)


def _children_of(command: list[str], environment: dict[str, str] | None = None) -> float | None:
    def once() -> float:
        before = _children()
        if subprocess.run(command, env=environment, check=False, capture_output=True).returncode:
            return -1.0
        return (_children() - before) * 1000

    return _best(once) if once() >= 0 else None


def _best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ROUNDS))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
