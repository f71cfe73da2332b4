"""A cluster to look at for whoever has none at hand: objects as an API server would list them.

Rules kept here:

1. Every state is one that a kubelet came to: pods are admitted by it one after the other, and refused where
   it refuses.  Nothing is drawn by chance.
2. Pods go to the emptiest node by sums, as the stock scheduler sends them.  Before the last kind of pods of a
   pool comes, some of the others have ended: so there are holes, and refusals.
3. There is a node of each kind: with an exact state, with the zones of another exporter, and with nothing.
"""

from collections.abc import Mapping
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from numawise.codec.pod import pod_from
from numawise.codec.publication import NODE_ATTRIBUTE, STATE_ATTRIBUTE
from numawise.codec.stamps import second_stamp
from numawise.engine.admit import Admitted, Decision, Rejected
from numawise.inputs.live import NODE, POD, TOPOLOGY
from numawise.inputs.spec import NodeSpec, read_node, start_node
from numawise.kube.client import Object
from numawise.node.node import SimulatedNode
from numawise.node.publication import publication_of, topology_object
from numawise.quantity import Quantity
from numawise.request.model import CPU, MEMORY
from numawise.rules.versions import shown
from numawise.values import dataclass, replace

GPU = "nvidia.com/gpu"
POOL = "node.example.com/pool"
ZONE = "topology.kubernetes.io/zone"
ZONES = ("a", "b", "c")
RESERVED: Mapping[str, object] = {
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "kubeReserved": {"cpu": "2", "memory": "2Gi"},
    "systemReserved": {"cpu": "2", "memory": "1948Mi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [
        {"numaNode": 0, "limits": {"memory": "2Gi"}},
        {"numaNode": 1, "limits": {"memory": "2Gi"}},
    ],
}


@dataclass(frozen=True, slots=True)
class ExamplePool:
    """Equal nodes, and what is sent to them."""

    name: str
    machine: str
    count: int
    settings: Mapping[str, object]
    queue: tuple[tuple[str, int, Mapping[str, str]], ...]
    """Names, how many, and what each asks for; the last kind comes once some of the others have ended."""
    ended: tuple[str, ...] = ()
    """Of these two thirds end."""


