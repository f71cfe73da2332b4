"""Taking and giving back holds on this host: the ledger, the engine's placement, and the shared pool.

Rules kept here:

1. One change of the ledger does it all: the dead are reaped, the engine decides on what is left, the hold is
   added with its owner and with the control group it is going to have.  Nothing is done to the host before
   that is on the disk.
2. Whenever exclusive holds come or go, those in the shared pool get its new CPUs before the change is left,
   so that two changes cannot cross.  Jobs of other users are moved by the process that watches over them.
3. An engine of containers is asked before the change, since it may be slow; while it does not answer, its
   holds stay.
4. With others in line for room, a newcomer is served after them.
5. What other users recorded is read and counted, never acted on.  Only where root asks for it (``reap``,
   ``release``) it acts for a user, with the rights of that user (``host.rights``), so that a hold that lies
   does no more than its author could; and never while others wait for the ledger.
6. A hold of another user is dead only if everybody can see that: its process has ended and its control group
   is empty.  What a job left running without a group only its owner and root can see.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from numawise.apps.launch.decide import cpus_text, gpus_text, place
from numawise.apps.launch.environment import HOLD
from numawise.apps.launch.request import JobRequest
from numawise.errors import HostError, InputError, LedgerError, quoted
from numawise.host import confine, processes
from numawise.host.rights import as_user
from numawise.ledger.reap import dead, left_line
from numawise.ledger.store import Ledger, LedgerChange
from numawise.machine.hardware import Hardware
from numawise.render.words import bytes_text
from numawise.results.placement import (
    CGROUP_V2,
    PYTHON,
    RUN,
    Capacity,
    Hold,
    NoRoom,
    Owner,
    Placement,
    Waiter,
    in_ids_of,
    pool_cpus,
    pool_of,
)
from numawise.sets import format_ids
from numawise.values import dataclass, replace

ROOT = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """A hold that was just made, and what it is."""

    hold: Hold
    placement: Placement
    hardware: Hardware


Planned = Callable[[Hold, Placement], Hold]
"""Fills in how the job will be kept to its grant, before the hold is added."""


@dataclass(slots=True)
class Holdings:
    """This host's holds, as one user sees and changes them."""

    ledger: Ledger
    capacity: Capacity
    who: Owner
    """Us: user, boot and pid namespace; the pid is filled in for each hold."""
    root: Path = Path("/")
    silent: tuple[str, ...] = ()
    """Engines of containers that do not answer, and files that were passed over, a sentence each."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ledger.close()

    def take(
        self,
        request: JobRequest,
        pid: int,
        *,
        kind: str = RUN,
        command: Sequence[str] = (),
        planned: Planned | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        ticket: str = "",
    ) -> Taken | NoRoom:
        """Make a hold for a process, or say why there is no room.  ``ticket``: our place in the line."""
        gone = self.dead_containers()
        with self.ledger.change() as change:
            before = len(change.holds)
            self._reap(change, gone)
            reaped = len(change.holds) < before
            hold_id = change.new_id()
            if not change.first_in_line(ticket or "-"):
                found: Placement | NoRoom = self._behind(change, request)
            else:
                found = place(self.capacity, change.holds, request, hold_id)
            if isinstance(found, NoRoom):
                if reaped:
                    self._settle(change.holds)
                return found
            hold = Hold(
                id=hold_id,
                name=_name(request, command, change.holds),
                owner=self.owner(pid),
                grant=found.grant,
                kind=kind,
                policy=request.policy,
                command=tuple(command[:1] if processes.hides_others(self.root) else command),
                since=time.time(),
                labels=labels,
            )
            if planned is not None:
                hold = planned(hold, found)
            change.add(hold)
            self._leave_line(change, ticket)
            if reaped or hold.grant.cpus:
                self._settle(change.holds, but=hold.id)
        return Taken(hold, found, self.capacity.hardware)

    def queue(self, request: JobRequest) -> str:
        """Take a place in the line of those who wait for room; the ticket for ``take``."""
        with self.ledger.change() as change:
            ticket = change.new_id()
            owner = self.owner(os.getpid())
            change.wait_in_line(Waiter(ticket, owner, request_text(request), time.time()))
        return ticket

    def is_next(self, ticket: str) -> bool:
        """Whether it is worth trying: no living process is ahead of us in the line."""
        first = next(iter(self.ledger.waiters()), None)
        if first is None or first.id == ticket:
            return True
        return bool(left_line((first,), self.who.boot, self._process_lives, self.who.namespace))

    def leave_queue(self, ticket: str) -> None:
        """Give a place in the line back."""
        with self.ledger.change() as change:
            self._leave_line(change, ticket)

    def rebind(self, hold: Hold) -> None:
        """Record that a job is kept to its grant in another way than planned."""
        with self.ledger.change() as change:
            change.replace(hold)

    def end(self, hold: Hold, *, even_alive: bool = False) -> bool:
        """Give a hold back; False when something of the job still runs, so that it stays held."""
        if not even_alive and self.lives(hold):
            return False
        self._clear((hold,) if hold.owner.uid != self.who.uid else ())
        with self.ledger.change() as change:
            self._clear((hold,) if hold.owner.uid == self.who.uid else ())
            change.remove(hold)
            self._settle(change.holds)
        return True

    def reap(self) -> tuple[Hold, ...]:
        """Free what the dead held; those holds."""
        gone = self.dead_containers()
        if self.who.uid == ROOT:
            others = (hold for hold in self.ledger.holds() if hold.owner.uid != ROOT)
            self._clear(self._dead_processes(others))
        with self.ledger.change() as change:
            reaped = self._reap(change, gone, everybodys=True)
            if reaped:
                self._settle(change.holds)
        return reaped

    def live(self) -> tuple[Hold, ...]:
        """The holds whose owners live, as they are now; nothing is changed."""
        holds = self.ledger.holds()
        gone = (*self.dead_containers(holds), *self._dead_processes(holds))
        self.silent = (*self.silent, *self.ledger.problems, *self._undecided(holds))
        return in_ids_of(self.capacity, (hold for hold in holds if hold not in gone))

    def find(self, name: str) -> Hold:
        """The hold of this id or name."""
        holds = self.ledger.holds()
        found = [hold for hold in holds if hold.id == name] or [hold for hold in holds if hold.name == name]
        if len(found) > 1:  # another user may have written down the same id or name
            found = [hold for hold in found if hold.owner.uid == self.who.uid] or found
        if len(found) == 1:
            return found[0]
        known = ", ".join(f"{hold.id} ({hold.name}, {hold.owner.user})" for hold in found or holds) or "none"
        what = "matches several holds" if found else "is not a hold"
        raise InputError(
            f"{quoted(name)} {what}", field="HOLD", advice=f"there are {known}; see 'numawise ps'"
        )

    def move(self, hold: Hold) -> None:
        """Give one hold in the shared pool the CPUs that the pool has now, while nobody changes it."""
        with self.ledger.change() as change:
            self._reap(change, ())
            if any(_same(hold, other) for other in change.holds):
                self._give(
                    hold, pool_cpus(self.capacity, pool_of(self.capacity, change.holds), hold.grant.near)
                )

    def owner(self, pid: int) -> Owner:
        """Us as the owner of a hold whose life is that of a process."""
        start = processes.start_time(pid, self.root)
        if start is None:
            raise HostError(f"process {pid} has ended")
        return replace(self.who, pid=pid, start=start)

    def lives(self, hold: Hold) -> bool:
        """Whether anything of a job of this boot still runs."""
        owner = hold.owner
        if processes.alive(owner.pid, owner.start, self.root):
            return True
        if hold.group:
            return confine.populated(hold.mode, hold.group, self.root)
        return not self.acts_for(hold) or bool(self.family(hold))

    def acts_for(self, hold: Hold) -> bool:
        """Whether we see all of a job and may change it: it is ours, or we are root."""
        return self.who.uid in (ROOT, hold.owner.uid)

    def _undecided(self, holds: Iterable[Hold]) -> Iterator[str]:
        """A sentence on each hold of which we cannot say whether anything of its job still runs."""
        for hold in holds:
            owner = hold.owner
            ours = self.acts_for(hold) or hold.group or owner.engine
            here = owner.boot == self.who.boot and owner.namespace in (0, self.who.namespace)
            if not ours and here and not processes.alive(owner.pid, owner.start, self.root):
                yield (
                    f"{hold.name} ({hold.id}): its process has ended; only {owner.user} or root can see "
                    "whether it left others, and free what it holds with 'numawise reap'"
                )

    def is_alive(self, hold: Hold) -> bool:
        """Whether the owner of a hold lives, be it a process or a container."""
        if hold.owner.engine:
            return not self.dead_containers((hold,))
        return not self._dead_processes((hold,))

    def dead_containers(self, holds: Sequence[Hold] | None = None) -> tuple[Hold, ...]:
        """Holds whose container is gone (rule 3)."""
        every = self.ledger.holds() if holds is None else holds
        contained = [hold for hold in every if hold.owner.engine]
        if not contained:
            return ()
        from numawise.apps.launch.containers.life import ended  # noqa: PLC0415 - asks engines, which few hosts have

        gone, self.silent = ended(contained, self.who.uid)
        return gone

    # --- inside a change ----------------------------------------------------------------------

    def _reap(
        self, change: LedgerChange, containers: Iterable[Hold], *, everybodys: bool = False
    ) -> tuple[Hold, ...]:
        for waiter in left_line(
            change.waiters,
            self.who.boot,
            self._process_lives,
            self.who.namespace,
        ):
            change.leave_line(waiter)
        dead_holds = (*containers, *self._dead_processes(change.holds))
        reaped = change.reap(dead_holds, everybodys=everybodys)
        self._clear(hold for hold in reaped if hold.owner.uid == self.who.uid)
        return reaped

    def _leave_line(self, change: LedgerChange, ticket: str) -> None:
        for waiter in change.waiters:
            if waiter.id == ticket and waiter.owner.uid == self.who.uid:
                change.leave_line(waiter)

    def _process_lives(self, owner: Owner) -> bool:
        return processes.alive(owner.pid, owner.start, self.root)

    def _dead_processes(self, holds: Iterable[Hold]) -> tuple[Hold, ...]:
        owned = [hold for hold in holds if not hold.owner.engine]
        return dead(owned, self.who.boot, self.lives, self.who.namespace)

    def _behind(self, change: LedgerChange, request: JobRequest) -> NoRoom:
        first = change.waiters[0]
        found = place(self.capacity, change.holds, request, change.new_id())
        reason = f"{first.owner.user or first.owner.uid} is first in line, waiting for {first.request}"
        return found if isinstance(found, NoRoom) else NoRoom(reason)

    def _settle(self, holds: Sequence[Hold], but: str = "") -> None:
        """Give everybody in the shared pool its CPUs (rule 2); ``but`` is bound elsewhere."""
        pool = pool_of(self.capacity, holds)
        for hold in holds:
            ours = hold.owner.uid == self.who.uid and hold.id != but
            if ours and not hold.grant.cpus and hold.mode:
                self._give(hold, pool_cpus(self.capacity, pool, hold.grant.near))

    def _give(self, hold: Hold, cpus: int) -> None:
        if not cpus:
            return
        if hold.owner.engine:
            self._give_container(hold, cpus)
            return
        try:
            confine.change_cpus(hold.mode, hold.group, lambda: self.family(hold), cpus, self.root)
        except (HostError, OSError) as problem:
            # A job that is still being bound looks for itself afterwards.
            if confine.populated(hold.mode, hold.group, self.root):
                remark = f"{hold.name} ({hold.id}) could not be moved to CPUs {format_ids(cpus)}: {problem}"
                self.silent = (*self.silent, remark)

    def _give_container(self, hold: Hold, cpus: int) -> None:
        from numawise.apps.launch.containers.life import move_container  # noqa: PLC0415 - few holds are containers'

        problem = move_container(hold, cpus, self.who.uid) if hold.owner.container else ""
        if problem:
            self.silent = (*self.silent, problem)

    def family(self, hold: Hold, others: Sequence[Hold] | None = None) -> tuple[int, ...]:
        """The processes of a job, by descent and by the mark they carry; ``others``: all holds there are.

        Of another user's job only what runs as that user counts: marks can be forged.
        """
        alive = processes.alive(hold.owner.pid, hold.owner.start, self.root)
        apart = self.ledger.holds() if others is None else others
        pids = frozenset(
            other.owner.pid for other in apart if other.owner.uid == hold.owner.uid and other.id != hold.id
        )
        family = processes.family(
            hold.owner.pid if alive else -1, f"{HOLD}={hold.id}", self.root, without=pids - {hold.owner.pid}
        )
        if hold.owner.uid == self.who.uid:
            return family
        return tuple(pid for pid in family if processes.uid_of(pid, self.root) == hold.owner.uid)

    def _clear(self, holds: Iterable[Hold]) -> None:
        """Remove the control groups of holds that go, before that is on the disk: a crash leaves none behind.

        What is still busy stays for ``numawise reap``.
        """
        for hold in holds:
            if hold.group and self.acts_for(hold):
                with suppress(HostError):
                    as_user(hold.owner.uid, partial(_tear_down, hold, self.root))


def _tear_down(hold: Hold, root: Path) -> str:
    confine.tear_down(hold.mode, hold.group, root)
    return ""


def _same(hold: Hold, other: Hold) -> bool:
    return (hold.id, hold.owner.uid) == (other.id, other.owner.uid)


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


def _name(request: JobRequest, command: Sequence[str], holds: Iterable[Hold]) -> str:
    """The name asked for, which must be free; else the command's, with a number where that is taken."""
    taken = {hold.name for hold in holds}
    if request.name:
        if request.name in taken:
            raise InputError(
                f"there is a hold named {quoted(request.name)} already",
                field="--name",
                advice="choose another name, or end that one ('numawise ps')",
            )
        return request.name
    base = os.path.basename(command[0]) if command else "hold"  # noqa: PTH119 - a command is text
    base = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in base)[:48] or "hold"
    found, number = base, 2
    while found in taken:
        found, number = f"{base}-{number}", number + 1
    return found


