"""Where everything of a picture goes: boxes, labels and lines, each with its place worked out."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise

from numawise.render.picture.boxes import (
    EMPTY,
    ENTRY,
    FABRIC,
    L3,
    LEGEND,
    MACHINE,
    MEMORY,
    NUMA,
    ROW,
    SOCKET,
    SWITCH,
    TABLE,
    UNPLACED,
    Box,
)
from numawise.render.picture.placed import BORDER, RUNNING, Connector, Frame, Label, Metrics, PlacedBox
from numawise.render.picture.tables import Table, TableRow
from numawise.render.words import wrap
from numawise.values import replace

# --------------------------------------------------------------------------------------------------
# Where everything of a picture goes, in whatever units the writer measures.
#
# Rules kept here:
#
# 1. Boxes of one kind stand side by side in equal columns, as many as fit; what is left over begins a new
#    row, and rows are balanced (8 boxes that fit 5 abreast make 4 and 4).
# 2. Nothing is wider than its parent: lines are broken at blanks and commas, words longer than a line
#    anywhere.
# 3. Widths come from ``narrowest`` (what a box needs) and ``preferred_width`` (what it would like to
#    have).
# 4. The answer is plain coordinates: a writer only draws.


ABREAST = {SOCKET: 2, NUMA: 2, ROW: 2, L3: 4, SWITCH: 4, MEMORY: 6}
"""How many of a kind a picture would like side by side."""
ALONE = (FABRIC, EMPTY, UNPLACED, ENTRY)
"""Kinds that take the whole width, one below the other."""
PANEL, ASIDE = "panel", "aside"
ROOMY = 8  # rows of a table, from which on the space beside it is worth filling
COMFORT = 30  # characters of a line that a box keeps unbroken where it can


def arrange(box: Box, metrics: Metrics, width: int) -> tuple[PlacedBox, tuple[Connector, ...]]:
    """Place a picture's box in at most ``width``."""
    metrics = replace(metrics, needs=_needs(box, metrics))
    placed = place(
        box, 0, 0, min(width, max(preferred_width(box, metrics), narrowest(box, metrics))), metrics
    )
    return placed, tuple(_lines(placed))


def _needs(box: Box, metrics: Metrics) -> dict[str, int]:
    found: dict[str, int] = {}
    for inner in box.boxes:
        for kind, need in _needs(inner, metrics).items():
            found[kind] = max(need, found.get(kind, 0))
        found[inner.kind] = max(narrowest(inner, metrics), found.get(inner.kind, 0))
    return found


def place(box: Box, x: int, y: int, width: int, metrics: Metrics) -> PlacedBox:
    """Place one box, as high as it needs to be."""
    frame = metrics.frame(box.kind)
    left, room = x + frame.left, width - frame.left - frame.right
    at = y + frame.top
    if box.kind == LEGEND:
        words = max(metrics.measure(entry.title, "word") for entry in box.boxes)
        metrics = replace(metrics, indent=max(metrics.indent, words + metrics.measure("  ", "line")))
    labels: list[Label] = []
    if frame.title == RUNNING:
        at = _running(box, left, at, room, metrics, labels)
    elif box.kind == ENTRY:
        at = _entry(box, left, at, room, metrics, labels)
    else:
        at = _titled(box, frame, left, y, at, room, metrics, labels)
    boxes: list[PlacedBox] = []
    if box.cells:
        cells, at = _cells(box, left, at, room, metrics)
        boxes += cells
    if box.table:
        inner, more, at = _table(box.table, left, at, room, metrics)
        boxes += inner
        labels += more
    edge = room
    for band in _bands(box.boxes):
        at += metrics.gap[1] if boxes else metrics.line // 3 if labels else 0
        inner, at = _band(band, left, at, room if band[0].kind in (TABLE, LEGEND) else edge, metrics)
        if box.kind == MACHINE and not boxes:
            edge = max(one.x + one.width for one in inner) - left  # boxes below end where the sockets end
        boxes += inner
    return PlacedBox(box.kind, x, y, width, at + frame.bottom - y, box, tuple(labels), tuple(boxes))


