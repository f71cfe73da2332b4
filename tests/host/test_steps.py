"""Steps on this kernel: ``numawise run`` inside of a job takes a part of its hold."""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import needs
from tests.host.launching import Host, allowed
from tests.waiting import PATIENCE

from numawise.host.confine import modes
from numawise.sets import parse_ids

pytestmark = [
    needs.PROC,
    needs.SYS,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]
OPEN = sorted({"affinity", *(mode.name.split()[0] for mode in modes() if not mode.problem)})
MASK = "grep -h Cpus_allowed_list /proc/self/status | cut -f2"


@pytest.fixture
def shell(host: Host) -> Iterator["Shell"]:
    made = Shell(host)
    yield made
    made.end()


class Shell:
    """A job named ``job`` with two CPUs, in which commands are started one after another."""

    def __init__(self, host: Host, mode: str = "affinity") -> None:
        self.host = host
        words = ("run", "-q", "--mode", mode, "--cpus", "2", "--name", "job", "--", "bash")
        self.job = host.start(*words)
        host.hold("job")

    def numawise(self, *words: str) -> str:
        return shlex.join(self.host.argv(*words))

    def tell(self, line: str) -> None:
        assert self.job.stdin
        self.job.stdin.write(f"{line}\n")
        self.job.stdin.flush()

    def run(self, *words: str, before: str = "") -> tuple[int, str, str]:
        """Run numawise inside of the job: its exit status, its output, and what it said."""
        out, err = (self.host.ledger.parent / name for name in ("out", "err"))
        self.tell(f"{before} {self.numawise(*words)} >{out} 2>{err} </dev/null; echo $?")
        assert self.job.stdout
        return int(self.job.stdout.readline()), out.read_text(), err.read_text()

    def begin(self, name: str, *options: str, command: str = "sleep 3600") -> int:
        """A step that goes on; its process."""
        words = self.numawise("run", "-q", "--name", name, *options, "--", "sh", "-c", f"exec {command}")
        self.tell(f"{words} >/dev/null 2>&1 </dev/null &")
        self.host.until(lambda: name in self.steps(), f"no step {name}")
        pid: int = self.steps()[name]["pid"]
        self.host.until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "it has not begun")
        return pid

    def steps(self) -> dict[str, dict[str, Any]]:
        (hold,) = (hold for hold in self.host.holds() if hold["name"] == "job")
        return {step["name"]: step for step in hold["steps"]}

    def end(self) -> None:
        for step in self.steps().values() if self.job.poll() is None else ():
            os.kill(step["pid"], signal.SIGKILL)


def free_cpus(host: Host) -> list[str]:
    return [numa["cpus"] for numa in json.loads(host.run("ps", "-o", "json").stdout)["free"]]


@pytest.mark.parametrize("mode", OPEN)
def test_steps_share_out_what_the_hold_has(host: Host, mode: str) -> None:
    shell = Shell(host, mode)
    free = free_cpus(host)
    first, second = shell.begin("one", "--cpus", "1"), shell.begin("two", "--cpus", "1")
    assert sorted(allowed(pid) for pid in (first, second)) == [
        str(c) for c in sorted(os.sched_getaffinity(0))[:2]
    ]
    (hold,) = host.holds()
    assert parse_ids(hold["cpus"]).bit_count() == 2  # what others see of it has not changed
    assert free_cpus(host) == free
    group = Path(f"/proc/{hold['pid']}/cgroup").read_text()
    assert Path(f"/proc/{first}/cgroup").read_text() == group
    listed = [line.split()[:3] for line in host.run("ps").stdout.splitlines()]
    assert [words[2] for words in listed if words[:1] == ["+"]] == ["one", "two"]
    shell.end()


def test_more_than_is_left_and_more_than_there_is(shell: Shell) -> None:
    shell.begin("one", "--cpus", "1")
    status, _, said = shell.run("run", "--cpus", "2", "--", "true")
    assert status == 1
    lines = said.splitlines()
    assert "2 CPUs asked for, 1 free in hold job (" in lines[0]
    assert "which has CPUs" in lines[0]
    assert "one (" in lines[1]
    status, _, said = shell.run("run", "--cpus", "3", "--wait", "--", "true")
    assert status == 2
    assert "hold job (" in said
    assert "cannot give that, even when no step runs: 3 CPUs asked for, 2 free" in said


def test_a_step_waits_for_another(shell: Shell) -> None:
    pid = shell.begin("one", "--cpus", "2")
    waiting = shell.host.ledger.parent / "waiting"
    shell.tell(
        f"{shell.numawise('run', '--cpus', '1', '--wait', '--', 'echo', 'done')} >{waiting} 2>&1 </dev/null &"
    )
    shell.host.until(
        lambda: waiting.exists() and "waiting: 1 CPU asked for" in waiting.read_text(), "it does not wait"
    )
    os.kill(pid, signal.SIGKILL)
    shell.host.until(lambda: waiting.read_text().endswith("done\n"), "it does not start")


def test_the_variables_of_a_step(shell: Shell) -> None:
    (hold,) = shell.host.holds()
    _, out, said = shell.run("run", "--cpus", "1", "--name", "one", "--", "env")
    found = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    assert found["NUMAWISE_HOLD"] == hold["id"]
    assert found["NUMAWISE_NAME"] == "one"
    assert found["NUMAWISE_CPUS"] == found["GOMP_CPU_AFFINITY"]
    assert parse_ids(found["NUMAWISE_CPUS"]).bit_count() == 1
    assert f"one ({found['NUMAWISE_STEP']}), a step of {hold['id']}: CPUs {found['NUMAWISE_CPUS']}" in said
    _, out, _ = shell.run("run", "--", "env")
    assert "NUMAWISE_CPUS" not in out


