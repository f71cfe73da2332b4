"""Jobs placed by the memory that is really there: beside what is booked, and without an amount."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.decide import place
from numawise.apps.launch.memory import book, take_out_used
from numawise.apps.launch.request import read_request
from numawise.engine.memory.tables import empty_tables
from numawise.errors import InputError
from numawise.machine.synthetic import synthetic
from numawise.request.model import MEMORY
from numawise.results.allotment import Allotment
from numawise.results.placement import Capacity, Grant, Hold, MemoryNow, MemoryPart, NoRoom, Owner, Placement
from numawise.rules.model import Rules

GIB = 1 << 30
SERVER = capacity_of(synthetic("2s 2n 8c 1t 4gpu 128g"), "none")
"""Two nodes of 64 GiB, each with 4 CPUs and 2 GPUs."""
EVERY = 64 * GIB


def now(*available: float, used: dict[str, dict[int, int]] | None = None) -> Capacity:
    sizes = {node: int(size * GIB) for node, size in enumerate(available)}
    return replace(SERVER, memory_now=MemoryNow(sizes, used or {}))


def booked(name: str, numa: int, size: float) -> Hold:
    grant = Grant(near=numa, mems=numa, memory=(MemoryPart(numa, int(size * GIB)),))
    return Hold(name, name, Owner(0, "root", "boot", pid=2), grant)


def asked(capacity: Capacity, *holds: Hold, **flags: object) -> Placement | NoRoom:
    return place(capacity, holds, read_request(**flags), "new")  # type: ignore[arg-type]


@pytest.mark.parametrize(("capacity", "flags", "mems"), [
    pytest.param(now(60, 60),   {"cpus": "2"},                                0b01, id="room everywhere"),
    pytest.param(now(1, 60),    {"cpus": "2"},                                0b10, id="hardly any on the first"),
    pytest.param(now(60, 1),    {"cpus": "2"},                                0b01, id="hardly any on the second"),
    pytest.param(now(1, 1),     {"cpus": "2"},                                0b01, id="hardly any anywhere"),
    pytest.param(now(1, 60),    {"cpus": "6"},                                0b11, id="CPUs of both nodes"),
    pytest.param(now(1, 60),    {"cpus": "2", "numa": "0"},                   0b01, id="a node that was named"),
    pytest.param(now(1, 60),    {"cpu_ids": "0-1"},                           0b01, id="CPUs that were named"),
    pytest.param(now(1, 60),    {"gpus": 1},                                  0b10, id="a GPU"),
    pytest.param(now(1, 60),    {"gpus": 3},                                  0b11, id="GPUs of both nodes"),
    pytest.param(now(1, 60),    {"gpu_ids": "0", "cpus": "1"},                0b01, id="a GPU that was named"),
    pytest.param(now(10, 30),   {"cpus": "2", "memory": "20g"},               0b10, id="an amount that only the second has"),
    pytest.param(now(10, 30),   {"cpus": "2", "memory": "8g"},                0b01, id="an amount that both have"),
    pytest.param(now(10, 30),   {"cpus": "2", "memory": "35g"},               0b11, id="an amount that only both have"),
    pytest.param(now(1, 60),    {"cpus": "2", "policy": "single-numa-node"},  0b10, id="one node"),
    pytest.param(now(1, 60),    {"cpus": "2", "exclusive": "numa"},           0b10, id="a whole node"),
    pytest.param(SERVER,        {"cpus": "2", "memory": "60g"},               0b01, id="a machine that nothing is known of"),
])  # fmt: skip
def test_the_node_with_room(capacity: Capacity, flags: dict[str, object], mems: int) -> None:
    found = asked(capacity, **flags)
    assert isinstance(found, Placement), found
    assert found.mems == mems
    assert not capacity.numa_of(found.cpus) & ~mems
    short = capacity.memory_now is not None and any(
        size < 2 * GIB for node, size in capacity.memory_now.available.items() if mems >> node & 1
    )
    assert any("little memory is left" in remark for remark in found.remarks) == short


def test_a_full_node_of_somebody_who_sleeps_is_avoided_too() -> None:
    found = asked(now(60, 60), booked("calm", 0b01, 63), cpus="2")
    assert isinstance(found, Placement)
    assert found.mems == 0b10


@pytest.mark.parametrize(("available", "used", "holds", "free"), [
    pytest.param(60, {},                     (),                         60, id="nothing is booked"),
    pytest.param(60, {"a": {}},              (("a", 40),),               20, id="a hold that has touched nothing keeps all"),
    pytest.param(30, {"a": {0: 30 * GIB}},   (("a", 40),),               20, id="what it uses is not taken off twice"),
    pytest.param(10, {"a": {0: 30 * GIB}},   (("a", 40),),               0,  id="others use what is left"),
    pytest.param(24, {"a": {0: 10 * GIB}},   (("a", 20),),               14, id="others use some"),
    pytest.param(10, {"a": {0: 54 * GIB}},   (("a", 20),),               10, id="it uses more than it has booked"),
    pytest.param(24, {},                     (("a", 20),),               24, id="not known, as if it used all of it"),
    pytest.param(50, {},                     (("a", 40),),               24, id="not known, and cannot use all of it"),
    pytest.param(34, {"a": {0: 10 * GIB}},   (("a", 20), ("b", 10)),     24, id="one known, one not"),
])  # fmt: skip
def test_what_can_be_promised(
    available: float, used: dict[str, dict[int, int]], holds: Sequence[tuple[str, float]], free: float
) -> None:
    state = now(available, 64, used=used)
    books = empty_tables(SERVER.machine, Rules(memory_static=True))
    amounts = book(books, [booked(name, 1, size) for name, size in holds], 0b11)
    take_out_used(books, amounts, state.memory_now)
    assert books[0].tables[MEMORY].free == int(free * GIB)
    assert books[1].tables[MEMORY].free == EVERY
    assert books[0].tables[MEMORY].allocatable == EVERY


@given(
    st.integers(0, 64), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.booleans()), max_size=4)
)
def test_no_promise_beyond_bookings_or_what_is_there(
    available: int, holds: list[tuple[int, int, bool]]
) -> None:
    """Never more than is not booked, nor than is available; and bookings that are not touched are kept."""
    books = empty_tables(SERVER.machine, Rules(memory_static=True))
    rows = [booked(str(at), 1, size) for at, (size, _, _) in enumerate(holds)]
    used = {str(at): {0: use * GIB} for at, (_, use, known) in enumerate(holds) if known}
    amounts = book(books, rows, 0b11)
    before = books[0].tables[MEMORY].free
    take_out_used(books, amounts, now(available, 64, used=used).memory_now)
    table = books[0].tables[MEMORY]
    assert 0 <= table.free <= min(before, max(available * GIB, 0))
    untouched = sum(
        max(amounts[str(at)][0] - use * GIB, 0) for at, (_, use, known) in enumerate(holds) if known
    )
    assert table.free <= max(available * GIB - untouched, 0)
    assert table.free + table.reserved == table.allocatable == EVERY


def test_what_others_use_is_named_and_passes() -> None:
    found = asked(now(10, 10), cpus="2", memory="30g")
    assert isinstance(found, NoRoom)
    assert (
        found.reason == "30 GiB of memory asked for, 20 GiB free (108 GiB is in use that nobody has booked)"
    )


def test_what_the_machine_never_has_is_a_mistake() -> None:
    with pytest.raises(InputError, match="even when nothing runs: 200 GiB of memory asked for, 128 GiB free"):
        asked(now(10, 10), memory="200g")


def test_a_pool_job_that_is_steered_away_stays_away() -> None:
    """Its CPUs follow its memory, though the other node's CPUs are free."""
    found = asked(now(1, 60), memory="2g")
    assert isinstance(found, Placement)
    assert (found.mems, found.grant.near, found.cpus) == (0b10, 0b10, SERVER.cpus_of(0b10))


def test_an_allotment_counts_where_memory_is_short() -> None:
    """A job keeps to the GPUs it was left, also when it is sent away from a node with hardly any memory."""
    capacity = now(1, 60)
    allotted = (capacity.gpu_ids[0], capacity.gpu_ids[3])
    request = replace(
        read_request(gpus=1), within=Allotment(gpus=allotted, gpus_by="CUDA_VISIBLE_DEVICES=0,3")
    )
    placement = place(capacity, (), request, "new")
    assert isinstance(placement, Placement)
    assert [gpu.name for gpu in placement.gpus] == ["GPU3"]


def test_all_memory_is_on_an_only_numa_node() -> None:
    lent = synthetic("1s 1n 4c 1t 8g")
    assert capacity_of(replace(lent, memory_capacity=64 * GIB), "none").machine.numa[0].memory == 64 * GIB
    several = synthetic("2s 2n 8c 1t 16g")
    nodes = capacity_of(replace(several, memory_capacity=64 * GIB), "none").machine.numa
    assert [node.memory for node in nodes] == [8 * GIB, 8 * GIB]
