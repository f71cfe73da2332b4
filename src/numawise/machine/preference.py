"""Which of its devices a plugin prefers: what it answers when the kubelet calls GetPreferredAllocation.

Rules kept here:

1. A preference is asked with the devices that may be taken, those that must be, and how many are wanted in
   all.  The kubelet passes both sets in chance order; here they are in the order in which the plugin lists
   its devices, and the answer names the devices that another order may give.
2. ``LowestIds`` is the simulated plugin of recorded scenarios.
3. ``LinkedGpus`` is NVIDIA's plugin for whole GPUs (best-effort policy of go-gpuallocator 0.6): it divides
   all that may be taken into sets of the size wanted, one of them incomplete where that does not come out
   even; of all divisions it takes the one whose links have the most points in sum, of equals the first, and
   answers with the set of it that has the most.
4. Two defects of that policy are kept.  An incomplete set may be the best; the plugin crashes then.  With
   seven or eight sets the last ones are overwritten by those of a later division before the answer is chosen.
5. ``SharedDevices`` is NVIDIA's plugin for replicas and MIG instances: one by one, from the GPU of which the
   fewest replicas are taken (``distributed``) or the most (``packed``).
6. Divisions of more than ``MOST_DIVIDED`` GPUs are not computed; the plugin itself is busy for hours then.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import Protocol

from numawise.values import dataclass

MOST_DIVIDED = 16
MOST_COMPARED = 500
"""How many equally good divisions are looked at for the answers that another order may give."""
ARRAY_STARTS = (1, 2, 3, 5, 9, 17)
"""Lengths at which a growing Go slice moves to a new array: 1, 2, 4, 8 and 16 members fit."""
CRASHED = "rpc error: code = Unavailable desc = error reading from server: EOF"
UNKNOWN_DEVICE = (
    "rpc error: code = Unknown desc = error getting list of preferred allocation devices: "
    "unable to retrieve list of available devices: no device with uuid: {}"
)
SEVERAL_REFUSED = (
    'rpc error: code = Unknown desc = invalid allocation request for "{resource}": invalid request: '
    "maximum request size for shared resources is 1; found {count}"
)
"""What Allocate of NVIDIA's plugin says where ``failRequestsGreaterThanOne`` is set."""
REPLICA = "::"
DISTRIBUTED, PACKED = "distributed", "packed"
NEVER = -1


@dataclass(frozen=True, slots=True)
class PreferenceAnswer:
    """What a plugin answers."""

    ids: frozenset[str] = frozenset()
    open_to: frozenset[str] = frozenset()
    """Devices of all answers that are possible, where the order of the question decides; else empty."""
    error: str = ""
    """The call failed, with this error."""


class Preference(Protocol):
    """How a plugin answers."""

    def answer(
        self, listed: Collection[str], available: Collection[str], must: Collection[str], size: int
    ) -> PreferenceAnswer:
        """The devices it prefers; ``listed`` are all it has, ``must`` are among the available ones."""
        ...


@dataclass(frozen=True, slots=True)
class LowestIds:
    """What must be included, then the lowest ids."""

    def answer(
        self,
        listed: Collection[str],  # noqa: ARG002 - part of the protocol
        available: Collection[str],
        must: Collection[str],
        size: int,
    ) -> PreferenceAnswer:
        """The devices it prefers."""
        rest = sorted(set(available).difference(must))
        return PreferenceAnswer(frozenset(must).union(rest[: max(0, size - len(must))]))


