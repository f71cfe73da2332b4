"""``numawise verify`` on real processes, with a ledger of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.verify import measure as measuring
from numawise.apps.verify.look import JobHost
from numawise.cli.verify import STATUS, STYLES
from numawise.host.discover import read_live
from numawise.host.processes import boot_id, read_process, start_time
from numawise.ledger.place import machine_id
from numawise.ledger.store import Ledger
from numawise.machine.locality import memory_near, numa_of
from numawise.results.placement import Grant, Hold, Owner
from numawise.results.verification import WORST_FIRST
from numawise.sets import bits_of, format_ids
from tests import needs
from tests.cli.run import Ran, numawise, refused
from tests.waiting import until

pytestmark = needs.PROC
CPUS = sorted(os.sched_getaffinity(0))
CPU, EVERY = CPUS[-1], bits_of(CPUS)
TWO = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
HARDWARE = read_live()
STRAY = """
import os, threading, time
threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
os.sched_setaffinity(0, {%d})
print("ready", flush=True)
time.sleep(3600)
"""


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ledger.db"
    monkeypatch.setenv("NUMAWISE_LEDGER", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return path


@contextmanager
def running(*command: str, cpus: set[int] | None = None, ready: bool = False) -> Iterator[int]:
    """A real program, bound before it begins."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or before)
    try:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    finally:
        os.sched_setaffinity(0, before)
    try:
        assert child.stdout
        if ready:
            assert child.stdout.readline() == b"ready\n"
        elif command[0] == "sleep":  # until it sleeps, its memory still grows
            until(lambda: (seen := read_process(child.pid)) is not None and seen.state == "S", "it sleeps")
        yield child.pid
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()


def hold(pid: int, cpus: int = 1 << CPU, **more: Any) -> Hold:
    mems = memory_near(HARDWARE, numa_of(HARDWARE, cpus))
    owner = Owner(os.getuid(), "me", boot_id(), pid, start_time(pid) or 0)
    return Hold(more.pop("id", "b2345"), more.pop("name", "train"), owner, Grant(cpus, mems=mems), **more)


def write(path: Path, *holds: Hold) -> None:
    with Ledger.open(path, machine_id()) as opened, opened.change() as change:
        for one in holds:
            change.add(one)


def data(ran: Ran) -> Any:
    return json.loads(ran.out)


def test_a_bound_process(capsys: pytest.CaptureFixture[str]) -> None:
    with running("sleep", "100", cpus={CPU}) as pid:
        ran = numawise(capsys, "verify", pid)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"aligned: 1 thread on CPU {CPU} (NUMA "), ran.out


def test_a_hold_that_keeps_to_its_grant(capsys: pytest.CaptureFixture[str], ledger: Path) -> None:
    with running("sleep", "100", cpus={CPU}) as pid:
        write(ledger, hold(pid))
        by_name, by_id = numawise(capsys, "verify", "train"), numawise(capsys, "verify", "b2345")
        every = numawise(capsys, "verify")
        as_data = data(numawise(capsys, "verify", "train", "-o", "json"))
    assert by_name.status == by_id.status == every.status == 0
    assert by_name.out.splitlines()[0] == by_id.out.splitlines()[0]
    assert by_name.out.startswith(f"aligned: 1 thread on CPU {CPU} (NUMA ")
    assert every.out.splitlines()[0].split() == [
        "HOLD", "NAME", "VERDICT", "PROCESSES", "THREADS", "CPUS", "LOCAL", "MEMORY", "GPUS",
    ]  # fmt: skip
    assert every.out.splitlines()[1].split()[:6] == ["b2345", "train", "aligned", "1", "1", str(CPU)]
    assert (as_data["kind"], as_data["aligned"]) == ("Verification", True)
    (job,) = as_data["jobs"]
    assert job["granted"]["cpus"] == job["cpus"] == str(CPU)
    assert job["memory"]["own"] == job["memory"]["local"] > 0


