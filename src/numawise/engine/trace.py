"""Why is data: the steps of a decision, reported one by one to the caller.

Counterpart: none; the kubelet writes log lines at some of these points.

The engine calls ``note`` with frozen values; ``ignore`` is the one that drops them, and what
is costly to report is not computed for it.  Explanations, pictures and pages render these values;
nobody parses messages.
"""

from collections.abc import Callable, Mapping

from numawise.engine.hint import Family, Hint
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class RoundBegan:
    """Providers are about to be asked."""

    container: str | None
    """None: for the pod as a whole."""


@dataclass(frozen=True, slots=True)
class HintsFound:
    """One provider was asked for its hints."""

    provider: str
    """``device``, ``cpu`` or ``memory``, in the order they are asked."""
    container: str | None
    """None: for the pod as a whole."""
    hints: Mapping[str, Family | None] | None
    """By resource; ``NO_PREFERENCE`` for all or for one resource; without masks: ``NOWHERE``."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A NUMA mask that the merge looked at."""

    mask: int
    kept: bool
    """It is the one that was chosen."""
    preferred: bool
    why: str
    """One of the constants below, from ``CHOSEN`` to ``HIGHER``."""
    resources: tuple[str, ...] = ()
    """Who stands against it: does not offer it, or does not prefer it."""


CHOSEN = "chosen"
NOT_SHARED = "not offered by every resource"
NOT_PREFERRED = "not preferred by every resource"
WIDER = "needs more NUMA nodes than the chosen one"
FARTHER = "its NUMA nodes are farther apart"
HIGHER = "equal, but with higher NUMA ids"


@dataclass(frozen=True, slots=True)
class HintsMerged:
    """The hints of one container or pod were merged and judged."""

    container: str | None
    best: Hint
    admitted: bool
    width: int
    """How many nodes an unpreferred answer should have."""
    candidates: tuple[Candidate, ...]
    decided_by: tuple[str, ...]
    """Resources whose hints excluded the alternatives, or made the answer unpreferred."""


@dataclass(frozen=True, slots=True)
class TooManyCombinations:
    """The kubelet would compare so many combinations of hints that its admission stalls."""

    container: str | None
    combinations: int
    """An upper bound: hints are not counted one by one."""
    masks: int
    """Sets of NUMA nodes it would look at before it combines any."""
    seconds: float
    """Of CPU time, at what one mask and one combination were measured to cost."""


@dataclass(frozen=True, slots=True)
class CpuPassBegan:
    """The CPU choice is about to look for units of one kind; what it takes follows."""

    unit: str
    """As in ``CpusTaken``; a pass over L3 groups takes parts of them, too."""
    wanted: int
    """CPUs that are still missing."""
    free: int
    """Those that it may take."""


@dataclass(frozen=True, slots=True)
class CpusTaken:
    """A pass of the CPU choice claimed a unit."""

    unit: str
    """``numa``, ``socket``, ``uncore``, ``uncore part``, ``core``, ``cpu`` or ``share of numa``."""
    name: int
    """Its id; for a single CPU that of its core, or of its socket when spreading."""
    cpus: int
    not_free: int
    """Known defect: CPUs that come along although they were not free (uneven machines)."""


@dataclass(frozen=True, slots=True)
class BufferReused:
    """Known defect: the balanced set of NUMA nodes was overwritten after it was chosen."""

    chosen: tuple[int, ...]
    used: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CpusGranted:
    """A container (None: the pod) has its exclusive CPUs."""

    container: str | None
    cpus: int
    aligned: int
    """Those that came from the wanted NUMA nodes."""


@dataclass(frozen=True, slots=True)
class MemoryGranted:
    """A container (None: the pod) has its memory."""

    container: str | None
    numa: int
    sizes: tuple[tuple[str, int], ...]
    extended: bool
    """The wanted NUMA nodes had too little, so more were added."""


