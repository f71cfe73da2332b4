"""What has ended: a file for each user beside the ledger's, a line for each hold that is no more.

Rules kept here:

1. A line is added, and on the disk, before the ledger says that the hold is gone.  After a crash between the
   two the hold is still there, and its line is passed over; it gets another one when it really ends.
2. The file is bounded: past ``LARGEST_HISTORY`` bytes only the newest ``KEPT`` lines stay, by one rename.
3. It is read and trusted as a file of the ledger (``file``), and a line that makes no sense is passed over: a
   crash may have cut it.  Nothing that is decided depends on it.
4. What cannot be written down is lost: no hold stays because its end could not be recorded.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from numawise.ledger import record
from numawise.ledger.file import (
    API_VERSION,
    LARGEST,
    MOST_OF_ONE,
    LedgerFolder,
    free_name,
    put_in_place,
    read_bytes,
    user_name,
    write_all,
)
from numawise.ledger.listing import OwnedFile, named_number, owned_files
from numawise.results.placement import EndedHold, Hold
from numawise.values import replace

KIND, ENDING = "LedgerHistory", ".history.jsonl"
NAME = re.compile(r"numawise-(0|[1-9][0-9]{0,9})(-[0-9a-f]{8})?\.history\.jsonl", re.ASCII)
KEPT = 500
LARGEST_HISTORY, LONGEST_LINE = 384 << 10, 4096
"""Bytes; a line has some 400."""
LONGEST_WORDS = 1024
"""Characters of a command that are kept."""
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


# --- writing ----------------------------------------------------------------------------------


def add_lines(folder: LedgerFolder, uid: int, ended: Sequence[EndedHold], machine: str) -> None:
    """Write down what a user held and holds no more; only while nobody else writes."""
    lines = [line for line in map(_line, ended) if line]
    if not lines:
        return
    with suppress(OSError):  # rule 4
        for file in owned_files(folder.handle, NAME).of(uid):
            if _append(folder, file, uid, b"".join(lines), machine):
                return
        put_in_place(folder, free_name(folder, uid, ENDING), uid, _head(machine) + b"".join(lines))


def _line(ended: EndedHold) -> bytes:
    """A line for a hold; b'' when it has things that no line can say."""
    row = replace(ended, hold=_shortened(ended.hold))
    line = f"{record.json_text(record.ended_data(row))}\n".encode()
    return b"" if record.unfit(row.hold) or len(line) > LONGEST_LINE else line


def _shortened(hold: Hold) -> Hold:
    """A hold without what only a running job needs, and with a command that is not long."""
    words: list[str] = []
    for word in hold.command:
        if sum(map(len, words)) + len(word) > LONGEST_WORDS:
            words.append("…")
            break
        words.append(word)
    return replace(hold, command=tuple(words), labels=(), group="")


def _append(folder: LedgerFolder, file: OwnedFile, uid: int, lines: bytes, machine: str) -> bool:
    """Add lines to a file, if it is this user's and sound."""
    name = file.name
    try:
        handle = os.open(name, APPEND, dir_fd=folder.handle)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.EACCES, errno.ENXIO, errno.EISDIR):
            return False
        raise
    try:
        status = os.fstat(handle)
        if status.st_uid != uid or not stat.S_ISREG(status.st_mode) or status.st_mode & OTHERS_WRITE:
            return False
        if not _is_head(os.pread(handle, LONGEST_LINE, 0).partition(b"\n")[0], machine):
            put_in_place(folder, name, uid, _head(machine) + lines)
            return True
        if status.st_size + len(lines) > LARGEST_HISTORY:
            known = read_bytes(folder, file)
            before = known if isinstance(known, bytes) else b""
            put_in_place(folder, name, uid, _head(machine) + _newest(before + b"\n" + lines))
            return True
        torn = status.st_size > 0 and os.pread(handle, 1, status.st_size - 1) != b"\n"
        write_all(handle, b"\n" + lines if torn else lines)
        os.fsync(handle)
        return True
    finally:
        os.close(handle)


def _newest(data: bytes) -> bytes:
    """The newest lines, without the head; half of what the file may have is left for more."""
    lines: list[bytes] = []
    size = 0
    for line in reversed(data.splitlines()[1:]):
        size += len(line) + 1
        if len(lines) == KEPT or size > LARGEST_HISTORY // 2:
            break
        if line.startswith(b"{") and len(line) < LONGEST_LINE:
            lines.append(line)
    return b"".join(line + b"\n" for line in reversed(lines))


def _head(machine: str) -> bytes:
    head = {"apiVersion": API_VERSION, "kind": KIND, "machine": machine}
    return f"{record.json_text(head)}\n".encode()


# --- reading ----------------------------------------------------------------------------------


def read_history(
    folders: Iterable[LedgerFolder], machine: str, uid: int
) -> tuple[list[EndedHold], tuple[str, ...]]:
    """What ended on this machine, the newest first, each hold once (rule 1); and what was passed over.

    ``uid``: who asks.
    """
    known: dict[tuple[int, str, float], EndedHold] = {}
    problems = []
    for folder in folders:
        listing = owned_files(folder.handle, NAME)
        for files in listing.owners:
            read = 0
            for file in files:
                data = read_bytes(folder, file)
                if not isinstance(data, bytes) or max(len(data), file.size) > LARGEST or read == MOST_OF_ONE:
                    listing.litter.add(
                        file, data if isinstance(data, str) else "it is too large, or one too many"
                    )
                    continue
                read += 1
                for ended in _parsed(data, file.uid, machine):
                    key = (ended.hold.owner.uid, ended.hold.id, ended.hold.since)
                    if key not in known or known[key].at < ended.at:
                        known[key] = ended
        problems.append(listing.litter.sentence(folder.path, named_number(uid)))
        problems.append(f"{folder.path} has histories of more users than can be read" * listing.too_many)
    rows = sorted(known.values(), key=lambda ended: (-ended.at, ended.hold.id))
    return rows, tuple(text for text in problems if text)


def _parsed(data: bytes, uid: int, machine: str) -> Iterator[EndedHold]:
    head, *lines = data.split(b"\n")
    if not _is_head(head, machine):
        return
    for line in lines:
        if not 0 < len(line) < LONGEST_LINE:
            continue
        with suppress(ValueError, RecursionError):  # rule 3
            yield record.read_ended(json.loads(line.decode()), uid, user_name(uid))


def _is_head(line: bytes, machine: str) -> bool:
    try:
        head = json.loads(line.decode())
    except (ValueError, RecursionError):
        return False
    wanted = {"apiVersion": API_VERSION, "kind": KIND, "machine": machine}
    return isinstance(head, dict) and all(head.get(key) == value for key, value in wanted.items())
