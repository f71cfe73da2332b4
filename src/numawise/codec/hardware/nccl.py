"""NCCL's topology XML as hardware: ``NCCL_TOPO_FILE`` of a cloud machine, ``NCCL_TOPO_DUMP_FILE`` of a run.

Rules kept here:

1. A ``cpu`` is a NUMA node with its CPUs; memory, cores and sockets are not in the file.
2. A ``pci`` inside a ``pci`` is attached to that switch.  Under one switch is PIX, under several PXB, under
   one NUMA node PHB, else SYS: as NCCL counts them.  Host bridges are not listed, thus never NODE.
3. Links through NVLink switches add up: two GPUs reach each other over as many as both have.
4. A GPU is called by its number; where no run has numbered them, by the order of addresses, as
   ``nvidia-smi`` does.
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.codec.hardware.xmltree import Element, hexadecimal, number, pci_address, words, xml_tree
from numawise.errors import InputError
from numawise.machine.hardware import (
    AMD,
    ASSUMED,
    GPU,
    NIC,
    NVIDIA,
    ODD,
    UNREADABLE,
    Gpu,
    Hardware,
    Matrix,
    MemoryNode,
    PciDevice,
    Remark,
    Thread,
)
from numawise.machine.pci import pci_kind
from numawise.sets import LARGEST_ID, format_ids, ids_of
from numawise.values import dataclass

SOURCE = "nccl"
SWITCH = 0x068000
LINKS = {"nvlink": "NV", "xgmi": "XGMI"}


@dataclass(frozen=True, slots=True)
class NcclElement:
    """A PCI device of the file, with the NUMA node it is on."""

    element: Element
    device: PciDevice

    @property
    def gpu(self) -> Element | None:
        return next(self.element.all("gpu"), None)


def read(text: str, file: str = "") -> Hardware:
    """Read an NCCL topology."""
    system = xml_tree(text, file)
    if system.tag != "system" or not any(system.all("cpu")):
        advice = "give a file that NCCL_TOPO_DUMP_FILE wrote"
        raise InputError("is not an NCCL topology", file=file, line=system.line, advice=advice)
    remarks: list[Remark] = []
    nodes: dict[int, int] = {}
    found: list[NcclElement] = []
    for cpu in _one_host(system, remarks):
        numa = _numa(cpu)
        affinity = words(cpu.attributes.get("affinity"))
        if affinity is None and cpu.attributes.get("affinity"):
            remarks.append(Remark(UNREADABLE, f"cpu {numa} affinity", "is not a mask of CPUs"))
        if numa >= 0:
            nodes[numa] = nodes.get(numa, 0) | (affinity or 0)
        found += _devices(cpu, numa, affinity)
    gpus = _gpus(found, remarks)
    homes = {cpu: numa for numa in sorted(nodes, reverse=True) for cpu in ids_of(nodes[numa])}
    return Hardware(
        threads=tuple(Thread(cpu, numa=homes[cpu]) for cpu in sorted(homes)),
        numa=tuple(MemoryNode(numa, nodes[numa]) for numa in sorted(nodes)),
        pci=tuple(one.device for one in found),
        gpus=tuple(gpu for gpu, _ in gpus),
        matrix=_matrix(gpus, found) if gpus else None,
        name=system.attributes.get("name", ""),
        sources=(SOURCE,),
        remarks=tuple(remarks),
    )


def _numa(cpu: Element) -> int:
    """The NUMA id, -1 where the system has none."""
    text = cpu.attributes.get("numaid", "-1").strip()
    found = hexadecimal(text) if text.startswith("0x") else number(text)
    return found if found is not None and found <= LARGEST_ID else -1


def _one_host(system: Element, remarks: list[Remark]) -> list[Element]:
    """The CPUs of one machine: a run over several may write all of them into one file."""
    cpus = list(system.all("cpu"))
    hosts = list(dict.fromkeys(cpu.attributes.get("host_hash", "") for cpu in cpus))
    if len(hosts) > 1:
        remarks.append(Remark(ODD, "cpu", f"the file has {len(hosts)} hosts; the first one is read"))
    return [cpu for cpu in cpus if cpu.attributes.get("host_hash", "") == hosts[0]]


def _devices(cpu: Element, numa: int, affinity: int | None) -> Iterator[NcclElement]:
    waiting: list[tuple[Element, tuple[str, ...]]] = [(e, ()) for e in reversed(list(cpu.all("pci")))]
    while waiting:
        element, parents = waiting.pop()
        given = element.attributes
        address = pci_address(given.get("busid", "")) or given.get("busid", "").lower()
        class_code = hexadecimal(given.get("class"))
        vendor = hexadecimal(given.get("vendor"))
        kind = pci_kind(class_code, vendor)
        if any(element.all("gpu")):
            kind = GPU
        elif any(element.all("nic")):
            kind = NIC
        names = [name for net in _nets(element) if (name := net.attributes.get("name"))]
        device = PciDevice(
            address,
            vendor=vendor,
            device=hexadecimal(given.get("device")),
            class_code=class_code,
            kind=kind,
            numa=numa,
            local_cpus=affinity,
            parents=parents,
            names=tuple(dict.fromkeys(names)),
        )
        yield NcclElement(element, device)
        waiting += [(e, (*parents, address)) for e in reversed(list(element.all("pci")))]


def _nets(element: Element) -> Iterator[Element]:
    return (net for nic in element.all("nic") for net in nic.all("net"))


def _gpus(found: Sequence[NcclElement], remarks: list[Remark]) -> list[tuple[Gpu, NcclElement]]:
    """The GPUs by number, with the device of each."""
    cards = [one for one in found if one.device.kind == GPU]
    numbers = [number(one.gpu.attributes.get("dev")) if one.gpu else None for one in cards]
    if cards and (None in numbers or len(set(numbers)) != len(numbers)):
        cards.sort(key=lambda one: one.device.address)
        numbers = list(range(len(cards)))
        remarks.append(Remark(ASSUMED, "gpus", "GPUs are numbered by their PCI addresses"))
    gpus = []
    for one, at in sorted(zip(cards, numbers, strict=True), key=lambda pair: pair[1] or 0):
        device = one.device
        near = None if device.numa is None or device.numa < 0 else (device.numa,)
        maker = AMD if one.gpu and "gcn" in one.gpu.attributes else device.vendor or NVIDIA
        gpu = Gpu(f"GPU{at}", address=device.address, cpus=device.local_cpus, numa=near, maker=maker)
        gpus.append((gpu, one))
    return gpus


def _matrix(gpus: Sequence[tuple[Gpu, NcclElement]], found: Sequence[NcclElement]) -> Matrix:
    nics = sorted((one for one in found if one.device.kind == NIC), key=_nic_order)
    ends = {gpu.name: one for gpu, one in gpus} | {f"NIC{at}": one for at, one in enumerate(nics)}
    fast = _fast(gpus)
    links = {
        row: {
            column: "X" if row == column else fast.get((row, column)) or _link(one.device, other.device)
            for column, other in ends.items()
        }
        for row, one in ends.items()
    }
    return Matrix(
        gpus=tuple(gpu.name for gpu, _ in gpus),
        nics=tuple(f"NIC{at}" for at in range(len(nics))),
        links=links,
        cpu_affinity={gpu.name: format_ids(gpu.cpus) if gpu.cpus else None for gpu, _ in gpus},
        numa_affinity={gpu.name: str(gpu.numa[0]) if gpu.numa else None for gpu, _ in gpus},
        gpu_numa_id={gpu.name: None for gpu, _ in gpus},
        nic_names={
            f"NIC{at}": one.device.names[0] if one.device.names else one.device.address
            for at, one in enumerate(nics)
        },
    )


def _nic_order(one: NcclElement) -> tuple[int, str]:
    numbers = [number(net.attributes.get("dev")) for net in _nets(one.element)]
    return min((n for n in numbers if n is not None), default=1 << 30), one.device.address


def _link(one: PciDevice, other: PciDevice) -> str:
    """The way between two devices by the switches above them (rule 2)."""
    if one.parents and one.parents[:1] == other.parents[:1]:
        return "PIX" if one.parents == other.parents else "PXB"
    return "PHB" if one.numa == other.numa else "SYS"


def _fast(gpus: Sequence[tuple[Gpu, NcclElement]]) -> Mapping[tuple[str, str], str]:
    """Links by NVLink or XGMI: direct ones, and those through switches (rule 3)."""
    names = {gpu.address: gpu.name for gpu, _ in gpus}
    direct: dict[tuple[str, str], tuple[str, int]] = {}
    switched: dict[str, int] = {}
    for gpu, one in gpus:
        for element in one.gpu.children if one.gpu else ():
            word = LINKS.get(element.tag)
            if not word:
                continue
            count = number(element.attributes.get("count")) or 0
            target = element.attributes.get("target", "")
            other = names.get(pci_address(target) or target.lower())
            if other:
                before = direct.get((gpu.name, other), (word, 0))[1]
                direct[gpu.name, other] = (word, before + count)
            elif hexadecimal(element.attributes.get("tclass")) == SWITCH:
                switched[gpu.name] = switched.get(gpu.name, 0) + count
    links = {(a, b): f"NV{min(m, n)}" for a, m in switched.items() for b, n in switched.items() if a != b}
    return links | {
        pair: f"NV{count}" if word == "NV" else word for pair, (word, count) in direct.items() if count
    }
