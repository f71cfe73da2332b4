"""How long an explanation takes, suggestions and their simulations included: ``python -m benchmarks.why``.

    python -m benchmarks.why [--json FILE] [--every N] [FILE|DIR…]

Explains every refused pod of the recorded scenarios and some made-up ones, and prints median, 95th percentile
and longest by number of NUMA nodes.  Times are CPU times of this process.
"""

import argparse
import importlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.machines import GPU, even, lopsided, node
from numawise.codec.pod import pod_from
from numawise.explain.case import ExplainCase, case_of
from numawise.explain.explain import explain
from numawise.machine.model import Machine
from numawise.node.node import SimulatedNode
from numawise.request.defaults import RawPod

RECORDED = Path(__file__).parent.parent / "tests" / "recorded" / "v1.36.4"
GOALS = {2: 50.0, 8: 500.0}
"""Milliseconds for the median, by NUMA nodes."""
POLICIES = ("best-effort", "restricted", "single-numa-node")


@dataclass(frozen=True, slots=True)
class Row:
    """One group of explanations."""

    what: str
    count: int
    median: float
    most: float
    """The 95th percentile."""
    longest: float
    goal: float | None = None


def spent(case: ExplainCase) -> float:
    """CPU milliseconds of one explanation."""
    begin = time.process_time()
    explain(case)
    return (time.process_time() - begin) * 1000


def row(what: str, times: list[float], goal: float | None) -> Row:
    ordered = sorted(times)
    size = len(ordered)
    return Row(what, size, ordered[size // 2], ordered[min(size - 1, size * 95 // 100)], ordered[-1], goal)


def recorded(files: list[str], every: int) -> Iterator[Row]:
    """Refused pods of recorded scenarios, by NUMA nodes of the machine."""
    times: dict[int, list[float]] = {}
    walker = importlib.import_module("tests.why")  # the tests know how to walk recordings
    for path in walker.trace_files(files):
        lines = [line for at, line in enumerate(walker.trace_lines(path)) if at % every == 0]
        for case in walker.cases(lines):
            times.setdefault(len(case.machine.numa), []).append(spent(case))
    for numas, found in sorted(times.items()):
        yield row(f"recorded, {numas} NUMA", found, GOALS.get(numas))


def raw(name: str, limits: dict[str, str]) -> RawPod:
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return pod_from({"metadata": {"name": name, "uid": name}, "spec": {"containers": containers}})


def filled(machine: Machine, policy: str, limits: dict[str, str], most: int) -> SimulatedNode:
    """A machine with as many equal pods as it takes, or so many."""
    kubelet = node(machine, policy)
    for number in range(most):
        pod = case_of(kubelet, raw(f"p{number}", limits)).pod
        before = len(kubelet.state.active)
        kubelet.admit(pod)
        if len(kubelet.state.active) == before:
            break
    return kubelet


def made_up() -> Iterator[Row]:
    """Large machines, full of pods, and one more that does not fit."""
    small = {"cpu": "4", "memory": "8Gi", GPU: "1"}
    shapes = (((2, 128, 8), 100), ((8, 256, 8), 100), ((16, 256, 16), 100))
    for (numas, cpus, gpus), most in shapes:
        times = []
        for policy in POLICIES:
            full = filled(even(numas, cpus, gpus), policy, {"cpu": "4", "memory": "2Gi"}, most)
            wide = {"cpu": str(cpus // 2), "memory": "8Gi", GPU: "1"}
            for limits in (small, wide, {"cpu": "8", "memory": "100Gi"}):
                times += [spent(case_of(full, raw("next", limits))) for _ in range(3)]
        yield row(f"{numas} NUMA, full of small pods", times, GOALS.get(numas))
    for numas in (34, 64):
        kubelet = filled(lopsided(numas), "single-numa-node", small, 4)
        times = [spent(case_of(kubelet, raw("next", small))) for _ in range(3)]
        yield row(f"{numas} NUMA (2 with CPUs), no GPU left", times, None)


def main() -> None:
    """Measure, print, and keep the figures if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.why", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=[str(RECORDED)])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take each Nth scenario only")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures here too")
    options = parser.parse_args()
    print(
        f"{'CPU ms of one explanation':38} {'count':>6} {'median':>8} {'95 %':>8} {'longest':>8} {'goal':>7}"
    )
    rows = []
    for part in (made_up(), recorded(options.files, options.every)):
        for one in part:
            rows.append(one)
            goal = "" if one.goal is None else f"≤ {one.goal:g}"
            figures = f"{one.median:8.1f} {one.most:8.1f} {one.longest:8.1f}"
            print(f"{one.what:38} {one.count:6} {figures} {goal:>7}".rstrip(), flush=True)
    missed = [one.what for one in rows if one.goal is not None and one.median > one.goal]
    print(f"\n{len(missed)} of {sum(one.goal is not None for one in rows)} goals missed", *missed, sep="\n  ")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in rows], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
