"""Give a whole pod its memory and divide it among its containers (gate PodLevelResourceManagers)."""

from collections.abc import Iterable

from numawise.engine.failure import EMPTY_SHARED_POOL, Failure
from numawise.engine.hint import Hint
from numawise.engine.memory.allocate import collect, settle
from numawise.engine.memory.books import WRAP, charge
from numawise.engine.memory.hints import empty_pool, takes_part, wanted_by
from numawise.engine.state import Block, Draft
from numawise.engine.trace import Note, ignore
from numawise.request.model import PodRequest, Role
from numawise.rules.model import Rules


def allocate_pod(
    rules: Rules, draft: Draft, pod: PodRequest, affinity: Hint, note: Note = ignore
) -> Failure | None:
    """Charge the pod's memory once, and give each container blocks on the same nodes."""
    if not rules.memory_static:
        return None
    collect(draft, note)
    if not takes_part(rules, pod):
        return None
    wanted = pod.memory
    if not wanted:  # also where the amount cannot be told as an exact integer: the kubelet lets it pass
        return None
    empty = empty_pool(rules, pod, wanted)
    if empty:
        return Failure(empty, EMPTY_SHARED_POOL)
    mask = settle(rules, draft, pod, wanted, affinity, None, note)
    if isinstance(mask, Failure):
        return mask
    books = dict(draft.memory_numa)
    for kind, size in wanted:
        charge(books, mask, kind, size)
    draft.memory_numa = books
    draft.set_key("memory_pods", pod.uid, tuple(Block(mask, kind, size) for kind, size in wanted))
    for name, blocks in _divide(rules, pod, mask, dict(wanted)).items():
        draft.put("memory", pod.uid, name, blocks)
    return None


def _divide(rules: Rules, pod: PodRequest, mask: int, rest: dict[str, int]) -> dict[str, tuple[Block, ...]]:
    """Exclusive containers get what they ask for, all others what these leave."""
    parts: dict[str, tuple[Block, ...]] = {}
    for container in pod.containers:
        own = wanted_by(rules, pod, container)
        if own:
            parts[container.name] = _blocks(mask, own)
            for kind, size in own if container.role is not Role.INIT else ():
                if kind in rest or container.role is Role.APP:
                    rest[kind] = (rest.get(kind, 0) - size) % WRAP
        elif container.role is Role.INIT:
            parts[container.name] = _blocks(mask, rest.items())
    for container in pod.containers:
        parts.setdefault(container.name, _blocks(mask, rest.items()))
    return parts


def _blocks(mask: int, sizes: Iterable[tuple[str, int]]) -> tuple[Block, ...]:
    return tuple(Block(mask, kind, size) for kind, size in sizes if size)
