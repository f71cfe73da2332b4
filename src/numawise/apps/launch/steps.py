"""Steps: jobs inside of a job, which share out what its hold has.

Rules kept here:

1. ``run`` inside of a hold takes a part of that hold: CPUs, memory and devices out of the hold's own, placed
   by the same decision as on a whole machine, so that the steps of a job do not meet.  Nothing changes for
   anybody else.
2. That a process is inside of a hold is proved: its variable names the hold, the ledger has it as this
   user's, and the process is in the hold's control group or, where it has none, of its family.  Whoever is
   not inside starts a hold as ever, and a remark says so.  A hold without anything of its own has nothing to
   share out.
3. A step stays in the control group of its hold: the hold's limits and device rules hold for it, and what
   ends the job ends its steps.  Among each other they are kept apart by affinity and by variables.
4. A step stands in the ledger below its hold and lives as long as its process; when the hold goes, so does
   it.  Whatever dies on the way, the next who looks passes over it and the next change drops it.
5. Steps without CPUs of their own share those of the hold that no step has alone, and follow them.  What the
   job itself does beside its steps is not moved.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from numawise.apps.launch.decide import decide
from numawise.apps.launch.environment import HOLD, MODE, STEP, job_environment, joined
from numawise.apps.launch.holds import LOOK_AGAIN, Holdings, Taken, name_of
from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.where import check_where
from numawise.errors import HostError, InputError, LedgerError, NumawiseError, quoted
from numawise.gpus.links import GpuLinks
from numawise.host import confine, processes
from numawise.host.child import WaitingChild, exit_as, fork_waiting, wait_for
from numawise.host.plan import Plan, describe
from numawise.ledger.reap import dead
from numawise.ledger.store import LedgerChange
from numawise.machine.model import DevicePlugin
from numawise.render.holds import gpu_names, held
from numawise.results.allotment import shared_cpus
from numawise.results.placement import (
    AFFINITY,
    TIME_LIMIT,
    Capacity,
    Grant,
    Hold,
    JobStarted,
    NoRoom,
    Placement,
    Preview,
    in_ids_of,
    pool_cpus,
    pool_of,
)
from numawise.results.placement import STEP as STEP_KIND
from numawise.sets import bits_of, ids_of
from numawise.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class Enclosing:
    """What a process runs in."""

    hold: Hold | None = None
    """The hold or step whose parts it may take; None: none."""
    remark: str = ""
    """Why it is not in what its variables name."""


@dataclass(frozen=True, slots=True)
class StepJob:
    """A command to run as a step, and how."""

    request: JobRequest
    command: tuple[str, ...]
    environment: Mapping[str, str]
    wait: float = 0.0
    """Seconds to wait for room."""
    hide_gpus: bool = False
    time_limit: float = 0.0
    """Seconds after which it is ended; 0: none."""


# --- where we are (rule 2) ----------------------------------------------------------------------


def enclosing(holdings: Holdings, environment: Mapping[str, str]) -> Enclosing:
    """The hold or step that this process is in, as far as its variables are true."""
    named = environment.get(HOLD, "")
    if not named:
        return Enclosing()
    hold = named_hold(holdings, environment)
    if hold is None:
        known = quoted(named)
        return Enclosing(
            remark=f"{HOLD} names {known}, which this process is not in: it starts outside of it"
        )
    if hold.owner.engine:
        return Enclosing()  # what a container has is its engine's to share out
    if not (hold.grant.cpus or hold.grant.memory or hold.grant.devices):
        return Enclosing()
    steps = live_steps(holdings)
    step = next(
        (one for one in steps if one.id == environment.get(STEP) and one.owner.uid == hold.owner.uid), None
    )
    if step is not None and os.getpid() in _family(holdings, step):
        return Enclosing(step)
    return Enclosing(hold)


def named_hold(holdings: Holdings, environment: Mapping[str, str]) -> Hold | None:
    """The hold that a variable names, when it is ours and this process is in it."""
    named, own = environment.get(HOLD, ""), holdings.who.uid
    every = holdings.ledger.holds()
    hold = next((one for one in every if one.id == named and one.owner.uid == own), None)
    return hold if hold is not None and (hold.owner.engine or _is_inside(holdings, hold)) else None


def _is_inside(holdings: Holdings, hold: Hold) -> bool:
    if not holdings.is_alive(hold):
        return False
    if hold.group:
        return os.getpid() in confine.members(hold.mode, hold.group, holdings.root)
    return os.getpid() in holdings.family(hold)


def live_steps(holdings: Holdings) -> tuple[Hold, ...]:
    """The steps whose processes live."""
    steps = holdings.ledger.steps()
    gone = _dead(holdings, steps)
    return tuple(step for step in steps if step not in gone)


def _dead(holdings: Holdings, steps: Sequence[Hold]) -> tuple[Hold, ...]:
    return dead(steps, holdings.who.boot, lambda step: _lives(holdings, step), holdings.who.namespace)


def _lives(holdings: Holdings, step: Hold) -> bool:
    if processes.alive(step.owner.pid, step.owner.start, holdings.root):
        return True
    return step.owner.uid == holdings.who.uid and bool(_family(holdings, step))


def _family(holdings: Holdings, step: Hold) -> tuple[int, ...]:
    """The processes of a step, by descent and by the mark they carry."""
    alive = processes.alive(step.owner.pid, step.owner.start, holdings.root)
    mark, uid = f"{STEP}={step.id}", step.owner.uid
    return processes.family(step.owner.pid if alive else -1, mark, holdings.root, uid=uid)


# --- what a hold has to share out (rule 1) ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HoldShare:
    """A hold as a machine of its own: the memory it was promised, its devices, and its CPUs."""

    capacity: Capacity
    rest: tuple[Hold, ...]
    """The CPUs that are not the hold's, as somebody else's: cores stay whole for the engine that way."""
    title: str
    """What it is called in a sentence."""
    has: str
    """What the hold has, in words."""


def share_of(capacity: Capacity, hold: Hold, holds: Sequence[Hold]) -> HoldShare:
    """What a hold has to share out."""
    grant = in_ids_of(capacity, (hold,))[0].grant
    cpus = grant.cpus or shared_cpus(capacity, pool_of(capacity, holds), hold)
    devices = {resource: frozenset(ids) for resource, ids in grant.devices}
    memory = _memory(capacity, grant)
    machine = replace(
        capacity.machine,
        numa=tuple(replace(node, memory=memory.get(node.id, 0)) for node in capacity.machine.numa),
        plugins=tuple(
            DevicePlugin(
                plugin.resource, tuple(one for one in plugin.devices if one.id in devices[plugin.resource])
            )
            for plugin in capacity.machine.plugins
            if plugin.resource in devices
        ),
    )
    mine = [
        at
        for at, (name, resource) in enumerate(zip(capacity.gpu_ids, capacity.gpu_resources, strict=True))
        if name in devices.get(resource, ())
    ]
    gpus = tuple(capacity.gpus[at] for at in mine)
    others = capacity.machine.layout.all & ~cpus
    rest = (replace(hold, id=f"{hold.id}-rest", grant=Grant(cpus=others)),) if others else ()
    title = f"{'step' if hold.parent else 'hold'} {hold.name} ({hold.id})"
    has = ", ".join(held(hold, gpu_names(capacity))) or "a place in the shared pool"
    part = replace(
        capacity,
        machine=machine,
        reserved=0,
        gpus=gpus,
        gpu_ids=tuple(capacity.gpu_ids[at] for at in mine),
        gpu_resources=tuple(capacity.gpu_resources[at] for at in mine),
        links=GpuLinks.of(capacity.hardware, gpus) if gpus else None,
        cpus={numa: own & cpus for numa, own in (capacity.cpus or {}).items()},
        users=None,
        remarks=(),
    )
    return HoldShare(part, rest, title, has)


def place_step(
    share: HoldShare, steps: Sequence[Hold], request: JobRequest, step_id: str
) -> Placement | NoRoom:
    """Decide where a step goes; raise ``InputError`` for what the hold could not give without any steps."""
    check_where(share.capacity, request)
    found = decide(share.capacity, (*share.rest, *steps), request, step_id)
    if isinstance(found, Placement):
        return found
    alone = decide(share.capacity, share.rest, request, step_id) if steps else found
    if isinstance(alone, NoRoom):
        raise InputError(
            f"{share.title}, which this runs in, cannot give that, even when no step runs: {alone.reason}",
            advice=f"it has {share.has}; ask for less, or start beside it with --outside",
        )
    holders = tuple(holder for holder in found.holders if holder not in share.rest)
    return replace(found, reason=f"{found.reason} in {share.title}, which has {share.has}", holders=holders)


def _memory(capacity: Capacity, grant: Grant) -> dict[int, int]:
    """Bytes by NUMA node; without an amount the hold may use all that its nodes have."""
    if not grant.memory:
        every = {node.id: node.memory for node in capacity.machine.numa}
        return {numa: every.get(numa, 0) for numa in ids_of(grant.mems or bits_of(every))}
    found: dict[int, int] = {}
    for part in grant.memory:
        nodes = tuple(ids_of(part.numa))
        for numa in nodes:
            found[numa] = found.get(numa, 0) + part.size // len(nodes)
    return found


def _check(job: StepJob, hold: Hold) -> None:
    if job.request.has_own_cpus and not hold.grant.cpus:
        raise InputError(
            f"hold {hold.name} ({hold.id}), which this runs in, has no CPUs of its own to share out",
            field="--cpus",
            advice="leave it out, or start beside the hold with --outside",
        )


# --- the life of a step -------------------------------------------------------------------------


def run_step(
    job: StepJob,
    path: str,
    parent: Hold,
    opened: Callable[[], Holdings],
    on_started: Callable[[JobStarted], None],
    on_waiting: Callable[[NoRoom], None],
    report: Callable[[str], None],
) -> int | NoRoom:
    """Take a part of the hold, start, wait, give back; the exit code of the step, or why there is no room."""
    _check(job, parent)
    child = fork_waiting(path, job.command)
    try:
        holdings = opened()
    except BaseException:
        child.abort()
        raise
    with holdings:
        try:
            taken = _take_patiently(holdings, job, parent, child.pid, on_waiting)
            if isinstance(taken, NoRoom):
                child.abort()
                return taken
            _start(holdings, job, taken, child, on_started)
        except BaseException:
            child.abort()
            raise
        if job.time_limit:
            from numawise.apps.launch.limit import wait_within  # noqa: PLC0415 - few steps have one

            status = wait_within(child, holdings, taken.hold, report, None, LOOK_AGAIN)
        else:
            status = wait_for(child)
        try:
            _end(holdings, taken.hold)
        except (NumawiseError, OSError) as problem:
            report(f"the step has ended, but could not be given back: {problem}; the next step frees it")
    return exit_as(status)


def preview_step(holdings: Holdings, job: StepJob, parent: Hold) -> Preview | NoRoom:
    """What ``run_step`` would do."""
    _check(job, parent)
    steps = [step for step in live_steps(holdings) if _is_sibling(step, parent)]
    share = share_of(holdings.capacity, parent, holdings.ledger.holds())
    placement = place_step(share, steps, job.request, "preview")
    if isinstance(placement, NoRoom):
        return placement
    plan = _plan("STEP", 0, placement)
    environment, remarks = _environment(holdings, job, placement, parent, "STEP")
    changed = tuple(item for item in environment.items() if job.environment.get(item[0]) != item[1])
    return Preview(
        placement, describe(plan), changed, AFFINITY, (*placement.remarks, *remarks, *plan.remarks)
    )


def _start(
    holdings: Holdings,
    job: StepJob,
    taken: Taken,
    child: WaitingChild,
    on_started: Callable[[JobStarted], None],
) -> None:
    """Bind the waiting process and let it become the step; where that fails, give its part back."""
    step, placement = taken.hold, taken.placement
    try:
        plan = _plan(step.id, child.pid, placement)
        confine.carry_out(plan, holdings.root)
        environment, remarks = _environment(holdings, job, placement, step, step.id)
        said = (*placement.remarks, *remarks, *plan.remarks)
        on_started(JobStarted(step, placement, said))
        child.exec(plan.itself, environment)
    except BaseException:
        child.abort()
        _end(holdings, step)
        raise


def _plan(step: str, pid: int, placement: Placement) -> Plan:
    grant = placement.grant
    limits = (placement.cpus, placement.mems, placement.memory, grant.cpu_limit)
    return confine.plan(AFFINITY, step, pid, *limits, memory_policy=grant.memory_policy)


def _environment(
    holdings: Holdings, job: StepJob, placement: Placement, step: Hold, id_: str
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The step's environment: that of its hold, with what is its own; the mark of the hold stays."""
    hold = job.environment.get(HOLD, "")
    given = job_environment(placement, hold, step.name, holdings.capacity.hardware, hide_gpus=job.hide_gpus)
    new = joined(job.environment, (*given, (STEP, id_), (MODE, AFFINITY)))
    # Of the hold's own GPUs a step gets its part; that is no surprise.
    remarks = tuple(remark for remark in new.remarks if "the grant decides" not in remark)
    return new.environment, remarks


