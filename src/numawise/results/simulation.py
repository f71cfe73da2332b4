"""Simulations as values: what happens to a node step by step, what came of it, and queues before nodes."""

from collections.abc import Sequence

from numawise.engine.admit import Admitted, Crashed, Decision
from numawise.engine.lifecycle import Started
from numawise.engine.resize import ResizeResult
from numawise.engine.state import NodeState, held_by
from numawise.engine.trace import Step
from numawise.machine.description import NodeDescription
from numawise.machine.model import Machine
from numawise.request.defaults import RawPod
from numawise.request.model import PodRequest
from numawise.request.resize import ResizeRequest
from numawise.results.alignment import Alignment, NodeFacts, alignment_of
from numawise.results.claims import ClaimOutcome
from numawise.rules.check import Refusal
from numawise.rules.model import Rules
from numawise.rules.versions import DEFAULT, Version
from numawise.values import dataclass, field

# --- what happens -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Add:
    """Pods come, one after the other."""

    pods: tuple[RawPod, ...]
    start: bool = True
    """False: they are admitted, and their containers start at a later step."""


@dataclass(frozen=True, slots=True)
class StartStep:
    """Containers of pods that were admitted before start now."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Pods end."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Restart:
    """The kubelet restarts, and admits all live pods again."""

    config: str = ""
    """Another configuration file; '': the same."""
    late: bool = False
    """Device plugins register after the pods were admitted again."""
    delete: tuple[str, ...] = ()
    """State files that are deleted while it is down."""
    text: str = ""
    """Another configuration itself; '': the file, or the same."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """The CPU Manager's loop runs once."""


@dataclass(frozen=True, slots=True)
class Devices:
    """A device plugin sends a new list."""

    resource: str
    changes: tuple[tuple[str, tuple[str, ...] | None], ...]
    """``gone``, ``unhealthy`` or ``back``, and the devices; None: all of them."""


@dataclass(frozen=True, slots=True)
class Describe:
    """The Node object says something else from now on."""

    description: NodeDescription


@dataclass(frozen=True, slots=True)
class Fill:
    """Copies of a pod come until one is refused."""

    pod: RawPod
    most: int | None = None


@dataclass(frozen=True, slots=True)
class ResizeStep:
    """The spec of a running pod asks for another size."""

    name: str
    change: ResizeRequest


@dataclass(frozen=True, slots=True)
class Retry:
    """The kubelet tries the resizes that wait, as it does from time to time."""


Act = Add | StartStep | Remove | Restart | Reconcile | Devices | Describe | Fill | ResizeStep | Retry


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """One step, and when it happens."""

    number: int
    word: str
    act: Act
    at: float | None = None
    """Seconds since the beginning; None: no time is given so far."""


# --- one pod ----------------------------------------------------------------------------------


NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Doubt:
    """What is not known of a pod because nobody knows where devices are."""

    resources: tuple[str, ...] = ()
    """Those of the devices."""
    verdict: bool = False
    """Whether the pod is admitted is not known either."""

    @property
    def text(self) -> str:
        """In one sentence, without its end."""
        names = " and ".join(self.resources)
        what = "whether it is admitted is not known" if self.verdict else "its place is not known"
        return (
            f"the NUMA nodes of free {names} devices are not known, so {what}; --pod-resources, or a bundle "
            "made while the kubelet runs, has them"
        )


@dataclass(frozen=True, slots=True)
class Simulated:
    """What became of one pod, and why."""

    pod: PodRequest
    decision: Decision
    steps: tuple[Step, ...]
    started: tuple[Started, ...]
    granted: NodeState
    """The state between admission and start: what was granted to whom."""
    node: NodeFacts
    """Where that was."""
    claims: tuple[ClaimOutcome, ...] = ()
    """What it has by claim, which the kubelet does not align."""
    not_judged: tuple[str, ...] = ()
    """Fields of the pod that were left out, as nothing is known of the node's labels and storage."""
    doubt: Doubt = Doubt()

    @property
    def preempted(self) -> tuple[str, ...]:
        """Uids of the pods that were ended for it."""
        return () if isinstance(self.decision, Crashed) else self.decision.preempted

    @property
    def admitted(self) -> bool:
        """True when the kubelet is known to let it in."""
        return isinstance(self.decision, Admitted) and not self.doubt.verdict

    @property
    def alignment(self) -> Alignment | None:
        """What of it is aligned, and why the rest is not; None: not admitted, or its place is not known."""
        if not isinstance(self.decision, Admitted) or self.doubt.resources:
            return None
        return alignment_of(self.pod, self.node, self.granted, self.decision.affinity, self.started)

    @property
    def missing(self) -> tuple[str, ...]:
        """Device resources that it asks for and was admitted without, as nothing here offers them."""
        known = self.granted.devices.plugins
        if not any(name not in known for one in self.pod.containers for name, _ in one.devices):
            return ()
        alignment = self.alignment
        return alignment.missing if alignment is not None else ()

    def numas(self, machine: Machine) -> int:
        """The NUMA nodes on which it has CPUs, memory or devices; 0: it has none of its own."""
        if not self.admitted:
            return 0
        return numas_of(machine, self.granted, self.pod.uid)


def numas_of(machine: Machine, state: NodeState, uid: str) -> int:
    """The NUMA nodes, packed, on which a pod has CPUs, memory or devices of its own."""
    holding = held_by(state, uid)
    mask = holding.numa
    for numa, cpus in machine.layout.numas.items():
        if cpus & holding.cpus:
            mask |= 1 << numa
    for resources in state.devices.grants.get(uid, {}).values():
        for grant in resources.values():
            for numa, _ in grant.per_numa:
                if numa >= 0:
                    mask |= 1 << numa
    return mask


