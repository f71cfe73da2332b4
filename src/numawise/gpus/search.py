"""The best choices where links are not nested, as in meshes of NVLinks or with bridges between switches.

Rules kept here:

1. Up to ``MOST_EXACT`` free GPUs the best choice is exact: the GPUs are halved, every choice in one half is
   completed by the best ones in the other, and choices with equal points are compared further.  So it is
   for every set of NUMA nodes too, for the best ``FEW`` of them; but where more than ``MANY_HOMES``
   NUMA nodes have free GPUs, rule 2 finds the others.
2. Beyond that the search is bounded: from every GPU a choice is grown along the best links, inside every
   NUMA node, every two of them (of up to ``MANY_HOMES``) and the whole machine; the best of each is improved
   by exchanging single GPUs, until no exchange helps or ``MOST_ROUNDS`` are done.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import add

from numawise.gpus.measure import FEW, MANY_HOMES, Measure
from numawise.sets import bits_of, ids_of
from numawise.values import dataclass

MOST_EXACT = 16
MOST_ROUNDS = 16

Points = Sequence[Sequence[int]]


def best_searched(
    measure: Measure, numa: Sequence[int], must: int, judge: Measure | None = None
) -> dict[int, int]:
    """NUMA nodes → the best worth of a choice that lies on just these.

    ``judge``: decides between choices with equal points, and gives the worth.
    """
    judge = judge or measure
    if measure.free.bit_count() > MOST_EXACT:
        return _judged(judge, measure, _grown(measure, numa, must))
    if len({numa[i] for i in ids_of(measure.free)}) > MANY_HOMES:
        anywhere = _with_most_points(measure, (0,) * len(numa), must)
        worth = max(map(judge.of, anywhere[0][1]))
        grown = _judged(judge, measure, _grown(measure, numa, must))
        return grown | {_nodes(numa, judge.gpus(worth)): worth}
    found = _with_most_points(measure, numa, must)
    best = sorted(found, key=lambda nodes: (-found[nodes][0], nodes.bit_count(), nodes))[:FEW]
    return {nodes: max(map(judge.of, found[nodes][1])) for nodes in best}


def _judged(judge: Measure, measure: Measure, found: dict[int, int]) -> dict[int, int]:
    """Worths of one measure in terms of another."""
    return found if judge is measure else {nodes: judge.of(measure.gpus(one)) for nodes, one in found.items()}


def _nodes(numa: Sequence[int], gpus: int) -> int:
    nodes = 0
    for i in ids_of(gpus):
        nodes |= numa[i]
    return nodes


def _with_most_points(measure: Measure, numa: Sequence[int], must: int) -> dict[int, tuple[int, list[int]]]:
    """NUMA nodes → the most points, and all choices that have them (rule 1), alike ones once."""
    count = measure.count
    members = sorted(ids_of(measure.free), key=lambda i: (numa[i], i))
    near, far = members[: len(members) // 2], members[len(members) // 2 :]
    lower = _lower_twins(measure.points, numa, members, must)
    far_parts = _parts(measure.points, numa, far, lower)
    shelves = _shelves(far_parts, bits_of(far), must)
    found: dict[int, tuple[int, list[int]]] = {}
    near_parts = _parts(measure.points, numa, near, lower)
    for bound, part, links in _promising(measure.points, near_parts, (near, far), shelves, count, must):
        sums: list[int] = []
        for nodes, shelf in shelves[count - part.gpus.bit_count()].items():
            key = part.numa | nodes
            best, equal = found.get(key, (-1, []))
            if bound + shelf.most < best:
                continue
            if not sums:
                sums = [part.points]
                for more in links:
                    sums += [value + more for value in sums]
            values = list(map(add, [sums[at] for at in shelf.places], shelf.points))
            most = max(values)
            if most > best:
                found[key] = best, equal = most, []
            if most == best:
                for at, value in zip(shelf.places, values, strict=True):
                    both = part.gpus | far_parts[at].gpus
                    if value == most and not far_parts[at].lower & ~both:
                        equal.append(both)
    return found


def _lower_twins(points: Points, numa: Sequence[int], members: Sequence[int], must: int) -> dict[int, int]:
    """GPU → the next lower one, packed, that has its links and its place; a choice has that one rather."""
    found: dict[int, int] = {}
    for at, i in enumerate(members):
        for j in reversed(members[:at]):
            same = numa[i] == numa[j] and must >> i & 1 == must >> j & 1
            if same and all(points[i][x] == points[j][x] for x in members if x not in (i, j)):
                found[i] = 1 << j
                break
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """A choice inside of one half."""

    gpus: int
    numa: int
    lower: int
    """Lower twins of its GPUs."""
    points: int


def _parts(points: Points, numa: Sequence[int], half: Sequence[int], lower: Mapping[int, int]) -> list[_Part]:
    """Every choice inside of one half, in the order of counting."""
    sums, nodes, gpus, twins = [0], [0], [0], [0]
    for at, i in enumerate(half):
        links = [0]
        for j in half[:at]:
            more = points[i][j]
            links += [value + more for value in links]
        sums += map(add, sums, links)
        nodes += [bits | numa[i] for bits in nodes]
        gpus += [bits | 1 << i for bits in gpus]
        twin = lower.get(i, 0)
        twins += [bits | twin for bits in twins]
    return list(map(_Part, gpus, nodes, twins, sums))


@dataclass(frozen=True, slots=True)
class _Shelf:
    """Choices of the far half that are equal in number and NUMA nodes."""

    places: list[int]
    """In the order of counting."""
    points: list[int]
    most: int


def _shelves(parts: Sequence[_Part], half: int, must: int) -> dict[int, dict[int, _Shelf]]:
    """Number of GPUs → NUMA nodes → choices of a half."""
    found: dict[int, dict[int, list[int]]] = {}
    for at, part in enumerate(parts):
        if not (must | part.lower) & half & ~part.gpus:
            found.setdefault(part.gpus.bit_count(), {}).setdefault(part.numa, []).append(at)
    return {
        number: {
            nodes: _Shelf(places, [parts[at].points for at in places], max(parts[at].points for at in places))
            for nodes, places in by_numa.items()
        }
        for number, by_numa in found.items()
    }


def _promising(
    points: Points,
    parts: Sequence[_Part],
    halves: tuple[Sequence[int], Sequence[int]],
    shelves: Mapping[int, object],
    count: int,
    must: int,
) -> list[tuple[int, _Part, Sequence[int]]]:
    """Choices of the near half with their links to each GPU of the far one, and a bound.

    The bound is what they can have at most without the points of the far half; the highest come first.
    """
    near, far = halves
    needed = must & bits_of(near)
    links: list[tuple[int, ...]] = [(0,) * len(far)]
    for i in near:
        row = [points[i][j] for j in far]
        links += [tuple(map(add, known, row)) for known in links]
    found = []
    for part, known in zip(parts, links, strict=True):
        more = count - part.gpus.bit_count()
        if more in shelves and not (needed | part.lower) & ~part.gpus:
            bound = part.points + sum(sorted(known, reverse=True)[:more])
            found.append((bound, part, known))
    return sorted(found, key=lambda row: -row[0])


def _grown(measure: Measure, numa: Sequence[int], must: int) -> dict[int, int]:
    """Good choices for some sets of NUMA nodes (rule 2)."""
    found: dict[int, int] = {}
    for inside in _areas(measure, numa, must):
        starts = [1 << i | must for i in ids_of(inside & ~must)]
        if must.bit_count() == measure.count:
            starts = [must]
        grown = dict.fromkeys(_grow(measure, inside, start) for start in starts)
        best = max(grown, key=measure.points_of)
        gpus = _exchanged(measure, inside, best, must)
        nodes = _nodes(numa, gpus)
        found[nodes] = max(found.get(nodes, -1), measure.of(gpus))
    return found


def _areas(measure: Measure, numa: Sequence[int], must: int) -> Iterator[int]:
    """Packed GPUs to choose from: of one NUMA node, of two, all."""
    homes: dict[int, int] = {}
    for i in ids_of(measure.free):
        homes[numa[i]] = homes.get(numa[i], 0) | 1 << i
    wider = (one | other for one, other in combinations(homes.values(), 2) if len(homes) <= MANY_HOMES)
    for area in dict.fromkeys((*homes.values(), *wider, measure.free)):
        if not must & ~area and area.bit_count() >= measure.count:
            yield area


def _grow(measure: Measure, inside: int, start: int) -> int:
    gpus = start
    links = _links(measure, gpus)
    while gpus.bit_count() < measure.count:
        best = max(ids_of(inside & ~gpus), key=links.__getitem__)
        gpus |= 1 << best
        links = list(map(add, links, measure.points[best]))
    return gpus


def _links(measure: Measure, gpus: int) -> list[int]:
    """Points of each GPU's links to some GPUs."""
    members = tuple(ids_of(gpus))
    return [sum([row[i] for i in members]) for row in measure.points]


def _exchanged(measure: Measure, inside: int, gpus: int, must: int) -> int:
    """The choice after exchanging single GPUs for better linked ones, the most helpful first."""
    for _ in range(MOST_ROUNDS):
        links, points = _links(measure, gpus), measure.points
        gain, out, new = max(
            (
                (links[new] - points[new][out] - links[out], -out, -new)
                for out in ids_of(gpus & ~must)
                for new in ids_of(inside & ~gpus)
            ),
            default=(0, 0, 0),
        )
        if gain <= 0:
            break
        gpus ^= 1 << -out | 1 << -new
    return gpus
