"""What a pod demands of a node and does not find there, in words, and what would help."""

from collections.abc import Callable

from numawise.engine.matching import (
    EVICTED,
    GROUPS,
    NODE_AFFINITY,
    NODE_NAME,
    NODE_PORTS,
    OS_LABEL_DIFFERS,
    SHUTDOWN,
    SYSCTL,
    SYSTEM,
    TAINTS,
    Unmet,
    holds,
    labels_of,
)
from numawise.machine.description import NodeDescription
from numawise.render.words import both
from numawise.request.constraints import NodeRequirement, PodConstraints
from numawise.request.model import PodRequest

MOST_TERMS = 3
OPERATORS = {"Gt": "greater than", "Lt": "less than"}
NOT_KNOWN = "the Node object is not known; give it with --node-object"


def not_judged_text(fields: tuple[str, ...]) -> str:
    """``not judged: nodeSelector and …``."""
    return f"not judged: {both(fields)}, as {NOT_KNOWN}"


def preempted_text(names: list[str]) -> str:
    """Pods that are ended for a critical one."""
    pods = "pod" if len(names) == 1 else "pods"
    return (
        f"critical: the kubelet ends {pods} {', '.join(names)} to make room; CPUs, memory and devices that "
        "this frees are collected later, and not given to this pod"
    )


def unmet_text(unmet: Unmet, pod: PodRequest, name_of: Callable[[str], str]) -> tuple[str, str]:
    """Why a pod and a node do not go together, and what would help; ``name_of``: a pod's name by its uid."""
    constraints, node = pod.constraints, unmet.node or NodeDescription()
    called = node.name or "NODE"
    if unmet.reason == NODE_AFFINITY:
        return _affinity(constraints, node), "label the node, or change what the pod demands"
    if unmet.reason == NODE_NAME:
        return (
            f"the pod is bound to node {constraints.node_name} (spec.nodeName), and this is {node.name}",
            "remove nodeName from the pod",
        )
    if unmet.reason == NODE_PORTS and unmet.port is not None:
        port = f"{unmet.port.port}/{unmet.port.protocol}"
        return (
            f"port {port} of the node is taken by pod {name_of(unmet.holder)}",
            "use another hostPort or none, or remove that pod",
        )
    if unmet.reason == TAINTS and unmet.taint is not None:
        removal = f"kubectl taint node {called} {unmet.taint}-"
        return (
            f"the node has the taint {unmet.taint}, which the pod does not tolerate",
            f"add a toleration for {unmet.taint.key} to the pod, or remove the taint: {removal}",
        )
    if unmet.reason == EVICTED:
        only_memory = node.pressures == ("MemoryPressure",)
        who = "BestEffort pods" if only_memory else "pods that are not critical"
        help_ = "free memory on the node, or request CPU or memory" if only_memory else "relieve the node"
        return f"the node reports {', '.join(node.pressures)} and turns {who} away", help_
    if unmet.reason == SYSCTL:
        return (
            f"the kubelet does not let the pod set a sysctl: {unmet.message.partition(': ')[2]}",
            "allow it in the kubelet's allowedUnsafeSysctls, or remove it from the pod",
        )
    if unmet.reason == GROUPS:
        return (
            "the pod wants supplementalGroupsPolicy Strict, which the node's container runtime lacks",
            "use Merge, or a newer container runtime",
        )
    if unmet.reason == SHUTDOWN:
        return "the node is shutting down", "wait for it to come back, or send the pod to another node"
    wanted = constraints.os_label if unmet.reason == OS_LABEL_DIFFERS else constraints.os
    return f"the pod is for {wanted}, and this kubelet runs on {SYSTEM}", "send it to a node with that system"


def _affinity(constraints: PodConstraints, node: NodeDescription) -> str:
    labels = labels_of(node)
    for key, value in constraints.node_selector.items():
        if labels.get(key) != value:
            has = _label(key, labels.get(key))
            return f"the pod's nodeSelector demands {key}={value}, and the node has {has}"
    parts = []
    for term in (constraints.node_affinity or ())[:MOST_TERMS]:
        fields = {"metadata.name": node.name}
        unmet = [_requirement(one, labels.get(one.key)) for one in term.labels if not holds(one, labels)]
        unmet += [_requirement(one, node.name) for one in term.fields if not holds(one, fields)]
        parts.append("; ".join(unmet) or "an empty term matches no node")
    some = " or ".join(parts)
    return f"the pod's required node affinity does not match the node: {some}"


def _requirement(requirement: NodeRequirement, present: str | None) -> str:
    key, operator = requirement.key, OPERATORS.get(requirement.operator, requirement.operator)
    wanted = " ".join([key, operator, *([", ".join(requirement.values)] if requirement.values else [])])
    return f"it demands {wanted}, and the node has {_label(key, present)}"


def _label(key: str, present: str | None) -> str:
    return f"no label {key}" if present is None else f"{key}={present}"
