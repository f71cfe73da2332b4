"""Changes to the pod: other amounts, or the same amounts in another shape.

Rules kept here:

1. Of each resource the smallest loss is kept.
2. Several amounts are changed at once only where one alone does not help.
3. What gives up the alignment or a device altogether is dearer than what gives up a part of an amount.
"""

from collections.abc import Iterator, Sequence

from numawise.engine.failure import SMT_ALIGNMENT, TOPOLOGY_AFFINITY
from numawise.explain import words
from numawise.explain.case import with_pod
from numawise.explain.change import SetAmount, amount_patches, divided, split, split_patches, written
from numawise.explain.free import is_memory
from numawise.explain.search import (
    ChangeSearch,
    Dial,
    Priced,
    app_dials,
    growth_marks,
    is_device,
    largest,
    marks_of,
    smallest_above,
)
from numawise.quantity import Quantity
from numawise.request.model import CPU, HUGEPAGES, MEMORY, Amounts, Role
from numawise.results.explanation import Suggestion
from numawise.rules.model import RESTRICTED
from numawise.values import replace

EXACT, ROUND, REDUCE, TOGETHER, GROW = 0.01, 0.03, 0.1, 0.2, 0.3
BALANCE, SPLIT, DROP, FRACTION, UNGUARANTEED = 0.35, 0.95, 1.2, 1.5, 1.6
MEMORY_WEIGHT = 1.3
"""With fewer CPUs a pod is slower; with less memory it may not run at all."""
LEVELS = 128
LEVEL_MARKS = (96, 64, 32, 16, 8)
MOST_GROWTH = 8
MOST_PARTS = 4


def pod_changes(search: ChangeSearch) -> Iterator[Priced]:
    """Every change to the pod that lets it in, of each kind the smallest."""
    yield from _exact(search)
    rounded = list(_rounded(search))
    yield from rounded
    reduced = [] if rounded else list(_reduced(search))
    yield from reduced
    if not rounded and not reduced:
        yield from _together(search)
    if search.reason == TOPOLOGY_AFFINITY:
        yield from _grown(search)
        yield from _balanced(search)
        yield from _split(search)
    yield from _dropped(search)
    if CPU in search.resources:
        yield from _fractional(search)


def _priced_amounts(
    search: ChangeSearch,
    cost: float,
    kind: str,
    sentences: str | tuple[str, str],
    changes: Sequence[SetAmount],
) -> Priced:
    text, price = sentences if isinstance(sentences, tuple) else (sentences, "")
    return Priced(cost, Suggestion(kind, text, price, pod=amount_patches(search.case.raw, changes)))


# --- amounts --------------------------------------------------------------------------------


def _exact(search: ChangeSearch) -> Iterator[Priced]:
    """Amounts of memory written so that the Memory Manager can read them."""
    raw = search.case.raw
    changes = []
    owners: list[tuple[int | None, Amounts]] = [(None, {**(raw.requests or {}), **(raw.limits or {})})]
    owners += [(number, {**one.requests, **one.limits}) for number, one in enumerate(raw.containers)]
    for number, amounts in owners:
        for name, size in amounts.items():
            if is_memory(name) and not size.ceil_milli().exact:
                changes.append(SetAmount(number, name, written(size.value, name)))
    if changes and search.works_with(changes):
        yield _priced_amounts(search, EXACT, "exact", words.exact_text(raw, changes), changes)


