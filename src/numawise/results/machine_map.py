"""The map of a machine with who holds what, as a page gets it: the drawing, and what lies behind it."""

from collections.abc import Mapping

from numawise.sets import CpuSet, NumaSet
from numawise.values import dataclass, field


@dataclass(frozen=True, slots=True)
class MapMemory:
    """Memory that somebody has on one NUMA node."""

    numa: int
    bytes: int
    text: str
    """The amount for people: ``64 GiB``."""


@dataclass(frozen=True, slots=True)
class MapHolderForm:
    """Somebody who has something of the machine."""

    id: str
    """As ``data-holder`` of the drawing names it."""
    name: str
    mark: str
    """The letters that stand for it in the drawing; "" for one with nothing that is drawn."""
    colour: int
    """Number of its colour: class ``hold-N`` of the drawing."""
    kind: str
    """``pod``, ``job``, ``system`` (reserved) or ``several``."""
    cpus: CpuSet
    """CPUs that it has alone; empty: it runs in the shared pool, or has none."""
    numa: NumaSet
    """NUMA nodes of all that it has."""
    memory: tuple[MapMemory, ...]
    devices: tuple[str, ...]
    """Devices, as the drawing names them."""
    lines: tuple[str, ...]
    """What it has, and what else is known about it, for people."""


@dataclass(frozen=True, slots=True)
class MapPart:
    """Something that is drawn and can be chosen: a core, an L3, a NUMA node, a socket, a device."""

    id: str
    """As ``data-id`` of the drawing names it."""
    kind: str
    """``core``, ``l3``, ``numa``, ``memory``, ``socket``, ``gpu``, ``nic``, ``nvme``, …"""
    label: str
    cpus: CpuSet
    numa: NumaSet
    holders: tuple[str, ...]
    """Ids of those who have it, or a part of it."""
    free: bool
    """Nobody has any of it; false where that is not known."""
    lines: tuple[str, ...]
    """Details for people."""


@dataclass(frozen=True, slots=True)
class MapTableRow:
    """A row of a table."""

    label: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MapTable:
    """Links between devices, or distances between NUMA nodes, to be drawn as a heat map."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[MapTableRow, ...]
    note: str
    """A sentence about it, or in its place where there are no rows."""
    shades: Mapping[str, str] = field(default_factory=dict)
    """Word of a cell → how good it is: ``fast``, ``near``, ``middle``, ``far`` or ``none``."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """Word of a cell → what it means, best first."""


@dataclass(frozen=True, slots=True)
class MapForm:
    """A machine with who holds what of it, drawn for a width."""

    name: str
    summary: str
    """The machine in one line."""
    description: str
    """The drawing in sentences, for those who cannot see it."""
    width: int
    height: int
    svg: str
    """The drawing without any style: classes and ``data-`` attributes alone."""
    cpus: CpuSet
    """All CPUs."""
    shared: CpuSet | None
    """The shared pool; null: nobody has CPUs alone here, or it is not known."""
    reserved: CpuSet
    """CPUs kept for the system."""
    free: CpuSet
    """CPUs that somebody could still have alone; none where it is not known who has CPUs."""
    holders: tuple[MapHolderForm, ...]
    parts: tuple[MapPart, ...]
    tables: tuple[MapTable, ...]
    unknown: tuple[str, ...]
    """Of what it is not known who has it, as a state file is damaged or missing: ``cpus``, ``devices``."""
    notices: tuple[str, ...]
    """What must be known to read the map, such as that the kubelet would not start."""
    remarks: tuple[str, ...]
    """What is known about how the machine was read."""


@dataclass(frozen=True, slots=True)
class CatalogueMachine:
    """A machine that is known by name."""

    name: str
    summary: str
    source: str
    """Where what is known about it comes from."""


@dataclass(frozen=True, slots=True)
class CatalogueList:
    """The machines that can be named (``machine list``)."""

    machines: tuple[CatalogueMachine, ...]
