"""What shall be done to this host to keep a job to its grant: first as data, then done by one short function.

Rules kept here:

1. A plan is a tuple of steps in order; ``describe`` prints it (what ``--dry-run`` shows), ``do`` does it.
2. When a step fails, those before it are undone in reverse, as far as they can be, and ``HostError`` names
   the file or command, the value, and the kernel's answer.
3. Waiting is bounded.
4. What a process does to itself before exec (its memory policy, which nobody else can set) is a value too,
   ``Itself``, and done by ``settle`` in the child.
"""

import errno
import os
import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from numawise.errors import HostError, quoted
from numawise.host import mempolicy
from numawise.host.processes import allowed_of, group_of, set_affinity
from numawise.host.rights import plain_environment
from numawise.results.placement import BOUND, INTERLEAVED, PREFERRED, MemoryPolicy
from numawise.sets import format_ids
from numawise.values import dataclass

PAUSE = 0.005
TRIES = 100
"""So often is a group looked at whose last process is just ending."""
PATIENCE = 30.0
"""Seconds that systemd is given for a scope or a changed property."""
SET_POLICY: dict[MemoryPolicy, Callable[[int], None]] = {
    BOUND: mempolicy.bind_memory,
    PREFERRED: mempolicy.prefer_memory,
    INTERLEAVED: partial(mempolicy.set_mempolicy, mempolicy.INTERLEAVE),
}
EVERY_CPU = (1 << (1 << 13)) - 1
"""More than any kernel is built for: "whatever the cpuset allows"."""


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """Make a control group."""

    path: str
    shared: bool = False
    """Others may use it too: that it exists is fine, and it stays when the plan is undone."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write one of the kernel's files."""

    path: str
    text: str
    back: tuple[str, str] | None = None
    """File and text that undo it."""
    optional: bool = False
    """Not every kernel has this file, and the job is kept to its grant without it."""


@dataclass(frozen=True, slots=True)
class Expect:
    """Read one of the kernel's files back: it takes some values only to say later that they do not hold."""

    path: str
    text: str
    meaning: str
    """What it means when it says something else, as a clause."""


@dataclass(frozen=True, slots=True)
class Call:
    """Run a program, and another one to undo it."""

    argv: tuple[str, ...]
    back: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AwaitGroup:
    """Wait until a process is in a control group of version 2."""

    pid: int
    group: str
    back: str = ""
    """Where to write the process' number to bring it back, if we may."""


@dataclass(frozen=True, slots=True)
class SetMask:
    """Set on which CPUs every thread of a process may run."""

    pid: int
    cpus: int = 0
    """0: all that its cpuset allows, now and later, whatever mask it inherited."""
    before: int = 0
    """The mask that undoes it; 0: none is known."""


@dataclass(frozen=True, order=True, slots=True)
class DeviceNumber:
    """A character device, or all of a major number."""

    major: int
    minor: int = -1
    """-1: all of them."""

    def __str__(self) -> str:
        return f"{self.major}:{'*' if self.minor < 0 else self.minor}"


@dataclass(frozen=True, slots=True)
class RefuseDevices:
    """Keep everything in a control group of version 2 from some character devices; it goes with the group."""

    path: str
    numbers: tuple[DeviceNumber, ...]


@dataclass(frozen=True, slots=True)
class Prove:
    """Read back what the process may use; anything else than this is an error."""

    pid: int
    cpus: int
    mems: int
    """0: not looked at; likewise for CPUs."""
    advice: str = ""


Step = MakeFolder | Write | Expect | Call | AwaitGroup | SetMask | RefuseDevices | Prove


@dataclass(frozen=True, slots=True)
class Itself:
    """What the job's process does to itself before exec."""

    cpus: int = 0
    """CPUs of its mask; 0: those it has been given."""
    mems: int = 0
    """NUMA nodes that its memory policy names; 0: the default policy, whatever it inherited."""
    memory_policy: MemoryPolicy = BOUND


