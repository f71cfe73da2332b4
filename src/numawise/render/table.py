"""Tables for people: aligned columns, colours and wrapped cells on a terminal, plain aligned text elsewhere.

Rules kept here:

1. A cell is one line; control characters in it are made visible before its width is measured.
2. In a pipe or a file nothing wraps and nothing is coloured, unless colours are asked for.
3. On a terminal a table that is too wide gives way in its widest columns.  Cells break at blanks, and behind
   commas and equals signs; words are never cut.  Where that is not enough, the first columns stand on
   lines of their own, above the others, as few as will do; at last every cell has a line of its own.
4. Widths are what a terminal draws, not the number of characters.
"""

import os
from collections.abc import Iterator, Sequence
from typing import IO

from numawise.errors import one_line
from numawise.render.terminal import BOLD, styled
from numawise.render.words import columns as columns_of
from numawise.render.words import pieces, wrap
from numawise.strconv import whole_number

GAP = INDENT = 2
BREAKS = " ,="
USUAL_WIDTH = 80

Rows = Sequence[Sequence[tuple[str, str] | str]]
Cells = Sequence[Sequence[tuple[str, str]]]


def table(columns: Sequence[str], rows: Rows, file: IO[str], *, color: bool | None = None) -> None:
    """Write a table; a cell may carry a style."""
    terminal = file.isatty()
    colored = bool(color if color is not None else terminal and colors_wanted())
    cells = [[_cell(cell) for cell in row] for row in [[(name, BOLD) for name in columns], *rows]]
    if not terminal:
        file.writelines(_stacked(cells, (), _widest(cells), colored=colored))
        return
    file.writelines(_fitting(cells, terminal_width(file), colored=colored))


def _fitting(cells: Cells, width: int, *, colored: bool) -> Iterator[str]:
    """The first layout that fits a terminal without cutting a word (rule 3)."""
    for above in range(max(1, len(cells[0]) - 1)):
        widths = _narrowed([row[above:] for row in cells], width - (INDENT if above else 0))
        heads = _widest([row[:above] for row in cells])
        if widths is not None and sum(heads) + GAP * (above - 1) <= width:
            yield from _stacked(cells, heads, widths, colored=colored)
            return
    yield from _records(cells, width, colored=colored)


def _stacked(cells: Cells, heads: Sequence[int], widths: Sequence[int], *, colored: bool) -> Iterator[str]:
    """The first columns on lines of their own, said once for rows that share them."""
    above, before = len(heads), None
    indent = " " * INDENT if above else ""
    for row in cells:
        if above and row[:above] != before:
            before = row[:above]
            yield from _lines(before, heads, colored=colored)
        yield from (indent + line for line in _lines(row[above:], widths, colored=colored))


def _records(cells: Cells, width: int, *, colored: bool) -> Iterator[str]:
    """Each row as lines of its own, a cell to a line."""
    heads, *rows = cells
    label = max((columns_of(name) for name, _ in heads), default=0)
    for number, row in enumerate(rows):
        if number:
            yield "\n"
        for head, cell in zip(heads, row, strict=True):
            if not cell[0]:
                continue
            if label + GAP + _least(cell[0]) > width:  # the name above, and the words below it
                yield from _lines([head], [label], colored=colored)
                yield from _lines([cell], [width], colored=colored)
            else:
                yield from _lines([head, cell], [label, width - label - GAP], colored=colored)


def sentences(text: str, file: IO[str], style: str = "") -> None:
    """Write lines; on a terminal they are broken between words, and go on below their beginning."""
    width = terminal_width(file) if file.isatty() else 0
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        broken = wrap(line.lstrip(), width - len(indent) - GAP, columns_of) if width else [line.lstrip()]
        for number, part in enumerate(broken):
            more = " " * GAP if number else ""
            file.write(f"{indent}{more}{styled(part, style)}\n" if part else "\n")


def colors_wanted() -> bool:
    """Whether a terminal is to be coloured when nobody says otherwise."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("", "dumb")


def terminal_width(file: IO[str]) -> int:
    """How many columns a terminal has."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and whole_number(given):
        return whole_number(given)
    try:
        return os.get_terminal_size(file.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):
        return USUAL_WIDTH


def _cell(cell: tuple[str, str] | str) -> tuple[str, str]:
    text, style = (cell, "") if isinstance(cell, str) else cell
    return one_line(text), style


def _widest(cells: Cells) -> list[int]:
    return [max((columns_of(text) for text, _ in column), default=0) for column in zip(*cells, strict=True)]


def _least(text: str) -> int:
    """The width of the longest word."""
    return max((columns_of(piece.rstrip()) for piece in pieces(text, BREAKS)), default=0)


def _narrowed(cells: Cells, width: int) -> list[int] | None:
    """Widths that fit, the widest columns giving way; None: words would have to be cut."""
    widths = _widest(cells)
    least = [max((_least(text) for text, _ in column), default=0) for column in zip(*cells, strict=True)]
    room = width - GAP * (len(widths) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        open_to = [at for at, size in enumerate(widths) if size > least[at]]
        widths[max(open_to, key=widths.__getitem__)] -= 1
    return widths


def _lines(row: Sequence[tuple[str, str]], widths: Sequence[int], *, colored: bool) -> Iterator[str]:
    columns = [
        wrap(text, width, columns_of, breaks=BREAKS) for (text, _), width in zip(row, widths, strict=True)
    ]
    for number in range(max(map(len, columns), default=0)):
        parts = []
        for (_, style), texts, width in zip(row, columns, widths, strict=True):
            text = texts[number] if number < len(texts) else ""
            blanks = " " * (width - columns_of(text))
            parts.append((styled(text, style) if colored else text) + blanks)
        yield (" " * GAP).join(parts).rstrip() + "\n"
