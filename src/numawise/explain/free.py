"""What each NUMA node has free of each resource at the moment of a merge, devices included."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from numawise.engine.hint import Family, HintList, HintRule
from numawise.engine.masks import masks_of, some_masks
from numawise.engine.state import NodeState
from numawise.engine.trace import HintsFound
from numawise.explain.case import ExplainCase
from numawise.explain.words import asked as asked_for
from numawise.explain.words import free_text
from numawise.render.words import both
from numawise.request.model import CPU, HUGEPAGES, MEMORY, ContainerRequest, Role, most_at_once
from numawise.results.explanation import (
    BYTES,
    CPUS,
    DEVICES,
    HINTS,
    IMPOSSIBLE,
    NO,
    NO_PREFERENCE,
    POSSIBLE,
    PREFERRED,
    UNKNOWN,
    NumaFree,
    ResourceHints,
)
from numawise.sets import format_ids, ids_of
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class Stock:
    """Devices of one resource."""

    total: int
    healthy: int
    free: int
    unplaced: int
    """Free ones that are on no NUMA node."""
    own: int = 0
    """Those that other containers of the pod have."""
    left: int = 0
    """Of these: those of finished init containers, which the containers after them take over."""

    @property
    def text(self) -> str:
        """``8 in all, 3 in use, 2 in other containers of the pod, 1 unhealthy``."""
        parts = [f"{self.total} in all"]
        if self.healthy - self.free - self.own > 0:
            parts.append(f"{self.healthy - self.free - self.own} in use")
        if self.own > self.left:
            parts.append(f"{self.own - self.left} in other containers of the pod")
        if self.left:
            parts.append(f"{self.left} left by init containers")
        if self.total - self.healthy:
            parts.append(f"{self.total - self.healthy} unhealthy")
        return ", ".join(parts)


def stock_of(case: ExplainCase, state: NodeState, resource: str) -> Stock:
    """How many devices there are, how many are free, and how many the pod has."""
    uid, numas = case.pod.uid, {numa.id for numa in case.machine.numa}
    plugin = state.devices.plugins.get(resource)
    if plugin is None:
        return Stock(0, 0, 0, 0)
    free = plugin.healthy - state.devices.allocated.get(resource, frozenset())
    unplaced = sum(not numas & set(plugin.devices[name].numa or ()) for name in free)
    inits = {one.name for one in case.pod.containers if one.role is Role.INIT}
    finished: set[str] = set()
    others: set[str] = set()
    for container, grant in state.devices.grants.get(uid, {}).items():
        if resource in grant:
            (finished if container in inits else others).update(grant[resource].ids)
    own, left = (finished | others) & plugin.healthy, (finished - others) & plugin.healthy
    return Stock(len(plugin.devices), len(plugin.healthy), len(free), unplaced, len(own), len(left))


# --------------------------------------------------------------------------------------------------
# What each NUMA node has of each resource at the moment of a merge.
#
# Rules kept here:
#
# 1. Whether a NUMA node could serve a request alone is what the hints say, never computed again.
# 2. What is free is taken from the hints where these have it, else from the state at that time.
# 3. A NUMA node that has enough and does not serve gets a note that says why.


REUSED = "must be used again"
"""How a note ends that is about what init containers leave to those after them."""
FEW = 4
"""Masks of several NUMA nodes that are listed."""
ENUMERABLE = 12
"""Families over more NUMA nodes are not walked mask by mask."""


@dataclass(frozen=True, slots=True)
class Voter:
    """One resource with a say in a merge."""

    hints: ResourceHints
    family: Family


def is_memory(resource: str) -> bool:
    """True for what the Memory Manager hands out."""
    return resource == MEMORY or resource.startswith(HUGEPAGES)


def unit_of(resource: str) -> str:
    """What amounts of a resource are counted in."""
    return CPUS if resource == CPU else BYTES if is_memory(resource) else DEVICES


# --- amounts asked --------------------------------------------------------------------------


def asked_of(case: ExplainCase, container: str | None, resource: str) -> int:
    """How much of a resource a container (None: the pod) asks for, as its manager counts it."""
    pod = case.pod
    if container is None:
        if pod.pod_level and case.rules.pod_level_managers and unit_of(resource) != DEVICES:
            return pod.whole_cpus if resource == CPU else dict(pod.memory or ()).get(resource, 0)
        return most_at_once(pod.containers, lambda one: amount_of(one, resource))
    found = next((one for one in pod.containers if one.name == container), None)
    return amount_of(found, resource) if found else 0


def amount_of(container: ContainerRequest, resource: str) -> int:
    """How much of a resource one container asks for."""
    if resource == CPU:
        return container.whole_cpus
    if is_memory(resource):
        return dict(container.memory or ()).get(resource, 0)
    return dict(container.devices).get(resource, 0)


# --- the hints of a merge ------------------------------------------------------------------


def voters_of(
    case: ExplainCase, state: NodeState | None, found: Iterable[HintsFound]
) -> tuple[ResourceHints | Voter, ...]:
    """Every resource that was asked in one merge; those with a say as voters.

    ``state``: the state at that time; None: unknown.
    """
    answers: list[ResourceHints | Voter] = []
    for step in found:
        if step.provider == "memory" and step.hints is not None and not step.hints:
            answers += _memory_nowhere(case, step.container)
        for resource, family in (step.hints or {}).items():
            answers.append(_answer(case, state, step, resource, family))
    return tuple(answers)


def _answer(
    case: ExplainCase, state: NodeState | None, step: HintsFound, resource: str, family: Family | None
) -> ResourceHints | Voter:
    asked = asked_of(case, step.container, resource)
    unit = unit_of(resource)
    numas = [numa.id for numa in case.machine.numa]
    if unit == CPUS:
        places = _cpu_places(case, state, family, numas)
    elif unit == BYTES:
        places = _memory_places(case, state, step, resource, family, asked, numas)
    else:
        places = _device_places(case, state, resource, family, asked, numas)
    if family is None:
        return ResourceHints(resource, NO_PREFERENCE, asked, unit, tuple(places))
    wider, more = few_wider(family)
    answer = HINTS if family.reach else IMPOSSIBLE
    note = "" if family.reach else _why_impossible(case, state, step.container, resource, asked)
    return Voter(ResourceHints(resource, answer, asked, unit, tuple(places), wider, more, note), family)


def _memory_nowhere(case: ExplainCase, container: str | None) -> Iterator[ResourceHints]:
    """Memory that fits nowhere, which the kubelet treats as no preference at all."""
    kinds = {kind for one in case.pod.containers for kind, _ in one.memory or ()}
    for kind in sorted(kinds | {kind for kind, _ in case.pod.memory or ()}):
        asked = asked_of(case, container, kind)
        if asked:
            yield ResourceHints(
                kind,
                NO_PREFERENCE,
                asked,
                BYTES,
                note="fits nowhere, which the kubelet treats as no preference",
            )


def _why_impossible(
    case: ExplainCase, state: NodeState | None, container: str | None, resource: str, asked: int
) -> str:
    """Why nothing can serve a resource, where the free amounts do not say it; '' where they do."""
    state = state or case.state
    unit = unit_of(resource)
    wanted = asked_for(resource, unit, asked)
    uid = case.pod.uid
    if unit == DEVICES:
        stock = stock_of(case, state, resource)
        grants = state.devices.grants.get(uid, {})
        held: set[str] = set()
        for name, resources in grants.items():
            if container in (None, name) and resource in resources:
                held |= resources[resource].ids
        if held and len(held) != asked:
            return f"{wanted}, but the {'pod' if container is None else 'container'} already has {len(held)}"
        unplaced = (
            f", {stock.unplaced} of the free ones on no NUMA node of the machine" if stock.unplaced else ""
        )
        return f"{wanted} and {free_text(DEVICES, stock.free, asked)} ({stock.text}{unplaced})"
    if case.pod.pod_level and case.rules.pod_level_managers and container is None:
        what = "CPUs" if unit == CPUS else "memory"
        return (
            f"{wanted} by the pod, and containers with {what} of their own leave nothing to those that share"
        )
    if unit == CPUS:
        cpus = 0
        for name, one in state.cpu.assignments.get(uid, {}).items():
            if container in (None, name):
                cpus |= one
        if cpus and cpus.bit_count() != asked:
            return f"{wanted}, but {cpus.bit_count()} are held already"
    return ""


def pasted(resource: str, family: Family | None, numas: Iterable[int]) -> ResourceHints | Voter:
    """A resource of which the hints alone are known."""
    if family is None:
        return ResourceHints(resource, NO_PREFERENCE, unit=UNKNOWN)
    places = tuple(NumaFree(numa, mark_of(family, numa)) for numa in numas)
    wider, more = few_wider(family)
    return Voter(
        ResourceHints(resource, HINTS if family.reach else IMPOSSIBLE, None, UNKNOWN, places, wider, more),
        family,
    )


def mark_of(family: Family | None, numa: int) -> str:
    """What the hints say of one NUMA node alone."""
    if family is None:
        return POSSIBLE
    if family.prefers(1 << numa):
        return PREFERRED
    return POSSIBLE if family.offers(1 << numa) else NO


def _cpu_places(
    case: ExplainCase, state: NodeState | None, family: Family | None, numas: Sequence[int]
) -> Iterator[NumaFree]:
    layout, rules = case.machine.layout, case.rules
    free: Mapping[int, int] = {}
    least = 0
    if isinstance(family, HintRule) and family.needs:
        free = {nodes.bit_length() - 1: amount for nodes, amount in family.needs[0].amounts}
        least = family.needs[0].least
    for numa in numas:
        cpus = layout.numas.get(numa, 0)
        size = (cpus & ~rules.reserved_cpus).bit_count()
        mark = mark_of(family, numa)
        note = ""
        if mark == NO and isinstance(family, HintRule) and free.get(numa, 0) >= least:
            beside = sum(nodes for nodes in family.touch if not nodes >> numa & 1)
            if beside:
                note = _left_cpus(case, state, beside)
        yield NumaFree(numa, mark, free.get(numa, 0) if free else None, size, note)


def _left_cpus(case: ExplainCase, state: NodeState | None, mask: int) -> str:
    """Which CPUs of which init containers on some NUMA nodes must be used again."""
    own = state.cpu.assignments.get(case.pod.uid, {}) if state is not None else {}
    there = 0
    for numa in ids_of(mask):
        there |= case.machine.layout.numas.get(numa, 0)
    inits = [one.name for one in case.pod.containers if one.role is Role.INIT]
    left = {name: cpus for name, one in own.items() if name in inits and (cpus := one & there)}
    cpus = 0
    for some in left.values():
        cpus |= some
    whose = f"init container {both(list(left))}" if left else "an init container"
    which = f"CPU {format_ids(cpus)}" if cpus.bit_count() == 1 else f"CPUs {format_ids(cpus)}".rstrip()
    return f"{which} of {whose} on NUMA {format_ids(mask)} {REUSED}"


def _memory_places(
    case: ExplainCase,
    state: NodeState | None,
    step: HintsFound,
    resource: str,
    family: Family | None,
    asked: int,
    numas: Sequence[int],
) -> Iterator[NumaFree]:
    books = state.memory.numa if state else {}
    for numa in numas:
        node = books.get(numa)
        table = node.tables.get(resource) if node else None
        mark = mark_of(family, numa)
        if node is None or table is None:
            yield NumaFree(numa, mark)
            continue
        note = ""
        if mark == NO and node.cells.bit_count() > 1:
            note = f"in a group with NUMA {format_ids(node.cells & ~(1 << numa))}"
        elif mark == NO and table.free >= asked:
            short = [
                kind
                for kind in step.hints or {}
                if kind != resource
                and kind in node.tables
                and node.tables[kind].free < asked_of(case, step.container, kind)
            ]
            note = f"too little {', '.join(short)}" if short else ""
        yield NumaFree(numa, mark, table.free, table.allocatable, note)


def _device_places(
    case: ExplainCase,
    state: NodeState | None,
    resource: str,
    family: Family | None,
    asked: int,
    numas: Sequence[int],
) -> Iterator[NumaFree]:
    plugin = (state or case.state).devices.plugins.get(resource)
    size = dict.fromkeys(numas, 0)
    for device in plugin.devices.values() if plugin else ():
        for numa in set(device.numa or ()):
            if numa in size:
                size[numa] += 1
    free: dict[int, int] | None = None
    needs = family.needs if isinstance(family, HintRule) else ()
    if needs:
        free = {
            numa: sum(amount for nodes, amount in needs[0].amounts if nodes >> numa & 1) for numa in numas
        }
    elif state is not None and plugin is not None:
        taken = state.devices.allocated.get(resource, frozenset())
        free = dict.fromkeys(numas, 0)
        for name in plugin.healthy - taken:
            for numa in set(plugin.devices[name].numa or ()):
                if numa in free:
                    free[numa] += 1
    for numa in numas:
        mark = mark_of(family, numa)
        have = free[numa] if free is not None else None
        note = ""
        if mark == NO and have is not None and have >= asked > 0 and needs:
            note = f"devices of an init container elsewhere {REUSED}"
        yield NumaFree(numa, mark, have, size[numa], note)


# --- masks ----------------------------------------------------------------------------------


def few_wider(family: Family, few: int = FEW) -> tuple[tuple[tuple[int, bool], ...], bool]:
    """The first masks of several NUMA nodes, and whether there are more of them."""
    found = list(islice(_wider(family), few + 1))
    return tuple(found[:few]), len(found) > few


def _wider(family: Family) -> Iterator[tuple[int, bool]]:
    if not isinstance(family, HintRule) or family.reach.bit_count() <= ENUMERABLE:
        masks = dict.fromkeys(mask for mask, _ in family if mask.bit_count() > 1)
        for mask in sorted(masks, key=lambda m: (m.bit_count(), not family.prefers(m), m)):
            yield mask, family.prefers(mask)
        return
    for mask in sorted(mask for mask in family.extra_masks if mask.bit_count() > 1):
        yield mask, family.likes(mask)
    if family.possible:
        for size in range(max(2, family.smallest, family.narrowest), family.nodes.bit_count() + 1):
            for mask in masks_of(size, family.nodes, family.needs, family.touch):
                yield mask, family.likes(mask)


def preferred_masks(family: Family, most: int) -> tuple[int, ...]:
    """Masks that a resource prefers, by size and value; at most so many."""
    if isinstance(family, HintList):
        return tuple(sorted((m for m, liked in family.masks.items() if liked), key=_order)[:most])
    assert isinstance(family, HintRule)
    if family.reach.bit_count() <= ENUMERABLE:
        return tuple(sorted((mask for mask, liked in family if liked), key=_order)[:most])
    masks = {mask for mask in family.extra_masks if family.likes(mask)}
    if family.possible and family.width >= family.smallest:
        masks.update(some_masks(most, family.width, family.nodes, family.needs, family.touch))
    return tuple(sorted(masks, key=_order)[:most])


def _order(mask: int) -> tuple[int, int]:
    return mask.bit_count(), mask


def single_nodes(family: Family, every: int) -> int:
    """NUMA nodes that the resource prefers alone, packed."""
    return sum(1 << numa for numa in ids_of(every) if family.prefers(1 << numa))
