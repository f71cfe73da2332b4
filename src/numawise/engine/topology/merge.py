"""Choose the best NUMA mask that all resources can share.

The kubelet takes one hint of every resource, intersects their masks, and compares the results of
*all* such combinations: 16.6 million for three resources on eight NUMA nodes.  Its comparison is
one total order (``rank`` below), so only the set of results matters, and the best of them can be
looked for directly:

1. A preferred result exists exactly where every resource prefers the same mask.
2. Otherwise every result is unpreferred, and a mask is a result when each resource has a hint that
   contains it and these hints have nothing else in common.  Masks are tried best first.

Counterpart: topologymanager ``HintMerger.Merge``.  The answers are the same because rule 2 is the
definition of "some combination intersects to this mask", and rule 1 follows from the kubelet's own:
a combination is preferred when all its hints are preferred *and* have equal masks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from numawise.engine.hint import Family, HintList, HintRule, SearchLimit, masks_of
from numawise.sets import ids_of
from numawise.values import dataclass

Distance = Callable[[int], int]
"""Sum of distances between all nodes of a mask; comparable between masks of equal size."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The best mask, and whether it is preferred by all."""

    mask: int
    preferred: bool


def nearby(_: int) -> int:
    """The distance when distances do not count."""
    return 0


def merge(every: int, families: Sequence[Family], distance: Distance = nearby) -> Merged:
    """Merge the families of all resources that have a preference (an empty one: impossible)."""
    voters = [family for family in families if family.reach]
    tainted = len(voters) < len(families)
    if not voters:
        return Merged(every, preferred=not tainted)
    if not tainted:
        mask = _agreed(voters, distance)
        if mask:
            return Merged(mask, preferred=True)
    return Merged(_shared(voters, distance, width_wanted(voters)) or every, preferred=False)


def merge_narrowest(every: int, families: Sequence[Family]) -> Merged:
    """Merge by the rule up to 1.23: preferred when all hints are, masks may differ; then the narrowest."""
    voters = [family for family in families if family.reach]
    tainted = len(voters) < len(families)
    if not voters:
        return Merged(every, preferred=not tainted)
    if not tainted:
        reached = {every}
        for voter in voters:
            liked = _liked(voter)
            reached = {found for mask in reached for hint in liked if (found := mask & hint)}
        if reached:
            return Merged(min(reached, key=lambda mask: (mask.bit_count(), mask)), preferred=True)
    return Merged(_shared(voters, nearby, width=1) or every, preferred=False)


def merge_single(every: int, families: Sequence[Family]) -> Merged:
    """Merge under ``single-numa-node``: only preferred hints of one node count."""
    if not families:
        return Merged(every, preferred=True)
    for node in ids_of(every):
        if all(family.prefers(1 << node) for family in families):
            return Merged(1 << node, preferred=True)
    return Merged(every, preferred=False)


def width_wanted(families: Iterable[Family]) -> int:
    """How many nodes an unpreferred result should have: what the neediest resource needs."""
    return max((family.narrowest for family in families if family.reach), default=0)


def sizes_by_rank(width: int, most: int) -> Iterator[int]:
    """Sizes of unpreferred masks, best first: the wanted one, then narrower, then wider."""
    yield from range(min(width, most), 0, -1)
    yield from range(width + 1, most + 1)


# --- preferred ------------------------------------------------------------------------------


def _agreed(voters: Sequence[Family], distance: Distance) -> int:
    """The best mask that all voters prefer; 0 when there is none."""
    for voter in voters:
        if isinstance(voter, HintList):
            masks = [mask for mask, preferred in voter.masks.items() if preferred]
            masks.sort(key=lambda m: (m.bit_count(), distance(m), m))
            return next((m for m in masks if all(v.prefers(m) for v in voters)), 0)
    ruled = [voter for voter in voters if isinstance(voter, HintRule)]
    common = ruled[0].reach
    for voter in ruled:
        common &= voter.reach
    most = common.bit_count()
    widths = {voter.width for voter in ruled if voter.sockets is None}
    if len(widths) > 1:
        return 0
    for size in widths or range(1, most + 1):
        if size <= most and (found := _best(_preferred_masks(size, common, ruled), distance)):
            return found
    return 0


