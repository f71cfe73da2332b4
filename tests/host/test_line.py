"""Those who wait for room: who passes whom, who has lost the turn, and how one is put out of the line."""

import contextlib
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
from tests.host.launching import Host, Started
from tests.host.test_two_users import ALICE, BOB, NAMESPACE, Box
from tests.waiting import PATIENCE

from numawise.apps.launch.line import TURNS
from numawise.host.processes import boot_id, start_time
from numawise.ledger.place import machine_id
from numawise.sets import format_ids

CPUS = sorted(os.sched_getaffinity(0))
MOST = str(len(CPUS) - 1)
"""All but the one that is kept for the system."""
pytestmark = [
    needs.PROC,
    needs.SYS,
    pytest.mark.skipif(len(CPUS) < 2, reason="one CPU can be kept for the system or given away"),
]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path, NUMAWISE_RESERVED_CPUS=format_ids(1 << CPUS[0]))
    yield made
    made.end()


def waiting(host: Host) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(host.run("ps", "-o", "json").stdout)["waiting"]
    return found


def full(host: Host) -> Started:
    """Somebody who has all CPUs that can be given."""
    big = host.start("run", "-q", "--cpus", MOST, "--name", "big", "--", "sleep", "3600")
    host.hold("big")
    return big


def in_line(host: Host, *words: str, count: int = 1) -> Started:
    """Somebody who waits for room."""
    started = host.start("run", "-q", "--wait", *words)
    host.until(lambda: len(waiting(host)) == count, "nobody in line")
    return started


def test_who_takes_nothing_of_it_passes(host: Host) -> None:
    big = full(host)
    waiter = in_line(host, "--cpus", MOST, "--", "echo", "now")
    assert host.run("run", "-q", "--", "echo", "shared").stdout == "shared\n"
    assert host.run("run", "-q", "--memory", "1m", "--", "echo", "memory").stdout == "memory\n"
    refused = host.run("run", "--cpus", "0.5", "--", "true")
    passed = host.run("run", "-q", "--wait", "--cpus", "0.5", "--memory", "1m", "--", "true")
    assert (refused.returncode, passed.returncode) == (0, 0)
    big.send_signal(signal.SIGTERM)
    assert waiter.communicate(timeout=PATIENCE)[0] == "now\n"


def test_who_would_take_something_of_it_stands_behind(host: Host) -> None:
    """All of the pool that is kept for the system is promised to the first; a second may not promise it again."""
    big = full(host)
    first = in_line(host, "--cpus", MOST, "--", "sh", "-c", "echo first; sleep 0.1")
    second = in_line(host, "--cpus", "1", "--", "echo", "second", count=2)
    text = host.run("ps").stdout
    assert f"for {MOST} CPU" in text
    assert "held by big (" in text
    assert [each["state"] for each in waiting(host)] == ["waiting", "waiting"]
    assert waiting(host)[0]["asks"] == {"cpus": int(MOST) * 1000}
    big.send_signal(signal.SIGTERM)
    assert first.communicate(timeout=PATIENCE)[0] == "first\n"
    assert second.communicate(timeout=PATIENCE)[0] == "second\n"


def test_who_is_stopped_loses_the_turn_and_stands_where_it_stood(host: Host) -> None:
    big = full(host)
    first = in_line(host, "--cpus", MOST, "--name", "first", "--", "echo", "first")
    place = waiting(host)[0]["id"]
    first.send_signal(signal.SIGSTOP)
    host.until(lambda: waiting(host)[0]["state"] == "stopped", "it was not stopped")
    big.send_signal(signal.SIGTERM)
    big.wait()
    assert host.run("run", "-q", "--cpus", MOST, "--", "echo", "newcomer").stdout == "newcomer\n"
    next_one = host.start("run", "-q", "--cpus", MOST, "--name", "next", "--", "sleep", "3600")
    host.hold("next")
    last = in_line(host, "--cpus", MOST, "--name", "last", "--", "echo", "last", count=2)
    first.send_signal(signal.SIGCONT)
    host.until(lambda: waiting(host)[0]["state"] == "waiting", "it does not go on")
    assert waiting(host)[0]["id"] == place
    refused = host.run("run", "--cpus", MOST, "--", "true")
    assert refused.returncode == 1
    next_one.send_signal(signal.SIGTERM)
    assert first.communicate(timeout=PATIENCE)[0] == "first\n"
    assert last.communicate(timeout=PATIENCE)[0] == "last\n"


def test_who_died_is_out_of_the_line(host: Host) -> None:
    big = full(host)
    first = in_line(host, "--cpus", MOST, "--", "true")
    second = in_line(host, "--cpus", MOST, "--", "echo", "second", count=2)
    first.kill()
    first.wait()
    host.until(lambda: len(waiting(host)) == 1, "the dead still wait")
    big.send_signal(signal.SIGTERM)
    assert second.communicate(timeout=PATIENCE)[0] == "second\n"


@pytest.mark.parametrize("by", ["id", "name"])
def test_release_puts_out_of_the_line(host: Host, by: str) -> None:
    full(host)
    waiter = in_line(host, "--cpus", "1", "--name", "later", "--", "true")
    ticket = waiting(host)[0]["id"]
    done = host.run("release", ticket if by == "id" else "later")
    assert (done.returncode, f"{ticket} (pid {waiter.pid}, 1 CPU) waits no longer" in done.stdout) == (
        0,
        True,
    )
    _, said = waiter.communicate(timeout=PATIENCE)
    assert waiter.returncode == 1
    assert said == f"numawise: {ticket} no longer waits: it was put out of the line ('numawise release')\n"
    assert waiting(host) == []
    assert [hold["name"] for hold in host.holds()] == ["big"]


