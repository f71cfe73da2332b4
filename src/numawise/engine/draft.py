"""The working copy that a decision writes to, manager by manager; private to the engine.

A state is never changed.  A draft shares the parts of the state before, copies one when it first writes to
it, and ``freeze`` makes the next state out of what there is.

Counterpart: the ``state`` packages of pkg/kubelet/cm/cpumanager and memorymanager, and ``podDevices`` of
pkg/kubelet/cm/devicemanager/pod_devices.go.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

from numawise.engine.state import (
    Block,
    CpuState,
    DeviceFile,
    DeviceGrant,
    DeviceState,
    MemoryState,
    NodeState,
    NumaMemory,
    Reusable,
)
from numawise.request.model import PodRequest

V = TypeVar("V")
Stale = tuple[str, tuple[str, ...]]
"""Pod uid and containers."""


class Column(Generic[V]):
    """Values by key; the first write makes a copy."""

    __slots__ = ("_shared", "rows")

    def __init__(self, rows: Mapping[str, V]) -> None:
        self.rows = rows
        self._shared: Mapping[str, V] | None = rows

    def put(self, key: str, value: V) -> None:
        """Record a value."""
        rows = dict(self.rows) if self.rows is self._shared else self.rows
        assert isinstance(rows, dict)
        rows[key] = value
        self.rows = rows

    def drop(self, key: str) -> None:
        """Forget a value if it is there."""
        if key in self.rows:
            rows = dict(self.rows) if self.rows is self._shared else self.rows
            assert isinstance(rows, dict)
            del rows[key]
            self.rows = rows

    def share(self) -> Mapping[str, V]:
        """The values as they are now, which later writes do not reach."""
        self._shared = self.rows
        return self.rows


class DraftTable(Column[Mapping[str, V]]):
    """Values by pod uid and container."""

    __slots__ = ()

    def get(self, uid: str, container: str) -> V | None:
        """What is recorded for a container."""
        containers = self.rows.get(uid)
        return None if containers is None else containers.get(container)

    def assign(self, uid: str, container: str, value: V) -> None:
        """Record something for a container."""
        self.put(uid, {**self.rows.get(uid, {}), container: value})

    def release(self, uid: str, container: str) -> V:
        """Forget what is recorded for a container, and give it back."""
        containers = dict(self.rows[uid])
        value = containers.pop(container)
        if containers:
            self.put(uid, containers)
        else:
            self.drop(uid)
        return value


class CpuDraft(DraftTable[int]):
    """The CPU Manager's: exclusive CPUs by container."""

    __slots__ = ("pods", "pushed", "reusable", "shared")

    def __init__(self, state: NodeState) -> None:
        self.rows = self._shared = state.cpu.assignments
        self.shared = state.cpu.shared
        self.pods = Column(state.cpu.pods)
        self.pushed: DraftTable[int] = DraftTable(state.pushed)
        self.reusable = state.reusable.cpus

    def freeze(self, old: CpuState) -> CpuState:
        """The state as it is now."""
        if self.rows is old.assignments and self.shared == old.shared and self.pods.rows is old.pods:
            return old
        return CpuState(self.shared, self.share(), self.pods.share())


class MemoryDraft(DraftTable[tuple[Block, ...]]):
    """The Memory Manager's: blocks by container, and what is left of each NUMA node."""

    __slots__ = ("numa", "pods", "reusable")

    def __init__(self, state: NodeState) -> None:
        self.rows = self._shared = state.memory.assignments
        self.numa: Mapping[int, NumaMemory] = state.memory.numa
        self.pods = Column(state.memory.pods)
        self.reusable = state.reusable.memory

    def freeze(self, old: MemoryState) -> MemoryState:
        """The state as it is now."""
        if self.rows is old.assignments and self.numa is old.numa and self.pods.rows is old.pods:
            return old
        return MemoryState(self.numa, self.share(), self.pods.share())


