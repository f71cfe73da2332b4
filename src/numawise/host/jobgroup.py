"""A job's control group: the steps that make it, and what can be asked of it and done to it later.

Rules kept here:

1. It is ``numawise/ID`` below the base, and ``numawise-ID`` directly below the root when it has CPUs alone.
   Whatever the kernel says to that is read back: it may take the word and call it invalid.
2. Version 1: one group in each hierarchy that is needed.  ``cpuset.cpus`` and ``cpuset.mems`` must be
   filled, from the top down, before a process may enter.  A group is known by the folders of all, joined by
   ``:``.
3. Version 2: controllers are handed down from the base, level by level; that of memory also without a limit,
   since it counts what a job uses and whom the OOM killer ended.
4. A memory limit is a limit of memory: swap does not make it larger.  Without the controller for a limit
   the job runs without it, and a remark says so.
5. Devices that it is kept from: a hierarchy of version 1 has rules for them, which say what is refused only
   below a group that allows everything else; a group of version 2 has a program (``device_program``).
6. Entering comes last: nothing ever runs in a group that is half made.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from numawise.errors import HostError, quoted
from numawise.host.cgroup import FOLDER, ROOT, Base, base_v1, home_of, partition_problem, upwards, words
from numawise.host.files import Tree
from numawise.host.plan import (
    PAUSE,
    TRIES,
    DeviceNumber,
    Expect,
    MakeFolder,
    Prove,
    RefuseDevices,
    SetMask,
    Step,
    Write,
    read,
    remove_folder,
    write,
)
from numawise.host.system import cgroup_mounts, folder_in, own_groups
from numawise.sets import bits_of, format_ids
from numawise.strconv import whole_number
from numawise.values import dataclass

PERIOD, LONGEST_PERIOD, SMALLEST_QUOTA = 100_000, 1_000_000, 1_000
EVERY_DEVICE = "a *:* rwm"
"""What ``devices.list`` says where groups of version 1 may be kept from single devices."""
UNITS = (".scope", ".slice", ".service", ".mount", ".socket", ".swap")
"""Endings of systemd's groups."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a group is to enforce."""

    cpus: int = 0
    """0: all of the group above; likewise NUMA nodes."""
    mems: int = 0
    memory: int = 0
    """Bytes; 0: no limit."""
    cpu_limit: int = 0
    """Thousandths of a CPU; 0: no limit."""
    partition: str = ""
    """``root`` or ``isolated``: nobody else runs on these CPUs."""
    refused: tuple[DeviceNumber, ...] = ()
    """Character devices that it is kept from."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group that is to be made."""

    name: str
    steps: tuple[Step, ...]
    remarks: tuple[str, ...] = ()


def group_v2(base: Base, hold: str, pid: int, limits: Limits) -> ControlGroup:
    """A job's group of version 2."""
    wanted, remarks = _controllers(limits, words(f"{base.parent}/cgroup.controllers"))
    top = base.home.top
    steps: list[Step] = []
    if limits.partition:
        check_partition(partition_problem(base.home))
        group = f"{top}/{FOLDER}-{hold}"
        steps += _hand_down(top, wanted)
    else:
        folder = f"{base.parent}/{FOLDER}"
        group = f"{folder}/{hold}"
        steps += [
            *_hand_down(base.parent, wanted),
            MakeFolder(folder, shared=True),
            *_hand_down(folder, wanted),
        ]
    steps.append(MakeFolder(group))
    steps += _settings_v2(group, limits, wanted)
    steps += partition_steps(group, limits)
    steps += refusal_steps(group, limits)
    steps += [widen(pid), _enter(group, base.home.own, pid), Prove(pid, limits.cpus, limits.mems)]
    return ControlGroup(group, tuple(steps), remarks)


