"""Tables for people: aligned columns, colours and wrapped cells on a terminal, plain aligned text elsewhere.

Rules kept here:

1. A cell is one line; control characters in it are made visible before its width is measured.
2. In a pipe or a file nothing wraps and nothing is coloured, unless colours are asked for.
3. On a terminal a table that is too wide gives way in its widest columns.  Cells break at blanks and behind
   commas; a word breaks only where it alone is wider than its column.
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

GAP = 2
USUAL_WIDTH = 80

Rows = Sequence[Sequence[tuple[str, str] | str]]


def table(columns: Sequence[str], rows: Rows, file: IO[str], *, color: bool | None = None) -> None:
    """Write a table; a cell may carry a style."""
    terminal = file.isatty()
    colored = color if color is not None else terminal and colors_wanted()
    cells = [[_cell(cell) for cell in row] for row in [[(name, BOLD) for name in columns], *rows]]
    widths = [max((columns_of(text) for text, _ in column), default=0) for column in zip(*cells, strict=True)]
    if terminal:
        widths = _narrowed(widths, cells, terminal_width(file))
    for row in cells:
        file.writelines(_lines(row, widths, wrapped=terminal, colored=bool(colored)))


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


def _narrowed(widths: list[int], cells: Sequence[Sequence[tuple[str, str]]], width: int) -> list[int]:
    """Widths that fit a terminal (rule 3)."""
    room = width - GAP * (len(widths) - 1)
    least = [
        max((columns_of(piece.rstrip()) for text, _ in column for piece in pieces(text)), default=0)
        for column in zip(*cells, strict=True)
    ]
    for floor in (least, [1] * len(widths)):
        while sum(widths) > room:
            open_to = [at for at, size in enumerate(widths) if size > floor[at]]
            if not open_to:
                break
            widths[max(open_to, key=widths.__getitem__)] -= 1
    return widths


def _lines(
    row: Sequence[tuple[str, str]], widths: Sequence[int], *, wrapped: bool, colored: bool
) -> Iterator[str]:
    columns = [
        wrap(text, width, columns_of) if wrapped else [text]
        for (text, _), width in zip(row, widths, strict=True)
    ]
    for number in range(max(map(len, columns), default=0)):
        parts = []
        for (_, style), texts, width in zip(row, columns, widths, strict=True):
            text = texts[number] if number < len(texts) else ""
            blanks = " " * (width - columns_of(text))
            parts.append((styled(text, style) if colored else text) + blanks)
        yield (" " * GAP).join(parts).rstrip() + "\n"
