"""Where processes are: every thread's CPUs, the pages per NUMA node, open devices, control groups.

Rules kept here:

1. What ends while it is read is left out, never an error.  A process whose number was given to another one
   meanwhile (its start time differs) has ended.
2. What is there but may not be read is described in words beside what could be read.
3. Affinity belongs to threads, not to processes: each is read for itself.  Memory belongs to the process.
4. Without ``numa_maps`` (a kernel without NUMA, or no right to read it) the size still stands in ``status``,
   which everybody may read.
5. Everything lies below a root, so a copy of a ``/proc`` can be read, too.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from numawise.host.numamaps import ANONYMOUS, FILE, HUGE, SHARED, Pages, gather, parse_keys
from numawise.results.placement import Hold
from numawise.sets import LARGEST_ID, parse_ids
from numawise.values import dataclass

ROOT = Path("/")
GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.ENOTDIR})
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
CHUNK = 1 << 16
KERNEL_THREAD = 0x00200000
"""PF_KTHREAD"""
ENDED = frozenset("ZXx")
FIELD = re.compile(r"^(\w+):[ \t]*(.*)$", re.ASCII | re.MULTILINE)
DEVICE = re.compile(r"/dev/(?:nvidia[0-9]+|dri/(?:renderD|card)[0-9]+|kfd)", re.ASCII)
CONTAINER = re.compile(r"[0-9a-f]{64}", re.ASCII)
SHORTEST_ID = 12
SIZES = (("RssAnon", ANONYMOUS), ("HugetlbPages", HUGE), ("RssShmem", SHARED), ("RssFile", FILE))
NO_NUMA = "this kernel does not report where pages are (no numa_maps)"


@dataclass(frozen=True, slots=True)
class Brief:
    """One line about a thread, out of ``stat``."""

    tid: int
    parent: int
    start: int
    """Clock ticks after boot."""
    name: str
    state: str
    kernel: bool
    """It is a thread of the kernel itself."""
    ticks: int
    """Time on CPUs so far, in clock ticks."""
    cpu: int
    """The CPU it last ran on."""
    resident: int = 0
    """Pages of its process in memory."""


@dataclass(frozen=True, slots=True)
class ProcessThread:
    """One thread."""

    tid: int
    name: str
    allowed: int
    """CPUs it may run on."""
    cpu: int
    """The CPU it last ran on."""
    start: int = 0
    state: str = "S"


@dataclass(frozen=True, slots=True)
class Placed:
    """A process and where it is."""

    pid: int
    name: str
    parent: int = 0
    start: int = 0
    uid: int = 0
    threads: tuple[ProcessThread, ...] = ()
    mems: int = 0
    """NUMA nodes that its control group lets it use."""
    pages: Pages | None = None
    """None: not known, and ``pages_problem`` says why."""
    pages_problem: str = ""
    sizes: tuple[tuple[str, int], ...] = ()
    """Kind of pages → bytes, by the kernel's own sums, which are never refused."""
    swapped: int = 0
    devices: tuple[str, ...] = ()
    """GPU device files it has open."""
    devices_problem: str = ""
    groups: tuple[str, ...] = ()
    """Its control groups, by path."""
    kernel: bool = False


def in_group(groups: Iterable[str], group: str) -> bool:
    """Whether one of a process' control groups is this one or lies below it.

    A group may be given as its folder, as its path or by its name; several of version 1 joined by ``:``.
    """
    wanted = tuple(part.rstrip("/") for part in group.split(":") if part.rstrip("/"))
    for path in groups:
        parts = path.strip("/").split("/")
        for upto in range(len(parts), 0, -1):
            above = "/" + "/".join(parts[:upto])
            for one in wanted:
                same = one.rpartition("/")[2] == parts[upto - 1]
                if same and (one.endswith(above) or above.endswith("/" + one.lstrip("/"))):
                    return True
    return False