def _controllers(limits: Limits, there: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that are needed and there, and a remark about each that is not."""
    needed = [("memory", limits.memory), ("cpu", limits.cpu_limit)]
    wanted = ["cpuset", *(name for name, asked in needed if (asked or name == "memory") and name in there)]
    return tuple(wanted), tuple(_unlimited(name) for name, asked in needed if asked and name not in there)


def _unlimited(controller: str) -> str:
    what = "memory" if controller == "memory" else "CPU"
    return f"The {what} limit is not enforced: there is no {controller} controller for it here."


def _hand_down(folder: str, controllers: tuple[str, ...]) -> list[Step]:
    has = words(f"{folder}/cgroup.subtree_control")
    missing = [name for name in controllers if name not in has]
    text = " ".join(f"+{name}" for name in missing)
    return [Write(f"{folder}/cgroup.subtree_control", text)] if missing else []


def _settings_v2(group: str, limits: Limits, controllers: tuple[str, ...]) -> Iterator[Step]:
    if limits.cpus:
        yield Write(f"{group}/cpuset.cpus", format_ids(limits.cpus))
    if limits.mems:
        yield Write(f"{group}/cpuset.mems", format_ids(limits.mems))
    if "memory" in controllers and limits.memory:
        yield Write(f"{group}/memory.max", str(limits.memory))
        yield Write(f"{group}/memory.swap.max", "0", optional=True)
    if "cpu" in controllers:
        quota, period = quota_of(limits.cpu_limit)
        yield Write(f"{group}/cpu.max", f"{quota} {period}")


def check_partition(problem: str) -> None:
    """Refuse to isolate CPUs where that is not possible."""
    if problem:
        raise HostError(
            f"CPUs cannot be isolated: {problem}", "run it as root of the host, or without --isolate"
        )


def partition_steps(group: str, limits: Limits) -> tuple[Step, ...]:
    """Let the group have its CPUs alone, and look whether it has."""
    if not limits.partition:
        return ()
    file = f"{group}/cpuset.cpus.partition"
    meaning = f"CPUs {format_ids(limits.cpus)} cannot be made exclusive"
    return Write(file, limits.partition, back=(file, "member")), Expect(file, limits.partition, meaning)


def refusal_steps(group: str, limits: Limits) -> tuple[Step, ...]:
    """Keep a group of version 2 from devices."""
    return (RefuseDevices(group, limits.refused),) if limits.refused else ()


def refusal_problem(version: int, root: Path = ROOT) -> str:
    """Why no group can be kept from devices here, as a clause; '' when one can."""
    if os.geteuid() != 0:
        return "only root may set device rules"
    if version == 2:
        from numawise.host.device_program import problem  # noqa: PLC0415 - ctypes, for fenced jobs alone

        return problem()
    home = home_of("devices", root)
    if home is None or home.version != 1:
        return "the devices controller is not mounted"
    if (rules := read(f"{home.own}/devices.list")) != EVERY_DEVICE:
        return f"{home.own} allows devices by a list of its own ({quoted(rules)})"
    return base_v1(home).problem


def ruled_folder(group: str, root: Path = ROOT) -> str:
    """Of a job's groups of version 1 the one with rules for devices; '' when it has none."""
    home = home_of("devices", root)
    top = f"{home.top}/" if home else ""
    return next((folder for folder in folders_of(group) if top and folder.startswith(top)), "")


def _enter(group: str, own: str, pid: int) -> Write:
    return Write(f"{group}/cgroup.procs", number(pid), back=(f"{own}/cgroup.procs", number(pid)))


def widen(pid: int) -> SetMask:
    """Drop the mask that a process inherited; first of all, so that a way back restores it last."""
    return SetMask(pid, 0, mask_of(pid))


def number(pid: int) -> str:
    """A process' number in a plan; one that shall only be shown has no process yet."""
    return str(pid) if pid else "PID"


def mask_of(pid: int) -> int:
    """CPUs of a process' mask; 0 when unknown."""
    try:
        return bits_of(os.sched_getaffinity(pid)) if pid else 0
    except OSError:
        return 0


def quota_of(millis: int) -> tuple[int, int]:
    """Microseconds of CPU time, and the period they are for; the kernel's smallest quota is 1 ms."""
    quota = millis * PERIOD // 1000
    if quota >= SMALLEST_QUOTA:
        return quota, PERIOD
    return max(millis * LONGEST_PERIOD // 1000, SMALLEST_QUOTA), LONGEST_PERIOD


def group_v1(base: Base, hold: str, pid: int, limits: Limits, root: Path = ROOT) -> ControlGroup:
    """A job's groups of version 1."""
    if limits.partition:
        check_partition(partition_problem(base.home))
    home, prefix = base.home, base.home.prefix
    folder = f"{home.own}/{FOLDER}"
    group = f"{folder}/{hold}"
    cpus, mems = (read(f"{home.own}/{prefix}{file}") for file in ("cpus", "mems"))
    steps: list[Step] = [
        MakeFolder(folder, shared=True),
        Write(f"{folder}/{prefix}cpus", cpus),
        Write(f"{folder}/{prefix}mems", mems),
        MakeFolder(group),
        Write(f"{group}/{prefix}cpus", format_ids(limits.cpus) or cpus),
        Write(f"{group}/{prefix}mems", format_ids(limits.mems) or mems),
        Write(f"{group}/{prefix}memory_migrate", "1", optional=True),
    ]
    groups, enter, remarks = [group], [_enter(group, home.own, pid)], []
    for controller, asked in (("memory", limits.memory), ("cpu", limits.cpu_limit)):
        other = home_of(controller, root) if asked else None
        if other and other.version == 1 and not base_v1(other).problem:
            folder = f"{other.own}/{FOLDER}"
            group = f"{folder}/{hold}"
            steps += [
                MakeFolder(folder, shared=True),
                MakeFolder(group),
                *_settings_v1(controller, group, limits),
            ]
            groups.append(group)
            enter.append(_enter(group, other.own, pid))
        elif asked:
            remarks.append(_unlimited(controller))
    devices = home_of("devices", root) if limits.refused else None
    if devices:
        folder = f"{devices.own}/{FOLDER}"
        group = f"{folder}/{hold}"
        steps += [MakeFolder(folder, shared=True), MakeFolder(group)]
        steps += [Write(f"{group}/devices.deny", f"c {number} rwm") for number in limits.refused]
        groups.append(group)
        enter.append(_enter(group, devices.own, pid))
    steps += [widen(pid), *enter, Prove(pid, limits.cpus, limits.mems)]
    return ControlGroup(":".join(groups), tuple(steps), tuple(remarks))


def _settings_v1(controller: str, group: str, limits: Limits) -> Iterator[Step]:
    if controller == "memory":
        yield Write(f"{group}/memory.limit_in_bytes", str(limits.memory))
        yield Write(f"{group}/memory.memsw.limit_in_bytes", str(limits.memory), optional=True)
    else:
        quota, period = quota_of(limits.cpu_limit)
        yield Write(f"{group}/cpu.cfs_period_us", str(period))
        yield Write(f"{group}/cpu.cfs_quota_us", str(quota))


def join(group: str, pid: int, root: Path = ROOT) -> tuple[Step, ...]:
    """The steps that put one more process into a job's groups, and back where a later one fails."""
    tree = Tree(root)
    own = own_groups(tree)
    homes: dict[str, str] = {}
    for mount in cgroup_mounts(tree):
        names = ("",) if mount.kind == "cgroup2" else (mount.kind, *sorted(mount.options))
        home = next((own[name] for name in names if name in own), "/")
        homes[f"{root / mount.point.strip('/')}/"] = str(root / folder_in(mount, home))
    steps: list[Step] = [widen(pid)]
    for folder in folders_of(group):
        home = homes[max((point for point in homes if folder.startswith(point)), key=len)]
        steps.append(_enter(folder, home, pid))
    return tuple(steps)


def is_genuine(group: str, root: Path = ROOT) -> bool:
    """Whether all folders of a group lie on a control group file system, where nobody can make links."""
    points = [f"{root / mount.point.strip('/')}/" for mount in cgroup_mounts(Tree(root))]
    return all(
        ".." not in folder.split("/") and any(folder.startswith(point) for point in points)
        for folder in folders_of(group)
    )


def folders_of(group: str) -> tuple[str, ...]:
    """The folders of a job's group: one, or one in each hierarchy of version 1."""
    return tuple(part if part.startswith("/") else f"/{part}" for part in group.split(":/"))


def change_cpus(group: str, cpus: int) -> None:
    """Let everything in the group run on these CPUs from now on."""
    folder = folders_of(group)[0]
    for path in (f"{folder}/cpuset.cpus", f"{folder}/cpus"):
        if Path(path).exists():
            try:
                write(path, format_ids(cpus))
            except OSError as error:
                raise HostError(f"cannot write {format_ids(cpus)} to {path}: {error.strerror}") from error
            return
    raise HostError(f"the control group {folder} is gone", "its job has ended; run numawise reap")


def members(group: str) -> tuple[int, ...]:
    """The processes in the group and below it."""
    found = (read(f"{inner}/cgroup.procs").split() for inner, _, _ in os.walk(folders_of(group)[0]))
    return tuple(sorted({int(pid) for pids in found for pid in pids}))


def used_cpu(group: str) -> float | None:
    """Seconds of CPU time that a group has used, with its ended processes; None: not counted."""
    for folder in folders_of(group):
        lines = (line.partition(" ") for line in read(f"{folder}/cpu.stat").splitlines())
        count = next((number for name, _, number in lines if name == "usage_usec"), "")
        if count.isascii() and count.isdecimal():
            return whole_number(count) / 1e6
    return None


def populated(group: str) -> bool:
    """Whether any process is left in the group or below it."""
    events = read(f"{folders_of(group)[0]}/cgroup.events")
    return "populated 1" in events if events else bool(members(group))


def changed(group: str) -> float:
    """When the job's groups last changed, in seconds of the clock; 0 for those that are gone."""
    times = [0.0]
    for folder in folders_of(group):
        with suppress(FileNotFoundError):
            times.append(Path(folder).stat().st_ctime)
    return max(times)


def tear_down(group: str) -> bool:
    """Remove the job's groups; False when processes are left in one.  Groups that are gone are fine."""
    if not give_back(folders_of(group)[0]):
        return False
    gone = [remove_folder(folder) for folder in reversed(folders_of(group))]
    return all(gone)


def give_back(folder: str) -> bool:
    """Let others run on the CPUs that an empty group had alone; False when processes are left in it.

    Removing the group would do it, too, but the kernel takes its time for that.
    """
    file = f"{folder}/cpuset.cpus.partition"
    if read(file) in {"", "member"}:
        return True
    for _ in range(TRIES):
        if not populated(folder):
            with suppress(OSError):
                write(file, "member")
            return True
        if members(folder):
            return False
        time.sleep(PAUSE)  # those that are ending are no longer members, and still there
    return False


def found_groups(root: Path = ROOT) -> tuple[str, ...]:
    """Every job's group that can be made out from where we live, as its hold knows it."""
    by_name: dict[str, list[str]] = {}
    for folder in _jobs_folders(root):
        for entry in sorted(Path(folder).iterdir()):
            if entry.is_dir():
                by_name.setdefault(entry.name, []).append(str(entry))
    home = home_of("cpuset", root)
    if home and home.version == 2:
        for entry in sorted(Path(home.top).glob(f"{FOLDER}-*")):
            if entry.is_dir() and not entry.name.endswith(UNITS):
                by_name.setdefault(entry.name, []).append(str(entry))
    return tuple(":".join(folders) for folders in by_name.values())


def _jobs_folders(root: Path) -> Iterator[str]:
    """The folders ``numawise`` in our own groups and those above them, the cpuset's hierarchy first."""
    seen = set()
    for controller in ("cpuset", "memory", "cpu", "devices"):
        home = home_of(controller, root)
        for folder in upwards(home.own, home.top) if home else ():
            inner = folder if folder.endswith(f"/{FOLDER}") else f"{folder}/{FOLDER}"
            if inner not in seen and Path(inner).is_dir():
                seen.add(inner)
                yield inner
