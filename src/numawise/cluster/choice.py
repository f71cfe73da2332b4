"""Which node a pod should go to: what every kubelet would say, and what the placement would leave.

Rules kept here:

1. A node is a candidate when its kubelet would let the pod in.  Of the others the reason is told.
2. Candidates are compared in this order, and what comes later counts only between equals:
   a. nothing that the managers give it lies apart, and it is on fewer NUMA nodes;
   b. fewer places are lost for larger shapes, the largest first: how many pods of a shape the kubelet would
      let in one after the other, before and after;
   c. less stays free on the NUMA nodes that it is given: first devices of the kinds it asks for, then CPUs;
   d. the links between its GPUs are better;
   e. more pods are on these NUMA nodes, and the last of them came later: pods that began together
      are more likely to leave a NUMA node whole at about the same time;
   f. more of the node is in use; the first in order.
3. Shapes are learned from every pod that is seen; of many, the ``MOST_SHAPES`` seen most often count; one
   takes another's place when it was seen twice as often.  A shape is larger than another with more devices,
   of equals with more CPUs, then with more memory.
4. Places are counted up to ``MOST_PLACES``: with so many left, nothing is short.
"""

from collections.abc import Hashable, Sequence

from numawise.cluster.asking import Asker, LetIn, Member, Shape, Situation, looks_at_labels, looks_nowhere
from numawise.cluster.counting import counted_places
from numawise.cluster.quick_rating import QuickRatings
from numawise.engine.failure import TOPOLOGY_AFFINITY
from numawise.engine.matching import kept_away
from numawise.engine.predicates import PODS, asked
from numawise.machine.preference import LinkedGpus
from numawise.quantity import Quantity
from numawise.request.constraints import NO_CONSTRAINTS
from numawise.request.defaults import RawPod, defaulted
from numawise.request.model import CPU, EPHEMERAL, HUGEPAGES, MEMORY
from numawise.results.cluster import LostPlaces, NodeRating, PodShape, PodSize
from numawise.values import dataclass, field, replace

MOST_SHAPES = 6
MOST_PLACES = 4
MOST_RATINGS = 20_000
MOST_SEEN, MOST_KNOWN = 100_000, 2000
"""Pods and shapes after which the earlier ones count half."""


@dataclass(slots=True)
class KnownShape:
    """A shape that was seen."""

    shape: PodShape
    pods: tuple[RawPod, ...]
    """Copies to be tried one after the other, on any node: without what they demand of labels and ports."""
    copy: RawPod
    """One to be tried, with all that it demands."""
    seen: int = 0


@dataclass(slots=True)
class Shapes:
    """The shapes of a cluster (rule 3)."""

    asker: Asker
    known: dict[Shape, KnownShape] = field(default_factory=dict)
    version: int = 0
    """Changes when other shapes count."""
    counted: tuple[Shape, ...] = ()
    """Those that count, the largest first."""

    def see(self, raw: RawPod) -> PodShape:
        """A pod was seen."""
        key = self.asker.shape(raw)
        known = self.known.get(key)
        if known is None:
            loose = replace(NO_CONSTRAINTS, tolerations=raw.constraints.tolerations)
            if raw.constraints is NO_CONSTRAINTS or not loose.tolerations:
                loose = NO_CONSTRAINTS
            copies = [
                replace(raw, uid=f"copy {number} of {raw.uid}", name=f"{raw.name}-copy-{number}")
                for number in range(MOST_PLACES)
            ]
            pods = tuple(replace(copy, constraints=loose) for copy in copies)
            known = self.known[key] = KnownShape(shape_of(raw), pods, copies[0])
        known.seen += 1
        if known.seen == 1 or (key not in self.counted and self._outnumbers(known)):
            self._count()
        return known.shape

    def larger(self, raw: RawPod) -> list[Shape]:
        """The shapes that count and are larger than a pod's, the largest first."""
        size = self.known[self.asker.shape(raw)].shape.size
        return [key for key in self.counted if self.known[key].shape.size > size]

    def tidy(self) -> None:
        """Let old shapes count less and less; those that nobody has any more are forgotten."""
        if sum(known.seen for known in self.known.values()) > MOST_SEEN or len(self.known) > MOST_KNOWN:
            for known in self.known.values():
                known.seen //= 2
            self.known = {key: known for key, known in self.known.items() if known.seen}
            self._count()

    def _outnumbers(self, known: KnownShape) -> bool:
        return known.seen > 2 * min(self.known[key].seen for key in self.counted)

    def _count(self) -> None:
        often = sorted(self.known, key=lambda key: -self.known[key].seen)[:MOST_SHAPES]
        counted = tuple(sorted(often, key=lambda key: self.known[key].shape.size, reverse=True))
        if counted != self.counted:
            self.counted = counted
            self.version += 1


