"""The quick merge gives what comparing all combinations gives.

The literal reading stands here, not in the engine: one hint of each resource, intersected; preferred when
all hints are and their masks are equal; and the best by the kubelet's ranking.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from numawise.engine.hint import Family
from numawise.engine.topology.merge import (
    Merged,
    merge,
    merge_literally,
    merge_narrowest,
    merge_single,
    nearby,
)
from tests.property.strategies import distances, families, laws

Told = Sequence[tuple[int | None, bool]]


def lists(found: Iterable[Family]) -> list[Told]:
    """The kubelet's lists: an answer without masks is one hint for any node, and not preferred."""
    return [tuple(family) or ((None, False),) for family in found]


def combined(every: int, resources: list[Told], *, equal: bool = True) -> set[tuple[int, bool]]:
    """The merged hints of all combinations, empty masks left out."""
    results = set()
    for combination in product(*resources):
        wanted = [mask for mask, _ in combination if mask is not None]
        mask = every
        for one in wanted:
            mask &= one
        preferred = all(liked for _, liked in combination) and (not equal or len(set(wanted)) <= 1)
        if mask:
            results.add((mask, preferred))
    return results


def literally(every: int, resources: list[Told], distance: Callable[[int], int] = nearby) -> Merged:
    """The best of all combinations, as the kubelet ranks them."""
    narrowest = [[mask.bit_count() for mask, _ in told if mask is not None] for told in resources]
    width = max((min(counts) for counts in narrowest if counts), default=0)

    def rank(result: tuple[int, bool]) -> tuple[object, ...]:
        mask, preferred = result
        count = mask.bit_count()
        fit = (count, distance(mask), mask)
        if preferred:
            return (0, 0, 0, *fit)
        if count == width:
            return (1, 0, 0, *fit)
        if count < width:
            return (1, 1, -count, *fit)
        return (1, 2, 0, *fit)

    results = combined(every, resources)
    return Merged(*min(results, key=rank)) if results else Merged(every, preferred=False)


def families_of(nodes: int, most: int) -> st.SearchStrategy[list[Family]]:
    return st.lists(families(nodes), max_size=most)


@laws(400)
@given(families_of(3, 4))
def test_three_nodes(found: list[Family]) -> None:
    assert merge(0b111, found) == literally(0b111, lists(found))


@laws(250)
@given(families_of(4, 3))
def test_four_nodes(found: list[Family]) -> None:
    assert merge(0b1111, found) == literally(0b1111, lists(found))


@laws(80)
@given(families_of(5, 3))
def test_five_nodes(found: list[Family]) -> None:
    assert merge(0b11111, found) == literally(0b11111, lists(found))


@laws(250)
@given(families_of(4, 3), distances(4))
def test_with_distances(found: list[Family], matrix: list[list[int]]) -> None:
    def distance(mask: int) -> int:
        nodes = [node for node in range(4) if mask >> node & 1]
        return sum(matrix[one][other] for one in nodes for other in nodes)

    expected = literally(0b1111, lists(found), distance)
    assert merge(0b1111, found, distance) == expected
    assert merge_literally(0b1111, found, distance) == expected


def folded(every: int, resources: list[Told], distance: Callable[[int], int] = nearby) -> Merged:
    """The same best, from the sets of masks that can be reached resource by resource."""
    masks = [{mask for mask, _ in told if mask is not None} for told in resources]
    liked = [{mask for mask, preferred in told if preferred} for told in resources]
    agreed = set.intersection(*liked) if liked else set()
    if agreed:
        best = min(agreed, key=lambda mask: (mask.bit_count(), distance(mask), mask))
        assert best is not None
        return Merged(best, preferred=True)
    reached = {every}
    for hints in masks:
        if hints:
            reached = {mask & hint for mask in reached for hint in hints} - {0}
    width = max((min(mask.bit_count() for mask in hints) for hints in masks if hints), default=0)

    def rank(mask: int) -> tuple[int, ...]:
        count = mask.bit_count()
        fit = (0, 0) if count == width else (1, -count) if count < width else (2, count)
        return (*fit, distance(mask), mask)

    return Merged(min(reached, key=rank, default=every), preferred=not resources)


@st.composite
def levels(draw: st.DrawFn, nodes: int) -> list[list[int]]:
    """Distances of a machine that is built in levels, or on a ring."""
    per_socket = draw(st.integers(1, nodes))
    ring = draw(st.booleans())
    sockets = -(-nodes // per_socket)

    def between(one: int, other: int) -> int:
        if one == other:
            return 10
        apart = abs(one // per_socket - other // per_socket)
        if ring:
            return 12 + 8 * min(apart, sockets - apart)
        return 12 if not apart else 21

    return [[between(one, other) for other in range(nodes)] for one in range(nodes)]


def repeated(found: list[Family], again: int) -> list[Family]:
    """One of the families stands for two resources, as memory and huge pages do."""
    return [*found, found[again % len(found)]] if again and found else found


@laws(400)
@given(families_of(7, 3), st.integers(0, 3))
def test_seven_nodes(found: list[Family], again: int) -> None:
    found = repeated(found, again)
    assert merge(0b1111111, found) == folded(0b1111111, lists(found))


@laws(300)
@given(families_of(6, 3), st.integers(0, 3), st.one_of(levels(6), distances(6)))
def test_six_nodes_with_distances(found: list[Family], again: int, matrix: list[list[int]]) -> None:
    def distance(mask: int) -> int:
        nodes = [node for node in range(6) if mask >> node & 1]
        return sum(matrix[one][other] for one in nodes for other in nodes)

    found = repeated(found, again)
    assert merge(0b111111, found, distance) == folded(0b111111, lists(found), distance)


@laws(200)
@given(families_of(4, 3), st.permutations(range(3)))
def test_the_order_of_resources_does_not_matter(found: list[Family], order: list[int]) -> None:
    shuffled = [found[at] for at in order if at < len(found)]
    assert merge(0b1111, shuffled) == merge(0b1111, found)


@laws(300)
@given(families_of(4, 4))
def test_a_single_node(found: list[Family]) -> None:
    """Only preferred hints of one node, or of any, take part; a resource without such ends it."""
    kept = [
        [(mask, liked) for mask, liked in told if liked and (mask is None or mask.bit_count() == 1)]
        for told in lists(found)
    ]
    assert merge_single(0b1111, found) == literally(0b1111, kept)


@laws(200)
@given(families_of(4, 3))
def test_up_to_1_23(found: list[Family]) -> None:
    """All preferred is enough; then the narrowest; the search begins with all nodes, not preferred."""
    results = combined(0b1111, lists(found), equal=False) | {(0b1111, False)}
    best = min(results, key=lambda result: (not result[1], result[0].bit_count(), result[0]))
    assert merge_narrowest(0b1111, found) == Merged(*best)


@laws(150)
@given(families_of(4, 3))
def test_what_is_merged_is_shared(found: list[Family]) -> None:
    """A preferred mask is preferred by all; any other lies inside a hint of each, or is everything."""
    best = merge(0b1111, found)
    if best.preferred:
        assert all(family.prefers(best.mask) for family in found)
    elif best.mask != 0b1111:
        voters = [family for family in found if family.reach]
        assert all(any(not best.mask & ~mask for mask, _ in family) for family in voters)
