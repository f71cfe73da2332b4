"""The kubelet's general predicates: the sum of all requests against what is allocatable.

Counterpart: pkg/kubelet/lifecycle/predicate.go, and ``fitsRequest`` of
pkg/scheduler/framework/plugins/noderesources/fit.go.

The kubelet looks at it *after* its managers have allocated; what a pod was given that is refused here stays
with it until it is collected.  NUMA nodes play no part.

Rules kept here:

1. Allocatable is what the Node object says.  What it does not list is capacity less the reservation; huge
   pages are taken off the memory, and of a device resource it is the healthy devices.  Of a pod that has
   devices, as many devices are allocatable as are allocated, where these are more.
2. A pod asks for the most it needs at one time, or for what its own resources say, and for its overhead.
3. Of a pod that only state files mention, what it holds is what it asked for.
4. Pods are counted first, then CPU, memory and ephemeral storage are compared, then everything else; the
   first that is insufficient is the reason.  The others come out of a Go map, so that which of them is named
   is chance; here they come by name.
5. An extended resource that the node does not have is dropped from the request, and so is one that a claim
   backs; before 1.36 whatever the node does not have was left to claims where the gate for them is on.
6. CPUs count in thousandths, memory in bytes, everything else by number.
7. While a kubelet that restarts hears of its pods again, those that come later do not count yet.

What is not known of a node is not compared: ephemeral storage without a Node object, and memory only where
the machine's is known.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

from numawise.engine.state import NodeState, held_by
from numawise.machine.description import CONFIGURED, NodeDescription
from numawise.machine.model import Machine
from numawise.quantity import Quantity
from numawise.request.claims import CLASS_RESOURCE
from numawise.request.model import (
    CPU,
    EPHEMERAL,
    HUGEPAGES,
    MEMORY,
    ContainerRequest,
    PodRequest,
    Role,
    most_at_once,
)
from numawise.rules.model import KubeletConfig, Rules
from numawise.values import dataclass, replace

PODS = "pods"
MOST_PODS = 110
"""How many pods a kubelet takes unless its configuration says otherwise."""

Amounts = Mapping[str, int]
Others = Iterable[tuple[str, PodRequest | None]]


@dataclass(frozen=True, slots=True)
class Insufficient:
    """The resource of which there is too little."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        """The pod's reason."""
        return f"OutOf{self.resource}"

    @property
    def message(self) -> str:
        """The pod's message, in the kubelet's words."""
        return (
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )


@dataclass(frozen=True, slots=True)
class Sums:
    """What a node has for all pods together, what the other pods ask for, and what else is known of it."""

    allocatable: Amounts
    used: Amounts
    node: NodeDescription | None = None


def shortages(
    rules: Rules,
    sums: Sums,
    pod: PodRequest,
    allocated: Mapping[str, Collection[str]],
    *,
    again: bool = False,
) -> list[Insufficient]:
    """The resources that the kubelet refuses a pod for; none: it fits.

    ``allocated``: the devices that count as taken, where the pod has some (rule 1); ``again``: the node was
    read again, after which these no longer count.
    """
    limits = sums.allocatable
    more = {name: len(taken) for name, taken in allocated.items() if len(taken) > limits.get(name, -1)}
    if more:
        limits = {**limits, **more}
    wanted = present(rules, pod, limits)
    return insufficient(rules, sums if again else Sums(limits, sums.used), wanted)


def present(rules: Rules, pod: PodRequest, limits: Amounts) -> dict[str, int]:
    """What a pod asks for of what a node has (rule 5)."""
    wanted = judged(rules, pod)
    for name in [name for name in wanted if _extended(name) and name not in limits]:
        kept = 0
        if not rules.behaviour.missing_init_resources_dropped:
            inits = [one for one in pod.containers if one.role is not Role.APP]
            kept = most_at_once(inits, partial(_requested, name))
        if kept:
            wanted[name] = kept
        else:
            del wanted[name]
    return wanted


def insufficient(rules: Rules, sums: Sums, wanted: Amounts) -> list[Insufficient]:
    """All resources of which there is too little, in order (rule 4), as the scheduler sees it, too."""
    behaviour, limits, used = rules.behaviour, sums.allocatable, sums.used
    found = []
    if used.get(PODS, 0) + 1 > limits.get(PODS, MOST_PODS):
        found.append(Insufficient(PODS, 1, used.get(PODS, 0), limits.get(PODS, MOST_PODS)))
    if not any(wanted.get(name) for name in (CPU, MEMORY, EPHEMERAL)) and not any(map(_scalar, wanted)):
        return found
    for name in (CPU, MEMORY, EPHEMERAL, *sorted(filter(_scalar, wanted))):
        size = wanted.get(name, 0)
        if _scalar(name) and _left_to_claims(rules, limits, name):
            continue
        skipped = behaviour.zero_scalars_fit if _scalar(name) else behaviour.zero_requests_fit
        if (not size and skipped) or (name in (MEMORY, EPHEMERAL) and name not in limits):
            continue
        if size > limits.get(name, 0) - used.get(name, 0):
            found.append(Insufficient(name, size, used.get(name, 0), limits.get(name, 0)))
    return found


