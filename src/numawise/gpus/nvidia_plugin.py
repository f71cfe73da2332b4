"""What NVIDIA's device plugin offers on a machine: whole GPUs, MIG instances or replicas of either.

Rules kept here (those of k8s-device-plugin v0.20):

1. ``none``: a GPU is offered whole, cut into MIG instances or not.  ``single``: MIG instances are offered as
   ``nvidia.com/gpu``, and all GPUs must be cut into instances of one profile.  ``mixed``: whole GPUs as
   ``nvidia.com/gpu``, each MIG instance under its profile, such as ``nvidia.com/mig-1g.5gb``.  A GPU with MIG
   switched on and without instances offers nothing but under ``none``.
2. A MIG instance has the NUMA node of its GPU.
3. Of a shared resource every device is offered as often as there are replicas, under ``UUID::0``,
   ``UUID::1`` and so on, with the NUMA node of the device, and under another name where it is renamed.
4. Whole GPUs are preferred by their links, replicas and MIG instances by how many of a GPU are taken.
5. Points of links are those of the plugin's library.  It asks NVML who is at the other end of an NVLink; at
   an NVSwitch that is the switch, so those links count for no pair.  No GPU has more than ``MOST_NVLINKS``
   of its own; a GPU that seems to have more has them over a switch.
6. Of a machine file, which lists what a plugin offers already, only replicas are made.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

from numawise.errors import InputError
from numawise.gpus.links import DIRECT_POINTS, GpuLinks
from numawise.machine.hardware import GPU_RESOURCES, NVIDIA, Gpu, Hardware
from numawise.machine.locality import short_address
from numawise.machine.model import Device, DevicePlugin, Machine
from numawise.machine.nearest import gpus_of
from numawise.machine.preference import DISTRIBUTED, PREFERENCES, REPLICA, LinkedGpus
from numawise.strconv import whole_number
from numawise.values import dataclass, replace

GPU_NAME = GPU_RESOURCES[NVIDIA]
NONE, SINGLE, MIXED = "none", "single", "mixed"
MIG_STRATEGIES = (NONE, SINGLE, MIXED)
TIME_SLICING, MPS = "time-slicing", "mps"
MIG_PREFIX = "nvidia.com/mig-"
PROFILE = re.compile(r"(?:([0-9]+)c\.)?([0-9]+)g\.[0-9]+gb[\w.+-]*")
NVLINK = "NV"
MOST_NVLINKS = 18


@dataclass(frozen=True, slots=True)
class Replicas:
    """How often each device of a resource is offered."""

    resource: str
    count: int
    offered_as: str
    """The name it is offered under."""


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """What of the plugin's configuration a decision depends on; the plugin's own defaults."""

    mig_strategy: str = NONE
    sharing: str = ""
    """``time-slicing`` or ``mps``; '' when nothing is shared."""
    replicas: tuple[Replicas, ...] = ()
    refuses_several: bool = False
    policy: str = DISTRIBUTED
    """Which of the shared devices are preferred."""
    pass_device_specs: bool = False
    strategies: tuple[str, ...] = ("envvar",)
    """How a container is told its devices."""
    prefers: bool = True
    """False: a plugin that answers no GetPreferredAllocation."""

    @property
    def keeps_access(self) -> bool:
        """The container runtime itself knows the device nodes, also after the kubelet changed a cgroup."""
        return self.pass_device_specs or any(name.startswith("cdi-") for name in self.strategies)


def with_plugin(machine: Machine, hardware: Hardware | None, config: PluginConfig | None) -> Machine:
    """The machine with what NVIDIA's plugin offers; ``hardware`` None: the machine is taken to the letter."""
    config = config or PluginConfig()
    own = [plugin for plugin in machine.plugins if is_own(plugin.resource)]
    if not own:
        return machine
    offers = own if hardware is None else _offers(hardware, own, config)
    offers = _shared(offers, config)
    if not config.prefers:
        offers = [replace(plugin, preference=None) for plugin in offers]
    others = tuple(plugin for plugin in machine.plugins if not is_own(plugin.resource))
    return replace(machine, plugins=(*offers, *others))


def is_own(resource: str) -> bool:
    """Whether NVIDIA's plugin stands behind a resource."""
    return resource == GPU_NAME or resource.startswith((f"{GPU_NAME}.", MIG_PREFIX))


