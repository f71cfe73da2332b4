"""Admission by scope: for each container in turn, or once for the pod.

Rules kept here:

1. Providers are asked, and allocate, in the order device, CPU, memory.
2. Under container scope, a container's hints see what the containers before it were given.
3. A refusal leaves what was given so far where it is; it is collected later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from numawise.engine.cpu import allocate as cpu
from numawise.engine.cpu import hints as cpu_hints
from numawise.engine.cpu import podlevel as cpu_pod
from numawise.engine.device import allocate as device
from numawise.engine.device import hints as device_hints
from numawise.engine.device.allocate import Pick
from numawise.engine.failure import TOPOLOGY_AFFINITY, Failure
from numawise.engine.hint import Answer, Family, Hint
from numawise.engine.memory import allocate as memory
from numawise.engine.memory import hints as memory_hints
from numawise.engine.memory import podlevel as memory_pod
from numawise.engine.state import Draft
from numawise.engine.topology.policy import judge
from numawise.engine.topology.why import blow_up, told
from numawise.engine.trace import AllocationFailed, Defect, HintsFound, Note, RoundBegan, ignore
from numawise.machine.model import Machine
from numawise.request.model import ContainerRequest, PodRequest
from numawise.rules.model import NONE, SINGLE, Rules

ANY = Hint(None, preferred=False)
NOT_ALIGNED = "Resources cannot be allocated with Topology locality"
NOT_ALIGNED_CONTAINERS = (
    "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
)
NOT_ALIGNED_POD = "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"


@dataclass(frozen=True, slots=True)
class Refused:
    """A pod is not admitted."""

    reason: str
    message: str
    container: str = ""
    provider: str = ""
    error: str = ""
    by_chance: bool = False


AffinityOf = Callable[[ContainerRequest], Hint | Refused]


@dataclass(slots=True)
class Admission:
    """One pod on its way through: what it may look at and write to."""

    machine: Machine
    rules: Rules
    draft: Draft
    pod: PodRequest
    note: Note
    pick: Pick

    def run(self) -> Mapping[str, Hint] | Refused:
        """Admit the pod; give the affinity of each container."""
        rules, pod = self.rules, self.pod
        if rules.topology_policy == NONE:  # nothing is remembered under this policy
            found = self.each_container(lambda _: ANY)
            return found if isinstance(found, Refused) else {}
        if not rules.pod_scope:
            return self.each_container(self.container_affinity)
        hint = self.affinity(None)
        if isinstance(hint, Refused):
            return hint
        if pod.pod_level and rules.pod_level_managers:
            return self.whole_pod(hint)
        return self.each_container(lambda _: hint)

    def each_container(self, affinity_of: AffinityOf) -> Mapping[str, Hint] | Refused:
        """Allocate container by container."""
        found: dict[str, Hint] = {}
        for container in self.pod.containers:
            hint = affinity_of(container)
            if isinstance(hint, Refused):
                return hint
            found[container.name] = hint
            refused = self.allocate(container, hint)
            if refused:
                return refused
        return found

    def whole_pod(self, hint: Hint) -> Mapping[str, Hint] | Refused:
        """Allocate once for the pod; devices follow when the containers start."""
        numa = hint.numa.bits if hint.numa is not None else None
        failure = cpu_pod.allocate_pod(self.machine, self.rules, self.draft, self.pod, numa, self.note)
        if failure:
            return self.refused("", "cpu", failure)
        failure = memory_pod.allocate_pod(self.rules, self.draft, self.pod, hint, self.note)
        if failure:
            return self.refused("", "memory", failure)
        return {container.name: hint for container in self.pod.containers}

    def allocate(self, container: ContainerRequest, hint: Hint) -> Refused | None:
        """Let every provider allocate for one container; the first failure ends it."""
        machine, rules, draft, pod, note = self.machine, self.rules, self.draft, self.pod, self.note
        numa = hint.numa.bits if hint.numa is not None else None
        failure = device.allocate(rules, draft, pod, container, numa, note, self.pick)
        if failure:
            competing = sum(count > 0 and name in draft.plugins for name, count in container.devices)
            return replace(self.refused(container.name, "device", failure), by_chance=competing > 1)
        failure = cpu.allocate(machine, rules, draft, pod, container, numa, note)
        if failure:
            return self.refused(container.name, "cpu", failure)
        failure = memory.allocate(rules, draft, pod, container, hint, note)
        if failure:
            return self.refused(container.name, "memory", failure)
        return None

    def refused(self, container: str, provider: str, failure: Failure) -> Refused:
        self.note(AllocationFailed(container, provider, failure.reason, failure.message))
        return Refused(failure.reason, failure.message, container, provider, failure.error)

    def container_affinity(self, container: ContainerRequest) -> Hint | Refused:
        return self.affinity(container)

    def affinity(self, container: ContainerRequest | None) -> Hint | Refused:
        """Ask all providers, merge, and let the policy judge."""
        machine, rules, pod, note = self.machine, self.rules, self.pod, self.note
        name = container.name if container else None
        note(RoundBegan(name))
        voters: dict[str, Family] = {}
        answer: Answer = None
        for provider, there, ask in (
            ("device", rules.device_manager, self.ask_devices),
            ("cpu", rules.cpu_manager, self.ask_cpus),
            ("memory", rules.memory_manager, self.ask_memory),
        ):
            if not there:
                continue
            answer = ask(container)
            note(HintsFound(provider, name, answer))
            voters |= {resource: family for resource, family in (answer or {}).items() if family is not None}
        hint, admitted = judge(machine, rules, list(voters.values()))
        if note is not ignore:
            if memory_hints.takes_part(rules, pod) and not answer and answer is not None:
                note(Defect("memory-nowhere-is-no-wish", name or ""))
            nearest, early = rules.prefer_closest, not rules.behaviour.preferred_needs_equal_masks
            note(told(machine.numa_bits, voters, name, hint, admitted=admitted, nearest=nearest, early=early))
            stall = blow_up(voters.values(), name, single=rules.topology_policy == SINGLE)
            if stall:
                note(stall)
        if admitted:
            return hint
        if pod.pod_level and rules.pod_level_managers:
            return Refused(
                TOPOLOGY_AFFINITY, NOT_ALIGNED_POD if container is None else NOT_ALIGNED_CONTAINERS
            )
        return Refused(TOPOLOGY_AFFINITY, NOT_ALIGNED)

    def ask_devices(self, container: ContainerRequest | None) -> Answer:
        device.collect(self.draft, self.note)
        if container is None:
            return device_hints.pod_hints(self.machine, self.rules, self.draft, self.pod)
        return device_hints.container_hints(self.machine, self.rules, self.draft, self.pod, container)

    def ask_cpus(self, container: ContainerRequest | None) -> Answer:
        cpu.collect(self.draft, self.note)
        if container is None:
            return cpu_hints.pod_hints(self.machine, self.rules, self.draft, self.pod)
        return cpu_hints.container_hints(self.machine, self.rules, self.draft, self.pod, container)

    def ask_memory(self, container: ContainerRequest | None) -> Answer:
        memory.collect(self.draft, self.note)
        if container is None:
            return memory_hints.pod_hints(self.rules, self.draft, self.pod)
        return memory_hints.container_hints(self.rules, self.draft, self.pod, container)
