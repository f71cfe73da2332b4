"""The Topology Manager: admission for each container in turn, or once for the pod.

Counterpart: pkg/kubelet/cm/topologymanager/scope.go, scope_container.go, scope_pod.go and scope_none.go.

Rules kept here:

1. Providers are asked, and allocate, in the order device, CPU, memory.
2. Under container scope, a container's hints see what the containers before it were given.
3. A refusal leaves what was given so far where it is; it is collected later.
"""

from collections.abc import Callable, Mapping

from numawise.engine.cpu.manager import CpuManager
from numawise.engine.device.manager import DeviceManager
from numawise.engine.failure import TOPOLOGY_AFFINITY, Failure
from numawise.engine.hint import ANY, Family, Hint
from numawise.engine.memory.manager import MemoryManager
from numawise.engine.provider import Admission, Provider
from numawise.engine.topology.policy import judge
from numawise.engine.topology.why import blow_up, merge_step
from numawise.engine.trace import AllocationFailed, HintsFound, RoundBegan, ignore
from numawise.request.model import ContainerRequest
from numawise.rules.model import NONE, SINGLE
from numawise.values import dataclass

PROVIDERS: tuple[Provider, ...] = (DeviceManager(), CpuManager(), MemoryManager())
"""In the kubelet's order; a further manager is one more file and one more entry here."""
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


def run(admission: Admission) -> Mapping[str, Hint] | Refused:
    """Admit the pod; give the affinity of each container."""
    rules, pod = admission.rules, admission.pod
    if rules.topology_policy == NONE:  # nothing is remembered under this policy
        found = _each_container(admission, lambda _: ANY)
        return found if isinstance(found, Refused) else {}
    if not rules.pod_scope:
        return _each_container(admission, lambda container: _affinity(admission, container))
    hint = _affinity(admission, None)
    if isinstance(hint, Refused):
        return hint
    if pod.pod_level and rules.pod_level_managers:
        return _whole_pod(admission, hint)
    return _each_container(admission, lambda _: hint)


def _each_container(
    admission: Admission, affinity_of: Callable[[ContainerRequest], Hint | Refused]
) -> Mapping[str, Hint] | Refused:
    """Allocate container by container; the first failure of a provider ends it."""
    affinities: dict[str, Hint] = {}
    for container in admission.pod.containers:
        hint = affinity_of(container)
        if isinstance(hint, Refused):
            return hint
        affinities[container.name] = hint
        for provider in PROVIDERS:
            failure = provider.allocate(admission, container, hint)
            if failure:
                return _refused(admission, container.name, provider, failure)
    return affinities


def _whole_pod(admission: Admission, hint: Hint) -> Mapping[str, Hint] | Refused:
    """Allocate once for the pod."""
    for provider in PROVIDERS:
        failure = provider.allocate_pod(admission, hint)
        if failure:
            return _refused(admission, "", provider, failure)
    return {container.name: hint for container in admission.pod.containers}


def _refused(admission: Admission, container: str, provider: Provider, failure: Failure) -> Refused:
    admission.note(AllocationFailed(container, provider.name, failure.reason, failure.message))
    return Refused(
        failure.reason, failure.message, container, provider.name, failure.error, failure.by_chance
    )


def _affinity(admission: Admission, container: ContainerRequest | None) -> Hint | Refused:
    """Ask all providers, merge, and let the policy judge."""
    machine, rules, pod, note = admission.machine, admission.rules, admission.pod, admission.note
    name = container.name if container else None
    note(RoundBegan(name))
    voters: dict[str, Family] = {}
    for provider in PROVIDERS:
        if not provider.present(rules):
            continue
        provider.collect(admission)
        answer = provider.hints(admission, container)
        note(HintsFound(provider.name, name, answer))
        if answer:
            voters |= {resource: family for resource, family in answer.items() if family is not None}
    hint, admitted = judge(machine, rules, list(voters.values()))
    if note is not ignore:
        nearest, early = rules.prefer_closest, not rules.behaviour.preferred_needs_equal_masks
        note(
            merge_step(machine.numa_bits, voters, name, hint, admitted=admitted, nearest=nearest, early=early)
        )
        stall = blow_up(voters.values(), name, single=rules.topology_policy == SINGLE)
        if stall:
            note(stall)
    if admitted:
        return hint
    if pod.pod_level and rules.pod_level_managers:
        return Refused(TOPOLOGY_AFFINITY, NOT_ALIGNED_POD if container is None else NOT_ALIGNED_CONTAINERS)
    return Refused(TOPOLOGY_AFFINITY, NOT_ALIGNED)
