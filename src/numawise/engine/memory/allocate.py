"""Give a container its memory, and take it back.

Rules kept here:

1. The affinity decides where; where it has too little free, it is widened to the best of the
   Memory Manager's own masks that contains it.
2. What an init container had may be used again, on the identical mask only; its block shrinks by
   as much, so that all blocks together are what is really charged.
3. A mask of several nodes must keep the groups; a single node is never checked (a defect).
"""

from collections.abc import Sequence
from dataclasses import replace

from numawise.engine.failure import NIL, Crash, Failure
from numawise.engine.hint import Family, Hint, Listed, Ruled, masks_of
from numawise.engine.memory.books import WRAP, breaks_group, charge, discharge
from numawise.engine.memory.hints import INEXACT, Wanted, family, takes_part, wanted_by
from numawise.engine.reuse import hands_on
from numawise.engine.state import Block, Draft
from numawise.engine.trace import Defect, MemoryGranted, Note, StaleRemoved, ignore
from numawise.request.model import MEMORY, ContainerRequest, PodRequest, Role
from numawise.rules.model import Rules
from numawise.sets import NumaSet, ids_of

NO_DEFAULT = (
    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
)
NO_DEFAULT_PREFERRED = "[memorymanager] failed to find the default preferred hint"
NO_EXTENDED = "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
NO_EXTENDED_PREFERRED = "[memorymanager] failed to find the extended preferred hint"
BREAKS_GROUP = "[memorymanager] preferred hint violates NUMA node allocation"


def allocate(
    rules: Rules,
    draft: Draft,
    pod: PodRequest,
    container: ContainerRequest,
    affinity: Hint,
    note: Note = ignore,
) -> Failure | None:
    """Allocate the memory of one container."""
    if not takes_part(rules, pod):
        if rules.memory_static:
            collect(draft, note)
        return None
    collect(draft, note)
    wanted = wanted_by(rules, pod, container)
    held = draft.memory.get(pod.uid, {}).get(container.name)
    if held is not None:
        _hand_on(rules, draft, pod, container, held)
        return None
    if wanted is None:
        return Failure(INEXACT)
    if not wanted and rules.behaviour.skips_memoryless_containers:
        return None
    mask = settle(rules, draft, pod, wanted, affinity, container.name, note)
    if isinstance(mask, Failure):
        return mask
    again = draft.reuse_memory.get(pod.uid, {})
    books = dict(draft.memory_numa)
    blocks = []
    for kind, size in wanted:
        blocks.append(Block(mask, kind, size))
        charge(books, mask, kind, max(0, size - again.get((mask, kind), 0)))
    draft.memory_numa = books
    _hand_on(rules, draft, pod, container, blocks)
    draft.put("memory", pod.uid, container.name, tuple(blocks))
    if rules.behaviour.init_memory_reused:
        _shrink_inits(rules, draft, pod, container, blocks)
    return None


def settle(
    rules: Rules,
    draft: Draft,
    pod: PodRequest,
    wanted: Wanted,
    affinity: Hint,
    container: str | None,
    note: Note,
) -> int | Failure:
    """The NUMA nodes to use (steps 3 to 5 of an allocation)."""
    found: Family | None = None
    ungrouped = rules.behaviour.memory_width_ignores_groups
    again = draft.reuse_memory.get(pod.uid, {})
    preferred = affinity.preferred
    if affinity.numa is not None:
        mask = affinity.numa.bits
    else:
        found = family(draft.memory_numa, again, wanted, ungrouped=ungrouped)
        best = best_mask(found)
        if best is None or not _lists_memory(wanted):
            return Failure(NO_DEFAULT)
        if preferred and not best.preferred:
            return Failure(NO_DEFAULT_PREFERRED)
        assert best.numa is not None
        mask, preferred = best.numa.bits, best.preferred
    extended = False
    if any(_free(draft, mask, kind) < size for kind, size in wanted):
        found = found or family(draft.memory_numa, again, wanted, ungrouped=ungrouped)
        best = best_mask(found, containing=mask, upwards=not rules.behaviour.memory_widens_downwards)
        if best is None or not _lists_memory(wanted):
            return Failure(NO_EXTENDED)
        if preferred and not best.preferred:
            return Failure(NO_EXTENDED_PREFERRED)
        assert best.numa is not None
        mask, extended = best.numa.bits, True
    if rules.behaviour.memory_keeps_groups and breaks_group(draft.memory_numa, mask):
        return Failure(BREAKS_GROUP)
    if note is not ignore:
        note(MemoryGranted(container, mask, wanted, extended))
        if mask.bit_count() == 1 and any(draft.memory_numa[n].cells.bit_count() > 1 for n in ids_of(mask)):
            note(Defect("single-node-in-group", container or ""))
    return mask


