"""Control groups: where this process may make them, and the group of a job, made and asked later.

Rules kept here:

1. The cpuset controller lives in version 1 where something mounts it there, else in version 2.
2. Version 1: each controller has its own hierarchy, and groups can be made below our own group in each.
3. Version 2: a group that hands controllers to groups below it may have no processes of its own, except the
   root of all.  So groups are made in the nearest one, from our own upwards, that has or can have none and is
   ours to write.  We climb past no group that limits anything (``LIMITS``) or has its CPUs alone: a job never
   escapes a limit of its launcher.
4. Where systemd is in charge, root keeps to what it has delegated; it would undo the rest.
5. Groups that have CPUs alone (*partitions*) lie directly below the root of all, since kernels before 6.7
   know no other.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from numawise.errors import HostError
from numawise.host.files import Tree
from numawise.host.plan import (
    PAUSE,
    TRIES,
    Expect,
    MakeFolder,
    Prove,
    SetMask,
    Step,
    Write,
    read,
    remove_folder,
    write,
)
from numawise.host.system import Mount, cgroup_mounts, folder_in, own_groups
from numawise.sets import bits_of, format_ids
from numawise.values import dataclass

ROOT = Path("/")
FOLDER = "numawise"
WHOLE, STILL = "root", "isolated"
PARTITIONS = (WHOLE, STILL)
"""With load balancing among its CPUs, and without."""
LIMITS = (
    *("memory.max", "memory.high", "memory.swap.max", "memory.swap.high", "memory.zswap.max", "cpu.max"),
    *("pids.max", "io.max", "rdma.max", "misc.max"),
)
HUGE_PAGES = "hugetlb."
"""Begins the limit of each size of huge pages: ``hugetlb.2MB.max``."""


@dataclass(frozen=True, slots=True)
class Home:
    """A group this process lives in, and the top of its hierarchy as far as it is mounted here."""

    version: int
    top: str
    own: str
    prefix: str = "cpuset."
    """Of the cpuset files; '' on old mounts."""


@dataclass(frozen=True, slots=True)
class Base:
    """Where groups can be made, or why not."""

    problem: str = ""
    """A clause; '' when groups can be made."""
    home: Home = Home(0, "", "")
    parent: str = ""
    """The group in which the folder ``numawise`` lies or will lie."""


def home_of(controller: str, root: Path = ROOT) -> Home | None:
    """Where this process lives in the hierarchy that has a controller; None when none has it."""
    tree = Tree(root)
    mounts, groups = cgroup_mounts(tree), own_groups(tree)
    for mount in mounts:
        if mount.kind != "cgroup2" and (controller in mount.options or mount.kind == controller):
            bare = mount.kind == "cpuset" or "noprefix" in mount.options
            return _home(1, mount, groups.get(controller, "/"), root, "" if bare else "cpuset.")
    for mount in mounts:
        if mount.kind == "cgroup2":
            home = _home(2, mount, groups.get("", "/"), root)
            return home if controller in words(f"{home.top}/cgroup.controllers") else None
    return None


def _home(version: int, mount: Mount, group: str, root: Path, prefix: str = "cpuset.") -> Home:
    top = str(root / mount.point.strip("/"))
    return Home(version, top, str(root / folder_in(mount, group)), prefix)


def base_of(version: int, root: Path = ROOT) -> Base:
    """Where groups with a cpuset can be made in a version of control groups."""
    home = home_of("cpuset", root)
    if home is None:
        return Base("no control group file system with the cpuset controller is mounted")
    if home.version != version:
        return Base(f"the cpuset controller belongs to control groups version {home.version} here", home)
    return base_v1(home) if version == 1 else _base_v2(home, root)


def base_v1(home: Home) -> Base:
    """Whether groups can be made below our own in one hierarchy of version 1."""
    folder = f"{home.own}/{FOLDER}"
    place = folder if Path(folder).is_dir() else home.own
    return Base("" if may_write(place) else refusal(place), home, home.own)


def _base_v2(home: Home, root: Path) -> Base:
    problem = ""
    managed = (root / "run/systemd/system").is_dir()
    for folder in upwards(home.own, home.top):
        why_not = _unsuitable(folder, managed=managed)
        if not why_not:
            return Base("", home, folder.removesuffix(f"/{FOLDER}"))
        problem = problem or why_not
        limit = limit_of(folder)
        if limit:
            return Base(f"{problem}, and a job may not leave it because {limit}", home)
    return Base(problem, home)


def _unsuitable(folder: str, *, managed: bool) -> str:
    """Why no groups with a cpuset can be made in this one, as a clause."""
    if "cpuset" not in words(f"{folder}/cgroup.controllers"):
        return f"{folder} does not have the cpuset controller"
    kind = read(f"{folder}/cgroup.type")
    if kind not in {"", "domain"}:
        return f"{folder} is {kind}"
    for place in (folder, f"{folder}/cgroup.procs"):
        if not may_write(place):
            return refusal(place)
    if managed and os.geteuid() == 0 and not _delegated(folder):
        return f"{folder} is systemd's own, not delegated"
    if "cpuset" in words(f"{folder}/cgroup.subtree_control"):
        return ""
    if not may_write(f"{folder}/cgroup.subtree_control"):
        return refusal(f"{folder}/cgroup.subtree_control")
    if not is_root(folder) and read(f"{folder}/cgroup.procs"):
        return f"processes live in {folder} itself, so it cannot hand out the cpuset controller"
    return ""


def limit_of(folder: str) -> str:
    """What a group limits, as a clause; '' when nothing is kept from what runs in it."""
    for file in (*LIMITS, *_huge_page_limits(folder)):
        value = read(f"{folder}/{file}")
        # A number or 'max', with a period or devices beside it in some: '8:0 rbps=1048576 wbps=max'.
        if any(word.rpartition("=")[2].isdigit() for word in _limits_in(file, value)):
            return f"{folder}/{file} is {value.splitlines()[0]}"
    if read(f"{folder}/cpuset.cpus.partition") in PARTITIONS:
        return f"{folder} has exclusive CPUs"
    return ""


def _huge_page_limits(folder: str) -> tuple[str, ...]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a path of text
    except OSError:
        return ()
    return tuple(sorted(name for name in names if name.startswith(HUGE_PAGES) and name.endswith(".max")))


def _limits_in(file: str, value: str) -> list[str]:
    """The words of a limit that say how much: ``cpu.max`` has its period second, others a device first."""
    lines = [line.split() for line in value.splitlines()]
    if file == "cpu.max":
        return [line[0] for line in lines if line]
    return [word for line in lines for word in (line[1:] if len(line) > 1 else line)]


def partition_problem(home: Home | None) -> str:
    """Why no group can have CPUs alone, as a clause; '' when one can."""
    if home is None or home.version == 1:
        return "that needs control groups version 2"
    if not is_root(home.top):
        return f"{home.top} is not the root of all control groups"
    if not may_write(f"{home.top}/cgroup.procs"):
        return refusal(f"{home.top}/cgroup.procs")
    return ""


def is_root(folder: str) -> bool:
    """Whether this is the root of all groups of version 2 (only it has no events), not of a container's."""
    return not Path(folder, "cgroup.events").exists()


