"""The ledger's folders, and the file of each user in them: read without trust, written whole or not at all.

Rules kept here:

1. A user's holds stand in one file that belongs to that user: readable by all, writable by nobody else.  The
   kernel says whose file it is; nothing that stands in it does.  Which files are whose is chosen by owner
   (``listing``).
2. A file is opened without following links and without waiting, must be a regular file of the user after whom
   it is named, and is read up to a bound.  What is something else is passed over, and one sentence names it.
3. What its owner may hold by a file that cannot be read is not known, and ``unknown`` says so: it counts as
   held.  What no numawise writes (nothing in it that a ledger has) is no ledger, and holds nothing.
4. A file is replaced by one rename, after what it says is on the disk.  Where nothing is left to say it is
   removed.  Its name is another one where somebody else has taken the usual name.  A version that was
   replaced and has another name, by which somebody could bring it back, is emptied, if it says that it is of
   this folder; a ledger of another folder that has a second name here is none.
5. A folder is used only if nobody but its owner and root can remove what lies in it: whoever may write it
   needs the sticky bit in the way.
6. The files have the sticky bit, too: it tells systemd-tmpfiles not to clear them away from ``/var/tmp``.
"""

import errno
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numawise.errors import LedgerError
from numawise.ledger import record
from numawise.ledger.listing import FILE, Litter, OwnedFile, named_number, owned_files
from numawise.ledger.refusals import ELSEWHERE, damaged, refusal
from numawise.results.placement import Hold, Waiter
from numawise.values import dataclass

API_VERSION, KIND = "numawise.dev/v1", "Ledger"
NAME = re.compile(r"numawise-(0|[1-9][0-9]{0,9})(-[0-9a-f]{8})?\.json", re.ASCII)
LEFT_OVER = re.compile(r"\.numawise-([0-9]{1,10})\.[0-9a-f]{8}\.new", re.ASCII)
LARGEST = 1 << 20
"""Bytes of a file; a thousand holds take half of it."""
MOST_OF_ONE = 2
"""Ledgers of one user that count in a folder."""
SIGNS = re.compile(rb'"(?:apiVersion"|numawise|Ledger"|holds"|waiters")')
SIGNED = 1 << 12
"""Bytes in which a ledger, also a damaged one, shows a sign of being one."""
SETTLED, SECOND = 100_000_000, 1_000_000_000
"""Nanoseconds after which a folder has another time when it changes; how long a look at it counts."""
PRIVATE_FOLDER = 0o700
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class UserFile:
    """One user's file in one folder."""

    folder: int
    """Which of the ledger's folders."""
    name: str
    uid: int
    """To whom it belongs, as the kernel says."""
    holds: tuple[Hold, ...] = ()
    waiters: tuple[Waiter, ...] = ()
    steps: tuple[Hold, ...] = ()
    problems: tuple[str, ...] = ()
    """Why it, or rows of it, were passed over; a sentence each."""
    is_ledger: bool = False
    """It is a file of ours, and not something that only has its name."""
    unknown: str = ""
    """Why what it, or some row of it, holds is not known (rule 3), a sentence without its end."""


@dataclass(slots=True)
class LedgerFolder:
    """A folder of the ledger that is open; all is done through its handle, so that no name can be swapped."""

    path: Path
    handle: int
    seen: tuple[int, int, "FolderVersion"] = (0, 0, ())
    """Times of the folder and of our last look at its files, and what that showed."""

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def is_in_place(self) -> bool:
        """Whether the folder still lies where it was opened."""
        try:
            there, ours = self.path.stat(), os.fstat(self.handle)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def version(self) -> "FolderVersion":
        """Something that is another after each change of a file.

        A change is a rename, which changes the folder's time: so a folder full of other things costs little.
        """
        changed, now = os.fstat(self.handle).st_mtime_ns, time.time_ns()
        if self.seen[0] == changed and abs(now - self.seen[1]) < SECOND:
            return self.seen[2]
        files = owned_files(self.handle, NAME).every
        version = tuple(sorted((file.name, file.inode, file.changed) for file in files))
        self.seen = (changed if now - changed > SETTLED else 0, now, version)
        return version


FolderVersion = tuple[tuple[str, int, int], ...]


