"""How a job is kept to its CPUs and NUMA nodes on this host: which way is open, and that way, gone.

Rules kept here:

1. Order of preference: a systemd scope, control groups version 2, control groups version 1, affinity.  A
   control group holds every thread and child of the job whatever they call later, and can be changed while it
   runs; where systemd is in charge it must be asked.  Affinity is open to everybody: the job's process sets
   its own CPU mask and memory policy before exec, which its children inherit and may undo.
2. Memory that is bound to its NUMA nodes needs nothing but the cpuset in a control group: ``cpuset.mems``
   holds for every task in it.  Memory that may spill (preferred, interleaved) must not meet a narrow
   ``cpuset.mems``, which would make it strict again: the job's process sets its memory policy before exec, in
   every mode.  Otherwise it drops the mask and policy that it inherited from whoever started us (``taskset``,
   ``numactl``), since the kernel would intersect them with the cpuset.
3. Nothing is granted outside of the cpuset that we live in ourselves, nor memory on a NUMA node without any.
4. What took effect is read back from ``/proc/PID/status``; anything else than the plan is an error, and
   undone.
5. A way that was asked for by name and is not open is an error that says what is missing; nothing is
   silently weaker.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from numawise.errors import HostError, quoted
from numawise.host import cgroup, mempolicy, processes, systemd
from numawise.host import jobgroup as groups
from numawise.host import plan as effects
from numawise.host.files import Tree
from numawise.host.jobgroup import Limits
from numawise.host.oom import OomKills, read_oom_kills
from numawise.host.plan import DeviceNumber, Itself, Plan, Prove, SetMask
from numawise.host.system import read_host
from numawise.results.placement import (
    AFFINITY,
    BOUND,
    CGROUP_V1,
    CGROUP_V2,
    INTERLEAVED,
    MODES,
    PREFERRED,
    SYSTEMD,
    MemoryPolicy,
)
from numawise.sets import format_ids
from numawise.values import dataclass, replace

ROOT = Path("/")
WORDS = {"systemd": (SYSTEMD,), "cgroup": (CGROUP_V2, CGROUP_V1), "affinity": (AFFINITY,)}
"""What a user may ask for, and the modes that are meant."""
HOW = {BOUND: "bound to", PREFERRED: "preferred on", INTERLEAVED: "interleaved over"}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*", re.ASCII)
KILL_ROUNDS = 50
YOUNG = 60.0
"""Seconds for which an empty group may be one that is being made."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to keep a job to its grant."""

    name: str
    problem: str = ""
    """Why it is not open here, as a clause; '' when it is."""


def modes(root: Path = ROOT) -> tuple[Mode, ...]:
    """Every way and whether it is open to this process, best first."""
    return tuple(Mode(name, _problem(name, root)) for name in MODES)


def _problem(mode: str, root: Path) -> str:
    if mode == SYSTEMD:
        return systemd.problem(root)
    if mode == AFFINITY:
        return ""
    return cgroup.base_of(2 if mode == CGROUP_V2 else 1, root).problem


def choose(wanted: str = "", root: Path = ROOT) -> str:
    """The best mode that is open; ``wanted`` (systemd, cgroup or affinity) leaves only those of that word."""
    if wanted and wanted not in WORDS:
        raise HostError(f"unknown way to bind a job {quoted(wanted)}", f"use {', '.join(WORDS)}")
    problems = []
    for mode in WORDS.get(wanted, MODES):
        why_not = _problem(mode, root)
        if not why_not:
            return mode
        problems.append(why_not if wanted == SYSTEMD else f"{mode}: {why_not}")
    raise HostError(
        f"jobs cannot be kept in a {'scope' if wanted == SYSTEMD else 'control group'} here: "
        + "; ".join(problems),
        "leave out --mode to use what this host allows",
    )


def allowed(root: Path = ROOT) -> tuple[int, int]:
    """CPUs and NUMA nodes of the cgroup we live in: nothing else can be granted."""
    host = read_host(Tree(root))
    own = processes.allowed_of(os.getpid(), root=root) or (0, 0)
    cpus = host.cpuset if host and host.cpuset else own[0]
    mems = host.mems if host and host.mems else own[1]
    return cpus, mems


