"""Changes of the ledger: whole or not at all, nothing twice, everyone their own."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from numawise.errors import LedgerError
from numawise.ledger.store import Ledger
from numawise.results.placement import CONTAINER, PYTHON, Grant, Hold, MemoryPart
from tests import needs
from tests.unit.ledger.make import ALICE, BOB, MACHINE, ROOT, hold, opened, owner, record, recorded, waiter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.mark.parametrize("one", [
    pytest.param(Hold("k2b3c", "", owner(), Grant()),                               id="nothing but an id"),
    pytest.param(hold("k", "0-3,8,16383", since=1.5e9, policy="restricted", mode="cgroup v2",
                      group="/numawise/k", command=("python", "a b", "")),                   id="a job"),
    pytest.param(hold("k", "1", "g2 g1"),                                                    id="devices in their order"),
    pytest.param(hold("k", kind=CONTAINER, owner=owner(engine="podman", container="f00")),   id="a container"),
    pytest.param(hold("k", kind=PYTHON, owner=owner(namespace=4026531836)),                  id="a pid namespace"),
    pytest.param(hold("k", name="训练 “α”", labels=(("z", "1"), ("a", "é"))),                id="any language"),
    pytest.param(hold("k", command=("\udcff\udc80.py", "ok")),                               id="a command that is not text"),
    pytest.param(Hold("k", "", owner(), Grant(near=0b10, mems=0b11, cpu_limit=1500,
                      memory=(MemoryPart(0b11, 1 << 62), MemoryPart(0b1, 5)))),              id="memory on several nodes"),
    pytest.param(Hold("k", "", owner(), Grant(mems=1, memory_policy="preferred")),           id="memory that may spill"),
    pytest.param(Hold("k", "", owner(), Grant(devices=(("z/nic", ("n",)), ("a/gpu", ("n",))))),
                 id="one name under two resources"),
])  # fmt: skip
def test_what_is_recorded_is_read(path: Path, one: Hold) -> None:
    record(path, one)
    assert recorded(path) == (one,)


def test_oldest_first(path: Path) -> None:
    record(path, hold("c", since=2), hold("b", since=1), hold("a", since=2))
    assert [one.id for one in recorded(path)] == ["b", "a", "c"]


def test_a_change_sees_itself_and_others_see_it_when_it_is_left(path: Path) -> None:
    with opened(path) as ledger, opened(path) as other:
        with ledger.change() as change:
            change.add(hold("a", "0"))
            change.add(hold("b", "1"))
            assert change.remove(hold("a"))
            change.add(hold("c", "0"))
            assert [one.id for one in change.holds] == ["b", "c"]
            assert other.holds() == ()
        assert [one.id for one in other.holds()] == ["b", "c"] == [one.id for one in ledger.holds()]


def spoiled(ledger: Ledger, problem: type[BaseException]) -> None:
    with ledger.change() as change:
        change.remove(hold("a"))
        change.add(hold("b", "0-1"))
        change.wait_in_line(waiter("w"))
        raise problem


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_everything_as_it_was(path: Path, problem: type[BaseException]) -> None:
    record(path, hold("a", "0", "g"))
    with opened(path) as ledger:
        with pytest.raises(problem):
            spoiled(ledger, problem)
        assert (ledger.holds(), ledger.waiters()) == ((hold("a", "0", "g"),), ())
        with ledger.change() as change:
            change.add(hold("c", "1"))
    assert len(recorded(path)) == 2


@pytest.mark.parametrize(("new", "words"), [
    (hold("a", "5"),                                  "there is a hold a already"),
    (hold("b", "3-5"),                       "CPU 3 cannot go to hold b (job): hold a (job) of "),
    (hold("b", "0-5"),                                "CPUs 0-3 cannot go to hold b"),
    (hold("b", "7", "h g1"),                          "g1 of nvidia.com/gpu cannot go to hold b"),
    (hold("b", "7", "h h"),                           "a device of 'nvidia.com/gpu' is named twice"),
    (hold("b", name="\udcff"),                        "name '\\udcff' has characters that cannot be printed"),
    (hold("b", name="a\0b"),                          "name 'a\\x00b' has characters that cannot be printed"),
    (hold("b", name="a\x1b[2Jb"),                     "name 'a\\x1b[2Jb' has characters that cannot be printed"),
    (hold("b", group="/etc"),                         "cgroup '/etc' is not a group of hold b"),
    (hold("b", kind="no such kind"),                  "kind is 'no such kind'"),
    (hold("b", labels=(("x", "1"), ("x", "2"))),      "a label is named twice"),
])  # fmt: skip
def test_what_cannot_be_added(path: Path, new: Hold, words: str) -> None:
    record(path, hold("a", "0-3", "g1"))
    with opened(path) as ledger, ledger.change() as change:
        with pytest.raises(LedgerError) as caught:
            change.add(new)
        assert words in str(caught.value)
        assert caught.value.advice
        change.add(hold("z", "9"))  # the change is none the worse for it
    assert [one.id for one in recorded(path)] == ["a", "z"]


@needs.ROOT
@pytest.mark.parametrize(("uid", "by", "refused"), [
    (ALICE, ALICE, False),
    (ALICE, ROOT,  False),
    (ALICE, BOB,   True),
    (ROOT,  ALICE, True),
])  # fmt: skip
def test_rights(path: Path, uid: int, by: int, *, refused: bool) -> None:
    one = hold("a", "0", uid=uid, name="train")
    record(path, one)
    with opened(path, uid=by) as ledger:
        for step in ("replace", "remove"):
            with ledger.change() as change:
                work = {"replace": lambda c=change: c.replace(one), "remove": lambda c=change: c.remove(one)}
                if refused:
                    with pytest.raises(
                        LedgerError,
                        match=rf"hold a \(train\) belongs to {one.owner.user} .*ask {one.owner.user} .*root",
                    ):
                        work[step]()
                else:
                    work[step]()
        assert bool(ledger.holds()) is refused


@needs.ROOT
def test_two_users_may_write_down_the_same_id(path: Path) -> None:
    """A forged id is a row of its forger, and changes nothing about the other."""
    ours, forged = hold("a", "0"), hold("a", "1", uid=BOB)
    record(path, ours)
    bobs = path / f"numawise-{BOB}.json"
    bobs.write_text((path / f"numawise-{ALICE}.json").read_text().replace('"cpus": "0"', '"cpus": "1"'))
    os.chown(bobs, BOB, BOB)
    with opened(path, uid=BOB) as ledger:
        assert ledger.holds() == (ours, forged)
        with ledger.change() as change:
            assert change.remove(forged)
        assert ledger.holds() == (ours,)


def test_replace_moves_what_is_held(path: Path) -> None:
    record(path, hold("a", "0-1", "g1"), hold("b", "2"))
    with opened(path) as ledger, ledger.change() as change:
        with pytest.raises(LedgerError, match="CPU 2 "):
            change.replace(hold("a", "1-2"))
        change.replace(hold("a", "1,3", "g2"))
        change.add(hold("c", "0", "g1"))
        with pytest.raises(LedgerError, match="hold gone is no longer in the ledger"):
            change.replace(hold("gone"))
    assert recorded(path) == (hold("a", "1,3", "g2"), hold("b", "2"), hold("c", "0", "g1"))


def test_removing_what_is_gone_says_so(path: Path) -> None:
    with opened(path) as ledger, ledger.change() as change:
        assert not change.remove(hold("gone"))


def test_a_hold_with_a_new_owner_is_not_reaped(path: Path) -> None:
    made, bobs = hold("a", "0"), hold("b", "1", uid=BOB)
    record(path, made, bobs, hold("c", "2"))
    with opened(path) as ledger:
        judged = (made, bobs, hold("d", "3"))
        with ledger.change() as change:
            change.replace(replace(made, owner=owner(pid=0, start=0, engine="docker", container="f00")))
        with ledger.change() as change:
            assert change.reap(judged, everybodys=True) == (bobs,)
        assert [one.id for one in ledger.holds()] == ["a", "c"]


def test_ids_are_short_and_no_numbers(path: Path) -> None:
    with opened(path) as ledger, ledger.change() as change:
        made = {change.new_id() for _ in range(300)}
    assert len(made) > 290
    assert all(len(one) == 5 and one[0].isalpha() and one.isalnum() and one.islower() for one in made)


def test_line_is_first_come_first_served(path: Path) -> None:
    mine = partial(waiter, uid=os.geteuid())
    with opened(path) as ledger:
        with ledger.change() as change:
            assert change.waiters == ()
            for since, name in enumerate(("w1", "w2", "w3", "w1")):
                change.wait_in_line(mine(name, since))
        with ledger.change() as change:
            assert [one.id for one in change.waiters] == ["w1", "w2", "w3"]
            change.leave_line(mine("w1"))
            change.leave_line(mine("w1"))
            change.wait_in_line(mine("w1", 9))
            assert [one.id for one in change.waiters] == ["w2", "w3", "w1"]
        with ledger.change() as change:
            change.leave_line(mine("w2"))
        assert ledger.waiters() == (mine("w3", 2), mine("w1", 9))
        with ledger.change() as change, pytest.raises(LedgerError, match="cannot be printed"):
            change.wait_in_line(replace(mine("w9"), request="\udcff"))


def test_version_shows_each_change(path: Path) -> None:
    with opened(path) as ledger, opened(path) as other:
        seen = [ledger.version()]
        for work in (lambda c: c.add(hold("a")), lambda c: c.add(hold("b")), lambda c: c.remove(hold("b"))):
            with other.change() as change:
                work(change)
            seen.append(ledger.version())
            assert ledger.wait_for_change(seen[-1], 0) == seen[-1]
        assert len(set(seen)) == 4


def test_waiting_ends_with_a_change(path: Path) -> None:
    with opened(path) as ledger:
        before = ledger.version()
        thread = threading.Timer(0.05, record, (path, hold("a")))
        thread.start()
        assert ledger.wait_for_change(before, 60) != before
        thread.join()
        assert len(ledger.holds()) == 1


def test_a_change_that_is_over_changes_nothing(path: Path) -> None:
    with opened(path) as ledger:
        with ledger.change() as change:
            pass
        with pytest.raises(RuntimeError, match="over"):
            change.add(hold("a"))
        assert ledger.holds() == ()


def test_one_change_at_a_time(path: Path) -> None:
    with opened(path) as ledger, ledger.change():
        with pytest.raises(RuntimeError), ledger.change():
            pass
        assert ledger.holds() == ()


HOLDER = """
import pathlib, sys
from numawise.ledger.store import Ledger
path, machine = sys.argv[1:]
with Ledger.open(pathlib.Path(path), machine) as ledger, ledger.change():
    print("locked", flush=True)
    sys.stdin.read()
