"""Choose CPUs out of a set, packed.

Counterpart: ``takeByTopologyNUMAPacked`` of pkg/kubelet/cm/cpumanager/cpu_assignment.go.

Rules kept here:

1. *Best fit*: nodes, sockets, L3 groups and cores are walked by (free CPUs, id), fewest first.
2. Whole units first, from large to small; then single CPUs, so that an odd remainder fills a
   broken core before it breaks a whole one.
3. Sizes of sockets and cores are averages (see ``machine.model``), and a unit is claimed with *all* CPUs
   it has.  On uneven machines this hands out CPUs that were not free; the kubelet does so too, and a
   step says it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from numawise.engine.trace import CpuPassBegan, CpusTaken, Note, ignore
from numawise.machine.model import CpuLayout
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class NotEnough:
    """Too few CPUs: the kubelet's own sentence."""

    message: str


@dataclass(frozen=True, slots=True)
class Style:
    """How to choose, out of the policy options."""

    by_uncore: bool = False
    across_cores: bool = False
    says_numbers: bool = True
    by_numa: bool = True
    """NUMA nodes are a level of their own."""
    odd_in_uncore: bool = True
    """Half a core may be taken of an L3 group."""


PACKED = Style()


def not_enough(needed: int, available: int, style: Style = PACKED) -> NotEnough:
    """The refusal when a set is too small."""
    numbers = f": requested={needed}, available={available}" if style.says_numbers else ""
    return NotEnough(f"not enough cpus available to satisfy request{numbers}")


def take(
    layout: CpuLayout, available: int, count: int, style: Style = PACKED, note: Note = ignore
) -> int | NotEnough:
    """Take so many CPUs from the available ones, packed."""
    if count <= 0:
        return 0
    free = available & layout.all
    if count > free.bit_count():
        return not_enough(count, available.bit_count(), style)
    taker = _Taker(layout, free, count, note, style)
    numas, sockets = ("numa", taker.whole_numas), ("socket", taker.whole_sockets)
    passes: list[tuple[str, Callable[[], None]]] = [numas, sockets] if layout.numa_first else [sockets, numas]
    if not style.by_numa:
        passes = [sockets]
    if style.by_uncore:
        passes.append(("uncore", taker.by_uncore))
    if not style.across_cores:
        passes.append(("core", taker.whole_cores))
    passes.append(("cpu", taker.spread_cpus if style.across_cores else taker.single_cpus))
    for unit, one in passes:
        if note is not ignore:
            note(CpuPassBegan(unit, taker.need, taker.free))
        one()
        if taker.need <= 0:
            return taker.result
    return NotEnough("failed to allocate cpus")


