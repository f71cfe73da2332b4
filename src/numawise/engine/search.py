"""A search among sums: which nodes can be left out when several amounts must not be overdrawn.

Each node is left out by one of some keepers, which pays for it from one or several sums, or is kept.  Nodes
are decided one after the other; of all ways to have the same sums left, the one that leaves out most is
followed.

Rules kept here:

1. Prices of the sums (Lagrange multipliers) bound what can still be left out; what cannot reach the goal is
   not followed.
2. Nodes about which the prices leave no doubt are decided first.
3. Few sums are followed at first, the most promising ones: where there is room, that suffices.
4. A search ends with ``SearchEnded`` after ``MOST_STEPS``, never with a wrong answer.
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.errors import SearchEnded

MOST_STEPS = 500_000
ENDED_ADVICE = (
    "ask for what fewer NUMA nodes have, or turn off the option that compares them all "
    "(prefer-closest-numa-nodes, distribute-cpus-across-numa); the kubelet itself compares more"
)
WIDTHS = (4, 16, 256, MOST_STEPS)
"""So many sums are followed at a time: few at first, as few suffice where there is room."""
DOMINATING = 8
"""So many of the most promising sums are compared with each other one."""
SWEEPS, POLISHING = 2, 60
"""Rounds in which prices are looked for; more make bounds only a little better."""
MOMENTUM = 0.5
"""How much of its last direction a price keeps."""
FAR = float("inf")
TOLERANCE = 1e-6
Costs = tuple[tuple[int, int], ...]
"""Which sums pay, and how much."""
Item = tuple[int, bool, Sequence[tuple[int, Costs]]]
"""A node, whether it must be left out, and who could do it at what costs."""
Pool = tuple[int, int, int, int]
"""Nodes, the keeper that loses something when it leaves all of them out, the sum that pays, and how much."""
KEEP = (-2, ())
"""The way not to leave out a node."""


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


class SumSearch:
    """One search: nodes are decided one after the other."""

    __slots__ = (
        "capacities",
        "gains",
        "hopeful",
        "items",
        "last",
        "pools",
        "prices",
        "promises",
        "steps",
        "target",
        "twins",
    )

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
        values = {bit: worth(options, prices, forced=forced) for bit, forced, options in items}
        group: dict[int, int] = {}
        saved: dict[int, float] = {}
        for at, (mask, owner, place, amount) in enumerate(pools):
            members = list(bits_in(mask))
            fresh = not any(bit in group for bit in members)
            for bit in members:
                group.setdefault(bit, at)
            if fresh and all(values[bit][2] == owner for bit in members):
                saved[at] = min(prices[place] * amount, *(values[bit][1] for bit in members))
        regret = {at: max(values[bit][1] for bit in group if group[bit] == at) for at in set(group.values())}

        def order(item: Item) -> tuple[float, int, bool, float, int]:
            bit = item[0]
            at = group.get(bit, -1)
            return -(regret[at] if at >= 0 else values[bit][1]), at, not item[1], -values[bit][1], -bit

        self.items = sorted(items, key=order)
        self.gains = [values[item[0]][0] for item in self.items]
        places = {item[0]: at for at, item in enumerate(self.items)}
        self.last = [max(places[bit] for bit in bits_in(pool[0])) for pool in pools]
        first = {at: min(places[bit] for bit in bits_in(pools[at][0])) for at in saved}
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
        if len(ranked) <= WIDTHS[0]:
            return ranked
        ranked.sort(key=lambda state: -state[0])
        kept: list[tuple[float, tuple[tuple[int, ...], int], int]] = []
        for state in ranked:
            _, (left, broken), nodes = state
            count = nodes.bit_count()
            for _, (more, less), others in kept[:DOMINATING]:
                if (
                    others.bit_count() >= count and not broken & ~less
                ):  # what is broken already cannot be lost
                    for one, other in zip(more, left, strict=True):
                        if one < other:
                            break
                    else:
                        break
            else:
                kept.append(state)
        return kept


def worth(
    options: Sequence[tuple[int, Costs]], prices: Sequence[float], *, forced: bool
) -> tuple[float, float, int]:
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
        for bit in bits_in(mask):
            shares.setdefault((bit, owner), []).append((place, amount / mask.bit_count()))
    return shares


def settled(items: Sequence[Item], pools: Sequence[Pool], capacities: Sequence[int]) -> list[float]:
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


def polished(
    items: Sequence[Item],
    pools: Sequence[Pool],
    capacities: Sequence[int],
    start: Sequence[float],
    target: int,
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


def bits_in(mask: int) -> Iterator[int]:
    """The nodes of a mask, ascending, each as its bit."""
    while mask:
        low = mask & -mask
        yield low
        mask ^= low
