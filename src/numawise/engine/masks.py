"""Sets of NUMA nodes that meet all needs of one rule: how small they can be, and all of a size in order."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice

from numawise.engine.sparing import Keeper, Need
from numawise.engine.trimming import Trimming
from numawise.errors import SearchEnded


def fewest_nodes(nodes: int, needs: Sequence[Need], touch: Sequence[int] = (), smallest: int = 1) -> int:
    """Size of the smallest mask that meets all needs; 0 when there is none."""
    return _fewest_nodes(nodes, tuple(needs), tuple(touch), smallest)


@lru_cache(maxsize=256)
def _fewest_nodes(nodes: int, needs: tuple[Need, ...], touch: tuple[int, ...], smallest: int) -> int:
    if len(needs) == 1 and not touch:
        amounts: dict[int, int] = {}
        for mask, amount in needs[0].amounts:
            here = mask & nodes
            amounts[here] = amounts.get(here, 0) + amount
        amounts.pop(0, None)
        if all(not mask & (mask - 1) for mask in amounts):
            return _fewest(nodes, sorted(amounts.values(), reverse=True), needs[0].least, smallest)
    most = Trimming(nodes, [Keeper(nodes, needs, touch, smallest)]).most()
    return max(smallest, nodes.bit_count() - most) if most >= 0 else 0


def _fewest(nodes: int, amounts: list[int], least: int, smallest: int) -> int:
    size = 0
    for amount in amounts:
        if least <= 0:
            break
        least -= amount
        size += 1
    size = max(size, smallest)
    return 0 if least > 0 or size > nodes.bit_count() else size


def masks_of(
    size: int,
    nodes: int,
    needs: Sequence[Need] = (),
    touch: Sequence[int] = (),
    containing: int = 0,
) -> Iterator[int]:
    """Walk the masks of so many nodes that meet all needs and contain the given ones, by ascending value."""
    if 1 <= size <= nodes.bit_count():
        yield from Trimming(nodes, [Keeper(nodes, needs, touch)]).masks(size, containing)


def some_masks(most: int, size: int, nodes: int, needs: Sequence[Need], touch: Sequence[int]) -> list[int]:
    """The first of these masks, to be shown: fewer where the search takes too long."""
    masks: list[int] = []
    with suppress(SearchEnded):
        for mask in islice(masks_of(size, nodes, needs, touch), most):
            masks.append(mask)  # noqa: PERF402 - what was found before the end is kept
    return masks
