"""Whatever one party adds, what others hold, wait for or are released from stays as it was.

At full size: ``LAWS=10 scripts/test tests/ledger/test_litter.py``, or ``python -m tests.ledger.litter`` with figures.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.results.placement import EndedHold, Grant, Hold
from tests import needs
from tests.cli.run import program
from tests.ledger.litter import ANNE, CAROL, KINDS, ROOT, STRANGER, by, furnish, opened, owner, seen, strew
from tests.property.strategies import TIMES

pytestmark = [needs.ROOT, needs.PROC, needs.SYS]
COUNT = 10_000 if TIMES >= 10 else 12


@pytest.fixture
def folder() -> Iterator[Path]:
    """As ``/var/tmp`` is: everybody makes files there, and nobody removes those of others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        furnish(Path(name))
        yield Path(name)


def listed(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What ``ps`` tells of everybody but the stranger."""
    data = json.loads(program("ps", "-o", "json", NUMAWISE_LEDGER=str(folder)).out)
    return {name: [row for row in data[name] if row["uid"] != STRANGER] for name in ("holds", "waiting")}


@pytest.mark.parametrize("kind", KINDS)
def test_what_others_have_stays_as_it_was(folder: Path, kind: str) -> None:
    before, rows = by(CAROL, lambda: seen(folder)), listed(folder)
    assert [len(before["others"][name]) for name in ("holds", "waiters", "history")] == [2, 2, 1]
    strew(folder, kind, COUNT)
    for uid in (ROOT, ANNE, CAROL):
        now = by(uid, lambda: seen(folder))
        assert now["others"] == before["others"]
        assert len(now["problems"]) <= 4
        assert set(now["unknown"]) <= {STRANGER}
    assert listed(folder) == rows
    by(ANNE, lambda: release(folder))
    by(CAROL, lambda: add(folder))
    for uid in (ROOT, ANNE, CAROL):
        now = by(uid, lambda: seen(folder))["others"]
        assert [row[:2] for row in now["holds"]] == [[ROOT, "roots"], [CAROL, "carols"]]
        assert now["waiters"] == before["others"]["waiters"]
        assert {tuple(row) for row in now["history"]} == {(ANNE, "old", "ended"), (ANNE, "annes", "released")}


def release(folder: Path) -> None:
    with opened(folder) as ledger, ledger.change() as change:
        hold = next(hold for hold in change.holds if (hold.owner.uid, hold.id) == (ANNE, "annes"))
        change.remove(hold, EndedHold(hold, 10.0, "released"))


def add(folder: Path) -> None:
    with opened(folder) as ledger, ledger.change() as change:
        change.add(Hold("carols", "carols", owner(CAROL), Grant(devices=(("made/up", ("g1",)),)), since=11.0))
