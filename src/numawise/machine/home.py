"""Which memory is local to which CPUs.

Rules kept here:

1. Memory of a NUMA node is local to the CPUs of the node.
2. A node with CPUs and no memory has the memory of the nearest nodes that have some.
3. A node with memory and no CPUs is local to the node with CPUs that is nearest to it, when that is one and
   nearer than the kernel's distance for another socket: high-bandwidth memory on the package in flat mode
   is, memory behind a link mostly is not.
4. What a node's memory is may be unknown; then it is taken to have some.
"""

from numawise.machine.hardware import Hardware, MemoryNode
from numawise.machine.places import cpus_by_numa
from numawise.sets import bits_of, ids_of

REMOTE = 20
"""The kernel's distance between sockets where the firmware tells none."""


def numa_of(hardware: Hardware, cpus: int) -> int:
    """NUMA nodes that have some of these CPUs, packed."""
    return bits_of(numa for numa, own in cpus_by_numa(hardware).items() if own & cpus)


def cpus_of(hardware: Hardware, numa: int) -> int:
    """Online CPUs of a packed set of NUMA nodes, packed."""
    found = 0
    for node, cpus in cpus_by_numa(hardware).items():
        if numa >> node & 1:
            found |= cpus
    return found


def open_cpus(hardware: Hardware) -> int:
    """CPUs that a thread may run on when nobody has said anything: all but the isolated ones, packed."""
    online = bits_of(thread.cpu for thread in hardware.threads)
    isolated = hardware.host.isolated or 0 if hardware.host else 0
    return online & ~isolated or online


def memory_near(hardware: Hardware, numa: int) -> int:
    """NUMA nodes whose memory is local to the CPUs of a packed set of nodes, packed."""
    with_memory = bits_of(node.id for node in hardware.numa if node.memory != 0)
    with_cpus = bits_of(cpus_by_numa(hardware))
    nodes = {node.id: node for node in hardware.numa}
    found = numa & with_memory if with_memory else numa
    for empty in ids_of(numa & ~with_memory if with_memory else 0):
        found |= _nearest(nodes.get(empty), with_memory)
    for node in hardware.numa:
        if with_memory >> node.id & 1 and not with_cpus >> node.id & 1:
            told = [(far, other) for other, far in node.distances if with_cpus >> other & 1]
            least = min(told, default=(REMOTE, 0))[0]
            near = bits_of(other for far, other in told if far == least)
            if least < REMOTE and near.bit_count() == 1 and near & numa:
                found |= 1 << node.id
    return found


def _nearest(node: MemoryNode | None, among: int) -> int:
    """Of a packed set, the nodes at the least distance from one; all of them where nothing tells."""
    told = [(far, other) for other, far in node.distances if among >> other & 1] if node else []
    least = min(told, default=(0, 0))[0]
    return bits_of(other for far, other in told if far == least) or among
