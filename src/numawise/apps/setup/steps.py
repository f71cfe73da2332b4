"""What setup does, first as steps that ``--dry-run`` prints, then done; and what takes it back.

Rules kept here:

1. What is there as it should be is left alone, so a setup that was ended half-way is finished by the next.
2. What setup did not make, or what was changed since, is neither written nor removed (``host.box``); it is
   named, and the rest is done.
3. A ledger in which anything lies is not removed.  Where it is not the usual one, what names it stays too:
   otherwise what is held there would be given away again.
"""

import fcntl
import os
import shlex
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from numawise.apps.setup.design import TIMER, BoxDesign, BoxFacts
from numawise.apps.setup.program import changeable
from numawise.codec.outfile import write_whole
from numawise.errors import HostError, InputError, quoted
from numawise.host.box import (
    AS_RECORDED,
    DELEGATION,
    FOREIGN,
    LEDGER,
    MISSING,
    REAP_TIMER,
    RECORD,
    SETTINGS,
    TMPFILES,
    BoxRecord,
    BoxState,
    below,
    file_state,
    group_entry,
    link_state,
    read_record,
    record_text,
)
from numawise.host.plan import answer_of
from numawise.ledger.history import NAME as HISTORY
from numawise.ledger.place import network_file_system
from numawise.values import dataclass, replace

FOLDER_MODE = 0o755
MASK = 0o022
"""Settings that only root can read would be no settings for the others."""
UNITS = "/etc/systemd/system/"
PATIENCE = 120.0
"""Seconds for a program: systemd reads all units again, and a large directory of groups is slow."""


@dataclass(frozen=True, slots=True)
class AddGroup:
    """Add a group."""

    name: str


@dataclass(frozen=True, slots=True)
class DropGroup:
    """Remove a group that setup added."""

    name: str


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """Make a folder of root's, or give the one that setup made this mode and group."""

    path: str
    mode: int = FOLDER_MODE
    group: str = ""


@dataclass(frozen=True, slots=True)
class WriteText:
    """Write a file."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class MakeLink:
    """Make a link."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class TakeAway:
    """Remove a file or link that setup made."""

    path: str


@dataclass(frozen=True, slots=True)
class TakeFolder:
    """Remove a folder that setup made, if nothing is in it."""

    path: str


@dataclass(frozen=True, slots=True)
class AskSystemd:
    """Tell systemd about it."""

    argv: tuple[str, ...]


BoxStep = AddGroup | DropGroup | OwnFolder | WriteText | MakeLink | TakeAway | TakeFolder | AskSystemd
RELOAD, START, STOP = (
    AskSystemd(("systemctl", "daemon-reload")),
    AskSystemd(("systemctl", "start", TIMER)),
    AskSystemd(("systemctl", "stop", TIMER)),
)


@dataclass(frozen=True, slots=True)
class BoxPlan:
    """What shall be done to a box."""

    steps: tuple[BoxStep, ...] = ()
    good: tuple[str, ...] = ()
    """Paths that are as they should be."""
    blocked: tuple[str, ...] = ()
    """What is in the way and was left alone, a sentence each."""
    remarks: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()
    """Paths that are not taken back now, and stay recorded for later."""


def step_lines(step: BoxStep, root: Path) -> tuple[str, ...]:
    """A step as a person could type it; for a file, what stands in it follows."""
    match step:
        case AddGroup(name):
            return (shlex.join(_group_call("groupadd", name, root)),)
        case DropGroup(name):
            return (shlex.join(_group_call("groupdel", name, root)),)
        case OwnFolder(path, mode, group):
            return (f"install -d -m {mode:04o} -o root -g {group or 'root'} {below(root, path)}",)
        case WriteText(path, text):
            return (f"write {below(root, path)}", *(f"  {line}" for line in text.splitlines()))
        case MakeLink(path, target):
            return (f"ln -s {target} {below(root, path)}",)
        case TakeAway(path):
            return (f"rm {below(root, path)}",)
        case TakeFolder(path):
            return (f"rmdir {below(root, path)}",)
        case AskSystemd(argv):
            return (shlex.join(argv),)