def plan(
    mode: str,
    hold: str,
    pid: int,
    cpus: int = 0,
    mems: int = 0,
    memory: int = 0,
    cpu_limit: int = 0,
    isolate: str = "",
    memory_policy: MemoryPolicy = BOUND,
    root: Path = ROOT,
    *,
    refused: tuple[DeviceNumber, ...] = (),
) -> Plan:
    """What to do so that process ``pid`` and all it starts is kept to this; nothing is done yet.

    No CPUs, or no NUMA nodes, mean those that we may use ourselves.  ``isolate`` is ``root`` (nobody else
    runs on the CPUs) or ``isolated`` (nor does the kernel balance load among them: each thread must choose
    its CPU).  Process 0 stands for one that is not there yet, in a plan that shall only be shown.
    ``refused`` are devices that it is kept from, where ``fence_problem`` finds none.
    """
    if not NAME.fullmatch(hold):
        raise ValueError(f"{quoted(hold)} cannot name a control group")
    mems = _with_memory(mems, root)
    _check_inside(cpus, mems, root)
    strict = memory_policy == BOUND
    limits = Limits(cpus, mems if strict else 0, memory, cpu_limit, _partition(isolate, cpus), refused)
    itself, remarks = _own_policy(mems, memory_policy, root, fenced=strict and mode != AFFINITY)
    if mode == AFFINITY:
        return _affinity(pid, limits, itself, remarks)
    if mode == SYSTEMD:
        group = systemd.scope(hold, pid, limits, root)
    elif mode == CGROUP_V2:
        group = groups.group_v2(_base(2, root), hold, pid, limits)
    elif mode == CGROUP_V1:
        group = groups.group_v1(_base(1, root), hold, pid, limits, root)
    else:
        raise ValueError(f"unknown mode {quoted(mode)}")
    return Plan(mode, group.name, group.steps, itself, (*remarks, *group.remarks), bool(refused))


def join(
    mode: str,
    group: str,
    pid: int,
    cpus: int = 0,
    mems: int = 0,
    memory_policy: MemoryPolicy = BOUND,
    root: Path = ROOT,
) -> Plan:
    """What to do so that one more process is kept as a running job is; nothing is done yet.

    It goes into the job's group; where the job has none, on the CPUs and NUMA nodes that are given.
    """
    folder = _folder(mode, group, root)
    fenced = bool(folder) and memory_policy == BOUND
    itself, remarks = _own_policy(_with_memory(mems, root), memory_policy, root, fenced=fenced)
    if not folder:
        return _affinity(pid, Limits(cpus), itself, remarks)
    return Plan(mode, group, groups.join(folder, pid, root), itself, remarks)


def _base(version: int, root: Path) -> cgroup.Base:
    base = cgroup.base_of(version, root)
    if base.problem:
        raise HostError(f"jobs cannot be kept in a control group here: {base.problem}")
    return base


def _partition(isolate: str, cpus: int) -> str:
    if isolate and isolate not in cgroup.PARTITIONS:
        raise ValueError(f"unknown kind of partition {quoted(isolate)}")
    if isolate and not cpus:
        raise HostError("only CPUs of its own can be isolated", "ask for whole CPUs with --cpus")
    return isolate


def _is_every(mems: int, root: Path) -> bool:
    """Whether these are all NUMA nodes that memory can come from: to prefer them all is to prefer none."""
    _, ours = allowed(root)
    having = Tree(root).ids("sys/devices/system/node/has_memory")
    return not (ours if having is None else ours & having) & ~mems


def _own_policy(
    mems: int, memory_policy: MemoryPolicy, root: Path, *, fenced: bool
) -> tuple[Itself, tuple[str, ...]]:
    """The memory policy that a process of the job gives itself; none, and a remark, where it may not.

    ``fenced``: its control group keeps it to its NUMA nodes, so it only drops what it inherited.
    """
    if fenced or not mems or (memory_policy == PREFERRED and _is_every(mems, root)):
        return Itself(), ()
    refused = mempolicy.problem()
    if not refused:
        return Itself(0, mems, memory_policy), ()
    remark = (
        f"Memory is not {HOW[memory_policy]} NUMA nodes {format_ids(mems)}: {refused}. Pages still come from"
        " the NUMA node of the CPU that touches them first, while that has free memory."
    )
    return Itself(), (remark,)


def _affinity(pid: int, limits: Limits, itself: Itself, about_memory: tuple[str, ...]) -> Plan:
    if limits.partition:
        raise HostError("CPUs cannot be isolated by affinity", "run it as root, or without --isolate")
    remarks = list(about_memory)
    for amount, what in ((limits.memory, "memory"), (limits.cpu_limit, "CPU")):
        if amount:
            remarks.append(f"The {what} limit is not enforced: that needs a control group.")
    steps = (SetMask(pid, limits.cpus, groups.mask_of(pid)), Prove(pid, limits.cpus, 0))
    return Plan(AFFINITY, "", steps, replace(itself, cpus=limits.cpus), tuple(remarks))


