"""Two users and root on one host: what one of them writes down lets nobody do anything to the others."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import needs
from tests.host.as_user import Server
from tests.host.launching import Host
from tests.waiting import until

from numawise.host.processes import alive, boot_id, start_time
from numawise.ledger.place import machine_id
from numawise.sets import parse_ids

pytestmark = [needs.PROC, needs.SYS, needs.ROOT]
ROOT = Path(__file__).parents[2]
ALICE, BOB = 51001, 51002
NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino if Path("/proc/self").exists() else 0
HIDDEN = ("proc", "/proc", "hidepid=2")
EMPTY = ("tmpfs", "/var/tmp", "mode=1777")


class Box(Host):
    """This host with a ledger for all in a folder of the test, used by several users."""

    def __init__(self, folder: Path, server: Server, **environment: str) -> None:
        super().__init__(folder, NUMAWISE_RESERVED_CPUS="none", **environment)
        self.ledger = folder / "ledger"
        self.environment["NUMAWISE_LEDGER"] = str(self.ledger)
        folder.chmod(0o755)
        self.ledger.mkdir()
        self.ledger.chmod(0o1777)
        self.server = server
        self.user = 0

    def by(self, user: int) -> "Box":
        self.user = user
        return self

    def run(self, *words: str, **_: Any) -> Any:
        started = self.server.start(self.user, list(words), self.environment)
        started.communicate()
        return started

    def start(self, *words: str, **_: Any) -> Any:
        self.started.append(self.server.start(self.user, list(words), self.environment))  # type: ignore[arg-type]
        return self.started[-1]

    def holds(self) -> list[dict[str, Any]]:
        """What ``ps`` tells the user, with the file systems that the user sees."""
        found: list[dict[str, Any]] = json.loads(self.run("ps", "-o", "json").stdout)["holds"]
        return found

    def file(self, user: int) -> Path:
        return self.ledger / f"numawise-{user}.json"

    def forge(self, user: int, **hold: Any) -> None:
        """A hold that a user wrote by hand."""
        row = {"id": "evil1", "name": "evil", "boot": boot_id(), "namespace": NAMESPACE, "since": 1.0} | hold
        head = {"apiVersion": "numawise.dev/v1", "kind": "Ledger", "machine": machine_id()}
        self.file(user).write_text(json.dumps(head | {"holds": [row]}))
        os.chown(self.file(user), user, user)

    def end(self) -> None:
        self.by(0)
        super().end()


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody can reach, as the tests' own is for its owner alone."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def box(public: Path, server: Server) -> Iterator[Box]:
    made = Box(public, server)
    yield made
    made.end()


@pytest.fixture
def victim() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of root's."""
    with subprocess.Popen(["sleep", "3600"]) as process:
        yield process
        process.kill()


def test_they_share_one_truth(box: Box) -> None:
    every = str(len(os.sched_getaffinity(0)))
    box.by(ALICE).start("run", "-q", "--cpus", every, "--name", "hers", "--", "sleep", "3600")
    assert box.hold("hers")["uid"] == ALICE
    refused = box.by(BOB).run("run", "--cpus", "1", "--", "true")
    assert refused.returncode == 1
    assert "hers" in refused.stderr
    release = box.by(BOB).run("release", "--kill", "hers")
    assert (release.returncode, "belongs to" in release.stderr) == (4, True)
    assert box.by(0).run("release", "--kill", "hers").returncode == 0
    assert box.by(BOB).run("run", "-q", "--cpus", every, "--", "true").returncode == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_ranks_and_verify_know_what_another_user_holds(box: Box) -> None:
    box.by(ALICE).start("run", "-q", "--cpus", "1", "--name", "hers", "--", "sleep", "3600")
    theirs = box.hold("hers")["cpus"]
    rank = ("--local-rank", "0", "--local-size", "1")
    mask = ("--", "grep", "-h", "Cpus_allowed_list", "/proc/self/status")
    bound = box.by(BOB).run("bind", *rank, *mask)
    assert bound.returncode == 0, bound.stderr
    assert not parse_ids(bound.stdout.split()[1]) & parse_ids(theirs)
    assert f"(hers, {box.hold('hers')['id']})" in bound.stderr
    seen = box.by(BOB).run("verify", str(os.getpid()))
    assert seen.returncode == 1
    assert f"may run on CPU {theirs}, which hold {box.hold('hers')['id']} (hers) of " in seen.stdout


def test_root_ends_no_process_that_is_not_the_holders(box: Box, victim: "subprocess.Popen[bytes]") -> None:
    """Neither the process that a forged hold names, nor those that carry its mark."""
    with subprocess.Popen(["sleep", "3600"], env={**os.environ, "NUMAWISE_HOLD": "evil1"}) as marked:
        box.forge(BOB, pid=victim.pid, start=start_time(victim.pid), mode="affinity")
        box.by(0).run("release", "--kill", "evil1")
        box.by(0).run("release", "--force", "evil1")
        assert (victim.poll(), marked.poll()) == (None, None)
        marked.kill()
    assert box.holds() == []


