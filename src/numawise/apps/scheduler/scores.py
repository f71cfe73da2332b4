"""Scores of nodes, 0 to 10, as kube-scheduler adds them up.

Rules kept here:

1. The best node has 10, and nobody else has: with the weight that we ask for it is the one that is bound, so
   it can be promised before that is seen.
2. The order is that of ``cluster.choice``: alignment and the number of NUMA nodes; what is lost for larger
   shapes; what stays free beside it; links.  All others that are rated alike have the same score, a step
   below those that are rated better, from 9 on; all beyond the ninth rating have 1.
3. A pod that is given nothing of its own is left to the stock scheduler: everybody has 0.  So it is where the
   best node is one of which nothing is known.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from numawise.cluster.live import NodeVerdict
from numawise.codec.extender import HIGHEST_SCORE, LOWEST_SCORE
from numawise.results.cluster import NodeRating
from numawise.results.node_room import UNKNOWN
from numawise.values import dataclass

LOWEST_RATED, MOST_RANKS = 1, 100_000
Rank = tuple[object, ...]
First = Callable[[Sequence[NodeVerdict]], NodeVerdict]
"""The best of nodes that are rated alike."""


@dataclass(frozen=True, slots=True)
class NodeScores:
    """What each node is worth, and which one is the best."""

    scores: dict[str, int]
    best: str = ""
    """'': there is no opinion."""


class RatingRanks:
    """The ranks of ratings, each worked out once; equal ones are one value."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[NodeRating, Rank]] = {}
        self._same: dict[Rank, Rank] = {}

    def of(self, rating: NodeRating) -> Rank:
        """The rank of a rating."""
        known = self._known.get(id(rating))
        if known is None:
            if len(self._known) >= MOST_RANKS:
                self._known.clear()
                self._same.clear()
            rank = rating.rank
            known = self._known[id(rating)] = rating, self._same.setdefault(rank, rank)
        return known[1]


def node_scores(
    names: Iterable[str], verdicts: Iterable[NodeVerdict], first: First, ranks: RatingRanks
) -> NodeScores:
    """Scores of all names, from what is said of them; ``first``: for those whose ratings are equal."""
    scores = dict.fromkeys(names, LOWEST_SCORE)
    groups: dict[int, list[NodeVerdict]] = {}
    """By rating: equal ones are mostly one value."""
    for verdict in verdicts:
        rating = verdict.rating
        if rating is not None and not verdict.kept:
            group = groups.get(id(rating))
            if group is None:
                groups[id(rating)] = [verdict]
            else:
                group.append(verdict)
    levels: dict[int, tuple[Rank, list[NodeVerdict]]] = {}
    opinion = False
    for group in groups.values():
        rating = group[0].rating
        assert rating is not None
        rank = ranks.of(rating)
        opinion = opinion or bool(rating.numa)
        levels.setdefault(id(rank), (rank, []))[1].extend(group)
    if not opinion:
        return NodeScores(scores)
    order = [nodes for _, nodes in sorted(levels.values(), key=itemgetter(0))]
    best = first(order[0])
    if best.how == UNKNOWN:
        return NodeScores(scores)
    step = HIGHEST_SCORE - 1
    for nodes in order:
        for verdict in nodes:
            scores[verdict.node] = step
        if len(nodes) > 1 or nodes[0] is not best:
            step = max(LOWEST_RATED, step - 1)
    scores[best.node] = HIGHEST_SCORE
    return NodeScores(scores, best.node)
