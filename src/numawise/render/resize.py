"""Resizes in words: rows of a table, sentences below it, and the same as plain data."""

from typing import Any

from numawise.codec.decision import size_data
from numawise.engine.admit import Rejected
from numawise.engine.resize import ALLOCATED, DEFERRED, INFEASIBLE, UNCHANGED, ResizeResult
from numawise.quantity import Quantity
from numawise.render.terminal import DIM, GREEN, RED, YELLOW
from numawise.request.model import CPU, MEMORY, Amounts
from numawise.results.simulation import Resized
from numawise.sets import format_ids

REFUSED = "refused"
VERDICTS = {
    ALLOCATED: ("resized", GREEN),
    DEFERRED: ("deferred", YELLOW),
    INFEASIBLE: ("infeasible", RED),
    UNCHANGED: ("unchanged", DIM),
    REFUSED: (REFUSED, RED),
}


def verdict_of(one: Resized) -> str:
    """One word for what became of a resize."""
    return REFUSED if one.refusal else one.result.outcome


def resize_notes(one: Resized) -> list[str]:
    """What there is to say about one resize."""
    name, result = one.name.removeprefix("default/"), one.result
    sizes = changed_sizes(result)
    what = f" ({sizes})" if sizes else ""
    if one.refusal:
        return [f"{name}: the API server would refuse the resize{what}: {one.refusal}"]
    if result.outcome == ALLOCATED:
        return [f"{name}: resized{what}", *_kept(one)]
    if result.outcome == UNCHANGED:
        return [f"{name}: asks for what it has; nothing waits any more"]
    waits = "it waits until there is room" if result.outcome == DEFERRED else "it is not tried again"
    lines = [f"{name}: resize {result.outcome}{what}; {waits}", f"    {result.message}"]
    short = result.decision.insufficient if isinstance(result.decision, Rejected) else None
    if short is not None and short.requested > short.capacity:
        lines.append("    there will be no room, whatever goes: the whole node has less than that")
    return lines


def _kept(one: Resized) -> list[str]:
    asks = {container.name: container for container in one.result.pod.containers} if one.result.pod else {}
    return [
        f"    container {name} keeps its exclusive CPUs {format_ids(cpus)}, {cpus.bit_count()} of them, "
        f"although it asks for {asks[name].requests[CPU]} now; a restart of the kubelet compares the two"
        for name, cpus in one.held
    ]


def changed_sizes(result: ResizeResult) -> str:
    """``main: cpu 2 → 4, memory 4Gi → 8Gi``."""
    if result.pod is None or result.before is None:
        return ""
    parts = []
    for before, now in zip(result.before.containers, result.pod.containers, strict=True):
        changes = _changes(before.requests, before.limits, now.requests, now.limits)
        if changes:
            parts.append(f"{now.name}: {', '.join(changes)}")
    own, new = result.before, result.pod
    changes = _changes(own.requests or {}, own.limits or {}, new.requests or {}, new.limits or {})
    if changes:
        parts.append(f"pod: {', '.join(changes)}")
    return "; ".join(parts)


def _changes(requests: Amounts, limits: Amounts, new_requests: Amounts, new_limits: Amounts) -> list[str]:
    changes = []
    for name in (CPU, MEMORY):
        wanted = _change(requests.get(name), new_requests.get(name))
        allowed = _change(limits.get(name), new_limits.get(name))
        if wanted:
            changes.append(f"{name} {wanted}")
        if allowed and allowed != wanted:
            changes.append(f"{name} limit {allowed}")
    return changes


def _change(before: Quantity | None, now: Quantity | None) -> str:
    if now is None or (before is not None and before.nano == now.nano):
        return ""
    return f"{'none' if before is None else before} → {now}"


def resized_data(one: Resized) -> dict[str, Any]:
    """One resize as plain data."""
    result = one.result
    data: dict[str, Any] = {"pod": one.name, "uid": result.uid, "outcome": verdict_of(one)}
    data["reason"] = result.reason or None
    data["message"] = one.refusal or result.message or None
    data["cause"] = result.cause or None
    changed = size_data(result.before, result.pod) if result.pod and result.before else {}
    data["resources"] = changed.pop("", None)
    data["containers"] = changed
    data["held"] = {name: format_ids(cpus) for name, cpus in one.held}
    return data
