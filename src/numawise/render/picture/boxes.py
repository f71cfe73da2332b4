"""What a picture is made of: boxes with cells and boxes inside, and the marks of who holds what.

Rules kept here:

1. Text from outside is cleaned of control characters before it is shown (``clean_box``).
2. A box says what it stands for: CPUs, NUMA nodes, a device and who has it.
"""

from collections.abc import Iterable, Mapping

from numawise.render.picture.tables import Table
from numawise.render.words import bytes_text, clean
from numawise.values import dataclass, field, replace

MACHINE, SOCKET, NUMA, ROW, L3, SWITCH = "machine", "socket", "numa", "row", "l3", "switch"
MEMORY, EMPTY, UNPLACED, FABRIC = "memory", "empty", "unplaced", "fabric"
TABLE, LEGEND, ENTRY = "table", "legend", "entry"
MIXED = "several"
SYSTEM = "system"
"""What is kept for the system, among those who have something."""
MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, slots=True)
class Cell:
    """One core."""

    text: str
    """CPU numbers; '' where there are too many cores to name each."""
    tip: str
    hold: str = ""
    """Label of who holds it; '' when it is free."""
    part: bool = False
    """Some of its threads are free."""
    cpus: int = 0
    mark: str = ""
    """What stands for its holder, where cells carry marks."""


@dataclass(frozen=True, slots=True)
class Box:
    """A frame with a title, lines, cells and boxes inside."""

    kind: str
    title: str = ""
    note: str = ""
    """Beside the title, at the other end."""
    lines: tuple[str, ...] = ()
    cells: tuple[Cell, ...] = ()
    boxes: tuple["Box", ...] = ()
    table: Table | None = None
    tip: str = ""
    brief: str = ""
    """All of it in a few words, for writers that give it no frame."""
    cpus: int = 0
    numa: tuple[int, ...] = ()
    device: str = ""
    """Name of the device that it is, as the machine has it."""
    hold: str = ""
    """Who holds the device."""
    fill: tuple[tuple[str, float], ...] = ()
    """Who has which share of its memory."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A holder on a map: its mark, and what to call it."""

    mark: str
    name: str


@dataclass(frozen=True, slots=True)
class Marks:
    """Who has what beside CPUs, for maps whose holders, tables and legend stand elsewhere."""

    holders: Mapping[str, Marked] = field(default_factory=dict)
    """By what ``holds`` and ``devices`` call them, in the order of their colours."""
    devices: Mapping[str, str] = field(default_factory=dict)
    """Name, address or UUID of a device → who has it."""
    memory: Mapping[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """NUMA node → who has how many bytes."""
    several: Mapping[int | str, str] = field(default_factory=dict)
    """CPU or device that several have → all of them, in words."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A machine, ready to be drawn."""

    name: str
    summary: str
    box: Box
    holds: tuple[str, ...] = ()
    """Labels of the overlay, in the order of their marks and colours."""

    @property
    def description(self) -> str:
        """The picture in sentences, for those who cannot see it."""
        return " ".join(_described(self.box))


def held_note(note: str, size: int) -> str:
    """What is said about memory, with how much of it is held."""
    return f"· {f'{note} {bytes_text(size)} held'.strip()}" if size else note


def clean_box(box: Box) -> Box:
    """A box with clean texts throughout."""
    return replace(
        box,
        title=clean(box.title),
        note=clean(box.note),
        lines=tuple(map(clean, box.lines)),
        boxes=tuple(map(clean_box, box.boxes)),
        table=box.table.cleaned(clean) if box.table else None,
        tip=clean(box.tip),
        brief=clean(box.brief),
        device=clean(box.device),
    )


def _described(box: Box) -> Iterable[str]:
    """A box in sentences."""
    if box.kind in (TABLE, LEGEND):
        return
    inner = [part for part in box.boxes if part.kind not in (TABLE, LEGEND)]
    words = ", ".join(word for word in (box.note, *box.lines) if word)
    leaves = [
        part.title
        for part in inner
        if not part.boxes and part.kind not in (NUMA, ROW, SOCKET, MEMORY, EMPTY, FABRIC, L3)
    ]
    if leaves:
        words += f"{', ' if words else ''}with {', '.join(leaves)}"
    if box.title and (words or box.kind == FABRIC):
        yield f"{box.title}: {words}." if words else f"{box.title}."
    for part in inner:
        if part.title not in leaves or part.boxes:
            yield from _described(part)
