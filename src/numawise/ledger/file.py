"""The ledger's file: made whole or not at all, refused unless it is this machine's own.

Rules kept here:

1. A ledger is built under another name and put in place by one rename, by one process at a time.  Only where
   there is nothing, or an empty file, is one made; nothing is ever overwritten or repaired.
2. Refused are: what is not a SQLite database, another program's, a damaged one, one of another machine, one
   with newer tables, one that we may not write, and the remains of one whose file was removed.
3. A ledger is shared as its folder is: where the group may write the folder, it may write the ledger and what
   SQLite keeps beside it.  A folder with the sticky bit, such as ``/tmp``, is not shared in this sense.
4. Root opens a folder for the group once, when the group has come to be; later changes by the administrator
   stand.  Files first, the folder last: in a folder that others can write, no file is touched by its name.
"""

import os
import sqlite3
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from numawise.errors import LedgerError
from numawise.ledger.refusals import ELSEWHERE, FAILURES, damaged, may_write, move_away, no_access, refusal
from numawise.ledger.rows import APPLICATION, TABLES, VERSION
from numawise.ledger.turn import beside, patiently, turn
from numawise.values import dataclass

SUFFIXES = ("-wal", "-shm", "-journal")
PRIVATE_FOLDER, SHARED_FOLDER = 0o700, 0o2770
PRIVATE_FILE, SHARED_FILE = 0o600, 0o660
SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA wal_autocheckpoint = 0",  # see turn.py, rule 3
)


@dataclass(frozen=True, slots=True)
class Access:
    """For whom a ledger that does not exist yet is made."""

    gid: int | None = None
    """Group that shares it; None: as its folder says, and a new folder is for its owner alone."""
    guarded: bool = False
    """Others could have made the folder before us, so it must be ours alone."""


AS_ITS_FOLDER = Access()


def connect(path: Path, machine: str, access: Access, until: float) -> sqlite3.Connection:
    """Open a ledger, making it first where there is none."""
    try:
        _make_folder(path.parent, access)
        if access.gid is not None and os.geteuid() == 0:
            _share(path, access.gid)
        if not _has_content(path):
            with turn(path, until):
                _make(path, machine, access)
        if not may_write(path):
            raise no_access(path) or LedgerError(f"the ledger {path} cannot be opened", ELSEWHERE)
    except OSError as error:
        raise _unreachable(path, error) from error
    try:
        connection = _open(path)
        try:
            patiently(lambda: _check(connection, path, machine), path, until)
        except BaseException:
            connection.close()
            raise
    except FAILURES as error:
        raise refusal(error, path) from error
    return connection


