"""The smallest changes that turn a no into a yes.

Rules kept here:

1. Nothing is suggested that the engine did not admit on the same state, after the very change.
2. Smallest first: what costs nothing, then a part of the request, then another pod, then the promise that the
   configuration makes, then the alignment itself.
3. A pod that the kubelet knows already cannot be changed; it has to be made anew.
"""

from collections.abc import Sequence
from dataclasses import replace

from numawise.engine.admit import Crashed, Rejected
from numawise.explain import wording as tell
from numawise.explain.case import Case, admitted, anew
from numawise.explain.node_changes import Elsewhere, node_changes
from numawise.explain.pod_changes import last_resorts, pod_changes
from numawise.explain.search import Search
from numawise.results.explanation import Suggestion

SHOWN = 6
"""So many are shown at most."""


def suggestions(
    case: Case,
    decision: Rejected | Crashed,
    container: str,
    resources: Sequence[str],
    others: Sequence[Elsewhere] = (),
) -> tuple[Suggestion, ...]:
    """What would let the pod in, smallest first (rule 2).

    ``container``: where it failed; ``resources``: those that decided; ``others``: nodes it could go to.
    """
    again = case.again
    if again:
        case = anew(case)
        if admitted(case):
            text = tell.FORCED if isinstance(decision, Crashed) else tell.ANEW
            return (Suggestion("recreate", text, recreate=True),)
    search = Search(case, decision, container, resources)
    found = sorted((*pod_changes(search), *node_changes(search, others)), key=lambda one: one.cost)
    if not found:
        found = list(last_resorts(search))
    shown = [one.suggestion for one in found[:SHOWN]]
    return tuple(replace(one, recreate=True) if again and not one.node else one for one in shown)
