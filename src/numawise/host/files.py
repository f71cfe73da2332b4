"""The one way to read small files below a root.

Rules kept here:

1. Nothing raises.  What is not there is ``None`` (or empty) and stays unmentioned: kernels and copies of
   trees differ in what they have, and the caller knows what matters.  What is there but cannot be read,
   or does not say what such a file says, is ``None`` and one remark.
2. Paths are relative to the root, as ``sys/devices/system/cpu``; a remark names the place from the root on.
3. Reading never waits (a pipe in place of a file) and never swallows more than ``LARGEST_FILE``.
4. Plain system calls, because a large machine has thousands of such files.
"""

import errno
import os
import re

from numawise.errors import quoted
from numawise.machine.hardware import UNREADABLE, Remark
from numawise.sets import LARGEST_ID, parse_ids
from numawise.strconv import whole_number

LARGEST_FILE = 1 << 22
CHUNK = 1 << 16
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
DECIMAL = re.compile(r"-?[0-9]{1,18}", re.ASCII)
HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]{1,16}", re.ASCII)
MASK = re.compile(r"[0-9a-fA-F]+|[0-9a-fA-F]{1,8}(?:,[0-9a-fA-F]{1,8})+", re.ASCII)


class Tree:
    """A file system below a root, and the remarks that reading it gave rise to."""

    __slots__ = ("_masks", "_root", "_sets", "remarks")

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.fspath(root).rstrip("/") + "/"
        self._sets: dict[str, int] = {}
        self._masks: dict[str, int] = {}
        self.remarks: list[Remark] = []

    @property
    def is_live(self) -> bool:
        """Whether this is the machine we run on, not a copy of files of one."""
        return self._root == "/"

    def remark(self, kind: str, path: str, text: str) -> None:
        self.remarks.append(Remark(kind, _printable("/" + path), _printable(text)))

    def text(self, path: str) -> str | None:
        """The text of a file, without the blanks around it."""
        try:
            handle = os.open(self._root + path, FLAGS)
            try:
                data = os.read(handle, CHUNK)
                # What the kernel makes up comes in pieces of any size, so only an empty one is the end.
                while (more := os.read(handle, CHUNK)) and len(data) < LARGEST_FILE:
                    data += more
            finally:
                os.close(handle)
        except (OSError, ValueError) as error:
            self._failed(path, error)
            return None
        # Linux 5.15 ends some files with a NUL.
        text = data.strip(b"\0 \t\n").decode(errors="replace")
        if "\0" in text or "\ufffd" in text:
            self.remark(UNREADABLE, path, "is not text")
            return None
        return text

    def names(self, path: str) -> list[str]:
        """What a folder holds, in no particular order."""
        try:
            return os.listdir(self._root + path)  # noqa: PTH208 - rule 4
        except (OSError, ValueError) as error:
            self._failed(path, error)
            return []

    def numbered(self, path: str, prefix: str) -> list[int]:
        """The numbers *n* of the entries ``<prefix><n>`` of a folder, ascending."""
        start = len(prefix)
        found = (name[start:] for name in self.names(path) if name.startswith(prefix))
        return sorted(n for n in map(_plain, found) if n is not None)

    def has(self, path: str) -> bool:
        """Whether there is such an entry, even a link that leads nowhere."""
        return os.path.lexists(self._root + path)

    def leads_somewhere(self, path: str) -> bool:
        """Whether there is such an entry, and, if it is a link, what it points to."""
        return os.path.exists(self._root + path)  # noqa: PTH110 - rule 4

    def link(self, path: str) -> str | None:
        """What a symbolic link says; None for anything else."""
        try:
            return os.readlink(self._root + path)  # noqa: PTH115 - rule 4
        except (OSError, ValueError):
            return None

    def number(self, path: str) -> int | None:
        """A file with one decimal number, or a hexadecimal one after ``0x``."""
        text = self.text(path)
        if text is None:
            return None
        if DECIMAL.fullmatch(text):
            return whole_number(text)
        if HEXADECIMAL.fullmatch(text):
            return int(text, 16)
        self.garbled(path, text, "a number")
        return None

    def ids(self, path: str) -> int | None:
        """A set of ids in the kernel's list format, ``0-3,8``, packed."""
        text = self.text(path)
        if text is None:
            return None
        found = self._sets.get(text)
        if found is None:
            try:
                found = parse_ids(text)
            except ValueError:
                self.garbled(path, text, "a list of ids")
                return None
            self._sets[text] = found
        return found

    def mask(self, path: str) -> int | None:
        """A set of ids in the kernel's mask format, ``00000001,0000000f``, packed."""
        text = self.text(path)
        if text is None:
            return None
        found = self._masks.get(text)
        if found is None:
            found = parse_mask(text)
            if found is None:
                self.garbled(path, text, "a mask of ids")
                return None
            self._masks[text] = found
        return found

    def ids_or_mask(self, ids: str, mask: str) -> int | None:
        """A set that newer kernels give as a list and older ones as a mask only."""
        found = self.ids(ids)
        return self.mask(mask) if found is None else found

    def garbled(self, path: str, text: str, wanted: str) -> None:
        shown = text if len(text) <= 40 else text[:40] + "…"
        self.remark(
            UNREADABLE, path, f"is not {wanted}: {quoted(shown)}" if text else f"is empty, not {wanted}"
        )

    def _failed(self, path: str, error: OSError | ValueError) -> None:
        if isinstance(error, OSError) and error.errno in ABSENT:
            if self.link(path) is not None:
                self.remark(UNREADABLE, path, "is a link that leads nowhere")
            return
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self.remark(UNREADABLE, path, f"cannot be read: {reason}")


def parse_mask(text: str) -> int | None:
    """Groups of 32 bits in hexadecimal, highest first; None when it is something else."""
    if not MASK.fullmatch(text) or len(text) > LARGEST_ID // 3:
        return None
    bits = 0
    for group in text.split(","):
        bits = bits << 32 | int(group, 16)
    return bits if bits.bit_length() <= LARGEST_ID + 1 else None


def _printable(text: str) -> str:
    """Names of files may be bytes that are not text."""
    return text.encode(errors="backslashreplace").decode()


def _plain(text: str) -> int | None:
    """A number as the kernel writes it into a name: no sign, no leading zero."""
    if not text.isascii() or not text.isdecimal() or (text[0] == "0" and text != "0"):
        return None
    number = int(text) if len(text) < 10 else LARGEST_ID + 1
    return number if number <= LARGEST_ID else None


Stamp = tuple[int, int, int] | None
"""What tells a file from another of its name; None: there is none."""


def stamp(path: str | os.PathLike[str]) -> Stamp:
    """The stamp of a file: its number, when it was changed, its size."""
    try:
        return stamp_there(path)
    except OSError:
        return None


def stamp_there(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    """Likewise, of a file that must be there (``OSError``)."""
    there = os.stat(path)  # noqa: PTH116 - quicker
    return there.st_ino, there.st_mtime_ns, there.st_size
