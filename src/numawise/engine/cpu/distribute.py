"""Choose CPUs evenly over NUMA nodes.

Counterpart: ``takeByTopologyNUMADistributed`` of pkg/kubelet/cm/cpumanager/cpu_assignment.go.

Rules kept here:

1. The fewest nodes that could hold the request are used, and of these the set that leaves the
   machine most balanced (lowest standard deviation of what stays free).
2. Known defect, reproduced: the kubelet *remembers* the best set as a window on a buffer that its
   enumeration goes on writing, so that some elements change afterwards (see ``Window``).
3. Where sockets count too (``by_socket``, from 1.37 on with ``align-by-socket``), a set inside one socket
   beats any set across sockets, and the even share is no more than the poorest node of the set has.
4. Known defect, reported: where the dealing of a remainder can never end, the kubelet hangs; here
   ``NeverReturns`` is raised.
"""

import math
from collections.abc import Callable, Sequence

from numawise.engine.cpu.take import PACKED, NotEnough, Style, not_enough, numa_order, take
from numawise.engine.hint import SearchLimit
from numawise.engine.trace import BufferReused, CpusTaken, Note, ignore
from numawise.machine.model import CpuLayout
from numawise.values import dataclass


class NeverReturns(Exception):
    """The kubelet never leaves the loop here."""


@dataclass(slots=True)
class Window:
    """A growing list the way Go keeps it: a shared buffer and how much of it counts.

    A buffer has room for 1, 2, 4, 8 … elements; while there is room, a longer list is written into
    the *same* buffer, over whatever an earlier list of that length had there.
    """

    buffer: list[int]
    length: int

    def extended(self, element: int) -> "Window":
        if self.length < len(self.buffer):
            self.buffer[self.length] = element
            return Window(self.buffer, self.length + 1)
        room = max(1, 2 * len(self.buffer))
        grown = [*self.buffer, element] + [0] * (room - self.length - 1)
        return Window(grown, self.length + 1)

    def elements(self) -> list[int]:
        return self.buffer[: self.length]


def each_subset(
    elements: Sequence[int], size: int, visit: Callable[[Window], bool], limit: SearchLimit | None = None
) -> None:
    """Show every subset of one size, in order of positions, until ``visit`` returns False."""
    limit = limit or SearchLimit()

    def walk(left: int, start: int, chosen: Window) -> bool:
        limit.step()
        if left == 0:
            return visit(chosen)
        for at in range(start, len(elements) - left + 1):
            if not walk(left - 1, at + 1, chosen.extended(elements[at])):
                return False
        return True

    if size >= 1:
        walk(size, 0, Window([], 0))


@dataclass(slots=True)
class _Best:
    score: float = math.inf
    nodes: Window | None = None
    remainder: Window | None = None
    chosen: tuple[int, ...] = ()
    one_socket: bool = False


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
        best = _most_balanced(nodes, has, count, size, group, layout if by_socket else None)
        if best.nodes is not None:
            if note is not ignore and tuple(best.nodes.elements()) != best.chosen:
                note(BufferReused(best.chosen, tuple(best.nodes.elements())))
            return _take_shares(layout, free, count, group, best, note, capped=capped)
    return take(layout, available, count, PACKED, note)


def _most_balanced(
    nodes: Sequence[int], has: dict[int, int], count: int, size: int, group: int, sockets: CpuLayout | None
) -> _Best:
    best, limit = _Best(), SearchLimit()
    even_share = count // size // group * group

    def visit(subset: Window) -> bool:
        if best.score == 0 and (sockets is None or best.one_socket):
            return False
        chosen = subset.elements()
        # A node that spans sockets may stand in the order twice; its CPUs count once, its groups twice.
        enough = sum(has[n] for n in set(chosen)) >= count
        if not enough or sum(has[n] // group * group for n in chosen) < count:
            return True
        share = even_share
        if sockets is not None:
            share = min(share, *(has[n] // group * group for n in chosen))
        if any(has[n] < share for n in chosen):
            return True
        rest = count - size * share
        left = dict(has)
        for n in chosen:
            left[n] -= share
        remainder: Window | None = Window([], 0)
        if rest:
            score, remainder = _best_remainder(
                [n for n in chosen if left[n] >= group], left, rest, group, limit
            )
        else:
            score = deviation(list(left.values()))
        together = sockets is not None and _in_one_socket(sockets, chosen)
        better = together if together != best.one_socket else remainder is not None and score < best.score
        if better:
            best.score, best.nodes, best.remainder = score, subset, remainder or Window([], 0)
            best.chosen, best.one_socket = tuple(chosen), together
        return True

    each_subset(nodes, size, visit, limit)
    return best


def _best_remainder(
    nodes: Sequence[int], left: dict[int, int], rest: int, group: int, limit: SearchLimit
) -> tuple[float, Window | None]:
    """The subset of nodes that should carry the rest, and how balanced that leaves the machine."""
    best: Window | None = None
    best_score = math.inf

    def visit(subset: Window) -> bool:
        nonlocal best, best_score
        chosen = subset.elements()
        if sum(left[n] for n in chosen) < rest:
            return True
        after = dict(left)
        for n in _deal(chosen, after, rest, group):
            after[n] -= group
        score = deviation(list(after.values()))
        if score < best_score:
            best_score, best = score, subset
        return True

    for size in range(len(nodes), 0, -1):
        each_subset(nodes, size, visit, limit)
    return best_score, best


def _deal(nodes: Sequence[int], has: dict[int, int], rest: int, group: int) -> list[int]:
    """Whose turn it is, group by group, until the rest is dealt."""
    has = dict(has)
    turns = []
    while rest > 0:
        before = rest
        for n in nodes:
            if rest > 0 and has[n] >= group:
                has[n] -= group
                rest -= group
                turns.append(n)
        if rest == before:
            raise NeverReturns("distribute-cpus-across-numa deals a remainder that no NUMA node can take")
    return turns


def _in_one_socket(layout: CpuLayout, numas: Sequence[int]) -> bool:
    return len({socket for numa in numas for socket in layout.sockets_of_numa[numa]}) == 1


def _take_shares(
    layout: CpuLayout, free: int, count: int, group: int, best: _Best, note: Note, *, capped: bool
) -> int | NotEnough:
    assert best.nodes is not None
    assert best.remainder is not None
    nodes = best.nodes.elements()
    share = count // len(nodes) // group * group
    if capped:
        share = min(share, *((free & layout.numas[n]).bit_count() // group * group for n in nodes))
    result = 0

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
    for numa in _deal(best.remainder.elements(), has, rest, group) if rest else ():
        need -= take_from(numa, group)
    if need > 0:
        return NotEnough(f"accounting error, not enough CPUs allocated, remaining: {need}")
    if need < 0:
        return NotEnough(f"accounting error, too many CPUs allocated, remaining: {need}")
    return result


def deviation(values: Sequence[int]) -> float:
    """Standard deviation to three decimals, around a mean of three decimals."""
    mean = _rounded(sum(values) / len(values))
    return _rounded(math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)))


def _rounded(number: float) -> float:
    scaled = number * 1000
    whole = math.floor(scaled)
    return (whole + (scaled - whole >= 0.5)) / 1000
