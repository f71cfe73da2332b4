"""Simulated nodes that have been at work, and the state files they left."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from numawise.codec.checkpoint import PLACES
from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.engine.admit import Admitted
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Machine
from numawise.machine.synthetic import synthetic
from numawise.node.node import Files, SimulatedNode, boot
from numawise.quantity import Quantity
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import Role
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import NEWEST, Version

MIB, GIB = 1 << 20, 1 << 30
CONFIG: Mapping[str, object] = {
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "best-effort",
    "reservedSystemCPUs": "0,8",
    "systemReserved": {"memory": "1Gi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [
        {"numaNode": 0, "limits": {"memory": "562Mi"}},
        {"numaNode": 1, "limits": {"memory": "562Mi"}},
    ],
}


def machine(words: str = "2s 2n 8c 2t 4gpu 64g") -> Machine:
    """A machine in words: CPUs 0-3,8-11 and 4-7,12-15, two GPUs each."""
    seen = kubelet_view(synthetic(words))
    assert isinstance(seen, Machine)
    return seen


def memory_changed(before: Machine, *changes: int) -> Machine:
    """The machine with so many bytes more or less on its NUMA nodes."""
    nodes = zip(before.numa, changes, strict=True)
    return replace(before, numa=tuple(replace(numa, memory=numa.memory + more) for numa, more in nodes))


def without_cpus(before: Machine, *cpus: int) -> Machine:
    """The machine with some CPUs offline."""
    return replace(before, cpus=tuple(cpu for cpu in before.cpus if cpu.cpu not in cpus))


def pod(name: str, cpus: int = 2, memory: str = "4Gi", gpus: int = 0, **rest: Any) -> RawPod:
    """A Guaranteed pod with one container, ``main``."""
    limits = {"cpu": Quantity.of(cpus), "memory": Quantity.parse(memory)}
    if gpus:
        limits["nvidia.com/gpu"] = Quantity.of(gpus)
    return RawPod(f"uid-{name}", name, (RawContainer("main", Role.APP, limits, limits),), **rest)


def config(raw: Mapping[str, object] = CONFIG, version: Version = NEWEST, **more: object) -> KubeletConfig:
    found = decode_kubelet_config({**raw, **more}, version)
    assert isinstance(found, KubeletConfig), found
    return found


def at_work(
    *pods: RawPod,
    on: Machine | None = None,
    kubelet: Mapping[str, object] = CONFIG,
    version: Version = NEWEST,
) -> SimulatedNode:
    """A node that runs the pods."""
    hardware = on or machine()
    if version < (1, 21):
        kubelet = {
            k: v
            for k, v in kubelet.items()
            if k not in ("memoryManagerPolicy", "reservedMemory", "featureGates")
        }
    elif version == (1, 21):
        kubelet = {**kubelet, "featureGates": {"MemoryManager": True}}
    node = boot(hardware, kubelet, Files(), version=version)
    assert isinstance(node, SimulatedNode), node
    node.plugins_registered(hardware.plugins)
    for raw in pods:
        request = defaulted(raw, pod_level=node.rules.pod_level_resources)
        decision = node.admit(request)
        assert isinstance(decision, Admitted), decision
        node.start(request, decision)
    return node


def written(folder: Path, texts: Mapping[str, str]) -> Path:
    """State files in a folder, as a kubelet has them."""
    for name, text in texts.items():
        path = folder / PLACES[name][0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
