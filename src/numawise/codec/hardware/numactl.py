"""``numactl --hardware`` and ``numactl --show``: NUMA nodes, their CPUs, memory and distances.

Rules kept here:

1. A node is what a line names: nodes without CPUs or memory are nodes, and ids need not follow each other.
2. Sizes are MiB, though printed as ``MB``.  ``Listing`` keeps free memory, which hardware does not have.
3. A list of CPUs may go on in the next lines, where the text was wrapped.
4. A row of distances counts when it has one for each node of the heading; 255 (not reachable) stays 255.
5. ``--show`` prints what the process may use, so its CPUs are the host's cpuset, not the machine's.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from numawise.codec.hardware import pasted
from numawise.errors import InputError, quoted
from numawise.machine.hardware import ODD, UNKNOWN, UNREADABLE, Hardware, Host, MemoryNode, Remark, Thread
from numawise.sets import LARGEST_ID, ids_of, parse_ids
from numawise.strconv import whole_number
from numawise.values import dataclass, field

SOURCE = "numactl"
ADVICE = "give what numactl --hardware prints"
MIB = 1 << 20
UNITS = {"KB": 1 << 10, "MB": MIB, "GB": 1 << 30, "KIB": 1 << 10, "MIB": MIB, "GIB": 1 << 30}
AVAILABLE = re.compile(r"\bavailable[ \t]*:[ \t]*([0-9]+)[ \t]+nodes?[ \t]*\(([^()\n]*)\)?", re.IGNORECASE)
FIELD = re.compile(r"\bnode[ \t]+([0-9]{1,6})[ \t]+(cpus|size|free)[ \t]*:[ \t]*", re.IGNORECASE)
SIZE = re.compile(r"([0-9]+)[ \t]*([KMG]i?B)", re.IGNORECASE)
IDS = re.compile(r"(?:[0-9]+(?:-[0-9]+)?(?:[ \t,]+|$))*")
ONLY_IDS = re.compile(r"[ \t]*[0-9][0-9 \t,-]*")
DISTANCES = re.compile(r"\bnode distances\b", re.IGNORECASE)
NO_DISTANCES = re.compile(r"No distance information available", re.IGNORECASE)
HEADING = re.compile(r"\bnode((?:[ \t]+[0-9]+)+)[ \t]*$", re.IGNORECASE)
ROW = re.compile(r"(?<![\w.])([0-9]+)[ \t]*:((?:[ \t]+[0-9]+)+)[ \t]*$")
SHOWN = re.compile(
    r"[ \t]*(policy|preferred node|physcpubind|cpubind|nodebind|membind|preferred)[ \t]*:[ \t]*(.*)"
)


@dataclass(slots=True)
class NumactlNode:
    """One node as printed."""

    cpus: int | None = None
    size: int | None = None
    """Bytes."""
    free: int | None = None


@dataclass(slots=True)
class Listing:
    """All that the print says."""

    available: int | None = None
    ids: str = ""
    nodes: dict[int, NumactlNode] = field(default_factory=dict)
    columns: tuple[int, ...] = ()
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)
    no_distances: bool = False
    shown: dict[str, str] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)


def read(text: str, file: str = "") -> Hardware:
    """Read NUMA nodes, or what a process may use of them."""
    found = listing(text)
    if found.available is None and not found.nodes and not found.rows and "physcpubind" not in found.shown:
        raise InputError("names no NUMA node", file=file, advice=ADVICE)
    nodes = tuple(_memory_nodes(found))
    homes = {cpu: node.id for node in nodes for cpu in ids_of(node.cpus)}
    return Hardware(
        threads=tuple(Thread(cpu, numa=homes[cpu]) for cpu in sorted(homes)),
        numa=nodes,
        host=_host(found),
        sources=(SOURCE,),
        remarks=(*found.remarks, *_doubts(found, nodes)),
    )


def listing(text: str) -> Listing:
    """The print, line by line."""
    found = Listing()
    lists: dict[int, list[str]] = {}
    wrapped: int | None = None
    in_table = False
    for line in pasted.lines(text):
        matched = False
        available = AVAILABLE.search(line)
        if available and found.available is not None and found.nodes:
            found.remarks.append(Remark(ODD, "text", "it holds several prints; the first one is read"))
            break
        if available:
            found.available, found.ids = int(available[1][:9]), available[2].strip()
            matched = True
        fields = list(FIELD.finditer(line))
        for at, one in enumerate(fields):
            end = fields[at + 1].start() if at + 1 < len(fields) else len(line)
            wrapped = _field(found, whole_number(one[1]), one[2].lower(), line[one.end() : end], lists)
            matched, in_table = True, False
        if not matched and DISTANCES.search(line):
            in_table, matched = True, True
        found.no_distances = found.no_distances or bool(NO_DISTANCES.search(line))
        shown = SHOWN.match(line)
        if shown:
            found.shown[shown[1]] = shown[2].strip()
            matched = True
        if matched:
            wrapped = wrapped if fields else None
        elif in_table:
            _table_line(found, line)
        elif wrapped is not None and ONLY_IDS.fullmatch(line):
            lists[wrapped].append(line)
        elif line.strip():
            wrapped = None
    for number, parts in lists.items():
        found.nodes[number].cpus = cpus = _rising(parts)
        if cpus is None:
            text = f"{quoted(' '.join(parts).strip())} is not an ascending list of CPUs"
            found.remarks.append(Remark(UNREADABLE, f"node {number} cpus", text))
    return found


def _field(found: Listing, number: int, name: str, text: str, lists: dict[int, list[str]]) -> int | None:
    """Take one value over; the number of the node if its CPUs may go on in the next line."""
    place = f"node {number} {name}"
    if number > LARGEST_ID:
        found.remarks.append(Remark(UNREADABLE, place, "is not the number of a node"))
        return None
    node = found.nodes.setdefault(number, NumactlNode())
    if name == "cpus":
        words = IDS.match(text)
        lists[number] = [words[0] if words else ""]
        if text[len(lists[number][0]) :].strip():
            lists[number] = [text]
        return number
    size = SIZE.match(text)
    if not size:
        found.remarks.append(Remark(UNREADABLE, place, f"{quoted(text.strip())} is not an amount of memory"))
    elif name == "size":
        node.size = int(size[1][:15]) * UNITS[size[2].upper()]
    else:
        node.free = int(size[1][:15]) * UNITS[size[2].upper()]
    return None


def _rising(parts: Sequence[str]) -> int | None:
    """The CPUs of a list, which always rises; a number that a terminal cut in two is one again."""
    words = parts[0].replace(",", " ").split()
    for before, part in pairwise(parts):
        more = part.replace(",", " ").split()
        is_tight = before[-1:].isdecimal() and part[:1].isdecimal()
        if is_tight and words and more and not _is_rising([*words, *more]):
            more[0] = words.pop() + more[0]
        words += more
    return _ids(" ".join(words)) if _is_rising(words) else None


def _is_rising(words: Sequence[str]) -> bool:
    texts = [number for word in words for number in word.split("-")]
    if not all(text.isdecimal() and len(text) < 9 for text in texts):
        return False
    numbers = list(map(whole_number, texts))
    return all(one < two for one, two in pairwise(numbers))


def _ids(text: str) -> int | None:
    try:
        return parse_ids(",".join(text.replace(",", " ").split()))
    except ValueError:
        return None


def _table_line(found: Listing, line: str) -> None:
    heading = HEADING.search(line)
    if heading and found.rows:
        return  # another table
    if heading:
        found.columns = (*found.columns, *(int(word[:9]) for word in heading[1].split()))
        return
    row = ROW.search(line)
    if not row:
        return
    values = tuple(int(word[:9]) for word in row[2].split())
    number = int(row[1][:9])
    is_new = number not in found.rows and number in found.columns
    if len(values) == len(found.columns) == len(set(found.columns)) and is_new:
        found.rows[number] = values
    else:
        text = "the row does not fit under its heading"
        found.remarks.append(Remark(UNREADABLE, f"distances of node {number}", text))


def _memory_nodes(found: Listing) -> Iterator[MemoryNode]:
    for number in sorted({*found.nodes, *found.rows}):
        node = found.nodes.get(number, NumactlNode())
        row = found.rows.get(number, ())
        distances = tuple(zip(found.columns, row, strict=True)) if row else ()
        yield MemoryNode(number, cpus=node.cpus or 0, memory=node.size, distances=distances)


def _host(found: Listing) -> Host | None:
    cpus, mems = _ids(found.shown.get("physcpubind", "")), _ids(found.shown.get("membind", ""))
    return Host(cpuset=cpus or None, mems=mems or None) if cpus or mems else None


def _doubts(found: Listing, nodes: Sequence[MemoryNode]) -> Iterator[Remark]:
    if found.available is not None and found.available != len(nodes):
        text = f"{found.available} nodes are available, and {len(nodes)} are listed"
        yield Remark(ODD, "nodes", text)
    for number, told in found.nodes.items():
        lost = [name for name, value in (("cpus", told.cpus), ("size", told.size)) if value is None]
        if lost:
            yield Remark(UNKNOWN, f"node {number}", f"the text does not give its {' and '.join(lost)}")
    if nodes and not found.rows:
        yield Remark(UNKNOWN, "distances", "the text has no table of distances")
    elif found.rows:
        missing = [str(node.id) for node in nodes if node.id not in found.rows]
        if missing:
            yield Remark(UNKNOWN, "distances", f"there is no row for node {', '.join(missing)}")
    seen = 0
    for node in nodes:
        if seen & node.cpus:
            yield Remark(ODD, f"node {node.id}", "has CPUs that another node has, too")
        seen |= node.cpus
