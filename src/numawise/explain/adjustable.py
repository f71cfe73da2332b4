"""What can be turned in a pod: each amount that a manager looks at, in the steps it comes in.

Rules kept here:

1. Only amounts with a say are dials: whole CPUs and memory of Guaranteed pods under static policies, and
   devices that a plugin offers.
2. The marks of a dial are the amounts at which the verdict can change.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from numawise.explain.case import ExplainCase
from numawise.explain.change import SetAmount, page_size, written
from numawise.explain.free import asked_of, is_memory
from numawise.request.model import CPU, HUGEPAGES, MEMORY, Role
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
