"""The state files of one directory, and who holds what by them.

Rules kept here:

1. A file that cannot be read as text or as JSON is still a file: what is wrong with it is reported.
2. A pod is known by its uid.  A static pod has another uid at the API server than with the kubelet;
   its annotation gives the kubelet's.  Pods that have ended are not alive.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.checkpoint.look import Look
from numawise.codec.checkpoint.reading import AllottedPod
from numawise.engine.state import Block, CpuState, DeviceFile, MemoryState
from numawise.machine.model import Machine
from numawise.request.defaults import RawPod
from numawise.results.finding import Place
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Version
from numawise.sets import format_ids
from numawise.values import dataclass, field

GATE = "PodLevelResourceManagers"
HASH = "kubernetes.io/config.hash"
SHORT = 8


@dataclass(frozen=True, slots=True)
class StateFile:
    """One state file."""

    name: str
    """``cpu_manager_state``, ``memory_manager_state`` or ``kubelet_internal_checkpoint``."""
    path: Path
    raw: bytes
    look: Look

    @property
    def text(self) -> str:
        """Its text, as the kubelet would decode it."""
        return self.raw.decode("utf-8", errors="replace")

    def place(self, field: str = "") -> Place:
        """Where a finding about it belongs."""
        return Place(str(self.path), 1, field)


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The state files of one kubelet."""

    directory: Path
    files: tuple[StateFile, ...]
    allocated: Mapping[str, AllottedPod] | None = None
    """Uid → container → resources, by the record of what was allocated; None: there is none to be read."""
    remarks: tuple[str, ...] = ()
    """What a person should know about how they were read."""
    claims: tuple[str, ...] = ()
    """The claims that the kubelet prepared, by namespace and name."""

    def file(self, name: str) -> StateFile | None:
        """The file of this name, if it is there."""
        return next((file for file in self.files if file.name == name), None)

    def tells(self, name: str) -> bool:
        """Whether the file of this name says who has what: it is there and its content can be read."""
        file = self.file(name)
        return file is not None and file.look.readable

    @property
    def texts(self) -> dict[str, str]:
        """Name → text, as a simulated kubelet takes them."""
        return {file.name: file.text for file in self.files}

    @property
    def cpu(self) -> CpuState:
        """What the CPU Manager has recorded, as far as it could be read."""
        file = self.file(CPU_FILE)
        return (file.look.cpu if file else None) or CpuState()

    @property
    def memory(self) -> MemoryState:
        """What the Memory Manager has recorded."""
        file = self.file(MEMORY_FILE)
        return (file.look.memory if file else None) or MemoryState()

    @property
    def devices(self) -> DeviceFile:
        """What the Device Manager has recorded."""
        file = self.file(DEVICE_FILE)
        return (file.look.devices if file else None) or DeviceFile()


@dataclass(frozen=True, slots=True)
class Holder:
    """What one container has, by all three files; without a container, what the pod has as a whole."""

    uid: str
    container: str
    cpus: int = 0
    blocks: tuple[Block, ...] = ()
    devices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Resource → device ids."""


@dataclass(frozen=True, slots=True)
class LivePod:
    """A pod that runs."""

    raw: RawPod
    uids: tuple[str, ...]
    """Under which the kubelet may know it."""
    running: bool
    """It has been admitted and has not ended."""
    containers: Mapping[str, str] = field(default_factory=dict)
    """Container id, without the runtime's prefix → name."""

    @property
    def name(self) -> str:
        """``namespace/name``, without the default namespace."""
        return self.raw.name if self.raw.namespace == "default" else f"{self.raw.namespace}/{self.raw.name}"


Live = Mapping[str, LivePod]
"""Pods by every uid that the kubelet may know them by."""


@dataclass(frozen=True, slots=True)
class Against:
    """What the files are compared with; None: not known."""

    machine: Machine | None = None
    config: KubeletConfig | None = None
    live: Live | None = None
    version: Version = DEFAULT
    gate: bool = False
    """Gate ``PodLevelResourceManagers``, where no configuration says."""

    @property
    def pod_level(self) -> bool:
        """Whether pods get their share as a whole."""
        if self.config is None:
            return self.gate
        return bool(self.config.feature_gates.get(GATE))