def test_root_moves_no_process_that_is_not_the_holders(box: Box, victim: "subprocess.Popen[bytes]") -> None:
    before = os.sched_getaffinity(victim.pid)
    if len(before) < 2:
        pytest.skip("one CPU leaves nothing to move to")
    box.forge(BOB, pid=victim.pid, start=start_time(victim.pid), mode="affinity")
    assert box.by(0).run("run", "-q", "--cpus", "1", "--", "true").returncode == 0
    assert os.sched_getaffinity(victim.pid) == before


@pytest.mark.parametrize("mode", ["cgroup v1", "cgroup v2"])
def test_root_touches_no_folder_that_is_not_a_control_group(box: Box, tmp_path: Path, mode: str) -> None:
    """A folder that looks like a group: its processes are not ended, its files not written, itself not removed."""
    with subprocess.Popen(["sleep", "3600"]) as victim:
        group = tmp_path / "numawise" / "evil1"
        (group / "inner").mkdir(parents=True)
        files = {
            "cgroup.procs": f"{victim.pid}\n",
            "cpuset.cpus": "precious\n",
            "cgroup.kill": "",
            "cgroup.events": "",
        }
        for name, text in files.items():
            (group / name).write_text(text)
        for pid in (victim.pid, 2):
            box.forge(BOB, pid=pid, start=7, mode=mode, cgroup=str(group))
            for words in (
                ("reap",),
                ("run", "-q", "--cpus", "1", "--", "true"),
                ("release", "--kill", "evil1"),
            ):
                box.by(0).run(*words)
        assert victim.poll() is None
        victim.kill()
    assert {name: (group / name).read_text() for name in files} == files
    assert (group / "inner").is_dir()


@pytest.mark.skipif(
    not os.access("/sys/fs/cgroup/cpuset/cgroup.procs", os.W_OK), reason="needs control groups version 1"
)
def test_root_removes_no_group_of_somebody_else(box: Box) -> None:
    """A real group that lies where a hold's would, and is root's."""
    group = Path("/sys/fs/cgroup/cpuset/numawise-test/numawise/evil1")
    group.mkdir(parents=True)
    try:
        box.forge(BOB, pid=4_194_303, start=7, mode="cgroup v1", cgroup=str(group))
        box.by(0).run("reap")
        assert box.holds() == []
        assert group.is_dir()
    finally:
        for folder in (group, group.parent, group.parent.parent):
            folder.rmdir()


@pytest.mark.parametrize("what", ["FIFO", "link to a device", "link to a terminal", "huge file", "folder"])
def test_nothing_in_the_shared_place_stops_the_others(box: Box, what: str) -> None:
    file = box.file(BOB)
    if what == "FIFO":
        os.mkfifo(file)
    elif what == "link to a device":
        file.symlink_to("/dev/zero")
    elif what == "link to a terminal":
        file.symlink_to("/dev/tty")
    elif what == "folder":
        file.mkdir()
    else:
        file.touch()
        os.truncate(file, 1 << 40)
    os.chown(file, BOB, BOB, follow_symlinks=False)
    for user in (0, ALICE):
        assert box.by(user).run("run", "-q", "--cpus", "1", "--", "true").returncode == 0
        listed = box.by(user).run("ps")
        assert listed.returncode == 0
        assert f"numawise-{BOB}.json (uid {BOB}) is ignored" in listed.stderr


def test_a_file_that_makes_no_sense_is_named_and_passed_over(box: Box) -> None:
    box.forge(BOB, pid=1)
    listed = box.by(ALICE).run("ps")
    assert (listed.returncode, "pid is 1" in listed.stderr) == (0, True)
    assert "\x1b" not in listed.stderr
    own = box.by(BOB).run("ps")
    assert (own.returncode, "is damaged" in own.stderr) == (4, True)