def _offers(hardware: Hardware, own: Sequence[DevicePlugin], config: PluginConfig) -> list[DevicePlugin]:
    """What is offered before anything is shared (rules 1 and 2)."""
    whole = next((plugin for plugin in own if plugin.resource == GPU_NAME), DevicePlugin(GPU_NAME, ()))
    parts: dict[str, list[Gpu]] = {}
    for gpu in hardware.gpus:
        if gpu.parent:
            parts.setdefault(gpu.parent, []).append(gpu)
    linked = _linked(hardware, whole.devices)
    divided = {*parts, *(gpu.name for gpu in hardware.gpus if gpu.mig)}
    if config.mig_strategy == NONE or not divided:
        return [replace(whole, preference=linked)]
    names = {gpu.uuid or gpu.name: gpu.name for gpu in hardware.gpus if not gpu.parent}
    cut = {names.get(device.id, device.id): device for device in whole.devices}
    numa = {parent: cut[parent].numa if parent in cut else None for parent in parts}
    kept = tuple(device for name, device in cut.items() if name not in divided)
    instances = [
        (_profile(gpu), Device(gpu.uuid or gpu.name, numa[parent]))
        for parent, members in parts.items()
        for gpu in members
    ]
    offers: dict[str, list[Device]] = {}
    if config.mig_strategy == SINGLE:
        if kept:
            raise _refused("all devices on the node must be configured with the same migEnabled value")
        if len({profile for profile, _ in instances}) > 1:
            raise _refused("invalid MIG configuration: more than one MIG device type present on node")
        if instances:
            offers[GPU_NAME] = [device for _, device in instances]
    for profile, device in instances if config.mig_strategy == MIXED else ():
        found = PROFILE.fullmatch(profile)
        if found is None or (found[1] and found[1] != found[2]):
            raise _refused(f"MIG profile '{profile}' does not match any resource patterns")
        offers.setdefault(f"{MIG_PREFIX}{profile.replace('+', '.')}", []).append(device)
    shared = PREFERENCES[config.policy]
    plugins = [replace(whole, devices=kept, preference=linked)] if kept else []
    return plugins + [DevicePlugin(name, tuple(devices), shared) for name, devices in offers.items()]


def _refused(message: str) -> InputError:
    return InputError(
        f"NVIDIA's device plugin would not start: {message}", advice="see migStrategy of its configuration"
    )


def _profile(gpu: Gpu) -> str:
    words = [word for word in gpu.model.split() if PROFILE.fullmatch(word)]
    if not words:
        raise InputError(
            f"the MIG profile of {gpu.name} is not known",
            advice="give the output of nvidia-smi -L beside the machine",
        )
    return words[-1]


def _shared(offers: Sequence[DevicePlugin], config: PluginConfig) -> list[DevicePlugin]:
    """The offers with replicas made (rule 3); a resource that is not offered is passed over."""
    by_name = {replicas.resource: replicas for replicas in config.replicas}
    found: list[DevicePlugin] = []
    for plugin in offers:
        replicas = by_name.get(plugin.resource)
        if replicas is None or any(REPLICA in device.id for device in plugin.devices):
            found.append(plugin)
            continue
        devices = tuple(
            replace(device, id=f"{device.id}{REPLICA}{number}")
            for device in plugin.devices
            for number in range(replicas.count)
        )
        preference = PREFERENCES[config.policy]
        found.append(DevicePlugin(replicas.offered_as, devices, preference, config.refuses_several))
    return found


# --- links --------------------------------------------------------------------------------------


def _linked(hardware: Hardware, devices: Sequence[Device]) -> LinkedGpus:
    """The preference among whole GPUs, by their links."""
    gpus = {gpu.uuid or gpu.name: gpu for gpu in hardware.gpus if not gpu.parent}
    if not gpus:
        gpus = {gpu.address: gpu for gpu in gpus_of(hardware)}
    names = [device.id if device.id in gpus else short_address(device.id) for device in devices]
    known = [gpus.get(name, Gpu(name)) for name in names]
    links = GpuLinks.of(hardware, known)
    return LinkedGpus(tuple(device.id for device in devices), library_points(links))


def library_points(links: GpuLinks) -> tuple[tuple[int, ...], ...]:
    """The points that the plugin's library counts (rule 5)."""
    points = [list(row) for row in links.points]
    nvlinks = _nvlinks(links)
    totals = [sum(row.values()) for row in nvlinks]
    for i, j in combinations(range(len(points)), 2):
        count = nvlinks[i].get(j, 0)
        if count:
            counted = 0 if max(totals[i], totals[j]) > MOST_NVLINKS else count
            points[i][j] += (counted - count) * DIRECT_POINTS
            points[j][i] = points[i][j]
    return tuple(map(tuple, points))


def _nvlinks(links: GpuLinks) -> list[Mapping[int, int]]:
    """For each GPU, the others that it has NVLinks to, and how many."""
    return [
        {j: whole_number(text[len(NVLINK) :]) for j, text in enumerate(row) if _is_nvlink(text)}
        for row in links.texts
    ]


def _is_nvlink(text: str) -> bool:
    return text.startswith(NVLINK) and text[len(NVLINK) :].isdecimal()


def unmatched(config: PluginConfig, offered: Sequence[str]) -> tuple[str, ...]:
    """Resources that are to be shared, and are not offered."""
    return tuple(one.resource for one in config.replicas if one.resource not in offered)
