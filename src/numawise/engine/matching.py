"""Whether a node is one that a pod may run on: labels, name, ports, taints, operating system, pressure.

Counterpart: ``AdmissionCheck`` of pkg/scheduler/eventhandlers.go and ``generalFilter`` of
pkg/kubelet/lifecycle/predicate.go for labels, names, ports and taints; component-helpers/scheduling/corev1
for what matches what; ``Admit`` of pkg/kubelet/eviction/eviction_manager.go for pressure.

Rules kept here:

1. What a Node object would have to say is judged only where there is one, and has it.
2. Labels, name, ports and taints are judged in this order, and all of them are; the first is the reason.
3. Of the taints, a kubelet looks at those with effect ``NoExecute``, and never for static pods.
4. Conditions come out of a Go map; here they come by name.
"""

from collections.abc import Container, Iterable, Mapping

from numawise.engine.sysctl import forbidden_sysctl
from numawise.machine.description import NO_EXECUTE, NO_SCHEDULE, NodeDescription, Taint
from numawise.request.constraints import (
    HostPort,
    NodeRequirement,
    NodeSelectorTerm,
    PodConstraints,
    Toleration,
)
from numawise.request.model import BEST_EFFORT, EPHEMERAL, PodRequest
from numawise.rules.model import Rules
from numawise.strconv import parse_int
from numawise.values import dataclass

NODE_AFFINITY, NODE_NAME, NODE_PORTS, TAINTS = "NodeAffinity", "NodeName", "NodePorts", "TaintToleration"
EVICTED, SYSCTL, SHUTDOWN = "Evicted", "SysctlForbidden", "NodeShutdown"
OS_LABEL_DIFFERS, OS_DIFFERS = "PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported"
GROUPS = "SupplementalGroupsPolicyNotSupported"
DETAILS = {
    NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    NODE_NAME: "node(s) didn't match the requested node name",
    NODE_PORTS: "node(s) didn't have free ports for the requested pod ports",
    TAINTS: "node(s) had taints that the pod didn't tolerate",
}
MESSAGES = {
    OS_LABEL_DIFFERS: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
    OS_DIFFERS: "Failed to admit pod as the OS field doesn't match node OS",
    GROUPS: "SupplementalGroupsPolicy=Strict is not supported in this node",
    SHUTDOWN: "Pod was rejected as the node is shutting down.",
}
SYSTEM, OS_LABEL = "linux", "kubernetes.io/os"
UNDER_PRESSURE = Taint("node.kubernetes.io/memory-pressure", NO_SCHEDULE)
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)

Others = Iterable[tuple[str, PodRequest | None]]


@dataclass(frozen=True, slots=True)
class Unmet:
    """What stands between a pod and a node, resources apart."""

    reason: str
    message: str
    taint: Taint | None = None
    """The first that the pod does not tolerate."""
    port: HostPort | None = None
    """The first that is taken."""
    holder: str = ""
    """The uid of the pod that has it."""
    node: NodeDescription | None = None
    """What is known of the node."""


def turned_away(rules: Rules, node: NodeDescription | None, pod: PodRequest) -> Unmet | None:
    """What the kubelet looks at before its managers do: pressure, and kernel parameters."""
    constraints = pod.constraints
    if node is not None and node.pressures and not constraints.critical:
        spared = node.pressures == ("MemoryPressure",) and (
            pod.qos != BEST_EFFORT or _tolerates(rules, constraints.tolerations, UNDER_PRESSURE)
        )
        if not spared:
            return Unmet(EVICTED, f"The node had condition: [{' '.join(node.pressures)}]. ", node=node)
    forbidden = forbidden_sysctl(rules, constraints, node.kernel if node is not None else "")
    return Unmet(SYSCTL, f"forbidden sysctl: {forbidden}") if forbidden else None


def other_system(rules: Rules, pod: PodRequest) -> Unmet | None:
    """An operating system that this kubelet does not run."""
    constraints = pod.constraints
    if not rules.behaviour.pod_system_judged:
        return None
    if constraints.os_label not in (None, SYSTEM):
        return _plainly(OS_LABEL_DIFFERS)
    return _plainly(OS_DIFFERS) if constraints.os not in ("", SYSTEM) else None


def unsupported_groups(rules: Rules, node: NodeDescription | None, pod: PodRequest) -> Unmet | None:
    """Groups that the container runtime cannot leave out."""
    strict = rules.behaviour.group_policy_judged and pod.constraints.strict_groups
    return _plainly(GROUPS) if strict and node is not None and not node.strict_groups else None


def shutting_down(node: NodeDescription | None) -> Unmet | None:
    """A node that is going down."""
    return _plainly(SHUTDOWN) if node is not None and node.shutting_down else None


def _plainly(reason: str) -> Unmet:
    return Unmet(reason, MESSAGES[reason])


def mismatches(rules: Rules, node: NodeDescription | None, pod: PodRequest, others: Others) -> list[Unmet]:
    """All that a node is not, in the kubelet's order (rules 1 to 3); ``others``: the pods that run there."""
    constraints = pod.constraints
    found = []
    if node is not None:
        if not _selected(rules, constraints, node):
            found.append(_predicate(rules, NODE_AFFINITY, node))
        if constraints.node_name and node.name and constraints.node_name != node.name:
            found.append(_predicate(rules, NODE_NAME, node))
    taken = _taken(rules, constraints, others) if constraints.ports else None
    if taken is not None:
        found.append(_predicate(rules, NODE_PORTS, node, port=taken[0], holder=taken[1]))
    if node is not None and rules.behaviour.taints_judged and not constraints.static:
        taint = untolerated(rules, constraints, node.taints, (NO_EXECUTE,))
        if taint is not None:
            found.append(_predicate(rules, TAINTS, node, taint=taint))
    return found


