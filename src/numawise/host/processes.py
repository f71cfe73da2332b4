"""Processes and threads as ``/proc`` shows them: which they are, whose, and on which CPUs they may run.

Rules kept here:

1. A process is distinguished from a later one of the same number by its start time; the boot id
   distinguishes boots.
2. A process whose threads have all ended is dead, even while its parent has not asked for the exit code.
3. What vanishes while it is looked at was not there.  ``None`` or an empty tuple says so; nothing raises.
   But ``/proc`` may hide processes of others (``hidepid``), so a signal is asked before one is called ended.
4. A mask is set on every thread, and again on those born meanwhile, until a look finds no new one.
5. What the cpuset of this process leaves is asked by a thread that ends at once: no mask in use is changed.
"""

import os
import re
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from numawise.errors import HostError
from numawise.host.files import Tree
from numawise.sets import bits_of, format_ids, ids_of, parse_ids
from numawise.values import dataclass

ROOT = Path("/")
DEAD = ("Z", "X", "x")
STOPPED = ("T", "t")
"""By a signal; by a debugger."""
ROUNDS = 50
"""So often are new threads looked for; a program that makes threads faster than this is reported."""
MOST_PARENTS = 64
MOST_CPUS = 1 << 13
"""The most that Linux can be built for."""
ALLOWED = re.compile(r"^(Cpus|Mems)_allowed_list:\s*([0-9,-]*)$", re.ASCII | re.MULTILINE)
HIDDEN = re.compile(r"(?:^|,)hidepid=(?!0|off)", re.ASCII)
UID = re.compile(r"^Uid:\s*([0-9]+)", re.ASCII | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Process:
    """One line of ``/proc/PID/stat``, as far as it matters here."""

    pid: int
    name: str
    state: str
    parent: int
    session: int
    start: int
    """Clock ticks after boot."""


def boot_id(root: Path = ROOT) -> str:
    """The id of this boot; '' when unknown."""
    return Tree(root).text("proc/sys/kernel/random/boot_id") or ""


def pid_namespace() -> int:
    """Number of the pid namespace we are in; 0 when the kernel does not say."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def read_process(pid: int, root: Path = ROOT) -> Process | None:
    """The process, or a thread by its own number; None when there is none."""
    return parse_stat(_text(root, f"{pid}/stat"))


def parse_stat(text: str) -> Process | None:
    """Read a line of ``/proc/PID/stat``; the name may hold blanks, parentheses and line breaks."""
    head, _, rest = text.rpartition(")")
    number, _, name = head.partition("(")
    fields = rest.split()
    try:
        return Process(int(number), name, fields[0], int(fields[1]), int(fields[3]), int(fields[19]))
    except (ValueError, IndexError):
        return None


def start_time(pid: int, root: Path = ROOT) -> int | None:
    """When the process began, in clock ticks after boot; None when there is none."""
    found = read_process(pid, root)
    return found.start if found else None


def alive(pid: int, start: int, root: Path = ROOT) -> bool:
    """Whether the process that began then still runs, in any of its threads."""
    found = read_process(pid, root)
    if found is None:
        return root == ROOT and _is_hidden(pid)
    if found.start != start:
        return False
    return found.state not in DEAD or any(
        thread and thread.state not in DEAD
        for thread in (parse_stat(_text(root, f"{pid}/task/{tid}/stat")) for tid in threads(pid, root))
    )


def is_stopped(pid: int, start: int, root: Path = ROOT) -> bool:
    """Whether the process that began then is stopped; False where it cannot be seen."""
    found = read_process(pid, root)
    return found is not None and found.start == start and found.state in STOPPED


def _is_hidden(pid: int) -> bool:
    """Whether there is a process of this number that ``/proc`` does not show; which, is not known."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return read_process(pid) is None  # not one that came to be meanwhile


def hides_others(root: Path = ROOT) -> bool:
    """Whether ``/proc`` keeps the command lines of a user's processes from other users."""
    mounts = (line.split(" ") for line in (Tree(root).text("proc/self/mounts") or "").splitlines())
    return any(
        len(words) > 3 and words[1:3] == ["/proc", "proc"] and HIDDEN.search(words[3]) for words in mounts
    )


def threads(pid: int, root: Path = ROOT) -> tuple[int, ...]:
    """The process' threads, ascending; empty when it is gone."""
    return _numbers(root / f"proc/{pid}/task")


def processes(root: Path = ROOT) -> tuple[Process, ...]:
    """All processes that can be seen."""
    found = (read_process(pid, root) for pid in _numbers(root / "proc"))
    return tuple(process for process in found if process)


def children(pid: int, root: Path = ROOT) -> tuple[int, ...]:
    """The processes it started that still have it as parent."""
    return tuple(process.pid for process in processes(root) if process.parent == pid)


def parents(pid: int, root: Path = ROOT) -> tuple[Process, ...]:
    """The process, its parent, and so on upwards, as far as they can be seen."""
    found: dict[int, Process] = {}
    at = pid
    while at > 0 and at not in found and len(found) < MOST_PARENTS:
        process = read_process(at, root)
        if process is None:
            break
        found[at] = process
        at = process.parent
    return tuple(found.values())


def family(
    pid: int, mark: str = "", root: Path = ROOT, without: frozenset[int] = frozenset(), uid: int | None = None
) -> tuple[int, ...]:
    """The process and all that descend from it, parents first.

    With a mark such as ``NUMAWISE_HOLD=4f1c`` also those that carry it in their environment: what was left
    behind by a parent that has ended no longer descends from it.  With ``uid`` those of that user alone: what
    stands in the environment of others is their word.  Those of ``without``, and what descends from them, are
    families of their own.
    """
    below: dict[int, list[int]] = {}
    found = processes(root)
    for process in found:
        below.setdefault(process.parent, []).append(process.pid)
    marked = [
        process.pid
        for process in found
        if mark and carries(process.pid, mark, root) and uid in (None, uid_of(process.pid, root))
    ]
    members = dict.fromkeys([pid] if any(process.pid == pid for process in found) else [])
    queue = [*members, *(marked_one for marked_one in marked if marked_one not in without)]
    while queue:
        at = queue.pop(0)
        members[at] = None
        queue += [child for child in below.get(at, ()) if child not in members and child not in without]
    return tuple(members)


def carries(pid: int, mark: str, root: Path = ROOT) -> bool:
    """Whether ``NAME=value`` was in the process' environment at its start, as far as we may read that."""
    try:
        environment = (root / f"proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(mark) in environment.split(b"\0")


def marked(name: str, root: Path = ROOT) -> dict[tuple[int, str], list[int]]:
    """User and value of a variable → the processes that were started with it, as far as we may read that."""
    found: dict[tuple[int, str], list[int]] = {}
    start = os.fsencode(f"{name}=")
    for pid in _numbers(root / "proc"):
        try:
            environment = (root / f"proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        uid = uid_of(pid, root) if any(part.startswith(start) for part in environment) else None
        if uid is not None:
            for part in environment:
                if part.startswith(start):
                    found.setdefault((uid, os.fsdecode(part[len(start) :])), []).append(pid)
    return found


def uid_of(pid: int, root: Path = ROOT) -> int | None:
    """Who started it (the real user id); None when it is gone."""
    found = UID.search(_text(root, f"{pid}/status"))
    return int(found[1]) if found else None


def group_of(pid: int, controller: str = "", root: Path = ROOT) -> str | None:
    """Its cgroup in the hierarchy of a version 1 controller, or '' for version 2; None when not known."""
    for line in _text(root, f"{pid}/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and controller in parts[1].split(","):
            return parts[2]
    return None


def allowed_of(pid: int, tid: int | None = None, root: Path = ROOT) -> tuple[int, int] | None:
    """The CPUs and NUMA nodes that a process, or one of its threads, may use; None when it is gone."""
    place = f"{pid}/status" if tid is None else f"{pid}/task/{tid}/status"
    found = dict(ALLOWED.findall(_text(root, place)))
    try:
        return parse_ids(found["Cpus"]), parse_ids(found["Mems"])
    except (KeyError, ValueError):
        return None


def reachable_cpus() -> int | None:
    """The CPUs that the cpuset in force leaves to this process, whatever its mask; None: it may not ask.

    Of a mask that a thread gives itself the kernel leaves out what its cpuset does not have.
    """
    left: list[int] = []

    def ask() -> None:
        with suppress(OSError):
            os.sched_setaffinity(0, range(MOST_CPUS))
            left.append(bits_of(os.sched_getaffinity(0)))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return left[0] if left else None


def set_affinity(pids: Iterable[int], cpus: int, root: Path = ROOT) -> tuple[int, ...]:
    """Let every thread of the processes run on these CPUs only; the threads it was done to.

    A thread born of one that still had the old mask has the old one too, so all are gone through again until
    no new one is found.  One that refuses does not keep the others from it; it is reported at the end.
    """
    if not cpus:
        raise HostError("a process needs at least one CPU to run on")
    wanted = range(cpus.bit_length()) if not cpus & cpus + 1 else tuple(ids_of(cpus))
    members = tuple(pids)
    done: dict[int, None] = {}
    refused: HostError | None = None
    for _ in range(ROUNDS):
        # Without /proc its main thread is all that is known of a process.
        new = [(pid, tid) for pid in members for tid in threads(pid, root) or (pid,) if tid not in done]
        if not new:
            break
        for pid, tid in new:
            done[tid] = None
            try:
                _set_mask(pid, tid, wanted, cpus)
            except HostError as error:
                refused = refused or error
    else:
        refused = HostError(f"process {members[0]} makes threads faster than their CPUs can be set")
    if refused:
        raise refused
    return tuple(done)


def _set_mask(pid: int, tid: int, wanted: Sequence[int], cpus: int) -> None:
    try:
        os.sched_setaffinity(tid, wanted)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise HostError(
            f"may not change on which CPUs process {pid} runs",
            "it belongs to another user; do this as that user or as root",
        ) from error
    except OSError as error:
        raise HostError(
            f"the kernel refused CPUs {format_ids(cpus)} for process {pid} ({error.strerror})",
            "at least one must be online and in the cpuset of its cgroup",
        ) from error


def _text(root: Path, path: str) -> str:
    """A file of ``/proc``; '' when it is gone or may not be read."""
    try:
        return (root / "proc" / path).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _numbers(folder: Path) -> tuple[int, ...]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - thousands of processes are walked through
    except OSError:
        return ()
    return tuple(sorted(int(name) for name in names if name.isascii() and name.isdecimal()))


# --------------------------------------------------------------------------------------------------
# Who launched a rank, and on which CPUs.
#
# The launcher is the nearest parent that does not carry the rank's variable; shells and wrappers in between
# do. Its CPUs are those it had to share out, whatever it bound each rank to.


def launcher_cpus(mark: str, pid: int = 0, root: Path = ROOT) -> int | None:
    """CPUs of the process that started the ranks; None when unknown.

    The mark is the rank's variable with its value, ``LOCAL_RANK=3``.
    """
    for process in parents(pid or os.getpid(), root)[1:]:
        if not carries(process.pid, mark, root):
            allowed = allowed_of(process.pid, root=root)
            return allowed[0] if allowed else None
    return None