@dataclass(frozen=True, slots=True)
class Plan:
    """How one job will be kept to its grant."""

    mode: str
    group: str = ""
    """What ``change_cpus``, ``tear_down`` and the ledger know the job's group by; '' when it has none."""
    steps: tuple[Step, ...] = ()
    itself: Itself = Itself()
    remarks: tuple[str, ...] = ()
    """What of the grant this mode does not enforce, a sentence each."""
    fenced: bool = False
    """The kernel keeps it from GPUs of others."""


def describe(plan: Plan) -> tuple[str, ...]:
    """The plan in lines that a person could type as root."""
    lines = [line for line in map(_line, plan.steps) if line]
    if plan.itself.mems:
        lines.append(f"set_mempolicy {plan.itself.memory_policy}:{format_ids(plan.itself.mems)}")
    return tuple(lines)


def _line(step: Step) -> str:
    match step:
        case MakeFolder(path):
            return f"mkdir {'-p ' if step.shared else ''}{path}"
        case Write(path, text):
            return f"echo {text} > {path}"
        case Call(argv):
            return shlex.join(argv)
        case SetMask(cpus=cpus) if cpus:
            return f"sched_setaffinity {format_ids(cpus)}"
        case RefuseDevices(path, numbers):
            return f"bpf cgroup_device {path}: refuse {', '.join(f'c {number}' for number in numbers)}"
        case _:
            return ""


def do(steps: tuple[Step, ...], root: Path = Path("/")) -> None:
    """Carry the steps out in order; undo them when one fails."""
    done: list[Step] = []
    try:
        for step in steps:
            if _do(step, root):
                done.append(step)
    except BaseException:
        undo(tuple(done))
        raise


def undo(steps: tuple[Step, ...]) -> None:
    """Take back what can be taken back, last things first; what is gone already is fine."""
    for step in reversed(steps):
        with suppress(HostError, OSError):
            _undo(step)


def _undo(step: Step) -> None:
    match step:
        case MakeFolder(path, shared) if not shared:
            remove_folder(path)
        case Write(back=(path, text)):
            write(path, text)
        case AwaitGroup(pid, _, back) if back:
            write(back, str(pid))
        case SetMask(pid, _, before) if before:
            set_affinity((pid,), before)
        case Call(back=argv) if argv:
            answer_of(argv)
        case _:
            pass


def settle(itself: Itself) -> mempolicy.Policy:
    """Done by the job's own process, before exec; the policy it had before."""
    try:
        before = mempolicy.read_mempolicy()
    except HostError:
        before = mempolicy.Policy()
    if itself.cpus:
        set_affinity((os.getpid(),), itself.cpus)
    if itself.mems:
        SET_POLICY[itself.memory_policy](itself.mems)
    elif before.mode != mempolicy.DEFAULT:
        mempolicy.set_mempolicy(mempolicy.DEFAULT)
    return before


def _do(step: Step, root: Path) -> bool:
    """Do one step; whether there is something to undo."""
    match step:
        case MakeFolder(path, shared):
            return _make(path, shared=shared)
        case Write(path, text):
            return _write(step, path, text)
        case Expect(path, text, meaning):
            found = read(path)
            if found != text:
                raise HostError(f"{path} says {quoted(found)} instead of {quoted(text)}: {meaning}")
        case Call(argv):
            code, said = answer_of(argv)
            if code:
                raise HostError(f"{argv[0]} failed ({code}): {said or 'it said nothing'}")
            return True
        case AwaitGroup(pid, group):
            _await_group(pid, group, root)
            return True
        case SetMask(pid, cpus):
            set_affinity((pid,), cpus or EVERY_CPU, root)
            return True
        case RefuseDevices(path, numbers):
            from numawise.host.device_program import attach  # noqa: PLC0415 - ctypes, for fenced jobs alone

            attach(path, numbers)
        case Prove():
            prove(step, root)
    return False


