"""The character devices behind the GPUs of this host: what a job is kept from that shall see only its own.

Rules kept here:

1. NVIDIA: ``/dev/nvidiaN`` is 195:N, N being the driver's own number for the GPU; ``/dev/nvidiactl`` and the
   like, and the devices of other majors called ``nvidia…`` in ``/proc/devices`` (unified memory, NVSwitch),
   are for all GPUs: a job needs them with any GPU and none of them without.
2. A MIG instance is reached through its GPU's file and those of its capabilities, one for its GPU instance
   and one for its compute instance.
3. AMD, Intel, and NVIDIA's graphics: ``/dev/dri/cardN`` and ``renderDN``; AMD's ``/dev/kfd`` is for all GPUs.
4. Only devices of GPUs are listed, never what else the host has: a board's own screen, disks, ``/dev/null``.
5. Where the number of a GPU's device is not known, a list would leave it open.  So there is no list then, but
   the reason.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from numawise.errors import HostError
from numawise.host.files import Tree
from numawise.host.nvml import nvidia_minors
from numawise.host.pci import BUS
from numawise.host.plan import DeviceNumber
from numawise.machine.hardware import AMD, NVIDIA, Gpu
from numawise.machine.locality import short_address
from numawise.values import dataclass

ROOT = Path("/")
NVIDIA_MAJOR = 195
CAPABILITIES, CAPABILITY_DEVICES = "proc/driver/nvidia/capabilities", "nvidia-caps"
KFD = "sys/class/kfd/kfd/dev"
NUMBER = re.compile(r"([0-9]{1,9}):([0-9]{1,9})", re.ASCII)
MAJOR = re.compile(r"^\s*([0-9]{1,9}) (nvidia\S*)$", re.ASCII | re.MULTILINE)
MINOR = re.compile(r"^DeviceFileMinor:\s*([0-9]{1,9})\s*$", re.ASCII | re.MULTILINE)
DRM = re.compile(r"(?:card|renderD)[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class OthersDevices:
    """Devices that a job is to be kept from."""

    numbers: tuple[DeviceNumber, ...] = ()
    problem: str = ""
    """Why they are not known, as a clause; '' when they are."""
    remarks: tuple[str, ...] = ()


def others_devices(gpus: Iterable[Gpu], granted: Iterable[Gpu], root: Path = ROOT) -> OthersDevices:
    """The devices of those of the host's ``gpus`` that were not ``granted``."""
    every, own = tuple(gpus), tuple(granted)
    tree = Tree(root)
    numbers: set[DeviceNumber] = set()
    remarks: list[str] = []
    unknown = []
    mine = {short_address(gpu.address) for gpu in own if gpu.address}
    minors = {address: minor for minor, address in nvidia_minors(root).items()}
    makers = {gpu.maker for gpu in own}
    for gpu in every:
        address = short_address(gpu.address) if gpu.address else ""
        if address in mine and address:
            continue
        screens = tuple(_drm(tree, address)) if address else ()
        numbers.update(screens)
        if gpu.maker == NVIDIA and NVIDIA in makers:
            if address not in minors:
                unknown.append(gpu.name)
            else:
                numbers.add(DeviceNumber(NVIDIA_MAJOR, minors[address]))
        elif gpu.maker != NVIDIA and not screens:
            unknown.append(gpu.name)
    if unknown:
        return OthersDevices(problem=f"the device number of {', '.join(unknown)} is not known")
    present = {gpu.maker for gpu in every}
    if NVIDIA in present and NVIDIA not in makers:
        numbers |= {DeviceNumber(NVIDIA_MAJOR), *(DeviceNumber(major) for major in _majors(tree).values())}
    elif NVIDIA in present:
        numbers.update(_capabilities(tree, own, minors, remarks))
    kfd = NUMBER.fullmatch(tree.text(KFD) or "")
    if kfd and AMD in present and AMD not in makers:
        numbers.add(DeviceNumber(int(kfd[1]), int(kfd[2])))
    return OthersDevices(tuple(sorted(numbers)), remarks=tuple(remarks))


