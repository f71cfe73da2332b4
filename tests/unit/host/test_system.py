from pathlib import Path

import pytest

from numawise.host.system import parse_isolation
from numawise.machine.hardware import Host
from numawise.sets import format_ids
from tests.unit.host.trees import CPU, read, remarks

V1 = "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0"
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0"
UNIFIED = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0"
SYSTEMD = "cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0"
MEMORY = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0"
OLD = "none /dev/cpuset cgroup rw,cpuset,noprefix 0 0"
OLDEST = "none /dev/cpuset cpuset rw 0 0"
GROUP = "sys/fs/cgroup"


def host_of(root: Path, tree: dict[str, str]) -> Host:
    found = read(root, tree).host
    return found or Host()


@pytest.mark.parametrize(("mounts", "groups", "files", "version", "cpus", "mems"), [
    pytest.param([V2], ["0::/pod/box"],
                 {f"{GROUP}/pod/box/cpuset.cpus.effective": "2-3", f"{GROUP}/pod/box/cpuset.mems.effective": "0"},
                 "v2", "2-3", "0", id="v2"),
    pytest.param([V2], ["0::/user/me"],
                 {f"{GROUP}/user/me/cgroup.procs": "", f"{GROUP}/cpuset.cpus.effective": "0-7"},
                 "v2", "0-7", None, id="v2 without the controller obeys the one above"),
    pytest.param([V2], ["0::/../../other"], {f"{GROUP}/cpuset.cpus.effective": "1"},
                 "v2", "1", None, id="v2 outside of its namespace"),
    pytest.param([V2], [], {f"{GROUP}/cpuset.cpus.effective": "1"},
                 "v2", "1", None, id="v2 without /proc/self/cgroup"),
    pytest.param([V1, MEMORY], ["3:cpuset:/box", "2:memory:/"],
                 {f"{GROUP}/cpuset/box/cpuset.effective_cpus": "4", f"{GROUP}/cpuset/box/cpuset.cpus": "4-5",
                  f"{GROUP}/cpuset/box/cpuset.mems": "1"},
                 "v1", "4", "1", id="v1, what is effective"),
    pytest.param([V1, UNIFIED], ["3:cpuset:/box", "0::/user"], {f"{GROUP}/cpuset/box/cpuset.cpus": "4-5"},
                 "hybrid", "4-5", None, id="hybrid, cpuset in v1"),
    pytest.param([UNIFIED, SYSTEMD], ["1:name=systemd:/x", "0::/y"],
                 {f"{GROUP}/unified/y/cpuset.cpus.effective": "6"},
                 "hybrid", "6", None, id="hybrid, cpuset in v2"),
    pytest.param([OLD], [], {"proc/self/cpuset": "/torque/1", "dev/cpuset/torque/1/cpus": "0,9"},
                 "v1", "0,9", None, id="old mount without prefix"),
    pytest.param([OLDEST], [], {"proc/self/cpuset": "/", "dev/cpuset/cpus": "0,9", "dev/cpuset/mems": "0"},
                 "v1", "0,9", "0", id="cpuset file system"),
    pytest.param([], ["0::/"], {}, "v2", None, None, id="no mounts, v2"),
    pytest.param([], ["2:cpu,cpuset:/", "0::/"], {}, "hybrid", None, None, id="no mounts, hybrid"),
    pytest.param([], ["2:cpu,cpuset:/"], {}, "v1", None, None, id="no mounts, v1"),
    pytest.param([MEMORY], [], {}, "v1", None, None, id="cpuset not mounted"),
    pytest.param(["garbage", "a b"], ["garbage"], {}, "", None, None, id="garbage"),
])  # fmt: skip
def test_cpuset(
    tmp_path: Path, mounts: list[str], groups: list[str], files: dict[str, str], version: str,
    cpus: str | None, mems: str | None,
) -> None:  # fmt: skip
    tree = files | {"proc/mounts": "\n".join(mounts), "proc/self/cgroup": "\n".join(groups)}
    host = host_of(tmp_path, tree)
    found = [None if bits is None else format_ids(bits) for bits in (host.cpuset, host.mems)]
    assert (host.cgroup, *found) == (version, cpus, mems)


@pytest.mark.parametrize(("root", "group", "file"), [
    ("/",             "/box",             "sys/fs/cgroup/cpuset/box/cpuset.cpus"),
    ("/docker/12ab",  "/docker/12ab",     "sys/fs/cgroup/cpuset/cpuset.cpus"),
    ("/docker/12ab",  "/docker/12ab/sub", "sys/fs/cgroup/cpuset/sub/cpuset.cpus"),
    ("/docker/12ab",  "/elsewhere",       "sys/fs/cgroup/cpuset/cpuset.cpus"),
])  # fmt: skip
def test_only_a_part_is_mounted(tmp_path: Path, root: str, group: str, file: str) -> None:
    info = f"34 31 0:31 {root} /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset"
    tree = {"proc/self/mountinfo": info, "proc/self/cgroup": f"3:cpuset:{group}", file: "5"}
    assert host_of(tmp_path, tree).cpuset == 1 << 5


