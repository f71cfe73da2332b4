"""A machine as values: what the kubelet would be told about it."""

from dataclasses import dataclass, field

from numawise.machine.layout import CpuLayout, cpu_layout


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


@dataclass(frozen=True, slots=True)
class DevicePlugin:
    """What one device plugin offers under one resource name."""

    resource: str
    devices: tuple[Device, ...]
    prefers_lowest: bool = False
    """It answers GetPreferredAllocation: what must be included, then the lowest ids."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything about a machine that a decision can hang on."""

    cpus: tuple[Cpu, ...]
    numa: tuple[Numa, ...]
    """In the order the machine reports them."""
    plugins: tuple[DevicePlugin, ...] = ()
    memory_capacity: int | None = None
    """Bytes the whole machine reports; None: the sum over the nodes."""
    layout: CpuLayout = field(init=False, repr=False, compare=False)
    numa_bits: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", cpu_layout(self.cpus))
        object.__setattr__(self, "numa_bits", sum({1 << numa.id for numa in self.numa}))

    @property
    def capacity(self) -> int:
        """Bytes of memory the whole machine reports."""
        if self.memory_capacity is not None:
            return self.memory_capacity
        return sum(numa.memory for numa in self.numa)
