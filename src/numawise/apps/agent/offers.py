"""What is offered to the kubelet: resources with their devices, NUMA nodes, files and links.

Rules kept here:

1. Of NVIDIA's GPUs the offers are those of ``gpus.nvidia_plugin``: whole GPUs, MIG instances, replicas.
2. A device has the NUMA node that PCI names.  One that the firmware gives none (-1) has no topology, and that
   is remarked where the machine has several nodes.  A node without CPUs is never named, as that of the memory
   of a GB200's GPU: the nearest node with CPUs is.
3. Which devices go well together, their links say (``gpus.links``), for every kind of device; beyond
   ``MOST_LINKED`` of them the kubelet is left to choose.
4. Ids end up in variables and annotations: made up by us, they are plain words.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from numawise.codec.agent_nvidia import offered_name
from numawise.codec.agent_values import INDEX, AnswerForm, FakeDevice, ResourceRule
from numawise.errors import HostError, NumawiseError
from numawise.gpus.links import GpuLinks
from numawise.gpus.nvidia_plugin import is_own, with_plugin
from numawise.gpus.preference import MOST_LINKED, LauncherPreference
from numawise.host.cdi_files import cdi_problem
from numawise.host.device_files import (
    files_matching,
    function_files,
    matching,
    nvidia_control_files,
    nvidia_files,
)
from numawise.host.gpu_nodes import mig_files, mig_instance
from numawise.machine.hardware import NVML, Gpu, Hardware
from numawise.machine.kubelet_view import gpu_plugins
from numawise.machine.locality import short_address
from numawise.machine.model import Machine
from numawise.machine.nearest import chip_of, placed_gpus
from numawise.machine.preference import PREFERENCES, REPLICA, Preference, gpu_of
from numawise.sets import bits_of, format_ids, ids_of
from numawise.values import dataclass, field, replace

InstanceOf = Callable[[str], tuple[int, int] | None]
"""UUID of a MIG device → the driver's numbers of its GPU instance and its compute instance."""
UNPLAIN = re.compile(r"[^A-Za-z0-9._-]")
LONGEST_WORD = 48
"""Characters of an id, with room for the number of a replica."""
NO_PLACE = (
    "the firmware gives no NUMA node for {devices}: offered without topology, so the kubelet does not align "
    "them with CPUs and memory; switch NUMA on in the firmware, or give the virtual machine a NUMA topology "
    "that has its devices, and see 'numawise doctor'"
)
NO_CAPABILITIES = (
    "the driver does not say which files of /dev/nvidia-caps belong to {devices}: they are not passed; use "
    "deviceListStrategy cdi-cri"
)
NO_INSTANCES = "MIG is switched on and there are no instances; make some with 'nvidia-smi mig -cgi'"
NO_GPUS = "there are no GPUs of NVIDIA's driver on this machine"
NO_GPUS_ADVICE = "check with nvidia-smi, or set flags.failOnInitError to false to go on without"


@dataclass(frozen=True, slots=True)
class OfferedDevice:
    """A device, or a replica of one."""

    id: str
    """As the kubelet knows it."""
    told: str
    """As the container is told."""
    numa: tuple[int, ...] = ()
    """None at all: no topology."""
    address: str = ""
    """PCI address; '' when it has none."""
    files: tuple[tuple[str, str], ...] = ()
    """Path in the container and on the host."""
    path: str = ""
    """The file that makes it present; '' when PCI does."""


@dataclass(frozen=True, slots=True)
class ResourceOffer:
    """What is offered under one name."""

    resource: str
    devices: tuple[OfferedDevice, ...]
    answer: AnswerForm
    links: GpuLinks | None = None
    """Of the devices, by their position; None: not known, or shared."""
    shared: Preference | None = None
    """How replicas are chosen."""
    refuses_several: bool = False
    nvidia: bool = False
    remarks: tuple[str, ...] = field(default=(), compare=False)
    extra_files: tuple[tuple[str, str], ...] = ()
    """Files for every container that has such a device."""

    @property
    def preference(self) -> Preference | None:
        """Which of the devices are preferred; None: the kubelet is to choose."""
        if self.shared is not None or self.links is None:
            return self.shared
        return LauncherPreference.of(tuple(device.id for device in self.devices), self.links)


def offers_of(
    rules: Sequence[ResourceRule],
    hardware: Hardware,
    root: Path,
    *,
    lenient: bool = False,
    instance_of: InstanceOf = mig_instance,
) -> tuple[ResourceOffer, ...]:
    """What is offered on a machine; ``HostError``: a resource that must be there is not.

    ``lenient``: GPUs that cannot be offered as they are leave their resource without devices.
    """
    offers: list[ResourceOffer] = []
    for rule in rules:
        if rule.nvidia is not None:
            try:
                offers += _nvidia(rule, hardware, root, instance_of)
            except NumawiseError as problem:
                if not lenient:
                    raise
                offers.append(ResourceOffer(rule.name, (), rule.answer, nvidia=True, remarks=(str(problem),)))
        elif rule.pci is not None:
            offers.append(_functions(rule, hardware, root))
        else:
            offers.append(_files(rule, hardware, root))
    return tuple(_with_cdi_remark(offer, root) for offer in offers)


