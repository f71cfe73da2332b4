"""The one call: what the kubelet does, given a machine, rules, the present state and a pod.

Counterpart: ``canAdmitPod`` of pkg/kubelet/allocation/allocation_manager.go, with its handlers in the order
of pkg/kubelet/kubelet.go, and ``Admit`` of pkg/kubelet/lifecycle/predicate.go.

Rules kept here:

1. In this order: pressure on the node and kernel parameters; the managers, who allocate; operating system and
   groups; the sums, labels, ports and taints; a node that shuts down.  The first that refuses ends it; what
   the pod was given by then stays until it is collected.
2. Where sums alone stand against a critical pod, other pods are ended, and it is admitted.  Their CPUs,
   memory and devices are collected later: the managers have allocated already.
3. Without sums the managers alone decide, as in recordings of these.
"""

from collections.abc import Mapping

from numawise.engine.draft import Draft
from numawise.engine.failure import UNEXPECTED, Crash
from numawise.engine.hint import Hint
from numawise.engine.matching import (
    NODE_AFFINITY,
    Unmet,
    mismatches,
    other_system,
    shutting_down,
    turned_away,
    unsupported_groups,
)
from numawise.engine.predicates import Insufficient, Sums, others, shortages
from numawise.engine.preemption import Victims, victims
from numawise.engine.provider import Admission, Pick, lowest
from numawise.engine.state import NodeState
from numawise.engine.topology.scope import Refused, run
from numawise.engine.trace import Defect, Note, PodsPreempted, ignore
from numawise.machine.model import Machine
from numawise.request.model import PodRequest, Role
from numawise.rules.model import Rules
from numawise.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class Admitted:
    """The pod may run."""

    state: NodeState
    affinity: Mapping[str, Hint]
    """The stored affinity by container."""
    preempted: tuple[str, ...] = ()
    """Uids of the pods that were ended for it, in this order."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pod fails, with the kubelet's own reason and message."""

    state: NodeState
    """What it was given before the refusal is still there, until it is collected."""
    reason: str
    message: str
    container: str = ""
    provider: str = ""
    """Whose allocation failed; '' when the topology policy or the predicates refused."""
    error: str = ""
    by_chance: bool = False
    """Several device resources were asked for: which of them is complained about is chance."""
    insufficient: Insufficient | None = None
    """What the sums had too little of; None: something else refused."""
    unmet: Unmet | None = None
    """What the node is not, or the pod may not; None: something else refused."""
    preempted: tuple[str, ...] = ()
    """Uids of the pods that were ended for it all the same."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The kubelet does not survive the pod."""

    message: str


Decision = Admitted | Rejected | Crashed


def admit(
    machine: Machine,
    rules: Rules,
    state: NodeState,
    pod: PodRequest,
    note: Note = ignore,
    pick: Pick = lowest,
    sums: Sums | None = None,
    *,
    resize: bool = False,
) -> Decision:
    """Decide on one pod, exactly as the kubelet's admission does; without ``sums``: as its managers do.

    ``resize``: the pod runs, and asks for another size; refused, it runs on as it is.
    """
    early = turned_away(rules, sums.node, pod) if sums is not None else None
    if early is not None:
        left = _left_behind(Draft(state), pod, resize=resize)
        return Rejected(left, early.reason, early.message, unmet=early)
    if note is not ignore and state.reusable.by(pod.uid):
        note(Defect("reuse-outlives-pod", pod.uid))
    draft = Draft(state, pod)
    draft.last_pod = pod.uid
    if pod.uid in draft.departed:
        draft.departed -= {pod.uid}
    managed = _as_reported(rules, state, pod) if resize else pod
    try:
        outcome = run(Admission(machine, rules, draft, managed, note, pick, resize))
    except Crash as crash:
        note(Defect("crash", str(crash)))
        return Crashed(str(crash))
    if isinstance(outcome, Refused):
        return Rejected(
            _left_behind(draft, pod, resize=resize),
            outcome.reason,
            outcome.message,
            outcome.container,
            outcome.provider,
            outcome.error,
            outcome.by_chance,
        )
    spares = resize and rules.resize.spares_others
    judged = _judge(rules, sums, draft, pod, spares=spares) if sums is not None else Judged()
    if judged.preempted.uids:
        note(PodsPreempted(judged.preempted.uids, judged.preempted.open_to))
        for uid in judged.preempted.uids:
            draft.goes(uid)
    if judged.reason:
        return Rejected(
            _left_behind(draft, pod, resize=resize),
            judged.reason,
            judged.message,
            insufficient=judged.insufficient,
            unmet=judged.unmet,
            preempted=judged.preempted.uids,
        )
    draft.active.put(pod.uid, pod)
    return Admitted(draft.freeze(), outcome, judged.preempted.uids)


def _left_behind(draft: Draft, pod: PodRequest, *, resize: bool) -> NodeState:
    """The state once a pod is refused: it goes, unless it runs already and only asked for another size."""
    if not resize:
        draft.goes(pod.uid)
    return draft.freeze()


def _as_reported(rules: Rules, state: NodeState, pod: PodRequest) -> PodRequest:
    """A pod that is resized, as the managers see it: where they look at its status, as it is."""
    before = state.active[pod.uid]
    if before is None or not rules.behaviour.managers_read_the_status:
        return pod
    containers = tuple(
        one if one.role is Role.INIT else replace(one, requests=old.requests)
        for one, old in zip(pod.containers, before.containers, strict=True)
    )
    return replace(pod, containers=containers)


@dataclass(frozen=True, slots=True)
class Judged:
    """What the predicates said; without a reason: yes."""

    reason: str = ""
    message: str = ""
    insufficient: Insufficient | None = None
    unmet: Unmet | None = None
    preempted: Victims = Victims(())


def _judge(rules: Rules, sums: Sums, draft: Draft, pod: PodRequest, *, spares: bool) -> Judged:
    """The predicates, and what follows them (rule 1)."""
    node, first = sums.node, rules.behaviour.pod_system_judged_first
    unmet = (other_system(rules, pod) if first else None) or unsupported_groups(rules, node, pod)
    if unmet is not None:
        return Judged(unmet.reason, unmet.message, unmet=unmet)
    judged = _predicates(rules, sums, draft, pod, makes_room=pod.constraints.critical and not spares)
    if judged.reason:
        return judged
    unmet = (None if first else other_system(rules, pod)) or shutting_down(node)
    if unmet is not None:
        return Judged(unmet.reason, unmet.message, unmet=unmet, preempted=judged.preempted)
    return judged


def _predicates(rules: Rules, sums: Sums, draft: Draft, pod: PodRequest, *, makes_room: bool) -> Judged:
    allocated = draft.devices.allocated.rows if pod.uid in draft.devices.rows else {}
    short = shortages(rules, sums, pod, allocated)
    unmet = mismatches(rules, sums.node, pod, others(draft.state, pod.uid))
    again = rules.behaviour.node_read_again and [one.reason for one in unmet] == [NODE_AFFINITY]
    if again and not short:
        short = shortages(rules, sums, pod, allocated, again=True)
    if not short and not unmet:
        return Judged()
    if not makes_room or unmet:
        if short and not makes_room:
            return Judged(short[0].reason, short[0].message, short[0])
        return Judged(unmet[0].reason, unmet[0].message, unmet=unmet[0])
    ended = victims(rules, draft.state, pod, others(draft.state, pod.uid), short)
    if isinstance(ended, str):
        return Judged(UNEXPECTED, ended, short[0])
    return Judged(preempted=ended)
