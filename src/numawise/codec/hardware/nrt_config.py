"""A kubelet's configuration as far as a NodeResourceTopology shows it.

Rules kept here:

1. The topology policy and its scope are published.  What pods cannot get of a NUMA node (capacity less
   allocatable) is reserved for the system.
2. An exporter learns what is allocatable from the managers: CPUs of a NUMA node that are allocatable in
   part speak for a static CPU Manager, allocatable memory for a static Memory Manager.  Whatever else is
   assumed is said.
3. The object has no CPU ids, so reserved CPUs of a configuration that is known are moved to as many CPUs of
   each NUMA node as the object keeps from pods.
"""

from collections.abc import Mapping
from typing import Any

from numawise.codec.hardware.nrt import OPTION, NodeTopology
from numawise.codec.kubelet.config import API_VERSION, KIND
from numawise.errors import quoted
from numawise.quantity import Quantity
from numawise.request.model import CPU, HUGEPAGES, MEMORY
from numawise.rules.model import KubeletConfig
from numawise.rules.options import CLOSEST
from numawise.sets import format_ids, ids_of
from numawise.values import dataclass, replace

STATIC = "static"
RESERVED = "reservedSystemCPUs"
CLOSEST_ATTRIBUTE = f"{OPTION}PreferClosestNumaNodes"
NOT_SHOWN = "options of the managers that an exporter does not publish are taken as unset"


@dataclass(frozen=True, slots=True)
class AssumedConfig:
    """A configuration, and what was assumed for it."""

    raw: Mapping[str, Any]
    text: str


def assumed_config(topology: NodeTopology) -> AssumedConfig | None:
    """The configuration that a published object speaks for; None when its policy is not known."""
    if not topology.policy:
        return None
    raw: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "evictionHard": {}}
    raw |= {"topologyManagerPolicy": topology.policy, "topologyManagerScope": topology.scope}
    if topology.attributes.get(CLOSEST_ATTRIBUTE) == "true":
        raw["topologyManagerPolicyOptions"] = {CLOSEST: "true"}
    parts = [f"policy {topology.policy} with scope {topology.scope}"]
    reserved = reserved_cpus(topology)
    if reserved and topology.attributes.get("cpuManagerPolicy", STATIC) == STATIC:
        raw |= {"cpuManagerPolicy": STATIC, RESERVED: format_ids(reserved)}
        parts.append(f"CPU Manager static with {reserved.bit_count()} reserved CPUs")
    else:
        parts.append("CPU Manager none")
    memory = _reserved_memory(topology)
    if memory and topology.attributes.get("memoryManagerPolicy", "Static") == "Static":
        total: dict[str, int] = {}
        for own in memory.values():
            for name, size in own.items():
                total[name] = total.get(name, 0) + size
        limits = [
            {"numaNode": numa, "limits": {name: str(size) for name, size in own.items()}}
            for numa, own in memory.items()
        ]
        raw |= {
            "memoryManagerPolicy": "Static",
            "kubeReserved": {name: str(size) for name, size in total.items()},
            "reservedMemory": limits,
        }
        parts.append("Memory Manager Static")
    else:
        parts.append("Memory Manager None")
    return AssumedConfig(raw, f"{', '.join(parts)}; {NOT_SHOWN}")


def reserved_cpus(topology: NodeTopology) -> int:
    """As many CPUs of each NUMA node as pods cannot get; none where that is not published."""
    reserved = 0
    for numa, cpus in topology.machine.layout.numas.items():
        allocatable = topology.allocatable.get(numa, {}).get(CPU)
        if not allocatable:
            continue
        kept = max(0, cpus.bit_count() - allocatable)
        for cpu in list(ids_of(cpus))[:kept]:
            reserved |= 1 << cpu
    return reserved


def _reserved_memory(topology: NodeTopology) -> dict[int, dict[str, int]]:
    """Memory of each NUMA node that pods cannot get; nothing where memory is not allocatable by NUMA node."""
    kept: dict[int, dict[str, int]] = {}
    for numa in topology.machine.numa:
        allocatable = topology.allocatable.get(numa.id, {})
        if not allocatable.get(MEMORY):
            continue
        pages = {f"{HUGEPAGES}{size}": count * Quantity.parse(size).value for size, count in numa.hugepages}
        own = {name: size - allocatable.get(name, size) for name, size in pages.items()}
        own[MEMORY] = numa.memory - sum(pages.values()) - allocatable[MEMORY]
        kept[numa.id] = {name: size for name, size in own.items() if size > 0}
    return {numa: own for numa, own in kept.items() if own}


def fitted_config(config: KubeletConfig, topology: NodeTopology) -> KubeletConfig:
    """A configuration with its reserved CPUs on the NUMA nodes where the object keeps some (rule 3)."""
    reserved = reserved_cpus(topology)
    if config.cpu_manager_policy != STATIC or not reserved:
        return config
    return replace(config, reserved_system_cpus=format_ids(reserved))


def fitted_fields(raw: Mapping[str, object], topology: NodeTopology) -> dict[str, object]:
    """Likewise the fields of one, as they are written."""
    reserved = reserved_cpus(topology)
    if raw.get("cpuManagerPolicy") != STATIC or not reserved:
        return dict(raw)
    return {**raw, RESERVED: format_ids(reserved)}


def moved(name: str, raw: Mapping[str, object], topology: NodeTopology) -> str:
    """That other CPUs are taken as the reserved ones of the configuration called ``name``; '' if not."""
    ids = fitted_fields(raw, topology).get(RESERVED)
    if ids == raw.get(RESERVED):
        return ""
    before = f"{RESERVED} {quoted(raw[RESERVED])} is" if RESERVED in raw else "reserved CPUs are"
    where = "as many of each NUMA node as the NodeResourceTopology, which has no CPU ids, keeps from pods"
    return f"{name}: {before} taken as {ids}: {where}"
