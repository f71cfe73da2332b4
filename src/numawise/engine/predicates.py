"""The kubelet's general predicates: the sum of all requests against what is allocatable.

Counterpart: pkg/kubelet/lifecycle/predicate.go, and ``fitsRequest`` of
pkg/scheduler/framework/plugins/noderesources/fit.go.

The scheduler looks at nothing else.  The kubelet looks at it *after* its managers have allocated; what a pod
was given that is refused here stays with it until it is collected.  NUMA nodes play no part.

Rules kept here:

1. Allocatable is capacity less the reservation; huge pages are taken off the memory.  Of a device resource it
   is the healthy devices, or those that are allocated where these are more.
2. A pod asks for the most it needs at one time, or for what its own resources say, and for its overhead.
3. Of a pod that only state files mention, what it holds is what it asked for.
4. Pods are counted first, then CPU and memory are compared, then everything else; the first that is
   insufficient is the reason.  The others come out of a Go map, so that which of them is named is chance;
   here they come by name.
5. An extended resource that the node does not have is dropped from the request.
6. CPUs count in thousandths, memory in bytes, everything else by number.
7. While a kubelet that restarts hears of its pods again, those that come later do not count yet.

What is not known of a machine is not compared: never ephemeral storage, and memory only where described.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import partial

from numawise.engine.state import NodeState, held_by
from numawise.machine.model import Machine
from numawise.quantity import Quantity
from numawise.request.model import CPU, HUGEPAGES, MEMORY, ContainerRequest, PodRequest, most_at_once
from numawise.rules.model import KubeletConfig, Rules
from numawise.values import dataclass

PODS = "pods"
MOST_PODS = 110
"""How many pods a kubelet takes unless its configuration says otherwise."""

Amounts = Mapping[str, int]


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

    @property
    def text(self) -> str:
        """In a sentence for people."""
        requested, total = (amount_text(self.resource, size) for size in (self.requested, self.capacity))
        left = amount_text(self.resource, max(0, self.capacity - self.used))
        return f"{requested} asked for, {left} of {total} not requested yet"


@dataclass(frozen=True, slots=True)
class Sums:
    """What a node has for all pods together, and what the other pods ask for."""

    allocatable: Amounts
    used: Amounts


def fits(
    rules: Rules, sums: Sums, asked: Amounts, allocated: Mapping[str, Collection[str]]
) -> Insufficient | None:
    """The resource that the kubelet refuses a pod for; None: it fits.

    ``allocated``: the devices that count as taken, those of the pod among them.
    """
    limits = sums.allocatable
    more = {name: len(taken) for name, taken in allocated.items() if len(taken) > limits.get(name, -1)}
    if more:
        limits = {**limits, **more}
    wanted = {name: size for name, size in asked.items() if name in limits or not _extended(name)}
    return insufficient(rules, Sums(limits, sums.used), wanted)


def insufficient(rules: Rules, sums: Sums, wanted: Amounts) -> Insufficient | None:
    """The first resource of which there is too little (rule 4), as the scheduler sees it, too."""
    behaviour, limits, used = rules.behaviour, sums.allocatable, sums.used
    if used.get(PODS, 0) + 1 > limits.get(PODS, MOST_PODS):
        return Insufficient(PODS, 1, used.get(PODS, 0), limits.get(PODS, MOST_PODS))
    if not any(wanted.get(name) for name in (CPU, MEMORY)) and not any(map(_scalar, wanted)):
        return None
    for name in (CPU, MEMORY, *sorted(filter(_scalar, wanted))):
        size = wanted.get(name, 0)
        skipped = behaviour.zero_scalars_fit if _scalar(name) else behaviour.zero_requests_fit
        if (not size and skipped) or (name == MEMORY and name not in limits):
            continue
        if size > limits.get(name, 0) - used.get(name, 0):
            return Insufficient(name, size, used.get(name, 0), limits.get(name, 0))
    return None


def _scalar(name: str) -> bool:
    return name.startswith(HUGEPAGES) or _extended(name)


def _extended(name: str) -> bool:
    """True for resources that are not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def allocatable(
    machine: Machine, reservation: Mapping[str, Quantity], config: KubeletConfig, state: NodeState
) -> dict[str, int]:
    """What all pods together may ask for (rule 1)."""
    amounts = {
        CPU: 1000 * len(machine.cpus) - _reserved(reservation, CPU, milli=True),
        PODS: _most_pods(machine, config),
    }
    for numa in machine.numa:
        for size, pages in numa.hugepages:
            page = Quantity.parse(size).value
            name = f"{HUGEPAGES}{Quantity.of(page)}"
            amounts[name] = amounts.get(name, 0) + pages * page
    if machine.capacity:
        pages = sum(size for name, size in amounts.items() if name.startswith(HUGEPAGES))
        amounts[MEMORY] = machine.capacity - _reserved(reservation, MEMORY) - pages
    for resource, plugin in state.devices.plugins.items():
        amounts[resource] = len(plugin.healthy)
    return {name: max(0, size) for name, size in amounts.items()}


def asked(pod: PodRequest) -> dict[str, int]:
    """What a pod asks for (rule 2)."""
    amounts = {PODS: 1}
    for name in dict.fromkeys(name for one in pod.containers for name in one.requests):
        amounts[name] = most_at_once(pod.containers, partial(_requested, name))
    for name, amount in (pod.requests or {}).items():
        amounts[name] = _size(name, amount)
    add(amounts, {name: _size(name, amount) for name, amount in pod.overhead.items()})
    return amounts


def _requested(name: str, container: ContainerRequest) -> int:
    return _size(name, container.requests.get(name))


def used(state: NodeState, uid: str = "") -> dict[str, int]:
    """What all live pods together asked for, without the pod of the uid (rules 3 and 7)."""
    amounts: dict[str, int] = {}
    for other, pod in _others(state, uid):
        add(amounts, asked(pod) if pod is not None else _held(state, other))
    return amounts


def _others(state: NodeState, uid: str) -> Iterator[tuple[str, PodRequest | None]]:
    for other, pod in state.active.items():
        if other != uid:
            yield other, pod
        elif not state.ready:
            return


def add(sums: dict[str, int], more: Amounts) -> None:
    """Count something in."""
    for name, size in more.items():
        sums[name] = sums.get(name, 0) + size


def amount_text(resource: str, size: int) -> str:
    """An amount as manifests write it."""
    if resource == CPU:
        return str(Quantity(size * 10**6))
    return str(Quantity.of(size)) if resource == MEMORY or resource.startswith(HUGEPAGES) else str(size)


def _most_pods(machine: Machine, config: KubeletConfig) -> int:
    other = config.other
    most = int(other.get("maxPods") or MOST_PODS)
    per_core = int(other.get("podsPerCore") or 0)
    return min(most, per_core * len(machine.cpus)) if per_core else most


def _held(state: NodeState, uid: str) -> dict[str, int]:
    holding = held_by(state, uid)
    return {
        PODS: 1,
        CPU: 1000 * holding.cpus.bit_count(),
        **(holding.memory or {}),
        **(holding.devices or {}),
    }


def _size(name: str, amount: Quantity | None) -> int:
    if amount is None:
        return 0
    return amount.milli if name == CPU else amount.value


def _reserved(reservation: Mapping[str, Quantity], name: str, *, milli: bool = False) -> int:
    amount = reservation.get(name)
    if amount is None:
        return 0
    return amount.milli if milli else amount.value
