"""What one user can do to the holds, waiters and processes of another through numawise: nothing."""

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import needs
from tests.host.as_user import Server
from tests.host.test_two_users import ALICE, BOB, NAMESPACE, Box
from tests.waiting import until

from numawise.host.processes import boot_id, start_time
from numawise.ledger.place import machine_id

pytestmark = [needs.PROC, needs.SYS, needs.ROOT]
SECRET = "opensesame"
EVERY = str(len(os.sched_getaffinity(0)))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def box(server: Server) -> Iterator[Box]:
    with tempfile.TemporaryDirectory() as name:
        made = Box(Path(name), server)
        yield made
        made.end()


@pytest.fixture
def hers(box: Box) -> str:
    """The id of a running hold of Alice's on all CPUs, with a secret in its environment."""
    kept = dict(box.environment)
    box.environment["HER_SECRET"] = SECRET
    box.by(ALICE).start("run", "-q", "--cpus", EVERY, "--name", "hers", "--", "sleep", "3600")
    box.environment.clear()
    box.environment.update(kept)
    found: str = box.hold("hers")["id"]
    return found


@pytest.mark.parametrize("words", [
    ("release",), ("release", "--kill"), ("release", "--force"), ("release", "--term", "1"),
])  # fmt: skip
def test_nobody_releases_the_hold_of_another(box: Box, hers: str, words: tuple[str, ...]) -> None:
    before = box.file(ALICE).read_bytes()
    (pid,) = (one["pid"] for one in box.holds())
    for name in (hers, "hers"):
        done = box.by(BOB).run(*words, name)
        assert done.returncode != 0, done.stdout
        assert "hers" in done.stderr
    assert box.file(ALICE).read_bytes() == before
    os.kill(pid, 0)
    assert box.by(BOB).run("run", "-q", "--cpus", "1", "--", "true").returncode == 1, "still held"


def test_nobody_moves_the_job_of_another(box: Box) -> None:
    """A job of the shared pool is moved by whoever watches over it, never by another user who comes or goes."""
    if int(EVERY) < 2:
        pytest.skip("one CPU leaves nothing to move to")
    box.by(ALICE).start("run", "-q", "--name", "hers", "--mode", "affinity", "--", "sleep", "3600")
    pid = box.hold("hers")["pid"]
    watcher = box.started[-1]
    os.kill(watcher.pid, 19)  # SIGSTOP: her own watcher does nothing meanwhile
    try:
        before = os.sched_getaffinity(pid)
        assert box.by(BOB).run("run", "-q", "--cpus", "1", "--mode", "affinity", "--", "true").returncode == 0
        assert os.sched_getaffinity(pid) == before
        assert box.by(BOB).run("reap").returncode == 0
        assert os.sched_getaffinity(pid) == before
    finally:
        os.kill(watcher.pid, 18)


@pytest.mark.parametrize("words", [
    ("ps",), ("ps", "-o", "json"), ("show", "--holds"), ("verify", "{hold}"), ("verify", "-o", "json", "{hold}"),
    ("flags", "--hold", "{hold}"), ("flags", "--hold", "{hold}", "--format", "env"), ("exec", "{hold}", "--", "env"),
    ("exec", "{hold}", "--dry-run", "--", "env"), ("doctor",),
])  # fmt: skip
def test_nobody_reads_the_environment_of_another(box: Box, hers: str, words: tuple[str, ...]) -> None:
    done = box.by(BOB).run(*(word.format(hold=hers) for word in words))
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in box.file(ALICE).read_text()


def test_nobody_enters_the_hold_of_another(box: Box, hers: str) -> None:
    done = box.by(BOB).run("exec", hers, "--", "true")
    assert done.returncode not in (0, 1), "refused, not run"
    assert "Traceback" not in done.stderr


def test_nobody_drops_the_waiter_of_another(box: Box, hers: str) -> None:
    box.by(ALICE).start("run", "-q", "--wait", "--cpus", EVERY, "--name", "next", "--", "true")

    def waiting() -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(box.by(BOB).run("ps", "-o", "json").stdout)["waiting"]
        return found

    until(lambda: len(waiting()) == 1, "she waits")
    (row,) = json.loads(box.file(ALICE).read_text())["waiters"]
    before = box.file(ALICE).read_bytes()
    for name in (row["id"], "next"):
        for words in (("release",), ("release", "--kill"), ("release", "--force")):
            assert box.by(BOB).run(*words, name).returncode != 0
    box.by(BOB).run("reap")
    box.by(BOB).run("run", "-q", "--cpus", "1", "--", "true")
    assert (box.file(ALICE).read_bytes(), len(waiting())) == (before, 1)
    assert box.by(0).run("release", "--kill", hers).returncode == 0
    until(lambda: box.started[-1].poll() is not None, "her turn")
    assert box.started[-1].poll() == 0


def _forged(box: Box, owner: int, name: str, **hold: object) -> Path:
    row = {"id": "evil1", "name": "evil", "boot": boot_id(), "namespace": NAMESPACE, "since": 1.0}
    row |= {"kind": "run", "pid": os.getpid(), "start": 0, "cpus": "0"} | hold
    head = {"apiVersion": "numawise.dev/v1", "kind": "Ledger", "machine": machine_id()}
    file = box.ledger / name
    file.write_text(json.dumps(head | {"holds": [row]}))
    file.chmod(0o644)
    os.chown(file, owner, owner)
    return file


