"""Holds and placements as people read them: a line for a start, a row for a hold, why there is no room."""

import json
import signal
import time
from collections.abc import Iterable, Mapping, Sequence

from numawise.machine.hardware import Gpu
from numawise.render.words import bytes_text
from numawise.results.allotment import shared_cpus
from numawise.results.placement import (
    BOUND,
    ENDED,
    FOUND_ENDED,
    INTERLEAVED,
    NEVER_STARTED,
    OVERTIME,
    PREFERRED,
    RELEASED,
    RULES,
    VARIABLES,
    Capacity,
    EndedHold,
    Grant,
    Hold,
    InLine,
    JobStarted,
    JobUse,
    NoRoom,
    Placement,
    Preview,
    pool_of,
    time_limit,
)
from numawise.sets import format_ids

MEMORY_WORDS = {BOUND: "bound to", PREFERRED: "on", INTERLEAVED: "interleaved over"}
UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
FENCES = {RULES: "GPUs fenced by device rules", VARIABLES: "GPUs hidden by variables"}
MOST = 4
"""Holds that are named as what somebody waits for."""


def started_line(started: JobStarted) -> str:
    """What a job has, in one line."""
    hold = started.hold
    title = f"{hold.name} ({hold.id})" + (f", a step of {hold.parent}" if hold.parent else "")
    return f"{title}: {placement_text(started.placement)}, {kept_text(hold.mode, hold.fence)}"


def kept_text(mode: str, fence: str) -> str:
    """``kept by cgroup v2, GPUs fenced by device rules``."""
    return f"kept by {mode}" + (f", {FENCES[fence]}" if fence else "")


def placement_text(placement: Placement) -> str:
    """``CPUs 2-9, memory on NUMA 0 (64 GiB), GPU0 GPU1``: there first, unless it is ``bound to`` it."""
    own = bool(placement.grant.cpus)
    whole = f"NUMA {format_ids(placement.whole)} alone: " if placement.whole else ""
    parts = [f"{'CPUs' if own else 'shared CPUs'} {format_ids(placement.cpus)}"]
    if placement.mems:
        limit = f" ({bytes_text(placement.memory)})" if placement.memory else ""
        words = MEMORY_WORDS[placement.grant.memory_policy]
        parts.append(f"memory {words} NUMA {format_ids(placement.mems)}{limit}")
    if placement.gpus:
        parts.append(" ".join(gpu.name for gpu in placement.gpus))
    granted = [name for resource, names in placement.grant.devices for name in names if "gpu" not in resource]
    if granted:
        parts.append(" ".join(granted))
    return whole + ", ".join(parts)


def no_room_lines(found: NoRoom, capacity: Capacity) -> Iterable[str]:
    """Why there is no room, and who holds what."""
    yield f"no room: {found.reason}"
    names = gpu_names(capacity)
    for hold in found.holders:
        what = ", ".join(held(hold, names)) or "a place in the shared pool"
        yield f"  {hold.name} ({hold.id}) of {hold.owner.user}, {owner_text(hold)}: {what}"
    if found.message:
        yield f"  a kubelet would say: {found.message}"
    if found.advice:
        yield f"  {found.advice}"


def held(hold: Hold, gpus: dict[str, str]) -> Iterable[str]:
    """What a hold has, in words."""
    grant = hold.grant
    if grant.cpus:
        yield f"CPUs {format_ids(grant.cpus)}"
    if grant.memory:
        total = sum(part.size for part in grant.memory)
        yield f"{bytes_text(total)} on NUMA {format_ids(grant.mems)}"
    for _, names in grant.devices:
        yield " ".join(gpus.get(name, name) for name in names)


def owner_text(hold: Hold) -> str:
    """What the life of a hold depends on."""
    if hold.owner.container:
        return f"{hold.owner.engine} {hold.owner.container[:12]}"
    return f"pid {hold.owner.pid}"


def gpu_names(capacity: Capacity) -> dict[str, str]:
    """What the ledger calls a GPU → its name."""
    return {name: gpu.name for name, gpu in zip(capacity.gpu_ids, capacity.gpus, strict=True)}


def steps_of(hold: Hold, steps: Sequence[Hold]) -> list[Hold]:
    """The steps of a hold, those of a step behind it."""
    below: dict[str, list[Hold]] = {}
    for step in steps:
        if step.owner.uid == hold.owner.uid:
            below.setdefault(step.parent, []).append(step)
    found: list[Hold] = []
    left = below.pop(hold.id, [])[::-1]
    while left:
        found.append(left.pop())
        left += below.pop(found[-1].id, [])[::-1]
    return found


