"""What has ended: written down once, bounded, and read without trust."""

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from numawise.ledger import history
from numawise.ledger.store import Ledger
from numawise.results.placement import FOUND_ENDED, RELEASED, EndedHold, Hold
from numawise.values import replace
from tests.unit.ledger.make import ALICE, BOB, hold, opened, owner, record, waiter

HEAD = '{"apiVersion": "numawise.dev/v1", "kind": "LedgerHistory", "machine": "0123456789abcdef0123456789abcdef"}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state"


def file_of(path: Path, uid: int = ALICE) -> Path:
    return path / f"numawise-{uid}.history.jsonl"


def end(ledger: Ledger, *rows: EndedHold) -> None:
    with ledger.change() as change:
        for row in rows:
            change.add(row.hold)
    with ledger.change() as change:
        for row in rows:
            change.remove(row.hold, row)


def test_what_ended_is_read_the_newest_first(path: Path) -> None:
    rows = (
        EndedHold(hold("a", "0-1", "g1", since=5.0, command=("python", "train.py")), 10.0, status=0),
        EndedHold(hold("b", since=6.0), 30.0, RELEASED, by="root"),
        EndedHold(hold("c", since=7.0, name="c"), 20.0, status=-9),
    )
    with opened(path) as ledger:
        end(ledger, *rows)
        assert [(row.hold.id, row.how, row.status, row.by) for row in ledger.history()] == [
            ("b", RELEASED, None, "root"),
            ("c", "ended", -9, ""),
            ("a", "ended", 0, ""),
        ]
        assert ledger.history()[2].hold == rows[0].hold
        assert ledger.holds() == ()
    assert oct(file_of(path).stat().st_mode) == "0o101644"


def test_an_end_of_which_nothing_is_said_is_not_kept(path: Path) -> None:
    with opened(path) as ledger:
        record(path, hold("a"))
        with ledger.change() as change:
            assert change.remove(hold("a"))
        assert ledger.history() == ()
    assert not file_of(path).exists()


def test_a_change_that_fails_says_nothing_of_an_end(path: Path) -> None:
    record(path, hold("a"))
    with opened(path) as ledger:
        with suppress(KeyboardInterrupt), ledger.change() as change:
            change.remove(hold("a"), EndedHold(hold("a"), 9.0))
            raise KeyboardInterrupt
        assert (ledger.history(), [one.id for one in ledger.holds()]) == ((), ["a"])


def test_a_line_of_a_hold_that_is_still_there_is_passed_over(path: Path) -> None:
    """A crash between the line and the ledger; when it ends after all, it is told once."""
    row = EndedHold(hold("a", since=3.0), 9.0)
    with opened(path) as ledger:
        end(ledger, row)
        record(path, row.hold)
        assert ledger.history() == ()
        with ledger.change() as change:
            change.remove(row.hold, replace(row, at=12.0, how=FOUND_ENDED))
        assert [(one.at, one.how) for one in ledger.history()] == [(12.0, FOUND_ENDED)]


def test_it_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "LARGEST_HISTORY", 8000)
    monkeypatch.setattr(history, "KEPT", 10)
    with opened(path) as ledger:
        for number in range(100):
            end(ledger, EndedHold(hold(f"k{number}", since=1.0), float(number)))
            assert file_of(path).stat().st_size <= 8000
        ids = [one.hold.id for one in ledger.history()]
    assert ids == [f"k{number}" for number in range(99, 99 - len(ids), -1)]
    assert len(ids) >= 10


def test_long_commands_and_labels_are_cut(path: Path) -> None:
    long = hold("a", command=("python", *("x" * 300,) * 100), labels=(("asked", "y" * 4000),))
    with opened(path) as ledger:
        end(ledger, EndedHold(long, 9.0))
        (row,) = ledger.history()
    assert (row.hold.command[0], row.hold.command[-1], row.hold.labels) == ("python", "…", ())
    assert file_of(path).stat().st_size < history.LONGEST_LINE


GOOD = json.dumps({"at": 9.0, "how": "ended", "status": 0, "hold": {"id": "good", "name": "n", "pid": 42}})