# --- several users ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if os.geteuid():
        pytest.skip("only root may act as several users")
    made = Server()
    yield made
    made.close()


@pytest.fixture
def box(server: Server) -> Iterator[Box]:
    with tempfile.TemporaryDirectory() as name:
        made = Box(Path(name), server)
        made.environment["NUMAWISE_RESERVED_CPUS"] = format_ids(1 << CPUS[0])
        yield made
        made.end()


@pytest.mark.parametrize(("asks", "state"), [
    pytest.param({"cpus": 9_999_000},          "passed",  id="more than the machine has"),
    pytest.param({"gpu_ids": ["77"]},          "passed",  id="a GPU that is not there"),
    pytest.param({"devices": [["moon", 1]]},   "passed",  id="a resource that is not there"),
    pytest.param({"cpus": "all"},              "passed",  id="not a number"),
    pytest.param({"policy": "mine"},           "passed",  id="no policy"),
    pytest.param({"devices": [[]]},            "passed",  id="no pairs"),
    pytest.param(None,                         "passed",  id="nothing that can be read"),
    pytest.param({"cpus": 1000, "later": [1]}, "waiting", id="a field of a later program"),
    pytest.param({"cpus": int(MOST) * 1000},   "waiting", id="what the machine has"),
])  # fmt: skip
def test_a_waiter_that_was_written_by_hand(box: Box, asks: object, state: str) -> None:
    with subprocess.Popen(["sleep", "3600"]) as sleeper:
        row = {"id": "evil1", "boot": boot_id(), "namespace": NAMESPACE, "since": 1.0, "request": "the moon"}
        row |= {"pid": sleeper.pid, "start": start_time(sleeper.pid)} | (
            {} if asks is None else {"asks": asks}
        )
        head = {"apiVersion": "numawise.dev/v1", "kind": "Ledger", "machine": machine_id()}
        box.file(BOB).write_text(json.dumps(head | {"waiters": [row]}))
        os.chown(box.file(BOB), BOB, BOB)
        done = box.by(ALICE).run("run", "-q", "--cpus", MOST, "--", "true")
        assert done.returncode == (0 if state == "passed" else 1), done.stderr
        shown = json.loads(box.by(ALICE).run("ps", "-o", "json").stdout)["waiting"]
        assert [each["state"] for each in shown] == [state]
        assert box.by(0).run("release", "evil1").returncode == 0
        assert not box.file(BOB).exists()
        sleeper.kill()


def test_of_one_user_so_many_have_a_turn(box: Box) -> None:
    """A thousand in line of one user hold others up no longer than ``TURNS``, and cost no more to look at."""
    full(box.by(ALICE))
    sleeper = subprocess.Popen(["sleep", "3600"])
    box.started.append(sleeper)  # type: ignore[arg-type]
    row = {"boot": boot_id(), "namespace": NAMESPACE, "pid": sleeper.pid, "start": start_time(sleeper.pid)}
    asks = [{"cpus": 1000, "memory": number + 1} for number in range(1024)]
    rows = [
        {**row, "id": f"w{number}", "since": number + 1.0, "asks": ask} for number, ask in enumerate(asks)
    ]
    head = {"apiVersion": "numawise.dev/v1", "kind": "Ledger", "machine": machine_id()}
    box.file(BOB).write_text(json.dumps(head | {"waiters": rows}))
    os.chown(box.file(BOB), BOB, BOB)
    waiter = in_line(box.by(ALICE), "--cpus", "1", "--", "true", count=1025)
    text = f"{TURNS} of the same user stand before it in line"
    assert [each["missing"] == text for each in waiting(box)] == [False] * TURNS + [True] * (1024 - TURNS) + [
        False
    ]
    assert waiter.poll() is None


def test_only_its_user_and_root_put_a_waiter_out(box: Box) -> None:
    box.by(ALICE).start("run", "-q", "--cpus", MOST, "--name", "hers", "--", "sleep", "3600")
    box.hold("hers")
    waiter = box.by(ALICE).start("run", "-q", "--wait", "--cpus", "1", "--", "true")
    box.until(lambda: len(waiting(box.by(BOB))) == 1, "nobody in line")
    ticket = waiting(box)[0]["id"]
    refused = box.by(BOB).run("release", ticket)
    assert (refused.returncode, "belongs to" in refused.stderr) == (4, True)
    assert waiter.poll() is None
    assert box.by(0).run("release", ticket).returncode == 0
    waiter.communicate()
    assert waiter.returncode == 1


def test_a_dead_hold_that_only_its_user_can_judge_does_not_stop_the_line(box: Box) -> None:
    """The head may not see that nothing of it is left; one of its user's own who waits behind does, and frees it."""
    hers = box.by(ALICE).start("run", "-q", "--cpus", MOST, "--name", "hers", "--", "sleep", "3600")
    job = box.hold("hers")["pid"]
    lines = []
    for user in (BOB, ALICE):
        lines.append(box.by(user).start("run", "-q", "--wait", "--cpus", MOST, "--", "true"))
        box.until(lambda: len(waiting(box.by(BOB))) == len(lines), "not in line")
    os.kill(hers.pid, signal.SIGKILL)  # first, so that nobody writes down the end of its job
    with contextlib.suppress(ProcessLookupError):
        os.kill(job, signal.SIGKILL)
    for waiter in lines:
        waiter.communicate()
        assert waiter.returncode == 0
