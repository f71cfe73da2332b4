"""Ending holds before their time, and clearing up after the dead.

Rules kept here:

1. A hold whose job runs is given back only when the job is ended, or when the user insists.  Asked to end
   (SIGTERM, and SIGCONT for what is stopped) is every process of it once; what is left when its time is over
   is killed.
2. Only processes that belong to the job are ended: those of its control group, or those that carry its
   mark; with the rights of its user alone, so that a hold that names other processes ends none of them.
   A signal goes to the very process that was found to belong to it, not to a later one of the same number.
3. A control group that no hold names is removed only while nobody can make a new one, and only when empty.
"""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from numawise.apps.launch.asked import request_in
from numawise.apps.launch.holds import Holdings
from numawise.errors import HostError, InputError, LedgerError
from numawise.host import confine
from numawise.host.rights import as_user
from numawise.results.placement import CGROUP_V2, PYTHON, RELEASED, Hold, Waiter

PATIENCE = 5.0
PAUSE = 0.02


def release(
    holdings: Holdings,
    hold: Hold,
    *,
    kill: bool = False,
    force: bool = False,
    term: float | None = None,
    how: str = RELEASED,
) -> str:
    """Give a hold back; why not, as a sentence, or ''.

    ``kill``: its job is killed first; ``term``: it is asked to end first, and killed after so many seconds.
    """
    if not holdings.acts_for(hold):
        raise LedgerError(
            f"{hold.name} ({hold.id}) belongs to {hold.owner.user}",
            f"ask {hold.owner.user}, or do it as root",
        )
    alive = holdings.is_alive(hold)
    if alive and (kill or term is not None):
        if hold.owner.engine and term is not None:
            from numawise.apps.launch.containers.life import stop_container  # noqa: PLC0415 - few holds are containers'

            problem = stop_container(hold, term, holdings.who.uid)
            if problem:
                return problem
            holdings.end(hold, even_alive=True, how=how)
            return ""
        if hold.owner.engine:
            engine = hold.owner.engine
            return f"{hold.name} is a container: end it with '{engine} rm -f {hold.owner.container[:12]}'"
        if hold.kind == PYTHON:
            return f"{hold.name} belongs to the Python program {hold.owner.pid}: end that"
        others = holdings.ledger.holds()
        if term is not None:
            as_user(
                hold.owner.uid, lambda: send_all(holdings, hold, others, (signal.SIGTERM, signal.SIGCONT))
            )
            wait_for_end(holdings, hold, term)
        as_user(hold.owner.uid, lambda: kill_all(holdings, hold, others))
        alive = False
    if alive and not force:
        ways = "end it with --term 30 or --kill, or free it anyway with --force"
        return f"{hold.name} ({hold.id}) still runs: {ways}"
    holdings.end(hold, even_alive=True, how=how)
    return ""


def named(holdings: Holdings, name: str) -> Hold | Waiter:
    """The hold, or else the waiter, of this id or name."""
    try:
        return holdings.find(name)
    except InputError:
        waiters = [
            waiter
            for waiter in holdings.ledger.waiters()
            if name == waiter.id or ((asked := request_in(waiter.asks)) and name == asked.name)
        ]
        ours = [waiter for waiter in waiters if waiter.owner.uid == holdings.who.uid]
        if len(ours or waiters) != 1:
            raise
        return (ours or waiters)[0]


def put_out(holdings: Holdings, waiter: Waiter) -> None:
    """Put somebody out of the line; the process that waits finds its row gone, and ends."""
    with holdings.ledger.change() as change:
        change.put_out(waiter)


def wait_for_end(holdings: Holdings, hold: Hold, seconds: float) -> None:
    """Wait until nothing of a job runs any more, or the time is over."""
    until = time.monotonic() + seconds
    while holdings.lives(hold) and (left := until - time.monotonic()) > 0:
        time.sleep(min(PAUSE * 5, left))


def send_all(
    holdings: Holdings, hold: Hold, others: Sequence[Hold], numbers: Sequence[signal.Signals]
) -> str:
    """Send signals to every process of a job, once (rule 2)."""

    def members() -> set[int]:
        group = confine.members(hold.mode, hold.group, holdings.root) if hold.group else ()
        return {*group, *holdings.family(hold, others)}

    handles: dict[int, int] = {}
    try:
        for pid in members():
            with suppress(ProcessLookupError):
                handles[pid] = os.pidfd_open(pid)
        # Who still belongs to it now is what the handle means: its number was not free in between.
        for pid in members() & set(handles):
            with suppress(ProcessLookupError, PermissionError):
                for number in numbers:
                    signal.pidfd_send_signal(handles[pid], number)
    finally:
        for handle in handles.values():
            os.close(handle)
    return ""


def kill_all(holdings: Holdings, hold: Hold, others: Sequence[Hold]) -> str:
    """Kill every process of a job, until there is none."""
    until = time.monotonic() + PATIENCE
    while True:
        if hold.group:
            confine.kill(hold.mode, hold.group, holdings.root)
        family = holdings.family(hold, others)
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:
                raise HostError(f"process {pid} of {hold.name} may not be ended", "do it as root") from None
        if not family and not (hold.group and confine.populated(hold.mode, hold.group, holdings.root)):
            return ""
        if time.monotonic() > until:
            raise HostError(f"{hold.name} ({hold.id}) does not end", "it may hang in the kernel: see 'ps -l'")
        time.sleep(PAUSE)


def remove_stale(holdings: Holdings, now: float) -> tuple[str, ...]:
    """Remove control groups that a crash has left behind (rule 3), a minute ago or more; their paths."""
    with holdings.ledger.change() as change:
        named = [hold.group for hold in change.holds if hold.group]
        found = []
        for group in confine.stale(named, now, holdings.root):
            try:
                if confine.tear_down(CGROUP_V2, group, holdings.root):
                    found.append(group)
            except HostError:
                continue
    return tuple(found)