def kept_away(rules: Rules, node: NodeDescription | None, pod: PodRequest, others: Others) -> Unmet | None:
    """Why a scheduler would not send a pod to a node, resources apart."""
    if node is not None:
        taints = (UNSCHEDULABLE, *node.taints) if node.unschedulable else node.taints
        taint = untolerated(rules, pod.constraints, taints, (NO_SCHEDULE, NO_EXECUTE))
        if taint is not None:
            return _predicate(rules, TAINTS, node, taint=taint)
    return next(iter(mismatches(rules, node, pod, others)), None)


def _predicate(
    rules: Rules,
    name: str,
    node: NodeDescription | None,
    *,
    taint: Taint | None = None,
    port: HostPort | None = None,
    holder: str = "",
) -> Unmet:
    detail = f": {DETAILS[name]}" if rules.behaviour.predicates_say_why else ""
    return Unmet(name, f"Predicate {name} failed{detail}", taint, port, holder, node)


# --- labels ---------------------------------------------------------------------------------


def _selected(rules: Rules, constraints: PodConstraints, node: NodeDescription) -> bool:
    """True when the node is one that the pod's selector and affinity allow."""
    if not node.labels_known or (not constraints.node_selector and constraints.node_affinity is None):
        return True
    labels = labels_of(node) if rules.behaviour.pod_system_judged_first else node.labels
    if any(labels.get(key) != value for key, value in constraints.node_selector.items()):
        return False
    terms = constraints.node_affinity
    return terms is None or any(matches(term, labels, node.name) for term in terms)


def labels_of(node: NodeDescription) -> Mapping[str, str]:
    """The labels of a node; by the time they are looked at the kubelet has put its own system there."""
    return {**node.labels, OS_LABEL: SYSTEM} if node.labels else node.labels


def not_judged(node: NodeDescription | None, pod: PodRequest, known: Container[str]) -> tuple[str, ...]:
    """The fields of a pod that only a Node object could answer (rule 1); ``known``: what is allocatable."""
    no_labels = node is None or not node.labels_known
    if not no_labels and EPHEMERAL in known:
        return ()
    constraints = pod.constraints
    given = (
        ("nodeSelector", no_labels and constraints.node_selector),
        ("nodeAffinity", no_labels and constraints.node_affinity is not None),
        ("supplementalGroupsPolicy", node is None and constraints.strict_groups),
        (EPHEMERAL, EPHEMERAL not in known and any(EPHEMERAL in one.requests for one in pod.containers)),
    )
    return tuple(name for name, asked in given if asked)


def matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """True when a node has all that a term wants; an empty term wants what no node has."""
    if not term.labels and not term.fields:
        return False
    fields = {"metadata.name": name} if name else {}
    return all(holds(one, labels) for one in term.labels) and (
        not fields or all(holds(one, fields) for one in term.fields)
    )


def holds(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    """True when one expression is true of a node."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    numbers = [_int64(text) for text in (value or "", requirement.values[0])]
    if numbers[0] is None or numbers[1] is None:
        return False
    return numbers[0] > numbers[1] if requirement.operator == "Gt" else numbers[0] < numbers[1]


def _int64(text: str) -> int | None:
    try:
        return parse_int(text)
    except ValueError:
        return None


# --- ports and taints -----------------------------------------------------------------------


def _taken(rules: Rules, constraints: PodConstraints, others: Others) -> tuple[HostPort, str] | None:
    """The first port of the pod that another has, and who has it."""
    held = [(port, uid) for uid, pod in others if pod for port in _open(rules, pod.constraints)]
    for port in _open(rules, constraints):
        holder = next((uid for other, uid in held if port.conflicts(other)), None)
        if holder is not None:
            return port, holder
    return None


def _open(rules: Rules, constraints: PodConstraints) -> Iterable[HostPort]:
    counted = rules.behaviour.sidecar_ports_count and rules.sidecars
    return (port for port in constraints.ports if counted or not port.sidecar)


def untolerated(
    rules: Rules, constraints: PodConstraints, taints: Iterable[Taint], effects: tuple[str, ...]
) -> Taint | None:
    """The first taint with one of the effects that the pod does not tolerate."""
    tolerations = constraints.tolerations
    return next(
        (one for one in taints if one.effect in effects and not _tolerates(rules, tolerations, one)), None
    )


def _tolerates(rules: Rules, tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_tolerated(rules, one, taint) for one in tolerations)


def _tolerated(rules: Rules, toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if toleration.operator == "Exists":
        return True
    if not rules.numeric_tolerations:
        return False
    wanted, present = _decimal(toleration.value), _decimal(taint.value)
    if wanted is None or present is None:
        return False
    return present > wanted if toleration.operator == "Gt" else present < wanted


def _decimal(text: str) -> int | None:
    """A number in its one plain form, without a plus or leading zeros."""
    number = _int64(text)
    return number if number is not None and str(number) == text else None
