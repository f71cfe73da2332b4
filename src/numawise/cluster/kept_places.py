"""Places that are kept for pods that wait, so that nobody who came later takes them away.

What is proved: let *W* be a pod that waits, and *E* the pods whose end it waits for on its node.  As long as
the place is kept, no pod behind *W* joins *E*, and whoever of them is let in there leaves the kubelet's
answer "yes, once *E* have ended".  So when the last of *E* ends, *W* is let in, unless a pod before it came.
A property test plays random fleets (``tests/property/test_kept_places.py``).

Rules kept here:

1. A place is a node and the pods on it whose end makes room: those on one NUMA node, on the NUMA nodes of
   one socket, or all.  Of all places the one with the fewest pods to end is kept, of equals the one where
   less is held.  Nobody waits for a pod of which it is not known that it ends.
2. Pods have an order: the higher priority first, then who came first.  Places are kept in this order, and
   hold off only pods behind the one that waits.  A later one never counts on what an earlier one waits for.
3. A place is on a node that the pod may go to, by who asked: the scheduler knows volumes, spreading and other
   pods, which are not seen here.
4. A kept place changes only for one with fewer pods to end, or when the kubelet would no longer let the pod
   in there: the answer of a kubelet may turn when pods end whose end nobody waits for.
5. A pod may go to a node with kept places when, those waited for having ended, the kubelet would
   still let in all pods for which places are kept there, one after the other.
6. A namespace has a few places at a time, and each for a time; then it has none in its stead for as long.
   The time goes on for the next pod of the namespace: deleting one and waiting with another wins nothing.
   When the pod is bound, the time begins anew.  In all there are ``MOST_KEPT``; further pods wait without.
7. Of more than ``MOST_LOOKED_AT`` nodes those are looked at that lack least of what the pod asks for, by
   sums.  Of one namespace at most ``MOST_TRIED`` pods are tried, and ``MOST_TRIED_IN_ALL`` of all.
"""

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from heapq import nsmallest
from itertools import islice

from numawise.cluster.asking import Asker, LetIn, Member, Situation
from numawise.engine.predicates import asked
from numawise.request.constraints import SYSTEM_CRITICAL
from numawise.request.defaults import RawPod, defaulted
from numawise.values import dataclass

MOST_KEPT, MOST_TRIED, MOST_TRIED_IN_ALL = 8, 8, 64
MOST_LOOKED_AT = 32
ASKED_LATELY = 600.0
"""Seconds after which nobody keeps a place for a pod that the scheduler no longer asks about."""
Turn = tuple[int, float, str, str, str]


def turn_of(raw: RawPod, created: float = math.inf) -> Turn:
    """A pod's place in the order of pods (rule 2); one of which it is not known when it came is the last."""
    constraints = raw.constraints
    critical = SYSTEM_CRITICAL if constraints.critical else 0
    return -max(constraints.priority or 0, critical), created, raw.namespace, raw.name, raw.uid


@dataclass(frozen=True, slots=True)
class KeptTerms:
    """For how many pods places are kept, and for how long (rule 6)."""

    places: int = 1
    """Of one namespace at a time; 0: none are kept."""
    seconds: float = 1800.0


@dataclass(frozen=True, slots=True)
class LatePod:
    """A pod that has waited so long that a place is kept for it."""

    raw: RawPod
    created: float = 0.0
    nodes: int | None = None
    """Numbers of the nodes that it may go to (rule 3), packed; None: any."""

    @property
    def turn(self) -> Turn:
        """Its place in the order."""
        return turn_of(self.raw, self.created)

    def may_go(self, member: Member) -> bool:
        """Whether a node is one that it may go to."""
        return self.nodes is None or bool(self.nodes >> member.number & 1)


class AskedPods:
    """Pods that wait, and that no node took when they were last asked about."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[float, LatePod]] = {}
        """By uid, with when that was, in this order."""
        self._turns: dict[str, list[Turn]] = {}
        """Their order, by namespace."""

    def add(self, pod: LatePod, clock: float) -> None:
        """No node took a pod."""
        self.discard(pod.raw.uid)
        self._asked[pod.raw.uid] = clock, pod
        insort(self._turns.setdefault(pod.raw.namespace, []), pod.turn)

    def discard(self, uid: str) -> None:
        """A pod does not wait, or is not what it was."""
        _, pod = self._asked.pop(uid, (0.0, None))
        if pod is not None:
            turns = self._turns[pod.raw.namespace]
            del turns[bisect_left(turns, pod.turn)]
            if not turns:
                del self._turns[pod.raw.namespace]

    def late(self, clock: float, latest: float) -> list[LatePod]:
        """Those that were created by ``latest``, the first of each namespace (rule 7).

        What nobody asks about any more is forgotten.
        """
        for uid, (asked_at, _) in list(islice(self._asked.items(), MOST_TRIED_IN_ALL)):
            if clock - asked_at > ASKED_LATELY:
                self.discard(uid)
        late: list[LatePod] = []
        for turns in self._turns.values():
            pods = (self._asked[turn[-1]] for turn in turns)
            first = (pod for at, pod in pods if pod.created <= latest and clock - at <= ASKED_LATELY)
            late += islice(first, MOST_TRIED)
        return late


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """A node where a pod waits, and for whose end."""

    pod: RawPod
    member: Member
    uids: frozenset[str]
    turn: Turn

    @property
    def waited_for(self) -> frozenset[str]:
        """Those of them that still run."""
        return self.uids & self.member.node.state.active.keys()


@dataclass(slots=True)
class PlaceSlot:
    """A namespace's right to one place (rule 6)."""

    began: float
    uid: str = ""
    """The pod that has the place; '': none now."""
    rests_until: float = -math.inf
    """No pod is given the place before."""
    forgotten_at: float = math.inf
    """The time begins anew for a pod that is given the place later."""


