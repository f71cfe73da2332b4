"""The CPU Manager: containers one by one, or a pod as a whole (gate PodLevelResourceManagers).

Counterpart: pkg/kubelet/cm/cpumanager/cpu_manager.go, and ``AllocatePod`` of policy_static.go.
"""

from numawise.engine.cpu.allocate import aligned_choice, allocate, choose, collect, smt_failure
from numawise.engine.cpu.hints import container_hints, empty_pool, exclusive_cpus, pod_hints
from numawise.engine.cpu.take import NotEnough
from numawise.engine.failure import EMPTY_SHARED_POOL, Failure
from numawise.engine.hint import NO_PREFERENCE, Answer, Hint
from numawise.engine.provider import Admission
from numawise.engine.trace import Defect, Note
from numawise.machine.model import Machine
from numawise.request.model import ContainerRequest, PodRequest, Role
from numawise.rules.model import Rules


class CpuManager:
    """Exclusive CPUs."""

    name = "cpu"

    def present(self, rules: Rules) -> bool:
        """True when the kubelet has a CPU Manager."""
        return rules.cpu_manager

    def collect(self, admission: Admission) -> None:
        """Take back the CPUs of pods that are gone."""
        collect(admission.draft, admission.note)

    def hints(self, admission: Admission, container: ContainerRequest | None) -> Answer:
        """Hints for a container or the pod."""
        if admission.skipped:
            return NO_PREFERENCE
        return pod_hints(admission) if container is None else container_hints(admission, container)

    def allocate(self, admission: Admission, container: ContainerRequest, affinity: Hint) -> Failure | None:
        """Give a container its exclusive CPUs."""
        return allocate(admission, container, affinity.mask)

    def allocate_pod(self, admission: Admission, affinity: Hint) -> Failure | None:
        """Take the pod's CPUs once, then give each container its part."""
        rules, pod, note = admission.rules, admission.pod, admission.note
        machine, cpu = admission.machine, admission.draft.cpu
        if not rules.cpu_static:
            return None
        self.collect(admission)
        if admission.skipped:
            return None
        total = pod.whole_cpus if pod.guaranteed else 0
        if not total:
            return None
        empty = empty_pool(rules, pod, total)
        if empty:
            return Failure(empty, EMPTY_SHARED_POOL)
        if rules.cpu_options.full_cores:
            failure = smt_failure(machine.layout, rules, cpu.shared, total)
            if failure:
                return failure
        if pod.uid in cpu.pods.rows:
            note(Defect("pod-level-allocated-again", pod.uid))
        free = cpu.shared & ~rules.reserved_cpus
        cpus = aligned_choice(machine.layout, rules, free, total, affinity.mask, None, note)
        if isinstance(cpus, NotEnough):
            return Failure(cpus.message)
        cpu.shared &= ~cpus
        cpu.pods.put(pod.uid, cpus)
        parts = _divide(machine, rules, pod, cpus, note)
        if isinstance(parts, NotEnough):  # the pod's CPUs stay taken, and are never collected
            return Failure(parts.message)
        for container, part in parts.items():
            cpu.assign(pod.uid, container, part)
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
