"""The archive of a bundle: members by name, packed the same way every time, and opened with suspicion.

Rules kept here:

1. Packed is plain ``ustar`` inside gzip, below one folder; equal members and equal time make equal bytes.
2. Opened is what is plain: files and folders with short relative names.  Links, devices, names that lead
   out of the folder, repeated names and headers of other formats are refused, by name.
3. Nothing is written to disk, and no more is unpacked than ``LARGEST`` bytes and ``MOST`` members.
4. A folder with the same members is taken like an archive, so that an unpacked bundle still is one.
"""

import io
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from numawise.codec.infile import is_file, is_folder, opened, read_raw, reading
from numawise.errors import InputError, quoted

FOLDER = "numawise-bundle"
LARGEST_ARCHIVE, LARGEST, MOST, DEEPEST = 64 << 20, 64 << 20, 512, 4
"""Bytes packed, bytes unpacked, members, and folders within folders; all far beyond any node."""
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
BLOCK, CHUNK = 512, 1 << 16
FILES, DIRECTORIES = (b"0", b"\0"), (b"5",)
KINDS = {
    b"1": "is a hard link",
    b"2": "is a symbolic link",
    b"3": "is a device",
    b"4": "is a device",
    b"6": "is a pipe",
    b"S": "is a sparse file",
}
MAKE_ONE = "give what 'numawise bundle' wrote"
AS_FOLDER = "unpack it, and give the folder instead"

MANIFEST = "manifest.json"

Members = Mapping[str, bytes]


def is_bundle(path: str) -> bool:
    """Whether a path leads to something that is meant as a bundle."""
    return is_file(f"{path}/{MANIFEST}") or (path.endswith((".tar.gz", ".tgz")) and is_file(path))


def pack(members: Members, when: int) -> bytes:
    """The archive of these members; ``when``: seconds since 1970, for all of them."""
    import gzip  # noqa: PLC0415 - whoever asks whether a path is a bundle does without
    import tarfile  # noqa: PLC0415

    packed = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", 9, packed, mtime=when) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(members):
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mtime, entry.mode = len(members[name]), when, 0o644
            archive.addfile(entry, io.BytesIO(members[name]))
    return packed.getvalue()


def read_members(path: str) -> dict[str, bytes]:
    """The members of an archive, or of a folder with the same content, by name."""
    if is_folder(path):
        with reading(path):
            return dict(_folder(Path(path)))
    with opened(path) as stream:
        return unpack(stream.read(LARGEST_ARCHIVE + 1), path)


def unpack(raw: bytes, file: str) -> dict[str, bytes]:
    """The members of an archive by name (rules 2 and 3)."""
    if len(raw) > LARGEST_ARCHIVE:
        raise InputError(f"is larger than {LARGEST_ARCHIVE >> 20} MiB", file=file, advice=MAKE_ONE)
    if raw[:2] != b"\x1f\x8b":
        raise InputError("is not a bundle: it is not compressed with gzip", file=file, advice=MAKE_ONE)
    found: dict[str, bytes] = {}
    for name, content in _entries(_inflated(raw, file), file):
        if name in found:
            raise _bad(file, name, "is included twice")
        found[name] = content
        if len(found) > MOST:
            raise _bad(file, name, f"is one of more than {MOST} members")
    return _without_folder(found)


def member_name(name: str) -> str:
    """What is wrong with the name of a member; '' when it may stand."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        return "points outside the bundle"
    if len(parts) > DEEPEST + 1:
        return "is nested too deeply"
    if not all(PART.fullmatch(part) for part in parts):
        return "has a name that no bundle member may have"
    return ""


def _inflated(raw: bytes, file: str) -> bytes:
    import zlib  # noqa: PLC0415 - likewise

    stream = zlib.decompressobj(31)
    out = bytearray()
    try:
        rest = raw
        while not stream.eof:
            piece = stream.decompress(rest, CHUNK)
            rest = stream.unconsumed_tail
            out += piece
            if len(out) > LARGEST:
                raise InputError(f"unpacks to more than {LARGEST >> 20} MiB", file=file, advice=MAKE_ONE)
            if not piece and not rest:
                break
    except zlib.error as problem:
        raise InputError(f"is damaged: {problem}", file=file, advice="copy it again") from None
    if not stream.eof:
        raise InputError("is cut off", file=file, advice="copy it again")
    if stream.unused_data.strip(b"\0"):
        raise InputError("has data after its end", file=file, advice=MAKE_ONE)
    return bytes(out)


def _entries(data: bytes, file: str) -> Iterator[tuple[str, bytes]]:
    """The files of a tar, one header after the other; no header is believed further than the data go."""
    at = 0
    while header := data[at : at + BLOCK].rstrip(b"\0"):
        header = data[at : at + BLOCK]
        at += BLOCK
        name = _name(header)
        if len(header) < BLOCK or not _sound(header):
            raise InputError("is damaged: a tar header is invalid", file=file, advice="copy it again")
        kind, size = header[156:157], _octal(header[124:136])
        if kind in DIRECTORIES:
            continue
        if kind not in FILES:
            what = KINDS.get(kind, "has a header of an unsupported tar format")
            raise _bad(file, name, what, AS_FOLDER if kind not in KINDS else MAKE_ONE)
        if wrong := member_name(name):
            raise _bad(file, name, wrong)
        if size is None or size > len(data) - at:
            raise _bad(file, name, "is cut off or has no proper size")
        yield name, data[at : at + size]
        at += -(-size // BLOCK) * BLOCK


def _name(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    if header[257:263] == b"ustar\0" and (prefix := header[345:500].partition(b"\0")[0]):
        name = prefix + b"/" + name
    return name.decode(errors="replace").removeprefix("./")


def _sound(header: bytes) -> bool:
    checksum = _octal(header[148:156])
    return checksum == sum(header[:148]) + sum(header[156:]) + 8 * ord(" ")


def _octal(field: bytes) -> int | None:
    digits = field.strip(b"\0 ")
    return int(digits, 8) if re.fullmatch(rb"[0-7]{1,11}", digits) else None


def _without_folder(found: Members) -> dict[str, bytes]:
    """The members without the folder that they all lie in."""
    folders = {name.partition("/")[0] for name in found}
    if len(folders) == 1 and all("/" in name for name in found):
        return {name.partition("/")[2]: content for name, content in found.items()}
    return dict(found)


def _folder(place: Path) -> Iterator[tuple[str, bytes]]:
    size = count = 0
    for folder, below, files in os.walk(place):
        below.sort()
        for one in sorted((*files, *(name for name in below if (Path(folder) / name).is_symlink()))):
            path = Path(folder) / one
            name = path.relative_to(place).as_posix()
            if one.startswith("."):
                continue
            if wrong := member_name(name):
                raise _bad(str(place), name, wrong)
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode):
                raise _bad(str(place), name, "is not a regular file")
            size, count = size + found.st_size, count + 1
            if size > LARGEST or count > MOST:
                raise _bad(str(place), name, f"exceeds {MOST} files or {LARGEST >> 20} MiB")
            yield name, read_raw(path, LARGEST)[0]


def _bad(file: str, name: str, what: str, advice: str = MAKE_ONE) -> InputError:
    return InputError(f"the member {quoted(name)} {what}", file=file, advice=advice)
