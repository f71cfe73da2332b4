"""Give a container its memory, and take it back.

Counterpart: ``Allocate`` and ``RemoveContainer`` of pkg/kubelet/cm/memorymanager/policy_static.go, and
``removeStaleState`` of memory_manager.go.

Rules kept here:

1. The affinity decides where; where it has too little free, it is widened to the best of the
   Memory Manager's own masks that contains it.
2. What an init container had may be used again, on the identical mask only; its block shrinks by
   as much, so that all blocks together are what is really charged.
3. A mask of several nodes must keep the groups; a single node is never checked (a defect).
"""

from collections.abc import Mapping, Sequence

from numawise.engine.draft import Draft, MemoryDraft
from numawise.engine.failure import NIL, Crash, Failure
from numawise.engine.hint import Family, Hint, HintList, HintRule
from numawise.engine.masks import masks_of
from numawise.engine.memory.hints import INEXACT, Wanted, family_for, takes_part, wanted_by
from numawise.engine.memory.tables import WRAP, breaks_group, charge, discharge
from numawise.engine.provider import Admission, hands_on
from numawise.engine.state import Block, NumaMemory
from numawise.engine.trace import Defect, MemoryGranted, Note, StaleRemoved, ignore
from numawise.request.model import MEMORY, ContainerRequest, Role
from numawise.sets import NumaSet, ids_of
from numawise.values import replace

NO_DEFAULT = (
    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
)
NO_DEFAULT_PREFERRED = "[memorymanager] failed to find the default preferred hint"
NO_EXTENDED = "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
NO_EXTENDED_PREFERRED = "[memorymanager] failed to find the extended preferred hint"
BREAKS_GROUP = "[memorymanager] preferred hint violates NUMA node allocation"


def allocate(admission: Admission, container: ContainerRequest, affinity: Hint) -> Failure | None:
    """Allocate the memory of one container."""
    rules, pod, memory = admission.rules, admission.pod, admission.draft.memory
    if not rules.memory_static:
        return None
    collect(admission.draft, admission.note)
    if admission.skipped or not takes_part(rules, pod):
        return None
    wanted = wanted_by(rules, pod, container)
    held = memory.get(pod.uid, container.name)
    if held is not None:
        _hand_on(admission, container, held)
        return None
    if wanted is None:
        return Failure(INEXACT)
    if not wanted and rules.behaviour.skips_memoryless_containers:
        return None
    mask = settle(admission, wanted, affinity, container.name)
    if isinstance(mask, Failure):
        return mask
    again = memory.reusable.get(pod.uid, {})
    by_numa = dict(memory.numa)
    blocks = []
    for kind, size in wanted:
        blocks.append(Block(mask, kind, size))
        charge(by_numa, mask, kind, max(0, size - again.get((mask, kind), 0)))
    memory.numa = by_numa
    _hand_on(admission, container, blocks)
    memory.assign(pod.uid, container.name, tuple(blocks))
    if rules.behaviour.init_memory_reused:
        _shrink_inits(admission, container, blocks)
    return None


def settle(admission: Admission, wanted: Wanted, affinity: Hint, container: str | None) -> int | Failure:
    """The NUMA nodes to use (steps 3 to 5 of an allocation)."""
    behaviour, note = admission.rules.behaviour, admission.note
    numa = admission.draft.memory.numa
    found: Family | None = None
    preferred = affinity.preferred
    if affinity.numa is not None:
        mask = affinity.numa.bits
    else:
        found = family_for(admission, wanted)
        best = best_mask(found)
        if best is None or not _lists_memory(wanted):
            return Failure(NO_DEFAULT)
        if preferred and not best.preferred:
            return Failure(NO_DEFAULT_PREFERRED)
        assert best.numa is not None
        mask, preferred = best.numa.bits, best.preferred
    extended = False
    if any(_free(numa, mask, kind) < size for kind, size in wanted):
        found = found or family_for(admission, wanted)
        best = best_mask(found, containing=mask, upwards=not behaviour.memory_widens_downwards)
        if best is None or not _lists_memory(wanted):
            return Failure(NO_EXTENDED)
        if preferred and not best.preferred:
            return Failure(NO_EXTENDED_PREFERRED)
        assert best.numa is not None
        mask, extended = best.numa.bits, True
    if behaviour.memory_keeps_groups and breaks_group(numa, mask):
        return Failure(BREAKS_GROUP)
    if note is not ignore:
        note(MemoryGranted(container, mask, wanted, extended))
        if mask.bit_count() == 1 and any(numa[n].cells.bit_count() > 1 for n in ids_of(mask)):
            note(Defect("single-node-in-group", container or ""))
    return mask


