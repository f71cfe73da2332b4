"""Who may pass those who wait, against every way in which the others can end."""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from numawise.apps.launch.backfill import WaiterNeed, delays
from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.decide import place
from numawise.apps.launch.request import POLICIES, Exclusive, JobRequest
from numawise.apps.launch.where import where_labels
from numawise.errors import InputError
from numawise.machine.synthetic import synthetic
from numawise.results.allotment import Allotment
from numawise.results.placement import Capacity, Hold, MemoryNow, Owner, Placement
from numawise.sets import CpuSet, NumaSet, bits_of, ids_of
from numawise.values import replace

MACHINES = (
    "1s 1n 4c 1t 8g 2gpu",
    "2s 2n 8c 1t 16g 4gpu",
    "2s 2n 8c 2t 16g 4gpu pairs 2nic",
    "1s 4n 8c 2t 32g 4gpu",
    "2s 4n 16c 1t 32g 8gpu nvlink",
    "2s 2n 4c 2t 16g 2nvme memonly=1",
)
GIB = 1 << 30
CASES = 150


def requests(rng: random.Random, capacity: Capacity) -> JobRequest:
    """Something that a person may ask for."""
    most = capacity.machine.layout.all.bit_count()
    gpus = len(capacity.gpus)
    cpus = rng.choice(
        (0, 0, rng.randint(1, most) * 1000, rng.randint(1, 4) * 1000, rng.randint(1, most * 999))
    )
    count = rng.choice((0, rng.randint(0, gpus))) if gpus else 0
    named = (
        tuple(map(str, rng.sample(range(gpus), rng.randint(1, gpus)))) if gpus and rng.random() < 0.15 else ()
    )
    resources = [plugin.resource for plugin in capacity.machine.plugins if "gpu" not in plugin.resource]
    devices = ((rng.choice(resources), rng.randint(1, 2)),) if resources and rng.random() < 0.4 else ()
    nodes = [node.id for node in capacity.machine.numa]
    numa = NumaSet.of(*rng.sample(nodes, rng.randint(1, len(nodes)))) if rng.random() < 0.25 else None
    exclusive = rng.choice(tuple(Exclusive)) if rng.random() < 0.05 else None
    if rng.random() < 0.1:
        ids = CpuSet.of(*rng.sample(list(ids_of(capacity.machine.layout.all)), rng.randint(1, most // 2)))
        return JobRequest(cpus=len(ids) * 1000, cpu_ids=ids, gpus=count, policy=rng.choice(POLICIES))
    some = bits_of(rng.sample(list(ids_of(capacity.machine.layout.all)), rng.randint(1, most)))
    within = Allotment(some) if not (numa or exclusive) and rng.random() < 0.1 else None
    return JobRequest(
        within=within,
        cpus=0 if exclusive else cpus,
        numa=numa,
        exclusive=exclusive,
        memory=rng.choice((0, 0, rng.randint(1, 8) * GIB, rng.randint(1, 20) * GIB)),
        gpus=0 if named else count,
        gpu_ids=named,
        devices=devices,
        policy=rng.choice(POLICIES),
        full_cores=not exclusive and not cpus % 1000 and cpus > 0 and rng.random() < 0.3,
    )


def grant(capacity: Capacity, holds: Sequence[Hold], request: JobRequest, name: str) -> Hold | None:
    """The hold that a request gets; None when there is no room for it."""
    try:
        placement = place(capacity, holds, request, name)
    except InputError:
        return None
    if not isinstance(placement, Placement):
        return None
    return Hold(name, name, Owner(0, "root", "boot", pid=2), placement.grant, labels=where_labels(request))


def left(holds: Sequence[Hold]) -> Iterator[tuple[Hold, ...]]:
    """Every part of the holds that may be left."""
    for count in range(len(holds) + 1):
        yield from combinations(holds, count)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("reserved", ["", "none"])
def test_who_waits_ahead_starts_no_later(machine: str, reserved: str) -> None:
    rng = random.Random(f"{machine}{reserved}")
    capacity = capacity_of(synthetic(machine), reserved)
    if capacity.gpus:
        capacity = replace(capacity, users={0: (4711,)})
    available = {node.id: node.memory - rng.randint(0, 2) * GIB for node in capacity.machine.numa}
    capacity = replace(capacity, memory_now=MemoryNow(available, {}))
    if reserved:  # NUMA nodes of several sizes
        sizes = (replace(node, memory=node.memory // (1 + node.id)) for node in capacity.machine.numa)
        capacity = replace(capacity, machine=replace(capacity.machine, numa=tuple(sizes)))
    passed = 0
    for case in range(CASES):
        wishes = (requests(rng, capacity) for _ in range(rng.randint(1, 6)))
        holds: list[Hold] = []
        for number, wish in enumerate(wishes):
            hold = grant(capacity, holds, wish, f"h{number}")
            holds += [hold] if hold else []
        waiter = requests(rng, capacity)
        if grant(replace(capacity, memory_now=None), (), waiter, "w") is None:
            continue
        job = grant(capacity, holds, requests(rng, capacity), "j")
        if job is None:
            continue
        if delays(capacity, holds, job, [WaiterNeed.of(capacity, waiter)]):
            continue
        passed += 1
        for rest in left(holds):
            if grant(capacity, rest, waiter, "w"):
                beside = grant(capacity, (*rest, job), waiter, "w")
                assert beside, f"case {case}: {waiter} is kept out by {job.grant} beside {rest}"
    assert passed >= CASES // 12
