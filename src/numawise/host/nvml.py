"""GPUs as NVIDIA's management library reports them: identity, places, links, MIG, who uses them.

Rules kept here:

1. The library is an argument, so that a recording can stand in for it; ``nvml_library`` has the real one.
2. A call that a GPU, a driver or a sandbox does not support leaves its field unknown, with one remark.
3. A link is written as ``nvidia-smi topo -m`` prints it: ``NV`` and the number of NVLinks between two GPUs,
   else how far apart they are on PCIe.  Over NVSwitch every pair has the fewer of the two GPUs' links.
4. The NUMA node of a GPU is that of the *CPUs* near to it.  Grace and POWER give a GPU's memory a node of
   its own; that is ``own_numa``, and never mistaken for the first.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from numawise.host.files import Tree
from numawise.machine.hardware import NVIDIA, UNKNOWN, Gpu, Hardware, Matrix, Remark
from numawise.machine.locality import short_address
from numawise.sets import format_ids, ids_of
from numawise.values import dataclass

NODE_SCOPE = 0
WORD = 64
WORDS = 32
"""CPU masks of up to 2,048 CPUs."""
NODE_WORDS = 16
ANCESTORS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
MOST_GPUS, MOST_INSTANCES = 1024, 64
MOST_LINKS = 18
TO_GPU, TO_SWITCH = 0, 2


def read_gpus(nvml: Any) -> Hardware:  # noqa: ANN401
    """All GPUs that NVML shows, as the part of a machine that it knows."""
    asker = _Asker(nvml)
    count = asker.ask("nvmlDeviceGetCount") or 0
    handles = [asker.ask("nvmlDeviceGetHandleByIndex", i) for i in range(min(count, MOST_GPUS))]
    found = [(f"GPU{i}", handle) for i, handle in enumerate(handles) if handle is not None]
    gpus: list[Gpu] = []
    for name, handle in found:
        gpu = _gpu(asker, name, handle)
        gpus.append(gpu)
        gpus += _mig_instances(asker, gpu, handle)
    whole = {gpu.name: gpu for gpu in gpus if not gpu.parent}
    links = _links(asker, dict(found), whole)
    matrix = Matrix(
        gpus=tuple(whole),
        links=links,
        cpu_affinity={n: None if g.cpus is None else format_ids(g.cpus) for n, g in whole.items()},
        numa_affinity={n: None if g.numa is None else ",".join(map(str, g.numa)) for n, g in whole.items()},
        gpu_numa_id={n: None if g.own_numa is None else str(g.own_numa) for n, g in whole.items()},
    )
    return Hardware(
        gpus=tuple(gpus),
        matrix=matrix if whole else None,
        sources=("nvml",),
        remarks=tuple(dict.fromkeys(asker.remarks)),
    )


class _Asker:
    """Calls NVML, and keeps a remark for what it does not answer."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401
        self.nvml = nvml
        self.remarks: list[Remark] = []

    def ask(self, function: str, *arguments: Any, quiet: bool = False) -> Any:  # noqa: ANN401
        """The answer of a call; None when there is none."""
        call: Callable[..., Any] | None = getattr(self.nvml, function, None)
        if call is None:
            return None
        try:
            return call(*arguments)
        except self.nvml.NVMLError as error:
            if not quiet:
                self.remarks.append(Remark(UNKNOWN, function, f"NVML does not report it: {error}"))
            return None


def _gpu(asker: _Asker, name: str, handle: Any) -> Gpu:  # noqa: ANN401
    pci = asker.ask("nvmlDeviceGetPciInfo", handle)
    memory = asker.ask("nvmlDeviceGetMemoryInfo", handle)
    cpus = asker.ask("nvmlDeviceGetCpuAffinityWithinScope", handle, WORDS, NODE_SCOPE)
    nodes = asker.ask("nvmlDeviceGetMemoryAffinity", handle, NODE_WORDS, NODE_SCOPE)
    own = asker.ask("nvmlDeviceGetNumaNodeId", handle, quiet=True)
    mode = asker.ask("nvmlDeviceGetMigMode", handle, quiet=True)
    near = _mask(nodes)
    return Gpu(
        name=name,
        uuid=_text(asker.ask("nvmlDeviceGetUUID", handle)),
        address=address_of(pci),
        model=_text(asker.ask("nvmlDeviceGetName", handle)),
        memory=getattr(memory, "total", None),
        cpus=_mask(cpus),
        numa=None if near is None else tuple(ids_of(near)),
        own_numa=own if isinstance(own, int) and own >= 0 else None,
        maker=NVIDIA,
        mig=bool(mode and mode[0]),
    )