def test_nobody_forges_a_hold_of_another(box: Box) -> None:
    """Whatever a file says of its user, it is its owner's; under the name of another it is nobody's."""
    lie = {"uid": ALICE, "user": "alice", "pid": os.getpid(), "start": start_time(os.getpid())}
    _forged(box, BOB, f"numawise-{BOB}.json", **lie)
    assert [(one["name"], one["uid"]) for one in box.by(ALICE).holds()] == [("evil", BOB)]
    box.file(BOB).unlink()
    for name in (f"numawise-{ALICE}.json", f"numawise-{ALICE}-0123abcd.json", "numawise-0.json"):
        file = _forged(box, BOB, name)
        assert box.by(ALICE).holds() == []
        said = f"{name} (uid {BOB}) is ignored: it lies under the name of another user"
        for user in (ALICE, 0):
            assert said in box.by(user).run("ps").stderr
            assert said in box.by(user).run("doctor", "-o", "json").stdout
        assert box.by(ALICE).run("run", "-q", "--cpus", EVERY, "--", "true").returncode == 0
        assert file.exists(), "named, not removed"
        file.unlink()


HOSTILE = {
    "symlink": "it is a link",
    "dangling symlink": "it is a link",
    "FIFO": "it is not a regular file",
    "folder": "it is not a regular file",
    "socket": "it",
    "huge": "it is larger than",
    "garbage": "it is not JSON",
    "empty": "it is empty",
    "deep": "it is not JSON",
    "terminal": "it is not JSON",
    "of another machine": "it is of another machine",
    "name of another": "it lies under the name of another user",
}
HIDDEN_LEDGER = {"world-writable": "others may write it", "unreadable": "it may not be read"}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_ignored_and_named(box: Box, what: str) -> None:
    name = f"numawise-{ALICE if what == 'name of another' else BOB}.json"
    file = box.ledger / name
    held = {"cpus": f"0-{int(EVERY) - 1}", "pid": 1 << 21}
    aside = box.ledger.parent / "aside"
    if what == "symlink":
        shutil.move(_forged(box, BOB, name, **held), aside)
        file.symlink_to(aside)
    elif what == "dangling symlink":
        file.symlink_to("/nonexistent")
    elif what == "FIFO":
        os.mkfifo(file)
    elif what == "folder":
        file.mkdir()
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(file))
    elif what == "huge":
        file.touch()
        os.truncate(file, 1 << 40)
    elif what in ("garbage", "empty", "deep", "terminal"):
        text = {"garbage": "\0\xff{", "empty": "", "deep": "[" * 100_000, "terminal": "\x1b]0;owned\x07"}
        file.write_text(text[what])
    else:
        _forged(box, BOB, name, **held)
        if what == "of another machine":
            file.write_text(file.read_text().replace(machine_id(), "0" * 32))
    os.chown(file, BOB, BOB, follow_symlinks=False)
    for user in (ALICE, 0):
        listed = box.by(user).run("ps", "-o", "json")
        data = json.loads(listed.stdout)
        assert (listed.returncode, data["holds"]) == (0, [])
        (remark,) = (text for text in data["remarks"] if name in text)
        assert f"(uid {BOB}) is ignored: {HOSTILE[what]}" in remark
        assert remark in box.by(user).run("ps").stderr
        findings = json.loads(box.by(user).run("doctor", "-o", "json").stdout)["findings"]
        assert [each["message"] for each in findings if each["field"] == "ledger's files"] == [remark]
        assert box.by(user).run("run", "-q", "--cpus", EVERY, "--", "true").returncode == 0, (
            "it holds nothing"
        )
        assert "\x1b" not in listed.stdout
    assert os.path.lexists(file), "named, not removed"


@pytest.mark.parametrize("what", HIDDEN_LEDGER)
def test_a_ledger_that_its_owner_took_from_the_others_counts_as_held(box: Box, what: str) -> None:
    """It may hold anything: nothing is granted, and nothing else is held up."""
    file = _forged(box, BOB, f"numawise-{BOB}.json", cpus="0", pid=1 << 21)
    file.chmod(0o666 if what == "world-writable" else 0)
    for user in (ALICE,) if what == "unreadable" else (ALICE, 0):  # root can read everything
        refused = box.by(user).run("run", "-q", "--", "true")
        said = f"{file} (uid {BOB}) cannot be read as a ledger: {HIDDEN_LEDGER[what]}"
        assert (refused.returncode, said in refused.stderr) == (4, True), refused.stderr
        assert said in box.by(user).run("doctor", "-o", "json").stdout
        assert (box.by(user).run("ps").returncode, box.by(user).run("reap").returncode) == (0, 0)
    file.unlink()
    assert box.by(ALICE).run("run", "-q", "--cpus", EVERY, "--", "true").returncode == 0


def test_a_second_name_takes_no_hold_away(box: Box) -> None:
    box.by(ALICE).start("run", "-q", "--cpus", EVERY, "--name", "hers", "--", "sleep", "3600")
    box.hold("hers")
    os.link(box.file(ALICE), box.ledger / "aside")
    os.link(box.file(ALICE), box.ledger / f"numawise-{ALICE}-0123abcd.json")
    refused = box.by(BOB).run("run", "--cpus", "1", "--", "true")
    assert (refused.returncode, "hers" in refused.stderr) == (1, True)