def _preferred_masks(size: int, common: int, voters: Sequence[HintRule]) -> Iterator[int]:
    """Masks of one size that all prefer, by ascending value."""
    if size == 1:
        for node in ids_of(common):
            if all(voter.prefers(1 << node) for voter in voters):
                yield 1 << node
        return
    for voter in voters:
        if voter.extra_masks or not voter.possible:
            break
    else:
        needs = [need for voter in voters for need in voter.needs]
        touch = [nodes for voter in voters for nodes in voter.touch]
        for mask in masks_of(size, common, needs, touch):
            if all(voter.likes(mask) and size >= voter.smallest for voter in voters):
                yield mask
        return
    # A voter with extra masks: walk its masks, which are the fewest.
    leader = min(voters, key=lambda voter: (not voter.extra_masks, voter.possible))
    masks = {mask for mask in leader.extra_masks if mask.bit_count() == size}
    if leader.possible:
        masks.update(masks_of(size, leader.nodes & common, leader.needs, leader.touch))
    for mask in sorted(masks):
        if all(voter.prefers(mask) for voter in voters):
            yield mask


def _liked(voter: Family) -> set[int]:
    """All masks that a voter prefers."""
    if isinstance(voter, HintRule) and voter.sockets is None:
        masks = {mask for mask in voter.extra_masks if mask.bit_count() == voter.width}
        if voter.possible and voter.width >= voter.smallest:
            masks.update(masks_of(voter.width, voter.nodes, voter.needs, voter.touch))
        return masks
    return {mask for mask, preferred in voter if preferred}


def _best(masks: Iterator[int], distance: Distance) -> int:
    """The first of the masks (ascending, equal in size), or the nearest when distances count."""
    if distance is nearby:
        return next(masks, 0)
    return min(masks, key=lambda mask: (distance(mask), mask), default=0)


# --- not preferred --------------------------------------------------------------------------


def _shared(voters: Sequence[Family], distance: Distance, width: int) -> int:
    """The best mask that is an intersection of one hint of each voter; 0 when there is none."""
    common = voters[0].reach
    for voter in voters:
        common &= voter.reach
    most = min(common.bit_count(), *(voter.widest for voter in voters))
    limit = SearchLimit()
    for size in sizes_by_rank(width, most):
        masks: Iterable[int] = masks_of(size, common, limit=limit)
        if distance is not nearby:
            masks = sorted(masks, key=distance)
        for mask in masks:
            if _is_shared(mask, voters, limit):
                return mask
    return 0


def _is_shared(mask: int, voters: Sequence[Family], limit: SearchLimit) -> bool:
    """True when hints that contain the mask, one of each voter, have nothing else in common."""
    exact = False
    ways: list[list[tuple[int, HintRule | None]]] = []
    for voter in voters:
        if voter.offers(mask):
            exact = True
            ways.append([(mask, None)])
            continue
        found = list(_ways_to_cover(mask, voter))
        if not found:
            return False
        ways.append(found)
    if exact:
        return True
    return any(_only_common(mask, chosen, limit) for chosen in product(*ways))


def _ways_to_cover(mask: int, voter: Family) -> Iterator[tuple[int, HintRule | None]]:
    """The voter's smallest hints that contain the mask, and its rule if that can contain it."""
    hints: Iterable[int]
    if isinstance(voter, HintRule):
        hints = voter.extra_masks
        if voter.possible and not mask & ~voter.nodes:
            yield voter.nodes, voter
    else:
        assert isinstance(voter, HintList)
        hints = voter.masks
    wider = sorted((hint for hint in hints if not mask & ~hint), key=int.bit_count)
    smallest: list[int] = []
    for hint in wider:
        if not any(not less & ~hint for less in smallest):
            smallest.append(hint)
            yield hint, None


def _only_common(mask: int, chosen: Sequence[tuple[int, HintRule | None]], limit: SearchLimit) -> bool:
    """True when the chosen hints can have just the mask in common.

    HintList hints are fixed.  A rule is upward closed, so it may as well take all its nodes but
    those it must leave out: each node that would be common beyond the mask is left out by one of
    the rules, and each rule must still be met by what it keeps.
    """
    surplus = ~mask
    flexible = []
    for nodes, rule in chosen:
        surplus &= nodes
        if rule is not None:
            flexible.append(rule)
    left_out = [0] * len(flexible)
    common = list(ids_of(surplus))

    def place(at: int) -> bool:
        limit.step()
        if at == len(common):
            return True
        bit = 1 << common[at]
        for turn, rule in enumerate(flexible):
            left_out[turn] |= bit
            if rule.by_rule(rule.nodes & ~left_out[turn]) and place(at + 1):
                return True
            left_out[turn] &= ~bit
        return False

    return place(0)


# --- every combination ----------------------------------------------------------------------
# The merge as the kubelet writes it, compared one after the other.  A kubelet with distances and gaps in its
# node ids crashes at a comparison, so that the order of comparisons decides.  It costs the product of the
# lengths; use it where these are short.


def merge_literally(every: int, families: Sequence[Family], distance: Distance) -> Merged:
    """Merge by comparing all combinations; what ``distance`` raises passes through."""
    width = width_wanted(families)
    best: Merged | None = None
    limit = SearchLimit()
    for merged in _combinations(every, families):
        limit.step()
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