@TWO
def test_a_job_that_was_never_bound(capsys: pytest.CaptureFixture[str], ledger: Path) -> None:
    with running("sleep", "100") as pid:
        write(ledger, hold(pid))
        ran = numawise(capsys, "verify", "train")
        every = numawise(capsys, "verify", "-o", "json")
    assert (ran.status, every.status) == (1, 1)
    assert ran.out.startswith(f"not aligned: 1 thread may run outside CPU {CPU}\n")
    assert f"sleep ({pid}): CPUs " in ran.out
    assert "its process was never bound" in ran.out
    assert data(every)["jobs"][0]["findings"][0]["code"] == "threads-elsewhere"


@TWO
def test_a_process_on_cpus_of_somebody_else(capsys: pytest.CaptureFixture[str], ledger: Path) -> None:
    with running("sleep", "100", cpus={CPU}) as holding, running("sleep", "100") as pid:
        write(ledger, hold(holding))
        ran = numawise(capsys, "verify", pid)
        kept = numawise(capsys, "verify", "train")
    assert (ran.status, kept.status) == (1, 0)
    assert f"may run on CPU {CPU}, which hold b2345 (train) of " in ran.out.splitlines()[0]
    assert f"taskset -acp {format_ids(EVERY & ~(1 << CPU))} {pid}" in ran.out


@TWO
def test_a_thread_that_leaks(capsys: pytest.CaptureFixture[str], ledger: Path) -> None:
    with running(sys.executable, "-c", STRAY % CPU, ready=True) as pid:
        write(ledger, hold(pid, since=time.time() + 1))
        ran = numawise(capsys, "verify", pid)
        (thread,) = [task.name for task in Path(f"/proc/{pid}/task").iterdir() if task.name != str(pid)]
    assert ran.status == 1
    assert ran.out.startswith(f"not aligned: 1 of 2 threads may run outside CPU {CPU}\n")
    assert f"({pid}/{thread}): CPUs " in ran.out
    assert "it was started before the hold, and binding its process did not reach it" in ran.out


def test_descendants_belong_to_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    with running("sh", "-c", "sleep 100 & echo ready; wait", cpus={CPU}, ready=True) as pid:
        (job,) = data(numawise(capsys, "verify", pid, "-o", "json"))["jobs"]
    assert job["processes"] == 2


def test_a_job_that_is_gone(capsys: pytest.CaptureFixture[str], ledger: Path) -> None:
    with running("sleep", "100") as pid:
        write(ledger, hold(pid))
    ran = numawise(capsys, "verify", "train")
    assert ran.status == 1
    assert ran.out.startswith(f"not aligned: it is not running any more: process {pid} is gone\n")
    assert "numawise reap" in ran.out


def test_every_verdict_has_its_exit_status() -> None:
    assert [STATUS[grade] for grade in WORST_FIRST] == [1, 1, 3, 0]
    assert STATUS.keys() == STYLES.keys() == set(WORST_FIRST)


def test_nothing_held(capsys: pytest.CaptureFixture[str], ledger: Path) -> None:
    assert numawise(capsys, "verify") == Ran(0, "nothing is held on this host\n", "")
    assert not ledger.exists()  # looking makes nothing


@pytest.mark.parametrize(("arguments", "words"), [
    (["nobody"],         ["'nobody' is neither a hold nor a process number", "there are none at all"]),
    (["4194305"],        ["there is no process 4194305"]),
    (["-1x"],            []),
    (["--measure"],      ["--measure: measures one job", "name a hold or a process"]),
    (["٣"],              ["neither a hold nor a process number"]),
    (["9" * 30],         ["there is no process"]),
])  # fmt: skip
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]) -> None:
    ran = numawise(capsys, "verify", *arguments)
    if words:
        refused(ran, *words)
    else:
        assert ran.status == 2


