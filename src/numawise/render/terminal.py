"""Tables on a terminal; plain aligned text where there is none."""

from collections.abc import Sequence
from typing import IO

GREEN, RED, YELLOW, DIM = "green", "red", "yellow", "dim"
UNBOUNDED = 4096


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[tuple[str, str] | str]],
    file: IO[str],
    *,
    color: bool | None = None,
) -> None:
    """Write a table; a cell may carry a style.  Cells wrap at a terminal's width, never in a pipe."""
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
