"""The part of a publication that changes with every pod: who holds what.

Rules kept here:

1. A set of CPUs or NUMA nodes is the kernel's list text; a device is its place in the machine's list, or its
   id where it is not there.
2. Pods stand in the order in which they are live, those that are gone by uid: an unchanged node gives the
   same bytes.
3. What follows from the rest is left out: devices that count as taken because somebody has them, containers
   that run because their pod is up, a Device Manager's file that has what its memory has.
4. Not in it: the CPU sets that were last pushed to running containers, and what a device plugin answered
   when it handed devices out.  No decision depends on them.
5. Everything that is read is on the machine that it is read for, or refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec

from numawise.codec.published.envelope import broken, misread
from numawise.codec.published.node_part import (
    AnyNuma,
    Count,
    PublishedPlugin,
    Size,
    encode_plugin,
    plugin_of,
    within,
)
from numawise.codec.published.shapes import PodShapes, PublishedShape, ShapeList
from numawise.engine.device.manager import allocated_by
from numawise.engine.state import (
    Block,
    CpuState,
    DeviceFile,
    DeviceGrant,
    DeviceState,
    Grants,
    MemoryState,
    MemoryTable,
    NodeState,
    NumaMemory,
    Plugin,
    ResizePending,
    Resizes,
    Reusable,
)
from numawise.errors import quoted
from numawise.machine.description import PRESSURES, NodeDescription
from numawise.machine.model import DevicePlugin, Machine
from numawise.request.model import PodRequest, Role
from numawise.results.publication import Publication
from numawise.sets import format_ids, ids_of, parse_ids

MOST_PODS = 20000
Moment = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Sum = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Memory = tuple[str, str, Size]
"""NUMA nodes, type, bytes."""
PublishedGrant = list[tuple[AnyNuma, list[Count | str]]]
"""NUMA node (-1: none) and devices."""
PublishedGrants = dict[str, dict[str, PublishedGrant]]
"""Container → resource → devices."""


class PublishedPod(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One pod and what is recorded for it."""

    uid: str
    shape: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """None: nothing is known of what it asks for."""
    cpus: dict[str, str] | None = None
    """By container."""
    pod_cpus: str | None = None
    """Of a pod that was given them as a whole."""
    memory: dict[str, list[Memory]] | None = None
    pod_memory: list[Memory] | None = None
    devices: PublishedGrants | None = None
    running: list[str] | None = None
    """Containers that run; None: all that go on running once the pod is up."""


class PublishedMemory(msgspec.Struct, forbid_unknown_fields=True):
    """What the Memory Manager counts of one NUMA node."""

    users: Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]
    cells: str
    tables: dict[str, tuple[Size, Size, Size, Size, Size]]
    """Total, kept for the system, allocatable, reserved, free."""


