"""The users' files of a ledger: whose they are, what is refused, what is passed over and named."""

import ctypes
import json
import os
import pwd
import random
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from numawise.errors import LedgerError
from numawise.ledger import listing
from numawise.ledger.file import LARGEST, MOST_OF_ONE
from numawise.ledger.reap import dead
from numawise.sets import ids_of
from tests import needs
from tests.jobs import fork
from tests.unit.ledger.make import ALICE, BOB, MACHINE, hold, opened, record, recorded

GROUP = 54321
DEEP = "[" * 200_000


def own(path: Path) -> Path:
    return path / f"numawise-{ALICE}.json"


def beginning(file: Path) -> bytes:
    """It may be very large."""
    with file.open("rb") as opened_file:
        return opened_file.read(LARGEST)


def edited(**fields: Any) -> Callable[[Path], None]:
    """Change fields of the only hold."""

    def work(file: Path) -> None:
        data = json.loads(file.read_text())
        data["holds"][0] |= fields
        file.write_text(json.dumps(data))

    return work


def headed(**fields: Any) -> Callable[[Path], None]:
    """Change fields of the file."""

    def work(file: Path) -> None:
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return work


def written(text: str | bytes) -> Callable[[Path], None]:
    def work(file: Path) -> None:
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    return work


BAD_FILES = [
    pytest.param(written("holds:\n- 0-3\n"),              "it is not JSON",                     id="not JSON"),
    pytest.param(written(b"\xff\xfe{}"),                  "it is not JSON",                     id="not UTF-8"),
    pytest.param(written(" "),                            "it is not JSON",                     id="blank"),
    pytest.param(written(DEEP),                           "it is not JSON",                     id="too deep"),
    pytest.param(written('{"a": ' + "9" * 9000 + "}"),    "it is not JSON",                     id="a number of 9,000 digits"),
    pytest.param(written("[]"),                           "it is not an object",                id="a list"),
    pytest.param(headed(kind="Pod"),                      "kind is 'Pod', not Ledger",          id="another kind"),
    pytest.param(headed(machine="f" * 32),                "it is of another machine",           id="another machine's"),
]  # fmt: skip
UNREADABLE = [
    pytest.param(written('{"apiVersion": "numawise'),     "it is not JSON",                     id="cut short"),
    pytest.param(headed(apiVersion="numawise.dev/v9"),    "apiVersion is 'numawise.dev/v9'",    id="a later version"),
    pytest.param(lambda file: os.truncate(file, 300),     "it is not JSON",                     id="half of it"),
    pytest.param(lambda file: os.truncate(file, LARGEST + 1), "it is larger than",              id="too large"),
    pytest.param(lambda file: os.truncate(file, 1 << 40), "it is larger than",                  id="much too large"),
    pytest.param(lambda file: file.chmod(0o666),          "others may write it",                id="for everybody to write"),
]  # fmt: skip
BAD_ROWS = [
    pytest.param(headed(holds={}),                        "holds is not a list",                id="holds that are no list"),
    pytest.param(headed(holds=[[]]),                      "holds[0]: it is not an object",      id="a hold that is no object"),
    pytest.param(headed(waiters=[{"id": "w"}]),           "waiters[0]: pid is 0",               id="a waiter without a process"),
    pytest.param(edited(id="../../x"),                    "id is '../../x'",                    id="an id that is a path"),
    pytest.param(edited(id=""),                           "id is ''",                           id="no id"),
    pytest.param(edited(name="a\x1b]0;x"),                "name 'a\\x1b]0;x' has characters",   id="a name with an escape"),
    pytest.param(edited(name="\u202eabc"),                "name '\\u202eabc' has characters",   id="a name that turns the line around"),
    pytest.param(edited(kind="daemon"),                   "kind is 'daemon'",                   id="an unknown kind"),
    pytest.param(edited(pid=1),                           "pid is 1",                           id="init as a job"),
    pytest.param(edited(pid=0),                           "pid is 0",                           id="no process"),
    pytest.param(edited(pid=-1),                          "pid is -1",                          id="every process"),
    pytest.param(edited(pid=True),                        "pid is True",                        id="a truth as a process"),
    pytest.param(edited(pid=1 << 40),                     "pid is",                             id="no kernel has it"),
    pytest.param(edited(boot="../boot"),                  "boot is '../boot'",                  id="a boot that is a path"),
    pytest.param(edited(engine="/tmp/evil"),              "engine is '/tmp/evil'",              id="a program as the engine"),
    pytest.param(edited(engine="docker", container="-v"), "container is '-v'",                  id="an option as the container"),
    pytest.param(edited(mode="sh"),                       "mode is 'sh'",                       id="an unknown mode"),
    pytest.param(edited(mode="cgroup v2", cgroup="/etc"), "cgroup '/etc' is not a group of hold a", id="a group that is not its own"),
    pytest.param(edited(mode="cgroup v2", cgroup="/x/numawise/b"), "is not a group of hold a",  id="the group of another hold"),
    pytest.param(edited(mode="cgroup v2", cgroup="/x/../numawise/a"), "is not a group of hold a", id="a group that climbs"),
    pytest.param(edited(mode="cgroup v2", cgroup="numawise/a"), "is not a group of hold a",     id="a group by a relative path"),
    pytest.param(edited(mode="affinity", cgroup="/x/numawise/a"), "is not a group of hold a",   id="a group in a mode without one"),
    pytest.param(edited(cpus="0-4000000000"),             "cpus is '0-4000000000'",             id="CPUs without an end"),
    pytest.param(edited(cpus="99999"),                    "cpus is '99999'",                    id="a CPU no machine has"),
    pytest.param(edited(cpus="3-1"),                      "cpus is '3-1'",                      id="a range that goes back"),
    pytest.param(edited(mems=[0]),                        "mems is list",                       id="no text"),
    pytest.param(edited(memory=[["0", 5]]),               "memory has a member",                id="memory in an old form"),
    pytest.param(edited(memory=[{"numa": "0", "bytes": -5}]), "bytes is -5",                    id="negative memory"),
    pytest.param(edited(devices={"a/b": ["d", "d"]}),     "a device of 'a/b' is named twice",   id="a device twice"),
    pytest.param(edited(devices={"a/b": ["d\n"]}),        "a device id 'd\\n' has characters",  id="a device with a line break"),
    pytest.param(edited(memoryPolicy="local"),            "memoryPolicy is 'local'",            id="a memory policy that is none"),
    pytest.param(edited(memoryPolicy=["bind"]),           "memoryPolicy is list",               id="a memory policy that is a list"),
    pytest.param(edited(command="rm"),                    "command is not a list",              id="a command that is no list"),
    pytest.param(edited(command=[1]),                     "command is not a list of words",     id="no words"),
    pytest.param(edited(labels={"x": 1}),                 "label 'x' is not a text",            id="a label that is no text"),
    pytest.param(edited(since=float("nan")),              "since is nan",                       id="no time"),
    pytest.param(edited(since=-1),                        "since is -1",                        id="before time"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "words"), BAD_FILES + UNREADABLE + BAD_ROWS)