@dataclass(frozen=True, slots=True)
class DevicesChosen:
    """Devices of one resource were chosen for a container."""

    container: str
    resource: str
    chosen: tuple[str, ...]
    fixed: tuple[str, ...]
    """Those that had to be taken, or that the plugin preferred."""
    open_to: tuple[str, ...]
    """Where the kubelet leaves it to chance: the candidates; the lowest ids are taken here."""
    aligned: bool
    """All chosen devices are on the wanted NUMA nodes."""
    tied: bool = False
    """The candidates are those that the plugin prefers as much."""

    @property
    def free(self) -> bool:
        """True when the kubelet could have chosen otherwise."""
        return bool(self.open_to)


@dataclass(frozen=True, slots=True)
class AllocationFailed:
    """A provider could not give what was asked."""

    container: str
    provider: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StaleRemoved:
    """A provider noticed that a pod is gone and took back what it had."""

    provider: str
    uid: str


@dataclass(frozen=True, slots=True)
class Defect:
    """The kubelet does something here that it should not; reproduced, and named."""

    name: str
    """One of the keys of ``DEFECTS``."""
    detail: str = ""


DEFECTS = {
    "memory-nowhere-is-no-preference": "Memory that fits on no NUMA nodes is answered with no preference "
    "instead of 'impossible', so the refusal comes from allocation, not from the topology policy.",
    "running-pod-refused-for-free-cores": "full-pcpus-only counts free cores before it looks whether the "
    "container already has its CPUs, so a running pod can be refused when the kubelet restarts.",
    "cpus-not-free": "Cores are judged by the average number of threads; where that misleads, CPUs that are "
    "reserved or taken are handed out again.",
    "split-core": "full-pcpus-only gave a part of a core, because the wanted NUMA nodes had no whole core "
    "left.",
    "buffer-reused": "The balanced set of NUMA nodes was overwritten by the search that found it.",
    "single-node-in-group": "Memory was taken from one NUMA node of a group, which leaves the group's tables "
    "wrong.",
    "pod-level-allocated-again": "The pod-level allocation does not notice that it was made before; the "
    "first CPUs leak.",
    "reuse-outlives-pod": "What the init containers of a pod had is remembered by the pod's uid until "
    "another pod reaches the allocation, not until the pod goes: when it comes back under the "
    "same uid, it may use again what it no longer has, is charged too little memory, and the kubelet may "
    "refuse its next start.",
    "next-start-refused": "What a defect left in the tables does not add up: the kubelet will refuse its "
    "next start.",
    "claimed-resource-hinted": "The Device Manager makes hints for an extended resource that a claim backs, "
    "because a device plugin has registered it too: devices that the pod does not get decide about its NUMA "
    "nodes, or refuse it.",
    "cpus-counted-twice": "distribute-cpus-across-cores walks a socket that reaches into two NUMA nodes "
    "twice and counts its CPUs both times, so that fewer CPUs are handed out than were asked for.",
    "socket-order-by-chance": "Sockets are compared in a way that contradicts itself, starting from the "
    "order of a Go map, so it is chance which of them gives its cores first; here it is the one with fewest.",
    "never-returns": "Dealing the remainder over NUMA nodes never ends; the kubelet hangs.",
    "crash": "The kubelet crashes here.",
}


@dataclass(frozen=True, slots=True)
class PodsPreempted:
    """Pods were ended to make room for a critical one."""

    uids: tuple[str, ...]
    open_to: tuple[str, ...]
    """Equal pods, of which the kubelet takes any."""


Step = (
    RoundBegan
    | HintsFound
    | HintsMerged
    | TooManyCombinations
    | CpuPassBegan
    | CpusTaken
    | BufferReused
    | CpusGranted
    | MemoryGranted
    | DevicesChosen
    | AllocationFailed
    | StaleRemoved
    | PodsPreempted
    | Defect
)
Note = Callable[[Step], None]


def ignore(_: Step) -> None:
    """Listen to nothing."""
