"""Texts that carry a kubelet's configuration: user data of machines, encoded files, scripts, TOML.

Rules kept here:

1. A text may be packed: base64, gzip, both, or a ``data:`` URL.  What is unpacked is bounded.
2. MIME user data is taken apart by its boundary; every part keeps the line where it begins.
3. Of a shell script the arguments for the kubelet count (``bootstrap.sh --kubelet-extra-args``,
   ``--kubelet-arg``), and files that it writes by ``<<``.  Variables are not known and are passed over.
4. TOML has the lines of its keys.
"""

import base64
import binascii
import re
import tomllib
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from urllib.parse import unquote_to_bytes

from numawise.codec.document import Document
from numawise.codec.kubelet.flags import Flag, Word, read_words, words_of
from numawise.codec.lines import Steps, line_index
from numawise.errors import InputError
from numawise.values import dataclass

LARGEST_TEXT = 16 << 20
GZIP_MAGIC, ANY_HEADER = b"\x1f\x8b", 47
ENCODINGS = {
    "": (False, False), "text/plain": (False, False),
    "b64": (True, False), "base64": (True, False),
    "gz": (False, True), "gzip": (False, True),
    "gz+b64": (True, True), "gz+base64": (True, True), "gzip+b64": (True, True), "gzip+base64": (True, True),
}  # fmt: skip
"""How a file is packed, as cloud-init and Cluster API call it → base64, gzip."""
DATA_URL = re.compile(r"data:([^,]*),(.*)", re.DOTALL)
BASE64 = re.compile(r"[A-Za-z0-9+/\s]{16,}+={0,2}\s*+")
UNPRINTABLE = re.compile("[\x00-\x08\x0e-\x1f\ufffd]")
MIME = re.compile(r"\s*(MIME-Version:|Content-Type:\s*multipart/)", re.IGNORECASE)
BOUNDARY = re.compile(r"boundary=\"?([^\"\s;]+)\"?", re.IGNORECASE)
TRANSFER = re.compile(r"^Content-Transfer-Encoding:\s*(\S+)", re.IGNORECASE | re.MULTILINE)
TOML_TABLE = re.compile(
    r"^[ \t]*+(\[+[ \t]*+\"?settings\"?\s*[.\]]|\"?settings\"?\s*\.\s*\"?kubernetes\"?\b.*=)", re.MULTILINE
)
HEADER = re.compile(r"\s*\[+([^\]]+)\]+\s*(#.*)?")
ASSIGNMENT = re.compile(r"\s*((?:\"[^\"]*\"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:\"[^\"]*\"|'[^']*'|[\w-]+))*)\s*=")
KEY = re.compile(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)")
SCRIPT = re.compile(r"(^|[\s/])bootstrap\.sh\s|--kubelet-arg\b|--kubelet-extra-args\b")
SCRIPT_WORDS = ("bootstrap.sh", "--kubelet-")
"""One of them is in every text that the pattern finds; files of many megabytes mostly have none."""
KEY_LINE = re.compile(r"(?:- )?[\w.\"-]+:(?:\s|$)|---|[{\[]")
HERE = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1([^\n]*)\n")
WRITTEN = re.compile(r"(?:>+|\btee\b(?:\s+-\w+)*)\s*[\"']?([^\s\"'|;<>]+)")
EXTRA, ARGUMENT = "--kubelet-extra-args", "--kubelet-arg"


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A text inside another, and the line of the file where it begins."""

    text: str
    line: int
    path: str = ""
    """Of the file that is written with it; '' when it is none."""
    packed: bool = False
    """It stands packed on that line."""


# --- packed texts -----------------------------------------------------------------------------


def unpacked(text: str, encoding: str = "") -> str | None:
    """A file's content; None when it cannot be unpacked."""
    ways = ENCODINGS.get(encoding.lower())
    if ways is None:
        return None
    raw: bytes | None = text.encode(errors="replace")
    if ways[0]:
        raw = _from_base64(text)
    if raw is not None and (ways[1] or raw.startswith(GZIP_MAGIC)):
        raw = _from_gzip(raw)
    return None if raw is None else raw.decode("utf-8", errors="replace")


def from_data_url(text: str, compression: str = "") -> str | None:
    """The content of a ``data:`` URL; None when it is another URL, or damaged."""
    url = DATA_URL.fullmatch(text)
    if url is None:
        return None
    raw = _from_base64(url[2]) if url[1].endswith("base64") else unquote_to_bytes(url[2])
    if raw is not None and (compression == "gzip" or raw.startswith(GZIP_MAGIC)):
        raw = _from_gzip(raw)
    return None if raw is None else raw.decode("utf-8", errors="replace")


def plain_text(text: str) -> str:
    """Text that may be base64 as a whole, as machines' user data often is."""
    if BASE64.fullmatch(text):
        inside = unpacked(text, "base64")
        if inside is not None and not UNPRINTABLE.search(inside):
            return inside
    return text


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def _from_gzip(raw: bytes) -> bytes | None:
    try:
        return zlib.decompressobj(wbits=ANY_HEADER).decompress(raw, LARGEST_TEXT)
    except zlib.error:
        return None


