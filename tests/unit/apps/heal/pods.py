"""Pods and owners as an API server shows them."""

from typing import Any

from numawise.apps.heal.refused import RefusedPod, refused_pod
from numawise.results.pending import HOLD_GATE

TOPOLOGY = "TopologyAffinityError"


def pod(
    name: str = "web-1",
    *,
    uid: str = "",
    owner: tuple[str, str] | None = ("ReplicaSet", "u-web"),
    revision: str = "abc",
    reason: str = TOPOLOGY,
    node: str = "n1",
    phase: str = "Failed",
    gates: tuple[str, ...] = (),
    **status: Any,
) -> dict[str, Any]:
    """A refused pod, unless something else is asked for."""
    label = "controller-revision-hash" if owner and owner[0] == "StatefulSet" else "pod-template-hash"
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web", **({label: revision} if revision else {})},
    }
    if owner is not None:
        kind, owner_uid = owner
        version = "batch/v1" if kind == "Job" else "apps/v1"
        metadata["ownerReferences"] = [
            {"apiVersion": version, "kind": kind, "name": "web", "uid": owner_uid, "controller": True}
        ]
    spec: dict[str, Any] = {"containers": [{"name": "c"}]}
    if node and not gates:
        spec["nodeName"] = node
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    message = "Pod was rejected: Resources cannot be allocated with Topology locality"
    said = {"phase": phase, "reason": reason, "message": message} if phase == "Failed" else {"phase": phase}
    return {"metadata": metadata, "spec": spec, "status": said | status}


def held(name: str = "web-9", **how: Any) -> dict[str, Any]:
    """A pod behind our gate."""
    return pod(name, phase="Pending", gates=(HOLD_GATE,), **how)


def refused(name: str = "web-1", **how: Any) -> RefusedPod:
    """The same as a value."""
    value = refused_pod(pod(name, **how))
    assert value is not None
    return value