@pytest.mark.parametrize("what", ["cut short", "hidden", "of a later numawise"])
def test_what_cannot_be_read_counts_as_held(box: Box, what: str) -> None:
    """Nothing is granted beside it; nobody loses a hold or a place in line, and all of it goes on afterwards."""
    every = str(len(os.sched_getaffinity(0)))
    box.by(ALICE).start("run", "-q", "--cpus", every, "--name", "hers", "--", "sleep", "3600")
    box.hold("hers")
    box.forge(BOB, pid=os.getpid(), start=start_time(os.getpid()), memory=[{"numa": "0", "bytes": 4096}])
    file = box.file(BOB)
    if what == "cut short":
        os.truncate(file, 150)
    elif what == "hidden":
        file.chmod(0)
    else:
        file.write_text(file.read_text().replace("/v1", "/v9"))
    refused = box.by(ALICE).run("run", "--", "true")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (4, 1), refused.stderr
    assert f"{file} (uid {BOB}) cannot be read as a ledger: " in refused.stderr
    assert (
        f"so what {BOB} holds is not known, and nothing is granted beside it; let its owner or root"
        in refused.stderr
    )
    assert box.by(ALICE).run("run", "--dry-run", "--", "true").returncode == 4
    listed = box.by(ALICE).run("ps")
    assert (listed.returncode, "hers" in listed.stdout, f"(uid {BOB}) cannot be read" in listed.stderr) == (
        0,
        True,
        True,
    )
    asked = box.by(ALICE).run("verify", "his")
    assert (asked.returncode, f"(uid {BOB}) cannot be read" in asked.stderr.splitlines()[0]) == (2, True)
    assert ("what is free is not known" in listed.stdout, "FREE" in listed.stdout) == (True, False)
    data = json.loads(box.by(ALICE).run("ps", "-o", "json").stdout)
    assert (data["free"], "what is free is not known" in data["remarks"][-1]) == ([], True)
    waiter = box.by(ALICE).start("run", "-q", "--wait", "--cpus", every, "--", "true")
    box.until(lambda: "waiting: " in box.by(ALICE).run("ps").stdout, "in line")
    assert box.by(ALICE).run("release", "--kill", "hers").returncode == 0
    box.by(ALICE).run("reap")
    assert (waiter.poll(), "waiting: " in box.by(ALICE).run("ps").stdout) == (None, True)
    file.rename(file.with_name("aside"))
    waiter.communicate()
    assert waiter.returncode == 0, waiter.stderr


@pytest.fixture
def marked(box: Box) -> Iterator[tuple[dict[str, Any], "subprocess.Popen[bytes]"]]:
    """A hold of root's, kept by affinity, and a stranger's process that carries its mark."""
    box.by(0).start(
        "run", "-q", "--mode", "affinity", "--cpus", "1", "--name", "roots", "--", "sleep", "3600"
    )
    hold = box.hold("roots")
    with subprocess.Popen(
        ["sleep", "3600"], env={"NUMAWISE_HOLD": hold["id"]}, user=BOB, group=BOB
    ) as process:
        yield hold, process
        process.kill()


def test_a_strangers_variable_keeps_no_hold(
    box: Box, marked: tuple[dict[str, Any], "subprocess.Popen[bytes]"]
) -> None:
    """What others wrote into an environment is their word."""
    hold, process = marked
    start = start_time(hold["pid"]) or 0
    for pid in (box.started[-1].pid, hold["pid"]):
        os.kill(pid, signal.SIGKILL)
    box.started[-1].communicate()
    box.until(lambda: not alive(hold["pid"], start), "the job's end")
    assert "roots" in box.by(0).run("reap").stdout
    assert (box.by(0).holds(), process.poll()) == ([], None)


def test_root_kills_no_strangers_process_that_carries_its_mark(
    box: Box, marked: tuple[dict[str, Any], "subprocess.Popen[bytes]"]
) -> None:
    assert box.by(0).run("release", "--kill", "roots").returncode == 0
    assert marked[1].poll() is None


