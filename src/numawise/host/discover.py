"""This machine in one value, out of ``/sys``, ``/proc``, NVIDIA's driver and NVML."""

import re
from pathlib import Path

from numawise.errors import HostError
from numawise.host.files import Tree
from numawise.host.pci import read_pci
from numawise.host.sysfs import read_memory, read_nodes, read_threads
from numawise.host.system import read_host
from numawise.machine.hardware import DIFFERS, GPU, NVIDIA, UNKNOWN, Hardware, MemoryNode, Remark
from numawise.machine.locality import short_address

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
    if root is not None or not any(device.vendor == NVIDIA and device.kind == GPU for device in found.pci):
        return found
    from numawise.codec.hardware.combine import combine  # noqa: PLC0415 - only machines with such GPUs need it

    return combine([found, read_nvml()])


def read_nvml() -> Hardware:
    """GPUs as NVML reports them; a remark alone when it cannot be asked."""
    from numawise.host.nvml import load, read_gpus  # noqa: PLC0415 - an extra

    try:
        return read_gpus(load())
    except HostError as problem:
        return Hardware(remarks=(Remark(UNKNOWN, "gpus", f"NVML cannot be asked: {problem.message}"),))
