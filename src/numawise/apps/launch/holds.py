"""Taking and giving back holds on this host: the ledger, the engine's placement, and the shared pool.

Rules kept here:

1. One change of the ledger does it all: the dead are reaped, the engine decides on what is left, the hold is
   added with its owner and with the control group it is going to have.  Nothing is done to the host before
   that is on the disk.
2. Whenever exclusive holds come or go, those in the shared pool get its new CPUs before the change is left,
   so that two changes cannot cross.  Jobs of other users are moved by the process that watches over them.
3. An engine of containers is asked before the change, since it may be slow; while it does not answer, its
   holds stay.
4. With others in line for room, a newcomer is served after them, unless it delays none of them (``line``).
5. What other users recorded is read and counted, never acted on.  Only where root asks for it (``reap``,
   ``release``) it acts for a user, with the rights of that user (``host.rights``), so that a hold that lies
   does no more than its author could; and never while others wait for the ledger.
6. A hold of another user is dead only if everybody can see that: its process has ended and its control group
   is empty.  What a job left running without a group only its owner and root can see.
7. What cannot be read counts as held: beside a user who may hold something by a file that cannot be read,
   nothing is granted.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Self

from numawise.apps.launch.asked import asked_label
from numawise.apps.launch.environment import HOLD
from numawise.apps.launch.line import WaitingLine
from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.where import where_labels
from numawise.errors import HostError, InputError, quoted
from numawise.host import confine, processes
from numawise.host.rights import as_user
from numawise.ledger.file import user_name
from numawise.ledger.place import LedgerPlace
from numawise.ledger.reap import dead
from numawise.ledger.refusals import HoldsUnknown
from numawise.ledger.store import Ledger, LedgerChange
from numawise.machine.hardware import Hardware
from numawise.results.allotment import shared_cpus
from numawise.results.placement import (
    ENDED,
    FOUND_ENDED,
    RUN,
    Capacity,
    EndedHold,
    Hold,
    InLine,
    NoRoom,
    Owner,
    Placement,
    holds_named,
    in_ids_of,
    pool_of,
)
from numawise.sets import format_ids
from numawise.values import dataclass, replace

ROOT = 0
LOOK_AGAIN = 1.0
"""Seconds after which one who waits for room looks for owners that died, and the shared pool is followed."""


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
    place: LedgerPlace = LedgerPlace(())
    """Where the ledger lies, and who shares it."""
    silent: tuple[str, ...] = ()
    """Engines of containers that do not answer, and files that were passed over, a sentence each."""
    in_line: WaitingLine | None = None

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
            self.refuse_unknown()
            before = len(change.holds)
            self._reap(change, gone)
            reaped = len(change.holds) < before
            hold_id = change.new_id()
            found = self.line.place_in_turn(change.waiters, change.holds, request, hold_id, ticket)
            if isinstance(found, NoRoom):
                if reaped:
                    self._settle(change.holds)
                return found
            hold = Hold(
                id=hold_id,
                name=name_of(request, command, change.holds, self.line.names(change.waiters)),
                owner=self.owner(pid),
                grant=found.grant,
                kind=kind,
                policy=request.policy,
                command=tuple(command[:1] if processes.hides_others(self.root) else command),
                since=time.time(),
                labels=(*labels, *where_labels(request), *asked_label(request)),
            )
            if planned is not None:
                hold = planned(hold, found)
            change.add(hold)
            self.line.leave(change, ticket)
            if reaped or hold.grant.cpus:
                self._settle(change.holds, but=hold.id)
        return Taken(hold, found, self.capacity.hardware)

    def refuse_unknown(self) -> None:
        """Grant nothing beside what somebody may hold and nobody can read (rule 7)."""
        if self.ledger.unknown:
            uid, why = self.ledger.unknown[0]
            raise HoldsUnknown(why, user_name(uid) if uid >= 0 else "everybody")

    def capacity_for(self, request: JobRequest, holds: Sequence[Hold]) -> Capacity:
        """The capacity as it is at this moment, as far as the request makes that a question."""
        if not request.is_placed:
            return self.capacity
        from numawise.apps.launch.memory import with_memory_now  # noqa: PLC0415 - not for a place in the pool

        return with_memory_now(self.capacity, holds, self.root)

    @property
    def line(self) -> WaitingLine:
        """Those who wait for room."""
        if self.in_line is None:
            self.in_line = WaitingLine(self.capacity, self.who, self.root, self.capacity_for)
        return self.in_line

    def queue(self, request: JobRequest) -> str:
        """Take a place in the line of those who wait for room; the ticket for ``take``."""
        with self.ledger.change() as change:
            return self.line.join(change, self.owner(os.getpid()), request)

    def is_next(self, request: JobRequest, ticket: str) -> bool:
        """Whether it is worth trying: nobody with a turn is ahead of us, or we may pass."""

        def alive() -> tuple[Hold, ...]:
            holds = self.ledger.holds()
            gone = self._dead_processes(holds)
            return tuple(hold for hold in holds if hold not in gone)

        return self.line.is_worth_trying(self.ledger.waiters(), alive, request, ticket)

    def leave_queue(self, ticket: str) -> None:
        """Give a place in the line back."""
        with self.ledger.change() as change:
            self.line.leave(change, ticket)

    def waiting(self, holds: Sequence[Hold]) -> tuple[InLine, ...]:
        """Who waits for room beside these holds, the first in line first."""
        return tuple(self.line.states(self.ledger.waiters(), holds))

    def rebind(self, hold: Hold) -> None:
        """Record that a job is kept to its grant in another way than planned."""
        with self.ledger.change() as change:
            change.replace(hold)

    def end(
        self, hold: Hold, *, even_alive: bool = False, how: str = ENDED, status: int | None = None
    ) -> bool:
        """Give a hold back; False when something of the job still runs, so that it stays held.

        ``how`` it ended, and the exit ``status`` of its job, are written down (``history``).
        """
        if not even_alive and self.lives(hold):
            return False
        self._clear((hold,) if hold.owner.uid != self.who.uid else ())
        with self.ledger.change() as change:
            self._clear((hold,) if hold.owner.uid == self.who.uid else ())
            ended = self._ended(hold, how, status)
            if not change.remove(hold, ended) and how != ENDED:
                change.ended.append(ended)  # whoever watches over the job saw its end first, but not why
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

    def reap_for_others(self) -> None:
        """Free what our own dead held: who waits ahead of us may not see that they are dead."""
        ours = [hold for hold in self.ledger.holds() if self.acts_for(hold)]
        if self._dead_processes(ours):
            self.reap()

    def live(self) -> tuple[Hold, ...]:
        """The holds whose owners live, as they are now; nothing is changed."""
        holds = self.ledger.holds()
        gone = (*self.dead_containers(holds), *self._dead_processes(holds))
        self.silent = (*self.silent, *self.ledger.problems, *self._undecided(holds))
        return in_ids_of(self.capacity, (hold for hold in holds if hold not in gone))

    def steps(self) -> tuple[Hold, ...]:
        """The steps of holds whose processes live."""
        if not self.ledger.steps():
            return ()
        from numawise.apps.launch.steps import live_steps  # noqa: PLC0415 - few jobs have steps

        return in_ids_of(self.capacity, live_steps(self))

    def history(self) -> tuple[EndedHold, ...]:
        """What has ended, the newest first, with GPUs called as they are now."""
        every = self.ledger.history()
        holds = in_ids_of(self.capacity, (ended.hold for ended in every))
        return tuple(replace(ended, hold=hold) for ended, hold in zip(every, holds, strict=True))

    def find(self, name: str) -> Hold:
        """The hold of this id or name."""
        return named_hold(self.ledger.holds(), name, self.who.uid)

    def move(self, hold: Hold) -> None:
        """Give one hold in the shared pool the CPUs that the pool has now, while nobody changes it."""
        with self.ledger.change() as change:
            self._reap(change, ())
            if any(_same(hold, other) for other in change.holds):
                self._give(hold, shared_cpus(self.capacity, pool_of(self.capacity, change.holds), hold))

    def owner(self, pid: int) -> Owner:
        """Us as the owner of a hold whose life is that of a process."""
        start = processes.start_time(pid, self.root)
        if start is None:
            raise HostError(f"process {pid} has ended")
        return replace(self.who, pid=pid, start=start)

    def lives(self, hold: Hold, marked: Callable[[Hold], bool] | None = None) -> bool:
        """Whether anything of a job of this boot still runs; ``marked``: whether any process has its mark."""
        owner = hold.owner
        if processes.alive(owner.pid, owner.start, self.root):
            return True
        if hold.group:
            return confine.populated(hold.mode, hold.group, self.root)
        return not self.acts_for(hold) or (marked(hold) if marked else bool(self.family(hold)))

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
        self.line.drop_dead(change)
        dead_holds = (*containers, *self._dead_processes(change.holds))
        reaped = change.reap(dead_holds, everybodys=everybodys)
        change.ended += [self._ended(hold, FOUND_ENDED) for hold in reaped]
        self._clear(hold for hold in reaped if hold.owner.uid == self.who.uid)
        if change.steps:
            from numawise.apps.launch.steps import drop_dead  # noqa: PLC0415 - few jobs have steps

            drop_dead(self, change)
        return reaped

    def _ended(self, hold: Hold, how: str, status: int | None = None) -> EndedHold:
        by = self.who.user if self.who.uid != hold.owner.uid else ""
        return EndedHold(hold, time.time(), how, status, by)

    def _dead_processes(self, holds: Iterable[Hold]) -> tuple[Hold, ...]:
        owned = [hold for hold in holds if not hold.owner.engine]
        look = cache(lambda: processes.marked(HOLD, self.root))  # one for all, however many holds there are
        firsts: dict[tuple[int, int], set[str]] = {}
        for hold in owned:
            firsts.setdefault((hold.owner.uid, hold.owner.pid), set()).add(hold.id)

        def marked(hold: Hold) -> bool:
            uid = hold.owner.uid
            pids = look().get((uid, hold.id), ())
            return any(not firsts.get((uid, pid), set()) - {hold.id} for pid in pids)

        return dead(owned, self.who.boot, partial(self.lives, marked=marked), self.who.namespace)

    def _settle(self, holds: Sequence[Hold], but: str = "") -> None:
        """Give everybody in the shared pool its CPUs (rule 2); ``but`` is bound elsewhere."""
        pool = pool_of(self.capacity, holds)
        for hold in holds:
            ours = hold.owner.uid == self.who.uid and hold.id != but
            if ours and not hold.grant.cpus and hold.mode:
                self._give(hold, shared_cpus(self.capacity, pool, hold))

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

        A mark counts on processes of the hold's user alone, anybody else can forge it; of another user's job
        nothing else counts at all.
        """
        alive = processes.alive(hold.owner.pid, hold.owner.start, self.root)
        apart = self.ledger.holds() if others is None else others
        pids = frozenset(
            other.owner.pid for other in apart if other.owner.uid == hold.owner.uid and other.id != hold.id
        )
        family = processes.family(
            hold.owner.pid if alive else -1,
            f"{HOLD}={hold.id}",
            self.root,
            without=pids - {hold.owner.pid},
            uid=hold.owner.uid,
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


def named_hold(holds: Sequence[Hold], name: str, uid: int, field: str = "HOLD") -> Hold:
    """The hold of this id or name, or ``USER/ID``; of several, our own."""
    found = holds_named(holds, name, uid)
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(f"{hold.owner.user}/{hold.id}" for hold in found)
        raise InputError(
            f"{quoted(name)} matches several holds", field=field, advice=f"give one of {several}"
        )
    known = ", ".join(f"{hold.id} ({hold.name}, {hold.owner.user})" for hold in holds) or "none"
    raise InputError(
        f"{quoted(name)} is not a hold", field=field, advice=f"there are {known}; see 'numawise ps'"
    )


def _tear_down(hold: Hold, root: Path) -> str:
    confine.tear_down(hold.mode, hold.group, root)
    return ""


def _same(hold: Hold, other: Hold) -> bool:
    return (hold.id, hold.owner.uid) == (other.id, other.owner.uid)


def name_of(
    request: JobRequest, command: Sequence[str], holds: Iterable[Hold], wanted: Collection[str] = ()
) -> str:
    """The name asked for, which must be free; else the command's, with a number where that is taken.

    Names that are ``wanted`` by those in line are left to them.
    """
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
    while found in taken or found in wanted:
        found, number = f"{base}-{number}", number + 1
    return found
