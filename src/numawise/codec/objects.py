"""What objects of the API server have in common: a name, a uid, managers; and the phases of a pod.

What a server sends may have any shape: where a name or uid is missing, it is ''.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from numawise.codec.document import Document, Part, mapping, shown
from numawise.codec.lines import Steps
from numawise.errors import quoted

FAILED, SUCCEEDED, RUNNING, PENDING = "Failed", "Succeeded", "Running", "Pending"
ENDED = (FAILED, SUCCEEDED)
"""Phases of a pod that has no container running, and never will."""
MIRROR = "kubernetes.io/config.mirror"
TEXTS = frozenset({
    "apiVersion", "creationTimestamp", "deletionTimestamp", "effect", "key", "kernelVersion", "kind",
    "kubeletVersion", "lastTransitionTime", "machineID", "message", "name", "namespace", "nodeName",
    "nominatedNodeName", "parent", "phase", "qosClass", "reason", "resourceVersion", "startTime", "time",
    "type", "uid", "value",
})  # fmt: skip
"""Fields of pods, nodes and what nodes publish that are text wherever they stand."""
CONTAINERS = (dict, list)


def object_name(value: object) -> str:
    """The name of an object."""
    return _named(value, "name")


def object_uid(value: object) -> str:
    """The uid of an object."""
    return _named(value, "uid")


def kubelet_uid(pod: Mapping[str, Any]) -> str:
    """The uid by which its kubelet knows a pod: of a mirror that of the static pod itself."""
    metadata = mapping(pod.get("metadata"))
    return str(mapping(metadata.get("annotations")).get(MIRROR) or metadata.get("uid") or "")


def unmanaged(value: Mapping[str, Any]) -> dict[str, Any]:
    """An object without the list of who wrote which of its fields, often longer than all the rest."""
    metadata = mapping(value.get("metadata"))
    return {**value, "metadata": {key: part for key, part in metadata.items() if key != "managedFields"}}


def check_texts(value: Mapping[str, Any], kind: str, file: str, at: Steps, parts: Sequence[str]) -> None:
    """``InputError``: in these parts of an object is an object or a list where text is meant."""
    left: list[tuple[Steps, object]] = [((part,), value.get(part)) for part in parts]
    for steps, inner in left:
        if isinstance(inner, dict):
            left += [((*steps, key), one) for key, one in inner.items() if isinstance(one, CONTAINERS)]
        elif isinstance(inner, list):
            left += [((*steps, key), one) for key, one in enumerate(inner) if isinstance(one, CONTAINERS)]
        if steps[-1] in TEXTS and isinstance(inner, CONTAINERS):
            name = mapping(value.get("metadata")).get("name")
            whose = f"{kind} {quoted(name)}" if isinstance(name, str) and name else f"a {kind}"
            what = f"must be text in {whose}, not {shown(inner)}"
            raise Part(Document(value, file), (*at, *steps), inner).error(what, "give what kubectl prints")


def _named(value: object, key: str) -> str:
    return str(mapping(mapping(value).get("metadata")).get(key) or "")