def identity(path: Path) -> tuple[int, int]:
    """Which file lies at the path; (0, 0) when there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _open(path: Path) -> sqlite3.Connection:
    name = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return sqlite3.connect(f"file:{name}?mode=rw", uri=True, timeout=0, isolation_level=None)


def _check(connection: sqlite3.Connection, path: Path, machine: str) -> None:
    """Refuse what is not a sound ledger of this machine (rule 2)."""
    _settle(connection)
    if _answer(connection, "PRAGMA application_id") != APPLICATION:
        raise LedgerError(f"{path} is a SQLite database of another program", ELSEWHERE)
    version = _answer(connection, "PRAGMA user_version")
    if version > VERSION:
        raise LedgerError(
            f"the ledger {path} was made by a newer numawise (tables {version}, this one knows {VERSION})",
            f"update numawise, or {ELSEWHERE}",
        )
    if _answer(connection, "PRAGMA journal_mode = WAL") != "wal":
        raise LedgerError(f"the file system of {path} does not allow a write-ahead log", ELSEWHERE)
    sound = _answer(connection, "PRAGMA integrity_check(1)")
    if sound != "ok":
        raise damaged(path, str(sound))
    tables = {row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if version != VERSION or tables != set(TABLES):
        raise damaged(path, "its tables are not those that numawise makes")
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    if meta.get("machine") != machine:
        raise LedgerError(
            f"the ledger {path} is of another machine ({meta.get('host')}, id {meta.get('machine')}); "
            f"this one is {os.uname().nodename}, {machine}",
            move_away(path),
        )


def _settle(connection: sqlite3.Connection) -> None:
    for setting in SETTINGS:
        connection.execute(setting)


def _answer(connection: sqlite3.Connection, question: str) -> Any:  # noqa: ANN401 - number or text
    return connection.execute(question).fetchone()[0]


def _has_content(path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise LedgerError(f"{path} is not a file", f"remove it, or {ELSEWHERE}")
    return found.st_size > 0


def _make(path: Path, machine: str, access: Access) -> None:
    """Build a ledger beside its place and put it there; whoever has the turn next finds it done."""
    if _has_content(path):
        return
    for suffix in SUFFIXES:
        with suppress(FileNotFoundError):
            # The log would be played into the new file, whatever it belonged to.
            if beside(path, suffix).stat().st_size and suffix != "-shm":
                raise LedgerError(
                    f"the ledger {path} is gone, but its log {path.name}{suffix} is not",
                    f"put the ledger back, or {move_away(path)}",
                )
    new = beside(path, ".new")
    leftovers = [new, *(beside(new, suffix) for suffix in SUFFIXES)]
    for leftover in leftovers:  # of somebody who did not get to the end
        leftover.unlink(missing_ok=True)
    try:
        _make_file(new, access)
        _fill(new, machine)
        new.rename(path)
        _sync(path.parent)
    except BaseException as error:
        for leftover in leftovers:
            with suppress(OSError):
                leftover.unlink(missing_ok=True)
        if isinstance(error, FAILURES):
            raise refusal(error, path) from error
        raise


def _make_file(path: Path, access: Access) -> None:
    folder = path.parent.stat()
    shared = folder.st_mode & stat.S_IWGRP and not folder.st_mode & stat.S_ISVTX
    gid = folder.st_gid if shared else -1
    if access.gid is not None:
        shared, gid = True, access.gid
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        if shared and os.fstat(handle).st_gid != gid:
            try:
                os.fchown(handle, -1, gid)
            except PermissionError:  # of a group that is not ours, in a folder without the setgid bit
                shared = False
        os.fchmod(handle, SHARED_FILE if shared else PRIVATE_FILE)
    finally:
        os.close(handle)


def _fill(path: Path, machine: str) -> None:
    connection = _open(path)
    try:
        _settle(connection)
        if _answer(connection, "PRAGMA journal_mode = WAL") != "wal":
            raise LedgerError(f"the file system of {path} does not allow a write-ahead log", ELSEWHERE)
        connection.execute("BEGIN")
        for table in TABLES:
            connection.execute(table)
        meta = {
            "machine": machine,
            "host": os.uname().nodename,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", meta.items())
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.close()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_folder(folder: Path, access: Access) -> None:
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        with suppress(FileExistsError):
            place.mkdir(PRIVATE_FOLDER)
            if access.gid is not None:
                _share_folder(place, access.gid)
    if access.guarded:
        for place in (folder, folder.parent):
            found = place.lstat()
            ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            if not ours or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise LedgerError(
                    f"{place} is not a folder of user {os.geteuid()} alone, so a ledger there is not safe",
                    f"have it removed, or {ELSEWHERE}",
                )


def _share(path: Path, gid: int) -> None:
    """Open a private ledger of root for the group (rule 4)."""
    folder = path.parent.stat()
    if folder.st_gid == gid or folder.st_uid != 0 or folder.st_mode & stat.S_IWOTH:
        return
    for place in (path, *(beside(path, suffix) for suffix in SUFFIXES)):
        with suppress(FileNotFoundError):
            os.chown(place, -1, gid, follow_symlinks=False)
            place.chmod(SHARED_FILE)
    _share_folder(path.parent, gid)


def _share_folder(folder: Path, gid: int) -> None:
    # The group comes last: it is the sign that all has been done.
    folder.chmod(SHARED_FOLDER)
    os.chown(folder, -1, gid)


def _unreachable(path: Path, error: OSError) -> LedgerError:
    place = error.filename or path
    return no_access(path) or LedgerError(
        f"the ledger {path} cannot be made or reached ({place}: {error.strerror})", ELSEWHERE
    )
