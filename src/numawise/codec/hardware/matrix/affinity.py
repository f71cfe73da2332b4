"""Which affinity column of ``nvidia-smi topo -m`` a value stands in.

In a job or under WSL the driver leaves cells blank, so a lone ``0`` may be a CPU or a NUMA node, and a lone
``N/A`` may stand in two columns: only the position decides.  Rules kept here:

1. As many values as columns stand in their order.
2. Else the driver's own print is repeated for every way to fill the columns: tabs as tabs, or written out
   every eight columns.  The one way that gives the same places is the answer.
3. A terminal that wraps long lines swallows the tab at its edge, and values run together.  Its width is what
   explains the header and every whole row; the same replay then shows where to cut.
4. In a table aligned by hand, a value belongs to the heading above which it starts.
5. Several ways or none: not known.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations

from numawise.codec.hardware.matrix.links import GLUED_VALUES, NOT_AVAILABLE, well_formed
from numawise.values import dataclass

CPU, NUMA, OWN = COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
TAB = 8
NARROWEST, WIDEST = 20, 1200
WORD = re.compile(r"\S+")
LAST_NUMBER = re.compile(r"[0-9]+$")

Values = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Tail:
    """What follows the links of one row."""

    values: tuple[str, ...]
    starts: tuple[int, ...]
    """Where each value stands, tabs written out; the two parts of ``0N/A`` stand in one place."""
    end: int
    """Where the last link's cell ends."""
    label: int
    """Where the row's name stands: what is before it was put there by somebody else."""
    tabs: str | None = None
    """The text from the last link on, when tabs are still in it."""
    cells: tuple[str, ...] = ()
    """Name and links of the row."""
    text: str = ""
    """The row from its name on, tabs written out."""


@dataclass()
class Screen:
    """The terminal a print was copied from."""

    names: Sequence[str]
    columns: Sequence[str]
    header: str
    """The header from its first name on, tabs written out."""
    whole: Sequence[Tail] = ()
    """Rows in which every column has a value."""
    headings: Sequence[int] | None = None
    """Where the affinity columns start in the rows, if header and rows are aligned."""

    @cached_property
    def widths(self) -> list[int]:
        """Line lengths at which a terminal shows header and whole rows as they stand here."""
        if len(self.header) > 2 * WIDEST:
            return []
        names = "\t".join([*self.names, *self.columns])
        lines = (f"\t{names}", names)  # the second: the blank first cell was lost before
        wanted = self.header.strip()
        longest = min(max([len(wanted) + TAB, *(len(row.text) for row in self.whole)]), WIDEST)
        fits = [
            width
            for width in range(NARROWEST, longest + 1)
            if any(replay(line, width).strip() == wanted for line in lines)
        ]
        samples = [(printed(row.cells, row.values), row.text.rstrip()) for row in self.whole[:4]]
        return [w for w in fits if all(replay(line, w).rstrip() == text for line, text in samples)]


