"""What a node has room for when one only counts: allocatable amounts against the sum of all requests.

The scheduler looks at nothing else, and the kubelet looks at it, too, beside its managers (``OutOfcpu`` and
the like).  NUMA nodes play no part here.

Rules kept here:

1. Allocatable is capacity less the reservation; huge pages are taken off the memory.
2. A pod asks for the most it needs at one time, or for what its own resources say.
3. Of a pod that only state files tell of, what it holds is what it asked for.
4. CPUs count in thousandths, memory in bytes, everything else by number.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from numawise.engine.holding import held_by
from numawise.engine.state import NodeState
from numawise.machine.model import Machine
from numawise.quantity import Quantity
from numawise.request.model import CPU, HUGEPAGES, MEMORY, PodRequest, most_at_once
from numawise.rules.model import KubeletConfig

PODS = "pods"
MOST_PODS = 110
"""How many pods a kubelet takes unless it is told otherwise."""

Sums = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Lack:
    """The resource of which there is too little."""

    resource: str
    asked: int
    used: int
    allocatable: int

    @property
    def reason(self) -> str:
        """The kubelet's word for it."""
        return f"OutOf{self.resource}"

    @property
    def text(self) -> str:
        """In a sentence."""
        asked, total = (amount_text(self.resource, size) for size in (self.asked, self.allocatable))
        left = amount_text(self.resource, max(0, self.allocatable - self.used))
        return f"{asked} asked for, {left} of {total} not requested yet"


def amount_text(resource: str, size: int) -> str:
    """An amount as manifests write it."""
    if resource == CPU:
        return str(Quantity(size * 10**6))
    return str(Quantity.of(size)) if resource == MEMORY or resource.startswith(HUGEPAGES) else str(size)


def allocatable(
    machine: Machine, reservation: Mapping[str, Quantity], config: KubeletConfig, state: NodeState
) -> dict[str, int]:
    """What all pods together may ask for (rule 1)."""
    found = {
        CPU: 1000 * len(machine.cpus) - _reserved(reservation, CPU, milli=True),
        MEMORY: machine.capacity - _reserved(reservation, MEMORY),
        PODS: _most_pods(machine, config),
    }
    for numa in machine.numa:
        for size, pages in numa.hugepages:
            page = Quantity.parse(size).value
            name = f"{HUGEPAGES}{Quantity.of(page)}"
            found[name] = found.get(name, 0) + pages * page
    found[MEMORY] -= sum(size for name, size in found.items() if name.startswith(HUGEPAGES))
    for resource, plugin in state.devices.plugins.items():
        found[resource] = len(plugin.healthy)
    return {name: max(0, size) for name, size in found.items()}


def asked(pod: PodRequest) -> dict[str, int]:
    """What a pod asks for (rule 2)."""
    found = {PODS: 1}
    for name in dict.fromkeys(name for one in pod.containers for name in one.requests):
        size = most_at_once(pod.containers, lambda one, name=name: _size(name, one.requests.get(name)))  # type: ignore[misc]
        if size:
            found[name] = size
    for name, amount in (pod.requests or {}).items():
        found[name] = _size(name, amount)
    return found


def used(state: NodeState) -> dict[str, int]:
    """What all live pods together asked for (rule 3)."""
    found: dict[str, int] = {}
    for uid, pod in state.active.items():
        add(found, asked(pod) if pod is not None else _held(state, uid))
    return found


def add(sums: dict[str, int], more: Sums) -> None:
    """Count something in."""
    for name, size in more.items():
        sums[name] = sums.get(name, 0) + size


def lack(allocatable: Sums, used: Sums, asked: Sums) -> Lack | None:
    """The first resource of which there is too little; None: it fits."""
    for name, size in asked.items():
        if size and used.get(name, 0) + size > allocatable.get(name, 0):
            return Lack(name, size, used.get(name, 0), allocatable.get(name, 0))
    return None


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
