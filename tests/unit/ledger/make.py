"""Holds and ledgers for tests."""

from pathlib import Path
from typing import Any

from numawise.ledger.store import Ledger
from numawise.results.placement import Grant, Hold, Owner, Waiter
from numawise.sets import parse_ids

MACHINE = "0123456789abcdef0123456789abcdef"
ALICE, BOB, ROOT = 1001, 1002, 0
USERS = {ALICE: "alice", BOB: "bob", ROOT: "root"}


def owner(uid: int = ALICE, **more: Any) -> Owner:
    return Owner(uid=uid, user=USERS[uid], **{"boot": "boot-1", "pid": 4242, "start": 77} | more)


def hold(id_: str, cpus: str = "", gpus: str = "", *, uid: int = ALICE, **more: Any) -> Hold:
    """``hold("k", "0-3", "g1 g2")``: CPUs as a list, GPUs by name."""
    devices = (("nvidia.com/gpu", tuple(gpus.split())),) if gpus else ()
    grant = Grant(cpus=parse_ids(cpus), mems=1, devices=devices)
    return Hold(id_, more.pop("name", "job"), more.pop("owner", owner(uid)), grant, **more)


def waiter(id_: str, **more: Any) -> Waiter:
    return Waiter(id_, owner(**more), "4 CPUs", 5.0)


def opened(path: Path, machine: str = MACHINE, **more: Any) -> Ledger:
    return Ledger.open(path, machine, **{"patience": 10.0} | more)


def recorded(path: Path) -> tuple[Hold, ...]:
    """What a newcomer reads."""
    with opened(path) as ledger:
        return ledger.holds()


def record(path: Path, *holds: Hold) -> None:
    with opened(path) as ledger, ledger.change() as change:
        for one in holds:
            change.add(one)
