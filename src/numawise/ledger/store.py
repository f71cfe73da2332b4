"""The ledger: who holds what on this machine, changed by one writer at a time, whole or not at all.

Rules kept here:

1. A change is one transaction under one lock.  It sees all holds as they are, and what it does is on the disk
   when it is left; an exception, a kill or a full disk leaves everything as it was.
2. No CPU and no device is in two holds.
3. A user removes or replaces only holds of the same user, root any.  The dead are for everyone to reap.
4. Those who wait for room are served in the order in which they came.

How a change is made::

    with Ledger.open(place.path, machine, access=place.access) as ledger:
        with ledger.change() as change:
            change.reap(dead(change.holds, boot, alive))
            change.add(Hold(change.new_id(), ...))
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from numawise.errors import LedgerError
from numawise.ledger import rows
from numawise.ledger.file import AS_ITS_FOLDER, Access, connect, identity
from numawise.ledger.refusals import FAILURES, damaged, refusal
from numawise.ledger.turn import PATIENCE, beside, patiently, turn
from numawise.results.placement import Hold, Waiter

LARGEST_LOG = 1 << 20
"""Bytes; then the log is moved into the file."""
GLANCE = 0.05
"""Seconds between two looks for changes by others."""
LETTERS, SIGNS = "bcdfghjkmnpqrstvwxyz", "bcdfghjkmnpqrstvwxyz23456789"
ROOT = 0

Answer = TypeVar("Answer")


class Ledger:
    """An open ledger; belongs to the thread and the process that opened it."""

    __slots__ = ("_changing", "_connection", "_file", "_patience", "_process", "path")

    def __init__(self, connection: sqlite3.Connection, path: Path, patience: float) -> None:
        self.path = path
        self._connection = connection
        self._patience = patience
        self._file = identity(path)
        self._process = os.getpid()
        self._changing = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        machine: str,
        *,
        access: Access = AS_ITS_FOLDER,
        patience: float = PATIENCE,
    ) -> Self:
        """Open this machine's ledger, making it where there is none; refuse it when it cannot be trusted.

        ``patience`` is how many seconds to wait for others, here and in every change.
        """
        # Links are followed, so that all names of a ledger have one lock; but not those others may have made.
        place = Path(path).absolute() if access.guarded else Path(path).resolve()
        return cls(connect(place, machine, access, time.monotonic() + patience), place, patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def holds(self) -> tuple[Hold, ...]:
        """All holds, the oldest first."""
        return self._read(rows.read_holds)

    def waiters(self) -> tuple[Waiter, ...]:
        """Who waits for room, the first in line first."""
        return self._read(rows.read_waiters)

    def version(self) -> int:
        """A number that is another after somebody else's change; it means something to this object only."""
        return self._read(lambda connection: int(connection.execute("PRAGMA data_version").fetchone()[0]))

    def wait_for_change(self, version: int, seconds: float) -> int:
        """Wait until the version is another, or the time is over; the version then.

        Owners that die change nothing here: look for them from time to time.
        """
        until = time.monotonic() + seconds
        while (found := self.version()) == version and (left := until - time.monotonic()) > 0:
            time.sleep(min(GLANCE, left))
        return found

    @contextmanager
    def change(self) -> "Iterator[LedgerChange]":
        """Change the ledger; what is done inside is recorded together when it is left, or not at all."""
        if self._changing:
            raise RuntimeError("a change of this ledger is under way already")
        until = time.monotonic() + self._patience
        self._changing = True
        try:
            with turn(self.path, until):
                self._begin(until)
                try:
                    with self._as_refusals():
                        change = LedgerChange(self._connection, self.path)
                    yield change
                    with self._as_refusals():
                        change.finish()
                except BaseException:
                    self._undo()
                    raise
                self._shorten_log()
        finally:
            self._changing = False

    def _begin(self, until: float) -> None:
        self._same_file()
        with self._as_refusals():
            patiently(lambda: self._connection.execute("BEGIN IMMEDIATE"), self.path, until)

    def _undo(self) -> None:
        with suppress(sqlite3.Error):  # SQLite has undone it already when the disk is full
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _shorten_log(self) -> None:
        """Move a long log into the file, while nobody else writes; if it fails, the next one does it."""
        with suppress(sqlite3.Error, OSError):
            if beside(self.path, "-wal").stat().st_size > LARGEST_LOG:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _read(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        self._same_file()
        with self._as_refusals():
            if self._changing:
                return work(self._connection)
            return patiently(lambda: self._in_one_look(work), self.path, time.monotonic() + self._patience)

    def _in_one_look(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        self._connection.execute("BEGIN")
        try:
            return work(self._connection)
        finally:
            self._undo()

    @contextmanager
    def _as_refusals(self) -> Iterator[None]:
        """Failures of SQLite and rows that make no sense, as refusals."""
        try:
            yield
        except FAILURES as error:
            raise refusal(error, self.path) from error
        except rows.Damaged as error:
            raise damaged(self.path, str(error)) from error

    def _same_file(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("a ledger does not outlive a fork; open it in the new process")
        if identity(self.path) != self._file:
            raise LedgerError(
                f"the ledger {self.path} was moved or removed while it was in use", "start the command again"
            )


class LedgerChange:
    """What may be done in one change."""

    __slots__ = ("_broken", "_connection", "_holds", "_path", "_waiters")

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._broken = False
        self._holds = {hold.id: hold for hold in rows.read_holds(connection)}
        self._waiters = {waiter.id: waiter for waiter in rows.read_waiters(connection)}

    @property
    def holds(self) -> tuple[Hold, ...]:
        """All holds, this change's own included."""
        return tuple(self._holds.values())

    @property
    def waiters(self) -> tuple[Waiter, ...]:
        """Who waits for room, the first in line first."""
        return tuple(self._waiters.values())

    def new_id(self) -> str:
        """A short id that no hold and no waiter has; it begins with a letter, unlike a process number."""
        while True:
            first, *others = os.urandom(5)
            made = LETTERS[first % len(LETTERS)] + "".join(SIGNS[byte % len(SIGNS)] for byte in others)
            if made not in self._holds and made not in self._waiters:
                return made

    def add(self, hold: Hold) -> None:
        """Record a new hold."""
        if hold.id in self._holds:
            raise LedgerError(f"there is a hold {hold.id} already", "give the new one another id")
        self._fits(hold, self._holds.values())
        with self._writing():
            rows.add_hold(self._connection, hold)
        self._holds[hold.id] = hold

    def remove(self, id_: str, *, by: int) -> bool:
        """End a hold for the user ``by``; False when there is none, because it was ended before."""
        hold = self._holds.get(id_)
        if hold is None:
            return False
        self._allowed(hold, by)
        self._remove(hold)
        return True

    def replace(self, hold: Hold, *, by: int) -> None:
        """Change a hold for the user ``by``, keeping its id."""
        old = self._holds.get(hold.id)
        if old is None:
            raise LedgerError(
                f"hold {hold.id} is no longer in the ledger {self._path}",
                "it was released or reaped meanwhile; start the job again",
            )
        self._allowed(old, by)
        if by not in (ROOT, hold.owner.uid):
            raise LedgerError(f"hold {hold.id} cannot be given to {_user(hold)}", "only root can do that")
        self._fits(hold, (other for other in self._holds.values() if other.id != hold.id))
        with self._writing():
            self._connection.execute("DELETE FROM hold WHERE id = ?", (hold.id,))
            rows.add_hold(self._connection, hold)
        self._holds[hold.id] = hold

    def reap(self, dead: Iterable[Hold]) -> tuple[Hold, ...]:
        """Remove holds whose owners are dead, whoever they were; those that were still there.

        A hold that got another owner since it was judged (a container in place of the process that made it)
        stays.
        """
        gone = tuple(
            hold for hold in dead if hold.id in self._holds and self._holds[hold.id].owner == hold.owner
        )
        for hold in gone:
            self._remove(hold)
        return gone

    def wait_in_line(self, waiter: Waiter) -> None:
        """Take a place at the end of the line; who is in it already keeps the place."""
        if waiter.id in self._waiters:
            return
        if wrong := rows.not_text([waiter.id, waiter.owner.user, waiter.owner.boot, waiter.request]):
            raise LedgerError(f"nobody can wait in line as {waiter.id!r}: {wrong}", "use plain text")
        with self._writing():
            rows.add_waiter(self._connection, waiter)
        self._waiters[waiter.id] = waiter

    def first_in_line(self, id_: str) -> bool:
        """Whether nobody came before: it is first, or it is not in line and nobody else is."""
        return next(iter(self._waiters), id_) == id_

    def leave_line(self, id_: str) -> None:
        """Wait no longer; nothing happens when it was not in line."""
        if self._waiters.pop(id_, None) is not None:
            with self._writing():
                self._connection.execute("DELETE FROM waiter WHERE id = ?", (id_,))

    def finish(self) -> None:
        """Record all of it; the ledger calls this when the change is left."""
        self._sound()
        self._connection.execute("COMMIT")

    def _sound(self) -> None:
        if self._broken:
            raise LedgerError(
                f"a step of the change of the ledger {self._path} failed; nothing was recorded", "try again"
            )
        if not self._connection.in_transaction:
            raise RuntimeError("this change is over; begin another")

    def _remove(self, hold: Hold) -> None:
        with self._writing():
            self._connection.execute("DELETE FROM hold WHERE id = ?", (hold.id,))
        del self._holds[hold.id]

    def _allowed(self, hold: Hold, by: int) -> None:
        if by not in (ROOT, hold.owner.uid):
            raise LedgerError(
                f"hold {_title(hold)} belongs to {_user(hold)}, not to uid {by}",
                f"ask {hold.owner.user or 'its owner'} to release it, or do this as root",
            )

    def _fits(self, hold: Hold, others: Iterable[Hold]) -> None:
        if wrong := rows.unfit(hold):
            raise LedgerError(f"hold {hold.id!r} cannot be recorded: {wrong}", "use text, and each name once")
        if found := rows.taken_by(others, hold.grant):
            what, other = found
            raise LedgerError(
                f"{what} cannot go to hold {_title(hold)}: hold {_title(other)} of {_user(other)} has it",
                "ask for something else, or wait until it is released",
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A step that fails half-way spoils the whole change, even when the caller goes on."""
        self._sound()
        try:
            yield
        except FAILURES as error:
            self._broken = True
            raise refusal(error, self._path) from error
        except BaseException:
            self._broken = True
            raise


def _title(hold: Hold) -> str:
    return f"{hold.id} ({hold.name})" if hold.name else hold.id


def _user(hold: Hold) -> str:
    return f"{hold.owner.user} (uid {hold.owner.uid})" if hold.owner.user else f"uid {hold.owner.uid}"
