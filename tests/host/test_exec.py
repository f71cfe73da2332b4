"""``numawise exec`` on this kernel: a command inside of a running hold, and the holds that cannot be entered."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from tests import needs
from tests.host.launching import Host, allowed
from tests.waiting import PATIENCE

from numawise.host.confine import modes
from numawise.host.processes import boot_id, pid_namespace, start_time
from numawise.ledger.place import machine_id

pytestmark = [needs.PROC, needs.SYS]
CPUS = len(os.sched_getaffinity(0))
OPEN = [
    "affinity",
    *(mode.name.split()[0] for mode in modes() if not mode.problem and mode.name != "affinity"),
]
MASK = "grep -h Cpus_allowed_list /proc/self/status | cut -f2"
several = pytest.mark.skipif(CPUS < 2, reason="needs two CPUs")


def job(host: Host, *options: str) -> int:
    """A job named ``train``; its process."""
    host.start("run", "-q", "--name", "train", *options, "--", "sleep", "3600")
    pid: int = host.hold("train")["pid"]
    host.until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "the job has not begun")
    return pid


@several
@pytest.mark.parametrize("mode", OPEN)
def test_it_runs_where_the_job_does(host: Host, mode: str) -> None:
    pid = job(host, "--mode", mode, "--cpus", "1")
    before = host.holds()
    done = host.run("exec", "train", "--", "sh", "-c", f"{MASK}; cat /proc/self/cgroup; env")
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[0] == allowed(pid)
    assert [line for line in lines if ":/" in line and line[0].isdigit()] == Path(
        f"/proc/{pid}/cgroup"
    ).read_text().splitlines()
    assert f"NUMAWISE_HOLD={before[0]['id']}" in lines
    assert f"NUMAWISE_CPUS={allowed(pid)}" in lines
    assert host.holds() == before  # it takes nothing


def test_the_mask_of_whoever_calls_does_not_count(host: Host) -> None:
    pid = job(host, "--cpus", str(CPUS))
    one = min(os.sched_getaffinity(0))
    done = host.run(
        "exec", "train", "--", "sh", "-c", MASK, preexec_fn=lambda: os.sched_setaffinity(0, {one})
    )
    assert done.stdout.strip() == allowed(pid)


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", -signal.SIGTERM)]
)
def test_it_ends_as_the_command_ended(host: Host, script: str, status: int) -> None:
    job(host)
    assert host.run("exec", "train", "--", "sh", "-c", script).returncode == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_it(host: Host, number: signal.Signals) -> None:
    job(host)
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.1; done"
    started = host.start("exec", "train", "--", "bash", "-c", script)
    assert started.stdout
    assert started.stdout.readline() == "ready\n"
    started.send_signal(number)
    out, _ = started.communicate(timeout=PATIENCE)
    assert (out, started.returncode) == ("got\n", 9)


@needs.TERMINALS
def test_it_has_the_terminal(host: Host) -> None:
    job(host)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        host.argv("exec", "train", "--", "sh", "-c", "test -t 0 && test -t 1"),
        stdin=theirs, stdout=theirs, stderr=theirs, env=host.environment, check=False,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0


@pytest.mark.parametrize("mode", OPEN)
def test_it_is_of_the_job(host: Host, mode: str) -> None:
    """The hold lives until it has ended, and ``release --kill`` ends it."""
    pid = job(host, "--mode", mode, "--cpus", "1")
    started = host.start("exec", "train", "--", "sh", "-c", "echo ready; sleep 3600 & wait")
    assert started.stdout
    assert started.stdout.readline() == "ready\n"
    os.kill(pid, signal.SIGKILL)
    host.started[0].wait()
    assert [hold["name"] for hold in host.holds()] == ["train"]
    assert host.run("release", "--kill", "train").returncode == 0
    started.communicate(timeout=PATIENCE)
    assert started.returncode == -signal.SIGKILL
    assert host.holds() == []


@several
def test_one_in_the_shared_pool_moves_with_it(host: Host) -> None:
    job(host, "--mode", "affinity")
    started = host.start("exec", "train", "--", "sh", "-c", "echo ready; read line")
    assert started.stdout
    assert started.stdout.readline() == "ready\n"
    host.start("run", "-q", "--mode", "affinity", "--cpus", "1", "--name", "alone", "--", "sleep", "3600")
    alone = host.hold("alone")["cpus"]
    host.until(lambda: alone not in allowed(started.pid).split(","), "it stays on CPUs of another job")


def test_steps_are_shown(host: Host) -> None:
    job(host, "--mode", "affinity", "--cpus", "1")
    done = host.run("exec", "--dry-run", "train", "--", "bash", "-l")
    assert done.returncode == 0
    assert "sched_setaffinity" in done.stdout
    assert done.stdout.splitlines()[-1] == "  bash -l"
    shown = json.loads(host.run("exec", "--dry-run", "-o", "json", "train", "--", "bash").stdout)
    assert (shown["kind"], shown["mode"], shown["command"]) == ("Placement", "affinity", ["bash"])


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["train"], 2, "numawise exec train -- COMMAND"),
        (["train", "bash", "-l"], 2, "numawise exec [OPTIONS] train -- bash -l"),
        (["nothing", "--", "true"], 2, "'nothing' is not a hold"),
        (["train", "--", "no-such-command"], 127, "no-such-command: command not found"),
        (["train", "--", "/"], 126, "/: is a folder"),
    ],
)
def test_typed_wrong(host: Host, words: list[str], status: int, said: str) -> None:
    job(host)
    done = host.run("exec", *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def recorded(host: Host, **row: object) -> None:
    """A ledger with one hold, as another numawise may have left it."""
    head = {"apiVersion": "numawise.dev/v1", "kind": "Ledger", "machine": machine_id()}
    hold = {"id": "bcdfg", "name": "old", "boot": boot_id(), "since": 1.0, "mode": "affinity", **row}
    host.ledger.mkdir()
    (host.ledger / f"numawise-{os.geteuid()}.json").write_text(json.dumps({**head, "holds": [hold]}))


def test_a_dead_job(host: Host) -> None:
    recorded(host, pid=(1 << 22) - 1, start=1)
    done = host.run("exec", "old", "--", "true")
    assert done.returncode == 4
    assert "old (bcdfg) has no job any more" in done.stderr


def test_a_job_of_another_namespace(host: Host) -> None:
    recorded(host, pid=os.getpid(), start=start_time(os.getpid()), namespace=pid_namespace() + 1)
    done = host.run("exec", "old", "--", "true")
    assert done.returncode == 3
    assert "another container or pid namespace" in done.stderr


def test_a_container_is_entered_by_its_engine(host: Host, tmp_path: Path) -> None:
    engine = tmp_path / "bin/docker"
    engine.parent.mkdir()
    engine.write_text('#!/bin/sh\necho "$@"\nexit 6\n')
    engine.chmod(0o755)
    pid = os.getpid()
    recorded(
        host, kind="container", engine="docker", container="f" * 64, mode="docker", pid=pid, start=start_time(pid),
        namespace=pid_namespace(), labels={"engine-options": "--context box"},
    )  # fmt: skip
    path = {"PATH": f"{engine.parent}:{os.environ['PATH']}"}
    done = host.run("exec", "old", "--", "nvidia-smi", "-L", environment=path)
    assert done.returncode == 6, done
    assert done.stdout == f"--context box exec -i {'f' * 64} nvidia-smi -L\n"
