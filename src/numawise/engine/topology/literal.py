"""The merge as the kubelet writes it: every combination, compared one after the other.

A kubelet with distances and gaps in its node ids crashes at a comparison, so that the order of
comparisons is what decides.  Costs the product of the lengths; use it where these are short.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from numawise.engine.hint import Family
from numawise.engine.topology.merge import Distance, Merged, width_wanted


def merge_literally(every: int, families: Sequence[Family], distance: Distance) -> Merged:
    """Merge by comparing all combinations; what ``distance`` raises passes through."""
    width = width_wanted(families)
    best: Merged | None = None
    for merged in _combinations(every, families):
        if best is None or _better(merged, best, width, distance):
            best = merged
    return best or Merged(every, preferred=False)


def _combinations(every: int, families: Sequence[Family]) -> Iterator[Merged]:
    for combination in product(*(tuple(family) or ((every, False),) for family in families)):
        mask, preferred = every, True
        for hint, liked in combination:
            mask &= hint
            preferred = preferred and liked
        if len({hint for hint, _ in combination}) > 1:
            preferred = False
        if mask:
            yield Merged(mask, preferred)


def _better(new: Merged, old: Merged, width: int, distance: Distance) -> bool:
    """True when the kubelet would replace the old best by the new one."""
    if new.preferred != old.preferred:
        return new.preferred
    count, before = new.mask.bit_count(), old.mask.bit_count()
    if new.preferred or (before > width and count > width) or before == count:
        return _closer(new.mask, old.mask, distance)
    if width in (before, count):
        return count == width
    if before > width or count > width:
        return count < before
    return count > before


def _closer(new: int, old: int, distance: Distance) -> bool:
    if new == old:
        return False
    count, before = new.bit_count(), old.bit_count()
    if count != before:
        return count < before
    old_distance, new_distance = distance(old), distance(new)
    return (new_distance, new) < (old_distance, old)
