"""The ledger: who holds what on this machine, changed by one writer at a time, whole or not at all.

Rules kept here:

1. A change is made under one lock.  It sees all holds as they are, and what it does is on the disk when it is
   left; an exception, a kill or a full disk leaves everything as it was.
2. No CPU and no device goes to a hold while another has it.
3. Each user's holds stand in a file of that user's own (``file``), so a user adds, changes and removes only
   holds of that user, and root any.  The dead of others are disregarded; their owner or root removes them.
4. Those who wait for room stand in the order in which they came.

5. A step takes a part of what its hold has, nothing of what is free: no other step of that hold has it, and
   when the hold goes, its steps go with it.
6. How a hold ended is written down where the change says so (``history``).
7. Whose file cannot be read whole has that file left as it is: its user mends it, or root by hand.

How a change is made::

    with Ledger.open(place.folders, machine) as ledger:
        with ledger.change() as change:
            change.reap(dead(change.holds, boot, alive))
            change.add(Hold(change.new_id(), ...))
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from numawise.errors import LedgerError, quoted
from numawise.ledger import record
from numawise.ledger.file import (
    FolderVersion,
    LedgerFolder,
    UserFile,
    clear_left_overs,
    free_name,
    open_folder,
    read_folder,
    write_file,
)
from numawise.ledger.refusals import refusal
from numawise.ledger.turn import PATIENCE, turn
from numawise.results.placement import EndedHold, Hold, Waiter

GLANCE = 0.05
"""Seconds between two looks for changes by others."""
LOOKS = 5
"""So often is a ledger read again that changes while it is read."""
LETTERS, SIGNS = "bcdfghjkmnpqrstvwxyz", "bcdfghjkmnpqrstvwxyz23456789"
ROOT = 0

Row = TypeVar("Row", Hold, Waiter)
LedgerVersion = tuple[FolderVersion, ...]


class Ledger:
    """An open ledger; belongs to the thread and the process that opened it."""

    __slots__ = (
        *("_change", "_folders", "_known", "_machine", "_paths", "_patience", "_process"),
        *("problems", "uid", "unknown"),
    )

    def __init__(self, paths: tuple[Path, ...], machine: str, patience: float, uid: int) -> None:
        self.uid = uid
        """Who acts."""
        self.problems: tuple[str, ...] = ()
        """What was passed over when the ledger was read last, a sentence each."""
        self.unknown: tuple[tuple[int, str], ...] = ()
        """Who may hold more than is known (-1: anybody), and why, a sentence without its end."""
        self._paths = paths
        self._machine = machine
        self._patience = patience
        self._process = os.getpid()
        self._change: LedgerChange | None = None
        self._folders: tuple[LedgerFolder, ...] = ()
        self._known: tuple[LedgerVersion, tuple[UserFile, ...]] | None = None

    @classmethod
    def open(
        cls,
        folders: Path | Sequence[Path],
        machine: str,
        *,
        patience: float = PATIENCE,
        uid: int | None = None,
    ) -> Self:
        """Open this machine's ledger; nothing is made before the first change.

        It lies in the first of the folders; the others may have files of users who cannot write there.
        ``patience`` is how many seconds to wait for others in every change.
        """
        # Links are followed, so that all names of a ledger have one lock.
        paths = tuple(path.resolve() for path in ((folders,) if isinstance(folders, Path) else folders))
        ledger = cls(paths, machine, patience, os.geteuid() if uid is None else uid)
        ledger._open(make=False)
        return ledger

    @property
    def path(self) -> Path:
        """The folder in which new holds of this user are recorded."""
        return self._paths[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for folder in self._folders:
            folder.close()
        self._folders = ()

    def holds(self) -> tuple[Hold, ...]:
        """All holds, the oldest first."""
        return self._change.holds if self._change else _oldest_first(f.holds for f in self._read())

    def waiters(self) -> tuple[Waiter, ...]:
        """Who waits for room, the first in line first."""
        return self._change.waiters if self._change else _oldest_first(f.waiters for f in self._read())

    def steps(self) -> tuple[Hold, ...]:
        """The steps of all holds, the oldest first."""
        if self._change:
            return self._change.steps
        files = self._read()
        return _with_parents(_oldest_first(f.holds for f in files), _oldest_first(f.steps for f in files))

    def history(self) -> tuple[EndedHold, ...]:
        """Holds that are no more, as far back as that is kept, the newest first."""
        from numawise.ledger.history import read_history  # noqa: PLC0415 - not for starting jobs

        live = {(*_key(hold), hold.since) for hold in self.holds()}
        try:
            every, problems = read_history(self._folders, self._machine, self.uid)
        except OSError as error:
            raise refusal(error, self.path) from error
        self.problems = tuple(dict.fromkeys((*self.problems, *problems)))
        return tuple(ended for ended in every if (*_key(ended.hold), ended.hold.since) not in live)

    def version(self) -> LedgerVersion:
        """Something that is another after each change."""
        self._open(make=False)
        self._check()
        try:
            return tuple(folder.version() for folder in self._folders)
        except OSError as error:
            raise refusal(error, self.path) from error

    def wait_for_change(self, version: LedgerVersion, seconds: float) -> LedgerVersion:
        """Wait until the version is another, or the time is over; the version then.

        Owners that die change nothing here: look for them from time to time.
        """
        until = time.monotonic() + seconds
        while (now := self.version()) == version and (left := until - time.monotonic()) > 0:
            time.sleep(min(GLANCE, left))
        return now

    @contextmanager
    def change(self) -> "Iterator[LedgerChange]":
        """Change the ledger; what is done inside is recorded together when it is left, or not at all."""
        if self._change:
            raise RuntimeError("a change of this ledger is under way already")
        self._open(make=True)
        in_order = sorted(self._folders, key=lambda folder: folder.path)  # the same for everybody
        with turn(in_order, time.monotonic() + self._patience):
            self._change = LedgerChange(self._read_once(), self.uid)
            try:
                yield self._change
                self._record(self._change)
            finally:
                self._change.over = True
                self._change = None

    def _open(self, *, make: bool) -> None:
        """Open the folders that exist and are not open yet; ``make``: the first exists then."""
        known = {folder.path: folder for folder in self._folders}
        if len(known) < len(self._paths):
            opened = (
                known.get(path) or open_folder(path, make=make and path == self.path) for path in self._paths
            )
            self._folders = tuple(folder for folder in opened if folder)

    def _read(self) -> tuple[UserFile, ...]:
        """All files as they were at one time, unless they change faster than they can be read."""
        before = self.version()
        if self._known is not None and self._known[0] == before:
            return self._known[1]
        for _ in range(LOOKS):
            files = self._read_once()
            after = self.version()
            if after == before:
                self._known = after, files
                break
            before = after
        return files

    def _read_once(self) -> tuple[UserFile, ...]:
        self._check()
        try:
            files = tuple(
                file
                for number, folder in enumerate(self._folders)
                for file in read_folder(folder, number, self._machine, self.uid)
            )
        except OSError as error:
            raise refusal(error, self.path) from error
        self.problems = tuple(problem for file in files for problem in file.problems)
        self.unknown = tuple((file.uid, file.unknown) for file in files if file.unknown)
        return files

    def _record(self, change: "LedgerChange") -> None:
        """Write what has changed: files of others first, since of those only what is dead goes by the way."""
        self._check()
        if change.ended:
            from numawise.ledger.history import add_lines  # noqa: PLC0415 - not for starting jobs

            for uid in sorted({ended.hold.owner.uid for ended in change.ended}):
                rows = [ended for ended in change.ended if ended.hold.owner.uid == uid]
                add_lines(self._folders[0], uid, rows, self._machine)
        for uid in sorted(change.changed, key=lambda uid: uid == self.uid):
            try:
                self._record_user(change, uid)
            except OSError as error:
                raise refusal(error, self.path) from error

    def _record_user(self, change: "LedgerChange", uid: int) -> None:
        """Put all that a user has into one file, and drop that user's others."""
        folder = self._folders[0]
        names = [(file.folder, file.name) for file in change.files if file.uid == uid and file.is_ledger]
        content = record.data_of(*change.rows_of(uid))
        clear_left_overs(folder, uid)
        name = next((name for number, name in names if number == 0), "") or free_name(folder, uid)
        write_file(folder, name, uid, content, self._machine)
        for number, other in names:
            if (number, other) != (0, name):
                write_file(self._folders[number], other, uid, {}, self._machine)

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("a ledger does not outlive a fork; open it in the new process")
        for folder in self._folders:
            if not folder.is_in_place():
                raise LedgerError(
                    f"the ledger {folder.path} was moved or removed while it was in use",
                    "start the command again",
                )


