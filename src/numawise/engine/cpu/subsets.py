"""Deal a remainder in turns, and compare subsets of NUMA nodes one by one, as the kubelet does.

Counterpart: ``iterateCombinations`` and what ``takeByTopologyNUMADistributed`` does with each subset, in
pkg/kubelet/cm/cpumanager/cpu_assignment.go.

Used where a NUMA node stands twice in the order of nodes, because it spans sockets; elsewhere
``engine.cpu.balance`` has the same answer without comparing all.

Rules kept here:

1. Known defect, reproduced: the kubelet *remembers* the best set as a window on a buffer that its
   enumeration goes on writing, so that some elements change afterwards (see ``Window``).
2. Known defect, reported: where the dealing of a remainder can never end, the kubelet hangs; here
   ``NeverReturns`` is raised.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from numawise.engine.search import SearchLimit
from numawise.values import dataclass


class NeverReturns(Exception):
    """The kubelet never leaves the loop here."""

    def __init__(self) -> None:
        super().__init__("distribute-cpus-across-numa deals a remainder that no NUMA node can take")


@dataclass(frozen=True, slots=True)
class BalancedNodes:
    """NUMA nodes to take even shares from."""

    nodes: tuple[int, ...]
    """As remembered in the end."""
    chosen: tuple[int, ...]
    """As they were when they were the best."""
    remainder: tuple[int, ...]
    """Those that carry what the shares leave, as remembered in the end."""


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


def best_of_all(
    nodes: Sequence[int],
    has: Mapping[int, int],
    count: int,
    size: int,
    group: int,
    sockets: Mapping[int, Sequence[int]] | None,
    limit: SearchLimit | None = None,
) -> BalancedNodes | None:
    """The most balanced of all subsets of one size; None where none can give so many CPUs.

    ``sockets``, by NUMA node: subsets of one socket go first, and shares are what the poorest node has.
    """
    best, limit = _Best(), limit or SearchLimit()
    even_share = count // size // group * group

    def visit(subset: Window) -> bool:
        if best.score == 0 and (sockets is None or best.one_socket):
            return False
        chosen = subset.elements()
        # A node that stands in the order twice: its CPUs count once, its groups twice.
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
        together = sockets is not None and len({s for n in chosen for s in sockets[n]}) == 1
        better = together if together != best.one_socket else remainder is not None and score < best.score
        if better:
            best.score, best.nodes, best.remainder = score, subset, remainder or Window([], 0)
            best.chosen, best.one_socket = tuple(chosen), together
        return True

    each_subset(nodes, size, visit, limit)
    if best.nodes is None or best.remainder is None:
        return None
    return BalancedNodes(tuple(best.nodes.elements()), best.chosen, tuple(best.remainder.elements()))


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
        for n in deal(chosen, after, rest, group):
            after[n] -= group
        score = deviation(list(after.values()))
        if score < best_score:
            best_score, best = score, subset
        return True

    for size in range(len(nodes), 0, -1):
        each_subset(nodes, size, visit, limit)
    return best_score, best


def deal(nodes: Sequence[int], has: Mapping[int, int], rest: int, group: int) -> list[int]:
    """Whose turn it is, group by group, until the rest is dealt."""
    left = dict(has)
    turns = []
    while rest > 0:
        before = rest
        for n in nodes:
            if rest > 0 and left[n] >= group:
                left[n] -= group
                rest -= group
                turns.append(n)
        if rest == before:
            raise NeverReturns
    return turns


def deviation(values: Sequence[int]) -> float:
    """Standard deviation to three decimals, around a mean of three decimals."""
    mean = rounded(sum(values) / len(values))
    return rounded(math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)))


def rounded(number: float) -> float:
    """To three decimals, halves upwards."""
    scaled = number * 1000
    whole = math.floor(scaled)
    return (whole + (scaled - whole >= 0.5)) / 1000
