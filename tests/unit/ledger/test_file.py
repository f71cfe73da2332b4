"""The ledger's file: made whole, shared as its folder is, refused unless it is this machine's own."""

import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from numawise.errors import LedgerError
from numawise.ledger.file import SUFFIXES, Access
from numawise.ledger.rows import VERSION
from numawise.sets import ids_of
from tests.unit.ledger.make import MACHINE, hold, opened, record, recorded

GROUP, MEMBER, STRANGER = 54321, 51001, 51002
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")


def sql(*statements: str) -> Callable[[Path], None]:
    """Do something to a ledger behind our back."""

    def work(path: Path) -> None:
        record(path, hold("a", "0-3", "g"))
        connection = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return work


def other_program(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url)")
    connection.close()


def overwritten(at: int, what: bytes) -> Callable[[Path], None]:
    def work(path: Path) -> None:
        record(path, hold("a", "0-3", "g"))
        data = bytearray(path.read_bytes())
        data[at : at + len(what)] = what
        path.write_bytes(data)

    return work


def text(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("holds:\n- 0-3\n" * 100)


def cut(path: Path) -> None:
    record(path, *(hold(f"k{n}", str(n)) for n in range(100)))
    os.truncate(path, path.stat().st_size // 2)


def folder(path: Path) -> None:
    path.mkdir(parents=True)


def pipe(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)


def log_alone(path: Path) -> None:
    with opened(path) as ledger:
        with ledger.change() as change:
            change.add(hold("a"))
        shutil.copy(f"{path}-wal", f"{path}-kept")
    Path(f"{path}-kept").rename(f"{path}-wal")
    path.unlink()


def another_machine(path: Path) -> None:
    with opened(path, "f" * 32):
        pass


@pytest.mark.parametrize(("spoil", "words"), [
    pytest.param(text,                                                       ["is not a SQLite database", "move"],          id="text"),
    pytest.param(other_program,                                              ["another program", "NUMAWISE_LEDGER"],     id="another program's"),
    pytest.param(another_machine,                                            ["of another machine", "f" * 32, MACHINE, "move"], id="another machine's"),
    pytest.param(sql(f"PRAGMA user_version = {VERSION + 1}"),                ["newer numawise", "update"],               id="newer"),
    pytest.param(sql("PRAGMA user_version = 0"),                             ["damaged", "move"],                        id="no version"),
    pytest.param(sql("DROP TABLE waiter"),                                   ["damaged", "tables"],                      id="a table is missing"),
    pytest.param(sql("CREATE TRIGGER t AFTER INSERT ON hold BEGIN DELETE FROM cpu; END"), ["damaged", "tables"],          id="a foreign trigger"),
    pytest.param(sql("DELETE FROM cpu WHERE cpu = 2"),                       ["damaged", "CPU 2 is in hold a"],          id="tables that differ"),
    pytest.param(sql("INSERT INTO device VALUES ('x/y', 'd', 'a')"),         ["damaged", "device d of x/y"],             id="devices that differ"),
    pytest.param(sql("UPDATE hold SET cpus = '0-x'"),                        ["damaged", "hold 'a'"],                    id="no list of CPUs"),
    pytest.param(sql("UPDATE hold SET command = '{}'"),                      ["damaged", "'{}' is not a list"],             id="no list of words"),
    pytest.param(sql("UPDATE hold SET command = '[1]'"),                     ["damaged", "1 is not text"],                id="no words"),
    pytest.param(sql("UPDATE hold SET labels = '['"),                        ["damaged", "hold 'a'"],                    id="broken JSON"),
    pytest.param(sql("UPDATE hold SET memory = '[[0]]'"),                    ["damaged", "hold 'a'"],                    id="half a pair"),
    pytest.param(sql("UPDATE hold SET name = CAST(x'ff' AS TEXT)"),          ["damaged", "move"],                        id="no UTF-8"),
    pytest.param(overwritten(0, b"\0" * 100),                                ["is not a SQLite database"],                  id="header lost"),
    pytest.param(overwritten(100, b"\xff" * 3000),                           ["damaged"],                                id="first page lost"),
    pytest.param(overwritten(4096, b"\0" * 4096),                            ["damaged"],                                id="second page lost"),
    pytest.param(cut,                                                        ["damaged", "move"],                        id="cut short"),
    pytest.param(folder,                                                     ["is not a file", "NUMAWISE_LEDGER"],       id="a folder"),
    pytest.param(pipe,                                                       ["is not a file"],                          id="a pipe"),
    pytest.param(log_alone,                                                  ["is gone, but its log ledger.db-wal"],     id="a log without its ledger"),
])  # fmt: skip
def test_refused_and_left_alone(tmp_path: Path, spoil: Callable[[Path], None], words: list[str]) -> None:
    path = tmp_path / "state" / "ledger.db"
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    for _ in range(2):
        with pytest.raises(LedgerError) as caught:
            recorded(path)
        assert all(word in str(caught.value) for word in [str(path.parent), *words])
        assert caught.value.advice
    assert (path.read_bytes() if path.is_file() else None) == before


def test_damage_anywhere_is_an_answer(tmp_path: Path) -> None:
    """Whichever bytes are lost, the ledger is refused or says of each CPU at most one holder."""
    whole = tmp_path / "ledger.db"
    record(whole, *(hold(f"k{n}", f"{4 * n}-{4 * n + 3}", f"g{n}") for n in range(8)))
    data = whole.read_bytes()
    chance = random.Random(1)
    refused = 0
    for count in range(150):
        path = tmp_path / f"{count}.db"
        spoiled = bytearray(data)
        at = chance.randrange(len(data)) if count % 2 else data.index(b'["g3"]') - chance.randrange(100)
        spoiled[at : at + 1] = chance.randbytes(1)
        path.write_bytes(spoiled)
        try:
            held = [cpu for one in recorded(path) for cpu in ids_of(one.grant.cpus)]
        except LedgerError:
            refused += 1
        else:
            assert len(held) == len(set(held))
    assert refused > 10


def test_a_torn_log_gives_back_a_state_that_was(tmp_path: Path) -> None:
    """What a power cut leaves of the log is never half a change."""
    path = tmp_path / "ledger.db"
    states = [()]
    with opened(path) as ledger:
        for count in range(6):
            with ledger.change() as change:
                if count:
                    change.remove(f"k{count - 1}", by=0)
                change.add(hold(f"k{count}", "0-99", "g1 g2"))
                change.add(hold(f"z{count}", str(100 + count)))
            states.append(ledger.holds())
        kept, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    chance = random.Random(2)
    seen = set()
    for count in range(100):
        torn = tmp_path / f"{count}.db"
        torn.write_bytes(kept)
        left = bytearray(log[: chance.randrange(len(log))] if count % 2 else log)
        if not count % 2:
            at = chance.randrange(len(log))
            left[at : at + 512] = bytes(len(left[at : at + 512]))
        Path(f"{torn}-wal").write_bytes(left)
        seen.add(states.index(recorded(torn)))
    assert len(seen) > 3


@pytest.mark.parametrize(
    "before", ["nothing", "an empty file", "somebody who did not finish", "an empty log"]
)
def test_made_where_there_is_nothing(tmp_path: Path, before: str) -> None:
    path = tmp_path / "odd ?name#%41" / "deep" / "ledger.db"
    if before != "nothing":
        path.parent.mkdir(parents=True)
    if before == "an empty file":
        path.touch()
    if before == "somebody who did not finish":
        for suffix in ("", *SUFFIXES):
            Path(f"{path}.new{suffix}").write_text("half")
    if before == "an empty log":
        Path(f"{path}-wal").touch()
    record(path, hold("a", "0"))
    assert recorded(path) == (hold("a", "0"),)
    assert [one.name for one in path.parent.iterdir()] == ["ledger.db"]


def test_back_to_the_log_when_somebody_switched_it_off(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    sql("PRAGMA journal_mode = DELETE")(path)
    with opened(path) as ledger:
        assert len(ledger.holds()) == 1
        assert Path(f"{path}-wal").exists()


def modes(path: Path) -> list[str]:
    return [
        oct(stat.S_IMODE(place.stat().st_mode)) for place in (path, Path(f"{path}-wal"), Path(f"{path}-shm"))
    ]


@pytest.mark.parametrize(("mode", "expected"), [
    (0o700,  "0o600"),
    (0o755,  "0o600"),
    (0o770,  "0o660"),
    (0o2775, "0o660"),
    (0o1777, "0o600"),
])  # fmt: skip
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_shared_as_its_folder_is(tmp_path: Path, mode: int, mask: int, expected: str) -> None:
    place = tmp_path / "state"
    place.mkdir()
    place.chmod(mode)
    old = os.umask(mask)
    try:
        with opened(place / "ledger.db") as ledger, ledger.change() as change:
            change.add(hold("a"))
            assert modes(place / "ledger.db") == [expected] * 3
    finally:
        os.umask(old)


def test_new_folders_are_private(tmp_path: Path) -> None:
    record(tmp_path / "a" / "b" / "ledger.db", hold("a"))
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")] == [0o700, 0o700]


@pytest.mark.parametrize("spoil", ["mode", "link"])
def test_a_guarded_folder_must_be_ours_alone(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "numawise-7" / "machine" / "ledger.db"
    with opened(path, access=Access(guarded=True)):
        pass
    if spoil == "mode":
        path.parent.parent.chmod(0o777)
    else:
        path.parent.parent.rename(tmp_path / "elsewhere")
        path.parent.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match=f"numawise-7 is not a folder of user {os.geteuid()} alone"):
        opened(path, access=Access(guarded=True))


ADD = f"""
import grp, os, pwd, sys  # all that is needed, while we may read it
from numawise.errors import LedgerError
from numawise.results.placement import Grant, Hold, Owner
from numawise.ledger.store import Ledger
uid, *groups = map(int, sys.argv[3:])
os.setgroups(groups)
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
os.umask(0o077)
try:
    with Ledger.open(sys.argv[1], {MACHINE!r}) as ledger:
        with ledger.change() as change:
            change.add(Hold(sys.argv[2], "", Owner(0, "", ""), Grant()))
        print(*(one.id for one in ledger.holds()))
        sys.stdout.flush()
        if sys.argv[2] == "die":
            os._exit(0)
except LedgerError as error:
    print(error)
"""


def as_user(uid: int, path: Path, name: str, groups: tuple[int, ...] = ()) -> str:
    """What another user gets who adds a hold of that name."""
    told = [str(path), name, str(uid), *map(str, groups)]
    done = subprocess.run([sys.executable, "-c", ADD, *told], capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout.strip()


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody can reach, as the tests' own is for its owner alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@AS_ROOT
def test_a_group_shares_the_ledger_of_root(public: Path) -> None:
    path = public / "numawise" / "ledger.db"
    shared = Access(gid=GROUP)
    with opened(path, access=shared) as ledger, ledger.change() as change:
        change.add(hold("a"))
        assert modes(path) == ["0o660"] * 3
        assert {place.stat().st_gid for place in path.parent.iterdir()} == {GROUP}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o2770
    assert as_user(MEMBER, path, "die", (GROUP,)) == "a die"  # its log stays
    assert {stat.S_IMODE(place.stat().st_mode) for place in path.parent.iterdir()} == {0o660}
    assert as_user(MEMBER + 5, path, "b", (GROUP,)) == "a b die"
    assert "may not read and write" in as_user(STRANGER, path, "c")
    with opened(path, access=shared) as ledger:
        assert len(ledger.holds()) == 3


@AS_ROOT
def test_root_opens_its_ledger_when_the_group_comes_to_be(public: Path) -> None:
    path = public / "numawise" / "ledger.db"
    record(path, hold("a"))
    told = as_user(MEMBER, path, "b", (GROUP,))
    assert f"user {MEMBER} may not read and write" in told
    assert "ask to be added to the group" in told
    with opened(path) as long, opened(path, access=Access(gid=GROUP)):
        long.holds()
        assert as_user(MEMBER, path, "b", (GROUP,)) == "a b"
    path.parent.chmod(0o700)  # the administrator has second thoughts
    with opened(path, access=Access(gid=GROUP)):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@AS_ROOT
def test_root_changes_nothing_in_a_folder_that_others_write(public: Path) -> None:
    """A link in the place of a log must not let the group into something else."""
    path = public / "numawise" / "ledger.db"
    secret = public / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    with opened(path, access=Access(gid=GROUP)):
        pass
    Path(f"{path}-wal").symlink_to(secret)
    with pytest.raises(LedgerError):
        record(path, hold("a"))
    assert (stat.S_IMODE(secret.stat().st_mode), secret.stat().st_gid, secret.read_text()) == (0o600, 0, "x")


@AS_ROOT
def test_a_folder_of_somebody_elses_group(public: Path) -> None:
    place = public / "all"
    place.mkdir()
    place.chmod(0o777)
    assert as_user(MEMBER, place / "ledger.db", "a") == "a"
    assert stat.S_IMODE((place / "ledger.db").stat().st_mode) == 0o600


@AS_ROOT
def test_folders_that_may_not_be_made(public: Path) -> None:
    told = as_user(STRANGER, public / "new" / "ledger.db", "a")
    assert (
        f"user {STRANGER} may not read and write {public}, which the ledger {public}/new/ledger.db needs"
        in told
    )


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(LedgerError, match="cannot be made or reached"):
        opened(tmp_path / "state" / "ledger.db")
