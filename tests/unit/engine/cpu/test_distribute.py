"""Even choice over NUMA nodes, with the two defects that are part of it."""

import pytest

from numawise.engine.cpu.distribute import take_distributed
from numawise.engine.cpu.subsets import NeverReturns, deviation, each_subset
from numawise.engine.cpu.take import NotEnough
from numawise.engine.trace import BufferReused, CpusTaken, Step
from numawise.machine.model import CpuLayout
from numawise.sets import format_ids, parse_ids
from tests.unit.build import LAYOUTS, even, machine


def taken(layout: CpuLayout, available: str, count: int, group: int = 1) -> str:
    found = take_distributed(layout, parse_ids(available), count, group)
    return found.message if isinstance(found, NotEnough) else format_ids(found)


@pytest.mark.parametrize(("name", "available", "group", "count", "expected"), [
    pytest.param("T3", "0-15", 1,  8, "0-3,8-11",           id="fits one node"),
    pytest.param("T3", "0-15", 1,  9, "0-2,4-5,8-9,12-13",  id="5 + 4"),
    pytest.param("T3", "0-15", 1, 10, "0-2,4-6,8-9,12-13",  id="5 + 5"),
    pytest.param("T3", "0-15", 2, 10, "0-2,4-5,8-10,12-13", id="6 + 4, in whole cores"),
    pytest.param("T3", "0-15", 2,  9, "0-4,8-11",           id="not in whole cores: packed"),
    pytest.param("T3", "1-15", 1,  9, "1-2,4-6,9-10,12-13", id="the remainder goes where it balances"),
    pytest.param("T5", "0-15", 1,  6, "0-3,8,10",           id="3 + 3"),
    pytest.param("T5", "0-15", 1,  9, "0-5,8,10,12",        id="3 + 3 + 3"),
    pytest.param("T5", "0-15", 2, 10, "0-4,8-12",           id="4 + 4 + 2"),
    pytest.param("T3", "0-15", 1,  0, "",                   id="nothing"),
    pytest.param("T3", "0-15", 1, 16, "0-15",               id="everything"),
    pytest.param("T3", "0-7",  1,  9, "not enough cpus available to satisfy request: requested=9, available=8", id="too few"),
])  # fmt: skip
def test_distributed(name: str, available: str, group: int, count: int, expected: str) -> None:
    assert taken(LAYOUTS[name], available, count, group) == expected


EIGHT = machine(even(8, 8, 32)).layout  # 8 nodes of 4 CPUs: node i is 4i to 4i+3


@pytest.mark.parametrize(("count", "nodes"), [
    (12, [0, 1, 2]),
    (16, [0, 1, 2, 7]),           # not 0, 1, 2, 3
    (20, [0, 1, 2, 3, 4]),
    (24, [0, 1, 2, 3, 4, 7]),
    (28, [0, 1, 2, 3, 4, 6, 7]),
    (32, [0, 1, 2, 3, 4, 5, 6, 7]),
])  # fmt: skip
def test_the_remembered_set_of_nodes_is_overwritten(count: int, nodes: list[int]) -> None:
    steps: list[Step] = []
    found = take_distributed(EIGHT, EIGHT.all, count, 1, note=steps.append)
    assert isinstance(found, int)
    assert [numa for numa, cpus in EIGHT.numas.items() if cpus & found] == nodes
    reused = [step for step in steps if isinstance(step, BufferReused)]
    first = list(range(len(nodes)))
    assert [(list(step.chosen), list(step.used)) for step in reused] == (
        [] if nodes == first else [(first, nodes)]
    )
    shares = [step for step in steps if isinstance(step, CpusTaken)]
    assert {(step.unit, step.name) for step in shares} == {("share of numa", numa) for numa in nodes}


def test_an_overwritten_set_can_be_too_small() -> None:
    layout = machine(even(8, 4, 16, 2, near=True)).layout
    available = "0,4-9,12-13,16-17,20-21,24-25,28-29"
    assert taken(layout, available, 16) == "accounting error, not enough CPUs allocated, remaining: 2"


def test_dealing_odd_leftovers_never_ends() -> None:
    layout = machine(even(4, 4, 12, 2, near=True)).layout
    with pytest.raises(NeverReturns):
        taken(layout, "0-3,5,8,10,12,14-17,19-20,22-23", 14, 2)


def test_subsets_come_by_positions_and_can_be_stopped() -> None:
    seen = []
    each_subset([5, 3, 9], 2, lambda window: not seen.append(window.elements()))
    assert seen == [[5, 3], [5, 9], [3, 9]]
    seen.clear()

    def only_two(window: object) -> bool:
        seen.append(window)
        return len(seen) < 2

    each_subset([1, 2, 3, 4], 1, only_two)
    assert len(seen) == 2
    seen.clear()
    each_subset([1, 2], 0, lambda window: not seen.append(window))
    assert not seen


@pytest.mark.parametrize(
    ("size", "changed"), [(1, 0), (2, 0), (3, 0), (4, 1), (5, 0), (6, 1), (7, 2), (8, 3), (9, 0)]
)
def test_which_places_of_a_remembered_subset_change(size: int, changed: int) -> None:
    """Places beyond the last doubling of the buffer hold the last elements in the end."""
    kept = []
    first = list(range(size))

    def keep(window: object) -> bool:
        if not kept:
            kept.append(window)
        return True

    each_subset(range(10), size, keep)
    now = kept[0].elements()
    assert [at for at in first if now[at] != at] == first[size - changed :]
    assert now[size - changed :] == list(range(10))[10 - changed :]


@pytest.mark.parametrize(("values", "expected"), [
    ([4, 4, 4],   0.0),
    ([0, 1],      0.5),
    ([1, 1, 2],   0.471),  # around a mean of 1.333
    ([5],         0.0),
])  # fmt: skip
def test_deviation_has_three_decimals(values: list[int], expected: float) -> None:
    assert deviation(values) == expected