def shape_of(raw: RawPod) -> PodShape:
    """The shape of a pod, with its name."""
    amounts = {name: size for name, size in asked(defaulted(raw)).items() if size and name != PODS}
    devices = {
        name: size
        for name, size in amounts.items()
        if name not in (CPU, MEMORY, EPHEMERAL) and not name.startswith(HUGEPAGES)
    }
    size = PodSize(sum(devices.values()), amounts.get(CPU, 0), amounts.get(MEMORY, 0))
    words = [f"{count} {name.rpartition('/')[2]}" for name, count in sorted(devices.items())]
    if CPU in amounts:
        words.append(f"{Quantity(amounts[CPU] * 10**6)} cpu")
    if MEMORY in amounts:
        words.append(str(Quantity.of(amounts[MEMORY])))
    return PodShape(", ".join(words) or "nothing", size, amounts)


class Chooser:
    """Rates nodes for pods; what it has learned of states and shapes is kept."""

    def __init__(self, members: Sequence[Member], asker: Asker | None = None) -> None:
        self.members = members
        self.asker = asker or Asker(members)
        self.shapes = Shapes(self.asker)
        self.quick = QuickRatings(self.asker)
        self.equal: dict[NodeRating, NodeRating] = {}
        self.places_known: dict[tuple[int, Shape], int] = {}
        self.ratings: dict[Shape, tuple[int, dict[Hashable, NodeRating | str]]] = {}

    def verdicts(self, raw: RawPod) -> list[NodeRating | str]:
        """Of every node, in order: its rating, or the reason why its kubelet would not let the pod in."""
        known, plain = self.known(raw), looks_nowhere(raw.constraints)
        verdicts = []
        for member in self.members:
            at = member.token if plain else (member.number, member.changes)
            verdict = known.get(at)
            if verdict is None:
                verdict = known[at] = self.rate(member, raw)
            verdicts.append(verdict)
        return verdicts

    def ranked(self, raw: RawPod) -> list[Member]:
        """The nodes that would let a pod in, the best first (rule 2)."""
        rated = [
            (verdict, member)
            for verdict, member in zip(self.verdicts(raw), self.members, strict=True)
            if not isinstance(verdict, str)
        ]
        ranks = {id(verdict): verdict.rank for verdict, _ in rated}
        return [member for _, member in sorted(rated, key=lambda pair: (ranks[id(pair[0])], *company(*pair)))]

    def best(self, raw: RawPod) -> Member | None:
        """The node that a pod should go to; None: no kubelet would let it in."""
        best: list[tuple[NodeRating, Member]] = []
        lowest: tuple[object, ...] | None = None
        ranks: dict[int, tuple[object, ...]] = {}
        for verdict, member in zip(self.verdicts(raw), self.members, strict=True):
            if isinstance(verdict, str):
                continue
            rank = ranks.get(id(verdict))
            if rank is None:
                rank = ranks[id(verdict)] = verdict.rank
            if lowest is None or rank < lowest:
                lowest, best = rank, [(verdict, member)]
            elif rank == lowest:
                best.append((verdict, member))
        return min(best, key=lambda pair: company(*pair))[1] if best else None

    def places(self, situation: Situation, key: Shape, token: int | None = None) -> int:
        """How many pods of a shape a node would let in, one after the other (rule 4)."""
        pods = self.shapes.known[key].pods
        at = (token, key) if token is not None else None
        known = self.places_known.get(at) if at is not None else None
        if known is None:
            known = counted_places(self.asker, situation, pods[0], len(pods))
            if known is None and at is None:
                at = self.asker.token(situation), key
                known = self.places_known.get(at)
            elif known is not None and at is not None:
                self.places_known[at] = known
        if known is None:
            known = 0
            for copy in pods:
                answer = self.asker.ask(situation, copy)
                if isinstance(answer, str):
                    break
                known += 1
                situation = situation.after(answer)
            if at is not None:
                self.places_known[at] = known
        return known

    def known(self, raw: RawPod) -> dict[Hashable, NodeRating | str]:
        """What is known of a shape: by the token of a state, or by number and changes of a node."""
        key = self.asker.shape(raw)
        if key not in self.shapes.known:
            self.shapes.see(raw)
        version = self.shapes.version
        known = self.ratings.get(key)
        if known is None or known[0] != version:
            known = self.ratings[key] = (version, {})
        return known[1]

    def rate(self, member: Member, raw: RawPod) -> NodeRating | str:
        """Ask one kubelet, and see what the placement would leave; equal ratings are one value."""
        rating = self._rated(member, raw)
        if isinstance(rating, str):
            return rating
        if len(self.equal) >= MOST_RATINGS:
            self.equal.clear()
        return self.equal.setdefault(rating, rating)

    def _rated(self, member: Member, raw: RawPod) -> NodeRating | str:
        situation = Situation.of(member)
        copy = self.shapes.known[self.asker.shape(raw)].copy
        larger = self.shapes.larger(raw)
        quick = self._quickly(member, self.shapes.known[self.asker.shape(raw)], larger)
        if quick is not None:
            return quick
        answer = self.asker.ask(situation, copy)
        if isinstance(answer, str):
            return answer
        alignment = answer.outcome.alignment
        numa = answer.outcome.numas(member.node.machine)
        lost: tuple[LostPlaces, ...] = ()
        if larger:
            after = situation.after(answer)
            lost = tuple(self._lost(situation, after, key) for key in larger)
        rating = NodeRating(
            not alignment.scattered if alignment is not None else None,
            numa,
            lost,
            _left(member, answer, numa),
            _link_points(answer),
        )
        self.quick.learn(member, self.shapes.known[self.asker.shape(raw)].pods[0], rating)
        return rating

    def _quickly(self, member: Member, known: KnownShape, larger: Sequence[Shape]) -> NodeRating | str | None:
        """The rating where it needs no trial; labels are compared node by node."""
        constraints, node = known.copy.constraints, member.node
        if not looks_at_labels(constraints):
            return None
        shapes = [(key, self.shapes.known[key]) for key in larger]
        others = [(key, one.shape.name, one.pods[0], len(one.pods)) for key, one in shapes]
        quick = self.quick.rate(member, known.pods[0], others)
        plain = constraints.node_affinity is None and not constraints.node_selector
        if quick is None or plain or (isinstance(quick, str) and quick != TOPOLOGY_AFFINITY):
            return quick
        unmet = kept_away(node.rules, node.description, self.asker.want(node, known.copy)[0], ())
        return unmet.reason if unmet is not None else quick

    def tidy(self, members: Sequence[Member]) -> None:
        """Forget answers that no node gives any more, and shapes that nobody has."""
        self.shapes.tidy()
        live: set[Hashable] = {member.token for member in members}
        if len(self.places_known) > 8 * len(live) * MOST_SHAPES + 1000:
            self.places_known = {at: count for at, count in self.places_known.items() if at[0] in live}
        self.quick.tidy(live, self.shapes.known)
        live |= {(member.number, member.changes) for member in members}
        for key, (version, known) in list(self.ratings.items()):
            if key not in self.shapes.known or version != self.shapes.version:
                del self.ratings[key]
            elif len(known) > 2 * len(live) + 1000:
                self.ratings[key] = version, {at: one for at, one in known.items() if at in live}

    def _lost(self, situation: Situation, after: Situation, key: Shape) -> LostPlaces:
        """Places of a larger shape, before and after; what was not there cannot be lost."""
        before = self.places(situation, key, situation.member.token)
        return LostPlaces(self.shapes.known[key].shape.name, before, self.places(after, key) if before else 0)


