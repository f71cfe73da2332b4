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
