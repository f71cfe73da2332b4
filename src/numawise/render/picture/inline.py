"""A picture as SVG inside a page that has style and behaviour of its own.

Rules kept here:

1. There is no style, no script and no id: classes name what something is, ``data-`` attributes what it stands
   for.  Two pictures in one page do not disturb each other.
2. It is a tree for those who hear it: machine, sockets, NUMA nodes, cores and devices are its items, each
   with its name; one of them can be focussed at a time, which the page sees to.
3. Who holds a core stands on it as a mark; colour repeats that.
"""

from collections.abc import Iterator
from html import escape
from itertools import count

from numawise.render.picture.arrange import arrange
from numawise.render.picture.boxes import L3, MACHINE, MEMORY, NUMA, ROW, SOCKET, SYSTEM, Box, Cell, Picture
from numawise.render.picture.placed import Label, PlacedBox
from numawise.render.picture.svg import (
    HOLDS_LIGHT,
    MARGIN,
    METRICS,
    ascii_markup,
    hold_classes,
    line_element,
    measure,
    text_element,
)
from numawise.sets import format_ids, ids_of
from numawise.values import dataclass, field, replace

NARROWEST, WIDEST = 320, 4096
CELL = 18
BAR = 5
FRAMES = {
    **METRICS.frames,
    **{kind: replace(METRICS.frames[kind], bottom=18) for kind in (NUMA, ROW, MEMORY)},
}
"""Room for the bar of the memory, whether any is held or not: nothing moves when the first pod comes."""
NAMED = (SOCKET, NUMA, ROW, MEMORY, L3)
"""Kinds of frames that can be chosen; devices and cores can be as well."""


@dataclass(frozen=True, slots=True)
class DrawnPart:
    """Something of a drawing that can be chosen."""

    id: str
    kind: str
    box: Box
    cell: Cell | None = None


@dataclass(frozen=True, slots=True)
class InlineDrawing:
    """A drawing and what is on it."""

    svg: str
    width: int
    height: int
    parts: tuple[DrawnPart, ...]


def inline(picture: Picture, width: int) -> InlineDrawing:
    """Draw a picture for a page, as wide as asked or, where it needs less, narrower."""
    room = min(max(width, NARROWEST), WIDEST)
    margin = MARGIN // 4
    untitled = replace(picture.box, title="", lines=())  # the page says what machine it is
    placed, lines = arrange(untitled, PAGE_METRICS, room - 2 * margin)
    wide, high = placed.width + 2 * margin, placed.height + 2 * margin
    parts: list[DrawnPart] = []
    name = escape(f"{picture.name}: {picture.summary}")
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="tree" aria-label="{name}" {size}>',
        f'<g role="none" class="drawing" transform="translate({margin} {margin})">',
        *map(line_element, lines),
    ]
    _Writer(picture, out, parts).draw(placed)
    out.append("</g></svg>")
    return InlineDrawing(ascii_markup("".join(out)), wide, high, tuple(parts))


def _cell_size(cell: Cell) -> tuple[int, int]:
    """Room for the numbers of a core and the mark of its holder; the same whether it is held or not."""
    if cell.text and cell.text != cell.mark:
        return measure(f"{cell.text}{'' if cell.mark else ' M'}", "cell") + 8, 22
    return max(CELL, measure(cell.mark, "cell") + 4), CELL


PAGE_METRICS = replace(METRICS, cell=_cell_size, frames=FRAMES)


