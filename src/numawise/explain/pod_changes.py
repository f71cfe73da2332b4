"""Changes to the pod: other amounts, for the containers that need them.

Rules kept here:

1. Of each resource the smallest loss is kept.
2. Several amounts are changed at once only where one alone does not help, and then no edit can be left out
   and no number can be nearer to what was asked for.
3. An init container that stands in the way is changed before the containers that do the work.
"""

from collections.abc import Iterator, Sequence

from numawise.engine.failure import SMT_ALIGNMENT, TOPOLOGY_AFFINITY
from numawise.explain import words
from numawise.explain.case import with_pod
from numawise.explain.change import SetAmount, amount_patches, with_amounts, written
from numawise.explain.free import amount_of, is_memory
from numawise.explain.growth import grown_edits
from numawise.explain.ranking import (
    FEW_GPUS,
    LITTLE_CPU,
    LITTLE_MEMORY,
    MUCH_MORE,
    Level,
    Ranked,
    level_of_loss,
)
from numawise.explain.search import (
    ChangeSearch,
    Dial,
    Edits,
    Target,
    changes_of,
    fewest,
    is_device,
    largest,
    marks_of,
)
from numawise.machine.hardware import GPU_RESOURCE
from numawise.quantity import Quantity
from numawise.request.model import CPU, HUGEPAGES, MEMORY, Amounts, Role
from numawise.results.explanation import Suggestion
from numawise.rules.model import RESTRICTED
from numawise.values import replace

LEVELS = 128
LEVEL_MARKS = (96, 64, 32, 16, 8)
MOST_GROWTH = 8
MILLI, FRACTION = 1000, 100
"""Thousandths of a CPU that are given up to have a number that is not whole."""


def pod_changes(search: ChangeSearch) -> Iterator[Ranked]:
    """Every change to the pod that lets it in, of each kind the smallest."""
    yield from _exact(search)
    rounded = list(_rounded(search))
    yield from rounded
    if not rounded:
        yield from few_edits(search)
    if search.reason == TOPOLOGY_AFFINITY:
        yield from _grown(search)
    yield from _dropped(search)
    if CPU in search.resources:
        yield from _fractional(search)


def few_edits(search: ChangeSearch) -> Iterator[Ranked]:
    """Less of one amount, or of several where one is not enough; or another amount for init containers."""
    changed = [*_reduced(search), *_inits(search)]
    yield from changed or _together(search)


def _ranked_amounts(
    search: ChangeSearch,
    level: Level,
    kind: str,
    sentences: str | tuple[str, str],
    changes: Sequence[SetAmount],
    loss: float = 0.0,
) -> Ranked:
    text, price = sentences if isinstance(sentences, tuple) else (sentences, "")
    suggestion = Suggestion(kind, text, price, pod=amount_patches(search.case.raw, changes))
    devices = any(is_device(change.resource) for change in changes)
    fewer = devices and kind != "grow"
    after = with_pod(search.case, with_amounts(search.case.raw, changes))
    return Ranked(level, suggestion, len(changes), loss, fewer, tuple(changes), after)


# --- amounts --------------------------------------------------------------------------------


def _exact(search: ChangeSearch) -> Iterator[Ranked]:
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
        kept = fewest(changes, search.works_with)
        yield _ranked_amounts(search, Level.NOTHING, "exact", words.exact_text(raw, kept), kept)


