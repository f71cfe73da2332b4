"""How much of a machine is kept for the system, and where.

Rules kept here:

1. CPUs are kept as whole cores, the lowest of each NUMA node: half a core is of no use to pods that get whole
   ones, and the lowest CPU is where the kernel takes most of its interrupts.
2. They are dealt out over the NUMA nodes in turn, so that the nodes stay alike and a pod that fits one fits
   the next; on nodes of few cores that would cost too much, and the lowest nodes give them.
3. By default one core in 32, at least one of each NUMA node that has four; never more than half of them.
   Cores that the kernel keeps from its scheduler are left to pods while there are others.
4. Memory by default is a 32nd of the machine's, from 512Mi to 16Gi, and an eighth on machines below 8Gi; the
   eviction threshold is a part of it.
5. The kubelet demands that what is reserved on NUMA nodes adds up to kubeReserved, systemReserved and the
   eviction threshold, to the byte.  All amounts are whole mebibytes, so that they can be added in the head.
6. NUMA nodes with CPUs bear equal shares; where one would lose more than a quarter, shares go by size.
"""

from collections.abc import Mapping, Sequence

from numawise.errors import InputError, quoted
from numawise.machine.model import CpuLayout, Machine, Numa
from numawise.quantity import Quantity, parse_size
from numawise.strconv import whole_number
from numawise.values import dataclass

MEBI, GIBI = 1 << 20, 1 << 30
ROOMY = 4
"""Cores of a NUMA node from which on it gives one to the system."""
CORES_PER_RESERVED = 32
EVICTION = ((128, 256), (512, 512))
"""Below so many gibibytes, so many mebibytes are the eviction threshold."""
LEAST_CAPACITY = 1 * GIBI
"""Of a machine, below which memory is not pinned."""


@dataclass(frozen=True, slots=True)
class PlannedCpus:
    """CPUs for the system."""

    cpus: int
    why: str


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """Memory for the system, in mebibytes."""

    kube: int
    system: int
    eviction: int
    shares: tuple[tuple[int, int], ...]
    """NUMA node → its share; empty when the kubelet is not given the shares."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.kube + self.system + self.eviction


def uneven(layout: CpuLayout) -> bool:
    """True when cores differ in their threads, so that the kubelet's average misleads it."""
    return any(cpus.bit_count() != layout.threads_per_core for cpus in layout.cores.values())