def _with_memory(mems: int, root: Path) -> int:
    having = Tree(root).ids("sys/devices/system/node/has_memory")
    if not mems or having is None:
        return mems
    if not mems & having:
        raise HostError(
            f"NUMA node {format_ids(mems)} has no memory", f"nodes with memory are {format_ids(having)}"
        )
    return mems & having


def _check_inside(cpus: int, mems: int, root: Path) -> None:
    for wanted, ours, what in zip((cpus, mems), allowed(root), ("CPUs", "NUMA nodes"), strict=True):
        beyond = wanted & ~ours
        if beyond and ours:
            raise HostError(
                f"{what} {format_ids(beyond)} are outside of the cpuset that numawise runs in",
                f"it may use {what} {format_ids(ours)} only",
            )


def carry_out(todo: Plan, root: Path = ROOT) -> None:
    """Do it, and read back that it took effect; on failure everything is undone and ``HostError`` raised.

    The job's process then calls ``settle(plan.itself)`` before exec.
    """
    effects.do(todo.steps, root)


def fence_problem(mode: str, root: Path = ROOT) -> str:
    """Why the kernel cannot keep a job from devices in a mode, as a clause; '' when it can."""
    if mode == AFFINITY:
        return "that needs a control group"
    return groups.refusal_problem(1 if mode == CGROUP_V1 else 2, root)


def fence_stands(mode: str, group: str, pids: Iterable[int], root: Path = ROOT) -> bool | None:
    """Whether the kernel keeps all of these processes of a job from devices; None when we may not ask."""
    folder = _folder(mode, group, root)
    if not folder:
        return False
    if mode != CGROUP_V1:
        from numawise.host.device_program import attached  # noqa: PLC0415 - ctypes, for fenced jobs alone

        programs = attached(folder)
        return None if programs is None else programs > 0 and set(pids) <= set(groups.members(folder))
    ruled = groups.ruled_folder(folder, root)
    return bool(ruled) and set(pids) <= set(groups.members(ruled))


def put(
    wanted: str,
    hold: str,
    pid: int,
    cpus: int = 0,
    mems: int = 0,
    memory: int = 0,
    cpu_limit: int = 0,
    isolate: str = "",
    memory_policy: MemoryPolicy = BOUND,
    root: Path = ROOT,
    *,
    refused: tuple[DeviceNumber, ...] = (),
) -> Plan:
    """Choose, plan and carry out; the plan that took effect.

    Without a requested mode, a way that looked open and failed nevertheless is followed by affinity, and a
    remark says why.  Where only the devices could not be refused, it is done without that.
    """
    mode = choose(wanted, root)
    limits = (hold, pid, cpus, mems, memory, cpu_limit, isolate, memory_policy)
    todo = plan(mode, *limits, root, refused=refused)
    try:
        carry_out(todo, root)
    except HostError as error:
        gone = processes.read_process(pid, root) is None
        if refused and not gone:
            without = put(wanted, *limits, root)
            remark = f"Device rules failed ({error.message})."
            return without if without.mode != mode else replace(without, remarks=(remark, *without.remarks))
        if wanted or isolate or mode == AFFINITY or gone:
            raise
        todo = plan(AFFINITY, *limits, root)
        carry_out(todo, root)
        return replace(todo, remarks=(f"Bound by affinity: {mode} failed ({error.message}).", *todo.remarks))
    return todo


def settle(itself: Itself) -> mempolicy.Policy:
    """The part of a plan that the job's process does to itself before exec; the policy it had before."""
    return effects.settle(itself)


def leave(done: Plan) -> None:
    """Take back a plan that was carried out for a process that goes on, such as a Python program's hold.

    In a systemd scope the process stays until it ends: only its manager could move it.
    """
    effects.undo(done.steps)


def prove(pid: int, root: Path = ROOT) -> tuple[int, int]:
    """CPUs and NUMA nodes that the process may use now."""
    found = processes.allowed_of(pid, root=root)
    if found is None:
        raise HostError(f"there is no process {pid}")
    return found


