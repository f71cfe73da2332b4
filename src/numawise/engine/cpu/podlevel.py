"""Give a whole pod its CPUs and divide them among its containers (gate PodLevelResourceManagers)."""

from numawise.engine.cpu.allocate import aligned_choice, choose, collect, smt_failure
from numawise.engine.cpu.hints import empty_pool, exclusive_cpus
from numawise.engine.cpu.take import NotEnough
from numawise.engine.failure import EMPTY_SHARED_POOL, Failure
from numawise.engine.state import Draft
from numawise.engine.trace import Defect, Note, ignore
from numawise.machine.model import Machine
from numawise.request.model import PodRequest, Role
from numawise.rules.model import Rules


def allocate_pod(
    machine: Machine,
    rules: Rules,
    draft: Draft,
    pod: PodRequest,
    affinity: int | None,
    note: Note = ignore,
) -> Failure | None:
    """Take the pod's CPUs once, then give each container its part."""
    if not rules.cpu_static:
        return None
    collect(draft, note)
    total = pod.whole_cpus if pod.guaranteed else 0
    if not total:
        return None
    empty = empty_pool(rules, pod, total)
    if empty:
        return Failure(empty, EMPTY_SHARED_POOL)
    if rules.cpu_options.full_cores:
        failure = smt_failure(machine.layout, rules, draft, total)
        if failure:
            return failure
    if pod.uid in draft.cpu_pods:
        note(Defect("pod-level-allocated-again", pod.uid))
    free = draft.shared & ~rules.reserved_cpus
    cpus = aligned_choice(machine.layout, rules, free, total, affinity, None, note)
    if isinstance(cpus, NotEnough):
        return Failure(cpus.message)
    draft.shared &= ~cpus
    draft.set_key("cpu_pods", pod.uid, cpus)
    parts = _divide(machine, rules, pod, cpus, note)
    if isinstance(parts, NotEnough):  # the pod's CPUs stay taken, and nobody collects them
        return Failure(parts.message)
    for container, part in parts.items():
        draft.put("cpus", pod.uid, container, part)
    return None


def _divide(
    machine: Machine, rules: Rules, pod: PodRequest, cpus: int, note: Note
) -> dict[str, int] | NotEnough:
    """Each container's part: exclusive ones theirs, all others what is left for sharing."""
    parts: dict[str, int] = {}
    rest = cpus  # without the sidecars so far, and in the end without the apps
    for container in pod.containers:
        count = exclusive_cpus(rules, pod, container)
        if count:
            part = choose(machine.layout, rules, rest, count, note)
            if isinstance(part, NotEnough):
                return part
            parts[container.name] = part
            if container.role is not Role.INIT:
                rest &= ~part
        elif container.role is Role.INIT:
            parts[container.name] = rest
    for container in pod.containers:
        parts.setdefault(container.name, rest)
    return parts
