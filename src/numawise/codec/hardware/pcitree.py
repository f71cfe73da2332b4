"""PCI devices by their place in the tree: addresses, kinds, and the way from one to another."""

import re
from collections.abc import Mapping, Sequence

from numawise.machine.hardware import (
    Gpu,
    Matrix,
    PciDevice,
)
from numawise.machine.places import NODE, SYS, pcie_link
from numawise.sets import format_ids

ADDRESS = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-9a-fA-F])")


def pci_address(text: str) -> str | None:
    """A PCI address in the kernel's form, ``0000:17:00.0``."""
    found = ADDRESS.fullmatch(text.strip())
    if not found:
        return None
    domain, bus, device, function = (int(part or "0", 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def pci_link(one: PciDevice, other: PciDevice) -> str:
    """How two PCI devices reach each other, in the words of ``nvidia-smi topo -m``."""
    by_tree = pcie_link(one.parents, other.parents)
    if by_tree:
        return by_tree
    known = one.numa is not None and one.numa >= 0 and one.numa == other.numa
    same = one.local_cpus and one.local_cpus == other.local_cpus
    return NODE if known or same else SYS


def matrix_of(
    ends: Mapping[str, PciDevice],
    gpus: Sequence[Gpu],
    nics: Mapping[str, str],
    measured: Mapping[tuple[str, str], str],
) -> Matrix:
    """All links between the ends: the measured ones, and else what the bridges tell."""
    links = {
        row: {
            column: "X" if row == column else measured.get((row, column)) or pci_link(one, other)
            for column, other in ends.items()
        }
        for row, one in ends.items()
    }
    named = [gpu for gpu in gpus if gpu.name in ends]
    return Matrix(
        gpus=tuple(gpu.name for gpu in named),
        nics=tuple(nics),
        links=links,
        cpu_affinity={gpu.name: format_ids(gpu.cpus) if gpu.cpus else None for gpu in named},
        numa_affinity={gpu.name: ",".join(map(str, gpu.numa)) if gpu.numa else None for gpu in named},
        gpu_numa_id={gpu.name: None if gpu.own_numa is None else str(gpu.own_numa) for gpu in named},
        nic_names=dict(nics),
    )
