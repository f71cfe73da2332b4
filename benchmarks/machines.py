"""The machines, configurations and pods that are measured."""

from numawise.codec.pod import pod_from
from numawise.machine.model import Cpu, Device, DevicePlugin, Machine, Numa
from numawise.machine.preference import LowestIds
from numawise.node.node import Files, SimulatedNode, boot
from numawise.request.defaults import defaulted
from numawise.request.model import PodRequest
from numawise.rules.check import Refusal

GI = 1 << 30
GPU = "nvidia.com/gpu"
NIC = "example.com/nic"


def even(numas: int, cpus: int, gpus: int, memory: int = 64 * GI) -> Machine:
    """Two sockets, the given NUMA nodes, two threads a core, GPUs spread evenly."""
    per_numa = cpus // numas
    return Machine(
        tuple(Cpu(c, c // 2, c // per_numa * 2 // numas, c // per_numa) for c in range(cpus)),
        tuple(Numa(i, memory, (), _distances(i, numas)) for i in range(numas)),
        (
            DevicePlugin(
                GPU, tuple(Device(f"gpu{i}", (i * numas // gpus,)) for i in range(gpus)), LowestIds()
            ),
        ),
    )


def lopsided(numas: int) -> Machine:
    """Two NUMA nodes with CPUs and GPUs; all others have memory and a NIC alone, as on GB200."""
    return Machine(
        tuple(Cpu(c, c, c // 72, c // 72) for c in range(144)),
        tuple(Numa(i, (480 if i < 2 else 12) * GI, (), _distances(i, numas)) for i in range(numas)),
        (
            DevicePlugin(GPU, tuple(Device(f"gpu{i}", (i // 2,)) for i in range(4)), LowestIds()),
            DevicePlugin(NIC, tuple(Device(f"nic{i}", (i,)) for i in range(2, numas)), LowestIds()),
        ),
    )


def _distances(row: int, count: int) -> tuple[int, ...]:
    return tuple(10 if row == column else 21 for column in range(count))


def node(machine: Machine, policy: str, *, scope: str = "container", nearest: bool = False) -> SimulatedNode:
    """A kubelet on the machine with all managers on; ``nearest``: it prefers the closest NUMA nodes."""
    kubelet = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "memoryManagerPolicy": "Static",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "100Mi"}}],
        "topologyManagerPolicy": policy,
        "topologyManagerScope": scope,
        "topologyManagerPolicyOptions": {
            "max-allowable-numa-nodes": "64",
            "prefer-closest-numa-nodes": str(nearest).lower(),
        },
    }
    started = boot(machine, kubelet, Files())
    assert not isinstance(started, Refusal), started
    started.write_files = False
    started.plugins_registered(machine.plugins)
    return started


def pod(name: str, *containers: dict[str, str]) -> PodRequest:
    """A Guaranteed pod with containers of the given limits."""
    told = [{"name": f"c{i}", "resources": {"limits": limits}} for i, limits in enumerate(containers)]
    return defaulted(pod_from({"metadata": {"name": name, "uid": name}, "spec": {"containers": told}}))


def standard(name: str = "standard") -> PodRequest:
    """The standard case: 4 CPUs, 8Gi, 1 GPU."""
    return pod(name, {"cpu": "4", "memory": "8Gi", GPU: "1"})
