"""Put new files in the place of old ones: a copy is kept, and each is there whole or not at all.

Rules kept here:

1. A change is first a value (``Exchange``), then carried out; nothing is touched before all files were found
   to be what they were when the change was thought out.
2. The old files are copied, with mode, owner, times and label, into a folder of their own beside them, and
   that copy is on the disk before anything changes.  A kubelet empties its folder of device plugins when it
   starts, so the copies are not kept there.
3. Files are written as ``codec.outfile`` does it; a new one has the mode that the kubelet gives it.
"""

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from numawise.codec.outfile import PRIVATE, replace_content, settle
from numawise.errors import HostError
from numawise.values import dataclass

PREFIX = "numawise-backup-"
MOST_IN_A_SECOND = 1000


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
            settle(kept)
            settle(folder)
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
    settle(copy.parent)


def _replace(path: Path, new: bytes | None) -> None:
    if new is not None:
        replace_content(path, new, PRIVATE)
        return
    path.unlink(missing_ok=True)
    settle(path.parent)


def _failed(problem: OSError, path: Path, state: str) -> HostError:
    place = problem.filename or path
    reason = problem.strerror or str(problem)
    advice = "do this as root" if isinstance(problem, PermissionError) else ""
    return HostError(f"{place} cannot be written ({reason}); {state}", advice)
