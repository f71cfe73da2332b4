"""Who has what, written on a machine: what a picture with holds is drawn from.

Rules kept here:

1. A CPU that two have is marked as that; devices and memory carry their holder in words.
2. Where more pods hold CPUs than there are marks, pods of one owner share a label.
"""

import re
from collections.abc import Iterable, Mapping

from numawise.engine.state import Block, NodeState, held_by
from numawise.machine.hardware import NVML, Gpu, Hardware, MemoryNode, PciDevice
from numawise.render.picture.boxes import MARKS, held_note
from numawise.results.placement import Hold, MemoryPart
from numawise.rules.model import Rules
from numawise.sets import ids_of
from numawise.values import dataclass, field, replace

SEVERAL = "several"
UUID = re.compile(r"[0-9a-f]{8}(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24})", re.ASCII)
"""A pod's uid; of a pod that a file of the node makes, without dashes."""
RESERVED = "the system (reserved)"


@dataclass(frozen=True, slots=True)
class HolderMap:
    """Holders by CPU and device, and bytes by NUMA node."""

    cpus: Mapping[int, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Overlay:
    """A machine with its holds, ready to be drawn."""

    hardware: Hardware
    cpus: Mapping[int, str]
    data: tuple[Mapping[str, object], ...] = ()
    """The holds as JSON."""


def node_held(
    state: NodeState, rules: Rules, names: Mapping[str, str], owners: Mapping[str, str]
) -> HolderMap:
    """What the pods of a node have; ``names`` and ``owners`` by pod uid."""
    shown = _names(state, names, owners)
    cpus: dict[int, str] = {}
    if rules.cpu_static:
        cpus = dict.fromkeys(ids_of(rules.reserved_cpus), RESERVED)
    for uid, name in shown.items():
        _mark(cpus, held_by(state, uid).cpus, name)
    devices: dict[str, str] = {}
    for uid, by_container in state.devices.grants.items():
        for resources in by_container.values():
            for grant in resources.values():
                devices.update(dict.fromkeys(grant.ids, shown[uid]))
    memory = {
        numa: sum(table.reserved for table in books.tables.values())
        for numa, books in state.memory.numa.items()
    }
    return HolderMap(cpus, devices, memory)


def holds_held(holds: Iterable[Hold], gpus: Mapping[str, str]) -> HolderMap:
    """What the jobs of a host have; ``gpus``: what the ledger calls a GPU → its name."""
    cpus: dict[int, str] = {}
    devices: dict[str, str] = {}
    parts: list[MemoryPart] = []
    for hold in holds:
        _mark(cpus, hold.grant.cpus, hold.name)
        for _, ids in hold.grant.devices:
            for one in ids:
                devices[one] = devices[gpus.get(one, one)] = hold.name
        parts += hold.grant.memory
    return HolderMap(cpus, devices, bytes_by_numa(parts))


def bytes_by_numa(parts: Iterable[MemoryPart | Block]) -> dict[int, int]:
    """Bytes by NUMA node; what lies on several is counted as if it were spread evenly."""
    found: dict[int, int] = {}
    for part in parts:
        nodes = list(ids_of(part.numa))
        for numa in nodes:
            found[numa] = found.get(numa, 0) + part.size // len(nodes)
    return found


def held_hardware(hardware: Hardware, held: HolderMap) -> Hardware:
    """The machine with what is held written on it, and without what does not matter then."""
    return replace(
        hardware,
        numa=tuple(_node(node, held.memory.get(node.id, 0)) for node in hardware.numa),
        gpus=tuple(_gpu(gpu, held.devices) for gpu in hardware.gpus),
        pci=tuple(_device(device, held.devices) for device in hardware.pci),
        matrix=None,
        remarks=tuple(remark for remark in hardware.remarks if remark.place == NVML),
    )


def _names(state: NodeState, names: Mapping[str, str], owners: Mapping[str, str]) -> dict[str, str]:
    """What to call each pod that has something (rule 2)."""
    uids = dict.fromkeys((*state.cpu.assignments, *state.cpu.pods, *state.devices.grants))
    many = len(state.cpu.assignments.keys() | state.cpu.pods.keys()) > len(MARKS)
    found = {}
    for uid in uids:
        found[uid] = owners.get(uid, pod_name(uid, names)) if many else pod_name(uid, names)
    return found


def pod_name(uid: str, names: Mapping[str, str]) -> str:
    """What to call a pod: without the default namespace, or by its uid where its name is not known."""
    name = names.get(uid, uid).removeprefix("default/")
    return f"pod {uid[:8]}" if name == uid and UUID.fullmatch(uid) else name


def _mark(cpus: dict[int, str], own: int, name: str) -> None:
    for cpu in ids_of(own):
        cpus[cpu] = name if cpus.get(cpu, name) in (name, RESERVED) else SEVERAL


def _node(node: MemoryNode, size: int) -> MemoryNode:
    return replace(node, note=held_note(node.note, size), distances=())


def _gpu(gpu: Gpu, devices: Mapping[str, str]) -> Gpu:
    owner = devices.get(gpu.uuid) or devices.get(gpu.name) or devices.get(gpu.address)
    return replace(gpu, name=f"{gpu.name}: {owner}") if owner else gpu


def _device(device: PciDevice, devices: Mapping[str, str]) -> PciDevice:
    known = (*device.names, device.address)
    owner = next((devices[name] for name in known if name in devices), "")
    if not owner:
        return device
    return replace(device, names=(f"{known[0]}: {owner}", *device.names[1:]))
