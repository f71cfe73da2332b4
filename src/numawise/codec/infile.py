"""The one way in which files that people name are looked at and read.

Rules kept here:

1. Any text may be asked about, however long and whatever is in it: what cannot be a path is not a file.
2. What is read at once is bounded; ``-`` is standard input.
3. Whatever goes wrong while reading (a file that has gone, no permission, a broken disk, a damaged archive)
   is an ``InputError`` with the name of the file and the reason.
4. While a change of files is tried, they are read as they would be; nothing on the disk is touched for that.
"""

import io
import os.path
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import IO

from numawise.errors import InputError

DASH, STDIN, LARGEST_FILE = "-", "<stdin>", 64 << 20
SPLIT = "split it into smaller files"
REASONS: Mapping[type, tuple[str, str]] = {
    FileNotFoundError: ("there is no such file", "check the path"),
    IsADirectoryError: ("is a directory", "name the files inside it"),
    PermissionError: ("may not be read", "check its permissions"),
}

TRIED: ContextVar[Mapping[str, bytes]] = ContextVar("TRIED", default=MappingProxyType({}))
"""Path → content of files that are read otherwise than they are (rule 4)."""


@contextmanager
def read_instead(contents: Mapping[str, bytes]) -> Iterator[None]:
    """Let files that are there be read with another content for a while."""
    before = TRIED.set({**TRIED.get(), **contents})
    try:
        yield
    finally:
        TRIED.reset(before)


def is_there(path: Path | str) -> bool:
    """Whether there is anything of that name (rule 1)."""
    return os.path.exists(path)  # noqa: PTH110 - pathlib raises for what cannot be a path


def is_file(path: Path | str) -> bool:
    """Whether it is a regular file, or a link to one."""
    return os.path.isfile(path)  # noqa: PTH113 - likewise


def is_folder(path: Path | str) -> bool:
    """Whether it is a folder, or a link to one."""
    return os.path.isdir(path)  # noqa: PTH112 - likewise


def name_of(path: Path | str) -> str:
    """What to call a file in messages."""
    return STDIN if str(path) == DASH else str(path)


def members(folder: Path | str) -> list[Path]:
    """What is in a folder, by the bytes of the names."""
    with reading(folder):
        return sorted(Path(folder).iterdir(), key=lambda one: os.fsencode(one.name))


def read_raw(path: Path | str, largest: int = LARGEST_FILE) -> tuple[bytes, str]:
    """The content of a file and what to call it in messages."""
    with opened(path) as stream:
        raw = stream.read(largest + 1)
    if len(raw) > largest:
        size = f"{largest >> 20} MiB" if largest >> 20 else f"{largest} bytes"
        raise InputError(f"is larger than {size}", file=name_of(path), advice=SPLIT)
    return raw, name_of(path)


@contextmanager
def opened(path: Path | str) -> Iterator[IO[bytes]]:
    """A file to read bytes from."""
    tried = TRIED.get().get(str(path))
    if tried is not None:
        yield io.BytesIO(tried)
        return
    try:
        stream = Path(path).open("rb") if str(path) != DASH else None  # noqa: SIM115 - closed below
    except (OSError, ValueError) as problem:  # a path may have a zero byte in it
        raise unreadable(problem, path) from None
    with reading(path):
        if stream is not None:
            with stream:
                yield stream
        elif sys.stdin is not None:
            yield sys.stdin.buffer
        else:
            raise unreadable(EOFError("it is closed"), path)


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Let what goes wrong inside be an error about this file (rule 3)."""
    try:
        yield
    except (OSError, EOFError) as problem:
        raise unreadable(problem, path) from None


def unreadable(problem: Exception, path: Path | str) -> InputError:
    """Why a file cannot be read."""
    reason = getattr(problem, "strerror", None) or str(problem)
    what, advice = REASONS.get(type(problem), (f"cannot be read: {reason}", "check the path"))
    return InputError(what, file=name_of(path), advice=advice)
