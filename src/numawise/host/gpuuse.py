"""Which processes use which GPUs.

Rules kept here:

1. The driver's own list of compute processes (NVML for NVIDIA, ``/sys/class/kfd`` for AMD) says who
   *computes* on a GPU.
2. An open device file says less: a program that only looks at GPUs opens all of them.  It counts where no
   driver lists processes.
3. GPUs are told by PCI address; '' where nothing leads from a device file to one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numawise.host.files import Tree
from numawise.machine.hardware import Hardware
from numawise.machine.locality import short_address

ROOT = Path("/")
COMPUTES, OPENED = "computes", "opened"
NVIDIA_GPUS = "proc/driver/nvidia/gpus"
KFD = "sys/class/kfd/kfd"
MINOR = re.compile(r"^Device Minor:\s*([0-9]+)\s*$", re.ASCII | re.MULTILINE)
NVIDIA_FILE = re.compile(r"/dev/nvidia([0-9]+)", re.ASCII)
VRAM = re.compile(r"vram_([0-9]+)", re.ASCII)
PROPERTY = re.compile(r"^(domain|location_id) ([0-9]+)$", re.ASCII | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class GpuUse:
    """A process and a GPU."""

    pid: int
    address: str
    """PCI address; '' when it is not known."""
    how: str = OPENED
    """``computes`` or ``opened``."""
    file: str = ""
    memory: int | None = None
    """Bytes of the GPU's memory that the process has."""


def opened(root: Path, hardware: Hardware, pid: int, files: Iterable[str]) -> tuple[GpuUse, ...]:
    """GPUs behind the open device files of a process."""
    by_name = {name: device.address for device in hardware.pci for name in device.names}
    minors: dict[int, str] | None = None
    found: dict[str, GpuUse] = {}
    for file in files:
        nvidia = NVIDIA_FILE.fullmatch(file)
        if nvidia:
            minors = nvidia_minors(root) if minors is None else minors
            address = minors.get(int(nvidia[1]), "")
        elif file.startswith("/dev/dri/"):
            address = by_name.get(file.rpartition("/")[2], "")
            if not address:
                continue  # the screen of a board controller, say
        else:
            continue
        found.setdefault(address or file, GpuUse(pid, address, OPENED, file))
    return tuple(found.values())


def nvidia_minors(root: Path = ROOT) -> dict[int, str]:
    """Number of NVIDIA's device file → PCI address, as its driver tells."""
    tree = Tree(root)
    found = {}
    for address in tree.names(NVIDIA_GPUS):
        told = MINOR.search(tree.text(f"{NVIDIA_GPUS}/{address}/information") or "")
        if told:
            found[int(told[1])] = short_address(address)
    return found


def nvml_users(nvml: Any) -> tuple[GpuUse, ...]:  # noqa: ANN401 - a module without types
    """Compute processes that NVML lists; its process numbers are those of this pid namespace, or 0."""
    found = []
    for at in range(_ask(nvml, "nvmlDeviceGetCount") or 0):
        handle = _ask(nvml, "nvmlDeviceGetHandleByIndex", at)
        bus = getattr(_ask(nvml, "nvmlDeviceGetPciInfo", handle), "busId", "")
        address = short_address(bus.decode() if isinstance(bus, bytes) else str(bus))
        for row in _ask(nvml, "nvmlDeviceGetComputeRunningProcesses", handle) or ():
            found.append(GpuUse(row.pid, address, COMPUTES, "", row.usedGpuMemory or None))
    return tuple(found)


def kfd_users(root: Path = ROOT) -> tuple[GpuUse, ...]:
    """Processes with memory on AMD's GPUs."""
    tree = Tree(root)
    addresses = {}
    for node in tree.numbered(f"{KFD}/topology/nodes", ""):
        place = f"{KFD}/topology/nodes/{node}"
        number = tree.number(f"{place}/gpu_id")
        told = dict(PROPERTY.findall(tree.text(f"{place}/properties") or "")) if number else {}
        if number and "location_id" in told:
            where = int(told["location_id"])
            domain = int(told.get("domain", 0))
            addresses[number] = f"{domain:04x}:{where >> 8 & 0xFF:02x}:{where >> 3 & 0x1F:02x}.{where & 7}"
    found = []
    for pid in tree.numbered(f"{KFD}/proc", "") if addresses else ():
        for name in tree.names(f"{KFD}/proc/{pid}"):
            told_gpu = VRAM.fullmatch(name)
            used = tree.number(f"{KFD}/proc/{pid}/{name}") if told_gpu else None
            if told_gpu and used and int(told_gpu[1]) in addresses:
                found.append(GpuUse(pid, addresses[int(told_gpu[1])], COMPUTES, "/dev/kfd", used))
    return tuple(found)


def _ask(nvml: Any, function: str, *arguments: Any) -> Any:  # noqa: ANN401
    """An answer of NVML; None when it has none."""
    try:
        return getattr(nvml, function)(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None
