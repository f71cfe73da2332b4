"""The rows of a matrix in lines: links under their columns, then affinity values.

Rules kept here:

1. A row is a name and links; what stands before the name in its line was put there by somebody else.
2. A row that was wrapped goes on in lines that hold nothing but links and values.
3. A row with as many links as columns, ``X`` in its own, is whole.  A shorter one counts as far as tabs, or
   the places of a whole row, identify the columns; else it is left out.
4. Where the text breaks off, the last word is not taken for a whole one if it need not be.
"""

import re
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from numawise.codec.hardware import pasted
from numawise.codec.hardware.matrix.affinity import COLUMNS, Screen, Tail, place, separated
from numawise.codec.hardware.matrix.header import DRESS, WORD, Header, headers, joined
from numawise.codec.hardware.matrix.links import (
    NOT_AVAILABLE,
    NVLINK,
    PEER_WORDS,
    VALUE_LIKE,
    Vocabulary,
    well_formed,
)
from numawise.codec.hardware.matrix.table import ANY_NAME, GPU_NAME, RULE, Grid, doubtful_names, some
from numawise.errors import quoted
from numawise.machine.hardware import ODD, UNKNOWN, UNREADABLE, Remark
from numawise.strconv import whole_number
from numawise.values import dataclass, field, replace

NO_CELL = re.compile(r"[:=]")
FRAGMENT = re.compile(r"[A-Z0-9,/-]{1,400}")
LEGEND_LINE = re.compile(r"\s*[A-Z#]+\s*= Connection")
STRAY_LINES = 3  # that may stand between rows


class MatrixCell(NamedTuple):
    """A word of a row and where it stands; None: it cannot be read."""

    text: str | None
    start: int
    end: int


@dataclass(slots=True)
class MatrixReading:
    """One way to read a row."""

    text: str
    links: list[MatrixCell] = field(default_factory=list)
    values: list[MatrixCell] = field(default_factory=list)
    peer: bool = False

    def is_whole(self, header: Header) -> bool:
        return len(self.links) == len(header.names) and all(link.text for link in self.links)


@dataclass(slots=True)
class MatrixRow:
    """One row as it was found."""

    label: str
    line: int
    parts: list[str]
    """Its lines: several when it was wrapped."""
    start: int
    """Where its name stands."""
    text: str = ""
    links: list[MatrixCell] = field(default_factory=list)
    values: list[MatrixCell] = field(default_factory=list)
    peer: bool = False
    is_cut: bool = False
    """The text ends in it."""

    @property
    def last(self) -> int:
        """The last line it stands in."""
        return self.line + len(self.parts) - 1

    @property
    def end(self) -> int:
        """Where its last word ends, tabs written out."""
        words = self.values or self.links
        return pasted.expanded(self.text)[1][words[-1].end] if words else 0


def read_rows(lines: Sequence[str], first: int, words: Vocabulary) -> Grid | None:
    """The matrix whose first row is in a line."""
    best: tuple[int, Header, list[MatrixRow]] | None = None
    for header in headers(lines, first):
        rows = _rows(lines, first, header, words)
        score = sum(len(row.links) == len(header.names) and row.label in header.names for row in rows)
        if rows and (best is None or score > best[0]):
            best = score, header, rows
    if best is None:
        return None
    header, rows, remarks = _agreed(best[1], best[2], lines)
    grid = Grid(header.names, header.columns, remarks=remarks, first=header.line)
    grid.last = rows[-1].last
    grid.peer = any(row.peer for row in rows)
    ends_here = not any(line.strip() for line in lines[grid.last + 1 :])
    is_cut = ends_here and grid.last == len(lines) - 1  # no line end behind the last row
    whole = [row for row in rows if len(row.links) == len(header.names)]
    own = {name: at for at, name in enumerate(header.names)}
    doubtful = doubtful_names(header.names, [row.label for row in rows])
    if doubtful:
        grid.names = tuple(name for name in header.names if name not in doubtful)
        text = f"{some(doubtful)} cannot be the name of a device"
        grid.remarks.append(Remark(UNREADABLE, "header", text))
    for row in rows:
        row.is_cut = is_cut and row is rows[-1]
        links = _placed(row, header, whole)
        if links is None or not _stands(row, links, own.get(row.label)):
            grid.remarks.append(Remark(UNREADABLE, row.label, "the row does not fit under the header"))
            continue
        unreadable = [name for name, link in links.items() if link is None]
        if unreadable:
            text = f"the links to {some(unreadable)} cannot be read"
            grid.remarks.append(Remark(UNREADABLE, row.label, text))
        grid.links[row.label] = {name: link for name, link in links.items() if link and name not in doubtful}
    _affinities(grid, header, [row for row in rows if row.label in grid.links])
    return grid


