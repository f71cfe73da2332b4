"""How jobs are placed: what they were granted, where their threads, pages and GPUs are, and the verdict."""

from typing import Literal

from numawise.results.finding import Finding
from numawise.results.placement import BOUND, Hold, MemoryPolicy
from numawise.values import dataclass

PAGE_KINDS = ("anonymous", "huge", "shared", "driver", "file")
JobGrade = Literal["aligned", "spilled", "not aligned", "not known"]
ALIGNED: JobGrade = "aligned"
SPILLED: JobGrade = "spilled"
"""All is where it should be but memory, which its policy lets come from other NUMA nodes than the granted."""
NOT_ALIGNED: JobGrade = "not aligned"
NOT_KNOWN: JobGrade = "not known"
"""Something that decides could not be read."""
WORST_FIRST = (NOT_ALIGNED, SPILLED, NOT_KNOWN, ALIGNED)


def is_aligned(grade: JobGrade) -> bool | None:
    """Whether all is where it should be; None: that is not known."""
    return None if grade == NOT_KNOWN else grade == ALIGNED


@dataclass(frozen=True, slots=True)
class JobGrant:
    """What a job was granted."""

    cpus: int
    mems: int
    """NUMA nodes for its memory; 0: none were named."""
    gpus: frozenset[str] = frozenset()
    """PCI addresses."""
    alone: bool = True
    """The CPUs are its own."""
    since: float = 0.0
    """Seconds since the epoch."""
    group: str = ""
    memory_policy: MemoryPolicy = BOUND


@dataclass(frozen=True, slots=True)
class Remote:
    """Pages that are not local."""

    kind: str
    numa: int
    size: int
    reason: str = ""
    """Why they are there, as far as that shows."""
    files: tuple[tuple[str, int], ...] = ()
    """File → bytes, the largest first."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Where a job's pages are."""

    table: tuple[tuple[int, tuple[tuple[str, int], ...]], ...] = ()
    """NUMA id → kind → bytes."""
    own: int = 0
    """Bytes that the job answers for."""
    local: int = 0
    """Of these, on NUMA nodes that are local to it."""
    remote: tuple[Remote, ...] = ()

    @property
    def share(self) -> float:
        """Share of its own pages that are local; 1 when it has none."""
        return self.local / self.own if self.own else 1.0


@dataclass(frozen=True, slots=True)
class GpuSeen:
    """A GPU that a job uses."""

    name: str
    address: str
    near: int
    """NUMA nodes near to it, packed; 0: not known."""
    how: str
    pids: tuple[int, ...]
    memory: int = 0
    """Bytes of the GPU's memory that the job has; 0: not known."""
    used: bool = True
    """It counts as used; False: its device file is open, and its driver lists no work."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a job is placed."""

    grade: JobGrade
    sentence: str
    findings: tuple[Finding, ...] = ()
    processes: int = 0
    threads: int = 0
    cpus: int = 0
    """CPUs that its threads may run on."""
    ran: int = 0
    """CPUs that they last ran on."""
    numa: int = 0
    """NUMA nodes of the CPUs it should run on."""
    mems: int = 0
    """NUMA nodes whose memory counts as local."""
    amounts: Amounts = Amounts()
    gpus: tuple[GpuSeen, ...] = ()
    swapped: int = 0

    @property
    def aligned(self) -> bool | None:
        """Whether all is where it should be; None: that is not known."""
        return is_aligned(self.grade)


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """A job and its verdict."""

    label: str
    verdict: Verdict
    hold: Hold | None = None
    pid: int = 0
    """The process that was asked about; 0 when a hold was."""
    wanted: JobGrant | None = None
