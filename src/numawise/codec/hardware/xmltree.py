"""XML that somebody sent as a bounded tree, nothing expanded or fetched, and the PCI devices in it.

Rules kept here:

1. A text that declares entities is refused; a DOCTYPE that names a file is not followed.
2. Size, depth and number of elements have limits far beyond any topology.
3. Every element knows its line.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from xml.parsers import expat

from numawise.errors import InputError
from numawise.machine.hardware import Gpu, Matrix, PciDevice
from numawise.machine.locality import NODE, SYS, pcie_link
from numawise.sets import LARGEST_ID, format_ids
from numawise.values import dataclass, field

LARGEST_XML, DEEPEST, MOST_ELEMENTS = 50 << 20, 256, 500_000


@dataclass(slots=True, eq=False)
class Element:
    """An XML element."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    children: list["Element"] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str) -> Iterator["Element"]:
        """Its children of one name."""
        return (child for child in self.children if child.tag == tag)


def xml_tree(text: str, file: str) -> Element:
    """Read XML without ever expanding an entity or fetching anything (rule 1)."""
    body = text.lstrip("\ufeff \t\r\n")
    before = text[: len(text) - len(body)].count("\n")
    raw = body.encode(errors="replace")
    if len(raw) > LARGEST_XML:
        message = f"is larger than {LARGEST_XML >> 20} MiB"
        raise InputError(message, file=file, advice="give one machine's topology")
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    top = Element("", {}, 0)
    opened = [top]
    count = 0

    def wrong(message: str, advice: str = "") -> InputError:
        return InputError(message, file=file, line=parser.CurrentLineNumber + before, advice=advice)

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(opened) > DEEPEST or count > MOST_ELEMENTS:
            raise wrong("is nested too deeply" if len(opened) > DEEPEST else "has too many elements")
        element = Element(tag, attributes, parser.CurrentLineNumber + before)
        opened[-1].children.append(element)
        opened.append(element)

    def end(_tag: str) -> None:
        opened.pop()

    def data(piece: str) -> None:
        if not piece.isspace():  # what stands between elements would only cost time
            opened[-1].text += piece

    def refuse(*_declared: object) -> None:
        raise wrong("declares entities, which no topology needs", "remove the DOCTYPE's inner part")

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = data, refuse
    try:
        parser.Parse(raw, True)
    except expat.ExpatError as problem:
        message = f"is not valid XML: {expat.ErrorString(problem.code)}"
        line = problem.lineno + before
        raise InputError(message, file=file, line=line, advice="export or copy it again") from None
    return top.children[0]


def words(text: str | None) -> int | None:
    """A set in hwloc's form, 32-bit words from the highest down; None: not given, or without an end.

    >>> words("0x00000303,,0x1") == (0x303 << 64) + 1
    True
    """
    if not text or "..." in text:
        return None
    pieces = text.split(",")
    if len(pieces) * 32 > LARGEST_ID:
        return None
    bits = 0
    for piece in pieces:
        try:
            word = int(piece, 16) if piece.strip() else 0
        except ValueError:
            return None
        if word < 0 or (len(pieces) > 1 and word >> 32) or word >> LARGEST_ID:
            return None
        bits = bits << 32 | word
    return bits


def number(text: str | None) -> int | None:
    """A whole number, None where there is none."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 20 else None


def decimal(text: str | None) -> float:
    """A number with a fraction; 0 where there is none."""
    try:
        found = float(text or "0")
    except ValueError:
        return 0.0
    return found if abs(found) < 1e18 else 0.0


def hexadecimal(text: str | None) -> int | None:
    """A number such as ``0x10de`` or ``10de``, None where there is none."""
    try:
        return int(text, 16) if text else None
    except ValueError:
        return None


# --------------------------------------------------------------------------------------------------
# PCI devices by their place in the tree: addresses, kinds, and the way from one to another.


ADDRESS = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-9a-fA-F])")


def pci_address(text: str) -> str | None:
    """A PCI address in the kernel's form, ``0000:17:00.0``."""
    found = ADDRESS.fullmatch(text.strip())
    if not found:
        return None
    domain, bus, device, function = (int(part or "0", 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def pci_link(one: PciDevice, other: PciDevice) -> str:
    """How two PCI devices reach each other, in the words of ``nvidia-smi topo -m``."""
    by_tree = pcie_link(one.parents, other.parents)
    if by_tree:
        return by_tree
    known = one.numa is not None and one.numa >= 0 and one.numa == other.numa
    same = one.local_cpus and one.local_cpus == other.local_cpus
    return NODE if known or same else SYS


def matrix_of(
    ends: Mapping[str, PciDevice],
    gpus: Sequence[Gpu],
    nics: Mapping[str, str],
    measured: Mapping[tuple[str, str], str],
) -> Matrix:
    """All links between the ends: the measured ones, else those that follow from the bridges."""
    links = {
        row: {
            column: "X" if row == column else measured.get((row, column)) or pci_link(one, other)
            for column, other in ends.items()
        }
        for row, one in ends.items()
    }
    named = [gpu for gpu in gpus if gpu.name in ends]
    return Matrix(
        gpus=tuple(gpu.name for gpu in named),
        nics=tuple(nics),
        links=links,
        cpu_affinity={gpu.name: format_ids(gpu.cpus) if gpu.cpus else None for gpu in named},
        numa_affinity={gpu.name: ",".join(map(str, gpu.numa)) if gpu.numa else None for gpu in named},
        gpu_numa_id={gpu.name: None if gpu.own_numa is None else str(gpu.own_numa) for gpu in named},
        nic_names=dict(nics),
    )
