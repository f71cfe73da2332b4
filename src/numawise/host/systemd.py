"""Transient scopes of systemd: the steps that put a process into one, and the words to change it later.

Rules kept here:

1. Where systemd is in charge, a scope is asked of it instead of writing to its control groups: a reload would
   undo such writes, while a scope's properties are kept.
2. Scopes lie in ``numawise.slice`` of the system's manager (root) or of the user's own.  One that shall have
   its CPUs alone lies directly below the root, where every kernel can make a partition of it.
3. A user's manager sets cpusets only if the cpuset controller is delegated to it, and is silent otherwise.
   So it is looked at before, and what took effect is read back after.  A job would leave the group of its
   launcher for the scope: where that group, or one between it and the manager's, limits anything, it stays.
4. Sets travel as byte arrays, the lowest bit of the first byte being id 0.
"""

import os
import re
import time
from pathlib import Path

from numawise.errors import HostError
from numawise.host.cgroup import Home, home_of, limit_of, partition_problem, upwards
from numawise.host.jobgroup import (
    ControlGroup,
    Limits,
    check_partition,
    number,
    partition_steps,
    quota_of,
    refusal_steps,
    widen,
)
from numawise.host.plan import (
    PATIENCE,
    PAUSE,
    AwaitGroup,
    Call,
    Prove,
    Step,
    answer_of,
    read,
)
from numawise.host.processes import group_of
from numawise.host.rights import plain_environment
from numawise.sets import format_ids, parse_ids

ROOT = Path("/")
SLICE = "numawise.slice"
MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
OWNER = re.compile(r"/user@([0-9]+)\.service/numawise\.slice/[^/]+$", re.ASCII)
SIGNATURE = "ssa(sv)a(sa(sv))"
MICROSECONDS = 1000
"""Of CPU time in a second, for each thousandth of a CPU."""
DELEGATE = (
    "root can delegate it with a drop-in of user@.service that says Delegate=cpu cpuset io memory pids,"
    " and the user then logs in again"
)


def problem(root: Path = ROOT) -> str:
    """Why systemd cannot keep a job to CPUs and NUMA nodes here, as a clause; '' when it can."""
    if not (root / "run/systemd/system").is_dir():
        return "systemd does not manage this host"
    home = home_of("cpuset", root)
    if home is None or home.version != 2:
        return "systemd sets cpusets with control groups version 2 only"
    import shutil  # noqa: PLC0415 - costs time, and most hosts were decided by now

    for program in ("busctl", "systemctl"):
        if not shutil.which(program, path=plain_environment()["PATH"]):
            return f"the program {program} is not installed"
    if os.geteuid() != 0:
        why_not = _problem_of_user(home.top, os.geteuid(), root)
    else:
        why_not = "" if (root / "run/dbus/system_bus_socket").exists() else "there is no system bus"
    return why_not or _limited(home, root)


def _limited(home: Home, root: Path) -> str:
    """Why a job may not leave our group for a scope, as a clause."""
    manager = f"{home.top}{_manager_group(os.geteuid(), root)}"
    for folder in upwards(home.own, home.top):
        if folder == home.top or f"{manager}/".startswith(f"{folder}/"):
            return ""  # from here on the scope is in it, too
        if limit := limit_of(folder):
            return f"a job may not leave {folder} because {limit}"
    return ""


def _problem_of_user(top: str, uid: int, root: Path) -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    if not (root / runtime.strip("/") / "bus").exists():
        return (
            f"there is no systemd for user {uid} ({runtime}/bus is missing; loginctl enable-linger starts it)"
        )
    manager = _manager_group(uid, root)
    if "cpuset" not in read(f"{top}{manager}/cgroup.controllers").split():
        return f"the cpuset controller is not delegated to {manager.rpartition('/')[2]}; {DELEGATE}"
    return ""


def _manager_group(uid: int, root: Path) -> str:
    """The control group below which the manager that answers to a user makes its units."""
    system = (group_of(1, root=root) or "/").removesuffix("/init.scope").rstrip("/")
    return system if uid == 0 else f"{system}/user.slice/user-{uid}.slice/user@{uid}.service"


