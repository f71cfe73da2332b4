"""The kubelet's state files as documents: what is in them, what is wrong, and what becomes of them."""

from collections.abc import Mapping, Sequence

from numawise.errors import cut, one_line
from numawise.results.finding import Finding, Severity, count
from numawise.results.plain import Data, computed, plain
from numawise.sets import CpuSet, NumaSet
from numawise.values import dataclass

NAMED = 2
"""How many entries a sentence names."""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Entries of a node's state for which the machine, or the list of its pods, has nothing."""

    kind: str
    """A device resource, ``cpu``, a type of memory, ``pod``, ``claim`` or ``zone``."""
    names: tuple[str, ...]
    """All of them."""
    source: str
    """The file or answer that has them."""
    text: str
    """In one sentence, without its end."""
    advice: str
    """What to do, or what comes of it."""
    held: int = 0
    """How many of them somebody holds."""
    decides: bool = False
    """Nobody knows what of the machine they hold, so that nothing is said about pods here."""

    @property
    def sentence(self) -> str:
        """All that there is to say."""
        return f"{self.text}; {self.advice}"


def unmatched_data(entries: Sequence[Unmatched]) -> Data:
    """What stands in a document about pods of what is not matched; nothing where all is."""
    return {"unmatched": plain(entries)} if entries else {}


def some(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    shown = ", ".join(one_line(cut(name, 60)) for name in names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"


@dataclass(frozen=True, slots=True)
class Checksum:
    """One checksum of a file."""

    member: str
    stored: int | None
    """None: there is none, or it is zero."""
    right: int
    """The value it should have."""
    valid: bool


@dataclass(frozen=True, slots=True)
class Reader:
    """What one release of the kubelet makes of a file."""

    kubernetes: str
    pod_level_resource_managers: bool
    """With the gate ``PodLevelResourceManagers`` on."""
    problem: str | None
    """In the kubelet's words; None when it takes the file."""


@dataclass(frozen=True, slots=True)
class StateFileSummary:
    """One state file."""

    file: str
    """``cpu_manager_state``, ``memory_manager_state`` or ``kubelet_internal_checkpoint``."""
    path: str
    format: str | None
    """None when nothing could be read."""
    policy: str | None
    checksums: tuple[Checksum, ...]
    problem: str | None
    """Why it, or a part of it, cannot be read."""
    remarks: tuple[str, ...]
    readers: tuple[Reader, ...]


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """A block of memory that a container holds."""

    numa: str
    """NUMA nodes, as the kernel writes lists."""
    type: str
    """``memory`` or ``hugepages-…``."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class StateHolder:
    """What one container has, by all three files."""

    uid: str | None
    """Of the pod; None when only the container's id is known."""
    pod: str | None
    """Its name, where pods were given."""
    container: str | None
    """None: what the pod has as a whole."""
    alive: bool | None
    """Whether the pod is among those given; None when none were."""
    cpus: CpuSet
    memory: tuple[HeldMemory, ...]
    devices: Mapping[str, tuple[str, ...]]
    """Resource → device ids."""


@dataclass(frozen=True, slots=True)
class MemoryAmounts:
    """The memory of one type on one NUMA node, in bytes."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


@dataclass(frozen=True, slots=True)
class NumaTable:
    """The Memory Manager's table of one NUMA node."""

    numa: int
    uses: int
    """How many blocks are charged to it."""
    group: NumaSet
    """NUMA nodes that serve a container together."""
    amounts: Mapping[str, MemoryAmounts]
    """By type of memory."""


@dataclass(frozen=True, slots=True)
class KubeletState:
    """Who holds what on a node."""

    directory: str
    files: tuple[StateFileSummary, ...]
    shared_pool: CpuSet
    """CPUs that no container has alone."""
    holders: tuple[StateHolder, ...]
    memory: tuple[NumaTable, ...]
    unmatched: tuple[Unmatched, ...] = ()
    """Entries that the machine does not have; empty where none was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletStateReport(KubeletState):
    """Who holds what, and what is wrong with the files."""

    kubernetes: str
    findings: tuple[Finding, ...]

    @computed
    def errors(self) -> int:
        """How many findings are errors."""
        return count(self.findings, Severity.ERROR)


@dataclass(frozen=True, slots=True)
class StateFileChange:
    """What becomes of one file."""

    file: str
    path: str
    changes: tuple[str, ...]
    """What is changed, a sentence each."""
    removed: bool
    text: str | None
    """The new text; None when the file goes."""


@dataclass(frozen=True, slots=True)
class KubeletStateChange:
    """What a repair or a conversion does to the files."""

    directory: str
    kubernetes: str
    written: bool
    backup: str | None
    """Where the old files are kept."""
    files: tuple[StateFileChange, ...]
    refused: tuple[str, ...]
    """What was asked for and is not done, and why."""
    left: tuple[Finding, ...]
    """Errors that remain afterwards."""
