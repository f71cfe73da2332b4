"""Whose processes belong to which hold, read from made-up ``/proc`` trees of a machine with two NUMA nodes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.verify.look import JobHost, twice_granted
from numawise.errors import InputError
from numawise.host.discover import read_hardware
from numawise.machine.hardware import Gpu
from numawise.render.verify import together
from numawise.results.placement import CONTAINER, Grant, Hold, Owner
from numawise.results.verification import (
    ALIGNED,
    NOT_ALIGNED,
    NOT_KNOWN,
    SPILLED,
    CheckedJob,
    JobGrade,
)
from numawise.sets import format_ids, parse_ids
from tests.unit.host.test_nvml_use import Nvml
from tests.unit.host.test_placed import ID, process
from tests.unit.host.trees import CPU, NODE, PCI, grow

BOOT = "5c1f"
RECORDED = Path(__file__).parent / "recorded"
Tree = dict[str, str | bytes | None]


def machine() -> Tree:
    tree: Tree = {
        f"{CPU}/online": "0-7",
        "proc/sys/kernel/random/boot_id": BOOT,
        "proc/stat": "cpu 1\nbtime 1000",
    }
    for node, cpus in enumerate(("0-3", "4-7")):
        tree |= {
            f"{NODE}/node{node}/cpulist": cpus,
            f"{NODE}/node{node}/meminfo": f"Node {node} MemTotal: 8388608 kB\nNode {node} MemFree: 4194304 kB",
            f"{NODE}/node{node}/distance": "10 21" if node == 0 else "21 10",
        }
    for cpu in range(8):
        tree |= {
            f"{CPU}/cpu{cpu}/topology/core_id": str(cpu),
            f"{CPU}/cpu{cpu}/topology/physical_package_id": str(cpu // 4),
            f"{CPU}/cpu{cpu}/topology/thread_siblings_list": str(cpu),
        }
    for gpu, address in enumerate(("0000:18:00.0", "0000:98:00.0")):
        tree |= {
            f"{PCI}/{address}/vendor": "0x10de",
            f"{PCI}/{address}/device": "0x2335",
            f"{PCI}/{address}/class": "0x030200",
            f"{PCI}/{address}/numa_node": str(gpu),
            f"proc/driver/nvidia/gpus/{address}/information": f"Device Minor: \t {gpu}",
        }
    return tree


def job(pid: int, *, memory: str = "N0=100", **more: Any) -> Tree:
    pages = f"1000 default anon=100 dirty=100 {memory} kernelpagesize_kB=4"
    return process(pid, **more) | {f"proc/{pid}/numa_maps": pages, f"proc/{pid}/cgroup": "0::/"}


def hold(
    id_: str = "b2345", *, pid: int = 40, start: int = 77, cpus: str = "0-3", gpus: str = "", **more: Any
) -> Hold:
    devices = (("nvidia.com/gpu", tuple(gpus.split())),) if gpus else ()
    grant = Grant(cpus=parse_ids(cpus), mems=1 if cpus else 0, devices=devices, near=more.pop("near", 0))
    owner = Owner(0, "root", BOOT, pid, start, **more.pop("owner", {}))
    return Hold(id_, f"{id_}-name", owner, grant, **more)


def host(root: Path, tree: Tree, *holds: Hold, nvml: Any = None) -> JobHost:
    hardware = read_hardware(grow(root, machine() | tree))
    gpus = tuple(
        Gpu(f"GPU{i}", f"GPU-{i}", device.address, numa=(i,)) for i, device in enumerate(hardware.pci)
    )
    return JobHost(replace(hardware, gpus=gpus), holds, root, nvml)


def test_a_job_and_its_descendants(tmp_path: Path) -> None:
    tree = job(40) | job(50, parent=40, threads="0-3 0-7") | job(60, parent=50) | job(70, parent=1)
    found = host(tmp_path, tree, hold()).check_hold(hold())
    assert (found.verdict.processes, found.verdict.threads) == (3, 4)
    assert found.verdict.sentence == "not aligned: 1 of 4 threads may run outside CPUs 0-3"
    assert found.label == "hold b2345 (b2345-name)"


def test_what_a_parent_left_behind(tmp_path: Path) -> None:
    tree = (
        job(40, start=99) | job(50) | job(60, parent=50) | {"proc/50/environ": b"A=b\0NUMAWISE_HOLD=b2345\0"}
    )
    found = host(tmp_path, tree, hold()).check_hold(hold())
    assert found.verdict.processes == 2  # 40 is another process by now


def test_control_groups_and_containers(tmp_path: Path) -> None:
    tree = job(40) | job(50) | job(60)
    tree["proc/50/cgroup"] = "0::/numawise/b2345"
    tree["proc/60/cgroup"] = f"0::/docker/{ID}"
    grouped = hold(group="/sys/fs/cgroup/numawise/b2345")
    contained = hold(
        "c2345", pid=0, start=0, owner={"engine": "docker", "container": ID[:12]}, kind=CONTAINER
    )
    place = host(tmp_path, tree, grouped, contained)
    assert place.members(grouped) == {40, 50}
    assert place.members(contained) == {60}
    assert place.hold_of(50) == grouped
    assert place.hold_of(60) == contained
    assert place.hold_of(40) == grouped


def test_everything_in_a_container_is_one_job(tmp_path: Path) -> None:
    tree = job(40) | job(50) | job(60)
    for pid in (40, 50):
        tree[f"proc/{pid}/cgroup"] = f"0::/system.slice/docker-{ID}.scope"
    assert host(tmp_path, tree).check_pid(40).verdict.processes == 2
    assert host(tmp_path / "b", tree).check_pid(60).verdict.processes == 1


def test_a_hold_of_which_nothing_runs(tmp_path: Path) -> None:
    place = host(tmp_path, job(40, start=99), hold())
    found = place.check_hold(hold())
    assert found.verdict.sentence == "not aligned: it is not running any more: process 40 is gone"
    assert [finding.code for finding in found.verdict.findings] == ["gone"]
    contained = hold(pid=0, start=0, owner={"engine": "docker", "container": ID})
    assert (
        place.check_hold(contained).verdict.sentence
        == "not aligned: no process of container 0123456789ab runs"
    )


@pytest.mark.parametrize(("ours", "theirs", "aligned"), [
    (7, 7, False),
    (7, 8, None),
    (7, 0, False),
    (0, 8, False),
])  # fmt: skip
def test_a_hold_of_another_pid_namespace(
    tmp_path: Path,
    ours: int,
    theirs: int,
    aligned: bool | None,  # noqa: FBT001
) -> None:
    place = replace(host(tmp_path, {}), namespace=ours)
    assert place.check_hold(hold(owner={"namespace": theirs})).verdict.aligned is aligned


@pytest.mark.parametrize(("recording", "expected"), [
    ("preferred", "100 % of 64.4 MiB on NUMA 0"),
    ("moved",     "spilled: 0 % of 64.4 MiB lies on NUMA 0, the rest on NUMA 1, as its policy allows"),
])  # fmt: skip
def test_memory_that_was_moved_away(tmp_path: Path, recording: str, expected: str) -> None:
    """Pages as Linux 6.1 listed them: of perl under ``numactl --preferred=0``, and after ``migratepages PID 0 1``."""
    pages = (RECORDED / f"{recording}.numa_maps").read_text()
    kept = hold()
    kept = replace(kept, grant=replace(kept.grant, memory_policy="preferred"))
    place = host(tmp_path, job(40) | {"proc/40/numa_maps": pages}, kept)
    assert expected in place.check_hold(kept).verdict.sentence
    assert expected in place.check_pid(40).verdict.sentence


def test_a_process_of_a_hold_is_compared_with_the_hold(tmp_path: Path) -> None:
    tree = job(40) | job(50, parent=40, threads="0-1")
    found = host(tmp_path, tree, hold()).check_pid(50)
    assert found.label == "process 50 (job) of hold b2345 (b2345-name)"
    assert [finding.code for finding in found.verdict.findings] == ["swapped", "memory-unbound"]
    assert found.verdict.aligned


@pytest.mark.parametrize(("near", "others", "cpus"), [
    ("",  [],              "0-7"),
    ("",  ["0-3"],         "4-7"),
    ("0", ["0-1"],         "2-3"),
    ("0", ["0-3"],         "4-7"),   # nothing is left there, so it runs where something is
    ("1", ["0-1", "4"],    "5-7"),
])  # fmt: skip
def test_the_shared_pool(tmp_path: Path, near: str, others: list[str], cpus: str) -> None:
    pooled = hold(cpus="", near=parse_ids(near))
    rest = [hold(f"c{at}", pid=90 + at, cpus=text) for at, text in enumerate(others)]
    wanted = host(tmp_path, job(40), pooled, *rest).wanted(pooled)
    assert (format_ids(wanted.cpus), wanted.alone) == (cpus, False)


@pytest.mark.parametrize(("held", "code"), [
    ({"gpus": "GPU-0"},                     ""),
    ({"gpus": "0000:18:00.0"},              ""),
    ({"gpus": "GPU0"},                      ""),
    ({"gpus": ""},                          "gpu-not-held"),
    ({"gpus": "GPU-1"},                     "gpu-not-held"),
])  # fmt: skip
def test_gpus_by_any_name(tmp_path: Path, held: dict[str, str], code: str) -> None:
    tree = job(40) | {"proc/40/fd/9": "-> /dev/nvidia0"}
    found = host(tmp_path, tree, hold(**held)).check_hold(hold(**held))
    leaks = [finding.code for finding in found.verdict.findings if finding.severity.value == "error"]
    assert leaks == ([code] if code else [])


def test_a_gpu_of_another_hold(tmp_path: Path) -> None:
    tree = job(40) | job(90) | {"proc/40/fd/9": "-> /dev/nvidia1"}
    other = hold("c2345", pid=90, cpus="4-7", gpus="GPU-1")
    found = host(tmp_path, tree, hold(), other).check_hold(hold())
    assert found.verdict.sentence == (
        "not aligned: GPU1 is on NUMA 1 and the job on NUMA 0; GPU1 belongs to hold c2345 (c2345-name) of root"
    )
    alone = host(tmp_path / "alone", tree, other).check_pid(40)
    assert "GPU1 belongs to hold c2345 (c2345-name) of root" in alone.verdict.sentence


def leaks(found: CheckedJob) -> list[str]:
    return [finding.code for finding in found.verdict.findings if finding.severity.value == "error"]


def test_a_process_on_cpus_that_a_hold_has_alone(tmp_path: Path) -> None:
    tree = job(40) | job(90, threads="2-3")
    found = host(tmp_path, tree, hold("c2345", cpus="0-2", owner={})).check_pid(90)
    assert found.verdict.sentence == (
        "not aligned: job (90) may run on CPU 2, which hold c2345 (c2345-name) of root has alone"
    )
    (finding,) = [one for one in found.verdict.findings if one.code == "cpus-of-another"]
    assert "taskset -acp 3 90" in finding.fix


@pytest.mark.parametrize(("mask", "theirs", "more", "expected"), [
    pytest.param("0-1", "4-7",  {},                                          [],                  id="elsewhere"),
    pytest.param("0-1", "0-3",  {},                                          ["cpus-of-another"], id="all of it"),
    pytest.param("0-1", "",     {},                                          [],                  id="in the shared pool"),
    pytest.param("0-1", "0-3",  {"start": 9},                                [],                  id="of a job that has ended"),
    pytest.param("0-1", "0-3",  {"pid": 50},                                 [],                  id="its own"),
    pytest.param("0-1", "0-3",  {"pid": 99, "owner": {"namespace": 8}},      ["cpus-of-another"], id="in another pid namespace"),
])  # fmt: skip
def test_whose_cpus_are_foreign(
    tmp_path: Path, mask: str, theirs: str, more: dict[str, Any], expected: list[str]
) -> None:
    tree = job(40) | job(50) | job(60, parent=50, threads=mask)
    place = replace(host(tmp_path, tree, hold("c2345", cpus=theirs, **more)), namespace=7)
    assert leaks(place.check_pid(60)) == expected


def test_a_hold_inside_another_is_not_foreign(tmp_path: Path) -> None:
    tree = job(40, threads="0-1") | job(50, parent=40, threads="2-3")
    outer, inner = hold(cpus="0-1"), hold("c2345", pid=50, cpus="2-3")
    found = host(tmp_path, tree, outer, inner).check_hold(outer)
    assert "cpus-of-another" not in leaks(found)


def test_a_job_of_a_hold_that_reaches_into_another(tmp_path: Path) -> None:
    tree = job(40, threads="0-5") | job(90, threads="4-7")
    other = hold("c2345", pid=90, cpus="4-7")
    found = host(tmp_path, tree, hold(), other).check_hold(hold())
    assert leaks(found) == ["threads-elsewhere", "cpus-of-another"]
    assert "CPUs 4-5, which hold c2345" in found.verdict.sentence
    twice = hold("c2345", pid=90, cpus="3-7")
    assert leaks(host(tmp_path / "twice", tree, hold(cpus="0-5"), twice).check_hold(hold(cpus="0-5"))) == [
        "cpus-granted-twice"
    ]


@pytest.mark.parametrize(("listed", "used"), [
    pytest.param({"00000000:18:00.0": [(40, 9)], "00000000:98:00.0": []},  ["GPU0"],         id="as NVML lists"),
    pytest.param({"00000000:18:00.0": [], "00000000:98:00.0": []},         [],               id="it only looks"),
    pytest.param({"00000000:18:00.0": [(31337, 9)], "00000000:98:00.0": []}, ["GPU0", "GPU1"], id="numbers of another namespace"),
    pytest.param(None,                                                     ["GPU0", "GPU1"], id="no NVML"),
])  # fmt: skip
def test_who_computes(tmp_path: Path, listed: Any, used: list[str]) -> None:
    tree = job(40) | {"proc/40/fd/9": "-> /dev/nvidia1", "proc/40/fd/8": "-> /dev/nvidia0"}
    found = host(tmp_path, tree, nvml=Nvml(listed) if listed else None).check_pid(40)
    assert [gpu.name for gpu in found.verdict.gpus if gpu.used] == used


@pytest.mark.parametrize(("pid", "words"), [
    (41,  "there is no process 41"),
    (70,  "process 70 has ended"),
    (80,  r"process 80 \(kworker/0:1\) is a thread of the kernel"),
])  # fmt: skip
def test_processes_that_cannot_be_checked(tmp_path: Path, pid: int, words: str) -> None:
    tree = job(40) | job(70, state="Z") | job(80, name="kworker/0:1", flags=0x00200000)
    with pytest.raises(InputError, match=words):
        host(tmp_path, tree).check_pid(pid)


def test_holds_by_name(tmp_path: Path) -> None:
    one, two = hold("b2345"), replace(hold("c2345"), name="b2345-name")
    place = host(tmp_path, {}, one, two)
    assert place.find("b2345") == one
    assert place.find("nobody") is None
    user = one.owner.user
    with pytest.raises(
        InputError, match=f"'b2345-name' matches several holds; give one of {user}/b2345, {user}/c2345"
    ):
        place.find("b2345-name")


def test_what_was_granted_twice(tmp_path: Path) -> None:
    one, two = hold(cpus="0-3", gpus="GPU-0"), hold("c2345", pid=90, cpus="3-5", gpus="GPU-0 GPU-1")
    assert twice_granted([one, two]) == (
        "CPU 3 granted twice: to hold b2345 (b2345-name) and to hold c2345 (c2345-name)",
        "GPU-0 of nvidia.com/gpu granted twice: to hold b2345 (b2345-name) and to hold c2345 (c2345-name)",
    )
    found = host(tmp_path, job(40), one, two).check_hold(one)
    assert "cpus-granted-twice" in [finding.code for finding in found.verdict.findings]
    assert together([], ["x"]) == NOT_ALIGNED


@pytest.mark.parametrize(("grades", "expected"), [
    ([],                              ALIGNED),
    ([ALIGNED, ALIGNED],              ALIGNED),
    ([ALIGNED, NOT_KNOWN],            NOT_KNOWN),
    ([NOT_KNOWN, SPILLED, ALIGNED],   SPILLED),
    ([SPILLED, NOT_ALIGNED, ALIGNED], NOT_ALIGNED),
])  # fmt: skip
def test_the_worst_grade_is_that_of_all(tmp_path: Path, grades: list[JobGrade], expected: JobGrade) -> None:
    check = host(tmp_path, job(40)).check_pid(40)
    checks = [replace(check, verdict=replace(check.verdict, grade=one)) for one in grades]
    assert together(checks, ()) == expected
