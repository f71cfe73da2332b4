"""The one call: what the kubelet does, given a machine, rules, the present state and a pod.

Counterpart: ``canAdmitPod`` of pkg/kubelet/allocation/allocation_manager.go, with its handlers for resources
and predicates.

Rules kept here:

1. The managers allocate first, and the predicates judge the sums afterwards.  Either may refuse the pod; what
   it was given by then stays until it is collected.
2. Without sums the managers alone decide, as in recordings of these.
"""

from collections.abc import Mapping

from numawise.engine.draft import Draft
from numawise.engine.failure import Crash
from numawise.engine.hint import Hint
from numawise.engine.predicates import Insufficient, Sums, asked, fits
from numawise.engine.provider import Admission, Pick, lowest
from numawise.engine.state import NodeState
from numawise.engine.topology.scope import Refused, run
from numawise.engine.trace import Defect, Note, ignore
from numawise.machine.model import Machine
from numawise.request.model import PodRequest
from numawise.rules.model import Rules
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class Admitted:
    """The pod may run."""

    state: NodeState
    affinity: Mapping[str, Hint]
    """The stored affinity by container."""


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
    """What the sums had too little of; None: the managers refused."""


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
) -> Decision:
    """Decide on one pod, exactly as the kubelet's admission does; without ``sums``: as its managers do."""
    if note is not ignore and state.reusable.by(pod.uid):
        note(Defect("reuse-outlives-pod", pod.uid))
    draft = Draft(state, pod)
    draft.last_pod = pod.uid
    if pod.uid in draft.departed:
        draft.departed -= {pod.uid}
    try:
        outcome = run(Admission(machine, rules, draft, pod, note, pick))
    except Crash as crash:
        note(Defect("crash", str(crash)))
        return Crashed(str(crash))
    short = None
    if sums is not None and not isinstance(outcome, Refused):
        short = fits(rules, sums, asked(pod), draft.devices.allocated.rows)
        if short is not None:
            outcome = Refused(short.reason, short.message)
    if isinstance(outcome, Refused):
        draft.goes(pod.uid)
        return Rejected(
            draft.freeze(),
            outcome.reason,
            outcome.message,
            outcome.container,
            outcome.provider,
            outcome.error,
            outcome.by_chance,
            short,
        )
    draft.active.put(pod.uid, pod)
    return Admitted(draft.freeze(), outcome)
