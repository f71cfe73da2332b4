"""The tables beside a picture: links between devices, distances between NUMA nodes, what the words mean.

Rules kept here:

1. Columns are GPUs, rows are GPUs and NICs: links between two NICs are of no use here.
2. Rows and columns that say the same are joined once a table grows large, so that 64 NUMA nodes or
   60 NICs still fit on a page; where even that does not help, distances are listed by value.
3. Words of ``nvidia-smi`` stand as printed; the legend explains those that appear.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from numawise.machine.hardware import GPU, Hardware
from numawise.machine.locality import DIRECT, SELF, Links, whole_gpus
from numawise.render.words import runs
from numawise.strconv import whole_number
from numawise.values import dataclass, replace

if TYPE_CHECKING:
    from numawise.render.picture.devices import DeviceItem

MANY_ROWS, MANY_NODES, MOST_COLUMNS = 24, 8, 24
SHADES = {"PIX": "near", "PXB": "near", "PHB": "middle", "NODE": "middle", "SYS": "far", "SOC": "far"}
MEANINGS = {
    "X": "the device itself",
    "NV#": "# NVLinks, directly or through an NVLink switch: the fastest",
    "XGMI": "AMD's direct link between GPUs: the fastest",
    "PIX": "through one PCIe switch: near",
    "PXB": "through several PCIe bridges, but not the CPU: near",
    "PHB": "through the CPU's PCIe host bridge",
    "NODE": "between PCIe host bridges of one NUMA node",
    "SYS": "between NUMA nodes, over the CPU interconnect: the slowest",
    "SOC": "between sockets, over the CPU interconnect: the slowest",
}


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table."""

    label: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose cells are short words."""

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    corner: str = ""
    note: str = ""
    """One line below it."""
    shades: tuple[tuple[str, str], ...] = ()
    """Words and how good they are: ``fast``, ``near``, ``middle``, ``far`` or ``none``."""

    def cleaned(self, clean: Callable[[str], str]) -> "Table":
        """The same table with every text cleaned."""
        rows = tuple(TableRow(clean(row.label), tuple(map(clean, row.cells))) for row in self.rows)
        return replace(self, columns=tuple(map(clean, self.columns)), rows=rows, note=clean(self.note))


def link_shade(text: str) -> str:
    """How good a link is, as a word that writers choose a colour by."""
    return "fast" if text.startswith(DIRECT) else SHADES.get(text, "none")


def link_table(hardware: Hardware, items: Sequence["DeviceItem"]) -> Table | None:
    """Links between GPUs, and from NICs to GPUs; None when fewer than two devices have any."""
    gpus = [item.name for item in items if item.kind == GPU]
    nics = [item.name for item in items if item.kind != GPU]
    links = Links.of(hardware)
    labels = links.labels
    if labels:
        nics = list(labels)
    if not gpus or len(gpus) + len(nics) < 2:
        return None
    rows = [TableRow(gpu, tuple(links.between(gpu, other) or "-" for other in gpus)) for gpu in gpus]
    for nic in nics:
        label = labels.get(nic, nic)
        shown = f"{label} {nic}" if label != nic else nic
        rows.append(TableRow(shown, tuple(links.between(nic, other) or "-" for other in gpus)))
    if all(cell in ("-", SELF) for row in rows for cell in row.cells):
        return None
    words = sorted({cell for row in rows for cell in row.cells})
    shades = tuple((word, link_shade(word)) for word in words)
    return Table(tuple(gpus), tuple(_joined(rows) if len(rows) > MANY_ROWS else rows), shades=shades)


def _joined(rows: Sequence[TableRow]) -> list[TableRow]:
    """Rows with neighbours that say the same made one (rule 2)."""
    found: list[TableRow] = []
    firsts: list[str] = []
    for row in rows:
        if found and row.cells == found[-1].cells:
            found[-1] = replace(found[-1], label=f"{firsts[-1]} … {row.label.partition(' ')[0]}")
        else:
            found.append(row)
            firsts.append(row.label.partition(" ")[0])
    return found


def distance_table(hardware: Hardware) -> Table | None:
    """Distances between NUMA nodes, like ones together; None when fewer than two nodes have any."""
    nodes = [node for node in hardware.numa if node.distances]
    if len(nodes) < 2:
        return None
    away = {node.id: dict(node.distances) for node in nodes}
    ids = [node.id for node in nodes]
    groups = [[i] for i in ids] if len(ids) <= MANY_NODES else _alike(ids, away)
    if len(groups) > MOST_COLUMNS:
        return _by_value(ids, away)
    words = _in_words(groups, away)
    if words:
        return Table((), (), note=words)
    names = [runs(group) for group in groups]
    rows = []
    for name, group in zip(names, groups, strict=True):
        cells = []
        for other in groups:
            if other is not group:
                cells.append(str(away[group[0]].get(other[0], "-")))
            elif len(group) == 1:
                cells.append(str(away[group[0]].get(group[0], "-")))
            else:
                cells.append(f"{away[group[0]].get(group[0], '-')}/{away[group[0]].get(group[1], '-')}")
        rows.append(TableRow(name, tuple(cells)))
    joined = any(len(group) > 1 for group in groups)
    note = "10/11: to itself / to the others of its group" if joined else ""
    if joined:
        pair = next(row.cells[i] for i, row in enumerate(rows) if len(groups[i]) > 1)
        note = note.replace("10/11", pair)
    return Table(tuple(names), tuple(rows), "NUMA", note, _distance_shades(rows))


def every_distance(hardware: Hardware) -> Table | None:
    """Distances between all NUMA nodes, none joined; None when ``distance_table`` joins none either."""
    nodes = [node for node in hardware.numa if node.distances]
    if len(nodes) <= MANY_NODES:
        return None
    names = tuple(str(node.id) for node in nodes)
    rows = []
    for node in nodes:
        away = dict(node.distances)
        rows.append(TableRow(str(node.id), tuple(str(away.get(other.id, "-")) for other in nodes)))
    return Table(names, tuple(rows), "NUMA", shades=_distance_shades(rows))


def _in_words(groups: Sequence[Sequence[int]], away: dict[int, dict[int, int]]) -> str:
    """Many NUMA nodes in one sentence, where all groups are alike and equally far apart; otherwise ''."""
    if len(groups[0]) == 1:
        return ""
    inside = {(away[group[0]].get(group[0]), away[group[0]].get(group[-1])) for group in groups}
    across = {away[one[0]].get(other[0]) for one in groups for other in groups if one is not other}
    if len(inside) != 1 or len(across) > 1 or len({len(group) for group in groups}) != 1:
        return ""
    own, near = inside.pop()
    if not across:
        return f"{own} to itself, {near} to every other NUMA node"
    named = ", ".join(runs(group) for group in groups[:2])
    return f"{own} to itself, {near} within {named} and so on, {across.pop()} to every other NUMA node"


def _distance_shades(rows: Sequence[TableRow]) -> tuple[tuple[str, str], ...]:
    """The nearest, the farthest, and what lies between."""
    words = {cell for row in rows for cell in row.cells}
    values = [whole_number(part) for word in words for part in word.split("/") if part.isdecimal()]
    shades = []
    for word in sorted(words):
        first = word.partition("/")[0]
        number = whole_number(first) if first.isdecimal() else max(values, default=0)
        shade = "near" if number == min(values) else "far" if number == max(values) else "middle"
        shades.append((word, shade))
    return tuple(shades)


def _alike(ids: Sequence[int], away: dict[int, dict[int, int]]) -> list[list[int]]:
    """NUMA nodes that are equally far from all others."""
    groups: list[list[int]] = []
    for i in ids:
        for group in groups:
            if _same(i, group[0], ids, away):
                group.append(i)
                break
        else:
            groups.append([i])
    return groups


def _same(one: int, other: int, ids: Sequence[int], away: dict[int, dict[int, int]]) -> bool:
    near = away[one].get(other) == away[other].get(one) and away[one].get(one) == away[other].get(other)
    return near and all(
        away[one].get(k) == away[other].get(k) and away.get(k, {}).get(one) == away.get(k, {}).get(other)
        for k in ids
        if k not in (one, other)
    )


def _by_value(ids: Sequence[int], away: dict[int, dict[int, int]]) -> Table:
    """Each distance with how many neighbours a node has there, for machines too irregular for a matrix."""
    values = sorted({value for i in ids for value in away[i].values()})
    rows = []
    for value in values:
        counts = [sum(found == value for found in away[i].values()) for i in ids]
        low, high = min(counts), max(counts)
        text = str(low) if low == high else f"{low} to {high}"
        rows.append(TableRow(str(value), (text,)))
    return Table(("NUMA nodes that far from one",), tuple(rows), "distance")


def fabrics(hardware: Hardware) -> list[tuple[str, tuple[str, ...]]]:
    """Links beside PCIe, in words: all GPUs alike, or which pairs."""
    gpus, links = [gpu.name for gpu in whole_gpus(hardware)], Links.of(hardware)
    by_link: dict[str, list[tuple[str, str]]] = {}
    for i, one in enumerate(gpus):
        for other in gpus[i + 1 :]:
            text = links.between(one, other)
            if text.startswith(DIRECT):
                by_link.setdefault(text, []).append((one, other))
    found: dict[str, list[str]] = {}
    for text, pairs in sorted(by_link.items(), key=lambda item: (-len(item[1]), item[0])):
        title = "xGMI" if text.startswith("XGMI") else "NVLink"
        members = sorted({gpu for pair in pairs for gpu in pair}, key=gpus.index)
        each = len(members) * (len(members) - 1) // 2
        if len(pairs) == each and len(members) > 2:
            sentence = f"{text} between all of {names_text(members, gpus)}"
        else:
            sentence = f"{text} between " + ", ".join(f"{one}-{other}" for one, other in pairs)
        found.setdefault(title, []).append(sentence)
    return [(title, tuple(lines)) for title, lines in found.items()]


def names_text(members: Sequence[str], order: Sequence[str]) -> str:
    """Names as a run: ``GPU0-GPU3``, or one by one."""
    at = [order.index(member) for member in members]
    if len(at) > 2 and at == list(range(at[0], at[0] + len(at))):
        return f"{members[0]}-{members[-1]}"
    return ", ".join(members)


def meanings(table: Table | None) -> list[tuple[str, str]]:
    """What the links in a table mean, best first."""
    if table is None:
        return []
    words = {cell for row in table.rows for cell in row.cells} - {"X", "-"}
    nvlinks = sorted((word for word in words if word.startswith("NV")), key=lambda word: -_digits(word))
    found = [(word, MEANINGS["NV#"].replace("#", str(_digits(word)))) for word in nvlinks]
    if any(word.startswith("XGMI") for word in words):
        found.append(("XGMI", MEANINGS["XGMI"]))
    return found + [(word, MEANINGS[word]) for word in SHADES if word in words]


def _digits(word: str) -> int:
    return whole_number("".join(c for c in word if c.isdecimal()) or "0")
