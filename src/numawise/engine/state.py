"""Who holds what on a node, as frozen values.

Counterpart: pkg/kubelet/cm/cpumanager/state, memorymanager/state and devicemanager/checkpoint, with what the
managers keep in memory alone.

Rules kept here:

1. A state is never changed; a decision works on a ``Draft`` of it.
2. Nothing is freed when a pod goes: it is only put among the ``departed``, and each manager
   collects what it had when it next looks.  The cost of looking does not grow with the pods that stay.
3. The Device Manager's file lags behind its memory; ``saved`` is what the file says.
"""

from collections.abc import Mapping

from numawise.machine.model import Device
from numawise.machine.preference import Preference
from numawise.request.model import PodRequest
from numawise.values import dataclass, field

PerContainer = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class CpuState:
    """CPU sets, packed, by pod uid and container name."""

    shared: int = 0
    """The shared pool: CPUs that no container owns alone."""
    assignments: PerContainer = field(default_factory=dict)
    pods: Mapping[str, int] = field(default_factory=dict)
    """CPUs of pods that were given theirs as a whole."""


@dataclass(frozen=True, slots=True)
class Block:
    """Memory of one type on a set of NUMA nodes."""

    numa: int
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """Bytes of one memory type on one NUMA node; all arithmetic is modulo 2**64."""

    total: int
    system: int
    allocatable: int
    reserved: int
    free: int


@dataclass(frozen=True, slots=True)
class NumaMemory:
    """What the Memory Manager counts of one NUMA node."""

    users: int
    """Number of (container, type) that use the node."""
    tables: Mapping[str, MemoryTable]
    cells: int
    """The group of nodes it belongs to, packed; itself alone when not grouped."""


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Memory by NUMA node, and blocks by pod uid and container name."""

    numa: Mapping[int, NumaMemory] = field(default_factory=dict)
    assignments: Mapping[str, Mapping[str, tuple[Block, ...]]] = field(default_factory=dict)
    pods: Mapping[str, tuple[Block, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plugin:
    """What the Device Manager knows of one resource."""

    devices: Mapping[str, Device] = field(default_factory=dict)
    healthy: frozenset[str] = frozenset()
    preference: Preference | None = None
    """How the plugin answers GetPreferredAllocation; None: it has no such call."""
    refuses_several: bool = False
    """Its Allocate refuses a container that asks for more than one device."""
    connected: bool = False
    """The plugin has registered since the kubelet started."""


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """Devices of one resource that a container has."""

    per_numa: tuple[tuple[int, tuple[str, ...]], ...]
    """NUMA node (-1: none) → device ids; a device on two nodes stands under both."""
    response: bytes | None = None
    """The plugin's recorded answer; None: that of a simulated plugin."""

    @property
    def ids(self) -> frozenset[str]:
        """All devices of the grant."""
        return frozenset(i for _, ids in self.per_numa for i in ids)


Grants = Mapping[str, Mapping[str, Mapping[str, DeviceGrant]]]
"""Pod uid → container → resource → devices."""


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """What the Device Manager's file holds."""

    grants: Grants = field(default_factory=dict)
    registered: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Devices by resource, and who has them."""

    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    grants: Grants = field(default_factory=dict)
    allocated: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Resource → ids that count as taken."""
    saved: DeviceFile | None = None
    """None: nothing was written yet."""


@dataclass(frozen=True, slots=True)
class Reusable:
    """What init containers had and later containers of their pod may use again, by pod uid.

    It belongs to the managers: a pod that goes takes nothing of it along, and each manager drops it when
    another pod reaches its allocation.  A kubelet that starts has none.
    """

    cpus: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, Mapping[tuple[int, str], int]] = field(default_factory=dict)
    """Bytes by NUMA nodes and type."""
    devices: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    """Device ids by resource."""

    def by(self, uid: str) -> bool:
        """True when a container of the pod could use something again."""
        memory, devices = self.memory.get(uid, {}), self.devices.get(uid, {})
        return bool(self.cpus.get(uid)) or any(memory.values()) or any(devices.values())


@dataclass(frozen=True, slots=True)
class ResizePending:
    """Why a pod does not have the size that its spec asks for (condition ``PodResizePending``)."""

    reason: str
    """``Deferred`` or ``Infeasible``."""
    message: str
    since: int
    """When it began to wait for this reason, by ``Resizes.moment``."""


@dataclass(frozen=True, slots=True)
class Resizes:
    """What the allocation manager remembers of pods whose spec asks for another size than they have."""

    desired: Mapping[str, PodRequest] = field(default_factory=dict)
    """The spec of each of them; among the active pods they stand as they are allocated."""
    queue: tuple[str, ...] = ()
    """The order in which they are tried next; of those that are infeasible, none."""
    pending: Mapping[str, ResizePending] = field(default_factory=dict)
    moment: int = 0
    """Counts the changes of conditions, in place of a clock."""
    counted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What pods count for whose containers have not got their new sizes, as far as their status says."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """Everything the kubelet remembers between two decisions."""

    cpu: CpuState = field(default_factory=CpuState)
    memory: MemoryState = field(default_factory=MemoryState)
    devices: DeviceState = field(default_factory=DeviceState)
    active: Mapping[str, PodRequest | None] = field(default_factory=dict)
    """Live pods in the order they came, as they are allocated; None: known from state files alone."""
    departed: frozenset[str] = frozenset()
    """Pods that are gone while something is still recorded for them."""
    pushed: PerContainer = field(default_factory=dict)
    """CPU sets last given to running containers; kept until the CPU Manager collects them, too."""
    ready: bool = True
    """All sources of pods were heard; before that nothing is collected."""
    running: frozenset[tuple[str, str]] = frozenset()
    """Containers (uid, name) that run, finished init containers left out."""
    last_pod: str = ""
    """The pod that was last considered."""
    reusable: Reusable = field(default_factory=Reusable)
    resizes: Resizes = field(default_factory=Resizes)


@dataclass(frozen=True, slots=True)
class Holding:
    """What one pod has on a node."""

    cpus: int = 0
    memory: Mapping[str, int] | None = None
    """Bytes by type."""
    numa: int = 0
    """NUMA nodes its memory comes from."""
    devices: Mapping[str, int] | None = None
    """Number of devices by resource."""

    def __bool__(self) -> bool:
        return bool(self.cpus or self.memory or self.devices)


def recorded(state: NodeState) -> tuple[str, ...]:
    """Uids under which anything is recorded, whether their pods are known or not."""
    tables = (
        state.cpu.assignments,
        state.cpu.pods,
        state.memory.assignments,
        state.memory.pods,
        state.devices.grants,
    )
    return tuple(dict.fromkeys(uid for table in tables for uid in table))


def held_by(state: NodeState, uid: str) -> Holding:
    """What is recorded for one pod."""
    cpus = state.cpu.pods.get(uid, 0)
    for one in state.cpu.assignments.get(uid, {}).values():
        cpus |= one
    memory: dict[str, int] = {}
    numa = 0
    blocks = [block for own in state.memory.assignments.get(uid, {}).values() for block in own]
    for block in state.memory.pods.get(uid) or blocks:
        memory[block.type] = memory.get(block.type, 0) + block.size
        numa |= block.numa
    devices: dict[str, set[str]] = {}
    for resources in state.devices.grants.get(uid, {}).values():
        for resource, grant in resources.items():
            devices.setdefault(resource, set()).update(grant.ids)
    return Holding(cpus, memory, numa, {name: len(ids) for name, ids in devices.items() if ids})
