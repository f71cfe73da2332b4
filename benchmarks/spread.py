"""Even choices over many NUMA nodes, ``distribute-cpus-across-numa``: ``python -m benchmarks.spread``."""

import random
import time
from collections.abc import Iterator
from contextlib import suppress

from benchmarks.machines import even
from numawise.engine.cpu.distribute import take_distributed
from numawise.engine.cpu.subsets import NeverReturns
from numawise.machine.model import CpuLayout

REQUESTS = 60
STATES = ("idle", "some busy", "any count free", "all counts different")


def _available(layout: CpuLayout, state: str, chance: random.Random) -> int:
    """CPUs that are free on each NUMA node."""
    numas = list(layout.numas.values())
    per_numa = numas[0].bit_count()
    if state == "all counts different":
        counts = chance.sample(range(1, per_numa + 1), len(numas))
    elif state == "any count free":
        counts = [chance.randint(1, per_numa) for _ in numas]
    else:
        counts = [per_numa - (chance.choice([0, 0, 2, 4, 5]) if state == "some busy" else 0) for _ in numas]
    available = 0
    for cpus, free in zip(numas, counts, strict=True):
        first = (cpus & -cpus).bit_length() - 1
        available |= (1 << free) - 1 << first
    return available


def even_choices() -> Iterator[tuple[str, float, float]]:
    """The slowest of some random requests, whole cores and single CPUs, by NUMA nodes and what is free."""
    for numas, goal in ((16, 50.0), (32, 50.0), (64, 200.0)):
        for by_socket in (False, True):
            slowest = 0.0
            for state in STATES:
                layout = even(numas, numas * (numas if "different" in state else 16), numas).layout
                chance = random.Random(numas)
                for _ in range(REQUESTS // len(STATES)):
                    available = _available(layout, state, chance)
                    group = chance.choice([1, 2])
                    count = chance.randint(1, available.bit_count() // group) * group
                    begin = time.process_time()
                    with suppress(NeverReturns):
                        take_distributed(layout, available, count, group, by_socket=by_socket, capped=True)
                    slowest = max(slowest, time.process_time() - begin)
            option = ", align-by-socket" if by_socket else ""
            yield f"{numas} NUMA, distributed{option}: slowest of {REQUESTS}", slowest * 1000, goal


if __name__ == "__main__":
    for what, spent, goal in even_choices():
        print(f"{what:60} {spent:9.3f} ≤ {goal:g}")
