"""A picture of a machine for the terminal.

Rules kept here:

1. No line is wider than asked for; the narrowest picture is 40 columns.
2. Frames are Unicode box drawing, or plain ASCII where the encoding or the user wants it.
3. Colour only where the caller says so; what it shows is also there as a word.
"""

from collections.abc import Mapping

from numawise.render.picture.arrange import arrange
from numawise.render.picture.boxes import (
    EMPTY,
    ENTRY,
    FABRIC,
    L3,
    LEGEND,
    MACHINE,
    MARKS,
    MEMORY,
    MIXED,
    SWITCH,
    TABLE,
    UNPLACED,
    Cell,
    Picture,
)
from numawise.render.picture.placed import BORDER, RUNNING, Frame, Label, Metrics, PlacedBox
from numawise.render.picture.tables import link_shade
from numawise.render.terminal import BOLD, CYAN, DIM, GREEN, MAGENTA, RED, RESET, YELLOW, start
from numawise.render.words import columns

NARROWEST = 40
STYLES = {
    "gpu": GREEN,
    FABRIC: GREEN,
    "accelerator": MAGENTA,
    "nic": CYAN,
    "nvme": YELLOW,
    "storage": YELLOW,
    "name": BOLD,
    "label": DIM,
    "shade-fast": GREEN,
    "shade-near": GREEN,
    "shade-middle": YELLOW,
    "shade-far": RED,
    "shade-none": DIM,
}
HOLD_COLOURS = ("44", "42", "45", "46", "43", "41")
FRAMED = Frame(2, 1, 2, 1, BORDER)
BARE = Frame(0, 0, 0, 0, RUNNING, drawn=False)
SECTION = Frame(0, 1, 0, 0, drawn=False)
UNICODE = {"h": "─", "v": "│", "tl": "┌", "tr": "┐", "bl": "└", "br": "┘"}
ASCII = {"h": "-", "v": "|", "tl": "+", "tr": "+", "bl": "+", "br": "+"}
PLAIN = {"·": "-", "…": "~"}
FREE = "·"


def text(picture: Picture, width: int = 80, *, ascii_only: bool = False, color: bool = False) -> str:
    """Draw the picture in at most so many columns."""
    canvas = _Canvas(picture, ASCII if ascii_only else UNICODE)
    placed, _ = arrange(picture.box, _metrics(picture), max(NARROWEST, width))
    canvas.draw(placed)
    drawn = canvas.lines(color=color)
    return plain(drawn) if ascii_only else drawn


def plain(shown: str) -> str:
    """ASCII alone; what has no likeness becomes a question mark.  No character grows wider."""
    for mark, likeness in PLAIN.items():
        shown = shown.replace(mark, likeness)
    return shown.encode("ascii", "replace").decode("ascii")


def _metrics(picture: Picture) -> Metrics:
    frames: Mapping[str, Frame] = {
        "": BARE,
        MACHINE: Frame(0, 0, 0, 0, drawn=False),
        "socket": FRAMED,
        "numa": FRAMED,
        MEMORY: FRAMED,
        UNPLACED: FRAMED,
        SWITCH: FRAMED,
        FABRIC: BARE,
        EMPTY: BARE,
        L3: BARE,
        TABLE: SECTION,
        LEGEND: SECTION,
        ENTRY: Frame(0, 0, 0, 0, drawn=False),
    }
    return Metrics(
        measure=lambda shown, _: columns(shown),
        line=1,
        gap=(1, 0),
        frames=frames,
        cell=lambda _: (1, 1) if picture.holds else (0, 0),
        cell_gap=0,
        table_cell=(2, 0),
        indent=7,
        table_gap=4,
    )


class _Canvas:
    """Characters on a grid, each with a style."""

    def __init__(self, picture: Picture, strokes: Mapping[str, str]) -> None:
        self.picture = picture
        self.strokes = strokes
        self.grid: dict[tuple[int, int], tuple[str, str]] = {}

    def draw(self, placed: PlacedBox) -> None:
        """Draw a box and all inside it."""
        if placed.box.kind in FRAMED_KINDS and placed.kind == placed.box.kind:
            self.frame(placed)
        for label in placed.labels:
            self.label(placed, label)
        if placed.cell:
            self.put(placed.x, placed.y, *self.cell(placed.cell))
        for box in placed.boxes:
            self.draw(box)

    def frame(self, placed: PlacedBox) -> None:
        """Draw the border of a box."""
        left, right = placed.x, placed.x + placed.width - 1
        top, bottom = placed.y, placed.y + placed.height - 1
        stroke = self.strokes
        for x in range(left + 1, right):
            self.put(x, top, stroke["h"], DIM)
            self.put(x, bottom, stroke["h"], DIM)
        for y in range(top + 1, bottom):
            self.put(left, y, stroke["v"], DIM)
            self.put(right, y, stroke["v"], DIM)
        for y, at in ((top, "t"), (bottom, "b")):
            self.put(left, y, stroke[f"{at}l"], DIM)
            self.put(right, y, stroke[f"{at}r"], DIM)

    def label(self, placed: PlacedBox, label: Label) -> None:
        """Write a label; one in a border keeps a blank on either side."""
        style = STYLES.get(placed.kind, STYLES.get(label.style, ""))
        if placed.shade:
            style = STYLES[f"shade-{placed.shade}"]
        elif placed.kind == ENTRY and label.style == "word":
            shade = link_shade(label.text)
            style = BOLD if shade == "none" else STYLES[f"shade-{shade}"]
        elif label.style in ("title", "small") and placed.kind in (*FRAMED_KINDS, TABLE, LEGEND):
            style = BOLD
        in_border = placed.kind in FRAMED_KINDS and label.y == placed.y
        shown = f" {label.text} " if in_border else label.text
        x = label.x - 1 if in_border else label.x
        for c in shown:
            self.put(x, label.y, c, style)
            x += columns(c)

    def cell(self, cell: Cell) -> tuple[str, str]:
        """Mark and style of a core under the overlay."""
        if not cell.hold:
            return FREE, DIM
        if cell.hold == MIXED:
            return "+", BOLD
        number = self.picture.holds.index(cell.hold)
        mark = MARKS[number % len(MARKS)]
        return mark.lower() if cell.part else mark, HOLD_COLOURS[number % len(HOLD_COLOURS)]

    def put(self, x: int, y: int, c: str, style: str = "") -> None:
        """Set one character."""
        self.grid[x, y] = c, style

    def lines(self, *, color: bool) -> str:
        """The grid as text."""
        rows: dict[int, dict[int, tuple[str, str]]] = {}
        for (x, y), char in self.grid.items():
            rows.setdefault(y, {})[x] = char
        lines = []
        for y in range(max(rows, default=-1) + 1):
            lines.append(_row(rows.get(y, {}), color=color))
        return "\n".join(lines) + "\n"


FRAMED_KINDS = frozenset({"socket", "numa", MEMORY, UNPLACED, SWITCH})


def _row(row: Mapping[int, tuple[str, str]], *, color: bool) -> str:
    parts: list[str] = []
    at, now = 0, ""
    for x in sorted(row):
        c, style = row[x]
        style = style if color else ""
        if x > at:
            if now:
                parts.append(RESET)
                now = ""
            parts.append(" " * (x - at))
        if style != now:
            parts.append((RESET if now else "") + (start(style) if style else ""))
            now = style
        parts.append(c)
        at = x + columns(c)
    return "".join(parts).rstrip() + (RESET if now else "")
