"""Long lists of objects in JSON, as ``kubectl get -o json`` prints them, one object as values at a time.

Rules kept here:

1. Where each object stands in the text is found first, and it is read when its turn comes: the values of a
   whole list take many times the memory of its text.
2. A file may be packed by gzip; at most ``LARGEST_UNPACKED`` bytes of it are unpacked.
3. What is no such list is for ``codec.document`` to judge, as long as that would read it.
"""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import msgspec

from numawise.codec.infile import LARGEST_FILE, read_raw
from numawise.errors import InputError, one_line

LARGEST_LIST, LARGEST_UNPACKED = 512 << 20, 128 << 20
PACKED = b"\x1f\x8b"
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Listed(msgspec.Struct):
    kind: str
    items: list[msgspec.Raw]


class ObjectList:
    """The objects of a list; each is read whenever its turn comes."""

    def __init__(self, file: str, size: int, kind: str, places: list[msgspec.Raw]) -> None:
        self.file, self.size, self.kind, self._places = file, size, kind, places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[object]:
        for place in self._places:
            try:
                yield msgspec.json.decode(place)
            except UNREADABLE as problem:
                raise _unreadable(self.file, problem) from None


def object_list(path: Path, largest: int = LARGEST_LIST) -> ObjectList | None:
    """The list of a file; None: it is something else (rule 3).  ``largest``: bytes of its text."""
    size = path.stat().st_size  # room is made for as much as may be read
    raw, file = read_raw(path, min(largest, size + LARGEST_FILE))
    packed = raw.startswith(PACKED)
    if packed:
        raw = _unpacked(raw, file, min(largest, LARGEST_UNPACKED))
    try:
        listed = msgspec.json.decode(raw, type=_Listed)
    except UNREADABLE as problem:
        if not packed and len(raw) <= LARGEST_FILE:
            return None
        raise _unreadable(file, problem) from None
    return ObjectList(file, len(raw), listed.kind, listed.items)


def _unpacked(raw: bytes, file: str, largest: int) -> bytes:
    """Rule 2."""
    import gzip  # noqa: PLC0415 - few files are packed
    import zlib  # noqa: PLC0415

    try:
        with gzip.open(BytesIO(raw)) as stream:
            unpacked = stream.read(largest + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise InputError(f"cannot be unpacked: {problem}", file=file, advice="pack it again") from None
    if len(unpacked) > largest:
        what = f"has more than {largest >> 20} MiB when it is unpacked"
        raise InputError(what, file=file, advice="give it unpacked to a command")
    return unpacked


def _unreadable(file: str, problem: Exception) -> InputError:
    advice = "give what kubectl get -o json prints"
    return InputError(f"is no list of objects in JSON: {one_line(str(problem))}", file=file, advice=advice)
