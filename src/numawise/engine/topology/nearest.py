"""The nearest of the masks of one size, where distances between NUMA nodes count.

Masks of equal size are compared by the average distance, that is by its sum over all pairs, and then by
value.  Nodes that are equally far from all others (the nodes of one socket, as a rule) form a class, and the
distance of a mask depends only on how many nodes of each class it has.  These numbers are decided class by
class, the highest first; what cannot become better than the best mask known is not followed.

Rules kept here:

1. One bound comes from a tree: classes are joined by their shortest distances, and two parts of the tree are
   at least as far apart as the distance that joins them.  Where machines are built in levels (nodes in
   sockets, sockets on boards), this is the distance itself.
2. Another one gives each node its nearest neighbours among those that are left; it serves rings and meshes.
3. What must not be left out is priced (a Lagrange multiplier), so that a near mask without enough does not
   look good.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from numawise.engine.search import SearchLimit
from numawise.engine.trimming import Trimming
from numawise.sets import ids_of
from numawise.values import dataclass

Distance = Callable[[int], int]
"""Sum of distances between all nodes of a mask; comparable between masks of equal size."""
Best = tuple[int, int]
"""A distance and its mask: the smaller, the better."""
HALVINGS = 10
"""Steps in which a price is looked for."""
FAR = float("inf")
EVEN = 1e-6


@dataclass(frozen=True, slots=True)
class Classes:
    """Nodes that are equally far from all others, the highest class first."""

    masks: tuple[int, ...]
    alone: tuple[int, ...]
    """The distance of a node of the class to itself."""
    inside: tuple[int, ...]
    """There and back between two nodes of the class."""
    across: tuple[tuple[int, ...], ...]
    """There and back between nodes of two classes."""
    nearest: tuple[tuple[int, ...], ...]
    """For each class all others, the nearest first."""
    joins: tuple[tuple[int, int, int], ...]
    """Two parts of the tree and their least distance; the first parts are the classes."""

    def distance(self, counts: Sequence[int]) -> int:
        """The distance of a mask with so many nodes of each class."""
        total = 0
        for one, count in enumerate(counts):
            if count:
                total += count * self.alone[one] + count * (count - 1) // 2 * self.inside[one]
                row = self.across[one]
                total += count * sum([counts[other] * row[other] for other in range(one)])
        return total


@lru_cache(maxsize=64)
def classes_of(nodes: int, distance: Distance) -> Classes:
    """The classes of some nodes."""
    ids = list(ids_of(nodes))
    alone = {node: distance(1 << node) for node in ids}
    pairs = {node: {node: 0} for node in ids}
    for one in ids:
        for other in ids:
            if other < one:
                both = distance(1 << one | 1 << other) - alone[one] - alone[other]
                pairs[one][other] = pairs[other][one] = both
    groups: list[list[int]] = []
    for node in reversed(ids):
        for group in groups:
            first = group[0]
            if alone[node] == alone[first] and all(
                pairs[node][other] == pairs[first][other] for other in ids if other not in (node, first)
            ):
                group.append(node)
                break
        else:
            groups.append([node])
    across = [[pairs[group[0]][other[0]] for other in groups] for group in groups]
    edges = sorted((across[one][other], other, one) for one in range(len(groups)) for other in range(one))
    part = list(range(len(groups)))
    joins: list[tuple[int, int, int]] = []
    for both, one, other in edges:
        here, there = part[one], part[other]
        if here != there:
            new = len(groups) + len(joins)
            joins.append((here, there, both))
            part = [new if number in (here, there) else number for number in part]
    others = [
        sorted((other for other in range(len(groups)) if other != one), key=row.__getitem__)
        for one, row in enumerate(across)
    ]
    return Classes(
        tuple(sum(1 << node for node in group) for group in groups),
        tuple(alone[group[0]] for group in groups),
        tuple(pairs[group[0]][group[-1]] for group in groups),
        tuple(map(tuple, across)),
        tuple(map(tuple, others)),
        tuple(joins),
    )


def nearest(
    trimming: Trimming, size: int, distance: Distance, best: Best | None, limit: SearchLimit
) -> Best | None:
    """The nearest mask of so many nodes, unless the best one known is as good."""
    count = trimming.nodes.bit_count() - size
    if count < 0 or trimming.left_out(0, 0, count) is None:
        return best
    if count == 0:
        whole = (distance(trimming.nodes), trimming.nodes)
        return whole if best is None or whole < best else best
    return Nearest(trimming, size, distance, limit).run(best)


class Nearest:
    """One search among the masks of one size."""

    __slots__ = ("best", "budget", "classes", "limit", "price", "rich", "size", "sizes", "total", "trimming")

    def __init__(self, trimming: Trimming, size: int, distance: Distance, limit: SearchLimit) -> None:
        self.trimming = trimming
        self.size = size
        self.limit = limit
        self.classes = classes_of(trimming.nodes, distance)
        self.sizes = [mask.bit_count() for mask in self.classes.masks]
        prices, self.budget = trimming.prices()
        self.total = sum(prices.values())
        self.price = 0.0
        self.rich = []
        """For each class what its most precious nodes cost together, by their number."""
        for mask in self.classes.masks:
            sums = [0.0]
            for one in sorted((prices.get(1 << node, 0.0) for node in ids_of(mask)), reverse=True):
                sums.append(sums[-1] + one)
            self.rich.append(sums)
        self.best: Best | None = None

    def promising(self, nodes: int, best: Best | None) -> bool:
        """True when a mask of some of these nodes could be at least as near as the best known."""
        if best is None:
            return True
        sizes = [(mask & nodes).bit_count() for mask in self.classes.masks]
        return sum(sizes) >= self.size and self._bound((), sizes, best[0] + 1) <= best[0]

    def run(self, best: Best | None) -> Best | None:
        """Find the best mask."""
        self.best = best
        if best is not None and self._bound((), self.sizes, best[0] + 1) > best[0]:
            return best
        self._start()
        branches: list[tuple[int, ...]] = [()]
        while branches:
            counts = branches.pop()
            at, used = len(counts), sum(counts)
            left = self.size - used
            room = sum(self.sizes[at:])
            if left > room or left < 0 or not self._better(counts, left):
                continue
            if left in (0, room):
                self._try((*counts, *(self.sizes[at:] if left else [0] * (len(self.sizes) - at))))
            elif self._possible(counts):
                branches += [(*counts, count) for count in range(min(self.sizes[at], left), -1, -1)]
        return self.best

    # --- what is possible --------------------------------------------------------------------------

    def _quotas(self, counts: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """How many nodes of the classes that are decided are left out."""
        masks, sizes = self.classes.masks, self.sizes
        return tuple((masks[at], sizes[at] - count) for at, count in enumerate(counts))

    def _possible(self, counts: Sequence[int]) -> bool:
        count = self.trimming.nodes.bit_count() - self.size
        return self.trimming.left_out(0, 0, count, self._quotas(counts)) is not None

    def _try(self, counts: Sequence[int]) -> None:
        """Take the lowest mask with so many nodes of each class, where it is the best so far."""
        distance = self.classes.distance(counts)
        if self.best is not None:
            if distance > self.best[0]:
                return
            if distance == self.best[0] and self._lowest(counts, 0) >= self.best[1]:
                return
        mask = next(self.trimming.masks(self.size, quotas=self._quotas(counts)), 0)
        if mask and (self.best is None or (distance, mask) < self.best):
            self.best = (distance, mask)

    def _better(self, counts: tuple[int, ...], left: int) -> bool:
        """True when a mask with these numbers could be better than the best known."""
        if self.best is None:
            return True
        least, mask = self.best
        bound = self._bound(counts, self.sizes, least + 1)
        return bound < least or (bound == least and self._lowest(counts, left) < mask)

    def _lowest(self, counts: Sequence[int], left: int) -> int:
        """No mask with these numbers, and so many more nodes, has a lower value."""
        mask = undecided = 0
        for at, nodes in enumerate(self.classes.masks):
            if at >= len(counts):
                undecided |= nodes
            for _ in range(counts[at] if at < len(counts) else 0):
                mask |= nodes & -nodes
                nodes &= nodes - 1
        for _ in range(left):
            mask |= undecided & -undecided
            undecided &= undecided - 1
        return mask

    # --- bounds ------------------------------------------------------------------------------------

    def _bound(self, counts: tuple[int, ...], sizes: Sequence[int], enough: int) -> int:
        """No mask with these numbers of the first classes is nearer; ``enough``: more need not be known."""
        self.limit.step(len(sizes))
        classes, first = self.classes, len(counts)
        total = classes.distance(counts)
        left = self.size - sum(counts)
        near = []
        for at in range(first, len(sizes)):
            row = classes.across[at]
            near.append(classes.alone[at] + sum([count * row[other] for other, count in enumerate(counts)]))
        offset = 0.0
        if self.price:
            kept = sum([self.rich[at][count] for at, count in enumerate(counts)])
            offset = self.price * (self.total - self.budget - kept)
        bound = 0
        for tables in (self._tables(near, first, sizes, left), None):
            least = self._by_tree(tables, left) if tables else self._by_neighbours(near, first, sizes, left)
            if least == FAR:
                return enough
            least = total + least + offset
            bound = max(bound, int(least) if least == int(least) else -int(-(least - EVEN) // 1))
            if bound >= enough:
                break
        return bound

    def _tables(self, near: Sequence[int], first: int, sizes: Sequence[int], most: int) -> list[list[float]]:
        """For each class the least distance by number of nodes, those to other undecided classes left out."""
        tables: list[list[float]] = [[0.0]] * first
        for at in range(first, len(sizes)):
            inside, rich, price = self.classes.inside[at], self.rich[at], self.price
            tables.append(
                [
                    count * near[at - first] + count * (count - 1) // 2 * inside - price * rich[count]
                    for count in range(min(sizes[at], most) + 1)
                ]
            )
        return tables

    def _by_tree(self, tables: list[list[float]], most: int) -> float:
        """The bound of rule 1."""
        for one, other, both in self.classes.joins:
            here, there = tables[one], tables[other]
            if len(there) == 1:
                tables.append(here)
            elif len(here) == 1:
                tables.append(there)
            else:
                tables.append(_joined(here, there, both, most))
        return tables[-1][most] if most < len(tables[-1]) else FAR

    def _by_neighbours(self, near: Sequence[int], first: int, sizes: Sequence[int], most: int) -> float:
        """The bound of rule 2."""
        table: list[float] = [0.0]
        own = self._tables(near, first, sizes, most)
        for at in range(first, len(sizes)):
            if not sizes[at]:
                continue
            row = self.classes.across[at]
            distances: list[int] = []
            for other in self.classes.nearest[at]:
                if other >= first:
                    distances += [row[other]] * sizes[other]
                    if len(distances) >= most:
                        break
            sums = [0]
            for one in distances[:most]:
                sums.append(sums[-1] + one)
            costs = []
            for count, cost in enumerate(own[at]):
                others = most - count
                costs.append(cost + count * sums[others] / 2 if others < len(sums) else FAR if count else 0.0)
            table = _joined(table, costs, 0, most)
        return table[most] if most < len(table) else FAR

    # --- a first mask ------------------------------------------------------------------------------

    def _start(self) -> None:
        """A good mask, and the price that shows best how near masks can be (rule 3)."""
        counts = self._cheapest(0.0)
        if self._possible(counts):
            self._try(counts)
            return
        if self.total <= self.budget or not self.classes.joins:
            return
        steepest = max(sums[1] for sums in self.rich)
        low, high = 0.0, max(map(max, self.classes.across)) * self.size / steepest
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            counts = self._cheapest(middle)
            spent = self.total - sum([self.rich[at][count] for at, count in enumerate(counts)])
            if spent > self.budget:
                low = middle
            else:
                high = middle
                if self._possible(counts):
                    self._try(counts)
        self.price = (low + high) / 2

    def _cheapest(self, price: float) -> list[int]:
        """The numbers of nodes that the tree makes cheapest at a price."""
        classes = self.classes
        tables: list[list[tuple[float, tuple[int, ...]]]] = []
        for at, size in enumerate(self.sizes):
            empty = [0] * len(self.sizes)
            table = []
            for count in range(min(size, self.size) + 1):
                empty[at] = count
                table.append((classes.distance(empty) - price * self.rich[at][count], tuple(empty)))
            tables.append(table)
        for one, other, both in classes.joins:
            here, there = tables[one], tables[other]
            new: list[tuple[float, tuple[int, ...]]] = [(FAR, ())] * min(
                len(here) + len(there) - 1, self.size + 1
            )
            for i, (cost, some) in enumerate(here):
                for j, (more, others) in enumerate(there[: max(0, len(new) - i)]):
                    both_cost = cost + more + i * j * both
                    if both_cost < new[i + j][0]:
                        new[i + j] = (both_cost, tuple(map(int.__add__, some, others)))
            tables.append(new)
        return list(tables[-1][self.size][1])


def _joined(here: Sequence[float], there: Sequence[float], both: int, most: int) -> list[float]:
    """The least of two parts together, by number of nodes, when these are so far from each other."""
    size = min(len(here) + len(there) - 1, most + 1)
    new = [FAR] * size
    for i, cost in enumerate(here[:size]):
        sums = (
            [cost + more + i * j * both for j, more in enumerate(there[: size - i])]
            if both
            else [cost + more for more in there[: size - i]]
        )
        for j, both_cost in enumerate(sums, i):
            new[j] = min(new[j], both_cost)
    return new
