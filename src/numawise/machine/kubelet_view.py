"""A machine as cAdvisor reports it to the kubelet, its hardware layer.

Rules kept here (cAdvisor's, defects included):

1. NUMA nodes come in text order: node10 before node2.  A machine without nodes gets one for each physical
   package, with the package's id and without memory.
2. Threads of one node with equal core and package ids form a core, whatever the kernel says about siblings.
3. A core's L3 belongs to the node when as many CPUs share it as the node has *cores*, times the threads of
   *this* core; otherwise it is the core's uncore cache.  With offline threads or mixed cores even a single
   L3 is an uncore cache, therefore.
4. cAdvisor gives up on a node's caches at the first core, in text order of its CPUs, that has a cache
   without id or size; cores before it keep theirs.  That is how most ARM machines come to have none.
   Sources other than the kernel's files may not know the ids at all; their L3s are counted by lowest CPU.
5. A distance row stays as the kernel prints it, by ascending node id, whatever the order of the nodes.
6. Device plugins offer whole GPUs, one resource for each maker, with the NUMA node that PCI names; a GPU
   whose firmware does not say has no topology.
"""

from collections.abc import Collection, Iterator

from numawise.machine.hardware import (
    AMD,
    GPU,
    GPU_RESOURCES,
    INTEL,
    NVIDIA,
    UNKNOWN,
    Hardware,
    PciDevice,
    Remark,
    Thread,
)
from numawise.machine.model import Cpu, Device, DevicePlugin, Machine, Numa
from numawise.sets import bits_of, format_ids

LARGEST_NUMA = 63
"""A NUMA mask of the kubelet has 64 bits."""
KERNEL = "sysfs"
DRIVERS = {NVIDIA: {"nvidia"}, AMD: {"amdgpu"}, INTEL: {"i915", "xe"}}

Cores = dict[tuple[int, int], list[Thread]]


def kubelet_view(hardware: Hardware, plugins: tuple[DevicePlugin, ...] = ()) -> Machine | tuple[Remark, ...]:
    """What the kubelet would see, or remarks that say what is missing for that."""
    place = _numa_of(hardware)
    missing = tuple(_missing(hardware, place))
    if missing:
        return missing
    cpus: list[Cpu] = []
    known = {node.id: node for node in hardware.numa}
    order = sorted({*known, *(numa for numa in place.values() if numa is not None)}, key=str)
    counted = _counted(hardware)
    for node in order:
        cores = _cores(thread for thread in hardware.threads if place[thread.cpu] == node)
        uncores = _uncores(cores, counted)
        for (core, socket), threads in cores.items():
            for thread in threads:
                cpus.append(Cpu(thread.cpu, core, socket, node, uncores.get((core, socket))))
    named = {plugin.resource for plugin in plugins}
    return Machine(
        cpus=tuple(sorted(cpus, key=lambda cpu: cpu.cpu)),
        numa=tuple(_numa(hardware, node, order) for node in order),
        plugins=plugins + tuple(p for p in gpu_plugins(hardware) if p.resource not in named),
        memory_capacity=hardware.memory_capacity,
    )


def _numa_of(hardware: Hardware) -> dict[int, int | None]:
    """CPU → NUMA node."""
    if not hardware.numa and all(thread.numa is None for thread in hardware.threads):
        return {thread.cpu: thread.socket for thread in hardware.threads}
    found: dict[int, int | None] = {}
    for thread in hardware.threads:
        listing = (node.id for node in hardware.numa if node.cpus >> thread.cpu & 1)
        found[thread.cpu] = thread.numa if thread.numa is not None else min(listing, default=None)
    return found


