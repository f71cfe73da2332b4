"""What objects of the API server have in common: a name, a uid, managers; and the phases of a pod.

What a server sends may have any shape: where a name or uid is missing, it is ''.
"""

from collections.abc import Mapping
from typing import Any

from numawise.codec.document import mapping

FAILED, SUCCEEDED, RUNNING, PENDING = "Failed", "Succeeded", "Running", "Pending"
ENDED = (FAILED, SUCCEEDED)
"""Phases of a pod that has no container running, and never will."""
MIRROR = "kubernetes.io/config.mirror"


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


def _named(value: object, key: str) -> str:
    return str(mapping(mapping(value).get("metadata")).get(key) or "")