def _with_cdi_remark(offer: ResourceOffer, root: Path) -> ResourceOffer:
    """An offer, and what is wrong with the CDI files that containers need with it."""
    kind, names = offer.answer.cdi_kind, dict.fromkeys(device.told for device in offer.devices)
    problem = cdi_problem(root, kind, list(names)) if kind and names else ""
    return replace(offer, remarks=(*offer.remarks, problem)) if problem else offer


# --- NVIDIA's GPUs --------------------------------------------------------------------------------


def _nvidia(
    rule: ResourceRule, hardware: Hardware, root: Path, instance_of: InstanceOf
) -> list[ResourceOffer]:
    remark = next((remark.text for remark in hardware.remarks if remark.place == NVML), "")
    plugins = [plugin for plugin in gpu_plugins(hardware) if is_own(plugin.resource)]
    if remark or not plugins:
        if rule.fails_without:
            raise HostError(remark or NO_GPUS, NO_GPUS_ADVICE)
        return [ResourceOffer(rule.name, (), rule.answer, nvidia=True, remarks=(remark or NO_GPUS,))]
    machine = with_plugin(Machine((), (), tuple(plugins)), hardware, rule.nvidia)
    gpus = {gpu.uuid or gpu.name: gpu for gpu in hardware.gpus}
    files = nvidia_files(root)
    dev_root = rule.answer.dev_root if nvidia_control_files(root, rule.answer.dev_root) else ""
    control = nvidia_control_files(root, dev_root) if rule.answer.own_nodes else ()
    assert rule.nvidia is not None
    offers = []
    for plugin in machine.plugins:
        own = [gpus.get(gpu_of(device.id), Gpu(gpu_of(device.id))) for device in plugin.devices]
        reported = [device.numa or () for device in plugin.devices]
        numa, remarks = _topology(hardware, own, reported)
        devices = []
        unknown: dict[str, None] = {}
        for device, gpu, nodes in zip(plugin.devices, own, numa, strict=True):
            file = files.get(short_address(gpu.address), "")
            nodes_of: tuple[str, ...] = (file,) if file else ()
            if gpu.parent and rule.answer.own_nodes:
                instance = instance_of(gpu.uuid)
                parts = mig_files(root, file, instance) if file and instance else ()
                if not parts:
                    unknown.setdefault(gpu.name)
                nodes_of += parts
            devices.append(
                OfferedDevice(
                    id=device.id,
                    told=_index(gpu) if rule.answer.ids == INDEX else gpu_of(device.id),
                    numa=nodes,
                    address=short_address(gpu.address),
                    files=tuple((path, dev_root + path) for path in nodes_of),
                )
            )
        shared = any(REPLICA in device.id for device in devices)
        offers.append(
            ResourceOffer(
                resource=offered_name(rule, plugin.resource),
                devices=tuple(devices),
                answer=rule.answer,
                links=None if shared else _links(hardware, own),
                shared=PREFERENCES[rule.nvidia.policy] if shared else None,
                refuses_several=plugin.refuses_several,
                nvidia=True,
                remarks=(*remarks, *_without_files(unknown)),
                extra_files=tuple((file, dev_root + file) for file in control),
            )
        )
    return offers or [ResourceOffer(rule.name, (), rule.answer, nvidia=True, remarks=(NO_INSTANCES,))]


def _index(gpu: Gpu) -> str:
    """``0``, or ``0:1`` of a MIG instance, as NVIDIA's tools count."""
    return gpu.name.removeprefix("GPU")


def _without_files(gpus: Iterable[str]) -> tuple[str, ...]:
    names = _some(list(gpus))
    return (NO_CAPABILITIES.format(devices=names),) if names else ()


# --- PCI functions and files ----------------------------------------------------------------------


def _functions(rule: ResourceRule, hardware: Hardware, root: Path) -> ResourceOffer:
    assert rule.pci is not None
    functions = matching(hardware, rule.pci)
    gpus = [Gpu(one.address, address=one.address, numa=_named(one.numa)) for one in functions]
    seen = replace(hardware, gpus=tuple(gpus), matrix=None)
    numa, remarks = _topology(seen, gpus, [gpu.numa or () for gpu in gpus])
    devices = [
        OfferedDevice(
            id=one.address,
            told=one.address,
            numa=nodes,
            address=one.address,
            files=_same(function_files(root, one)),
        )
        for one, nodes in zip(functions, numa, strict=True)
    ]
    return _offer(rule, devices, _links(seen, gpus), remarks)