# --- MIME -------------------------------------------------------------------------------------


def mime_parts(text: str, line: int) -> tuple[TextPiece, ...] | None:
    """The parts of a MIME text; None when it is none."""
    if not MIME.match(text):
        return None
    boundary = BOUNDARY.search(text)
    if boundary is None:
        return ()
    return tuple(_parts(text.split("\n"), f"--{boundary[1]}", line))


def _parts(lines: list[str], mark: str, first: int) -> Iterator[TextPiece]:
    starts = [at for at, one in enumerate(lines) if one.strip() in (mark, f"{mark}--")]
    for start, end in pairwise([*starts, len(lines)]):
        blank = next((at for at in range(start + 1, end) if not lines[at].strip()), end)
        if ":" not in "".join(lines[start + 1 : blank]) or blank == end:
            continue
        text = "\n".join(lines[blank + 1 : end])
        way = TRANSFER.search("\n".join(lines[start + 1 : blank]))
        if way and way[1].lower() == "base64":
            text = unpacked(text, "base64") or ""
        yield TextPiece(text, first + blank + 1)


# --- shell scripts ----------------------------------------------------------------------------


def is_script(text: str) -> bool:
    """Whether a text is a script, or a command, that starts a kubelet; not an object that has one."""
    if text.lstrip().startswith("#!"):
        return True
    if not any(word in text for word in SCRIPT_WORDS) or not SCRIPT.search(text):
        return False
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return not KEY_LINE.match(first)


def script_flags(text: str, line: int) -> tuple[Flag, ...]:
    """The flags that a script passes to the kubelet (rule 3)."""
    words = list(words_of(_without_files(text), line))
    kept: list[Word] = []
    for word, after in zip(words, [*words[1:], Word("", 0)], strict=True):
        name, equals, value = word.text.partition("=")
        if name not in (EXTRA, ARGUMENT):
            continue
        inner = Word(value, word.line) if equals else after
        if name == EXTRA:
            kept += words_of(inner.text, inner.line)
        else:
            kept.append(Word(f"--{inner.text.lstrip('-')}", inner.line))
    return read_words(one for one in kept if not one.text.startswith("$"))


def script_files(text: str, line: int) -> Iterator[TextPiece]:
    """The files that a script writes by ``<<``."""
    for start, stop in _here_documents(text):
        before = text[text.rfind("\n", 0, start.start()) + 1 : start.start()] + start[3]
        path = WRITTEN.search(before)
        first = line + text.count("\n", 0, start.end())
        yield TextPiece(text[start.end() : stop], first, path[1] if path else "")


def _here_documents(text: str) -> Iterator[tuple[re.Match[str], int]]:
    at = 0
    while (start := HERE.search(text, at)) is not None:
        end = re.compile(rf"^\s*{start[2]}\s*$", re.MULTILINE).search(text, start.end())
        at = end.start() if end else len(text)
        yield start, at


def _without_files(text: str) -> str:
    kept, at = "", 0
    for start, stop in _here_documents(text):
        inside = text[start.end() : stop]
        kept += text[at : start.start()] + "\n" * (1 + inside.count("\n"))
        at = stop
    return kept + text[at:]


# --- TOML -------------------------------------------------------------------------------------


def is_toml(text: str) -> bool:
    """Whether a text is a Bottlerocket configuration."""
    return "settings" in text and TOML_TABLE.search(text) is not None and "{{" not in text.partition("=")[0]


def toml_document(text: str, file: str, line: int) -> Document:
    """A TOML text as a document (rule 4)."""
    try:
        value = tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as problem:
        at = re.search(r"\(at line (\d+)", str(problem))
        what = re.sub(r"\s*\(at .*\)$", "", str(problem))
        where = line + (int(at[1]) - 1 if at else 0)
        advice = "check quotes, brackets and the name of the table there"
        raise InputError(f"is not valid TOML: {what}", file=file, line=where, advice=advice) from None
    lines: dict[Steps, int] = {(): line}
    for steps, number in _toml_lines(text, line):
        for taken in range(1, len(steps) + 1):
            lines.setdefault(steps[:taken], number)
    return Document(value, file, 0, cache(lambda: line_index(value, lines.get)))


def _toml_lines(text: str, first: int) -> Iterator[tuple[Steps, int]]:
    table: Steps = ()
    for at, line in enumerate(text.split("\n"), first):
        header = HEADER.fullmatch(line)
        if header:
            table = _keys(header[1])
            yield table, at
            continue
        assignment = ASSIGNMENT.match(line)
        if assignment:
            yield (*table, *_keys(assignment[1])), at


def _keys(text: str) -> Steps:
    return tuple(next(filter(None, key.groups()), "") for key in KEY.finditer(text))
