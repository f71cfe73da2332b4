"""The one way in which files are written.

Rules kept here:

1. Links are followed to what they stand for, one that leads nowhere included: the link stays a link.
2. What is not a regular file (a device, a pipe, ``/dev/stdout``, ``/dev/fd/3``) is written to, not replaced.
3. A regular file is there whole, old or new: the content goes into a file beside it, reaches the disk and
   then takes over the name, with mode, owner, group, access list and label of the old file.  A new file has
   the mode that the umask leaves.  Whatever goes wrong, the file beside it is removed; signals that would end
   us wait until then.
4. Where rule 3 cannot be kept, the file is written in place, its room on the disk reserved first: where
   owner, group or access list cannot be given to another file, where the folder takes no new files, where the
   name cannot be taken over (a file mounted into a container), and where the file has other names.
5. A file that may not be written is not replaced either, though its folder would allow it.
6. In a folder where everybody may write and nobody may remove (``/tmp``), whatever is there and belongs
   neither to us nor to the owner of the folder is refused, links on the way included: it may be a trap.
"""

import contextlib
import errno
import os
import re
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from numawise.errors import InputError

NEW, EXECUTABLE, PRIVATE = 0o666, 0o777, 0o600
"""Modes of new files, before the umask."""
MOST_LINKS = 40
"""As the kernel has it."""
SHARED = stat.S_ISVTX | stat.S_IWOTH
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WRITE = os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC
DESCRIPTOR = re.compile(r"/proc/(?:self|thread-self|(\d+))/fd/(\d{1,9})", re.ASCII)
MADE_UP = "/proc/"
"""Links there lead to open files and to other roots, whatever they say; only the kernel can follow them."""
NOT_BESIDE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})
"""A file beside it cannot be made or cannot take over the name; the file itself may be written even so."""
ADVICE = {
    errno.EACCES: "check who may write to the file and to its folder",
    errno.EPERM: "check who may write to the file and to its folder",
    errno.EROFS: "choose a place on another file system",
    errno.ENOENT: "make the folder first",
    errno.ENOTDIR: "make the folder first",
    errno.EISDIR: "name a file in it",
    errno.ENOSPC: "free some space, or choose another place",
    errno.EDQUOT: "free some space, or choose another place",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "check where the links lead",
}


def write_whole(path: str | Path, content: str | bytes, mode: int = NEW) -> None:
    """Write a file; ``mode``: of a new one, as far as the umask allows.  An error is a sentence."""
    try:
        replace_content(path, content, mode)
    except (OSError, ValueError) as problem:
        raise _cannot(path, problem) from None


def check_place(path: str | Path) -> None:
    """Raise the error that ``write_whole`` would end with, as far as that shows without writing."""
    try:
        target = _target(os.fspath(path))
        if not os.path.lexists(target):
            os.stat(os.path.dirname(target))  # noqa: PTH116, PTH120 - paths are text here
    except (OSError, ValueError) as problem:
        raise _cannot(path, problem) from None


def replace_content(path: str | Path, content: str | bytes, mode: int = NEW) -> None:
    """As ``write_whole`` does it; raise ``OSError``."""
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    target = _target(os.fspath(path))
    if (number := _own_descriptor(target)) is not None:
        if sys.stdout is not None:
            sys.stdout.flush()
        _pour(os.dup(number), data)
        return
    made_up = target.startswith(MADE_UP)
    try:
        handle = os.open(target, WRITE if made_up else WRITE | os.O_NOFOLLOW)
    except FileNotFoundError:
        with _undisturbed():
            _exchange(target, data, mode)
        return
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        _pour(handle, data)
        return
    with os.fdopen(handle, "wb", buffering=0) as old, _undisturbed():
        if made_up or about.st_nlink > 1 or not _replaced(target, data, old.fileno(), about):
            _overwrite(old.fileno(), data, about.st_size)


def settle(folder: str | Path) -> None:
    """Let the names in a folder reach the disk, as far as we may open it."""
    with contextlib.suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        except OSError as problem:
            if problem.errno != errno.EINVAL:  # a file system that keeps nothing
                raise
        finally:
            os.close(handle)


# --- where a path leads ---------------------------------------------------------------------------