@dataclass(frozen=True, slots=True)
class SharedDevices:
    """Spread over GPUs, or packed onto few (rule 5)."""

    policy: str = DISTRIBUTED

    def answer(
        self, listed: Collection[str], available: Collection[str], must: Collection[str], size: int
    ) -> PreferenceAnswer:
        """The devices it prefers."""
        order = {name: at for at, name in enumerate(listed)}
        free = sorted(set(available).difference(must) & order.keys(), key=order.__getitem__)
        if len(free) < size - len(must):
            return PreferenceAnswer(
                error="rpc error: code = Unknown desc = error getting list of preferred allocation devices: "
                "not enough available devices to satisfy allocation"
            )
        by_gpu: dict[str, list[str]] = {}
        for name in free:
            by_gpu.setdefault(gpu_of(name), []).append(name)
        total = dict.fromkeys(by_gpu, 0)
        for name in order:
            if gpu_of(name) in total:
                total[gpu_of(name)] += 1
        sign = -1 if self.policy == PACKED else 1
        picked = dict.fromkeys(by_gpu, 0)
        chosen: list[str] = []
        open_to: set[str] = set()
        for _ in range(size - len(must)):
            rank = {
                gpu: (sign * (total[gpu] - len(names)), picked[gpu]) for gpu, names in by_gpu.items() if names
            }
            best = min(rank.values())
            equal = [gpu for gpu in rank if rank[gpu] == best]
            if len(equal) > 1 or len(by_gpu[equal[0]]) > 1:
                open_to.update(name for gpu in equal for name in by_gpu[gpu])
            picked[equal[0]] += 1
            chosen.append(by_gpu[equal[0]].pop(0))
        taken = frozenset([*must, *chosen])
        return PreferenceAnswer(taken, frozenset() if open_to <= taken else frozenset(open_to))


def gpu_of(device: str) -> str:
    """The device that a replica is one of; any other is itself."""
    return device.partition(REPLICA)[0]


@dataclass(frozen=True, slots=True)
class LinkedGpus:
    """The best linked ones, with the rest divided well (rule 3)."""

    gpus: tuple[str, ...]
    """All GPUs of the machine, in the order of their numbers."""
    points: tuple[tuple[int, ...], ...]
    """Of the links between every two."""

    def answer(
        self,
        listed: Collection[str],  # noqa: ARG002 - part of the protocol
        available: Collection[str],
        must: Collection[str],
        size: int,
    ) -> PreferenceAnswer:
        """The devices it prefers."""
        stranger = min(set(available).difference(self.gpus), default=None)
        if stranger is not None:
            return PreferenceAnswer(error=UNKNOWN_DEVICE.format(stranger))
        places = [at for at, name in enumerate(self.gpus) if name in available]
        if size < 1 or not len(must) <= size <= len(places):
            return PreferenceAnswer()
        needed = sum(1 << i for i, at in enumerate(places) if self.gpus[at] in must)
        if len(places) > MOST_DIVIDED and size > 1:
            return PreferenceAnswer(open_to=frozenset(available))
        points = [[self.points[i][j] for j in places] for i in places]
        chosen, possible = _best_set(_Divisions(points, size, needed))

        def names(gpus: int) -> frozenset[str]:
            return frozenset(self.gpus[at] for i, at in enumerate(places) if gpus >> i & 1)

        open_to = names(possible) if possible != chosen else frozenset[str]()
        if 0 < chosen.bit_count() < size:
            return PreferenceAnswer(error=CRASHED, open_to=open_to)
        return PreferenceAnswer(names(chosen), open_to)


