"""What stands in the way on a host, each with its fix."""

from dataclasses import replace
from pathlib import Path

import pytest

from numawise.apps.machine.doctor import examine
from numawise.host.readiness import Readiness, read_readiness
from numawise.machine.hardware import GPU, NIC, Gpu, Hardware, Host, MemoryNode, PciDevice, Thread
from numawise.results.finding import Finding, Severity

FINE = Hardware(
    threads=tuple(Thread(cpu, cpu, 0, numa=cpu // 2) for cpu in range(4)),
    numa=(MemoryNode(0, 0b0011, 1 << 30), MemoryNode(1, 0b1100, 1 << 30)),
    pci=(PciDevice("0000:17:00.0", 0x10DE, kind=GPU, numa=0),),
    gpus=(Gpu("GPU0"),),
    host=Host(cpuset=0b1111, isolated=0, numa_balancing=False, cgroup="v2"),
)
READY = Readiness(root=True, controllers=frozenset({"cpuset", "memory"}), nvidia_driver=True)


def found(hardware: Hardware = FINE, ready: Readiness = READY) -> dict[str, Finding]:
    return {finding.field: finding for finding in examine(hardware, ready)}


def test_a_host_in_order_has_nothing_to_fix() -> None:
    findings = examine(FINE, READY)
    assert {finding.severity for finding in findings} == {Severity.INFO}
    assert not any(finding.fix for finding in findings)


LOST = (
    PciDevice("0000:17:00.0", 0x10DE, kind=GPU, numa=-1),
    PciDevice("0000:18:00.0", kind=NIC, names=("eth1",)),
)
HOST = Host(cpuset=0b1111, numa_balancing=False, cgroup="v2")


# fmt: off
OBSTACLES = [
    ("NUMA nodes",        Severity.WARNING, "only one",            {"numa": FINE.numa[:1]},                                     READY),
    ("NUMA nodes",        Severity.WARNING, "shows none",          {"numa": ()},                                                READY),
    ("NUMA memory",       Severity.WARNING, "no memory on 1",      {"numa": (FINE.numa[0], MemoryNode(1, 0b1100, 0))},          READY),
    ("NUMA limit",        Severity.WARNING, "refuses more than 8", {"numa": tuple(MemoryNode(i, memory=1) for i in range(9))},  READY),
    ("offline CPUs",      Severity.WARNING, "4-5",                 {"offline": 0b110000},                                       READY),
    ("own cpuset",        Severity.WARNING, "0-1 of 0-3",          {"host": replace(HOST, cpuset=0b11)},                        READY),
    ("isolated CPUs",     Severity.WARNING, "2-3",                 {"host": replace(HOST, isolated=0b1100)},                    READY),
    ("NUMA balancing",    Severity.WARNING, "on",                  {"host": replace(HOST, numa_balancing=True)},                READY),
    ("cgroups",           Severity.WARNING, "version 1",           {"host": replace(HOST, cgroup="v1")},                        READY),
    ("cgroups",           Severity.ERROR,  "none found",          {"host": None},                                              READY),
    ("cgroup delegation", Severity.WARNING, "not delegated",       {},                                                          replace(READY, root=False, controllers=frozenset({"memory"}))),
    ("rights",            Severity.WARNING, "no root",             {},                                                          replace(READY, root=False)),
    ("rights",            Severity.INFO, "systemd",             {},                                                          replace(READY, root=False, systemd=True)),
    ("NVML",              Severity.WARNING, "NVML is not there",   {"gpus": ()},                                                replace(READY, nvml_problem="NVML is not there")),
    ("NVIDIA driver",     Severity.ERROR,  "no driver",           {"gpus": ()},                                                replace(READY, nvml_problem="x", nvidia_driver=False)),
    ("device NUMA",       Severity.ERROR,  "0000:17:00.0, 0000:18:00.0 (eth1)", {"pci": LOST},                                 READY),
    ("kubelet",           Severity.WARNING, "cpu_manager_state",   {},                                                          replace(READY, kubelet=("/var/lib/kubelet/cpu_manager_state",))),
]
# fmt: on


@pytest.mark.parametrize(("subject", "grade", "said", "changes", "ready"), OBSTACLES)
def test_each_obstacle_is_named_with_its_fix(
    subject: str, grade: Severity, said: str, changes: dict[str, object], ready: Readiness
) -> None:
    finding = found(replace(FINE, **changes), ready)[subject]  # type: ignore[arg-type]
    assert finding.severity is grade
    assert said in finding.message
    assert bool(finding.fix) is (grade is not Severity.INFO)


def test_readiness_of_a_folder(tmp_path: Path) -> None:
    for folder in (
        "proc/self",
        "sys/fs/cgroup/job",
        "run/systemd/system",
        "var/lib/kubelet",
        "sys/module/nvidia",
    ):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
    (tmp_path / "sys/fs/cgroup/job/cgroup.controllers").write_text("cpuset cpu\n")
    (tmp_path / "var/lib/kubelet/cpu_manager_state").write_text("{}")
    ready = read_readiness(tmp_path, ask_nvml=False)
    assert ready.systemd
    assert ready.nvidia_driver
    assert ready.controllers == {"cpuset", "cpu"}
    assert ready.kubelet == (str(tmp_path / "var/lib/kubelet/cpu_manager_state"),)
    assert read_readiness(tmp_path / "nothing", ask_nvml=False).controllers is None
