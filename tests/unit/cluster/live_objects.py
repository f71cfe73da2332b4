"""Objects of an API server: pods, nodes and what nodes publish."""

from typing import Any

from numawise.node.node import SimulatedNode
from numawise.node.publication import publication_of, topology_object
from tests.unit.cluster.nodes import GPU

NEVER, ALWAYS = "Never", "Always"


def api_pod(
    name: str,
    gpus: int = 0,
    node: str = "",
    version: int = 1,
    *,
    cpu: str = "1",
    memory: str = "1Gi",
    restart: str = NEVER,
    created: str = "2026-11-16T10:00:00Z",
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """A pod as the API server shows it, with what the server adds to every pod."""
    limits = {"cpu": cpu, "memory": memory} | ({GPU: str(gpus)} if gpus else {})
    tolerations = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for key in ("not-ready", "unreachable")
    ]
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": "default",
            "resourceVersion": str(version),
            "creationTimestamp": created,
            "labels": {"app": name},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            "restartPolicy": restart,
            "priority": 0,
            "schedulerName": "default-scheduler",
            "tolerations": tolerations,
            "containers": [
                {
                    "name": "c",
                    "image": "x",
                    "env": [{"name": "N", "value": name}],
                    "resources": {"limits": limits},
                }
            ],
            **(spec or {}),
        },
        "status": {"phase": "Pending", **status},
    }


def api_node(name: str, *, ready: bool = True, **more: Any) -> dict[str, Any]:
    """A Node object."""
    return {
        "metadata": {"name": name, "uid": f"node-{name}", "labels": {"kubernetes.io/hostname": name}},
        "spec": more.pop("spec", {}),
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "nodeInfo": {"kubeletVersion": more.pop("kubelet", "v1.37.0")},
            **more,
        },
    }


def published(node: SimulatedNode, name: str) -> dict[str, Any]:
    """What a node publishes."""
    return topology_object(publication_of(node, name))


def foreign(
    node: SimulatedNode,
    name: str,
    fingerprint: str = "",
    method: str = "all",
    written: str = "2026-11-16T10:00:00Z",
) -> dict[str, Any]:
    """What another exporter would publish of a node: zones and the kubelet's options, not who has what."""
    value = topology_object(publication_of(node, name), fingerprint=fingerprint, method=method)
    value["attributes"] = [one for one in value["attributes"] if not one["name"].startswith("numawise.dev/")]
    value["metadata"]["managedFields"] = [
        {"manager": "node-feature-discovery-topology-updater", "time": written}
    ]
    return value
