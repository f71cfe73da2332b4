"""Dropped files, for readers that take paths: a private folder, and names as they were dropped.

Rules kept here:

1. A file keeps the last part of its name, in a folder of its own; what is dropped together is kept as long as
   the call that reads it, or as long as the node that was read from it.
2. Whatever is answered names a file as it was dropped: the folder is taken out of every answer.
3. What a server left that was killed goes when the next one starts: a live one holds its folder locked.
4. Words that a client gives are never a path: a machine is a name of the catalogue or a description.
"""

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from numawise.codec.web.given import FileGiven
from numawise.errors import InputError, quoted
from numawise.inputs.machine import THIS, MachineInput, read_machine

PREFIX = "numawise-page-"
MADE = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")
"""As ``tempfile`` makes names."""
UNSAFE = re.compile(r"[^\w.()+@ -]")
LONGEST_NAME = 200
"""Bytes; file systems take 255."""
YOUNG = 60.0
"""Seconds for which a folder may be of a server that has not locked it yet."""
FOLDER = "machine"
"""What a file ``machine.yaml`` is called after."""


class DroppedFiles:
    """The folder of one server."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self.folder = tempfile.mkdtemp(prefix=PREFIX)
        self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._numbers = count()
        self._inside = re.compile(
            re.escape(self.folder).encode() + rb"/[0-9]+/[0-9]+/" + FOLDER.encode() + b"/"
        )
        self._end = weakref.finalize(self, _remove, self.folder, self._lock)

    def close(self) -> None:
        """Leave nothing behind."""
        self._end()

    def keep(self, files: Sequence[FileGiven], field: str) -> "KeptFiles":
        """Write files down; they are there until the value is closed or forgotten."""
        return self.keep_bytes(
            [(file.name, file.content(f"{field}[{number}]")) for number, file in enumerate(files)]
        )

    def keep_bytes(self, contents: Sequence[tuple[str, bytes]]) -> "KeptFiles":
        """Likewise of names and what is in them."""
        folder = Path(self.folder, str(next(self._numbers)))
        paths = []
        for number, (name, content) in enumerate(contents):
            place = folder / str(number) / FOLDER
            place.mkdir(parents=True)
            path = place / _name(name, number)
            path.write_bytes(content)
            paths.append(str(path))
        return KeptFiles(folder, tuple(paths))

    @contextmanager
    def paths(self, files: Sequence[FileGiven], field: str = "$.files") -> Iterator[tuple[str, ...]]:
        """The paths of files, for the length of a call."""
        kept = self.keep(files, field)
        try:
            yield kept.paths
        finally:
            kept.close()

    def without_folder(self, answer: bytes) -> bytes:
        """Rule 2."""
        return self._inside.sub(b"", answer)


class KeptFiles:
    """Files that were dropped together."""

    def __init__(self, folder: Path, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self._end = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def close(self) -> None:
        """They are no longer needed."""
        self._end()


def _remove(folder: str, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _sweep(around: Path) -> None:
    """Rule 3, among the folders of this user; what cannot be looked at, or may be somebody's own, stays."""
    for folder in around.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if _is_left(folder.name, lock):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _is_left(name: str, folder: int) -> bool:
    """Whether a folder is as a server makes one: its name, its owner, its mode, numbers inside."""
    status = os.fstat(folder)
    return (
        MADE.fullmatch(name) is not None
        and status.st_uid == os.geteuid()
        and stat.S_IMODE(status.st_mode) == stat.S_IRWXU
        and time.time() - status.st_mtime > YOUNG
        and all(inside.isdecimal() for inside in os.listdir(folder))
    )


def machine_given(text: str, field: str) -> MachineInput:
    """Rule 4."""
    from numawise.machine.catalog import CATALOG, machine_named  # noqa: PLC0415 - files do without
    from numawise.machine.synthetic import synthetic  # noqa: PLC0415 - likewise

    if text == THIS:
        return read_machine(THIS)
    if text in CATALOG:
        return MachineInput(machine_named(text), text)
    try:
        return MachineInput(synthetic(text), text)
    except InputError as problem:
        raise InputError(
            f"{quoted(text)} is neither in the catalogue nor a description: {problem.message}",
            field=field,
            advice="give a name of the catalogue or words like '2s 4n 64c 8gpu', or drop a file",
        ) from None


def _name(given: str, number: int) -> str:
    last = given.replace("\\", "/").rstrip("/").rpartition("/")[2]
    clean = UNSAFE.sub("_", last).strip(". ")
    return clean.encode()[-LONGEST_NAME:].decode(errors="ignore") or f"file-{number}"
