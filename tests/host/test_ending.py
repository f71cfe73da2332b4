"""Jobs that are asked to end, and jobs whose time is over."""

import os
import signal
from pathlib import Path

import pytest
from tests import needs
from tests.host.launching import Host
from tests.waiting import PATIENCE

from numawise.apps.launch import limit
from numawise.apps.launch.run import capacity_here, open_holdings
from numawise.host.processes import DEAD, read_process
from numawise.host.settings import HostSettings

pytestmark = [needs.PROC, needs.SYS]
POLITE = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.1; done"
STUBBORN = "trap '' TERM; (trap '' TERM; echo $BASHPID; while :; do sleep 0.1; done)"


@pytest.mark.parametrize("mode", ["affinity", ""])
def test_release_asks_first(host: Host, mode: str) -> None:
    words = ("--mode", mode) if mode else ()
    job = host.start("run", "-q", "--name", "polite", *words, "--", "bash", "-c", POLITE)
    assert job.stdout
    assert job.stdout.readline() == "ready\n"
    done = host.run("release", "--term", "1h", "polite")
    assert (done.returncode, "released" in done.stdout) == (0, True), done.stderr
    assert (job.communicate(timeout=PATIENCE)[0], job.returncode) == ("asked\n", 3)
    assert host.holds() == []


def test_release_asks_what_is_stopped(host: Host) -> None:
    job = host.start("run", "-q", "--name", "polite", "--", "bash", "-c", POLITE)
    assert job.stdout
    assert job.stdout.readline() == "ready\n"
    os.kill(host.hold("polite")["pid"], signal.SIGSTOP)
    assert host.run("release", "--term", "1h", "polite").returncode == 0
    assert job.communicate(timeout=PATIENCE)[0] == "asked\n"


@pytest.mark.parametrize("mode", ["affinity", ""])
def test_release_kills_what_does_not_listen(host: Host, mode: str) -> None:
    words = ("--mode", mode) if mode else ()
    job = host.start("run", "-q", "--name", "deaf", *words, "--", "bash", "-c", STUBBORN)
    assert job.stdout
    inner = int(job.stdout.readline())
    assert host.run("release", "--term", "0.2", "deaf").returncode == 0
    job.communicate(timeout=PATIENCE)
    assert job.returncode == -signal.SIGKILL
    host.until(lambda: not runs(inner), "its child still runs")


def test_term_and_kill_contradict_each_other(host: Host) -> None:
    done = host.run("release", "--term", "5", "--kill", "x")
    assert (done.returncode, "give one of --term and --kill" in done.stderr) == (2, True)
    assert "--term: 'soon'" in host.run("release", "--term", "soon", "x").stderr


def test_a_job_ends_with_its_time(host: Host) -> None:
    done = host.run("run", "-q", "--time", "0.3", "--name", "long", "--", "bash", "-c", POLITE)
    assert (done.returncode, done.stdout) == (124, "ready\nasked\n")
    assert "was ended after its 0.3 s (--time)\n" in done.stderr
    assert host.holds() == []


def test_a_job_within_its_time_is_left_alone(host: Host) -> None:
    done = host.run("run", "-q", "--time", "1h", "--", "sh", "-c", "exit 5")
    assert (done.returncode, done.stderr.count("--time")) == (5, 0)


def test_ps_shows_what_is_left_of_its_time(host: Host) -> None:
    host.start("run", "-q", "--time", "1h30m", "--name", "long", "--", "sleep", "3600")
    assert 0 < host.hold("long")["timeLeft"] <= 5400
    assert "time left: long 1h" in host.run("ps").stdout


def test_what_does_not_listen_at_its_limit_is_killed_with_all_its_children(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grace is short here; the job's process, and what it left, are gone when the exit status is there."""
    monkeypatch.setattr(limit, "GRACE", 0.2)
    from numawise.apps.launch.request import JobRequest  # noqa: PLC0415 - after the grace
    from numawise.apps.launch.run import Job, run  # noqa: PLC0415

    said: list[str] = []
    file = tmp_path / "pid"
    script = f"trap '' TERM; sleep 3600 & echo $! > {file}; wait"
    job = Job(JobRequest(name="deaf"), ("bash", "-c", script), environment=host.environment, time_limit=0.5)
    status = run(job, HostSettings(reserved_cpus="none"), lambda _: None, lambda _: None, said.append)
    assert status == 124
    assert any("was ended after its 0.5 s (--time), and was killed" in text for text in said)
    host.until(lambda: not runs(int(file.read_text())), "its child still runs")


def test_reap_ends_what_is_long_overdue(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody watches over it any more, because the numawise that started it was killed."""
    monkeypatch.setattr(limit, "LATE", -1000 - limit.GRACE)
    for name, time_limit in (("late", "1000"), ("early", "1h")):
        numawise = host.start("run", "-q", "--time", time_limit, "--name", name, "--", "sleep", "3600")
        host.hold(name)
        numawise.kill()
        numawise.wait()
    with open_holdings(capacity_here(HostSettings()), host.environment, HostSettings()) as holdings:
        host.until(lambda: bool(limit.end_overdue(holdings)) or not late(host), "it was not ended")
    assert [hold["name"] for hold in host.holds()] == ["early"]


def runs(pid: int) -> bool:
    found = read_process(pid)
    return found is not None and found.state not in DEAD


def late(host: Host) -> bool:
    return any(hold["name"] == "late" for hold in host.holds())


@pytest.mark.parametrize(("words", "complaint"), [
    (("--time", "soon"), "--time: 'soon' is not a number of seconds"),
    (("--time", "0"),    "--time: '0' leaves the job no time"),
    (("--time", ""),     "--time: '' is not a number of seconds"),
    (("--time", "-5"),   "--time: '-5' is not a number of seconds"),
])  # fmt: skip
def test_times_that_are_none(host: Host, words: tuple[str, ...], complaint: str) -> None:
    done = host.run("run", *words, "--", "true")
    assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr
