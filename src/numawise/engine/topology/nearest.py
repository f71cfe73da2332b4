"""The nearest of the masks of one size, where distances between NUMA nodes count.

Masks of equal size are compared by the average distance, that is by its sum over all pairs, and then by value.
All of them cannot be compared; nodes are decided one after the other, the highest first, and what cannot
become nearer than the best mask known is not followed.

Rules kept here:

1. The bound comes from a tree: nodes are joined by their shortest distances, and two parts of the tree are at
   least as far apart as the distance that joins them.  Where machines are built in levels (nodes in sockets, sockets
   on boards), this is the distance itself.
2. What must not be left out is priced (a Lagrange multiplier), so that a near mask without enough does not
   look good.
3. Of two nodes that differ in nothing, the higher is in the mask only with the lower.
"""

from collections.abc import Callable, Sequence

from numawise.engine.masks import SearchLimit, Trimming
from numawise.sets import ids_of
from numawise.values import dataclass

Distance = Callable[[int], int]
"""Sum of distances between all nodes of a mask; comparable between masks of equal size."""
Best = tuple[int, int]
"""A distance and its mask: the smaller, the better."""
HALVINGS = 12
"""Steps in which a price is looked for."""
SWAPS = 2
"""Rounds in which a first mask is improved by exchanging two nodes."""
FAR = float("inf")


@dataclass(frozen=True, slots=True)
class Distances:
    """What the bounds need to know of the nodes, by their place in ascending order."""

    ids: tuple[int, ...]
    alone: tuple[int, ...]
    pairs: tuple[tuple[int, ...], ...]
    """There and back; 0 on the diagonal."""
    joins: tuple[tuple[int, int, int], ...]
    """Two parts of the tree and their least distance; the first parts are the nodes."""


def distances_between(nodes: int, distance: Distance) -> Distances:
    """The distances of some nodes, and the tree that joins them."""
    ids = tuple(ids_of(nodes))
    alone = [distance(1 << node) for node in ids]
    pairs = [[0] * len(ids) for _ in ids]
    edges = []
    for one in range(len(ids)):
        for other in range(one):
            both = distance(1 << ids[one] | 1 << ids[other]) - alone[one] - alone[other]
            pairs[one][other] = pairs[other][one] = both
            edges.append((both, other, one))
    edges.sort()
    part = list(range(len(ids)))
    joins = []
    for both, one, other in edges:
        here, there = part[one], part[other]
        if here != there:
            new = len(ids) + len(joins)
            joins.append((here, there, both))
            part = [new if p in (here, there) else p for p in part]
    return Distances(ids, tuple(alone), tuple(map(tuple, pairs)), tuple(joins))


def nearest(
    trimming: Trimming, size: int, distance: Distance, best: Best | None, limit: SearchLimit
) -> Best | None:
    """The nearest mask of so many nodes, unless the best one known is as good."""
    count = trimming.nodes.bit_count() - size
    if count < 0 or trimming.left_out(0, 0, count) is None:
        return best
    if count == 0:
        found = (distance(trimming.nodes), trimming.nodes)
        return found if best is None or found < best else best
    return _Search(trimming, size, distance, limit).run(best)


