"""The state part read: numbers checked, and every id of it looked for on the machine.

Rules kept here are those of ``state_part``; what does not fit the machine is a ``ValueError`` inside, and one
sentence outside.
"""

from collections.abc import Mapping, Sequence

import msgspec

from numawise.codec.forms import decoded
from numawise.codec.published.envelope import broken, misread
from numawise.codec.published.node_part import (
    plugin_of,
    within,
)
from numawise.codec.published.shapes import PodShapes
from numawise.codec.published.state_part import (
    MOST_PODS,
    DevicePlaces,
    Memory,
    PublishedGrants,
    PublishedMemory,
    PublishedPod,
    PublishedResizes,
    PublishedReuse,
    PublishedState,
    file_of,
    lasting_names,
    registered,
)
from numawise.engine.device.manager import allocated_by
from numawise.engine.state import (
    Block,
    CpuState,
    DeviceFile,
    DeviceGrant,
    DeviceState,
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
from numawise.machine.model import Machine
from numawise.sets import format_ids, ids_of, parse_ids


def decode_state(name: str, data: bytes) -> PublishedState:
    """The part, its shape and numbers checked."""
    try:
        part = decoded(data, PublishedState)
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
        self.places = DevicePlaces(machine)
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
            names = lasting_names(active[one.uid]) if one.running is None else one.running
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
                plugins[listed.resource] = registered(listed)
        for resource, own in part.plugins.items():
            if own is not None:
                plugins[resource] = registered(plugin_of(resource, own), connected=own.connected)
        grants = {pod.uid: self.grants(pod.devices) for pod in pods if pod.devices is not None}
        taken: Mapping[str, frozenset[str]] = (
            allocated_by(grants.values())
            if part.taken is None
            else {name: frozenset(self.places.read(name, ids)) for name, ids in part.taken.items()}
        )
        saved: DeviceFile | None = file_of(plugins, grants)
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