def _rows(lines: Sequence[str], first: int, header: Header, words: Vocabulary) -> list[MatrixRow]:
    known = set(header.names)
    pattern = _row_pattern(words.pattern)
    alike = _alike(header.names)
    rows: list[MatrixRow] = []
    stray, gap = 0, False
    for at in range(first, len(lines)):
        line = lines[at]
        if RULE.fullmatch(line):
            gap = True
            continue
        names = (f for f in pattern.finditer(line) if f[1] in known or alike.fullmatch(f[1]))
        found = next(names, None)
        if found:
            if any(row.label == found[1] for row in rows):
                break
            rows.append(MatrixRow(found[1], at, [line], found.start()))
            stray, gap = 0, False
        elif rows and not gap and _goes_on(line, known):
            rows[-1].parts.append(line)
        elif "Legend" in line or len(GPU_NAME.findall(line)) > 1:
            break
        else:
            stray, gap = stray + 1, True
            if stray > STRAY_LINES:
                break
    full = [part for row in rows for part in row.parts[:-1]]
    width = max((len(part) for row in rows for part in row.parts), default=0) if full else 0
    *over, last = (line for line in lines[header.line : first] if not RULE.fullmatch(line))
    by_screen = len(last) <= width and not any("\t" in p or len(p) != width for p in (*full, *over))
    by_words = not by_screen and not any(part[0].isspace() for row in rows for part in row.parts[1:])
    for row in rows:
        _parse(row, header, words, width, by_words=by_words)
    return rows


def _goes_on(line: str, names: Container[str]) -> bool:
    """Whether a line may be the rest of a row: links and values, or parts of them, and no name."""
    words = line.split()
    is_named = words[0] in names or ANY_NAME.fullmatch(words[0])
    return not is_named and all(map(FRAGMENT.fullmatch, words))


def _alike(names: Sequence[str]) -> re.Pattern[str]:
    """Names that a row may have though the header has not: of GPUs, and like those of the NICs."""
    letters = {re.sub(r"[^A-Za-z].*", "", name) for name in names} - {"", "X"}
    return re.compile(rf"(?:GPU|NIC)[0-9]+|(?:{'|'.join(sorted(letters))})[0-9]\w*")


@lru_cache(maxsize=64)
def _row_pattern(link: str) -> re.Pattern[str]:
    """A name, and a link behind it."""
    return re.compile(rf"(?<![\w/.-])([A-Za-z][\w.-]*)[ \t]+(?=(?:{link})+(?:[\s0-9,-]|N/A|$))")


def _parse(row: MatrixRow, header: Header, words: Vocabulary, width: int, *, by_words: bool) -> None:
    """Read a row; where it was wrapped, in the way that gives whole links and values."""
    ways = [_words(text, row, header, words) for text in joined(row.parts, width)]
    best = next((way for way in ways if way.is_whole(header)), ways[0])
    if by_words and ways[-1].is_whole(header) and len(best.values) < len(header.columns):
        best = ways[-1]
    row.text, row.links, row.values, row.peer = best.text, best.links, best.values, best.peer


