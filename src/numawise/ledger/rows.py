"""The ledger's tables, and holds as rows of them.

Rules kept here:

1. A row says everything in words a person can read with ``sqlite3``: sets of CPUs and NUMA nodes as lists
   such as ``0-3,8``, the rest as plain text or JSON.
2. Who has a CPU or a device stands a second time in a table that has room for one holder each, so not even an
   error in this program can give one thing to two.  The two must agree; if not, the ledger is damaged.
3. Types are kept by checks, not by STRICT tables, because enterprise systems come with SQLite 3.26 or 3.34,
   and a strict table (3.37) would lock their users out of a ledger that others share with them.
"""

import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from numawise.results.placement import Grant, Hold, MemoryPart, Owner, Waiter
from numawise.sets import format_ids, ids_of, parse_ids

APPLICATION = 0x4E554D41
"""Marks the file as ours: the bytes ``NUMA`` in SQLite's header."""
VERSION = 1
"""Of the tables; a program refuses what is newer than it knows."""

TABLES = (
    """CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
)""",
    """CREATE TABLE hold (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('run', 'container', 'python')),
  uid INTEGER NOT NULL CHECK (typeof(uid) = 'integer'),
  user TEXT NOT NULL,
  boot TEXT NOT NULL,
  pid INTEGER NOT NULL CHECK (typeof(pid) = 'integer'),
  start INTEGER NOT NULL CHECK (typeof(start) = 'integer'),
  namespace INTEGER NOT NULL CHECK (typeof(namespace) = 'integer'),
  engine TEXT NOT NULL,
  container TEXT NOT NULL,
  cpus TEXT NOT NULL, -- CPUs it has alone, such as 0-3,8
  near TEXT NOT NULL, -- NUMA nodes whose part of the shared pool it uses
  mems TEXT NOT NULL, -- NUMA nodes its memory comes from
  memory TEXT NOT NULL, -- [[NUMA nodes, bytes], ...]
  devices TEXT NOT NULL, -- {resource: [device, ...], ...}
  cpu_limit INTEGER NOT NULL CHECK (typeof(cpu_limit) = 'integer'), -- thousandths of a CPU
  mode TEXT NOT NULL,
  cgroup TEXT NOT NULL,
  policy TEXT NOT NULL,
  command TEXT NOT NULL, -- [word, ...]
  since REAL NOT NULL CHECK (typeof(since) = 'real'), -- seconds since 1970
  labels TEXT NOT NULL -- {name: value, ...}
)""",
    """CREATE TABLE cpu (
  cpu INTEGER NOT NULL PRIMARY KEY CHECK (cpu >= 0),
  hold TEXT NOT NULL REFERENCES hold (id)
)""",
    """CREATE TABLE device (
  resource TEXT NOT NULL,
  device TEXT NOT NULL,
  hold TEXT NOT NULL REFERENCES hold (id),
  PRIMARY KEY (resource, device)
)""",
    """CREATE TABLE waiter (
  ticket INTEGER NOT NULL PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  uid INTEGER NOT NULL CHECK (typeof(uid) = 'integer'),
  user TEXT NOT NULL,
  boot TEXT NOT NULL,
  pid INTEGER NOT NULL CHECK (typeof(pid) = 'integer'),
  start INTEGER NOT NULL CHECK (typeof(start) = 'integer'),
  namespace INTEGER NOT NULL CHECK (typeof(namespace) = 'integer'),
  request TEXT NOT NULL,
  since REAL NOT NULL CHECK (typeof(since) = 'real')
)""",
    """CREATE TRIGGER hold_gone AFTER DELETE ON hold BEGIN
  DELETE FROM cpu WHERE hold = OLD.id;
  DELETE FROM device WHERE hold = OLD.id;
END""",
)