def read_groups(root: Path, pid: int) -> tuple[str, ...]:
    """Paths of the control groups of a process, the root group left out."""
    try:
        text = _text(f"{_proc(root)}/{pid}/cgroup")
    except OSError:
        return ()
    paths = (line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2)
    return tuple(dict.fromkeys(path for path in paths if path != "/"))


def in_container(groups: Iterable[str], container: str) -> bool:
    """Whether a process lives in a container: engines name its control group after its id."""
    if len(container) < SHORTEST_ID:
        return False
    ids = (found for path in groups for found in CONTAINER.findall(path))
    return any(found.startswith(container) or container.startswith(found) for found in ids)


def in_hold(hold: Hold, above: Mapping[int, int], groups: Iterable[str], mark: str) -> bool:
    """Whether a process belongs to a hold: by its parents, its control groups, its container, or its mark.

    ``above`` has the start times of the process and its parents by number, ``mark`` is the hold that its
    environment names.
    """
    owner, own = hold.owner, tuple(groups)
    return (
        (bool(owner.pid) and above.get(owner.pid) == owner.start)
        or (bool(hold.group) and in_group(own, hold.group))
        or (bool(owner.container) and in_container(own, owner.container))
        or mark == hold.id
    )


def container_of(groups: Iterable[str]) -> str:
    """The id of the innermost container that a process lives in; '' when it lives in none."""
    return next((found[-1] for path in groups if (found := CONTAINER.findall(path))), "")


def variable_of(root: Path, pid: int, name: str) -> str:
    """A variable that a process was started with; '' where it has none, or that may not be read."""
    try:
        text = _text(f"{_proc(root)}/{pid}/environ")
    except OSError:
        return ""
    found = [part for part in text.split("\0") if part.startswith(name + "=")]
    return found[0].partition("=")[2] if found else ""


def read_placed(root: Path, pid: int) -> Placed | None:
    """All about one process; None when it has ended."""
    place = f"{_proc(root)}/{pid}"
    brief = _brief(f"{place}/stat")
    if brief is None:
        return None
    try:
        fields = dict(FIELD.findall(_text(f"{place}/status")))
    except OSError:
        return None
    threads = tuple(_threads(place))
    if not threads:
        return None
    # The first thread may have ended before the others; then it no longer shows the memory.
    speaker = f"{place}/task/{threads[0].tid}" if brief.state in ENDED else place
    pages, problem = (Pages(), "") if brief.kernel else _pages(speaker)
    devices, devices_problem = _devices(place)
    again = _brief(f"{place}/stat")
    if again is None or again.start != brief.start:
        return None
    return Placed(
        pid=pid,
        name=brief.name,
        parent=brief.parent,
        start=brief.start,
        uid=_first_number(fields.get("Uid", "")),
        threads=threads,
        mems=_ids(fields.get("Mems_allowed_list", "")),
        pages=pages,
        pages_problem=problem,
        sizes=_sizes(fields),
        swapped=_kilobytes(fields.get("VmSwap", "")),
        devices=devices,
        devices_problem=devices_problem,
        groups=read_groups(root, pid),
        kernel=brief.kernel,
    )


def read_tasks(root: Path, among: Iterable[int]) -> Iterator[tuple[int, Brief]]:
    """Process and one line about each of its threads, for the given processes."""
    place = _proc(root)
    for pid in among:
        for tid in _numbers(f"{place}/{pid}/task"):
            brief = _brief(f"{place}/{pid}/task/{tid}/stat")
            if brief is not None:
                yield pid, brief


def read_briefs(root: Path) -> Iterator[Brief]:
    """One line about each process that can be seen."""
    place = _proc(root)
    for pid in _numbers(place):
        brief = _brief(f"{place}/{pid}/stat")
        if brief is not None:
            yield brief


def _proc(root: Path) -> str:
    return os.fspath(root).rstrip("/") + "/proc"


def _text(path: str) -> str:
    """A whole file; raises ``OSError``."""
    handle = os.open(path, FLAGS)
    try:
        parts = []
        while part := os.read(handle, CHUNK):
            parts.append(part)
    finally:
        os.close(handle)
    return b"".join(parts).decode(errors="replace")


