"""Holds and placements as values: what a machine can give, what a job has, why there is no room.

Rules kept here:

1. A hold lives as long as its owner: a process, known from a later one with the same number by its start
   time and the boot it belongs to, or a container.  Whether an owner lives is not asked here.
2. A hold either has CPUs alone (``cpus``) or runs in the shared pool, kept to the CPUs of ``near``.
3. Sets of CPUs and NUMA nodes are packed ints.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from numawise.gpus.links import GpuLinks
from numawise.machine.hardware import NVIDIA, NVML, Gpu, Hardware
from numawise.machine.locality import short_address
from numawise.machine.model import Machine
from numawise.machine.nearest import NearNic
from numawise.rules.model import RESTRICTED, SINGLE
from numawise.sets import bits_of, ids_of
from numawise.values import dataclass, field, replace

RUN, CONTAINER, PYTHON, STEP = "run", "container", "python", "step"
SYSTEMD, CGROUP_V2, CGROUP_V1, AFFINITY = "systemd", "cgroup v2", "cgroup v1", "affinity"
MODES = (SYSTEMD, CGROUP_V2, CGROUP_V1, AFFINITY)
"""How a job is kept to its grant, the best first; a container is kept by its engine."""
DOCKER, PODMAN, NERDCTL = "docker", "podman", "nerdctl"
ENGINES = (DOCKER, PODMAN, NERDCTL)
MemoryPolicy = Literal["bind", "preferred", "interleave"]
BOUND: MemoryPolicy = "bind"
PREFERRED: MemoryPolicy = "preferred"
INTERLEAVED: MemoryPolicy = "interleave"
MEMORY_POLICIES = (BOUND, PREFERRED, INTERLEAVED)
"""How a job's memory is kept to its NUMA nodes: there alone; there first, and elsewhere when they are full;
in turn on each, and elsewhere when they are full."""
FENCE_LABEL, RULES, VARIABLES = "fence", "rules", "variables"
"""Label of a hold whose job sees no GPUs but its own, and what sees to that."""
HOLD_VARIABLE = "NUMAWISE_HOLD"
"""Variable by which every process of a job names its hold."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose hold it is, and what its life depends on."""

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
    """Number of the pid namespace in which ``pid`` counts (``/proc/PID/ns/pid``); 0: not known.

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
    memory_policy: MemoryPolicy = BOUND
    """How its memory is kept to ``mems``."""


def default_memory_policy(policy: str) -> MemoryPolicy:
    """How memory is kept to its NUMA nodes unless said otherwise: strictly where the topology policy does."""
    return BOUND if policy in (RESTRICTED, SINGLE) else PREFERRED


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
    parent: str = ""
    """Of a step: the hold, or the step, that it has its grant of.  It takes nothing of the machine's."""

    @property
    def fence(self) -> str:
        """What keeps its job from GPUs of others: ``rules`` of the kernel, ``variables``, or nothing."""
        how = dict(self.labels).get(FENCE_LABEL, "")
        return how if how in (RULES, VARIABLES) else ""


ENDED, RELEASED, OVERTIME, FOUND_ENDED, NEVER_STARTED = (
    "ended",
    "released",
    "overtime",
    "found ended",
    "not started",
)
WAYS_TO_END = (ENDED, RELEASED, OVERTIME, FOUND_ENDED, NEVER_STARTED)
"""How a hold ended: with its job; before it (``release``); by the job's time limit; nobody watched and the
job was found gone; its job could not be started."""


@dataclass(frozen=True, slots=True)
class EndedHold:
    """A hold that is no more."""

    hold: Hold
    """As it was."""
    at: float
    """When it ended, or was found to have ended: seconds since the epoch."""
    how: str = ENDED
    status: int | None = None
    """Exit status of its job, negative for a signal; None: not known."""
    by: str = ""
    """The user who ended it, where that was not its owner."""


@dataclass(frozen=True, slots=True)
class JobUse:
    """What the job of a hold uses at the moment."""

    cpus: float | None = None
    """CPUs that it kept busy, on average since the look before; None: not known."""
    memory: int | None = None
    """Bytes that it has in memory; None: not known."""
    processes: int = 0


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
    asks: str = ""
    """What is asked for, for programs: the text of a JSON object; '' when its author did not say."""


TIME_LIMIT = "time-limit"
"""Label of a hold: seconds that its job may take."""
TIMED_OUT = 124
"""Exit status of a job that was ended at its limit, as timeout(1) has it."""


def time_limit(hold: Hold) -> float:
    """Seconds that a job may take; 0: no limit, or none that makes sense."""
    try:
        found = float(dict(hold.labels).get(TIME_LIMIT, ""))
    except ValueError:
        return 0.0
    return found if 0 < found < float("inf") else 0.0


