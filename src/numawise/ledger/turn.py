"""Whose turn it is to write: a lock on the ledger's folder, asked for with patience that ends.

Rules kept here:

1. The lock is the kernel's (``flock`` on the folder), so it ends with the process that has it, however that
   ends, and leaves no file behind.
2. Waiting is done in short sleeps and not inside SQLite, so that an interrupt is noticed at once.
3. Whoever changes the ledger, makes it, or moves its log into it (a checkpoint) has the turn.  SQLite's own
   locks would do for the first two; they do not for the third: up to 3.51.2 a checkpoint beside a commit that
   restarts the log can damage the database.
4. Nothing but SQLite opens the ledger's files: closing any descriptor of a file drops the locks that this
   process has on it.  So who has a lock is read from ``/proc/locks``.
"""

import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from numawise.errors import LedgerError

PATIENCE = 30.0
"""Seconds; a change takes milliseconds, so this many mean that somebody is stuck."""
FIRST_SLEEP, LONGEST_SLEEP = 0.001, 0.02
BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
LOG_LOCK = "120"
"""Byte of ``-shm`` that SQLite locks for writing."""

Answer = TypeVar("Answer")


def beside(path: Path, suffix: str) -> Path:
    """One of the files that SQLite keeps beside a database: ``-wal``, ``-shm``, ``-journal``."""
    return path.with_name(path.name + suffix)


@contextmanager
def turn(path: Path, until: float) -> Iterator[None]:
    """Have the turn to write the ledger, waiting for it no longer than ``until`` on the monotonic clock."""
    folder = path.parent
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise LedgerError(
            f"the ledger's folder {folder} cannot be opened ({error.strerror})",
            "make it readable for you, or set NUMAWISE_LEDGER to a file elsewhere",
        ) from error
    try:
        _patiently(lambda: _taken(handle, folder), path, until)
        try:
            yield
        finally:
            # Said aloud, because a child forked meanwhile still has the descriptor.
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def _taken(handle: int, folder: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        raise LedgerError(
            f"the ledger's folder {folder} cannot be locked ({error.strerror})",
            "set NUMAWISE_LEDGER to a file on a local file system",
        ) from error
    return True


def patiently(work: Callable[[], Answer], path: Path, until: float) -> Answer:
    """Do it again while SQLite says that the ledger is locked, and no longer than ``until``."""
    answers: list[Answer] = []

    def done() -> bool:
        try:
            answers.append(work())
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in BUSY:
                return False
            raise
        return True

    _patiently(done, path, until)
    return answers[0]


def _patiently(done: Callable[[], bool], path: Path, until: float) -> None:
    began = time.monotonic()
    sleep = FIRST_SLEEP
    while not done():
        if time.monotonic() >= until:
            raise locked(path, time.monotonic() - began)
        time.sleep(sleep * (0.5 + os.urandom(1)[0] / 512))  # keeps those who wait out of step
        sleep = min(sleep * 1.5, LONGEST_SLEEP)


def locked(path: Path, seconds: float) -> LedgerError:
    """The refusal after waiting too long, with the process that has the lock where the kernel names it."""
    pid = _locker(path)
    who = f"process {pid}{_name(pid)}" if pid else "another process"
    look = f"ps -fp {pid}" if pid else f"fuser -v {path}-shm"
    return LedgerError(
        f"the ledger {path} is locked by {who}; waited {seconds:.1f} s for it",
        f"see what it does with '{look}', and try again when it has ended",
    )


def _locker(path: Path) -> int:
    """The other process that has the folder's or SQLite's lock for writing; 0 when that is not known."""
    wanted = {}
    for place, kind in ((path.parent, "FLOCK"), (beside(path, "-shm"), "POSIX")):
        try:
            found = place.stat()
        except OSError:
            continue
        number = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        wanted[kind, number] = "0" if kind == "FLOCK" else LOG_LOCK
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return 0
    for words in lines:
        # 7: POSIX ADVISORY WRITE 4242 fe:00:1234 120 120; one that waits has -> after the number.
        ours = len(words) == 8 and words[3] == "WRITE" and wanted.get((words[1], words[5])) == words[6]
        if ours and int(words[4]) != os.getpid():
            return max(int(words[4]), 0)
    return 0


def _name(pid: int) -> str:
    try:
        return f" ({Path(f'/proc/{pid}/comm').read_text(errors='replace').strip()})"
    except OSError:
        return ""