class _Search:
    """One search among the masks of one size."""

    __slots__ = ("budget", "count", "distance", "known", "limit", "price", "prices", "size", "trimming", "twins")

    def __init__(self, trimming: Trimming, size: int, distance: Distance, limit: SearchLimit) -> None:
        self.trimming = trimming
        self.size = size
        self.count = trimming.nodes.bit_count() - size
        self.distance = distance
        self.limit = limit
        self.known = distances_between(trimming.nodes, distance)
        by_node, self.budget = trimming.prices()
        self.prices = [by_node.get(1 << node, 0.0) for node in self.known.ids]
        self.twins = self._twins()
        self.price = 0.0

    def _twins(self) -> list[int]:
        """For each node the lower ones that differ in nothing from it, packed (rule 3)."""
        ids, pairs, alone = self.known.ids, self.known.pairs, self.known.alone
        kinds = self.trimming.kinds()
        kind = [kinds.get(1 << node, -1 - node) for node in ids]
        twins = []
        for one in range(len(ids)):
            same = 0
            for other in range(one):
                if kind[one] == kind[other] and alone[one] == alone[other]:
                    here, there = pairs[one], pairs[other]
                    if all(here[k] == there[k] for k in range(len(ids)) if k not in (one, other)):
                        same |= 1 << ids[other]
            twins.append(same)
        return twins

    def run(self, best: Best | None) -> Best | None:
        """Find the best mask."""
        best = self._first(best)
        ids = self.known.ids
        nodes, size, count = self.trimming.nodes, self.size, self.count
        # place of the next node, left out, kept, what can be left out with it (None: not known)
        branches: list[tuple[int, int, int, int | None]] = [(len(ids) - 1, 0, 0, None)]
        while branches:
            at, out, kept, known = branches.pop()
            if not self._promising(out, kept, best):
                continue
            if known is None:
                known = self.trimming.left_out(out, kept, count)
                if known is None:
                    continue
            while out.bit_count() < count and kept.bit_count() < size:
                bit = 1 << ids[at]
                if not bit & (kept | out):
                    without: int | None = None
                    if self._promising(out | bit, kept, best):
                        without = known if bit & known else self.trimming.left_out(out | bit, kept, count)
                    more = kept | bit | self.twins[at]
                    if without is not None:
                        if more.bit_count() <= size:
                            branches.append((at - 1, out, more, known if not more & known else None))
                        out, known = out | bit, without
                    elif more.bit_count() > size or not self._promising(out, more, best):
                        break
                    else:
                        if more & known:
                            known = self.trimming.left_out(out, more, count)
                            if known is None:
                                break
                        kept = more
                at -= 1
            else:
                mask = kept if kept.bit_count() == size else nodes & ~out
                found = (self.distance(mask), mask)
                best = found if best is None or found < best else best
        return best

    def _promising(self, out: int, kept: int, best: Best | None) -> bool:
        """True when a mask with these nodes could be better than the best known."""
        if best is None:
            return True
        self.limit.step(len(self.known.ids))
        least, mask = best
        bound = self._bound(out, kept)
        if bound != least:
            return bound < least
        rest = self.size - kept.bit_count()
        for node in self.known.ids:
            if rest == 0:
                break
            if not (kept | out) >> node & 1:
                kept |= 1 << node
                rest -= 1
        return kept < mask

    def _bound(self, out: int, kept: int) -> int:
        """No mask with these nodes, and without those, is nearer."""
        known, price = self.known, self.price
        ids, pairs = known.ids, known.pairs
        inside = [at for at, node in enumerate(ids) if kept >> node & 1]
        total = self.distance(kept) if kept else 0
        near = [known.alone[at] - price * self.prices[at] for at in range(len(ids))]
        for at in inside:
            near = [sum_ + pair for sum_, pair in zip(near, pairs[at], strict=True)]
        tables: list[list[float]] = [
            [0] if (kept | out) >> node & 1 else [0, near[at]] for at, node in enumerate(ids)
        ]
        most = self.size - len(inside)
        for one, other, both in known.joins:
            here, there = tables[one], tables[other]
            if len(there) == 1:
                tables.append(here)
            elif len(here) == 1:
                tables.append(there)
            else:
                tables.append(_joined(here, there, both, most))
        if len(tables[-1]) <= most:
            return total  # too few nodes are left; somebody else says so
        least = tables[-1][most]
        if price:
            spared = sum(self.prices) - sum([self.prices[at] for at in inside]) - self.budget
            least += price * spared
            return total + -int(-(least - 1e-6) // 1)
        return total + int(least)

    # --- a first mask -----------------------------------------------------------------------------

    def _first(self, best: Best | None) -> Best | None:
        """A good mask, and the price that shows best how near masks can be (rule 2)."""
        mask = self._cheapest(0.0)
        if self._possible(mask):
            found = (self.distance(mask), mask)
            return found if best is None or found < best else best
        low, high = 0.0, 1.0
        total = sum(self.prices)
        if total > self.budget >= 0:
            scale = max(map(max, self.known.pairs)) * self.size / max(p for p in self.prices if p > 0)
            high = scale
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                mask = self._cheapest(middle)
                spent = total - sum(
                    [price for node, price in zip(self.known.ids, self.prices, strict=True) if mask >> node & 1]
                )
                if spent > self.budget:
                    low = middle
                else:
                    high = middle
                    if self._possible(mask):
                        found = (self.distance(mask), mask)
                        best = found if best is None or found < best else best
            self.price = (low + high) / 2
        known = self.trimming.left_out(0, 0, self.count)
        assert known is not None
        mask = self.trimming.nodes & ~known
        for node in self.known.ids:
            if mask.bit_count() < self.size:
                mask |= 1 << node
        found = self._improved((self.distance(mask), mask))
        return found if best is None or found < best else best

    def _improved(self, best: Best) -> Best:
        """Exchange nodes while that makes the mask nearer."""
        for _ in range(SWAPS):
            before = best
            _, mask = best
            for node in self.known.ids:
                if not mask >> node & 1:
                    continue
                for other in self.known.ids:
                    if mask >> other & 1:
                        continue
                    new = mask & ~(1 << node) | 1 << other
                    found = (self.distance(new), new)
                    if found < best and self._possible(new):
                        best = found
            if best == before:
                break
        return best

    def _possible(self, mask: int) -> bool:
        out = self.trimming.nodes & ~mask
        return self.trimming.left_out(out, mask, self.count) is not None

    def _cheapest(self, price: float) -> int:
        """The mask that the tree makes cheapest at a price."""
        known = self.known
        tables: list[list[tuple[float, int]]] = [
            [(0, 0), (known.alone[at] - price * self.prices[at], 1 << node)] for at, node in enumerate(known.ids)
        ]
        for one, other, both in known.joins:
            here, there = tables[one], tables[other]
            new = [(FAR, 0)] * min(len(here) + len(there) - 1, self.size + 1)
            for i, (cost, mask) in enumerate(here):
                for j, (more, nodes) in enumerate(there[: len(new) - i]):
                    sum_ = cost + more + i * j * both
                    if sum_ <= new[i + j][0]:
                        new[i + j] = min(new[i + j], (sum_, mask | nodes))
            tables.append(new)
        return tables[-1][self.size][1]


def _joined(here: Sequence[float], there: Sequence[float], both: int, most: int) -> list[float]:
    """The least of two parts of the tree together, by number of nodes."""
    size = min(len(here) + len(there) - 1, most + 1)
    new = [FAR] * size
    for i, cost in enumerate(here[:size]):
        step = i * both
        at = i
        for more in there[: size - i]:
            sum_ = cost + more
            if sum_ < new[at]:
                new[at] = sum_
            at += 1
            cost += step  # noqa: PLW2901 - each further node there is as far from all of these
    return new