def _words(text: str, row: MatrixRow, header: Header, words: Vocabulary) -> MatrixReading:
    """The links of a row's text, then its affinity values."""
    found = MatrixReading(text)
    columns = len(header.names)
    plain: set[str] = set()  # links that were met, so that a large matrix is read fast
    for token in WORD.finditer(text, row.start + len(row.label)):
        if token[0] in plain and not found.values:
            found.links.append(MatrixCell(token[0], *token.span()))
            continue
        word = token[0].strip(DRESS)
        start, end = token.start(), token.end()
        if not word:
            continue
        if not found.values:
            if words.is_link(word):
                plain.add(word)
                found.links.append(MatrixCell(word, start, end))
                continue
            several = words.links(word)
            if several:
                found.links += [MatrixCell(link, start, end) for link in several]
                continue
            both = words.links_and_value(word)
            if both:
                found.links += [MatrixCell(link, start, end - len(both[1])) for link in both[0]]
                found.values.append(MatrixCell(both[1], end - len(both[1]), end))
                continue
        if VALUE_LIKE.fullmatch(word):
            if found.values and (found.values[-1].text or "").endswith(","):  # 0-31, 64-95
                before = found.values.pop()
                found.values.append(MatrixCell(f"{before.text}{word}", before.start, end))
                continue
            found.values += [MatrixCell(value, start, end) for value in separated(word)]
        elif not found.values and len(found.links) < columns and not NO_CELL.search(word):
            found.peer = found.peer or word in PEER_WORDS
            found.links.append(MatrixCell(None, start, end))
        else:
            break
    if header.cut and len(found.links) == columns + 1:
        found.links.pop()
    return found


def _agreed(
    header: Header, rows: list[MatrixRow], lines: Sequence[str]
) -> tuple[Header, list[MatrixRow], list[Remark]]:
    """Header and rows that belong together: where the header lost or gained a name, the rows know."""
    size = len(header.names)
    if any(len(row.links) == size and row.label in header.names for row in rows):
        names = _corrected(header.names, rows)
        remarks = []
        if names != header.names:
            remarks.append(Remark(ODD, "header", "some of its names are damaged; the rows know them"))
            header = replace(header, names=names)
        if not header.columns and _is_cut_name(header.names, [row.label for row in rows]):
            header = replace(header, names=header.names[:-1], cut=True)
            for row in rows:
                del row.links[size - 1 :]
        return replace(header, cut=header.cut or _is_cut_right(header, rows, lines)), rows, remarks
    labels = tuple(row.label for row in rows)
    square = all(len(row.links) == len(rows) and row.links[at].text == "X" for at, row in enumerate(rows))
    if not square or not GPU_NAME.fullmatch(labels[0]):
        return header, rows, []
    text = "its names do not match the rows, which name themselves"
    return replace(header, names=labels), rows, [Remark(ODD, "header", text)]


def _corrected(names: tuple[str, ...], rows: Sequence[MatrixRow]) -> tuple[str, ...]:
    """The names, where one that no row has is replaced by that of the row with ``X`` below it."""
    labels = {row.label for row in rows}
    found = list(names)
    for row in rows:
        marked = [at for at, link in enumerate(row.links) if link.text == "X"]
        is_whole = len(row.links) == len(names) and len(marked) == 1
        if is_whole and row.label not in names and not _is_sure(names, marked[0], labels):
            found[marked[0]] = row.label
    return tuple(found) if len(set(found)) == len(found) else names


def _is_sure(names: Sequence[str], at: int, labels: Container[str]) -> bool:
    """Whether a name of the header needs no correction: a row has it, or it follows the one before it."""
    name = names[at]
    if name in labels:
        return True
    if not ANY_NAME.fullmatch(name) or len(name) > 8:
        return False
    before = names[at - 1] if at else ""
    if before[:3] != name[:3] or not ANY_NAME.fullmatch(before):
        return whole_number(name[3:]) == 0
    return whole_number(name[3:]) == whole_number(before[3:9]) + 1


def _is_cut_name(names: Sequence[str], labels: Sequence[str]) -> bool:
    """Whether the last name may be the beginning of one, such as ``mlx5`` or ``mlx5_1``."""
    *others, last = names
    if ANY_NAME.fullmatch(last) or last in labels:
        return False
    nics = [name for name in others if not GPU_NAME.fullmatch(name)]
    return any(nic in labels or nic.startswith(last) for nic in nics)


