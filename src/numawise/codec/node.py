"""Node objects: what a cluster says of a node besides its hardware.

Rules kept here:

1. Fields that decide on pods are read and checked, everything else is ignored.
2. A kubelet that shuts down its node says so in the message of condition ``Ready``.
3. Several nodes in a list are told apart by name.
"""

from collections.abc import Mapping
from typing import Any

from numawise.codec.allocated import quantity
from numawise.codec.constraints import EFFECTS, scalar_text, text_map
from numawise.codec.document import Document, Part, read_file, shown
from numawise.errors import InputError, quoted
from numawise.machine.description import PRESSURES, NodeDescription, Taint
from numawise.request.model import CPU

KINDS = ("Node", "NodeList", "List")
LABELS_REMOVED = "numawise.dev/labels-removed"
"""Annotation of a Node object in a bundle whose labels were taken out."""
SHUTTING_DOWN = "node is shutting down"
EXAMPLE = "give what 'kubectl get node NAME -o yaml' prints"


def read_node_file(path: str, name: str = "") -> NodeDescription:
    """The node of a file; ``name``: which one, where it holds several (rule 3)."""
    nodes = [node for document in read_file(path) for node in node_objects(document)]
    named = [node for node in nodes if node.name == name] if name else nodes
    if len(nodes) == 1 and name and not named and nodes[0].name:
        what = f"is node {quoted(nodes[0].name)}, not {quoted(name)}"
        raise InputError(what, file=path, advice="give the Node object of the node that is meant")
    if len(named) > 1:
        names = ", ".join(quoted(node.name) for node in named[:4])
        raise InputError(f"holds several nodes: {names}", file=path, advice="choose one with --node-name")
    if not named:
        what = f"has no node {quoted(name)}" if name else "has no Node object"
        raise InputError(what, file=path, advice=EXAMPLE)
    return named[0]


def node_values(path: str, name: str = "") -> Mapping[str, Any]:
    """The plain object of the node that ``read_node_file`` chooses."""
    for document in read_file(path):
        root = document.root
        parts = root.at("items").items() if "items" in root.mapping() else [root]
        for part in parts:
            if not name or part.at("metadata", "name").value == name:
                return part.mapping()
    raise InputError("has no Node object", file=path, advice=EXAMPLE)


def node_objects(document: Document) -> list[NodeDescription]:
    """The nodes of a document: one, or a list of them."""
    root = document.root
    value = root.mapping(what="a Node object")
    if "items" in value:
        parts = root.at("items").items("a list of nodes")
        return [node_object(part) for part in parts if part.at("kind").value in (None, "Node")]
    return [node_object(root)]


def node_from(value: Mapping[str, Any]) -> NodeDescription:
    """The node that an API server returned."""
    return node_object(Document(value).root)


def node_object(part: Part) -> NodeDescription:
    """Read one Node object."""
    part.mapping(what="a Node object")
    kind = part.at("kind")
    if kind.value not in (None, "Node"):
        raise kind.error(f"{shown(kind.value)} is not a Node", EXAMPLE)
    metadata, spec, status = (part.at(name) for name in ("metadata", "spec", "status"))
    for section in (metadata, spec, status):
        section.mapping()
    name = metadata.at("name")
    conditions = status.at("conditions").items("a list of conditions")
    types = [(one, one.at("type").text() if one.at("type").value is not None else "") for one in conditions]
    true = {name for one, name in types if one.at("status").value == "True"}
    ready = [str(one.at("message").value) for one, name in types if name == "Ready"]
    kernel = status.at("nodeInfo", "kernelVersion").value
    return NodeDescription(
        name="" if name.value is None else name.text(),
        labels=text_map(metadata.at("labels"), "a mapping of labels"),
        labels_known=metadata.at("annotations", LABELS_REMOVED).value is None,
        taints=tuple(map(_taint, spec.at("taints").items("a list of taints"))),
        unschedulable=spec.at("unschedulable").value is True,
        pressures=tuple(one for one in PRESSURES if one in true),
        allocatable=_amounts(status.at("allocatable")),
        strict_groups=status.at("features", "supplementalGroupsPolicy").value is True,
        kernel=kernel if isinstance(kernel, str) else "",
        shutting_down=any(SHUTTING_DOWN in message for message in ready),
    )


def _taint(part: Part) -> Taint:
    part.mapping(what="a taint: a mapping with key, value and effect")
    effect = part.at("effect")
    if effect.value not in EFFECTS:
        what = f"unknown effect {shown(effect.value)}" if effect.value is not None else "is missing"
        raise effect.error(what, f"known are {', '.join(EFFECTS)}")
    value = part.at("value")
    return Taint(part.at("key").text(), effect.text(), "" if value.value is None else scalar_text(value))


def _amounts(part: Part) -> dict[str, int]:
    found = {}
    for name, value in part.mapping(what="a mapping from resources to quantities").items():
        try:
            amount = quantity(value)
        except ValueError as problem:
            what = f"{shown(value)} is not a quantity: {problem}"
            raise part.at(name).error(what, "write it like 64, 250Gi or 110") from None
        found[name] = amount.milli if name == CPU else amount.value
    return found