def _titled(
    box: Box, frame: Frame, left: int, y: int, at: int, room: int, metrics: Metrics, labels: list[Label]
) -> int:
    """Title, note beside it, lines below; the title may sit in the frame."""
    style, small = title_style(box.kind), "small" if box.kind == L3 else "note"
    lines = list(box.lines)
    in_border = frame.title == BORDER
    top = y if in_border else at
    title_room = room
    if box.note:
        note = metrics.measure(box.note, small)
        if metrics.measure(box.title, style) + metrics.measure("  ", style) + note <= room:
            labels.append(Label(left + room - note, top, note, box.note, f"{small} end"))
            title_room = room - note - metrics.measure("  ", style)
        else:
            lines.insert(0, box.note)
    if box.title:
        shown = _cut(box.title, title_room, style, metrics)
        labels.append(Label(left, top, metrics.measure(shown, style), shown, style))
        if not in_border:
            at += metrics.line * (3 if style == "name" else 2) // 2 if metrics.line > 1 else 1
    for line in lines:
        at = _wrapped(line, "line", left, at, room, metrics, labels)
    return at + metrics.line // 2 if box.kind == MACHINE else at


def title_style(kind: str) -> str:
    """The style of a box's title."""
    return "name" if kind == MACHINE else "small" if kind in (L3, SWITCH) else "title"


def _running(box: Box, left: int, at: int, room: int, metrics: Metrics, labels: list[Label]) -> int:
    return _wrapped(running_text(box), "title", left, at, room, metrics, labels)


def _entry(box: Box, left: int, at: int, room: int, metrics: Metrics, labels: list[Label]) -> int:
    """A word and, beside it, what it means."""
    labels.append(Label(left, at, metrics.measure(box.title, "word"), box.title, "word"))
    for line in box.lines:
        at = _wrapped(line, "line", left + metrics.indent, at, room - metrics.indent, metrics, labels)
    return at


def _wrapped(
    text: str, style: str, left: int, at: int, room: int, metrics: Metrics, labels: list[Label]
) -> int:
    for part in wrap(text, room, lambda piece: metrics.measure(piece, style), anywhere=True):
        labels.append(Label(left, at, metrics.measure(part, style), part, style))
        at += metrics.line
    return at


def running_text(box: Box) -> str:
    """All of a box in one line of text."""
    if box.brief:
        return box.brief
    head = f"{box.title} {box.note}".strip()
    details = ", ".join(box.lines)
    return f"{head} ({details})" if details else head


