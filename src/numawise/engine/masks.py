"""Sets of NUMA nodes that keep enough: how small they can be, the lowest of a size, and all in order.

Nodes are looked at from the other side: which of them can be *left out*.  One rule alone leaves out what its
needs can spare; where several rules may leave out nodes independently, each node needs one of them to do it.
What can be left out is then closed downwards, so that one question decides everything: can these nodes, and
so many more, be left out?  A mask is found node by node, the highest first, by asking it at most once a node.

Rules kept here:

1. Nodes that somebody can spare at no cost are not searched at all.  Rules that lose the same with every other
   node only count how many they can spare.
2. One amount beside these is decided by sorting (leave out the poorest nodes first).
3. Several amounts, or amounts that lie on several nodes at once, are searched node by node, over the sums that
   can be left; a bound on what prices (Lagrange multipliers) allow ends what cannot succeed.
4. Such a search ends with ``SearchEnded`` after ``MOST_STEPS``, never with a wrong answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from numawise.errors import SearchEnded
from numawise.sets import ids_of
from numawise.values import dataclass

MOST_STEPS = 500_000
ENDED_ADVICE = (
    "ask for what fewer NUMA nodes have, or turn off the option that compares them all "
    "(prefer-closest-numa-nodes, distribute-cpus-across-numa); the kubelet itself compares more"
)
WIDTHS = (4, 64, MOST_STEPS)
"""So many sums are followed at a time: few at first, as few suffice where there is room."""
SWEEPS = 3
"""Rounds in which prices are settled; more make bounds only a little better."""
TOLERANCE = 1e-6


class SearchLimit:
    """Counts the steps of one search, and ends it with ``SearchEnded`` when these are too many."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def step(self, count: int = 1) -> None:
        """More sets of NUMA nodes, or parts of them, are looked at."""
        self.left -= count
        if self.left < 0:
            what = f"not known: the search among sets of NUMA nodes was ended after {MOST_STEPS:,} steps"
            raise SearchEnded(what, advice=ENDED_ADVICE)


@dataclass(frozen=True, slots=True)
class Need:
    """So much of something inside a mask; each amount counts when the mask touches its nodes."""

    amounts: tuple[tuple[int, int], ...]
    least: int

    def met_by(self, mask: int) -> bool:
        """True when the mask brings enough together."""
        total = 0
        for nodes, amount in self.amounts:
            if nodes & mask:
                total += amount
        return total >= self.least


@dataclass(frozen=True, slots=True)
class Keeper:
    """One rule that may leave out nodes as long as the rest of its own meets all needs."""

    nodes: int
    needs: Sequence[Need]
    touch: Sequence[int] = ()
    """Node sets of which one node each must stay."""
    smallest: int = 1


@dataclass(slots=True)
class _Limit:
    """What a keeper can spare of one amount."""

    costs: dict[int, int]
    """Node (its bit) → what is lost with it."""
    pools: list[tuple[int, int]]
    """Several nodes → what is lost when all of them are left out."""
    capacity: int


@dataclass(slots=True)
class _Sparing:
    """What one keeper can leave out, reduced to the limits that can bind."""

    limits: list[_Limit]
    fixed: int
    """Nodes that it must keep."""