@dataclass(frozen=True, slots=True)
class Resized:
    """What became of one resize when it was tried."""

    name: str
    """Namespace and name of the pod."""
    result: ResizeResult
    held: tuple[tuple[str, int], ...] = ()
    """Containers that keep exclusive CPUs, packed, of another number than they ask for now."""
    refusal: str = ""
    """Why the API server would not take it; the kubelet never hears of it."""


# --- copies of a pod --------------------------------------------------------------------------

REJECTED, CRASHED, START_ERROR, SUMS, LIMIT = "rejected", "crashed", "start-error", "sums", "limit"


@dataclass(frozen=True, slots=True)
class FillEnd:
    """Why there is no further copy."""

    by: str
    """``rejected``, ``crashed``, ``start-error``, ``sums`` or ``limit``."""
    reason: str = ""
    message: str = ""
    why: str = ""
    """What ran out, in a sentence."""


@dataclass(slots=True)
class Filled:
    """The copies that fit."""

    pod: RawPod
    machine: Machine
    copies: list[Simulated] = field(default_factory=list)
    stop: FillEnd = field(default_factory=lambda: FillEnd(LIMIT))

    @property
    def count(self) -> int:
        """How many."""
        return len(self.copies)


# --- one node ---------------------------------------------------------------------------------


@dataclass(slots=True)
class StepResult:
    """What came of one step."""

    step: ScenarioStep
    pods: list[Simulated] = field(default_factory=list)
    """Pods that came."""
    again: list[Simulated] = field(default_factory=list)
    """Running pods that were admitted again, or refused."""
    named: list[tuple[str, bool]] = field(default_factory=list)
    """Pods that the step is about, and whether they were there."""
    uids: list[str] = field(default_factory=list)
    """Those of these pods, in the same order."""
    pushes: tuple[Started, ...] = ()
    """Containers that got other CPUs."""
    resizes: list[Resized] = field(default_factory=list)
    """Resizes that were tried, in order."""
    filled: Filled | None = None
    refusal: Refusal | None = None
    """The kubelet does not start again."""


@dataclass(slots=True)
class ScenarioRun:
    """All that happened to a node, and how it ended."""

    state: NodeState
    rules: Rules
    version: Version = DEFAULT
    results: list[StepResult] = field(default_factory=list)
    total: int = 0
    """Pods that should come."""
    done: int = 0
    """Pods that came so far, copies of a fill included."""
    ended: bool = False
    """Nothing can follow: the kubelet crashed or did not start."""
    interrupted: bool = False
    names: dict[str, str] = field(default_factory=dict)
    """Uid → namespace and name of every pod that ever came."""
    waited: set[str] = field(default_factory=set)
    """Uids of pods that waited for another size before anything happened, or came so."""
    owners: dict[str, str] = field(default_factory=dict)
    """Uid → whose pod it is, for maps with too many pods to name each."""

    @property
    def pods(self) -> list[Simulated]:
        """All pods that came, copies of a fill left out."""
        return [pod for result in self.results for pod in result.pods]

    @property
    def admitted(self) -> int:
        """How many of them were let in."""
        return sum(pod.admitted for pod in self.pods)

    @property
    def incomplete(self) -> int:
        """How many of these ask for a resource that nothing here offers."""
        return sum(bool(pod.missing) for pod in self.pods)

    @property
    def lost(self) -> int:
        """Running pods that a restart refused."""
        return sum(not pod.admitted for result in self.results for pod in result.again)

    @property
    def unsized(self) -> int:
        """Pods that do not have the size they were given, and resizes that nobody would take."""
        refused = sum(bool(resize.refusal) for result in self.results for resize in result.resizes)
        return refused + len(self.state.resizes.desired.keys() - self.waited)

    @property
    def preempted(self) -> int:
        """Pods that were ended for critical ones."""
        return sum(len(pod.preempted) for result in self.results for pod in (*result.pods, *result.again))

    @property
    def fills(self) -> list[Filled]:
        """What came of every fill."""
        return [result.filled for result in self.results if result.filled is not None]

    @property
    def well(self) -> bool:
        """Everything was let in with all it asks for, and stayed in; of all to be filled in a copy fits."""
        return (
            not self.ended
            and self.admitted == self.total
            and not self.lost
            and not self.unsized
            and not self.preempted
            and not self.incomplete
            and all(filled.count for filled in self.fills)
        )


# --- many nodes -------------------------------------------------------------------------------

PLACED, NOWHERE = "placed", "nowhere"


@dataclass(frozen=True, slots=True)
class Sent:
    """Where a pod went."""

    pod: RawPod
    verdict: str
    """``placed``, ``nowhere`` or ``rejected``."""
    node: str = ""
    outcome: Simulated | None = None
    reasons: tuple[tuple[str, int], ...] = ()
    """Why it went nowhere: reason, and how many nodes gave it."""
    why: str = ""
    """Of a node whose kubelet would refuse it: what decided there."""


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One node of many, as it is in the end."""

    name: str
    version: Version
    pods: int
    rejected: int
    """Pods that were sent here and refused."""
    exclusive_cpus: int
    allocatable: dict[str, int]
    requested: dict[str, int]
    resources: tuple[str, ...]
    """Those of device plugins."""


@dataclass(frozen=True, slots=True)
class FleetRun:
    """All nodes, and what became of the pods."""

    nodes: tuple[FleetNode, ...]
    choice: str
    sent: Sequence[Sent]
    total: int
    interrupted: bool = False

    @property
    def placed(self) -> int:
        """How many pods found a node."""
        return sum(sent.verdict == PLACED for sent in self.sent)
