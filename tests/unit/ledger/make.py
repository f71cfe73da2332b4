"""Holds and ledgers for tests."""

import os
from pathlib import Path
from typing import Any

from numawise.ledger.file import user_name
from numawise.ledger.store import Ledger
from numawise.results.placement import Grant, Hold, Owner, Waiter
from numawise.sets import parse_ids

MACHINE = "0123456789abcdef0123456789abcdef"
ALICE = os.geteuid() or 51001
"""Whose holds we may record: ours, and as root anybody's."""
BOB, ROOT = 51002, 0


def owner(uid: int = ALICE, **more: Any) -> Owner:
    return Owner(uid=uid, user=user_name(uid), **{"boot": "boot-1", "pid": 4242, "start": 77} | more)


def hold(id_: str, cpus: str = "", gpus: str = "", *, uid: int = ALICE, **more: Any) -> Hold:
    """``hold("k", "0-3", "g1 g2")``: CPUs as a list, GPUs by name."""
    devices = (("nvidia.com/gpu", tuple(gpus.split())),) if gpus else ()
    grant = Grant(cpus=parse_ids(cpus), mems=1, devices=devices)
    return Hold(id_, more.pop("name", "job"), more.pop("owner", owner(uid)), grant, **more)


def waiter(id_: str, since: float = 5.0, **more: Any) -> Waiter:
    return Waiter(id_, owner(**more), "4 CPUs", since)


def opened(path: Path | tuple[Path, ...], machine: str = MACHINE, **more: Any) -> Ledger:
    return Ledger.open(path, machine, **{"patience": 10.0} | more)


def recorded(path: Path) -> tuple[Hold, ...]:
    """What a newcomer reads."""
    with opened(path) as ledger:
        return ledger.holds()


def record(path: Path, *holds: Hold) -> None:
    with opened(path) as ledger, ledger.change() as change:
        for one in holds:
            change.add(one)