"""


@needs.PROC
def test_patience_ends_and_names_who_is_in_the_way(path: Path) -> None:
    record(path, hold("a"))
    command = [sys.executable, "-c", HOLDER, str(path), MACHINE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "locked\n"
        with opened(path, patience=0.05) as ledger:
            assert len(ledger.holds()) == 1  # readers are not in the way of a writer, nor it of them
            with pytest.raises(LedgerError) as caught, ledger.change():
                pass
        assert f"locked by process {child.pid} (python" in str(caught.value)
        child.communicate("")
    with opened(path, patience=0.05) as ledger, ledger.change() as change:
        change.remove(hold("a"))


def test_a_fork_opens_its_own(path: Path) -> None:
    with opened(path) as ledger:
        ledger._process -= 1
        with pytest.raises(RuntimeError, match="fork"):
            ledger.holds()


@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_a_ledger_that_was_moved_is_noticed(path: Path, what: str) -> None:
    record(path, hold("a"))
    with opened(path) as ledger:
        path.rename(path.with_name("elsewhere"))
        if what == "replaced":
            record(path, hold("new"))
        with pytest.raises(LedgerError, match="was moved or removed"), ledger.change():
            pass
        with pytest.raises(LedgerError, match="was moved or removed"):
            ledger.holds()


def test_nothing_is_made_before_something_is_recorded(path: Path) -> None:
    with opened(path) as ledger, opened(path) as other:
        assert (ledger.holds(), ledger.waiters(), path.exists()) == ((), (), False)
        with other.change() as change:
            change.add(hold("a"))
        assert ledger.holds() == (hold("a"),)


def test_nothing_is_left_when_nothing_is_held(path: Path) -> None:
    record(path, hold("a"))
    with opened(path) as ledger, ledger.change() as change:
        change.remove(hold("a"))
    assert list(path.iterdir()) == []


def test_several_folders_are_one_ledger(path: Path, tmp_path: Path) -> None:
    """What was recorded in another folder counts, and comes to the first with the next change."""
    other = tmp_path / "other"
    record(other, hold("old", "0", since=1))
    with opened((path, other)) as ledger:
        assert ledger.holds() == (hold("old", "0", since=1),)
        with ledger.change() as change:
            with pytest.raises(LedgerError, match="CPU 0 cannot go to hold new"):
                change.add(hold("new", "0"))
            change.add(hold("new", "1", since=2))
        assert [one.id for one in ledger.holds()] == ["old", "new"]
    assert ([file.name for file in path.iterdir()], list(other.iterdir())) == ([f"numawise-{ALICE}.json"], [])


def test_a_relative_name_and_a_link_are_the_same_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record(Path("a"), hold("k", "0"))
    Path("link").symlink_to("a")
    with opened(tmp_path / "link") as ledger, opened(Path("a")) as same:
        assert ledger.path == same.path == (tmp_path / "a").resolve()
        assert ledger.holds() == same.holds() != ()


def test_readable_by_hand(path: Path) -> None:
    record(path, hold("k7m2q", "0-3,8", "GPU-1", command=("python", "train.py"), since=1.0))
    (file,) = path.iterdir()
    data = json.loads(file.read_text())
    assert (data["kind"], data["machine"], len(data["holds"])) == ("Ledger", MACHINE, 1)
    row = data["holds"][0]
    assert [row[key] for key in ("cpus", "mems", "devices", "command")] == [
        "0-3,8", "0", {"nvidia.com/gpu": ["GPU-1"]}, ["python", "train.py"],
    ]  # fmt: skip
    assert "uid" not in row
    assert file.stat().st_uid == ALICE
