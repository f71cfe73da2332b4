"""Sets of NUMA nodes that give even shares, with the remainder dealt in turns among some of them.

Counterpart: what ``takeByTopologyNUMADistributed`` of pkg/kubelet/cm/cpumanager/cpu_assignment.go does
with the remainder for each set of nodes, for all sets at once.

Rules kept here:

1. The *gain* of a set is by how much the sum of the squares of what stays free falls.
2. With ``rounds`` whole rounds and a part of one more, a node has up to ``rounds + 1`` groups until some
   position and up to ``rounds`` after it (fewer when it has no more), whoever else takes part.  So the
   gain is a sum over nodes, and the most for so many groups is found from the last position backwards.
3. The first set in order is built position by position: a node is a member if those behind it can
   still reach the gain that is needed.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import accumulate

from numawise.engine.search import SearchLimit
from numawise.values import dataclass

IMPOSSIBLE = -(1 << 60)
"""A gain below all others."""
State = tuple[int, int, bool]
"""Groups still to be dealt; 1 before the last round ends, 0 after; whether all needed members are there."""


@dataclass(frozen=True, slots=True)
class Deal:
    """Nodes, in order, that can each give the share, and what is to be dealt among some of them."""

    left: Sequence[int]
    """CPUs that each node has beyond the share …"""
    groups: Sequence[int]
    """… and how many whole groups these are."""
    gains: Sequence[int]
    """What its share gains."""
    group: int
    """CPUs that are dealt together."""
    rest: int
    """Groups to be dealt."""
    size: int
    """Members of a set."""
    poorest: bool
    """Some member must have no group beyond the share."""

    def turns(self, most: int) -> list[tuple[int, int]]:
        """By node: how many groups it has when it could have so many, and what they gain."""
        group = self.group
        return [
            (turns, turns * group * (2 * cpus - turns * group))
            for cpus, turns in zip(self.left, (min(own, most) for own in self.groups), strict=True)
        ]

    def gain_of(self, members: Sequence[int]) -> int:
        """What is gained when the rest is dealt among these; ``IMPOSSIBLE`` where they cannot have it."""
        owned = [self.groups[at] for at in members]
        if sum(owned) < self.rest:
            return IMPOSSIBLE

        def dealt(rounds: int) -> int:
            return sum(min(own, rounds) for own in owned)

        rounds = bisect_right(range(max(owned) + 1), self.rest, key=dealt) - 1
        more = self.rest - dealt(rounds)
        gain = 0
        for at, own in zip(members, owned, strict=True):
            turns = min(own, rounds)
            if more and own > rounds:
                turns += 1
                more -= 1
            gain += turns * self.group * (2 * self.left[at] - turns * self.group)
        return gain

    def ceiling(self, rounds: int) -> tuple[int, int]:
        """What dealing in so many whole rounds cannot gain more than, and what the last group of it gains.

        ``IMPOSSIBLE`` where the rest cannot be dealt so.
        """
        group, rest = self.group, self.rest
        most = sorted([own if own <= rounds else rounds + 1 for own in self.groups], reverse=True)
        if sum(most[: self.size - self.poorest]) < rest:
            return IMPOSSIBLE, 0
        # A node gains less by each further group: whole rounds on average first, then the last one.
        parts = []
        last = group * (2 * rounds + 1)
        for cpus, own in zip(self.left, self.groups, strict=True):
            turns = min(own, rounds)
            if turns:
                parts.append((group * (2 * cpus - group * turns), turns))
            if own > rounds:
                parts.append((group * (2 * cpus - last), 1))
        parts.sort(reverse=True)
        gain = each = 0
        for each, turns in parts:
            gain += each * min(turns, rest)
            rest -= turns
            if rest <= 0:
                break
        return gain, each


class DealSearch:
    """Sets whose rest is dealt in so many whole rounds and a part of one more."""

    def __init__(
        self, deal: Deal, rounds: int, least: int, price: int, limit: SearchLimit, *, all_dealt: bool = False
    ) -> None:
        """Prepare the search.

        ``least``: dealing that gains less is of no use; ``price``: what a group gains about where the rest
        ends (any number is right, a good one saves time); ``all_dealt``: every member has a part of the rest.
        """
        self.deal = deal
        self.count = len(deal.left)
        self.turns = [deal.turns(rounds), deal.turns(rounds + 1)]
        """By phase and node: its groups and their gain."""
        self.limit = limit
        self.all_dealt = all_dealt
        self.dealt = self._dealt(least, price)
        self.shares = self._shares()
        self.room = self._room()
        self.failed: dict[tuple[int, int, int, int, bool], int] = {}
        self.reached: dict[tuple[int, int, int, int, bool], int] = {}

    def _dealt(self, least: int, price: int) -> list[list[dict[int, int]]]:
        """By phase and position: the most that dealing just so many groups from there on can gain.

        A number is left out where even the best before that position cannot make it reach the least gain.
        """
        after, before = self.turns
        surplus = [[max(0, gain - price * turns) for turns, gain in phase] for phase in self.turns]
        ahead = [0, *accumulate(map(max, *surplus))]
        ahead_before = [0, *accumulate(surplus[1])]
        least -= price * self.deal.rest
        row = row_before = {0: 0}
        rows, rows_before = [row], [row]
        for at in range(self.count - 1, -1, -1):
            row = self._extended(row, *after[at], price, least - ahead[at])
            row_before = self._extended(row_before, *before[at], price, least - ahead_before[at])
            for turns, gain in row.items():
                if gain > row_before.get(turns, IMPOSSIBLE):
                    row_before[turns] = gain
            rows.append(row)
            rows_before.append(row_before)
        return [rows[::-1], rows_before[::-1]]

    def _extended(self, row: dict[int, int], turns: int, more: int, price: int, least: int) -> dict[int, int]:
        """The row with one more node, which may have so many groups or none."""
        result = row.copy()
        if turns:
            most, known = self.deal.rest - turns, row.get
            for dealt, gain in row.items():
                if dealt <= most and gain + more > known(dealt + turns, IMPOSSIBLE):
                    result[dealt + turns] = gain + more
        return {dealt: gain for dealt, gain in result.items() if gain - price * dealt >= least}

    def _shares(self) -> list[list[list[int]]]:
        """By whether all needed members are there, position and number: the most that shares gain."""
        count = self.count
        if self.all_dealt:
            return [[[0] * (count + 1)] * (count + 1)] * 2
        unmet, met = [[IMPOSSIBLE] * (count + 1)], [[0] + [IMPOSSIBLE] * count]
        for at in range(count - 1, -1, -1):
            gain = self.deal.gains[at]
            row, behind = unmet[-1], (unmet if self.deal.groups[at] else met)[-1]
            unmet.append(row[:1] + [max(a, b + gain) for a, b in zip(row[1:], behind, strict=False)])
            row = met[-1]
            met.append(row[:1] + [max(a, b + gain) for a, b in zip(row[1:], row, strict=False)])
        return [unmet[::-1], met[::-1]]

    def _room(self) -> list[list[list[int]]]:
        """By phase, position and number: the most groups that so many members from there on can have."""
        result = []
        for phase in self.turns:
            rows: list[list[int]] = [[0] * (self.count + 1)]
            richest: list[int] = []
            for turns, _ in reversed(phase):
                insort(richest, -turns)
                sums = [0, *accumulate(-own for own in richest)]
                rows.append(sums + sums[-1:] * (self.count + 1 - len(sums)))
            result.append(rows[::-1])
        return result

    def most(self, known: int) -> int:
        """The most that a set gains; what is known already where it is not more."""
        size, start = self.deal.size, self._start()
        high = self.shares[start[2]][0][size] + self.dealt[1][0].get(start[0], IMPOSSIBLE)
        step, low = 1, high
        while low > known and not self.possible(0, size, *start, low):
            high = low - 1
            low -= step
            step *= 2
        low = max(low, known)
        while low < high:
            middle = (low + high + 1) // 2
            if self.possible(0, size, *start, middle):
                low = middle
            else:
                high = middle - 1
        return low

    def first(self, size: int, least: int) -> list[int] | None:
        """The first set of this size, by position, with at least this gain."""
        if not self.possible(0, size, *self._start(), least):
            return None
        states = {self._start(): 0}
        members: list[int] = []
        for at in range(self.count):
            slots = size - len(members) - 1
            if slots < 0:
                break
            taken: dict[State, int] = {}
            for state, gain in states.items():
                for more, then in self._taken(at, *state):
                    if gain + more > taken.get(then, IMPOSSIBLE):
                        taken[then] = gain + more
            taken = {
                state: gain
                for state, gain in taken.items()
                if self.possible(at + 1, slots, *state, least - gain)
            }
            if taken:
                states = taken
                members.append(at)
        return members

    def possible(self, at: int, slots: int, rest: int, phase: int, met: bool, need: int) -> bool:  # noqa: FBT001
        """So many members from this position on can have the rest and gain what is needed."""
        if not slots:
            return met and not rest and need <= 0
        dealt, shares = self.dealt, self.shares
        if (
            self.count - at < slots
            or shares[met][at][slots] + dealt[phase][at].get(rest, IMPOSSIBLE) < need
            or self.room[phase][at][slots - (not met)] < rest
        ):
            return False
        state = (at, slots, rest, phase, met)
        if need >= self.failed.get(state, need + 1):
            return False
        if need <= self.reached.get(state, need - 1):
            return True
        self.limit.step()
        moves = []
        if self.count - at > slots:
            bound = shares[met][at + 1][slots] + dealt[phase][at + 1].get(rest, IMPOSSIBLE) - need
            moves.append((bound, (slots, rest, phase, met, need)))
        for gain, (still, now, then) in self._taken(at, rest, phase, met):
            needed = need - gain
            bound = shares[then][at + 1][slots - 1] + dealt[now][at + 1].get(still, IMPOSSIBLE) - needed
            moves.append((bound, (slots - 1, still, now, then, needed)))
        moves.sort(key=_bound, reverse=True)
        for bound, move in moves:
            if bound < 0:
                break
            if self.possible(at + 1, *move):
                self.reached[state] = need
                return True
        self.failed[state] = need
        return False

    def _start(self) -> State:
        return self.deal.rest, 1, not self.deal.poorest

    def _taken(self, at: int, rest: int, phase: int, met: bool) -> Iterator[tuple[int, State]]:  # noqa: FBT001
        """What may come of it when the node is a member: the gain, and the state after it."""
        gain = self.deal.gains[at]
        if not self.all_dealt:
            yield gain, (rest, phase, met or not self.deal.groups[at])
        for now in range(phase + 1):
            turns, more = self.turns[now][at]
            if 0 < turns <= rest:
                yield gain + more, (rest - turns, now, met)


def _bound(move: tuple[int, object]) -> int:
    return move[0]
