"""Devices of this host as containers get them: which PCI functions, which files, and whether they are there.

Rules kept here:

1. Everything is looked for below a root, so that a copy of a machine's files can stand in for it.
2. The files of a PCI function are those that its driver is known to make: the group of ``vfio-pci`` with
   ``/dev/vfio/vfio``, cards and render nodes, NVMe controllers, NVIDIA's numbered files.
3. A file belongs to the PCI function below which ``/sys/dev`` has its number; many belong to none.
4. Whether a device is there is asked without waking it: by its folder in ``/sys``, and by its file.
5. Whether it is worth looking for devices again, their signs say: names of files and links, nothing that has
   to be opened.
"""

import glob
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from numawise.codec.agent_values import PciMatch
from numawise.host.files import Tree
from numawise.host.gpu_nodes import mig_signs
from numawise.host.nvml import NVIDIA_GPUS, nvidia_minors
from numawise.host.pci import ADDRESS, BUS
from numawise.machine.hardware import Hardware, PciDevice
from numawise.values import dataclass

VFIO, VFIO_CONTROL = "vfio-pci", "/dev/vfio/vfio"
NVIDIA_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
MOST_FILES = 10_000


@dataclass(frozen=True, slots=True)
class MatchedFile:
    """A path that matched, and the PCI function behind it; '' when there is none."""

    path: str
    address: str = ""


def matching(hardware: Hardware, match: PciMatch) -> tuple[PciDevice, ...]:
    """The PCI functions that are meant, by address."""
    return tuple(device for device in hardware.pci if _matches(device, match))


def _matches(device: PciDevice, match: PciMatch) -> bool:
    return (
        match.vendor in (None, device.vendor)
        and (not match.devices or device.device in match.devices)
        and (not match.driver or device.driver == match.driver)
        and (not match.class_digits or f"{device.class_code or 0:06x}".startswith(match.class_digits))
    )


def function_files(root: Path, device: PciDevice) -> tuple[str, ...]:
    """The files of a PCI function (rule 2)."""
    tree = Tree(root)
    if device.driver == VFIO:
        group = (tree.link(f"{BUS}/{device.address}/iommu_group") or "").rpartition("/")[2]
        return (VFIO_CONTROL, f"/dev/vfio/{group}") if group.isdecimal() else ()
    files = []
    for name in device.names:
        if name.startswith(("card", "renderD")):
            files.append(f"/dev/dri/{name}")
        elif name.startswith("nvme") and "n" not in name[4:]:
            files.append(f"/dev/{name}")
    return tuple(file for file in files if is_there(root, file))


def nvidia_files(root: Path) -> dict[str, str]:
    """PCI address of a GPU → its file."""
    return {address: f"/dev/nvidia{number}" for number, address in nvidia_minors(root).items()}


def nvidia_control_files(root: Path, dev_root: str) -> tuple[str, ...]:
    """The files that every container with a GPU of NVIDIA's needs, as far as they are there."""
    return tuple(file for file in NVIDIA_CONTROL if is_there(root, f"{dev_root}{file}"))


def files_matching(root: Path, patterns: Sequence[str]) -> tuple[MatchedFile, ...]:
    """The files that patterns name, in the order of the patterns, each once; folders are none."""
    base = str(root).rstrip("/")
    paths: dict[str, None] = {}
    for pattern in patterns:
        for path in sorted(glob.glob(f"{glob.escape(base)}{pattern}")):  # noqa: PTH207 - patterns are absolute
            if not Path(path).is_dir() and len(paths) < MOST_FILES:
                paths.setdefault(path[len(base) :])
    return tuple(MatchedFile(path, _function_of(root, path)) for path in paths)


def _function_of(root: Path, path: str) -> str:
    """The PCI function of a device file (rule 3)."""
    try:
        status = os.stat(f"{root}/{path.lstrip('/')}")  # noqa: PTH116 - of any root
    except OSError:
        return ""
    kind = "char" if stat.S_ISCHR(status.st_mode) else "block" if stat.S_ISBLK(status.st_mode) else ""
    if not kind:
        return ""
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    owners = ADDRESS.findall(Tree(root).link(f"sys/dev/{kind}/{number}") or "")
    return owners[-1] if owners else ""


def is_there(root: Path, path: str) -> bool:
    """Whether a path exists below the root."""
    return os.path.lexists(f"{root}/{path.lstrip('/')}")


def function_is_there(root: Path, address: str) -> bool:
    """Whether the kernel still lists a PCI function (rule 4)."""
    return os.path.lexists(f"{root}/{BUS}/{address}")


# --- signs ----------------------------------------------------------------------------------------


def device_signs(root: Path, patterns: Sequence[str]) -> tuple[object, ...]:
    """What is different when devices have come, gone, or changed their driver (rule 5)."""
    tree = Tree(root)
    functions = [(name, tree.link(f"{BUS}/{name}/driver")) for name in sorted(tree.names(BUS))]
    gpus = sorted(tree.names(NVIDIA_GPUS))
    base = str(root).rstrip("/")
    paths = [sorted(glob.glob(f"{glob.escape(base)}{pattern}")) for pattern in patterns]  # noqa: PTH207
    return tuple(functions), tuple(gpus), tuple(mig_signs(tree)), tuple(map(tuple, paths))