def _missing(hardware: Hardware, place: dict[int, int | None]) -> Iterator[Remark]:
    if not hardware.threads:
        yield Remark(UNKNOWN, "threads", "no CPUs are known")
    for field, what in (("core", "core id"), ("socket", "physical package id")):
        cpus = bits_of(thread.cpu for thread in hardware.threads if getattr(thread, field) is None)
        if cpus:
            yield Remark(UNKNOWN, f"threads.{field}", f"the {what} of CPUs {format_ids(cpus)} is not known")
    stray = bits_of(cpu for cpu, numa in place.items() if numa is None)
    if stray and (hardware.numa or any(thread.numa is not None for thread in hardware.threads)):
        yield Remark(UNKNOWN, "threads.numa", f"the NUMA node of CPUs {format_ids(stray)} is not known")
    ids = {*(node.id for node in hardware.numa), *(numa for numa in place.values() if numa is not None)}
    beyond = sorted(i for i in ids if not 0 <= i <= LARGEST_NUMA)
    if beyond:
        text = (
            f"the kubelet counts NUMA nodes from 0 to {LARGEST_NUMA}; here are {', '.join(map(str, beyond))}"
        )
        yield Remark(UNKNOWN, "numa.id", text)


def _cores(threads: Iterator[Thread]) -> Cores:
    """(core id, package) → threads; both in text order of the CPUs."""
    cores: Cores = {}
    for thread in sorted(threads, key=lambda thread: str(thread.cpu)):
        assert thread.core is not None
        assert thread.socket is not None
        cores.setdefault((thread.core, thread.socket), []).append(thread)
    return cores


def _uncores(cores: Cores, counted: dict[int, int] | None) -> dict[tuple[int, int], int]:
    """Core → id of its uncore cache, for those that have one."""
    found: dict[tuple[int, int], int] = {}
    for core, threads in cores.items():
        caches = [cache for cache in (threads[0].l2, threads[0].l3) if cache]
        if counted is None and any(cache.id is None or cache.size is None for cache in caches):
            break
        l3 = threads[0].l3
        if l3 and l3.cpus.bit_count() != len(cores) * len(threads):
            found[core] = l3.id if l3.id is not None else (counted or {}).get(l3.cpus, 0)
    return found


def _counted(hardware: Hardware) -> dict[int, int] | None:
    """L3s that have no id, numbered by lowest CPU; None when the kernel would have given them."""
    if KERNEL in hardware.sources:
        return None
    found = {thread.l3.cpus for thread in hardware.threads if thread.l3}
    return {cpus: number for number, cpus in enumerate(sorted(found, key=lambda bits: bits & -bits))}


def _numa(hardware: Hardware, node: int, order: Collection[int]) -> Numa:
    """One NUMA node; the distances to nodes that are offline do not count."""
    for memory in hardware.numa:
        if memory.id == node:
            row = tuple(distance for to, distance in sorted(memory.distances) if to in order)
            return Numa(node, memory.memory or 0, memory.hugepages, row)
    return Numa(node)


def gpu_plugins(hardware: Hardware) -> Iterator[DevicePlugin]:
    """What device plugins offer by themselves (rule 6)."""
    functions = {device.address: device for device in hardware.pci}
    offers: dict[str, list[Device]] = {}
    whole = [gpu for gpu in hardware.gpus if not gpu.parent]
    for gpu in whole:
        function = functions.get(gpu.address)
        numa = _numa_of_function(function) if function and function.numa is not None else gpu.numa
        offers.setdefault(gpu.resource_name or GPU_RESOURCES[NVIDIA], []).append(
            Device(gpu.uuid or gpu.name, numa)
        )
    if not whole:
        bound = any(device.driver for device in hardware.pci)
        for device in hardware.pci:
            vendor = device.vendor or 0
            resource = GPU_RESOURCES.get(vendor) if device.kind == GPU else None
            if resource and (not bound or device.driver in DRIVERS[vendor]):
                offers.setdefault(resource, []).append(Device(_device_id(device), _numa_of_function(device)))
    for resource, devices in offers.items():
        yield DevicePlugin(resource, tuple(devices))


def _device_id(device: PciDevice) -> str:
    """Intel's plugin goes by the card's name; for the others the address is the best that PCI knows."""
    cards = (name for name in device.names if name.startswith("card"))
    card = next(cards, "") if device.vendor == INTEL else ""
    return f"{card}-0" if card else device.address


def _numa_of_function(device: PciDevice) -> tuple[int, ...] | None:
    return None if device.numa is None or device.numa < 0 else (device.numa,)