WAITING, STOPPED, PASSED = "waiting", "stopped", "passed"


@dataclass(frozen=True, slots=True)
class InLine:
    """How it goes with somebody who waits."""

    waiter: Waiter
    state: str
    """``waiting``; ``stopped``: its process is, so others pass it; ``passed``: it can never be served."""
    missing: str = ""
    """What it waits for, as a clause; '' when it is about to start."""
    holders: tuple[Hold, ...] = ()
    """Who holds what is missing."""


# --------------------------------------------------------------------------------------------------
# Where a job goes on a machine, as values: what can be given, what was given, or why there is no room.
#
# Rules kept here:
#
# 1. Sets of CPUs and NUMA nodes are packed ints.
# 2. The shared pool is what no hold has alone; a job in it runs on the part near to its memory and GPUs, as
#    long as there is some.


@dataclass(frozen=True, slots=True)
class MemoryNow:
    """Memory as it is at a moment, booked or not."""

    available: Mapping[int, int]
    """NUMA node → bytes that could be had there; a node that is missing is not known."""
    used: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Id of a hold → NUMA node → bytes it uses there; a hold that is missing is not known."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """A machine with what can be given of it."""

    hardware: Hardware
    machine: Machine
    reserved: int
    """CPUs kept for the system."""
    gpus: tuple[Gpu, ...] = ()
    gpu_ids: tuple[str, ...] = ()
    """By position: what the ledger calls each GPU."""
    gpu_resources: tuple[str, ...] = ()
    links: "GpuLinks | None" = None
    nics: Mapping[str, NearNic] | None = None
    """By the name the ledger uses."""
    cpus: Mapping[int, int] | None = None
    """NUMA node → CPUs of it that can be given."""
    users: Mapping[int, tuple[int, ...]] | None = None
    """Position of a GPU → processes that use it, where that was asked."""
    memory_now: MemoryNow | None = None
    """None: not looked at, as for a machine that nothing runs on."""
    remarks: tuple[str, ...] = ()

    def cpus_of(self, numa: int) -> int:
        """CPUs of a set of NUMA nodes."""
        return sum((self.cpus or {}).get(node, 0) for node in ids_of(numa))

    def numa_of(self, cpus: int) -> int:
        """NUMA nodes of a set of CPUs."""
        return bits_of(node for node, own in (self.cpus or {}).items() if own & cpus)


# --------------------------------------------------------------------------------------------------
# What the ledger calls a GPU.
#
# Rules kept here:
#
# 1. A GPU goes by its PCI address, which is the same whether or not its driver can be asked; a MIG instance
#    by that of its GPU, a slash and its UUID.  Without an address: by UUID, else by name.
# 2. A GPU and a part of it are never given to two.  Who cannot ask the driver sees a GPU where others see
#    MIG instances: a hold on one of these is a hold on it, and the other way round.
# 3. UUIDs, too, are understood in a hold.  One that cannot be placed, because the driver cannot be asked,
#    may be any of the GPUs whose UUID is not known, so all of these count as held.


def gpu_id(gpu: Gpu) -> str:
    """What the ledger calls a GPU (rule 1)."""
    if not gpu.address:
        return gpu.uuid or gpu.name
    address = short_address(gpu.address)
    return f"{address}/{gpu.uuid or gpu.name}" if gpu.parent else address


def same_device(one: str, other: str) -> bool:
    """Whether two ids of the ledger mean one device, or a device and a part of it (rule 2)."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def holds_named(holds: Iterable[Hold], name: str, uid: int) -> list[Hold]:
    """The holds that a user means by ``USER/ID``, an id or a name; of several, that user's own.

    Another user may have written down the same id and name, but not for somebody else.
    """
    every = tuple(holds)
    found = [
        hold for hold in every if name in (f"{hold.owner.user}/{hold.id}", f"{hold.owner.uid}/{hold.id}")
    ]
    found = found or [hold for hold in every if hold.id == name]
    found = found or [hold for hold in every if hold.name == name]
    return (len(found) > 1 and [hold for hold in found if hold.owner.uid == uid]) or found


