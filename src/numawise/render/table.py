"""Tables on a terminal; plain aligned text where there is none."""

from collections.abc import Iterator, Sequence
from typing import IO

GREEN, RED, YELLOW, DIM = "green", "red", "yellow", "dim"
UNBOUNDED = 4096

Rows = Sequence[Sequence[tuple[str, str] | str]]


def table(
    columns: Sequence[str],
    rows: Rows,
    file: IO[str],
    *,
    color: bool | None = None,
) -> None:
    """Write a table; a cell may carry a style.  Cells wrap at a terminal's width, never in a pipe."""
    if not file.isatty() and not color and _plain(rows):
        file.writelines(_aligned(columns, rows))
        return
    from rich.console import Console  # noqa: PLC0415 - costs time, and only drawing needs it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    terminal = file.isatty()
    console = Console(
        file=file,
        highlight=False,
        width=None if terminal else UNBOUNDED,
        no_color=None if color is None else not color,
        force_terminal=True if color else None,
        soft_wrap=not terminal,
    )
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        drawn.add_column(name, overflow="fold", no_wrap=not terminal)
    for row in rows:
        drawn.add_row(
            *(Text(cell) if isinstance(cell, str) else Text(cell[0], style=cell[1]) for cell in row)
        )
    if terminal or color:
        console.print(drawn)
        return
    with console.capture() as captured:
        console.print(drawn)
    file.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())


def _plain(rows: Rows) -> bool:
    """Whether every cell is one line of characters that take a column each."""
    return all(text.isascii() and text.isprintable() for row in rows for text in map(_text, row))


def _aligned(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """The same table without any drawing, many times as fast."""
    texts = [tuple(columns), *(tuple(map(_text, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        yield "  ".join(map(str.ljust, row, widths)).rstrip() + "\n"


def _text(cell: tuple[str, str] | str) -> str:
    return cell if isinstance(cell, str) else cell[0]
