"""Short ways to write machines, pods and kubelets, so that a test shows what it is about."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numawise.engine.hint import Family, Hint
from numawise.machine.model import Cpu, Device, DevicePlugin, Machine, Numa
from numawise.machine.preference import Preference
from numawise.node.node import Files, SimulatedNode, boot
from numawise.quantity import Quantity
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import PodRequest, Role
from numawise.rules.check import Refusal
from numawise.sets import NumaSet, format_ids, ids_of, parse_ids

GI = 1 << 30
MI = 1 << 20


def even(
    numas: int, sockets: int, cores: int, threads: int = 1, *, near: bool = False, caches: int = 0
) -> tuple[Cpu, ...]:
    """CPUs of an even machine; siblings are ``cores`` apart, or neighbours when ``near``."""
    return tuple(
        Cpu(
            cpu=core * threads + thread if near else core + thread * cores,
            core=core,
            socket=core * sockets // cores,
            numa=core * numas // cores,
            uncore_cache=core * caches // cores if caches else None,
        )
        for thread in range(threads)
        for core in range(cores)
    )


def machine(
    cpus: Iterable[Cpu],
    memory: int | Sequence[int] = 0,
    *,
    hugepages: Mapping[str, int] | None = None,
    distances: Sequence[Sequence[int]] = (),
    devices: Mapping[str, str] | None = None,
    preference: Preference | None = None,
) -> Machine:
    """A machine; ``memory`` in bytes for every NUMA node or for each; devices like ``a@0 b@0,1 c@ d``."""
    cpus = tuple(cpus)
    count = max(cpu.numa for cpu in cpus) + 1
    sizes = [memory] * count if isinstance(memory, int) else list(memory)
    return Machine(
        cpus=cpus,
        numa=tuple(
            Numa(i, size, tuple((hugepages or {}).items()), tuple(distances[i]) if distances else ())
            for i, size in enumerate(sizes)
        ),
        plugins=tuple(
            DevicePlugin(resource, devices_of(text), preference) for resource, text in (devices or {}).items()
        ),
    )


def devices_of(text: str) -> tuple[Device, ...]:
    """``a@0 b@0,1 c@ d !e@1``: on NUMA nodes, on none (``@``), without topology; ``!``: unhealthy."""
    found = []
    for word in text.split():
        name, at, nodes = word.lstrip("!").partition("@")
        numa = tuple(int(n) for n in nodes.split(",") if n) if at else None
        found.append(Device(name, numa, healthy=word[0] != "!"))
    return tuple(found)


# The machines of the specification's examples.
T1 = even(1, 1, 4, 2)
T2 = tuple(Cpu(i, i % 6, i % 2, i % 2) for i in range(12))
T3 = even(2, 2, 8, 2)
T4 = even(1, 1, 8, 2, caches=2)
T5 = even(4, 2, 8, 2)
T6 = even(2, 4, 8, 2)
LAYOUTS = {name: machine(cpus).layout for name, cpus in
           {"T1": T1, "T2": T2, "T3": T3, "T4": T4, "T5": T5, "T6": T6}.items()}  # fmt: skip

GPU = "nvidia.com/gpu"


def three_gpu_server() -> Machine:
    """28 CPUs on two NUMA nodes; one GPU on the first, two on the second."""
    return machine(even(2, 2, 28), devices={GPU: "G0@0 G1@1 G2@1"})


# --- pods -----------------------------------------------------------------------------------


def pod(uid: str, *containers: str, level: str | None = None, qos: str = "", gate: bool = True) -> PodRequest:
    """``init i cpu=2 memory=1Gi``, ``sidecar s …``, ``c cpu=1..2 x/gpu=1``: limits, or request..limit.

    ``level``: the pod's own resources in the same notation.
    """
    made = tuple(_container(text) for text in containers)
    requests = limits = None
    if level is not None:
        requests, limits = _amounts(level.split())
    raw = RawPod(uid, uid, made, requests, limits, qos=qos)
    return defaulted(raw, pod_level=gate)


def _container(text: str) -> RawContainer:
    words = text.split()
    role = Role(words.pop(0)) if words[0] in ("init", "sidecar") else Role.APP
    requests, limits = _amounts(words[1:])
    return RawContainer(words[0], role, requests, limits)


def _amounts(words: Iterable[str]) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    for word in words:
        name, _, value = word.partition("=")
        request, dots, limit = value.partition("..")
        if not dots:
            limits[name] = Quantity.parse(value)
            continue
        if request:
            requests[name] = Quantity.parse(request)
        if limit:
            limits[name] = Quantity.parse(limit)
    return requests, limits


# --- kubelets -------------------------------------------------------------------------------


def started(
    hardware: Machine, files: Mapping[str, str] | None = None, **config: Any
) -> SimulatedNode | Refusal:
    """A kubelet with this configuration on these state files, its device plugins registered."""
    node = boot(hardware, config, Files(dict(files or {})))
    if isinstance(node, SimulatedNode):
        node.plugins_registered(hardware.plugins)
    return node


def kubelet(hardware: Machine, files: Mapping[str, str] | None = None, **config: Any) -> SimulatedNode:
    """A kubelet that must start."""
    node = started(hardware, files, **config)
    assert isinstance(node, SimulatedNode), node
    return node


STATIC: Mapping[str, Any] = {
    "cpuManagerPolicy": "static",
    "kubeReserved": {"cpu": "500m"},
    "systemReserved": {"cpu": "500m"},
}


def static_memory(*sizes: int) -> dict[str, Any]:
    """Configuration of the Static memory policy that keeps so many bytes of each NUMA node."""
    return {
        "memoryManagerPolicy": "Static",
        "systemReserved": {"memory": str(sum(sizes))},
        "evictionHard": {},
        "reservedMemory": [
            {"numaNode": i, "limits": {"memory": str(size)}} for i, size in enumerate(sizes) if size
        ],
    }


# --- hints ----------------------------------------------------------------------------------


def hints_of(text: str) -> list[tuple[int, bool]]:
    """``0! 1! 0-1``: NUMA nodes of each hint, ``!`` when preferred."""
    return [(parse_ids(word.rstrip("!")), word.endswith("!")) for word in text.split()]


def shown(family: Family | None) -> str | None:
    """A family in the same notation; None when there is none."""
    if family is None:
        return None
    return " ".join(format_ids(mask) + "!" * liked for mask, liked in family)


def hint(text: str) -> Hint:
    """``0-1!``; ``*`` for any node."""
    nodes = text.rstrip("!")
    return Hint(None if nodes == "*" else NumaSet.parse(nodes), text.endswith("!"))


def numa_list(mask: int) -> list[int]:
    """The ids of a packed set."""
    return list(ids_of(mask))


def exactly(words: str) -> str:
    """A pattern for ``pytest.raises`` that matches these words and no others."""
    return rf"\A{re.escape(words)}\Z"