def test_steps_of_steps(shell: Shell) -> None:
    inner = shell.numawise("run", "-q", "--cpus", "2", "--", "true")
    status, _, said = shell.run("run", "-q", "--cpus", "1", "--name", "one", "--", "sh", "-c", inner)
    assert status == 2
    assert "step one (" in said
    inner = shell.numawise("run", "-q", "--cpus", "1", "--", "sh", "-c", MASK)
    status, out, _ = shell.run(
        "run", "-q", "--cpus", "1", "--name", "two", "--", "sh", "-c", f"{MASK}; {inner}"
    )
    assert status == 0
    assert len(set(out.split())) == 1


def test_one_without_cpus_follows_what_is_left(shell: Shell) -> None:
    loose = shell.begin("loose")
    both = allowed(loose)
    first = shell.begin("one", "--cpus", "1")
    assert parse_ids(allowed(loose)) == parse_ids(both) & ~parse_ids(allowed(first))
    os.kill(first, signal.SIGKILL)
    shell.host.until(lambda: allowed(loose) == both, "it stays on a part")


def test_it_ends_as_the_step_ended(shell: Shell) -> None:
    for script, expected in (("exit 3", 3), ("kill -TERM $$", 128 + signal.SIGTERM)):
        status, _, _ = shell.run("run", "-q", "--cpus", "2", "--", "sh", "-c", script)
        assert status == expected
    assert shell.steps() == {}


def test_the_time_of_a_step(shell: Shell) -> None:
    status, _, said = shell.run("run", "-q", "--time", "0.3", "--name", "long", "--", "sleep", "3600")
    assert status == 124
    assert "was ended after its 0.3 s (--time)" in said
    assert shell.steps() == {}


def test_nothing_is_left_of_a_step_whose_launcher_was_killed(shell: Shell) -> None:
    pid = shell.begin("one", "--cpus", "2")
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    assert list(shell.steps()) == ["one"]  # the step itself goes on, and keeps its part
    os.kill(pid, signal.SIGKILL)
    shell.host.until(lambda: shell.steps() == {}, "a dead step is shown")
    assert shell.run("run", "-q", "--cpus", "2", "--", "true")[0] == 0
    (file,) = shell.host.ledger.glob("*.json")
    assert "steps" not in json.loads(file.read_text())


@pytest.mark.parametrize("mode", OPEN)
def test_steps_go_with_their_hold(host: Host, mode: str) -> None:
    shell = Shell(host, mode)
    pid = shell.begin("one", "--cpus", "1")
    assert host.run("release", "--kill", "job").returncode == 0
    host.until(
        lambda: not Path(f"/proc/{pid}/stat").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text(),
        "alive",
    )
    assert host.holds() == []
    shell.job.communicate(timeout=PATIENCE)


def test_what_only_a_hold_can_have(shell: Shell) -> None:
    for option in ("--isolate", "--mode=cgroup"):
        status, _, said = shell.run("run", "--cpus", "1", option, "--", "true")
        assert status == 2
        assert "cannot be had inside hold job (" in said
        assert "--outside" in said


def test_steps_are_shown_before(shell: Shell) -> None:
    shell.begin("one", "--cpus", "1")
    status, out, _ = shell.run("run", "--cpus", "1", "--dry-run", "-o", "json", "--", "true")
    assert status == 0
    shown = json.loads(out)
    assert shown["mode"] == "affinity"
    assert shown["cpus"] != shell.steps()["one"]["cpus"]
    assert list(shell.steps()) == ["one"]


# --- where one is not inside ----------------------------------------------------------------------


def test_a_hold_with_nothing_of_its_own_has_nothing_to_share_out(host: Host) -> None:
    inner = shlex.join(host.argv("run", "--mode", "affinity", "--cpus", "1", "--", "true"))
    done = host.run("run", "-q", "--mode", "affinity", "--", "sh", "-c", inner)
    assert done.returncode == 0, done
    assert "a step of" not in done.stderr


@pytest.mark.parametrize("mode", OPEN)
def test_a_forged_variable_lets_nobody_in(host: Host, mode: str) -> None:
    """Whoever only says to be inside of a hold with a group gets a hold of its own, or none."""
    Shell(host, mode)
    (hold,) = host.holds()
    forged = {"NUMAWISE_HOLD": hold["id"]}
    done = host.run("run", "--mode", "affinity", "--", "true", environment=forged)
    if hold["group"]:
        assert "which this process is not in" in done.stderr, done
        assert "a step of" not in done.stderr
    nobody = host.run(
        "run", "--mode", "affinity", "--", "true", environment={"NUMAWISE_HOLD": "no\x1b[31msuch"}
    )
    assert "which this process is not in" in nobody.stderr
    assert "\x1b" not in nobody.stderr


def test_the_environment_of_a_hold_beside_says_nothing_of_the_other(shell: Shell) -> None:
    done = subprocess.run(
        shell.host.argv("run", "-q", "--mode", "affinity", "--", "env"),
        env={**shell.host.environment, "NUMAWISE_STEP": "other", "NUMAWISE_CPUS": "0", "NUMAWISE_HOLD": "none"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "NUMAWISE_STEP" not in done.stdout
