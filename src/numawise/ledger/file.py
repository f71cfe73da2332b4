"""The ledger's folders, and the file of each user in them: read without trust, written whole or not at all.

Rules kept here:

1. A user's holds stand in one file that belongs to that user: readable by all, writable by nobody else.  The
   kernel says whose file it is; nothing that stands in it does.
2. A file is opened without following links and without waiting, must be a regular file with one name, and is
   read up to a bound.  What is something else is passed over, and a sentence names it.
3. A file is replaced by one rename, after what it says is on the disk.  Where nothing is left to say it is
   removed.  Its name is another one where somebody else has taken the usual name; one that lies under the
   name of another user than its owner is passed over.
4. A folder is used only if nobody but its owner and root can remove what lies in it: whoever may write it
   needs the sticky bit in the way.
5. The files have the sticky bit, too: it tells systemd-tmpfiles not to clear them away from ``/var/tmp``.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from numawise.errors import LedgerError
from numawise.ledger import record
from numawise.ledger.refusals import ELSEWHERE, damaged, refusal
from numawise.results.placement import Hold, Waiter
from numawise.values import dataclass

API_VERSION, KIND = "numawise.dev/v1", "Ledger"
NAME = re.compile(r"numawise-(0|[1-9][0-9]{0,9})(?:-[0-9a-f]{8})?\.json", re.ASCII)
LEFT_OVER = re.compile(r"\.numawise-([0-9]{1,10})\.[0-9a-f]{8}\.new", re.ASCII)
LARGEST = 1 << 20
"""Bytes of a file; a thousand holds take half of it."""
MOST_FILES, MOST_OF_ONE = 4096, 2
"""In a folder, and of one user in it; more are passed over."""
PRIVATE_FOLDER, FILE = 0o700, 0o1644
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


@dataclass(slots=True)
class LedgerFolder:
    """A folder of the ledger that is open; all is done through its handle, so that no name can be swapped."""

    path: Path
    handle: int

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

    def names(self, pattern: re.Pattern[str] = NAME) -> tuple[str, ...]:
        """Names of users' files, in a fixed order."""
        return tuple(sorted(name for name in self._every() if pattern.fullmatch(name)))

    def left_over(self, uid: int) -> tuple[str, ...]:
        """Names of files that a writer for this user began."""
        found = ((name, LEFT_OVER.fullmatch(name)) for name in self._every())
        return tuple(name for name, match in found if match and int(match[1]) == uid)

    def _every(self) -> list[str]:
        return os.listdir(self.handle)  # noqa: PTH208 - a handle, not a path

    def version(self) -> tuple[tuple[str, int, int], ...]:
        """Something that is another after each change of a file."""
        found = []
        for name in self.names():
            with suppress(OSError):
                status = os.stat(name, dir_fd=self.handle, follow_symlinks=False)
                found.append((name, status.st_ino, status.st_mtime_ns))
        return tuple(found)


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
    count: dict[int, int] = {}
    names = folder.names()
    for name in names[:MOST_FILES]:
        place = folder.path / name
        found = read_bytes(folder, name, count)
        if found is None:
            continue
        owner, data = found
        if isinstance(data, str):
            yield UserFile(number, name, owner, problems=(f"{place} (uid {owner}) is ignored: {data}",))
        else:
            yield _parsed(place, number, name, owner, data, machine, own=owner == uid)
    if len(names) > MOST_FILES:
        yield UserFile(number, "", -1, problems=(f"{folder.path} has more than {MOST_FILES} files",))


def _is_named_after(name: str, owner: int, pattern: re.Pattern[str]) -> bool:
    """Whether a file has a name that its owner gives it; where that cannot be known, it has."""
    match = pattern.fullmatch(name)
    named = int(match[1]) if match else -1
    return named == owner or outer_uid(owner) in (named, None)


def outer_uid(uid: int) -> int | None:
    """The number that a user has outside of our user namespace; None when it has none that we know.

    Inside (``unshare -r``, a build as fake root) it differs, and the name of a file is read outside, too.
    """
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
        ranges = [(int(inner), int(outer), int(size)) for inner, outer, size in map(str.split, lines)]
    except (OSError, ValueError):
        return uid
    return next((outer + uid - inner for inner, outer, size in ranges if 0 <= uid - inner < size), None)