def _is_cut_right(header: Header, rows: Sequence[MatrixRow], lines: Sequence[str]) -> bool:
    """Whether the last affinity column ends where all lines do, as on a screen that was too narrow."""
    ends = {row.end for row in rows if GPU_NAME.fullmatch(row.label)}
    if not ends or not header.columns:
        return False
    end, width = len(header.text.rstrip()), max(ends)
    if any(len(line) == width and LEGEND_LINE.match(line) for line in lines):
        return all(len(line) <= width for line in lines)
    if header.is_partial:
        return end in (width, width - 1)
    has_tabs = any("\t" in row.text for row in rows)  # no screen keeps them
    return len(header.columns) == 1 and ends == {end} and not has_tabs


def _placed(row: MatrixRow, header: Header, whole: Sequence[MatrixRow]) -> dict[str, str | None] | None:
    """The links of a row by column; None if their places do not show it."""
    names = header.names
    links = [link.text for link in row.links]
    is_open = row.is_cut and not row.values and (len(links) < len(names) or header.columns)
    if is_open and links and (links[-1] or "").startswith("NV"):
        links[-1] = None  # NV1 may be the rest of NV18
        row.links[-1] = row.links[-1]._replace(text=None)
    if len(links) == len(names):
        return dict(zip(names, links, strict=True))
    if len(links) > len(names):
        return None
    if "\t" in row.text:
        found = _by_tabs(row, names)
        if found is not None:
            return found
    model = next((other for other in whole if len(other.label) // 8 == len(row.label) // 8), None)
    if model is not None:  # one whose name takes as many tab stops
        found = _by_model(row, names, model)
        if found is not None:
            return found
    if row.is_cut and not row.values and row.label in names and "X" in links:
        return {name: link.text for name, link in zip(names, row.links, strict=False)}
    return None


def _by_tabs(row: MatrixRow, names: Sequence[str]) -> dict[str, str | None] | None:
    """Links by the tabs before them."""
    found: dict[str, str | None] = {}
    for link in row.links:
        at = row.text.count("\t", row.start, link.start) - 1
        between = row.text[: link.start].rstrip(" ")
        if not 0 <= at < len(names) or names[at] in found or not between.endswith("\t"):
            return None
        found[names[at]] = link.text
    if row.values:
        is_anchored = row.text.count("\t", row.start, row.values[0].start) > len(names)
    else:
        is_anchored = row.is_cut or names[-1] in found
    return found if is_anchored else None  # else a cell is missing, and not only blank


def _by_model(row: MatrixRow, names: Sequence[str], model: MatrixRow) -> dict[str, str | None] | None:
    """Links by the columns in which they start, compared with a row that is whole."""
    wanted = {column: name for name, column in zip(names, _columns(model), strict=True)}
    if len(wanted) < len(names):
        return None
    found: dict[str, str | None] = {}
    for link, column in zip(row.links, _columns(row), strict=True):
        name = wanted.get(column)
        if name is None or name in found:
            return None
        found[name] = link.text
    if row.values:
        where = pasted.expanded(row.text)[1]
        is_anchored = where[row.values[0].start] - where[row.start] > max(wanted)
    else:
        is_anchored = row.is_cut or names[-1] in found
    return found if is_anchored else None


def _columns(row: MatrixRow) -> list[int]:
    """Where the cells of a row start, counted from its name; ``X`` stands one further right than others."""
    where = pasted.expanded(row.text)[1]
    return [where[link.start] - where[row.start] - (link.text == "X") for link in row.links]


def _stands(row: MatrixRow, links: Mapping[str, str | None], own: int | None) -> bool:
    """Whether ``X`` stands in the row's own column and nowhere else."""
    marked = [name for name, link in links.items() if link == "X"]
    if own is None:
        return not marked and all(links.values())
    if marked:
        return marked == [row.label]
    return row.label not in links or links[row.label] is None


def _affinities(grid: Grid, header: Header, rows: Sequence[MatrixRow]) -> None:
    """CPU and NUMA values of the GPUs' rows, each in its column."""
    rows = [row for row in rows if GPU_NAME.fullmatch(row.label)]
    columns = header.columns
    most = max((len(row.values) for row in rows), default=0)
    if most > len(columns):
        text = f"it names {len(columns)} affinity columns, and the rows have up to {most} values"
        grid.remarks.append(Remark(ODD, "header", text))
        is_even = all(len(row.values) == most for row in rows)
        columns = COLUMNS[:most] if is_even and (columns or most == len(COLUMNS)) else ()
    if not columns:
        grid.columns = ()
        return
    grid.columns = columns
    tails = {row.label: _tail(row) for row in rows}
    whole = [tail for tail in tails.values() if len(tail.values) == len(columns)]
    is_wrapped = any(len(row.parts) > 1 for row in rows)
    headings = None if is_wrapped else _headings(header, columns, whole)
    screen = Screen(header.names, columns, header.text[header.start :], whole, headings)
    for row in rows:
        tail = tails[row.label]
        values = place(tail, screen)
        if row.is_cut and tail.values and tail.values[-1] != NOT_AVAILABLE:
            if len(tail.values) < len(columns):
                values = None
            elif values and _more_gpus(row, header):
                values = (*values[:-1], None)
        if values is None:
            values_text = " ".join(tail.values) or "its values"
            text = f"it is unclear which columns {values_text} belong to"
            grid.remarks.append(Remark(UNKNOWN, f"{row.label} affinity", text))
            values = (None,) * len(columns)
            _drop_glued(grid, row.label, header.names[-1])
        named: dict[str, str | None] = dict(zip(columns, values, strict=True))
        for column, value in named.items():
            if value is not None and not well_formed(value):
                text = f"{quoted(value)} is not a list of ids"
                grid.remarks.append(Remark(UNREADABLE, f"{row.label} {column}", text))
                named[column] = None
            elif header.cut and column == columns[-1] and value not in (None, NOT_AVAILABLE):
                text = f"the column is cut off, and so may be {quoted(value)}"
                grid.remarks.append(Remark(UNKNOWN, f"{row.label} {column}", text))
                named[column] = None
        grid.values[row.label] = named


def _drop_glued(grid: Grid, row: str, last: str) -> None:
    """Forget the last link of a row if it may be ``NV1`` and a NUMA node that ran together."""
    link, back = grid.links[row].get(last, ""), grid.links.get(last, {}).get(row, "")
    if re.fullmatch(NVLINK, link) and re.fullmatch(NVLINK, back) and link != back and link.startswith(back):
        del grid.links[row][last]
        grid.remarks.append(Remark(UNREADABLE, row, f"the link to {last} may have run into the next column"))


def _more_gpus(row: MatrixRow, header: Header) -> bool:
    gpus = [name for name in header.names if GPU_NAME.fullmatch(name)]
    return row.label != gpus[-1]


def _tail(row: MatrixRow) -> Tail:
    text, where = pasted.expanded(row.text)
    last = row.links[-1] if row.links else MatrixCell(row.label, row.start, row.start + len(row.label))
    behind = row.text[last.end :]
    return Tail(
        values=tuple(value.text or "" for value in row.values),
        starts=tuple(where[value.start] for value in row.values),
        end=where[last.end] + (last.text == "X"),
        label=where[row.start],
        tabs=behind if "\t" in behind.strip(" ") else None,
        cells=(row.label, *(link.text or "?" for link in row.links)),
        text=text[where[row.start] :],
    )


def _headings(header: Header, columns: Sequence[str], whole: Sequence[Tail]) -> Sequence[int] | None:
    """Where the affinity columns start in the rows, if whole rows show that the header is aligned."""
    headings = header.headings
    if len(headings) != len(columns) or not whole:
        return None
    for tail in whole:
        if any(abs(start - heading) > 1 for start, heading in zip(tail.starts, headings, strict=True)):
            return None
    return headings
