"""Choose CPUs evenly over NUMA nodes.

Counterpart: ``takeByTopologyNUMADistributed`` of pkg/kubelet/cm/cpumanager/cpu_assignment.go.

Rules kept here:

1. The fewest nodes that could hold the request are used, and of these the set that leaves the
   machine most balanced (lowest standard deviation of what stays free).
2. Known defect, reproduced: the kubelet *remembers* the best set as a window on a buffer that its
   enumeration goes on writing, so that some elements change afterwards (``engine.cpu.subsets.Window``).
3. Where sockets count too (``by_socket``, from 1.37 on with ``align-by-socket``), a set inside one socket
   beats any set across sockets, and the even share is no more than the poorest node of the set has.
4. Known defect, reported: where the dealing of a remainder can never end, the kubelet hangs; here
   ``NeverReturns`` is raised.
"""

from numawise.engine.cpu.balance import most_balanced
from numawise.engine.cpu.subsets import BalancedNodes, deal
from numawise.engine.cpu.take import PACKED, NotEnough, Style, not_enough, numa_order, take
from numawise.engine.trace import BufferReused, CpuPassBegan, CpusTaken, Note, ignore
from numawise.machine.model import CpuLayout


def take_distributed(
    layout: CpuLayout,
    available: int,
    count: int,
    group: int,
    style: Style = PACKED,
    note: Note = ignore,
    *,
    by_socket: bool = False,
    capped: bool = False,
) -> int | NotEnough:
    """Take so many CPUs from the available ones, in whole groups, evenly over NUMA nodes.

    ``by_socket``: rule 3; ``capped``: no node is asked for more than it has when shares are taken.
    """
    if count % group:
        return take(layout, available, count, style, note)
    if count <= 0:
        return 0
    free = available & layout.all
    if count > free.bit_count():
        return not_enough(count, available.bit_count(), style)
    nodes = numa_order(layout, free)
    has = {numa: (layout.numas[numa] & free).bit_count() for numa in nodes}
    groups = -(-layout.all.bit_count() // group)
    per_node = -(-groups // len(layout.numas))
    wanted = count // group
    for size in range(-(-wanted // per_node), min(wanted, len(has)) + 1):
        choice = most_balanced(nodes, has, count, size, group, layout.sockets_of_numa if by_socket else None)
        if choice is not None:
            if note is not ignore and choice.nodes != choice.chosen:
                note(BufferReused(choice.chosen, choice.nodes))
            return _take_shares(layout, free, count, group, choice, note, capped=capped)
    return take(layout, available, count, PACKED, note)


def _take_shares(
    layout: CpuLayout, free: int, count: int, group: int, choice: BalancedNodes, note: Note, *, capped: bool
) -> int | NotEnough:
    nodes = choice.nodes
    share = count // len(nodes) // group * group
    if capped:
        share = min(share, *((free & layout.numas[n]).bit_count() // group * group for n in nodes))
    result = 0
    if note is not ignore:
        note(CpuPassBegan("share of numa", count, free))

    def take_from(numa: int, cpus: int) -> int:
        nonlocal free, result
        found = take(layout, free & layout.numas[numa], cpus)
        if isinstance(found, NotEnough):
            return 0
        if note is not ignore and found:
            note(CpusTaken("share of numa", numa, found, found & ~free))
        result |= found
        free &= ~found
        return found.bit_count()

    need = count
    for numa in nodes:
        need -= take_from(numa, share)
    rest = count - len(nodes) * share
    has = {numa: (free & layout.numas[numa]).bit_count() for numa in layout.numas}
    for numa in deal(choice.remainder, has, rest, group) if rest else ():
        need -= take_from(numa, group)
    if need > 0:
        return NotEnough(f"accounting error, not enough CPUs allocated, remaining: {need}")
    if need < 0:
        return NotEnough(f"accounting error, too many CPUs allocated, remaining: {need}")
    return result
