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
from collections.abc import Iterator
from pathlib import Path

from numawise.host.files import Tree
from numawise.host.plan import (
    read,
)
from numawise.host.system import Mount, cgroup_mounts, folder_in, own_groups
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
