"""The merge: which NUMA mask all resources can share, and whether it is preferred."""

from typing import Any

import pytest

from numawise.engine.hint import NOWHERE, Family, HintList, HintRule
from numawise.engine.sparing import Need
from numawise.engine.topology.merge import (
    Merged,
    merge,
    merge_literally,
    merge_narrowest,
    merge_single,
    nearby,
    sizes_by_rank,
    width_wanted,
)
from numawise.sets import format_ids, parse_ids
from tests.unit.build import hints_of


def families(resources: list[str]) -> list[Family]:
    """One family per resource in the notation ``0! 1! 0-1``; ``*!``: no wish; nothing: impossible."""
    return [HintList(tuple(hints_of(text))) for text in resources if text != "*!"]


def written(found: Merged) -> str:
    return format_ids(found.mask) + "!" * found.preferred


@pytest.mark.parametrize(("resources", "expected"), [
    pytest.param(["0!", "0!"],               "0!",   id="same node"),
    pytest.param(["0! 1! 0-1", "0! 1! 0-1"], "0!",   id="lowest of equals"),
    pytest.param(["*!", "1!"],               "1!",   id="no wish leaves the other's choice"),
    pytest.param(["*!", "*!"],               "0-1!", id="nobody has a wish"),
    pytest.param([],                         "0-1!", id="nobody was asked"),
    pytest.param([""],                       "0-1",  id="impossible"),
    pytest.param(["", "0!"],                 "0",    id="an impossible resource taints all"),
    pytest.param(["", "*!"],                 "0-1",  id="also those without a wish"),
    pytest.param(["0!", "0-1!"],             "0",    id="disagreement is not preferred"),
    pytest.param(["0!", "1!"],               "0-1",  id="nothing shared falls back to all"),
    pytest.param(["0", "0!"],                "0",    id="one dislikes it"),
    pytest.param(["0 1!", "0! 1!"],          "1!",   id="what all prefer"),
    pytest.param(["0-1!", "0-1!"],           "0-1!", id="two nodes can be preferred too"),
])  # fmt: skip
def test_two_nodes(resources: list[str], expected: str) -> None:
    assert written(merge(0b11, families(resources))) == expected


@pytest.mark.parametrize(("resources", "width", "expected"), [
    pytest.param(["0-1! 0,2!", "0-1! 0,2!"],              2, "0-1!", id="the lower value"),
    pytest.param(["1! 0-1", "0! 1! 0-1"],                 1, "1!",   id="preferred beats narrower"),
    pytest.param(["0! 1!", "0-1"],                        2, "0",    id="both below the width: the lower value"),
    pytest.param(["0-3 0-1", "2-3"],                      2, "2-3",  id="the wanted width"),
    pytest.param(["0-3 0-1", "1-2 2-3"],                  2, "1-2",  id="the lower of equal widths"),
    pytest.param(["0! 1! 0-1", "0-1!"],                   2, "0-1",  id="the neediest resource sets the width"),
    pytest.param(["0-2", "0-3"],                          4, "0-2",  id="below the width: the wider the better"),
    pytest.param(["0! 0-2", "0-3!", "0-1,3"],             4, "0-1",  id="0-2 with 0-1,3 is wider than 0"),
    pytest.param(["0 1 2 3 0-3", "0 1 2 3 0-3"],          1, "0",    id="nothing preferred, all narrow"),
])  # fmt: skip
def test_four_nodes(resources: list[str], width: int, expected: str) -> None:
    found = families(resources)
    assert width_wanted(found) == width
    assert written(merge(0b1111, found)) == expected
    assert written(merge_literally(0b1111, found, nearby)) == expected


def test_distance_decides_between_equal_widths() -> None:
    far = {parse_ids("1-2"): 2, parse_ids("2-3"): 1}
    found = families(["0-3 0-1", "1-2 2-3"])
    assert written(merge(0b1111, found, lambda mask: far.get(mask, 0))) == "2-3"