class DeviceDraft(DraftTable[Mapping[str, DeviceGrant]]):
    """The Device Manager's: devices by container and resource."""

    __slots__ = ("allocated", "plugins", "reusable", "saved")

    def __init__(self, state: NodeState) -> None:
        self.rows = self._shared = state.devices.grants
        self.plugins = Column(state.devices.plugins)
        self.allocated = Column(state.devices.allocated)
        self.saved = state.devices.saved
        self.reusable = state.reusable.devices

    def grant(self, uid: str, container: str, resource: str, grant: DeviceGrant) -> None:
        """Record devices of one resource for a container."""
        self.assign(uid, container, {**(self.get(uid, container) or {}), resource: grant})
        taken = self.allocated.rows.get(resource, frozenset())
        self.allocated.put(resource, taken | grant.ids)

    def save(self) -> None:
        """Write the file."""
        self.saved = DeviceFile(
            self.share(), {name: plugin.healthy for name, plugin in self.plugins.rows.items()}
        )

    def freeze(self, old: DeviceState) -> DeviceState:
        """The state as it is now."""
        if (
            self.rows is old.grants
            and self.allocated.rows is old.allocated
            and self.plugins.rows is old.plugins
            and self.saved is old.saved
        ):
            return old
        return DeviceState(self.plugins.share(), self.share(), self.allocated.share(), self.saved)


class Draft:
    """A working copy of a state."""

    __slots__ = (
        "active",
        "cpu",
        "departed",
        "devices",
        "last_pod",
        "memory",
        "pod",
        "ready",
        "running",
        "state",
    )

    def __init__(self, state: NodeState, pod: PodRequest | None = None) -> None:
        self.state = state
        self.pod = pod
        self.cpu = CpuDraft(state)
        self.memory = MemoryDraft(state)
        self.devices = DeviceDraft(state)
        self.active = Column(state.active)
        self.departed = state.departed
        self.ready = state.ready
        self.running = state.running
        self.last_pod = state.last_pod

    def goes(self, uid: str) -> None:
        """A pod is no longer active; what it had is collected later."""
        self.active.drop(uid)
        self.departed |= {uid}
        if self.running:
            self.running = frozenset(one for one in self.running if one[0] != uid)

    def stale(self, table: DraftTable[V], spared: str = "") -> list[Stale]:
        """What is recorded of pods that are gone, and of containers that a pod lacks since it came back."""
        recorded, pod = table.rows, self.pod
        if not recorded:
            return []
        gone: list[Stale] = []
        if self.departed:
            gone += [
                (uid, tuple(recorded[uid])) for uid in self.departed if uid in recorded and uid != spared
            ]
            gone.sort()
        if pod is not None and pod.uid in recorded:
            names = [container.name for container in pod.containers]
            others = tuple(name for name in recorded[pod.uid] if name not in names)
            if others:
                gone.append((pod.uid, others))
        return gone

    def freeze(self) -> NodeState:
        """The state as it is now; parts that were not written are the old ones."""
        old, cpu, memory, devices = self.state, self.cpu, self.memory, self.devices
        departed = self.departed
        if departed:
            mine, blocks, grants = cpu.rows, memory.rows, devices.rows
            pods, pushed = cpu.pods.rows, cpu.pushed.rows
            departed = frozenset(
                uid
                for uid in departed
                if uid in mine or uid in blocks or uid in grants or uid in pods or uid in pushed
            )
        reusable = old.reusable
        if (
            cpu.reusable is not reusable.cpus
            or memory.reusable is not reusable.memory
            or devices.reusable is not reusable.devices
        ):
            reusable = Reusable(cpu.reusable, memory.reusable, devices.reusable)
        return NodeState(
            cpu=cpu.freeze(old.cpu),
            memory=memory.freeze(old.memory),
            devices=devices.freeze(old.devices),
            active=self.active.share(),
            departed=departed,
            pushed=cpu.pushed.share(),
            ready=self.ready,
            running=self.running,
            last_pod=self.last_pod,
            reusable=reusable,
            resizes=old.resizes,
        )