def _lines(path: str) -> Iterator[str]:
    """A file line by line, since these may be very long; raises ``OSError``."""
    with open(os.open(path, FLAGS), encoding="utf-8", errors="replace", newline="\n") as stream:  # noqa: PTH123
        for line in stream:
            yield line.rstrip("\n")


def _numbers(folder: str) -> list[int]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - thousands of these are read
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def _brief(path: str) -> Brief | None:
    """Out of ``stat``: the name stands in brackets and may hold brackets and blanks itself."""
    try:
        text = _text(path)
    except OSError:
        return None
    head, _, tail = text.rpartition(")")
    number, _, name = head.partition(" (")
    rest = tail.split()
    if not number.isdecimal() or len(rest) < 37:
        return None
    try:
        flags, user, system, start, resident, cpu = (int(rest[at]) for at in (6, 11, 12, 19, 21, 36))
        parent = int(rest[1])
    except ValueError:
        return None
    if cpu > LARGEST_ID:
        return None
    return Brief(
        tid=int(number),
        parent=parent,
        start=start,
        name=name,
        state=rest[0],
        kernel=bool(flags & KERNEL_THREAD),
        ticks=user + system,
        cpu=cpu,
        resident=resident,
    )


def _threads(place: str) -> Iterator[ProcessThread]:
    for tid in _numbers(f"{place}/task"):
        brief = _brief(f"{place}/task/{tid}/stat")
        if brief is None or brief.state in ENDED:
            continue
        try:
            fields = dict(FIELD.findall(_text(f"{place}/task/{tid}/status")))
        except OSError:
            continue
        allowed = _ids(fields.get("Cpus_allowed_list", ""))
        if allowed:
            yield ProcessThread(tid, brief.name, allowed, brief.cpu, brief.start, brief.state)


def _pages(place: str) -> tuple[Pages | None, str]:
    """Pages of a process, or why they are not known."""
    try:
        keys = parse_keys(_lines(f"{place}/maps"))
    except OSError:
        keys = {}
    try:
        return gather(_lines(f"{place}/numa_maps"), keys), ""
    except OSError as error:
        if error.errno not in GONE:
            return None, f"its pages cannot be read: {error.strerror}"
        if error.errno == errno.ESRCH or not os.path.lexists(place):
            return Pages(), ""
        return None, NO_NUMA


def _devices(place: str) -> tuple[tuple[str, ...], str]:
    """GPU device files that a process has open, or why that is not known."""
    try:
        names = os.listdir(f"{place}/fd")  # noqa: PTH208
    except OSError as error:
        return (), "" if error.errno in GONE else f"its open files cannot be read: {error.strerror}"
    found = set()
    for name in names:
        try:
            target = os.readlink(f"{place}/fd/{name}")  # noqa: PTH115
        except OSError:
            continue
        if DEVICE.fullmatch(target):
            found.add(target)
    return tuple(sorted(found, key=_natural)), ""


def _natural(name: str) -> tuple[str, int]:
    digits = re.search(r"[0-9]+$", name)
    return (name[: digits.start()], int(digits[0])) if digits else (name, 0)


def _ids(text: str) -> int:
    try:
        return parse_ids(text.strip())
    except ValueError:
        return 0


def _sizes(fields: dict[str, str]) -> tuple[tuple[str, int], ...]:
    """Sums by kind; kernels before 4.5 know only the whole."""
    sizes = {kind: _kilobytes(fields.get(name, "")) for name, kind in SIZES}
    if "RssAnon" not in fields:
        sizes[ANONYMOUS] = _kilobytes(fields.get("VmRSS", ""))
    return tuple((kind, size) for kind, size in sizes.items() if size)


def _kilobytes(text: str) -> int:
    return _first_number(text) << 10


def _first_number(text: str) -> int:
    found = re.match(r"[0-9]{1,15}", text)
    return int(found[0]) if found else 0
