"""All that a host's ``/sys`` and ``/proc`` tell about the machine, in one value."""

from pathlib import Path

from numawise.host.files import Tree
from numawise.host.pci import read_pci
from numawise.host.sysfs import read_memory, read_nodes, read_threads
from numawise.host.system import read_host
from numawise.machine.hardware import DIFFERS, Hardware, MemoryNode

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
    """Tell when the nodes' memory is not the machine's: a balloon in a virtual machine, or nodes left out."""
    parts = [node.memory for node in nodes if node.memory is not None]
    if whole and parts and len(parts) == len(nodes) and abs(sum(parts) - whole) > ALIKE * whole:
        text = f"says {whole >> 20} MiB where the NUMA nodes have {sum(parts) >> 20} MiB together"
        tree.remark(DIFFERS, MEMORY, text)
