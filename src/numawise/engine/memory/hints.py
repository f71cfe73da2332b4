"""Which NUMA nodes could serve a request for memory and huge pages.

Counterpart: ``GetTopologyHints`` of pkg/kubelet/cm/memorymanager/policy_static.go.

Rules kept here:

1. A node serves either requests of its own or those of exactly one group of nodes at a time.
2. All types of one request share one family of masks.
3. Memory that fits nowhere is answered with an empty mapping, which counts as no preference.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from numawise.engine.failure import NIL, Crash
from numawise.engine.hint import NO_PREFERENCE, Answer, Family, HintList, HintRule
from numawise.engine.masks import fewest_nodes
from numawise.engine.memory.tables import WRAP, breaks_group
from numawise.engine.provider import Admission
from numawise.engine.sparing import Need
from numawise.engine.state import Block, NumaMemory
from numawise.request.model import ContainerRequest, PodRequest, Role, most_at_once
from numawise.rules.model import Rules
from numawise.sets import ids_of

Wanted = tuple[tuple[str, int], ...]
INEXACT = "[memorymanager] failed to represent quantity as int64"
FITS_NOWHERE: Mapping[str, Family] = {}
"""The kubelet's empty mapping, which is taken for no preference at all (rule 3)."""
ENUMERABLE = 20
"""Sets of more NUMA nodes than this cannot be tried one by one."""


def wanted_by(rules: Rules, pod: PodRequest, container: ContainerRequest) -> Wanted | None:
    """Bytes per type; empty: the container shares the pod's; None: not an exact integer."""
    if pod.pod_level and rules.pod_level_managers and not container.fixed:
        return ()
    return container.memory


def wanted_by_pod(rules: Rules, pod: PodRequest) -> Wanted | None:
    """Bytes per type that the pod needs at one time; None: not an exact integer."""
    if pod.pod_level and rules.pod_level_managers:
        return pod.memory
    asked = {c.name: c.memory for c in pod.containers}
    if any(memory is None for memory in asked.values()):
        return None
    amounts = {name: dict(memory or ()) for name, memory in asked.items()}
    kinds = sorted({kind for c in pod.containers if c.role is Role.APP for kind in amounts[c.name]})
    lasting = rules.behaviour.sidecars_keep_their_share
    return tuple(
        (
            kind,
            most_at_once(
                pod.containers,
                lambda c, kind=kind: amounts[c.name].get(kind, 0),  # type: ignore[misc]
                lasting=lasting,
            ),
        )
        for kind in kinds
    )


def takes_part(rules: Rules, pod: PodRequest) -> bool:
    """True when the Memory Manager looks at this pod at all."""
    excluded = pod.pod_level and rules.behaviour.pod_level_excluded and not rules.pod_level_managers
    return rules.memory_static and pod.guaranteed and not excluded


def container_hints(admission: Admission, container: ContainerRequest) -> Answer:
    """Hints for one container."""
    rules, pod = admission.rules, admission.pod
    wanted = wanted_by(rules, pod, container) if takes_part(rules, pod) else None
    if wanted is None or (not wanted and rules.behaviour.skips_memoryless_containers):
        return NO_PREFERENCE
    held = admission.draft.memory.get(pod.uid, container.name)
    if held is not None:
        return _again(held, wanted)
    return new_hints(admission, wanted)


def pod_hints(admission: Admission) -> Answer:
    """Hints for a pod as a whole."""
    rules, pod = admission.rules, admission.pod
    wanted = wanted_by_pod(rules, pod) if takes_part(rules, pod) else None
    if wanted is None:
        return NO_PREFERENCE
    if pod.pod_level and rules.pod_level_managers and empty_pool(rules, pod, wanted):
        return {kind: HintList() for kind, _ in wanted}
    recorded = admission.draft.memory.rows.get(pod.uid, {})
    for container in pod.containers:
        if container.name in recorded:
            return _again(recorded[container.name], wanted)
    return new_hints(admission, wanted)


def new_hints(admission: Admission, wanted: Wanted) -> Answer:
    """Hints for memory that is not held yet."""
    masks = family_for(admission, wanted)
    return {kind: masks for kind, _ in wanted} if masks.reach else FITS_NOWHERE


def family_for(admission: Admission, wanted: Wanted) -> Family:
    """The masks for a pod, as its node is now."""
    memory, ungrouped = admission.draft.memory, admission.rules.behaviour.memory_width_ignores_groups
    return family(memory.numa, memory.reusable.get(admission.pod.uid, {}), wanted, ungrouped=ungrouped)


def _again(held: Sequence[Block], wanted: Wanted) -> Answer:
    """Hints out of what is held already; no preference when it is not what is wanted."""
    sizes = dict(wanted)
    if len(held) != len(wanted) or any(sizes.get(block.type) != block.size for block in held):
        return NO_PREFERENCE
    return {block.type: HintList(((block.numa, True),)) for block in held}


def empty_pool(rules: Rules, pod: PodRequest, wanted: Wanted) -> str:
    """What keeps a pod's memory from being divided: nothing to share, or an inexact amount; '' if nothing."""
    exclusive: dict[str, int] = {}
    shared = False
    for container in pod.containers:
        own = wanted_by(rules, pod, container)
        if own is None:
            return INEXACT
        if container.role is Role.INIT:
            for kind, total in wanted if not own else ():
                if exclusive.get(kind, 0) >= total:
                    return f"pod rejected, pod has shared init containers but no {kind} available for them"
            continue
        shared = shared or not own
        for kind, size in own:
            exclusive[kind] = exclusive.get(kind, 0) + size
    for kind, total in wanted if shared else ():
        if exclusive.get(kind, 0) >= total:
            return (
                f"pod rejected, sum of exclusive container {kind} requests equals pod budget, "
                "leaving no memory for shared containers"
            )
    return ""


