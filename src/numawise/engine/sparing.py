"""What one rule can spare: the amounts that bind, and the nodes that cost nothing.

A rule keeps nodes so that all its needs are met; what it has beyond them may be left out.
"""

from collections.abc import Sequence

from numawise.engine.search import bits_in
from numawise.values import dataclass


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
class SpareLimit:
    """What a keeper can spare of one amount."""

    costs: dict[int, int]
    """Node (its bit) → what is lost with it."""
    pools: list[tuple[int, int]]
    """Several nodes → what is lost when all of them are left out."""
    capacity: int


@dataclass(slots=True)
class Sparing:
    """What one keeper can leave out, reduced to the limits that can bind."""

    limits: list[SpareLimit]
    fixed: int
    """Nodes that it must keep."""


def sparing_of(keeper: Keeper, nodes: int) -> Sparing | None:
    """The limits of a keeper over the nodes that may be left out; None when it has too little anyway."""
    own = keeper.nodes
    limits = []
    fixed = 0
    for need in keeper.needs:
        limit = SpareLimit({}, [], -need.least)
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
            limits.append(SpareLimit({}, [(here, 1)], 0))
        else:
            fixed |= here
    spare = own.bit_count() - keeper.smallest
    if spare < 0:
        return None
    if spare < nodes.bit_count():
        limits.append(SpareLimit(dict.fromkeys(bits_in(nodes), 1), [], spare))
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
    return Sparing(binding, fixed)


def free_of_charge(sparing: Sparing, nodes: int) -> int:
    """Nodes that a keeper can leave out and lose nothing."""
    free = nodes & ~sparing.fixed
    for limit in sparing.limits:
        for bit in limit.costs:
            free &= ~bit
        for mask, _ in limit.pools:
            free &= ~mask
    return free


def independent(limits: Sequence[SpareLimit], nodes: int) -> list[SpareLimit]:
    """The limits without those that another one implies."""
    found: list[SpareLimit] = []
    for at, limit in enumerate(limits):
        implied = not limit.pools and any(
            all(
                limit.costs.get(bit, 0) * other.capacity <= other.costs.get(bit, 0) * limit.capacity
                for bit in bits_in(nodes)
            )
            for other in (*found, *limits[at + 1 :])
            if not other.pools
        )
        if not implied:
            found.append(limit)
    return found
