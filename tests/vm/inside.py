"""Checks of what goes on inside of a job: fenced devices, commands that join it, and steps that share it out."""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.run import Job as RunJob
from numawise.apps.launch.run import capacity_here, run
from numawise.host import confine
from numawise.host.plan import DeviceNumber
from numawise.host.settings import HostSettings
from numawise.machine.hardware import NVIDIA, Gpu
from numawise.render.holds import started_line
from numawise.results.placement import JobStarted
from numawise.values import replace
from tests.jobs import Job
from tests.vm.guest import USER, Guest
from tests.vm.running import ledger, numawise
from tests.waiting import until

NODES = {
    "nvidia0": (195, 0), "nvidia1": (195, 1), "nvidiactl": (195, 255), "nvidia-uvm": (510, 0),
    "nvidia-cap1": (234, 1), "kfd": (240, 0), "renderD128": (226, 128), "null": (1, 3), "zero": (1, 5),
}  # fmt: skip
REFUSED = (
    DeviceNumber(195, 1),
    DeviceNumber(226, 128),
    DeviceNumber(234),
    DeviceNumber(240, 0),
    DeviceNumber(510),
)


@contextmanager
def device_files() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev") as folder:  # where device files may be opened
        for name, (major, minor) in NODES.items():
            os.mknod(f"{folder}/{name}", stat.S_IFCHR | 0o666, os.makedev(major, minor))
            Path(folder, name).chmod(0o666)
        Path(folder).chmod(0o755)
        yield Path(folder)


def devices_refused(guest: Guest) -> str:
    """A device that is refused says so (EPERM); others are what they were: there, or without a driver (ENXIO)."""
    mode = confine.choose()
    with device_files() as folder, Job() as job:
        plan = job.bind(mode, "fenced", cpus=guest.cpus[0], refused=REFUSED)
        assert plan.fenced
        job.start(plan.itself, mebibytes=1, threads=0, children=0)
        answers = {name: job.tell(f"open {folder}/{name}") for name in NODES}
    refused = {name for name, answer in answers.items() if answer == "EPERM"}
    assert refused == {"nvidia1", "renderD128", "nvidia-cap1", "kfd", "nvidia-uvm"}, answers
    assert answers["null"] == answers["zero"] == "ok"
    return f"{mode}: {answers}"


def fenced_run(guest: Guest) -> str:  # noqa: ARG001 - the same in every guest
    """A fenced job without GPUs on a machine with NVIDIA's: it opens none, and everything else."""
    here = capacity_here(HostSettings())
    gpu = Gpu("GPU0", address="0000:17:00.0", maker=NVIDIA, numa=(0,))
    hardware = replace(here.hardware, gpus=(gpu,))
    capacity = replace(
        here, hardware=hardware, gpus=(gpu,), gpu_ids=("0000:17:00.0",), gpu_resources=("nvidia.com/gpu",)
    )
    said: list[JobStarted] = []
    with ledger() as environment, device_files() as folder:
        look = (
            f"cat {folder}/nvidia0 2>&1 | grep -q 'not permitted' && cat {folder}/nvidiactl 2>&1 | "
            f"grep -q 'not permitted' && cat {folder}/null && ! cat {folder}/kfd 2>&1 | grep -q 'not permitted'"
        )
        job = RunJob(JobRequest(), ("sh", "-c", look), environment=environment, fence="best")
        ended = run(job, HostSettings(), said.append, lambda _: None, lambda _: None, capacity)
    assert ended == 0, ended
    assert said[0].hold.fence == "rules", said
    with ledger() as environment:
        strict = numawise(environment, "run", "--fence=rules", "--mode", "affinity", "--", "true")
        assert strict.returncode in {0, 3}, strict  # a guest without GPUs has nothing to fence
    return started_line(said[0])