def mistrusted(status: os.stat_result, name: str, pattern: re.Pattern[str]) -> str:
    """Why a file that was opened is not taken for its owner's word (rules 1 to 3), as a clause; or ''."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_nlink > 1:
        return "it has several names"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write it"
    if not _is_named_after(name, status.st_uid, pattern):
        return "it lies under the name of another user"
    return ""


def read_bytes(
    folder: LedgerFolder, name: str, count: dict[int, int], pattern: re.Pattern[str] = NAME
) -> tuple[int, bytes | str] | None:
    """Whose file it is, and what stands in it or why it is passed over (rules 2 and 3); None: it has gone.

    ``count`` is how many files of each user were read: what is passed over costs no reading.
    """
    try:
        handle = os.open(name, READ, dir_fd=folder.handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        with suppress(OSError):
            owner = os.stat(name, dir_fd=folder.handle, follow_symlinks=False).st_uid
            link = error.errno == errno.ELOOP
            return owner, "it is a link" if link else f"it cannot be read ({error.strerror})"
        return None
    try:
        status = os.fstat(handle)
        if wrong := mistrusted(status, name, pattern):
            return status.st_uid, wrong
        count[status.st_uid] = count.get(status.st_uid, 0) + 1
        if count[status.st_uid] > MOST_OF_ONE:
            return status.st_uid, "one too many"
        data = b""
        while len(data) <= LARGEST and (piece := os.read(handle, LARGEST + 1 - len(data))):
            data += piece
        return status.st_uid, data if len(data) <= LARGEST else f"it is larger than {LARGEST} bytes"
    except OSError as error:
        return os.fstat(handle).st_uid, f"it cannot be read ({error.strerror})"
    finally:
        os.close(handle)


def _parsed(
    place: Path, number: int, name: str, uid: int, data: bytes, machine: str, *, own: bool
) -> UserFile:
    try:
        content = json.loads(data.decode())  # not whatever encoding the first bytes look like
        _check_head(content, machine)
        rows = record.read_rows(content, uid, user_name(uid))
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, record.Bad) else "it is not JSON"
        if own:
            raise damaged(place, reason) from None
        return UserFile(number, name, uid, problems=(f"{place} (uid {uid}) is ignored: {reason}",))
    if own and rows.problems:
        raise damaged(place, rows.problems[0])
    problems = tuple(f"{place} (uid {uid}): ignored is {problem}" for problem in rows.problems[:MOST_OF_ONE])
    return UserFile(number, name, uid, rows.holds, rows.waiters, rows.steps, problems, is_ledger=True)


def _check_head(content: object, machine: str) -> None:
    if not isinstance(content, dict):
        raise record.Bad("it is not an object")
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND), ("machine", machine)):
        if content.get(key) != expected:
            what = "it is of another machine: " if key == "machine" else ""
            raise record.Bad(f"{what}{key} is {record.short(content.get(key))}, not {expected}")


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
    if not any(content.values()):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder.handle)
        os.fsync(folder.handle)
        return
    head = {"apiVersion": API_VERSION, "kind": KIND, "machine": machine, "host": os.uname().nodename}
    data = record.text_of(head | content).encode()
    if len(data) > LARGEST or any(len(rows) > record.MOST_ROWS for rows in content.values()):
        raise OSError(errno.EFBIG, "its owner holds too many things")
    put_in_place(folder, name, uid, data)


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
    outer = outer_uid(uid)
    number = uid if outer is None else outer
    name = f"numawise-{number}{ending}"
    try:
        os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
    except FileNotFoundError:
        return name
    return f"numawise-{number}-{os.urandom(4).hex()}{ending}"


def clear_left_overs(folder: LedgerFolder, uid: int) -> None:
    """Remove what a writer for this user left that was killed; only while nobody else writes."""
    for name in folder.left_over(uid):
        with suppress(OSError):
            os.unlink(name, dir_fd=folder.handle)


def write_all(handle: int, data: bytes) -> None:
    """Write all of it; the kernel may take less at a time."""
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]
