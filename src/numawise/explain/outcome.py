"""What of an admitted pod is aligned, and what else there is to know about a refusal."""

from collections.abc import Mapping, Sequence

from numawise.codec.claim_manifest import aligned_claim
from numawise.engine.admit import Admitted, Rejected
from numawise.engine.lifecycle import start_containers
from numawise.engine.matching import not_judged
from numawise.engine.state import NodeState, held_by
from numawise.explain.case import ExplainCase
from numawise.explain.merge import Cause
from numawise.explain.words import numa_text, pod_name
from numawise.render.alignment import alignment_text
from numawise.render.demands import not_judged_text, preempted_text
from numawise.render.words import both
from numawise.results.alignment import Alignment, alignment_of
from numawise.results.claims import ClaimOutcome, claim_outcomes

MOST_OWNERS = 3
SCHEDULER_IS_BLIND = "the scheduler does not see NUMA nodes and may send it here each time"
LEFT = "leaving a failed pod behind each time"
CONTROLLERS: Mapping[str, str] = {
    "StatefulSet": f"keeps recreating it: {SCHEDULER_IS_BLIND}",
    "ReplicaSet": f"keeps recreating it, {LEFT}: {SCHEDULER_IS_BLIND}",
    "Deployment": f"keeps recreating it, {LEFT}: {SCHEDULER_IS_BLIND}",
    "ReplicationController": f"keeps recreating it, {LEFT}: {SCHEDULER_IS_BLIND}",
    "DaemonSet": "keeps recreating it on this node",
    "Job": f"recreates it until its backoffLimit is reached: {SCHEDULER_IS_BLIND}",
    "CronJob": f"recreates it until its backoffLimit is reached: {SCHEDULER_IS_BLIND}",
}


def admitted_alignment(case: ExplainCase, decision: Admitted) -> Alignment:
    """What of the pod is aligned, and why the rest is not."""
    state, started = start_containers(case.machine, case.rules, decision.state, case.pod, decision.affinity)
    granted = NodeState(decision.state.cpu, decision.state.memory, state.devices)
    return alignment_of(case.pod, case.node.facts, granted, decision.affinity, started)


def admitted_answer(alignment: Alignment, lost: Cause | None) -> tuple[str, tuple[str, ...]]:
    """What is not aligned, and where the rest is; the resources that kept it from being together."""
    if lost is None or not lost.text or not alignment.scattered:
        return alignment_text(alignment), ()
    return alignment_text(alignment, lost.text), lost.resources


# --- remarks --------------------------------------------------------------------------------


def claim_remarks(case: ExplainCase, decision: Admitted | None) -> tuple[str, ...]:
    """What the pod has by claim, which the kubelet does not align."""
    if not case.pod.claims:
        return ()
    return tuple(one.text[:1].upper() + one.text[1:] for one in _claims(case, decision))


def claim_manifests(case: ExplainCase, decision: Admitted) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The pod's claims as they would keep devices together which they do not; and why some are not shown."""
    manifests, problems = [], []
    for claim, outcome in zip(case.pod.claims, _claims(case, decision), strict=True):
        if not outcome.beside or outcome.aligned or claim.together or not claim.name:
            continue
        users = [one for one in case.pod.containers if one.name in claim.containers]
        cpus = max((one.whole_cpus for one in users if case.pod.guaranteed), default=0)
        manifest, problem = aligned_claim(claim, case.version, cpus)
        manifests += [manifest] if manifest else []
        if problem:
            problems.append(f"Claim {claim.name} is not shown with a constraint that aligns it: {problem}")
    return tuple(manifests), tuple(problems)


def _claims(case: ExplainCase, decision: Admitted | None) -> tuple[ClaimOutcome, ...]:
    state = case.state
    if decision is not None:
        devices, _ = start_containers(case.machine, case.rules, decision.state, case.pod, decision.affinity)
        state = NodeState(decision.state.cpu, decision.state.memory, devices.devices)
    return claim_outcomes(case.pod, state, case.machine, admitted=decision is not None)


def admitted_remarks(case: ExplainCase, decision: Admitted) -> tuple[str, ...]:
    """What else there is to know about a pod that is admitted."""
    found = []
    if decision.preempted:
        text = preempted_text([pod_name(case, uid) for uid in decision.preempted])
        found.append(f"{text[0].upper()}{text[1:]}")
    return (*found, *_left_out(case))


def _left_out(case: ExplainCase) -> list[str]:
    """What could not be judged."""
    fields = not_judged(case.node.description, case.pod, case.node.allocatable())
    return [f"{text[0].upper()}{text[1:]}" for text in [not_judged_text(fields)]] if fields else []


def remarks_of(case: ExplainCase, decision: Rejected | None) -> tuple[str, ...]:
    """What else there is to know about a refusal."""
    found = [*claim_remarks(case, None)]
    controller = recreation(case.raw.owner)
    if decision is not None and controller:
        found.append(controller)
    if decision is not None:
        found += _groups(case, decision)
        found += _left_out(case)
    return tuple(found)


def recreation(owner: str) -> str:
    """What a controller makes of a pod that was refused; '' when there is none."""
    habit = CONTROLLERS.get(owner.partition(" ")[0])
    return f"The kubelet does not try a rejected pod again, but {owner} {habit}" if habit else ""


def _groups(case: ExplainCase, decision: Rejected) -> list[str]:
    """Which pods keep NUMA nodes together as memory groups."""
    state = decision.state
    groups = {node.cells for node in state.memory.numa.values() if node.cells.bit_count() > 1 and node.users}
    found = []
    for cells in sorted(groups):
        owners = _owners(case, state, cells)
        if owners:
            found.append(
                f"{numa_text(cells)} are one memory group as long as {both(owners)} "
                f"{'runs' if len(owners) == 1 else 'run'}: they serve only pods that take memory from "
                "exactly these NUMA nodes"
            )
    return found


def _owners(case: ExplainCase, state: NodeState, cells: int) -> Sequence[str]:
    names = []
    for uid in state.active:
        if uid != case.pod.uid and held_by(state, uid).numa == cells:
            pod = state.active[uid]
            names.append(f"pod {pod.name}" if pod else f"pod {uid}")
    if len(names) > MOST_OWNERS:
        return [*names[:MOST_OWNERS], f"{len(names) - MOST_OWNERS} others"]
    return names
