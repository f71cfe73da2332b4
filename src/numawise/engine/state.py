"""Who holds what on a node, as frozen values, and the working copy a decision writes to.

Rules kept here:

1. A state is never changed.  A decision works on a ``Draft``, which copies a part when it first
   writes to it; parts that were not written are shared with the state before.
2. Nothing is freed when a pod goes: it is only put among the ``departed``, and each manager
   collects what it had when it next looks.  The cost of looking does not grow with the pods that stay.
3. The Device Manager's file lags behind its memory; ``saved`` is what the file says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from numawise.machine.model import Device
from numawise.request.model import PodRequest

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
    """The Memory Manager's books of one NUMA node."""

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
    prefers_lowest: bool = False
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
class NodeState:
    """Everything the kubelet remembers between two decisions."""

    cpu: CpuState = field(default_factory=CpuState)
    memory: MemoryState = field(default_factory=MemoryState)
    devices: DeviceState = field(default_factory=DeviceState)
    active: Mapping[str, PodRequest | None] = field(default_factory=dict)
    """Live pods in the order they came; None: known from state files alone."""
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


Stale = tuple[str, tuple[str, ...]]
"""Pod uid and containers."""


class Draft:
    """A working copy of a state; private to the engine."""

    __slots__ = (
        "_own",
        "active",
        "allocated",
        "cpu_pods",
        "cpus",
        "departed",
        "grants",
        "last_pod",
        "memory",
        "memory_numa",
        "memory_pods",
        "plugins",
        "pod",
        "pushed",
        "ready",
        "reuse_cpus",
        "reuse_devices",
        "reuse_memory",
        "running",
        "saved",
        "shared",
        "state",
    )

    def __init__(self, state: NodeState, pod: PodRequest | None = None) -> None:
        self.state = state
        self.pod = pod
        self.shared = state.cpu.shared
        self.cpus = state.cpu.assignments
        self.cpu_pods = state.cpu.pods
        self.memory_numa = state.memory.numa
        self.memory = state.memory.assignments
        self.memory_pods = state.memory.pods
        self.plugins = state.devices.plugins
        self.grants = state.devices.grants
        self.allocated = state.devices.allocated
        self.saved = state.devices.saved
        self.active = state.active
        self.departed = state.departed
        self.pushed = state.pushed
        self.ready = state.ready
        self.running = state.running
        self.last_pod = state.last_pod
        self.reuse_cpus = state.reusable.cpus
        self.reuse_memory = state.reusable.memory
        self.reuse_devices = state.reusable.devices
        self._own: set[str] = set()

    def _owned(self, name: str) -> dict:  # type: ignore[type-arg]
        """The named mapping as one that this draft may write to."""
        if name not in self._own:
            setattr(self, name, dict(getattr(self, name)))
            self._own.add(name)
        found: dict = getattr(self, name)  # type: ignore[type-arg]
        return found

    def disown(self, name: str) -> None:
        """Copy the named mapping again before the next write to it."""
        self._own.discard(name)

    def put(self, name: str, uid: str, container: str, value: object) -> None:
        """Record something for a container in one of the two-level mappings."""
        outer = self._owned(name)
        outer[uid] = {**outer.get(uid, {}), container: value}

    def drop(self, name: str, uid: str, container: str) -> None:
        """Forget what is recorded for a container."""
        outer = self._owned(name)
        inner = {key: value for key, value in outer[uid].items() if key != container}
        if inner:
            outer[uid] = inner
        else:
            del outer[uid]

    def set_key(self, name: str, key: object, value: object) -> None:
        """Set one key of a mapping."""
        self._owned(name)[key] = value

    def delete_key(self, name: str, key: object) -> None:
        """Remove one key of a mapping if it is there."""
        if key in getattr(self, name):
            del self._owned(name)[key]

    def stale(self, recorded: Mapping[str, Mapping[str, object]], spared: str = "") -> list[Stale]:
        """What is recorded of pods that are gone, and of containers that a pod lacks since it came back."""
        gone = [(uid, tuple(recorded[uid])) for uid in sorted(self.departed - {spared}) if uid in recorded]
        if self.pod is not None and self.pod.uid in recorded:
            names = {container.name for container in self.pod.containers}
            others = tuple(name for name in recorded[self.pod.uid] if name not in names)
            if others:
                gone.append((self.pod.uid, others))
        return gone

    def save_devices(self) -> None:
        """Write the Device Manager's file."""
        self.saved = DeviceFile(self.grants, {name: plugin.healthy for name, plugin in self.plugins.items()})
        self.disown("grants")  # the next write shall not reach what was saved

    def _reusable(self) -> Reusable:
        old = self.state.reusable
        if (
            self.reuse_cpus is old.cpus
            and self.reuse_memory is old.memory
            and self.reuse_devices is old.devices
        ):
            return old
        return Reusable(self.reuse_cpus, self.reuse_memory, self.reuse_devices)

    def freeze(self) -> NodeState:
        """The state as it is now; parts that were not written are the old ones."""
        old = self.state
        cpu, memory, devices = old.cpu, old.memory, old.devices
        if self.cpus is not cpu.assignments or self.shared != cpu.shared or self.cpu_pods is not cpu.pods:
            cpu = CpuState(self.shared, self.cpus, self.cpu_pods)
        if (
            self.memory is not memory.assignments
            or self.memory_numa is not memory.numa
            or self.memory_pods is not memory.pods
        ):
            memory = MemoryState(self.memory_numa, self.memory, self.memory_pods)
        if (
            self.grants is not devices.grants
            or self.allocated is not devices.allocated
            or self.plugins is not devices.plugins
            or self.saved is not devices.saved
        ):
            devices = DeviceState(self.plugins, self.grants, self.allocated, self.saved)
        departed = self.departed
        if departed:
            departed = frozenset(
                uid
                for uid in departed
                if uid in self.cpus
                or uid in self.memory
                or uid in self.grants
                or uid in self.cpu_pods
                or uid in self.pushed
            )
        self._own.clear()
        return NodeState(
            cpu=cpu,
            memory=memory,
            devices=devices,
            active=self.active,
            departed=departed,
            pushed=self.pushed,
            ready=self.ready,
            running=self.running,
            last_pod=self.last_pod,
            reusable=self._reusable(),
        )
