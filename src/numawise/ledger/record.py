"""Holds and waiters as plain data in a user's file, and back with every field checked.

Rules kept here:

1. A file says everything in words a person can read: sets of CPUs and NUMA nodes as lists such as ``0-3,8``.
2. Whoever wrote it is not trusted.  A field of the wrong kind, beyond its bounds or with characters that no
   such field has makes the row bad, with a sentence about it.  Of a bad hold counts what it takes and whose
   process, container or control group it is.  Where the latter two cannot be read, nobody can see that it has
   ended; where not even the rest can, ``lost`` says so.  Any other bad row is left out.
3. Whose row it is does not stand in it: that is the user to whom the kernel says the file belongs.
4. A field that is not known is passed over: a later program may have added it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numawise.results.placement import (
    AFFINITY,
    BOUND,
    CONTAINER,
    ENGINES,
    MEMORY_POLICIES,
    MODES,
    PYTHON,
    RUN,
    STEP,
    WAYS_TO_END,
    EndedHold,
    Grant,
    Hold,
    MemoryPart,
    MemoryPolicy,
    Owner,
    Waiter,
    same_device,
)
from numawise.sets import format_ids, parse_ids
from numawise.values import dataclass, replace

KINDS = (RUN, CONTAINER, PYTHON)
LARGEST_PID = 1 << 22
"""The kernel gives no larger numbers; 1 is the init process and nobody's job."""
LARGEST_NUMBER = (1 << 63) - 1
NOT_OURS = LARGEST_NUMBER
"""A pid namespace that is nobody's: who lives there cannot be looked at, so counts as alive."""
LARGEST_STATUS = 255
MOST_ROWS, MOST_NODES, MOST_DEVICES, MOST_WORDS = 1024, 1024, 1024, 4096
"""Of holds and of waiters in a file; NUMA nodes; devices of a hold; words of a command."""
MOST_CPUS = 1 << 14
TAKEN = frozenset((
    *("id", "boot", "pid", "start", "namespace", "since"),
    *("cpus", "near", "mems", "memory", "devices", "cpuLimit"),
))  # fmt: skip
"""Fields that say what a hold takes from others, and by which process it lives."""
LIFE = frozenset({"engine", "container", "mode", "cgroup"})
"""Fields that say what else it lives by."""
LONGEST, LONGEST_PATH, LONGEST_COMMAND = 256, 4096, 1 << 16
ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,31}", re.ASCII)
BOOT = re.compile(r"[A-Za-z0-9-]{0,64}", re.ASCII)
CONTAINER_ID = re.compile(r"(?:[0-9a-f]{1,64})?", re.ASCII)
IDS = re.compile(r"(?:[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*)?", re.ASCII)
GROUP = re.compile(r"(?:/[^/\x00-\x1f\x7f]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rows:
    """What a file says, as far as it makes sense."""

    holds: tuple[Hold, ...] = ()
    waiters: tuple[Waiter, ...] = ()
    steps: tuple[Hold, ...] = ()
    problems: tuple[str, ...] = ()
    """Why rows were left out, or count in part, a clause each."""
    lost: str = ""
    """The first of them that is about a hold of which nothing counts."""


class Bad(ValueError):
    """A field does not say what such a field says."""


# --- reading ----------------------------------------------------------------------------------


def read_rows(data: Mapping[str, Any], uid: int, user: str) -> Rows:
    """Holds and waiters of one user; what makes no sense is left out."""
    holds: dict[str, Hold] = {}
    waiters: dict[str, Waiter] = {}
    steps: dict[str, Hold] = {}
    problems: list[str] = []
    lost = ""
    for what, read in (("holds", _hold), ("waiters", _waiter), ("steps", _step)):
        rows = data.get(what, [])
        if not isinstance(rows, list) or len(rows) > MOST_ROWS:
            problems.append(f"{what} is not a list of at most {MOST_ROWS}")
            lost = lost or (problems[-1] if what == "holds" else "")
            continue
        for number, row in enumerate(rows):
            try:
                value = read(_row(row), uid, user)
            except Bad as bad:
                problems.append(f"{what}[{number}]: {bad}")
                if what != "holds":
                    continue
                try:
                    value = _bad_hold(_row(row), uid, user)
                except Bad:
                    lost = lost or problems[-1]
                    continue
                if value.grant == Grant():
                    continue
            if not isinstance(value, Hold):
                waiters.setdefault(value.id, value)
            elif value.parent:
                steps.setdefault(value.id, value)
            else:
                holds.setdefault(value.id, value)
    return Rows(tuple(holds.values()), tuple(waiters.values()), tuple(steps.values()), tuple(problems), lost)


def _row(row: object) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise Bad("it is not an object")
    return row


def _hold(row: Mapping[str, Any], uid: int, user: str) -> Hold:
    engine = _chosen(row, "engine", ("", *ENGINES))
    mode, id_ = _chosen(row, "mode", ("", *MODES, *ENGINES)), _matching(row, "id", ID)
    return Hold(
        id=id_,
        name=_text(row, "name"),
        owner=_owner(row, uid, user, engine),
        grant=Grant(
            cpus=_ids(row, "cpus", MOST_CPUS),
            near=_ids(row, "near", MOST_NODES),
            mems=_ids(row, "mems", MOST_NODES),
            memory=tuple(_memory(row)),
            devices=tuple(_devices(row)),
            cpu_limit=_number(row, "cpuLimit", LARGEST_NUMBER),
            memory_policy=_memory_policy(row),
        ),
        kind=_chosen(row, "kind", KINDS, RUN),
        mode=mode,
        group=_group(row, mode, id_),
        policy=_text(row, "policy"),
        command=_words(row, "command"),
        since=_time(row, "since"),
        labels=tuple(_labels(row)),
    )


def _bad_hold(row: Mapping[str, Any], uid: int, user: str) -> Hold:
    """What counts of a hold that makes no sense as a whole (rule 2); raise ``Bad`` where nothing does."""
    taken = {key: row[key] for key in TAKEN & set(row)}
    life = {key: row[key] for key in LIFE & set(row)}
    try:
        return _hold(taken | life, uid, user)
    except Bad:
        hold = _hold(taken, uid, user)
        return replace(hold, owner=replace(hold.owner, namespace=NOT_OURS)) if life else hold


def _step(row: Mapping[str, Any], uid: int, user: str) -> Hold:
    """A part of a hold, for a job inside of that hold's."""
    if row.get("kind") != STEP:
        raise Bad(f"kind is {short(row.get('kind'))}")
    step = _hold({**row, "kind": RUN}, uid, user)
    if step.owner.engine or step.group:
        raise Bad("a step has a container or a control group of its own")
    return replace(step, kind=STEP, parent=_matching(row, "parent", ID))


def _waiter(row: Mapping[str, Any], uid: int, user: str) -> Waiter:
    return Waiter(
        _matching(row, "id", ID),
        _owner(row, uid, user, ""),
        _text(row, "request"),
        _time(row, "since"),
        _asks(row),
    )


def read_ended(row: object, uid: int, user: str) -> EndedHold:
    """A hold that is no more, out of a line of its user's history; raise ``Bad``."""
    content = _row(row)
    status = content.get("status")
    if status is not None and (type(status) is not int or not -LARGEST_STATUS <= status <= LARGEST_STATUS):
        raise Bad(f"status is {short(status)}, not an exit status")
    return EndedHold(
        _hold(_row(content.get("hold")), uid, user),
        _time(content, "at"),
        _chosen(content, "how", WAYS_TO_END),
        status,
        _text(content, "by"),
    )


def _asks(row: Mapping[str, Any]) -> str:
    """What a waiter asks for, as the text of an object whose fields are read by whoever needs them."""
    value = _object(row, "asks")
    try:
        text = json.dumps(value) if value or "asks" in row else ""
    except RecursionError:
        text = " " * LONGEST_PATH
    if len(text) >= LONGEST_PATH:
        raise Bad(f"asks is not an object of at most {LONGEST_PATH} characters")
    return text


def _owner(row: Mapping[str, Any], uid: int, user: str, engine: str) -> Owner:
    pid = _number(row, "pid", LARGEST_PID)
    if pid == 1 or (pid == 0 and not engine):
        raise Bad(f"pid is {pid}, which is not a job's process")
    return Owner(
        uid=uid,
        user=user,
        boot=_matching(row, "boot", BOOT),
        pid=pid,
        start=_number(row, "start", LARGEST_NUMBER),
        engine=engine,
        container=_matching(row, "container", CONTAINER_ID) if engine else "",
        namespace=_number(row, "namespace", LARGEST_NUMBER),
    )


def _group(row: Mapping[str, Any], mode: str, hold: str) -> str:
    """A control group that is this hold's own by its name; where it lies is asked when it is used."""
    value = row.get("cgroup", "")
    if not isinstance(value, str) or len(value) > LONGEST_PATH:
        raise Bad("cgroup is not a path")
    # Version 1 has a folder in each hierarchy, joined by a colon; a name may have colons of its own.
    for folder in re.split(r":(?=/)", value) if value else ():
        above, _, name = folder.rpartition("/")
        own = name in (f"numawise-{hold}", f"numawise-{hold}.scope") or (
            name == hold and above.endswith("/numawise")
        )
        if not own or not GROUP.fullmatch(folder) or ".." in folder.split("/") or mode in ("", AFFINITY):
            raise Bad(f"cgroup {short(value)} is not a group of hold {hold}")
    return value


def _text(row: Mapping[str, Any], key: str) -> str:
    return _clean(row.get(key, ""), key)


def _clean(value: object, key: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise Bad(f"{key} is not a text of at most {LONGEST} characters")
    if not is_plain(value):
        raise Bad(f"{key} {short(value)} has characters that cannot be printed")
    return value


def _matching(row: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    value = row.get(key, "")
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise Bad(f"{key} is {short(value)}")
    return value


def _chosen(row: Mapping[str, Any], key: str, known: tuple[str, ...], default: str = "") -> str:
    value = row.get(key, default)
    if value not in known:
        raise Bad(f"{key} is {short(value)}")
    return str(value)


def _number(row: Mapping[str, Any], key: str, largest: int) -> int:
    value = row.get(key, 0)
    if type(value) is not int or not 0 <= value <= largest:
        raise Bad(f"{key} is {short(value)}, not a number from 0 to {largest}")
    return value


def _time(row: Mapping[str, Any], key: str) -> float:
    value = row.get(key, 0.0)
    if type(value) not in (int, float) or not 0 <= value < 1 << 40:
        raise Bad(f"{key} is {short(value)}, not seconds since 1970")
    return float(value)


def _ids(row: Mapping[str, Any], key: str, most: int) -> int:
    return _set(row.get(key, ""), key, most)


def _set(value: object, key: str, most: int) -> int:
    if not isinstance(value, str) or not IDS.fullmatch(value):
        raise Bad(f"{key} is {short(value)}, not a list such as 0-3,8")
    try:
        bits = parse_ids(value)
    except ValueError as error:
        raise Bad(f"{key} is {short(value)}: {short(str(error))}") from None
    if bits.bit_length() > most:
        raise Bad(f"{key} has numbers of {most} and more")
    return bits


def _memory(row: Mapping[str, Any]) -> Iterator[MemoryPart]:
    for part in _list(row, "memory", MOST_NODES):
        if not isinstance(part, dict):
            raise Bad("memory has a member that is not an object")
        yield MemoryPart(_ids(part, "numa", MOST_NODES), _number(part, "bytes", LARGEST_NUMBER))


def _memory_policy(row: Mapping[str, Any]) -> MemoryPolicy:
    """Rows without it are of programs that bound all memory."""
    value = row.get("memoryPolicy", BOUND)
    for known in MEMORY_POLICIES:
        if value == known:
            return known
    raise Bad(f"memoryPolicy is {short(value)}")


def _devices(row: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for resource, ids in _object(row, "devices").items():
        if not isinstance(ids, list) or len(ids) > MOST_DEVICES:
            raise Bad(f"devices has something else than a list for {short(resource)}")
        devices = tuple(_clean(device, "a device id") for device in ids)
        if len(set(devices)) < len(devices):
            raise Bad(f"a device of {short(resource)} is named twice")
        yield _clean(resource, "a resource"), devices


def _labels(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in _object(row, "labels").items():
        if not isinstance(value, str) or len(value) > LONGEST_PATH:
            raise Bad(f"label {short(name)} is not a text")
        yield _clean(name, "a label"), value


def _words(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    words = _list(row, key, MOST_WORDS)
    if not all(isinstance(word, str) for word in words) or sum(map(len, words)) > LONGEST_COMMAND:
        raise Bad(f"{key} is not a list of words")
    return tuple(words)


def _list(row: Mapping[str, Any], key: str, most: int) -> list[Any]:
    value = row.get(key, [])
    if not isinstance(value, list) or len(value) > most:
        raise Bad(f"{key} is not a list of at most {most}")
    return value


def _object(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = row.get(key, {})
    if not isinstance(value, dict) or len(value) > MOST_DEVICES:
        raise Bad(f"{key} is not an object")
    return value


def is_plain(text: str) -> bool:
    """Whether every character of it can be printed; blanks count, line breaks and controls do not."""
    return text.isprintable()


def short(value: object) -> str:
    """A value for an error: readable and not long."""
    text = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}…"


# --- writing ----------------------------------------------------------------------------------


def data_of(holds: Iterable[Hold], waiters: Iterable[Waiter], steps: Iterable[Hold] = ()) -> dict[str, Any]:
    """Holds, waiters and steps of one user as plain data."""
    data = {
        "holds": [_hold_data(hold) for hold in holds],
        "waiters": [_waiter_data(waiter) for waiter in waiters],
    }
    inner = [_hold_data(step) for step in steps]
    return {**data, "steps": inner} if inner else data


def _hold_data(hold: Hold) -> dict[str, Any]:
    owner, grant = hold.owner, hold.grant
    data = {
        "id": hold.id,
        "name": hold.name,
        "kind": hold.kind,
        **_owner_data(owner),
        "engine": owner.engine,
        "container": owner.container,
        "cpus": format_ids(grant.cpus),
        "near": format_ids(grant.near),
        "mems": format_ids(grant.mems),
        "memory": [{"numa": format_ids(part.numa), "bytes": part.size} for part in grant.memory],
        "devices": {resource: list(devices) for resource, devices in grant.devices},
        "cpuLimit": grant.cpu_limit,
        "memoryPolicy": "" if grant.memory_policy == BOUND else grant.memory_policy,
        "mode": hold.mode,
        "cgroup": hold.group,
        "policy": hold.policy,
        "command": list(hold.command),
        "since": hold.since,
        "labels": dict(hold.labels),
        "parent": hold.parent,
    }
    always = ("id", "name", "kind", "since")
    return {key: value for key, value in data.items() if key in always or value not in ("", 0, [], {})}


def ended_data(ended: EndedHold) -> dict[str, Any]:
    """A hold that is no more, as plain data."""
    data: dict[str, Any] = {"at": ended.at, "how": ended.how}
    if ended.status is not None:
        data["status"] = ended.status
    if ended.by:
        data["by"] = ended.by
    return {**data, "hold": _hold_data(ended.hold)}


def _waiter_data(waiter: Waiter) -> dict[str, Any]:
    return {
        "id": waiter.id,
        **_owner_data(waiter.owner),
        "request": waiter.request,
        "since": waiter.since,
        **({"asks": json.loads(waiter.asks)} if waiter.asks else {}),
    }


def _owner_data(owner: Owner) -> dict[str, Any]:
    return {"boot": owner.boot, "pid": owner.pid, "start": owner.start, "namespace": owner.namespace}


def unfit(row: Hold | Waiter) -> str:
    """What keeps a hold or a waiter from being read as it would be written; '' when nothing does."""
    if isinstance(row, Hold):
        for pairs, what in ((row.grant.devices, "resource"), (row.labels, "label")):
            names = [name for name, _ in pairs]
            if len(set(names)) < len(names):
                return f"a {what} is named twice"
    data = _hold_data(row) if isinstance(row, Hold) else _waiter_data(row)
    read = _waiter if isinstance(row, Waiter) else _step if row.parent else _hold
    try:
        read(json.loads(json_text(data)), row.owner.uid, row.owner.user)
    except ValueError as error:
        return str(error)
    return ""


def text_of(data: Mapping[str, Any]) -> str:
    """Plain data as JSON, a line for each row."""
    lines = []
    for key, value in data.items():
        many = isinstance(value, list) and value
        text = "[\n  " + ",\n  ".join(map(json_text, value)) + "\n]" if many else json_text(value)
        lines.append(f"{json_text(key)}: {text}")
    return "{" + ",\n".join(lines) + "}\n"


def json_text(value: object) -> str:
    """JSON that is UTF-8: words of a command may be bytes that are not text."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def beyond(grant: Grant, whole: Grant) -> str:
    """CPUs and devices of a grant that are no part of another one; '' when there are none."""
    cpus = grant.cpus & ~whole.cpus
    if cpus:
        return f"{'CPU' if cpus.bit_count() == 1 else 'CPUs'} {format_ids(cpus)}"
    there = [(resource, device) for resource, devices in whole.devices for device in devices]
    for resource, devices in grant.devices:
        for device in devices:
            if not any(kind == resource and same_device(device, other) for kind, other in there):
                return f"{device} of {resource}"
    return ""


def taken_by(holds: Iterable[Hold], grant: Grant) -> tuple[str, Hold] | None:
    """Something of the grant that another hold has, and that hold."""
    wanted = [(resource, device) for resource, devices in grant.devices for device in devices]
    for hold in holds:
        both = hold.grant.cpus & grant.cpus
        if both:
            return f"{'CPU' if both.bit_count() == 1 else 'CPUs'} {format_ids(both)}", hold
        for resource, devices in hold.grant.devices:
            for device in devices:
                if any(kind == resource and same_device(device, other) for kind, other in wanted):
                    return f"{device} of {resource}", hold
    return None
