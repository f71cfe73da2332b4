"""Hardware as it was found: more than the kubelet knows, and honest about what is not known.

Rules kept here:

1. Sets of CPUs are packed ints; ids are the system's own.  NUMA ids may be any number (POWER counts GPU
   memory from 255 down); the kubelet's limit of 64 is the kubelet's affair.
2. ``None`` means "not known from this source", never a default.  What was guessed carries a remark.
3. Sources that disagree are both kept: the kubelet's reading in the fields, the other in a remark.
"""

import re
from collections.abc import Mapping

from numawise.machine.model import Device, Machine
from numawise.sets import ids_of
from numawise.values import dataclass, field

UNKNOWN, UNREADABLE, DIFFERS, ASSUMED, ODD = "unknown", "unreadable", "differs", "assumed", "odd"
GPU, NIC, NVME, STORAGE, BRIDGE, HOST_BRIDGE, ACCELERATOR, OTHER = (
    "gpu",
    "nic",
    "nvme",
    "storage",
    "bridge",
    "host-bridge",
    "accelerator",
    "other",
)

NVIDIA, AMD, INTEL = 0x10DE, 0x1002, 0x8086
"""PCI vendor ids of those who make GPUs."""
GPU_RESOURCES = {NVIDIA: "nvidia.com/gpu", AMD: "amd.com/gpu", INTEL: "gpu.intel.com/i915"}
"""What their device plugins call a whole GPU."""
MAKER_WORDS = ((AMD, ("amd", "radeon", "instinct")), (INTEL, ("intel",)), (NVIDIA, ("nvidia", "tesla")))


@dataclass(frozen=True, slots=True)
class Remark:
    """Something a reader should know about a value, in one line."""

    kind: str
    """``unknown``, ``unreadable``, ``differs``, ``assumed`` or ``odd``."""
    place: str
    """File or field it is about."""
    text: str


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache and the CPUs that share it."""

    cpus: int
    size: int | None = None
    """Bytes."""
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """One online logical CPU."""

    cpu: int
    core: int | None = None
    """Core id as the firmware gives it."""
    socket: int | None = None
    """Physical package id; -1 where the platform has none."""
    die: int | None = None
    numa: int | None = None
    siblings: int = 0
    """CPUs of the same core, itself included; 0: not known."""
    l2: Cache | None = None
    l3: Cache | None = None


@dataclass(frozen=True, slots=True)
class MemoryNode:
    """One NUMA node."""

    id: int
    cpus: int = 0
    memory: int | None = None
    """Bytes."""
    hugepages: tuple[tuple[str, int], ...] = ()
    """Page size such as ``2Mi``, and number of pages."""
    distances: tuple[tuple[int, int], ...] = ()
    """NUMA id → distance."""
    note: str = ""
    """What kind of memory it is, where that is known: ``HBM``, ``CXL``, ``GPU``."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One PCI function."""

    address: str
    """``0000:17:00.0``"""
    vendor: int | None = None
    device: int | None = None
    class_code: int | None = None
    """Class, subclass and interface: 0x030200."""
    kind: str = OTHER
    numa: int | None = None
    """-1: the firmware does not say; None: there is no such file."""
    local_cpus: int | None = None
    parents: tuple[str, ...] = ()
    """From the host bridge (``pci0000:17``) down to the nearest bridge."""
    driver: str = ""
    names: tuple[str, ...] = ()
    """What the system calls it: ``eth0``, ``mlx5_0``, ``nvme0``, ``card1``."""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, or a MIG instance of one."""

    name: str
    """``GPU0``"""
    uuid: str = ""
    address: str = ""
    model: str = ""
    memory: int | None = None
    cpus: int | None = None
    """CPUs near to it."""
    numa: tuple[int, ...] | None = None
    """NUMA nodes near to it, with CPUs."""
    own_numa: int | None = None
    """NUMA node of its own memory (Grace and POWER)."""
    parent: str = ""
    """Of a MIG instance: the GPU it is a part of."""
    mig: bool = False
    """MIG is switched on: only its instances can be used, and it may have none."""
    maker: int | None = None
    """PCI vendor id of its maker."""
    resource: str = ""
    """What its device plugin calls it, where a machine file says so; '': the maker's usual name."""

    @property
    def resource_name(self) -> str:
        """The Kubernetes resource it belongs to; '' when neither a file nor its maker gives one."""
        return self.resource or GPU_RESOURCES.get(self.maker or 0, "")


def gpu_maker(model: str, function: "PciDevice | None" = None) -> int | None:
    """Who made a GPU: as its PCI function says, else as the name of its model does."""
    if function is not None and function.vendor is not None:
        return function.vendor
    words = model.lower()
    return next((maker for maker, names in MAKER_WORDS if any(name in words for name in names)), None)


