"""A command inside of a running hold: a debugger, a shell, a sidecar.

Rules kept here:

1. It takes nothing: it runs on what the job has, in the job's control groups or, where it has none or the
   kernel does not let us in, on its CPUs and NUMA nodes by affinity; with the variables of the job.
2. It is of the job from then on: it carries the job's mark, is ended by ``release --kill``, and as long as
   it runs the hold lives.
3. It takes our place, so terminal, signals and exit status are its own.
4. The ledger is locked from the look at the hold until the command has begun (the lock ends with exec), so
   that no hold ends, and no shared pool changes, under one who is on the way into it.
5. Whose hold it is, the ledger says.  Of another user's, which only root may enter, the process must be that
   user's and in the group that the hold names.
6. A command in a container is started by the container's engine.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from numawise.apps.launch.environment import MODE, job_environment, joined
from numawise.apps.launch.held import placement_of
from numawise.apps.launch.holds import Holdings
from numawise.errors import HostError, LedgerError
from numawise.host import confine, processes
from numawise.host.child import find_command, take_over
from numawise.host.plan import Plan, describe
from numawise.results.placement import (
    AFFINITY,
    RULES,
    Hold,
    Placement,
    Preview,
)
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class HoldEntry:
    """What a command inside of a hold starts with."""

    command: tuple[str, ...]
    placement: Placement
    plan: Plan
    environment: Mapping[str, str]
    remarks: tuple[str, ...] = ()


def enter(
    holdings: Holdings,
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    report: Callable[[str], None],
) -> NoReturn:
    """Run a command inside of the hold of this id or name, in place of this process."""
    hold = _entered(holdings, name)
    if hold.owner.engine:
        entry = _in_container(hold, command, environment)
        path = find_command(entry.command[0], environment.get("PATH"))
        take_over(path, entry.command, entry.plan.itself, entry.environment)
    path = find_command(command[0], environment.get("PATH"))
    with holdings.ledger.change():
        entry = _inside(holdings, _entered(holdings, name), command, environment)
        try:
            confine.carry_out(entry.plan, holdings.root)
        except HostError as refused:
            if entry.plan.mode == AFFINITY:
                raise
            entry = _inside(holdings, hold, command, environment, refused)
            confine.carry_out(entry.plan, holdings.root)
        for remark in entry.remarks:
            report(remark)
        take_over(path, entry.command, entry.plan.itself, entry.environment)


def preview(
    holdings: Holdings, name: str, command: Sequence[str], environment: Mapping[str, str]
) -> tuple[Preview, tuple[str, ...]]:
    """What ``enter`` would do, and the words it would start."""
    hold = _entered(holdings, name)
    if hold.owner.engine:
        entry = _in_container(hold, command, environment)
    else:
        find_command(command[0], environment.get("PATH"))
        entry = _inside(holdings, hold, command, environment)
    changed = tuple(item for item in entry.environment.items() if environment.get(item[0]) != item[1])
    shown = Preview(entry.placement, describe(entry.plan), changed, entry.plan.mode, entry.remarks)
    return shown, entry.command


def _entered(holdings: Holdings, name: str) -> Hold:
    """The hold of this id or name, which may be entered."""
    hold = holdings.find(name)
    title, owner = f"{hold.name} ({hold.id})", hold.owner
    if not holdings.acts_for(hold):
        raise LedgerError(
            f"{title} belongs to {owner.user or owner.uid}",
            f"ask {owner.user or 'its owner'}, or do it as root",
        )
    if not holdings.is_alive(hold):
        raise LedgerError(
            f"{title} has no job any more: it has ended",
            "start a new one with 'numawise run'; see 'numawise ps'",
        )
    here = holdings.who.namespace
    if here and owner.namespace and owner.namespace != here and not owner.engine:
        raise HostError(
            f"{title} was started in another container or pid namespace", "run 'numawise exec' in there"
        )
    if not hold.mode:
        raise HostError(f"{title} is just being started", "try again in a moment")
    if owner.uid != holdings.who.uid and not owner.engine and not _is_genuine(holdings, hold):
        raise HostError(
            f"{title} names process {owner.pid}, which is not {owner.user or owner.uid}'s there",
            "what that hold says may be forged",
        )
    return hold


def _is_genuine(holdings: Holdings, hold: Hold) -> bool:
    """Whether a hold's process is its user's, and where the hold says (rule 5)."""
    pid = hold.owner.pid
    if processes.uid_of(pid, holdings.root) != hold.owner.uid:
        return False
    return not hold.group or pid in confine.members(hold.mode, hold.group, holdings.root)


def _inside(
    holdings: Holdings,
    hold: Hold,
    command: Sequence[str],
    environment: Mapping[str, str],
    refused: HostError | None = None,
) -> HoldEntry:
    """The way into a job (rule 1); ``refused``: why its group cannot be entered."""
    placement = placement_of(holdings.capacity, holdings.ledger.holds(), hold)
    mode, group = (AFFINITY, "") if refused else (hold.mode, hold.group)
    kept = placement.grant.memory_policy
    plan = confine.join(mode, group, os.getpid(), placement.cpus, placement.mems, kept, holdings.root)
    hardware, fenced = holdings.capacity.hardware, bool(hold.fence)
    given = job_environment(placement, hold.id, hold.name, hardware, hide_gpus=fenced)
    new = joined(environment, (*given, (MODE, plan.mode)))
    remarks = (*new.remarks, *plan.remarks)
    if refused and hold.fence == RULES:
        remarks = ("GPUs of others are hidden by variables alone.", *remarks)
    if refused:
        remarks = (f"Bound by affinity: its group cannot be entered ({refused.message}).", *remarks)
    return HoldEntry(tuple(command), placement, plan, new.environment, remarks)


def _in_container(hold: Hold, command: Sequence[str], environment: Mapping[str, str]) -> HoldEntry:
    """The engine's own way into a container (rule 6)."""
    from numawise.apps.launch.containers.life import engine_of  # noqa: PLC0415 - few holds are containers'
    from numawise.host.containers import Silent  # noqa: PLC0415

    title = f"{hold.name} ({hold.id})"
    if not hold.owner.container:
        raise HostError(f"the container of {title} is just being made", "try again in a moment")
    if hold.owner.uid != os.geteuid():
        raise HostError(
            f"{title} is a container of {hold.owner.user or hold.owner.uid}",
            f"as that user: {hold.owner.engine} exec -it {hold.owner.container[:12]} COMMAND",
        )
    engine = engine_of(hold, os.geteuid(), to_change=True)
    if isinstance(engine, Silent):
        raise HostError(f"{title} cannot be entered: {engine.reason}")
    terminal = ("-t",) if all(os.isatty(number) for number in (0, 1)) else ()
    argv = (engine.name, *engine.options, "exec", "-i", *terminal, hold.owner.container, *command)
    placement = Placement(hold.grant, hold.grant.cpus, hold.grant.mems)
    return HoldEntry(argv, placement, Plan(hold.owner.engine), environment)
