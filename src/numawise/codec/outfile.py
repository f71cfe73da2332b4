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
7. Root follows a link of another user only to what belongs to that user.
8. The way is walked name by name with a handle of each folder, so that nobody can turn it meanwhile.
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
from numawise.values import dataclass

NEW, EXECUTABLE, PRIVATE = 0o666, 0o777, 0o600
"""Modes of new files, before the umask."""
MOST_LINKS = 40
"""As the kernel has it."""
SHARED = stat.S_ISVTX | stat.S_IWOTH
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HANDLE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC
FOLDER = HANDLE | os.O_DIRECTORY
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
    """Raise the error that ``write_whole`` would end with, as far as the way there shows it."""
    try:
        with _target(os.fspath(path)):
            pass
    except (OSError, ValueError) as problem:
        raise _cannot(path, problem) from None


def replace_content(path: str | Path, content: str | bytes, mode: int = NEW) -> None:
    """As ``write_whole`` does it; raise ``OSError``."""
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    with _target(os.fspath(path)) as target:
        if (number := _own_descriptor(target.path)) is not None:
            if sys.stdout is not None:
                sys.stdout.flush()
            _pour(os.dup(number), data)
            return
        made_up = target.path.startswith(MADE_UP)
        try:
            handle = os.open(target.name, WRITE if made_up else WRITE | os.O_NOFOLLOW, dir_fd=target.folder)
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


def settle(folder: str | Path, within: int | None = None) -> None:
    """Let the names in a folder reach the disk, as far as we may open it; ``within``: a folder's handle."""
    with contextlib.suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=within)
        try:
            os.fsync(handle)
        except OSError as problem:
            if problem.errno != errno.EINVAL:  # a file system that keeps nothing
                raise
        finally:
            os.close(handle)


# --- where a path leads ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a path leads."""

    folder: int
    """A handle of the folder."""
    name: str
    """In the folder."""
    path: str
    """All of it, without links."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is in a folder under a name."""

    about: os.stat_result
    handle: int


@contextlib.contextmanager
def _target(path: str) -> Iterator[_Target]:
    """Walk to where a path leads (rule 8)."""
    if not path:
        raise ValueError("no file is named")
    with contextlib.ExitStack() as handles:
        yield _Walk(handles).to(path)


class _Walk:
    """The folder that was reached, and whose links led there."""

    def __init__(self, handles: contextlib.ExitStack) -> None:
        self.handles = handles
        self.folder, self.at = -1, ""
        self.links = 0
        self.led_by: set[int] = set()

    def to(self, path: str) -> _Target:
        is_absolute, names = path.startswith("/"), _plain(path)
        self._enter("/" if is_absolute else ".", "/" if is_absolute else os.getcwd())  # noqa: PTH109
        while names:
            name = names.pop(0)
            here = os.path.join(self.at, name)  # noqa: PTH118 - paths are text here
            entry = self._look(name)
            if entry and not stat.S_ISDIR(entry.about.st_mode):
                self._no_trap(entry.about, here)
            if entry and stat.S_ISLNK(entry.about.st_mode) and not here.startswith(MADE_UP):
                names[:0] = self._follow(entry)
            elif names or path.endswith("/") or (entry and stat.S_ISDIR(entry.about.st_mode)):
                self._enter(name, os.path.dirname(self.at) if name == ".." else here)  # noqa: PTH120
            else:
                self._no_detour(entry.about if entry else os.fstat(self.folder))
                return _Target(self.folder, name, here)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

    def _enter(self, name: str, at: str) -> None:
        """Go on to a folder; a link of ``/proc`` is followed, any other is not there any more."""
        flags = FOLDER if at.startswith(MADE_UP) else FOLDER | os.O_NOFOLLOW
        self.folder, self.at = self._kept(os.open(name, flags, dir_fd=self.folder if self.at else None)), at

    def _look(self, name: str) -> _Entry | None:
        """What a name stands for; None: nothing."""
        try:
            handle = self._kept(os.open(name, HANDLE | os.O_NOFOLLOW, dir_fd=self.folder))
        except FileNotFoundError:
            return None
        return _Entry(os.fstat(handle), handle)

    def _follow(self, link: _Entry) -> list[str]:
        """The names that a link consists of."""
        self.links += 1
        if self.links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        self.led_by.add(link.about.st_uid)
        text = os.readlink("", dir_fd=link.handle)  # the very link that was looked at
        if text.startswith("/"):
            self._enter("/", "/")
        return _plain(text)

    def _no_trap(self, about: os.stat_result, path: str) -> None:
        around = os.fstat(self.folder)
        if around.st_mode & SHARED == SHARED and about.st_uid not in (os.geteuid(), around.st_uid):
            what = "a link" if stat.S_ISLNK(about.st_mode) else "what is there"
            reason = (
                f"{what} ({path}) belongs to user {about.st_uid}, in a folder that everybody may write to"
            )
            raise PermissionError(errno.EACCES, reason)

    def _no_detour(self, about: os.stat_result) -> None:
        """Refuse what a link of another user leads root to (rule 7)."""
        strangers = self.led_by - {0, about.st_uid}
        if os.geteuid() == 0 and strangers:
            reason = f"a link of user {min(strangers)} leads to what belongs to user {about.st_uid}"
            raise PermissionError(errno.EACCES, reason)

    def _kept(self, handle: int) -> int:
        self.handles.callback(os.close, handle)
        return handle


def _plain(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


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


def _replaced(target: _Target, data: bytes, old: int, about: os.stat_result) -> bool:
    """Put a file in the place of another; False where that cannot be (rule 4)."""
    try:
        _exchange(target, data, stat.S_IMODE(about.st_mode) & 0o777, old)
    except OSError as problem:
        if problem.errno not in NOT_BESIDE:
            raise
        return False
    return True


def _exchange(target: _Target, data: bytes, mode: int, old: int | None = None) -> None:
    """Write a file beside the target and let it take over the name; ``old``: whose owner and mode it gets."""
    folder, beside = target.folder, f".numawise-{os.urandom(8).hex()}"
    create = WRITE | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handle = os.open(beside, create, mode if old is None else PRIVATE, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            if old is not None:
                _alike(stream.fileno(), old, mode)
            os.fsync(stream.fileno())
        os.rename(beside, target.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise
    settle(".", folder)


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