def step_cpus(step: Hold, above: int, steps: Sequence[Hold]) -> int:
    """CPUs that a step may run on: its own, or those ``above`` it that no step beside it has alone."""
    if step.grant.cpus:
        return step.grant.cpus
    beside = (other for other in steps if (other.owner.uid, other.parent) == (step.owner.uid, step.parent))
    taken = 0
    for other in beside:
        taken |= other.grant.cpus
    return above & ~taken


def _step_data(step: Hold, hold: Hold, every: int, steps: Sequence[Hold]) -> dict[str, object]:
    """A step as JSON; ``every``: the CPUs that its hold may run on."""
    grant = step.grant
    outer = next(
        (other for other in steps if other.id == step.parent and other.owner.uid == hold.owner.uid), None
    )
    above = step_cpus(outer, every, steps) if outer else every
    return {
        "id": step.id,
        "parent": step.parent,
        "name": step.name,
        "pid": step.owner.pid,
        **_grant_data(grant, step_cpus(step, above, steps)),
        "policy": step.policy,
        "command": list(step.command),
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(step.since)),
    }


def _grant_data(grant: Grant, cpus: int) -> dict[str, object]:
    """What a hold or a step was granted; ``cpus``: those that it runs on now."""
    return {
        "cpus": format_ids(cpus),
        "exclusive": bool(grant.cpus),
        "cpuLimit": grant.cpu_limit / 1000 if grant.cpu_limit else None,
        "mems": format_ids(grant.mems),
        "memoryPolicy": grant.memory_policy,
        "memory": [{"numa": format_ids(part.numa), "bytes": part.size} for part in grant.memory],
        "devices": {resource: list(names) for resource, names in grant.devices},
    }


def hold_data(
    hold: Hold, capacity: Capacity, holds: Sequence[Hold], steps: Sequence[Hold] = ()
) -> dict[str, object]:
    """A hold as JSON, with those of the ``steps`` that are its."""
    grant = hold.grant
    pool = pool_of(capacity, holds)
    every = grant.cpus or shared_cpus(capacity, pool, hold)
    return {
        **_whose_data(hold),
        **_grant_data(grant, every),
        "mode": hold.mode,
        "group": hold.group or None,
        "fence": hold.fence or None,
        "policy": hold.policy,
        "command": list(hold.command),
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(hold.since)),
        "timeLeft": round(hold.since + time_limit(hold) - time.time(), 3) if time_limit(hold) else None,
        "labels": dict(hold.labels),
        "steps": [_step_data(step, hold, every, steps) for step in steps_of(hold, steps)],
    }


def _whose_data(hold: Hold) -> dict[str, object]:
    return {
        "id": hold.id,
        "name": hold.name,
        "kind": hold.kind,
        "user": hold.owner.user,
        "uid": hold.owner.uid,
        "pid": hold.owner.pid or None,
        "container": f"{hold.owner.engine}:{hold.owner.container}" if hold.owner.container else None,
    }


def waiter_data(waiting: InLine) -> dict[str, object]:
    """A waiting job, as JSON."""
    waiter = waiting.waiter
    return {
        "id": waiter.id,
        "user": waiter.owner.user,
        "uid": waiter.owner.uid,
        "pid": waiter.owner.pid,
        "request": waiter.request,
        "asks": json.loads(waiter.asks) if waiter.asks else None,
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(waiter.since)),
        "state": waiting.state,
        "missing": waiting.missing or None,
        "holders": [hold.id for hold in waiting.holders],
    }


def ended_data(ended: EndedHold) -> dict[str, object]:
    """A hold that is no more, as JSON."""
    hold, grant = ended.hold, ended.hold.grant
    return {
        **_whose_data(hold),
        "cpus": format_ids(grant.cpus),
        "mems": format_ids(grant.mems),
        "memory": [{"numa": format_ids(part.numa), "bytes": part.size} for part in grant.memory],
        "devices": {resource: list(names) for resource, names in grant.devices},
        "policy": hold.policy,
        "command": list(hold.command),
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(hold.since)),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ended.at)),
        "took": round(max(ended.at - hold.since, 0.0), 3),
        "how": ended.how,
        "status": ended.status,
        "by": ended.by or None,
        "text": ended_text(ended),
    }


def ended_text(ended: EndedHold) -> str:
    """``ok``, ``status 3``, ``SIGKILL``, ``released by root``, ``time limit``: how a hold ended."""
    if ended.how == ENDED:
        if ended.status is None:
            return "ended"
        if ended.status < 0:
            return signal_name(-ended.status)
        return f"status {ended.status}" if ended.status else "ok"
    words = {
        RELEASED: "released",
        OVERTIME: "time limit",
        FOUND_ENDED: "found ended",
        NEVER_STARTED: "not started",
    }[ended.how]
    return f"{words} by {ended.by}" if ended.by else words


