"""A Node object in a bundle: what decides stays, what is somebody's goes."""

import json
from typing import Any

from numawise.codec.bundle.manifest import Names, key_of
from numawise.codec.bundle.node import reduced_node
from numawise.codec.node import node_from
from numawise.engine.matching import not_judged
from numawise.machine.description import Taint
from numawise.request.constraints import PodConstraints
from numawise.request.model import PodRequest

NODE: dict[str, Any] = {
    "metadata": {
        "name": "acme-7",
        "labels": {"acme.example/rack": "r9"},
        "annotations": {"secret": "s"},
        "uid": "u",
    },
    "spec": {
        "podCIDR": "10.1.0.0/24",
        "providerID": "aws:///x",
        "unschedulable": True,
        "taints": [
            {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"},
            {"key": "acme.example/team", "value": "ml", "effect": "NoExecute"},
        ],
    },
    "status": {
        "addresses": [{"type": "InternalIP", "address": "10.9.8.7"}],
        "allocatable": {"cpu": "63500m", "memory": "1Gi", "nvidia.com/gpu": "8", "pods": "110"},
        "capacity": {"cpu": "64", "memory": "2Gi", "nvidia.com/gpu": "8", "pods": "110"},
        "conditions": [
            {"type": "DiskPressure", "status": "True", "message": "acme"},
            {"type": "Ready", "status": "False", "message": "node is shutting down, acme"},
            {"type": "Acme", "status": "True"},
        ],
        "nodeInfo": {"machineID": "x", "kernelVersion": "6.1.0-30-amd64"},
        "images": [{"names": ["registry.acme.example/x"]}],
    },
}


def test_names_and_addresses_go() -> None:
    kept = reduced_node(NODE, Names(key_of("0123456789abcdef0123456789abcdef")))
    text = json.dumps(kept)
    for secret in ("acme", "10.", "aws", "secret", "machineID", "r9"):
        assert secret not in text
    node = node_from(kept)
    assert (node.name, node.labels_known, node.labels) == ("", False, {})
    assert node.taints == (Taint("node.kubernetes.io/memory-pressure", "NoSchedule"),)
    assert node.allocatable["cpu"] == 63500
    assert node.allocatable["nvidia.com/gpu"] == 8
    assert (node.unschedulable, node.pressures, node.shutting_down) == (True, ("DiskPressure",), True)
    assert node.kernel == "6.1.0-30-amd64"


def test_kept_names_keep_labels_and_taints() -> None:
    node = node_from(reduced_node(NODE, Names(None)))
    assert (node.name, node.labels) == ("acme-7", {"acme.example/rack": "r9"})
    assert len(node.taints) == 2


def test_a_selector_is_not_judged_without_labels() -> None:
    node = node_from(reduced_node(NODE, Names(key_of("0123456789abcdef0123456789abcdef"))))
    pod = PodRequest("u", "p", "BestEffort", (), constraints=PodConstraints(node_selector={"a": "b"}))
    assert not_judged(node, pod, ("ephemeral-storage",)) == ("nodeSelector",)
