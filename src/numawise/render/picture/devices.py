"""Which devices a picture shows, on which NUMA node, and below which PCIe switch.

Rules kept here:

1. Shown are GPUs, accelerators, NICs and disks that have a name; bridges and the rest are not.
2. A switch is drawn where two or more shown devices hang below it.  Switches inside a switch are drawn when
   they distinguish devices; deeper nesting is folded.
3. Without a PCIe tree, devices that the link matrix joins by PIX or PXB share a switch.
4. Of many like devices in one place (virtual functions) the first few are shown and the rest counted.
"""

from collections.abc import Callable, Iterable, Sequence

from numawise.machine.hardware import ACCELERATOR, GPU, NIC, NVME, STORAGE, Gpu, Hardware, PciDevice
from numawise.machine.locality import (
    NODE,
    PHB,
    PIX,
    PXB,
    Links,
    gpu_numa,
    nic_labels,
    pci_by_address,
    short_address,
    whole_gpus,
)
from numawise.values import dataclass

ORDER = {GPU: 0, ACCELERATOR: 1, NIC: 2, NVME: 3, STORAGE: 4}
GPU_VENDORS = (0x10DE, 0x1002, 0x8086)
MOST_ALIKE = 8
SAME_NUMA = (PIX, PXB, PHB, NODE)
RDMA = ("mlx", "bnxt_re", "irdma", "efa", "rocep", "ibp", "hfi", "roce")


@dataclass(frozen=True, slots=True)
class DeviceItem:
    """One device."""

    name: str
    kind: str
    numa: tuple[int, ...] = ()
    """NUMA nodes near to it; empty: unknown."""
    address: str = ""
    parents: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    tip: str = ""
    known: tuple[str, ...] = ()
    """What else it goes by: a UUID, further names."""


@dataclass(frozen=True, slots=True)
class SwitchBox:
    """Devices below one PCIe switch, and switches below it."""

    items: tuple["DeviceItem | SwitchBox", ...]


def items_of(hardware: Hardware) -> tuple[DeviceItem, ...]:
    """Every device that is shown (rule 1), GPUs first, each kind in the system's order."""
    by_address = pci_by_address(hardware)
    items: list[DeviceItem] = []
    seen: set[str] = set()
    models = {gpu.model for gpu in whole_gpus(hardware)}
    for gpu in whole_gpus(hardware):
        device = by_address.get(short_address(gpu.address)) if gpu.address else None
        seen.add(short_address(gpu.address))
        items.append(_gpu(hardware, gpu, device, tell_model=len(models) > 1))
    labels = nic_labels(hardware)
    named: set[str] = set()
    for device in hardware.pci:
        if device.kind not in ORDER or (device.address and short_address(device.address) in seen):
            continue
        item = _item(device)
        if item is not None:
            named.update(device.names)
            items.append(item)
    links = Links.of(hardware)
    for name in labels:
        if name not in named:  # the matrix knows a NIC that no PCI list has
            near = [item.numa for item in items if links.between(name, item.name) in SAME_NUMA]
            items.append(DeviceItem(name, NIC, near[0] if near else (), tip=name))
    numbers = {item: i for i, item in enumerate(items)}
    return tuple(sorted(items, key=lambda item: (ORDER[item.kind], numbers[item])))


def _gpu(hardware: Hardware, gpu: Gpu, device: PciDevice | None, *, tell_model: bool) -> DeviceItem:
    lines = []
    if tell_model and gpu.model:
        lines.append(short_model(gpu.model))
    if gpu.own_numa is not None:
        lines.append(f"memory: NUMA {gpu.own_numa}")
    parts = [part for part in hardware.gpus if part.parent == gpu.name]
    if parts:
        lines.append(f"{len(parts)} MIG instances" if len(parts) > 1 else "1 MIG instance")
    tip = [gpu.name, gpu.model, f"{gpu.memory >> 20} MiB" if gpu.memory else "", gpu.address, gpu.uuid]
    tip += [f"{part.name} {part.model}".strip() for part in parts]
    return DeviceItem(
        name=gpu.name,
        kind=GPU,
        numa=gpu_numa(hardware, gpu),
        address=gpu.address,
        parents=device.parents if device else (),
        lines=tuple(lines),
        tip=", ".join(word for word in tip if word),
        known=(short_address(gpu.address), gpu.uuid),
    )


def _item(device: PciDevice) -> DeviceItem | None:
    name = _name(device)
    if not name:
        return None
    tip = [name, device.model, device.address, " ".join(n for n in device.names if n != name), device.driver]
    return DeviceItem(
        name=name,
        kind=device.kind,
        numa=(device.numa,) if device.numa is not None and device.numa >= 0 else (),
        address=device.address,
        parents=device.parents,
        tip=", ".join(word for word in tip if word),
        known=device.names,
    )