def signal_name(number: int) -> str:
    """``SIGKILL``; ``signal 70`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def use_data(hold: Hold, use: JobUse) -> dict[str, object]:
    """What the job of a hold uses, as JSON."""
    return {
        "id": hold.id,
        "name": hold.name,
        "user": hold.owner.user,
        "cpus": None if use.cpus is None else round(use.cpus, 2),
        "memory": use.memory,
        "processes": use.processes,
    }


def time_left_text(holds: Sequence[Hold]) -> str:
    """``time left: train 1h25m``; '' when no job has a limit."""
    limited = [(hold, hold.since + time_limit(hold) - time.time()) for hold in holds if time_limit(hold)]
    parts = [f"{hold.name} {age(left)}" if left > 0 else f"{hold.name} none" for hold, left in limited]
    return f"time left: {', '.join(parts)}" if parts else ""


def waiting_text(waiting: InLine) -> str:
    """``waiting: bq2x7 of alice (pid 4711), 5m2s, for 2 GPUs: 1 of 8 free; train (x7kqd) of bob``."""
    waiter = waiting.waiter
    who = f"{waiter.id} of {waiter.owner.user or waiter.owner.uid} (pid {waiter.owner.pid})"
    text = f"waiting: {who}, {age(time.time() - waiter.since)}, for {waiter.request}"
    if waiting.missing:
        text += f": {waiting.missing}"
    if waiting.holders:
        held = ", ".join(f"{hold.name} ({hold.id}) of {hold.owner.user}" for hold in waiting.holders[:MOST])
        more = len(waiting.holders) - MOST
        text += f"; held by {held}" + (f" and {more} more" if more > 0 else "")
    return text


def age(seconds: float) -> str:
    """``3d4h``, ``5m2s``: at most two units."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in UNITS:
        count, left = divmod(left, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def placement_data(placement: Placement) -> dict[str, object]:
    """A placement as JSON."""
    return {
        "cpus": format_ids(placement.cpus),
        "exclusive": bool(placement.grant.cpus),
        "wholeNuma": format_ids(placement.whole) or None,
        "mems": format_ids(placement.mems),
        "memoryPolicy": placement.grant.memory_policy,
        "memory": placement.memory or None,
        "gpus": [gpu_data(gpu) for gpu in placement.gpus],
        "nics": [{"name": nic.name, "rdma": nic.hca or None} for nic in placement.nics],
        "devices": {resource: list(names) for resource, names in placement.grant.devices},
        "policy": placement.policy,
        "aligned": placement.aligned,
        "remarks": list(placement.remarks),
    }


def gpu_data(gpu: Gpu) -> dict[str, object]:
    """A GPU as JSON."""
    return {"name": gpu.name, "uuid": gpu.uuid or None, "address": gpu.address or None}


def preview_data(found: Preview, command: Sequence[str]) -> dict[str, object]:
    """What a launcher would do, as JSON."""
    from numawise.results.plain import API_VERSION  # noqa: PLC0415 - for -o json alone

    return {
        "apiVersion": API_VERSION,
        "kind": "Placement",
        **placement_data(found.placement),
        "remarks": list(found.remarks),
        "mode": found.mode or None,
        "fence": found.fence or None,
        "steps": list(found.steps),
        "environment": dict(found.environment),
        "command": list(command),
    }


FREE_UNKNOWN = (
    "what is free is not known: not every ledger can be read, and numawise grants nothing until then"
)


def free_data(
    capacity: Capacity, holds: Sequence[Hold], memory: Mapping[int, int]
) -> list[dict[str, object]]:
    """What each NUMA node has left, as JSON; ``memory``: bytes of it."""
    pool = pool_of(capacity, holds) & ~capacity.reserved
    gpus = free_gpus(capacity, holds)
    return [
        {
            "numa": node.id,
            "cpus": format_ids(pool & (capacity.cpus or {}).get(node.id, 0)),
            "memory": memory[node.id],
            "gpus": gpus.get(1 << node.id, []),
        }
        for node in capacity.machine.numa
    ]


def free_gpus(capacity: Capacity, holds: Sequence[Hold]) -> dict[int, list[str]]:
    """Home of the GPUs, packed → names of those that no hold has."""
    taken = {name for hold in holds for _, names in hold.grant.devices for name in names}
    homes = capacity.links.numa if capacity.links else ()
    free: dict[int, list[str]] = {}
    for gpu, name, home in zip(capacity.gpus, capacity.gpu_ids, homes, strict=True):
        if name not in taken:
            free.setdefault(home, []).append(gpu.name)
    return free