# --------------------------------------------------------------------------------------------------
# Ending holds before their time, and clearing up after the dead.
#
# Rules kept here:
#
# 1. A hold whose job runs is given back only when the job is ended, or when the user insists.
# 2. Only processes that belong to the job are ended: those of its control group, or those that carry its
#    mark; with the rights of its user alone, so that a hold that names other processes ends none of them.
# 3. A control group that no hold names is removed only while nobody can make a new one, and only when empty.


PATIENCE = 5.0
PAUSE = 0.02


def release(holdings: Holdings, hold: Hold, *, kill: bool = False, force: bool = False) -> str:
    """Give a hold back; why not, as a sentence, or ''."""
    if not holdings.acts_for(hold):
        raise LedgerError(
            f"{hold.name} ({hold.id}) belongs to {hold.owner.user}",
            f"ask {hold.owner.user}, or do it as root",
        )
    alive = holdings.is_alive(hold)
    if alive and kill:
        if hold.owner.engine:
            engine = hold.owner.engine
            return f"{hold.name} is a container: end it with '{engine} rm -f {hold.owner.container[:12]}'"
        if hold.kind == PYTHON:
            return f"{hold.name} belongs to the Python program {hold.owner.pid}: end that"
        others = holdings.ledger.holds()
        as_user(hold.owner.uid, lambda: _kill(holdings, hold, others))
        alive = False
    if alive and not force:
        return f"{hold.name} ({hold.id}) still runs: end it with --kill, or free it anyway with --force"
    holdings.end(hold, even_alive=True)
    return ""


def _kill(holdings: Holdings, hold: Hold, others: Sequence[Hold]) -> str:
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
