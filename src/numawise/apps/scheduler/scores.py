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

from numawise.cluster.live import UNKNOWN, NodeVerdict
from numawise.codec.extender import HIGHEST_SCORE, LOWEST_SCORE
from numawise.results.cluster import NodeRating
from numawise.values import dataclass

LOWEST_RATED = 1
Ranked = Callable[[Sequence[NodeVerdict]], Sequence[NodeVerdict]]
"""Nodes in their order, the best first."""


@dataclass(frozen=True, slots=True)
class NodeScores:
    """What each node is worth, and which one is the best."""

    scores: dict[str, int]
    best: str = ""
    """'': there is no opinion."""


def node_scores(names: Iterable[str], verdicts: Iterable[NodeVerdict], ranked: Ranked) -> NodeScores:
    """Scores of all names, from what is said of them; ``ranked``: for those whose ratings are equal."""
    scores = dict.fromkeys(names, LOWEST_SCORE)
    alike: dict[int, tuple[NodeRating, list[NodeVerdict]]] = {}  # nodes in equal states share their rating
    for verdict in verdicts:
        rating = verdict.rating
        if rating is not None and not verdict.kept:
            own = alike.get(id(rating))
            if own is None:
                own = alike[id(rating)] = rating, []
            own[1].append(verdict)
    if not any(rating.numa for rating, _ in alike.values()):
        return NodeScores(scores)
    levels: dict[tuple[object, ...], list[NodeVerdict]] = {}
    for rating, nodes in alike.values():
        levels.setdefault(rating.rank, []).extend(nodes)
    order = sorted(levels)
    best = ranked(levels[order[0]])[0]
    if best.how == UNKNOWN:
        return NodeScores(scores)
    step = HIGHEST_SCORE - 1
    for rank in order:
        nodes = levels[rank]
        for verdict in nodes:
            scores[verdict.node] = step
        if len(nodes) > 1 or nodes[0] is not best:
            step = max(LOWEST_RATED, step - 1)
    scores[best.node] = HIGHEST_SCORE
    return NodeScores(scores, best.node)
