"""Find the NUMA nodes that leave a machine most balanced, without comparing all sets of them.

Counterpart: the search inside ``takeByTopologyNUMADistributed`` of
pkg/kubelet/cm/cpumanager/cpu_assignment.go, which visits the sets of one size in order of positions
and remembers the first of those with the lowest score.  ``engine.cpu.subsets`` does that literally.

Why the answer is the same:

1. A score is a standard deviation, rounded, of what stays free on each node.  The number of nodes and
   the mean are the same for every set, so it depends on the sum of squares alone: a set has the lowest score
   where its gain (``engine.cpu.dealing``) reaches a threshold.
2. The first set in order that reaches it is built position by position, and so is the first of its
   subsets that carry the remainder.
3. The order of visits leaves its mark in the buffers alone: the first places hold what was chosen, the
   others what the last set visited with these first places has there.
4. A score of zero ends the enumeration: sets behind it are not visited, and cannot make it hang.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import isqrt

from numawise.engine.cpu.dealing import IMPOSSIBLE, Deal, DealSearch
from numawise.engine.cpu.endless import never_ends
from numawise.engine.cpu.subsets import BalancedNodes, NeverReturns, best_of_all, rounded
from numawise.engine.search import SearchLimit


def most_balanced(
    nodes: Sequence[int],
    has: Mapping[int, int],
    count: int,
    size: int,
    group: int,
    sockets: Mapping[int, Sequence[int]] | None,
) -> BalancedNodes | None:
    """The most balanced of all sets of so many nodes; None where none can give so many CPUs.

    ``sockets``, by NUMA node: sets of one socket go first, and shares are what the poorest node has.
    """
    if len(has) < len(nodes):  # a node that spans sockets stands there twice
        return best_of_all(nodes, has, count, size, group, sockets)
    free = [has[numa] for numa in nodes]
    limit = SearchLimit()
    every = _pools(range(len(nodes)), free, count, size, group, limit, lower=sockets is not None)
    if not every:
        return None
    inside = []
    if sockets is not None:
        together: dict[int, list[int]] = {}
        for place, numa in enumerate(nodes):
            if len(sockets[numa]) == 1:
                together.setdefault(sockets[numa][0], []).append(place)
        for places in together.values():
            inside += _pools(places, free, count, size, group, limit, lower=True)
    pools = inside or every
    known = max(pool.floor for pool in pools)
    most = _most_gain(pools, known, _least_gain(free, count, known)[0])
    least, balanced = _least_gain(free, count, most)
    firsts = [(first, pool) for pool in pools if (first := pool.first(least)) is not None]
    chosen, pool = min(firsts, key=lambda first: first[0])
    stops = balanced and (sockets is None or bool(inside))
    if any(never_ends(other.deal, other.places, limit, chosen if stops else None) for other in every):
        raise NeverReturns
    members = pool.members_with_groups(chosen)
    remainder = pool.remainder(chosen, members, least)
    return BalancedNodes(
        tuple(nodes[place] for place in _remembered(chosen, len(nodes), stops=stops)),
        tuple(nodes[place] for place in chosen),
        tuple(nodes[pool.places[members[at]]] for at in _remembered(remainder, len(members), stops=False)),
    )


def _most_gain(pools: Sequence["_Pool"], known: int, least: int) -> int:
    """The gain of the best set of all pools, which is at least what is known."""
    most = known
    ceilings = [(ceiling, rounds, pool) for pool in pools for rounds, (ceiling, _) in pool.ceilings.items()]
    ceilings.sort(key=lambda entry: entry[0], reverse=True)
    for ceiling, rounds, pool in ceilings:
        if ceiling <= most:
            break
        most = max(most, pool.search(rounds, least).most(most))
    return most


def _least_gain(free: Sequence[int], count: int, most: int) -> tuple[int, bool]:
    """The least gain with the same score as the most, and whether that score is zero.

    A score has three decimals.  In millionths, the sum of squares around the (rounded) mean is a whole
    number, and the root never ends on half a thousandth unless 64 divides the number of nodes.
    """
    nodes, total = len(free), sum(free) - count
    mean = round(rounded(total / nodes) * 1000)
    squares = sum(cpus * cpus for cpus in free)
    spread = 1_000_000 * (squares - most) - 2000 * mean * total + nodes * mean * mean
    score = (isqrt(4 * spread // nodes) + 1) // 2
    worse = -(-((2 * score + 1) ** 2 * nodes) // 4)  # the first spread with a higher score
    return most - (worse - 1 - spread) // 1_000_000, score == 0


def _remembered(chosen: Sequence[int], places: int, *, stops: bool) -> list[int]:
    """What the buffer holds in the end, where the set was chosen from so many places.

    ``stops``: the enumeration ends when it comes to the next set.
    """
    size = len(chosen)
    if size < 2:
        return list(chosen)
    kept = (1 << (size - 1).bit_length() - 1) + 1  # what was there when the buffer was made
    last = list(range(places - size, places))
    if stops:
        last = _next_set(chosen, places)
        if last[:kept] != list(chosen[:kept]):
            last = list(chosen)
    return [*chosen[:kept], *last[kept:]]


def _next_set(chosen: Sequence[int], places: int) -> list[int]:
    """The set after this one in order of positions; itself where it is the last."""
    size = len(chosen)
    for at in range(size - 1, -1, -1):
        if chosen[at] < places - size + at:
            return [*chosen[:at], *range(chosen[at] + 1, chosen[at] + 1 + size - at)]
    return list(chosen)


def _pools(
    places: Iterable[int],
    free: Sequence[int],
    count: int,
    size: int,
    group: int,
    limit: SearchLimit,
    *,
    lower: bool,
) -> list["_Pool"]:
    """The sets of these places that can give so many CPUs, by the share that each member gives.

    ``lower``: the share may be less than an even one, namely what the poorest member has.
    """
    whole = {place: free[place] // group * group for place in places}
    even = count // size // group * group
    shares = {even}
    if lower:
        shares |= {cpus for cpus in whole.values() if cpus < even}
    pools = []
    for share in sorted(shares, reverse=True):
        members = [place for place, cpus in whole.items() if cpus >= share]
        left = [free[place] - share for place in members]
        deal = Deal(
            left,
            groups=[cpus // group for cpus in left],
            gains=[share * (2 * free[place] - share) for place in members],
            group=group,
            rest=(count - size * share) // group,
            size=size,
            poorest=share < even,
        )
        richest = _richest(deal)
        if richest is not None:
            pools.append(_Pool(members, deal, richest, limit))
    return pools


def _richest(deal: Deal) -> list[int] | None:
    """The set with the most CPUs, the richest node first; None where no set can have the rest."""
    order = sorted(range(len(deal.left)), key=deal.left.__getitem__, reverse=True)
    members = order[: deal.size]
    if len(members) == deal.size and deal.poorest and deal.groups[members[-1]]:
        members[-1:] = [at for at in order if not deal.groups[at]][:1]
    enough = len(members) == deal.size and sum(deal.groups[at] for at in members) >= deal.rest
    return members if enough else None


class _Pool:
    """Sets of so many nodes whose members give one share each."""

    def __init__(self, places: Sequence[int], deal: Deal, richest: Sequence[int], limit: SearchLimit) -> None:
        self.places = places
        self.deal = deal
        self.richest = richest
        self.limit = limit
        self.base = sum(deal.gains[at] for at in richest)
        """What shares alone gain at most."""
        self.searches: dict[int, DealSearch] = {}

    @property
    def floor(self) -> int:
        """Some set gains as much: the richest, with the rest dealt among its richest members."""
        deal = self.deal
        if not deal.rest:
            return self.base
        members = [at for at in self.richest if deal.groups[at]]
        return self.base + max(deal.gain_of(sorted(members[:count])) for count in range(1, len(members) + 1))

    @cached_property
    def ceilings(self) -> dict[int, tuple[int, int]]:
        """By whole rounds: what no set gains more than with these, and what the last group of it gains."""
        deal = self.deal
        if not deal.rest:
            return {0: (self.base, 0)}
        result = {}
        for rounds in range(min(deal.rest, max(deal.groups))):
            gain, price = deal.ceiling(rounds)
            if gain != IMPOSSIBLE:
                result[rounds] = (self.base + gain, price)
        return result

    def search(self, rounds: int, least: int) -> DealSearch:
        """Sets with so many whole rounds and at least this gain; asked again, at least as much."""
        if rounds not in self.searches:
            price = self.ceilings[rounds][1]
            self.searches[rounds] = DealSearch(self.deal, rounds, least - self.base, price, self.limit)
        return self.searches[rounds]

    def first(self, least: int) -> list[int] | None:
        """The places of the first set with at least this gain."""
        firsts = []
        for rounds, (ceiling, _) in self.ceilings.items():
            if ceiling >= least:
                members = self.search(rounds, least).first(self.deal.size, least)
                if members is not None:
                    firsts.append(members)
        return [self.places[at] for at in min(firsts)] if firsts else None

    def members_with_groups(self, chosen: Sequence[int]) -> list[int]:
        """The members of a set, by their numbers, that could have a part of the rest."""
        members = set(chosen)
        return [at for at, place in enumerate(self.places) if place in members and self.deal.groups[at]]

    def remainder(self, chosen: Sequence[int], members: Sequence[int], least: int) -> list[int]:
        """Which of these members have the rest dealt among them, by their positions in the list.

        The kubelet tries many before few, those in order of positions, and remembers the first of the best.
        """
        rest, group = self.deal.rest, self.deal.group
        if not rest:
            return []
        inside = set(chosen)
        shares = zip(self.deal.gains, self.places, strict=True)
        least -= sum(gain for gain, place in shares if place in inside)
        left = [self.deal.left[at] for at in members]
        groups = [self.deal.groups[at] for at in members]
        once = [group * (2 * cpus - group) for cpus in left]
        for size in range(len(members), rest - 1, -1):
            # Only the first ones have a turn; they must leave places for the others behind them.
            window = once[: len(members) - size + rest]
            if sum(sorted(window)[-rest:]) >= least:
                firsts = _first_sum(window, rest, least)
                return [*firsts, *range(firsts[-1] + 1, firsts[-1] + 1 + size - rest)]
        deal = Deal(left, groups, [0] * len(left), group, rest, len(left), poorest=False)
        searches = []
        for rounds in range(1, min(rest, max(groups))):
            ceiling, price = deal.ceiling(rounds)
            if ceiling >= least:
                searches.append(DealSearch(deal, rounds, least, price, self.limit, all_dealt=True))
        for size in range(min(len(members), rest - 1), 0, -1):
            found = [first for search in searches if (first := search.first(size, least)) is not None]
            if found:
                return min(found)
        raise AssertionError("a set that was chosen can carry the rest")


def _first_sum(gains: Sequence[int], size: int, least: int) -> list[int]:
    """The first so many positions whose gains add up to at least so much."""
    members: list[int] = []
    for at, gain in enumerate(gains):
        slots = size - len(members) - 1
        if slots < 0:
            break
        behind = sorted(gains[at + 1 :], reverse=True)
        if len(behind) >= slots and gain + sum(behind[:slots]) >= least:
            members.append(at)
            least -= gain
    return members