def _mig_instances(asker: _Asker, gpu: Gpu, handle: Any) -> list[Gpu]:  # noqa: ANN401
    if not gpu.mig:
        return []
    found = []
    for at in range(min(asker.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0, MOST_INSTANCES)):
        instance = asker.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, at, quiet=True)
        if instance is None:
            continue
        memory = asker.ask("nvmlDeviceGetMemoryInfo", instance)
        found.append(
            Gpu(
                name=f"{gpu.name}:{at}",
                uuid=_text(asker.ask("nvmlDeviceGetUUID", instance)),
                address=gpu.address,
                model=_text(asker.ask("nvmlDeviceGetName", instance)),
                memory=getattr(memory, "total", None),
                cpus=gpu.cpus,
                numa=gpu.numa,
                own_numa=gpu.own_numa,
                parent=gpu.name,
                maker=NVIDIA,
            )
        )
    return found


def _links(asker: _Asker, handles: dict[str, Any], gpus: dict[str, Gpu]) -> dict[str, dict[str, str]]:
    by_address = {gpu.address: name for name, gpu in gpus.items() if gpu.address}
    peers: dict[str, dict[str, int]] = {}
    switched: dict[str, int] = {}
    for name, handle in handles.items():
        peers[name], switched[name] = _nvlinks(asker, handle, by_address)
    links: dict[str, dict[str, str]] = {}
    for one, handle in handles.items():
        row: dict[str, str] = {}
        for other, peer in handles.items():
            if one == other:
                row[other] = "X"
                continue
            lines = peers[one].get(other, 0) or min(switched[one], switched[other])
            if lines:
                row[other] = f"NV{lines}"
            else:
                level = asker.ask("nvmlDeviceGetTopologyCommonAncestor", handle, peer)
                if level in ANCESTORS:
                    row[other] = ANCESTORS[level]
        links[one] = row
    return links


def _nvlinks(asker: _Asker, handle: Any, by_address: dict[str, str]) -> tuple[dict[str, int], int]:  # noqa: ANN401
    """NVLinks of one GPU: how many lead to which GPU, and how many to a switch."""
    peers: dict[str, int] = {}
    switched = 0
    for link in range(MOST_LINKS):
        if not asker.ask("nvmlDeviceGetNvLinkState", handle, link, quiet=True):
            continue
        kind = asker.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link, quiet=True)
        if kind == TO_SWITCH:
            switched += 1
            continue
        remote = asker.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link, quiet=True)
        name = by_address.get(address_of(remote))
        if name is not None:
            peers[name] = peers.get(name, 0) + 1
        elif kind is None:
            switched += 1
    return peers, switched


def _mask(words: Any) -> int | None:  # noqa: ANN401
    if words is None:
        return None
    bits = 0
    for at, word in enumerate(words):
        bits |= int(word) << at * WORD
    return bits


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None else str(value)


def address_of(pci: Any) -> str:  # noqa: ANN401
    """``00000000:17:00.0`` as the kernel writes it: ``0000:17:00.0``."""
    domain, _, rest = _text(getattr(pci, "busId", "")).lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else ""


# --------------------------------------------------------------------------------------------------
# Which processes use which GPUs.
#
# Rules kept here:
#
# 1. The driver's own list of compute processes (NVML for NVIDIA, ``/sys/class/kfd`` for AMD) says who
#    *computes* on a GPU.
# 2. An open device file says less: a program that only looks at GPUs opens all of them.  It counts where no
#    driver lists processes.
# 3. GPUs are identified by PCI address; '' where nothing leads from a device file to one.


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
    """Number of NVIDIA's device file → PCI address, as its driver reports."""
    tree = Tree(root)
    found = {}
    for address in tree.names(NVIDIA_GPUS):
        minor = MINOR.search(tree.text(f"{NVIDIA_GPUS}/{address}/information") or "")
        if minor:
            found[int(minor[1])] = short_address(address)
    return found


def nvml_users(nvml: Any, unlisted: list[str] | None = None) -> tuple[GpuUse, ...]:  # noqa: ANN401 - or a recording
    """Compute processes that NVML lists; its process numbers are those of this pid namespace, or 0.

    Addresses of GPUs whose processes it does not list are added to ``unlisted``.
    """
    found = []
    for at in range(_ask(nvml, "nvmlDeviceGetCount") or 0):
        handle = _ask(nvml, "nvmlDeviceGetHandleByIndex", at)
        bus = getattr(_ask(nvml, "nvmlDeviceGetPciInfo", handle), "busId", "")
        address = short_address(bus.decode() if isinstance(bus, bytes) else str(bus))
        rows = _ask(nvml, "nvmlDeviceGetComputeRunningProcesses", handle)
        if rows is None and unlisted is not None:
            unlisted.append(address)
        found += [GpuUse(row.pid, address, COMPUTES, "", row.usedGpuMemory or None) for row in rows or ()]
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