def reserve_cpus(layout: CpuLayout, wanted: int | None = None, isolated: int = 0) -> PlannedCpus:
    """The CPUs to reserve; ``wanted``: at least so many."""
    every = layout.all.bit_count()
    if wanted is not None and not 0 < wanted < every:
        raise InputError(
            f"{wanted} of {every} CPUs cannot be reserved",
            field="--reserve-cpus",
            advice="reserve at least 1 and leave some for pods",
        )
    nodes = _cores(layout, isolated)
    roomy = all(len(cores) >= ROOMY for cores in layout.cores_of_numa.values())
    if wanted is None:
        count = max(1, -(-len(layout.cores) // CORES_PER_RESERVED))
        per_node = -(-count // len(nodes)) if roomy else 0
        taken = [core for cores in nodes for core in cores[:per_node]] if roomy else _packed(nodes)[:count]
    else:
        order = _in_turn(nodes) if roomy else _packed(nodes)
        taken = []
        for core in order:
            if sum(one.bit_count() for one in taken) >= wanted:
                break
            taken.append(core)
    cpus = sum(taken)
    if not layout.all & ~cpus:
        raise InputError(
            f"whole cores for {wanted} CPUs leave none for pods",
            field="--reserve-cpus",
            advice="reserve fewer",
        )
    return PlannedCpus(cpus, _cpus_text(layout, cpus, wanted, roomy=roomy))


def _cores(layout: CpuLayout, isolated: int) -> list[list[int]]:
    """The cores of each NUMA node in the order they are taken."""
    return [
        sorted((bits for _, bits in cores), key=lambda bits: (bool(bits & isolated), bits & -bits))
        for _, cores in sorted(layout.cores_of_numa.items())
    ]


def _in_turn(nodes: Sequence[Sequence[int]]) -> list[int]:
    longest = max(map(len, nodes))
    return [cores[at] for at in range(longest) for cores in nodes if at < len(cores)]


def _packed(nodes: Sequence[Sequence[int]]) -> list[int]:
    return [core for cores in nodes for core in cores]


def _cpus_text(layout: CpuLayout, cpus: int, wanted: int | None, *, roomy: bool) -> str:
    cores = sum(bool(core & cpus) for core in layout.cores.values())
    homes = [numa for numa, own in layout.numas.items() if own & cpus]
    threads = f", {layout.threads_per_core} threads each," if layout.threads_per_core > 1 else ""
    what = f"{cores} whole core{'' if cores == 1 else 's'}{threads} for the system and the kubelet"
    asked = ""
    if wanted is not None and cpus.bit_count() != wanted:
        asked = f" ({wanted} CPUs were asked for)"
    if len(layout.numas) == 1:
        return f"{what}{asked}."
    if len(homes) == len(layout.numas):
        return f"{what}{asked}, the lowest of every NUMA node: all nodes then have the same left to give."
    where = f"NUMA {','.join(map(str, homes))}"
    why = "" if roomy else "; the NUMA nodes have too few cores for each to give one"
    return f"{what}{asked}, on {where}{why}."


# --- memory ---------------------------------------------------------------------------------


def reserve_memory(machine: Machine, wanted: int | None = None, *, pinned: bool = True) -> PlannedMemory:
    """The memory to reserve, all of it ``wanted`` bytes; ``pinned``: with shares of NUMA nodes."""
    total = _total(machine.capacity) if wanted is None else -(-wanted // MEBI)
    if wanted is None and pinned:
        total = max(3, min(total, sum(_bearers(machine).values()) // 4))
    eviction = min(_eviction(machine.capacity), max(1, total // 2))
    if wanted is not None:
        eviction = min(eviction, max(1, total // 4))
    if total < 3 or (wanted is not None and total * MEBI * 2 > machine.capacity > 0):
        raise InputError(
            f"{Quantity.of(wanted or 0)} of {Quantity.of(machine.capacity)} cannot be reserved",
            field="--reserve-memory",
            advice="give at least 3Mi and at most half of the memory",
        )
    kube = (total - eviction) // 2
    return PlannedMemory(kube, total - eviction - kube, eviction, _shares(machine, total) if pinned else ())


def may_pin(machine: Machine) -> bool:
    """Whether the machine has memory that can be pinned: enough of it, on a NUMA node with CPUs."""
    return machine.capacity >= LEAST_CAPACITY and bool(_bearers(machine))


def room(numa: Numa) -> int:
    """Bytes of a NUMA node that are not in huge pages."""
    pages = sum(Quantity.parse(size).value * count for size, count in numa.hugepages)
    return numa.memory - pages


def mebi(amount: int) -> str:
    """Mebibytes as a quantity."""
    return str(Quantity.of(amount * MEBI))


def _total(capacity: int) -> int:
    if capacity < 8 * GIBI:
        return max(3, capacity // 8 // MEBI)
    total = min(16 * GIBI, max(GIBI // 2, capacity // 32))
    return -(-total // (256 * MEBI)) * 256


def _eviction(capacity: int) -> int:
    if capacity < 32 * GIBI:
        return min(100, max(1, capacity // 32 // MEBI))
    return next((size for below, size in EVICTION if capacity < below * GIBI), 1024)


def _bearers(machine: Machine) -> dict[int, int]:
    """NUMA nodes that can bear a share → their room in mebibytes."""
    with_cpus = machine.layout.numas
    found = {numa.id: room(numa) // MEBI for numa in machine.numa if numa.id in with_cpus}
    found = {numa: size for numa, size in found.items() if size > 0}
    return found or {numa.id: room(numa) // MEBI for numa in machine.numa if room(numa) >= MEBI}


def _shares(machine: Machine, total: int) -> tuple[tuple[int, int], ...]:
    """What each NUMA node bears (rule 6)."""
    bearers = _bearers(machine)
    if sum(bearers.values()) < 2 * total:
        raise InputError(
            f"{mebi(total)} cannot be kept: beside huge pages there are {mebi(sum(bearers.values()))}",
            field="--reserve-memory",
            advice="reserve less, or have fewer huge pages",
        )
    equal, rest = divmod(total, len(bearers))
    if equal and all(4 * (equal + rest) <= size for size in bearers.values()):
        first = min(bearers)
        return tuple((numa, equal + (rest if numa == first else 0)) for numa in sorted(bearers))
    return _by_size(bearers, total)


def _by_size(bearers: Mapping[int, int], total: int) -> tuple[tuple[int, int], ...]:
    everything = sum(bearers.values())
    shares = {numa: size * total // everything for numa, size in bearers.items()}
    largest = max(bearers, key=lambda numa: (bearers[numa], -numa))
    shares[largest] += total - sum(shares.values())
    return tuple((numa, share) for numa, share in sorted(shares.items()) if share)


def reservation_text(reserved: PlannedMemory) -> str:
    """The equation, in numbers."""
    terms = f"kubeReserved {mebi(reserved.kube)} + systemReserved {mebi(reserved.system)}"
    sizes = [mebi(share) for _, share in reserved.shares]
    alike = len(sizes) > 2 and len(set(sizes)) == 1
    parts = f"{len(sizes)} x {sizes[0]}" if alike else " + ".join(sizes)
    return f"{parts} = {terms} + eviction {mebi(reserved.eviction)}" + (
        f" = {mebi(reserved.total)}" if len(reserved.shares) > 1 else ""
    )


# --------------------------------------------------------------------------------------------------
# Amounts that a person gives on the command line.


def pages_given(texts: Sequence[str], field: str = "--hugepages") -> tuple[tuple[str, int], ...]:
    """Huge pages such as ``1Gi=16``: canonical size and number."""
    found: dict[str, int] = {}
    for text in texts:
        size, _, count = text.partition("=")
        if not count.isascii() or not count.isdecimal() or not whole_number(count):
            raise InputError(
                f"{quoted(text)} is not a page size and a number of pages",
                field=field,
                advice="write it like 1Gi=16",
            )
        found[str(Quantity.of(parse_size(size, field)))] = whole_number(count)
    return tuple(found.items())