def test_ones_own_file_is_refused_and_left_alone(
    tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "state"
    record(path, hold("a", "0-3", "g"))
    spoil(own(path))
    before = beginning(own(path))
    for _ in range(2):
        with opened(path, uid=ALICE) as ledger:
            with pytest.raises(LedgerError) as caught:
                ledger.holds()
            assert str(own(path)) in str(caught.value)
            assert words in str(caught.value)
            assert caught.value.advice
            with pytest.raises(LedgerError), ledger.change():
                pass
    assert beginning(own(path)) == before


@pytest.mark.parametrize(("spoil", "words"), BAD_FILES + BAD_ROWS)
def test_somebody_elses_is_passed_over_and_named(
    tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    """Nobody can stop the others by what they write down."""
    path = tmp_path / "state"
    record(path, hold("a", "0-3", "g"))
    spoil(own(path))
    with opened(path, uid=BOB) as ledger:
        assert [one.id for one in ledger.holds() if one.grant.cpus] in ([], ["a"])
        (problem,) = ledger.problems
        assert problem.startswith(f"{own(path)} (uid {ALICE})")
        assert words in problem
        assert len(problem) < 400


@pytest.mark.parametrize(("spoil", "words"), [*UNREADABLE, *BAD_ROWS[:2], *BAD_ROWS[8:13]])
def test_what_its_owner_may_hold_by_it_is_not_known(
    tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    """A ledger that was one: it counts as held, stays as it is, and holds up no other change."""
    record(tmp_path, hold("a", "0-3"))
    spoil(own(tmp_path))
    before = beginning(own(tmp_path))
    with opened(tmp_path, uid=BOB) as ledger, ledger.change() as change:
        assert [(uid, words in why) for uid, why in ledger.unknown] == [(ALICE, True)]
        change.reap(change.holds)
    with opened(tmp_path, uid=0) as ledger:
        if ALICE:
            with ledger.change() as change:
                change.reap([one for one in change.holds if one.owner.uid == ALICE], everybodys=True)
    assert beginning(own(tmp_path)) == before


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "holds:\n- 0-3\n", "\0" * 9000, DEEP, '{"a": 1}'])
def test_what_no_numawise_writes_holds_nothing(tmp_path: Path, text: str) -> None:
    record(tmp_path, hold("a", "0-3"))
    written(text)(own(tmp_path))
    with opened(tmp_path, uid=BOB) as ledger, ledger.change() as change:
        assert (change.holds, ledger.unknown) == ((), ())


def test_a_second_name_takes_nothing_from_a_file(tmp_path: Path) -> None:
    """Where the kernel allows it, anybody can link to it, under any name."""
    record(tmp_path, hold("a", "0-3"))
    for name in (
        "aside",
        f"numawise-{ALICE}-0a0a0a0a.json",
        "numawise-77.json",
        *(f"numawise-{ALICE}-{n:08x}.json" for n in range(99)),
    ):
        (tmp_path / name).hardlink_to(own(tmp_path))
    for uid in (BOB, ALICE):
        with opened(tmp_path, uid=uid) as ledger, ledger.change() as change:
            assert ([one.id for one in change.holds], ledger.unknown) == (["a"], ())
    record(tmp_path, hold("b", "4"))
    assert {one.id for one in recorded(tmp_path)} == {"a", "b"}


def test_what_was_released_does_not_come_back(tmp_path: Path) -> None:
    """By another name that somebody gave an earlier version."""
    record(tmp_path, hold("a", "0-3"))
    aside = tmp_path / "aside"
    aside.hardlink_to(own(tmp_path))
    with opened(tmp_path) as ledger, ledger.change() as change:
        change.remove(hold("a", "0-3"))
    own(tmp_path).hardlink_to(aside)
    own(tmp_path).with_name(f"numawise-{ALICE}-0a0a0a0a.json").hardlink_to(aside)
    for uid in (ALICE, BOB):
        with opened(tmp_path, uid=uid) as ledger:
            assert (ledger.holds(), ledger.unknown) == ((), ())
    record(tmp_path, hold("b", "0-3"))
    assert [one.id for one in recorded(tmp_path)] == ["b"]


@pytest.mark.parametrize("usual", [True, False])
def test_a_ledger_of_another_folder_is_none_here(tmp_path: Path, usual: bool) -> None:  # noqa: FBT001
    """Somebody gave it a second name here; it is neither counted nor emptied."""
    mine, common = tmp_path / "mine", tmp_path / "common"
    record(mine, hold("a", "0-3"))
    common.mkdir()
    (common / f"numawise-{ALICE}{'' if usual else '-0a0a0a0a'}.json").hardlink_to(own(mine))
    record(common, hold("b", "0-3"))
    assert [one.id for one in recorded(common)] == ["b"]
    assert [one.id for one in recorded(mine)] == ["a"]


@pytest.mark.parametrize(
    ("text", "mode"), [("apiVersion: v1", 0o644), ('{"apiVersion": "v1"}', 0o644), ("secret", 0o600)]
)
def test_a_second_name_of_something_else_is_litter(tmp_path: Path, text: str, mode: int) -> None:
    """Somebody gave another file of Alice's a name of the ledger's form: it holds nothing, and stops nobody."""
    record(tmp_path, hold("a", "0-3"))
    (tmp_path / "pod.json").write_text(text)
    (tmp_path / "pod.json").chmod(mode)
    os.chown(tmp_path / "pod.json", ALICE, -1)
    (tmp_path / f"numawise-{ALICE}-0a0a0a0a.json").hardlink_to(tmp_path / "pod.json")
    for uid in (ALICE, BOB):
        with opened(tmp_path, uid=uid) as ledger:
            assert ([one.id for one in ledger.holds()], ledger.unknown) == (["a"], ())
    record(tmp_path, hold("b", "4"))
    assert (tmp_path / "pod.json").read_text() == text


@needs.ROOT
def test_other_files_of_a_user_push_no_ledger_out(tmp_path: Path) -> None:
    """Somebody took Alice's usual name, and gave many newer files of hers names of the ledger's form."""
    own(tmp_path).write_text("taken")
    os.chown(own(tmp_path), BOB, -1)
    record(tmp_path, hold("a", "0-3"))
    work = tmp_path / "work"
    work.mkdir()
    for number in range(listing.MOST_TRIED + 5):
        (work / str(number)).write_text("data")
        os.chown(work / str(number), ALICE, -1)
        (tmp_path / f"numawise-{ALICE}-{number:08x}.json").hardlink_to(work / str(number))
    with opened(tmp_path, uid=BOB) as ledger:
        assert [one.id for one in ledger.holds()] == ["a"]


def test_a_folder_that_was_moved_goes_on(tmp_path: Path) -> None:
    record(tmp_path / "old", hold("a", "0-3"))
    (tmp_path / "old").rename(tmp_path / "new")
    assert [one.id for one in recorded(tmp_path / "new")] == ["a"]


@needs.ROOT
def test_one_user_under_many_numbers_counts_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may be 65,536 more by a user namespace; the others are still read, and so is that user's own file."""
    table = tmp_path / "subuid"
    table.write_text(f"# comment\neve:100000:65536\n{BOB}:200000:65536\nbroken\n")
    monkeypatch.setattr(listing, "SUBORDINATE", table)
    place = tmp_path / "state"
    others = [ALICE, *(3_000_000 + number for number in range(20))]
    record(place, *(hold(f"k{uid}", uid=uid) for uid in (*others, *range(100_000, 100_050))))
    with opened(place, uid=BOB) as ledger:
        uids = {one.owner.uid for one in ledger.holds()}
        assert uids & set(others) == set(others)
        assert len(uids) == len(others) + listing.MOST_SUBORDINATE
        assert ledger.unknown == ()
        (problem,) = ledger.problems
        assert "one too many of the subordinate ids of eve; so are 45 more such files" in problem


@needs.ROOT
def test_users_with_a_name_are_not_subordinate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those of a directory, whose numbers are in the range that ``useradd`` gave the first local user."""
    table = tmp_path / "subuid"
    table.write_text("eve:100000:65536\n")
    monkeypatch.setattr(listing, "SUBORDINATE", table)
    monkeypatch.setattr(
        "pwd.getpwuid", lambda uid: pwd.struct_passwd((f"u{uid}", "x", uid, uid, "", "/", ""))
    )
    place = tmp_path / "state"
    users = range(100_000, 100_000 + listing.FEW_OWNERS + 1)
    record(place, *(hold(f"k{uid}", uid=uid) for uid in users))
    with opened(place, uid=BOB) as ledger:
        assert {one.owner.uid for one in ledger.holds()} == set(users)


@needs.ROOT
def test_more_users_than_can_be_read_are_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is past the bound counts as held: nothing is granted, and one sentence says why."""
    monkeypatch.setattr(listing, "MOST_OWNERS", 5)
    record(tmp_path, *(hold(f"k{uid}", uid=uid) for uid in range(1000, 1006)))
    with opened(tmp_path, uid=BOB) as ledger:
        assert len(ledger.holds()) == 5
        assert ledger.unknown == ((-1, f"{tmp_path} has files of more users than can be read"),)
        assert len(ledger.problems) == 1


@pytest.mark.parametrize(("fields", "cpus"), [
    ({"kind": "daemon"}, "0-3"), ({"mode": "cgroup v3"}, "0-3"), ({"name": "\n"}, "0-3"), ({"cgroup": "/etc"}, "0-3"),
    ({"memoryPolicy": "weighted"}, "0-3"), ({"labels": {"x": 1}}, "0-3"), ({"command": "rm"}, "0-3"),
])  # fmt: skip
def test_of_a_bad_hold_counts_what_it_takes(tmp_path: Path, fields: dict[str, Any], cpus: str) -> None:
    """Such as one of a later numawise, which knows another kind."""
    record(tmp_path, hold("a", "0-3"))
    edited(**fields)(own(tmp_path))
    with opened(tmp_path, uid=BOB) as ledger, ledger.change() as change:
        assert [(one.id, one.grant.cpus) for one in change.holds] == [("a", 0b1111)]
        assert ledger.unknown == ()
        with pytest.raises(LedgerError, match="hold a of"):
            change.add(hold("b", cpus, uid=BOB))


@pytest.mark.parametrize(("fields", "lives"), [
    ({"engine": "apptainer", "container": "ab12"}, True), ({"mode": "cgroup v3", "cgroup": "/x/numawise/a"}, True),
    ({"kind": "daemon", "engine": "docker", "container": "ab12"}, True), ({"kind": "daemon"}, False),
])  # fmt: skip
def test_a_bad_hold_ends_when_that_can_be_seen(
    tmp_path: Path, fields: dict[str, Any], *, lives: bool
) -> None:
    """A container or control group of a later numawise may run on after the process that made it."""
    record(tmp_path, hold("a", "0-3"))
    edited(**fields)(own(tmp_path))
    with opened(tmp_path, uid=BOB) as ledger:
        (one,) = ledger.holds()
    ended = dead([one], one.owner.boot, lambda each: each.owner.engine == "docker", namespace=1)
    assert ended == (() if lives else (one,))


def test_one_bad_row_hides_no_other(tmp_path: Path) -> None:
    record(tmp_path, hold("a", "0"), hold("b", "1"))
    edited(pid=1)(own(tmp_path))
    with opened(tmp_path, uid=BOB) as ledger:
        assert [one.id for one in ledger.holds()] == ["b"]


def test_what_a_later_program_added_is_passed_over(tmp_path: Path) -> None:
    record(tmp_path, hold("a", "0"))
    edited(colour="blue")(own(tmp_path))
    headed(quota=7)(own(tmp_path))
    assert recorded(tmp_path) == (hold("a", "0"),)


def replaced(make: Callable[[Path, Path], object]) -> Callable[[Path], None]:
    """Put something else in the place of a file; it gets a folder to play with."""

    def work(file: Path) -> None:
        aside = file.with_name("aside")
        file.rename(aside)
        make(file, aside)

    return work


@pytest.mark.parametrize(("spoil", "words"), [
    pytest.param(replaced(lambda file, aside: file.symlink_to(aside)),       "it is a link",                id="a link"),
    pytest.param(replaced(lambda file, _: file.symlink_to("/dev/zero")),     "it is a link",                id="a link to a device"),
    pytest.param(replaced(lambda file, _: file.symlink_to("missing")),       "it is a link",                id="a link to nothing"),
    pytest.param(replaced(lambda file, _: os.mkfifo(file)),                  "it is not a regular file",    id="a FIFO"),
    pytest.param(replaced(lambda file, _: file.mkdir()),                     "it is not a regular file",    id="a folder"),
])  # fmt: skip
def test_what_is_no_plain_file_is_no_ledger(
    tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    """Nothing is followed, waited for or read; and its owner goes on under another name."""
    path = tmp_path / "state"
    record(path, hold("a", "0"))
    spoil(own(path))
    with opened(path) as ledger:
        assert ledger.holds() == ()
        assert words in ledger.problems[0]
        with ledger.change() as change:
            change.add(hold("b", "0"))
        assert [one.id for one in ledger.holds()] == ["b"]
    assert os.path.lexists(own(path))


def test_a_user_has_a_bounded_number_of_files(tmp_path: Path) -> None:
    record(tmp_path, hold("a", "0"))
    for count in range(MOST_OF_ONE + 3):
        copy = tmp_path / f"numawise-{ALICE}-{count:08x}.json"
        copy.write_text(own(tmp_path).read_text().replace('"id": "a"', f'"id": "k{count}"'))
        os.chown(copy, ALICE, -1)
    with opened(tmp_path, uid=BOB) as ledger:
        assert len(ledger.holds()) == MOST_OF_ONE
        assert "a" in {one.id for one in ledger.holds()}
        (problem,) = ledger.problems
        assert "one too many; so are 3 more such files" in problem


def test_damage_anywhere_is_an_answer(tmp_path: Path) -> None:
    """Whichever byte is lost, the file is refused or says of each CPU at most one holder."""
    record(tmp_path, *(hold(f"k{n}", f"{4 * n}-{4 * n + 3}", f"g{n}") for n in range(8)))
    file = own(tmp_path)
    data = file.read_bytes()
    chance = random.Random(1)
    refused = 0
    for _ in range(300):
        spoiled = bytearray(data)
        at = chance.randrange(len(data))
        spoiled[at : at + 1] = chance.randbytes(1)
        file.write_bytes(spoiled)
        try:
            with opened(tmp_path, uid=ALICE) as ledger:
                holds = ledger.holds()
        except LedgerError:
            refused += 1
        else:
            assert len(holds) <= 8
            assert all(list(ids_of(one.grant.cpus)) for one in holds if one.grant.cpus)
    assert refused > 10


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_everybody_may_read_and_nobody_else_write(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        record(tmp_path, hold("a"))
    finally:
        os.umask(before)
    status = own(tmp_path).stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o1644, ALICE)


def test_new_folders_are_private(tmp_path: Path) -> None:
    record(tmp_path / "a" / "b", hold("a"))
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o700


@pytest.mark.parametrize(("mode", "refused"), [
    (0o700, ""), (0o755, ""), (0o1777, ""), (0o3775, ""),
    (0o777, "everybody may write it"), (0o2770, "may write it, and without the sticky bit"),
])  # fmt: skip
def test_a_folder_in_which_others_can_remove_files(tmp_path: Path, mode: int, refused: str) -> None:
    place = tmp_path / "state"
    place.mkdir()
    place.chmod(mode)
    if not refused:
        record(place, hold("a"))
        return
    with pytest.raises(LedgerError, match=refused) as caught:
        record(place, hold("a"))
    assert caught.value.advice == f"chmod +t {place}"
    assert (list(place.iterdir()), stat.S_IMODE(place.stat().st_mode)) == ([], mode)


def test_what_a_killed_writer_left_is_cleared(tmp_path: Path) -> None:
    half = tmp_path / f".numawise-{ALICE}.0123abcd.new"
    half.write_text("{")
    other = tmp_path / ".numawise-77.0123abcd.new"
    other.write_text("{")
    record(tmp_path, hold("a"))
    assert (half.exists(), other.exists()) == (False, True)


@pytest.mark.parametrize("name", ["ledger.db", "state/ledger.db"])
def test_a_file_in_place_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name.split("/", maxsplit=1)[0]).touch()
    with pytest.raises(LedgerError, match="is not a folder; the ledger is a folder") as caught:
        record(tmp_path / name, hold("a"))
    assert "earlier numawise" in caught.value.advice


# --- two real users ------------------------------------------------------------------------------


ACT = f"""
import grp, json, os, pathlib, pwd, sys  # all that is needed, while we may read it
from numawise.errors import LedgerError
from numawise.results.placement import Grant, Hold, Owner
from numawise.ledger.store import Ledger
uid, path, how, name, cpus = int(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:]
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
os.umask(0o077)
try:
    with Ledger.open(path, {MACHINE!r}) as ledger:
        with ledger.change() as change:
            if how == "add":
                change.add(Hold(name, "", Owner(uid, "", "", 7), Grant(int(cpus))))
            else:
                change.remove(next(one for one in change.holds if one.id == name))
        print(*(one.id for one in ledger.holds()))
except LedgerError as error:
    print(error)
"""


def as_user(uid: int, path: Path, how: str, name: str, cpus: int = 0) -> str:
    """What another user gets who adds or removes a hold of that name."""
    words = [str(uid), str(path), how, name, str(cpus)]
    done = subprocess.run([sys.executable, "-c", ACT, *words], capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout.strip()


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder as ``/var/tmp`` is: root's, for everybody to make files in."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)


@needs.ROOT
def test_users_share_one_truth(public: Path) -> None:
    assert as_user(ALICE, public, "add", "a", 0b11) == "a"
    assert "CPU 1 cannot go to hold b: hold a of" in as_user(BOB, public, "add", "b", 0b10)
    assert as_user(BOB, public, "add", "b", 0b100) == "a b"
    assert "hold a belongs to" in as_user(BOB, public, "remove", "a")
    assert [(one.id, one.owner.uid) for one in recorded(public)] == [("a", ALICE), ("b", BOB)]
    with opened(public) as ledger, ledger.change() as change:  # root
        change.remove(next(one for one in change.holds if one.id == "b"))
    assert [one.name for one in public.iterdir()] == [f"numawise-{ALICE}.json"]
    assert as_user(ALICE, public, "remove", "a") == ""
    assert list(public.iterdir()) == []


@needs.ROOT
def test_nobody_writes_for_somebody_else(public: Path) -> None:
    """A file under Alice's name that is Bob's is nobody's, is named, and keeps Alice from nothing."""
    assert as_user(BOB, public, "add", "b", 0b100) == "b"
    bobs = public / f"numawise-{BOB}.json"
    bobs.rename(public / f"numawise-{ALICE}.json")
    assert as_user(ALICE, public, "add", "a", 0b1) == "a"
    assert [(one.id, one.owner.uid) for one in recorded(public)] == [("a", ALICE)]
    with opened(public) as ledger:
        ledger.holds()
        assert ledger.problems == (
            f"{public}/numawise-{ALICE}.json (uid {BOB}) is ignored: it lies under the name of another user",
        )
    with opened(public, uid=ALICE) as ledger:
        ledger.holds()
        (problem,) = ledger.problems
        assert "under the name of another user, yours; your holds are recorded under another name" in problem
    assert as_user(ALICE, public, "remove", "a") == ""
    assert own(public).stat().st_uid == BOB, "it stays where it is"


@needs.ROOT
@needs.PROC
def test_a_user_namespace_names_its_file_as_the_rest_knows_it(public: Path) -> None:
    """Root of a namespace of Alice's is Alice to all others, and knows the file as its own."""
    ours, theirs = socket.socketpair()
    pid = fork()
    if not pid:
        ours.close()  # else the child would never see that its parent has gone
        _as_root_of_a_namespace(public, theirs)
    theirs.close()
    try:
        if ours.recv(1) != b"1":
            pytest.skip("user namespaces are not allowed here")
        for kind in ("uid", "gid"):
            Path(f"/proc/{pid}/{kind}_map").write_text(f"0 {ALICE} 1\n")
        ours.send(b"1")
        assert ours.recv(4096).decode() == "['n'] ()"
    finally:
        ours.close()
        os.waitpid(pid, 0)
    assert [file.name for file in public.iterdir()] == [f"numawise-{ALICE}.json"]
    assert [(one.id, one.owner.uid) for one in recorded(public)] == [("n", ALICE)]


def _as_root_of_a_namespace(place: Path, parent: socket.socket) -> NoReturn:
    try:
        failed = ctypes.CDLL(None).unshare(0x10000000)  # CLONE_NEWUSER
        parent.send(b"0" if failed else b"1")
        if not parent.recv(1):
            os._exit(0)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        with opened(place, uid=0) as ledger, ledger.change() as change:
            change.add(hold("n", uid=0))
        with opened(place, uid=0) as ledger:
            said = f"{[one.id for one in ledger.holds()]} {ledger.problems}"
        parent.send(said.encode())
    except Exception as problem:  # noqa: BLE001 - the other side shows it
        parent.send(repr(problem).encode())
    finally:
        os._exit(0)


@needs.ROOT
def test_root_gives_a_users_file_back_to_the_user(public: Path) -> None:
    assert as_user(ALICE, public, "add", "a", 0b1) == "a"
    assert as_user(ALICE, public, "add", "b", 0b10) == "a b"
    with opened(public) as ledger, ledger.change() as change:
        change.remove(next(one for one in change.holds if one.id == "a"))
    assert own(public).stat().st_uid == ALICE
    assert as_user(ALICE, public, "add", "c", 0b1) == "b c"


@needs.ROOT
def test_root_changes_no_mode_and_no_group_of_a_folder(public: Path) -> None:
    place = public / "numawise"
    place.mkdir()
    os.chown(place, 0, GROUP)
    place.chmod(0o1770)
    record(place, hold("a"), hold("b", uid=BOB))
    status = place.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o1770, GROUP)


@needs.ROOT
def test_root_follows_no_link_that_somebody_laid(public: Path) -> None:
    secret = public / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    for name in (f"numawise-{ALICE}.json", "numawise-0.json", ".numawise-0.00000000.new"):
        (public / name).symlink_to(secret)
    with opened(public) as ledger, ledger.change() as change:
        change.add(hold("a", uid=0))
        change.add(hold("b"))
    assert (secret.read_text(), stat.S_IMODE(secret.stat().st_mode), secret.stat().st_uid) == ("x", 0o600, 0)
    assert len(recorded(public)) == 2


@needs.ROOT
def test_a_folder_that_may_not_be_written(public: Path) -> None:
    place = public / "closed"
    place.mkdir()
    answer = as_user(ALICE, place, "add", "a")
    assert f"user {ALICE} may not write the ledger {place}" in answer
    assert "NUMAWISE_LEDGER" in answer
