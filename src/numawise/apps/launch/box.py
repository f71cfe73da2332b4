"""This host as documents: who holds and who waits (``ps``), what ended (``history``), what is used (``top``).

Rules kept here:

1. The same document is printed and served, made here once.
2. What a job uses is read from its control group where that counts it, else from its processes: those that
   descend from its first one, or are in its container.  What left the family without a control group is not
   seen, and pages that processes share count for each.
3. CPU time is a difference of two looks; whoever was not there at the first has no figure yet.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from numawise.apps.launch.holds import Holdings
from numawise.apps.launch.memory import free_memory, with_memory_now
from numawise.host import confine
from numawise.host.placed import Brief, in_container, read_briefs, read_groups
from numawise.render import holds as words
from numawise.results.placement import Hold, JobUse
from numawise.results.plain import API_VERSION
from numawise.values import dataclass, field

PAGE, TICK = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
MOST_ENDED = 50

HoldKey = tuple[int, str]


def hold_list(holdings: Holdings, user: str = "") -> dict[str, object]:
    """Who holds what, what is free, who waits; ``user``: holds of that one alone."""
    every = holdings.live()
    steps = holdings.steps()
    return {
        "apiVersion": API_VERSION,
        "kind": "HoldList",
        "ledger": str(holdings.ledger.path),
        "shared": holdings.place.shared,
        "remarks": [
            *holdings.place.warnings,
            *holdings.capacity.remarks,
            *holdings.silent,
            *((words.FREE_UNKNOWN,) if holdings.ledger.unknown else ()),
        ],
        "holds": [
            words.hold_data(hold, holdings.capacity, every, steps)
            for hold in every
            if user in ("", hold.owner.user)
        ],
        "free": []
        if holdings.ledger.unknown
        else words.free_data(holdings.capacity, every, promisable(holdings, every)),
        "waiting": [words.waiter_data(waiting) for waiting in holdings.waiting(every)],
    }


def promisable(holdings: Holdings, holds: Sequence[Hold]) -> dict[int, int]:
    """NUMA node → bytes that could be promised now."""
    return free_memory(with_memory_now(holdings.capacity, holds, holdings.root), holds)


def hold_history(holdings: Holdings, user: str = "", most: int = MOST_ENDED) -> dict[str, object]:
    """What has ended, the newest first, at most so many."""
    every = holdings.history()
    wanted = [ended for ended in every if user in ("", ended.hold.owner.user)]
    return {
        "apiVersion": API_VERSION,
        "kind": "HoldHistory",
        "ledger": str(holdings.ledger.path),
        "shared": holdings.place.shared,
        "remarks": [*holdings.place.warnings, *holdings.capacity.remarks, *holdings.ledger.problems],
        "ended": [words.ended_data(ended) for ended in islice(wanted, most)],
        "more": max(len(wanted) - most, 0),
    }


def hold_uses(
    holdings: Holdings, holds: Iterable[Hold], uses: Mapping[HoldKey, JobUse], seconds: float
) -> dict[str, object]:
    """What the jobs of these holds use."""
    return {
        "apiVersion": API_VERSION,
        "kind": "HoldUses",
        "seconds": round(seconds, 3),
        "remarks": [*holdings.place.warnings, *holdings.capacity.remarks, *holdings.silent],
        "uses": [words.use_data(hold, uses.get(key_of(hold), JobUse())) for hold in holds],
    }


@dataclass(slots=True)
class UseMeter:
    """Looks at what jobs use, each time compared with the time before."""

    holdings: Holdings
    looked: float = 0.0
    """On the monotonic clock; 0: never."""
    seconds: float = 0.0
    """Between the last two looks."""
    _before: dict[HoldKey, dict[object, float]] = field(default_factory=dict)
    """Hold → what was counted → seconds of CPU time."""

    def look(self, holds: Sequence[Hold]) -> dict[HoldKey, JobUse]:
        """What jobs use now; CPUs as their average since the last look (rule 3)."""
        root = self.holdings.root
        briefs = {brief.tid: brief for brief in read_briefs(root)}
        families = _families(holds, briefs, self.holdings)
        now = time.monotonic()
        self.seconds = now - self.looked if self.looked else 0.0
        before, self._before, self.looked = self._before, {}, now
        uses: dict[HoldKey, JobUse] = {}
        for hold in holds:
            key, members = key_of(hold), families[key_of(hold)]
            group = confine.used_cpu(hold.mode, hold.group, root)
            spent: dict[object, float] = {"group": group} if group is not None else {}
            if not spent:
                spent = {(one.tid, one.start): one.ticks / TICK for one in members}
            self._before[key] = spent
            known = before.get(key)
            busy = None
            if known is not None and self.seconds > 0:
                more = sum(max(value - known.get(what, 0.0), 0.0) for what, value in spent.items())
                busy = more / self.seconds
            uses[key] = JobUse(busy, _memory(hold, members, self.holdings), len(members))
        return uses


def key_of(hold: Hold) -> HoldKey:
    """By what a hold is known."""
    return hold.owner.uid, hold.id


def _memory(hold: Hold, members: Sequence[Brief], holdings: Holdings) -> int | None:
    counted = confine.used_memory(hold.mode, hold.group, holdings.root)
    if counted is not None:
        return sum(counted.values())
    return sum(one.resident for one in members) * PAGE if members else None


def _families(
    holds: Sequence[Hold], briefs: Mapping[int, Brief], holdings: Holdings
) -> dict[HoldKey, list[Brief]]:
    """The processes of each hold (rule 2), by one look at all processes."""
    below: dict[int, list[Brief]] = {}
    for brief in briefs.values():
        below.setdefault(brief.parent, []).append(brief)
    contained = any(hold.owner.container for hold in holds)
    groups = {pid: read_groups(holdings.root, pid) for pid in briefs} if contained else {}
    firsts = {hold.owner.pid for hold in holds}
    families: dict[HoldKey, list[Brief]] = {}
    for hold in holds:
        owner = hold.owner
        members: dict[int, Brief] = {}
        if owner.container:
            members = {pid: briefs[pid] for pid in briefs if in_container(groups[pid], owner.container)}
        elif hold.group:
            pids = confine.members(hold.mode, hold.group, holdings.root)
            members = {pid: briefs[pid] for pid in pids if pid in briefs}
        elif owner.pid in briefs and briefs[owner.pid].start == owner.start:
            queue = [briefs[owner.pid]]
            while queue:
                brief = queue.pop()
                members[brief.tid] = brief
                queue += [
                    one
                    for one in below.get(brief.tid, ())
                    if one.tid not in firsts and one.tid not in members
                ]
        families[key_of(hold)] = list(members.values())
    return families
