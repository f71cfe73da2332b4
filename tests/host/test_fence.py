"""Fenced GPUs on this kernel: device files that cannot be opened, variables, and what is said of it."""

import errno
import os
import stat
from pathlib import Path

import pytest
from tests import needs
from tests.host.launching import Host
from tests.jobs import Job as Waiting

from numawise.apps.launch.fence import fence_wanted, fencing
from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.run import Job, capacity_here, run
from numawise.errors import HostError, InputError
from numawise.host import confine, device_program
from numawise.host.plan import DeviceNumber
from numawise.host.settings import HostSettings
from numawise.machine.hardware import NVIDIA, Gpu
from numawise.results.placement import Capacity, JobStarted
from numawise.values import replace

pytestmark = [needs.PROC, needs.SYS]
MODES = [mode.name for mode in confine.modes() if not mode.problem and not confine.fence_problem(mode.name)]
UNIFIED = Path("/sys/fs/cgroup/unified")
GPU = Gpu("GPU0", address="0000:17:00.0", maker=NVIDIA, numa=(0,))
NODES = {
    "nvidia0": (195, 0), "nvidia1": (195, 1), "nvidiactl": (195, 255), "nvidia-uvm": (510, 0), "null": (1, 3)
}  # fmt: skip
rules = pytest.mark.skipif(not MODES, reason="this host has no device rules for us")


def opened(path: Path) -> str:
    """What opening a device file says; a number without a driver answers ENXIO, a fence EPERM."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    for name, (major, minor) in NODES.items():
        os.mknod(tmp_path / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    return tmp_path


@rules
@pytest.mark.parametrize("mode", MODES or ["none"])
def test_the_kernel_refuses_what_is_listed(mode: str, nodes: Path) -> None:
    refused = (DeviceNumber(195, 1), DeviceNumber(510))
    with Waiting() as job:
        plan = job.bind(mode, "fenced", refused=refused)
        assert plan.fenced
        job.start(plan.itself, mebibytes=1, threads=0, children=0)
        assert confine.fence_stands(mode, plan.group, job.family())
        assert not confine.fence_stands(mode, plan.group, [os.getpid()])
        answers = {name: job.tell(f"open {nodes / name}") for name in NODES}
    assert answers == {
        "nvidia0": "ENXIO", "nvidiactl": "ENXIO", "null": "ok", "nvidia1": "EPERM", "nvidia-uvm": "EPERM",
    }  # fmt: skip
    assert opened(nodes / "nvidia1") == "ENXIO"  # nobody else is kept from it


@rules
@pytest.mark.skipif(
    not UNIFIED.is_dir() or bool(device_program.problem()), reason="needs a hybrid host and root"
)
def test_a_program_of_version_2(nodes: Path) -> None:
    group = UNIFIED / f"numawise-test-{os.getpid()}"
    group.mkdir()
    try:
        device_program.attach(str(group), (DeviceNumber(195, 1),))
        assert device_program.attached(str(group)) == 1
        pid = os.fork()
        if not pid:
            (group / "cgroup.procs").write_text(str(os.getpid()))
            seen = tuple(opened(nodes / name) for name in ("nvidia0", "nvidia1", "null"))
            os._exit(int(seen != ("ENXIO", "EPERM", "ok")))
        assert os.waitpid(pid, 0)[1] == 0
    finally:
        group.rmdir()


# --- through run --------------------------------------------------------------------------------


@pytest.fixture
def capacity() -> Capacity:
    """This machine, with a GPU in it."""
    here = capacity_here(HostSettings(reserved_cpus="none"))
    hardware = replace(here.hardware, gpus=(GPU,))
    return replace(
        here, hardware=hardware, gpus=(GPU,), gpu_ids=("0000:17:00.0",), gpu_resources=("nvidia.com/gpu",)
    )


def ran(tmp_path: Path, capacity: Capacity, script: str, **more: str) -> tuple[int, JobStarted]:
    """A job's exit status, and what was said at its start."""
    environment = {**os.environ, "NUMAWISE_LEDGER": str(tmp_path / "ledger"), "CUDA_VISIBLE_DEVICES": "0"}
    asked = {"fence": "best", **more}
    job = Job(JobRequest(), ("sh", "-c", script), environment=environment, **asked)  # type: ignore[arg-type]
    said: list[JobStarted] = []
    status = run(job, HostSettings(), said.append, lambda _: None, lambda _: None, capacity)
    assert isinstance(status, int)
    return status, said[0]


VARIABLES_SET = 'test "$CUDA_VISIBLE_DEVICES" = "" && test "$NVIDIA_VISIBLE_DEVICES" = void'


@rules
def test_a_job_without_gpus_sees_none(capacity: Capacity, nodes: Path) -> None:
    script = f"{VARIABLES_SET} && ! head -c0 {nodes}/nvidia0 2>{nodes}/said; head -c0 {nodes}/null && cat {nodes}/said"
    status, started = ran(nodes, capacity, f"({script}) | grep -q 'not permitted'")
    assert status == 0
    assert started.hold.fence == "rules"
    assert dict(started.hold.labels)["fence"] == "rules"


def test_by_affinity_it_is_variables(capacity: Capacity, tmp_path: Path) -> None:
    status, started = ran(tmp_path, capacity, VARIABLES_SET, mode="affinity")
    assert status == 0
    assert started.hold.fence == "variables"
    assert any("hidden by variables alone" in remark for remark in started.remarks)


def test_rules_alone_or_not_at_all(capacity: Capacity, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be fenced by device rules: that needs a control group"):
        ran(tmp_path, capacity, "true", mode="affinity", fence="rules")


def test_an_unfenced_machine_has_no_word_about_it(tmp_path: Path) -> None:
    host = Host(tmp_path, NUMAWISE_RESERVED_CPUS="none")
    done = host.run("run", "--mode", "affinity", "--", "true")
    assert done.returncode == 0
    assert "GPU" not in done.stderr


# --- who decides --------------------------------------------------------------------------------

BOX = HostSettings(fence_gpus=True, origins=(("fence-gpus", "/etc/numawise/box.toml"),))


@pytest.mark.parametrize(
    ("asked", "settings", "uid", "expected"),
    [
        ("", HostSettings(), 1000, ""),
        ("", BOX, 1000, "best"),
        ("rules", BOX, 1000, "rules"),
        ("variables", BOX, 1000, "variables"),
        ("best", HostSettings(), 1000, "best"),
        ("no", HostSettings(), 1000, ""),
        ("no", BOX, 0, ""),
    ],
)
def test_what_is_wanted(asked: str, settings: HostSettings, uid: int, expected: str) -> None:
    assert fence_wanted(asked, settings, uid) == expected


def test_a_user_cannot_do_without() -> None:
    with pytest.raises(InputError, match=r"fenced on this machine .fence-gpus in /etc/numawise/box\.toml"):
        fence_wanted("no", BOX, 1000)


def test_without_gpus_there_is_nothing_to_fence() -> None:
    assert fencing("rules", "affinity", (), ()).how == ""
