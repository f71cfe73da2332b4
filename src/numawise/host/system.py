"""Settings of the running system that affect placement, out of ``/proc`` and the cgroup file systems.

Rules kept here:

1. The cpuset of the cgroup we run in: the controller lives in version 1 when something mounts it there,
   else in version 2.  There a cgroup without the controller obeys the nearest one above that has it.
2. What counts is what is *effective*: what is configured may name CPUs that are gone, or be empty.
3. Where no cgroup file says, the kernel of the live machine is asked: a cpuset is in force whether or not its
   files are mounted, while the mask of this process may be that of a job.  In a copy, what the process was
   allowed is assumed, and a remark says so.
4. On the live machine a hierarchy that is not mounted is not there, whatever ``/proc/self/cgroup`` lists.
5. Isolated CPUs are those cut off from scheduling domains: ``isolcpus=`` with only other flags cuts off none.
"""

import re
from collections.abc import Iterator

from numawise.host.files import Tree
from numawise.host.processes import reachable_cpus
from numawise.machine.hardware import ASSUMED, UNKNOWN, UNREADABLE, Host
from numawise.sets import LARGEST_ID, parse_ids
from numawise.strconv import whole_number
from numawise.values import dataclass

PROC = "proc/self"
CGROUP_V1 = ("cgroup", "cpuset")
CGROUP_V2 = ("cgroup2",)
ESCAPE = re.compile(r"\\([0-7]{3})", re.ASCII)
VERSION = re.compile(r"Linux version (\S+)")
ALLOWED = re.compile(r"^(Cpus|Mems)_allowed_list:\s*([0-9,-]+)$", re.ASCII | re.MULTILINE)
ISOLATION_FLAGS = frozenset({"domain", "nohz", "managed_irq"})
ISOLATED_PART = re.compile(r"([0-9]{1,6}|N)(?:-([0-9]{1,6}|N)(?::([0-9]{1,6})/([0-9]{1,6}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted file system."""

    kind: str
    point: str
    root: str
    """The folder of the file system that is mounted."""
    options: frozenset[str]


def read_host(tree: Tree) -> Host | None:
    """Cgroup limits, isolation, NUMA balancing and kernel; None when nothing of it is known."""
    mounts = cgroup_mounts(tree)
    groups = own_groups(tree)
    cpuset, mems = _cpuset(tree, mounts, groups)
    balancing = tree.number("proc/sys/kernel/numa_balancing")
    host = Host(
        cpuset=cpuset,
        mems=mems,
        isolated=_isolated(tree),
        numa_balancing=None if balancing is None else balancing != 0,
        cgroup=_version(mounts, {} if tree.is_live else groups),
        kernel=_kernel(tree),
    )
    return None if host == Host() else host


def cgroup_mounts(tree: Tree) -> list[Mount]:
    """The cgroup file systems among the mounts; on the live machine, those that nothing is mounted over."""
    text, mount_of = tree.text(f"{PROC}/mountinfo"), _mount_of_info
    if not text:
        text, mount_of = tree.text(f"{PROC}/mounts") or tree.text("proc/mounts") or "", _mount_of_table
    mounts = [mount for mount in map(mount_of, text.splitlines()) if mount]
    if not tree.is_live:
        return mounts
    return [mount for mount in mounts if tree.has(f"{mount.point.strip('/')}/cgroup.procs")]


def _mount_of_info(line: str) -> Mount | None:
    ours, _, theirs = line.partition(" - ")
    left, right = ours.split(), theirs.split()
    if len(left) < 6 or len(right) < 3 or right[0] not in CGROUP_V1 + CGROUP_V2:
        return None
    return Mount(right[0], _unescape(left[4]), _unescape(left[3]), frozenset(right[2].split(",")))


def _mount_of_table(line: str) -> Mount | None:
    fields = line.split()
    if len(fields) < 4 or fields[2] not in CGROUP_V1 + CGROUP_V2:
        return None
    return Mount(fields[2], _unescape(fields[1]), "/", frozenset(fields[3].split(",")))


def _unescape(path: str) -> str:
    return ESCAPE.sub(lambda found: chr(int(found[1], 8)), path)


def own_groups(tree: Tree) -> dict[str, str]:
    """Controller → our cgroup; the unified hierarchy goes by the empty name."""
    found = {}
    for line in (tree.text(f"{PROC}/cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            found.update(dict.fromkeys(parts[1].split(","), parts[2]))
    return found


def _version(mounts: list[Mount], groups: dict[str, str]) -> str:
    older = any(mount.kind in CGROUP_V1 for mount in mounts)
    newer = any(mount.kind in CGROUP_V2 for mount in mounts)
    if not older and not newer:
        older, newer = any(groups.keys() - {""}), "" in groups
    return {(True, True): "hybrid", (True, False): "v1", (False, True): "v2"}.get((older, newer), "")


def _cpuset(tree: Tree, mounts: list[Mount], groups: dict[str, str]) -> tuple[int | None, int | None]:
    older = [mount for mount in mounts if mount.kind == "cpuset" or "cpuset" in mount.options]
    newer = [mount for mount in mounts if mount.kind in CGROUP_V2]
    group = groups.get("cpuset" if older else "")
    if group is None:
        group = tree.text(f"{PROC}/cpuset") or "/"
    cpus = mems = None
    if older:
        bare = older[0].kind == "cpuset" or "noprefix" in older[0].options
        prefix = "" if bare else "cpuset."
        folder = folder_in(older[0], group)
        cpus = _first(tree, folder, (prefix + "effective_cpus", prefix + "cpus"))
        mems = _first(tree, folder, (prefix + "effective_mems", prefix + "mems"))
    elif newer:
        for folder in upwards(folder_in(newer[0], group), newer[0].point.strip("/")):
            cpus = tree.ids(f"{folder}/cpuset.cpus.effective")
            if cpus is not None:
                mems = tree.ids(f"{folder}/cpuset.mems.effective")
                break
    return (cpus, mems) if cpus is not None else _allowed(tree, group, told=bool(older))


def folder_in(mount: Mount, group: str) -> str:
    """Where a cgroup's files are; inside a container only its own part of the hierarchy is mounted."""
    root = mount.root.rstrip("/")
    inner = group[len(root) :] if group == root or group.startswith(root + "/") else ""
    if ".." in inner.split("/"):
        inner = ""
    return (mount.point + inner).strip("/")


def upwards(folder: str, top: str) -> Iterator[str]:
    """A folder and those above it, up to the top."""
    while True:
        yield folder
        if folder == top or not folder.startswith(top):
            return
        folder = folder.rpartition("/")[0]


def _first(tree: Tree, folder: str, names: tuple[str, ...]) -> int | None:
    found = (tree.ids(f"{folder}/{name}") for name in names)
    return next((bits for bits in found if bits), None)


def _allowed(tree: Tree, group: str, *, told: bool) -> tuple[int | None, int | None]:
    """What the kernel lets the process have; in a copy what it was allowed, mostly all of it (rule 3)."""
    fields = dict(ALLOWED.findall(tree.text(f"{PROC}/status") or ""))
    try:
        cpus = parse_ids(fields["Cpus"]) if "Cpus" in fields else None
        mems = parse_ids(fields["Mems"]) if "Mems" in fields else None
    except ValueError:
        tree.remark(UNREADABLE, f"{PROC}/status", "does not list the allowed CPUs and NUMA nodes")
        return None, None
    reachable = reachable_cpus() if tree.is_live else None
    if reachable is not None:
        return reachable, mems
    if cpus is not None:
        tree.remark(ASSUMED, f"{PROC}/status", "no cpuset cgroup to read; took what this process may use")
    elif told:
        tree.remark(UNKNOWN, f"{PROC}/cgroup", f"the cpuset of cgroup {group} is not here")
    return cpus, mems


def _isolated(tree: Tree) -> int | None:
    found = tree.ids("sys/devices/system/cpu/isolated")
    if found is not None:
        return found
    line = tree.text("proc/cmdline")
    if line is None:
        return None
    given = [word.removeprefix("isolcpus=") for word in line.split() if word.startswith("isolcpus=")]
    possible = tree.ids("sys/devices/system/cpu/possible")
    isolated = (
        parse_isolation(given[-1], last=possible.bit_length() - 1 if possible else None) if given else 0
    )
    if isolated is None:
        tree.garbled("proc/cmdline", f"isolcpus={given[-1]}", "a list of CPUs")
    return isolated


def parse_isolation(text: str, last: int | None) -> int | None:
    """CPUs of an ``isolcpus=`` argument; None when it is garbled.

    The list may have groups (``0-31:2/8``: of each eight CPUs the first two), ``N`` for the last CPU and
    ``all``.
    """
    parts = text.split(",")
    flags = set()
    while parts and parts[0] in ISOLATION_FLAGS:
        flags.add(parts.pop(0))
    bits = 0
    for part in parts:
        part = "0-N" if part == "all" else part
        found = ISOLATED_PART.fullmatch(part)
        if not found or ("N" in part and last is None):
            return None
        first, end = (last or 0 if at == "N" else whole_number(at) for at in (found[1], found[2] or found[1]))
        used, group = whole_number(found[3] or "1"), whole_number(found[4] or "1")
        if end < first or end > LARGEST_ID or not 0 < used <= group:
            return None
        for start in range(first, end + 1, group):
            bits |= (1 << min(start + used, end + 1)) - (1 << start)
    return bits if not flags or "domain" in flags else 0


def _kernel(tree: Tree) -> str:
    release = tree.text("proc/sys/kernel/osrelease")
    if release:
        return release
    found = VERSION.match(tree.text("proc/version") or "")
    return found[1] if found else ""
