"""Nodes of a cluster side by side: what is free on each NUMA node, and what of it is of use."""

from collections.abc import Mapping

from numawise.results.cluster import PodShape
from numawise.values import dataclass, field

EXACT, CONSERVATIVE, STALE, UNKNOWN, GIVEN = "exact", "conservative", "stale", "unknown", "given"


@dataclass(frozen=True, slots=True)
class NumaRoom:
    """What one NUMA node has left."""

    numa: int
    free: Mapping[str, int] = field(default_factory=dict)
    """CPUs, bytes and devices that nobody has, of what the kubelet gives out by NUMA node."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """What pods may get of these in all."""


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One node."""

    name: str
    known: str
    """``exact``: what its kubelet would say; ``conservative``: careful, a no may be one too many; ``stale``:
    what is published is old; ``unknown``: nothing is published that could be used; ``given``: a node of
    files, as they describe it."""
    policy: str = ""
    """Of the Topology Manager; '': not known."""
    scope: str = ""
    numa: tuple[NumaRoom, ...] = ()
    free: Mapping[str, int] = field(default_factory=dict)
    """By sums, as the scheduler counts: CPUs in thousandths, memory in bytes, everything else by number."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """Likewise, what pods may get in all; empty: not known."""
    pods: int = 0
    """How many pods are there."""
    largest: str = ""
    """The largest known shape that the node would let in if it were idle; '': none, or no shape is known."""
    fits: str = ""
    """The largest known shape that it would let in now."""
    places: int = 0
    """How many of these, one after the other; counted up to ``MOST_PLACES``."""
    more: bool = False
    """Counting was ended there; it may be more."""
    unit: str = ""
    """What holes are counted in: a device resource, or ``cpu`` (thousandths)."""
    holes: int | None = None
    """How much of what is free is of no use to ``largest``; null: not known."""
    notes: tuple[str, ...] = ()
    """What is wrong or remarkable, a sentence each."""


@dataclass(frozen=True, slots=True)
class NodesReport:
    """All nodes that were asked for, by name."""

    nodes: tuple[NodeRoom, ...]
    shapes: tuple[PodShape, ...] = ()
    """Known shapes, the largest first: of pods that run and of pods that wait."""
    remarks: tuple[str, ...] = ()
    """What could not be seen, a sentence each."""
