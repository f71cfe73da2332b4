"""The device plugins of a node, as its kubelet knows them, and the machine with them.

Rules kept here:

1. A resource that the Device Manager's file lists has the devices that are listed there, no matter what the
   hardware would offer.
2. The NUMA nodes of a device are what PodResources shows of its plugin (``inputs.podresources``), else what
   was recorded when it was handed out, else those of the hardware with the same UUID or PCI address.  Where
   none says, they are unknown.
"""

from collections.abc import Iterable, Mapping

from numawise.codec.bundle.allowed import ADDRESS, is_resource
from numawise.codec.bundle.config import QUOTED
from numawise.codec.bundle.manifest import UUID
from numawise.codec.podresources import PodResources
from numawise.engine.state import DeviceFile
from numawise.inputs.gathered import Notes
from numawise.inputs.podresources import located_plugins
from numawise.machine.hardware import Hardware, PciDevice
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Device, DevicePlugin, Machine, unlocated

Nodes = tuple[int, ...] | None


def seen_machine(
    hardware: Hardware,
    record: DeviceFile,
    uuids: Mapping[str, str],
    answers: PodResources | None,
    notes: Notes,
) -> Machine | None:
    """The machine as it is reported to the kubelet, with the devices that it knows."""
    plugins = recorded_plugins(record, hardware, uuids, answers)
    for resource in unlocated(plugins):
        unknown_node = (
            "the NUMA node of unallocated devices is not known, so that answers about it may be not known"
        )
        name = resource if is_resource(resource) else "a resource"
        notes.remark(f"{name}: {unknown_node}", detail=f"{resource}: {unknown_node}")
    seen = kubelet_view(hardware, plugins)
    if isinstance(seen, tuple):
        reasons = "; ".join(remark.text for remark in seen)
        notes.missing("machine.yaml", QUOTED.sub("…", reasons), detail=reasons)
        return None
    return seen


def recorded_plugins(
    record: DeviceFile, hardware: Hardware, uuids: Mapping[str, str], answers: PodResources | None = None
) -> tuple[DevicePlugin, ...]:
    """The plugins; ``uuids``: → PCI address, ``answers``: those of the PodResources socket."""
    handed_out = _handed_out(record)
    near = _near(hardware, uuids)
    plugins: list[DevicePlugin] = []
    for resource, ids in sorted(device_ids(record).items()):
        devices = []
        for one in sorted(ids):
            is_known, numa = _numa(resource, one, handed_out, near)
            devices.append(Device(one, numa, numa_unknown=not is_known))
        if devices:
            plugins.append(DevicePlugin(resource, tuple(devices)))
    return located_plugins(plugins, answers, record) if answers is not None else tuple(plugins)


def device_ids(record: DeviceFile) -> dict[str, set[str]]:
    """Every device that the file names, by resource."""
    ids: dict[str, set[str]] = {resource: set(some) for resource, some in record.registered.items()}
    for resource, one in _handed_out(record):
        ids.setdefault(resource, set()).add(one)
    return ids


def _handed_out(record: DeviceFile) -> dict[tuple[str, str], Nodes]:
    found: dict[tuple[str, str], set[int]] = {}
    for containers in record.grants.values():
        for resources in containers.values():
            for resource, grant in resources.items():
                for numa, ids in grant.per_numa:
                    for one in ids:
                        found.setdefault((resource, one), set()).add(numa)
    return {key: tuple(sorted(numa for numa in nodes if numa >= 0)) or None for key, nodes in found.items()}


def _near(hardware: Hardware, uuids: Mapping[str, str]) -> dict[str, Nodes]:
    """UUID or PCI address, in lower case → NUMA nodes."""
    found: dict[str, Nodes] = {device.address.lower(): _of(device) for device in hardware.pci}
    for uuid, address in uuids.items():
        if address.lower() in found:
            found[uuid.lower()] = found[address.lower()]
    seen = kubelet_view(hardware)
    for plugin in () if isinstance(seen, tuple) else seen.plugins:
        for device in plugin.devices:
            for key in _keys(device.id):
                found[key] = device.numa
    return found


def _numa(
    resource: str, one: str, handed_out: Mapping[tuple[str, str], Nodes], near: Mapping[str, Nodes]
) -> tuple[bool, Nodes]:
    if (resource, one) in handed_out:
        return True, handed_out[resource, one]
    for key in _keys(one):
        if key in near:
            return True, near[key]
    return False, None


def _keys(text: str) -> Iterable[str]:
    return [found.lower() for found in (*UUID.findall(text), *ADDRESS.findall(text))]


def _of(device: PciDevice) -> Nodes:
    return None if device.numa is None or device.numa < 0 else (device.numa,)
