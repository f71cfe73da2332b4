"""Nodes of which no state is published: what the scheduler itself looks at, by the Node object and its pods.

Rules kept here:

1. Allocatable is what the Node object lists; every pod that is bound or promised counts with all it asks for.
   An extended resource that is not listed is not there.
2. Labels and taints count as everywhere; ports are compared with those of the pods that are known.
3. Without a Node object nothing is said.
"""

from numawise.cluster.node_view import NodeView
from numawise.engine.matching import Unmet, kept_away
from numawise.engine.predicates import Insufficient, Sums, asked, insufficient
from numawise.request.defaults import RawPod, defaulted
from numawise.rules.behaviour import behaviour_of
from numawise.rules.model import Rules
from numawise.rules.versions import DEFAULT

RULES = Rules(behaviour=behaviour_of(DEFAULT))


def free_sums(node: NodeView) -> dict[str, int]:
    """What is left of what the Node object lists; nothing where there is none."""
    if node.description is None:
        return {}
    sums = node.used_sums()
    return {
        name: max(0, size - sums.get(name, 0)) for name, size in sorted(node.description.allocatable.items())
    }


def lack_by_sums(node: NodeView, raw: RawPod) -> Insufficient | Unmet | None:
    """Why a scheduler would not send a pod to a node; None: it may."""
    described = node.description
    if described is None:
        return None
    pod = defaulted(raw)
    if described.allocatable:
        short = insufficient(RULES, Sums(described.allocatable, node.used_sums()), asked(pod))
        if short:
            return short[0]
    others = [(uid, defaulted(one.raw)) for uid, one in node.pods.items() if one.raw is not None]
    return kept_away(RULES, described, pod, others)
