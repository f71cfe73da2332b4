"""Whose turn it is to write: a lock on the ledger's folders, asked for with patience that ends.

Rules kept here:

1. The lock is the kernel's (``flock`` on a folder), so it ends with the process that has it, however that
   ends, and leaves no file behind.  All folders are locked, in their order, by everybody.
2. Waiting is done in short sleeps, so that an interrupt is noticed at once.
3. Whoever has the turn is not stopped from the terminal (Ctrl-Z) before it is over: all others would wait.
"""

import errno
import fcntl
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from numawise.errors import LedgerError
from numawise.ledger.file import LedgerFolder

PATIENCE = 30.0
"""Seconds; a change takes milliseconds, so this many mean that somebody is stuck."""
FIRST_SLEEP, LONGEST_SLEEP = 0.001, 0.02


@contextmanager
def turn(folders: Sequence[LedgerFolder], until: float) -> Iterator[None]:
    """Have the turn to write the ledger, waiting for it no longer than ``until`` on the monotonic clock."""
    with ExitStack() as locked:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
        locked.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        for folder in folders:
            _patiently(folder, until)
            # Said aloud, because a child forked meanwhile still has the descriptor.
            locked.callback(fcntl.flock, folder.handle, fcntl.LOCK_UN)
        yield


def _patiently(folder: LedgerFolder, until: float) -> None:
    began = time.monotonic()
    sleep = FIRST_SLEEP
    while not _taken(folder):
        if time.monotonic() >= until:
            raise _locked(folder.path, time.monotonic() - began)
        time.sleep(sleep * (0.5 + os.urandom(1)[0] / 512))  # keeps those who wait out of step
        sleep = min(sleep * 1.5, LONGEST_SLEEP)


def _taken(folder: LedgerFolder) -> bool:
    try:
        fcntl.flock(folder.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        raise LedgerError(
            f"the ledger's folder {folder.path} cannot be locked ({error.strerror})",
            "set NUMAWISE_LEDGER to a folder on a local file system",
        ) from error
    return True


def _locked(path: Path, seconds: float) -> LedgerError:
    """The refusal after waiting too long, with the process that has the lock where the kernel names it."""
    pid = _locker(path)
    who = f"process {pid}{_name(pid)}" if pid else "another process"
    look = f"ps -fp {pid}" if pid else f"fuser -v {path}"
    return LedgerError(
        f"the ledger {path} is locked by {who}; waited {seconds:.1f} s for it",
        f"see what it does with '{look}', and try again when it has ended",
    )


def _locker(path: Path) -> int:
    """The other process that has the folder's lock; 0 when that is not known."""
    try:
        status = path.stat()
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return 0
    number = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for words in lines:
        # 7: FLOCK ADVISORY WRITE 4242 fe:00:1234 0 EOF; one that waits has -> after the number.
        ours = len(words) == 8 and (words[1], words[3], words[5]) == ("FLOCK", "WRITE", number)
        if ours and int(words[4]) != os.getpid():
            return max(int(words[4]), 0)
    return 0


def _name(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""
    return f" ({''.join(c if c.isprintable() else '?' for c in name)})"