def open_folder(path: Path, *, make: bool) -> LedgerFolder | None:
    """Open a folder that is safe (rule 4); None when it does not exist and shall not be made."""
    try:
        if make:
            path.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        handle = os.open(path, FOLDER)
    except FileNotFoundError:
        return None
    except (NotADirectoryError, FileExistsError):
        raise LedgerError(
            f"{path} is not a folder; the ledger is a folder with a file for each user",
            f"remove it if it is of an earlier numawise and its jobs have ended, or {ELSEWHERE}",
        ) from None
    except OSError as error:
        raise refusal(error, path) from error
    if problem := unsafe(os.fstat(handle)):
        os.close(handle)
        raise LedgerError(f"the ledger's folder {path} is not safe: {problem}", f"chmod +t {path}")
    return LedgerFolder(path, handle)


def unsafe(status: os.stat_result) -> str:
    """Why files in a folder are not safe from others (rule 4), as a clause; '' when they are."""
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX:
        who = "everybody" if status.st_mode & stat.S_IWOTH else f"group {status.st_gid}"
        return f"{who} may write it, and without the sticky bit may remove the files of others"
    return ""


# --- reading ----------------------------------------------------------------------------------


def read_folder(folder: LedgerFolder, number: int, machine: str, uid: int) -> Iterator[UserFile]:
    """The files of all users; a damaged one of the user ``uid`` is refused."""
    listing = owned_files(folder.handle, NAME)
    for files in listing.owners:
        ledgers = 0
        for file in files:
            if ledgers >= MOST_OF_ONE and named_number(file.uid) is not None:
                listing.litter.add(file, "it is one too many")
                continue
            read = _read_file(folder, number, file, machine, listing.litter, own=file.uid == uid)
            ledgers += read is not None
            if read is not None:
                yield read
    sentence = listing.litter.sentence(folder.path, named_number(uid))
    too_many = f"{folder.path} has files of more users than can be read" if listing.too_many else ""
    if sentence or too_many:
        problems = tuple(text for text in (sentence, too_many) if text)
        yield UserFile(number, "", -1, problems=problems, unknown=too_many)


def _read_file(
    folder: LedgerFolder, number: int, file: OwnedFile, machine: str, litter: Litter, *, own: bool
) -> UserFile | None:
    """What a user says in a file; None where it is no ledger, or has gone."""
    place = folder.path / file.name
    data = read_bytes(folder, file)
    if data is None:
        return None
    reason = data if isinstance(data, str) else ""
    if not reason and isinstance(data, bytes):
        try:
            content = _content(data, file.size, machine)
            if file.links > 1 and content.get("folder", str(folder.path)) != str(folder.path):
                litter.add(file, "it is a second name of a ledger of another folder")
                return None
            return _parsed(place, number, file, content, own=own)
        except record.Bad as bad:
            reason = str(bad)
        except (ValueError, RecursionError):
            reason = "it is not JSON"
    strange = file.links > 1 and not file.usual  # anything of its owner's, to which somebody gave that name
    of_another = reason.startswith(OTHER_MACHINE)
    signed = isinstance(data, str) or (bool(SIGNS.search(data[:SIGNED])) and not of_another)
    if own and (file.usual or (signed and not strange)):
        raise damaged(place, reason)
    if strange or not signed:
        litter.add(file, reason)
        return None
    unknown = f"{place} (uid {file.uid}) cannot be read as a ledger: {reason}"
    return UserFile(number, file.name, file.uid, problems=(f"{unknown}, {COUNTS}",), unknown=unknown)


OTHER_MACHINE = "it is of another machine"
COUNTS = "so what its owner holds is not known, and nothing is granted beside it"


def read_bytes(folder: LedgerFolder, file: OwnedFile) -> bytes | str | None:
    """What stands in a file, or why that cannot be known (rule 2); None: it has gone, or is another one."""
    try:
        handle = os.open(file.name, READ, dir_fd=folder.handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it may not be read ({error.strerror})"
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != file.uid:
            return None
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "others may write it"
        data = b""
        most = LARGEST + 1 if file.size <= LARGEST else SIGNED  # of one too large, what shows a sign
        while len(data) < most and (piece := os.read(handle, most - len(data))):
            data += piece
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    finally:
        os.close(handle)
    return data


def _content(data: bytes, size: int, machine: str) -> dict[str, Any]:
    if max(len(data), size) > LARGEST:
        raise record.Bad(f"it is larger than {LARGEST} bytes")
    content = json.loads(data.decode())  # not whatever encoding the first bytes look like
    if not isinstance(content, dict):
        raise record.Bad("it is not an object")
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND), ("machine", machine)):
        if content.get(key) != expected:
            what = f"{OTHER_MACHINE}: " if key == "machine" else ""
            raise record.Bad(f"{what}{key} is {record.short(content.get(key))}, not {expected}")
    return content