def _rounded(search: ChangeSearch) -> Iterator[Ranked]:
    """Whole cores: the next multiple below and above, for all containers that need it."""
    odd = [dial for dial in search.dials if dial.resource == CPU and dial.value % dial.step]
    if search.reason != SMT_ALIGNMENT or not odd:
        return
    for up in (False, True):
        if not up and any(dial.value < dial.step for dial in odd):
            continue
        edits: Edits = {dial: dial.value // dial.step + up for dial in odd}
        if not search.works_edited(edits):
            continue
        kept = fewest(changes_of(edits), search.works_with)
        losses = [abs(dial.loss(dial.value // dial.step + up)) for dial in odd]
        level = Level.LITTLE if up else level_of_loss(max(losses), LITTLE_CPU)
        text = words.rounding_text(search.case.raw, kept, odd[0].step)
        yield _ranked_amounts(search, level, "round", text, kept, max(losses) + 0.001 * up)


def _reduced(search: ChangeSearch) -> Iterator[Ranked]:
    """Less of one resource in one container (rule 1)."""
    best: dict[str, tuple[float, Dial, int]] = {}
    deciding = [dial for dial in search.dials if dial.resource in search.resources]
    for dial in deciding if search.resources else search.dials:
        known = best.get(dial.resource)

        def works(steps: int, dial: Dial = dial) -> bool:
            return search.works_edited({dial: steps})

        least = dial.least
        if known is not None:  # only what gives up less is of interest
            least = max(least, int(dial.steps * (1 - known[0])))
        steps = largest(works, dial.steps, marks_of(search.case, dial), least)
        if steps is not None and (known is None or dial.loss(steps) < known[0]):
            best[dial.resource] = dial.loss(steps), dial, steps
    for loss, dial, steps in best.values():
        change = dial.set_to(steps)
        text = words.reduction_text(search.case.raw, change, dial.value)
        yield _ranked_amounts(search, _loss_level(dial, loss), "reduce", text, [change], loss)


def _loss_level(dial: Dial, loss: float) -> Level:
    if is_device(dial.resource):
        few = loss <= FEW_GPUS or not GPU_RESOURCE.search(dial.resource)
        return level_of_loss(loss, 0.0) if few else Level.MOST
    return level_of_loss(loss, LITTLE_MEMORY if is_memory(dial.resource) else LITTLE_CPU)


def _together(search: ChangeSearch) -> Iterator[Ranked]:
    """Less of several amounts at once: of the resources that decided, of the container, of all (rule 2)."""
    deciding = tuple(dial for dial in search.dials if dial.resource in search.resources)
    tried: list[Sequence[Dial]] = []
    for some in (deciding, search.here, search.dials):
        if len(some) < 2 or some in tried:
            continue
        tried.append(some)

        def works(level: int, some: Sequence[Dial] = some) -> bool:
            return search.works_edited(_scaled(some, level))

        level = largest(works, LEVELS, LEVEL_MARKS)
        if level is not None:
            edits = search.minimal(_scaled(some, level))
            if edits:
                yield _several(search, edits)
            return


def _scaled(dials: Sequence[Dial], level: int) -> dict[Dial, Target]:
    """All dials turned down to so many parts in ``LEVELS``."""
    return {dial: max(dial.least, dial.steps * level // LEVELS) for dial in dials}


def _several(search: ChangeSearch, edits: Edits) -> Ranked:
    """Several amounts that change together; one, where the others turned out not to be needed."""
    changes = changes_of(edits)
    losses = {
        dial: dial.loss(target) if isinstance(target, int) else 1.0 if target is None else 0.0
        for dial, target in edits.items()
    }
    raw = search.case.raw
    if any(target is None for target in edits.values()):
        level = Level.DEVICE
        whole = all(target is None for target in edits.values())
        text: str | tuple[str, str] = (
            words.drop_text(raw, changes) if whole else words.without_text(raw, changes)
        )
        return _ranked_amounts(search, level, "drop", text, changes, max(losses.values()))
    level = max(_loss_level(dial, loss) for dial, loss in losses.items())
    if any(isinstance(target, Quantity) for target in edits.values()):
        level = max(level, Level.ALIGNMENT)
    if len(edits) > 1:
        level, text = max(level, Level.PART), words.together_text(raw, changes)
    else:
        (dial,) = edits
        text = words.reduction_text(raw, changes[0], dial.value)
    return _ranked_amounts(search, level, "reduce", text, changes, max(losses.values()))


def _grown(search: ChangeSearch) -> Iterator[Ranked]:
    """More of some resources, so that they need as many NUMA nodes as the others."""
    if search.case.rules.topology_policy != RESTRICTED:
        return
    edits = grown_edits(search)
    if edits is None:
        return
    growth = max(-dial.loss(target) for dial, target in edits.items() if isinstance(target, int))
    gpus = any(GPU_RESOURCE.search(dial.resource) for dial in search.dials if is_device(dial.resource))
    if growth > MOST_GROWTH and not gpus:
        return
    level = Level.WAIT if gpus or growth <= MUCH_MORE else Level.ALIGNMENT
    changes = changes_of(edits)
    text = words.growth_text(search.case.raw, changes)
    yield _ranked_amounts(search, level, "grow", text, changes, growth)


def _dropped(search: ChangeSearch) -> Iterator[Ranked]:
    """Without devices or huge pages that are not available: in the container that failed, or in all."""
    those = [one for one in search.resources if is_device(one) or one.startswith(HUGEPAGES)]
    for some in (*([one] for one in those), *([those] if len(those) > 1 else [])):
        for dials in (search.here, search.dials):
            edits: Edits = {dial: None for dial in dials if dial.resource in some}
            if edits and search.works_edited(edits):
                found = search.minimal(edits)
                if found and any(target is None for target in found.values()):
                    yield _several(search, found)
                    return


# --- init containers ------------------------------------------------------------------------


def _inits(search: ChangeSearch) -> Iterator[Ranked]:
    """Init containers whose CPUs or memory the others must take over (rule 3).

    They run in the shared pool, or ask for as much as the others, so that they get it where these fit.
    """
    containers = search.case.pod.containers
    names = [one.name for one in containers]
    end = names.index(search.container) if search.container in names else len(names)
    inits = [
        dial
        for dial in search.dials
        if dial.container is not None
        and dial.container < end
        and containers[dial.container].role is Role.INIT
    ]
    raw = search.case.raw
    shared: Edits = {dial: _fraction(dial) for dial in inits if dial.resource == CPU}
    if shared and search.works_edited(shared):
        edits = search.minimal(shared)
        if edits:
            changes = changes_of(edits)
            yield _ranked_amounts(search, Level.LITTLE, "init", words.init_text(raw, changes), changes)
        return
    for dial in inits:
        if is_device(dial.resource):
            continue
        most = max(amount_of(one, dial.resource) for one in containers)
        target = -(-most // dial.step)
        if dial.steps < target and search.works_edited({dial: target}):
            edits = search.minimal({dial: target})
            if edits:
                changes = changes_of(edits)
                yield _ranked_amounts(search, Level.LITTLE, "init", words.init_text(raw, changes), changes)
            return


# --- giving up alignment --------------------------------------------------------------------


def _fractional(search: ChangeSearch) -> Iterator[Ranked]:
    """CPUs from the shared pool instead of CPUs of its own."""
    for dials in (search.here, search.dials):
        edits: Edits = {
            dial: _fraction(dial) for dial in dials if dial.resource == CPU and dial.container is not None
        }
        if edits and search.works_edited(edits):
            found = search.minimal(edits)
            if found:
                changes = changes_of(found)
                text = words.fractional_text(search.case.raw, changes)
                yield _ranked_amounts(search, Level.ALIGNMENT, "share", text, changes)
            return


def _fraction(dial: Dial) -> Quantity:
    """A little less, so that the number is not whole."""
    return Quantity.parse(f"{dial.value * MILLI - FRACTION}m")


def last_resorts(search: ChangeSearch) -> Iterator[Ranked]:
    """Less of everything, without the devices where it must be, or without exclusive CPUs."""
    devices: dict[Dial, Target] = {dial: None for dial in search.dials if dial.resource not in (CPU, MEMORY)}
    others = [dial for dial in search.dials if dial.resource in (CPU, MEMORY)]
    scaled = largest(
        lambda level: search.works_edited({**devices, **_scaled(others, level)}), LEVELS + 1, LEVEL_MARKS
    )
    edits = {**devices, **_scaled(others, scaled)} if scaled is not None else {}
    if not edits:
        cpus = [dial for dial in others if dial.resource == CPU and dial.container is not None]
        edits = {**devices, **{dial: _fraction(dial) for dial in cpus}}
        if not edits or not search.works_edited(edits):
            yield from _unguaranteed(search)
            return
    edits = {dial: target for dial, target in edits.items() if target != dial.steps}
    found = search.minimal(edits) if edits else None
    if found:
        yield _several(search, found)


def _unguaranteed(search: ChangeSearch) -> Iterator[Ranked]:
    """Out of the Guaranteed class: then neither CPUs nor memory are placed at all."""
    case, raw = search.case, search.case.raw
    if not case.pod.guaranteed or raw.qos or raw.requests is not None or raw.limits is not None:
        return
    for number, one in enumerate(raw.containers):
        size = one.limits.get(MEMORY)
        if one.role is not Role.APP or size is None or size.value < 2:
            continue
        smaller = written(max(1, size.value - (1 << 20)), MEMORY)
        containers = list(raw.containers)
        containers[number] = replace(one, requests={**one.requests, MEMORY: smaller})
        after = with_pod(case, replace(raw, containers=tuple(containers)))
        if search.works(after):
            text, price, patches = words.unguaranteed_text(raw, number, smaller)
            suggestion = Suggestion("unguaranteed", text, price, pod=patches)
            yield Ranked(Level.ALIGNMENT, suggestion, 2, 1.0, after=after)
        return