def _delegated(folder: str) -> bool:
    for name in ("trusted.delegate", "user.delegate"):
        try:
            if os.getxattr(folder, name) == b"1":
                return True
        except OSError:
            continue
    return False


def upwards(folder: str, top: str) -> Iterator[str]:
    """A group and those above it, up to the top of what is mounted."""
    yield folder
    while folder != top and folder.startswith(top + "/"):
        folder = folder.rpartition("/")[0]
        yield folder


def may_write(path: str) -> bool:
    """Whether we, as the user we act as, may write there; a read-only mount says no."""
    return os.access(path, os.W_OK, effective_ids=True)


def refusal(path: str) -> str:
    """Why we may not write there, as a clause."""
    try:
        sealed = os.statvfs(path).f_flag & os.ST_RDONLY
    except OSError:
        return f"{path} does not exist"
    return f"{path} is mounted read-only" if sealed else f"user {os.geteuid()} may not write to {path}"


def words(path: str) -> frozenset[str]:
    """The words in one of the kernel's files; none when it is not there."""
    return frozenset(read(path).split())


# --------------------------------------------------------------------------------------------------
# A job's control group: the steps that make it, and what can be asked of it and done to it later.
#
# Rules kept here:
#
# 1. It is ``numawise/ID`` below the base, and ``numawise-ID`` directly below the root when it has CPUs alone.
#    Whatever the kernel says to that is read back: it may take the word and call it invalid.
# 2. Version 1: one group in each hierarchy that is needed.  ``cpuset.cpus`` and ``cpuset.mems`` must be
#    filled, from the top down, before a process may enter.  A group is known by the folders of all, joined by
#    ``:``.
# 3. Version 2: controllers are handed down from the base, level by level.
# 4. A memory limit is a limit of memory: swap does not make it larger.  Without the controller for a limit
#    the job runs without it, and a remark says so.
# 5. Entering comes last: nothing ever runs in a group that is half made.


PERIOD, LONGEST_PERIOD, SMALLEST_QUOTA = 100_000, 1_000_000, 1_000
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
    steps += [widen(pid), _enter(group, base.home.own, pid), Prove(pid, limits.cpus, limits.mems)]
    return ControlGroup(group, tuple(steps), remarks)


def _controllers(limits: Limits, there: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that are needed and there, and a remark about each that is not."""
    needed = [("memory", limits.memory), ("cpu", limits.cpu_limit)]
    wanted = ["cpuset", *(name for name, asked in needed if asked and name in there)]
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
    if "memory" in controllers:
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


def populated(group: str) -> bool:
    """Whether any process is left in the group or below it."""
    events = read(f"{folders_of(group)[0]}/cgroup.events")
    return "populated 1" in events if events else bool(members(group))


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
    for controller in ("cpuset", "memory", "cpu"):
        home = home_of(controller, root)
        for folder in upwards(home.own, home.top) if home else ():
            inner = folder if folder.endswith(f"/{FOLDER}") else f"{folder}/{FOLDER}"
            if inner not in seen and Path(inner).is_dir():
                seen.add(inner)
                yield inner
