"""What the kubelet did with one pod, as a value."""

from collections.abc import Callable, Mapping

from numawise.engine.admit import Admitted, Crashed, Rejected
from numawise.engine.resize import ALLOCATED
from numawise.engine.trace import Step
from numawise.results.alignment import Alignment
from numawise.results.claims import ClaimOutcome
from numawise.results.plain import hidden, optional
from numawise.results.simulation import Resized, Simulated
from numawise.sets import CpuSet, NumaSet
from numawise.values import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class ContainerGrant:
    """What one container received."""

    name: str
    cpus: CpuSet
    """CPUs it may run on."""
    exclusive: bool
    """They are its own; otherwise it shares them with others."""
    numa: NumaSet
    """The NUMA nodes that its resources were aligned to; empty: no preference."""
    memory: NumaSet
    """NUMA nodes its memory must come from; empty: any."""
    devices: Mapping[str, tuple[str, ...]]
    error: str = ""
    """Why it could not start; '' when it could."""


@dataclass(frozen=True, slots=True)
class PodDecision:
    """What the kubelet did with one pod."""

    name: str
    namespace: str
    uid: str
    admitted: bool
    reason: str = ""
    """The kubelet's own reason, such as ``TopologyAffinityError``; '' when admitted."""
    message: str = ""
    crashed: bool = False
    """The kubelet does not survive the pod."""
    preempted: tuple[str, ...] = ()
    """Uids of the pods that were ended to make room for this critical one."""
    not_judged: tuple[str, ...] = ()
    """Fields of the pod that were left out, as nothing is known of the node's labels and storage."""
    containers: Mapping[str, ContainerGrant] = field(default_factory=dict)
    """By name; empty when the pod was not admitted."""
    answer: str = ""
    """Of an admitted pod in one sentence: what is not aligned and why, and where the rest is."""
    alignment: Alignment | None = None
    """The same as values; None when the pod was not admitted."""
    claims: tuple[ClaimOutcome, ...] = optional(())
    """What it has by claim, which the kubelet does not align."""
    steps: tuple[Step, ...] = hidden(())
    """What the engine noted on the way: hints, merges, CPUs taken."""


@dataclass(frozen=True, slots=True)
class PodResize:
    """What the kubelet did with a resize of one pod."""

    name: str
    """Namespace and name."""
    uid: str
    outcome: str
    """``allocated``, ``deferred``, ``infeasible``, ``unchanged``, or ``refused`` by the API server."""
    reason: str = ""
    """That of the pod's condition: ``Deferred`` or ``Infeasible``."""
    message: str = ""
    cause: str = ""
    """Of a deferred one: the reason of the admission that failed, such as ``OutOfcpu``."""

    @property
    def allocated(self) -> bool:
        """True when the pod has its new size."""
        return self.outcome == ALLOCATED


def resize_of(resize: Resized) -> PodResize:
    """What became of a resize."""
    result = resize.result
    if resize.refusal:
        return PodResize(resize.name, result.uid, "refused", message=resize.refusal)
    return PodResize(resize.name, result.uid, result.outcome, result.reason, result.message, result.cause)


def decision_of(outcome: Simulated, words: Callable[[Alignment], str]) -> PodDecision:
    """What became of a simulated pod; ``words``: an alignment in one sentence."""
    pod, decision = outcome.pod, outcome.decision
    known = PodDecision(
        pod.name,
        pod.namespace,
        pod.uid,
        outcome.admitted,
        preempted=outcome.preempted,
        not_judged=outcome.not_judged,
        claims=outcome.claims,
        steps=outcome.steps,
    )
    match decision:
        case Admitted():
            grants = {each.name: _grant(outcome, each.name, decision) for each in pod.containers}
            alignment = outcome.alignment
            answer = words(alignment) if alignment is not None else ""
            return replace(known, containers=grants, answer=answer, alignment=alignment)
        case Rejected(reason=reason, message=message):
            return replace(known, reason=reason, message=message)
        case Crashed(message=message):
            return replace(known, message=message, crashed=True)


def _grant(outcome: Simulated, name: str, admitted: Admitted) -> ContainerGrant:
    uid, granted = outcome.pod.uid, outcome.granted
    own = granted.cpu.assignments.get(uid, {}).get(name)
    started = next((each for each in outcome.started if each.container == name), None)
    memory = 0
    for block in granted.memory.assignments.get(uid, {}).get(name, ()):
        memory |= block.numa
    grants = granted.devices.grants.get(uid, {}).get(name, {})
    hint = admitted.affinity.get(name)
    return ContainerGrant(
        name=name,
        cpus=CpuSet(started.cpus if started else own or 0),
        exclusive=own is not None,
        numa=hint.numa if hint is not None and hint.numa is not None else NumaSet(),
        memory=NumaSet(memory),
        devices={resource: tuple(sorted(grant.ids)) for resource, grant in grants.items()},
        error=started.error if started else "",
    )
