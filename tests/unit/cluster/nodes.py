"""Small nodes and pods for the choice of a node."""

from numawise.cluster.asking import Asker, LetIn, Member, Situation, members_of
from numawise.codec.machine import machine_from
from numawise.codec.pod import pod_from
from numawise.node.node import Files, SimulatedNode, boot
from numawise.request.defaults import RawPod
from numawise.rules.check import Refusal

GPU = "x/gpu"
MACHINE = {
    "cpus": [{"cpu": i, "core": i // 2, "socket": i // 8, "numa": i // 8} for i in range(16)],
    "numa": [{"id": 0, "memory": "16Gi"}, {"id": 1, "memory": "16Gi"}],
    "devices": {GPU: {"devices": [{"id": f"g{i}", "numa": [i // 4]} for i in range(8)]}},
}
KUBELET = {
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "pod",
    "reservedSystemCPUs": "0,8",
}


def kubelet(**more: object) -> SimulatedNode:
    node = boot(machine_from(MACHINE), {**KUBELET, **more}, Files())
    assert not isinstance(node, Refusal), node
    node.plugins_registered(node.machine.plugins)
    return node


def gpu_pod(name: str, gpus: int, cpu: str = "1", memory: str = "1Gi", **spec: object) -> RawPod:
    limits = {"cpu": cpu, "memory": memory} | ({GPU: str(gpus)} if gpus else {})
    containers = [{"name": "c", "resources": {"limits": limits}}]
    return pod_from({"metadata": {"name": name, "uid": name}, "spec": {"containers": containers, **spec}})


def nodes(count: int, **more: object) -> tuple[Member, ...]:
    return members_of([([f"n{number}" for number in range(count)], kubelet(**more))])


def put(asker: Asker, member: Member, raw: RawPod, now: float = 0.0) -> None:
    answer = asker.ask(Situation.of(member), raw)
    assert isinstance(answer, LetIn), answer
    asker.settle(member, answer, now)