class Trimming:
    """The ways to leave nodes out of a set, each by one of some keepers."""

    __slots__ = (
        "_ceiling", "_kinds", "_options", "_pools", "_prices", "_ranked", "_rest", "_spare", "_sparing", "_steps",
        "_wild", "nodes", "possible",
    )  # fmt: skip

    def __init__(self, nodes: int, keepers: Sequence[Keeper], limit: SearchLimit | None = None) -> None:
        self.nodes = nodes
        self._steps = limit or SearchLimit()
        sparing = [_sparing(keeper, nodes) for keeper in keepers]
        self.possible = all(one is not None for one in sparing)
        """False: some need is not met even by all nodes."""
        self._sparing = [one for one in sparing if one is not None]
        self._spare = 0
        for one in self._sparing:
            self._spare |= _free_of_charge(one, nodes)
        self._rest = nodes & ~self._spare
        self._ceiling = self._rest.bit_count()
        self._wild = 0
        self._ranked: list[tuple[int, int]] | None = None
        self._options: dict[int, list[tuple[int, tuple[tuple[int, int], ...]]]] | None = None
        self._kinds: dict[int, int] = {}
        self._pools: list[tuple[int, int, int, int]] = []
        self._prices: list[float] = []
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
                costs = [limit.costs.get(bit, 0) for bit in _bits(rest & ~sparing.fixed)]
                if sum(costs) + sum(amount for _, amount in limit.pools) <= limit.capacity:
                    continue
                if not limit.pools and costs.count(costs[0]) == len(costs):
                    most = min(most, limit.capacity // costs[0])
                    if alone:
                        continue
                limits.append(limit)
            uniform = all(
                not limit.pools and len({limit.costs.get(bit, 0) for bit in _bits(rest)}) == 1
                for limit in limits
            )
            if alone:
                self._ceiling = most
                sparing.limits = _independent(limits, rest & ~sparing.fixed)
            elif uniform and not rest & sparing.fixed:
                self._wild += most
                continue
            else:
                sparing.limits = _independent(limits, rest & ~sparing.fixed)
            hard.append(sparing)
        self._sparing = hard
        if len(hard) == 1 and len(hard[0].limits) <= 1 and not any(limit.pools for limit in hard[0].limits):
            fixed = hard[0].fixed
            costs_of = hard[0].limits[0].costs if hard[0].limits else {}
            none = (hard[0].limits[0].capacity if hard[0].limits else 0) + 1
            ranked = [(none if bit & fixed else costs_of.get(bit, 0), -bit) for bit in _bits(rest)]
            self._ranked = sorted(ranked)
            self._kinds = {-bit: cost for cost, bit in ranked}

    def left_out(self, must: int, kept: int, count: int) -> int | None:
        """Nodes that can be left out: those that must be, none to be kept, at least so many; None: impossible."""
        if not self.possible:
            return None
        spare, rest = self._spare & ~kept, self._rest
        here = must & rest
        more = max(0, count - spare.bit_count() - here.bit_count())
        free = rest & ~must & ~kept
        if more > free.bit_count() or here.bit_count() + more > self._ceiling:
            return None
        if not here and not more:
            return spare
        if not self._sparing:
            if here.bit_count() + more > self._wild:
                return None
            return spare | here | _highest(free, more)
        chosen = self._cheapest(here, free, more) if self._ranked is not None else self._searched(here, free, more)
        return None if chosen is None else spare | chosen

    def _cheapest(self, must: int, free: int, more: int) -> int | None:
        """The must and the poorest of the others (rule 2)."""
        assert self._ranked is not None
        limits = self._sparing[0].limits
        capacity = limits[0].capacity if limits else 0
        chosen, costs = must, []
        for cost, negative in self._ranked:
            bit = -negative
            if bit & must:
                costs.append(cost)
            elif more and bit & free:
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

    def masks(self, size: int, kept: int = 0) -> Iterator[int]:
        """Walk the masks of so many nodes that can be had, by ascending value; ``kept``: with these nodes.

        Every branch that is entered has at least one mask.
        """
        nodes = self.nodes
        count = nodes.bit_count() - size
        if count < 0 or size < max(1, kept.bit_count()) or kept & ~nodes:
            return
        bits = list(_bits(nodes))[::-1]
        kinds = self.kinds()
        branches: list[tuple[int, int, int, int | None, frozenset[int]]] = [(0, 0, kept, None, frozenset())]
        while branches:
            at, out, kept, known, failed = branches.pop()
            if known is None:
                known = self.left_out(out, kept, count)
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
                kind = kinds.get(bit, -bit)
                without = None if kind in failed else self.left_out(out | bit, kept, count)
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
        alike = dict.fromkeys(_bits(self._spare), -1)
        if not self._sparing:
            alike |= dict.fromkeys(_bits(self._rest), -2)
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
        prices = _settled(items, capacities, ()) or [0.0] * len(capacities)
        budget = sum(price * capacity for price, capacity in zip(prices, capacities, strict=True))
        return {bit: min(1.0, 1 - _gain(forced=True, options=options, prices=prices)) for bit, _, options in items}, budget

    def _prepare(self) -> Mapping[int, list[tuple[int, tuple[tuple[int, int], ...]]]]:
        """For each node: who could leave it out, and what that takes of which sum."""
        if self._options is not None:
            return self._options
        sums = 0
        self._options = {bit: [] for bit in _bits(self._rest)}
        for number, sparing in enumerate(self._sparing):
            first = sums
            sums += len(sparing.limits)
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

    def _searched(self, must: int, free: int, more: int) -> int | None:
        """Leave out the must and so many others, by following the sums that can be left."""
        target = must.bit_count() + more
        every = self._prepare()
        nodes = must | free
        capacities = self._capacities()
        pools = [pool for pool in self._pools if not pool[0] & ~nodes]
        items = [(bit, bool(bit & must), every[bit]) for bit in _bits(nodes)]
        prices = _settled(items, capacities, self._prices)
        if prices is None:
            return None
        self._prices = prices
        gains = {bit: _gain(forced, options, prices) for bit, forced, options in items}
        budget = sum(price * capacity for price, capacity in zip(prices, capacities, strict=True))
        if budget + sum(gains.values()) < target - TOLERANCE:
            return None
        group = {bit: min((at for at, pool in enumerate(pools) if pool[0] & bit), default=len(pools)) for bit in gains}
        items.sort(key=lambda item: (group[item[0]], not item[1], -gains[item[0]], -item[0]))
        for width in WIDTHS:
            done, chosen = self._followed(items, gains, pools, prices, target, width)
            if done:
                return chosen
        return None

    def _followed(
        self,
        items: Sequence[tuple[int, bool, list[tuple[int, tuple[tuple[int, int], ...]]]]],
        gains: Mapping[int, float],
        pools: Sequence[tuple[int, int, int, int]],
        prices: Sequence[float],
        target: int,
        width: int,
    ) -> tuple[bool, int | None]:
        """Whether the answer is certain, and the nodes; at most ``width`` sums are followed at a time."""
        promise = sum(gains.values())
        forced_left = sum(forced for _, forced, _ in items)
        last = {at: max(i for i, item in enumerate(items) if item[0] & pool[0]) for at, pool in enumerate(pools)}
        # sums left and pools no longer whole → nodes left out
        states: dict[tuple[tuple[int, ...], int], int] = {(self._capacities(), 0): 0}
        certain = True
        for at, (bit, forced, options) in enumerate(items):
            promise -= gains[bit]
            forced_left -= forced
            remaining = len(items) - at - 1
            touched = [(i, pool) for i, pool in enumerate(pools) if pool[0] & bit]
            ways = options if forced else [(-2, ()), *options]
            found: dict[tuple[tuple[int, ...], int], int] = {}
            self._steps.step(len(states))
            for (left, broken), nodes in states.items():
                for number, costs in ways:
                    now, holes, more = left, broken, nodes
                    if number != -2:
                        more |= bit
                        if costs:
                            sums = list(left)
                            for place, cost in costs:
                                sums[place] -= cost
                            if min(sums) < 0:
                                continue
                            now = tuple(sums)
                    for i, (_, owner, place, amount) in touched:
                        if owner != number:
                            holes |= 1 << i
                        if last[i] == at:
                            if not holes >> i & 1:
                                now = (*now[:place], now[place] - amount, *now[place + 1 :])
                            holes &= ~(1 << i)
                    if touched and min(now, default=0) < 0:
                        continue
                    count = more.bit_count()
                    if count + remaining < target:
                        continue
                    if count >= target and not forced_left:
                        return True, more
                    key = (now, holes)
                    before = found.get(key)
                    if before is None or before.bit_count() < count:
                        found[key] = more
            ranked = []
            for (left, broken), nodes in found.items():
                bound = nodes.bit_count() + promise
                for price, rest in zip(prices, left, strict=True):
                    bound += price * rest
                if bound >= target - TOLERANCE:
                    ranked.append((bound, (left, broken), nodes))
            if len(ranked) > width:
                certain = False
                ranked.sort(key=lambda state: -state[0])
                del ranked[width:]
            states = {key: nodes for _, key, nodes in ranked}
            if not states:
                return certain, None
        return certain, None


def _gain(
    forced: bool, options: Sequence[tuple[int, tuple[tuple[int, int], ...]]], prices: Sequence[float]
) -> float:
    """What leaving out a node is worth at these prices."""
    cheapest = min((sum([prices[at] * cost for at, cost in costs]) for _, costs in options), default=1e9)
    return 1 - cheapest if forced else max(0.0, 1 - cheapest)


def _settled(
    items: Sequence[tuple[int, bool, Sequence[tuple[int, tuple[tuple[int, int], ...]]]]],
    capacities: Sequence[int],
    start: Sequence[float],
) -> list[float] | None:
    """Prices of all sums for a good bound; None where a sum cannot even pay for what it alone must."""
    prices = list(start) or [0.0] * len(capacities)
    for _ in range(SWEEPS):
        for at, capacity in enumerate(capacities):
            ratios = []
            for _, forced, options in items:
                other = float("inf") if forced else 1.0
                base = cost_here = 0.0
                for _, costs in options:
                    price = 0.0
                    here = 0
                    for place, cost in costs:
                        if place == at:
                            here = cost
                        else:
                            price += prices[place] * cost
                    if here:
                        base, cost_here = price, here
                    else:
                        other = min(other, price)
                if cost_here and other > base:
                    ratios.append(((other - base) / cost_here, cost_here))
            ratios.sort(reverse=True)
            prices[at] = 0.0
            spent = 0.0
            for ratio, cost in ratios:
                spent += cost
                if spent > capacity:
                    if ratio == float("inf"):
                        return None
                    prices[at] = ratio
                    break
    return prices


# --- what a keeper can spare ----------------------------------------------------------------------


def _sparing(keeper: Keeper, nodes: int) -> _Sparing | None:
    """The limits of a keeper over the nodes that may be left out; None when it has too little anyway."""
    own = keeper.nodes
    limits = []
    fixed = 0
    for need in keeper.needs:
        limit = _Limit({}, [], -need.least)
        together: dict[int, int] = {}
        for mask, amount in need.amounts:
            here = mask & own
            if here:
                limit.capacity += amount
                if not here & ~nodes:
                    together[here] = together.get(here, 0) + amount
        if limit.capacity < 0:
            return None
        for mask, amount in together.items():
            if mask & (mask - 1):
                limit.pools.append((mask, amount))
            elif amount:
                limit.costs[mask] = amount
        limits.append(limit)
    for mask in keeper.touch:
        here = mask & own
        if not here:
            return None
        if here & ~nodes:
            continue
        if here & (here - 1):
            limits.append(_Limit({}, [(here, 1)], 0))
        else:
            fixed |= here
    spare = own.bit_count() - keeper.smallest
    if spare < 0:
        return None
    if spare < nodes.bit_count():
        limits.append(_Limit(dict.fromkeys(_bits(nodes), 1), [], spare))
    for limit in limits:
        for bit, cost in limit.costs.items():
            if cost > limit.capacity:
                fixed |= bit
    binding = []
    for limit in limits:
        total = sum([cost for bit, cost in limit.costs.items() if not bit & fixed])
        limit.pools = [(mask, amount) for mask, amount in limit.pools if not mask & fixed]
        if total + sum([amount for _, amount in limit.pools]) > limit.capacity:
            binding.append(limit)
    return _Sparing(binding, fixed)


def _free_of_charge(sparing: _Sparing, nodes: int) -> int:
    """Nodes that a keeper can leave out and lose nothing."""
    free = nodes & ~sparing.fixed
    for limit in sparing.limits:
        for bit in limit.costs:
            free &= ~bit
        for mask, _ in limit.pools:
            free &= ~mask
    return free


def _independent(limits: Sequence[_Limit], nodes: int) -> list[_Limit]:
    """The limits without those that another one implies."""
    found: list[_Limit] = []
    for at, limit in enumerate(limits):
        implied = not limit.pools and any(
            all(
                limit.costs.get(bit, 0) * other.capacity <= other.costs.get(bit, 0) * limit.capacity
                for bit in _bits(nodes)
            )
            for other in (*found, *limits[at + 1 :])
            if not other.pools
        )
        if not implied:
            found.append(limit)
    return found


# --- one rule alone -------------------------------------------------------------------------------


def fewest_nodes(nodes: int, needs: Sequence[Need], touch: Sequence[int] = (), smallest: int = 1) -> int:
    """Size of the smallest mask that meets all needs; 0 when there is none."""
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
    try:
        masks.extend(islice(masks_of(size, nodes, needs, touch), most))
    except SearchEnded:
        pass
    return masks


def _bits(mask: int) -> Iterator[int]:
    """The nodes of a mask, ascending, each as its bit."""
    while mask:
        low = mask & -mask
        yield low
        mask ^= low


def _highest(mask: int, count: int) -> int:
    """The highest nodes of a mask, so many."""
    for node in ids_of(mask):
        if mask.bit_count() <= count:
            break
        mask &= ~(1 << node)
    return mask