COLUMNS = (
    "id, name, kind, uid, user, boot, pid, start, namespace, engine, container, cpus, near, mems, memory, "
    "devices, cpu_limit, mode, cgroup, policy, command, since, labels"
)
READ_HOLDS = f"SELECT {COLUMNS} FROM hold ORDER BY since, id"  # noqa: S608 - a constant
ADD_HOLD = f"INSERT INTO hold ({COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS.split(', ')))})"  # noqa: S608
READ_WAITERS = "SELECT id, uid, user, boot, pid, start, namespace, request, since FROM waiter ORDER BY ticket"
ADD_WAITER = (
    "INSERT INTO waiter (id, uid, user, boot, pid, start, namespace, request, since) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Damaged(Exception):
    """A row does not say what such a row says."""


def add_hold(connection: sqlite3.Connection, hold: Hold) -> None:
    """Write a hold and mark its CPUs and devices as taken."""
    owner, grant = hold.owner, hold.grant
    memory = [[format_ids(part.numa), part.size] for part in grant.memory]
    connection.execute(
        ADD_HOLD,
        (
            *(hold.id, hold.name, hold.kind),
            *(owner.uid, owner.user, owner.boot, owner.pid, owner.start, owner.namespace),
            *(owner.engine, owner.container),
            *(format_ids(grant.cpus), format_ids(grant.near), format_ids(grant.mems), _json(memory)),
            *(_json(dict(grant.devices)), grant.cpu_limit),
            *(hold.mode, hold.group, hold.policy, _json(hold.command), float(hold.since)),
            _json(dict(hold.labels)),
        ),
    )
    connection.executemany(
        "INSERT INTO cpu (cpu, hold) VALUES (?, ?)", [(cpu, hold.id) for cpu in ids_of(grant.cpus)]
    )
    connection.executemany(
        "INSERT INTO device (resource, device, hold) VALUES (?, ?, ?)",
        [(resource, device, hold.id) for resource, devices in grant.devices for device in devices],
    )


def read_holds(connection: sqlite3.Connection) -> tuple[Hold, ...]:
    """All holds, the oldest first, checked against the tables of what is taken."""
    holds = tuple(_hold(row) for row in connection.execute(READ_HOLDS))
    _compare(
        ((cpu, hold.id) for hold in holds for cpu in ids_of(hold.grant.cpus)),
        connection.execute("SELECT cpu, hold FROM cpu"),
        "CPU {0}",
    )
    _compare(
        ((r, d, hold.id) for hold in holds for r, devices in hold.grant.devices for d in devices),
        connection.execute("SELECT resource, device, hold FROM device"),
        "device {1} of {0}",
    )
    return holds


def _compare(recorded: Iterable[tuple[Any, ...]], taken: Iterable[tuple[Any, ...]], words: str) -> None:
    differing = set(recorded) ^ set(taken)
    if differing:
        first = min(differing, key=str)
        raise Damaged(f"{words.format(*first)} is in hold {first[-1]} by one table and not by another")


def _hold(row: tuple[Any, ...]) -> Hold:
    name = row[0]
    try:
        (id_, label, kind, uid, user, boot, pid, start, namespace, engine, container, *rest) = row
        (cpus, near, mems, memory, devices, limit, mode, group, policy, command, since, labels) = rest
        return Hold(
            id=id_,
            name=label,
            owner=Owner(uid, user, boot, pid, start, engine, container, namespace),
            grant=Grant(
                cpus=parse_ids(cpus),
                near=parse_ids(near),
                mems=parse_ids(mems),
                memory=tuple(MemoryPart(parse_ids(numa), _whole(size)) for numa, size in _list(memory)),
                devices=tuple((r, tuple(map(_word, ids))) for r, ids in _object(devices).items()),
                cpu_limit=limit,
            ),
            kind=kind,
            mode=mode,
            group=group,
            policy=policy,
            command=tuple(map(_word, _list(command))),
            since=since,
            labels=tuple((key, _word(value)) for key, value in _object(labels).items()),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise Damaged(f"hold {name!r}: {error}") from error


def add_waiter(connection: sqlite3.Connection, waiter: Waiter) -> None:
    """Put somebody at the end of the line."""
    owner = waiter.owner
    who = (owner.uid, owner.user, owner.boot, owner.pid, owner.start, owner.namespace)
    connection.execute(ADD_WAITER, (waiter.id, *who, waiter.request, float(waiter.since)))


def read_waiters(connection: sqlite3.Connection) -> tuple[Waiter, ...]:
    """The line, the first in it first."""
    return tuple(
        Waiter(id_, Owner(uid, user, boot, pid, start, namespace=namespace), request, since)
        for id_, uid, user, boot, pid, start, namespace, request, since in connection.execute(READ_WAITERS)
    )


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Words of a command may be bytes that are not text; only the escaped form can hold those.
    return text if _is_text(text) else json.dumps(value)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _list(text: str) -> list[Any]:
    found = json.loads(text)
    if not isinstance(found, list):
        raise TypeError(f"{text!r} is not a list")
    return found


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError(f"{text!r} is not an object")
    return found


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value


def unfit(hold: Hold) -> str:
    """What keeps a hold from being written as it is; '' when nothing does."""
    owner = hold.owner
    texts = [hold.id, hold.name, hold.mode, hold.group, hold.policy]
    texts += [owner.user, owner.boot, owner.engine, owner.container]
    texts += [text for resource, devices in hold.grant.devices for text in (resource, *devices)]
    if wrong := not_text(texts):
        return wrong
    for pairs, what in ((hold.grant.devices, "resource"), (hold.labels, "label")):
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            return f"a {what} is named twice"
    for resource, devices in hold.grant.devices:
        if len(set(devices)) < len(devices):
            return f"a device of {resource} is named twice"
    return ""


def not_text(texts: Iterable[str]) -> str:
    """Say of the first of them that is not readable text that it is none."""
    return next((f"{text!r} is not text" for text in texts if "\0" in text or not _is_text(text)), "")


def taken_by(holds: Iterable[Hold], grant: Grant) -> tuple[str, Hold] | None:
    """Something of the grant that another hold has, and that hold."""
    wanted = {(resource, device) for resource, devices in grant.devices for device in devices}
    for hold in holds:
        both = hold.grant.cpus & grant.cpus
        if both:
            return f"{'CPU' if both.bit_count() == 1 else 'CPUs'} {format_ids(both)}", hold
        for resource, devices in hold.grant.devices:
            for device in devices:
                if (resource, device) in wanted:
                    return f"{device} of {resource}", hold
    return None
