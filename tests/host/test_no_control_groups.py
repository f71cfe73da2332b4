"""Without control groups: their files are not mounted, as in many a chroot and container, or something covers them.

``/proc/self/cgroup`` lists them there all the same, and the cpuset of whoever began this is in force.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import needs
from tests.host.launching import Host

from numawise.host.confine import modes

GROUPS = "/sys/fs/cgroup"
TAKEN = f"! mountpoint -q {GROUPS} || umount -R {GROUPS}"
COVERED = f"mount -t tmpfs none {GROUPS}"
CPUS = sorted(os.sched_getaffinity(0))
NUMAWISE = f"{sys.executable} -m numawise"

pytestmark = [
    needs.PROC,
    needs.SYS,
    needs.MOUNTS,
    pytest.mark.skipif(not Path(GROUPS).is_dir(), reason=f"the kernel has no {GROUPS}"),
    pytest.mark.parametrize(
        "gone", [pytest.param(TAKEN, id="not mounted"), pytest.param(COVERED, id="covered")]
    ),
]
several = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def without(gone: str, *words: str) -> tuple[str, ...]:
    """A command, in a mount namespace where control groups are gone."""
    return (
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-euc",
        f'{gone}; exec "$@"',
        "sh",
        *words,
    )


def run(host: Host, gone: str, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        without(gone, *words), env=host.environment, capture_output=True, text=True, check=False
    )


@several
def test_the_mask_of_a_job_is_no_limit_of_the_machine(host: Host, gone: str) -> None:
    """Two jobs beside each other, one of them started by the other."""
    inner = f"{NUMAWISE} run --outside --cpus 1 -- cat /proc/self/status"
    done = run(host, gone, *NUMAWISE.split(), "run", "--cpus", "1", "--", "sh", "-c", inner)
    assert done.returncode == 0, done
    said = [line for line in done.stderr.splitlines() if "kept by affinity" in line]
    assert len(said) == 2
    assert f"CPUs {CPUS[0]}," in said[0]
    assert f"CPUs {CPUS[1]}," in said[1]
    assert f"Cpus_allowed_list:\t{CPUS[1]}\n" in done.stdout


@several
def test_two_holds_of_one_program(host: Host, gone: str) -> None:
    code = "import numawise\nwith numawise.hold(cpus=1) as one, numawise.hold(cpus=1) as two: print(one.cpus, two.cpus)"
    done = run(host, gone, sys.executable, "-c", code)
    assert done.returncode == 0, done
    assert done.stdout == f"({CPUS[0]},) ({CPUS[1]},)\n"


@several
def test_a_mask_from_outside_is_said_to_be_one(host: Host, gone: str) -> None:
    code = (
        "import os, sys\n"
        f"os.sched_setaffinity(0, {{{CPUS[-1]}}})\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'numawise', *sys.argv[1:]])"
    )
    done = run(host, gone, sys.executable, "-c", code, "run", "--cpus", "2", "--", "true")
    assert done.returncode == 2
    assert f"started within CPUs {CPUS[-1]} (affinity)" in done.stderr


@pytest.mark.skipif(
    not any(mode.name.startswith("cgroup") and not mode.problem for mode in modes()),
    reason="control groups cannot be made here",
)
@several
def test_a_cpuset_in_force_is_one_though_its_files_are_gone(host: Host, gone: str) -> None:
    inside = without(gone, *NUMAWISE.split(), "discover", "-o", "json")
    done = host.run("run", "-q", "--mode", "cgroup", "--cpu-ids", str(CPUS[-1]), "--", *inside)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["host"]["cpuset"] == str(CPUS[-1])


def test_doctor_does_not_name_a_version_that_is_not_mounted(host: Host, gone: str) -> None:
    done = run(host, gone, *NUMAWISE.split(), "doctor", "-o", "json")
    (groups,) = [one for one in json.loads(done.stdout)["findings"] if one["code"] == "cgroups"]
    assert (groups["severity"], groups["message"]) == ("error", "none found")
