"""A matrix as far as it could be read, whatever it looked like, and the names in it."""

import re
from collections.abc import Mapping, Sequence

from numawise.codec.hardware.matrix.affinity import COLUMNS
from numawise.codec.hardware.matrix.links import NVLINK, PEER_WORDS, WORDS, Vocabulary, well_formed
from numawise.errors import quoted
from numawise.machine.hardware import UNREADABLE, Remark
from numawise.values import dataclass, field

GPU_NAME = re.compile(r"GPU[0-9]+")
ANY_NAME = re.compile(r"(?:GPU|NIC)[0-9]+")
NAME = re.compile(r"[A-Za-z][\w.-]*")
ANY_LINK = "|".join([NVLINK, *sorted(WORDS)])
GPU_ROW = re.compile(rf"(?<![\w/-])GPU[0-9]+[*`]*[ \t]*(?:[ \t]|\|)[ \t*`]*(?:{ANY_LINK})+(?![A-Za-z(=:])")
RULE = re.compile(r"[\s|+:=_*`.\u2500-\u257f-]*")
HEADER_LINES = 14  # a header may be wrapped, and ruled lines may stand below it


@dataclass(slots=True)
class Grid:
    """A matrix as far as it could be read."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    links: dict[str, dict[str, str]] = field(default_factory=dict)
    values: dict[str, dict[str, str | None]] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    first: int = 0
    last: int = 0
    peer: bool = False


def some(names: Sequence[str]) -> str:
    """The first few names, for a remark."""
    shown = ", ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"


def doubtful_names(names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Names that look like damaged ones: no row has them, and they are not like the other NICs' names."""
    nics = [name for name in names if not GPU_NAME.fullmatch(name)]
    if not any(ANY_NAME.fullmatch(nic) for nic in nics):
        return []
    return [nic for nic in nics if not ANY_NAME.fullmatch(nic) and nic not in labels]


# --------------------------------------------------------------------------------------------------
# A matrix drawn as a table with bars: Markdown, reStructuredText, boxes.
#
# A cell belongs to the heading above it, so a blank one is blank and columns may stand in any order.


def read_table(lines: Sequence[str], first: int, words: Vocabulary) -> Grid | None:
    """The matrix whose first row is in a line with bars."""
    cells = _cells(lines[first])
    above = range(first - 1, max(first - HEADER_LINES, -1), -1)
    at = next((at for at in above if GPU_NAME.search(lines[at])), -1)
    if at < 0:
        return None
    heads = _cells(lines[at])
    if len(heads) + 1 == len(cells):
        heads.insert(0, "")
    columns = {place: _column_of(head) for place, head in enumerate(heads)}
    names = tuple(
        head for place, head in enumerate(heads) if head and columns[place] == head and head not in COLUMNS
    )
    if not any(GPU_NAME.fullmatch(name) for name in names) or len(set(names)) < len(names):
        return None
    own = next((p for p, cell in enumerate(cells) if cell in names and columns.get(p) not in names), None)
    if own is None:
        return None
    nics = tuple(name for name in names if not GPU_NAME.fullmatch(name))
    names = (*(name for name in names if GPU_NAME.fullmatch(name)), *nics)
    affinities = tuple(column for column in COLUMNS if column in columns.values())
    grid = Grid(names, affinities, first=at, last=first)
    for line in range(first, len(lines)):
        if RULE.fullmatch(lines[line]):
            continue
        cells = _cells(lines[line])
        label = cells[own] if own < len(cells) else ""
        if "|" not in lines[line] or label in grid.links or not NAME.fullmatch(label):
            break
        grid.last = line
        if label not in names:
            grid.remarks.append(Remark(UNREADABLE, label, "the row has no column of its own"))
            continue
        if lines[at].rstrip().endswith("|") and not lines[line].rstrip().endswith("|"):
            del cells[-1]  # the row ends inside a cell
        if len(cells) > len(heads):
            grid.remarks.append(Remark(UNREADABLE, label, "the row has more cells than the header"))
            continue
        _table_row(grid, label, {columns.get(p, ""): cell for p, cell in enumerate(cells) if p != own}, words)
    doubtful = doubtful_names(names, list(grid.links))
    if doubtful:
        grid.names = tuple(name for name in names if name not in doubtful)
        text = f"{some(doubtful)} cannot be the name of a device"
        grid.remarks.append(Remark(UNREADABLE, "header", text))
        for links in grid.links.values():
            for name in doubtful:
                links.pop(name, None)
    return grid


def _table_row(grid: Grid, label: str, cells: Mapping[str, str], words: Vocabulary) -> None:
    links: dict[str, str] = {}
    for name in grid.names:
        cell = cells.get(name, "")
        if words.is_link(cell):
            links[name] = cell
        elif cell not in ("", "-"):
            grid.peer = grid.peer or cell in PEER_WORDS
            grid.remarks.append(Remark(UNREADABLE, f"{label} {name}", f"{quoted(cell)} is not a link"))
    if any((link == "X") != (name == label) for name, link in links.items()):
        grid.remarks.append(Remark(UNREADABLE, label, "the row does not fit under the header"))
        return
    grid.links[label] = links
    if not GPU_NAME.fullmatch(label):
        return
    values: dict[str, str | None] = {}
    for column in grid.columns:
        cell = cells.get(column, "").replace(" ", "")
        values[column] = cell if cell and well_formed(cell) else None
        if cell not in ("", "-") and values[column] is None:
            grid.remarks.append(
                Remark(UNREADABLE, f"{label} {column}", f"{quoted(cell)} is not a list of ids")
            )
    grid.values[label] = values


def _cells(line: str) -> list[str]:
    return [cell.strip(" \t*`") for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _column_of(head: str) -> str:
    """The name above a column: of a device, or of an affinity."""
    squeezed = re.sub(r"\W", "", head).lower()
    for column in COLUMNS:
        if squeezed == re.sub(r"\W", "", column).lower():
            return column
    is_name = NAME.fullmatch(head) and head not in ("GPU", "NIC")
    return head if is_name and (head.isupper() or re.search(r"[0-9]", head)) else ""