def _left_to_claims(rules: Rules, limits: Amounts, name: str) -> bool:
    """True when the release takes a resource for one that claims provide (rule 5)."""
    behaviour = rules.behaviour
    if not rules.claims_back_resources or not behaviour.missing_scalars_left_to_claims:
        return False
    return limits.get(name, 0) <= 0 if behaviour.zero_scalars_left_to_claims else name not in limits


def _scalar(name: str) -> bool:
    return name.startswith((HUGEPAGES, CLASS_RESOURCE)) or _extended(name)


def _extended(name: str) -> bool:
    """True for resources that are not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def allocatable(
    machine: Machine,
    reservation: Mapping[str, Quantity],
    config: KubeletConfig,
    state: NodeState,
    described: Amounts | None = None,
) -> dict[str, int]:
    """What all pods together may ask for (rule 1); ``described``: what the Node object lists."""
    amounts = {
        CPU: 1000 * len(machine.cpus) - size_of(CPU, reservation.get(CPU)),
        PODS: _most_pods(machine, config),
    }
    for numa in machine.numa:
        for size, pages in numa.hugepages:
            page = Quantity.parse(size).value
            name = f"{HUGEPAGES}{Quantity.of(page)}"
            amounts[name] = amounts.get(name, 0) + pages * page
    if machine.capacity:
        pages = sum(size for name, size in amounts.items() if name.startswith(HUGEPAGES))
        amounts[MEMORY] = machine.capacity - size_of(MEMORY, reservation.get(MEMORY)) - pages
    for resource, plugin in state.devices.plugins.items():
        amounts[resource] = len(plugin.healthy)
    if described and all(name in described for name in CONFIGURED):
        amounts[EPHEMERAL] = 0  # a whole list
    return {**{name: max(0, size) for name, size in amounts.items()}, **(described or {})}


def whole_node(
    machine: Machine, kube_reserved: Mapping[str, Quantity], system_reserved: Mapping[str, Quantity]
) -> dict[str, int]:
    """CPU and memory of a node before eviction thresholds and huge pages are taken off."""
    amounts = {CPU: 1000 * len(machine.cpus)} | ({MEMORY: machine.capacity} if machine.capacity else {})
    for name in amounts:
        for reserved in (system_reserved, kube_reserved):
            amounts[name] -= size_of(name, reserved.get(name))
    return {name: max(0, size) for name, size in amounts.items()}


def judged(rules: Rules, pod: PodRequest) -> dict[str, int]:
    """What a pod asks for, without what comes with a claim (rule 5)."""
    dropped = rules.claims_back_resources and rules.behaviour.claimed_resources_not_counted
    return asked(pod, claimed=not dropped)


def asked(pod: PodRequest, *, claimed: bool = True) -> dict[str, int]:
    """What a pod asks for (rule 2); ``claimed``: also what a claim backs."""
    amounts = {PODS: 1}
    containers = pod.containers
    if not claimed and any(one.claimed for one in containers):
        containers = tuple(replace(one, requests=_unclaimed(one)) for one in containers)
    for name in dict.fromkeys(name for one in containers for name in one.requests):
        amounts[name] = most_at_once(containers, partial(_requested, name))
    for name, amount in (pod.requests or {}).items():
        amounts[name] = size_of(name, amount)
    add(amounts, {name: size_of(name, amount) for name, amount in pod.overhead.items()})
    return amounts


def _unclaimed(container: ContainerRequest) -> dict[str, Quantity]:
    """The requests of a container without the extended resources that a claim backs."""
    return {
        name: size
        for name, size in container.requests.items()
        if name not in container.claimed or not (_extended(name) or name.startswith(CLASS_RESOURCE))
    }


def _requested(name: str, container: ContainerRequest) -> int:
    return size_of(name, container.requests.get(name))


def used(state: NodeState, uid: str = "") -> dict[str, int]:
    """What all live pods together asked for, without the pod of the uid (rules 3 and 7)."""
    amounts: dict[str, int] = {}
    counted = state.resizes.counted
    for other, pod in others(state, uid):
        if other in counted:
            add(amounts, counted[other])
        else:
            add(amounts, asked(pod) if pod is not None else held(state, other))
    return amounts


def others(state: NodeState, uid: str) -> Iterator[tuple[str, PodRequest | None]]:
    """The live pods besides the one of the uid, as far as they count (rule 7)."""
    for other, pod in state.active.items():
        if other != uid:
            yield other, pod
        elif not state.ready:
            return


def add(sums: dict[str, int], more: Amounts) -> None:
    """Count something in."""
    for name, size in more.items():
        sums[name] = sums.get(name, 0) + size


def _most_pods(machine: Machine, config: KubeletConfig) -> int:
    other = config.other
    most = int(other.get("maxPods") or MOST_PODS)
    per_core = int(other.get("podsPerCore") or 0)
    return min(most, per_core * len(machine.cpus)) if per_core else most


def held(state: NodeState, uid: str) -> dict[str, int]:
    """What a pod holds, as if it had asked for that (rule 3)."""
    holding = held_by(state, uid)
    return {
        PODS: 1,
        CPU: 1000 * holding.cpus.bit_count(),
        **(holding.memory or {}),
        **(holding.devices or {}),
    }


def size_of(name: str, amount: Quantity | None) -> int:
    """An amount as it is summed up (rule 6)."""
    if amount is None:
        return 0
    return amount.milli if name == CPU else amount.value
