"""Run a job on CPUs, memory and GPUs that belong together: hold, bind, let go, wait, give back.

Rules kept here:

1. The job's process is born first and waits; the hold names it.  So the hold's life is the job's from the
   first moment, and whatever dies on the way, nothing stays held by the dead.
2. The way it is kept to its grant is the best that this host allows, unless one was asked for; where the best
   fails after all, affinity takes its place, and the remarks say so.
3. Nothing is held before the command was found and the request understood.
"""

import os
import pwd
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from numawise.apps.launch.capacity import Site, make_site, with_strangers
from numawise.apps.launch.decide import Placement, place
from numawise.apps.launch.environment import MODE, Joined, job_environment, joined
from numawise.apps.launch.holds import Draw, Holdings, Taken
from numawise.apps.launch.no_room import NoRoom
from numawise.apps.launch.request import Wish
from numawise.errors import HostError, InputError, NumawiseError
from numawise.host import confine
from numawise.host.child import NOT_STARTED, CannotStart, Offspring, bear, find_command, leave_as, wait_for
from numawise.host.discover import read_live
from numawise.host.plan import Plan, describe
from numawise.host.settings import HostSettings
from numawise.ledger.place import boot_id, find_ledger, machine_id, shared_group
from numawise.ledger.store import Ledger
from numawise.machine.hardware import Hardware
from numawise.results.hold import Hold, Owner

FOREVER = float("inf")
LOOK_AGAIN = 1.0
"""Seconds after which one who waits for room looks for owners that died."""
NAMESPACE = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class Job:
    """What to run, and how."""

    wish: Wish
    command: tuple[str, ...]
    wait: float = 0.0
    """Seconds to wait for room."""
    mode: str = ""
    """``systemd``, ``cgroup`` or ``affinity``; '': the best."""
    isolate: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started:
    """A job that is about to run, for whoever tells the user."""

    hold: Hold
    placement: Placement
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What a launcher would do."""

    placement: Placement
    steps: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    mode: str
    remarks: tuple[str, ...] = ()


Tell = Callable[[Started], None]
TellWaiting = Callable[[NoRoom], None]


def this_site(settings: HostSettings, root: Path | None = None) -> Site:
    """The machine we are on, as far as it can be given to jobs."""
    return make_site(read_live(root), settings.reserved_cpus)


def open_holdings(site: Site, environment: Mapping[str, str], ledger: str = "") -> Holdings:
    """This host's holds; ``ledger`` is a path that was asked for."""
    uid = os.geteuid()
    where = {**environment, "NUMAWISE_LEDGER": ledger} if ledger else environment
    found = find_ledger(where, uid, gid=shared_group() if uid == 0 else None)
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    try:
        namespace = NAMESPACE.stat().st_ino
    except OSError:
        namespace = 0
    who = Owner(uid=uid, user=user, boot=boot_id(), namespace=namespace)
    opened = Ledger.open(found.path, machine_id(), access=found.access)
    return Holdings(opened, replace(site, remarks=(*site.remarks, *found.remarks)), who)


def run(
    job: Job, settings: HostSettings, tell: Tell, waiting: TellWaiting, site: Site | None = None
) -> int | NoRoom:
    """Run a job to its end; its exit code, or why there is no room for it."""
    path = find_command(job.command[0], job.environment.get("PATH"))
    site = with_strangers(site or this_site(settings), job.wish)
    _check_isolation(job)
    child = bear(path, job.command)
    with ExitStack() as closing:
        try:
            holdings = closing.enter_context(open_holdings(site, job.environment, settings.ledger))
            taken = take_patiently(holdings, job, child.pid, waiting)
            if isinstance(taken, NoRoom):
                child.give_up()
                return taken
            hold = _bind(holdings, job, child, taken, tell)
        except BaseException:
            child.give_up()
            raise
        shared = not hold.grant.cpus
        watch = _Watch(holdings, hold) if shared else None
        status = wait_for(child, watch)
        try:
            holdings.end(hold)
        except NumawiseError:
            if os.waitstatus_to_exitcode(status) == 0:
                raise  # the job is done, and the next call reaps what it held; but somebody should know
    return leave_as(status)


