"""``numawise bind`` beside jobs that hold CPUs and GPUs: real holds, real ranks, broken ledgers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import needs
from tests.host.launching import Host

from numawise.apps.launch.others import gpu_clashes, read_others
from numawise.host.processes import boot_id, pid_namespace, start_time
from numawise.ledger.place import machine_id
from numawise.ledger.store import Ledger
from numawise.machine.synthetic import synthetic
from numawise.results.placement import Grant, Hold, Owner, gpu_id
from numawise.sets import parse_ids

pytestmark = [needs.PROC, needs.SYS]
ALLOWED = sorted(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs")
MASK = ("grep", "-h", "Cpus_allowed_list", "/proc/self/status")
ONE = ("--local-rank", "0", "--local-size", "1")
DUAL = synthetic("2s 2n 8c 2t 4gpu")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path, NUMAWISE_RESERVED_CPUS="none")
    for name in list(made.environment):
        if name.startswith(("LOCAL_", "RAY_", "SLURM_", "OMPI_", "PMI_", "MPI_", "CUDA_", "OMP_", "GOMP_")):
            del made.environment[name]
    yield made
    made.end()


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "3600"]) as started:
        yield started.pid
        started.kill()


def held(host: Host, name: str = "busy") -> int:
    """CPUs that a job holds alone from now on."""
    host.start("run", "-q", "--cpus", "1", "--name", name, "--", "sleep", "3600")
    return parse_ids(host.hold(name)["cpus"])


def mask(done: "subprocess.CompletedProcess[str]") -> int:
    assert done.returncode == 0, done
    return parse_ids(done.stdout.split()[1])


def written(host: Host, pid: int, start: int, grant: Grant) -> None:
    """A hold of ours in the ledger that no numawise has made."""
    owner = Owner(os.geteuid(), "", boot_id(), pid, start, namespace=pid_namespace())
    with Ledger.open(host.ledger, machine_id()) as ledger, ledger.change() as change:
        change.add(Hold("wrtn1", "written", owner, grant))


@several
def test_a_rank_keeps_off_cpus_that_a_job_holds_alone(host: Host) -> None:
    theirs = held(host)
    done = host.run("bind", *ONE, "--", *MASK)
    assert not mask(done) & theirs
    assert "busy" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not host.run("bind", "--local-rank", "1", "--local-size", "2", "--", "true").stderr
    assert mask(host.run("bind", *ONE, "--ignore-holds", "--", *MASK)) & theirs


@several
def test_a_dry_run_divides_as_the_ranks_do(host: Host) -> None:
    theirs = held(host)
    done = host.run("bind", "--dry-run", *ONE, "-o", "json")
    found = json.loads(done.stdout)
    assert not parse_ids(found["ranks"][0]["cpus"]) & theirs
    assert "busy" in found["remarks"][0]
    whole = host.run("bind", "--dry-run", "--machine", "2s 2n 8c", "--local-size", "1", "-o", "json")
    assert json.loads(whole.stdout)["remarks"] == []


@several
def test_nothing_left_is_a_no_that_names_the_holder(host: Host) -> None:
    theirs = held(host)
    cpus = [cpu for cpu in ALLOWED if theirs >> cpu & 1]
    done = host.run("bind", *ONE, "--", "true", preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    assert done.returncode == 1
    assert "busy" in done.stderr
    assert "--ignore-holds" in done.stderr
    assert done.stderr.count("\n") == 1


@several
def test_inside_a_hold_that_hold_is_divided(host: Host) -> None:
    theirs = held(host)
    bind = [sys.executable, "-m", "numawise", "bind", *ONE, "--", *MASK]
    done = host.run("run", "-q", "--cpus", str(len(ALLOWED) - 1), "--", *bind)
    assert mask(done).bit_count() == len(ALLOWED) - 1
    assert not mask(done) & theirs
    assert not done.stderr


@several
def test_a_hold_whose_mark_is_lost_is_still_the_own_one(host: Host) -> None:
    bind = [sys.executable, "-m", "numawise", "bind", *ONE, "--", *MASK]
    bare = ["env", "-u", "NUMAWISE_HOLD", "-u", "NUMAWISE_CPUS", *bind]
    done = host.run("run", "-q", "--cpus", str(len(ALLOWED)), "--", *bare)
    assert mask(done).bit_count() == len(ALLOWED)


@several
def test_the_variables_of_a_hold_that_has_ended(host: Host) -> None:
    theirs = held(host)
    left = {
        "NUMAWISE_HOLD": "bcd23",
        "NUMAWISE_CPUS": ",".join(str(cpu) for cpu in ALLOWED if theirs >> cpu & 1),
    }
    done = host.run("bind", *ONE, "--", *MASK, environment=left)
    assert not mask(done) & theirs
    assert "'bcd23'" in done.stderr
    assert "has ended" in done.stderr


@several
def test_the_dead_hold_nothing(host: Host) -> None:
    with subprocess.Popen(["true"]) as ended:
        pid, start = ended.pid, start_time(ended.pid)
    written(host, pid, start or 1, Grant(cpus=1 << ALLOWED[0]))
    done = host.run("bind", *ONE, "--", *MASK)
    assert mask(done).bit_count() == len(ALLOWED)
    assert not done.stderr


@pytest.mark.parametrize("what", ["not JSON", "a file", "a setting", "a relative path"])
def test_a_broken_ledger_stops_no_rank(host: Host, tmp_path: Path, what: str) -> None:
    extra = {}
    if what == "not JSON":
        written(host, os.getpid(), start_time(os.getpid()) or 1, Grant(cpus=1 << ALLOWED[0]))
        next(host.ledger.glob("*.json")).write_text("{")
    elif what == "a file":
        host.ledger.write_text("x")
    elif what == "a setting":
        (tmp_path / "numawise").mkdir()
        (tmp_path / "numawise/config.toml").write_text("no = such")
        extra = {"XDG_CONFIG_HOME": str(tmp_path)}
    else:
        extra = {"NUMAWISE_LEDGER": "here"}
    done = host.run("bind", *ONE, "--", "echo", "started", environment=extra)
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert done.stderr.startswith("numawise: ")
    assert done.stderr.count("\n") == 1
    if host.ledger.is_file():
        host.ledger.unlink()
    for file in host.ledger.glob("*.json"):
        file.unlink()


def test_gpus_of_another_job_are_found_in_the_ledger(host: Host, sleeper: int) -> None:
    theirs = gpu_id(DUAL.gpus[1])
    written(host, sleeper, start_time(sleeper) or 1, Grant(1 << 2, devices=(("nvidia.com/gpu", (theirs,)),)))
    others = read_others(DUAL, host.environment, os.getpid())
    assert not others.remark
    assert others.cpus == 1 << 2
    (clash,) = gpu_clashes(others, DUAL.gpus, DUAL.gpus)
    assert clash.startswith("GPU1 is held by ")
    assert "(written, wrtn1)" in clash
    ours = read_others(DUAL, {**host.environment, "NUMAWISE_HOLD": "wrtn1"}, os.getpid())
    assert (ours.holds, ours.inside) == ((), ("wrtn1",))
    assert read_others(DUAL, host.environment, sleeper).inside == ("wrtn1",)
