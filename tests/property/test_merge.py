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
