"""The search for changes: which amounts of a pod can be adjusted, in which steps, and how far.

Rules kept here:

1. Only amounts with a say are dials: whole CPUs and memory of Guaranteed pods under static policies, and
   devices that a plugin offers.
2. The marks of a dial are the amounts at which the verdict can change.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, combinations
from typing import TypeVar

from numawise.engine.admit import Crashed, Decision, Rejected
from numawise.engine.predicates import insufficient, judged
from numawise.explain.case import ExplainCase, acceptable, admitted, with_pod
from numawise.explain.change import SetAmount, page_size, with_amounts, written
from numawise.explain.free import asked_of, is_memory
from numawise.quantity import Quantity
from numawise.request.model import CPU, HUGEPAGES, MEMORY
from numawise.sets import ids_of
from numawise.values import dataclass, replace

T = TypeVar("T")

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


def is_device(resource: str) -> bool:
    """True for what device plugins offer."""
    return resource not in (CPU, MEMORY) and not resource.startswith(HUGEPAGES)


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

    @property
    def spent(self) -> bool:
        """True when a question could no longer be asked, so that its answer was taken for a no."""
        return self.left < 0


def largest(works: Works, most: int, marks: Iterable[int], least: int = 1) -> int | None:
    """The largest amount from ``least`` to below ``most`` that works; None: none was found."""
    inside = sorted({mark for mark in marks if least < mark < most - 1}, reverse=True)[:MOST_MARKS]
    if most - least <= FEW:
        known = {}
        for mark in (least, *reversed(inside)):
            known[mark] = least < most and works(mark)
            if known[mark]:
                break
        else:
            return None
        amounts = range(most - 1, mark, -1)
        return next((amount for amount in amounts if amount not in known and works(amount)), mark)
    above = most
    for mark in (most - 1, *inside, least):
        if works(mark):
            return bisect(works, mark, above)
        above = mark
    return None


def bisect(works: Works, good: int, bad: int) -> int:
    """The last good amount before a bad one, which may lie above or below."""
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        if works(middle):
            good = middle
        else:
            bad = middle
    return good


def fewest(items: Sequence[T], works: Callable[[Sequence[T]], bool]) -> tuple[T, ...]:
    """Those of some items, all of which together work, that cannot be done without.

    Of up to ``MOST_SUBSETS`` items the smallest set that works; of more, one of which none can be left out.
    """
    left = tuple(items)
    size = len(left) // 2
    while len(left) > MOST_SUBSETS:
        before, at = left, 0
        while at < len(left):
            rest = (*left[:at], *left[at + size :])
            if rest and works(rest):
                left = rest
            else:
                at += size
        if size == 1 and left == before:
            break
        size = max(1, size // 2)
    if len(left) <= MOST_SUBSETS:
        for size in range(1, len(left)):
            for some in combinations(left, size):
                if works(some):
                    return some
    return left


# --------------------------------------------------------------------------------------------------
# One search for changes: the case, what refused it, and how often the engine may still be asked.
#
# Rules kept here:
#
# 1. A change counts only when the API server would take the pod, the sums of all requests hold, and the
#    engine admits it.
# 2. The search is bounded by the number of questions to the engine, never by time, so that it always finds
#    the same.
# 3. Of several edits none can be left out, and no number can be nearer to what was asked for.  Where the
#    questions run out before that is known, there is no suggestion.


TRIALS = ((8, 600), (16, 250), (64, 120))
"""Up to so many NUMA nodes: how often the engine is asked; a decision takes longer the more there are."""
MOST_SUBSETS, ROUNDS = 4, 4

Target = int | Quantity | None
"""What a dial is set to: so many steps, an amount between two steps, or nothing at all."""
Edits = Mapping[Dial, Target]


def changes_of(edits: Edits) -> list[SetAmount]:
    """The same as changes to a manifest."""
    return [
        dial.set_to(target) if isinstance(target, int) else SetAmount(dial.container, dial.resource, target)
        for dial, target in edits.items()
    ]


class ChangeSearch:
    """What all kinds of changes look at."""

    def __init__(
        self,
        case: ExplainCase,
        decision: Decision,
        container: str,
        resources: Sequence[str],
        goal: Callable[[ExplainCase], bool] = admitted,
    ) -> None:
        self.case = _summing(case)
        self.goal = goal
        """What a change has to reach."""
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
        self.here = tuple(dial for dial in self.dials if self.name_of(dial) in (None, container))
        """The dials of the container that failed."""

    def on(self, case: ExplainCase) -> "ChangeSearch":
        """The same search on another state of the node; its questions count together."""
        other = object.__new__(ChangeSearch)
        other.__dict__.update(self.__dict__)
        other.case = case
        return other

    def name_of(self, dial: Dial) -> str | None:
        """The name of the container that a dial belongs to; None: the pod itself."""
        return None if dial.container is None else self.case.pod.containers[dial.container].name

    def works(self, case: ExplainCase) -> bool:
        """True when the changed case is admitted (rule 1)."""
        return acceptable(case.pod) and self.trials.spend() and self.goal(case)

    def works_with(self, changes: Sequence[SetAmount]) -> bool:
        """True when the pod is admitted with other amounts."""
        return self.works(with_pod(self.case, with_amounts(self.case.raw, changes)))

    def works_edited(self, edits: Edits) -> bool:
        """True when the pod is admitted with its dials set so."""
        return self.works_with(changes_of(edits))

    def minimal(self, edits: Edits) -> dict[Dial, Target] | None:
        """The same edits, less what is not needed (rule 3); None: not known, the questions ran out."""
        found = {dial: target for dial, target in edits.items() if target != dial.steps}
        for _ in range(ROUNDS):
            before = found
            kept = fewest(
                sorted(found, key=_restored_first),
                lambda dials, found=found: self.works_edited({dial: found[dial] for dial in dials}),  # type: ignore[misc]
            )
            found = self._nearest({dial: found[dial] for dial in found if dial in kept})
            if found == before:
                break
        return None if self.trials.spent else found

    def _nearest(self, edits: dict[Dial, Target]) -> dict[Dial, Target]:
        """Each number as near to what was asked for as it goes while the others stay."""
        for dial in sorted(edits, key=_restored_first):
            target = edits[dial]

            def works(steps: int, dial: Dial = dial) -> bool:
                return self.works_edited({**edits, dial: steps})

            if target is None:
                found = largest(works, dial.steps, marks_of(self.case, dial), dial.least)
                edits[dial] = found if found is not None else None
            elif isinstance(target, int) and target < dial.steps:
                if target + 1 < dial.steps and works(target + 1):
                    found = largest(works, dial.steps, marks_of(self.case, dial), target + 1)
                    edits[dial] = found or target + 1
            elif isinstance(target, int) and target - 1 > dial.steps and works(target - 1):
                edits[dial] = bisect(works, target - 1, dial.steps)
        return edits


def _restored_first(dial: Dial) -> tuple[bool, bool]:
    """Devices are kept before memory, and memory before CPUs."""
    return not is_device(dial.resource), not is_memory(dial.resource)


def _summing(case: ExplainCase) -> ExplainCase:
    """The case with the sums of all requests compared, unless they do not hold before any change."""
    node = case.node
    if node.predicates:
        return case
    sums = replace(node, predicates=True).sums(node.used(case.pod.uid))
    if sums is None or insufficient(case.rules, sums, judged(case.rules, case.pod)):
        return case
    return replace(case, node=replace(node, predicates=True))