def _name(device: PciDevice) -> str:
    """What to call a device; '' when it is not worth showing (a console's graphics chip, an unused port)."""
    if device.kind == GPU:
        if device.vendor in GPU_VENDORS or device.vendor is None:
            return f"GPU {device.address.removeprefix('0000:')}"
        return ""
    if device.kind == NIC:
        for name in device.names:
            if name.startswith(RDMA):
                return name
    if device.names:
        return device.names[0]
    return device.address.removeprefix("0000:") if device.kind in (ACCELERATOR, NVME) else ""


def short_model(model: str) -> str:
    """A model without its maker's name."""
    for maker in ("NVIDIA ", "AMD ", "Intel ", "Tesla "):
        model = model.removeprefix(maker)
    return model


def tree(hardware: Hardware, items: Sequence[DeviceItem]) -> tuple[DeviceItem | SwitchBox, ...]:
    """The devices of one place, in switches where they share one (rules 2 to 4)."""
    has_tree = any(item.parents for item in items)
    found = _by_tree(items) if has_tree else _by_links(hardware, items)
    return tuple(SwitchBox(_few(one.items)) if isinstance(one, SwitchBox) else one for one in _few(found))


def _by_tree(items: Sequence[DeviceItem]) -> list[DeviceItem | SwitchBox]:
    found: list[DeviceItem | SwitchBox] = []
    for key, members in _grouped(items, lambda item: item.parents[:2] if len(item.parents) > 1 else None):
        if key is None or len(members) == 1 or all(len(item.parents) < 3 for item in members):
            found += members  # ports of one card are not a switch
            continue
        inner = _grouped(members, lambda item: item.parents[:-1] if len(item.parents) > 4 else None)
        if len(inner) > 1 and any(len(part) > 1 for _, part in inner):
            parts: list[DeviceItem | SwitchBox] = []
            for _, part in inner:
                parts.append(SwitchBox(tuple(part)) if len(part) > 1 else part[0])
            found.append(SwitchBox(tuple(parts)))
        else:
            found.append(SwitchBox(tuple(members)))
    return _switches_first(found)


def _by_links(hardware: Hardware, items: Sequence[DeviceItem]) -> list[DeviceItem | SwitchBox]:
    links = Links.of(hardware)
    groups: list[list[DeviceItem]] = []
    for item in items:
        near = [
            group
            for group in groups
            if any(links.between(item.name, mate.name) in (PIX, PXB) for mate in group)
        ]
        merged = [mate for group in near for mate in group] + [item]
        at = groups.index(near[0]) if near else len(groups)
        groups = [*groups[:at], merged, *(group for group in groups[at:] if group not in near)]
    return _switches_first([SwitchBox(tuple(group)) if len(group) > 1 else group[0] for group in groups])


def _grouped(
    items: Iterable[DeviceItem], key: Callable[[DeviceItem], tuple[str, ...] | None]
) -> list[tuple[tuple[str, ...] | None, list[DeviceItem]]]:
    """Items with the same key together, in order; those without one each by itself."""
    found: dict[tuple[str, ...], list[DeviceItem]] = {}
    for i, item in enumerate(items):
        found.setdefault(key(item) or (str(i),), []).append(item)
    return [(None if len(name) == 1 else name, members) for name, members in found.items()]


def _switches_first(found: list[DeviceItem | SwitchBox]) -> list[DeviceItem | SwitchBox]:
    return sorted(found, key=lambda one: isinstance(one, DeviceItem))


def _few(items: Sequence[DeviceItem | SwitchBox]) -> tuple[DeviceItem | SwitchBox, ...]:
    """The items, with like ones beyond a few counted (rule 4)."""
    counts: dict[str, int] = {}
    for one in items:
        if isinstance(one, DeviceItem) and one.kind != GPU:
            counts[one.kind] = counts.get(one.kind, 0) + 1
    found: list[DeviceItem | SwitchBox] = []
    shown: dict[str, int] = {}
    for one in items:
        many = isinstance(one, DeviceItem) and counts.get(one.kind, 0) > MOST_ALIKE
        if not many or isinstance(one, SwitchBox):
            found.append(one)
            continue
        shown[one.kind] = shown.get(one.kind, 0) + 1
        if shown[one.kind] < MOST_ALIKE - 1:
            found.append(one)
        elif shown[one.kind] == counts[one.kind]:
            left = counts[one.kind] - (MOST_ALIKE - 2)
            found.append(DeviceItem(f"and {left} more", one.kind, tip=f"{left} more"))
    return tuple(found)
