"""The even choice over NUMA nodes without comparing all sets, against the comparison of all of them."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numawise.engine import search
from numawise.engine.cpu.balance import most_balanced
from numawise.engine.cpu.subsets import BalancedNodes, NeverReturns, best_of_all
from tests.property.strategies import laws

Case = tuple[list[int], dict[int, int], int, int, dict[int, tuple[int, ...]] | None]
"""NUMA nodes in order, what each has, CPUs asked for, CPUs of a group, sockets by node."""


def in_order(free: Sequence[int], sockets: Sequence[int]) -> list[int]:
    """Nodes socket by socket, the poorest first, as the kubelet walks them."""
    return sorted(range(len(free)), key=lambda numa: (sockets[numa], free[numa], numa))


@st.composite
def cases(draw: st.DrawFn, most_nodes: int = 7) -> Case:
    """Any free counts: many equal ones, or few."""
    values = draw(st.lists(st.integers(1, 20), min_size=1, max_size=6))
    free = draw(st.lists(st.sampled_from(values), min_size=2, max_size=most_nodes))
    group = draw(st.sampled_from([1, 2, 3, 4]))
    number = st.integers(0, draw(st.integers(0, 2)))
    socket = draw(st.lists(number, min_size=len(free), max_size=len(free)))
    nodes = in_order(free, socket)
    count = draw(st.integers(1, max(1, sum(free) // group))) * group
    sockets = {numa: (socket[numa],) for numa in nodes}
    if draw(st.booleans()):
        sockets[draw(st.sampled_from(nodes))] = (0, 1)
    return nodes, {numa: free[numa] for numa in nodes}, count, group, draw(st.sampled_from([None, sockets]))


@st.composite
def even_cases(draw: st.DrawFn) -> Case:
    """A set of nodes whose shares leave all nodes equal, or all but one."""
    size = draw(st.integers(2, 7))
    group = draw(st.sampled_from([1, 2, 4]))
    free = [draw(st.integers(1, 6))] * size
    members = draw(st.lists(st.integers(0, size - 1), min_size=1, unique=True))
    share = draw(st.integers(1, 3)) * group
    more = draw(st.integers(0, len(members) - 1))
    for place, numa in enumerate(members):
        free[numa] += share + group * (place < more)
    free[0] += draw(st.sampled_from([0, 0, 1]))
    socket = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    nodes = in_order(free, socket)
    sockets = draw(st.sampled_from([None, {numa: (socket[numa],) for numa in nodes}]))
    return nodes, {numa: free[numa] for numa in nodes}, len(members) * share + more * group, group, sockets


def chosen(case: Case, size: int, *, literally: bool) -> BalancedNodes | str | None:
    nodes, has, count, group, sockets = case
    choose = best_of_all if literally else most_balanced
    try:
        return choose(nodes, has, count, size, group, sockets)
    except NeverReturns:
        return "never returns"


@laws(700)
@given(cases() | even_cases())
def test_same_as_comparing_all(case: Case) -> None:
    """The same nodes at the same places, the same remainder, and the same hang, for every number of nodes."""
    nodes, _, count, group, _ = case
    for size in range(1, min(count // group, len(nodes)) + 1):
        assert chosen(case, size, literally=False) == chosen(case, size, literally=True)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [16, 32, 64])
def test_many_nodes_need_few_steps(size: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All sets of half of 64 nodes are 10^18; a choice among them ends after some thousands of steps."""
    monkeypatch.setattr(search, "MOST_STEPS", 20_000 * size // 16)
    chance = random.Random(seed)
    most = chance.choice([8, 16, 64])
    equal = [chance.randint(1, most) for _ in range(3)]
    free = [chance.choice([most, chance.randint(1, most), chance.choice(equal)]) for _ in range(size)]
    group = chance.choice([1, 2])
    socket = [numa * 4 // size for numa in range(size)]
    nodes = in_order(free, socket)
    count = max(1, int(sum(free) * chance.random()) // group) * group
    sockets = {numa: (socket[numa],) for numa in nodes}
    for by_socket in (None, sockets):
        case = (nodes, {numa: free[numa] for numa in nodes}, count, group, by_socket)
        answers = (chosen(case, members, literally=False) for members in range(1, size + 1))
        choice = next((answer for answer in answers if answer is not None), None)
        if isinstance(choice, BalancedNodes):
            share = count // len(choice.chosen) // group * group
            assert sum(case[1][numa] // group * group for numa in choice.chosen) >= count
            assert by_socket or all(case[1][numa] >= share for numa in choice.chosen)
