"""The Node object and the Lease of a virtual node, as its kubelet would write them.

Rules kept here:

1. Capacity is what the machine has; allocatable is what the engine compares sums with.  Storage, which no
   machine file has, is ``STORAGE``, less a tenth of it, which is the kubelet's own threshold.
2. A node that is ours has the label ``numawise.dev/lab`` and, as an annotation, the name of the lab that made
   it.  Whatever has not both is somebody else's.
3. What somebody wrote on the node besides (labels, taints, annotations) stays.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from numawise.codec.document import mapping
from numawise.codec.stamps import micro_stamp, second_stamp
from numawise.kube.lease import LEASE_VERSION
from numawise.machine.description import Taint
from numawise.node.node import SimulatedNode
from numawise.quantity import Quantity
from numawise.request.model import CPU, EPHEMERAL, HUGEPAGES, MEMORY
from numawise.rules.versions import parse_version, shown
from numawise.values import dataclass

LABEL, TRUE = "numawise.dev/lab", "true"
MADE_BY = "numawise.dev/made-by-lab"
RESTART = "numawise.dev/restart"
LEASES = "kube-node-lease"
LEASE_SECONDS = 40
STORAGE = 1 << 40
CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True, slots=True)
class NodeLook:
    """What all nodes of a lab have in common."""

    lab: str
    labels: Mapping[str, str]
    taints: Sequence[Taint] = ()
    release: str = ""
    """The kubelets' release as it was named, with its patch; '': as it is known."""


def node_object(name: str, node: SimulatedNode, look: NodeLook, now: float) -> dict[str, Any]:
    """A node that registers."""
    described = node.description
    own = dict(described.labels) if described is not None else {}
    taints = [*(described.taints if described is not None else ()), *look.taints]
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        **own,
        "kubernetes.io/hostname": name,
        **look.labels,
        LABEL: TRUE,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {MADE_BY: look.lab}},
        "spec": {"taints": [_taint(one) for one in taints]} if taints else {},
        "status": node_status(name, node, look, now),
    }


def node_status(name: str, node: SimulatedNode, look: NodeLook, now: float) -> dict[str, Any]:
    """The status of a node that is well (rule 1)."""
    listed = allocatable(node)
    return {
        "capacity": amounts_text(capacity(node, listed)),
        "allocatable": amounts_text(listed),
        "conditions": conditions(now),
        "addresses": [{"type": "Hostname", "address": name}],
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": node.description.kernel if node.description is not None else "",
            "osImage": "numawise lab",
            "containerRuntimeVersion": "numawise-lab://0",
            "kubeletVersion": kubelet_version(node, look.release),
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


def conditions(now: float, *, changed: bool = True) -> list[dict[str, Any]]:
    """The conditions of a node that is well; ``changed``: it was not before."""
    since = {"lastTransitionTime": second_stamp(now)} if changed else {}
    return [
        {"type": kind, "status": status, "reason": reason, "message": message, **since}
        | {"lastHeartbeatTime": second_stamp(now)}
        for kind, status, reason, message in CONDITIONS
    ]


def kubelet_version(node: SimulatedNode, named: str = "") -> str:
    """The release as a kubelet says it; ``named``: with its patch, where it is that of the node."""
    text = named.removeprefix("v")
    if text.count(".") > 1 and parse_version(text) == node.version:
        return f"v{text}"
    return f"v{shown(node.version)}.0"


def allocatable(node: SimulatedNode) -> dict[str, int]:
    """What pods may ask for, together."""
    listed = dict(node.allocatable())
    if not listed.get(EPHEMERAL):
        listed[EPHEMERAL] = STORAGE - STORAGE // 10
    return listed


def capacity(node: SimulatedNode, listed: Mapping[str, int]) -> dict[str, int]:
    """What the machine has of what pods may ask for."""
    machine, plugins = node.machine, node.state.devices.plugins
    whole = dict(listed)
    whole[CPU] = 1000 * len(machine.cpus)
    if machine.capacity:
        whole[MEMORY] = machine.capacity
    whole[EPHEMERAL] = max(STORAGE, listed[EPHEMERAL])
    for resource, plugin in plugins.items():
        whole[resource] = len(plugin.devices)
    return whole


def amounts_text(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as a Node object has them: CPUs in thousandths where they are not whole, memory in KiB."""
    texts = {}
    for name, size in amounts.items():
        if name == CPU:
            texts[name] = str(size // 1000) if size % 1000 == 0 else f"{size}m"
        elif (name in (MEMORY, EPHEMERAL)) and size % 1024 == 0:
            texts[name] = f"{size // 1024}Ki"
        elif name.startswith(HUGEPAGES):
            texts[name] = str(Quantity.of(size))
        else:
            texts[name] = str(size)
    return texts


def is_ours(value: Mapping[str, Any], lab: str) -> bool:
    """Whether a lab of this name made a node (rule 2)."""
    metadata = mapping(value.get("metadata"))
    labels, notes = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    return labels.get(LABEL) == TRUE and notes.get(MADE_BY) == lab


def lease_object(name: str, uid: str, now: float) -> dict[str, Any]:
    """The Lease that says that a node lives; it goes with the node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "apiVersion": LEASE_VERSION,
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": LEASES,
            **({"ownerReferences": [owner]} if uid else {}),
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_stamp(now),
        },
    }


def _taint(taint: Taint) -> dict[str, str]:
    return {
        "key": taint.key,
        "effect": taint.effect,
        **({"value": taint.value} if taint.value else {}),
    }