class _Divisions:
    """The ways to divide GPUs into sets of one size; GPUs are positions, sets of them packed."""

    def __init__(self, points: Sequence[Sequence[int]], size: int, must: int) -> None:
        self.links, self.size, self.must = points, size, must
        self.every = (1 << len(points)) - 1
        self.padding = -len(points) % size
        self.known_points: dict[int, int] = {}
        self.known_best: dict[tuple[int, bool, bool], int] = {}

    def points(self, gpus: int) -> int:
        """Points of all links inside of a set."""
        if gpus not in self.known_points:
            lowest = (gpus & -gpus).bit_length() - 1
            rest = gpus & gpus - 1
            row = self.links[lowest]
            self.known_points[gpus] = (
                sum(row[i] for i in range(lowest + 1, rest.bit_length()) if rest >> i & 1) + self.points(rest)
                if rest
                else 0
            )
        return self.known_points[gpus]

    def sets(self, left: int, *, short: bool) -> Iterator[tuple[int, bool]]:
        """Sets that have the first GPU of those left, in order, and whether each is the incomplete one.

        ``short``: the incomplete set is still to come.
        """
        members = [1 << i for i in range(left.bit_length()) if left >> i & 1]
        padding = self.padding if short else 0
        if len(members) + padding == self.size:
            yield left, short
            return
        for others in combinations((*members[1:], *(0,) * padding), self.size - 1):
            missing = others.count(0) if padding else 0
            if missing in (0, padding):
                yield members[0] | sum(others), missing > 0

    def met(self, gpus: int, *, short: bool) -> bool:
        """True for a complete set with all that must be in."""
        return not short and not self.must & ~gpus

    def best(self, left: int, *, short: bool, met: bool) -> int:
        """The most points of a division of what is left; ``met``: a set before has all that must be in."""
        if not left:
            return 0 if met else NEVER
        key = left, short, met
        if key not in self.known_best:
            most = NEVER
            for gpus, incomplete in self.sets(left, short=short):
                now = met or self.met(gpus, short=incomplete)
                rest = self.best(left & ~gpus, short=short and not incomplete, met=now)
                if rest != NEVER:
                    most = max(most, rest + self.points(gpus))
            self.known_best[key] = most
        return self.known_best[key]

    def best_ones(self) -> Iterator[tuple[int, ...]]:
        """All divisions with the most points, in order."""
        short = self.padding > 0
        if self.best(self.every, short=short, met=False) != NEVER:
            yield from self._best_ones(self.every, short=short, met=False)

    def _best_ones(self, left: int, *, short: bool, met: bool) -> Iterator[tuple[int, ...]]:
        if not left:
            yield ()
            return
        most = self.best(left, short=short, met=met)
        for gpus, incomplete in self.sets(left, short=short):
            now, later = met or self.met(gpus, short=incomplete), short and not incomplete
            rest = self.best(left & ~gpus, short=later, met=now)
            if rest != NEVER and rest + self.points(gpus) == most:
                for others in self._best_ones(left & ~gpus, short=later, met=now):
                    yield gpus, *others

    def overwritten(self, division: tuple[int, ...]) -> tuple[int, ...]:
        """What is left of a division when the last one with the same first sets has gone over it (rule 4)."""
        kept = max(start for start in ARRAY_STARTS if start <= len(division))
        if len(division) - kept < 2:
            return division
        first = division[:kept]
        left = self.every & ~sum(first)
        short = self.padding > 0 and all(gpus.bit_count() == self.size for gpus in first)
        members = [1 << i for i in range(left.bit_length()) if left >> i & 1] + [0] * self.padding * short
        others: list[int] = []
        while members:
            cut = max(1, len(members) - self.size + 1)
            others.append(members[0] + sum(members[cut:]))
            members = members[1:cut]
        return *first, *others


def _best_set(divisions: _Divisions) -> tuple[int, int]:
    """The set that is answered, 0 for none; and all GPUs of sets that another order may give."""
    if divisions.size == 1:
        lowest = divisions.must or divisions.every & -divisions.every
        return lowest, divisions.must or divisions.every
    found = list(islice(divisions.best_ones(), MOST_COMPARED))
    if not found:
        return 0, 0
    possible = divisions.every if len(found) == MOST_COMPARED else 0
    for division in found:
        most = max(divisions.points(gpus) for gpus in _with(divisions, division))
        for gpus in _with(divisions, division):
            possible |= gpus if divisions.points(gpus) == most else 0
    last = divisions.overwritten(found[0])
    if last != found[0]:
        possible = divisions.every
    return max(_with(divisions, last), key=divisions.points, default=0), possible


def _with(divisions: _Divisions, division: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(gpus for gpus in division if not divisions.must & ~gpus)


PREFERENCES: Mapping[str, Preference] = {
    "lowest-ids": LowestIds(),
    DISTRIBUTED: SharedDevices(DISTRIBUTED),
    PACKED: SharedDevices(PACKED),
}
"""Those that need to know nothing but the devices, by their names in a machine file."""
