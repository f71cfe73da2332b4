"""The life of a job, be it a command or a container: decide, hold, bind, start, wait, give back.

Rules kept here:

1. The job's process is forked first and waits; the hold names it.  So the hold's life is the job's from the
   first moment, and whatever dies on the way, nothing stays held by the dead.
2. The way it is kept to its grant is the best that this host allows, unless one was asked for; where the best
   fails after all, affinity takes its place, and the remarks say so.
3. Nothing is held before the command was found and the request understood.
4. Once the job runs, its exit status is the answer: a hold that cannot be given back is a warning, and is
   freed by the next one who looks.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from numawise.apps.launch.capacity import capacity_of, with_gpu_users
from numawise.apps.launch.decide import place
from numawise.apps.launch.environment import HOLD, MODE, Joined, job_environment, joined
from numawise.apps.launch.fence import Fencing, fencing, no_rules, with_fence
from numawise.apps.launch.holds import LOOK_AGAIN, Holdings, Taken
from numawise.apps.launch.outer import within_outer
from numawise.apps.launch.request import JobRequest
from numawise.errors import HostError, InputError, NumawiseError
from numawise.host import confine
from numawise.host.child import (
    NOT_STARTED,
    CannotStart,
    WaitingChild,
    exit_as,
    find_command,
    fork_waiting,
    wait_for,
)
from numawise.host.discover import read_live
from numawise.host.oom import machine_oom_kills
from numawise.host.plan import Itself, Plan, describe
from numawise.host.processes import pid_namespace
from numawise.host.settings import HostSettings
from numawise.inputs.ledger import ledger_place
from numawise.ledger.file import user_name
from numawise.ledger.place import boot_id, machine_id
from numawise.ledger.refusals import HoldsUnknown
from numawise.ledger.store import Ledger
from numawise.machine.hardware import Gpu, Hardware
from numawise.results.placement import (
    ENDED,
    NEVER_STARTED,
    OVERTIME,
    RULES,
    RUN,
    TIME_LIMIT,
    TIMED_OUT,
    VARIABLES,
    Capacity,
    Hold,
    JobStarted,
    MemoryPolicy,
    NoRoom,
    Owner,
    Placement,
    Preview,
)
from numawise.values import dataclass, field, replace

OnStarted = Callable[[JobStarted], None]
OnWaiting = Callable[[NoRoom], None]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ready:
    """A hold as it is when its job starts, and what the waiting process needs to become that job."""

    hold: Hold
    itself: Itself
    environment: Mapping[str, str]
    command: Sequence[str] | None = None
    """What to run, where that was not known before."""
    remarks: tuple[str, ...] = ()


class Launch(Protocol):
    """What differs between starting a command and starting a container."""

    @property
    def job(self) -> "Job":
        """What is asked for."""

    def planned(self, hold: Hold, placement: Placement, pid: int) -> Hold:
        """The hold with how the job will be kept to it, before it is added to the ledger."""

    def ready(self, holdings: Holdings, taken: Taken, child: WaitingChild) -> Ready:
        """Bind the waiting process, or compose what it shall run."""

    def meanwhile(self, holdings: Holdings, hold: Hold) -> tuple[Callable[[], None] | None, float]:
        """What to do while the job runs, and how often."""

    def finish(self, holdings: Holdings, hold: Hold, code: int) -> None:
        """Give the hold back, or leave it to what goes on."""


def launch(
    start: Launch,
    path: str,
    settings: HostSettings,
    on_started: OnStarted,
    on_waiting: OnWaiting,
    report: Report,
    capacity: Capacity | None = None,
) -> int | NoRoom:
    """Decide, hold, bind, start, wait, give back; the exit code of the job, or why there is no room."""
    job = start.job
    capacity = with_gpu_users(capacity or capacity_here(settings), job.request)
    child = fork_waiting(path, job.command)
    with ExitStack() as closing:
        try:
            holdings = closing.enter_context(open_holdings(capacity, job.environment, settings))
            for warning in holdings.place.warnings:
                report(warning)
            taken = take_patiently(holdings, start, child.pid, on_waiting)
            if isinstance(taken, NoRoom):
                child.abort()
                return _inside(taken, job.environment.get(HOLD, ""))
            ended_before = machine_oom_kills(job.root)
            ready = _start(start, holdings, taken, child, on_started)
        except BaseException:
            child.abort()
            raise
        watch = start.meanwhile(holdings, ready.hold)
        if job.time_limit:
            from numawise.apps.launch.limit import wait_within  # noqa: PLC0415 - few jobs have one

            status = wait_within(child, holdings, ready.hold, report, *watch)
        else:
            status = wait_for(child, *watch)
        code = os.waitstatus_to_exitcode(status)
        if code and not ready.hold.owner.engine:
            _report_oom(ready.hold, code, ended_before, job.root, report)
        try:
            start.finish(holdings, ready.hold, code)
        except (NumawiseError, OSError) as problem:
            how = f"with status {code}" if code >= 0 else f"by signal {-code}"
            report(
                f"the job has ended {how}, but its hold {ready.hold.name} ({ready.hold.id}) could not be "
                f"given back: {problem}; the next 'numawise run', 'ps' or 'reap' frees it"
            )
    return exit_as(status)


def _report_oom(hold: Hold, code: int, ended_before: int, root: Path, report: Report) -> None:
    """Say that the OOM killer came, where it did: the job's group is still there."""
    from numawise.apps.launch.oom import oom_text  # noqa: PLC0415 - most jobs end well

    text = oom_text(hold, code, ended_before, root)
    if text:
        report(text)