POOLS = (
    ExamplePool(
        "training",
        "dgx-h100",
        12,
        {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"},
        (
            ("pretrain", 4, {CPU: "48", MEMORY: "400Gi", GPU: "4"}),
            ("notebook", 40, {CPU: "8", MEMORY: "64Gi", GPU: "1"}),
            ("tune", 12, {CPU: "16", MEMORY: "128Gi", GPU: "2"}),
            ("prepare", 9, {CPU: "24", MEMORY: "200Gi"}),
            ("finetune", 5, {CPU: "48", MEMORY: "400Gi", GPU: "4"}),
        ),
        ("notebook", "prepare"),
    ),
    ExamplePool(
        "inference",
        "l40s-8gpu",
        8,
        {"topologyManagerPolicy": "restricted"},
        (
            ("rank", 16, {CPU: "4", MEMORY: "24Gi", GPU: "1"}),
            ("chat", 14, {CPU: "6", MEMORY: "48Gi", GPU: "1"}),
            ("embed", 7, {CPU: "12", MEMORY: "96Gi", GPU: "2"}),
        ),
        ("rank",),
    ),
    ExamplePool(
        "services",
        "xeon-2s",
        4,
        {"topologyManagerPolicy": "best-effort"},
        (("store", 6, {CPU: "14", MEMORY: "64Gi"}), ("gateway", 9, {CPU: "6", MEMORY: "8Gi"})),
    ),
)
WAITING: tuple[tuple[str, Mapping[str, str], str, str], ...] = (
    ("pretrain-wide-0", {CPU: "200", MEMORY: "800Gi", GPU: "8"}, "training", ""),
    ("chat-canary-0", {CPU: "6", MEMORY: "48Gi", GPU: "1"}, "inference", "example.com/quota"),
)
"""Names, what they ask for, for which pool, and the gate that holds them back."""
MOST_TRIES = 2
"""A pod that so many kubelets refused waits from then on."""
TOO_FEW = (
    "0/26 nodes are available: 12 Insufficient nvidia.com/gpu, "
    "14 node(s) didn't match Pod's node affinity/selector."
)


def example_objects(now: float, scale: int = 1) -> list[tuple[str, Object]]:
    """Objects with their kinds; ``scale``: so many times as many nodes and pods."""
    made = _Making(now)
    for pool in POOLS:
        made.pool(pool, scale)
    made.others()
    for name, limits, wanted, gate in WAITING:
        made.wait(name, limits, wanted, gate)
    return made.objects


class _Making:
    """The objects, as they come about."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.objects: list[tuple[str, Object]] = []
        self.serial = 0

    def pool(self, pool: ExamplePool, scale: int) -> None:
        """The nodes of a pool, with what was sent to them."""
        first = _kubelet(pool)
        names = [f"{pool.name}-{number + 1:02}" for number in range(pool.count * scale)]
        nodes = {name: replace(first) for name in names}
        for prefix, count, limits in pool.queue:
            if prefix == pool.queue[-1][0]:
                self._end(pool, nodes)
            for number in range(count * scale):
                self._send(f"{prefix}-{number}", limits, nodes, pool.name)
        for number, name in enumerate(names):
            self._node(name, nodes[name], pool.name, ZONES[number % len(ZONES)], cordoned=number == 7)
            self.objects.append((TOPOLOGY, topology_object(publication_of(nodes[name], name))))

    def _send(
        self, name: str, limits: Mapping[str, str], nodes: Mapping[str, SimulatedNode], pool: str
    ) -> None:
        """A pod comes: to a node, to some that refuse it, or to none (rule 2)."""
        refused: list[str] = []
        while len(refused) < MOST_TRIES:
            node = _emptiest(limits, {name: one for name, one in nodes.items() if name not in refused})
            if not node:
                break
            pod = self._pod(name, limits, node, pool)
            decision = _put(nodes[node], pod)
            if not isinstance(decision, Rejected):
                self.objects.append((POD, pod))
                return
            refused.append(node)
            status = {"phase": "Failed", "reason": decision.reason, "message": decision.message}
            self.objects.append((POD, {**pod, "status": status}))
        self.wait(name, limits, pool)

    def _end(self, pool: ExamplePool, nodes: Mapping[str, SimulatedNode]) -> None:
        gone = {}
        for kind, value in self.objects:
            prefix, _, number = value["metadata"]["name"].rpartition("-")
            if kind == POD and prefix in pool.ended and int(number) % 3:
                gone[value["metadata"]["uid"]] = value["spec"].get("nodeName", "")
        for uid, node in gone.items():
            if node:
                nodes[node].remove(uid)
        self.objects = [pair for pair in self.objects if pair[1]["metadata"].get("uid") not in gone]

    def others(self) -> None:
        """Rule 3."""
        pool = POOLS[-1]
        foreign = _kubelet(pool)
        value = topology_object(publication_of(foreign, "edge-01"))
        own = (NODE_ATTRIBUTE, STATE_ATTRIBUTE)
        value["attributes"] = [one for one in value["attributes"] if one["name"] not in own]
        self._node("edge-01", foreign, "edge", "a")
        self.objects.append((TOPOLOGY, value))
        self._node("edge-02", foreign, "edge", "b")

    def wait(self, name: str, limits: Mapping[str, str], pool: str, gate: str = "") -> None:
        """A pod that no node was found for."""
        pod = self._pod(name, limits, "", pool)
        spec, status = dict(pod["spec"]), {"phase": "Pending"}
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": TOO_FEW}
        if gate:
            spec["schedulingGates"] = [{"name": gate}]
            condition |= {"reason": "SchedulingGated", "message": "Scheduling is blocked by a gate"}
        self.objects.append((POD, {**pod, "spec": spec, "status": {**status, "conditions": [condition]}}))

    def _pod(self, name: str, limits: Mapping[str, str], node: str, pool: str) -> dict[str, Any]:
        self.serial += 1
        owner = name.rpartition("-")[0]
        made = second_stamp(self.now - 40_000 + self.serial * 60)
        job = not owner.startswith(("chat", "embed", "store", "gateway"))
        reference = {"kind": "Job" if job else "ReplicaSet", "name": owner, "controller": True}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "research" if job else "production",
                "uid": str(uuid5(NAMESPACE_OID, f"{name} {self.serial}")),
                "resourceVersion": str(1000 + self.serial),
                "creationTimestamp": made,
                "ownerReferences": [reference],
            },
            "spec": {
                **({"nodeName": node} if node else {}),
                "restartPolicy": "Never" if job else "Always",
                "nodeSelector": {POOL: pool},
                "containers": [{"name": "main", "image": "example", "resources": {"limits": dict(limits)}}],
            },
            "status": {"phase": "Running", "startTime": made},
        }

    def _node(self, name: str, node: SimulatedNode, pool: str, zone: str, *, cordoned: bool = False) -> None:
        amounts = {key: f"{size}m" if key == CPU else str(size) for key, size in node.allocatable().items()}
        value = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, POOL: pool, ZONE: zone},
            },
            "spec": {"unschedulable": True} if cordoned else {},
            "status": {
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": f"v{shown(node.version)}.0", "operatingSystem": "linux"},
            },
        }
        self.objects.append((NODE, value))


def _kubelet(pool: ExamplePool) -> SimulatedNode:
    return start_node(
        read_node(NodeSpec(machine=(pool.machine,), kubelet_config={**RESERVED, **pool.settings}))
    )


def _emptiest(limits: Mapping[str, str], nodes: Mapping[str, SimulatedNode]) -> str:
    """The node with most left by sums; '': none has enough."""
    wanted = {name: Quantity.parse(text) for name, text in limits.items()}
    asked = {name: one.milli if name == CPU else one.value for name, one in wanted.items()}
    best: tuple[tuple[int, int], str] | None = None
    for name, node in nodes.items():
        whole, used = node.allocatable(), node.used()
        left = {key: whole.get(key, 0) - used.get(key, 0) for key in (GPU, CPU, MEMORY)}
        if all(left[key] >= size for key, size in asked.items()):
            rank = left[GPU], left[CPU]
            if best is None or rank > best[0]:
                best = rank, name
    return best[1] if best is not None else ""


def _put(node: SimulatedNode, value: Mapping[str, Any]) -> Decision:
    """Send a pod to a node."""
    pod = node.requested(pod_from(value))
    decision = node.admit(pod)
    if isinstance(decision, Admitted):
        node.start(pod, decision)
    return decision
