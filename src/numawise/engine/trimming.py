"""Which nodes can be left out of a set while what stays is still enough.

Nodes are looked at from the other side: which of them can be *left out*.  One rule alone leaves out what its
needs can spare; where several rules may leave out nodes independently, each node needs one of them to do it.
What can be left out is then closed downwards, so that one question decides everything: can these nodes, and
so many more, be left out?  A mask is found node by node, the highest first, by asking it at most once a node.

Rules kept here:

1. Nodes that somebody can spare at no cost are not searched at all.  Rules that lose the same with every
   other node only count how many they can spare.
2. One amount beside these is decided by sorting (leave out the poorest nodes first).
3. Several amounts, or amounts that lie on several nodes at once, are searched (``search.py``).
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.engine.search import (
    WIDTHS,
    Costs,
    Item,
    Pool,
    SearchLimit,
    SumSearch,
    bits_in,
    polished,
    settled,
    worth,
)
from numawise.engine.sparing import Keeper, free_of_charge, independent, sparing_of

Quotas = tuple[tuple[int, int], ...]
"""Nodes of which so many may be left out at most; no node is in two of them."""


class Trimming:
    """The ways to leave nodes out of a set, each by one of some keepers."""

    __slots__ = (
        "_answers", "_ceiling", "_kinds", "_options", "_pools", "_prices", "_ranked", "_rest", "_spare",
        "_sparing", "_steps", "_twins", "_wild", "nodes", "possible",
    )  # fmt: skip

    def __init__(self, nodes: int, keepers: Sequence[Keeper], limit: SearchLimit | None = None) -> None:
        self.nodes = nodes
        self._steps = limit or SearchLimit()
        sparing = [sparing_of(keeper, nodes) for keeper in keepers]
        self.possible = all(one is not None for one in sparing)
        """False: some need is not met even by all nodes."""
        self._sparing = [one for one in sparing if one is not None]
        self._spare = 0
        for one in self._sparing:
            self._spare |= free_of_charge(one, nodes)
        self._rest = nodes & ~self._spare
        self._ceiling = self._rest.bit_count()
        self._wild = 0
        self._ranked: list[tuple[int, int]] | None = None
        self._options: dict[int, list[tuple[int, Costs]]] | None = None
        self._kinds: dict[int, int] = {}
        self._pools: list[Pool] = []
        self._prices: list[float] = []
        self._answers: dict[tuple[int, int, int, Quotas], int | None] = {}
        self._twins: list[list[tuple[int, int]]] = []
        """Where the sums of equal keepers begin and end."""
        self._reduce()

    def _reduce(self) -> None:
        """Keep what is hard about the nodes that cost something to everybody (rule 1)."""
        rest, alone = self._rest, len(self._sparing) == 1
        hard = []
        for sparing in self._sparing:
            limits = []
            most = rest.bit_count()
            for limit in sparing.limits:
                limit.pools = [(mask, amount) for mask, amount in limit.pools if not mask & self._spare]
                costs = [limit.costs.get(bit, 0) for bit in bits_in(rest & ~sparing.fixed)]
                if sum(costs) + sum(amount for _, amount in limit.pools) <= limit.capacity:
                    continue
                if not limit.pools and costs.count(costs[0]) == len(costs):
                    most = min(most, limit.capacity // costs[0])
                    if alone:
                        continue
                limits.append(limit)
            uniform = all(
                not limit.pools and len({limit.costs.get(bit, 0) for bit in bits_in(rest)}) == 1
                for limit in limits
            )
            if alone:
                self._ceiling = most
                sparing.limits = independent(limits, rest & ~sparing.fixed)
            elif uniform and not rest & sparing.fixed:
                self._wild += most
                continue
            else:
                sparing.limits = independent(limits, rest & ~sparing.fixed)
            hard.append(sparing)
        self._sparing = hard
        if len(hard) == 1 and len(hard[0].limits) <= 1 and not any(limit.pools for limit in hard[0].limits):
            fixed = hard[0].fixed
            costs_of = hard[0].limits[0].costs if hard[0].limits else {}
            none = (hard[0].limits[0].capacity if hard[0].limits else 0) + 1
            ranked = [(none if bit & fixed else costs_of.get(bit, 0), -bit) for bit in bits_in(rest)]
            self._ranked = sorted(ranked)
            self._kinds = {-bit: cost for cost, bit in ranked}

    def left_out(self, must: int, kept: int, count: int, quotas: Quotas = ()) -> int | None:
        """Nodes that can be left out: all that must be, none to be kept, at least so many.

        None: that is impossible.  ``quotas``: so many of some nodes at most.
        """
        if not self.possible:
            return None
        spare, rest = self._spare & ~kept, self._rest
        here = must & rest
        free = rest & ~must & ~kept
        room = free.bit_count()
        left: Quotas = ()
        if quotas:
            divided = _divided(spare, here, free, must, quotas)
            if divided is None:
                return None
            spare, room, left = divided
        more = max(0, count - spare.bit_count() - here.bit_count())
        if more > room or here.bit_count() + more > self._ceiling:
            return None
        if not here and not more:
            return spare
        if not self._sparing:
            if here.bit_count() + more > self._wild:
                return None
            return spare | here | _highest(free, more, left)
        if self._ranked is not None:
            chosen = self._cheapest(here, free, more, left)
        else:
            question = (here, free, more, left)
            if question not in self._answers:
                self._answers[question] = self._searched(here, free, more, left)
            chosen = self._answers[question]
        return None if chosen is None else spare | chosen

    def _cheapest(self, must: int, free: int, more: int, quotas: Quotas) -> int | None:
        """The must and the poorest of the others (rule 2)."""
        assert self._ranked is not None
        limits = self._sparing[0].limits
        capacity = limits[0].capacity if limits else 0
        chosen, costs = must, []
        rooms = [[mask, room] for mask, room in quotas]
        for cost, negative in self._ranked:
            bit = -negative
            if bit & must:
                costs.append(cost)
            elif more and bit & free and (not rooms or _has_room(rooms, bit)):
                more -= 1
                chosen |= bit
                costs.append(cost)
        if self._wild:
            costs = costs[: -self._wild]
        return chosen if sum(costs) <= capacity else None

    def most(self) -> int:
        """How many nodes can be left out at most; -1: not even none."""
        if not self.possible:
            return -1
        low, high = 0, self.nodes.bit_count()
        while low < high:
            middle = (low + high + 1) // 2
            nodes = self.left_out(0, 0, middle)
            if nodes is None:
                high = middle - 1
            else:
                low = max(middle, nodes.bit_count())
        return low

    def masks(self, size: int, kept: int = 0, quotas: Quotas = ()) -> Iterator[int]:
        """Walk the masks of so many nodes that can be had, by ascending value.

        ``kept``: these nodes are in them; ``quotas``: so many of some nodes at most are not.  Every branch
        that is entered has at least one mask.
        """
        nodes = self.nodes
        count = nodes.bit_count() - size
        if count < 0 or size < max(1, kept.bit_count()) or kept & ~nodes:
            return
        bits = list(bits_in(nodes))[::-1]
        kinds = self.kinds()
        branches: list[tuple[int, int, int, int | None, frozenset[tuple[int, int]]]]
        branches = [(0, 0, kept, None, frozenset())]
        while branches:
            at, out, kept, known, failed = branches.pop()
            if known is None:
                known = self.left_out(out, kept, count, quotas)
                if known is None:
                    continue
            while out.bit_count() < count and kept.bit_count() < size:
                bit = bits[at]
                at += 1
                if bit & kept:
                    continue
                if bit & known:
                    other = known & ~bit if known.bit_count() > count else None
                    branches.append((at, out, kept | bit, other, failed))
                    out |= bit
                    continue
                kind = kinds.get(bit, -bit), _quota_of(bit, quotas)
                without = None if kind in failed else self.left_out(out | bit, kept, count, quotas)
                if without is None:
                    failed |= {kind}
                    kept |= bit
                else:
                    branches.append((at, out, kept | bit, known, failed))
                    known = without
                    out |= bit
            yield kept if kept.bit_count() == size else nodes & ~out

    # --- several amounts (rule 3) ---------------------------------------------------------------

    def kinds(self) -> Mapping[int, int]:
        """Nodes that cost the same, by a common number; nodes that are not listed stand for themselves."""
        if self._sparing and self._ranked is None:
            self._prepare()
        alike = dict.fromkeys(bits_in(self._spare), -1)
        if not self._sparing:
            alike |= dict.fromkeys(bits_in(self._rest), -2)
        return alike | self._kinds

    def prices(self) -> tuple[Mapping[int, float], float]:
        """A price for each node, and what all that are left out may cost together; not more than is true."""
        if not self._sparing:
            return {}, 0.0
        if self._ranked is not None:
            limits = self._sparing[0].limits
            capacity = limits[0].capacity if limits else 0
            by_node = {-bit: float(cost) for cost, bit in self._ranked}
            if self._wild:
                most = sorted(by_node.values(), reverse=True)[min(self._wild, len(by_node)) - 1]
                return {bit: min(cost, most) for bit, cost in by_node.items()}, capacity + most * self._wild
            return by_node, float(capacity)
        items = [(bit, False, options) for bit, options in self._prepare().items()]
        capacities = self._capacities()
        prices = polished(items, self._pools, capacities, settled(items, self._pools, capacities), 0)
        budget = sum(price * capacity for price, capacity in zip(prices, capacities, strict=True))
        return {
            bit: min(1.0, 1 - worth(options, prices, forced=True)[0]) for bit, _, options in items
        }, budget

    def _prepare(self) -> Mapping[int, list[tuple[int, Costs]]]:
        """For each node: who could leave it out, and what that takes of which sum."""
        if self._options is not None:
            return self._options
        sums = 0
        self._options = {bit: [] for bit in bits_in(self._rest)}
        alike: dict[object, list[tuple[int, int]]] = {}
        for number, sparing in enumerate(self._sparing):
            first = sums
            sums += len(sparing.limits)
            if not any(limit.pools for limit in sparing.limits):
                limits = [(limit.capacity, *sorted(limit.costs.items())) for limit in sparing.limits]
                same = (sparing.fixed, *limits)
                alike.setdefault(same, []).append((first, sums))
            for bit, options in self._options.items():
                if not bit & sparing.fixed:
                    costs = [(first + at, limit.costs.get(bit, 0)) for at, limit in enumerate(sparing.limits)]
                    options.append((number, tuple(cost for cost in costs if cost[1])))
            for at, limit in enumerate(sparing.limits):
                self._pools += [
                    (mask, number, first + at, amount)
                    for mask, amount in limit.pools
                    if not mask & sparing.fixed
                ]
        if self._wild:
            for options in self._options.values():
                options.append((-1, ((sums, 1),)))
        self._twins = [places for places in alike.values() if len(places) > 1]
        pooled = 0
        for mask, *_ in self._pools:
            pooled |= mask
        numbers: dict[object, int] = {}
        for bit, options in self._options.items():
            if not bit & pooled:
                self._kinds[bit] = numbers.setdefault(tuple(options), len(numbers))
        return self._options

    def _capacities(self) -> tuple[int, ...]:
        found = [limit.capacity for sparing in self._sparing for limit in sparing.limits]
        return (*found, self._wild) if self._wild else tuple(found)

    def _searched(self, must: int, free: int, more: int, quotas: Quotas) -> int | None:
        """Leave out the must and so many others, by following the sums that can be left."""
        every = self._prepare()
        nodes = must | free
        pools = [pool for pool in self._pools if not pool[0] & ~nodes]
        items: list[Item] = [(bit, bool(bit & must), every[bit]) for bit in bits_in(nodes)]
        if pools:
            items, pools = _apart(items, pools, quotas)
        capacities = self._capacities()
        self._prices = prices = self._prices or settled(items, pools, capacities)
        if quotas:  # each is one more sum
            items = [
                (
                    bit,
                    forced,
                    options if forced else _with_quota(options, len(capacities), _quota_of(bit, quotas)),
                )
                for bit, forced, options in items
            ]
            capacities = (*capacities, *(room for _, room in quotas))
            prices = [*prices, *[0.0] * len(quotas)]
        target = must.bit_count() + more
        for width in WIDTHS:
            search = SumSearch(items, pools, capacities, prices, self._twins, target, self._steps)
            if not search.hopeful:
                return None
            certain, chosen = search.followed(width)
            if certain:
                return chosen
            if width == WIDTHS[0]:
                prices = polished(items, pools, capacities, prices, target)
                self._prices = prices[: len(prices) - len(quotas)]
        return None


def _apart(items: list[Item], pools: Sequence[Pool], quotas: Quotas) -> tuple[list[Item], list[Pool]]:
    """Pools of nodes that differ in nothing else become a cost of the node that is left out last."""
    by_bit = {item[0]: item for item in items}
    rest = []
    for at, (mask, owner, place, amount) in enumerate(pools):
        members = sorted((by_bit[bit] for bit in bits_in(mask)), key=lambda item: (item[1], item[0]))
        last = members[0]
        same = {_quota_of(bit, quotas) for bit, _, _ in members}
        alone = not any(mask & other[0] for number, other in enumerate(pools) if number != at)
        if alone and len(same) == 1 and all(item[2] == last[2] for item in members):
            options = [
                (number, (*costs, (place, amount)) if number == owner else costs) for number, costs in last[2]
            ]
            by_bit[last[0]] = (last[0], last[1], options)
        else:
            rest.append(pools[at])
    return list(by_bit.values()), rest


# --- quotas ---------------------------------------------------------------------------------------


def _divided(spare: int, here: int, free: int, must: int, quotas: Quotas) -> tuple[int, int, Quotas] | None:
    """Spare nodes to leave out, how many others there is room for, and what they may have of each quota."""
    room = free.bit_count()
    left = []
    for mask, most in quotas:
        most -= (here & mask).bit_count()
        forced = must & spare & mask
        most -= forced.bit_count()
        if most < 0:
            return None
        others = _highest(spare & mask & ~must, most)
        most -= others.bit_count()
        spare = spare & ~mask | forced | others
        room -= max(0, (free & mask).bit_count() - most)
        left.append((mask, most))
    return spare, room, tuple(left)


def _has_room(rooms: list[list[int]], bit: int) -> bool:
    """Take a node from its quota, if that has room."""
    for room in rooms:
        if room[0] & bit:
            room[1] -= 1
            return room[1] >= 0
    return True


def _quota_of(bit: int, quotas: Quotas) -> int:
    """Which quota a node belongs to; -1: none."""
    for at, (mask, _) in enumerate(quotas):
        if mask & bit:
            return at
    return -1


def _with_quota(options: Sequence[tuple[int, Costs]], first: int, quota: int) -> Sequence[tuple[int, Costs]]:
    if quota < 0:
        return options
    return [(number, (*costs, (first + quota, 1))) for number, costs in options]


# --- what a keeper can spare ----------------------------------------------------------------------


def _highest(mask: int, count: int, quotas: Quotas = ()) -> int:
    """The highest nodes of a mask, so many."""
    rooms = [[nodes, room] for nodes, room in quotas]
    chosen = 0
    while count > 0 and mask:
        bit = 1 << mask.bit_length() - 1
        mask ^= bit
        if not rooms or _has_room(rooms, bit):
            chosen |= bit
            count -= 1
    return chosen
