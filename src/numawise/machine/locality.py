"""Where things are in a machine: CPUs, memory and GPUs by NUMA node, links between devices.

Rules kept here:

1. The link matrix is believed first.  Without it a link follows from the PCIe tree as ``nvidia-smi`` words
   it, then from the NUMA nodes; '' means unknown.
2. A GPU's NUMA nodes are those it was reported with, else those of its PCI function, else those of the
   CPUs near to it; an empty answer means unknown.
"""

from collections.abc import Mapping

from numawise.machine.hardware import Gpu, Hardware, MemoryNode, PciDevice
from numawise.sets import bits_of, ids_of
from numawise.strconv import whole_number
from numawise.values import dataclass

SELF, PIX, PXB, PHB, NODE, SYS = "X", "PIX", "PXB", "PHB", "NODE", "SYS"
DIRECT = ("NV", "XGMI")  # links beside PCIe begin with one of these
PCIE_RANK = {PIX: 1, PXB: 2, PHB: 3, NODE: 4, SYS: 5, "SOC": 5}
UNKNOWN_RANK = 6


def short_address(address: str) -> str:
    """A PCI address in the kernel's form: ``00000000:1B:00.0`` is ``0000:1b:00.0``."""
    domain, colon, rest = address.strip().lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest}" if colon and rest.count(":") == 1 else address.strip().lower()


def cpus_by_numa(hardware: Hardware) -> dict[int, int]:
    """Online CPUs of every NUMA node that has some, by ascending id."""
    online = bits_of(thread.cpu for thread in hardware.threads)
    found = {node.id: node.cpus & online for node in hardware.numa if node.cpus & online}
    if not found and not online:
        found = {node.id: node.cpus for node in hardware.numa if node.cpus}
    if not found:
        for thread in hardware.threads:
            if thread.numa is not None:
                found[thread.numa] = found.get(thread.numa, 0) | 1 << thread.cpu
    if not found and not online:
        for gpu in hardware.gpus:  # only a link matrix says which CPUs are near to which GPU
            if gpu.cpus and gpu.numa and len(gpu.numa) == 1:
                found[gpu.numa[0]] = found.get(gpu.numa[0], 0) | gpu.cpus
    return dict(sorted(found.items()))


def cores_in(hardware: Hardware, cpus: int) -> tuple[int, ...]:
    """The cores that have a CPU in the set, each as its CPUs there; L3 after L3, then by number."""
    places = f"{cpus:b}"[::-1]  # shifting a large set for every thread would take long
    cores: dict[tuple[int, int], tuple[int, int, int]] = {}
    for thread in hardware.threads:
        if places[thread.cpu : thread.cpu + 1] == "1":
            bits = (thread.siblings | 1 << thread.cpu) & cpus
            first = (bits & -bits).bit_length()
            core = first, bits >> first  # sets of neighbours would share a few hash values
            if core not in cores:
                group = thread.l3.cpus if thread.l3 else 0
                cores[core] = (group & -group).bit_length(), first, bits
    return tuple(bits for _, _, bits in sorted(cores.values(), key=lambda core: core[:2]))


def guessed_cores(cpus: int) -> tuple[int, ...]:
    """Cores of CPUs whose threads are unknown: two equal runs, such as 0-31 and 64-95, are pairs."""
    low = cpus & ~(cpus + (cpus & -cpus))  # the first run
    high = cpus & ~low
    size = low.bit_count()
    apart = (high & -high).bit_length() - (low & -low).bit_length()
    if high and high == low << apart and apart >= size:
        return tuple(1 << cpu | 1 << cpu + apart for cpu in ids_of(low))
    return tuple(1 << cpu for cpu in ids_of(cpus))


def threads_per_core(hardware: Hardware) -> int:
    """The most threads a core has."""
    return max((thread.siblings.bit_count() or 1 for thread in hardware.threads), default=0)


def pci_by_address(hardware: Hardware) -> Mapping[str, PciDevice]:
    """PCI functions by address in short form."""
    return {short_address(device.address): device for device in hardware.pci if device.address}


def gpu_numa(hardware: Hardware, gpu: Gpu) -> tuple[int, ...]:
    """NUMA nodes near to a GPU (rule 2)."""
    if gpu.numa:
        return gpu.numa
    device = pci_by_address(hardware).get(short_address(gpu.address))
    if device is not None and device.numa is not None and device.numa >= 0:
        return (device.numa,)
    every = bits_of(thread.cpu for thread in hardware.threads)
    if gpu.cpus and gpu.cpus != every:
        return tuple(numa for numa, cpus in cpus_by_numa(hardware).items() if cpus & gpu.cpus)
    return ()


