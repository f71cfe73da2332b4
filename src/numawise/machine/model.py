"""A machine as the kubelet knows it: CPUs and how they hang together, NUMA nodes, devices.

Rules kept here:

1. A core is named by its lowest CPU number; threads of one core agree on NUMA node, socket
   and firmware core id.
2. A core without a reported L3 group belongs to the group with its *socket's* id.
3. Sizes of cores, sockets and L3 groups are machine-wide averages, rounded down.  On
   machines with offline threads or mixed cores these averages mislead the kubelet, and
   must mislead us in the same way.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from numawise.machine.preference import Preference
from numawise.values import dataclass, field


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


# --------------------------------------------------------------------------------------------------
# A machine as values: what the kubelet would know of it.


@dataclass(frozen=True, slots=True)
class Cpu:
    """One online logical CPU."""

    cpu: int
    core: int
    """Core id as the firmware gives it: unique only together with socket and NUMA node."""
    socket: int
    numa: int
    uncore_cache: int | None = None
    """Id of its L3 group; None when the hardware layer reports none."""


@dataclass(frozen=True, slots=True)
class Numa:
    """One NUMA node; it may have no CPUs, or no memory."""

    id: int
    memory: int = 0
    """Bytes of the whole node."""
    hugepages: tuple[tuple[str, int], ...] = ()
    """Page size (``2Mi``) and number of pages."""
    distances: tuple[int, ...] = ()
    """Row of the distance matrix, by position in the machine's list of nodes."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a device plugin."""

    id: str
    numa: tuple[int, ...] | None = None
    """NUMA nodes; None: no topology given; empty: topology given but without nodes."""
    healthy: bool = True
    numa_unknown: bool = False
    """Nobody knows what its plugin reports; ``numa`` is an assumption then."""


@dataclass(frozen=True, slots=True)
class DevicePlugin:
    """What one device plugin offers under one resource name."""

    resource: str
    devices: tuple[Device, ...]
    preference: Preference | None = None
    """How it answers GetPreferredAllocation; None: it has no such call."""
    refuses_several: bool = False
    """Its Allocate refuses a container that asks for more than one device."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything about a machine that a decision can depend on."""

    cpus: tuple[Cpu, ...]
    numa: tuple[Numa, ...]
    """In the order the machine reports them."""
    plugins: tuple[DevicePlugin, ...] = ()
    memory_capacity: int | None = None
    """Bytes the whole machine reports; None: the sum over the nodes."""
    layout: CpuLayout = field(init=False, repr=False, compare=False)
    numa_bits: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", _shared_layout(self.cpus))
        object.__setattr__(self, "numa_bits", sum({1 << numa.id for numa in self.numa}))

    @property
    def capacity(self) -> int:
        """Bytes of memory the whole machine reports."""
        if self.memory_capacity is not None:
            return self.memory_capacity
        return sum(numa.memory for numa in self.numa)


@lru_cache(maxsize=64)
def _shared_layout(cpus: tuple[Cpu, ...]) -> CpuLayout:
    """The layout of some CPUs; the nodes of a cluster are of few types, and share it."""
    return cpu_layout(cpus)


def unlocated(plugins: Iterable[DevicePlugin]) -> tuple[str, ...]:
    """Resources with devices of which nobody knows the NUMA nodes."""
    return tuple(
        plugin.resource
        for plugin in plugins
        if any(device.numa_unknown and device.healthy for device in plugin.devices)
    )