def _take_patiently(
    holdings: Holdings, job: StepJob, parent: Hold, pid: int, on_waiting: Callable[[NoRoom], None]
) -> Taken | NoRoom:
    """Take a part of the hold, waiting for steps to end as long as the job may."""
    until = time.monotonic() + job.wait
    waiting = False
    while True:
        version = holdings.ledger.version()
        taken = _take(holdings, job, parent, pid)
        left = until - time.monotonic()
        if isinstance(taken, Taken) or left <= 0:
            return taken
        if not waiting:
            on_waiting(taken)
            waiting = True
        holdings.ledger.wait_for_change(version, min(left, LOOK_AGAIN))


def _take(holdings: Holdings, job: StepJob, parent: Hold, pid: int) -> Taken | NoRoom:
    with holdings.ledger.change() as change:
        drop_dead(holdings, change)
        if not any(_same(parent, other) for other in (*change.holds, *change.steps)):
            raise LedgerError(f"{parent.name} ({parent.id}), which this runs in, was released")
        siblings = [step for step in change.steps if _is_sibling(step, parent)]
        share = share_of(holdings.capacity, parent, change.holds)
        step_id = change.new_id()
        placement = place_step(share, siblings, job.request, step_id)
        if isinstance(placement, NoRoom):
            return placement
        step = Hold(
            id=step_id,
            name=name_of(job.request, job.command, (*change.holds, *change.steps)),
            owner=holdings.owner(pid),
            grant=placement.grant,
            kind=STEP_KIND,
            mode=AFFINITY,
            policy=job.request.policy,
            command=tuple(job.command[:1] if processes.hides_others(holdings.root) else job.command),
            since=time.time(),
            labels=((TIME_LIMIT, f"{job.time_limit:g}"),) if job.time_limit else (),
            parent=parent.id,
        )
        change.add_step(step)
        if step.grant.cpus:
            _settle(holdings, change, parent, but=step.id)
    return Taken(step, placement, holdings.capacity.hardware)


