"""The line of those who wait for room: who is in it, whose turn it is, what the others are told.

Rules kept here:

1. Those who wait are served in the order in which they came; with others in line, a newcomer is served after
   them.
2. Whoever has died is out of the line.
"""

import time
from collections.abc import Callable, Sequence

from numawise.apps.launch.decide import cpus_text, gpus_text, place
from numawise.apps.launch.request import JobRequest
from numawise.ledger.reap import left_line
from numawise.ledger.store import LedgerChange
from numawise.render.words import bytes_text
from numawise.results.placement import Capacity, NoRoom, Owner, Placement, Waiter

Lives = Callable[[Owner], bool]


def join(change: LedgerChange, owner: Owner, request: JobRequest) -> str:
    """Take a place at the end of the line; the ticket."""
    ticket = change.new_id()
    change.wait_in_line(Waiter(ticket, owner, request_text(request), time.time()))
    return ticket


def leave(change: LedgerChange, ticket: str, uid: int) -> None:
    """Give a user's place in the line back."""
    for waiter in change.waiters:
        if waiter.id == ticket and waiter.owner.uid == uid:
            change.leave_line(waiter)


def without_dead(change: LedgerChange, who: Owner, lives: Lives) -> None:
    """Put the dead out of the line (rule 2)."""
    for waiter in left_line(change.waiters, who.boot, lives, who.namespace):
        change.leave_line(waiter)


def is_next(waiters: Sequence[Waiter], ticket: str, who: Owner, lives: Lives) -> bool:
    """Whether it is worth trying: no living process is ahead in the line."""
    first = next(iter(waiters), None)
    if first is None or first.id == ticket:
        return True
    return bool(left_line((first,), who.boot, lives, who.namespace))


def place_in_turn(
    change: LedgerChange, capacity: Capacity, request: JobRequest, hold_id: str, ticket: str
) -> Placement | NoRoom:
    """Decide where a job goes, when it is its turn; ``ticket``: its place in the line, or ''."""
    placement = place(capacity, change.holds, request, hold_id)
    if isinstance(placement, NoRoom) or change.first_in_line(ticket or "-"):
        return placement
    first = change.waiters[0]
    return NoRoom(f"{first.owner.user or first.owner.uid} is first in line, waiting for {first.request}")


def request_text(request: JobRequest) -> str:
    """What is asked for, in a few words."""
    parts = [
        cpus_text(request.cpus) if request.cpus else "",
        bytes_text(request.memory) if request.memory else "",
        gpus_text(request.gpus or len(request.gpu_ids)) if request.gpus or request.gpu_ids else "",
        f"{request.nics} NICs" if request.nics else "",
        *(f"{count} {resource}" for resource, count in request.devices),
    ]
    return ", ".join(part for part in parts if part) or "a place in the shared pool"