def separated(word: str) -> list[str]:
    """A value, or the values of ``0N/A``."""
    found = GLUED_VALUES.fullmatch(word)
    if not found:
        return [word]
    return [*([found[1]] if found[1] else []), *[NOT_AVAILABLE] * (len(found[2]) // 3)]


def place(tail: Tail, screen: Screen) -> Values | None:
    """The value of each column, None for a blank one; None when unknown."""
    count = len(screen.columns)
    if len(tail.values) == count:
        return tail.values
    if not tail.values or len(tail.values) > count:
        return None if tail.values else (None,) * count
    ways = list(_ways(tail.values, count))
    found: Sequence[Values] = []
    if tuple(screen.columns) == COLUMNS[:count]:
        found = _by_tabs(tail, ways) or _by_places(tail, ways) or _by_replay(tail, ways, screen)
    if not found and screen.headings and not screen.widths:
        found = _by_headings(tail, ways, screen.headings)
    return found[0] if len(found) == 1 else None


def printed(cells: Sequence[str], values: Sequence[str | None]) -> str:
    """A row as the driver prints it."""
    links = "".join("\t X " if cell == "X" else f"\t{cell}" for cell in cells[1:])
    return f"{cells[0]}{links}{_affinity(values)}"


def replay(line: str, width: int) -> str:
    """What is copied from a terminal of some width that was sent a line.

    A tab moves to the next stop, but not past the last column; behind a full line it does nothing.
    """
    shown: list[str] = []
    column = 0
    for at, cell in enumerate(line.split("\t")):
        if at and column < width:
            stop = min(column + TAB - column % TAB, width - 1)
            shown.append(" " * (stop - column))
            column = stop
        if cell:
            shown.append(cell)
            column += len(cell)
            if column > width:
                column = (column - 1) % width + 1
    return "".join(shown)


def _affinity(values: Sequence[str | None]) -> str:
    text = ""
    for at, value in enumerate(values):
        text += "\t\t" if at == 2 or (at == 1 and value == NOT_AVAILABLE) else "\t"
        text += value or ""
    return text


def _ways(values: Sequence[str], count: int) -> Iterator[Values]:
    """Every way to fill the columns in order."""
    for columns in combinations(range(count), len(values)):
        filled: list[str | None] = [None] * count
        for column, value in zip(columns, values, strict=True):
            filled[column] = value
        yield tuple(filled)


def _is_native(way: Values) -> bool:
    """Whether the driver could have printed it: no id is blank, nor a NUMA node where CPUs are known."""
    return (len(way) < 3 or way[2] is not None) and (len(way) < 2 or way[0] is None or way[1] is not None)


def _cut(values: Sequence[str], count: int) -> Iterator[Values]:
    """Every way to fill the columns when the first two values ran together."""
    found = LAST_NUMBER.search(values[0])
    if not found:
        return
    for at in range(found.start() + 1, found.end()):
        cpus, numa = values[0][:at], values[0][at:]
        if well_formed(cpus) and (numa == "0" or numa[0] != "0"):
            for filled in _ways([cpus, numa, *values[1:]], count):
                if filled[0] == cpus and filled[1] == numa:
                    yield filled


def _by_tabs(tail: Tail, ways: Sequence[Values]) -> list[Values]:
    if tail.tabs is None:
        return []
    cells = [cell.strip() for cell in tail.tabs.split("\t")]
    text = "\t".join(cells).rstrip("\t")
    found = [way for way in ways if _affinity(way).rstrip("\t") == text]
    if not found and ways and len(cells) == len(ways[0]) + 1:  # a spreadsheet's: one cell for each column
        direct = tuple(cell or None for cell in cells[1:])
        found = [way for way in ways if way == direct]
    return found


def _by_places(tail: Tail, ways: Sequence[Values]) -> list[Values]:
    if tail.tabs is not None:
        return []
    found: set[Values] = set()
    for origin in {tail.label, 0}:
        starts = [start - origin for start in tail.starts]
        for way in filter(_is_native, ways):
            line = (" " * (tail.end - origin) + _affinity(way)).expandtabs(TAB)
            if [word.start() for word in WORD.finditer(line)] == starts:
                found.add(way)
    return list(found)


def _by_replay(tail: Tail, ways: Sequence[Values], screen: Screen) -> list[Values]:
    if tail.tabs is not None or not screen.widths:
        return []
    text = tail.text.rstrip()
    found: set[Values] = set()
    for way in filter(_is_native, [*ways, *_cut(tail.values, len(screen.columns))]):
        line = printed(tail.cells, way)
        if any(replay(line, width).rstrip() == text for width in screen.widths):
            found.add(way)
    return list(found)


def _by_headings(tail: Tail, ways: Sequence[Values], headings: Sequence[int]) -> list[Values]:
    found = []
    for way in ways:
        above = [heading for heading, value in zip(headings, way, strict=True) if value is not None]
        if all(abs(start - heading) <= 1 for start, heading in zip(tail.starts, above, strict=False)):
            found.append(way)
    return found if tail.starts else []