def _rounded(search: ChangeSearch) -> Iterator[Priced]:
    """Whole cores: the next multiple below and above, for all containers that need it."""
    odd = [dial for dial in search.dials if dial.resource == CPU and dial.value % dial.step]
    if search.reason != SMT_ALIGNMENT or not odd:
        return
    for up in (False, True):
        if not up and any(dial.value < dial.step for dial in odd):
            continue
        steps = {dial: dial.value // dial.step + up for dial in odd}
        changes = [dial.set_to(count) for dial, count in steps.items()]
        if search.works_with(changes):
            cost = ROUND + max(abs(dial.loss(count)) for dial, count in steps.items()) + 0.001 * up
            text = words.rounding_text(search.case.raw, changes, odd[0].step)
            yield _priced_amounts(search, cost, "round", text, changes)


def _reduced(search: ChangeSearch) -> Iterator[Priced]:
    """Less of one resource in one container (rule 1)."""
    best: dict[str, Priced] = {}
    for dial in search.dials:
        known = best.get(dial.resource)

        def works(steps: int, dial: Dial = dial) -> bool:
            return search.works_with([dial.set_to(steps)])

        least = dial.least
        if known is not None:  # only what gives up less is of interest
            least = max(least, int(dial.steps * (1 - (known.cost - REDUCE) / _weight(dial))))
        found = largest(works, dial.steps, marks_of(search.case, dial), least)
        if found is None:
            continue
        change = dial.set_to(found)
        cost = REDUCE + dial.loss(found) * _weight(dial)
        if known is None or cost < known.cost:
            text = words.reduction_text(search.case.raw, change, dial.value)
            best[dial.resource] = _priced_amounts(search, cost, "reduce", text, [change])
    yield from best.values()


def _weight(dial: Dial) -> float:
    return MEMORY_WEIGHT if is_memory(dial.resource) else 1.0


def _together(search: ChangeSearch) -> Iterator[Priced]:
    """Less of several amounts at once: of the resources that decided, of the container, of all (rule 2)."""
    deciding = tuple(dial for dial in search.dials if dial.resource in search.resources)
    tried: list[Sequence[Dial]] = []
    for some in (deciding, search.here, search.dials):
        if len(some) < 2 or some in tried:
            continue
        tried.append(some)

        def works(level: int, some: Sequence[Dial] = some) -> bool:
            return search.works_with(_scaled(some, level))

        found = largest(works, LEVELS, LEVEL_MARKS)
        if found is not None:
            yield _several(search, {dial: max(dial.least, dial.steps * found // LEVELS) for dial in some})
            return


def _scaled(dials: Sequence[Dial], level: int) -> list[SetAmount]:
    """All dials turned down to so many parts in ``LEVELS``."""
    return [dial.set_to(max(dial.least, dial.steps * level // LEVELS)) for dial in dials]


def _several(search: ChangeSearch, steps: dict[Dial, int]) -> Priced:
    """A change of several amounts, each turned back up as far as it goes while the others stay."""
    for dial in list(steps):

        def works(count: int, dial: Dial = dial) -> bool:
            return search.works_with([one.set_to(n) for one, n in {**steps, dial: count}.items()])

        rest = [one.set_to(n) for one, n in steps.items() if one is not dial]
        if rest and search.works_with(rest):
            del steps[dial]
        elif steps[dial] < dial.steps:
            steps[dial] = largest(works, dial.steps, (), steps[dial]) or steps[dial]
    changes = [dial.set_to(count) for dial, count in steps.items()]
    cost = TOGETHER + max(abs(dial.loss(count)) for dial, count in steps.items())
    if len(changes) == 1:
        (dial,) = steps
        text = words.reduction_text(search.case.raw, changes[0], dial.value)
    else:
        text = words.together_text(search.case.raw, changes)
    return _priced_amounts(search, cost, "reduce", text, changes)


def _grown(search: ChangeSearch) -> Iterator[Priced]:
    """More of a resource, so that it needs as many NUMA nodes as the others."""
    if search.case.rules.topology_policy != RESTRICTED:
        return
    for dial in search.dials:
        if is_device(dial.resource) or dial.resource not in search.resources:
            continue

        def works(steps: int, dial: Dial = dial) -> bool:
            return search.works_with([dial.set_to(steps)])

        marks = growth_marks(search.case, dial)
        found = smallest_above(works, dial.steps, marks, dial.steps * MOST_GROWTH)
        if found is not None:
            change = dial.set_to(found)
            text = words.growth_text(search.case.raw, change, dial.value)
            yield _priced_amounts(search, GROW - dial.loss(found), "grow", text, [change])
            return


def _dropped(search: ChangeSearch) -> Iterator[Priced]:
    """Without devices or huge pages that are not available: in the container that failed, or in all."""
    those = [one for one in search.resources if is_device(one) or one.startswith(HUGEPAGES)]
    for some in (*([one] for one in those), *([those] if len(those) > 1 else [])):
        for dials in (search.here, search.dials):
            changes = [SetAmount(one.container, one.resource, None) for one in dials if one.resource in some]
            if changes and search.works_with(changes):
                yield _priced_amounts(
                    search, DROP, "drop", words.drop_text(search.case.raw, changes), changes
                )
                return


# --- shapes ---------------------------------------------------------------------------------


def _balanced(search: ChangeSearch) -> Iterator[Priced]:
    """The same in all, divided evenly over the app containers."""
    case, raw = search.case, search.case.raw
    if case.rules.pod_scope:
        return
    apps = [n for n, one in enumerate(raw.containers) if one.role is Role.APP]
    dials = app_dials(case, search.dials)
    changes: list[SetAmount] = []
    for resource in dict.fromkeys(dial.resource for dial in dials):
        some = {dial.container: dial.value for dial in dials if dial.resource == resource}
        if len(some) < 2 or len(some) != len(apps):
            continue
        total = {resource: written(sum(some.values()), resource)}
        for part, number in enumerate(apps):
            share = divided(total, len(apps), part)[resource]
            if not share.nano:
                return
            if share.value != some[number]:
                changes.append(SetAmount(number, resource, share))
    if changes and search.works_with(changes):
        yield _priced_amounts(search, BALANCE, "balance", words.balance_text(raw, changes), changes)


def _split(search: ChangeSearch) -> Iterator[Priced]:
    """One container made into several, each of which fits NUMA nodes of its own."""
    case, raw = search.case, search.case.raw
    number = next((n for n, one in enumerate(raw.containers) if one.name == search.container), None)
    if case.rules.pod_scope or number is None or raw.containers[number].role is not Role.APP:
        return
    for parts in range(2, min(MOST_PARTS, len(case.machine.numa)) + 1):
        changed = split(raw, number, parts)
        if changed is not None and search.works(with_pod(case, changed)):
            text, price = words.split_text(raw, changed, number)
            patches = split_patches(raw, number, parts)
            yield Priced(SPLIT + 0.01 * parts, Suggestion("split", text, price, pod=patches))
            return


# --- giving up alignment --------------------------------------------------------------------


def _fractional(search: ChangeSearch) -> Iterator[Priced]:
    """CPUs from the shared pool instead of CPUs of its own (rule 3)."""
    for dials in (search.here, search.dials):
        changes = [
            SetAmount(dial.container, CPU, _fraction(dial))
            for dial in dials
            if dial.resource == CPU and dial.container is not None
        ]
        if changes and search.works_with(changes):
            yield _priced_amounts(
                search, FRACTION, "share", words.fractional_text(search.case.raw, changes), changes
            )
            return


def _fraction(dial: Dial) -> Quantity:
    """Half a CPU less, so that the number is not whole."""
    return Quantity.parse(f"{dial.value * 1000 - 500}m")


def last_resorts(search: ChangeSearch) -> Iterator[Priced]:
    """Without devices, and with less of all else, or without CPUs of its own: whatever is enough."""
    raw = search.case.raw
    devices = [
        SetAmount(one.container, one.resource, None) for one in search.dials if is_device(one.resource)
    ]
    others = [one for one in search.dials if not is_device(one.resource)]
    level = largest(lambda level: search.works_with([*devices, *_scaled(others, level)]), LEVELS + 1, ())
    if devices and level is not None:
        pairs = zip(others, _scaled(others, level), strict=True)
        less = [change for dial, change in pairs if change.amount != written(dial.value, dial.resource)]
        changes = [*devices, *less]
        yield _priced_amounts(search, DROP, "drop", words.without_text(raw, changes), changes)
        return
    cpus = [one for one in others if one.resource == CPU and one.container is not None]
    changes = [*devices, *(SetAmount(one.container, CPU, _fraction(one)) for one in cpus)]
    if changes and search.works_with(changes):
        yield _priced_amounts(search, DROP, "drop", words.without_text(raw, changes), changes)
        return
    yield from _unguaranteed(search)


def _unguaranteed(search: ChangeSearch) -> Iterator[Priced]:
    """Out of the Guaranteed class: then neither CPUs nor memory are placed at all."""
    case, raw = search.case, search.case.raw
    if not case.pod.guaranteed or raw.qos or raw.requests is not None or raw.limits is not None:
        return
    for number, one in enumerate(raw.containers):
        size = one.limits.get(MEMORY)
        if one.role is not Role.APP or size is None or size.value < 2:
            continue
        less = written(max(1, size.value - (1 << 20)), MEMORY)
        containers = list(raw.containers)
        containers[number] = replace(one, requests={**one.requests, MEMORY: less})
        if search.works(with_pod(case, replace(raw, containers=tuple(containers)))):
            text, price, patches = words.unguaranteed_text(raw, number, less)
            yield Priced(UNGUARANTEED, Suggestion("unguaranteed", text, price, pod=patches))
        return
