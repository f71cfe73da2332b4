"""Which of the free GPUs a job gets: the best linked ones, leaving the others as useful as possible.

Rules kept here:

1. A choice is better by this sort key: the class of its worst link (NVLink, then PIX, PXB, PHB, NODE, SYS),
   for a job waits for its slowest pair; fewer NUMA nodes; the points of all links between its GPUs
   (``links``); NUMA nodes closer together; what the GPUs left over are good for, for later jobs of the same
   size, then of 2, 4, 8 and so on (``measure``); the lowest positions.  So one GPU alone breaks no pair while
   another would do, and one NVLink more does not outweigh a NUMA node.
2. The best choice is given for every set of NUMA nodes that can serve, so that a caller who finds no CPUs or
   no memory beside the first can take the next; where very many sets can, for the best of them.
3. Up to 16 free GPUs no choice with better links is missed, whatever the links are; where links are nested,
   for any number.  ``nested`` and ``search`` name their bounds.  For a better worst link than the choice with
   the most points has, the links of that class and better ones are given so many more points that a choice of
   them alone comes first, where there is one.

Counterpart: the best-effort policy of NVIDIA's go-gpuallocator, whose points these are.  It divides all free
GPUs into sets of the size asked for, takes the division with the most points and returns the best set of it.
There links of this job are given up for links of jobs to come, and a worst link or a NUMA node for more
points; of one GPU alone the first is taken.
"""

from itertools import combinations

from numawise.gpus.links import SAME_GPU, GpuLinks, class_of
from numawise.gpus.measure import WIDTH, Measure, best_nested, nesting
from numawise.gpus.search import MOST_EXACT, best_searched
from numawise.sets import format_ids, ids_of
from numawise.values import dataclass

__all__ = ["Choice", "GpuLinks", "Score", "advice", "choices"]

Score = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A set of GPUs."""

    gpus: int
    """Packed positions."""
    numa: int
    """Packed NUMA nodes of the GPUs; 0 when the machine has none."""
    score: Score
    """Class of the worst link; number of NUMA nodes, below zero; points of all links; distances of the NUMA
    nodes, below zero; what the rest is good for, by sizes of later jobs.  Of two choices for one request the
    greater score is the better choice."""
    worst: str
    """The worst link among the GPUs, such as ``PIX`` or ``NV18``; '' for one GPU, or when unknown."""

    @property
    def points(self) -> int:
        """Points of all links between the GPUs."""
        return self.score[2]


def choices(links: GpuLinks, free: int, count: int, must: int = 0) -> tuple[Choice, ...]:
    """The best choice of ``count`` GPUs for every set of NUMA nodes that can serve, best first.

    ``free`` and ``must`` are packed positions; every choice has all of ``must``.  None at all when there
    are too few, or when what must be in is not free.
    """
    free &= links.every
    if must & ~free or not max(1, must.bit_count()) <= count <= free.bit_count():
        return ()
    measure = Measure(links.points, free, count)
    best = _best(measure, links, must)
    for link_class in _classes(links, free) if count > 2 else ():
        behind = [numa for numa, worth in best.items() if links.worst_class(measure.gpus(worth)) < link_class]
        if not behind and best:
            break
        for numa, worth in _of_class(links, measure, must, link_class).items():
            if numa not in best or links.worst_class(measure.gpus(best[numa])) < link_class:
                best[numa] = worth
    ranked = []
    for numa, worth in best.items():
        points, *rest = measure.digits(worth)
        worst = links.worst_class(measure.gpus(worth))
        score = (worst, -numa.bit_count(), points, -links.spread(numa), *rest)
        ranked.append((score, worth, numa))
    ranked.sort(reverse=True)
    return tuple(
        Choice(gpus, numa, score, links.worst(gpus))
        for score, gpus, numa in ((score, measure.gpus(worth), numa) for score, worth, numa in ranked)
    )


def _best(measure: Measure, links: GpuLinks, must: int) -> dict[int, int]:
    """NUMA nodes → the worth of the choice on them that has the most points."""
    whole = None if measure.small else nesting(measure)
    if whole is None:
        return best_searched(measure, links.numa, must)
    return best_nested(measure, whole, links.numa, must)


def _classes(links: GpuLinks, free: int) -> list[int]:
    """Classes of the links between free GPUs, the best first; the worst is every choice's."""
    found = {class_of(links.points[i][j]) for i, j in combinations(ids_of(free), 2)}
    return sorted(found, reverse=True)[:-1]


def _of_class(links: GpuLinks, measure: Measure, must: int, link_class: int) -> dict[int, int]:
    """NUMA nodes → the worth of the choice on them without a link below a class (rule 3)."""
    count = measure.count
    more = (count * (count - 1) // 2 + 1) * SAME_GPU
    if more.bit_length() + (count * count).bit_length() >= WIDTH:
        return {}
    raised = tuple(
        tuple(points + more if class_of(points) >= link_class and points else points for points in row)
        for row in links.points
    )
    search = Measure(raised, measure.free, count)
    if measure.free.bit_count() <= MOST_EXACT:
        found = best_searched(search, links.numa, must, measure)
    else:
        best = _best(search, links, must)
        found = {numa: measure.of(search.gpus(worth)) for numa, worth in best.items()}
    return {
        numa: worth for numa, worth in found.items() if links.worst_class(measure.gpus(worth)) >= link_class
    }


def advice(links: GpuLinks, free: int, count: int) -> str:
    """What asking for so many GPUs gives, and what would be better where it crosses NUMA nodes."""
    free &= links.every
    asked = f"{count} GPU" if count == 1 else f"{count} GPUs"
    best = choices(links, free, count)
    if not best:
        return f"{asked}: only {free.bit_count()} free" if count > free.bit_count() else ""
    first = best[0]
    if first.numa.bit_count() < 2:
        place = f" on NUMA node {format_ids(first.numa)}" if first.numa else ""
        return f"{asked}: {links.names(first.gpus)}{place}{_linked(first, count)}"
    shares = _shares(links, first.gpus)
    even = len(set(shares)) == 1
    how = f"{'evenly, ' if even else ''}{_sum(shares)}{_linked(first, count)}"
    sentences = [f"{asked} cross NUMA nodes {format_ids(first.numa)}: {how}"]
    homes = _shares(links, free)
    fitting = min(homes[0], count)
    local = next((one for one in choices(links, free, fitting) if one.numa.bit_count() == 1), None)
    if local is not None:
        what = links.names(local.gpus) if fitting == count else str(fitting)
        sentences.append(f"{what} would stay on NUMA node {format_ids(local.numa)}{_linked(local, fitting)}")
    full = len(shares) * homes[len(shares) - 1]
    for choice in choices(links, free, full) if full > count and not even else ():
        shares = _shares(links, choice.gpus)
        if shares[0] == shares[-1] == homes[len(shares) - 1]:
            sentences.append(f"{full} would cross evenly, {_sum(shares)}{_linked(choice, full)}")
            break
    return "; ".join(sentences)


def _shares(links: GpuLinks, gpus: int) -> list[int]:
    """How many of some GPUs each NUMA node has, the most first."""
    found: dict[int, int] = {}
    for i in ids_of(gpus):
        found[links.numa[i]] = found.get(links.numa[i], 0) + 1
    return sorted(found.values(), reverse=True)


def _sum(shares: list[int]) -> str:
    return " + ".join(map(str, shares))


def _linked(choice: Choice, count: int) -> str:
    if count == 1:
        return ""
    if not choice.worst:
        return " (links not known)"
    return f" (link {choice.worst})" if count == 2 else f" (worst link {choice.worst})"
