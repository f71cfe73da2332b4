"""The device plugins of a node, as its kubelet knows them: by their record first, then by the hardware.

Rules kept here:

1. A resource that the Device Manager's file lists has the devices that are listed there, no matter what the
   hardware would offer.
2. The NUMA node of a device is what was recorded when it was handed out, else that of the hardware with the
   same UUID or PCI address.  Where neither says, it is unknown.
"""

import re
from collections.abc import Iterable, Mapping

from numawise.codec.bundle.names import UUID
from numawise.engine.state import DeviceFile
from numawise.machine.hardware import Hardware, PciDevice
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Device, DevicePlugin

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII | re.IGNORECASE)

Nodes = tuple[int, ...] | None


def recorded_plugins(
    record: DeviceFile, hardware: Hardware, uuids: Mapping[str, str]
) -> tuple[tuple[DevicePlugin, ...], tuple[str, ...]]:
    """The plugins, and resources with devices whose NUMA node is not known; ``uuids``: → PCI address."""
    handed_out = _handed_out(record)
    near = _near(hardware, uuids)
    ids = {resource: set(some) for resource, some in record.registered.items()}
    for resource, one in handed_out:
        ids.setdefault(resource, set()).add(one)
    plugins: list[DevicePlugin] = []
    unknown: list[str] = []
    for resource, some in sorted(ids.items()):
        devices = []
        for one in sorted(some):
            is_known, numa = _numa(resource, one, handed_out, near)
            if not is_known and resource not in unknown:
                unknown.append(resource)
            devices.append(Device(one, numa))
        if devices:
            plugins.append(DevicePlugin(resource, tuple(devices)))
    return tuple(plugins), tuple(unknown)


def device_ids(record: DeviceFile) -> tuple[str, ...]:
    """Every device that the file names."""
    return tuple(
        sorted(
            {
                *(one for some in record.registered.values() for one in some),
                *(one for _, one in _handed_out(record)),
            }
        )
    )


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
