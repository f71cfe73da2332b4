"""Laws of a job that was started within a mask, a memory policy and a list of GPUs, on any machine with any holds."""

from hypothesis import given
from hypothesis import strategies as st

from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.decide import place
from numawise.apps.launch.request import Exclusive, JobRequest
from numawise.apps.launch.where import where_labels
from numawise.errors import InputError
from numawise.machine.synthetic import synthetic
from numawise.results.allotment import Allotment, read_allotment, shared_cpus
from numawise.results.placement import Capacity, Hold, Owner, Placement, pool_of
from numawise.rules.model import BEST_EFFORT, NONE, RESTRICTED, SINGLE
from numawise.values import replace

MACHINES = [
    capacity_of(synthetic(text))
    for text in (
        "1s 1n 4c 1t 8g",
        "2s 2n 8c 2t 4gpu 32g",
        "2s 4n 16c 1t 4gpu pairs 64g",
        "1s 2n 6c 2t 2gpu 16g",
    )
]


def requests(capacity: Capacity) -> st.SearchStrategy[JobRequest]:
    most = len(capacity.gpus)
    return st.builds(
        JobRequest,
        cpus=st.sampled_from([0, 500, 1000, 2000, 3000, 4000, 6000]),
        memory=st.sampled_from([0, 0, 1 << 30, 5 << 30, 12 << 30]),
        gpus=st.integers(0, most) if most else st.just(0),
        policy=st.sampled_from([NONE, BEST_EFFORT, RESTRICTED, SINGLE]),
        exclusive=st.sampled_from([None, None, None, Exclusive.NUMA]),
    )


@st.composite
def allotments(draw: st.DrawFn, capacity: Capacity) -> Allotment:
    every = capacity.machine.layout.all
    cpus = draw(st.integers(0, every)) & every
    mems = draw(st.sampled_from([0, 0, *range(1, capacity.machine.numa_bits + 1)]))
    gpus = (
        draw(st.none() | st.lists(st.sampled_from(capacity.gpu_ids), unique=True)) if capacity.gpus else None
    )
    return Allotment(cpus, mems, None if gpus is None else tuple(gpus), "X=1" if gpus is not None else "")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Capacity, list[Hold], JobRequest]:
    """A machine with a few jobs on it, each placed as it was allotted, and one more that is."""
    capacity = draw(st.sampled_from(MACHINES))
    holds: list[Hold] = []
    for number in range(draw(st.integers(0, 3))):
        within = draw(st.just(Allotment()) | allotments(capacity))
        request = replace(draw(requests(capacity)), within=within)
        name = f"h{number}"
        try:
            found = place(capacity, holds, request, name)
        except InputError:
            continue
        if isinstance(found, Placement):
            holds.append(Hold(name, name, Owner(0, "root", "b"), found.grant, labels=where_labels(request)))
    return capacity, holds, replace(draw(requests(capacity)), within=draw(allotments(capacity)))


@given(cases())
def test_what_is_granted_lies_within(case: tuple[Capacity, list[Hold], JobRequest]) -> None:
    capacity, holds, request = case
    within = request.within
    assert within is not None
    try:
        found = place(capacity, holds, request, "x")
    except InputError:
        return
    if not isinstance(found, Placement):
        return
    assert found.cpus
    assert not within.cpus or not found.cpus & ~within.cpus
    assert not within.mems or not found.mems & ~within.mems
    for part in found.grant.memory:
        assert not within.mems or not part.numa & ~within.mems
    names = {name for resource, ids in found.grant.devices for name in ids if name in capacity.gpu_ids}
    assert within.gpus is None or names <= set(within.gpus)
    assert not found.grant.cpus & ~pool_of(capacity, holds)


@given(cases())
def test_those_in_the_shared_pool_stay_within(case: tuple[Capacity, list[Hold], JobRequest]) -> None:
    """Whatever is granted to others, a job in the shared pool has a CPU of its mask left."""
    capacity, holds, request = case
    try:
        found = place(capacity, holds, request, "x")
    except InputError:
        return
    if isinstance(found, Placement):
        one = Hold("x", "x", Owner(0, "root", "b"), found.grant, labels=where_labels(request))
        holds = [*holds, one]
    pool = pool_of(capacity, holds)
    for hold in holds:
        kept = read_allotment(dict(hold.labels).get("within", "")).cpus
        if not hold.grant.cpus and kept:
            assert not shared_cpus(capacity, pool, hold) & ~kept


@given(cases())
def test_without_limits_nothing_changes(case: tuple[Capacity, list[Hold], JobRequest]) -> None:
    """No allotment, an empty one and one of everything are the same."""
    capacity, holds, request = case
    every = Allotment(capacity.machine.layout.all, 0, capacity.gpu_ids if request.gpus else None, "X=1")
    answers = []
    for within in (None, Allotment(), every):
        if within is every and request.exclusive and every.gpus is not None:
            continue
        try:
            found = place(capacity, holds, replace(request, within=within), "x")
        except InputError:
            answers.append(None)
            continue
        answers.append(found.grant if isinstance(found, Placement) else None)
    assert all(answer == answers[0] for answer in answers)


@given(cases())
def test_a_label_is_read_as_it_was_written(case: tuple[Capacity, list[Hold], JobRequest]) -> None:
    within = case[2].within
    assert within is not None
    found = read_allotment(within.label)
    assert (found.cpus, found.mems, found.gpus) == (within.cpus, within.mems, within.gpus)
