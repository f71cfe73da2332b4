"""Why a ledger cannot be used, in sentences that say what to do.

Rules kept here:

1. Every failure of the file system becomes a ``LedgerError`` that names the file; ``HoldsUnknown`` is the one
   that may pass by itself, so that one who waits for room goes on waiting.
2. The advice never loses anything: a file is moved away by its owner, not by us.
"""

import errno
import os
from pathlib import Path

from numawise.errors import LedgerError

ELSEWHERE = "set NUMAWISE_LEDGER to a folder elsewhere"
FULL = (errno.ENOSPC, errno.EDQUOT)
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


class HoldsUnknown(LedgerError):
    """Somebody may hold what nobody can read, so nothing is granted."""

    def __init__(self, why: str, user: str) -> None:
        super().__init__(
            f"{why}, so what {user} holds is not known, and nothing is granted beside it",
            "let its owner or root see what runs, and then move that file to another folder",
        )


def refusal(error: OSError, path: Path) -> LedgerError:
    """What an error of the file system means for the ledger at a path."""
    if error.errno in FULL:
        return LedgerError(
            f"there is no space left for the ledger {path}; nothing was recorded",
            "make room on its file system and try again",
        )
    if error.errno == errno.EFBIG:
        return LedgerError(
            f"the ledger {path} may not become larger ({error.strerror}); nothing was recorded",
            "release holds that are no longer needed, or see whether file sizes are limited (ulimit -f)",
        )
    if error.errno == errno.EROFS:
        return LedgerError(f"the ledger {path} is on a read-only file system", ELSEWHERE)
    if error.errno in DENIED:
        return LedgerError(
            f"user {os.geteuid()} may not write the ledger {path} ({error.strerror})",
            f"ask for the right to write that folder, or {ELSEWHERE}",
        )
    return LedgerError(
        f"the ledger {path} cannot be read or written ({error.strerror}); nothing was recorded", ELSEWHERE
    )


def damaged(path: Path, why: str) -> LedgerError:
    """The refusal of one's own file whose content cannot be trusted."""
    return LedgerError(
        f"{path}, the ledger's file of user {os.geteuid()}, is damaged ({why})",
        "move it to another folder and a new one is made; jobs that run go on, but are no longer recorded, "
        "so see first which they are with 'ps'",
    )


def may_write(path: Path) -> bool:
    """Whether this process may read and write a file, or use and change a folder."""
    how = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
    return os.access(path, how, effective_ids=True)
