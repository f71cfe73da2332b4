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
from functools import lru_cache
from itertools import islice

from numawise.errors import SearchEnded
from numawise.sets import ids_of
from numawise.values import dataclass

MOST_STEPS = 500_000
ENDED_ADVICE = (
    "ask for what fewer NUMA nodes have, or turn off the option that compares them all "
    "(prefer-closest-numa-nodes, distribute-cpus-across-numa); the kubelet itself compares more"
)
WIDTHS = (4, 16, 256, MOST_STEPS)
"""So many sums are followed at a time: few at first, as few suffice where there is room."""
DOMINATING = 32
"""So many of the most promising sums are compared with each other one."""
SWEEPS, POLISHING = 2, 60
"""Rounds in which prices are looked for; more make bounds only a little better."""
MOMENTUM = 0.5
"""How much of its last direction a price keeps."""
FAR = float("inf")
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
        "_answers", "_ceiling", "_kinds", "_options", "_pools", "_prices", "_ranked", "_rest", "_spare", "_sparing", "_steps",
        "_twins", "_wild", "nodes", "possible",
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
        self._answers: dict[tuple[int, int, int], int | None] = {}
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
        if self._ranked is not None:
            chosen = self._cheapest(here, free, more)
        else:
            question = (here, free, more)
            if question not in self._answers:
                self._answers[question] = self._searched(here, free, more)
            chosen = self._answers[question]
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
        prices = _polished(items, self._pools, capacities, _settled(items, self._pools, capacities), 0)
        budget = sum(price * capacity for price, capacity in zip(prices, capacities, strict=True))
        return {bit: min(1.0, 1 - _worth(True, options, prices)[0]) for bit, _, options in items}, budget

    def _prepare(self) -> Mapping[int, list[tuple[int, tuple[tuple[int, int], ...]]]]:
        """For each node: who could leave it out, and what that takes of which sum."""
        if self._options is not None:
            return self._options
        sums = 0
        self._options = {bit: [] for bit in _bits(self._rest)}
        alike: dict[object, list[tuple[int, int]]] = {}
        for number, sparing in enumerate(self._sparing):
            first = sums
            sums += len(sparing.limits)
            if not any(limit.pools for limit in sparing.limits):
                same = (sparing.fixed, *((tuple(sorted(l.costs.items())), l.capacity) for l in sparing.limits))
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

    def _searched(self, must: int, free: int, more: int) -> int | None:
        """Leave out the must and so many others, by following the sums that can be left."""
        every = self._prepare()
        nodes = must | free
        pools = [pool for pool in self._pools if not pool[0] & ~nodes]
        items = [(bit, bool(bit & must), every[bit]) for bit in _bits(nodes)]
        capacities = self._capacities()
        prices = self._prices or _settled(items, pools, capacities)
        target = must.bit_count() + more
        for width in WIDTHS:
            search = _Sums(items, pools, capacities, prices, self._twins, target, self._steps)
            if not search.hopeful:
                return None
            certain, chosen = search.followed(width)
            if certain:
                return chosen
            if width == WIDTHS[0]:
                self._prices = prices = _polished(items, pools, capacities, prices, target)
        return None


# --- following sums (rule 3) --------------------------------------------------------------------

Costs = tuple[tuple[int, int], ...]
"""Which sums pay, and how much."""
Item = tuple[int, bool, Sequence[tuple[int, Costs]]]
"""A node, whether it must be left out, and who could do it at what costs."""
Pool = tuple[int, int, int, int]
"""Nodes, the keeper that loses something when it leaves all of them out, the sum that pays, and how much."""
KEEP = (-2, ())
"""The way not to leave out a node."""


