"""Measure decisions, and print them with ratios taken in the same run.

    python -m benchmarks [--json FILE] [--traces FILE…]

Times are CPU times of this process (best of several rounds), so other work on the machine matters
little; still read them as ratios.  The kubelet's figures are measurements of v1.36.4 on two cores.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks.check import pod_lists
from benchmarks.gpus import gpu_choices, many_gpus
from benchmarks.launching import starts
from benchmarks.machines import GPU, NIC, even, lopsided, node, pod, standard
from benchmarks.many_nodes import wide_pods
from benchmarks.simulate import queues
from benchmarks.spread import even_choices
from benchmarks.trees import write_tree
from numawise.engine.admit import Admitted, admit
from numawise.engine.hint import HintList, HintRule
from numawise.engine.sparing import Need
from numawise.engine.topology.merge import merge, merge_literally, nearby
from numawise.host.discover import read_hardware
from numawise.node.node import SimulatedNode
from numawise.request.model import PodRequest

POLICIES = ("best-effort", "restricted", "single-numa-node")
KUBELET = {2: 1.8, 8: 6000.0}
"""CPU milliseconds of the Go kubelet for one Admit, by NUMA nodes."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement."""

    what: str
    milliseconds: float
    goal: float | None = None
    note: str = ""


def cpu_ms(work: Callable[[], object], rounds: int = 5, least: float = 0.05) -> float:
    """CPU milliseconds of one call: best of some rounds, each long enough to be measured."""
    calls = 1
    while True:
        begin = time.process_time()
        for _ in range(calls):
            work()
        spent = time.process_time() - begin
        if spent >= least or calls >= 1 << 16:
            break
        calls *= 2
    best = spent / calls
    for _ in range(rounds - 1):
        begin = time.process_time()
        for _ in range(calls):
            work()
        best = min(best, (time.process_time() - begin) / calls)
    return best * 1000


def decide(kubelet: SimulatedNode, request: PodRequest) -> Callable[[], object]:
    """One decision on the node's present state."""
    return lambda: admit(kubelet.machine, kubelet.rules, kubelet.state, request)


def with_files(kubelet: SimulatedNode, request: PodRequest) -> Callable[[], object]:
    """One decision and the texts of the state files, checksums included."""

    def work() -> None:
        decision = admit(kubelet.machine, kubelet.rules, kubelet.state, request)
        if isinstance(decision, Admitted):
            kubelet.files.write(kubelet.rules, decision.state)

    return work


def standard_case() -> Iterator[Row]:
    """4 CPUs, 8Gi and 1 GPU on empty machines of 2, 8 and 16 NUMA nodes."""
    for (numas, cpus, gpus), goal in (((2, 128, 8), 0.5), ((8, 256, 8), 3.0), ((16, 256, 16), 20.0)):
        for policy in POLICIES:
            kubelet = node(even(numas, cpus, gpus), policy)
            yield Row(f"{numas} NUMA, {policy}: decision", cpu_ms(decide(kubelet, standard())), goal)
        kubelet = node(even(numas, cpus, gpus), "restricted")
        spent = cpu_ms(with_files(kubelet, standard()))
        ratio = f"the kubelet: {KUBELET[numas] / spent:,.1f} x as much" if numas in KUBELET else ""
        yield Row(f"{numas} NUMA, restricted: with state files", spent, 1.0 if numas == 2 else goal, ratio)


def full_machine() -> Iterator[Row]:
    """The next pod on a machine that is full."""
    for numas, cpus, gpus in ((2, 128, 8), (8, 256, 8), (16, 256, 16)):
        kubelet = node(even(numas, cpus, gpus), "best-effort")
        count = 0
        while isinstance(kubelet.admit(standard(f"p{count}")), Admitted):
            count += 1
        yield Row(
            f"{numas} NUMA, full: refusal after {count} pods", cpu_ms(decide(kubelet, standard("next")))
        )