GPUS_GUESSED = (
    "links between NVIDIA's GPUs are guessed from PCIe, without NVLink; "
    "MIG instances, and GPUs in use without a hold, are not seen"
)
NVML = "nvml"
"""Place of the remark that NVIDIA's driver could not be asked."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Links between GPUs and NICs, as ``nvidia-smi topo -m`` prints them."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...] = ()
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Row → column → link as printed: ``X``, ``NV18``, ``PIX``, ``PXB``, ``PHB``, ``NODE``, ``SYS``."""
    cpu_affinity: Mapping[str, str | None] = field(default_factory=dict)
    numa_affinity: Mapping[str, str | None] = field(default_factory=dict)
    gpu_numa_id: Mapping[str, str | None] = field(default_factory=dict)
    nic_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Host:
    """Settings of the running system that affect placement."""

    cpuset: int | None = None
    """CPUs that the cgroup we run in may use."""
    mems: int | None = None
    """NUMA nodes that it may use."""
    isolated: int | None = None
    numa_balancing: bool | None = None
    cgroup: str = ""
    """``v1``, ``v2``, ``hybrid``, or '' when not known."""
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class Hardware:
    """All that is known about one machine."""

    threads: tuple[Thread, ...] = ()
    offline: int = 0
    numa: tuple[MemoryNode, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    matrix: Matrix | None = None
    host: Host | None = None
    memory_capacity: int | None = None
    name: str = ""
    sources: tuple[str, ...] = ()
    """Where it was read from, such as ``sysfs`` or ``lscpu``."""
    remarks: tuple[Remark, ...] = ()


# --------------------------------------------------------------------------------------------------
# What a machine file says about the hardware: enough for a picture, and no more.
#
# A ``Machine`` is what the kubelet knows.  It knows no links, no PCIe tree and no models, so neither does
# the hardware made from it; a resource whose name speaks of GPUs gives GPUs, of networks NICs, any other one
# accelerators.


GPU_RESOURCE = re.compile(r"gpu|/mig-|\bmig\b", re.ASCII | re.IGNORECASE)
NIC_RESOURCE = re.compile(r"sriov|rdma|hca|nic|net(?!es)|roce|infiniband|ethernet", re.ASCII | re.IGNORECASE)


def hardware_of(machine: Machine, name: str = "") -> Hardware:
    """The hardware that a machine file describes."""
    layout = machine.layout
    core_of = {cpu: bits for bits in layout.cores.values() for cpu in ids_of(bits)}
    l3 = {number: Cache(bits, id=number) for number, bits in layout.uncores.items()}
    threads = tuple(
        Thread(
            cpu=cpu.cpu,
            core=cpu.core,
            socket=cpu.socket,
            numa=cpu.numa,
            siblings=core_of[cpu.cpu],
            l3=None if cpu.uncore_cache is None else l3[cpu.uncore_cache],
        )
        for cpu in sorted(machine.cpus, key=lambda cpu: cpu.cpu)
    )
    ids = [numa.id for numa in machine.numa]
    nodes = tuple(
        MemoryNode(
            id=numa.id,
            cpus=layout.numas.get(numa.id, 0),
            memory=numa.memory,
            hugepages=numa.hugepages,
            distances=tuple(zip(ids, numa.distances, strict=False)),
        )
        for numa in machine.numa
    )
    gpus: list[Gpu] = []
    others: list[PciDevice] = []
    for plugin in machine.plugins:
        for device in plugin.devices:
            if GPU_RESOURCE.search(plugin.resource):
                gpus.append(_gpu(machine, device, plugin.resource))
            else:
                others.append(_other(plugin.resource, device))
    return Hardware(
        threads=threads,
        numa=nodes,
        pci=tuple(others),
        gpus=tuple(gpus),
        memory_capacity=machine.memory_capacity,
        name=name,
        sources=("machine file",),
    )


def _gpu(machine: Machine, device: Device, resource: str) -> Gpu:
    cpus = 0
    for numa in device.numa or ():
        cpus |= machine.layout.numas.get(numa, 0)
    return Gpu(
        name=device.id,
        cpus=cpus or None,
        numa=device.numa or None,
        maker=gpu_maker(resource.partition("/")[0]),
        resource=resource,
    )


def _other(resource: str, device: Device) -> PciDevice:
    return PciDevice(
        address="",
        kind=NIC if NIC_RESOURCE.search(resource) else ACCELERATOR,
        numa=device.numa[0] if device.numa and len(device.numa) == 1 else -1,
        names=(device.id,),
        model=resource,
    )
