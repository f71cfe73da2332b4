"""Plans as values: what would be written and called on hosts that this one is not."""

import os
from pathlib import Path

import pytest
from tests import needs

from numawise.errors import HostError
from numawise.host import cgroup, confine, systemd
from numawise.host import jobgroup as groups
from numawise.host.jobgroup import Limits
from numawise.host.plan import Itself, Plan, SetMask, describe

GIB = 1 << 30
TOP = "sys/fs/cgroup"
V2 = "33 24 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = [
    "34 24 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset",
    "35 24 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
    "36 24 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
]
ALL = "cpuset cpu io memory pids"
LIVED_IN = "processes live in /box itself, so it cannot hand out the cpuset controller"


def host(root: Path, mounts: list[str], groups: list[str], files: dict[str, str]) -> Path:
    """A host of files; control groups are folders, and ours is empty of processes unless said otherwise."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text("\n".join(mounts) + "\n")
    (root / "proc/self/cgroup").write_text("\n".join(groups) + "\n")
    for path, text in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if text == "/":
            place.mkdir(exist_ok=True)
        else:
            place.write_text(text + "\n")
    return root


def node(
    folder: str, controllers: str = ALL, handed: str = "", procs: str = "", **files: str
) -> dict[str, str]:
    """The files of a group of version 2 that is not the root."""
    return {
        f"{folder}/cgroup.controllers": controllers,
        f"{folder}/cgroup.subtree_control": handed,
        f"{folder}/cgroup.procs": procs,
        f"{folder}/cgroup.events": "populated 1",
        f"{folder}/cgroup.type": "domain",
        **{f"{folder}/{name.replace('__', '.')}": text for name, text in files.items()},
    }


def top(controllers: str = ALL, handed: str = "cpuset memory cpu") -> dict[str, str]:
    """The files of the root of all groups."""
    return {
        f"{TOP}/cgroup.controllers": controllers,
        f"{TOP}/cgroup.subtree_control": handed,
        f"{TOP}/cgroup.procs": "1",
        f"{TOP}/cpuset.cpus.effective": "0-15",
        f"{TOP}/cpuset.mems.effective": "0-1",
    }


def lines(plan: Plan, root: Path) -> list[str]:
    return [line.replace(f"{root}/{TOP}", "") for line in describe(plan)]


@pytest.mark.parametrize(("own", "files", "limits", "expected"), [
    pytest.param("/", top(), {"cpus": 0b1100, "mems": 1}, [
        "mkdir -p /numawise",
        "echo +cpuset +memory > /numawise/cgroup.subtree_control",
        "mkdir /numawise/ab12",
        "echo 2-3 > /numawise/ab12/cpuset.cpus",
        "echo 0 > /numawise/ab12/cpuset.mems",
        "echo PID > /numawise/ab12/cgroup.procs",
    ], id="below the root"),
    pytest.param("/", top(handed=""), {"cpus": 1, "memory": GIB, "cpu_limit": 1500}, [
        "echo +cpuset +memory +cpu > /cgroup.subtree_control",
        "mkdir -p /numawise",
        "echo +cpuset +memory +cpu > /numawise/cgroup.subtree_control",
        "mkdir /numawise/ab12",
        "echo 0 > /numawise/ab12/cpuset.cpus",
        "echo 1073741824 > /numawise/ab12/memory.max",
        "echo 0 > /numawise/ab12/memory.swap.max",
        "echo 150000 100000 > /numawise/ab12/cpu.max",
        "echo PID > /numawise/ab12/cgroup.procs",
    ], id="everything is handed down"),
    pytest.param("/", top() | node(f"{TOP}/numawise", handed="cpuset memory"), {"cpus": 1, "memory": GIB}, [
        "mkdir -p /numawise",
        "mkdir /numawise/ab12",
        "echo 0 > /numawise/ab12/cpuset.cpus",
        "echo 1073741824 > /numawise/ab12/memory.max",
        "echo 0 > /numawise/ab12/memory.swap.max",
        "echo PID > /numawise/ab12/cgroup.procs",
    ], id="what is there is used"),
    pytest.param("/me/shell", top() | node(f"{TOP}/me") | node(f"{TOP}/me/shell", procs="7"), {"cpus": 1}, [
        "echo +cpuset +memory > /me/cgroup.subtree_control",
        "mkdir -p /me/numawise",
        "echo +cpuset +memory > /me/numawise/cgroup.subtree_control",
        "mkdir /me/numawise/ab12",
        "echo 0 > /me/numawise/ab12/cpuset.cpus",
        "echo PID > /me/numawise/ab12/cgroup.procs",
    ], id="one up, because we live in our own"),
    pytest.param("/numawise/x", top() | node(f"{TOP}/numawise", handed="cpuset memory") | node(f"{TOP}/numawise/x", procs="7"),
                 {"cpus": 1}, [
        "mkdir -p /numawise",
        "mkdir /numawise/ab12",
        "echo 0 > /numawise/ab12/cpuset.cpus",
        "echo PID > /numawise/ab12/cgroup.procs",
    ], id="beside the job we live in"),
    pytest.param("/", top(), {"cpus": 0b1100, "mems": 1, "isolate": "root"}, [
        "mkdir /numawise-ab12",
        "echo 2-3 > /numawise-ab12/cpuset.cpus",
        "echo 0 > /numawise-ab12/cpuset.mems",
        "echo root > /numawise-ab12/cpuset.cpus.partition",
        "echo PID > /numawise-ab12/cgroup.procs",
    ], id="alone"),
])  # fmt: skip
def test_version_2(
    tmp_path: Path, own: str, files: dict[str, str], limits: dict[str, int], expected: list[str]
) -> None:
    root = host(tmp_path, [V2], [f"0::{own}"], files)
    assert confine.choose("cgroup", root) == confine.CGROUP_V2
    plan = confine.plan(confine.CGROUP_V2, "ab12", 0, root=root, **limits)  # type: ignore[arg-type]
    assert lines(plan, root) == expected
    assert plan.remarks == ()
    assert plan.itself == Itself()


@pytest.mark.parametrize(("own", "files", "problem"), [
    ("/box",   node(f"{TOP}/box", procs="7", memory__max="4096"),
     f"{LIVED_IN}, and a job may not leave it because /box/memory.max is 4096"),
    ("/box",   node(f"{TOP}/box", procs="7", cpu__max="5000 100000"),
     f"{LIVED_IN}, and a job may not leave it because /box/cpu.max is 5000 100000"),
    ("/box",   node(f"{TOP}/box", procs="7", cpuset__cpus__partition="isolated"),
     f"{LIVED_IN}, and a job may not leave it because /box has exclusive CPUs"),
    ("/box",   node(f"{TOP}/box", procs="7", memory__max="max", cpu__max="max 100000", pids__max="max",
                    memory__swap__max="max", io__max="", rdma__max="mlx5_0 hca_handle=max hca_object=max",
                    hugetlb__2MB__max="max", misc__max="sev max"), ""),
    *(("/box", node(f"{TOP}/box", procs="7", **{file.replace(".", "__"): value}),
       f"{LIVED_IN}, and a job may not leave it because /box/{file} is {value}")
      for file, value in (("pids.max", "512"), ("io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=max"),
                          ("memory.swap.max", "0"), ("memory.swap.high", "1024"), ("hugetlb.1GB.max", "0"),
                          ("rdma.max", "mlx5_0 hca_handle=2 hca_object=max"), ("misc.max", "sev 4"))),
    ("/box",   node(f"{TOP}/box", "memory"), ""),
    ("/box",   node(f"{TOP}/box"), ""),
    ("/",      {f"{TOP}/cgroup.events": "populated 1"},
     "processes live in  itself, so it cannot hand out the cpuset controller"),
    ("/",      {f"{TOP}/cgroup.events": "populated 1", f"{TOP}/cgroup.procs": ""}, ""),
    ("/",      {f"{TOP}/cgroup.type": "threaded"}, " is threaded"),
    ("/",      {f"{TOP}/cgroup.controllers": "memory"},
     "no control group file system with the cpuset controller is mounted"),
    ("/",      {"run/systemd/system": "/"}, " is systemd's own, not delegated"),
])  # fmt: skip
def test_whether_version_2_is_open(tmp_path: Path, own: str, files: dict[str, str], problem: str) -> None:
    root = host(tmp_path, [V2], [f"0::{own}"], top(handed="") | files)
    found = cgroup.base_of(2, root).problem
    if "systemd" in problem and not _is_root():
        pytest.skip("a user may write to what was given to him")
    assert found.replace(f"{root}/{TOP}", "") == problem


def _is_root() -> bool:
    return os.geteuid() == 0


VERSION_1 = {
    f"{TOP}/cpuset/cpuset.cpus": "0-15",
    f"{TOP}/cpuset/cpuset.mems": "0-1",
    f"{TOP}/memory/box": "/",
    f"{TOP}/cpu,cpuacct": "/",
}


def test_version_1(tmp_path: Path) -> None:
    root = host(tmp_path, V1, ["3:cpuset:/", "2:memory:/box", "1:cpu,cpuacct:/"], VERSION_1)
    limits = {"cpus": 0b1100, "mems": 2, "memory": GIB, "cpu_limit": 5}
    plan = confine.plan(confine.CGROUP_V1, "ab12", 0, root=root, **limits)
    assert lines(plan, root) == [
        "mkdir -p /cpuset/numawise",
        "echo 0-15 > /cpuset/numawise/cpuset.cpus",
        "echo 0-1 > /cpuset/numawise/cpuset.mems",
        "mkdir /cpuset/numawise/ab12",
        "echo 2-3 > /cpuset/numawise/ab12/cpuset.cpus",
        "echo 1 > /cpuset/numawise/ab12/cpuset.mems",
        "echo 1 > /cpuset/numawise/ab12/cpuset.memory_migrate",
        "mkdir -p /memory/box/numawise",
        "mkdir /memory/box/numawise/ab12",
        "echo 1073741824 > /memory/box/numawise/ab12/memory.limit_in_bytes",
        "echo 1073741824 > /memory/box/numawise/ab12/memory.memsw.limit_in_bytes",
        "mkdir -p /cpu,cpuacct/numawise",
        "mkdir /cpu,cpuacct/numawise/ab12",
        "echo 1000000 > /cpu,cpuacct/numawise/ab12/cpu.cfs_period_us",
        "echo 5000 > /cpu,cpuacct/numawise/ab12/cpu.cfs_quota_us",
        "echo PID > /cpuset/numawise/ab12/cgroup.procs",
        "echo PID > /memory/box/numawise/ab12/cgroup.procs",
        "echo PID > /cpu,cpuacct/numawise/ab12/cgroup.procs",
    ]
    assert [folder.removeprefix(f"{root}/{TOP}") for folder in groups.folders_of(plan.group)] == [
        "/cpuset/numawise/ab12", "/memory/box/numawise/ab12", "/cpu,cpuacct/numawise/ab12",
    ]  # fmt: skip


def test_version_1_without_prefix_and_without_other_controllers(tmp_path: Path) -> None:
    mounts = ["34 24 0:29 / /dev/cpuset rw - cgroup none rw,cpuset,noprefix"]
    root = host(tmp_path, mounts, ["3:cpuset:/"], {"dev/cpuset/cpus": "0-3", "dev/cpuset/mems": "0"})
    plan = confine.plan(confine.CGROUP_V1, "ab12", 0, cpus=2, memory=GIB, cpu_limit=500, root=root)
    assert [line.replace(str(root), "") for line in describe(plan)] == [
        "mkdir -p /dev/cpuset/numawise",
        "echo 0-3 > /dev/cpuset/numawise/cpus",
        "echo 0 > /dev/cpuset/numawise/mems",
        "mkdir /dev/cpuset/numawise/ab12",
        "echo 1 > /dev/cpuset/numawise/ab12/cpus",
        "echo 0 > /dev/cpuset/numawise/ab12/mems",
        "echo 1 > /dev/cpuset/numawise/ab12/memory_migrate",
        "echo PID > /dev/cpuset/numawise/ab12/cgroup.procs",
    ]
    assert plan.remarks == (
        "The memory limit is not enforced: there is no memory controller for it here.",
        "The CPU limit is not enforced: there is no cpu controller for it here.",
    )


CALL = (
    "busctl {whose} --quiet -- call org.freedesktop.systemd1 /org/freedesktop/systemd1"
    " org.freedesktop.systemd1.Manager StartTransientUnit 'ssa(sv)a(sa(sv))' numawise-ab12.scope fail"
)
FIRST = "PIDs au 1 PID Slice s numawise.slice Delegate b false CollectMode s inactive-or-failed"


@pytest.mark.parametrize(("limits", "properties"), [
    (Limits(),                       f"4 {FIRST} 0"),
    (Limits(cpus=0b1100),            f"5 {FIRST} AllowedCPUs ay 1 12 0"),
    (Limits(cpus=1 << 8, mems=3),    f"6 {FIRST} AllowedCPUs ay 2 0 1 AllowedMemoryNodes ay 1 3 0"),
    (Limits(cpus=1 << 63 | 1),       f"5 {FIRST} AllowedCPUs ay 8 1 0 0 0 0 0 0 128 0"),
    (Limits(memory=GIB),             f"6 {FIRST} MemoryMax t 1073741824 MemorySwapMax t 0 0"),
    (Limits(cpu_limit=1500),         f"6 {FIRST} CPUQuotaPerSecUSec t 1500000 CPUQuotaPeriodUSec t 100000 0"),
    (Limits(cpu_limit=5),            f"6 {FIRST} CPUQuotaPerSecUSec t 5000 CPUQuotaPeriodUSec t 1000000 0"),
])  # fmt: skip
def test_scopes(tmp_path: Path, limits: Limits, properties: str) -> None:
    root = host(tmp_path, [V2], ["0::/"], top())
    group = systemd.scope("ab12", 0, limits, root)
    whose = "--system" if _is_root() else "--user"
    assert describe(Plan("systemd", group.name, group.steps)) == (f"{CALL.format(whose=whose)} {properties}",)


@pytest.mark.skipif(not _is_root(), reason="scopes of root")
@pytest.mark.parametrize(("first", "partition", "group"), [
    ("0::/init.scope",          "",      "/numawise.slice/numawise-ab12.scope"),
    ("0::/init.scope",          "root",  "/numawise-ab12.scope"),
    ("0::/box/init.scope",      "",      "/box/numawise.slice/numawise-ab12.scope"),
])  # fmt: skip
def test_where_scopes_lie(tmp_path: Path, first: str, partition: str, group: str) -> None:
    root = host(tmp_path, [V2], ["0::/"], top() | {"proc/1/cgroup": first})
    scope = systemd.scope("ab12", 0, Limits(cpus=1, partition=partition), root)
    assert scope.name == group
    assert describe(Plan("systemd", "", scope.steps))[1:] == (
        (f"echo root > {root}/{TOP}{group}/cpuset.cpus.partition",) if partition else ()
    )


@pytest.mark.parametrize(("group", "argv"), [
    ("/numawise.slice/numawise-ab12.scope",
     "systemctl --system set-property --runtime numawise-ab12.scope AllowedCPUs=0-1,4"),
    ("/user.slice/user-4242.slice/user@4242.service/numawise.slice/numawise-ab12.scope",
     "systemctl --user set-property --runtime numawise-ab12.scope AllowedCPUs=0-1,4"),
    ("/user.slice/user-4242.slice/user@4242.service/box.scope/numawise.slice/numawise-ab12.scope",
     "systemctl --system set-property --runtime numawise-ab12.scope AllowedCPUs=0-1,4"),
])  # fmt: skip
def test_changing_a_scope(group: str, argv: str) -> None:
    assert " ".join(systemd.change_argv(group, 0b10011)) == argv


@pytest.mark.parametrize(("files", "problem"), [
    ({},                                                          "systemd does not manage this host"),
    ({"run/systemd/system": "/", f"{TOP}/cgroup.controllers": "memory"},
     "systemd sets cpusets with control groups version 2 only"),
])  # fmt: skip
def test_whether_scopes_are_open(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    assert systemd.problem(host(tmp_path, [V2], ["0::/"], top() | files)) == problem


@pytest.mark.skipif(not _is_root(), reason="scopes of root")
@pytest.mark.parametrize(("own", "limited", "file", "value", "stays"), [
    ("/system.slice/job.service",       "/system.slice/job.service", "pids.max",   "512",  True),
    ("/system.slice/job.service/inner", "/system.slice/job.service", "memory.max", "4096", True),
    ("/system.slice/job.service",       "/system.slice",             "io.max",     "8:0 rbps=1", True),
    ("/system.slice/job.service",       "",                          "pids.max",   "512",  False),
    ("/box/system.slice/job.service",   "/box",                      "pids.max",   "512",  False),
])  # fmt: skip
def test_a_scope_is_no_way_out_of_a_limit(
    tmp_path: Path, own: str, limited: str, file: str, value: str, *, stays: bool
) -> None:
    """Not out of the launcher's group; what limits the manager limits the scope as well."""
    first = "0::/box/init.scope" if own.startswith("/box") else "0::/init.scope"
    files = top() | {
        "proc/1/cgroup": first, "run/systemd/system": "/", "run/dbus/system_bus_socket": "",
        f"{TOP}{limited}/{file}": value,
    }  # fmt: skip
    root = host(tmp_path, [V2], [f"0::{own}"], files)
    found = systemd._limited(cgroup.home_of("cpuset", root), root)  # type: ignore[arg-type]
    expected = f"a job may not leave {root}/{TOP}{limited} because {root}/{TOP}{limited}/{file} is {value}"
    assert found == (expected if stays else "")


@needs.PROC
def test_affinity() -> None:
    cpus, mems = confine.allowed()
    one = cpus & -cpus
    plan = confine.plan(confine.AFFINITY, "ab12", 0, cpus=one, mems=mems)
    assert plan.steps[0] == SetMask(0, one, 0)
    assert describe(plan)[0] == f"sched_setaffinity {one.bit_length() - 1}"


@pytest.mark.parametrize(("millis", "quota"), [
    (1500, (150_000, 100_000)),
    (1,    (1_000, 1_000_000)),
    (9,    (9_000, 1_000_000)),
    (10,   (1_000, 100_000)),
    (64000, (6_400_000, 100_000)),
])  # fmt: skip
def test_fractions(millis: int, quota: tuple[int, int]) -> None:
    assert groups.quota_of(millis) == quota


def test_a_plan_that_was_only_to_be_shown(tmp_path: Path) -> None:
    root = host(tmp_path, [V2], ["0::/"], top())
    with pytest.raises(HostError):
        confine.carry_out(confine.plan(confine.CGROUP_V2, "ab12", 0, cpus=1, root=root))
