"""A trace of pods over many nodes: who waits how long, and whom kubelets refuse, by the way a node is chosen.

Rules kept here:

1. A pod arrives, is sent to a node, runs for its time there and ends.  Pods that no node takes wait; whenever
   something ends, all that wait are tried in the order in which they came, and later ones may go first.
2. ``least-allocated`` and ``most-allocated`` look at sums, as the stock scheduler does: the emptiest or
   the fullest node by CPU and memory that has enough of everything.  The kubelet has the last word; a refused
   pod is made anew after the time to retry.
3. ``asked``: the fullest node whose kubelet would let the pod in.  ``numawise``: the best by
   ``cluster.choice``; for pods that have waited longer than the patience, places are kept
   (``cluster.kept_places``).
4. ``pool``: no node and no NUMA node at all: the sums of the whole cluster in one piece, in the same order.
   What waits there waits for want of resources, not because they are in pieces.
5. What happens at one time: ends, then arrivals, then retries.  Nothing is known beforehand of pods that have
   not come, nor of how long a pod runs.
6. At ``MOST_MOMENTS`` points in time what is free is counted, and how much of it pods of the largest shape
   that came so far could be given.
7. A refused pod is given up when nothing runs and nothing comes any more, or after ``MOST_TRIES`` refusals.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count

from numawise.cluster.asking import Asker, LetIn, Member, Situation, members_of
from numawise.cluster.choice import Chooser, shape_of
from numawise.cluster.kept_places import KeptPlaces, LatePod, turn_of
from numawise.engine.predicates import PODS, add
from numawise.node.node import SimulatedNode
from numawise.request.defaults import RawPod
from numawise.request.model import CPU
from numawise.results.cluster import (
    ASKED,
    LEAST,
    MOST,
    OURS,
    POOL,
    Arrival,
    ChoiceRun,
    ClusterRun,
    FreeMoment,
    PodShape,
    ShapeWaits,
)
from numawise.values import dataclass, field, replace

ENDS, ARRIVES, TRIES = 0, 1, 2
MOST_MOMENTS = 400
MOST_TRIES = 1000
Groups = Sequence[tuple[Sequence[str], SimulatedNode]]


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """How refused and waiting pods are treated."""

    retry: float = 30.0
    patience: float = 300.0


def run_trace(
    groups: Groups,
    arrivals: Sequence[Arrival],
    choices: Sequence[str],
    settings: TraceSettings = TraceSettings(),  # noqa: B008 - a frozen value
    progress: Callable[[int], None] = lambda _: None,
) -> ClusterRun:
    """Play a trace once for each choice; interrupted, what was done so far is reported."""
    unit = _unit(arrivals)
    first = min((arrival.at for arrival in arrivals), default=0.0)
    last = max((arrival.at for arrival in arrivals), default=0.0)
    nodes = sum(len(names) for names, _ in groups)
    run = ClusterRun(nodes, len(arrivals), last - first, settings.retry, settings.patience, unit)
    done: list[ChoiceRun] = []
    for number, choice in enumerate(choices):
        before = number * len(arrivals)
        members = members_of([(names, replace(node)) for names, node in groups])
        kind = _Pool if choice == POOL else _ByNode
        play = kind(_Given(choice, members, arrivals, settings, unit))

        def tell(count: int, before: int = before) -> None:
            progress(before + count)

        try:
            play.play(tell)
        except KeyboardInterrupt:
            return replace(run, choices=(*done, play.result()), interrupted=True)
        done.append(play.result())
    return replace(run, choices=tuple(done))


def _unit(arrivals: Sequence[Arrival]) -> str:
    """What fragments are counted in: the device resource asked for most, else CPUs."""
    amounts: Counter[str] = Counter()
    for shape in {id(arrival.pod.containers): shape_of(arrival.pod) for arrival in arrivals}.values():
        amounts.update({name: 1 for name in shape.resources if "/" in name})
    return min(amounts, key=lambda name: (-amounts[name], name), default=CPU)


@dataclass(frozen=True, slots=True)
class _Given:
    """What is played."""

    choice: str
    members: Sequence[Member]
    arrivals: Sequence[Arrival]
    settings: TraceSettings
    unit: str
    """What fragments are counted in."""


@dataclass(slots=True)
class _Tally:
    """What became of the pods of one shape."""

    shape: PodShape
    pods: int = 0
    refusals: int = 0
    aligned: int = 0
    waits: list[float] = field(default_factory=list)


class _Play:
    """One choice; ``send`` says how a pod finds a node."""

    def __init__(self, given: _Given) -> None:
        self.choice, self.members, self.arrivals = given.choice, given.members, given.arrivals
        self.settings, self.unit = given.settings, given.unit
        self.asker = Asker(self.members)
        self.now = 0.0
        self.queue: list[int] = []
        """Pods that wait for room, by number, in the order they came."""
        self.resting: set[int] = set()
        """Pods that were refused and are not tried before their time."""
        self.events: list[tuple[float, int, int, int]] = []
        self.serial = count()
        self.tallies: dict[object, _Tally] = {}
        self.moments: list[FreeMoment] = []
        self.started = self.running = 0
        self.coming = len(self.arrivals)
        self.refusals: Counter[int] = Counter()

    def play(self, progress: Callable[[int], None]) -> None:
        """Everything, in the order of time."""
        for number, arrival in enumerate(self.arrivals):
            self.after(arrival.at, ARRIVES, number)
        begin = min((arrival.at for arrival in self.arrivals), default=0.0)
        end = max((arrival.at for arrival in self.arrivals), default=0.0)
        step = (end - begin) / MOST_MOMENTS
        due = begin
        while self.events:
            self.now, kind, _, number = heappop(self.events)
            if kind == ENDS:
                self.running -= 1
                self.end(number)
                self.try_all()
            elif kind == ARRIVES:
                self.coming -= 1
                self.arrive(number)
                self.try_pods([number])
            else:
                self.resting.discard(number)
                self.try_pods([number])
            progress(self.started)
            if due <= self.now <= end:
                self.moments.append(self.moment())
                due = self.now + step

    def after(self, at: float, kind: int, number: int) -> None:
        heappush(self.events, (at, kind, next(self.serial), number))

    def arrive(self, number: int) -> None:
        raw = self.arrivals[number].pod
        key = self.asker.shape(raw)
        tally = self.tallies.get(key)
        if tally is None:
            tally = self.tallies[key] = _Tally(shape_of(raw))
        tally.pods += 1
        self.queue.append(number)

    def try_all(self) -> None:
        self.try_pods([number for number in self.queue if number not in self.resting])

    def try_pods(self, numbers: Sequence[int]) -> None:
        """Try pods in order; what one of a shape is not given, the later ones are not given either."""
        hopeless: set[object] = set()
        started: set[int] = set()
        for number in numbers:
            key = self.asker.shape(self.arrivals[number].pod)
            if key in hopeless:
                continue
            if self.send(number):
                started.add(number)
                self.start(number)
            elif number not in self.resting:
                hopeless.add(key)
        if started:
            self.queue = [number for number in self.queue if number not in started]

    def start(self, number: int) -> None:
        arrival = self.arrivals[number]
        tally = self.tallies[self.asker.shape(arrival.pod)]
        tally.waits.append(self.now - arrival.at)
        self.started += 1
        self.running += 1
        self.after(self.now + arrival.seconds, ENDS, number)

    def refuse(self, number: int) -> None:
        """A kubelet refused a pod; it is made anew later, unless that is hopeless (rule 7)."""
        self.tallies[self.asker.shape(self.arrivals[number].pod)].refusals += 1
        self.resting.add(number)
        self.refusals[number] += 1
        if (self.running or self.coming) and self.refusals[number] < MOST_TRIES:
            self.after(self.now + self.settings.retry, TRIES, number)

    def result(self) -> ChoiceRun:
        tallies = sorted(self.tallies.values(), key=lambda tally: tally.shape.size, reverse=True)
        shapes = tuple(
            ShapeWaits(
                tally.shape,
                tally.pods,
                tally.refusals,
                None if self.choice == POOL else tally.aligned,
                tuple(sorted(tally.waits)),
            )
            for tally in tallies
        )
        never = sum(tally.pods - len(tally.waits) for tally in tallies)
        return ChoiceRun(self.choice, shapes, never, tuple(self.moments))

    def send(self, number: int) -> bool:
        """True when a pod starts; a refused one is put aside by ``refuse``."""
        raise NotImplementedError

    def end(self, number: int) -> None:
        raise NotImplementedError

    def moment(self) -> FreeMoment:
        raise NotImplementedError


class _Pool(_Play):
    """Rule 4."""

    def __init__(self, given: _Given) -> None:
        super().__init__(given)
        self.free: dict[str, int] = {}
        for member in self.members:
            add(self.free, member.allocatable)
            add(self.free, {name: -size for name, size in member.used.items()})

    def send(self, number: int) -> bool:
        wanted = self.wanted(number)
        if any(size > self.free.get(name, 0) for name, size in wanted.items()):
            return False
        add(self.free, {name: -size for name, size in wanted.items()})
        return True

    def end(self, number: int) -> None:
        add(self.free, self.wanted(number))

    def wanted(self, number: int) -> dict[str, int]:
        shape = self.tallies[self.asker.shape(self.arrivals[number].pod)].shape
        known = self.members[0].allocatable if self.members else {}
        amounts = {name: size for name, size in shape.resources.items() if name in self.free or "/" in name}
        return {**amounts, PODS: 1} if PODS in known else amounts

    def moment(self) -> FreeMoment:
        free = self.free.get(self.unit, 0)
        return FreeMoment(self.now, free, free, len(self.queue))


class _ByNode(_Play):
    """Rules 2 and 3."""

    def __init__(self, given: _Given) -> None:
        super().__init__(given)
        self.chooser = Chooser(self.members, self.asker)
        self.kept = KeptPlaces(self.members, self.asker)
        self.where: dict[int, tuple[Member, str]] = {}
        self.tries: Counter[int] = Counter()
        self.known: dict[object, dict[object, bool]] = {}
        """By shape and state: whether it is enough (by sums), or whether the kubelet lets it in."""

    def arrive(self, number: int) -> None:
        super().arrive(number)
        self.chooser.shapes.see(self.arrivals[number].pod)
        self.keep_places()

    def try_all(self) -> None:
        self.keep_places()
        super().try_all()

    def keep_places(self) -> None:
        """For all that have waited longer than the patience."""
        if self.choice != OURS:
            return
        patience = self.settings.patience
        late = [number for number in self.queue if self.now - self.arrivals[number].at >= patience]
        if late or self.kept.places:
            pods = (self.arrivals[number] for number in late)
            self.kept.keep((LatePod(pod.pod, pod.at) for pod in pods), self.now)

    def send(self, number: int) -> bool:
        raw = self.arrivals[number].pod
        member = self.member_for(raw, self.arrivals[number].at)
        if member is None:
            return False
        uid = raw.uid if not self.tries[number] else f"{raw.uid}-{self.tries[number]}"
        self.tries[number] += 1
        own = replace(raw, uid=uid)
        answer = self.asker.ask(Situation.of(member), own)
        if not isinstance(answer, LetIn):
            member.node.admit(member.node.requested(own))  # what a refusal leaves behind stays
            member.rejected += 1
            self.asker.changed(member)
            self.refuse(number)
            return False
        self.asker.settle(member, answer, self.now)
        self.kept.bound(raw)
        member.placed.clear()
        self.where[number] = member, uid
        alignment = answer.outcome.alignment
        tally = self.tallies[self.asker.shape(raw)]
        tally.aligned += alignment is not None and not alignment.scattered
        return True

    def end(self, number: int) -> None:
        member, uid = self.where.pop(number)
        self.asker.end(member, uid)

    def member_for(self, raw: RawPod, came: float) -> Member | None:
        """The node that a pod is sent to; None: it waits."""
        if self.choice == OURS:
            if not self.kept.places:
                return self.chooser.best(raw)
            turn = turn_of(raw, came)
            return next((one for one in self.chooser.ranked(raw) if self.kept.allows(one, raw, turn)), None)
        enough = [member for member in self.members if self.possible(member, raw)]
        sign = -1 if self.choice == LEAST else 1
        return min(enough, key=lambda member: (sign * member.free, member.number), default=None)

    def possible(self, member: Member, raw: RawPod) -> bool:
        known = self.known.setdefault(self.asker.shape(raw), {})
        place = self.asker.place(member, raw)
        answer = known.get(place)
        if answer is None:
            situation = Situation.of(member)
            if self.choice == ASKED:
                answer = isinstance(self.asker.ask(situation, raw), LetIn)
            else:
                assert self.choice in (LEAST, MOST)
                answer = self.asker.lack(situation, raw) is None
            known[place] = answer
        return answer

    def moment(self) -> FreeMoment:
        """Rule 6."""
        shapes = self.chooser.shapes
        largest = next(
            (key for key in shapes.counted if shapes.known[key].shape.resources.get(self.unit)), None
        )
        free = usable = 0
        for member in self.members:
            here = max(0, member.allocatable.get(self.unit, 0) - member.used.get(self.unit, 0))
            free += here
            if here and largest is not None:
                size = shapes.known[largest].shape.resources[self.unit]
                places = self.chooser.places(Situation.of(member), largest, member.token)
                usable += min(here, places * size)
        return FreeMoment(self.now, free, usable, len(self.queue))
