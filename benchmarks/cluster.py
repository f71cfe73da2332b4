"""The choice of a node: how well it does on many traces, and how long it takes over thousands of nodes.

    python -m benchmarks.cluster traces [--seeds N] [--first N] [--patience SECONDS…]
    python -m benchmarks.cluster scale [--nodes N]
    python -m benchmarks.cluster live [--nodes N]
    python -m benchmarks.cluster write SEED > trace.jsonl

The traces are made up, after a fleet of CI runners: 20 nodes with two NUMA nodes of 96 CPUs and 4 GPUs each;
jobs of 1, 2 and 4 GPUs that have 35, 20 and 45 % of 80 % of the GPU time in nine hours; run times are
log-normal with medians of 1,100, 1,400 and 1,800 s, from 2 minutes to 4 hours; busy and quiet hours
alternate.
"""

import argparse
import json
import math
import random
import resource
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.live_cluster import live
from benchmarks.machines import GPU, even, node
from numawise.apps.simulate.cluster import TraceSettings, run_trace
from numawise.cluster.asking import LetIn, Situation, members_of
from numawise.cluster.choice import Chooser
from numawise.codec.pod import pod_from
from numawise.request.defaults import RawPod
from numawise.results.cluster import ASKED, LEAST, MOST, OURS, POOL, Arrival
from numawise.values import replace

NODES, HOURS, LOAD = 20, 9, 0.8
SHARES = {1: 0.35, 2: 0.20, 4: 0.45}
MEDIANS = {1: 1100, 2: 1400, 4: 1800}
SPREAD = {1: 0.8, 2: 0.8, 4: 0.85}
SHORTEST, LONGEST = 120, 14_400


def jobs(seed: int) -> list[tuple[float, int, int]]:
    """Arrival, GPUs and seconds of every job."""
    draw = random.Random(seed)
    period, shift = draw.uniform(1.7, 2.4), draw.uniform(0, 2 * math.pi)
    found = []
    for gpus, share in SHARES.items():
        left = NODES * 8 * HOURS * 3600 * LOAD * share / gpus
        while left > 0:
            seconds = round(draw.lognormvariate(math.log(MEDIANS[gpus]), SPREAD[gpus]))
            seconds = min(LONGEST, max(SHORTEST, seconds))
            while True:
                at = draw.uniform(0, HOURS * 3600)
                busy = 1 + 0.4 * math.sin(at / 3600 / period * 2 * math.pi + shift)
                if draw.random() < busy / 1.4:
                    break
            found.append((round(at, 1), gpus, seconds))
            left -= seconds
    return sorted(found)


def runner(name: str, gpus: int) -> RawPod:
    """A job as a pod."""
    limits = {"cpu": str(22 * gpus), "memory": f"{225 * gpus}Gi", GPU: str(gpus)}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return pod_from({"metadata": {"name": name, "uid": name}, "spec": {"containers": containers}})


def trace(seed: int) -> list[Arrival]:
    """A made-up trace."""
    shared = {gpus: runner("", gpus) for gpus in SHARES}
    return [
        Arrival(at, seconds, replace(shared[gpus], name=f"runner-{number}", uid=f"runner-{number}"))
        for number, (at, gpus, seconds) in enumerate(jobs(seed))
    ]


def traces(seeds: Sequence[int], patience: Sequence[float]) -> Iterator[str]:
    """A line for each choice, over all traces."""
    kubelet = node(even(2, 192, 8, 2**40), "single-numa-node", scope="pod")
    groups = [([f"n{number}" for number in range(NODES)], kubelet)]
    ways = [(LEAST, 0.0), (MOST, 0.0), (ASKED, 0.0), *((OURS, seconds) for seconds in patience), (POOL, 0.0)]
    made = [trace(seed) for seed in seeds]
    for choice, seconds in ways:
        waits: dict[str, list[float]] = {}
        by_trace, refusals = [], 0
        begin = time.process_time()
        for arrivals in made:
            run = run_trace(groups, arrivals, [choice], TraceSettings(patience=seconds)).choices[0]
            refusals += run.refusals
            by_trace.append(run.shapes[0].mean)
            for shape in run.shapes:
                waits.setdefault(shape.shape.name.partition(",")[0], []).extend(shape.waits)
        spent = time.process_time() - begin
        name = f"{choice} {seconds:.0f} s" if choice == OURS else choice
        columns = [
            f"{name}: mean {sum(of) / len(of):5.1f} 95 % {sorted(of)[int(0.95 * len(of))]:5.0f}"
            for name, of in waits.items()
        ]
        every = [wait for of in waits.values() for wait in of]
        yield (
            f"{name:18} refusals {refusals:6}  {'  '.join(columns)}  all: {sum(every) / len(every):5.1f}  "
            f"{spent / len(made):.1f} s of CPU each; 4 gpu by trace: "
            + " ".join(f"{mean:.0f}" for mean in by_trace)
        )