def take_patiently(
    holdings: Holdings,
    job: Job,
    pid: int,
    waiting: TellWaiting,
    kind: str = "run",
    draw: Draw | None = None,
) -> Taken | NoRoom:
    """Make the hold, waiting for room as long as the job may."""

    def attempt(ticket: str = "") -> Taken | NoRoom:
        return holdings.take(
            job.wish,
            pid,
            kind=kind,
            command=job.command,
            draw=draw or (lambda hold, placement: _drawn(job, hold, placement, pid)),
            labels=(("isolated", job.isolate),) if job.isolate else (),
            ticket=ticket,
        )

    found = attempt()
    if isinstance(found, Taken) or job.wait <= 0:
        return found
    waiting(found)
    until = time.monotonic() + job.wait
    ticket = holdings.queue(job.wish)
    try:
        while isinstance(found, NoRoom):
            version = holdings.ledger.version()
            if holdings.is_next(ticket):
                found = attempt(ticket)
            left = until - time.monotonic()
            if left <= 0:
                break
            if isinstance(found, NoRoom):
                holdings.ledger.wait_for_change(version, min(left, LOOK_AGAIN))
    finally:
        if isinstance(found, NoRoom):
            holdings.leave_queue(ticket)
    return found


def preview(job: Job, site: Site, holds: Sequence[Hold], *, here: bool) -> Preview | NoRoom:
    """What ``run`` would do; ``here``: on this very machine, so that its control groups can be told."""
    found = place(site, holds, job.wish, "preview")
    if isinstance(found, NoRoom):
        return found
    new = _environment(job, found, "HOLD", job.wish.name or "NAME", site.hardware)
    changed = tuple(item for item in new.environment.items() if job.environment.get(item[0]) != item[1])
    if not here:
        return Preview(found, (), changed, "", (*found.remarks, *new.remarks))
    mode = confine.choose(job.mode)
    plan = _plan(mode, job, found, "HOLD", os.getpid())
    return Preview(found, describe(plan), changed, mode, (*found.remarks, *new.remarks, *plan.remarks))


def imagined(
    machine: str | None, settings: HostSettings, environment: Mapping[str, str]
) -> tuple[Site, tuple[Hold, ...], bool]:
    """Where a preview takes place: on this machine with its holds, or on one of a file where nothing runs."""
    if machine:
        from numawise.inputs.machine import read_machine  # noqa: PLC0415 - reads every form of machine

        return make_site(read_machine(machine).hardware, settings.reserved_cpus), (), False
    site = this_site(settings)
    with open_holdings(site, environment, settings.ledger) as holdings:
        return site, holdings.live(), True


class _Watch:
    """Follows the shared pool for one job, when somebody else changed the ledger."""

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


def _drawn(job: Job, hold: Hold, placement: Placement, pid: int) -> Hold:
    mode = confine.choose(job.mode)
    return replace(hold, mode=mode, group=_plan(mode, job, placement, hold.id, pid).group)


def _plan(mode: str, job: Job, placement: Placement, hold: str, pid: int) -> Plan:
    return confine.plan(mode, hold, pid, *_limits(job, placement))


def _limits(job: Job, placement: Placement) -> tuple[int, int, int, int, str]:
    """What the job is kept to: CPUs, NUMA nodes, memory, thousandths of a CPU, kind of partition."""
    limit = placement.grant.cpu_limit
    return placement.cpus, placement.mems, placement.memory, limit, job.isolate


def _bind(holdings: Holdings, job: Job, child: Offspring, taken: Taken, tell: Tell) -> Hold:
    """Keep the waiting process to its grant, and let it go; the hold as it is then."""
    hold, placement = taken.hold, taken.placement
    try:
        try:
            plan = confine.put(job.mode, hold.id, child.pid, *_limits(job, placement))
        except HostError:
            _check_waiting(child)
            raise
        if plan.mode != hold.mode:
            _check_waiting(child)
            hold = replace(hold, mode=plan.mode, group=plan.group)
            holdings.rebind(hold)
        if not hold.grant.cpus:
            holdings.move(hold)  # the pool may have changed since the hold was made
        new = _environment(job, placement, hold.id, hold.name, holdings.site.hardware)
        tell(Started(hold, placement, (*placement.remarks, *new.remarks, *plan.remarks)))
        child.let_go(plan.itself, {**new.environment, MODE: hold.mode})
    except BaseException:
        child.give_up()
        holdings.end(hold, even_alive=True)
        raise
    return hold


def _check_waiting(child: Offspring) -> None:
    """Somebody may have killed it meanwhile; what went wrong then is no fault of this host."""
    if child.ended():
        raise CannotStart("the job's process ended before it could start", NOT_STARTED)


def _environment(job: Job, placement: Placement, hold: str, name: str, hardware: Hardware) -> Joined:
    """The job's environment, and what to say about what was replaced in it."""
    return joined(job.environment, job_environment(placement, hold, name, hardware))


def _check_isolation(job: Job) -> None:
    if job.isolate and not job.wish.whole_cpus:
        raise InputError(
            "needs CPUs of its own", field="--isolate", advice="give --cpus a whole number of CPUs"
        )
