"""Requests as values, with the integers that the managers ask for worked out once.

Rules kept here:

1. Containers stand in the kubelet's order: init containers in spec order (sidecars are
   ordinary members of that list), then app containers.
2. A container wants exclusive CPUs when its CPU request is a whole number above zero; that
   the pod must be Guaranteed is the CPU Manager's business.
3. A pod's amount of anything is the most it needs at one time: all app containers and
   sidecars together, or one init container with the sidecars declared before it.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from numawise.quantity import Quantity
from numawise.request.claims import PodClaim
from numawise.request.constraints import NO_CONSTRAINTS, PodConstraints
from numawise.values import dataclass, field

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
CPU, MEMORY, HUGEPAGES, EPHEMERAL = "cpu", "memory", "hugepages-", "ephemeral-storage"

Amounts = Mapping[str, Quantity]


class Role(Enum):
    """When a container runs."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for."""

    name: str
    role: Role
    requests: Amounts
    limits: Amounts
    restarts_for: frozenset[str] = frozenset()
    """Resources whose change restarts the container (``resizePolicy``)."""
    claimed: frozenset[str] = frozenset()
    """Extended resources that a claim backs for it (``status.extendedResourceClaimStatus`` of the pod)."""
    whole_cpus: int = field(init=False)
    """CPUs to have alone; 0 when the request is fractional or absent."""
    memory: tuple[tuple[str, int], ...] | None = field(init=False)
    """Bytes per memory type; None when an amount cannot be told as an exact integer."""
    devices: tuple[tuple[str, int], ...] = field(init=False)
    """Limits that may be devices: every name but the kubelet's own."""
    fixed: bool = field(init=False)
    """CPU and memory requested, above zero, and equal to their limits."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        cpu = self.requests.get(CPU)
        put(self, "whole_cpus", cpu.value if cpu and cpu.whole and cpu.value > 0 else 0)
        put(self, "memory", memory_bytes(self.requests))
        put(
            self,
            "devices",
            tuple((name, amount.value) for name, amount in self.limits.items() if "/" in name),
        )
        put(self, "fixed", all(_same(self.requests, self.limits, name) for name in (CPU, MEMORY)))


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What one pod asks for."""

    uid: str
    name: str
    qos: str
    containers: tuple[ContainerRequest, ...]
    requests: Amounts | None = None
    """Pod-level requests and limits; None when ``spec.resources`` is absent."""
    limits: Amounts | None = None
    namespace: str = "default"
    overhead: Amounts = field(default_factory=dict)
    """What its runtime takes beside the containers; only the sums count it."""
    constraints: PodConstraints = NO_CONSTRAINTS
    """What it demands of a node besides resources."""
    claims: tuple[PodClaim, ...] = ()
    """Claims whose devices it gets; the kubelet's managers take no notice of them."""
    pod_level: bool = field(init=False)
    """Pod-level resources are set: at least one of CPU, memory or huge pages."""
    whole_cpus: int = field(init=False)
    """Pod-level CPUs to have alone."""
    memory: tuple[tuple[str, int], ...] | None = field(init=False)
    """Pod-level bytes per memory type."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        names = {**(self.requests or {}), **(self.limits or {})}
        put(self, "pod_level", any(n in (CPU, MEMORY) or n.startswith(HUGEPAGES) for n in names))
        cpu = (self.requests or {}).get(CPU)
        put(self, "whole_cpus", cpu.value if cpu and cpu.whole and cpu.value > 0 else 0)
        memory = memory_bytes(self.requests or {})
        put(self, "memory", None if memory is None else tuple(m for m in memory if m[1] > 0))

    @property
    def guaranteed(self) -> bool:
        """True when the pod's class is Guaranteed."""
        return self.qos == GUARANTEED


def most_at_once(
    containers: Iterable[ContainerRequest],
    amount: Callable[[ContainerRequest], int],
    *,
    lasting: bool = True,
) -> int:
    """The most of something that the containers of a pod need at one time (rule 3).

    ``lasting``: sidecars are known to go on running.
    """
    running = sidecars = largest = 0
    for container in containers:
        wanted = amount(container)
        if container.role is Role.INIT or (container.role is Role.SIDECAR and not lasting):
            largest = max(largest, wanted + sidecars)
        else:
            running += wanted
            if container.role is Role.SIDECAR:
                sidecars += wanted
    return max(running, largest)


def memory_bytes(requests: Amounts) -> tuple[tuple[str, int], ...] | None:
    """Bytes per memory type, by name; None when one is not an exact integer as written."""
    found = []
    for name, amount in sorted(requests.items()):
        if name == MEMORY or name.startswith(HUGEPAGES):
            if not amount.exact:
                return None
            found.append((name, amount.value))
    return tuple(found)


def _same(requests: Amounts, limits: Amounts, name: str) -> bool:
    request, limit = requests.get(name), limits.get(name)
    return request is not None and limit is not None and request.nano == limit.nano > 0