@contextmanager
def running(environment: dict[str, str], *words: str, user: int | None = None) -> Iterator[dict[str, object]]:
    """A job named ``train``, as ``ps`` tells it."""
    argv = [sys.executable, "-m", "numawise", "run", "-q", "--name", "train", *words, "--", "sleep", "3600"]
    started = subprocess.Popen(argv, env=environment, user=user, cwd=Path(__file__).parents[2])
    found: list[dict[str, object]] = []

    def there() -> bool:
        found[:] = json.loads(numawise(environment, "ps", "-o", "json", user=user).stdout)["holds"]
        return bool(found) and Path(f"/proc/{found[0]['pid']}/comm").read_text() == "sleep\n"

    try:
        until(there, "the job does not start")
        yield found[0]
    finally:
        if found:
            os.kill(int(str(found[0]["pid"])), signal.SIGKILL)
        else:
            started.kill()
        started.wait()


def entered(guest: Guest) -> str:  # noqa: ARG001 - as above
    """A command inside of a job is in its group, on its CPUs, and ends with ``release --kill``."""
    told = []
    for words, user in (
        (("--cpus", "2"), None),
        (("--cpus", "2", "--mode", "affinity"), None),
        (("--cpus", "1"), USER),
    ):
        with ledger(user) as environment, running(environment, *words, user=user) as hold:
            look = "cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status; exit 7"
            done = numawise(environment, "exec", "train", "--", "sh", "-c", look, user=user)
            assert done.returncode == 7, done
            pid = hold["pid"]
            group = Path(f"/proc/{pid}/cgroup").read_text()
            masks = [
                line
                for line in Path(f"/proc/{pid}/status").read_text().splitlines()
                if "Cpus_allowed_l" in line
            ]
            assert done.stdout.splitlines() == [*group.splitlines(), *masks], (done, group, masks)
            told.append(f"{hold['mode']}: {masks[0].split()[1]}")
    return "; ".join(told)


STEPS = """
import json, os, subprocess, sys
numawise = [sys.executable, "-m", "numawise", "run", "-q"]
look = "grep Cpus_allowed_list /proc/self/status; cat /proc/self/cgroup; read line"
def begin():
    return subprocess.Popen([*numawise, "--cpus", "1", "--memory", "32m", "--", "sh", "-c", look],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def seen(step):
    return [step.stdout.readline().strip() for _ in range(1 + len(open("/proc/self/cgroup").readlines()))]
first, second = begin(), begin()
found = [seen(first), seen(second)]
third = subprocess.run([*numawise, "--cpus", "1", "--", "true"], capture_output=True, text=True)
much = subprocess.run([*numawise, "--memory", "1g", "--", "true"], capture_output=True, text=True)
for step in (first, second): step.communicate("\\n")
again = subprocess.run([*numawise, "--cpus", "2", "--", "true"])
print(json.dumps({"steps": found, "own": open("/proc/self/cgroup").read().split(), "codes":
    [third.returncode, much.returncode, again.returncode], "said": third.stderr + much.stderr}))
"""


def steps(guest: Guest) -> str:  # noqa: ARG001 - as above
    """Two steps share out a job's CPUs in its group; a third finds no room, and what is given back is free."""
    told = []
    for words, user in ((("--cpus", "2"), None), (("--cpus", "2"), USER)):
        with ledger(user) as environment:
            argv = ("run", "-q", *words, "--memory", "128m", "--", sys.executable, "-c", STEPS)
            done = numawise(environment, *argv, user=user)
            assert done.returncode == 0, done
            found = json.loads(done.stdout)
            masks = {lines[0].split()[1] for lines in found["steps"]}
            assert len(masks) == 2, found
            assert all(lines[1:] == found["own"] for lines in found["steps"]), found
            assert found["codes"] == [1, 2, 0], found
            assert json.loads(numawise(environment, "ps", "-o", "json", user=user).stdout)["holds"] == []
            told.append(f"{sorted(masks)}: {found['said'].splitlines()[0]}")
    return "; ".join(told)