def _majors(tree: Tree) -> dict[str, int]:
    """The major numbers of NVIDIA's character devices, by name."""
    characters = (tree.text("proc/devices") or "").partition("Block devices:")[0]
    return {name: int(number) for number, name in MAJOR.findall(characters)}


def _drm(tree: Tree, address: str) -> Iterator[DeviceNumber]:
    """The files of a GPU below ``/dev/dri`` (rule 3)."""
    full = address if address.count(":") == 2 else f"0000:{address}"
    for name in tree.names(f"{BUS}/{full}/drm"):
        number = (
            NUMBER.fullmatch(tree.text(f"{BUS}/{full}/drm/{name}/dev") or "") if DRM.fullmatch(name) else None
        )
        if number:
            yield DeviceNumber(int(number[1]), int(number[2]))


def _capabilities(
    tree: Tree, own: tuple[Gpu, ...], minors: dict[str, int], remarks: list[str]
) -> Iterator[DeviceNumber]:
    """Capabilities of MIG instances that are not the job's (rule 2)."""
    major = _majors(tree).get(CAPABILITY_DEVICES)
    if major is None:
        return
    whole = {minors.get(short_address(gpu.address)) for gpu in own if not gpu.parent}
    parts: dict[int | None, set[tuple[int, int]]] = {}
    for gpu in own:
        if gpu.parent:
            number = minors.get(short_address(gpu.address))
            instance = mig_instance(gpu.uuid)
            if instance is None:
                whole.add(number)
                remarks.append(
                    f"which capabilities belong to {gpu.name} is not known: device rules leave other MIG "
                    "instances of its GPU open"
                )
            else:
                parts.setdefault(number, set()).add(instance)
    for gpu_number in tree.numbered(CAPABILITIES, "gpu"):
        if gpu_number in whole:
            continue
        kept = parts.get(gpu_number, set())
        folder = f"{CAPABILITIES}/gpu{gpu_number}/mig"
        for gpu_instance in tree.numbered(folder, "gi"):
            inner = f"{folder}/gi{gpu_instance}"
            if gpu_instance not in {instance for instance, _ in kept}:
                yield from _capability(tree, major, inner)
            for compute_instance in tree.numbered(inner, "ci"):
                if (gpu_instance, compute_instance) not in kept:
                    yield from _capability(tree, major, f"{inner}/ci{compute_instance}")


def _capability(tree: Tree, major: int, folder: str) -> Iterator[DeviceNumber]:
    minor = _minor(tree, folder)
    if minor is not None:
        yield DeviceNumber(major, minor)


def _minor(tree: Tree, folder: str) -> int | None:
    minor = MINOR.search(tree.text(f"{folder}/access") or "")
    return int(minor[1]) if minor else None


def mig_files(root: Path, gpu_file: str, instance: tuple[int, int]) -> tuple[str, ...]:
    """The files that a MIG instance needs beside its GPU's (rule 2); none where the driver lists none."""
    tree = Tree(root)
    folder = f"{CAPABILITIES}/gpu{gpu_file.removeprefix('/dev/nvidia')}/mig/gi{instance[0]}"
    minors = [_minor(tree, folder), _minor(tree, f"{folder}/ci{instance[1]}")]
    return () if None in minors else tuple(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors)


def mig_signs(tree: Tree) -> Iterator[str]:
    """Names that are different when MIG instances have been made or removed."""
    for gpu in tree.numbered(CAPABILITIES, "gpu"):
        folder = f"{CAPABILITIES}/gpu{gpu}/mig"
        for instance in tree.numbered(folder, "gi"):
            parts = tree.numbered(f"{folder}/gi{instance}", "ci")
            yield f"{gpu}:{instance}:{','.join(map(str, parts))}"


def mig_instance(uuid: str) -> tuple[int, int] | None:
    """GPU instance and compute instance of a MIG device; None when the driver does not say."""
    from numawise.host.nvml_library import NVMLError, load  # noqa: PLC0415 - MIG alone needs it

    try:
        with contextlib.closing(load()) as nvml:
            device = nvml.nvmlDeviceGetHandleByUUID(uuid)
            return nvml.nvmlDeviceGetGpuInstanceId(device), nvml.nvmlDeviceGetComputeInstanceId(device)
    except (HostError, NVMLError):
        return None