def change_cpus(
    mode: str,
    group: str,
    pids: Iterable[int] | Callable[[], Iterable[int]],
    cpus: int,
    root: Path = ROOT,
) -> None:
    """Give a running job other CPUs: to its group, or in affinity mode to every thread of its processes.

    Where the processes are given by a function, it is asked again until it returns no new ones: a process
    born meanwhile of one that still had the old mask has the old one too.
    """
    if mode != AFFINITY and not _folder(mode, group, root):
        raise HostError(f"{quoted(group)} is not a control group", "its job has ended; run numawise reap")
    if mode == SYSTEMD:
        systemd.change_cpus(group, cpus, root)
    elif mode in {CGROUP_V2, CGROUP_V1}:
        groups.change_cpus(group, cpus)
    elif not callable(pids):
        processes.set_affinity(pids, cpus, root)
    else:
        _change_masks(pids, cpus, root)


def _change_masks(pids: Callable[[], Iterable[int]], cpus: int, root: Path) -> None:
    known: set[int] = set()
    for _ in range(processes.ROUNDS):
        new = [pid for pid in pids() if pid not in known]
        if not new:
            return
        known.update(new)
        processes.set_affinity(new, cpus, root)
    raise HostError("a job makes processes faster than their CPUs can be set")


def members(mode: str, group: str, root: Path = ROOT) -> tuple[int, ...]:
    """The processes in a job's group; without a group nothing is known."""
    folder = _folder(mode, group, root)
    return groups.members(folder) if folder else ()


def used_memory(mode: str, group: str, root: Path = ROOT) -> dict[int, int] | None:
    """NUMA node → bytes that a job uses there; None where its group does not count them."""
    from numawise.host.nodememory import used_by_group  # noqa: PLC0415 - not for a place in the shared pool

    folder = _folder(mode, group, root)
    return used_by_group(groups.folders_of(folder)) if folder else None


def used_cpu(mode: str, group: str, root: Path = ROOT) -> float | None:
    """Seconds of CPU time that a job has used so far; None where its group does not count them."""
    folder = _folder(mode, group, root)
    return groups.used_cpu(folder) if folder else None


def oom_kills(mode: str, group: str, root: Path = ROOT) -> OomKills | None:
    """What a job's group says about the OOM killer; None where it is gone or does not count."""
    folder = _folder(mode, group, root)
    return read_oom_kills(groups.folders_of(folder)) if folder else None


def populated(mode: str, group: str, root: Path = ROOT) -> bool:
    """Whether any process is left in a job's group; False when the group is gone or there never was one."""
    folder = _folder(mode, group, root)
    return bool(folder) and groups.populated(folder)


def tear_down(mode: str, group: str, root: Path = ROOT) -> bool:
    """Remove a job's group; False when processes are left in it.  One that is gone is fine.

    A scope that has become empty is removed by systemd itself.
    """
    folder = _folder(mode, group, root)
    if not folder:
        return True
    if mode == SYSTEMD:
        groups.give_back(folder)
        return not populated(mode, group, root)
    return groups.tear_down(folder)


def kill(mode: str, group: str, root: Path = ROOT) -> bool:
    """End every process in a job's group, at once and for good; whether none is left."""
    folder = _folder(mode, group, root)
    if not folder:
        return True
    first = groups.folders_of(folder)[0]
    if Path(first, "cgroup.kill").exists():
        with suppress(OSError):
            effects.write(f"{first}/cgroup.kill", "1")
    for _ in range(KILL_ROUNDS):
        left = groups.members(folder)
        if not left:
            return True
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(effects.PAUSE)
    return False


def stale(in_use: Iterable[str], now: float, root: Path = ROOT) -> tuple[str, ...]:
    """Groups of version 1 or 2 that no hold names and no process lives in: ``tear_down`` may remove them.

    To be asked while holds cannot change, so that a group being made belongs to a hold.  Those that changed
    within the last minute are left alone: another ledger's launcher may be making one.
    """
    named = set(in_use)
    return tuple(
        group
        for group in groups.found_groups(root)
        if group not in named and not groups.populated(group) and now - groups.changed(group) >= YOUNG
    )


def _folder(mode: str, group: str, root: Path) -> str:
    """Where the files of a job's group are; '' when it has none, or what it names is something else."""
    if not group or mode not in {SYSTEMD, CGROUP_V2, CGROUP_V1}:
        return ""
    folder = systemd.folder_of(group, root) if mode == SYSTEMD else group
    return folder if groups.is_genuine(folder, root) else ""
