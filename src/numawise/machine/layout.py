"""How the CPUs of a machine hang together, as the CPU Manager sees it.

Rules kept here:

1. A core is named by its lowest CPU number; threads of one core agree on NUMA node, socket
   and firmware core id.
2. A core without a reported L3 group belongs to the group with its *socket's* id.
3. Sizes of cores, sockets and L3 groups are machine-wide averages, rounded down.  On
   machines with offline threads or mixed cores these averages mislead the kubelet, and
   must mislead us in the same way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numawise.machine.model import Cpu


@dataclass(frozen=True, slots=True)
class CpuLayout:
    """CPU sets (packed) by NUMA node, socket, core and L3 group, each by ascending id."""

    all: int
    numas: Mapping[int, int]
    sockets: Mapping[int, int]
    cores: Mapping[int, int]
    uncores: Mapping[int, int]
    sockets_of_numa: Mapping[int, tuple[int, ...]]
    numas_of_socket: Mapping[int, tuple[int, ...]]
    cores_of_socket: Mapping[int, tuple[tuple[int, int], ...]]
    cores_of_numa: Mapping[int, tuple[tuple[int, int], ...]]
    uncores_of_numa: Mapping[int, tuple[int, ...]]
    threads_per_core: int
    cpus_per_socket: int
    cpus_per_uncore: int
    numa_first: bool
    """True when sockets are at least as many as NUMA nodes with CPUs."""

    def cores_touching(self, cpus: int) -> int:
        """All CPUs of every core that has a CPU in the set."""
        found = 0
        for core in self.cores.values():
            if core & cpus:
                found |= core
        return found


def cpu_layout(cpus: Iterable["Cpu"]) -> CpuLayout:
    """Work out the layout of the given online CPUs."""
    cores_by_place: dict[tuple[int, int, int], int] = {}
    numas: dict[int, int] = {}
    sockets: dict[int, int] = {}
    uncore_of_core: dict[tuple[int, int, int], int] = {}
    everything = 0
    for cpu in sorted(cpus, key=lambda c: c.cpu):
        bit = 1 << cpu.cpu
        everything |= bit
        place = (cpu.numa, cpu.socket, cpu.core)
        cores_by_place[place] = cores_by_place.get(place, 0) | bit
        numas[cpu.numa] = numas.get(cpu.numa, 0) | bit
        sockets[cpu.socket] = sockets.get(cpu.socket, 0) | bit
        uncore_of_core.setdefault(place, cpu.socket if cpu.uncore_cache is None else cpu.uncore_cache)

    cores: dict[int, int] = {}
    uncores: dict[int, int] = {}
    cores_of_socket: dict[int, list[tuple[int, int]]] = {}
    cores_of_numa: dict[int, list[tuple[int, int]]] = {}
    for place, bits in sorted(cores_by_place.items(), key=lambda item: _lowest(item[1])):
        numa, socket, _ = place
        core = _lowest(bits)
        cores[core] = bits
        uncore = uncore_of_core[place]
        uncores[uncore] = uncores.get(uncore, 0) | bits
        cores_of_socket.setdefault(socket, []).append((core, bits))
        cores_of_numa.setdefault(numa, []).append((core, bits))

    count = everything.bit_count()
    return CpuLayout(
        all=everything,
        numas=dict(sorted(numas.items())),
        sockets=dict(sorted(sockets.items())),
        cores=cores,
        uncores=dict(sorted(uncores.items())),
        sockets_of_numa=_meeting(numas, sockets),
        numas_of_socket=_meeting(sockets, numas),
        cores_of_socket={socket: tuple(found) for socket, found in cores_of_socket.items()},
        cores_of_numa={numa: tuple(found) for numa, found in cores_of_numa.items()},
        uncores_of_numa=_meeting(numas, uncores),
        threads_per_core=count // len(cores) if cores else 0,
        cpus_per_socket=count // len(sockets) if sockets else 0,
        cpus_per_uncore=count // len(uncores) if uncores else 0,
        numa_first=len(sockets) >= len(numas),
    )


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _meeting(outer: Mapping[int, int], inner: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Per outer id, the inner ids that share a CPU with it, ascending."""
    return {
        one: tuple(other for other, there in sorted(inner.items()) if there & here)
        for one, here in outer.items()
    }