@pytest.mark.parametrize("line", [
    pytest.param("",                                                                  id="empty"),
    pytest.param("{",                                                                 id="cut"),
    pytest.param("[" * 3000,                                                          id="deep"),
    pytest.param("[]",                                                                id="a list"),
    pytest.param(GOOD.replace('"ended"', '"eaten"'),                                  id="how"),
    pytest.param(GOOD.replace("9.0", '"now"'),                                        id="when"),
    pytest.param(GOOD.replace(": 0", ": 1e400"),                                      id="infinite"),
    pytest.param(GOOD.replace('"good"', r'"\u001b[2J"'),                              id="an id that is none"),
    pytest.param(GOOD.replace('"n"', r'"\u001b[2J"'),                                 id="a name that cannot be printed"),
    pytest.param(GOOD.replace("42", "1"),                                             id="the init process"),
    pytest.param(GOOD.replace('"hold"', '"bold"'),                                    id="no hold"),
    pytest.param(GOOD.replace("}}", '}, "x": "' + "y" * 5000 + '"}'),                 id="too long"),
])  # fmt: skip
def test_lines_that_make_no_sense_are_passed_over(path: Path, line: str) -> None:
    path.mkdir()
    file_of(path).write_text(f"{HEAD}\n{line}\n{GOOD}\n")
    if os.geteuid() != ALICE:
        os.chown(file_of(path), ALICE, -1)
    with opened(path) as ledger:
        assert [one.hold.id for one in ledger.history()] == ["good"]


def test_a_torn_line_does_not_spoil_the_next(path: Path) -> None:
    with opened(path) as ledger:
        end(ledger, EndedHold(hold("a"), 1.0))
        with file_of(path).open("a") as stream:
            stream.write('{"at": 2.0, "ho')
        end(ledger, EndedHold(hold("b"), 3.0))
        assert [one.hold.id for one in ledger.history()] == ["b", "a"]


@pytest.mark.parametrize("text", ["", "nonsense\n", HEAD.replace("0123", "9999") + "\n" + GOOD + "\n"])
def test_a_file_of_another_machine_is_begun_anew(path: Path, text: str) -> None:
    path.mkdir()
    file_of(path).write_text(text)
    file_of(path).chmod(0o644)
    if os.geteuid() != ALICE:
        os.chown(file_of(path), ALICE, -1)
    with opened(path) as ledger:
        assert ledger.history() == ()
        end(ledger, EndedHold(hold("a"), 1.0))
        assert [one.hold.id for one in ledger.history()] == ["a"]


def test_what_is_no_plain_file_is_neither_read_nor_written(path: Path, tmp_path: Path) -> None:
    path.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(f"{HEAD}\n{GOOD}\n")
    file_of(path).symlink_to(elsewhere)
    with opened(path) as ledger:
        assert ledger.history() == ()
        end(ledger, EndedHold(hold("a"), 1.0))
        assert [one.hold.id for one in ledger.history()] == ["a"]
    assert elsewhere.read_text() == f"{HEAD}\n{GOOD}\n"


def test_an_end_that_cannot_be_written_down_keeps_nothing_held(path: Path) -> None:
    with opened(path) as ledger:
        end(ledger, EndedHold(hold("a"), 1.0))
        record(path, hold("b"))
        with ledger.change() as change:
            change.remove(hold("b"), EndedHold(replace(hold("b"), name="\n"), 2.0))
        assert [one.hold.id for one in ledger.history()] == ["a"]
        assert ledger.holds() == ()


def test_folders_in_place_of_the_file_are_passed_by(path: Path) -> None:
    path.mkdir()
    file_of(path).mkdir()
    with opened(path) as ledger:
        end(ledger, EndedHold(hold("a"), 1.0))
        assert [one.hold.id for one in ledger.history()] == ["a"]


@pytest.mark.skipif(os.geteuid() != 0, reason="writes for two users")
def test_root_writes_down_for_each_user(path: Path) -> None:
    rows = [EndedHold(hold(f"k{uid}", uid=uid), 5.0, by="root") for uid in (ALICE, BOB)]
    with opened(path) as ledger:
        end(ledger, *rows)
        end(ledger, EndedHold(hold("more", uid=BOB), 6.0))
        assert [one.hold.owner.uid for one in ledger.history()] == [BOB, ALICE, BOB]
    assert [file_of(path, uid).stat().st_uid for uid in (ALICE, BOB)] == [ALICE, BOB]


@pytest.mark.skipif(os.geteuid() != 0, reason="writes for two users")
def test_nobody_speaks_for_another(path: Path) -> None:
    with opened(path) as ledger:
        end(ledger, EndedHold(hold("a"), 5.0))
        os.chown(file_of(path), BOB, -1)
        assert ledger.history() == ()


def test_earlier_programs_do_not_see_it(path: Path) -> None:
    """A program that knows nothing of it finds no file of a user in it, and removes none."""
    with opened(path) as ledger:
        end(ledger, EndedHold(hold("a"), 5.0))
        with ledger.change() as change:
            change.wait_in_line(waiter("w"))
        assert (ledger.problems, [one.id for one in ledger.waiters()]) == ((), ["w"])


def test_a_container_is_told_too(path: Path) -> None:
    row = Hold("c", "c", owner(pid=0, engine="docker", container="f00d"), hold("c").grant, kind="container")
    with opened(path) as ledger:
        end(ledger, EndedHold(row, 5.0, FOUND_ENDED))
        assert ledger.history()[0].hold.owner.container == "f00d"