def holders(folder: StateFolder) -> tuple[Holder, ...]:
    """Everybody who holds something, by uid and container; containers only known by id come last."""
    found: dict[tuple[str, str], Holder] = {}
    cpu, memory, devices = folder.cpu, folder.memory, folder.devices
    keys = {
        *((uid, name) for uid, inner in cpu.assignments.items() for name in inner),
        *((uid, "") for uid in cpu.pods),
        *((uid, name) for uid, inner in memory.assignments.items() for name in inner),
        *((uid, "") for uid in memory.pods),
        *((uid, name) for uid, inner in devices.grants.items() for name in inner),
    }
    for uid, name in sorted(keys):
        cpus = cpu.assignments.get(uid, {}).get(name, 0) if name else cpu.pods.get(uid, 0)
        blocks = memory.assignments.get(uid, {}).get(name, ()) if name else memory.pods.get(uid, ())
        grants = devices.grants.get(uid, {}).get(name, {})
        found[uid, name] = Holder(
            uid,
            name,
            cpus,
            tuple(blocks),
            tuple((resource, tuple(sorted(grant.ids))) for resource, grant in sorted(grants.items())),
        )
    file = folder.file(CPU_FILE)
    by_id = file.look.by_id if file else {}
    return (*found.values(), *(Holder("", name, cpus) for name, cpus in sorted(by_id.items())))


def recorded_uids(folder: StateFolder) -> tuple[str, ...]:
    """The pods that some file knows."""
    return tuple(dict.fromkeys(holder.uid for holder in holders(folder) if holder.uid))


def label(holder: Holder, live: Live | None = None) -> str:
    """What to call a holder: ``train-0/app`` where the pod is known, else the beginning of its uid."""
    pod = (live or {}).get(holder.uid)
    name = pod.name if pod else holder.uid[:SHORT]
    if not holder.uid:
        return f"container {holder.container[:SHORT]}"
    return f"{name}/{holder.container}" if holder.container else f"{name} (whole pod)"


def short_name(name: str) -> str:
    """What a command calls a file: ``cpu``, ``memory`` or ``devices``."""
    return {CPU_FILE: "cpu", MEMORY_FILE: "memory", DEVICE_FILE: "devices"}[name]


def cpus_word(cpus: int) -> str:
    """``CPU 7`` or ``CPUs 2-3``."""
    return f"CPU{'' if cpus.bit_count() == 1 else 's'} {format_ids(cpus)}"


def known_cpus(folder: StateFolder) -> int:
    """CPUs that are in the shared pool or assigned."""
    cpus = folder.cpu.shared
    for holder in holders(folder):
        cpus |= holder.cpus
    return cpus


def memory_text(blocks: Iterable[Block]) -> str:
    """``8Gi on NUMA 0, 2Gi hugepages-1Gi on NUMA 0``."""
    from numawise.quantity import Quantity  # noqa: PLC0415 - only people want it

    parts = []
    for block in blocks:
        kind = "" if block.type == "memory" else f" {block.type}"
        parts.append(f"{Quantity.of(block.size)}{kind} on NUMA {format_ids(block.numa)}")
    return ", ".join(parts)


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A member that should be a mapping; nothing where it is anything else."""
    inner = value.get(name)
    return inner if isinstance(inner, Mapping) else {}


def live_pod(value: Mapping[str, Any], raw: RawPod) -> LivePod:
    """A pod as the API server has it."""
    metadata, status = _mapping(value, "metadata"), _mapping(value, "status")
    known = (metadata.get("uid"), _mapping(metadata, "annotations").get(HASH))
    lists = (status.get(name) for name in ("initContainerStatuses", "containerStatuses"))
    statuses = [one for each in lists if isinstance(each, list | tuple) for one in each]
    containers = {
        str(one.get("containerID", "")).rpartition("//")[2]: str(one.get("name", ""))
        for one in statuses
        if isinstance(one, Mapping) and one.get("containerID")
    }
    uids = tuple(dict.fromkeys(str(uid) for uid in known if uid))
    return LivePod(raw, uids, status.get("phase") == "Running", containers)
