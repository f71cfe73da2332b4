"""``lscpu -e`` and ``-p``, and their JSON: one row for each CPU.

Rules kept here:

1. The heading names the columns; without it only the default of ``lscpu -p`` is known by its shape.
2. Cores and sockets are numbered by lscpu itself, unless it was asked for physical ids.  CPUs of one core and
   socket are siblings; CPUs with the same cache number share that cache.
3. A CPU that is not online, or has no core, is offline.
4. A row that does not fit its heading is left out with a remark.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numawise.codec.hardware import pasted
from numawise.errors import InputError
from numawise.machine.hardware import ASSUMED, ODD, UNREADABLE, Cache, Hardware, MemoryNode, Remark, Thread
from numawise.sets import LARGEST_ID
from numawise.strconv import whole_number
from numawise.values import dataclass

SOURCE = "lscpu"
ADVICE = "give what lscpu -e or lscpu -p prints"
TELLING = frozenset({"core", "socket", "node", "online"})
COLUMN = re.compile(r"[A-Za-z0-9%:_-]*")
DEFAULT = ("cpu", "core", "socket", "node", "")
DEFAULT_ROW = re.compile(r"[0-9]+,[0-9]*,[0-9]*,[0-9]*,(?:,[0-9]+)*,?")
PARSABLE_ROW = re.compile(r"[0-9]+(?:,[\w.%:-]*)+")
CACHES = re.compile(r"l[0-9][di]?(?::l[0-9][di]?)+")
OFF = frozenset(
    {"no", "n", "0", "false", "nein", "non", "nie", "ne", "nee", "nej", "não", "нет", "ні", "否", "いいえ"}
)
NAME_COLUMN = "modelname"


@dataclass(frozen=True, slots=True)
class LscpuLine:
    """A row of the table."""

    cpu: int
    numbers: Mapping[str, int]
    """Column → number, where there is one."""
    is_online: bool


def is_table(text: str) -> bool:
    """Whether a text looks like a table of CPUs."""
    lines = pasted.lines(text)
    return any(_heading(line) for line in lines) or any(DEFAULT_ROW.fullmatch(line.strip()) for line in lines)


def read(text: str, file: str = "") -> Hardware:
    """Read a table of CPUs."""
    remarks: list[Remark] = []
    rows: list[LscpuLine] = []
    heading: Sequence[str] = ()
    commas = False
    for line in (line.strip() for line in pasted.lines(text)):
        found = _heading(line)
        if found:
            if rows:
                break
            heading, commas = found, "," in line
            continue
        if not heading and DEFAULT_ROW.fullmatch(line):
            heading, commas = (*DEFAULT, *(f"cache{i}" for i in range(line.count(",") - 4))), True
        if not heading or not line[:1].isdecimal():
            continue
        cells = _cells(line, heading, commas=commas)
        if cells is None:
            remarks.append(
                Remark(UNREADABLE, f"CPU {line.split()[0][:12]}", "the row does not fit its heading")
            )
            continue
        rows += _line(dict(zip(heading, cells, strict=True)), remarks)
    return _hardware(rows, remarks, file)


def from_rows(entries: Sequence[Any], file: str = "") -> Hardware:
    """Read the rows of ``lscpu -J -e``."""
    remarks: list[Remark] = []
    rows: list[LscpuLine] = []
    for entry in entries:
        if isinstance(entry, dict):
            cells = {
                str(name).lower(): "" if cell is None else str(cell).lower() for name, cell in entry.items()
            }
            rows += _line(_split_caches(cells), remarks)
    return _hardware(rows, remarks, file)


def _heading(line: str) -> tuple[str, ...] | None:
    """The columns that a line names, if it is a heading."""
    words = [word.strip() for word in (line.split(",") if "," in line else line.split())]
    columns = tuple(word.lower() for word in words)
    if "cpu" not in columns or not TELLING & set(columns) or not all(map(COLUMN.fullmatch, words)):
        return None
    if "," not in line and not all(word.isupper() or CACHES.fullmatch(word.lower()) for word in words):
        return None
    named = [column for column in columns if column]
    return columns if len(set(named)) == len(named) else None


def _cells(line: str, heading: Sequence[str], *, commas: bool) -> list[str] | None:
    if commas:
        cells = [cell.strip() for cell in line.split(",")] if PARSABLE_ROW.fullmatch(line) else []
        if "" in heading and heading.index("") < len(cells) < len(heading):  # lscpu leaves absent caches out
            known = heading.index("") + 1
            cells = [*cells[:known], *[""] * (len(heading) - known)]
        return cells if len(cells) == len(heading) else None
    cells = line.split()
    surplus = len(cells) - len(heading)
    if surplus > 0 and NAME_COLUMN in heading:
        at = heading.index(NAME_COLUMN)
        cells[at : at + surplus + 1] = [" ".join(cells[at : at + surplus + 1])]
    return cells if len(cells) == len(heading) else None


def _line(cells: Mapping[str, str], remarks: list[Remark]) -> Iterator[LscpuLine]:
    cells = _split_caches(cells)
    cpu = cells.get("cpu", "")
    if not cpu.isdecimal() or len(cpu) > 5 or int(cpu) > LARGEST_ID:
        remarks.append(Remark(UNREADABLE, f"CPU {cpu[:12]}", "is not the number of a CPU"))
        return
    numbers: dict[str, int] = {}
    for name, cell in cells.items():
        if re.fullmatch(r"-?[0-9]{1,9}", cell):
            numbers[name] = whole_number(cell)
    is_off = cells.get("online", "").lower() in OFF or ("core" in cells and cells["core"] in ("-", ""))
    yield LscpuLine(int(cpu), numbers, is_online=not is_off)


def _split_caches(cells: Mapping[str, str]) -> dict[str, str]:
    """``L1d:L1i:L2:L3`` as columns of their own."""
    found: dict[str, str] = {}
    for name, cell in cells.items():
        names, values = name.split(":"), cell.split(":")
        if CACHES.fullmatch(name) and len(names) == len(values):
            found |= dict(zip(names, values, strict=True))
        else:
            found[name] = cell
    return found


def _hardware(rows: Sequence[LscpuLine], remarks: list[Remark], file: str) -> Hardware:
    lines: dict[int, LscpuLine] = {}
    for row in rows:
        if row.cpu in lines:
            remarks.append(Remark(ODD, f"CPU {row.cpu}", "is listed twice; using the first row"))
        lines.setdefault(row.cpu, row)
    online = [lines[cpu] for cpu in sorted(lines) if lines[cpu].is_online]
    if not online:
        raise InputError("has no row of an online CPU", file=file, advice=ADVICE)
    cores = _groups(online, ("socket", "core"), needed="core")
    shared = {name: _groups(online, (name,), needed=name) for name in ("l2", "l3")}
    threads = tuple(
        Thread(
            row.cpu,
            core=row.numbers.get("core"),
            socket=row.numbers.get("socket"),
            die=row.numbers.get("die"),
            numa=row.numbers.get("node"),
            siblings=cores.get(_key(row, ("socket", "core")), 0) if "core" in row.numbers else 0,
            l2=_cache(row, "l2", shared["l2"]),
            l3=_cache(row, "l3", shared["l3"]),
        )
        for row in online
    )
    nodes = _groups(online, ("node",), needed="node")
    if cores:
        remarks.append(Remark(ASSUMED, "cores", "cores and sockets are numbered as lscpu counts them"))
    return Hardware(
        threads=threads,
        offline=sum(1 << cpu for cpu, row in lines.items() if not row.is_online),
        numa=tuple(MemoryNode(key[0], cpus) for key, cpus in sorted(nodes.items()) if key[0] is not None),
        sources=(SOURCE,),
        remarks=tuple(remarks),
    )


Key = tuple[int | None, ...]


def _key(row: LscpuLine, names: Sequence[str]) -> Key:
    return tuple(row.numbers.get(name) for name in names)


def _groups(rows: Sequence[LscpuLine], names: Sequence[str], needed: str) -> dict[Key, int]:
    """The CPUs that have the same numbers in some columns."""
    found: dict[Key, int] = {}
    for row in rows:
        if needed in row.numbers:
            key = _key(row, names)
            found[key] = found.get(key, 0) | 1 << row.cpu
    return found


def _cache(row: LscpuLine, name: str, groups: Mapping[Key, int]) -> Cache | None:
    if name not in row.numbers:
        return None
    return Cache(groups[_key(row, (name,))], id=row.numbers[name])
