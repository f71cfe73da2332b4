"""Why a ledger cannot be used, in sentences that say what to do.

Rules kept here:

1. Every failure of SQLite or the file system becomes a ``LedgerError`` that names the file.
2. The advice never loses anything: a file is moved away by its owner, not by us.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from numawise.errors import LedgerError

ELSEWHERE = "set NUMAWISE_LEDGER to a file elsewhere"
DENIED = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH}
)


FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; it quotes damaged tables in its messages, and those may be no text."""


def refusal(error: Exception, path: Path) -> LedgerError:
    """What an error of SQLite means for the ledger."""
    # Errors of the module itself, such as bytes that are not text, have no code: the content is to blame.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    name = getattr(error, "sqlite_errorname", "")
    kind = code & 0xFF
    if kind == sqlite3.SQLITE_NOTADB:
        return LedgerError(f"{path} is not a SQLite database", move_away(path))
    if kind == sqlite3.SQLITE_CORRUPT:
        return damaged(path, str(error))
    if kind == sqlite3.SQLITE_FULL:
        return LedgerError(
            f"there is no space left for the ledger {path}; nothing was recorded",
            "make room on its file system and try again",
        )
    if kind == sqlite3.SQLITE_IOERR:
        return LedgerError(
            f"the ledger {path} could not be read or written ({name or error}); nothing was recorded",
            "see whether the disk is full, a limit on file sizes is set (ulimit -f) or the kernel's log "
            "(dmesg) reports a disk error",
        )
    if kind in DENIED:
        return no_access(path) or LedgerError(f"the ledger {path} cannot be opened ({error})", ELSEWHERE)
    return LedgerError(f"the ledger {path} cannot be used ({name}: {error})", ELSEWHERE)


def damaged(path: Path, why: str) -> LedgerError:
    """The refusal of a ledger whose content cannot be trusted."""
    return LedgerError(f"the ledger {path} is damaged ({why})", move_away(path))


def move_away(path: Path) -> str:
    """Advice for a file that cannot be used as it is."""
    return (
        f"move {path}* to another folder and a new ledger is made; jobs that run go on, but are no longer "
        "recorded, so see first who they are with 'ps'"
    )


def no_access(path: Path) -> LedgerError | None:
    """The refusal of a user who may not use the ledger; None when rights are not in the way."""
    above = (place for place in path.parents if os.access(place, os.F_OK))
    folder = next(above, Path("/"))
    with suppress(OSError):
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return LedgerError(f"the ledger {path} is on a read-only file system", ELSEWHERE)
    for place in (path, folder):
        if os.access(place, os.F_OK) and not may_write(place):
            return LedgerError(
                f"user {os.geteuid()} may not read and write {place}, which the ledger {path} needs",
                f"ask to be added to the group that owns it ({group_name(place)}), or {ELSEWHERE}",
            )
    return None


def may_write(path: Path) -> bool:
    """Whether this process may read and write a file, or use and change a folder."""
    how = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
    return os.access(path, how, effective_ids=True)


def group_name(path: Path) -> str:
    """The group of a file, by its name where it has one."""
    try:
        return path.group()
    except (KeyError, OSError):
        return f"gid {path.stat().st_gid}"