def _lists_memory(wanted: Wanted) -> bool:
    return any(kind == MEMORY for kind, _ in wanted)


def best_mask(found: Family, containing: int = 0, *, upwards: bool = False) -> Hint | None:
    """The best hint that contains the given nodes: preferred first, then the narrowest.

    ``upwards``: it must have a node above all of these.
    """
    above = -1 << containing.bit_length() if upwards else -1
    if isinstance(found, HintList):
        masks = [
            (not liked, m.bit_count(), m)
            for m, liked in found.masks.items()
            if not containing & ~m and m & above
        ]
        if not masks:
            return None
        disliked, _, mask = min(masks)
        return Hint(NumaSet(mask), not disliked)
    assert isinstance(found, HintRule)
    most = found.reach.bit_count()
    touch = (*found.touch, above) if upwards else found.touch
    for size in (found.width, *(s for s in range(1, most + 1) if s != found.width)):
        masks_here = [
            m for m in found.extra_masks if m.bit_count() == size and not containing & ~m and m & above
        ]
        if found.possible and size >= found.smallest and not containing & ~found.nodes:
            by_rule = next(masks_of(size, found.nodes, found.needs, touch, containing), 0)
            if by_rule:
                masks_here.append(by_rule)
        if masks_here:
            return Hint(NumaSet(min(masks_here)), size == found.width)
    return None


def _free(numa: Mapping[int, NumaMemory], mask: int, kind: str) -> int:
    total = 0
    for node in ids_of(mask):
        table = numa[node].tables.get(kind)
        if table is None:
            raise Crash(NIL)
        total += table.free
    return total % WRAP


def _hand_on(admission: Admission, container: ContainerRequest, blocks: Sequence[Block]) -> None:
    """Keep the table of what later containers of the pod may use again."""
    rules, pod, memory = admission.rules, admission.pod, admission.draft.memory
    if not rules.behaviour.init_memory_reused:
        return
    others = {uid: table for uid, table in memory.reusable.items() if uid != pod.uid}
    own = dict(memory.reusable.get(pod.uid, {}))
    known = pod.uid in memory.reusable
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
    memory.reusable = {**others, pod.uid: own} if known or hands_on(rules, container) else others


def _shrink_inits(admission: Admission, container: ContainerRequest, blocks: list[Block]) -> None:
    """Take from the init containers' blocks what the new blocks use again."""
    rules, pod, memory = admission.rules, admission.pod, admission.draft.memory
    for new in blocks:
        rest = new.size
        for earlier in pod.containers:
            if earlier.role is Role.APP or earlier.name == container.name or rest == 0:
                break
            if earlier.role is Role.SIDECAR and rules.behaviour.sidecars_keep_their_share:
                continue
            held = memory.get(pod.uid, earlier.name)
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
            memory.assign(pod.uid, earlier.name, tuple(shrunk))


def collect(draft: Draft, note: Note = ignore) -> None:
    """Take back the memory of pods that are gone, and of containers that a pod no longer has."""
    if not draft.ready:
        return
    for uid, containers in draft.stale(draft.memory):
        note(StaleRemoved("memory", uid))
        for container in containers:
            release(draft.memory, uid, container)


def release(memory: MemoryDraft, uid: str, container: str) -> None:
    """Take back the memory of one container."""
    blocks = memory.release(uid, container)
    if uid in memory.pods.rows:
        if uid in memory.rows:
            return
        blocks = memory.pods.rows[uid]
        memory.pods.drop(uid)
    by_numa = dict(memory.numa)
    for block in blocks:
        discharge(by_numa, block)
    memory.numa = by_numa
