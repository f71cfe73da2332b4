"""Steps in the ledger: parts of holds, which take nothing of what is free and go with their holds."""

import json
from pathlib import Path

import pytest

from numawise.errors import LedgerError
from numawise.ledger.record import read_rows
from numawise.ledger.store import Ledger
from numawise.results.placement import STEP, Hold
from numawise.values import replace
from tests.unit.ledger.make import ALICE, BOB, hold, opened, owner


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state"


def step(id_: str, parent: str, cpus: str = "", devices: str = "", **fields: object) -> Hold:
    return replace(hold(id_, cpus, devices, **fields), kind=STEP, parent=parent)


def add(ledger: Ledger, *steps: Hold) -> None:
    with ledger.change() as change:
        for one in steps:
            change.add_step(one)


def test_what_is_recorded_is_read_and_holds_stay_as_they_were(path: Path) -> None:
    with opened(path) as ledger:
        with ledger.change() as change:
            change.add(hold("job", "0-3", "g1 g2", since=1))
        before = ledger.holds()
        add(ledger, step("one", "job", "0-1", "g1", since=2), step("in", "one", "0", since=3))
        assert ledger.holds() == before
        assert [(one.id, one.parent) for one in ledger.steps()] == [("one", "job"), ("in", "one")]
    with opened(path) as again:
        assert again.steps() == (step("one", "job", "0-1", "g1", since=2), step("in", "one", "0", since=3))


@pytest.mark.parametrize(("new", "words"), [
    (step("two", "job", "1-2"),        "CPU 1 cannot go to hold two"),
    (step("two", "job", "", "g1"),     "g1 of"),
    (step("two", "job", "7"),          "CPU 7 cannot go to step two"),
    (step("two", "job", "", "g9"),     "g9 of"),
    (step("two", "nobody", "0"),       "hold nobody is no longer in the ledger"),
    (step("job", "job", "3"),          "there is a hold job already"),
    (step("in", "one", "3"),           "CPU 3 cannot go to step in"),
])  # fmt: skip
def test_nothing_twice_and_nothing_beyond(path: Path, new: Hold, words: str) -> None:
    with opened(path) as ledger:
        with ledger.change() as change:
            change.add(hold("job", "0-3", "g1 g2"))
        add(ledger, step("one", "job", "0-1", "g1"))
        with pytest.raises(LedgerError) as refused:
            add(ledger, new)
        assert words in refused.value.message
        assert [one.id for one in ledger.steps()] == ["one"]


def test_steps_go_with_their_hold(path: Path) -> None:
    with opened(path) as ledger:
        with ledger.change() as change:
            change.add(hold("job", "0-3", since=1))
            change.add(hold("other", "4", since=1))
        add(
            ledger,
            step("one", "job", "0", since=2),
            step("in", "one", since=3),
            step("two", "other", "4", since=2),
        )
        with ledger.change() as change:
            change.remove(hold("job"))
            assert [one.id for one in change.steps] == ["two"]
        (file,) = path.glob("*.json")
        assert [row["id"] for row in json.loads(file.read_text())["steps"]] == ["two"]
        with ledger.change() as change:
            change.reap((hold("other", "4", since=1),), everybodys=True)
        assert ledger.steps() == ()
        assert not file.exists()


def test_a_step_is_its_users_own(path: Path) -> None:
    path.mkdir()
    path.chmod(0o1777)
    theirs = step("one", "job", "0", owner=owner(uid=BOB))
    with opened(path, ALICE) as ledger:
        with ledger.change() as change:
            change.add(hold("job", "0-3", owner=owner(uid=ALICE)))
        with pytest.raises(LedgerError):  # a hold of Bob's own is meant, and there is none
            add(ledger, theirs)


def test_rows_that_lie_are_left_out() -> None:
    good = {"id": "one", "kind": "step", "parent": "job", "pid": 5, "boot": "b"}
    rows = [
        good,
        {**good, "id": "two", "kind": "run"},
        {**good, "id": "three", "parent": "../x"},
        {**good, "id": "four", "parent": ""},
        {**good, "id": "five", "engine": "docker", "container": "f0"},
        {**good, "id": "six", "mode": "cgroup v2", "cgroup": "/numawise/six"},
        {**good, "id": "seven", "pid": 1},
        7,
    ]
    found = read_rows({"steps": rows, "holds": [{**good, "id": "h"}]}, 5, "eve")
    assert [one.id for one in found.steps] == ["one"]
    assert found.holds == ()
    assert len(found.problems) == 8


def test_loops_and_strays_are_nobodys(path: Path) -> None:
    with opened(path) as ledger:
        with ledger.change() as change:
            change.add(hold("job", "0-3", since=1))
        add(ledger, step("one", "job", "0", since=2))
        (file,) = path.glob("*.json")
        data = json.loads(file.read_text())
        row = data["steps"][0]
        strays = (("job", "job"), ("l1", "l2"), ("l2", "l1"), ("lost", "nobody"), ("self", "self"))
        data["steps"] += [{**row, "id": id_, "parent": parent} for id_, parent in strays]
        file.write_text(json.dumps(data))
    with opened(path) as ledger:
        assert [one.id for one in ledger.steps()] == ["one"]