def _make(path: str, *, shared: bool) -> bool:
    try:
        os.mkdir(path)  # noqa: PTH102 - a path of the plan is text
    except FileExistsError:
        if shared:
            return False
        raise HostError(f"{path} exists already", "is another job of the same id running?") from None
    except OSError as error:
        raise HostError(f"cannot make the control group {path}: {error.strerror}") from error
    return not shared


def _write(step: Write, path: str, text: str) -> bool:
    try:
        write(path, text)
    except OSError as error:
        if step.optional and error.errno in {errno.ENOENT, errno.EACCES, errno.EOPNOTSUPP}:
            return False
        raise HostError(
            f"cannot write {quoted(text)} to {path}: {os.strerror(error.errno or 0)}", _advice(path, error)
        ) from error
    return True


def _advice(path: str, error: OSError) -> str:
    file = path.rpartition("/")[2]
    if error.errno == errno.EBUSY and file == "cgroup.subtree_control":
        return (
            "processes live in that control group itself; a group that hands out controllers must have none"
        )
    if error.errno in {errno.EINVAL, errno.EACCES, errno.ENOSPC} and file.endswith((".cpus", ".mems")):
        return "the control group above does not have all of them, or another one holds them exclusively"
    if error.errno == errno.ESRCH:
        return "the process has ended"
    return ""


def prove(step: Prove, root: Path = Path("/")) -> None:
    """Compare what the process may use with what was asked for."""
    found = allowed_of(step.pid, root=root)
    if found is None:
        raise HostError(f"process {step.pid} has ended before it could be bound")
    for wanted, seen, what in zip((step.cpus, step.mems), found, ("CPUs", "NUMA nodes"), strict=True):
        if wanted and seen != wanted:
            shown = format_ids(seen) or "none"
            raise HostError(
                f"process {step.pid} was put on {what} {format_ids(wanted)} but may use {shown}", step.advice
            )


def _await_group(pid: int, group: str, root: Path) -> None:
    end = time.monotonic() + PATIENCE
    while (found := group_of(pid, root=root)) != group:
        if found is None:
            raise HostError(f"process {pid} has ended before it could be bound")
        if time.monotonic() > end:
            raise HostError(f"process {pid} is still in {found}, not in {group}, after {PATIENCE:.0f} s")
        time.sleep(PAUSE)


def answer_of(argv: tuple[str, ...], patience: float = PATIENCE) -> tuple[int, str]:
    """Run a program to its end: exit code, and what it said on standard error (or output, without that)."""
    import subprocess  # noqa: PLC0415 - costs 8 ms, and only hosts with systemd need it

    try:
        done = subprocess.run(  # noqa: S603 - the words come from this package
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience,
            check=False,
            env=plain_environment(),
        )
    except OSError as error:
        return 127, error.strerror or ""
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {patience:.0f} s"
    said = done.stderr.strip() or ("" if done.returncode == 0 else done.stdout.strip())
    return done.returncode, " ".join(said.split())


def write(path: str, text: str) -> None:
    """One write of the whole text, as the kernel's files want it."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def read(path: str) -> str:
    """The text of a small file without the blanks around it; '' when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a path of the plan is text
            return file.read().strip()
    except OSError:
        return ""


def remove_folder(path: str) -> bool:
    """Remove a control group and the empty ones below it; False when processes are left in it.

    For a moment after a process has ended its group may still count as busy.
    """
    for _ in range(TRIES):
        try:
            _remove(path)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise HostError(f"cannot remove the control group {path}: {error.strerror}") from error
            if _occupied(path):
                return False
            time.sleep(PAUSE)
        else:
            return True
    return False


def _remove(path: str) -> None:
    try:
        with os.scandir(path) as entries:
            inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        for each in inner:
            _remove(each)
        os.rmdir(path)  # noqa: PTH106 - as above
    except FileNotFoundError:
        return


def _occupied(path: str) -> bool:
    return any(read(f"{folder}/cgroup.procs") for folder, _, _ in os.walk(path))