# --- deciding ---------------------------------------------------------------------------------


def plan_setup(
    wanted: BoxDesign, record: BoxRecord, root: Path, facts: BoxFacts, trusted: Collection[int]
) -> BoxPlan:
    """What is missing, and what is in the way (rules 1 and 2)."""
    steps: list[BoxStep] = []
    good: list[str] = []
    blocked: list[str] = []
    if wanted.group and group_entry(root, wanted.group) is None:
        steps.append(AddGroup(wanted.group))
    _plan_ledger(wanted, record, root, trusted, (steps, good, blocked))
    made: list[BoxStep] = []
    for path, text in wanted.files:
        state = file_state(root, path, record)
        _sort(WriteText(path, text), text, state, root, (made, good, blocked))
    for path, target in wanted.links:
        state = link_state(root, path, record)
        _sort(MakeLink(path, target), target, state, root, (made, good, blocked))
    needed = [step.path for step in (*steps, *made) if isinstance(step, OwnFolder | WriteText | MakeLink)]
    parents = [OwnFolder(path) for path in _missing_parents((*needed, RECORD) if steps or made else (), root)]
    steps = [*(step for step in steps if isinstance(step, AddGroup)), *parents,
             *(step for step in steps if not isinstance(step, AddGroup)), *made]  # fmt: skip
    if facts.running:
        timer = any(path == REAP_TIMER for path, _ in wanted.files)
        units = any(isinstance(step, WriteText | MakeLink) and step.path.startswith(UNITS) for step in made)
        idle = timer and not _is_active()
        steps += [*([RELOAD] if units or idle else []), *([START] if idle else [])]
    remarks = list(wanted.remarks)
    if any(isinstance(step, WriteText) and step.path == DELEGATION for step in made):
        remarks.append("control groups are delegated to users from their next login on")
    return BoxPlan(tuple(steps), tuple(good), tuple(blocked), tuple(remarks))


Lists = tuple[list[BoxStep], list[str], list[str]]


def _plan_ledger(
    wanted: BoxDesign, record: BoxRecord, root: Path, trusted: Collection[int], lists: Lists
) -> None:
    steps, good, blocked = lists
    folder = below(root, wanted.ledger)
    if kind := network_file_system(folder, root):
        raise InputError(
            f"{wanted.ledger} is on a network file system ({kind}), where its lock is not safe",
            field="--ledger",
            advice="name a folder on a local disk",
        )
    nearest = next(above for above in folder.parents if os.path.lexists(above))
    if problem := changeable(str(nearest), trusted):
        blocked.append(f"{folder} is not made: others than root could replace it ({problem})")
        return
    step = OwnFolder(wanted.ledger, wanted.mode, wanted.group)
    try:
        status = folder.lstat()
    except OSError:
        steps.append(step)
        return
    entry = group_entry(root, wanted.group) if wanted.group else (0, ())
    right_group = entry is not None and (status.st_gid == entry[0] or os.geteuid() != 0)
    if not stat.S_ISDIR(status.st_mode):
        blocked.append(f"{folder} is left alone: it is not a folder")
    elif stat.S_IMODE(status.st_mode) == wanted.mode and status.st_uid in trusted and right_group:
        good.append(wanted.ledger)
    elif wanted.ledger in record.folders and status.st_uid in trusted:
        steps.append(step)
    else:
        blocked.append(
            f"{folder} is left alone: setup did not make it; it has mode {stat.S_IMODE(status.st_mode):04o}, "
            f"user {status.st_uid} and group {status.st_gid} instead of {wanted.mode:04o}, root and "
            f"{wanted.group or 'root'}"
        )


