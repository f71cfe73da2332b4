"""Checks of the systemd template of docs/how-to/recipes.md, under a real systemd."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from numawise.sets import format_ids, parse_ids
from tests.recipes.page import recipes
from tests.vm.guest import CGROUP, Guest
from tests.vm.running import numawise
from tests.vm.scopes import control
from tests.waiting import until

UNITS = Path("/run/systemd/system")
PATIENT = "import os, signal, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w')); time.sleep(3600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + PATIENT
NAME = "numawise@train.service"


@contextmanager
def started(program: str, ask: str, seconds: int) -> Iterator[tuple[dict[str, str], int, Path]]:
    """The page's unit with a job that has so long to stop; an environment with its ledger, and the job's process."""
    recipe = recipes()["A systemd unit"]
    (unit,) = [text for name, text in recipe.files.items() if name.endswith("@.service")]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        script, told = folder / "job.py", folder / "pid"
        script.write_text(program)
        ours = folder / "numawise"
        ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m numawise "$@"\n')
        ours.chmod(0o755)
        job = folder / "train"
        environment = {
            "NUMAWISE_LEDGER": f"{folder}/ledger",
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        }
        lines = {"ASK": ask, "COMMAND": f"{sys.executable} {script} {told}", **environment}
        job.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        text = unit.replace("/usr/local/bin/numawise", str(ours)).replace("/etc/numawise/jobs/%i", str(job))
        (UNITS / "numawise@.service").write_text(text)
        drop_in = UNITS / "numawise@.service.d"
        drop_in.mkdir(exist_ok=True)
        (drop_in / "bare.conf").write_text(
            f"[Unit]\nDefaultDependencies=no\n[Service]\nTimeoutStopSec={seconds}\nStandardError=append:{folder}/said\n"
        )
        control("daemon-reload")
        control("start", NAME)
        until(lambda: told.exists() and told.read_text().strip(), "the job has started")
        try:
            yield {**os.environ, **environment}, int(told.read_text()), folder
        finally:
            control("stop", NAME)


def runs_and_stops(guest: Guest) -> str:
    """The job is on what it holds, in a scope of its own; a stop ends it and frees the hold."""
    with started(PATIENT, "--cpus 2 --memory 64m", 600) as (environment, pid, folder):
        (hold,) = json.loads(numawise(environment, "ps", "-o", "json").stdout)["holds"]
        assert hold["name"] == "unit-train", hold
        own = parse_ids(hold["cpus"])
        mask = parse_ids(",".join(map(str, sorted(os.sched_getaffinity(pid)))))
        assert mask == own, f"{format_ids(mask)} instead of {format_ids(own)}"
        group = Path(f"/proc/{pid}/cgroup").read_text().strip().partition("::")[2]
        said = (folder / "said").read_text()
        assert "kept by systemd" in said, f"{group}: {said}"
        assert group.startswith("/numawise.slice/"), group
        assert not own & ~guest.all_cpus
        control("stop", NAME)
        assert not Path(f"/proc/{pid}").exists(), "the job outlived its unit"
        assert not json.loads(numawise(environment, "ps", "-o", "json").stdout)["holds"]
        assert control("show", "-p", "ActiveState", "--value", NAME) == "inactive"
    return f"CPUs {format_ids(own)}, {group}"


def stubborn_jobs_are_ended(_: Guest) -> str:
    """A job that ignores the signal is ended by ``ExecStopPost``, though systemd has killed numawise."""
    with started(STUBBORN, "--cpus 2", 90) as (environment, pid, _folder):
        group = Path(f"/proc/{pid}/cgroup").read_text().strip().partition("::")[2]
        control("stop", NAME)
        until(lambda: not Path(f"/proc/{pid}").exists(), "the job has ended")
        until(lambda: not Path(f"{CGROUP}{group}").exists(), "its scope is gone")
        assert not json.loads(numawise(environment, "ps", "-o", "json").stdout)["holds"]
    return "nothing is left"