def _inside(no_room: NoRoom, hold: str) -> NoRoom:
    """What to do instead, where what is missing belongs to the very hold that this runs in."""
    if no_room.advice or not any(holder.id == hold for holder in no_room.holders):
        return no_room
    return replace(
        no_room,
        advice=f"this runs inside hold {hold}: leave --outside out to take a part of that, or start the "
        "command without 'numawise run' to use all of it",
    )


def _start(
    start: Launch, holdings: Holdings, taken: Taken, child: WaitingChild, on_started: OnStarted
) -> Ready:
    """Bind the waiting process and let it become the job; where that fails, give its hold back."""
    try:
        ready = start.ready(holdings, taken, child)
        on_started(JobStarted(ready.hold, taken.placement, (*taken.placement.remarks, *ready.remarks)))
        child.exec(ready.itself, ready.environment, ready.command)
    except BaseException:
        child.abort()
        holdings.end(taken.hold, even_alive=True, how=NEVER_STARTED)
        raise
    return ready


@dataclass(frozen=True, slots=True)
class Job:
    """A command to run, and how."""

    request: JobRequest
    command: tuple[str, ...]
    wait: float = 0.0
    """Seconds to wait for room."""
    mode: str = ""
    """``systemd``, ``cgroup`` or ``affinity``; '': the best."""
    isolate: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: str = RUN
    root: Path = Path("/")
    fence: str = ""
    """How it is kept from GPUs of others (``fence.WAYS``); '': it is not."""
    every_gpu: tuple[Gpu, ...] = ()
    """The GPUs of the machine, for a job that is fenced."""
    outside: bool = False
    """It has a hold of its own, though it is started inside of one."""
    time_limit: float = 0.0
    """Seconds that it may take; 0: no limit."""

    @property
    def job(self) -> "Job":
        """Itself: a command needs nothing more."""
        return self

    def planned(self, hold: Hold, placement: Placement, pid: int) -> Hold:
        """The hold with its mode and control group."""
        mode = confine.choose(self.mode, self.root)
        fence = self.fencing(mode, placement)
        return with_fence(
            replace(hold, mode=mode, group=self.plan(mode, placement, hold.id, pid).group), fence.how
        )

    def plan(self, mode: str, placement: Placement, hold: str, pid: int) -> Plan:
        """What keeps the job to its grant."""
        refused = self.fencing(mode, placement).refused
        return confine.plan(mode, hold, pid, *self._limits(placement), root=self.root, refused=refused)

    def fencing(self, mode: str, placement: Placement) -> Fencing:
        """How it is kept from GPUs of others in a mode."""
        return fencing(self.fence, mode, self.every_gpu, placement.gpus, self.root)

    def ready(self, holdings: Holdings, taken: Taken, child: WaitingChild) -> Ready:
        """Keep the waiting process to its grant."""
        hold, placement = taken.hold, taken.placement
        fence = self.fencing(hold.mode, placement)
        try:
            plan = confine.put(
                self.mode, hold.id, child.pid, *self._limits(placement), root=self.root, refused=fence.refused
            )
            if fence.refused and not plan.fenced:
                fence = self._fenced_otherwise(plan)
        except HostError:
            _check_waiting(child)
            raise
        if (plan.mode, plan.group, fence.how) != (hold.mode, hold.group, hold.fence):
            _check_waiting(child)
            hold = with_fence(replace(hold, mode=plan.mode, group=plan.group), fence.how)
            holdings.rebind(hold)
        if not hold.grant.cpus:
            holdings.move(hold)  # the pool may have changed since the hold was made
        new = job_variables(self, placement, hold.id, hold.name, holdings.capacity.hardware)
        environment = {**new.environment, MODE: hold.mode}
        remarks = (*new.remarks, *plan.remarks, *fence.remarks)
        return Ready(hold, plan.itself, environment, remarks=remarks)

    def _fenced_otherwise(self, plan: Plan) -> Fencing:
        """The fence of a job for which device rules failed; none where these are a must, nor the job."""
        if self.fence == RULES:
            confine.leave(plan)
            raise no_rules(plan.remarks[0])
        return Fencing(VARIABLES)

    def meanwhile(self, holdings: Holdings, hold: Hold) -> tuple[Callable[[], None] | None, float]:
        """Follow the shared pool, where the job runs in it."""
        return (None if hold.grant.cpus else _FollowPool(holdings, hold)), LOOK_AGAIN

    def finish(self, holdings: Holdings, hold: Hold, code: int) -> None:
        """Give the hold back, unless something of the job still runs."""
        how = OVERTIME if self.time_limit and code == TIMED_OUT else ENDED
        holdings.end(hold, how=how, status=code)

    def _limits(self, placement: Placement) -> tuple[int, int, int, int, str, MemoryPolicy]:
        """What it is kept to: CPUs, NUMA nodes, memory, thousandths of a CPU, partition, memory policy."""
        grant = placement.grant
        share = (placement.cpus, placement.mems, placement.memory, grant.cpu_limit)
        return *share, self.isolate, grant.memory_policy