def whole_gpus(hardware: Hardware) -> tuple[Gpu, ...]:
    """GPUs without the MIG instances that are parts of them."""
    return tuple(gpu for gpu in hardware.gpus if not gpu.parent)


def nic_labels(hardware: Hardware) -> dict[str, str]:
    """Names of the NICs in the matrix, by what the system calls them."""
    if hardware.matrix is None:
        return {}
    return {hardware.matrix.nic_names.get(label) or label: label for label in hardware.matrix.nics}


@dataclass(frozen=True, slots=True)
class Links:
    """The links of one machine (rule 1)."""

    told: Mapping[str, Mapping[str, str]]
    """Rows of the matrix."""
    labels: Mapping[str, str]
    """Names of NICs in the matrix."""
    devices: Mapping[str, PciDevice]
    """PCI functions by the name of the GPU or NIC."""

    @staticmethod
    def of(hardware: Hardware) -> "Links":
        """Gather what is known about links."""
        by_address = pci_by_address(hardware)
        devices = {name: device for device in hardware.pci for name in device.names}
        for gpu in hardware.gpus:
            device = by_address.get(short_address(gpu.address)) if gpu.address else None
            if device is not None:
                devices[gpu.name] = device
        stated = hardware.matrix.links if hardware.matrix else {}
        return Links(stated, nic_labels(hardware), devices)

    def between(self, one: str, other: str) -> str:
        """Link between two devices, each a GPU's name or a NIC's label or name; '' when unknown."""
        if one == other:
            return SELF
        told = self.told.get(self.labels.get(one, one), {}).get(self.labels.get(other, other))
        if told:
            return told
        first, second = self.devices.get(one), self.devices.get(other)
        if first is None or second is None:
            return ""
        by_tree = pcie_link(first.parents, second.parents)
        if by_tree:
            return by_tree
        if first.numa is None or second.numa is None or first.numa < 0 or second.numa < 0:
            return ""
        return NODE if first.numa == second.numa else SYS


def pcie_link(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    """Link between two PCIe functions by the bridges above them; '' when they share none."""
    shared = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        shared += 1
    if shared == 0:
        return ""
    if shared == 1:
        return PHB
    return PIX if max(len(one), len(other)) - shared <= 1 else PXB


def link_rank(text: str) -> tuple[int, int]:
    """Sort key, the best link first: most NVLinks, then PIX, PXB, PHB, NODE, SYS."""
    if text.startswith(DIRECT):
        digits = "".join(c for c in text if c.isdecimal())
        return 0, -whole_number(digits or "1")
    return PCIE_RANK.get(text, UNKNOWN_RANK), 0


def first_cpus(cores: tuple[int, ...]) -> int:
    """The first thread of each core."""
    bits = 0
    for core in cores:
        bits |= core & -core
    return bits


# --------------------------------------------------------------------------------------------------
# Which memory is local to which CPUs.
#
# Rules kept here:
#
# 1. Memory of a NUMA node is local to the CPUs of the node.
# 2. A node with CPUs and no memory has the memory of the nearest nodes that have some.
# 3. A node with memory and no CPUs is local to the node with CPUs that is nearest to it, when that is one and
#    nearer than the kernel's distance for another socket: high-bandwidth memory on the package in flat mode
#    is, memory behind a link mostly is not.
# 4. What a node's memory is may be unknown; then it is taken to have some.


REMOTE = 20
"""The kernel's distance between sockets where the firmware reports none."""


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
            distances = [(far, other) for other, far in node.distances if with_cpus >> other & 1]
            least = min(distances, default=(REMOTE, 0))[0]
            near = bits_of(other for far, other in distances if far == least)
            if least < REMOTE and near.bit_count() == 1 and near & numa:
                found |= 1 << node.id
    return found


def _nearest(node: MemoryNode | None, among: int) -> int:
    """Of a packed set, the nodes at the least distance from one; all of them where that is unknown."""
    distances = [(far, other) for other, far in node.distances if among >> other & 1] if node else []
    least = min(distances, default=(0, 0))[0]
    return bits_of(other for far, other in distances if far == least) or among
