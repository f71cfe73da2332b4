"""Which of the free GPUs a job gets: the best linked ones, leaving the others as useful as possible.

Rules kept here:

1. A choice is better by this sort key: the points of all links between its GPUs (``links``); fewer NUMA
   nodes, and those closer together; what the GPUs left over are good for, for later jobs of the same size,
   then of 2, 4, 8 and so on (``measure``); the lowest positions.  So one GPU alone breaks no pair while
   another would do.
2. The best choice is given for every set of NUMA nodes that can serve, so that a caller who finds no CPUs or
   no memory beside the first can take the next; where very many sets can, for the best of them.
3. Up to 16 free GPUs no choice with better links is missed, whatever the links are; where links are nested,
   for any number.  ``nested`` and ``search`` name their bounds.

Counterpart: the best-effort policy of NVIDIA's go-gpuallocator, whose points these are.  It divides all free
GPUs into sets of the size asked for, takes the division with the most points and returns the best set of it.
That set never has more points than the choice made here, for no set has; it may have fewer, since there
links of this job are given up for links of jobs to come.  Among sets with equal points the rest decides here
too, and it does for one GPU alone, where there the first is taken.
"""

from numawise.gpus.links import GpuLinks
from numawise.gpus.measure import Measure, best_nested, nesting
from numawise.gpus.search import best_searched
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
    """Points of all links; number of NUMA nodes and their distances, both below zero; what the rest is good
    for, by sizes of later jobs.  Of two choices for one request the greater score is the better choice."""
    worst: str
    """The worst link among the GPUs, such as ``PIX`` or ``NV18``; '' for one GPU, or when unknown."""

    @property
    def points(self) -> int:
        """Points of all links between the GPUs."""
        return self.score[0]


def choices(links: GpuLinks, free: int, count: int, must: int = 0) -> tuple[Choice, ...]:
    """The best choice of ``count`` GPUs for every set of NUMA nodes that can serve, best first.

    ``free`` and ``must`` are packed positions; every choice has all of ``must``.  None at all when there
    are too few, or when what must be in is not free.
    """
    free &= links.every
    if must & ~free or not max(1, must.bit_count()) <= count <= free.bit_count():
        return ()
    measure = Measure(links.points, free, count)
    whole = None if measure.small else nesting(measure)
    if whole is None:
        found = best_searched(measure, links.numa, must)
    else:
        found = best_nested(measure, whole, links.numa, must)
    ranked = []
    for numa, worth in found.items():
        points, *rest = measure.digits(worth)
        score = (points, -numa.bit_count(), -links.spread(numa), *rest)
        ranked.append((score, worth, numa))
    ranked.sort(reverse=True)
    return tuple(
        Choice(gpus, numa, score, links.worst(gpus))
        for score, gpus, numa in ((score, measure.gpus(worth), numa) for score, worth, numa in ranked)
    )


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