def run(
    job: Job,
    settings: HostSettings,
    on_started: OnStarted,
    on_waiting: OnWaiting,
    report: Report,
    capacity: Capacity | None = None,
) -> int | NoRoom:
    """Run a command to its end; its exit code, or why there is no room for it."""
    path = find_command(job.command[0], job.environment.get("PATH"))
    if job.isolate and not job.request.has_own_cpus:
        raise InputError(
            "needs CPUs of its own", field="--isolate", advice="give --cpus a whole number of CPUs"
        )
    capacity = capacity or capacity_here(settings)
    if job.environment.get(HOLD) and not job.outside:
        from numawise.apps.launch.nested import run_inside  # noqa: PLC0415 - for jobs inside of jobs alone

        ended = run_inside(job, path, settings, capacity, on_started, on_waiting, report)
        if ended is not None:
            return ended
    capacity, request = within_outer(capacity, job.request, job.environment)
    job = replace(job, request=request, every_gpu=capacity.gpus if job.fence else job.every_gpu)
    return launch(job, path, settings, on_started, on_waiting, report, capacity)


def capacity_here(settings: HostSettings, root: Path | None = None) -> Capacity:
    """The machine we are on, as far as it can be given to jobs."""
    capacity = capacity_of(read_live(root), settings.reserved_cpus)
    return replace(capacity, remarks=(*capacity.remarks, *settings.remarks))


def open_holdings(
    capacity: Capacity, environment: Mapping[str, str], settings: HostSettings | None = None
) -> Holdings:
    """This host's holds, in the ledger that user and administrator set."""
    uid = os.geteuid()
    found = ledger_place(environment, settings)
    who = Owner(uid=uid, user=user_name(uid), boot=boot_id(), namespace=pid_namespace())
    opened = Ledger.open(found.folders, machine_id())
    said = (found.alone,) if found.chosen else ()
    remarks = (*capacity.remarks, *said, *found.remarks)
    return Holdings(opened, replace(capacity, remarks=remarks), who, place=found)


