"""Long lists of objects in JSON, as ``kubectl get -o json`` prints them, one object as values at a time.

Rules kept here:

1. Where each object stands in the text is found first, and it is read when its turn comes: the values of a
   whole list take many times the memory of its text.
2. A file may be packed by gzip; at most ``LARGEST_UNPACKED`` bytes of it are unpacked.
3. Objects are counted while they are looked for, and the values of one before it is read: a few packed bytes
   may be millions of them.  ``memory_of`` says what those take that are kept.
4. What is no such list is for ``codec.document`` to judge, as long as that would read it.
"""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import msgspec

from numawise.codec.forms import most_values_in
from numawise.codec.infile import LARGEST_FILE, read_raw
from numawise.errors import InputError, one_line

LARGEST_LIST, LARGEST_UNPACKED = 512 << 20, 128 << 20
MOST_VALUES = 500_000
"""Of one object; what etcd stores has far less."""
MOST_OBJECTS = 100_000
GIVE = "give what kubectl get -o json prints"
PIECE = 1 << 20
PACKED = b"\x1f\x8b"
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Listed(msgspec.Struct):
    kind: str
    items: list[msgspec.Raw]


class TooManyObjects(Exception):
    """A list has more objects than may be read."""


class ObjectList:
    """The objects of a list; each is read whenever its turn comes."""

    def __init__(self, file: str, size: int, kind: str, places: list[msgspec.Raw]) -> None:
        self.file, self.size, self.kind, self._places = file, size, kind, places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[object]:
        for number, place in enumerate(self._places):
            text = bytes(place)
            if most_values_in(text) > MOST_VALUES:
                what = f"has more than {MOST_VALUES:,} values"
                raise InputError(what, file=self.file, field=f"items[{number}]", advice=GIVE)
            try:
                yield msgspec.json.decode(text)
            except UNREADABLE as problem:
                raise _unreadable(self.file, problem) from None


def object_list(path: Path, largest: int = LARGEST_LIST, most: int = MOST_OBJECTS) -> ObjectList | None:
    """The list of a file; None: it is something else (rule 4).

    ``largest``: bytes of its text, ``most``: objects that it may have.
    """
    size = path.stat().st_size  # room is made for as much as may be read
    given, file = read_raw(path, min(largest, size + LARGEST_FILE))
    packed = given.startswith(PACKED)
    raw = _unpacked(given, file, min(largest, LARGEST_UNPACKED)) if packed else given
    try:
        msgspec.json.decode(raw, type=_counted(most))
        listed = msgspec.json.decode(raw, type=_Listed)
    except TooManyObjects:
        raise too_many(most, file) from None
    except UNREADABLE as problem:
        if not packed and len(raw) <= LARGEST_FILE:
            return None
        raise _unreadable(file, problem) from None
    return ObjectList(file, len(raw), listed.kind, listed.items)


def _counted(most: int) -> type:
    """A list whose objects are counted and skipped, so that none of them is kept (rule 3)."""
    left = most

    class Skipped(msgspec.Struct):
        def __post_init__(self) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise TooManyObjects

    class Counted(msgspec.Struct):
        kind: str
        items: list[Skipped]

    return Counted


def too_many(most: int, file: str) -> InputError:
    """More objects than may be read."""
    advice = "take the pods of some namespaces alone"
    return InputError(f"has more than {most:,} objects", file=file, advice=advice)


def memory_of(value: object) -> int:
    """About how many bytes plain values take, by their text: each has a bracket or a comma of its own."""
    text = repr(value)
    return (
        len(text) * (1 if text.isascii() else 4)
        + 128 * text.count("{")
        + 64 * (text.count("[") + text.count(","))
    )


def _unpacked(raw: bytes, file: str, largest: int) -> bytearray:
    """Rule 2; piece by piece, so that no more room is made than there is text."""
    import gzip  # noqa: PLC0415 - few files are packed
    import zlib  # noqa: PLC0415

    unpacked = bytearray()
    try:
        with gzip.open(BytesIO(raw)) as stream:
            while len(unpacked) <= largest and (piece := stream.read(PIECE)):
                unpacked += piece
    except (OSError, EOFError, zlib.error) as problem:
        raise InputError(f"cannot be unpacked: {problem}", file=file, advice="pack it again") from None
    if len(unpacked) > largest:
        what = f"has more than {largest >> 20} MiB when it is unpacked"
        raise InputError(what, file=file, advice="give it unpacked to a command")
    return unpacked


def _unreadable(file: str, problem: Exception) -> InputError:
    return InputError(f"is no list of objects in JSON: {one_line(str(problem))}", file=file, advice=GIVE)
