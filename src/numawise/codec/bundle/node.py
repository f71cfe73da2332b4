"""A Node object without what is nobody's business: amounts, conditions and versions stay.

Rules kept here:

1. What is kept is listed: allocatable amounts, whether pods are kept away, pressures, the runtime's features.
   Addresses, images, volumes, annotations and the kubelet's port go always.
2. Labels, taints and the name stay with ``--keep-names`` alone; of the taints those of Kubernetes itself stay
   in any case.  A node without its labels says so, and selectors are not judged on it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from numawise.codec.bundle.allowed import is_amount, is_resource, version_text
from numawise.codec.bundle.manifest import Names
from numawise.codec.constraints import EFFECTS
from numawise.codec.document import mapping
from numawise.codec.node import LABELS_REMOVED, SHUTTING_DOWN
from numawise.machine.description import PRESSURES

OWN_TAINTS = "node.kubernetes.io/"
STATUSES = ("True", "False", "Unknown")
READY = "Ready"


def reduced_node(value: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """What is kept of a Node object."""
    metadata, spec, status = (mapping(value.get(name)) for name in ("metadata", "spec", "status"))
    kept: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {}, "spec": {}, "status": {}}
    if names.key is None:
        kept["metadata"] = {
            "name": str(metadata.get("name") or ""),
            "labels": {str(name): str(text) for name, text in mapping(metadata.get("labels")).items()},
        }
    else:
        kept["metadata"] = {"annotations": {LABELS_REMOVED: "true"}}
    if taints := [
        {name: taint[name] for name in ("key", "value", "effect") if isinstance(taint.get(name), str)}
        for taint in _mappings(spec.get("taints"))
        if _stays(taint, names)
    ]:
        kept["spec"]["taints"] = taints
    if spec.get("unschedulable") is True:
        kept["spec"]["unschedulable"] = True
    for part in ("capacity", "allocatable"):
        amounts = mapping(status.get(part))
        kept["status"][part] = {
            name: amount for name, amount in amounts.items() if is_resource(name) and is_amount(amount)
        }
    kept["status"]["conditions"] = list(_conditions(_mappings(status.get("conditions"))))
    info = mapping(status.get("nodeInfo"))
    kernel = version_text(str(info.get("kernelVersion") or ""))
    kept["status"]["nodeInfo"] = {"kernelVersion": kernel} if kernel else {}
    if mapping(status.get("features")).get("supplementalGroupsPolicy") is True:
        kept["status"]["features"] = {"supplementalGroupsPolicy": True}
    return kept


def _stays(taint: Mapping[str, Any], names: Names) -> bool:
    own = str(taint.get("key") or "").startswith(OWN_TAINTS) and not taint.get("value")
    return taint.get("effect") in EFFECTS and isinstance(taint.get("key"), str) and (own or names.key is None)


def _conditions(conditions: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    for condition in conditions:
        name, state = condition.get("type"), condition.get("status")
        if name in (*PRESSURES, READY) and state in STATUSES:
            found = {"type": name, "status": state}
            if SHUTTING_DOWN in str(condition.get("message")):
                found["message"] = SHUTTING_DOWN
            yield found


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