def scale(count: int) -> Iterator[str]:
    """Filter and score over many nodes with 8 NUMA nodes."""
    draw = random.Random(0)
    kubelet = node(even(8, 192, 8), "single-numa-node", scope="pod")
    sizes = (
        {"cpu": "4", "memory": "8Gi", GPU: "1"},
        {"cpu": "8", "memory": "16Gi"},
        {"cpu": "2", "memory": "4Gi"},
    )

    def sized(number: int) -> RawPod:
        limits = sizes[number % len(sizes)]
        containers = [{"name": "main", "resources": {"limits": limits}}]
        return pod_from(
            {"metadata": {"name": f"p{number}", "uid": f"p{number}"}, "spec": {"containers": containers}}
        )

    members = members_of([([f"n{number}" for number in range(count)], kubelet)])
    chooser = Chooser(members)
    begin = time.process_time()
    number = 0
    for member in members:
        for _ in range(draw.randrange(1, 12)):
            number += 1
            answer = chooser.asker.ask(Situation.of(member), sized(draw.randrange(len(sizes)) + 3 * number))
            if isinstance(answer, LetIn):
                chooser.asker.settle(member, answer)
    filled = time.process_time() - begin
    states = len({member.token for member in members})
    yield f"{count} nodes with {number} pods in {states} states; filled in {filled:.1f} s of CPU"
    for at in range(len(sizes)):
        chooser.shapes.see(sized(at))
    cold = []
    for at in range(len(sizes)):
        begin = time.process_time()
        chooser.best(sized(at))
        cold.append((time.process_time() - begin) * 1000)
    yield f"cold, shapes never seen: {' '.join(f'{ms:.0f} ms' for ms in cold)} for {len(sizes)} shapes"
    times = []
    for at in range(600):
        raw = sized(10_000_000 + at)
        begin = time.process_time()
        chosen = chooser.best(raw)
        times.append((time.process_time() - begin) * 1000)
        if chosen is not None:
            answer = chooser.asker.ask(Situation.of(chosen), raw)
            assert isinstance(answer, LetIn)
            chooser.asker.settle(chosen, answer)
        other = members[draw.randrange(count)]
        for uid in list(other.occupants)[:1]:
            chooser.asker.end(other, uid)
    times.sort()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield (
        f"warm, a pod placed and one ended between two: median {times[len(times) // 2]:.1f} ms, "
        f"99 % {times[len(times) * 99 // 100]:.1f} ms, longest {times[-1]:.1f} ms (goal: 99 % <= 50 ms); "
        f"memory {peak:.0f} MB"
    )


def write(seed: int) -> Iterator[str]:
    """A trace in the form that ``simulate --cluster`` reads."""
    for number, (at, gpus, seconds) in enumerate(jobs(seed)):
        row = {"at": at, "name": f"runner-{number}", "gpus": gpus, "cpu": str(22 * gpus)}
        yield json.dumps(row | {"memory": f"{225 * gpus}Gi", "seconds": seconds})


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("traces", "scale", "live", "write"))
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--seeds", metavar="N", type=int, default=10)
    parser.add_argument("--first", metavar="N", type=int, default=0)
    parser.add_argument("--patience", metavar="S", type=float, nargs="*", default=[300.0])
    parser.add_argument("--nodes", metavar="N", type=int, default=5000)
    options = parser.parse_args()
    if options.what == "traces":
        lines = traces(range(options.first, options.first + options.seeds), options.patience)
    elif options.what == "write":
        lines = write(options.seed)
    else:
        lines = (scale if options.what == "scale" else live)(options.nodes)
    for line in lines:
        print(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
