"""The line of those who wait for room: who is in it, who has lost the turn, and who may pass whom.

Rules kept here:

1. Those who wait are served in the order in which they came.  With others ahead, a job is served only when it
   provably delays none of them (``backfill``).
2. Whoever has died is out of the line.  Whoever is stopped (Ctrl-Z, a debugger) stays in it but has no turn:
   others are served as if it were not there; when it goes on, it stands where it stood.
3. Whoever asks for what this machine does not have, or in words that cannot be read, holds nobody up.
4. What cannot be seen of a process (``hidepid``, another pid namespace) is taken for alive and running.
5. A waiter whose row is gone was put out of the line (``numawise release``) and waits no longer.
6. Of one user ``TURNS`` have a turn at a time, and the others move up: so nobody is held up by more of one
   user, nor has to look at more.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from numawise.apps.launch.decide import place
from numawise.apps.launch.where import where_labels
from numawise.errors import InputError
from numawise.host import processes
from numawise.ledger.reap import left_line
from numawise.ledger.store import LedgerChange
from numawise.results.placement import (
    PASSED,
    STOPPED,
    WAITING,
    Capacity,
    Hold,
    InLine,
    NoRoom,
    Owner,
    Placement,
    Waiter,
)
from numawise.values import dataclass, field, replace

if TYPE_CHECKING:
    from numawise.apps.launch.request import JobRequest


TURNS = 16


@dataclass(slots=True)
class WaitingLine:
    """The line as one who changes the ledger sees it."""

    capacity: Capacity
    who: Owner
    root: Path
    capacity_now: "Callable[[JobRequest, Sequence[Hold]], Capacity]"
    """The capacity as it is at this moment, for a request beside holds."""
    possible: "dict[JobRequest, bool]" = field(default_factory=dict)
    """What was asked for → whether the machine has it at all."""

    def join(self, change: LedgerChange, owner: Owner, request: "JobRequest") -> str:
        """Take a place at the end; the ticket."""
        from numawise.apps.launch.asked import asks_of, request_text  # noqa: PLC0415 - few have to wait

        ticket = change.new_id()
        change.wait_in_line(Waiter(ticket, owner, request_text(request), time.time(), asks_of(request)))
        return ticket

    def leave(self, change: LedgerChange, ticket: str) -> None:
        """Give our place back."""
        for waiter in change.waiters:
            if self._is_ours(waiter, ticket):
                change.leave_line(waiter)

    def has(self, waiters: Sequence[Waiter], ticket: str) -> bool:
        """Whether we still stand in it (rule 5)."""
        return any(self._is_ours(waiter, ticket) for waiter in waiters)

    def names(self, waiters: Sequence[Waiter]) -> set[str]:
        """Names that those in it want for their holds."""
        return {request.name for _, request in self._asked(_with_turns(waiters)) if request.name}

    def drop_dead(self, change: LedgerChange) -> None:
        """Put the dead out of the line (rule 2)."""
        for waiter in self._dead(change.waiters):
            change.leave_line(waiter)

    def place_in_turn(
        self, waiters: Sequence[Waiter], holds: Sequence[Hold], request: "JobRequest", hold: str, ticket: str
    ) -> Placement | NoRoom:
        """Decide where a job goes, when it is its turn or it delays nobody; ``ticket``: its place, or ''."""
        if ticket and not self.has(waiters, ticket):
            return NoRoom(
                f"{ticket} no longer waits: it was put out of the line ('numawise release')", dropped=True
            )
        placement = place(self.capacity_now(request, holds), holds, request, hold)
        if isinstance(placement, NoRoom):
            return placement
        return self._behind(self._ahead(waiters, ticket), holds, request, placement) or placement

    def is_worth_trying(
        self,
        waiters: Sequence[Waiter],
        holds: Callable[[], Sequence[Hold]],
        request: "JobRequest",
        ticket: str,
    ) -> bool:
        """Whether it may be our turn, by a look that keeps nobody else waiting."""
        ahead = self._ahead(waiters, ticket)
        if not ahead or not self.has(waiters, ticket):
            return True
        from numawise.apps.launch.backfill import WaiterNeed, hopeless  # noqa: PLC0415 - few have to wait

        needs = [WaiterNeed.of(self.capacity, other) for _, other in self._asked(ahead)]
        if hopeless(self.capacity, request, needs):
            return False
        return isinstance(self.place_in_turn(waiters, holds(), request, "look", ticket), Placement)

    def states(self, waiters: Sequence[Waiter], holds: Sequence[Hold]) -> Iterator[InLine]:
        """Who waits, and for what, the first first; the dead are left out."""
        from numawise.apps.launch.asked import request_in  # noqa: PLC0415 - few have to wait

        ahead: list[Waiter] = []
        shown: dict[int, int] = {}
        for waiter in self._living(waiters):
            stopped = self._is_stopped(waiter.owner)
            before = tuple(ahead)
            if not stopped:
                ahead = _with_turns((*ahead, waiter))
            shown[waiter.owner.uid] = shown.get(waiter.owner.uid, 0) + 1
            if shown[waiter.owner.uid] > TURNS:
                text = f"{TURNS} of the same user stand before it in line"
                yield InLine(waiter, STOPPED if stopped else WAITING, text)
                continue
            request = request_in(waiter.asks)
            if request is None:
                yield InLine(waiter, PASSED, "what it asks for cannot be read, so others pass it")
                continue
            try:
                found = place(self.capacity_now(request, holds), holds, request, "look")
            except InputError as problem:
                yield InLine(waiter, PASSED, f"{problem.message}, so others pass it")
                continue
            if isinstance(found, Placement):
                found = self._behind(before, holds, request, found) or NoRoom("")
            if stopped:
                yield InLine(waiter, STOPPED, "its process is stopped, so others pass it", found.holders)
            else:
                yield InLine(waiter, WAITING, found.reason, found.holders)

    # --- who is ahead ---------------------------------------------------------------------------

    def _is_ours(self, waiter: Waiter, ticket: str) -> bool:
        return waiter.id == ticket and waiter.owner.uid == self.who.uid

    def _ahead(self, waiters: Sequence[Waiter], ticket: str) -> list[Waiter]:
        """Those before us who have their turn (rule 2)."""
        ours = (number for number, waiter in enumerate(waiters) if self._is_ours(waiter, ticket))
        before = waiters[: next(ours, len(waiters))]
        living = self._living(before)
        return _with_turns(waiter for waiter in living if not self._is_stopped(waiter.owner))

    def _living(self, waiters: Sequence[Waiter]) -> list[Waiter]:
        dead = {(waiter.owner.uid, waiter.id) for waiter in self._dead(waiters)}
        return [waiter for waiter in waiters if (waiter.owner.uid, waiter.id) not in dead]

    def _dead(self, waiters: Sequence[Waiter]) -> tuple[Waiter, ...]:
        def lives(owner: Owner) -> bool:
            return processes.alive(owner.pid, owner.start, self.root)

        return left_line(waiters, self.who.boot, lives, self.who.namespace)

    def _is_stopped(self, owner: Owner) -> bool:
        if owner.namespace and self.who.namespace and owner.namespace != self.who.namespace:
            return False
        return processes.is_stopped(owner.pid, owner.start, self.root)

    # --- who is delayed -------------------------------------------------------------------------

    def _behind(
        self, ahead: Sequence[Waiter], holds: Sequence[Hold], request: "JobRequest", placement: Placement
    ) -> NoRoom | None:
        """Why a job that would fit has to let others go first; None: it delays none of them."""
        if not ahead:
            return None
        from numawise.apps.launch.backfill import WaiterNeed, delays  # noqa: PLC0415 - few have to wait

        asked = list(self._asked(ahead))
        capacity = self.capacity_now(request, holds)
        job = Hold("", "", self.who, placement.grant, labels=where_labels(request))
        named = request.name and any(request.name == other.name for _, other in asked)
        needs = [WaiterNeed.of(self.capacity, other) for _, other in asked]
        if not named and not delays(capacity, holds, job, needs):
            return None
        for number, (waiter, other) in enumerate(asked, 1):
            same_name = bool(request.name) and request.name == other.name
            what = "its name" if same_name else delays(capacity, holds, job, needs[:number])
            if what:
                user = waiter.owner.user or waiter.owner.uid
                return NoRoom(
                    f"{user} is ahead in line, waiting for {waiter.request}, and might have to wait longer "
                    f"for {what}"
                )
        return None

    def _asked(self, waiters: Sequence[Waiter]) -> "Iterator[tuple[Waiter, JobRequest]]":
        """Those who ask for what the machine has when nothing runs (rule 3), and what they ask for."""
        from numawise.apps.launch.asked import request_in  # noqa: PLC0415 - few have to wait

        for waiter in waiters:
            request = request_in(waiter.asks)
            if request is None:
                continue
            key = replace(request, name="")
            if key not in self.possible:
                try:
                    self.possible[key] = isinstance(place(self.capacity, (), key, "idle"), Placement)
                except InputError:
                    self.possible[key] = False
            if self.possible[key]:
                yield waiter, request


def _with_turns(waiters: Iterable[Waiter]) -> list[Waiter]:
    """The first of each user (rule 6)."""
    counts: dict[int, int] = {}
    several = []
    for waiter in waiters:
        counts[waiter.owner.uid] = counts.get(waiter.owner.uid, 0) + 1
        if counts[waiter.owner.uid] <= TURNS:
            several.append(waiter)
    return several
