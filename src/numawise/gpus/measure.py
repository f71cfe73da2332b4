"""How good a choice of GPUs is, as one number.

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
