"""The header of a matrix in lines: which columns it names, and where they stand.

Rules kept here:

1. GPUs come first, then NICs, then the affinity columns; what stands before the first GPU is somebody else's.
2. A header may have lost its blank first cell, may have been wrapped, and names may have run together.
3. Where the line was cut off, the last name is not taken for a whole one.
"""

import re
from collections.abc import Iterator, Sequence

from numawise.codec.hardware import pasted
from numawise.codec.hardware.matrix.affinity import COLUMNS, CPU, NUMA, OWN
from numawise.codec.hardware.matrix.table import GPU_NAME, GPU_ROW, HEADER_LINES, NAME, RULE
from numawise.values import dataclass, replace

WORD = re.compile(r"\S+")
DRESS = "*`\"'#>|"
HEADER_PART = re.compile(
    r"GPU[0-9]+|NIC[0-9]+|CPU(?=Aff|$)|NUMA(?=Aff|ID|$)|GPU(?=NUMA|$)|Affinity|ID(?=$)"
    r"|[^\s]+?(?=GPU[0-9]|NIC[0-9]|CPU(?:Aff|$)|$)"
)
MOST_NAMES = 1000  # far beyond any machine
AFFINITY_WORDS = ("CPU", "NUMA", "Affinity", "GPU", "ID")
AFFINITY_COLUMN = re.compile(r"(GPUNUMAID|NUMAID)|(CPU(?:Affinity)?)|(NUMA(?:Affinity)?)")


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the header and where it stands."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Header:
    """The names above the columns."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    line: int
    text: str
    """Tabs written out."""
    start: int = 0
    """Where its first name stands."""
    headings: tuple[int, ...] = ()
    """Where the affinity columns stand."""
    is_partial: bool = False
    """The last affinity column has only the beginning of its name."""
    cut: bool = False
    """The header is cut off, and so may be the last values."""


def joined(parts: Sequence[str], width: int) -> list[str]:
    """The ways to join what was one line: as a terminal of some width cut it, and as words."""
    if len(parts) == 1:
        return [parts[0]]
    hard = "".join(part.ljust(width) for part in parts[:-1]) + parts[-1]
    return [hard, " ".join(parts)]


def headers(lines: Sequence[str], first: int) -> Iterator[Header]:
    """What may be the header above a row: one line, or several when it was wrapped."""
    parts: list[str] = []
    top = -1
    names: set[str] = set()
    for at in range(first - 1, max(first - HEADER_LINES, -1), -1):
        if RULE.fullmatch(lines[at]):
            if names:
                break
            continue
        found = GPU_NAME.findall(lines[at])
        if (names and (not found or names & set(found))) or GPU_ROW.search(lines[at]):
            break
        names |= set(found)
        parts.insert(0, lines[at])
        top = at
    if not names:
        return
    width = max(len(line) for line in [*parts, *lines[first : first + 2]])
    for text in joined(parts, width):
        header = _header_of(text, top)
        if header:
            yield header


def _header_of(text: str, line: int) -> Header | None:
    shown, where = pasted.expanded(text)
    parts: list[Token] = []
    for token in WORD.finditer(text):
        word = token[0].strip(DRESS)
        start = token.start() + token[0].find(word)
        parts += [Token(p[0], where[start + p.start()]) for p in HEADER_PART.finditer(word) if p[0]]
    if len(parts) > MOST_NAMES:
        return None
    heads: list[Token] = []
    cut = False
    while parts and not GPU_NAME.fullmatch(parts[-1].text):
        last = parts[-1].text
        if last not in AFFINITY_WORDS:
            if heads or not any(word != last and word.startswith(last) for word in (*AFFINITY_WORDS, "NIC")):
                break
            cut = True
        heads.insert(0, parts.pop())
    nics: list[Token] = []
    while parts and not GPU_NAME.fullmatch(parts[-1].text):
        if parts[-1].text in AFFINITY_WORDS or not NAME.fullmatch(parts[-1].text):
            return None
        nics.insert(0, parts.pop())
    gpus: list[Token] = []
    while parts and GPU_NAME.fullmatch(parts[-1].text) and all(g.text != parts[-1].text for g in gpus):
        gpus.insert(0, parts.pop())
    names = [*gpus, *nics]
    if not heads and any(name.text == names[-1].text for name in names[:-1]):  # NIC1, cut from NIC10
        names.pop()
        cut = True
    if not gpus or len({name.text for name in names}) < len(names):
        return None
    header = Header(tuple(name.text for name in names), (), line, shown, names[0].start, cut=cut)
    return _with_columns(header, heads)


def _with_columns(header: Header, heads: Sequence[Token]) -> Header:
    text = "".join(head.text for head in heads)
    places = [head.start for head in heads for _ in head.text]
    columns: dict[str, int] = {}
    rest = 0
    is_partial = False
    for found in AFFINITY_COLUMN.finditer(text):
        column = OWN if found[1] else CPU if found[2] else NUMA
        if column in columns:
            break
        columns[column] = places[found.start()]
        rest, is_partial = found.end(), found[0] in ("CPU", "NUMA")
    missing = next((column for column in COLUMNS if column not in columns), None)
    if text[rest:] and missing and missing.replace(" ", "").startswith(text[rest:]):
        columns[missing] = places[rest]
        header = replace(header, cut=True)
    headings = tuple(columns.values())
    return replace(header, columns=tuple(columns), headings=headings, is_partial=is_partial)
