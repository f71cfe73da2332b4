"""How a merge of hints is worded: what each resource leaves over, and what came of it."""

from collections.abc import Sequence

from numawise.results.explanation import Narrowing, Round
from numawise.sets import format_ids


def narrowing_text(step: Narrowing) -> str:
    """``cpu prefers NUMA 1: NUMA 1 left``."""
    prefers = _masks(step.prefers, step.wanted, more=step.more)
    left = _masks(step.left, step.reach, more=step.more)
    return f"{step.resource} prefers {prefers}: {left} left"


def best_text(merge: Round) -> str:
    """``NUMA 0, preferred: accepted``."""
    best = f"NUMA {merge.best.numa}"
    if merge.best.numa is None:
        best = "any NUMA node" if merge.best.preferred else "no NUMA nodes"
    preferred = "preferred" if merge.best.preferred else "not preferred"
    verdict = {True: ": accepted", False: ": refused", None: ""}[merge.admitted]
    return f"{best}, {preferred}{verdict}"


def whose(container: str | None) -> str:
    """Whose round it is."""
    return "the pod" if container is None else f"container {container}"


def _masks(masks: Sequence[int], reach: int, *, more: bool) -> str:
    shown = [format_ids(mask) for mask in masks]
    if not shown:
        return "nothing"
    if more and len(shown) > 1 and all(mask.bit_count() == 1 for mask in masks) and reach:
        return f"one of NUMA {format_ids(reach)}"
    return f"NUMA {' or '.join(shown)}{' or others' if more and len(shown) > 1 else ''}"