def family(
    by_numa: Mapping[int, NumaMemory],
    reuse: Mapping[tuple[int, str], int],
    wanted: Wanted,
    *,
    ungrouped: bool = True,
) -> Family:
    """Masks whose nodes have enough free memory of each type and may be grouped so.

    ``ungrouped``: which of them are preferred is judged as if no nodes were grouped.
    """
    if not wanted:
        return HintList()
    nodes = sorted(by_numa)
    for kind, _ in wanted:
        if any(kind not in by_numa[numa].tables for numa in nodes):
            raise Crash(NIL)
    if any(sum(by_numa[n].tables[kind].allocatable for n in nodes) >= WRAP for kind, _ in wanted):
        return _by_trying(by_numa, nodes, reuse, wanted, ungrouped=ungrouped)

    extra_masks = set()
    idle = 0
    groups = {mask for mask, _ in reuse}
    for numa in nodes:
        node = by_numa[numa]
        if node.users == 0:
            idle |= 1 << numa
        elif node.cells.bit_count() > 1:
            groups.add(node.cells)
        groups.add(1 << numa)
    for mask in groups:
        if _fits(by_numa, mask, reuse, wanted):
            extra_masks.add(mask)
    return HintRule(
        nodes=idle,
        needs=tuple(
            Need(tuple((1 << n, by_numa[n].tables[kind].free) for n in ids_of(idle)), size)
            for kind, size in wanted
        ),
        smallest=2,
        extra_masks=frozenset(extra_masks),
        width=_width(by_numa, nodes, wanted)
        if ungrouped
        else _grouped_width(by_numa, nodes, wanted, groups, idle),
    )


def _width(by_numa: Mapping[int, NumaMemory], nodes: Sequence[int], wanted: Wanted) -> int:
    """How many nodes the request needs when nothing else runs."""
    if any(all(by_numa[n].tables[kind].allocatable >= size for kind, size in wanted) for n in nodes):
        return 1
    every = 0
    for numa in nodes:
        every |= 1 << numa
    return fewest_nodes(every, _allocatable(by_numa, nodes, wanted)) or len(nodes)


def _grouped_width(
    by_numa: Mapping[int, NumaMemory],
    nodes: Sequence[int],
    wanted: Wanted,
    groups: Iterable[int],
    idle: int,
) -> int:
    """How many nodes the request needs of those that may be used together as they are grouped now."""
    needs = _allocatable(by_numa, nodes, wanted)
    sizes = [
        mask.bit_count()
        for mask in groups
        if _keeps_groups(by_numa, mask) and all(need.met_by(mask) for need in needs)
    ]
    of_idle = fewest_nodes(idle, needs, smallest=2)
    return min((*sizes, *((of_idle,) if of_idle else ())), default=len(nodes))


def _allocatable(by_numa: Mapping[int, NumaMemory], nodes: Sequence[int], wanted: Wanted) -> list[Need]:
    return [
        Need(tuple((1 << n, by_numa[n].tables[kind].allocatable) for n in nodes), size)
        for kind, size in wanted
    ]


def _keeps_groups(by_numa: Mapping[int, NumaMemory], mask: int) -> bool:
    """True when the mask is one node outside any group, or several that may be grouped."""
    if mask.bit_count() == 1:
        return not any(by_numa[n].cells.bit_count() > 1 for n in ids_of(mask))
    return not breaks_group(by_numa, mask)


def _fits(
    by_numa: Mapping[int, NumaMemory], mask: int, reuse: Mapping[tuple[int, str], int], wanted: Wanted
) -> bool:
    """The kubelet's own test of one mask."""
    if not _keeps_groups(by_numa, mask):
        return False
    for kind, size in wanted:
        if _sum(by_numa, mask, kind, "allocatable") < size:
            return False
        if (_sum(by_numa, mask, kind, "free") + reuse.get((mask, kind), 0)) % WRAP < size:
            return False
    return True


def _sum(by_numa: Mapping[int, NumaMemory], mask: int, kind: str, column: str) -> int:
    total = 0
    for numa in ids_of(mask):
        total += getattr(by_numa[numa].tables[kind], column)
    return total % WRAP


def _by_trying(
    by_numa: Mapping[int, NumaMemory],
    nodes: Sequence[int],
    reuse: Mapping[tuple[int, str], int],
    wanted: Wanted,
    *,
    ungrouped: bool,
) -> HintList:
    """Every mask tested: needed where sums wrap around, so that wider need not mean more."""
    if len(nodes) > ENUMERABLE:
        raise Crash("the kubelet never returns: it tries every set of NUMA nodes")
    width = len(nodes)
    found = []
    for size in range(1, len(nodes) + 1):
        for chosen in combinations(nodes, size):
            mask = sum(1 << n for n in chosen)
            counts = ungrouped or _keeps_groups(by_numa, mask)
            if counts and all(_sum(by_numa, mask, kind, "allocatable") >= amount for kind, amount in wanted):
                width = min(width, size)
                if _fits(by_numa, mask, reuse, wanted):
                    found.append(mask)
    return HintList(tuple((mask, mask.bit_count() == width) for mask in found))