def _target(path: str) -> str:
    """A path without links (rule 1), except those of ``/proc``; none of them is a trap (rule 6)."""
    if not path:
        raise ValueError("no file is named")
    at, names, links = "/" if path.startswith("/") else os.getcwd(), path.split("/"), 0  # noqa: PTH109
    while names:
        name = names.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)  # noqa: PTH120 - it has no links, so that its text may be cut
            continue
        here = os.path.join(at, name)  # noqa: PTH118
        try:
            about = os.lstat(here)
        except FileNotFoundError:
            about = None
        if about is not None and not stat.S_ISDIR(about.st_mode):
            _no_trap(about, at, here)
        if about is None or not stat.S_ISLNK(about.st_mode) or here.startswith(MADE_UP):
            at = here
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        text = os.readlink(here)  # noqa: PTH115
        at = "/" if text.startswith("/") else at
        names[:0] = text.split("/")
    if path.endswith("/") or (os.path.isdir(at) and not at.startswith(MADE_UP)):  # noqa: PTH112
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return at


def _no_trap(about: os.stat_result, folder: str, path: str) -> None:
    around = os.stat(folder)  # noqa: PTH116
    if around.st_mode & SHARED == SHARED and about.st_uid not in (os.geteuid(), around.st_uid):
        what = "a link" if stat.S_ISLNK(about.st_mode) else "what is there"
        reason = f"{what} ({path}) belongs to user {about.st_uid}, in a folder that everybody may write to"
        raise PermissionError(errno.EACCES, reason)


def _own_descriptor(path: str) -> int | None:
    found = DESCRIPTOR.fullmatch(path)
    return int(found[2]) if found and found[1] in (None, str(os.getpid())) else None


# --- ways to write --------------------------------------------------------------------------------


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let signals that would end us wait, so that nothing is left half done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _pour(handle: int, data: bytes) -> None:
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)


def _replaced(target: str, data: bytes, old: int, about: os.stat_result) -> bool:
    """Put a file in the place of another; False where that cannot be (rule 4)."""
    try:
        _exchange(target, data, stat.S_IMODE(about.st_mode) & 0o777, old)
    except OSError as problem:
        if problem.errno not in NOT_BESIDE:
            raise
        return False
    return True


def _exchange(target: str, data: bytes, mode: int, old: int | None = None) -> None:
    """Write a file beside the target and let it take over the name; ``old``: whose owner and mode it gets."""
    folder = os.path.dirname(target)  # noqa: PTH120
    beside = os.path.join(folder, f".numawise-{os.urandom(8).hex()}")  # noqa: PTH118
    create = WRITE | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handle = os.open(beside, create, mode if old is None else PRIVATE)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            if old is not None:
                _alike(stream.fileno(), old, mode)
            os.fsync(stream.fileno())
        os.rename(beside, target)  # noqa: PTH104
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)  # noqa: PTH108
        raise
    settle(folder)


def _alike(new: int, old: int, mode: int) -> None:
    """Give a file owner, group, access list, label and mode of another."""
    wanted, about = os.fstat(old), os.fstat(new)
    if (about.st_uid, about.st_gid) != (wanted.st_uid, wanted.st_gid):
        os.fchown(new, wanted.st_uid, wanted.st_gid)
    os.fchmod(new, mode)
    for name in _attributes(old):
        try:
            os.setxattr(new, name, os.getxattr(old, name))
        except OSError as problem:
            if not name.startswith(("security.", "trusted.")):  # the system gives these itself
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM)) from problem


def _attributes(handle: int) -> list[str]:
    try:
        return os.listxattr(handle)
    except OSError:
        return []  # a file system that has none


def _overwrite(handle: int, data: bytes, before: int) -> None:
    """Write over a file; nothing is touched before there is room for all of it (rule 4)."""
    if len(data) > before:
        try:
            os.posix_fallocate(handle, before, len(data) - before)
        except OSError as problem:
            if problem.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV):
                os.ftruncate(handle, before)
                raise
    done = 0
    while done < len(data):
        done += os.pwrite(handle, memoryview(data)[done:], done)
    os.ftruncate(handle, len(data))
    os.fsync(handle)


def _cannot(path: str | Path, problem: OSError | ValueError) -> InputError:
    number = (problem.errno if isinstance(problem, OSError) else None) or 0
    reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
    return InputError(
        f"cannot be written: {reason}", file=str(path), advice=ADVICE.get(number, "check the path")
    )
