"""A machine in a few lines: what it has, counted and by NUMA node, and what is not known about it."""

from numawise.machine.hardware import GPU, NIC, Hardware, PciDevice, Remark
from numawise.machine.locality import gpu_numa, whole_gpus
from numawise.quantity import Quantity
from numawise.sets import bits_of, format_ids
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """A machine in a few lines."""

    counts: str
    rows: tuple[tuple[str, ...], ...]
    """NUMA id, CPUs, memory, huge pages, GPUs, NICs, note."""
    remarks: tuple[str, ...]


def summary(hardware: Hardware) -> Summary:
    """Sockets, cores, NUMA nodes, GPUs and NICs, counted and by NUMA node."""
    sockets = {thread.socket for thread in hardware.threads if thread.socket is not None}
    cores = {thread.siblings for thread in hardware.threads if thread.siblings}
    nics = [device for device in hardware.pci if device.kind == NIC]
    gpus: dict[str, tuple[int, ...]] = {gpu.name: gpu_numa(hardware, gpu) for gpu in whole_gpus(hardware)}
    if not gpus:
        cards = [device for device in hardware.pci if device.kind == GPU]
        gpus = {device.address: _near(device) for device in cards}
    counts = [
        _count(len(sockets), "socket"),
        _count(len(cores), "core"),
        _count(len(hardware.threads), "thread"),
        _count(len(hardware.numa), "NUMA node"),
        _count(len(gpus), "GPU"),
        _count(len(nics) or len(hardware.matrix.nics if hardware.matrix else ()), "NIC"),
    ]
    online = bits_of(thread.cpu for thread in hardware.threads)
    rows = [
        (
            str(node.id),
            format_ids(node.cpus & online) or "-",
            _size(node.memory),
            " ".join(f"{pages}x{size}" for size, pages in node.hugepages if pages) or "-",
            " ".join(name for name, near in gpus.items() if node.id in near) or "-",
            " ".join(_name(nic) for nic in nics if node.id in _near(nic)) or "-",
            node.note or "-",
        )
        for node in hardware.numa
    ]
    unplaced = (
        " ".join(name for name, near in gpus.items() if not near) or "-",
        " ".join(_name(nic) for nic in nics if not _near(nic)) or "-",
    )
    if unplaced != ("-", "-"):
        rows.append(("?", "-", "-", "-", *unplaced, "-"))
    title = f"{hardware.name}: " if hardware.name else ""
    source = f" (from {', '.join(hardware.sources)})" if hardware.sources else ""
    remarks = tuple(remark_line(remark) for remark in hardware.remarks)
    shown = tuple(tuple(printable(cell) for cell in row) for row in rows)
    return Summary(printable(f"{title}{', '.join(counts)}{source}"), shown, remarks)


def remark_line(remark: Remark) -> str:
    """A remark in one line."""
    return printable(f"{remark.kind}: {remark.place}: {remark.text}")


def printable(text: str) -> str:
    """Text without what could steer a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _count(number: int, what: str) -> str:
    if number:
        return f"{number} {what}{'' if number == 1 else 's'}"
    return f"no {what}s" if what in ("GPU", "NIC") else f"? {what}s"


def _size(memory: int | None) -> str:
    if memory is None:
        return "?"
    for unit, shift in (("Ti", 40), ("Gi", 30), ("Mi", 20)):
        if memory >= 1 << shift:
            return f"{memory / (1 << shift):.1f}".removesuffix(".0") + unit
    return str(Quantity.of(memory))


def _name(device: PciDevice) -> str:
    return device.names[0] if device.names else device.address


def _near(device: PciDevice) -> tuple[int, ...]:
    return () if device.numa is None or device.numa < 0 else (device.numa,)
