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

from collections.abc import Iterable, Sequence

from numawise.cluster.live import UNKNOWN, NodeVerdict
from numawise.codec.extender import HIGHEST_SCORE, LOWEST_SCORE
from numawise.values import dataclass

LOWEST_RATED = 1


@dataclass(frozen=True, slots=True)
class NodeScores:
    """What each node is worth, and which one is the best."""

    scores: dict[str, int]
    best: str = ""
    """'': there is no opinion."""


def node_scores(names: Iterable[str], ranked: Sequence[NodeVerdict]) -> NodeScores:
    """Scores of all names; ``ranked``: those that would let the pod in, the best first."""
    scores = dict.fromkeys(names, LOWEST_SCORE)
    if not ranked or ranked[0].how == UNKNOWN or not any(one.rating and one.rating.numa for one in ranked):
        return NodeScores(scores)
    best = ranked[0].node
    scores[best] = HIGHEST_SCORE
    step, last, last_rank = HIGHEST_SCORE - 1, ranked[0].rating, None
    for verdict in ranked[1:]:
        rating = verdict.rating
        assert rating is not None
        if rating is not last or last_rank is None:  # nodes in equal states share their rating
            rank = rating.rank
            if last_rank is not None and rank != last_rank:
                step = max(LOWEST_RATED, step - 1)
            last, last_rank = rating, rank
        scores[verdict.node] = step
    return NodeScores(scores, best)
