"""Choose the best NUMA mask that all resources can share.

The kubelet takes one hint of every resource, intersects their masks, and compares the results of
*all* such combinations: 16.6 million for three resources on eight NUMA nodes.  Its comparison is
one total order (``rank`` below), so only the set of results matters, and the best of them can be
looked for directly:

1. A preferred result exists exactly where every resource prefers the same mask.
2. Otherwise every result is unpreferred, and a mask is a result when each resource has a hint that
   contains it and these hints have nothing else in common: every other node is left out by one of them.
   Hints that are listed leave out what they leave out; a rule leaves out what its needs can spare.
3. Sizes are decided first, best first, and then the lowest or the nearest mask of the best size.

Counterpart: topologymanager ``HintMerger.Merge``.  The answers are the same because rule 2 is the
definition of "some combination intersects to this mask", and rule 1 follows from the kubelet's own:
a combination is preferred when all its hints are preferred *and* have equal masks.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from numawise.engine.hint import Family, HintList, HintRule, Sockets
from numawise.engine.masks import masks_of
from numawise.engine.search import SearchLimit
from numawise.engine.sparing import Keeper
from numawise.engine.topology.nearest import Best, Distance, Nearest, nearest
from numawise.engine.trimming import Trimming
from numawise.sets import ids_of
from numawise.values import dataclass


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
    widths = {voter.width for voter in ruled if voter.sockets is None}
    if len(widths) > 1:
        return 0
    common = ruled[0].reach
    for voter in ruled:
        common &= voter.reach
    most = common.bit_count()
    for size in widths or range(1, most + 1):
        mask = _agreed_nodes(size, common, ruled, distance) if size <= most else 0
        if mask:
            return mask
    return 0


def _agreed_nodes(size: int, common: int, voters: Sequence[HintRule], distance: Distance) -> int:
    """The best mask of so many nodes that all prefer; 0 when there is none."""
    if size == 1:
        for node in ids_of(common):
            if all(voter.prefers(1 << node) for voter in voters):
                if distance is nearby:
                    return 1 << node
                break
        alone = [1 << node for node in ids_of(common) if all(voter.prefers(1 << node) for voter in voters)]
        return min(alone, key=lambda mask: (distance(mask), mask), default=0)
    best: Best | None = None
    for voter in voters:
        for mask in voter.extra_masks:
            if mask.bit_count() == size and all(other.prefers(mask) for other in voters):
                found = (distance(mask), mask)
                best = found if best is None or found < best else best
    if all(voter.possible and size >= voter.smallest for voter in voters):
        best = _agreed_by_rule(size, voters, distance, best)
    return best[1] if best else 0


def _agreed_by_rule(
    size: int, voters: Sequence[HintRule], distance: Distance, best: Best | None
) -> Best | None:
    """The best mask that the rules of all voters make a hint, and that all prefer.

    Where as few sockets as can be are wanted, these are chosen first, one after the other.
    """
    nodes = voters[0].nodes
    for voter in voters:
        nodes &= voter.nodes
    needs = [need for voter in voters for need in voter.needs]
    touch = [mask for voter in voters for mask in voter.touch]
    limit = SearchLimit()
    whole = Trimming(nodes, [Keeper(nodes, needs, touch)], limit)
    aligned = [voter.sockets for voter in voters if voter.sockets is not None and voter.width != size]
    if not aligned:
        return _better_of(whole, size, distance, best, limit)
    near = None if distance is nearby else Nearest(whole, size, distance, limit)
    count = nodes.bit_count() - size
    branches = [_SocketChoice(nodes, (), tuple(_sockets_of(nodes, sockets) for sockets in aligned))]
    while branches:
        limit.step()
        branch = branches.pop()
        out = nodes & ~branch.nodes
        if whole.left_out(out, 0, count) is None:
            continue
        if near is not None:
            if not near.promising(branch.nodes, best):
                continue
        elif best is not None and branch.lowest(size) >= best[1]:
            continue
        if branch.undecided:
            branches += branch.divided()
        else:
            keeper = Keeper(branch.nodes, needs, (*touch, *branch.touched))
            best = _better_of(Trimming(branch.nodes, [keeper], limit), size, distance, best, limit)
    return best


@dataclass(frozen=True, slots=True)
class _SocketChoice:
    """Sockets that masks touch, and those that are not decided yet, each as its nodes."""

    nodes: int
    """Those on no socket that is ruled out."""
    touched: tuple[int, ...]
    undecided: tuple[tuple[int, tuple[int, ...]], ...]
    """How many more of which sockets, the highest first; once for each resource that counts sockets."""

    def divided(self) -> Iterator["_SocketChoice"]:
        """With and without the next socket; the latter, which gives lower masks, comes last."""
        (more, (socket, *others)), *rest = self.undecided
        if more:
            wanted = ((more - 1, tuple(others)), *rest) if others else tuple(rest)
            if others or more == 1:
                yield _SocketChoice(self.nodes, (*self.touched, socket), wanted)
        if len(others) >= more:
            wanted = ((more, tuple(others)), *rest) if others else tuple(rest)
            yield _SocketChoice(self.nodes & ~socket, self.touched, wanted)

    def lowest(self, size: int) -> int:
        """No mask of so many nodes has a lower value."""
        mask = 0
        for socket in self.touched:
            if not socket & mask:
                mask |= _lowest(1, socket & self.nodes)
        return (
            _lowest(size, self.nodes)
            if mask.bit_count() > size
            else mask | _lowest(size - mask.bit_count(), self.nodes & ~mask)
        )


def _sockets_of(nodes: int, sockets: Sockets) -> tuple[int, tuple[int, ...]]:
    """How many sockets are wanted, and the nodes of each, the highest first."""
    by_socket: dict[int, int] = {}
    for node in ids_of(nodes):
        for socket in ids_of(sockets.of_numa.get(node, 0)):
            by_socket[socket] = by_socket.get(socket, 0) | 1 << node
    return sockets.fewest, tuple(sorted(by_socket.values(), reverse=True))


def _better_of(
    trimming: Trimming, size: int, distance: Distance, best: Best | None, limit: SearchLimit
) -> Best | None:
    """The best mask of so many nodes, or the one that is known."""
    if distance is not nearby:
        return nearest(trimming, size, distance, best, limit)
    mask = next(trimming.masks(size), 0)
    return (0, mask) if mask and (best is None or mask < best[1]) else best


def _lowest(size: int, nodes: int) -> int:
    """The lowest of the nodes, so many."""
    mask = 0
    while size and nodes:
        mask |= nodes & -nodes
        nodes &= nodes - 1
        size -= 1
    return mask


def _liked(voter: Family) -> set[int]:
    """All masks that a voter prefers."""
    if isinstance(voter, HintRule) and voter.sockets is None:
        masks = {mask for mask in voter.extra_masks if mask.bit_count() == voter.width}
        if voter.possible and voter.width >= voter.smallest:
            masks.update(masks_of(voter.width, voter.nodes, voter.needs, voter.touch))
        return masks
    return {mask for mask, preferred in voter if preferred}


# --- not preferred --------------------------------------------------------------------------


def _shared(voters: Sequence[Family], distance: Distance, width: int) -> int:
    """The best mask that is an intersection of one hint of each voter; 0 when there is none."""
    common = voters[0].reach
    for voter in voters:
        common &= voter.reach
    if not common:
        return 0
    if distance is nearby:
        mask = _lowest(width, common)
        if mask.bit_count() == width and _offered_and_covered(mask, voters):
            return mask
    limit = SearchLimit()
    reached = [Trimming(nodes, keepers, limit) for nodes, keepers in _ways(voters)]
    size = 0
    for rank in sizes_by_rank(width, common.bit_count()):
        reached_here = [one for one in reached if _reaches(one, rank)]
        if reached_here:
            size, reached = rank, reached_here
            break
    best: Best | None = None
    for trimming in reached if size else ():
        best = _better_of(trimming, size, distance, best, limit)
    return best[1] if best else 0


def _reaches(trimming: Trimming, size: int) -> bool:
    """True when nodes can be left out until so many are left."""
    count = trimming.nodes.bit_count() - size
    return count >= 0 and trimming.left_out(0, 0, count) is not None


def _offered_and_covered(mask: int, voters: Sequence[Family]) -> bool:
    """True when the mask is a hint of one voter and inside a hint of each."""
    offered = False
    for voter in voters:
        if voter.offers(mask):
            offered = True
        elif not _covers(voter, mask):
            return False
    return offered


def _covers(voter: Family, mask: int) -> bool:
    """True when a hint contains the mask."""
    if isinstance(voter, HintRule):
        if voter.possible and not mask & ~voter.nodes:
            return True
        return any(not mask & ~hint for hint in voter.extra_masks)
    assert isinstance(voter, HintList)
    return any(not mask & ~hint for hint in voter.masks)


def _ways(voters: Sequence[Family]) -> Iterator[tuple[int, list[Keeper]]]:
    """What hints have in common when some are taken as listed and others by rule, and the rules then used."""
    ways: dict[tuple[int, tuple[int, ...]], None] = {(-1, ()): None}
    keepers: list[HintRule] = []
    for voter in voters:
        hints: Iterable[int]
        rule = -1
        if isinstance(voter, HintRule):
            hints = voter.extra_masks
            if voter.possible:
                hints = [mask for mask in hints if not voter.by_rule(mask)]
                if voter not in keepers:
                    keepers.append(voter)
                rule = keepers.index(voter)
        else:
            assert isinstance(voter, HintList)
            hints = voter.masks
        more: dict[tuple[int, tuple[int, ...]], None] = {}
        for nodes, rules in ways:
            for hint in hints:
                if nodes & hint:
                    more[nodes & hint, rules] = None
            if rule >= 0 and nodes & keepers[rule].nodes:
                more[nodes & keepers[rule].nodes, (*rules, rule)] = None
        ways = more
    for nodes, rules in ways:
        yield nodes, [keepers[rule].keeper for rule in rules]


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