class PublishedNodeObject(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What the Node object says."""

    allocatable: dict[str, Sum] = {}
    """CPUs in thousandths."""
    kernel: str = ""
    strict_groups: bool = False
    pressures: list[str] = []
    shutting_down: bool = False


class PublishedReuse(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What init containers had and later containers of their pod may use again, by uid."""

    cpus: dict[str, str] = {}
    memory: dict[str, list[Memory]] = {}
    devices: dict[str, dict[str, list[Count | str]]] = {}


class PublishedResizes(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Pods whose spec asks for another size than they have."""

    desired: dict[str, int] = {}
    """Uid → shape."""
    queue: list[str] = []
    pending: dict[str, tuple[str, str, Moment]] = {}
    moment: Moment = 0
    counted: dict[str, dict[str, Sum]] = {}


class PublishedFile(msgspec.Struct, forbid_unknown_fields=True):
    """What the Device Manager's file has where it lags behind."""

    grants: dict[str, PublishedGrants]
    registered: dict[str, list[Count | str]]


class PublishedState(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The whole part."""

    machine: str
    """The hash of the part that it belongs to."""
    node: str
    missing: list[str] = []
    described: PublishedNodeObject | None = None
    shared: str = ""
    """The shared pool."""
    memory: dict[str, PublishedMemory] = {}
    plugins: dict[str, PublishedPlugin | None] = {}
    """Where it is not the machine's list; None: that resource has no plugin."""
    shapes: list[PublishedShape] = []
    pods: list[PublishedPod] = []
    departed: list[PublishedPod] = []
    """Gone, and something is still recorded for them."""
    others: list[PublishedPod] = []
    """Holders that are not known as pods."""
    taken: dict[str, list[Count | str]] | None = None
    """Devices that count as taken, where these are not just those that somebody has."""
    unsaved: bool = False
    """The Device Manager has written nothing yet."""
    saved: PublishedFile | None = None
    ready: bool = True
    last_pod: str = ""
    reusable: PublishedReuse | None = None
    resizes: PublishedResizes | None = None


class _Places:
    """Devices of a machine by their places, and back."""

    def __init__(self, machine: Machine) -> None:
        self.ids = {plugin.resource: [one.id for one in plugin.devices] for plugin in machine.plugins}
        self.places = {
            resource: {one: at for at, one in enumerate(ids)} for resource, ids in self.ids.items()
        }

    def written(self, resource: str, ids: Iterable[str]) -> list[int | str]:
        places = self.places.get(resource, {})
        return [places.get(one, one) for one in ids]

    def written_set(self, resource: str, ids: Iterable[str]) -> list[int | str]:
        return self.written(resource, sorted(ids))

    def read(self, resource: str, devices: Sequence[int | str]) -> tuple[str, ...]:
        ids = self.ids.get(resource, [])
        if any(isinstance(one, int) and one >= len(ids) for one in devices):
            raise ValueError(
                f"{resource} has no device at place {max(one for one in devices if isinstance(one, int))}"
            )
        return tuple(one if isinstance(one, str) else ids[one] for one in devices)


# --- writing --------------------------------------------------------------------------------


def encode_state(publication: Publication, machine_hash: str) -> bytes:
    """The part as JSON."""
    state, places, shapes = publication.state, _Places(publication.machine), ShapeList()
    recorded = (state.cpu.assignments, state.cpu.pods, state.memory.assignments, state.memory.pods)
    every = {uid for table in (*recorded, state.devices.grants) for uid in table}
    departed = sorted(every & state.departed - state.active.keys())
    others = sorted(every - state.departed - state.active.keys())
    running: dict[str, set[str]] = {}
    for uid, container in state.running:
        running.setdefault(uid, set()).add(container)

    def written(uid: str, pod: PodRequest | None) -> PublishedPod:
        shape = None if pod is None else shapes.place(pod)
        names = running.get(uid, set())
        return _pod(state, places, uid, shape, None if names == _lasting(pod) else sorted(names))

    part = PublishedState(
        machine=machine_hash,
        node=publication.node,
        missing=list(publication.missing),
        described=_described(publication.description),
        shared=format_ids(state.cpu.shared),
        memory={str(numa): _memory(own) for numa, own in sorted(state.memory.numa.items())},
        plugins=_plugins(publication.machine, state.devices),
        pods=[written(uid, pod) for uid, pod in state.active.items()],
        departed=[written(uid, None) for uid in departed],
        others=[written(uid, None) for uid in others],
        taken=_taken(state.devices, places),
        unsaved=state.devices.saved is None,
        saved=_saved(state.devices, places),
        ready=state.ready,
        last_pod=state.last_pod,
        reusable=_reusable(state.reusable, places),
        resizes=_resizes(state.resizes, shapes),
    )
    part.shapes = shapes.shapes
    return msgspec.json.encode(part)


def _pod(
    state: NodeState, places: _Places, uid: str, shape: int | None, running: list[str] | None
) -> PublishedPod:
    cpus, pod_cpus = state.cpu.assignments.get(uid), state.cpu.pods.get(uid)
    memory, pod_memory = state.memory.assignments.get(uid), state.memory.pods.get(uid)
    grants = state.devices.grants.get(uid)
    return PublishedPod(
        uid=uid,
        shape=shape,
        cpus=None if cpus is None else {name: format_ids(own) for name, own in cpus.items()},
        pod_cpus=None if pod_cpus is None else format_ids(pod_cpus),
        memory=None if memory is None else {name: _blocks(own) for name, own in memory.items()},
        pod_memory=None if pod_memory is None else _blocks(pod_memory),
        devices=None if grants is None else _grants(grants, places),
        running=running,
    )


def _lasting(pod: PodRequest | None) -> set[str]:
    """Containers that go on running once a pod is up."""
    return {one.name for one in pod.containers if one.role is not Role.INIT} if pod is not None else set()


def _blocks(blocks: Iterable[Block]) -> list[Memory]:
    return [(format_ids(one.numa), one.type, one.size) for one in blocks]


def _grants(grants: Mapping[str, Mapping[str, DeviceGrant]], places: _Places) -> PublishedGrants:
    return {
        container: {
            resource: [(numa, places.written(resource, ids)) for numa, ids in grant.per_numa]
            for resource, grant in own.items()
        }
        for container, own in grants.items()
    }


def _memory(own: NumaMemory) -> PublishedMemory:
    tables = {
        kind: (one.total, one.system, one.allocatable, one.reserved, one.free)
        for kind, one in own.tables.items()
    }
    return PublishedMemory(own.users, format_ids(own.cells), tables)


def _described(description: NodeDescription | None) -> PublishedNodeObject | None:
    if description is None:
        return None
    return PublishedNodeObject(
        allocatable=dict(sorted(description.allocatable.items())),
        kernel=description.kernel,
        strict_groups=description.strict_groups,
        pressures=list(description.pressures),
        shutting_down=description.shutting_down,
    )


def _plugins(machine: Machine, devices: DeviceState) -> dict[str, PublishedPlugin | None]:
    """The lists that are not the machine's."""
    listed = {plugin.resource: _plugin(plugin) for plugin in machine.plugins}
    differing: dict[str, PublishedPlugin | None] = {}
    for resource, plugin in devices.plugins.items():
        if listed.get(resource) != plugin:
            own = DevicePlugin(
                resource, tuple(plugin.devices.values()), plugin.preference, plugin.refuses_several
            )
            differing[resource] = encode_plugin(own, connected=plugin.connected)
    for resource in listed:
        if resource not in devices.plugins:
            differing[resource] = None
    return differing


def _plugin(plugin: DevicePlugin, *, connected: bool = True) -> Plugin:
    """A plugin that has registered, as the Device Manager knows it."""
    devices = {one.id: one for one in plugin.devices}
    healthy = frozenset(one.id for one in plugin.devices if one.healthy)
    return Plugin(devices, healthy, plugin.preference, plugin.refuses_several, connected)


def _taken(devices: DeviceState, places: _Places) -> dict[str, list[int | str]] | None:
    if devices.allocated == allocated_by(devices.grants.values()):
        return None
    return {name: places.written_set(name, ids) for name, ids in sorted(devices.allocated.items())}


def _saved(devices: DeviceState, places: _Places) -> PublishedFile | None:
    saved = devices.saved
    if saved is None or _same_file(saved, _file_of(devices.plugins, devices.grants)):
        return None
    return PublishedFile(
        {uid: _grants(own, places) for uid, own in sorted(saved.grants.items())},
        {name: places.written_set(name, ids) for name, ids in sorted(saved.registered.items())},
    )


def _file_of(plugins: Mapping[str, Plugin], grants: Grants) -> DeviceFile:
    return DeviceFile(grants, {name: plugin.healthy for name, plugin in plugins.items()})


def _same_file(one: DeviceFile, other: DeviceFile) -> bool:
    return one.registered == other.registered and _ids(one.grants) == _ids(other.grants)


def _ids(grants: Grants) -> dict[str, object]:
    """Grants without what plugins answered (rule 4)."""
    return {
        uid: {name: {res: one.per_numa for res, one in own.items()} for name, own in containers.items()}
        for uid, containers in grants.items()
    }


def _reusable(reusable: Reusable, places: _Places) -> PublishedReuse | None:
    if not reusable.cpus and not reusable.memory and not reusable.devices:
        return None
    return PublishedReuse(
        {uid: format_ids(cpus) for uid, cpus in sorted(reusable.cpus.items())},
        {
            uid: [(format_ids(numa), kind, size) for (numa, kind), size in sorted(own.items())]
            for uid, own in sorted(reusable.memory.items())
        },
        {
            uid: {name: places.written_set(name, ids) for name, ids in sorted(own.items())}
            for uid, own in sorted(reusable.devices.items())
        },
    )


def _resizes(resizes: Resizes, shapes: ShapeList) -> PublishedResizes | None:
    if resizes == Resizes():
        return None
    return PublishedResizes(
        {uid: shapes.place(pod) for uid, pod in sorted(resizes.desired.items())},
        list(resizes.queue),
        {uid: (one.reason, one.message, one.since) for uid, one in sorted(resizes.pending.items())},
        resizes.moment,
        {uid: dict(own) for uid, own in sorted(resizes.counted.items())},
    )


# --- reading --------------------------------------------------------------------------------


def decode_state(name: str, data: bytes) -> PublishedState:
    """The part, its shape and numbers checked."""
    try:
        part = msgspec.json.decode(data, type=PublishedState)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise misread(name, "the state of a node", problem) from None
    if len(part.pods) + len(part.departed) + len(part.others) > MOST_PODS:
        raise broken(name, f"has more than {MOST_PODS:,} pods")
    return part


def description_of(part: PublishedState) -> NodeDescription | None:
    """What the Node object said."""
    said = part.described
    if said is None:
        return None
    return NodeDescription(
        name=part.node,
        labels_known=False,
        pressures=tuple(one for one in said.pressures if one in PRESSURES),
        allocatable=said.allocatable,
        strict_groups=said.strict_groups,
        kernel=said.kernel,
        shutting_down=said.shutting_down,
    )


def state_of(name: str, part: PublishedState, machine: Machine) -> NodeState:
    """The state on its machine (rule 5)."""
    try:
        return _Reading(machine).state(part)
    except ValueError as problem:
        raise broken(name, f"is not the state of this machine: {problem}") from None


class _Reading:
    """One walk over a part; ``ValueError``: it does not fit the machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.places = _Places(machine)
        self._cpus: dict[str, int] = {}
        self._numa: dict[str, int] = {}
        self._blocks: dict[Memory, Block] = {}

    def state(self, part: PublishedState) -> NodeState:
        shapes = PodShapes(part.shapes)
        every = [*part.pods, *part.departed, *part.others]
        if len({one.uid for one in every}) != len(every):
            raise ValueError("a pod is listed twice")
        active = {one.uid: None if one.shape is None else shapes.pod(one.shape, one.uid) for one in part.pods}
        running: set[tuple[str, str]] = set()
        for one in part.pods:
            names = _lasting(active[one.uid]) if one.running is None else one.running
            running.update((one.uid, name) for name in names)
        return NodeState(
            cpu=self.cpu(part.shared, every),
            memory=self.memory(part.memory, every),
            devices=self.devices(part, every),
            active=active,
            departed=frozenset(one.uid for one in part.departed),
            ready=part.ready,
            running=frozenset(running),
            last_pod=part.last_pod,
            reusable=self.reusable(part.reusable),
            resizes=self.resizes(part.resizes, shapes),
        )

    def cpus(self, text: str) -> int:
        """A set of CPUs, all of which are there."""
        if text not in self._cpus:
            self._cpus[text] = _inside(text, self.machine.layout.all, "CPU")
        return self._cpus[text]

    def numa(self, text: str) -> int:
        """A set of NUMA nodes, all of which are there."""
        if text not in self._numa:
            self._numa[text] = _inside(text, self.machine.numa_bits, "NUMA node")
        return self._numa[text]

    def cpu(self, shared: str, pods: Sequence[PublishedPod]) -> CpuState:
        assignments: dict[str, dict[str, int]] = {}
        whole: dict[str, int] = {}
        for pod in pods:
            if pod.cpus is not None:
                assignments[pod.uid] = {name: self.cpus(text) for name, text in pod.cpus.items()}
            if pod.pod_cpus is not None:
                whole[pod.uid] = self.cpus(pod.pod_cpus)
        return CpuState(self.cpus(shared), assignments, whole)

    def blocks(self, blocks: Sequence[Memory]) -> tuple[Block, ...]:
        known = self._blocks
        for one in blocks:
            if one not in known:
                numa, kind, size = one
                within(size)
                known[one] = Block(self.numa(numa), kind, size)
        return tuple([known[one] for one in blocks])

    def memory(self, numa: Mapping[str, PublishedMemory], pods: Sequence[PublishedPod]) -> MemoryState:
        nodes: dict[int, NumaMemory] = {}
        for text, own in numa.items():
            single = self.numa(text)
            if single.bit_count() != 1:
                raise ValueError(f"{quoted(text)} is not one NUMA node")
            within(*(size for sizes in own.tables.values() for size in sizes))
            tables = {kind: MemoryTable(*sizes) for kind, sizes in own.tables.items()}
            nodes[single.bit_length() - 1] = NumaMemory(own.users, tables, self.numa(own.cells))
        assignments: dict[str, dict[str, tuple[Block, ...]]] = {}
        whole: dict[str, tuple[Block, ...]] = {}
        for pod in pods:
            if pod.memory is not None:
                assignments[pod.uid] = {name: self.blocks(own) for name, own in pod.memory.items()}
            if pod.pod_memory is not None:
                whole[pod.uid] = self.blocks(pod.pod_memory)
        for block in self._blocks.values():
            for one in ids_of(block.numa):
                if one not in nodes or block.type not in nodes[one].tables:
                    raise ValueError(f"NUMA {one} has no {quoted(block.type)}")
        return MemoryState(nodes, assignments, whole)

    def grants(self, grants: PublishedGrants) -> dict[str, dict[str, DeviceGrant]]:
        return {
            container: {
                resource: DeviceGrant(
                    tuple((numa, self.places.read(resource, devices)) for numa, devices in per_numa)
                )
                for resource, per_numa in own.items()
            }
            for container, own in grants.items()
        }

    def devices(self, part: PublishedState, pods: Sequence[PublishedPod]) -> DeviceState:
        plugins: dict[str, Plugin] = {}
        for listed in self.machine.plugins:
            if listed.resource not in part.plugins:
                plugins[listed.resource] = _plugin(listed)
        for resource, own in part.plugins.items():
            if own is not None:
                plugins[resource] = _plugin(plugin_of(resource, own), connected=own.connected)
        grants = {pod.uid: self.grants(pod.devices) for pod in pods if pod.devices is not None}
        taken: Mapping[str, frozenset[str]] = (
            allocated_by(grants.values())
            if part.taken is None
            else {name: frozenset(self.places.read(name, ids)) for name, ids in part.taken.items()}
        )
        saved: DeviceFile | None = _file_of(plugins, grants)
        if part.unsaved:
            saved = None
        elif part.saved is not None:
            saved = DeviceFile(
                {uid: self.grants(own) for uid, own in part.saved.grants.items()},
                {name: frozenset(self.places.read(name, ids)) for name, ids in part.saved.registered.items()},
            )
        return DeviceState(plugins, grants, taken, saved)

    def reusable(self, part: PublishedReuse | None) -> Reusable:
        if part is None:
            return Reusable()
        within(*(size for own in part.memory.values() for _, _, size in own))
        return Reusable(
            {uid: self.cpus(text) for uid, text in part.cpus.items()},
            {
                uid: {(self.numa(numa), kind): size for numa, kind, size in own}
                for uid, own in part.memory.items()
            },
            {
                uid: {name: frozenset(self.places.read(name, ids)) for name, ids in own.items()}
                for uid, own in part.devices.items()
            },
        )

    def resizes(self, part: PublishedResizes | None, shapes: PodShapes) -> Resizes:
        if part is None:
            return Resizes()
        return Resizes(
            {uid: shapes.pod(place, uid) for uid, place in part.desired.items()},
            tuple(part.queue),
            {uid: ResizePending(*one) for uid, one in part.pending.items()},
            part.moment,
            part.counted,
        )


def _inside(text: str, every: int, what: str) -> int:
    """A set of ids, all of which are there."""
    ids = parse_ids(text)
    if ids & ~every:
        raise ValueError(f"there is no {what} {format_ids(ids & ~every)[:60]}")
    return ids