class _Taker:
    """The working state of one choice."""

    def __init__(self, layout: CpuLayout, free: int, need: int, note: Note, style: Style) -> None:
        self.layout = layout
        self.free = free
        self.need = need
        self.result = 0
        self.note = note
        self.style = style
        self.numa_first = layout.numa_first and style.by_numa
        self.cores_by_socket = layout.numa_first or not style.by_numa

    def claim(self, cpus: int, unit: str, name: int) -> None:
        if self.note is not ignore:
            self.note(CpusTaken(unit, name, cpus, cpus & ~self.free & ~self.result))
        self.result |= cpus
        self.free &= ~cpus
        self.need -= cpus.bit_count()

    # Passes --------------------------------------------------------------------------------

    def whole_numas(self) -> None:
        numas = self.layout.numas
        self.claim_whole("numa", numas, [n for n in self.numa_order() if not numas[n] & ~self.free])

    def whole_sockets(self) -> None:
        sockets, size = self.layout.sockets, self.layout.cpus_per_socket
        whole = [s for s in self.socket_order() if (sockets[s] & self.free).bit_count() == size]
        self.claim_whole("socket", sockets, whole)

    def whole_cores(self) -> None:
        size, free = self.layout.threads_per_core, self.free
        whole = [core for core in self.cores_walked() if (core[1] & free).bit_count() == size]
        for core, cpus in whole:
            if cpus.bit_count() <= self.need:
                self.claim(cpus, "core", core)
                if self.need <= 0:
                    return

    def claim_whole(self, unit: str, units: Mapping[int, int], whole: Iterable[int]) -> None:
        for name in whole:
            if units[name].bit_count() <= self.need:
                self.claim(units[name], unit, name)
                if self.need <= 0:
                    return

    def single_cpus(self) -> None:
        for cores in self.cores_by_group():
            for _, core, cpus in sorted(cores):
                while cpus:
                    cpu = cpus & -cpus
                    cpus ^= cpu
                    self.claim(cpu, "cpu", core)
                    if self.need <= 0:
                        return

    def spread_cpus(self) -> None:
        """By socket and number alone; reaches other cores only where siblings have distant numbers."""
        free = self.free  # a socket that stands in the order twice counts its CPUs twice
        for socket in self.socket_order():
            cpus = self.layout.sockets[socket] & free
            while cpus:
                cpu = cpus & -cpus
                cpus ^= cpu
                self.claim(cpu, "cpu", socket)
                if self.need <= 0:
                    return

    def by_uncore(self) -> None:
        """Fill L3 groups, whole ones first, then one that can hold the whole rest."""
        layout = self.layout
        for uncore in self.uncore_order():
            if self.need >= layout.cpus_per_uncore:
                uncores = layout.uncores
                whole = [u for u in self.uncore_order() if not uncores[u] & ~self.free]
                self.claim_whole("uncore", uncores, whole)
            if self.need <= 0:
                return
            if cpus := self.fitting_part(layout.uncores[uncore]):
                self.claim(cpus, "uncore part", uncore)
                return

    def fitting_part(self, uncore: int) -> int:
        """Lowest cores of an L3 group that hold exactly what is needed; 0 when they do not."""
        threads = self.layout.threads_per_core
        wanted = -(-self.need // threads) if self.style.odd_in_uncore else self.need // threads
        here = self.free & uncore
        chosen = 0
        for cpus in self.layout.cores.values():
            if wanted and cpus & here:
                chosen |= cpus & here
                wanted -= 1
        if self.need % 2 and threads > 1 and chosen.bit_count() > self.need:
            chosen ^= 1 << chosen.bit_length() - 1
        return chosen if chosen.bit_count() == self.need else 0

    # Orders: what has free CPUs, fewest first ------------------------------------------------

    def by_free(self, ids: Iterable[int], units: Mapping[int, int], inside: int = -1) -> list[int]:
        free = self.free
        sized = [((units[i] & free).bit_count(), i) for i in ids if units[i] & free & inside]
        sized.sort()
        return [i for _, i in sized]

    def numa_order(self) -> list[int]:
        layout = self.layout
        if layout.numa_first:
            return self.by_free(layout.numas, layout.numas)
        order: list[int] = []
        for socket in self.socket_order():
            order += self.by_free(layout.numas_of_socket[socket], layout.numas, layout.sockets[socket])
        return order

    def socket_order(self) -> list[int]:
        layout = self.layout
        if not self.numa_first:
            return self.by_free(layout.sockets, layout.sockets)
        order: list[int] = []
        for numa in self.numa_order():
            order += self.by_free(layout.sockets_of_numa[numa], layout.sockets, layout.numas[numa])
        return order

    def uncore_order(self) -> list[int]:
        layout = self.layout
        order: list[int] = []
        for numa in self.numa_order():
            order += self.by_free(layout.uncores_of_numa[numa], layout.uncores, layout.numas[numa])
        return order

    def cores_walked(self) -> Iterator[tuple[int, int]]:
        """Cores in group order, by id inside a group: enough where all have the same free count."""
        layout = self.layout
        if self.cores_by_socket:
            for socket in self.socket_order():
                yield from layout.cores_of_socket[socket]
        else:
            for numa in self.numa_order():
                yield from layout.cores_of_numa[numa]

    def cores_by_group(self) -> Iterator[list[tuple[int, int, int]]]:
        """Per socket or node in order: (free count, core, free CPUs) of its cores."""
        layout, free = self.layout, self.free
        groups = layout.cores_of_socket if self.cores_by_socket else layout.cores_of_numa
        for group in self.socket_order() if self.cores_by_socket else self.numa_order():
            yield [((c & free).bit_count(), core, c & free) for core, c in groups[group] if c & free]


def numa_order(layout: CpuLayout, available: int) -> list[int]:
    """NUMA nodes with available CPUs in the order they would be walked."""
    return _Taker(layout, available, 0, ignore, PACKED).numa_order()
