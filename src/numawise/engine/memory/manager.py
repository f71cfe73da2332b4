"""The Memory Manager: containers one by one, or a pod as a whole (gate PodLevelResourceManagers).

Counterpart: pkg/kubelet/cm/memorymanager/memory_manager.go, and ``AllocatePod`` of policy_static.go.
"""

from collections.abc import Iterable

from numawise.engine.failure import EMPTY_SHARED_POOL, Failure
from numawise.engine.hint import NO_PREFERENCE, Answer, Hint
from numawise.engine.memory.allocate import allocate, collect, settle
from numawise.engine.memory.hints import (
    FITS_NOWHERE,
    container_hints,
    empty_pool,
    pod_hints,
    takes_part,
    wanted_by,
)
from numawise.engine.memory.tables import WRAP, charge
from numawise.engine.provider import Admission
from numawise.engine.state import Block
from numawise.engine.trace import Defect
from numawise.request.model import ContainerRequest, PodRequest, Role
from numawise.rules.model import Rules


class MemoryManager:
    """Memory and huge pages."""

    name = "memory"

    def present(self, rules: Rules) -> bool:
        """True when the kubelet has a Memory Manager."""
        return rules.memory_manager

    def collect(self, admission: Admission) -> None:
        """Take back the memory of pods that are gone."""
        collect(admission.draft, admission.note)

    def hints(self, admission: Admission, container: ContainerRequest | None) -> Answer:
        """Hints for a container or the pod."""
        if admission.skipped:
            return NO_PREFERENCE
        answer = pod_hints(admission) if container is None else container_hints(admission, container)
        if answer is FITS_NOWHERE:
            admission.note(Defect("memory-nowhere-is-no-preference", container.name if container else ""))
        return answer

    def allocate(self, admission: Admission, container: ContainerRequest, affinity: Hint) -> Failure | None:
        """Give a container its memory."""
        return allocate(admission, container, affinity)

    def allocate_pod(self, admission: Admission, affinity: Hint) -> Failure | None:
        """Charge the pod's memory once, and give each container blocks on the same nodes."""
        rules, pod, memory = admission.rules, admission.pod, admission.draft.memory
        if not rules.memory_static:
            return None
        self.collect(admission)
        if admission.skipped or not takes_part(rules, pod):
            return None
        wanted = pod.memory
        if not wanted:  # also where the amount is not an exact integer: the kubelet lets it pass
            return None
        empty = empty_pool(rules, pod, wanted)
        if empty:
            return Failure(empty, EMPTY_SHARED_POOL)
        mask = settle(admission, wanted, affinity, None)
        if isinstance(mask, Failure):
            return mask
        by_numa = dict(memory.numa)
        for kind, size in wanted:
            charge(by_numa, mask, kind, size)
        memory.numa = by_numa
        memory.pods.put(pod.uid, tuple(Block(mask, kind, size) for kind, size in wanted))
        for name, blocks in _divide(rules, pod, mask, dict(wanted)).items():
            memory.assign(pod.uid, name, blocks)
        return None


def _divide(rules: Rules, pod: PodRequest, mask: int, rest: dict[str, int]) -> dict[str, tuple[Block, ...]]:
    """Exclusive containers get what they ask for, all others what these leave."""
    parts: dict[str, tuple[Block, ...]] = {}
    for container in pod.containers:
        own = wanted_by(rules, pod, container)
        if own:
            parts[container.name] = _blocks(mask, own)
            for kind, size in own if container.role is not Role.INIT else ():
                if kind in rest or container.role is Role.APP:
                    rest[kind] = (rest.get(kind, 0) - size) % WRAP
        elif container.role is Role.INIT:
            parts[container.name] = _blocks(mask, rest.items())
    for container in pod.containers:
        parts.setdefault(container.name, _blocks(mask, rest.items()))
    return parts


def _blocks(mask: int, sizes: Iterable[tuple[str, int]]) -> tuple[Block, ...]:
    return tuple(Block(mask, kind, size) for kind, size in sizes if size)
