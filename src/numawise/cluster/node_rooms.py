"""What is free on every node, NUMA node by NUMA node, and what of it is of use.

Rules kept here:

1. What the kubelet gives out by NUMA node is counted there: CPUs under the CPU Manager's static policy,
   memory under the Memory Manager's, devices with a NUMA node.  What pods still hold that have ended is free:
   the kubelet collects it before it looks at the next one.  Sums are as the scheduler counts.
2. The reference of a node is the largest known shape that it would let in if it were idle.  Holes are what is
   free and would still be free once as many pods of that shape have come as the kubelet lets in, in the
   shape's devices of which it asks most, else in CPUs.
3. Which shape fits now is found by asking the kubelet, the largest first.
4. Nodes in equal states are asked once, and without a trial where counting gives the same
   (``cluster.counting``).  Whoever looks again (``NodeBoard``) asks those that changed.
5. Of the zones of another exporter only what they say is shown; a shape fits where the careful model of
   ``cluster.foreign`` says so, and holes are not known.  Without a Node object the sums are the zones' own.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from numawise.cluster.asking import Asker, LetIn, Member, Shape, Situation
from numawise.cluster.choice import shape_of
from numawise.cluster.counting import counted_places
from numawise.cluster.foreign import judged
from numawise.cluster.live import LiveCluster, NodeView, is_aligned
from numawise.cluster.live_places import LivePlaces
from numawise.cluster.places import places_on, running_pods
from numawise.cluster.refusal import kind_when_idle
from numawise.cluster.sums import free_sums, lack_by_sums
from numawise.node.publication import zone_amounts
from numawise.node.rebuild import release
from numawise.request.defaults import RawPod, defaulted
from numawise.request.model import CPU, HUGEPAGES, MEMORY
from numawise.results.cluster import PodShape
from numawise.results.node_room import GIVEN, STALE, UNKNOWN, NodeRoom, NodesReport, NumaRoom
from numawise.strconv import whole_number
from numawise.values import dataclass, field, replace

MOST_PLACES = 16
MOST_SHAPES = 8
"""So many of the largest shapes are tried."""
MOST_REMEMBERED = 100_000
"""Answers after which all are forgotten."""
DIGITS = re.compile(r"(\d{1,18})", re.ASCII)
KnownShapes = Sequence[tuple[PodShape, RawPod]]


def distinct_shapes(asker: Asker, pods: Iterable[RawPod]) -> list[tuple[PodShape, RawPod]]:
    """The shapes of pods, the largest first; of equal names one."""
    shapes: dict[Hashable, tuple[PodShape, RawPod]] = {}
    for pod in pods:
        key = asker.shape(pod)
        if key not in shapes:
            shapes[key] = shape_of(pod), pod
    ordered = sorted(shapes.values(), key=lambda pair: pair[0].size, reverse=True)
    return list({shape.name: (shape, pod) for shape, pod in reversed(ordered)}.values())[::-1]


@dataclass(slots=True)
class NodeRooms:
    """Looks at nodes one after the other; what equal ones answered is kept (rule 4)."""

    asker: Asker
    shapes: KnownShapes = ()
    counted: dict[Hashable, tuple[int, bool]] = field(default_factory=dict)
    idle: dict[Hashable, int] = field(default_factory=dict)

    def room(self, member: Member, known: str, notes: tuple[str, ...] = ()) -> NodeRoom:
        """One node."""
        node, config = member.node, member.node.config
        free = {
            name: max(0, size - member.used.get(name, 0)) for name, size in sorted(member.allocatable.items())
        }
        room = NodeRoom(
            member.name,
            known,
            config.topology_manager_policy,
            config.topology_manager_scope,
            _numa_rooms(member),
            free,
            dict(sorted(member.allocatable.items())),
            len(node.state.active),
            notes=notes,
        )
        room = self._fitting(room, member)
        reference = self._reference(member)
        if reference is None:
            return room
        shape = self.shapes[reference][0]
        unit = unit_of(shape)
        size = shape.resources[unit]
        left = _free_of(room, unit)
        usable = min(left, self._places(member, reference, max(1, left // size))[0] * size)
        return replace(room, largest=shape.name, unit=unit, holes=left - usable)

    def _fitting(self, room: NodeRoom, member: Member) -> NodeRoom:
        """Rule 3."""
        for number, (shape, _) in enumerate(self.shapes[:MOST_SHAPES]):
            places, more = self._places(member, number, MOST_PLACES)
            if places:
                return replace(room, fits=shape.name, places=places, more=more)
        return room

    def _reference(self, member: Member) -> int | None:
        """The number of the largest shape that an idle node lets in; None: there is none (rule 2)."""
        situation = Situation.of(member)
        token = kind_when_idle(member)
        if token not in self.idle:
            idle = situation.without(situation.state.active)
            self.idle[token] = next(
                (
                    number
                    for number, (shape, pod) in enumerate(self.shapes[:MOST_SHAPES])
                    if shape.resources and self._lets_in(idle, pod)
                ),
                -1,
            )
        number = self.idle[token]
        return None if number < 0 else number

    def _lets_in(self, situation: Situation, pod: RawPod) -> bool:
        count = counted_places(self.asker, situation, pod, 1)
        return isinstance(self.asker.ask(situation, pod), LetIn) if count is None else count > 0

    def _places(self, member: Member, number: int, most: int) -> tuple[int, bool]:
        """How many pods of a shape come one after the other, and whether counting was ended."""
        pod = self.shapes[number][1]
        key = self.asker.place(member, pod), number, most
        known = self.counted.get(key)
        if known is None:
            count = counted_places(self.asker, Situation.of(member), pod, most)
            tried = places_on(self.asker, member, pod, most) if count is None else (count, count >= most, "")
            known = self.counted[key] = tried[:2]
        return known


def unit_of(shape: PodShape) -> str:
    """What holes are counted in for a shape (rule 2)."""
    devices = {name: size for name, size in shape.resources.items() if "/" in name}
    if devices:
        return max(sorted(devices), key=devices.__getitem__)
    return CPU if shape.resources.get(CPU) else min(shape.resources)


def _free_of(room: NodeRoom, unit: str) -> int:
    """What is free of something, by NUMA nodes where it is given out there; never more than by sums."""
    sums = room.free.get(unit, 0)
    listed = [numa.free[unit] for numa in room.numa if unit in numa.free]
    by_numa = sum(listed) * (1000 if unit == CPU else 1)
    return min(sums, by_numa) if listed and unit == CPU else sums


def _numa_rooms(member: Member) -> tuple[NumaRoom, ...]:
    """Rule 1."""
    node, rules = replace(member.node), member.node.rules
    for uid in node.state.departed:
        release(node, uid)
    rooms = []
    # zones are published by name: node-10 before node-2
    for numa, amounts in sorted(zone_amounts(node).items()):
        given = {
            name: amount
            for name, amount in amounts.items()
            if (name == CPU and rules.cpu_static)
            or ((name == MEMORY or name.startswith(HUGEPAGES)) and rules.memory_static)
            or "/" in name
        }
        rooms.append(
            NumaRoom(
                numa,
                {name: amount.available for name, amount in given.items()},
                {name: amount.allocatable for name, amount in given.items()},
            )
        )
    return tuple(rooms)


# --- a cluster ------------------------------------------------------------------------------


def in_name_order(names: Iterable[str]) -> list[str]:
    """By name, numbers in it as numbers."""

    def key(name: str) -> list[tuple[int, str]]:
        parts = DIGITS.split(name)
        return [(whole_number(part), "") if at % 2 else (-1, part) for at, part in enumerate(parts)]

    return sorted(names, key=key)


def rooms_of(members: Sequence[Member], pods: Iterable[RawPod]) -> NodesReport:
    """Nodes of files, as they are described; ``pods``: whose shapes are tried."""
    asker = Asker(members)
    shapes = distinct_shapes(asker, pods)
    rooms = NodeRooms(asker, shapes)
    by_name = {member.name: rooms.room(member, GIVEN) for member in members}
    nodes = tuple(by_name[name] for name in in_name_order(by_name))
    return NodesReport(nodes, tuple(shape for shape, _ in shapes))


class NodeBoard:
    """The nodes of a cluster as it is, looked at again and again; those that did not change stay as they are.

    ``given``: the nodes are those of files, as they describe them.
    """

    def __init__(self, view: LiveCluster, *, given: bool = False) -> None:
        self.view, self.given = view, given
        self._keys: list[Shape] = []
        """The shapes by which the rooms were looked at."""
        self._rooms = NodeRooms(view.asker)
        self._known: dict[str, tuple[NodeView, int, NodeRoom]] = {}

    def report(self, names: Iterable[str], now: float) -> NodesReport:
        """These nodes, by name; the shapes are those seen most often, and of all pods that wait.

        Where no pods may be seen, they are those of pods in the published states.
        """
        view, names = self.view, in_name_order(names)
        shapes = self._distinct(names, now)
        keys = [view.asker.shape(pod) for _, pod in shapes]
        if keys != self._keys or len(self._rooms.counted) > MOST_REMEMBERED:
            self._keys, self._known = keys, {}
            self._rooms = NodeRooms(view.asker, shapes)
        nodes = tuple(self._room(name, now) for name in names)
        if len(self._known) > len(view.views):
            self._known = {name: known for name, known in self._known.items() if name in view.views}
        return NodesReport(nodes, tuple(shape for shape, _ in shapes))

    def _distinct(self, names: Sequence[str], now: float) -> KnownShapes:
        view = self.view
        learned = [pod for _, pod in LivePlaces(view).learned()]
        waiting = [pod.raw for pod in view.waiting if pod.raw is not None and is_aligned(pod.raw)]
        if not learned and not waiting:  # the pods themselves may not be seen
            for name in names:
                view.situation(name, now)
            learned = [pod for _, pod in running_pods(view.members)]
        return distinct_shapes(view.asker, [*learned, *waiting])

    def _room(self, name: str, now: float) -> NodeRoom:
        view = self.view.views[name]
        known = self._known.get(name)
        if known is None or known[0] is not view or known[1] != view.changes:
            room = _live_room(self.view, self._rooms, name, now)
            known = self._known[name] = view, view.changes, replace(room, known=GIVEN) if self.given else room
        return known[2]


def _in_all(zones: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    """What zones have together, CPUs in thousandths."""
    sums: Counter[str] = Counter()
    for own in zones.values():
        sums.update({name: size * 1000 if name == CPU else size for name, size in own.items()})
    return dict(sorted(sums.items()))


def live_rooms(view: LiveCluster, names: Iterable[str], now: float) -> NodesReport:
    """Nodes of a cluster as it is, looked at once."""
    return NodeBoard(view).report(names, now)


def _live_room(view: LiveCluster, rooms: NodeRooms, name: str, now: float) -> NodeRoom:
    notes = view.problems(name)
    situation = view.situation(name, now)
    node = view.views[name]
    described = node.description
    if described is not None and described.unschedulable:
        notes = (*notes, "it is cordoned")
    if described is not None and not described.ready:
        notes = (*notes, "it is not ready")
    if situation is not None:
        return rooms.room(situation.member, STALE if node.stale else view.how(name), notes)
    limits = dict(sorted(described.allocatable.items())) if described is not None else {}
    room = NodeRoom(name, UNKNOWN, free=free_sums(node), allocatable=limits, pods=len(node.pods), notes=notes)
    if node.source is None or node.source.zones is None:
        return room
    zones = node.source.zones
    numa = tuple(
        NumaRoom(zone, dict(own), dict(zones.allocatable.get(zone, {})))
        for zone, own in sorted(node.left.items())
    )
    room = replace(room, known=view.how(name), policy=zones.policy, scope=zones.scope, numa=numa)
    if described is None:
        room = replace(room, free=_in_all(node.left), allocatable=_in_all(zones.allocatable))
    for shape, pod in rooms.shapes[:MOST_SHAPES]:
        if lack_by_sums(node, pod) is None and judged(zones, node.left, defaulted(pod)) is not None:
            return replace(room, fits=shape.name, places=1, more=True)
    return room
