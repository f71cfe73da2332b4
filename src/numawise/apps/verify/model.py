"""What a check of a job is made of."""

from collections.abc import Iterable, Mapping

from numawise.host.nvml import GpuUse
from numawise.host.placed import Placed
from numawise.results.finding import Finding, Severity
from numawise.values import dataclass, field

ENOUGH = 0.98
"""Share of a job's own pages that must be local."""


def job_finding(
    code: str, severity: Severity, message: str, why: Iterable[str] = (), advice: str = ""
) -> Finding:
    """A finding about a job: a word to look for, a clause that can stand in the first sentence, and causes.

    An error: the job is not where it should be.  A warning: something that decides could not be read.
    """
    return Finding(code, severity, message, why="; ".join(why), fix=advice)


@dataclass(frozen=True, slots=True)
class Wanted:
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


@dataclass(frozen=True, slots=True)
class Stranger:
    """A busy thread of somebody else on CPUs that a job has alone."""

    pid: int
    tid: int
    name: str
    cpu: int
    share: float
    """Of that CPU's time."""
    hold: str = ""
    """The hold it belongs to; '' when none does."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All that was read about a job."""

    processes: tuple[Placed, ...]
    uses: tuple[GpuUse, ...] = ()
    listed: bool = False
    """A driver lists its compute processes, so an open device file alone says nothing."""
    strangers: tuple[Stranger, ...] = ()
    foreign: Mapping[str, str] = field(default_factory=dict)
    """PCI address of a GPU → the other hold that has it."""
    overlaps: tuple[tuple[int, str], ...] = ()
    """CPUs that another hold has been granted, too, and that hold."""
    free: Mapping[int, int] = field(default_factory=dict)
    """NUMA id → free bytes."""
    boot: float = 0.0
    """When the machine was started, in seconds since the epoch; 0: not known."""
    ticks: int = 100
    """Clock ticks in a second."""


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
    """NUMA nodes near to it, packed; 0: nothing tells."""
    how: str
    pids: tuple[int, ...]
    memory: int = 0
    """Bytes of the GPU's memory that the job has; 0: not told."""
    used: bool = True
    """It counts as used; False: its device file is open, and its driver lists no work."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a job is placed."""

    aligned: bool | None
    """None: something that decides could not be read."""
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