def test_a_damaged_ledger_matters_for_holds_only(capsys: pytest.CaptureFixture[str], ledger: Path) -> None:
    ledger.write_bytes(b"no database at all" * 100)
    assert numawise(capsys, "verify").status == 4
    assert numawise(capsys, "verify", "train").status == 4
    with running("sleep", "100", cpus={CPU}) as pid:
        ran = numawise(capsys, "verify", pid)
    assert ran.status == 0
    assert ran.err.startswith("numawise: holds are not known: ")


def test_busy_strangers_are_told() -> None:
    with (
        running("sleep", "100", cpus={CPU}) as pid,
        running(sys.executable, "-c", "while True: pass", cpus={CPU}) as busy,
    ):
        for _ in range(20):  # a machine with much to do may let it wait
            found = JobHost(HARDWARE, (hold(pid),), glance=0.3).check_hold(hold(pid))
            shared = [finding for finding in found.verdict.findings if finding.code == "cpus-shared"]
            if shared and any(f"({busy})" in line for line in shared[0].why):
                break
        assert shared
        assert found.verdict.aligned


def test_figures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "BUDGET", 0.2)
    with running("sleep", "100", cpus={CPU}) as pid:
        text = numawise(capsys, "verify", pid, "--measure")
        (job,) = data(numawise(capsys, "verify", pid, "--measure", "-o", "json"))["jobs"]
    lines = text.out.splitlines()
    at = lines.index("memory, by one core")
    assert lines[at + 1].split() == ["CPU", "MEMORY", "READ", "COPY", "OF", "LOCAL"]
    assert lines[at + 2].startswith(f"{CPU} (NUMA ")
    rates = job["measured"]["memory"][0]["rates"]
    assert [rate["numa"] for rate in rates] == [node.id for node in HARDWARE.numa if node.memory != 0]
    assert all(rate.get("problem") or min(rate["read"], rate["copy"]) > 1 << 20 for rate in rates)


def test_figures_of_two_nodes() -> None:
    """Rows and ratios, of made-up figures."""
    gib = 1 << 30
    measured = measuring.Measured(
        (
            measuring.FromCpu(
                2,
                0,
                1,
                (
                    measuring.Rate(0, 12 * gib, 6 * gib),
                    measuring.Rate(1, 6 * gib, 3 * gib),
                    measuring.Rate(2, problem="too little memory is free there"),
                ),
            ),
        ),
        (
            measuring.ToGpu(
                "GPU0",
                1,
                2,
                (measuring.CopyRate(0, 52 * gib, 50 * gib), measuring.CopyRate(1, 26 * gib, 20 * gib)),
            ),
            measuring.ToGpu("GPU1", 2, 2, problem="CUDA refused cuInit: CUDA_ERROR_NO_DEVICE"),
        ),
        granted=3,
    )
    assert measuring.memory_rows(measured) == [
        ("2 (NUMA 0)", "NUMA 0", "12.0 GiB/s", "6.0 GiB/s", "100 %", "local, granted"),
        ("2 (NUMA 0)", "NUMA 1", "6.0 GiB/s", "3.0 GiB/s", "50 %", "granted"),
        ("2 (NUMA 0)", "NUMA 2", "-", "-", "-", "too little memory is free there"),
    ]
    assert measuring.copy_rows(measured) == [
        ("GPU0 (NUMA 0)", "NUMA 0", "52.0 GiB/s", "50.0 GiB/s", "100 %", "near the GPU, granted"),
        ("GPU0 (NUMA 0)", "NUMA 1", "26.0 GiB/s", "20.0 GiB/s", "50 %", "granted"),
        ("GPU1 (NUMA 1)", "-", "-", "-", "-", "CUDA refused cuInit: CUDA_ERROR_NO_DEVICE"),
    ]
    figures = measuring.measured_data(replace(measured, remarks=("so it is",)))
    assert figures["gpus"][0]["rates"][1] == {"numa": 1, "toGpu": 26 * gib, "fromGpu": 20 * gib}
    assert figures["memory"][0]["rates"][2] == {"numa": 2, "problem": "too little memory is free there"}
    assert figures["remarks"] == ["so it is"]