def _files(rule: ResourceRule, hardware: Hardware, root: Path) -> ResourceOffer:
    files = files_matching(root, rule.paths)
    known = {one.address: one for one in hardware.pci}
    gpus = [
        Gpu(
            file.path,
            address=file.address,
            numa=_named(known[file.address].numa) if file.address in known else None,
        )
        for file in files
    ]
    seen = replace(hardware, gpus=tuple(gpus), matrix=None)
    placed, remarks = _topology(
        seen, [gpu for gpu in gpus if gpu.address], [gpu.numa or () for gpu in gpus if gpu.address]
    )
    numa = dict(zip((gpu.name for gpu in gpus if gpu.address), placed, strict=True))
    ids = _plain_ids([file.path for file in files])
    devices = [
        OfferedDevice(
            id=ids[file.path],
            told=file.path,
            numa=numa.get(file.path, ()),
            address=file.address,
            files=_same((file.path,)),
            path=file.path,
        )
        for file in files
    ]
    return _offer(rule, devices, _links(seen, gpus), remarks)


def _offer(
    rule: ResourceRule, devices: Sequence[OfferedDevice], links: GpuLinks | None, remarks: tuple[str, ...]
) -> ResourceOffer:
    if rule.replicas > 1:
        devices = [
            replace(device, id=f"{device.id}{REPLICA}{number}")
            for device in devices
            for number in range(rule.replicas)
        ]
    if not devices:
        remarks = (*remarks, f"{rule.name}: nothing on this machine matches; it is offered without devices")
    return ResourceOffer(
        resource=rule.name,
        devices=tuple(devices),
        answer=rule.answer,
        links=None if rule.replicas > 1 else links,
        shared=PREFERENCES["distributed"] if rule.replicas > 1 else None,
        remarks=remarks,
        extra_files=_same(rule.answer.nodes),
    )


def _plain_ids(paths: Iterable[str]) -> dict[str, str]:
    """Paths as ids (rule 4): ``/dev/dri/card0`` is ``dri-card0``; of equals the later get a number."""
    ids: dict[str, str] = {}
    for path in paths:
        word = UNPLAIN.sub("-", path.removeprefix("/dev/")).strip("-")[-LONGEST_WORD:] or "file"
        equal = sum(other == word or other.startswith(f"{word}-again") for other in ids.values())
        ids[path] = f"{word}-again{equal}" if equal else word
    return ids


def _same(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((path, path) for path in paths)


def _named(numa: int | None) -> tuple[int, ...] | None:
    return (numa,) if numa is not None and numa >= 0 else None


# --- made-up ones ---------------------------------------------------------------------------------


def fake_offers(devices: Sequence[FakeDevice]) -> tuple[ResourceOffer, ...]:
    """Offers of devices that do not exist."""
    groups: dict[str, list[FakeDevice]] = {}
    for device in devices:
        groups.setdefault(device.resource, []).append(device)
    offers = []
    for resource, own in groups.items():
        gpus = [Gpu(device.id, numa=device.numa or None) for device in own]
        offers.append(
            ResourceOffer(
                resource=resource,
                devices=tuple(OfferedDevice(device.id, device.id, device.numa) for device in own),
                answer=AnswerForm(env=own[0].env),
                links=_links(Hardware(gpus=tuple(gpus)), gpus),
            )
        )
    return tuple(offers)


# --- where they are -------------------------------------------------------------------------------


def _links(hardware: Hardware, gpus: Sequence[Gpu]) -> GpuLinks | None:
    return GpuLinks.of(hardware, gpus) if 0 < len(gpus) <= MOST_LINKED else None


def _topology(
    hardware: Hardware, gpus: Sequence[Gpu], reported: Sequence[tuple[int, ...]]
) -> tuple[list[tuple[int, ...]], tuple[str, ...]]:
    """NUMA nodes of devices (rule 2), and what there is to say about them."""
    if not gpus:
        return [], ()
    with_cpus = bits_of(node.id for node in hardware.numa if node.cpus and node.id >= 0)
    homes: Mapping[str, int] = {}
    numa: list[tuple[int, ...]] = []
    lost: dict[str, None] = {}
    moved: dict[str, None] = {}
    for gpu, nodes in zip(gpus, reported, strict=True):
        near = bits_of(node for node in nodes if node >= 0)
        if not near:
            numa.append(())
            lost.setdefault(chip_of(gpu))
            continue
        if with_cpus and not near & with_cpus:
            homes = homes or {chip_of(place.gpu): place.numa for place in placed_gpus(hardware, gpus)}
            home = homes[chip_of(gpu)]
            moved.setdefault(
                f"{chip_of(gpu)}: NUMA node {format_ids(near)} has no CPUs; offered on {format_ids(home)}"
            )
            near = home
        elif with_cpus:
            near &= with_cpus
        numa.append(tuple(ids_of(near)))
    remarks = list(moved)
    if lost and with_cpus.bit_count() > 1:
        remarks.append(NO_PLACE.format(devices=_some(list(lost))))
    return numa, tuple(remarks)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