@dataclass(frozen=True, slots=True)
class _Writer:
    picture: Picture
    out: list[str]
    parts: list[DrawnPart]
    names: set[str] = field(default_factory=set)

    def draw(self, placed: PlacedBox) -> None:
        """Draw a box and all inside it."""
        part = self.part(placed)
        self.out.append(f"<g{_attributes(self.classes(placed), part, placed)}>")
        frame = METRICS.frame(placed.kind)
        if frame.drawn:
            radius = {SOCKET: 12, NUMA: 10, "core": 3}.get(placed.kind, 6)
            size = f'width="{placed.width}" height="{placed.height}"'
            self.out.append(f'<rect x="{placed.x}" y="{placed.y}" {size} rx="{radius}"/>')
        if placed.kind == placed.box.kind and placed.box.fill:
            self.out.extend(self.bar(placed))
        self.out.extend(self.text(label, placed) for label in placed.labels)
        if placed.boxes:
            grouped = bool(part)
            self.out.append('<g role="group">' if grouped else "")
            for box in placed.boxes:
                self.draw(box)
            self.out.append("</g>" if grouped else "")
        self.out.append("</g>")

    def text(self, label: Label, placed: PlacedBox) -> str:
        """A label; a mark that stands alone on a core is bold."""
        alone = placed.cell is not None and bool(placed.cell.mark) and label.text == placed.cell.mark
        element = text_element(label, placed)
        return element.replace("t-cell", "t-mark", 1) if alone else element

    def part(self, placed: PlacedBox) -> DrawnPart | None:
        """What a box stands for; None where it cannot be chosen."""
        box, kind = placed.box, placed.kind
        if placed.cell:
            name = f"cpu-{_first(placed.cell.cpus)}"
        elif kind in NAMED:
            kind = NUMA if kind == ROW else kind
            number = box.numa[0] if kind in (NUMA, MEMORY) and box.numa else _first(box.cpus)
            name = f"{NUMA if kind == MEMORY else kind}-{number}"
        elif box.device:
            name = f"{kind}-{sum(part.kind == kind for part in self.parts)}"
        else:
            return None
        if name in self.names:  # a core whose CPUs are in two NUMA nodes at once, as some machines have it
            name = next(other for i in count(2) if (other := f"{name}-{i}") not in self.names)
        self.names.add(name)
        self.parts.append(DrawnPart(name, kind, box, placed.cell))
        return self.parts[-1]

    def classes(self, placed: PlacedBox) -> list[str]:
        """What a box is, and who holds it."""
        if placed.cell:
            return ["core", *hold_classes(placed.cell, self.picture), *_system(placed.cell.hold)]
        hold = placed.box.hold if placed.kind == placed.box.kind else ""
        return [placed.kind, *([f"hold-{self.colour(hold)}", "device-held"] if hold else ())]

    def colour(self, hold: str) -> int:
        """Number of a holder's colour."""
        known = self.picture.holds
        return known.index(hold) % len(HOLDS_LIGHT) if hold in known else 0

    def bar(self, placed: PlacedBox) -> Iterator[str]:
        """How much of a node's memory is held, along the lower edge of its box."""
        frame = FRAMES[placed.kind]
        left, room = placed.x + frame.left, placed.width - frame.left - frame.right
        top = placed.y + placed.height - frame.bottom // 2 - 3
        yield f'<rect class="memory-bar" x="{left}" y="{top}" width="{room}" height="{BAR}" rx="2"/>'
        at = 0.0
        for hold, share in placed.box.fill:
            wide = min(max(share * room, 1), room - at)
            name = " ".join(["memory-share", f"hold-{self.colour(hold)}", *_system(hold)])
            place = f'x="{left + at:.1f}" y="{top}" width="{wide:.1f}" height="{BAR}"'
            yield f'<rect class="{name}" data-holder="{escape(hold)}" {place}/>'
            at += wide


def _system(hold: str) -> list[str]:
    return ["system"] if hold == SYSTEM else []


def _first(bits: int) -> int:
    return next(ids_of(bits), 0)


def _attributes(classes: list[str], part: DrawnPart | None, placed: PlacedBox) -> str:
    text = f' class="{" ".join(classes)}"'
    if placed.kind == MACHINE or part is None:
        return f'{text} role="none"'  # without it, browsers do not see what is inside as items of the tree
    box, cell = part.box, part.cell
    cpus = cell.cpus if cell else box.cpus
    hold = cell.hold if cell else box.hold
    label = (cell.tip if cell else "") or _spoken(box)
    text += f' role="treeitem" data-id="{part.id}" aria-label="{escape(label)}"'
    if cpus:
        shown = ",".join(map(str, ids_of(cpus))) if cell else format_ids(cpus)
        text += f' data-cpus="{shown}"'
    if box.numa and not cell:
        text += f' data-numa="{",".join(map(str, box.numa))}"'
    if box.device and not cell:
        text += f' data-device="{escape(box.device)}"'
    return text + (f' data-holder="{escape(hold)}"' if hold else "")


def _spoken(box: Box) -> str:
    """A box in words."""
    if box.device and box.brief:
        return box.brief
    return ", ".join(word for word in (box.title, box.note, *box.lines) if word)
