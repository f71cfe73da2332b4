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

from numawise.codec.published.node_part import (
    AnyNuma,
    Count,
    PublishedPlugin,
    Size,
    encode_plugin,
)
from numawise.codec.published.shapes import PublishedShape, ShapeList
from numawise.engine.device.manager import allocated_by
from numawise.engine.state import (
    Block,
    DeviceFile,
    DeviceGrant,
    DeviceState,
    Grants,
    NodeState,
    NumaMemory,
    Plugin,
    Resizes,
    Reusable,
)
from numawise.machine.description import NodeDescription
from numawise.machine.model import DevicePlugin, Machine
from numawise.request.model import PodRequest, Role
from numawise.results.publication import Publication
from numawise.sets import format_ids

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


class DevicePlaces:
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
    state, places, shapes = publication.state, DevicePlaces(publication.machine), ShapeList()
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
        return _pod(state, places, uid, shape, None if names == lasting_names(pod) else sorted(names))

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
    state: NodeState, places: DevicePlaces, uid: str, shape: int | None, running: list[str] | None
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


def lasting_names(pod: PodRequest | None) -> set[str]:
    """Containers that go on running once a pod is up."""
    return {one.name for one in pod.containers if one.role is not Role.INIT} if pod is not None else set()


def _blocks(blocks: Iterable[Block]) -> list[Memory]:
    return [(format_ids(one.numa), one.type, one.size) for one in blocks]


def _grants(grants: Mapping[str, Mapping[str, DeviceGrant]], places: DevicePlaces) -> PublishedGrants:
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
    listed = {plugin.resource: registered(plugin) for plugin in machine.plugins}
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


def registered(plugin: DevicePlugin, *, connected: bool = True) -> Plugin:
    """A plugin that has registered, as the Device Manager knows it."""
    devices = {one.id: one for one in plugin.devices}
    healthy = frozenset(one.id for one in plugin.devices if one.healthy)
    return Plugin(devices, healthy, plugin.preference, plugin.refuses_several, connected)


def _taken(devices: DeviceState, places: DevicePlaces) -> dict[str, list[int | str]] | None:
    if devices.allocated == allocated_by(devices.grants.values()):
        return None
    return {name: places.written_set(name, ids) for name, ids in sorted(devices.allocated.items())}


def _saved(devices: DeviceState, places: DevicePlaces) -> PublishedFile | None:
    saved = devices.saved
    if saved is None or _same_file(saved, file_of(devices.plugins, devices.grants)):
        return None
    return PublishedFile(
        {uid: _grants(own, places) for uid, own in sorted(saved.grants.items())},
        {name: places.written_set(name, ids) for name, ids in sorted(saved.registered.items())},
    )


def file_of(plugins: Mapping[str, Plugin], grants: Grants) -> DeviceFile:
    """The Device Manager's file when it has what its memory has."""
    return DeviceFile(grants, {name: plugin.healthy for name, plugin in plugins.items()})


def _same_file(one: DeviceFile, other: DeviceFile) -> bool:
    return one.registered == other.registered and _ids(one.grants) == _ids(other.grants)


def _ids(grants: Grants) -> dict[str, object]:
    """Grants without what plugins answered (rule 4)."""
    return {
        uid: {name: {res: one.per_numa for res, one in own.items()} for name, own in containers.items()}
        for uid, containers in grants.items()
    }


def _reusable(reusable: Reusable, places: DevicePlaces) -> PublishedReuse | None:
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