def in_ids_of(capacity: Capacity, holds: Iterable[Hold]) -> tuple[Hold, ...]:
    """The holds with their GPUs called as the capacity calls them; the others of a hold stay as they are."""
    every = tuple(holds)
    resources = set(capacity.gpu_resources)
    if not any(resource in resources for hold in every for resource, _ in hold.grant.devices):
        return every
    by_uuid = {gpu.uuid: gpu_id(gpu) for gpu in capacity.hardware.gpus if gpu.uuid}
    return tuple(
        replace(
            hold,
            grant=replace(
                hold.grant,
                devices=tuple(
                    (resource, _ids_here(capacity, resource, ids, by_uuid) if resource in resources else ids)
                    for resource, ids in hold.grant.devices
                ),
            ),
        )
        for hold in every
    )


def _ids_here(
    capacity: Capacity, resource: str, ids: Iterable[str], by_uuid: Mapping[str, str]
) -> tuple[str, ...]:
    offered = [
        (gpu, name)
        for gpu, name, kind in zip(capacity.gpus, capacity.gpu_ids, capacity.gpu_resources, strict=True)
        if kind == resource
    ]
    unasked = any(remark.place == NVML for remark in capacity.hardware.remarks)
    found: dict[str, None] = {}
    for device in ids:
        here = by_uuid.get(device, device)
        same = [name for _, name in offered if same_device(name, here)]
        if not same and unasked and device.startswith(("GPU-", "MIG-")):
            part = device.startswith("MIG-")
            same = [name for gpu, name in offered if gpu.maker == NVIDIA and (part or not gpu.uuid)]
        found |= dict.fromkeys(same or (device,))
    return tuple(found)


def pool_of(capacity: Capacity, holds: Iterable[Hold]) -> int:
    """The shared pool: CPUs that no hold has alone."""
    taken = 0
    for hold in holds:
        taken |= hold.grant.cpus
    return capacity.machine.layout.all & ~taken


def pool_cpus(capacity: Capacity, pool: int, near: int) -> int:
    """The part of the pool that a hold runs on: near to what it has, as long as some is left there."""
    return (pool & capacity.cpus_of(near) if near else pool) or pool


@dataclass(frozen=True, slots=True)
class Nic:
    """A network card that belongs to a placement."""

    name: str
    """What the system calls it: ``eth0``."""
    hca: str = ""
    """Its RDMA device, such as ``mlx5_0``; '' when it has none."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What a job was given, and what to say about it."""

    grant: Grant
    cpus: int
    """CPUs it may run on: its own, or its part of the shared pool."""
    mems: int
    """NUMA nodes its memory comes from."""
    memory: int = 0
    """Bytes it may use; 0: no limit was asked for."""
    gpus: tuple[Gpu, ...] = ()
    """In the order the job shall see them."""
    nics: tuple[Nic, ...] = ()
    """Network cards near to the GPUs, the nearest first."""
    policy: str = ""
    aligned: bool = True
    """Everything lies on one set of NUMA nodes, as small as the request allows."""
    remarks: tuple[str, ...] = ()
    """What the user should know, a sentence each."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables for the job."""
    whole: int = 0
    """NUMA nodes that are the job's as a whole; 0: none."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The machine has it, but not now."""

    reason: str
    """One sentence: what is short, and by how much."""
    holders: tuple[Hold, ...] = ()
    """Who holds what is missing."""
    message: str = ""
    """What a kubelet would have said."""
    advice: str = ""
    """What to ask for instead, where that is plain."""
    dropped: bool = False
    """It waits no longer, because somebody with the right to do so put it out of the line."""


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A job that is about to run, for the message to the user."""

    hold: Hold
    placement: Placement
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What a launcher would do."""

    placement: Placement
    steps: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    mode: str
    remarks: tuple[str, ...] = ()
    fence: str = ""
    """As of a hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlacement:
    """Where a job goes, in plain numbers."""

    cpus: tuple[int, ...]
    """CPUs it may run on."""
    exclusive: bool
    """They are its own; otherwise it runs in the shared pool."""
    mems: tuple[int, ...]
    """NUMA nodes its memory comes from."""
    memory: int = 0
    """Bytes that were promised; 0: no amount was asked for."""
    memory_policy: MemoryPolicy = BOUND
    gpus: tuple[Gpu, ...] = ()
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aligned: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for programs that shall use it."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(JobPlacement):
    """What a block of a program has."""

    id: str
    name: str
    bound: bool
    """The process is kept to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBinding:
    """What a rank was bound to."""

    rank: int
    size: int
    """Ranks on this host."""
    cpus: tuple[int, ...]
    numa: tuple[int, ...]
    """NUMA nodes that its memory comes from; empty: as before."""
    gpu: Gpu | None = None
    threads: int = 1
    """Threads to compute with, as ``OMP_NUM_THREADS`` says."""
    exclusive: bool = False
    """No other rank has any of these CPUs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that were set or changed in ``os.environ``."""
    remarks: tuple[str, ...] = ()