def test_a_mount_point_with_blanks(tmp_path: Path) -> None:
    info = "34 31 0:31 / /mnt/the\\040cgroups rw - cgroup2 cgroup2 rw"
    tree = {"proc/self/mountinfo": info, "mnt/the cgroups/cpuset.cpus.effective": "5"}
    assert host_of(tmp_path, tree).cpuset == 1 << 5


def test_what_the_process_may_use(tmp_path: Path) -> None:
    found = read(tmp_path, {"proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-1\nMems_allowed_list:\t0"})
    assert found.host == Host(cpuset=3, mems=1)
    assert remarks(found)[-1] == "assumed proc/self/status"


def test_a_garbled_status(tmp_path: Path) -> None:
    found = read(tmp_path, {"proc/self/status": "Cpus_allowed_list:\t0-1,\nMems_allowed_list:\t0"})
    assert found.host is None
    assert remarks(found)[-1] == "unreadable proc/self/status"


def test_a_cpuset_that_is_not_in_the_copy(tmp_path: Path) -> None:
    found = read(tmp_path, {"proc/mounts": V1, "proc/self/cgroup": "3:cpuset:/box"})
    assert remarks(found)[-1] == "unknown proc/self/cgroup"


@pytest.mark.parametrize(("text", "expected"), [
    ("2-7",                "2-7"),
    ("domain,2-7",         "2-7"),
    ("nohz,domain,2,4-5",  "2,4-5"),
    ("managed_irq,2-7",    ""),        # isolated from interrupts only
    ("nohz,2-7",           ""),
    ("0-15:2/8",           "0-1,8-9"),
    ("1-14:3/4",           "1-3,5-7,9-11,13-14"),
    ("8-N",                "8-31"),
    ("N",                  "31"),
    ("all",                "0-31"),
    ("2-",                 None),
    ("7-2",                None),
    ("0-7:0/2",            None),
    ("0-999999",           None),
    ("",                   None),
    ("cpus",               None),
])  # fmt: skip
def test_isolation(text: str, expected: str | None) -> None:
    found = parse_isolation(text, last=31)
    assert (None if found is None else format_ids(found)) == expected


@pytest.mark.parametrize(("tree", "isolated"), [
    ({f"{CPU}/isolated": "4-5"},                                              "4-5"),
    ({f"{CPU}/isolated": ""},                                                 ""),
    ({f"{CPU}/isolated": "", "proc/cmdline": "isolcpus=2"},                   ""),
    ({f"{CPU}/isolated": "4-", "proc/cmdline": "isolcpus=2"},                 "2"),
    ({"proc/cmdline": "quiet isolcpus=1 tuned.non_isolcpus=ff isolcpus=2-3"}, "2-3"),
    ({"proc/cmdline": "quiet tuned.non_isolcpus=0000ff"},                     ""),
    ({"proc/cmdline": "isolcpus=N"},                                          None),
    ({"proc/cmdline": "isolcpus=1-N", f"{CPU}/possible": "0-3"},              "1-3"),
    ({},                                                                      None),
])  # fmt: skip
def test_isolated(tmp_path: Path, tree: dict[str, str], isolated: str | None) -> None:
    found = host_of(tmp_path, tree).isolated
    assert (None if found is None else format_ids(found)) == isolated


@pytest.mark.parametrize(("tree", "balancing", "kernel"), [
    ({"proc/sys/kernel/numa_balancing": "0", "proc/sys/kernel/osrelease": "6.8.0-1"}, False, "6.8.0-1"),
    ({"proc/sys/kernel/numa_balancing": "1"},                                         True,  ""),
    ({"proc/sys/kernel/numa_balancing": "2"},                                         True,  ""),
    ({"proc/sys/kernel/numa_balancing": "on"},                                        None,  ""),
    ({"proc/version": "Linux version 5.3.0-28-generic (buildd@lcy01) #30"},           None,  "5.3.0-28-generic"),
    ({"proc/version": "Minix"},                                                       None,  ""),
])  # fmt: skip
def test_settings(tmp_path: Path, tree: dict[str, str], balancing: bool | None, kernel: str) -> None:  # noqa: FBT001
    host = host_of(tmp_path, tree)
    assert (host.numa_balancing, host.kernel) == (balancing, kernel)
