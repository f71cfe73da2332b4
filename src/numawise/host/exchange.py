"""Put new files in the place of old ones: a copy is kept, and each is there whole or not at all.

Rules kept here:

1. A change is first a value (``Exchange``), then carried out; nothing is touched before all files were found
   to be what they were when the change was thought out.
2. The old files are copied, with mode, owner, times and label, into a folder of their own beside them, and
   that copy is on the disk before anything changes.  A kubelet empties its folder of device plugins when it
   starts, so the copies are not kept there.
3. A new file takes over mode, owner and label of the old one, and its name only when it is complete.
4. A name is followed to the file it stands for, so that a link stays a link.
"""

import contextlib
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from numawise.errors import HostError
from numawise.values import dataclass

LABEL = "security.selinux"
PREFIX = "numawise-backup-"
MOST_IN_A_SECOND = 1000
MODE = 0o600
"""As the kubelet makes its state files."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One file and what is to become of it."""

    path: Path
    old: bytes | None
    """What it held when the change was thought out; None: it was not there."""
    new: bytes | None
    """None: it is to go."""


def exchange(changes: Sequence[Exchange], folder: Path, *, now: float | None = None) -> Path | None:
    """Carry out the changes; the folder with the copies of the old files, None when there were none.

    ``folder``: where the files lie, some of them perhaps deeper down.  ``now``: for the name of the copies.
    """
    changes = [change for change in changes if change.old != change.new]
    for change in changes:
        if _content(change.path) != change.old:
            raise HostError(
                f"{change.path} has changed meanwhile", "stop the kubelet and whatever else writes there"
            )
    kept: Path | None = None
    try:
        if any(change.old is not None for change in changes):
            kept = _folder(folder, time.time() if now is None else now)
            for change in changes:
                if change.old is not None:
                    _copy(change.path, kept / _inside(change.path, folder))
            _settle(kept)
            _settle(folder)
    except OSError as problem:
        raise _failed(problem, folder, "nothing was changed") from problem
    for done, change in enumerate(changes):
        try:
            _replace(change.path, change.new)
        except OSError as problem:
            state = f"{done} of {len(changes)} files were changed; the old ones are in {kept}"
            raise _failed(problem, change.path, state) from problem
    return kept


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _failed(problem, path, "nothing was changed") from problem


def _inside(path: Path, folder: Path) -> Path:
    try:
        return path.relative_to(folder)
    except ValueError:
        return Path(path.name)


def _folder(beside: Path, now: float) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    for number in range(MOST_IN_A_SECOND):
        path = beside / f"{PREFIX}{stamp}{f'-{number}' if number else ''}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), str(beside))


def _copy(path: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, copy)
    about = path.stat()
    with contextlib.suppress(PermissionError):  # who is not root owns both anyway, or may read only
        os.chown(copy, about.st_uid, about.st_gid)
    with copy.open("rb") as stream:
        os.fsync(stream.fileno())
    _settle(copy.parent)


def _replace(path: Path, new: bytes | None) -> None:
    target = Path(os.path.realpath(path))
    if new is None:
        path.unlink(missing_ok=True)
        _settle(path.parent)
        return
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(new)
            stream.flush()
            _like(stream.fileno(), target)
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _settle(target.parent)


def _like(handle: int, old: Path) -> None:
    """Give a new file the mode, owner and label of the old one."""
    try:
        about = old.stat()
    except FileNotFoundError:
        os.fchmod(handle, MODE)
        return
    if (about.st_uid, about.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(handle, about.st_uid, about.st_gid)
    os.fchmod(handle, about.st_mode & 0o7777)
    with contextlib.suppress(OSError):  # most systems have no labels
        os.setxattr(handle, LABEL, os.getxattr(old, LABEL))


def _settle(folder: Path) -> None:
    """Let the names in a folder reach the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _failed(problem: OSError, path: Path, state: str) -> HostError:
    place = problem.filename or path
    reason = problem.strerror or str(problem)
    advice = "do this as root" if isinstance(problem, PermissionError) else ""
    return HostError(f"{place} cannot be written ({reason}); {state}", advice)
