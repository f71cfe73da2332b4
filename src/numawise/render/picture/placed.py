"""What has its place in a picture: frames, boxes, labels and connectors; and how a writer measures."""

from collections.abc import Callable, Iterator, Mapping

from numawise.render.picture.boxes import Box, Cell
from numawise.values import dataclass, field

BORDER, INSIDE, RUNNING = "border", "inside", "running"


@dataclass(frozen=True, slots=True)
class Frame:
    """Room that a box keeps between its edge and what is inside, and where its title goes."""

    left: int
    top: int
    right: int
    bottom: int
    title: str = INSIDE
    drawn: bool = True


@dataclass(frozen=True, slots=True)
class Metrics:
    """How a writer measures."""

    measure: Callable[[str, str], int]
    """Width of a text in a style."""
    line: int
    """Height of a line."""
    gap: tuple[int, int]
    """Room between two boxes, across and down."""
    frames: Mapping[str, Frame]
    """By kind; '' for all others."""
    cell: Callable[[Cell], tuple[int, int]]
    """Size of a cell; (0, 0): cells are not drawn."""
    cell_gap: int
    table_cell: tuple[int, int]
    """Room added to a word in a table, across and down."""
    indent: int
    """Where the text of a legend's entry begins."""
    table_gap: int
    """Room between two tables."""
    needs: Mapping[str, int] = field(default_factory=dict)
    """Narrowest width by kind over the whole picture, so that like boxes stand in like columns."""

    def frame(self, kind: str) -> Frame:
        """The frame of a kind of box."""
        return self.frames.get(kind, self.frames[""])


@dataclass(frozen=True, slots=True)
class Label:
    """A text and its place: left, top, width."""

    x: int
    y: int
    width: int
    text: str
    style: str


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A box and its place."""

    kind: str
    x: int
    y: int
    width: int
    height: int
    box: Box
    labels: tuple[Label, ...] = ()
    boxes: tuple["PlacedBox", ...] = ()
    cell: Cell | None = None
    shade: str = ""
    """How good a cell of a table is, as ``tables`` rates it."""

    def every(self) -> Iterator["PlacedBox"]:
        """This box and all inside it, outer ones first."""
        yield self
        for box in self.boxes:
            yield from box.every()


@dataclass(frozen=True, slots=True)
class Connector:
    """A line between two boxes."""

    x1: int
    y1: int
    x2: int
    y2: int
    kind: str
