"""Many kinds of nodes, and pods of many shapes for them, drawn by a seed.

Nodes of 2, 4 and 8 NUMA nodes under single-numa-node, restricted with pod scope and best-effort; one more publishes
nothing.  For 200 nodes, 1,000 pods ask for about 85 % of all CPUs.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.pods import IMAGE

GPU = "nvidia.com/gpu"
STATIC = {
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
    "memoryManagerPolicy": "Static",
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1124Mi"}}],
    "systemReserved": {"memory": "1Gi"},
}
KUBELETS: dict[str, dict[str, Any]] = {
    "single": {**STATIC, "topologyManagerPolicy": "single-numa-node"},
    "single-pod": {**STATIC, "topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"},
    "restricted-pod": {**STATIC, "topologyManagerPolicy": "restricted", "topologyManagerScope": "pod"},
    "whole-cores": {
        **STATIC,
        "reservedSystemCPUs": "0,16",
        "topologyManagerPolicy": "single-numa-node",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    },
    "best-effort": {**STATIC, "topologyManagerPolicy": "best-effort"},
}


@dataclass(frozen=True)
class Kind:
    """Nodes of one kind: a share of all."""

    name: str
    machine: str
    kubelet: str
    share: float


KINDS = (
    Kind("two", "2s 2n 16c 2t 8gpu", "single", 0.25),
    Kind("cores", "2s 2n 16c 2t 8gpu", "whole-cores", 0.10),
    Kind("four", "2s 4n 48c 8gpu", "restricted-pod", 0.25),
    Kind("eight", "2s 8n 48c 8gpu", "single-pod", 0.20),
    Kind("plain", "2s 2n 24c", "best-effort", 0.20),
)
SILENT = Kind("silent", "2s 2n 16c 2t 8gpu", "single", 0)
"""The one that publishes nothing."""


def counts(nodes: int) -> dict[str, int]:
    """How many nodes of each kind, without the silent one."""
    found = {kind.name: int(nodes * kind.share) for kind in KINDS}
    found[KINDS[0].name] += nodes - 1 - sum(found.values())
    return found


def write_nodes(folder: Path, nodes: int) -> tuple[Path, Path]:
    """The list of nodes, and that of the silent one, with their configurations beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, kubelet in KUBELETS.items():
        header = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(header | kubelet))
    number = counts(nodes)
    listed = [_row(kind) | {"count": number[kind.name]} for kind in KINDS if number[kind.name]]
    every, silent = folder / "nodes.yaml", folder / "silent.yaml"
    every.write_text(yaml.safe_dump({"nodes": listed}))
    silent.write_text(yaml.safe_dump({"nodes": [_row(SILENT)]}))
    return every, silent


def _row(kind: Kind) -> dict[str, Any]:
    return {"name": kind.name, "machine": kind.machine, "kubelet": f"{kind.kubelet}.yaml"}


def kind_of(node: str) -> Kind:
    """By the node's name."""
    return next(kind for kind in (*KINDS, SILENT) if node == kind.name or node.startswith(f"{kind.name}-"))


def sized(cpu: int | str, memory: str, gpus: int = 0) -> dict[str, Any]:
    """Resources of a container that has what it asks for to itself."""
    limits = {"cpu": str(cpu), "memory": memory} | ({GPU: str(gpus)} if gpus else {})
    return {"limits": limits, "requests": limits}


def burst(cpu: int, memory: str) -> dict[str, Any]:
    """Resources of a container that may have more than it asks for."""
    return {
        "requests": {"cpu": str(cpu), "memory": memory},
        "limits": {"cpu": str(2 * cpu), "memory": memory},
    }


SHAPES: Sequence[tuple[int, list[dict[str, Any]], list[dict[str, Any]]]] = (
    # weight, init containers, containers
    (9,  [], [sized(2, "4Gi")]),
    (14, [], [sized(4, "8Gi")]),
    (14, [], [sized(4, "16Gi", 1)]),
    (9,  [], [sized(8, "16Gi", 1)]),
    (10, [], [sized(8, "24Gi", 2)]),
    (6,  [], [sized(12, "40Gi", 4)]),
    (8,  [], [sized(6, "40Gi")]),
    (4,  [], [sized(20, "40Gi")]),
    (6,  [], [sized(14, "30Gi")]),
    (8,  [], [burst(3, "6Gi")]),
    (5,  [], [sized(4, "8Gi"), sized(4, "8Gi", 1)]),
    (4,  [sized(8, "8Gi")], [sized(4, "8Gi")]),
    (3,  [], [sized(3, "6Gi")]),
)  # fmt: skip


def mixed_pods(seed: int, count: int, ending: float = 0.1) -> list[dict[str, Any]]:
    """So many pods; a share of them ends by itself after some seconds."""
    draw = random.Random(seed)
    weights = [weight for weight, _, _ in SHAPES]
    found = []
    for number in range(count):
        _, first, containers = draw.choices(SHAPES, weights)[0]
        seconds = draw.randrange(5, 30) if draw.random() < ending else 0
        found.append(pod(f"p{number:04}", containers, first, seconds))
    return found


def pod(
    name: str,
    containers: Sequence[dict[str, Any]],
    first: Sequence[dict[str, Any]] = (),
    seconds: float = 0,
    **more: Any,
) -> dict[str, Any]:
    """A pod; ``seconds``: how long it runs, 0 for ever."""
    annotations = {"numawise.dev/run-seconds": str(seconds)} if seconds else {}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [_container(f"c{at}", one) for at, one in enumerate(containers)],
        **more,
    }
    if first:
        spec["initContainers"] = [_container(f"i{at}", one) for at, one in enumerate(first)]
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(name: str, resources: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "resources": json.loads(json.dumps(resources))}
