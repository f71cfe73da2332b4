"""What one node of many would say to a pod: let in, or one sentence why not, and whether it ever could.

Rules kept here:

1. What the scheduler looks at comes first: labels, taints, sums.  Then the kubelet is asked, and the
   sentence is that of ``why``, without what differs from node to node.
2. *Never* is said where even the idle node with healthy devices would refuse the pod.  A taint or pressure
   goes away; labels are the node's own.  Of a node that is not known exactly it is said by sums alone.
"""

from collections.abc import Callable, Hashable, Iterable

from numawise.cluster.asking import Asker, Situation, looks_at_labels
from numawise.cluster.live import NodeView
from numawise.cluster.refusal import kind_when_idle
from numawise.cluster.sums import RULES, lack_by_sums
from numawise.engine.matching import NODE_AFFINITY, NODE_NAME, OS_DIFFERS, OS_LABEL_DIFFERS, Unmet, kept_away
from numawise.engine.predicates import Insufficient, Sums, asked, insufficient
from numawise.explain.case import case_of, healed, idle
from numawise.explain.explain import explain
from numawise.node.node import SimulatedNode
from numawise.render.demands import unmet_text
from numawise.render.refusal import lacking_text, short_text
from numawise.request.defaults import RawPod, defaulted
from numawise.request.model import PodRequest
from numawise.results.explanation import NEVER, Explanation
from numawise.values import dataclass, replace

FOR_EVER = (NODE_AFFINITY, NODE_NAME, OS_DIFFERS, OS_LABEL_DIFFERS)
NamePod = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class NodeRefused:
    """Why a node would not let a pod in."""

    reason: str
    never: bool | None
    explanation: Explanation | None = None
    """Of its kubelet; None: the scheduler would not send the pod there."""


def named_node(node: SimulatedNode, pods: Iterable[RawPod]) -> SimulatedNode:
    """A node whose pods have their names, which nodes do not publish."""
    named = replace(node)
    named.run_already(pod for pod in pods if pod.uid in node.state.active)
    return named


def refused_by(asker: Asker, situation: Situation, raw: RawPod, name_pod: NamePod) -> NodeRefused:
    """Why a node whose state is known does not let a pod in (rules 1 and 2)."""
    node = situation.member.node
    case = case_of(node, raw)
    explanation = explain(case, suggest=False)
    wrong_node = _wrong_node(asker, situation, raw)
    if wrong_node is not None:
        return _unmet(wrong_node, node.requested(raw), name_pod, never=True)
    never = None if explanation.admitted else explanation.outlook == NEVER
    lack = asker.lack(situation, raw)
    if isinstance(lack, Unmet):
        return _unmet(lack, node.requested(raw), name_pod, never=never)
    if never:  # not what is missing now, but what will always be
        alone = explain(idle(case), suggest=False)
        return NodeRefused(lacking_text(alone if alone.cause else explanation), never, explanation)
    if lack is not None:
        return NodeRefused(short_text(lack), never, explanation)
    return NodeRefused(lacking_text(explanation), never, explanation)


def _wrong_node(asker: Asker, situation: Situation, raw: RawPod) -> Unmet | None:
    """What a pod demands of its node that this one never has; None: nothing."""
    node = situation.member.node
    if node.description is None:
        return None
    lasting = replace(node.description, taints=(), unschedulable=False, pressures=())
    unmet = kept_away(node.rules, lasting, asker.want(node, raw)[0], ())
    return unmet if unmet is not None and unmet.reason in FOR_EVER else None


def refused_briefly(
    asker: Asker, situation: Situation, raw: RawPod, name_pod: NamePod, known: dict[Hashable, Explanation]
) -> NodeRefused:
    """Likewise, without the kubelet's explanation; ``known``: what idle nodes say to pods of this shape.

    What is never possible is the same on all nodes of one kind, whatever they hold, and is asked of one.
    """
    node = situation.member.node
    wrong_node = _wrong_node(asker, situation, raw)
    if wrong_node is not None:
        return _unmet(wrong_node, node.requested(raw), name_pod, never=True)
    lack = asker.lack(situation, raw)
    case = case_of(node, raw)
    constraints = raw.constraints
    key: Hashable = situation.member.number, situation.member.changes
    alone = case
    if looks_at_labels(constraints):  # and the node has them
        key = kind_when_idle(situation.member)
        loose = replace(constraints, node_selector={}, node_affinity=None)
        alone = case_of(node, replace(raw, constraints=loose))
    if key not in known:
        known[key] = explain(healed(idle(alone), node.state.devices.plugins), suggest=False)
    never = not known[key].admitted
    if isinstance(lack, Unmet):
        return _unmet(lack, node.requested(raw), name_pod, never=never)
    if never:
        return NodeRefused(lacking_text(known[key]), never)
    if lack is not None:
        return NodeRefused(short_text(lack), never)
    return NodeRefused(lacking_text(explain(case, suggest=False)), never)


def refused_by_sums(node: NodeView, raw: RawPod, name_pod: NamePod) -> NodeRefused | None:
    """Why the scheduler would not send a pod to a node of which no state is known; None: it may."""
    lack = lack_by_sums(node, raw)
    if lack is None:
        return None
    if isinstance(lack, Insufficient):
        return NodeRefused(short_text(lack), _never_by_sums(node, raw))
    return _unmet(lack, defaulted(raw), name_pod, never=_never_by_sums(node, raw))


def _never_by_sums(node: NodeView, raw: RawPod) -> bool | None:
    """True: not even the idle node has enough; None: it may."""
    limits = node.description.allocatable if node.description is not None else {}
    return True if limits and insufficient(RULES, Sums(limits, {}), asked(defaulted(raw))) else None


def _unmet(unmet: Unmet, pod: PodRequest, name_pod: NamePod, *, never: bool | None) -> NodeRefused:
    text, _ = unmet_text(unmet, pod, name_pod)
    return NodeRefused(text, True if never or unmet.reason in FOR_EVER else None)
