"""Where an admitted pod went, and what else there is to know about a refusal."""

from collections.abc import Mapping, Sequence

from numawise.codec.claim_manifest import UNKNOWN_CLASS, aligning_attribute, aligning_claim
from numawise.engine.admit import Admitted, Rejected
from numawise.engine.lifecycle import start_containers
from numawise.engine.matching import not_judged
from numawise.engine.state import NodeState, held_by
from numawise.explain.case import ExplainCase
from numawise.explain.merge import Cause
from numawise.explain.words import nodes_text, numa_text, pod_name
from numawise.machine.model import CpuLayout
from numawise.render.demands import not_judged_text, preempted_text
from numawise.render.words import both, bytes_text, counted
from numawise.request.claims import DeviceRequest
from numawise.request.model import MEMORY, ContainerRequest
from numawise.results.claims import ClaimOutcome, claim_outcomes
from numawise.rules.model import NONE
from numawise.sets import format_ids

MOST_CONTAINERS = 4
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


def admitted_answer(case: ExplainCase, decision: Admitted, lost: Cause | None) -> tuple[str, tuple[str, ...]]:
    """Where the pod went, and whether everything lies together; the resources that kept it from that."""
    state, _ = start_containers(case.machine, case.rules, decision.state, case.pod, decision.affinity)
    state = NodeState(decision.state.cpu, decision.state.memory, state.devices)
    placed = {one.name: _placed(case, state, one) for one in case.pod.containers}
    parts = {name: found for name, found in placed.items() if found}
    if not parts:
        return f"Admitted: nothing to align, {_why_nothing(case)}", ()
    masks = {name: _mask(found) for name, found in parts.items()}
    together = 0
    for mask in masks.values():
        together |= mask
    if together.bit_count() == 1:
        what = "what the kubelet aligns is" if case.pod.claims else "everything"
        return f"Admitted: {what} on {numa_text(together)}: {_together(parts)}", ()
    where = "; ".join(
        _container_text(name, found, len(placed)) for name, found in list(parts.items())[:MOST_CONTAINERS]
    )
    if len(parts) > MOST_CONTAINERS:
        where += f"; and {counted(len(parts) - MOST_CONTAINERS, 'more container')}"
    if lost is not None and lost.text:
        return f"Admitted, but not aligned: {where}; {lost.text}", lost.resources
    if all(mask.bit_count() == 1 for mask in masks.values()):
        return f"Admitted: each container on a NUMA node of its own: {where}", ()
    if case.rules.topology_policy == NONE:
        return f"Admitted, but not aligned, as policy none does not look at NUMA nodes: {where}", ()
    return f"Admitted on {nodes_text(together.bit_count())}, as few as it needs: {where}", ()


Parts = list[tuple[int, str]]
"""NUMA nodes, and what is there."""


def _placed(case: ExplainCase, state: NodeState, container: ContainerRequest) -> Parts:
    uid = case.pod.uid
    found: Parts = []
    cpus = state.cpu.assignments.get(uid, {}).get(container.name, 0)
    if cpus:
        found.append((_numas_of(case.machine.layout, cpus), _cpus_text(case.machine.layout, cpus)))
    for block in state.memory.assignments.get(uid, {}).get(container.name, ()):
        if block.size:
            what = "memory" if block.type == MEMORY else block.type
            found.append((block.numa, f"{bytes_text(block.size)} of {what} on {numa_text(block.numa)}"))
    for resource, grant in state.devices.grants.get(uid, {}).get(container.name, {}).items():
        mask = sum(1 << numa for numa, _ in grant.per_numa if numa >= 0)
        where = f" on {numa_text(mask)}" if mask else ""
        found.append((mask, f"{resource} {', '.join(sorted(grant.ids))}{where}"))
    return found


def _numas_of(layout: CpuLayout, cpus: int) -> int:
    return sum(1 << numa for numa, own in layout.numas.items() if own & cpus)


def _cpus_text(layout: CpuLayout, cpus: int) -> str:
    parts = []
    for numa, own in layout.numas.items():
        if own & cpus:
            parts.append(
                f"{counted((own & cpus).bit_count(), 'CPU')} ({format_ids(own & cpus)}) on NUMA {numa}"
            )
    return both(parts)


def _mask(parts: Parts) -> int:
    mask = 0
    for nodes, _ in parts:
        mask |= nodes
    return mask


def _together(parts: Mapping[str, Parts]) -> str:
    """What lies on one NUMA node, without naming it each time."""
    some = list(parts.items())[:MOST_CONTAINERS]
    texts = []
    for name, found in some:
        own = ", ".join(text.rpartition(" on NUMA ")[0] or text for _, text in found)
        texts.append(own if len(parts) == 1 else f"{name} {own}")
    if len(parts) > MOST_CONTAINERS:
        texts.append(f"and {counted(len(parts) - MOST_CONTAINERS, 'more container')}")
    return "; ".join(texts)


def _container_text(name: str, found: Parts, count: int) -> str:
    own = ", ".join(text for _, text in found)
    return own if count == 1 else f"{name} {own}"


def _why_nothing(case: ExplainCase) -> str:
    """Why neither CPUs nor memory nor devices were placed."""
    pod, rules = case.pod, case.rules
    if not rules.cpu_static and not rules.memory_static:
        return "as neither the CPU nor the Memory Manager has a static policy here"
    if pod.pod_level and not rules.pod_level_managers:
        return "as pods with resources of their own (spec.resources) share CPUs and memory"
    if not pod.guaranteed:
        return f"as a {pod.qos} pod shares CPUs and memory with others"
    if not any(one.whole_cpus for one in pod.containers):
        return "as only whole CPUs are handed out and it asks for none"
    return "as it asks for nothing that is handed out here"


# --- remarks --------------------------------------------------------------------------------


def claim_remarks(case: ExplainCase, decision: Admitted | None) -> tuple[str, ...]:
    """What the pod has by claim, which the kubelet does not align."""
    if not case.pod.claims:
        return ()
    return tuple(one.text[:1].upper() + one.text[1:] for one in _claims(case, decision))


def claim_manifests(case: ExplainCase, decision: Admitted) -> tuple[str, ...]:
    """Claims that would keep devices together which the pod's own do not."""
    manifests = []
    for claim, outcome in zip(case.pod.claims, _claims(case, decision), strict=True):
        if not outcome.beside or outcome.aligned or claim.together or not claim.name:
            continue
        users = [one for one in case.pod.containers if one.name in claim.containers]
        requests = claim.requests or (DeviceRequest("devices", UNKNOWN_CLASS),)
        name = f"{claim.template or claim.claim or claim.name}-together"
        attribute = aligning_attribute(claim, case.version)
        cpus = max((one.whole_cpus for one in users if case.pod.guaranteed), default=0)
        manifests.append(aligning_claim(name, requests, attribute, case.version, cpus))
    return tuple(manifests)


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
