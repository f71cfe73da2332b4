"""``rocm-smi --showtopo``: weight, hops and kind of the links between AMD GPUs, and their NUMA nodes.

Rules kept here:

1. Each section is a square under its title; a missing or damaged one leaves its values out, not the others.
2. In the matrix a GPU is ``X`` to itself, where rocm-smi prints 0; weights and hops stay in ``Tables``.
3. *Numa Affinity* is what the kernel says of the device, and -1 is "not known"; *Numa Node* is the driver's
   own idea.  Where they differ, the kernel's is taken and the other is a remark.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from numawise.codec.hardware import pasted
from numawise.errors import InputError
from numawise.machine.hardware import AMD, DIFFERS, ODD, UNKNOWN, UNREADABLE, Gpu, Hardware, Matrix, Remark
from numawise.strconv import whole_number
from numawise.values import dataclass, field

SOURCE = "rocm-smi"
ADVICE = "give what rocm-smi --showtopo prints"
WEIGHT, HOPS, LINK = "weight", "hops", "link_type"
NODE, AFFINITY = "Numa Node", "Numa Affinity"
TITLES = {"weight between": WEIGHT, "hops between": HOPS, "link type between": LINK}
TITLE = re.compile(r"(weight between|hops between|link type between|numa nodes|end of rocm)", re.IGNORECASE)
RULED = re.compile(r"={3,}")
ROW = re.compile(r"(?<![\w\[])(GPU[0-9]{1,4})[ \t]+((?:(?:[0-9]+|[A-Z][A-Z0-9/]*)(?:[ \t]+|$))+)")
HEADER = re.compile(r"(?<!\S)GPU[0-9]{1,4}(?:[ \t]+GPU[0-9]{1,4})*[ \t]*$")
NUMA = re.compile(
    r"GPU\[([0-9]{1,4})\][ \t]*:[ \t]*\(Topology\)[ \t]*(Numa Node|Numa Affinity)[ \t]*:[ \t]*(-?[0-9]+|N/A)",
    re.IGNORECASE,
)
CELLS = {
    WEIGHT: re.compile(r"[0-9]+|N/A"),
    HOPS: re.compile(r"[0-9]+|N/A"),
    LINK: re.compile(r"[A-Z][A-Z0-9/]*|0"),
}

Square = Mapping[str, Mapping[str, str]]


@dataclass(slots=True)
class Tables:
    """The sections as printed: GPU → GPU → cell."""

    squares: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    """For each of ``weight``, ``hops`` and ``link_type``."""
    numa: dict[str, dict[str, str]] = field(default_factory=dict)
    """GPU → ``Numa Node`` and ``Numa Affinity`` → number."""
    remarks: list[Remark] = field(default_factory=list)


def read(text: str, file: str = "") -> Hardware:
    """Read the topology of AMD GPUs."""
    found = tables(text)
    names = list(found.numa)
    for square in found.squares.values():
        names += list(square)
        names += [column for row in square.values() for column in row]
    gpus = tuple(sorted(set(names), key=lambda name: whole_number(name[3:])))
    if not gpus:
        raise InputError("has neither links nor NUMA nodes of AMD GPUs", file=file, advice=ADVICE)
    remarks = list(found.remarks)
    kinds = found.squares.get(LINK, {})
    if not kinds:
        remarks.append(Remark(UNKNOWN, "link type", "the text does not say how the GPUs are linked"))
    links = {row: {to: "X" if row == to else kind for to, kind in kinds[row].items()} for row in kinds}
    affinities = {gpu: found.numa.get(gpu, {}).get(AFFINITY) for gpu in gpus}
    matrix = Matrix(gpus, links=links, numa_affinity={gpu: numa for gpu, numa in affinities.items() if numa})
    remarks += _doubts(found, gpus)
    return Hardware(
        gpus=tuple(Gpu(gpu, numa=_numa(affinities[gpu]), maker=AMD) for gpu in gpus),
        matrix=matrix,
        sources=(SOURCE,),
        remarks=tuple(remarks),
    )


def tables(text: str) -> Tables:
    """The sections of the print."""
    found = Tables()
    section, columns = "", ()  # type: str, Sequence[str]
    for line in pasted.lines(text):
        title = TITLE.search(line)
        if title and (RULED.search(line) or not ROW.search(line)):
            section, columns = TITLES.get(title[1].lower(), ""), ()
        for numa in NUMA.finditer(line):
            found.numa.setdefault(f"GPU{whole_number(numa[1])}", {})[numa[2].title()] = numa[3]
        if not section or title:
            continue
        header = HEADER.search(line)
        if header:
            columns = (*columns, *header[0].split())  # a second line: the header was wrapped
            continue
        row = ROW.search(line)
        if row and columns:
            _add(found, section, columns, row[1], row[2].split())
    return found


def _add(found: Tables, section: str, columns: Sequence[str], name: str, cells: Sequence[str]) -> None:
    square = found.squares.setdefault(section, {})
    fits = len(cells) == len(columns) == len(set(columns)) and name in columns and name not in square
    if not fits or cells[columns.index(name)] not in ("0", "N/A"):
        text = "the row does not fit under the header"
        found.remarks.append(Remark(UNREADABLE, f"{section} {name}", text))
        return
    readable = {to: cell for to, cell in zip(columns, cells, strict=True) if CELLS[section].fullmatch(cell)}
    if section == LINK:
        readable = {to: cell for to, cell in readable.items() if cell != "0" or to == name}
    lost = [to for to in columns if to not in readable]
    if lost:
        text = f"the cells for {', '.join(lost)} cannot be read"
        found.remarks.append(Remark(UNREADABLE, f"{section} {name}", text))
    square[name] = readable


def _numa(text: str | None) -> tuple[int, ...] | None:
    return (int(text),) if text and text.isdecimal() and len(text) < 6 else None


def _doubts(found: Tables, gpus: Sequence[str]) -> Iterator[Remark]:
    for section, square in found.squares.items():
        missing = [gpu for gpu in gpus if gpu not in square]
        if missing:
            yield Remark(UNKNOWN, section, f"there is no row for {', '.join(missing)}")
        uneven = _uneven(square)
        if uneven:
            yield Remark(ODD, section, f"the two directions differ for {', '.join(uneven[:6])}")
    for gpu in gpus:
        node, near = found.numa.get(gpu, {}).get(NODE), found.numa.get(gpu, {}).get(AFFINITY)
        if near is None:
            yield Remark(UNKNOWN, gpu, "the text does not give its NUMA affinity")
        elif node is not None and node != near:
            yield Remark(DIFFERS, gpu, f"its NUMA affinity is {near}, but its NUMA node is {node}")


def _uneven(square: Square) -> list[str]:
    return [
        f"{one}-{two}"
        for one, row in square.items()
        for two, there in row.items()
        if one < two and square.get(two, {}).get(one, there) != there
    ]