def two_sockets(mask: int) -> int:
    """Eight nodes on two sockets: 10 to itself, 12 on the socket, 32 across."""
    nodes = [node for node in range(8) if mask >> node & 1]
    return sum(10 if a == b else 12 if a // 4 == b // 4 else 32 for a in nodes for b in nodes)


@pytest.mark.parametrize(("resources", "plain", "closest"), [
    (["0,4! 5-6!", "0,4! 5-6!"],  "0,4!", "5-6!"),   # preferred: 21 on average against 11
    (["0,4 5-6", "0-7"],          "0,4",  "5-6"),    # and not preferred
    (["4 0-3", "0-7"],            "0-3",  "0-3"),    # different widths are never decided by distance
    (["4! 0-3!", "4! 0-3!"],      "4!",   "4!"),
])  # fmt: skip
def test_closest_nodes(resources: list[str], plain: str, closest: str) -> None:
    found = families(resources)
    assert written(merge(0xFF, found)) == plain
    assert written(merge(0xFF, found, two_sockets)) == closest
    assert written(merge_literally(0xFF, found, two_sockets)) == closest


@pytest.mark.parametrize(("resources", "expected"), [
    (["0! 1! 0-1", "0! 1! 0-1"], "0!"),
    (["0! 1! 0-1", "1! 0-1"],    "1!"),
    (["1! 0-1", "0!"],           "0-1"),
    (["0-1!", "0-1!"],           "0-1"),   # two nodes are one too many
    (["0 1!", "0! 1!"],          "1!"),    # unpreferred hints are left out
    (["0", "0!"],                "0-1"),
    (["*!", "1!"],               "1!"),
    (["*!"],                     "0-1!"),
    ([""],                       "0-1"),
    (["", "0!"],                 "0-1"),
])  # fmt: skip
def test_single_node(resources: list[str], expected: str) -> None:
    assert written(merge_single(0b11, families(resources))) == expected


@pytest.mark.parametrize(("resources", "before", "since"), [
    (["0! 1! 0-1", "0-1!"],      "0!",  "0-1"),   # 16 CPUs and a GPU: restricted let it pass up to 1.23
    (["0!", "0-1!"],             "0!",  "0"),
    (["0! 1!", "0-1"],           "0",   "0"),
    (["0!", "1!"],               "0-1", "0-1"),
    ([""],                       "0-1", "0-1"),
    (["*!"],                     "0-1!", "0-1!"),
])  # fmt: skip
def test_up_to_1_23_masks_could_differ(resources: list[str], before: str, since: str) -> None:
    found = families(resources)
    assert written(merge_narrowest(0b11, found)) == before
    assert written(merge(0b11, found)) == since


@pytest.mark.parametrize(("width", "most", "sizes"), [
    (2, 4, [2, 1, 3, 4]),
    (1, 3, [1, 2, 3]),
    (4, 2, [2, 1]),
    (0, 2, [1, 2]),
])  # fmt: skip
def test_sizes_come_best_first(width: int, most: int, sizes: list[int]) -> None:
    assert list(sizes_by_rank(width, most)) == sizes


# --- families by rule ----------------------------------------------------------------------------


def ruled(amounts: list[int], least: int, width: int) -> HintRule:
    return HintRule(
        2 ** len(amounts) - 1, (Need(tuple((1 << i, a) for i, a in enumerate(amounts)), least),), width=width
    )


@pytest.mark.parametrize(("left", "right", "expected"), [
    pytest.param(([4, 4, 4, 4], 4, 1), ([0, 0, 4, 4], 4, 1), "2!",  id="the lowest both prefer"),
    pytest.param(([4, 4, 4, 4], 8, 2), ([0, 0, 4, 4], 4, 1), "0-1", id="0-1 and 0-2 have 0-1 in common"),
    pytest.param(([4, 0, 0, 4], 8, 2), ([0, 4, 4, 0], 8, 2), "0-1", id="0-1,3 and 0-2 have 0-1 in common"),
    pytest.param(([4, 4, 0, 0], 8, 2), ([0, 0, 4, 4], 8, 2), "0-1", id="0-1 and 0-3 have 0-1 in common"),
    pytest.param(([1, 1, 1, 1], 4, 4), ([1, 1, 1, 1], 4, 4), "0-3!", id="all of both"),
    pytest.param(([1, 1, 1, 1], 5, 4), ([1, 1, 1, 1], 4, 4), "0-3", id="one impossible"),
])  # fmt: skip
def test_families_by_rule(left: tuple[Any, ...], right: tuple[Any, ...], expected: str) -> None:
    found = [ruled(*left), ruled(*right)]
    assert written(merge(0b1111, found)) == expected
    assert written(merge_literally(0b1111, found, nearby)) == expected


@pytest.mark.parametrize("nodes", [16, 34, 64])
def test_wide_machines_end(nodes: int) -> None:
    """Each family has up to 2**64 hints."""
    every = 2**nodes - 1
    one, two, four = ruled([4] * nodes, 4, 1), ruled([4] * nodes, 8, 2), ruled([4] * nodes, 16, 4)
    assert merge(every, [one, one, one]) == Merged(1, preferred=True)
    assert merge(every, [one, two, four]) == Merged(0b1111, preferred=False)
    assert merge(every, [one, NOWHERE]) == Merged(1, preferred=False)
    assert merge(every, [four, ruled([0] * (nodes - 4) + [4] * 4, 16, 4)]) == Merged(
        0b1111 << nodes - 4, preferred=True
    )
    assert merge_single(every, [one, one]) == Merged(1, preferred=True)
    assert merge_single(every, [one, two]) == Merged(every, preferred=False)
