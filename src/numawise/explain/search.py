"""The search for changes: which amounts of a pod can be adjusted, in which steps, and how far.

Rules kept here:

1. Only amounts with a say are dials: whole CPUs and memory of Guaranteed pods under static policies, and
   devices that a plugin offers.
2. The marks of a dial are the amounts at which the verdict can change.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from numawise.engine.admit import Crashed, Rejected
from numawise.explain.case import ExplainCase, acceptable, admitted, with_pod
from numawise.explain.change import SetAmount, page_size, with_amounts, written
from numawise.explain.free import asked_of, is_memory
from numawise.request.model import CPU, HUGEPAGES, MEMORY, Role
from numawise.results.explanation import Suggestion
from numawise.sets import ids_of
from numawise.values import dataclass

MOST_DIALS = 12


@dataclass(frozen=True, slots=True)
class Dial:
    """One amount in a manifest."""

    container: int | None
    """Number of the container; None: the pod's own resources."""
    resource: str
    value: int
    step: int
    """What it goes up and down by: whole cores, pages, MiB."""
    least: int
    """In steps."""

    @property
    def steps(self) -> int:
        """The present amount in steps, rounded up."""
        return -(-self.value // self.step)

    def set_to(self, steps: int) -> SetAmount:
        """The change to so many steps."""
        return SetAmount(self.container, self.resource, written(steps * self.step, self.resource))

    def loss(self, steps: int) -> float:
        """Which part of the amount is given up, from 0 to 1; below 0 when it grows."""
        return 1 - steps * self.step / self.value


def dials_of(case: ExplainCase, first: str = "", resources: Sequence[str] = ()) -> tuple[Dial, ...]:
    """All dials of a pod; those of the container and the resources named come first."""
    found = list(_pod_dials(case)) + list(_container_dials(case))
    names = [one.name for one in case.pod.containers]

    def rank(dial: Dial) -> tuple[bool, bool, int]:
        here = dial.container is None or not first or names[dial.container] == first
        return not here, dial.resource not in resources, -dial.value if dial.resource == CPU else 0

    return tuple(sorted(found, key=rank)[:MOST_DIALS])


def _container_dials(case: ExplainCase) -> Iterator[Dial]:
    rules, pod = case.rules, case.pod
    managed = pod.pod_level and rules.pod_level_managers
    aligned = pod.guaranteed and (managed or not (pod.pod_level and rules.behaviour.pod_level_excluded))
    for number, one in enumerate(pod.containers):
        if aligned and (one.fixed or not managed):
            if rules.cpu_static and one.whole_cpus:
                yield _cpu_dial(case, number, one.whole_cpus)
            if rules.memory_static:
                for kind, size in one.memory or ():
                    if size > 0:
                        yield Dial(number, kind, size, page_size(kind), 1)
        for resource, count in one.devices:
            if count > 0 and resource in case.state.devices.plugins:
                yield Dial(number, resource, count, 1, 1)


def _pod_dials(case: ExplainCase) -> Iterator[Dial]:
    """The pod's own resources."""
    rules, pod, raw = case.rules, case.pod, case.raw
    if not (pod.pod_level and rules.pod_level_managers and pod.guaranteed and rules.pod_scope):
        return
    named = {**(raw.requests or {}), **(raw.limits or {})}
    if rules.cpu_static and pod.whole_cpus and CPU in named:
        yield _cpu_dial(case, None, pod.whole_cpus)
    for kind, size in pod.memory or () if rules.memory_static else ():
        if kind in named:
            yield Dial(None, kind, size, page_size(kind), 1)


def _cpu_dial(case: ExplainCase, number: int | None, count: int) -> Dial:
    step = case.machine.layout.threads_per_core if case.rules.cpu_options.full_cores else 1
    return Dial(number, CPU, count, max(1, step), 1)


# --- marks ----------------------------------------------------------------------------------


def marks_of(case: ExplainCase, dial: Dial) -> list[int]:
    """Amounts, in steps, at which the verdict can change (rule 2)."""
    rooms = list(_free_amounts(case, dial.resource))
    beside = 0
    if dial.container is not None:
        total = asked_of(case, None, dial.resource) if not case.pod.pod_level else dial.value
        beside = max(0, total - dial.value)
    found = set()
    for room in rooms:
        for less in {0, beside}:
            if room - less > 0:
                found.add((room - less) // dial.step)
    return sorted(found, reverse=True)


def _free_amounts(case: ExplainCase, resource: str) -> Iterator[int]:
    """What so many NUMA nodes have free, or have at all; what is not requested yet on the whole node."""
    state = case.state
    left = case.node.allocatable().get(resource, 0) - case.node.used(case.pod.uid).get(resource, 0)
    yield left // 1000 if resource == CPU else left
    if resource == CPU:
        layout, rules = case.machine.layout, case.rules
        free = state.cpu.shared & ~rules.reserved_cpus
        yield from _sums((cpus & free).bit_count() for cpus in layout.numas.values())
        yield from _sums(cpus.bit_count() for cpus in layout.numas.values())
        whole = state.cpu.shared & ~rules.reserved_cores
        if rules.cpu_options.full_cores:
            yield from _sums((cpus & whole).bit_count() for cpus in layout.numas.values())
    elif is_memory(resource):
        books = state.memory.numa
        tables = {numa: node.tables[resource] for numa, node in books.items() if resource in node.tables}
        yield from _sums(table.free for table in tables.values())
        yield from _sums(table.allocatable for table in tables.values())
        groups = {node.cells for node in books.values() if node.cells.bit_count() > 1}
        idle = [table.free for numa, table in tables.items() if not books[numa].users]
        yield from _sums(idle)
        for cells in groups:
            yield sum(tables[numa].free for numa in ids_of(cells) if numa in tables)


def _sums(amounts: Iterable[int]) -> Iterator[int]:
    """Each amount, and the largest ones added up."""
    ordered = sorted(amounts, reverse=True)
    yield from ordered
    yield from accumulate(ordered)


def growth_marks(case: ExplainCase, dial: Dial) -> list[int]:
    """Amounts, in steps, from which on one more NUMA node is needed."""
    if dial.resource == CPU:
        sizes = [cpus.bit_count() for cpus in case.machine.layout.numas.values()]
    else:
        sizes = [
            node.tables[dial.resource].allocatable
            for node in case.state.memory.numa.values()
            if dial.resource in node.tables
        ]
    return [total // dial.step + 1 for total in accumulate(sorted(sizes, reverse=True))]


def is_device(resource: str) -> bool:
    """True for what device plugins offer."""
    return resource not in (CPU, MEMORY) and not resource.startswith(HUGEPAGES)


def app_dials(case: ExplainCase, dials: Iterable[Dial]) -> tuple[Dial, ...]:
    """Dials of app containers."""
    return tuple(
        dial
        for dial in dials
        if dial.container is not None and case.pod.containers[dial.container].role is Role.APP
    )


# --------------------------------------------------------------------------------------------------
# How much of something would be admitted: the search for the largest amount below, the smallest above.
#
# Rules kept here:
#
# 1. The verdict is not monotone: under ``restricted`` less can be too little.  It can change only at certain
#    amounts (the *marks*: what is free, or could be, on so many NUMA nodes); between two of them it is.
# 2. Every amount that is given back was tried.


Works = Callable[[int], bool]
FEW = 64
"""So few amounts are tried one by one."""
MOST_MARKS = 48


@dataclass(slots=True)
class Trials:
    """How often the engine may still be asked."""

    left: int

    def spend(self) -> bool:
        """Take one; False: there are none left."""
        self.left -= 1
        return self.left >= 0


def largest(works: Works, most: int, marks: Iterable[int], least: int = 1) -> int | None:
    """The largest amount from ``least`` to below ``most`` that works; None: none was found."""
    if most - least <= FEW:
        return next((amount for amount in range(most - 1, least - 1, -1) if works(amount)), None)
    inside = sorted({mark for mark in marks if least < mark < most - 1}, reverse=True)[:MOST_MARKS]
    above = most
    for mark in (most - 1, *inside, least):
        if works(mark):
            return bisect(works, mark, above)
        above = mark
    return None


def bisect(works: Works, good: int, bad: int) -> int:
    """The last good amount before a bad one."""
    while bad - good > 1:
        middle = (good + bad) // 2
        if works(middle):
            good = middle
        else:
            bad = middle
    return good


def smallest_above(works: Works, least: int, marks: Iterable[int], most: int) -> int | None:
    """The smallest mark above ``least`` and not above ``most`` that works; None: none does."""
    return next((mark for mark in sorted(set(marks)) if least < mark <= most and works(mark)), None)


# --------------------------------------------------------------------------------------------------
# One search for changes: the case, what refused it, and how often the engine may still be asked.
#
# Rules kept here:
#
# 1. A change counts only when the API server would take the pod and the engine admits it.
# 2. The search is bounded by the number of questions to the engine, never by time, so that it always finds
#    the same.


TRIALS = ((8, 600), (16, 200), (64, 60))
"""Up to so many NUMA nodes: how often the engine is asked; a decision takes longer the more there are."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A suggestion and how dear it is."""

    cost: float
    suggestion: Suggestion


class ChangeSearch:
    """What all kinds of changes look at."""

    def __init__(
        self, case: ExplainCase, decision: Rejected | Crashed, container: str, resources: Sequence[str]
    ) -> None:
        self.case = case
        self.reason = decision.reason if isinstance(decision, Rejected) else ""
        self.insufficient = decision.insufficient if isinstance(decision, Rejected) else None
        """What the sums had too little of."""
        self.crashed = isinstance(decision, Crashed)
        self.container = container
        """Where it failed; '' when the pod as a whole did."""
        self.resources = tuple(resources)
        """Those that decided."""
        self.trials = Trials(next((n for most, n in TRIALS if len(case.machine.numa) <= most), TRIALS[-1][1]))
        self.dials: tuple[Dial, ...] = dials_of(case, container, resources)
        names = [one.name for one in case.pod.containers]
        self.here = tuple(
            dial for dial in self.dials if dial.container is None or names[dial.container] == container
        )
        """The dials of the container that failed."""

    def works(self, case: ExplainCase) -> bool:
        """True when the changed case is admitted (rule 1)."""
        return acceptable(case.pod) and self.trials.spend() and admitted(case)

    def works_with(self, changes: Sequence[SetAmount]) -> bool:
        """True when the pod is admitted with other amounts."""
        return self.works(with_pod(self.case, with_amounts(self.case.raw, changes)))