def take_patiently(holdings: Holdings, start: Launch, pid: int, on_waiting: OnWaiting) -> Taken | NoRoom:
    """Make the hold, waiting for room as long as the job may."""
    job = start.job

    def attempt(ticket: str = "") -> Taken | NoRoom:
        try:
            return holdings.take(
                job.request,
                pid,
                kind=job.kind,
                command=job.command,
                planned=lambda hold, placement: start.planned(hold, placement, pid),
                labels=(
                    *((("isolated", job.isolate),) if job.isolate else ()),
                    *(((TIME_LIMIT, f"{job.time_limit:g}"),) if job.time_limit else ()),
                ),
                ticket=ticket,
            )
        except HoldsUnknown as problem:
            if job.wait <= 0:
                raise
            return NoRoom(problem.message, advice=problem.advice)

    found = attempt()
    if isinstance(found, Taken) or job.wait <= 0:
        return found
    on_waiting(found)
    until = time.monotonic() + job.wait
    ticket, looked = holdings.queue(job.request), time.monotonic()
    try:
        while isinstance(found, NoRoom):
            if time.monotonic() - looked >= LOOK_AGAIN:
                holdings.reap_for_others()
                looked = time.monotonic()
            version = holdings.ledger.version()
            if holdings.is_next(job.request, ticket):
                found = attempt(ticket)
            left = until - time.monotonic()
            if left <= 0 or (isinstance(found, NoRoom) and found.dropped):
                break
            if isinstance(found, NoRoom):
                holdings.ledger.wait_for_change(version, min(left, LOOK_AGAIN))
    finally:
        if isinstance(found, NoRoom):
            holdings.leave_queue(ticket)
    return found


def preview(job: Job, capacity: Capacity, holds: Sequence[Hold], *, here: bool) -> Preview | NoRoom:
    """What ``run`` would do; ``here``: on this very machine, so that its control groups are known."""
    if here:
        capacity, request = within_outer(capacity, job.request, job.environment)
        job = replace(job, request=request)
    found = place(with_gpu_users(capacity, job.request) if here else capacity, holds, job.request, "preview")
    if isinstance(found, NoRoom):
        return found
    job = replace(job, every_gpu=capacity.gpus)
    new = job_variables(job, found, "HOLD", job.request.name or "NAME", capacity.hardware)
    changed = tuple(item for item in new.environment.items() if job.environment.get(item[0]) != item[1])
    if not here:
        return Preview(found, (), changed, "", (*found.remarks, *new.remarks))
    mode = confine.choose(job.mode)
    fence = job.fencing(mode, found)
    plan = job.plan(mode, found, "HOLD", os.getpid())
    remarks = (*found.remarks, *new.remarks, *plan.remarks, *fence.remarks)
    return Preview(found, describe(plan), changed, mode, remarks, fence.how)


def imagined(
    machine: tuple[str, ...], settings: HostSettings, environment: Mapping[str, str]
) -> tuple[Capacity, tuple[Hold, ...], bool]:
    """Where a preview takes place: on this machine with its holds, or on one of a file where nothing runs."""
    if machine:
        from numawise.inputs.machine import read_machine  # noqa: PLC0415 - reads every form of machine

        return capacity_of(read_machine(machine).hardware, settings.reserved_cpus), (), False
    from numawise.apps.launch.memory import with_memory_now  # noqa: PLC0415 - not for a place in the pool

    capacity = capacity_here(settings)
    with open_holdings(capacity, environment, settings) as holdings:
        remarks = (*holdings.place.warnings, *holdings.capacity.remarks)
        holds = holdings.live()
        holdings.refuse_unknown()
        return with_memory_now(replace(capacity, remarks=remarks), holds, holdings.root), holds, True


class _FollowPool:
    """Follows the shared pool for one job, when another process changed the ledger."""

    def __init__(self, holdings: Holdings, hold: Hold) -> None:
        self.holdings = holdings
        self.hold = hold
        self.seen = holdings.ledger.version()

    def __call__(self) -> None:
        try:
            now = self.holdings.ledger.version()
            if now != self.seen:
                self.seen = now
                self.holdings.move(self.hold)
        except NumawiseError:
            return  # the job goes on with the CPUs it has


def _check_waiting(child: WaitingChild) -> None:
    """Somebody may have killed it meanwhile; an error then is not the fault of this host."""
    if child.ended():
        raise CannotStart("the job's process ended before it could start", NOT_STARTED)


def job_variables(job: Job, placement: Placement, hold: str, name: str, hardware: Hardware) -> Joined:
    """The job's environment, and what to say about what was replaced in it."""
    ours = job_environment(placement, hold, name, hardware, hide_gpus=bool(job.fence))
    return joined(job.environment, ours)