def _cells(box: Box, left: int, at: int, room: int, metrics: Metrics) -> tuple[list[PlacedBox], int]:
    """Cells in balanced rows of one size."""
    sizes = [metrics.cell(cell) for cell in box.cells]
    wide, high = max(size[0] for size in sizes), max(size[1] for size in sizes)
    if not wide:
        return [], at
    at += metrics.cell_gap
    per_row = max(1, (room + metrics.cell_gap) // (wide + metrics.cell_gap))
    per_row = -(-len(box.cells) // -(-len(box.cells) // per_row))
    if metrics.line > 1:  # use what is left of the row
        wide = max(wide, min(wide * 2, (room + metrics.cell_gap) // per_row - metrics.cell_gap))
    step = wide + metrics.cell_gap
    placed = []
    for i, cell in enumerate(box.cells):
        x, y = left + i % per_row * step, at + i // per_row * (high + metrics.cell_gap)
        text = metrics.measure(cell.text, "cell")
        label = Label(x + (wide - text) // 2, y + (high - metrics.line) // 2, text, cell.text, "cell")
        placed.append(
            PlacedBox("core", x, y, wide, high, box, (label,) if 0 < text <= wide else (), cell=cell)
        )
    rows = -(-len(box.cells) // per_row)
    return placed, at + rows * (high + metrics.cell_gap)


def _bands(boxes: Sequence[Box]) -> list[list[Box]]:
    """Runs of boxes that are placed together."""

    def kind(box: Box) -> str:
        if box.kind in (TABLE, LEGEND):
            return ASIDE
        return box.kind if box.kind in ABREAST or box.kind in ALONE else PANEL

    return [list(run) for _, run in groupby(boxes, key=kind)]


def _abreast(parent: str, kind: str, count: int) -> int:
    """How many boxes of a kind a picture would like side by side."""
    if kind == SOCKET and count > 4:
        return 4
    if kind in (NUMA, ROW) and parent == MACHINE and count > 2:
        return 4 if count <= 8 else 6
    return min(count, ABREAST.get(kind, 1 if kind in ALONE else 4))


def _band(
    band: Sequence[Box], left: int, at: int, room: int, metrics: Metrics
) -> tuple[list[PlacedBox], int]:
    """Boxes in rows of equal columns (rule 1)."""
    if band[0].kind in (TABLE, LEGEND):
        return _aside(band, left, at, room, metrics)
    across, down = metrics.gap
    need = max(metrics.needs.get(box.kind) or narrowest(box, metrics) for box in band)
    columns = 1
    if band[0].kind not in ALONE:
        columns = max(1, min(len(band), (room + across) // (need + across)))
        columns = -(-len(band) // -(-len(band) // columns))
    wide = (room + across) // columns - across
    if band[0].kind not in ABREAST and band[0].kind not in ALONE:
        loose = need + across if metrics.frame(band[0].kind).title == RUNNING else need * 3 // 2
        wide = min(wide, max(need, loose)) if wide > need else wide
    if band[0].kind == ENTRY:
        down = 0
    placed: list[PlacedBox] = []
    for start in range(0, len(band), columns):
        row = band[start : start + columns]
        if start:
            at += down
        inner, at = _row(row, [wide] * len(row), left, at, metrics)
        placed += inner
    return placed, at


def _aside(
    band: Sequence[Box], left: int, at: int, room: int, metrics: Metrics
) -> tuple[list[PlacedBox], int]:
    """Tables and legends: beside a long table, else the tables in a row and the rest below."""
    widths = [min(room, max(preferred_width(box, metrics), narrowest(box, metrics))) for box in band]
    gap = metrics.table_gap
    first, rest = band[0], band[1:]
    left_over = room - widths[0] - gap
    if (
        rest
        and first.table
        and len(first.table.rows) >= ROOMY
        and left_over >= max(narrowest(box, metrics) for box in rest)
    ):
        main = place(first, left, at, widths[0], metrics)
        placed, low = [main], at
        for box in rest:
            placed.append(place(box, left + widths[0] + gap, low, left_over, metrics))
            low += placed[-1].height
        return placed, max(low, at + main.height)
    tables = sum(box.kind == TABLE for box in band)
    placed = []
    if tables and sum(widths[:tables]) + gap * (tables - 1) <= room:
        placed, at = _row(band[:tables], widths[:tables], left, at, metrics, gap=gap, stretch=False)
        band = band[tables:]
    for box in band:
        placed.append(place(box, left, at, room, metrics))
        at += placed[-1].height
    return placed, at


def _row(
    row: Sequence[Box],
    widths: Sequence[int],
    left: int,
    at: int,
    metrics: Metrics,
    *,
    gap: int | None = None,
    stretch: bool = True,
) -> tuple[list[PlacedBox], int]:
    found = []
    for box, width in zip(row, widths, strict=True):
        found.append(place(box, left, at, width, metrics))
        left += width + (metrics.gap[0] if gap is None else gap)
    high = max(one.height for one in found)
    return [replace(one, height=high) if stretch else one for one in found], at + high


def _table(
    table: Table, left: int, at: int, room: int, metrics: Metrics
) -> tuple[list[PlacedBox], list[Label], int]:
    """A table; where it is too wide, block below block of as many columns as fit."""
    across, down = metrics.table_cell
    high = metrics.line + down
    first, widths = _columns(table, metrics)
    shades = dict(table.shades)
    boxes: list[PlacedBox] = []
    labels: list[Label] = []
    start = 0
    while start < len(table.columns):
        end, used = start, first
        while end < len(table.columns) and (end == start or used + widths[end] <= room):
            used += widths[end]
            end += 1
        if start:
            at += metrics.line // 2 if metrics.line > 1 else 1
        head = TableRow(table.corner, table.columns[start:end])
        rows = [head, *(TableRow(row.label, row.cells[start:end]) for row in table.rows)]
        for row in rows:
            y = at + down // 2
            label = _cut(row.label, max(first - across, 1), "label", metrics)
            labels.append(Label(left, y, metrics.measure(label, "label"), label, "label"))
            x = left + first
            for i, word in enumerate(row.cells):
                wide = widths[start + i]
                if start + i == start and used > room:
                    wide = max(1, room - first)
                style = "label" if row is head else "cell"
                shown = _cut(word, max(1, wide - across), style, metrics)
                text = metrics.measure(shown, style)
                inner = Label(x + (wide - text) // 2 if metrics.line > 1 else x, y, text, shown, style)
                if row is head:
                    labels.append(inner)
                else:
                    shade = shades.get(word, "none")
                    boxes.append(PlacedBox("word", x, at, wide, high, Box("word"), (inner,), shade=shade))
                x += wide
            at += high
        start = end
    if table.note:
        more: list[Label] = []
        at = _wrapped(table.note, "line", left, at + (metrics.line // 3), room, metrics, more)
        labels += more
    return boxes, labels, at


def _columns(table: Table, metrics: Metrics) -> tuple[int, list[int]]:
    across, _ = metrics.table_cell
    words = (table.corner, *(row.label for row in table.rows))
    first = max(metrics.measure(text, "label") for text in words)
    widths = []
    for i, column in enumerate(table.columns):
        cells = [metrics.measure(row.cells[i], "cell") for row in table.rows]
        widths.append(max(metrics.measure(column, "label"), *cells) + across)
    if widths and all(len(column) < 8 for column in table.columns):
        widths = [max(widths)] * len(widths)
    return first + across, widths


def narrowest(box: Box, metrics: Metrics) -> int:
    """The width a box needs to look decent."""
    return _width(box, metrics, narrowest, comfort=True)


def preferred_width(box: Box, metrics: Metrics) -> int:
    """The width a box would like to have."""
    return _width(box, metrics, preferred_width, comfort=False)


def _width(box: Box, metrics: Metrics, of: Callable[[Box, Metrics], int], *, comfort: bool) -> int:
    frame = metrics.frame(box.kind)
    longest = metrics.measure("0" * (COMFORT if comfort else 3 * COMFORT), "line")
    style, small = title_style(box.kind), "small" if box.kind == L3 else "note"
    widths = [0]
    if frame.title == RUNNING:
        widths.append(min(longest, metrics.measure(running_text(box), "title")))
    else:
        note = metrics.measure("  ", style) + metrics.measure(box.note, small) if box.note else 0
        widths.append(min(longest, metrics.measure(box.title, style) + note))
        indent = metrics.indent if box.kind == ENTRY else 0
        widths += [min(longest, metrics.measure(line, "line") + indent) for line in box.lines]
    if box.cells:
        wide = max(metrics.cell(cell)[0] for cell in box.cells)
        count = 1 if comfort else min(len(box.cells), 16)
        widths.append(count * (wide + metrics.cell_gap) if wide else 0)
    if box.table:
        first, columns = _columns(box.table, metrics)
        widths.append(first + (max(columns, default=0) if comfort else sum(columns)))
        widths.append(min(longest, metrics.measure(box.table.note, "line")))
    for band in _bands(box.boxes):
        each = [of(inner, metrics) for inner in band]
        if comfort:
            widths.append(max(each))
        elif band[0].kind in (TABLE, LEGEND):
            tables = [width for width, inner in zip(each, band, strict=True) if inner.table]
            widths.append(sum(tables) + metrics.table_gap * (len(tables) - 1) if tables else max(each))
        else:
            abreast = _abreast(box.kind, band[0].kind, len(band))
            widths.append(abreast * max(each) + (abreast - 1) * metrics.gap[0])
    return max(widths) + frame.left + frame.right


def _cut(text: str, room: int, style: str, metrics: Metrics) -> str:
    """A text that fits, cut off with an ellipsis where it must be."""
    if metrics.measure(text, style) <= room:
        return text
    for size in range(len(text) - 1, 0, -1):
        shown = text[:size].rstrip() + "…"
        if metrics.measure(shown, style) <= room:
            return shown
    return text[:1]


def _lines(placed: PlacedBox) -> Iterator[Connector]:
    """From neighbouring sockets to each other, and from what holds GPUs down to the fabric."""
    tops = [box for box in placed.boxes if box.kind in (SOCKET, NUMA)]
    for one, other in pairwise(tops) if len(tops) <= 4 else ():
        if one.y == other.y:
            middle = one.y + min(one.height, other.height) // 2
            yield Connector(one.x + one.width, middle, other.x, middle, "interconnect")
    fabric = next((box for box in placed.boxes if box.kind == FABRIC), None)
    if fabric is None:
        return
    lowest = max((box.y for box in tops), default=0)
    for box in tops:
        if box.y == lowest and any(inner.kind == "gpu" for inner in box.every()):
            middle = box.x + box.width // 2
            yield Connector(middle, box.y + box.height, middle, fabric.y, FABRIC)