class LedgerChange:
    """What may be done in one change; nothing is written before it is left."""

    __slots__ = ("_holds", "_steps", "_uid", "_unread", "_waiters", "changed", "ended", "files", "over")

    def __init__(self, files: tuple[UserFile, ...], uid: int) -> None:
        self.files = files
        self.changed: set[int] = set()
        """Users whose file is to be written."""
        self.ended: list[EndedHold] = []
        """What is to be written down of holds that go (rule 6)."""
        self.over = False
        self._uid = uid
        self._unread = {file.uid: file.unknown for file in files if file.unknown}
        self._holds = {_key(hold): hold for hold in _oldest_first(file.holds for file in files)}
        self._waiters = {_key(waiter): waiter for waiter in _oldest_first(file.waiters for file in files)}
        self._steps = {_key(step): step for step in _oldest_first(file.steps for file in files)}

    @property
    def holds(self) -> tuple[Hold, ...]:
        """All holds, this change's own included, without the dead that were reaped."""
        return tuple(self._holds.values())

    @property
    def waiters(self) -> tuple[Waiter, ...]:
        """Who waits for room, the first in line first."""
        return tuple(self._waiters.values())

    @property
    def steps(self) -> tuple[Hold, ...]:
        """The steps of these holds (rule 5)."""
        return _with_parents(self.holds, self._steps.values())

    def rows_of(self, uid: int) -> tuple[list[Hold], list[Waiter], list[Hold]]:
        """What a user's file is to say."""
        return (
            [hold for hold in self._holds.values() if hold.owner.uid == uid],
            [waiter for waiter in self._waiters.values() if waiter.owner.uid == uid],
            [step for step in self.steps if step.owner.uid == uid],
        )

    def new_id(self) -> str:
        """A short id that no hold and no waiter has; it begins with a letter, unlike a process number."""
        known = {id_ for _, id_ in (*self._holds, *self._waiters, *self._steps)}
        while True:
            first, *others = os.urandom(5)
            made = LETTERS[first % len(LETTERS)] + "".join(SIGNS[byte % len(SIGNS)] for byte in others)
            if made not in known:
                return made

    def add(self, hold: Hold) -> None:
        """Record a new hold."""
        if any(hold.id == other.id for other in self.holds):
            raise LedgerError(f"there is a hold {hold.id} already", "give the new one another id")
        self._allow(hold)
        self._fits(hold, self.holds)
        self._holds[_key(hold)] = hold

    def remove(self, hold: Hold, ended: EndedHold | None = None) -> bool:
        """End a hold; False when there is none, because it was ended before.  ``ended``: how (rule 6)."""
        if _key(hold) not in self._holds:
            return False
        self._allow(hold)
        del self._holds[_key(hold)]
        if ended is not None:
            self.ended.append(ended)
        return True

    def replace(self, hold: Hold) -> None:
        """Change a hold, keeping its id and its user."""
        if _key(hold) not in self._holds:
            raise LedgerError(
                f"hold {hold.id} is no longer in the ledger",
                "it was released or reaped meanwhile; start the job again",
            )
        self._allow(hold)
        self._fits(hold, (other for other in self.holds if _key(other) != _key(hold)))
        self._holds[_key(hold)] = hold

    def reap(self, dead: Iterable[Hold], *, everybodys: bool = False) -> tuple[Hold, ...]:
        """Disregard holds whose owners are dead, and remove our own; the removed ones.

        ``everybodys``: root removes those of all users.  A hold that got another owner since it was judged (a
        container in place of the process that made it) stays.
        """
        gone = [hold for hold in dead if _key(hold) in self._holds]
        gone = [hold for hold in gone if self._holds[_key(hold)].owner == hold.owner]
        for hold in gone:
            del self._holds[_key(hold)]
        every = everybodys and self._uid == ROOT
        ours = tuple(
            hold
            for hold in gone
            if (every or hold.owner.uid == self._uid) and hold.owner.uid not in self._unread
        )
        self.changed.update(hold.owner.uid for hold in ours)
        return ours

    def add_step(self, step: Hold) -> None:
        """Record a step, which takes a part of what its parent has (rule 5)."""
        every = (*self.holds, *self.steps)
        parent = next((hold for hold in every if _key(hold) == (step.owner.uid, step.parent)), None)
        if parent is None:
            raise LedgerError(
                f"hold {step.parent} is no longer in the ledger", "its job has ended or was released"
            )
        if any(step.id == other.id for other in every):
            raise LedgerError(f"there is a hold {step.id} already", "give the new one another id")
        self._allow(step)
        siblings = (
            other for other in self.steps if _key(other)[0] == step.owner.uid and other.parent == step.parent
        )
        self._fits(step, siblings)
        if beyond := record.beyond(step.grant, parent.grant):
            raise LedgerError(
                f"{beyond} cannot go to step {_title(step)}: hold {_title(parent)} does not have it",
                "ask for something that it has",
            )
        self._steps[_key(step)] = step

    def remove_step(self, step: Hold) -> bool:
        """End a step; False when there is none, because it or its hold was ended before."""
        if _key(step) not in self._steps:
            return False
        self._allow(step)
        del self._steps[_key(step)]
        return True

    def wait_in_line(self, waiter: Waiter) -> None:
        """Take a place at the end of the line; who is in it already keeps the place."""
        if _key(waiter) in self._waiters:
            return
        self._allow(waiter)
        if wrong := record.unfit(waiter):
            raise LedgerError(f"nobody can wait in line as {quoted(waiter.id)}: {wrong}", "use plain text")
        self._waiters[_key(waiter)] = waiter

    def leave_line(self, waiter: Waiter) -> None:
        """Wait no longer, or disregard somebody else who does; nothing happens when it was not in line."""
        if self._waiters.pop(_key(waiter), None) is not None and self._uid == waiter.owner.uid:
            self.changed.add(waiter.owner.uid)

    def put_out(self, waiter: Waiter) -> bool:
        """Put somebody out of the line, by the right of its user or root; False when nobody stood there."""
        if _key(waiter) not in self._waiters:
            return False
        self._allow(waiter)
        del self._waiters[_key(waiter)]
        return True

    def _allow(self, row: Hold | Waiter) -> None:
        if self.over:
            raise RuntimeError("this change is over; begin another")
        if self._uid not in (ROOT, row.owner.uid):
            raise LedgerError(
                f"{'hold' if isinstance(row, Hold) else 'waiter'} {_title(row)} belongs to {_user(row)}, "
                f"not to uid {self._uid}",
                f"ask {row.owner.user or 'its owner'} to release it, or do this as root",
            )
        if unread := self._unread.get(row.owner.uid):
            raise LedgerError(unread, "move that file to another folder first; see what runs with 'ps'")
        self.changed.add(row.owner.uid)

    def _fits(self, hold: Hold, others: Iterable[Hold]) -> None:
        if wrong := record.unfit(hold):
            raise LedgerError(
                f"hold {quoted(hold.id)} cannot be recorded: {wrong}", "use plain text, and each name once"
            )
        if found := record.taken_by(others, hold.grant):
            what, other = found
            raise LedgerError(
                f"{what} cannot go to hold {_title(hold)}: hold {_title(other)} of {_user(other)} has it",
                "ask for something else, or wait until it is released",
            )


def _key(row: Hold | Waiter) -> tuple[int, str]:
    """By what a row is known: two users may have written the same id."""
    return row.owner.uid, row.id


def _with_parents(holds: Iterable[Hold], steps: Iterable[Hold]) -> tuple[Hold, ...]:
    """The steps whose hold is there, and those of such steps; a parent is older, and no id is there twice."""
    known = {_key(hold) for hold in holds}
    found = []
    for step in steps:
        if (step.owner.uid, step.parent) in known and _key(step) not in known:
            known.add(_key(step))
            found.append(step)
    return tuple(found)


def _oldest_first(rows: Iterable[Iterable[Row]]) -> tuple[Row, ...]:
    """Rows of several files in their order, each once."""
    known: dict[tuple[int, str], Row] = {}
    for some in rows:
        for row in some:
            known.setdefault(_key(row), row)
    return tuple(sorted(known.values(), key=lambda row: (row.since, row.id)))


def _title(row: Hold | Waiter) -> str:
    name = row.name if isinstance(row, Hold) else ""
    return f"{row.id} ({name})" if name else row.id


def _user(row: Hold | Waiter) -> str:
    return f"{row.owner.user} (uid {row.owner.uid})" if row.owner.user else f"uid {row.owner.uid}"