def company(rating: NodeRating, member: Member) -> tuple[int, float, float, int]:
    """Rules 2e and 2f."""
    there = [pod.since for pod in member.occupants.values() if pod.numa & rating.numa]
    return -len(there), -max(there, default=0.0), member.free, member.number


def _left(member: Member, answer: LetIn, numa: int) -> tuple[int, int]:
    """What stays free on the NUMA nodes that a pod is given (rule 2c)."""
    if not numa:
        return 0, 0
    state, layout = answer.state, member.node.machine.layout
    cpus = 0
    for node, bits in layout.numas.items():
        cpus |= bits if numa >> node & 1 else 0
    devices = 0
    for resource in {name for container in answer.pod.containers for name, _ in container.devices}:
        plugin = state.devices.plugins.get(resource)
        if plugin is None:
            continue
        free = plugin.healthy - state.devices.allocated.get(resource, frozenset())
        devices += sum(any(numa >> node & 1 for node in plugin.devices[one].numa or ()) for one in free)
    return devices, (state.cpu.shared & cpus & ~member.node.rules.reserved_cpus).bit_count()


def _link_points(answer: LetIn) -> int:
    """The points of the links between all GPUs of a pod, where its plugin knows them."""
    points = 0
    devices = answer.state.devices
    taken: dict[str, set[str]] = {}
    for grants in devices.grants.get(answer.pod.uid, {}).values():
        for resource, grant in grants.items():
            taken.setdefault(resource, set()).update(grant.ids)
    for resource, ids in taken.items():
        plugin = devices.plugins.get(resource)
        if len(ids) < 2 or plugin is None or not isinstance(plugin.preference, LinkedGpus):
            continue
        at = [number for number, name in enumerate(plugin.preference.gpus) if name in ids]
        points += sum(plugin.preference.points[i][j] for i in at for j in at if i < j)
    return points