def _lists_memory(wanted: Wanted) -> bool:
    return any(kind == MEMORY for kind, _ in wanted)


def best_mask(found: Family, containing: int = 0, *, upwards: bool = False) -> Hint | None:
    """The best hint that contains the given nodes: preferred first, then the narrowest.

    ``upwards``: it must have a node above all of these.
    """
    above = -1 << containing.bit_length() if upwards else -1
    if isinstance(found, Listed):
        masks = [
            (not liked, m.bit_count(), m)
            for m, liked in found.masks.items()
            if not containing & ~m and m & above
        ]
        if not masks:
            return None
        disliked, _, mask = min(masks)
        return Hint(NumaSet(mask), not disliked)
    assert isinstance(found, Ruled)
    most = found.reach.bit_count()
    inside = [*(1 << numa for numa in ids_of(containing)), *((above,) if upwards else ())]
    for size in (found.width, *(s for s in range(1, most + 1) if s != found.width)):
        masks_here = [m for m in found.apart if m.bit_count() == size and not containing & ~m and m & above]
        if found.possible and size >= found.smallest and not containing & ~found.nodes:
            by_rule = next(masks_of(size, found.nodes, found.needs, (*found.touch, *inside)), 0)
            if by_rule:
                masks_here.append(by_rule)
        if masks_here:
            return Hint(NumaSet(min(masks_here)), size == found.width)
    return None


def _free(draft: Draft, mask: int, kind: str) -> int:
    total = 0
    for numa in ids_of(mask):
        table = draft.memory_numa[numa].tables.get(kind)
        if table is None:
            raise Crash(NIL)
        total += table.free
    return total % WRAP


def _hand_on(
    rules: Rules, draft: Draft, pod: PodRequest, container: ContainerRequest, blocks: Sequence[Block]
) -> None:
    """Keep the table of what later containers of the pod may use again."""
    if not rules.behaviour.init_memory_reused:
        return
    others = {uid: table for uid, table in draft.reuse_memory.items() if uid != pod.uid}
    own = dict(draft.reuse_memory.get(pod.uid, {}))
    known = pod.uid in draft.reuse_memory
    if rules.behaviour.other_pods_reuse_forgotten:
        others = {}
    elif others:  # a slip: the pod's own is forgotten instead
        own, known = {}, False
    for block in blocks:
        key = (block.numa, block.type)
        before = own.get(key)
        if hands_on(rules, container):
            own[key] = max(before or 0, block.size)
        elif before is not None:
            own[key] = max(0, before - block.size)
    draft.reuse_memory = {**others, pod.uid: own} if known or hands_on(rules, container) else others


def _shrink_inits(
    rules: Rules, draft: Draft, pod: PodRequest, container: ContainerRequest, blocks: list[Block]
) -> None:
    """Take from the init containers' blocks what the new blocks use again."""
    for new in blocks:
        rest = new.size
        for earlier in pod.containers:
            if earlier.role is Role.APP or earlier.name == container.name or rest == 0:
                break
            if earlier.role is Role.SIDECAR and rules.behaviour.sidecars_keep_their_share:
                continue
            held = draft.memory.get(pod.uid, {}).get(earlier.name)
            if not held:
                continue
            shrunk = []
            for block in held:
                if (block.type, block.numa) == (new.type, new.numa):
                    used = min(block.size, rest)
                    rest -= used
                    shrunk.append(replace(block, size=block.size - used))
                else:
                    shrunk.append(block)
            draft.put("memory", pod.uid, earlier.name, tuple(shrunk))


def collect(draft: Draft, note: Note = ignore) -> None:
    """Take back the memory of pods that are gone, and of containers that a pod no longer has."""
    if not draft.ready:
        return
    for uid, containers in draft.stale(draft.memory):
        note(StaleRemoved("memory", uid))
        for container in containers:
            release(draft, uid, container)


def release(draft: Draft, uid: str, container: str) -> None:
    """Take back the memory of one container."""
    blocks = draft.memory[uid][container]
    draft.drop("memory", uid, container)
    if uid in draft.memory_pods:
        if uid in draft.memory:
            return
        blocks = draft.memory_pods[uid]
        draft.delete_key("memory_pods", uid)
    books = dict(draft.memory_numa)
    for block in blocks:
        discharge(books, block)
    draft.memory_numa = books