def _end(holdings: Holdings, step: Hold) -> None:
    """Give a step back, unless something of it still runs."""
    with holdings.ledger.change() as change:
        drop_dead(holdings, change)
        parent = next((hold for hold in (*change.holds, *change.steps) if hold.id == step.parent), None)
        if parent is not None and step.grant.cpus:
            _settle(holdings, change, parent)


def drop_dead(holdings: Holdings, change: LedgerChange) -> None:
    """Remove this user's steps that have ended (rule 4)."""
    steps = [step for step in change.steps if step.owner.uid == holdings.who.uid]
    for step in _dead(holdings, steps) if steps else ():
        change.remove_step(step)


def _settle(holdings: Holdings, change: LedgerChange, parent: Hold, but: str = "") -> None:
    """Give steps without CPUs of their own those of the hold that no step has alone (rule 5)."""
    siblings = [step for step in change.steps if _is_sibling(step, parent)]
    share = share_of(holdings.capacity, parent, change.holds)
    for step in siblings:
        if not step.grant.cpus and step.id != but:
            pool = pool_of(share.capacity, (*share.rest, *siblings))
            cpus = pool_cpus(share.capacity, pool, step.grant.near)
            family = partial(_family, holdings, step)
            try:
                confine.change_cpus(AFFINITY, "", family, cpus, holdings.root)
            except (HostError, OSError) as problem:
                remark = f"step {step.name} ({step.id}) could not be moved: {problem}"
                holdings.silent = (*holdings.silent, remark)


def _is_sibling(step: Hold, parent: Hold) -> bool:
    return (step.owner.uid, step.parent) == (parent.owner.uid, parent.id)


def _same(hold: Hold, other: Hold) -> bool:
    return (hold.owner.uid, hold.id) == (other.owner.uid, other.id)
