"""A CPU mask from outside (``taskset``, a batch system): kept to by ``run`` and ``hold()``, and dropped on request."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests import needs
from tests.host.launching import Host, allowed

from numawise.host.confine import modes
from numawise.sets import format_ids, parse_ids

pytestmark = [needs.PROC, needs.SYS]
CPUS = sorted(os.sched_getaffinity(0))
LAST = CPUS[-1]
OTHERS = format_ids(sum(1 << cpu for cpu in CPUS[:-1]))
OPEN = sorted({"affinity", *(mode.name.split()[0] for mode in modes() if not mode.problem)})
MASK = ("grep", "-h", "Cpus_allowed_list", "/proc/self/status")
several = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def masked() -> None:
    """Done by a child before it becomes numawise: as ``taskset -c LAST`` does."""
    os.sched_setaffinity(0, {LAST})


def lines(text: str) -> list[str]:
    """What was said about the mask."""
    return [line for line in text.splitlines() if "started with" in line]


@several
@pytest.mark.parametrize("mode", OPEN)
@pytest.mark.parametrize("amount", [(), ("--cpus", "1"), ("--cpus", "0.5")])
def test_a_mask_is_kept_to(host: Host, mode: str, amount: tuple[str, ...]) -> None:
    done = host.run("run", "--mode", mode, *amount, "--", *MASK, preexec_fn=masked)
    assert done.returncode == 0, done
    assert done.stdout.split()[1] == str(LAST)
    (line,) = lines(done.stderr)
    assert f"CPUs {LAST} (affinity)" in line
    assert "--ignore-affinity" in line


@several
def test_a_variable_that_is_left_over_does_not_lift_it(host: Host) -> None:
    """A shell outlives its job (``tmux``), and says that it is in a hold that has ended."""
    host.environment["NUMAWISE_HOLD"] = "ended"
    done = host.run("run", "--cpus", "1", "--", *MASK, preexec_fn=masked)
    assert done.returncode == 0, done
    assert done.stdout.split()[1] == str(LAST)
    assert f"CPUs {LAST} (affinity)" in done.stderr


@several
def test_what_does_not_fit_is_refused_with_the_mask(host: Host) -> None:
    done = host.run("run", "--cpus", "2", "--", "true", preexec_fn=masked)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"CPUs {LAST} (affinity)" in done.stderr
    assert "--ignore-affinity" in done.stderr
    assert host.holds() == []


@several
def test_a_mask_is_dropped_on_request(host: Host) -> None:
    done = host.run("run", "--cpus", str(len(CPUS)), "--ignore-affinity", "--", *MASK, preexec_fn=masked)
    assert done.returncode == 0, done
    assert parse_ids(done.stdout.split()[1]) == sum(1 << cpu for cpu in CPUS)
    (line,) = lines(done.stderr)
    assert line.endswith("(--ignore-affinity)")


@several
def test_a_preview_shows_it_and_other_machines_know_nothing_of_it(host: Host) -> None:
    here = host.run("run", "--dry-run", "--cpus", "1", "-o", "json", "--", "true", preexec_fn=masked)
    assert json.loads(here.stdout)["cpus"] == str(LAST)
    there = host.run(
        "run", "--dry-run", "--cpus", "8", "--machine", "8gpu-server", "--", "true", preexec_fn=masked
    )
    assert there.returncode == 0
    assert not lines(there.stdout)


@several
def test_the_hold_says_within_and_the_pool_is_followed_there(host: Host) -> None:
    """Exclusive jobs come and go; the job in the shared pool stays within its mask all the time."""
    host.start("run", "-q", "--name", "kept", "--", "sleep", "3600", preexec_fn=masked)
    kept = host.hold("kept")
    assert kept["labels"]["within"] == f"cpus {LAST}"
    assert kept["cpus"] == str(LAST)
    refused = host.run("run", "-q", "--cpu-ids", str(LAST), "--", "true")
    assert refused.returncode == 1
    assert "kept keeps within these" in refused.stderr
    assert host.run("run", "-q", "--cpus", str(len(CPUS) - 1), "--", "true").returncode == 0
    assert allowed(kept["pid"]) == str(LAST)
    seen = host.run("verify", "kept")
    assert "threads-elsewhere" not in seen.stdout
    assert f"on CPU {LAST}" in seen.stdout.splitlines()[0]


@several
def test_verify_sees_a_job_that_left_what_it_keeps_within(host: Host) -> None:
    host.start("run", "-q", "--mode", "affinity", "--name", "left", "--", "sleep", "3600", preexec_fn=masked)
    os.sched_setaffinity(host.hold("left")["pid"], CPUS)
    seen = host.run("verify", "left")
    assert seen.returncode == 1
    assert f"may run outside CPU {LAST}" in seen.stdout


PROGRAM = """
import json, os, numawise
def cpus(): return sorted(os.sched_getaffinity(0))
with numawise.hold(OPTIONS) as outer:
    found = [outer.cpus, cpus(), [one for one in outer.remarks if "started with" in one]]
print(json.dumps([*found, cpus()]))
"""


def held(host: Host, options: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("OPTIONS", options)],
        env=host.environment,
        preexec_fn=masked,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@several
def test_a_hold_from_python_keeps_to_it(host: Host) -> None:
    given, mask, said, after = held(host, "cpus=1")
    assert (given, mask, len(said), after) == ([LAST], [LAST], 1, [LAST])
    given, mask, said, after = held(host, f"cpus={len(CPUS)}, ignore_affinity=True")
    assert (given, mask, len(said), after) == (CPUS, CPUS, 1, [LAST])


@several
def test_bind_keeps_to_it_and_drops_it_on_request(host: Host) -> None:
    one = ("bind", "--local-rank", "0", "--local-size", "1")
    kept = host.run(*one, "--", *MASK, preexec_fn=masked)
    assert kept.stdout.split()[1] == str(LAST)
    dropped = host.run(*one, "--ignore-affinity", "--", *MASK, preexec_fn=masked)
    assert parse_ids(dropped.stdout.split()[1]) == sum(1 << cpu for cpu in CPUS)
    assert "--ignore-affinity" in dropped.stderr