def _sort(step: WriteText | MakeLink, wanted: str, state: BoxState, root: Path, lists: Lists) -> None:
    """Put a step where it belongs: to do, done already, or in the way."""
    steps, good, blocked = lists
    if state.state != MISSING and state.text == wanted and (state.why == "" or state.why in SAME):
        good.append(step.path)
    elif state.state == FOREIGN:
        blocked.append(f"{below(root, step.path)} is left alone: {state.why}")
    else:
        steps.append(step)


SAME = ("setup did not make it", "it was changed since", "it leads elsewhere")
"""Reasons why something is somebody else's that do not matter where it is what setup would write."""


def _missing_parents(paths: Collection[str], root: Path) -> Iterator[str]:
    """Folders on the way that do not exist yet, the upper ones first."""
    known: dict[str, None] = {}
    for path in paths:
        for above in reversed(PurePosixPath(path).parents):
            if not below(root, str(above)).exists():
                known[str(above)] = None
    yield from known


def _is_active() -> bool:
    return answer_of(("systemctl", "is-active", "--quiet", TIMER))[0] == 0


def plan_undo(record: BoxRecord, root: Path, ledger: str, *, running: bool) -> BoxPlan:
    """What takes back what is recorded (rules 2 and 3); ``ledger``: the folder that the settings name."""
    steps: list[BoxStep] = []
    blocked: list[str] = []
    kept: frozenset[str] = frozenset()
    content = _content(below(root, ledger)) if ledger in record.folders else ()
    left = tuple(name for name in content if not HISTORY.fullmatch(name))
    if left:
        names = ", ".join(map(quoted, left[:3])) + (" …" if len(left) > 3 else "")
        blocked.append(
            f"{below(root, ledger)} is kept: {names} is in it; end the jobs or run 'numawise reap', then "
            "undo again"
        )
        kept = frozenset({ledger} if ledger == LEDGER else {ledger, SETTINGS, TMPFILES})
    elif ledger in record.folders:
        steps += [TakeAway(f"{ledger}/{name}") for name in content]  # who held what, and nobody does
        steps.append(TakeFolder(ledger))  # first: somebody may have recorded a hold meanwhile
    if running and REAP_TIMER in record.files:
        steps.append(STOP)
    for path in record.files:
        _take(path, file_state(root, path, record), root, kept, (steps, [], blocked))
    for path in record.links:
        _take(path, link_state(root, path, record), root, kept, (steps, [], blocked))
    if running and any(isinstance(step, TakeAway) and step.path.startswith(UNITS) for step in steps):
        steps.append(RELOAD)
    steps += [TakeFolder(path) for path in reversed(record.folders) if path not in (*kept, ledger)]
    if record.group and (entry := group_entry(root, record.group)) is not None:
        if entry[1]:
            blocked.append(f"group {record.group} is kept: {', '.join(entry[1][:5])} is in it")
        elif not left:
            steps.append(DropGroup(record.group))
    return BoxPlan(tuple(steps), blocked=tuple(blocked), kept=kept)


def _take(path: str, state: BoxState, root: Path, kept: Collection[str], lists: Lists) -> None:
    steps, _, blocked = lists
    if path in kept:
        blocked.append(f"{below(root, path)} is kept as long as the ledger is")
    elif state.state == AS_RECORDED:
        steps.append(TakeAway(path))
    elif state.state == FOREIGN:
        blocked.append(f"{below(root, path)} is kept: {state.why}")


def _content(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(entry.name for entry in folder.iterdir()))
    except OSError:
        return ()


# --- doing ------------------------------------------------------------------------------------


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Let no second setup change the same system meanwhile."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    mask = os.umask(MASK)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise HostError("another 'numawise setup' is under way", "wait until it has ended") from None
        yield
    finally:
        os.umask(mask)
        os.close(handle)


