"""Nodes on which something happened, for tests of what nodes publish."""

from collections.abc import Iterator

from numawise.engine.admit import Admitted
from numawise.machine.description import NodeDescription
from numawise.machine.model import Device, Machine
from numawise.machine.preference import LinkedGpus
from numawise.node.node import SimulatedNode
from numawise.request.constraints import HostPort, PodConstraints
from numawise.values import replace
from tests.unit.build import GI, even, kubelet, machine, pod, static_memory

GPU = "nvidia.com/gpu"


def server() -> Machine:
    """Two NUMA nodes with eight CPUs and two GPUs each, and a GPU on both, one on none."""
    gpus = ("gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "gpu5")
    points = tuple(
        tuple(0 if i == j else 100 if i // 2 == j // 2 else 10 for j in range(6)) for i in range(6)
    )
    return machine(
        even(2, 2, 8, 2),
        16 * GI,
        hugepages={"1Gi": 2},
        distances=((10, 21), (21, 10)),
        devices={GPU: "gpu0@0 gpu1@0 gpu2@1 gpu3@1 gpu4@0,1 gpu5"},
        preference=LinkedGpus(gpus, points),
    )


def static(scope: str = "pod") -> SimulatedNode:
    """A node under the strict managers."""
    return kubelet(
        server(),
        cpuManagerPolicy="static",
        reservedSystemCPUs="0,8",
        topologyManagerPolicy="restricted",
        topologyManagerScope=scope,
        **static_memory(GI, 0),
    )


def run(node: SimulatedNode, uid: str, *containers: str, **constraints: object) -> None:
    """Let a pod run."""
    wanted = pod(uid, *containers)
    if constraints:
        wanted = replace(wanted, constraints=PodConstraints(**constraints))  # type: ignore[arg-type]
    decision = node.admit(wanted)
    assert isinstance(decision, Admitted), decision
    node.start(wanted, decision)


def busy_nodes() -> Iterator[SimulatedNode]:
    """A node with pods, one with pods that are gone and a dead GPU, and one without managers."""
    node = static()
    run(
        node,
        "11111111-1111-4111-8111-111111111111",
        "a cpu=2 memory=1Gi nvidia.com/gpu=1",
        "b cpu=1 memory=1Gi",
    )
    run(node, "web", "init i cpu=2 memory=1Gi", "sidecar s cpu=1 memory=64Mi", "a cpu=2 memory=1Gi")
    run(node, "shared", "a cpu=500m memory=64Mi", ports=(HostPort(8080),), priority=7)
    yield node
    node = static("container")
    run(node, "stays", "a cpu=2 memory=1Gi nvidia.com/gpu=1")
    run(node, "gone", "a cpu=2 memory=1Gi nvidia.com/gpu=2")
    node.remove("gone")
    listed = node.machine.plugins[0].devices
    node.devices_changed(GPU, [Device(one.id, one.numa, healthy=one.id != "gpu3") for one in listed])
    amounts = {"cpu": 14000, "memory": 29 * GI, "pods": 110, GPU: 5, "ephemeral-storage": 10**9}
    node.describe(NodeDescription("n1", labels_known=False, allocatable=amounts, kernel="6.1.0"))
    yield node
    node = kubelet(server())
    run(node, "burst", "a cpu=500m memory=64Mi")
    yield node