def test_left_over_workers_keep_the_hold_of_their_job(box: Box) -> None:
    """Without a control group only the owner and root see them, so nobody else calls the job ended."""
    every = str(len(os.sched_getaffinity(0)))
    script = "sleep 3600 <&- >&- 2>&- & echo $!"
    done = box.by(ALICE).run(
        "run",
        "-q",
        "--mode",
        "affinity",
        "--cpus",
        every,
        "--name",
        "hers",
        "--",
        "sh",
        "-c",
        f"({script}) >&2",
    )
    worker = int(done.stderr.split()[-1])
    try:
        for user, status in ((BOB, 1), (ALICE, 1), (0, 1)):
            assert box.by(user).run("run", "-q", "--cpus", "1", "--", "true").returncode == status
        remark = "its process has ended; only 51001 or root can see whether it left others"
        assert remark in box.by(BOB).run("ps").stderr
    finally:
        os.kill(worker, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{worker}").exists(), "the worker's end")
    assert box.by(BOB).run("run", "-q", "--cpus", "1", "--", "true").returncode == 1
    assert "hers" in box.by(0).run("reap").stdout
    assert box.by(BOB).run("run", "-q", "--cpus", every, "--", "true").returncode == 0


def test_processes_that_are_hidden_are_alive(public: Path) -> None:
    server = Server(*HIDDEN)
    box = Box(public, server)
    every = str(len(os.sched_getaffinity(0)))
    script = "exec sleep 3600 # secret"
    try:
        for mode in ("affinity", ""):
            how = ("--mode", mode) if mode else ()
            box.by(ALICE).start(
                "run", "-q", *how, "--cpus", every, "--name", "hers", "--", "sh", "-c", script
            )
            box.by(ALICE).hold("hers")
            assert "secret" not in box.file(ALICE).read_text(), "a command line that /proc hides"
            for user in (BOB, 0):
                refused = box.by(user).run("run", "--cpus", "1", "--", "true")
                assert (refused.returncode, "hers" in refused.stderr) == (1, True), refused.stderr
            assert [one["name"] for one in box.by(BOB).holds()] == ["hers"]
            assert box.by(0).run("release", "--kill", "hers").returncode == 0
            assert box.by(BOB).run("run", "-q", "--cpus", every, "--", "true").returncode == 0
    finally:
        box.end()
        server.close()


@pytest.mark.skipif(
    Path("/etc/numawise").exists() or Path("/var/lib/numawise").exists(), reason="this machine was set up"
)
def test_without_any_preparation(public: Path) -> None:
    """No group, no folder of root's: two users see each other's holds in ``/var/tmp``."""
    server = Server(*EMPTY)
    box = Box(public, server)
    del box.environment["NUMAWISE_LEDGER"]
    try:
        box.by(ALICE).start("run", "-q", "--cpus", "1", "--name", "hers", "--", "sleep", "3600")
        assert box.by(BOB).hold("hers")["uid"] == ALICE
        listed = box.by(BOB).run("ps", "-o", "json")
        data = json.loads(listed.stdout)
        assert (data["ledger"], data["shared"]) == ("/var/tmp", False), "mounted for this test alone"
        said = "the ledger in /var/tmp is not shared with the rest of the machine"
        assert said in data["remarks"][0]
        assert listed.stderr.startswith(f"numawise: {said}")
        quiet = box.by(BOB).run("run", "-q", "--", "true")
        assert (quiet.returncode, quiet.stderr.startswith(f"numawise: {said}")) == (0, True)
        assert quiet.stderr.count("\n") == 1
        place = Path(f"/proc/{server.process.pid}/root/var/tmp")
        (file,) = place.glob("*.json")
        assert (file.name, file.stat().st_uid, oct(file.stat().st_mode)) == (
            f"numawise-{ALICE}.json", ALICE, "0o101644",
        )  # fmt: skip
        assert box.by(0).run("release", "--kill", "hers").returncode == 0
        left = sorted(file.name for file in place.iterdir())
        assert left == [f"numawise-{BOB}.history.jsonl", f"numawise-{ALICE}.history.jsonl"][::-1]
        history = json.loads(box.by(BOB).run("history", "-o", "json").stdout)["ended"]
        assert [(row["name"], row["uid"], row["text"]) for row in history] == [
            ("hers", ALICE, "released by root"), ("true", BOB, "ok"),
        ]  # fmt: skip
    finally:
        box.end()
        server.close()


def test_only_its_user_and_root_enter_a_hold(box: Box) -> None:
    box.by(ALICE).start("run", "-q", "--cpus", "1", "--name", "train", "--", "sleep", "3600")
    box.hold("train")
    refused = box.by(BOB).run("exec", "train", "--", "true")
    assert refused.returncode == 4
    assert f"belongs to {ALICE}" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert box.by(ALICE).run("exec", "train", "--", "sh", "-c", "exit 5").returncode == 5
    assert box.by(0).run("exec", "train", "--", "sh", "-c", "exit 6").returncode == 6


def test_root_enters_no_hold_that_lies(box: Box) -> None:
    """Bob claims a process of Alice's as his: what root runs in his hold would run in hers."""
    box.by(ALICE).start("run", "-q", "--cpus", "1", "--name", "train", "--", "sleep", "3600")
    hers = box.hold("train")
    box.forge(BOB, pid=hers["pid"], start=start_time(hers["pid"]), mode=hers["mode"])
    refused = box.by(0).run("exec", "evil", "--", "true")
    assert refused.returncode == 3
    assert "may be forged" in refused.stderr


def test_nobody_makes_steps_of_anothers_hold(box: Box) -> None:
    box.by(ALICE).start(
        "run", "-q", "--mode", "affinity", "--cpus", "1", "--name", "train", "--", "sleep", "3600"
    )
    hers = box.hold("train")
    before = box.file(ALICE).read_bytes()
    forged = {**box.environment, "NUMAWISE_HOLD": hers["id"]}
    for user in (BOB, 0):
        started = box.server.start(user, ["run", "--mode", "affinity", "--", "true"], forged)
        started.communicate()
        assert "which this process is not in" in started.stderr, started.stderr
        assert "a step of" not in started.stderr
    assert box.file(ALICE).read_bytes() == before
    assert box.hold("train")["steps"] == []
