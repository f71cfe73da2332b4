"""What of a machine can be given to jobs: CPUs we may use, GPUs and NICs where they are, what is kept back.

Rules kept here:

1. Only CPUs of the cgroup we live in can be given, and none that the kernel keeps out of scheduling
   (``isolcpus``): a job of several threads would pile up on one of them.
2. On machines with more than four CPUs the lowest core stays with the system, on smaller ones none;
   ``reserved-cpus`` says otherwise.  What is kept back is never given alone but is part of the shared pool.
3. GPUs go by what the ledger calls them (``results.placement``).
4. Ids and names of devices end up in command lines, variables and unit files: one that would not be a plain
   word there is refused, whoever wrote it.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from numawise.apps.launch.request import JobRequest
from numawise.errors import HostError, InputError, quoted
from numawise.gpus.links import GpuLinks
from numawise.machine.hardware import NVIDIA, NVME, NVML, Gpu, Hardware, PciDevice
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.locality import cpus_by_numa, short_address
from numawise.machine.model import Device, DevicePlugin, Machine, Numa
from numawise.machine.nearest import gpus_of, near_nics, placed_gpus
from numawise.results.placement import Capacity, Nic, gpu_id
from numawise.sets import format_ids, ids_of, parse_ids
from numawise.values import replace

if TYPE_CHECKING:
    from numawise.host.nvml import GpuUse

NIC_RESOURCE, NVME_RESOURCE, OTHER_GPU = "numawise/nic", "numawise/nvme", "numawise/gpu"
WORDS = {"nic": NIC_RESOURCE, "nvme": NVME_RESOURCE}
"""Short words for ``--device``."""
PLAIN_WORD = re.compile(r"[^\s\"'`\\$%;,]{1,253}")
SMALL = 4
"""CPUs up to which nothing is kept for the system."""


def capacity_of(hardware: Hardware, reserved: str = "") -> Capacity:
    """What of this hardware can be given; ``reserved`` is a CPU list, ``none``, or '' for the rule."""
    gpus = gpus_of(hardware)
    placed = placed_gpus(hardware, gpus) if gpus else ()
    ids = tuple(map(gpu_id, gpus))
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
    words = (word for gpu in gpus for word in (gpu.name, gpu.uuid, gpu.address) if word)
    _check_words((*plugins, *words, *(nic.hca for nic in nics.values() if nic.hca)))
    _check_words(device.id for devices in plugins.values() for device in devices)
    offers = tuple(DevicePlugin(resource, tuple(devices)) for resource, devices in plugins.items())
    seen = kubelet_view(hardware, offers)
    if not isinstance(seen, Machine):
        missing = "; ".join(remark.text for remark in seen)
        raise HostError(
            f"the topology of this machine is not known: {missing}", advice="run 'numawise doctor'"
        )
    machine, remarks = _usable(replace(seen, plugins=offers), hardware)
    kept = _reserved(machine, reserved)
    return Capacity(
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


def _check_words(words: Iterable[str]) -> None:
    """Refuse what is not a plain word (rule 4)."""
    for word in words:
        if not (word.isascii() and word.isprintable() and PLAIN_WORD.fullmatch(word)):
            raise InputError(
                f"{quoted(word)} cannot be the name of a device",
                advice="in the machine's file, use letters, digits and . _ : / - alone",
            )


def _links(hardware: Hardware, gpus: tuple[Gpu, ...]) -> "GpuLinks | None":
    if not gpus:
        return None
    from numawise.gpus.links import GpuLinks  # noqa: PLC0415 - machines without GPUs need none of it

    return GpuLinks.of(hardware, gpus)


def _usable(machine: Machine, hardware: Hardware) -> tuple[Machine, list[str]]:
    """The machine without CPUs that we may not give (rule 1), and with all memory on an only NUMA node."""
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
    if len(numa) == 1 and (hardware.memory_capacity or 0) > numa[0].memory:
        # Of a virtual machine's memory, its only NUMA node may count no more than it was lent so far.
        numa = (replace(numa[0], memory=hardware.memory_capacity or 0),)
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
                f"{quoted(text)} is not a list of CPUs: {problem}",
                field="reserved-cpus",
                advice="write 0,64 or none",
            ) from None
        if wanted & ~every:
            raise InputError(
                f"CPUs {format_ids(wanted & ~every)} are not on this machine",
                field="reserved-cpus",
                advice=f"choose from {format_ids(every)}",
            )
        return wanted
    return machine.layout.cores_touching(every & -every) if every.bit_count() > SMALL else 0


def _numa(device: PciDevice | None) -> tuple[int, ...] | None:
    if device is None or device.numa is None or device.numa < 0:
        return None
    return (device.numa,)


def nics_of(capacity: Capacity, gpus: tuple[Gpu, ...], granted: tuple[str, ...]) -> tuple[Nic, ...]:
    """The cards that were granted, else those nearest to the GPUs; none without either."""
    if not gpus and not granted:
        return ()
    ranked = near_nics(capacity.hardware, [gpu.name for gpu in gpus])
    if granted:
        return tuple(Nic(nic.name, nic.hca) for nic in ranked if nic.name in granted)
    return tuple(Nic(nic.name, nic.hca) for nic in ranked if nic.nearest)


# --------------------------------------------------------------------------------------------------
# GPUs that are in use without a hold: reported, and skipped as long as there are others.


def with_gpu_users(capacity: Capacity, request: JobRequest) -> Capacity:
    """The capacity with the processes on its GPUs, for a request that asks for some."""
    if not capacity.gpus or not (request.gpus or request.gpu_ids or request.exclusive):
        return capacity
    from numawise.host.nvml import kfd_users  # noqa: PLC0415 - for jobs with GPUs alone

    remarks = [remark.text for remark in capacity.hardware.remarks if remark.place == NVML]
    users = (*(() if remarks else _nvidia(capacity, remarks)), *kfd_users())
    found: dict[int, tuple[int, ...]] = {}
    for position, gpu in enumerate(capacity.gpus):
        own = short_address(gpu.address) if gpu.address else ""
        pids = tuple(sorted({use.pid for use in users if own and use.address == own}))
        if pids:
            found[position] = pids
    return replace(capacity, users=found, remarks=(*capacity.remarks, *remarks))


def _nvidia(capacity: Capacity, remarks: list[str]) -> "tuple[GpuUse, ...]":
    names = {short_address(gpu.address): gpu.name for gpu in capacity.gpus if gpu.maker == NVIDIA}
    if not names:
        return ()
    from numawise.host.nvml import nvml_users  # noqa: PLC0415 - only machines with such GPUs need it
    from numawise.host.nvml_library import load  # noqa: PLC0415 - as above

    unlisted: list[str] = []
    try:
        users = nvml_users(load(), unlisted)
    except HostError as problem:
        remarks.append(f"whether GPUs are in use without a hold is not known: {problem}")
        return ()
    if unlisted:
        some = ", ".join(names.get(address, address) for address in unlisted)
        remarks.append(f"whether {some} is in use without a hold is not known: NVML lists no processes there")
    return users