def do_setup(plan: BoxPlan, root: Path, trusted: Collection[int]) -> None:
    """Carry a plan out, each step recorded first."""
    record = read_record(root, trusted)
    for step in plan.steps:
        match step:
            case OwnFolder(path) if not os.path.lexists(below(root, path)):
                record = record.with_folders((path,))
            case WriteText(path, text):
                record = record.with_file(path, text)
            case MakeLink(path, target):
                record = replace(record, links={**record.links, path: target})
            case _:
                pass
        if below(root, RECORD).parent.is_dir():
            write_whole(below(root, RECORD), record_text(record))
        _do(step, root)
        if isinstance(step, AddGroup):
            record = replace(record, group=step.name)
    if plan.steps:
        write_whole(below(root, RECORD), record_text(record))


def do_undo(plan: BoxPlan, root: Path, ledger: str, trusted: Collection[int]) -> None:
    """Carry a plan that takes back out; what is kept because of the ledger stays recorded."""
    record = read_record(root, trusted)
    later = [step for step in plan.steps if isinstance(step, TakeFolder) and _holds_record(step.path)]
    for step in plan.steps:
        if step not in (*later, RELOAD):
            _do(step, root)
        if step == TakeFolder(ledger) and below(root, ledger).exists():
            raise HostError(
                f"{below(root, ledger)} has come into use meanwhile; nothing was taken back",
                "end the jobs, then undo again",
            )
    rest = BoxRecord(
        {path: sums for path, sums in record.files.items() if path in plan.kept},
        {},
        tuple(path for path in record.folders if plan.kept and below(root, path).is_dir()),
        record.group if record.group and group_entry(root, record.group) else "",
    )
    if rest:
        write_whole(below(root, RECORD), record_text(rest))
    else:
        below(root, RECORD).unlink(missing_ok=True)
        for step in later:
            _do(step, root)
    if RELOAD in plan.steps:  # last: whatever becomes of it, nothing is left behind
        _do(RELOAD, root)


def _holds_record(path: str) -> bool:
    return PurePosixPath(path) in PurePosixPath(RECORD).parents


def _do(step: BoxStep, root: Path) -> None:
    try:
        match step:
            case AddGroup(name):
                _call(_group_call("groupadd", name, root))
            case DropGroup(name):
                _call(_group_call("groupdel", name, root))
            case OwnFolder(path, mode, group):
                _own_folder(below(root, path), mode, group, root)
            case WriteText(path, text):
                write_whole(below(root, path), text)
            case MakeLink(path, target):
                below(root, path).symlink_to(target)
            case TakeAway(path):
                below(root, path).unlink(missing_ok=True)
            case TakeFolder(path):
                with suppress(OSError):  # something else lies in it
                    below(root, path).rmdir()
            case AskSystemd(argv):
                _call(argv)
    except OSError as problem:
        where = problem.filename or ""
        raise HostError(
            f"setup stopped at '{step_lines(step, root)[0]}': {where}: {problem.strerror}",
            "what was done is recorded; run it again to finish, or with --undo to take it back",
        ) from None


def _own_folder(folder: Path, mode: int, group: str, root: Path) -> None:
    """Make a folder whole, or change the one that is there, through its handle."""
    with suppress(FileExistsError):
        folder.mkdir(mode & 0o755)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.geteuid() == 0:
            entry = group_entry(root, group) if group else (0, ())
            os.fchown(handle, 0, entry[0] if entry else 0)
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def _group_call(program: str, name: str, root: Path) -> tuple[str, ...]:
    where = ("--prefix", str(root)) if root != Path("/") else ()
    kind = ("--system",) if program == "groupadd" else ()
    return (program, *where, *kind, name)


def _call(argv: tuple[str, ...]) -> None:
    program = shutil.which(argv[0], path="/usr/sbin:/usr/bin:/sbin:/bin") or argv[0]
    code, said = answer_of((program, *argv[1:]), PATIENCE)
    if code:
        raise HostError(
            f"'{shlex.join(argv)}' failed ({code}): {said or 'it said nothing'}",
            "what was done before is recorded; mend that, and run this command by hand or setup again",
        )