class KeptPlaces:
    """The places that are kept now."""

    def __init__(
        self,
        members: Sequence[Member],
        asker: Asker,
        terms: KeptTerms = KeptTerms(),  # noqa: B008 - a frozen value
    ) -> None:
        self.members, self.asker, self.terms = members, asker, terms
        self.places: dict[str, KeptPlace] = {}
        self.look_again = math.inf
        """When places end, or may be kept again, by the clock of ``keep``."""
        self.drains: dict[tuple[Hashable, ...], tuple[frozenset[str], ...]] = {}
        self.allowed: dict[tuple[Hashable, ...], bool] = {}
        self.likely: dict[Hashable, Sequence[Member]] = {}
        """Nodes that are looked at, by shape and nodes, while places are chosen."""
        self._slots: dict[str, list[PlaceSlot]] = {}
        """By namespace."""

    def keep(self, waiting: Iterable[LatePod], now: float) -> None:
        """Keep places for pods that wait, in their order; nobody else's is kept."""
        before, self.places = self.places, {}
        self.likely.clear()
        pods = sorted(waiting, key=lambda pod: pod.turn) if self.terms.places else []
        self._end_slots({pod.raw.uid for pod in pods}, now)
        tried: Counter[str] = Counter()
        for pod in pods:
            raw = pod.raw
            if len(self.places) == MOST_KEPT or tried.total() == MOST_TRIED_IN_ALL:
                break
            slot = self._slot(raw, now)
            if slot is None or tried[raw.namespace] == MOST_TRIED:
                continue
            tried[raw.namespace] += 1
            place = self._place(pod, before.get(raw.uid))
            if place is not None:
                self.places[raw.uid] = place
                self._take(slot, raw)
        self._end_slots(self.places.keys(), now)

    def earlier(self, turn: Turn) -> tuple[KeptPlace, ...]:
        """The places that a pod must respect: those of pods before it (rule 2)."""
        return tuple(place for place in self.places.values() if place.turn < turn)

    def forget(self, member: Member) -> None:
        """A node is gone."""
        self.places = {uid: place for uid, place in self.places.items() if place.member is not member}

    def bound(self, raw: RawPod) -> None:
        """A pod has found its node (rule 6)."""
        self.places.pop(raw.uid, None)
        slots = [slot for slot in self._slots.pop(raw.namespace, []) if slot.uid != raw.uid]
        if slots:
            self._slots[raw.namespace] = slots

    def allows(self, member: Member, raw: RawPod, turn: Turn) -> bool:
        """True when a pod may go to a node that would let it in (rule 5)."""
        places = tuple(place for place in self.earlier(turn) if place.member is member)
        if not places:
            return True
        waited = tuple((place.pod.uid, place.uids) for place in places)
        key = (member.number, member.changes, self.asker.shape(raw), waited)
        known = self.allowed.get(key)
        if known is None:
            answer = self.asker.ask(Situation.of(member), raw)
            if isinstance(answer, LetIn):
                after = Situation.of(member).after(answer)
                known = self._would_run(after, places)
            else:
                known = False
            if len(self.allowed) > 10_000:
                self.allowed.clear()
            self.allowed[key] = known
        return known

    # --- how many, and how long (rule 6) -------------------------------------------------------

    def _end_slots(self, uids: Collection[str], now: float) -> None:
        """End what is over, and what belongs to none of these pods; forget what need not be known."""
        seconds = self.terms.seconds
        self.look_again = math.inf
        for namespace, slots in list(self._slots.items()):
            for slot in slots:
                if slot.uid and now - slot.began >= seconds:
                    slot.uid, slot.rests_until = "", slot.began + 2 * seconds
                    slot.forgotten_at = slot.rests_until
                elif slot.uid and slot.uid not in uids:
                    slot.uid, slot.forgotten_at = "", now + seconds
            slots[:] = [slot for slot in slots if slot.uid or slot.forgotten_at > now]
            if not slots:
                del self._slots[namespace]
            for slot in slots:
                again = slot.began + seconds if slot.uid else slot.rests_until
                self.look_again = min(self.look_again, again if again > now else math.inf)

    def _slot(self, raw: RawPod, now: float) -> PlaceSlot | None:
        """The slot that a pod has or may have; None: its namespace has no more."""
        slots = self._slots.get(raw.namespace, [])
        for slot in slots:
            if slot.uid == raw.uid:
                return slot
        for slot in slots:
            if not slot.uid and slot.rests_until <= now:
                return slot
        return PlaceSlot(now) if len(slots) < self.terms.places else None

    def _take(self, slot: PlaceSlot, raw: RawPod) -> None:
        slots = self._slots.setdefault(raw.namespace, [])
        if all(slot is not one for one in slots):
            slots.append(slot)
        slot.uid, slot.forgotten_at = raw.uid, math.inf

    # --- which place --------------------------------------------------------------------------

    def _place(self, pod: LatePod, before: KeptPlace | None) -> KeptPlace | None:
        """The place of a pod (rules 1, 3 and 4)."""
        raw = pod.raw
        if before is not None and (before.pod != raw or not pod.may_go(before.member)):
            before = None
        if before is not None:
            there = (*self._of(before.member), before)
            if not self._would_run(Situation.of(before.member), there):
                before = None
        best = before
        fewest = (len(before.waited_for), -1.0) if before is not None else None
        for member in self._likely(pod):
            for uids in self._drains(member, raw):
                effort = len(uids), _share(member, uids)
                if fewest is not None and (effort >= fewest or (best is before and effort[0] == fewest[0])):
                    continue
                place = KeptPlace(raw, member, uids, pod.turn)
                beside = self._of(member)
                if not beside or self._would_run(Situation.of(member), (*beside, place)):
                    best, fewest = place, effort
        return best

    def _likely(self, pod: LatePod) -> Sequence[Member]:
        """The nodes that are looked at (rules 3 and 7)."""
        key = self.asker.shape(pod.raw), pod.nodes
        if key in self.likely:
            return self.likely[key]
        amounts = asked(defaulted(pod.raw))

        def lacking(member: Member) -> float:
            limits, used = member.allocatable, member.used
            return max(
                (size - limits.get(name, 0) + used.get(name, 0)) / size
                if size <= limits.get(name, 0)
                else 2.0
                for name, size in amounts.items()
                if size
            )

        members = [member for member in self.members if pod.may_go(member)]
        if len(members) > MOST_LOOKED_AT:
            members = nsmallest(MOST_LOOKED_AT, members, key=lacking)
        self.likely[key] = members
        return members

    def _of(self, member: Member) -> tuple[KeptPlace, ...]:
        return tuple(place for place in self.places.values() if place.member is member)

    def _drains(self, member: Member, raw: RawPod) -> tuple[frozenset[str], ...]:
        """Pods whose end would let a pod in on a node that nobody else waits for, by rule 1."""
        key = (member.number, member.changes, self.asker.shape(raw))
        known = self.drains.get(key)
        if known is None:
            if len(self.drains) > 4 * len(self.members) + 10_000:
                self.drains.clear()
            known = self.drains[key] = tuple(
                uids
                for uids in _occupants(member)
                if isinstance(self.asker.ask(Situation.of(member).without(uids), raw), LetIn)
            )
        return known

    def _would_run(self, situation: Situation, places: Iterable[KeptPlace]) -> bool:
        """True when all would be let in, one after the other, once all they wait for have ended."""
        places = tuple(places)
        situation = situation.without({uid for place in places for uid in place.uids})
        for place in places:
            answer = self.asker.ask(situation, place.pod)
            if isinstance(answer, str):
                return False
            situation = situation.after(answer)
        return True


def _occupants(member: Member) -> list[frozenset[str]]:
    """Sets of pods on a node that may make room when they end, small ones first."""
    machine = member.node.machine
    masks = [1 << numa.id for numa in machine.numa]
    sockets: dict[tuple[int, ...], int] = {}
    for numa, own in machine.layout.sockets_of_numa.items():
        sockets[own] = sockets.get(own, 0) | 1 << numa
    masks += [mask for mask in sockets.values() if mask.bit_count() > 1]
    sets = [frozenset(uid for uid, pod in member.occupants.items() if pod.numa & mask) for mask in masks]
    sets.append(frozenset(member.node.state.active))
    lasting = {uid for uid, pod in member.occupants.items() if not pod.ends}
    return sorted((uids for uids in dict.fromkeys(sets) if not uids & lasting), key=len)


def _share(member: Member, uids: frozenset[str]) -> float:
    """How much of a node pods hold, as shares of all that it has."""
    pods = member.node.state.active
    share = 0.0
    for uid in uids:
        pod = pods.get(uid)
        for name, size in (asked(pod) if pod is not None else {}).items():
            limit = member.allocatable.get(name)
            share += size / limit if limit else 0.0
    return share