def wide_request() -> Iterator[Row]:
    """Half the CPUs and one GPU: no preferred answer."""
    for numas, cpus, gpus in ((8, 256, 8), (16, 256, 16)):
        kubelet = node(even(numas, cpus, gpus), "best-effort")
        wide = pod("wide", {"cpu": str(cpus // 2), "memory": "8Gi", GPU: "1"})
        yield Row(f"{numas} NUMA, half the CPUs + 1 GPU: nothing preferred", cpu_ms(decide(kubelet, wide)))


def eight_containers() -> Iterator[Row]:
    """A pod of eight containers under pod scope."""
    kubelet = node(even(2, 128, 8), "restricted", scope="pod")
    eight = pod("eight", *({"cpu": "4", "memory": "4Gi"} for _ in range(8)))
    yield Row("2 NUMA, pod scope, 8 containers", cpu_ms(decide(kubelet, eight)))


def many_pods() -> Iterator[Row]:
    """The same decision with ten and with a thousand pods on the node."""
    kubelet = node(even(2, 128, 8), "restricted")
    times = {}
    for count in (10, 1000):
        while len(kubelet.state.active) < count:
            kubelet.admit(pod(f"p{len(kubelet.state.active)}", {"cpu": "500m", "memory": "64Mi"}))
        times[count] = cpu_ms(decide(kubelet, standard()))
        yield Row(f"2 NUMA, {count} pods on the node: decision", times[count])
    files = cpu_ms(with_files(kubelet, standard()), rounds=2)
    ratio = f"decision: {times[1000] / times[10]:.2f} x that with 10 pods"
    yield Row("2 NUMA, 1000 pods on the node: with files", files, None, ratio)


def merges() -> Iterator[Row]:
    """The merge alone: four resources of 255 hints, and against the literal product where that ends."""
    everything = Need(tuple((1 << i, 1) for i in range(8)), 1)
    same = [HintRule(255, (everything,), width=1) for _ in range(4)]
    apart = [HintRule(255, (everything,), width=1 + i) for i in range(4)]
    listed = [HintList(tuple((mask, mask.bit_count() == 1 + i) for mask in range(1, 256))) for i in range(4)]
    yield Row("merge 4 x 255 hints, preferred", cpu_ms(lambda: merge(255, same)), 1.0)
    yield Row("merge 4 x 255 hints, none preferred", cpu_ms(lambda: merge(255, apart)), 20.0)
    yield Row("merge 4 x 255 hints, listed one by one", cpu_ms(lambda: merge(255, listed)), 20.0)
    small = [HintList(tuple((mask, mask.bit_count() == 1 + i) for mask in range(1, 16))) for i in range(3)]
    quick = cpu_ms(lambda: merge(15, small))
    literal = cpu_ms(lambda: merge_literally(15, small, nearby), rounds=2)
    yield Row("merge 3 x 15 hints", quick, None, f"literal product: {literal / quick:,.0f} x slower")


def huge_machines() -> Iterator[Row]:
    """Machines on which the kubelet refuses to start, or never finishes."""
    shapes = {
        "standard": {"cpu": "4", "memory": "8Gi", GPU: "1"},
        "wide": {"cpu": "100", "memory": "1100Gi", GPU: "3", NIC: "20"},
    }
    for numas in (34, 64):
        kubelet = node(lopsided(numas), "best-effort")
        for name, limits in shapes.items():
            spent = cpu_ms(decide(kubelet, pod(name, limits)), rounds=2)
            yield Row(f"{numas} NUMA (2 with CPUs), {name}", spent, 50.0)


def many_nodes() -> Iterator[Row]:
    """Wide pods on machines of 16 to 64 NUMA nodes that all have CPUs."""
    for what, spent, goal in wide_pods():
        yield Row(what, spent, goal)


def distributed() -> Iterator[Row]:
    """Even choices over many NUMA nodes: the slowest of some requests."""
    for what, spent, goal in even_choices():
        yield Row(what, spent, goal)


def gpus() -> Iterator[Row]:
    """The choice of GPUs: the slowest of all numbers and many states."""
    for what, spent in gpu_choices():
        yield Row(what, spent, 5.0)
    for what, spent in many_gpus():
        yield Row(what, spent)


def simulations() -> Iterator[Row]:
    """Queues of thousands of pods, on one node and on hundreds."""
    for one in queues():
        yield Row(f"{one.what}: a pod", one.milliseconds, None, one.note)


def lists() -> Iterator[Row]:
    """Long lists of pods, read by the commands that take them."""
    for what, spent, goal, note in pod_lists():
        yield Row(what, spent, goal, note)


def launches() -> Iterator[Row]:
    """A job's start, and the commit of its hold."""
    for what, spent, goal, note in starts():
        yield Row(what, spent, goal, note)


def discovery() -> Iterator[Row]:
    """Reading this machine and a large tree; lstopo on the same, where it is installed."""
    spent = cpu_ms(read_hardware)
    lstopo = shutil.which("lstopo-no-graphics")
    yield Row("discover this machine", spent, 50.0, _lstopo(lstopo, "/", spent))
    with tempfile.TemporaryDirectory() as folder:
        write_tree(Path(folder))
        spent = cpu_ms(lambda: read_hardware(Path(folder)), rounds=3)
        yield Row("discover a tree of 384 CPUs, 24 devices", spent, 200.0, _lstopo(lstopo, folder, spent))


def _lstopo(program: str | None, root: str, ours: float) -> str:
    """CPU time of lstopo on the same tree, as a ratio."""
    if program is None:
        return "lstopo is not installed"
    environment = os.environ | {
        "HWLOC_FSROOT": root,
        "HWLOC_THISSYSTEM": "0",
        "HWLOC_COMPONENTS": "linux,stop",
    }
    before = _children()
    done = subprocess.run([program, "--of", "console"], env=environment, check=False, capture_output=True)
    spent = _children() - before
    if done.returncode:
        return "lstopo cannot read it"
    return f"lstopo, start of the program included: {spent * 1000 / ours:.1f} x as much"


def _children() -> float:
    """CPU seconds of all programs run so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def replays(traces: list[str]) -> Iterator[Row]:
    """Admissions a second when recorded scenarios are replayed, hints, files and output included."""
    begin, before = time.monotonic(), _children()
    command = [sys.executable, "-m", "numawise", "replay", *traces]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    wall, spent = time.monotonic() - begin, _children() - before
    steps = [step for line in output.splitlines() for step in json.loads(line)["result"].get("steps", ())]
    admissions = sum((step["op"] == "add") + len(step.get("readmitted", ())) for step in steps)
    free = f"{2 * admissions / spent:,.0f} admissions/s on 2 free cores"
    rate = f"{free}; {admissions / wall:,.0f}/s by wall clock now"
    yield Row("replay of the recorded traces: one admission", spent / admissions * 1000, 1.0, rate)


def main() -> None:
    """Measure, print, and keep the figures if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures here too")
    parser.add_argument("--traces", metavar="FILE", nargs="*", help="recorded traces to replay")
    options = parser.parse_args()
    recorded = Path(__file__).parent.parent / "tests" / "recorded" / "v1.36.4"
    traces = options.traces if options.traces is not None else [str(p) for p in sorted(recorded.glob("*.gz"))]
    rows = []
    parts: tuple[Callable[[], Iterator[Row]], ...] = (
        standard_case,
        full_machine,
        wide_request,
        eight_containers,
        many_pods,
        merges,
        huge_machines,
        many_nodes,
        distributed,
        gpus,
        discovery,
        launches,
        simulations,
        lists,
    )
    print(f"{'CPU time of one call':60} {'ms':>9} {'goal':>7}")
    if traces:
        parts = (*parts, partial(replays, traces))
    for part in parts:
        for row in part():
            rows.append(row)
            goal = "" if row.goal is None else f"≤ {row.goal:g}"
            print(f"{row.what:60} {row.milliseconds:9.3f} {goal:>7}  {row.note}".rstrip(), flush=True)
    missed = [row.what for row in rows if row.goal is not None and row.milliseconds > row.goal]
    print(f"\n{len(missed)} of {sum(row.goal is not None for row in rows)} goals missed", *missed, sep="\n  ")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