class _Sums:
    """One search: nodes are decided one after the other, and of equal sums the one with most nodes is followed."""

    __slots__ = ("capacities", "gains", "hopeful", "items", "last", "pools", "prices", "promises", "steps", "target", "twins")

    def __init__(
        self,
        items: Sequence[Item],
        pools: Sequence[Pool],
        capacities: tuple[int, ...],
        prices: Sequence[float],
        twins: Sequence[Sequence[tuple[int, int]]],
        target: int,
        steps: SearchLimit,
    ) -> None:
        self.capacities = capacities
        self.pools = pools
        self.prices = prices
        self.twins = twins
        self.target = target
        self.steps = steps
        worth = {bit: _worth(forced, options, prices) for bit, forced, options in items}
        group: dict[int, int] = {}
        saved: dict[int, float] = {}
        for at, (mask, owner, place, amount) in enumerate(pools):
            members = list(_bits(mask))
            fresh = not any(bit in group for bit in members)
            for bit in members:
                group.setdefault(bit, at)
            if fresh and all(worth[bit][2] == owner for bit in members):
                saved[at] = min(prices[place] * amount, *(worth[bit][1] for bit in members))
        regret = {at: max(worth[bit][1] for bit in group if group[bit] == at) for at in set(group.values())}

        def order(item: Item) -> tuple[float, int, bool, float, int]:
            bit = item[0]
            at = group.get(bit, -1)
            return -(regret[at] if at >= 0 else worth[bit][1]), at, not item[1], -worth[bit][1], -bit

        self.items = sorted(items, key=order)
        self.gains = [worth[item[0]][0] for item in self.items]
        places = {item[0]: at for at, item in enumerate(self.items)}
        self.last = [max(places[bit] for bit in _bits(pool[0])) for pool in pools]
        first = {at: min(places[bit] for bit in _bits(pools[at][0])) for at in saved}
        self.promises = [0.0] * (len(self.items) + 1)
        """What all nodes from a place on could add at these prices."""
        for at in range(len(self.items) - 1, -1, -1):
            lost = sum([loss for pool, loss in saved.items() if first[pool] == at])
            self.promises[at] = self.promises[at + 1] + self.gains[at] - lost
        budget = sum([price * capacity for price, capacity in zip(prices, capacities, strict=True)])
        self.hopeful = budget + self.promises[0] >= target - TOLERANCE

    def followed(self, width: int) -> tuple[bool, int | None]:
        """Whether the answer is certain, and the nodes; at most ``width`` sums are followed at a time."""
        items, pools, last, target = self.items, self.pools, self.last, self.target
        forced_left = sum(forced for _, forced, _ in items)
        # sums left and pools no longer whole → nodes left out
        states: dict[tuple[tuple[int, ...], int], int] = {(self.capacities, 0): 0}
        certain = True
        for at, (bit, forced, options) in enumerate(items):
            forced_left -= forced
            remaining = len(items) - at - 1
            touched = [(i, pool) for i, pool in enumerate(pools) if pool[0] & bit]
            ways = options if forced else [*options, KEEP]
            found: dict[tuple[tuple[int, ...], int], int] = {}
            self.steps.step(len(states))
            for (left, broken), nodes in states.items():
                for number, costs in ways:
                    now, holes, more = left, broken, nodes
                    if number != KEEP[0]:
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
                    if self.twins:
                        now = self._sorted(now)
                    key = (now, holes)
                    before = found.get(key)
                    if before is None or before.bit_count() < count:
                        found[key] = more
            ranked = self._ranked(found, self.promises[at + 1])
            if len(ranked) > width:
                certain = False
                del ranked[width:]
            states = {key: nodes for _, key, nodes in ranked}
            if not states:
                return certain, None
        return certain, None

    def _sorted(self, sums: tuple[int, ...]) -> tuple[int, ...]:
        """The same with what equal keepers have left in order, as it does not matter which is which."""
        for places in self.twins:
            parts = sorted(sums[first:end] for first, end in places)
            for (first, end), part in zip(places, parts, strict=True):
                sums = (*sums[:first], *part, *sums[end:])
        return sums

    def _ranked(
        self, found: Mapping[tuple[tuple[int, ...], int], int], promise: float
    ) -> list[tuple[float, tuple[tuple[int, ...], int], int]]:
        """The states that could succeed, the most promising first, without those that another one beats."""
        least = self.target - TOLERANCE - promise
        ranked = []
        for key, nodes in found.items():
            bound: float = nodes.bit_count()
            for price, rest in zip(self.prices, key[0], strict=True):
                bound += price * rest
            if bound >= least:
                ranked.append((bound, key, nodes))
        ranked.sort(key=lambda state: -state[0])
        kept: list[tuple[float, tuple[tuple[int, ...], int], int]] = []
        for state in ranked:
            _, (left, broken), nodes = state
            count = nodes.bit_count()
            for _, (more, less), others in kept[:DOMINATING]:
                if others.bit_count() >= count and not broken & ~less:  # what is broken already cannot be lost
                    for one, other in zip(more, left, strict=True):
                        if one < other:
                            break
                    else:
                        break
            else:
                kept.append(state)
        return kept