def _parsed(place: Path, number: int, file: OwnedFile, content: dict[str, Any], *, own: bool) -> UserFile:
    rows = record.read_rows(content, file.uid, user_name(file.uid))
    if own and rows.problems:
        raise record.Bad(rows.problems[0])
    said = f"{place} (uid {file.uid}): not all of it can be read: "
    unknown = f"{said}{rows.lost}" if rows.lost else ""
    others = (f"{said}{problem}" for problem in rows.problems[:MOST_OF_ONE] if problem != rows.lost)
    problems = (*((f"{unknown}, {COUNTS}",) if unknown else ()), *others)
    return UserFile(
        number, file.name, file.uid, rows.holds, rows.waiters, rows.steps, problems, True, unknown
    )


_NAMES: dict[int, str] = {}


def user_name(uid: int) -> str:
    """What the system calls a user; the number when it has no name for it."""
    if uid not in _NAMES:
        import pwd  # noqa: PLC0415 - nobody else may hold anything

        try:
            _NAMES[uid] = pwd.getpwuid(uid).pw_name
        except KeyError:
            _NAMES[uid] = str(uid)
    return _NAMES[uid]


# --- writing ----------------------------------------------------------------------------------


def write_file(folder: LedgerFolder, name: str, uid: int, content: dict[str, Any], machine: str) -> None:
    """Replace a user's file, or remove it where nothing is left to say (rule 3); raise ``OSError``."""
    with _former(folder, name, uid):
        if not any(content.values()):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder.handle)
            os.fsync(folder.handle)
            return
        head = {"apiVersion": API_VERSION, "kind": KIND, "machine": machine, "host": os.uname().nodename}
        data = record.text_of(head | {"folder": str(folder.path)} | content).encode()
        if len(data) > LARGEST or any(len(rows) > record.MOST_ROWS for rows in content.values()):
            raise OSError(errno.EFBIG, "its owner holds too many things")
        put_in_place(folder, name, uid, data)


@contextmanager
def _former(folder: LedgerFolder, name: str, uid: int) -> Iterator[None]:
    """Empty the file of this name afterwards, if it was replaced and has another name (rule 4)."""
    try:
        handle = os.open(name, READ | os.O_RDWR, dir_fd=folder.handle)
    except OSError:
        yield
        return
    try:
        yield
        status = os.fstat(handle)
        if status.st_nlink and status.st_uid == uid and stat.S_ISREG(status.st_mode):
            with suppress(OSError, ValueError, RecursionError, AttributeError):
                written = json.loads(os.pread(handle, LARGEST, 0).decode()).get("folder")
                if written == str(folder.path):
                    os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def put_in_place(folder: LedgerFolder, name: str, uid: int, data: bytes) -> None:
    """Let a user's file say this and nothing else, from one moment to the next (rule 3)."""
    new = f".numawise-{uid}.{os.urandom(4).hex()}.new"
    handle = os.open(new, NEW, 0o600, dir_fd=folder.handle)
    try:
        try:
            if os.fstat(handle).st_uid != uid:
                os.fchown(handle, uid, -1)
            os.fchmod(handle, FILE)
            write_all(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(new, name, src_dir_fd=folder.handle, dst_dir_fd=folder.handle)
    except BaseException:
        with suppress(OSError):
            os.unlink(new, dir_fd=folder.handle)
        raise
    os.fsync(folder.handle)


def free_name(folder: LedgerFolder, uid: int, ending: str = ".json") -> str:
    """A name for a new file: the usual one, unless somebody else has taken it."""
    number = uid if (outer := named_number(uid)) is None else outer
    name = f"numawise-{number}{ending}"
    try:
        os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
    except FileNotFoundError:
        return name
    return f"numawise-{number}-{os.urandom(4).hex()}{ending}"


def clear_left_overs(folder: LedgerFolder, uid: int) -> None:
    """Remove what a writer for this user left that was killed; only while nobody else writes."""
    with os.scandir(folder.handle) as entries:
        names = [
            entry.name
            for entry in entries
            if (match := LEFT_OVER.fullmatch(entry.name)) and int(match[1]) == uid
        ]
    for name in names:
        with suppress(OSError):
            if os.stat(name, dir_fd=folder.handle, follow_symlinks=False).st_uid in (uid, os.geteuid()):
                os.unlink(name, dir_fd=folder.handle)


def write_all(handle: int, data: bytes) -> None:
    """Write all of it; the kernel may take less at a time."""
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]
