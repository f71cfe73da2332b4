"""This machine in one value, out of ``/sys``, ``/proc``, NVIDIA's driver and NVML."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

from numawise.errors import HostError
from numawise.host.files import Tree
from numawise.host.pci import read_pci
from numawise.host.sysfs import read_memory, read_nodes, read_threads
from numawise.host.system import read_host
from numawise.machine.hardware import (
    DIFFERS,
    GPU,
    GPUS_GUESSED,
    NVIDIA,
    NVML,
    UNKNOWN,
    Gpu,
    Hardware,
    MemoryNode,
    Remark,
)
from numawise.machine.locality import short_address
from numawise.values import replace

ROOT = Path("/")
MEMORY = "proc/meminfo"
ALIKE = 0.1
"""The sum over the nodes is a little more than the whole on old kernels, and equal on new ones."""


def read_hardware(root: Path = ROOT) -> Hardware:
    """Read the live machine, or a copy of the ``/sys`` and ``/proc`` of one below ``root``."""
    tree = Tree(root)
    nodes = read_nodes(tree)
    threads, offline = read_threads(tree, nodes)
    memory = read_memory(tree, MEMORY)
    _compare_memory(tree, nodes, memory)
    return Hardware(
        threads=threads,
        offline=offline,
        numa=nodes,
        pci=read_pci(tree),
        host=read_host(tree),
        memory_capacity=memory,
        sources=("sysfs",),
        remarks=tuple(dict.fromkeys(tree.remarks)),
    )


def _compare_memory(tree: Tree, nodes: tuple[MemoryNode, ...], whole: int | None) -> None:
    """Report when the nodes' memory is not the machine's: a balloon, or nodes left out."""
    parts = [node.memory for node in nodes if node.memory is not None]
    if whole and parts and len(parts) == len(nodes) and abs(sum(parts) - whole) > ALIKE * whole:
        text = f"says {whole >> 20} MiB where the NUMA nodes have {sum(parts) >> 20} MiB together"
        tree.remark(DIFFERS, MEMORY, text)


# --------------------------------------------------------------------------------------------------
# NVIDIA's GPUs as their driver lists them in ``/proc``: readable without NVML, also below another root.


GPUS = "proc/driver/nvidia/gpus"
UUID = re.compile(
    r"^GPU UUID:\s*GPU-([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\s*$", re.MULTILINE
)


def nvidia_uuids(root: Path) -> dict[str, str]:
    """UUID of a GPU → its PCI address; those that the driver has not looked at yet are left out."""
    tree = Tree(root)
    found = {}
    for address in sorted(tree.names(GPUS)):
        uuid = UUID.search(tree.text(f"{GPUS}/{address}/information") or "")
        if uuid:
            found[uuid[1].lower()] = short_address(address)
    return found


# --------------------------------------------------------------------------------------------------
# The machine we are on, read as quickly as a launcher needs it: files first, NVML only for NVIDIA's GPUs.


HERE = Path("/")


def read_live(root: Path | None = None) -> Hardware:
    """This machine, or the copy of the files of one below ``root``."""
    found = read_hardware(root or HERE)
    return found if root is not None or not has_nvidia(found) else with_driver(found, read_nvml, HERE)


def has_nvidia(hardware: Hardware) -> bool:
    """Whether the machine has GPUs of NVIDIA's, so that its driver is worth asking."""
    return any(device.vendor == NVIDIA and device.kind == GPU for device in hardware.pci)


def with_driver(found: Hardware, ask: Callable[[], Hardware], root: Path) -> Hardware:
    """A machine with what NVIDIA's driver says; when it cannot be asked, what its files say, and a remark."""
    from numawise.codec.hardware.combine import combine  # noqa: PLC0415 - only machines with such GPUs need it

    try:
        return combine([found, ask()])
    except HostError as problem:
        remark = Remark(UNKNOWN, NVML, f"{problem.message}: {GPUS_GUESSED}; {problem.advice}")
        return combine([replace(found, gpus=driver_gpus(found, root)), Hardware(remarks=(remark,))])


def read_nvml() -> Hardware:
    """GPUs as NVML reports them; raise ``HostError`` when it cannot be asked."""
    from numawise.host.nvml import read_gpus  # noqa: PLC0415 - only machines with such GPUs need it
    from numawise.host.nvml_library import load  # noqa: PLC0415 - as above

    with contextlib.closing(load()) as nvml:
        return read_gpus(nvml)


def driver_gpus(hardware: Hardware, root: Path) -> tuple[Gpu, ...]:
    """The GPUs on PCIe with the UUIDs that NVIDIA's driver lists in ``/proc``; none where it lists none."""
    from numawise.machine.nearest import gpus_of  # noqa: PLC0415 - only machines with such GPUs need it

    uuids = {address: f"GPU-{uuid}" for uuid, address in nvidia_uuids(root).items()}
    return tuple(replace(gpu, uuid=uuids.get(gpu.address, "")) for gpu in gpus_of(hardware)) if uuids else ()
