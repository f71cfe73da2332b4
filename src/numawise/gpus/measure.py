"""How good a choice of GPUs is, as one number, and the best choices where links are nested.

Rules kept here:

1. First the links of the chosen GPUs: the points of all their pairs.
2. Among equals, what the GPUs left over are still good for, by sizes of later jobs: as many as this one asks
   for, then 2, 4, 8 and so on.  For a size *m* it is the points of all pairs inside of jobs when the rest is
   divided into jobs of *m* and a smaller one, in the best way.
3. Up to ``MOST_DIVIDED`` free GPUs all ways are tried.  With more, the best way is chosen level by level of
   links: a group are GPUs that reach each other over links of at least that level, and *c* of them fill
   ``c // m`` jobs and part of another.  Where links are nested (pairs in switches in NUMA nodes) jobs can
   nearly always be fitted so; in a mesh it may promise too much.
4. Among equals still, the lowest positions.

A *worth* is one int: the digits of rules 1 and 2, ``WIDTH`` bits each, above the positions with the lowest
one as the highest bit.  The greater worth is the better choice, worths of parts of a nested machine add up,
and the choice itself can be read off it.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from operator import itemgetter

from numawise.sets import bits_of, ids_of
from numawise.values import dataclass

WIDTH = 40
"""Room for the points of all pairs of 4,096 GPUs."""
MOST_DIVIDED = 10


class Measure:
    """The worth of choices of ``count`` out of the ``free`` GPUs."""

    __slots__ = (
        "count",
        "free",
        "known",
        "order",
        "pairs",
        "points",
        "positions",
        "rest",
        "shifts",
        "sizes",
        "small",
    )

    def __init__(self, points: Sequence[Sequence[int]], free: int, count: int) -> None:
        self.points, self.free, self.count = points, free, count
        self.positions = free.bit_length()
        total = free.bit_count()
        self.small = total <= MOST_DIVIDED
        powers = (1 << i for i in range(1, total.bit_length()))
        self.sizes = tuple(size for size in dict.fromkeys((count, *powers)) if 1 < size <= total)
        self.shifts = [self.positions + WIDTH * i for i in range(len(self.sizes), -1, -1)]
        self.pairs = tuple(x * (x - 1) // 2 << self.shifts[0] for x in range(total + 1))
        """Worth of having so many together, for each point of their level."""
        self.rest = tuple(
            sum(packed(left, size) << shift for size, shift in zip(self.sizes, self.shifts[1:], strict=True))
            for left in range(total + 1)
        )
        """Worth of leaving so many together."""
        self.order = sorted(
            ((points[i][j], i, j, 1 << i | 1 << j) for i, j in combinations(ids_of(free), 2) if points[i][j]),
            key=itemgetter(0),
            reverse=True,
        )
        """Links, the best first: points, the two GPUs, and both packed."""
        self.known: dict[tuple[int, int], int] = {}

    def levels(self) -> Iterator[tuple[int, Sequence[int]]]:
        """Levels of links, the best first: points above the next one, and whom each GPU reaches (packed)."""
        reach = [1 << i for i in range(self.positions)]
        for at, (link, i, j, _) in enumerate(self.order):
            reach[i] |= 1 << j
            reach[j] |= 1 << i
            below = self.order[at + 1][0] if at + 1 < len(self.order) else 0
            if below != link:
                yield link - below, reach

    def of(self, gpus: int) -> int:
        """The worth of a choice, where links may form a mesh."""
        worth = self.points_of(gpus) << self.shifts[0] | self.bits(gpus)
        left = self.free & ~gpus
        if not self.small:
            return worth + self.promised(left)
        for size, shift in zip(self.sizes, self.shifts[1:], strict=True):
            worth += self.divided(left, size) << shift
        return worth

    def points_of(self, gpus: int) -> int:
        """The points of all pairs."""
        members = tuple(ids_of(gpus))
        points = self.points
        return sum([points[i][j] for at, i in enumerate(members) for j in members[:at]])

    def promised(self, left: int) -> int:
        """What so many left over are good for, level by level (rule 3); two groups become one at a link."""
        around = {i: 1 << i for i in ids_of(left)}
        joins = len(around) - 1
        rest, worth = self.rest, 0
        for link, i, j, pair in self.order:
            if joins < 1:
                break
            if pair & left == pair and not around[i] >> j & 1:
                both = around[i] | around[j]
                one, other = around[i].bit_count(), around[j].bit_count()
                worth += link * (rest[one + other] - rest[one] - rest[other])
                for member in ids_of(both):
                    around[member] = both
                joins -= 1
        return worth

    def divided(self, left: int, size: int) -> int:
        """The most points inside of jobs of one size and a smaller one, of all ways to divide the rest."""
        known = self.known.get((left, size))
        if known is not None:
            return known
        count = left.bit_count()
        if count <= size:
            most = self.points_of(left)
        else:
            first = left & -left
            others = tuple(ids_of(left ^ first))
            most = 0
            for with_first in {size, count % size} - {0}:
                for mates in combinations(others, with_first - 1):
                    job = first | bits_of(mates)
                    most = max(most, self.divided(job, size) + self.divided(left ^ job, size))
        self.known[left, size] = most
        return most

    def bits(self, gpus: int) -> int:
        """Positions with the lowest one as the highest bit."""
        return sum([1 << self.positions - 1 - i for i in ids_of(gpus)])

    def gpus(self, worth: int) -> int:
        """The choice that has a worth."""
        bits = worth & (1 << self.positions) - 1
        return sum([1 << self.positions - 1 - i for i in ids_of(bits)])

    def digits(self, worth: int) -> tuple[int, ...]:
        """Points of the choice, then what the rest is good for, by ``sizes``."""
        worth >>= self.positions
        mask = (1 << WIDTH) - 1
        return tuple(worth >> WIDTH * i & mask for i in range(len(self.sizes), -1, -1))


def packed(count: int, size: int) -> int:
    """The most pairs that so many GPUs can have inside of jobs of one size."""
    whole, part = divmod(count, size)
    return (whole * size * (size - 1) + part * (part - 1)) // 2


# --------------------------------------------------------------------------------------------------
# The best choices where links are nested: pairs in switches, switches in NUMA nodes, these in the machine.
#
# Rules kept here:
#
# 1. Links are nested when at every level the GPUs that reach each other all do so without a detour.  Machines
#    are built so whose GPUs have PCIe alone, or the same NVLinks to all others.
# 2. The worth of a choice is then a sum over groups, and depends on how many of each group are chosen.  So
#    the best for every number and every set of NUMA nodes is found from the inside out, exactly.
# 3. Where more than ``MANY_HOMES`` NUMA nodes have free GPUs, only the best ``FEW`` sets of them are carried
#    on for each number; the very best choice is among them.


MANY_HOMES = 8
FEW = 32

Reached = dict[tuple[int, int], int]
"""(NUMA nodes, how many GPUs are chosen) → the best worth."""
NOTHING: Reached = {(0, 0): 0}


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """GPUs that reach each other over links of one level."""

    gpus: int
    step: int = 0
    """Points of its level above those of the group around it."""
    parts: tuple["GpuGroup", ...] = ()
    """Smaller groups with better links, and single GPUs; empty for a single GPU."""


def nesting(measure: Measure) -> GpuGroup | None:
    """All GPUs as one group; None where links are not nested (rule 1)."""
    parts = [GpuGroup(1 << i) for i in ids_of(measure.free)]
    for step, reach in measure.levels():
        inside: dict[int, list[GpuGroup]] = {}
        for part in parts:
            gpus = reach[(part.gpus & -part.gpus).bit_length() - 1]
            inside.setdefault(gpus, []).append(part)
        parts = []
        for gpus, members in inside.items():
            if any(reach[i] != gpus for i in ids_of(gpus)):
                return None
            same = members[0] if len(members) == 1 else GpuGroup(gpus, 0, tuple(members))
            parts.append(GpuGroup(gpus, same.step + step, same.parts))
    return parts[0] if len(parts) == 1 else GpuGroup(measure.free, 0, tuple(parts))


def best_nested(measure: Measure, whole: GpuGroup, numa: Sequence[int], must: int) -> dict[int, int]:
    """NUMA nodes → the best worth of a choice that lies on just these."""
    homes = {numa[i] for i in ids_of(measure.free)}
    walk = _Walk(measure, numa, must, FEW if len(homes) > MANY_HOMES else 0)
    reached = walk.of(whole)
    return {nodes: worth for (nodes, chosen), worth in reached.items() if chosen == measure.count}


@dataclass(frozen=True, slots=True)
class _Walk:
    measure: Measure
    numa: Sequence[int]
    must: int
    few: int
    """Sets of NUMA nodes to carry on for each number of GPUs; 0: all."""

    def of(self, group: GpuGroup) -> Reached:
        """The best worth for every number of GPUs of a group."""
        found, joined = NOTHING, 0
        single: dict[int, int] = {}
        for part in group.parts or (group,):
            if part.parts:
                joined |= part.gpus
                found = self.both(found, self.of(part), joined)
            else:
                home = self.numa[part.gpus.bit_length() - 1]
                single[home] = single.get(home, 0) | part.gpus
        for home, gpus in single.items():
            joined |= gpus
            found = self.both(found, self.alike(gpus, home), joined)
        total, step = group.gpus.bit_count(), group.step
        pairs, rest = self.measure.pairs, self.measure.rest
        return {
            (nodes, chosen): worth + step * (pairs[chosen] + rest[total - chosen])
            for (nodes, chosen), worth in found.items()
        }

    def alike(self, gpus: int, home: int) -> Reached:
        """So many of some GPUs whose links are unknown: those that must be in, then the lowest."""
        found: Reached = {}
        needed = gpus & self.must
        order = [*ids_of(needed), *ids_of(gpus & ~needed)]
        top = self.measure.positions - 1
        bits = self.measure.bits(needed)
        for chosen in range(needed.bit_count(), min(len(order), self.measure.count) + 1):
            found[home if chosen else 0, chosen] = bits
            if chosen < len(order):
                bits |= 1 << top - order[chosen]
        return found

    def both(self, one: Reached, other: Reached, gpus: int) -> Reached:
        """The best of two parts together, which have these GPUs."""
        if one is NOTHING:
            return other
        most = self.measure.count
        least = most - (self.measure.free & ~gpus).bit_count()
        found: Reached = {}
        for (nodes, chosen), worth in one.items():
            for (more_nodes, more), worth_more in other.items():
                if least <= chosen + more <= most:
                    key = nodes | more_nodes, chosen + more
                    sum_of_both = worth + worth_more
                    if key not in found or sum_of_both > found[key]:
                        found[key] = sum_of_both
        return self.fewer(found) if self.few else found

    def fewer(self, reached: Reached) -> Reached:
        """The best sets of NUMA nodes for each number of GPUs (rule 3)."""
        seen: dict[int, int] = {}
        found: Reached = {}
        for key, worth in sorted(reached.items(), key=lambda item: -item[1]):
            seen[key[1]] = seen.get(key[1], 0) + 1
            if seen[key[1]] <= self.few:
                found[key] = worth
        return found
