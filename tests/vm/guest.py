"""The machine that the checks run on, as its kernel tells it."""

from dataclasses import dataclass
from pathlib import Path

from numawise.sets import ids_of, parse_ids

NODES = Path("/sys/devices/system/node")
CGROUP = Path("/sys/fs/cgroup")
USER = 1000


class Skip(Exception):
    """This machine cannot show it, and why."""


@dataclass(frozen=True, slots=True)
class Place:
    """CPUs of some NUMA nodes, and the nodes their memory is to come from."""

    cpus: int
    mems: int

    def __str__(self) -> str:
        return f"nodes {','.join(map(str, ids_of(self.mems)))}"


@dataclass(frozen=True, slots=True)
class Guest:
    """NUMA nodes of the guest."""

    cpus: tuple[int, ...]
    """Node → its CPUs, packed."""
    with_memory: int
    distances: tuple[tuple[int, ...], ...]

    @property
    def all_cpus(self) -> int:
        return sum(self.cpus)

    def near(self, node: int) -> int:
        """The nearest node with memory."""
        return min(ids_of(self.with_memory), key=lambda other: (self.distances[node][other], other))

    def places(self) -> tuple[Place, ...]:
        """Every node with CPUs beside the memory next to it; each memory-only node; two nodes at once, or
        memory that the CPUs would not take by themselves.
        """
        found = [Place(cpus, 1 << self.near(node)) for node, cpus in enumerate(self.cpus) if cpus]
        found += [Place(self.cpus[0], 1 << node) for node in ids_of(self.with_memory) if not self.cpus[node]]
        if len(self.cpus) > 2:
            found.append(Place(self.cpus[0] | self.cpus[1], self.with_memory & 3))
        else:
            found.append(Place(self.cpus[0], 1 << self.with_memory.bit_length() - 1))
        return tuple(found)

    def far(self) -> Place:
        """Some CPUs of the last node that has any, with the memory next to them."""
        node = max(node for node, cpus in enumerate(self.cpus) if cpus)
        return Place(self.cpus[node], 1 << self.near(node))


def read_guest() -> Guest:
    nodes = sorted(ids_of(parse_ids((NODES / "online").read_text().strip())))
    return Guest(
        tuple(parse_ids((NODES / f"node{node}/cpulist").read_text().strip()) for node in nodes),
        parse_ids((NODES / "has_memory").read_text().strip()),
        tuple(tuple(map(int, (NODES / f"node{node}/distance").read_text().split())) for node in nodes),
    )
