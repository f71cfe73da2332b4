"""What a manifest demands of a node besides resources: selectors, tolerations, host ports, priority, OS.

Rules kept here:

1. What decides on a node is read and checked as the API server checks it; everything else is ignored.
2. Preferences decide nothing: of affinities the required ones about nodes are read alone.
3. The kubelet's own annotations tell static pods and their mirrors from others.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from numawise.codec.document import Document, Part, number_text, shown
from numawise.codec.objects import MIRROR
from numawise.request.constraints import (
    ANY_ADDRESS,
    NO_CONSTRAINTS,
    PRIORITIES,
    TCP,
    HostPort,
    NodeRequirement,
    NodeSelectorTerm,
    PodConstraints,
    Toleration,
)
from numawise.request.model import Role
from numawise.strconv import quote

SOURCE, OS_LABEL = "kubernetes.io/config.source", "kubernetes.io/os"
FROM_API = "api"
SPEC_KEYS = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "priority",
    "priorityClassName",
    "os",
    "securityContext",
)
LABEL_OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
FIELD_OPERATORS = ("In", "NotIn")
TOLERATION_OPERATORS = ("Equal", "Exists", "Gt", "Lt")
EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
PROTOCOLS = ("SCTP", "TCP", "UDP")
SYSTEMS = ("linux", "windows")
GROUP_POLICIES = ("Merge", "Strict")
LARGEST = 2**31 - 1
WANTED = "requiredDuringSchedulingIgnoredDuringExecution"


def constraints_from(value: Mapping[str, Any]) -> PodConstraints:
    """What a pod demands whose values are known to be good."""
    spec, metadata = value["spec"], value["metadata"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    if (
        not any(key in spec for key in SPEC_KEYS)
        and not any(container.get("ports") for container in containers)
        and not metadata.get("annotations")
        and not metadata.get("labels")
    ):
        return NO_CONSTRAINTS
    root = Document(value).root
    return read_constraints(root.at("spec"), root.at("metadata"))


def read_constraints(spec: Part, metadata: Part) -> PodConstraints:
    """What a pod demands, out of its spec and metadata."""
    annotations, labels = metadata.at("annotations"), metadata.at("labels")
    annotations.mapping(what="a mapping of annotations")
    labels.mapping(what="a mapping of labels")
    source, os_label = annotations.at(SOURCE).value, labels.at(OS_LABEL).value
    security = spec.at("securityContext")
    security.mapping(what="the pod's security context")
    groups = security.at("supplementalGroupsPolicy")
    found = PodConstraints(
        node_name=_text(spec.at("nodeName")),
        node_selector=text_map(spec.at("nodeSelector"), "a mapping of node labels"),
        node_affinity=_affinity(spec.at("affinity")),
        tolerations=tuple(map(_toleration, spec.at("tolerations").items("a list of tolerations"))),
        ports=tuple(_ports(spec)),
        priority=_priority(spec),
        static=source is not None and source != FROM_API,
        mirror=MIRROR in annotations.mapping(),
        os=_choice(_os(spec.at("os")), SYSTEMS),
        os_label=os_label if isinstance(os_label, str) else None,
        strict_groups=_choice(groups, GROUP_POLICIES) == "Strict",
        sysctls=tuple(_text(part.at("name")) for part in security.at("sysctls").items("a list of sysctls")),
        host_network=spec.at("hostNetwork").value is True,
        host_ipc=spec.at("hostIPC").value is True,
        host_users=spec.at("hostUsers").value is not False,
    )
    return NO_CONSTRAINTS if found == NO_CONSTRAINTS else found


def text_map(part: Part, what: str) -> dict[str, str]:
    """A mapping from text to text."""
    return {key: scalar_text(part.at(key)) for key in part.mapping(what=what)}


def scalar_text(part: Part) -> str:
    """Text, where a number or a truth value that was not put in quotes counts as one."""
    value = part.value
    if isinstance(value, bool):
        return str(value).lower()
    return number_text(value) if isinstance(value, int | float) else part.text()


def _text(part: Part) -> str:
    return "" if part.value is None else part.text()


def _choice(part: Part, choices: tuple[str, ...]) -> str:
    text = _text(part)
    if text and text not in choices:
        supported = ", ".join(map(quote, choices))
        raise part.error(f"Unsupported value: {shown(text)}: supported values: {supported}")
    return text


def _os(part: Part) -> Part:
    part.mapping(("name",), "a mapping with the name of an operating system")
    return part.at("name")


def _priority(spec: Part) -> int | None:
    part = spec.at("priority")
    if part.value is not None:
        return part.integer(-LARGEST - 1, LARGEST)
    return PRIORITIES.get(_text(spec.at("priorityClassName")))


def _affinity(affinity: Part) -> tuple[NodeSelectorTerm, ...] | None:
    """Rule 2."""
    affinity.mapping(("nodeAffinity", "podAffinity", "podAntiAffinity"), "a mapping of affinities")
    node = affinity.at("nodeAffinity")
    node.mapping((WANTED, "preferredDuringSchedulingIgnoredDuringExecution"), "a mapping of node affinities")
    required = node.at(WANTED)
    if required.value is None:
        return None
    required.mapping(("nodeSelectorTerms",), "a mapping with nodeSelectorTerms")
    terms = required.at("nodeSelectorTerms")
    parts = terms.items("a list of terms")
    if not parts:
        advice = "give at least one term"
        raise terms.error("Required value: must have at least one node selector term", advice)
    return tuple(map(_term, parts))


def _term(part: Part) -> NodeSelectorTerm:
    part.mapping(("matchExpressions", "matchFields"), "a mapping with matchExpressions or matchFields")
    expressions = part.at("matchExpressions").items("a list of expressions")
    fields = part.at("matchFields").items("a list of expressions")
    return NodeSelectorTerm(
        tuple(_requirement(one, LABEL_OPERATORS) for one in expressions),
        tuple(_requirement(one, FIELD_OPERATORS) for one in fields),
    )


def _requirement(part: Part, operators: tuple[str, ...]) -> NodeRequirement:
    part.mapping(("key", "operator", "values"), "an expression: a mapping with key, operator and values")
    key, operator = part.at("key").text(), _choice(part.at("operator"), operators)
    if not operator:
        raise part.at("operator").error("Required value", f"give one of {', '.join(operators)}")
    values = part.at("values")
    texts = tuple(map(scalar_text, values.items("a list of texts")))
    if operator in ("In", "NotIn") and not texts:
        raise values.error("Required value: must be specified when `operator` is 'In' or 'NotIn'")
    if operator in ("Exists", "DoesNotExist") and texts:
        rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        raise values.error(f"Forbidden: {rule}", "remove the values")
    if operator in ("Gt", "Lt") and len(texts) != 1:
        raise values.error("Required value: must be specified single value when `operator` is 'Lt' or 'Gt'")
    if operators is FIELD_OPERATORS:
        if len(texts) != 1:
            what = "Required value: must be only one value when `operator` is 'In' or 'NotIn'"
            raise values.error(f"{what} for node field selector")
        if key != "metadata.name":
            rule = "not a valid field selector key"
            raise part.at("key").error(f"Invalid value: {shown(key)}: {rule}", "use metadata.name")
    return NodeRequirement(key, operator, texts)


def _toleration(part: Part) -> Toleration:
    fields = ("key", "operator", "value", "effect", "tolerationSeconds")
    part.mapping(fields, "a toleration: a mapping with key, operator, value and effect")
    key, value = (
        _text(part.at("key")),
        "" if part.at("value").value is None else scalar_text(part.at("value")),
    )
    operator = _choice(part.at("operator"), TOLERATION_OPERATORS)
    if not key and operator != "Exists":
        rule = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        raise part.at("operator").error(f"Invalid value: {shown(operator)}: {rule}", "give it a key")
    if operator == "Exists" and value:
        rule = "value must be empty when `operator` is 'Exists'"
        raise part.at("value").error(f"Invalid value: {shown(value)}: {rule}", "remove the value")
    return Toleration(key, operator, value, _choice(part.at("effect"), EFFECTS))


def _ports(spec: Part) -> Iterable[HostPort]:
    """Ports of the node; those of init containers count where these go on running."""
    host_network = spec.at("hostNetwork").value is True
    for field, role in (("initContainers", Role.INIT), ("containers", Role.APP)):
        for container in spec.at(field).items():
            if role is Role.INIT and container.at("restartPolicy").value != "Always":
                continue
            for part in container.at("ports").items("a list of ports"):
                part.mapping(what="a port: a mapping with containerPort and hostPort")
                port = part.at("hostPort")
                inner = part.at("containerPort") if host_network and port.value is None else port
                number = 0 if inner.value is None else inner.integer(0, 65535)
                protocol = _choice(part.at("protocol"), PROTOCOLS) or TCP
                address = _text(part.at("hostIP")) or ANY_ADDRESS
                if number:
                    yield HostPort(number, protocol, address, sidecar=role is Role.INIT)