def _worth(forced: bool, options: Sequence[tuple[int, Costs]], prices: Sequence[float]) -> tuple[float, float, int]:
    """What leaving out a node is worth at these prices, what any other way is worth less, and who does it."""
    values = [(1 - sum([prices[at] * cost for at, cost in costs]), number) for number, costs in options]
    if not forced:
        values.append((0.0, KEEP[0]))
    if not values:
        return -1e9, 0.0, KEEP[0]
    best, number = max(values)
    others = [value for value, other in values if other != number]
    return best, best - max(others, default=best - 1e9), number


def _shares(pools: Sequence[Pool]) -> Mapping[tuple[int, int], list[tuple[int, float]]]:
    """What each node of a pool bears of it when prices are looked for, by node and keeper."""
    shares: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for mask, owner, place, amount in pools:
        for bit in _bits(mask):
            shares.setdefault((bit, owner), []).append((place, amount / mask.bit_count()))
    return shares


def _settled(items: Sequence[Item], pools: Sequence[Pool], capacities: Sequence[int]) -> list[float]:
    """First prices of all sums: each alone is made to pay for what it can just not afford."""
    prices = [0.0] * len(capacities)
    shares = _shares(pools)
    demand = [0.0] * len(capacities)
    for bit, _, options in items:
        for number, costs in options:
            for place, cost in (*costs, *shares.get((bit, number), ())):
                demand[place] += cost
    scarcest = sorted(range(len(capacities)), key=lambda at: capacities[at] / (demand[at] or 1.0))
    for _ in range(SWEEPS):
        for at in scarcest:
            capacity = capacities[at]
            ratios = []
            for bit, forced, options in items:
                other = float("inf") if forced else 1.0
                base = cost_here = 0.0
                for number, costs in options:
                    price = here = 0.0
                    for place, cost in (*costs, *shares.get((bit, number), ())):
                        if place == at:
                            here += cost
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
                if spent > capacity and ratio < float("inf"):
                    prices[at] = ratio
                    break
    return prices


def _polished(
    items: Sequence[Item], pools: Sequence[Pool], capacities: Sequence[int], start: Sequence[float], target: int
) -> list[float]:
    """Better prices: those of sums that are overdrawn rise, others fall, as long as the bound gets lower."""
    scale = [float(max(capacity, 1)) for capacity in capacities]
    shares = _shares(pools)
    choices = []
    for bit, forced, options in items:
        ways = [
            [(at, cost / scale[at]) for at, cost in (*costs, *shares.get((bit, number), ()))]
            for number, costs in options
        ]
        choices.append((forced, ways))
    prices = [price * unit for price, unit in zip(start, scale, strict=True)]
    best, lowest = prices, float("inf")
    full = [1.0 if capacity else 0.0 for capacity in capacities]
    reach = 1.0
    course = [0.0] * len(capacities)
    for _ in range(POLISHING):
        bound = sum([price * whole for price, whole in zip(prices, full, strict=True)])
        left = list(full)
        for forced, ways in choices:
            cheapest = FAR if forced else 1.0
            chosen: list[tuple[int, float]] = []
            for way in ways:
                price = 0.0
                for at, cost in way:
                    price += prices[at] * cost
                if price < cheapest:
                    cheapest, chosen = price, way
            if chosen or forced:
                bound += 1 - cheapest
            for at, cost in chosen:
                left[at] -= cost
        if bound < lowest - TOLERANCE:
            best, lowest = prices, bound
            if bound < target - TOLERANCE:
                break
        else:
            reach *= 0.8
        course = [MOMENTUM * before + part for before, part in zip(course, left, strict=True)]
        length = sum([part * part for part in course])
        if not length:
            break
        step = reach * (bound - target + 0.5) / length
        prices = [max(0.0, price - step * part) for price, part in zip(prices, course, strict=True)]
    return [price / unit for price, unit in zip(best, scale, strict=True)]


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