def scope(hold: str, pid: int, limits: Limits, root: Path = ROOT) -> ControlGroup:
    """A job's scope."""
    uid = os.geteuid()
    unit = f"numawise-{hold}.scope"
    whose = "--system" if uid == 0 else "--user"
    below = "-.slice" if limits.partition else SLICE
    manager = _manager_group(uid, root)
    home = home_of("cpuset", root)
    group = f"{manager}/{unit}" if limits.partition else f"{manager}/{SLICE}/{unit}"
    done: list[Step] = [
        widen(pid),
        Call(start_argv(whose, unit, _properties(pid, below, limits))),
        AwaitGroup(pid, group, f"{home.own}/cgroup.procs" if home else ""),
    ]
    advice = "" if uid == 0 else f"the cpuset controller may not be delegated to this user: {DELEGATE}"
    if limits.partition:
        check_partition(partition_problem(home))
    done += partition_steps(folder_of(group, root), limits)
    # DeviceAllow= could only list what is allowed, and would keep the job from everything else, too.
    done += refusal_steps(folder_of(group, root), limits)
    return ControlGroup(group, (*done, Prove(pid, limits.cpus, limits.mems, advice)))


def start_argv(whose: str, unit: str, properties: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The command that makes a transient unit: each property is name, signature and value."""
    words = tuple(word for each in properties for word in each)
    call = ("busctl", whose, "--quiet", "--", "call", *MANAGER, "StartTransientUnit", SIGNATURE)
    return (*call, unit, "fail", str(len(properties)), *words, "0")


def _properties(pid: int, below: str, limits: Limits) -> list[tuple[str, ...]]:
    """Each property as busctl wants it: name, signature, value."""
    found: list[tuple[str, ...]] = [
        ("PIDs", "au", "1", number(pid)),
        ("Slice", "s", below),
        ("Delegate", "b", "false"),
        ("CollectMode", "s", "inactive-or-failed"),
    ]
    if limits.cpus:
        found.append(("AllowedCPUs", "ay", *_bytes(limits.cpus)))
    if limits.mems:
        found.append(("AllowedMemoryNodes", "ay", *_bytes(limits.mems)))
    if limits.memory:
        found += [("MemoryMax", "t", str(limits.memory)), ("MemorySwapMax", "t", "0")]
    if limits.cpu_limit:
        found.append(("CPUQuotaPerSecUSec", "t", str(limits.cpu_limit * MICROSECONDS)))
        found.append(("CPUQuotaPeriodUSec", "t", str(quota_of(limits.cpu_limit)[1])))
    return found


def _bytes(bits: int) -> tuple[str, ...]:
    data = bits.to_bytes(-(-bits.bit_length() // 8), "little")
    return (str(len(data)), *map(str, data))


def change_argv(group: str, cpus: int) -> tuple[str, ...]:
    """The command that gives a scope other CPUs."""
    unit = group.rpartition("/")[2]
    return (*_manager(group), "set-property", "--runtime", unit, f"AllowedCPUs={format_ids(cpus)}")


def _manager(group: str) -> tuple[str, ...]:
    """How the manager that a scope belongs to is spoken to: a user's by that user."""
    return ("systemctl", "--user" if OWNER.search(group) else "--system")


def change_cpus(group: str, cpus: int, root: Path = ROOT) -> None:
    """Let everything in the scope run on these CPUs from now on."""
    folder = folder_of(group, root)
    argv = change_argv(group, cpus)
    if not Path(folder).is_dir():
        raise HostError(f"the scope {group} is gone", "its job has ended; run numawise reap")
    code, said = answer_of(argv)
    if code:
        raise HostError(f"{' '.join(argv)} failed ({code}): {said}")
    end = time.monotonic() + PATIENCE
    while _ids(f"{folder}/cpuset.cpus") != cpus:
        if time.monotonic() > end:
            raise HostError(f"{group} still has CPUs {read(f'{folder}/cpuset.cpus')}, not {format_ids(cpus)}")
        time.sleep(PAUSE)


def _ids(path: str) -> int:
    try:
        return parse_ids(read(path))
    except ValueError:
        return 0


def folder_of(group: str, root: Path = ROOT) -> str:
    """Where the files of a scope's control group are."""
    home = home_of("cpuset", root)
    return f"{home.top if home else root / 'sys/fs/cgroup'}{group}"
