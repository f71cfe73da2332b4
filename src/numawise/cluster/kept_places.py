"""Places that are kept for pods that wait, so that nobody who came later takes them away.

What is proved: let *W* be a pod that waits, and *E* the pods whose end it waits for on its node.  As long as
the place is kept, no pod joins *E*, and whoever is let in there leaves the kubelet's answer "yes, once *E*
have ended".  So when the last of *E* ends, *W* is let in; if all pods end, every pod that fits an empty node
runs.
A property test plays random fleets (``tests/property/test_kept_places.py``).

Rules kept here:

1. A place is a node and the pods on it whose end makes room: those on one NUMA node, on the NUMA nodes of
   one socket, or all.  Of all places the one with the fewest pods to end is kept, of equals the one where
   less is held.  Nobody waits for a pod of which it is not known that it ends.
2. Places are kept in the order in which the pods came, for the first ``MOST_KEPT``; that the first has one
   is enough for the proof.  A later one never counts on what an earlier one waits for.
3. A kept place changes only for one with fewer pods to end, or when the kubelet would no longer let the pod
   in there: the answer of a kubelet may turn when pods end whose end nobody waits for.
4. A pod may go to a node with kept places when, those waited for having ended, the kubelet would
   still let in all pods for which places are kept there, one after the other.
5. Of more than ``MOST_LOOKED_AT`` nodes those are looked at that lack least of what the pod asks for, by
   sums.
"""

from collections.abc import Hashable, Iterable, Sequence
from heapq import nsmallest
from itertools import islice

from numawise.cluster.asking import Asker, LetIn, Member, Situation
from numawise.engine.predicates import asked
from numawise.request.defaults import RawPod, defaulted
from numawise.values import dataclass

MOST_KEPT = 8
MOST_LOOKED_AT = 32


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """A node where a pod waits, and for whose end."""

    pod: RawPod
    member: Member
    uids: frozenset[str]

    @property
    def waited_for(self) -> frozenset[str]:
        """Those of them that still run."""
        return self.uids & self.member.node.state.active.keys()


class KeptPlaces:
    """The places that are kept now."""

    def __init__(self, members: Sequence[Member], asker: Asker) -> None:
        self.members, self.asker = members, asker
        self.places: dict[str, KeptPlace] = {}
        self.drains: dict[tuple[Hashable, ...], tuple[frozenset[str], ...]] = {}
        self.allowed: dict[tuple[Hashable, ...], bool] = {}
        self.likely: dict[Hashable, Sequence[Member]] = {}
        """Nodes that are looked at, by shape, while places are chosen."""

    def keep(self, waiting: Iterable[RawPod]) -> None:
        """Keep a place for each of the pods that wait, in the order they came; nobody else's is kept."""
        before, self.places = self.places, {}
        self.likely.clear()
        for raw in islice(waiting, MOST_KEPT):
            place = self._place(raw, before.get(raw.uid))
            if place is not None:
                self.places[raw.uid] = place

    def earlier(self, raw: RawPod) -> tuple[KeptPlace, ...]:
        """The places that a pod must respect: all that were kept before its own."""
        places = []
        for uid, place in self.places.items():
            if uid == raw.uid:
                break
            places.append(place)
        return tuple(places)

    def forget(self, member: Member) -> None:
        """A node is gone."""
        self.places = {uid: place for uid, place in self.places.items() if place.member is not member}

    def allows(self, member: Member, raw: RawPod) -> bool:
        """True when a pod may go to a node that would let it in (rule 4)."""
        places = tuple(place for place in self.earlier(raw) if place.member is member)
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

    # --- which place --------------------------------------------------------------------------

    def _place(self, raw: RawPod, before: KeptPlace | None) -> KeptPlace | None:
        """The place of a pod (rules 1 and 3)."""
        if before is not None:
            there = (*self._of(before.member), before)
            if not self._would_run(Situation.of(before.member), there):
                before = None
        best = before
        fewest = (len(before.waited_for), -1.0) if before is not None else None
        for member in self._likely(raw):
            for uids in self._drains(member, raw):
                effort = len(uids), _share(member, uids)
                if fewest is not None and (effort >= fewest or (best is before and effort[0] == fewest[0])):
                    continue
                place = KeptPlace(raw, member, uids)
                beside = self._of(member)
                if not beside or self._would_run(Situation.of(member), (*beside, place)):
                    best, fewest = place, effort
        return best

    def _likely(self, raw: RawPod) -> Sequence[Member]:
        """The nodes that are looked at (rule 5)."""
        if len(self.members) <= MOST_LOOKED_AT:
            return self.members
        key = self.asker.shape(raw)
        if key in self.likely:
            return self.likely[key]
        amounts = asked(defaulted(raw))

        def lacking(member: Member) -> float:
            limits, used = member.allocatable, member.used
            return max(
                (size - limits.get(name, 0) + used.get(name, 0)) / size
                if size <= limits.get(name, 0)
                else 2.0
                for name, size in amounts.items()
                if size
            )

        self.likely[key] = nsmallest(MOST_LOOKED_AT, self.members, key=lacking)
        return self.likely[key]

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
