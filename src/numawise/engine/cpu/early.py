"""Choose CPUs as kubelets up to 1.21 did: whole sockets, whole cores, single CPUs; NUMA nodes do not count.

Counterpart: ``takeByTopology`` of pkg/kubelet/cm/cpumanager/cpu_assignment.go, v1.21 and before.

Rules kept here:

1. A socket or core is whole when as many of its CPUs are free as the average one has; it is claimed with
   its *free* CPUs.
2. Sockets are claimed by id.  For whole cores they are walked by number of whole free cores, for single
   CPUs cores are walked by what was taken on their socket, what is free on it, what is free on the core,
   socket and id.  Both comparisons join these by "or", so that they contradict themselves; the order is
   what Go's sort makes of them (``goorder``).
3. Sockets to be sorted come out of a Go map.  Where the comparison contradicts itself, which is first is
   chance; here they start by id, and a step says so.
"""

from itertools import pairwise

from numawise.engine.cpu.goorder import go_sorted
from numawise.engine.cpu.take import NotEnough, Style, not_enough
from numawise.engine.trace import CpuPassBegan, CpusTaken, Defect, Note, ignore
from numawise.machine.model import CpuLayout


def take_early(
    layout: CpuLayout, available: int, count: int, style: Style, note: Note = ignore
) -> int | NotEnough:
    """Take so many CPUs from the available ones."""
    if count <= 0:
        return 0
    free = available & layout.all
    if count > free.bit_count():
        return not_enough(count, available.bit_count(), style)
    taker = _EarlyTaker(layout, free, count, note)
    for unit, one in (
        ("socket", taker.whole_sockets),
        ("core", taker.whole_cores),
        ("cpu", taker.single_cpus),
    ):
        if note is not ignore and taker.need > 0:
            note(CpuPassBegan(unit, taker.need, taker.free))
        one()
    return taker.result


class _EarlyTaker:
    """The working state of one choice."""

    def __init__(self, layout: CpuLayout, free: int, need: int, note: Note) -> None:
        self.layout = layout
        self.free = free
        self.need = need
        self.result = 0
        self.note = note

    def claim(self, cpus: int, unit: str, name: int) -> None:
        if self.note is not ignore:
            self.note(CpusTaken(unit, name, cpus, 0))
        self.result |= cpus
        self.free &= ~cpus
        self.need -= cpus.bit_count()

    def whole_sockets(self) -> None:
        size = self.layout.cpus_per_socket
        for socket, cpus in self.layout.sockets.items():
            here = cpus & self.free
            if self.need >= size and here.bit_count() == size:
                self.claim(here, "socket", socket)

    def whole_cores(self) -> None:
        size = self.layout.threads_per_core
        if self.need < size:
            return
        whole = {
            socket: [(core, cpus & self.free) for core, cpus in cores if self.is_whole(cpus)]
            for socket, cores in sorted(self.layout.cores_of_socket.items())
            if self.layout.sockets[socket] & self.free
        }
        counts = {socket: len(cores) for socket, cores in whole.items()}
        if self.note is not ignore and any(one > other for one, other in pairwise(counts.values())):
            self.note(Defect("socket-order-by-chance", f"sockets {', '.join(map(str, counts))}"))
        for socket in go_sorted(counts, lambda one, other: counts[one] < counts[other] or one < other):
            for core, cpus in whole[socket]:
                if self.need < size:
                    return
                self.claim(cpus, "core", core)

    def is_whole(self, core: int) -> bool:
        return (core & self.free).bit_count() == self.layout.threads_per_core

    def single_cpus(self) -> None:
        if self.need <= 0:
            return
        layout, free = self.layout, self.free
        scores: dict[int, tuple[int, int, int, int, int]] = {}
        for socket, cores in layout.cores_of_socket.items():
            all_here = layout.sockets[socket]
            taken, left = (all_here & self.result).bit_count(), (all_here & free).bit_count()
            for core, cpus in cores:
                if cpus & free:
                    scores[core] = (-taken, left, (cpus & free).bit_count(), socket, core)

        def less(one: int, other: int) -> bool:
            return any(mine < its for mine, its in zip(scores[one], scores[other], strict=True))

        for core in go_sorted(sorted(scores), less):
            cpus = layout.cores[core] & free
            while cpus and self.need:
                cpu = cpus & -cpus
                cpus ^= cpu
                self.claim(cpu, "cpu", core)
            if not self.need:
                return
