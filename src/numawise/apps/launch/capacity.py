"""What of a machine can be given to jobs: CPUs we may use, GPUs and NICs where they are, what is kept back.

Rules kept here:

1. Only CPUs of the cgroup we live in can be given, and none that the kernel keeps out of scheduling
   (``isolcpus``): a job of several threads would pile up on one of them.
2. On machines with more than four CPUs the lowest core stays with the system, on smaller ones none;
   ``reserved-cpus`` says otherwise.  What is kept back is never given alone but is part of the shared pool.
3. GPUs go by UUID, else by PCI address, else by name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from numawise.apps.launch.request import Wish
from numawise.errors import HostError, InputError
from numawise.gpus.links import GpuLinks
from numawise.host.nvml import GpuUse, kfd_users, nvml_users
from numawise.machine.hardware import NVIDIA, NVME, Gpu, Hardware, PciDevice
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.locality import cpus_by_numa, short_address
from numawise.machine.model import Device, DevicePlugin, Machine, Numa
from numawise.machine.nearest import NearNic, gpus_of, near_nics, placed_gpus
from numawise.results.hold import Hold
from numawise.sets import bits_of, format_ids, ids_of, parse_ids

NIC_RESOURCE, NVME_RESOURCE, OTHER_GPU = "numawise/nic", "numawise/nvme", "numawise/gpu"
WORDS = {"nic": NIC_RESOURCE, "nvme": NVME_RESOURCE}
"""Short words for ``--device``."""
SMALL = 4
"""CPUs up to which nothing is kept for the system."""


@dataclass(frozen=True, slots=True)
class Site:
    """A machine with what can be given of it."""

    hardware: Hardware
    machine: Machine
    reserved: int
    """CPUs kept for the system."""
    gpus: tuple[Gpu, ...] = ()
    gpu_ids: tuple[str, ...] = ()
    """By position: what the ledger calls each GPU."""
    gpu_resources: tuple[str, ...] = ()
    links: "GpuLinks | None" = None
    nics: Mapping[str, NearNic] | None = None
    """By the name the ledger uses."""
    cpus: Mapping[int, int] | None = None
    """NUMA node → CPUs of it that can be given."""
    users: Mapping[int, tuple[int, ...]] | None = None
    """Position of a GPU → processes that use it, where that was asked."""
    remarks: tuple[str, ...] = ()

    def cpus_of(self, numa: int) -> int:
        """CPUs of a set of NUMA nodes."""
        return sum((self.cpus or {}).get(node, 0) for node in ids_of(numa))

    def numa_of(self, cpus: int) -> int:
        """NUMA nodes of a set of CPUs."""
        return bits_of(node for node, own in (self.cpus or {}).items() if own & cpus)


def pool_of(site: Site, holds: Iterable[Hold]) -> int:
    """The shared pool: CPUs that no hold has alone."""
    taken = 0
    for hold in holds:
        taken |= hold.grant.cpus
    return site.machine.layout.all & ~taken


def pool_cpus(site: Site, pool: int, near: int) -> int:
    """The part of the pool that a hold runs on: near to what it has, as long as some is left there."""
    return (pool & site.cpus_of(near) if near else pool) or pool


def make_site(hardware: Hardware, reserved: str = "") -> Site:
    """What of this hardware can be given; ``reserved`` is a CPU list, ``none``, or '' for the rule."""
    gpus = gpus_of(hardware)
    placed = placed_gpus(hardware, gpus) if gpus else ()
    ids = tuple(gpu.uuid or gpu.address or gpu.name for gpu in gpus)
    resources = tuple(gpu.resource_name or OTHER_GPU for gpu in gpus)
    nics = {nic.name: nic for nic in near_nics(hardware, ())}
    plugins: dict[str, list[Device]] = {}
    for name, resource, place in zip(ids, resources, placed, strict=True):
        plugins.setdefault(resource, []).append(Device(name, tuple(ids_of(place.numa)) or None))
    for nic in nics.values():
        plugins.setdefault(NIC_RESOURCE, []).append(Device(nic.name, _numa(nic.device)))
    for disk in hardware.pci:
        if disk.kind == NVME:
            name = next((n for n in disk.names if n.startswith("nvme")), disk.address)
            plugins.setdefault(NVME_RESOURCE, []).append(Device(name, _numa(disk)))
    offers = tuple(DevicePlugin(resource, tuple(devices)) for resource, devices in plugins.items())
    seen = kubelet_view(hardware, offers)
    if not isinstance(seen, Machine):
        missing = "; ".join(remark.text for remark in seen)
        raise HostError(f"this machine cannot be told apart: {missing}", advice="run 'numawise doctor'")
    machine, remarks = _usable(replace(seen, plugins=offers), hardware)
    kept = _reserved(machine, reserved)
    return Site(
        hardware=hardware,
        machine=machine,
        reserved=kept,
        gpus=gpus,
        gpu_ids=ids,
        gpu_resources=resources,
        links=_links(hardware, gpus),
        nics=nics,
        cpus={numa: cpus & machine.layout.all for numa, cpus in cpus_by_numa(hardware).items()},
        remarks=(*remarks, *(place.remark for place in placed if place.remark)),
    )


def _links(hardware: Hardware, gpus: tuple[Gpu, ...]) -> "GpuLinks | None":
    if not gpus:
        return None
    from numawise.gpus.links import GpuLinks  # noqa: PLC0415 - machines without GPUs need none of it

    return GpuLinks.of(hardware, gpus)


def _usable(machine: Machine, hardware: Hardware) -> tuple[Machine, list[str]]:
    """The machine without CPUs that we may not give (rule 1), and with memory where none was told."""
    remarks = []
    host = hardware.host
    every = machine.layout.all
    usable = every
    if host is not None and host.cpuset is not None and host.cpuset & every:
        usable &= host.cpuset
        if usable != every:
            remarks.append(f"only CPUs {format_ids(usable)} may be used here (the cpuset this runs in)")
    if host is not None and host.isolated and usable & ~host.isolated:
        usable &= ~host.isolated
        if host.isolated & every:
            remarks.append(f"CPUs {format_ids(host.isolated & every)} are left out (isolcpus)")
    numa = machine.numa
    if len(numa) == 1 and not numa[0].memory and hardware.memory_capacity:
        numa = (replace(numa[0], memory=hardware.memory_capacity),)
    if host is not None and host.mems:
        numa = tuple(
            node if host.mems >> node.id & 1 else Numa(node.id, distances=node.distances) for node in numa
        )
    cpus = tuple(cpu for cpu in machine.cpus if usable >> cpu.cpu & 1)
    return replace(machine, cpus=cpus, numa=numa), remarks


def _reserved(machine: Machine, text: str) -> int:
    every = machine.layout.all
    if text == "none":
        return 0
    if text:
        try:
            wanted = parse_ids(text)
        except ValueError as problem:
            raise InputError(
                f"{text!r} is no list of CPUs: {problem}", field="reserved-cpus", advice="write 0,64 or none"
            ) from None
        if wanted & ~every:
            raise InputError(
                f"CPUs {format_ids(wanted & ~every)} are not on this machine",
                field="reserved-cpus",
                advice=f"choose out of {format_ids(every)}",
            )
        return wanted
    return machine.layout.cores_touching(every & -every) if every.bit_count() > SMALL else 0


def _numa(device: PciDevice | None) -> tuple[int, ...] | None:
    if device is None or device.numa is None or device.numa < 0:
        return None
    return (device.numa,)


# --------------------------------------------------------------------------------------------------
# GPUs that are in use without a hold: told, and passed over as long as there are others.


def with_strangers(site: Site, wish: Wish) -> Site:
    """The site with the processes on its GPUs, for a wish that asks for some."""
    if not site.gpus or not (wish.gpus or wish.gpu_ids):
        return site
    users = (*_nvidia(site), *kfd_users())
    found: dict[int, tuple[int, ...]] = {}
    for position, gpu in enumerate(site.gpus):
        own = short_address(gpu.address) if gpu.address else ""
        pids = tuple(sorted({use.pid for use in users if own and use.address == own}))
        if pids:
            found[position] = pids
    return replace(site, users=found)


def _nvidia(site: Site) -> tuple[GpuUse, ...]:
    if all(gpu.maker != NVIDIA for gpu in site.gpus):
        return ()
    from numawise.host.nvml import load  # noqa: PLC0415 - an extra

    try:
        return nvml_users(load())
    except HostError:
        return ()
