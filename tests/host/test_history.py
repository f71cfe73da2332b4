"""What ``history`` and ``top`` say of real jobs."""

import json
import os
import signal
from typing import Any

import pytest
from tests import needs
from tests.host.launching import Host
from tests.waiting import PATIENCE

pytestmark = [needs.PROC, needs.SYS]


def ended(host: Host, *words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(host.run("history", "-o", "json", *words).stdout)["ended"]
    return rows


def test_how_jobs_ended(host: Host) -> None:
    assert "nothing has ended yet" in host.run("history").stdout
    host.run("run", "-q", "--name", "fine", "--cpus", "1", "--", "true")
    host.run("run", "-q", "--name", "sad", "--", "sh", "-c", "exit 3")
    host.run("run", "-q", "--name", "slow", "--time", "0.1", "--", "sleep", "3600")
    job = host.start("run", "-q", "--name", "gone", "--", "sleep", "3600")
    host.hold("gone")
    assert host.run("release", "--kill", "gone").returncode == 0
    job.communicate(timeout=PATIENCE)
    assert [(row["name"], row["how"], row["status"], row["text"]) for row in ended(host)] == [
        ("gone", "released", None, "released"),
        ("slow", "overtime", 124, "time limit"),
        ("sad", "ended", 3, "status 3"),
        ("fine", "ended", 0, "ok"),
    ]
    newest = ended(host, "--most", "1")
    assert [row["name"] for row in newest] == ["gone"]
    table = host.run("history", "--most", "2")
    assert table.stdout.splitlines()[0].split()[:3] == ["HOLD", "NAME", "USER"]
    assert "2 more: see --most" in table.stdout
    assert [row["cpus"] != "" for row in ended(host)] == [False, False, False, True]


def test_a_job_that_nobody_watched(host: Host) -> None:
    job = host.start("run", "-q", "--name", "left", "--mode", "affinity", "--", "sleep", "3600")
    pid = host.hold("left")["pid"]
    job.send_signal(signal.SIGKILL)
    job.wait(PATIENCE)
    os.kill(pid, signal.SIGKILL)
    host.until(lambda: host.holds() == [], "it is still there")
    host.run("reap")
    assert [(row["name"], row["how"], row["text"]) for row in ended(host)] == [
        ("left", "found ended", "found ended")
    ]


@pytest.mark.parametrize("mode", ["affinity", ""])
def test_what_jobs_use(host: Host, mode: str) -> None:
    words = ("--mode", mode) if mode else ()
    host.start("run", "-q", "--name", "busy", *words, "--", "sh", "-c", "while :; do :; done")
    host.start("run", "-q", "--name", "idle", *words, "--", "sleep", "3600")
    host.hold("busy")
    host.hold("idle")

    def busy() -> bool:
        ran = host.run("top", "--count", "1", "--interval", "0.3", "-o", "json")
        uses = {use["name"]: use for use in json.loads(ran.stdout)["uses"]}
        idle = uses["idle"]
        return uses["busy"]["cpus"] > 0.05 > idle["cpus"] and idle["memory"] > 0 and idle["processes"] == 1

    host.until(busy, "one job is busy and the other is not")
    table = host.run("top", "--interval", "0.3").stdout.splitlines()
    assert "BUSY" in table[0]
    assert [line.split()[1] for line in table[1:3]] == ["busy", "idle"]


def test_top_of_nothing_and_of_nobody(host: Host) -> None:
    assert "nothing is held" in host.run("top", "--interval", "0.1").stdout
    ran = host.run("top", "--user", "nobody-of-that-name")
    assert (ran.returncode, "there is no user" in ran.stderr) == (2, True)
    ran = host.run("history", "--user", "nobody-of-that-name")
    assert (ran.returncode, "there is no user" in ran.stderr) == (2, True)
