"""Saying where, on this kernel: the very CPUs, the NUMA node, the whole machine; waiting for them; as another hold."""

import json
import os
import signal
import subprocess

import pytest
from tests import needs
from tests.host.launching import Host
from tests.waiting import PATIENCE

from numawise.sets import bits_of, format_ids

pytestmark = needs.PROC
CPUS = sorted(os.sched_getaffinity(0))
LAST = str(CPUS[-1])
MASK = "grep -h Cpus_allowed_list /proc/self/status | cut -f2"
several = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def test_the_very_cpus(host: Host) -> None:
    done = host.run("run", "--cpu-ids", LAST, "--", "sh", "-c", MASK)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == LAST


@several
def test_those_who_named_cpus_wait_for_these(host: Host) -> None:
    """Another CPU is free all the time."""
    holder = host.start("run", "-q", "--cpu-ids", LAST, "--name", "holder", "--", "sleep", "3600")
    host.hold("holder")
    refused = host.run("run", "--cpu-ids", LAST, "--", "true")
    assert refused.returncode == 1
    assert f"no room: CPU {LAST} is not free" in refused.stderr
    assert "holder (" in refused.stderr
    waiter = host.start("run", "--wait", "--cpu-ids", LAST, "--", "sh", "-c", MASK)
    assert waiter.stderr
    assert f"waiting: CPU {LAST} is not free" in waiter.stderr.readline()
    holder.send_signal(signal.SIGTERM)
    out, _ = waiter.communicate(timeout=PATIENCE)
    assert out.strip() == LAST


def test_the_whole_machine(host: Host) -> None:
    host.start("run", "-q", "--exclusive", "machine", "--name", "alone", "--", "sleep", "3600")
    hold = host.hold("alone")
    assert hold["cpus"] == format_ids(bits_of(CPUS))
    assert hold["labels"]["exclusive"] == "machine"
    for words in ((), ("--cpus", "0.1"), ("--cpus", "1")):
        done = host.run("run", *words, "--", "true")
        assert done.returncode == 1
        assert "no room: alone has the whole machine" in done.stderr


def test_the_machine_is_waited_for(host: Host) -> None:
    first = host.start("run", "-q", "--name", "first", "--", "sleep", "3600")
    host.hold("first")
    waiter = host.start("run", "--wait", "--exclusive", "machine", "--", "echo", "now")
    assert waiter.stderr
    assert "waiting: the machine is not free: 1 hold on it" in waiter.stderr.readline()
    first.send_signal(signal.SIGTERM)
    out, _ = waiter.communicate(timeout=PATIENCE)
    assert out == "now\n"


@pytest.mark.parametrize(("words", "complaint"), [
    pytest.param(("--numa", "63"),                            "--numa: this machine has no NUMA node 63",  id="node"),
    pytest.param(("--numa", "x"),                             "--numa: 'x' is not a list of NUMA nodes",   id="no node"),
    pytest.param(("--cpu-ids", "60000"),                      "--cpu-ids: CPU 60000 is not on this machine", id="CPU"),
    pytest.param(("--cpu-ids", LAST, "--cpus", "9"),          "--cpus and --cpu-ids:",                     id="two numbers"),
    pytest.param(("--exclusive", "socket"),                   "--exclusive: 'socket'",                     id="no such thing"),
    pytest.param(("--exclusive", "--cpus", "0.5"),            "--exclusive and --cpus:",                   id="a fraction alone"),
    pytest.param(("--exclusive", "numa", "--cpu-ids", LAST),  "--exclusive and --cpu-ids:",                id="ids alone"),
    pytest.param(("--exclusive", "machine", "--numa", "0"),   "--exclusive machine and --numa:",           id="machine and node"),
    pytest.param(("--gpus", "none"),                          "--gpus: 'none'",                            id="no number of GPUs"),
    pytest.param(("--gpu-ids", "3-1"),                        "--gpu-ids: '3-1' is not a range",           id="range"),
    pytest.param(("--gpus", "2", "--gpu-ids", "0"),           "--gpus and --gpu-ids:",                     id="GPUs twice"),
    pytest.param(("--numa", ""),                              "--numa: is empty",                          id="empty"),
    pytest.param(("--exclusive", ""),                         "--exclusive: is empty",                     id="empty exclusive"),
])  # fmt: skip
def test_refused(host: Host, words: tuple[str, ...], complaint: str) -> None:
    done = host.run("run", *words, "--", "true")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert complaint in line
    assert host.holds() == []


def test_from_python(host: Host) -> None:
    code = f"""
import os, numawise
with numawise.hold(cpu_ids="{LAST}", name="block") as held:
    assert os.sched_getaffinity(0) == {{{LAST}}} == set(held.cpus), held
with numawise.hold(exclusive="machine") as held:
    try:
        with numawise.hold():
            raise SystemExit("not alone")
    except numawise.NoRoomError as error:
        print(error)
print(numawise.place(numa=0).mems)
"""
    done = subprocess.run(
        [*host.argv()[:1], "-c", code], env=host.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "has the whole machine" in done.stdout
    assert done.stdout.endswith("(0,)\n")


def test_like_a_hold(host: Host) -> None:
    words = ("--cpu-ids", LAST, "--memory", "64m", "--policy", "restricted", "--name", "first")
    host.start("run", "-q", *words, "--", "sleep", "3600")
    hold = host.hold("first")
    for name in ("first", hold["id"]):
        same = host.run("run", "--like", name, "--", "true")
        assert same.returncode == 1
        assert f"no room: CPU {LAST} is not free" in same.stderr
    other = host.run("flags", "--like", "first", "--cpus", "0.5", "-o", "json")
    assert other.returncode == 0, other.stderr
    placement = json.loads(other.stdout)["placement"]
    assert not placement["exclusive"]
    assert (placement["memory"], placement["policy"]) == (64 << 20, "restricted")


def test_like_a_hold_that_is_not_there(host: Host) -> None:
    done = host.run("run", "--like", "nobody", "--", "true")
    assert done.returncode == 2
    assert done.stderr == "numawise: --like: 'nobody' is not a hold; there are none; see 'numawise ps'\n"
