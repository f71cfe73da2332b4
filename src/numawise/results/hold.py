"""Holds as values: what somebody has of this machine, and who that is.

Rules kept here:

1. A hold lives as long as its owner: a process, told from a later one with the same number by its start
   time and the boot it belongs to, or a container.  Whether an owner lives is not asked here.
2. A hold either has CPUs alone (``cpus``) or runs in the shared pool, kept to the CPUs of ``near``.
3. Sets of CPUs and NUMA nodes are packed ints.
"""

from numawise.values import dataclass, field

RUN, CONTAINER, PYTHON = "run", "container", "python"
HOLD_VARIABLE = "NUMAWISE_HOLD"
"""Variable by which every process of a job names its hold."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose hold it is, and by what its life is told."""

    uid: int
    user: str
    boot: str
    """Boot id of the kernel under which the hold was made."""
    pid: int = 0
    """Process; 0 when a container is the owner."""
    start: int = 0
    """Start time of the process in clock ticks after boot, as in ``/proc/PID/stat``."""
    engine: str = ""
    """``docker``, ``podman`` or ``nerdctl`` when a container is the owner."""
    container: str = ""
    """Id of the container; '' while it is being made."""
    namespace: int = 0
    """Number of the pid namespace in which ``pid`` counts (``/proc/PID/ns/pid``); 0: not told.

    The same number means another process inside a container, so nobody outside may judge by it.
    """


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Bytes promised on a set of NUMA nodes."""

    numa: int
    size: int


@dataclass(frozen=True, slots=True)
class Grant:
    """What was granted."""

    cpus: int = 0
    """CPUs to have alone; 0: it runs in the shared pool."""
    near: int = 0
    """NUMA nodes whose part of the shared pool it runs on; 0: all of it."""
    mems: int = 0
    """NUMA nodes its memory comes from."""
    memory: tuple[MemoryPart, ...] = ()
    """Empty when no amount was asked for."""
    devices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Resource → device ids."""
    cpu_limit: int = 0
    """Thousandths of a CPU asked for in the shared pool; 0: no number was given."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A grant in the ledger."""

    id: str
    """Short, unique on this machine."""
    name: str
    owner: Owner
    grant: Grant
    kind: str = RUN
    mode: str = ""
    """How the job is kept to its grant, such as ``cgroup v2`` or ``affinity``; '' while it is being bound."""
    group: str = ""
    """Control group or systemd scope of the job; '' when it has none of its own."""
    policy: str = ""
    command: tuple[str, ...] = ()
    since: float = 0.0
    """Seconds since the epoch."""
    labels: tuple[tuple[str, str], ...] = field(default=())
    """Whatever else is worth knowing later, such as ``isolated``."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """Somebody who waits until there is room, in the order of coming."""

    id: str
    """Short, unique on this machine."""
    owner: Owner
    request: str = ""
    """What is asked for, in words for people."""
    since: float = 0.0
    """Seconds since the epoch."""
