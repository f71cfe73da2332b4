"""Every recorded tree is read as its golden file says; and the comparer notices damage."""

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numawise.host.discover import read_hardware
from numawise.machine.hardware import Hardware
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Machine
from numawise.sets import format_ids
from tests.machines import sysfs
from tests.machines.__main__ import main

HERE = Path(__file__).parent / "data" / "sysfs"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "sysfs"


def folders(parent: Path) -> list[Any]:
    if not parent.is_dir():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"there is no {parent}"))]
    found = sorted(golden.parent for golden in parent.glob("*/golden.json"))
    return [pytest.param(case, id=case.name) for case in found]


def read(case: str) -> Hardware:
    golden = json.loads((HERE / case / "golden.json").read_text())
    with sysfs.unpacked(HERE / case, golden) as root:
        return read_hardware(root)


@pytest.mark.parametrize("case", folders(HERE))
def test_our_own(case: Path) -> None:
    assert sysfs.check(case) == []


@pytest.mark.parametrize("case", folders(SHARED))
def test_shared(case: Path) -> None:
    assert sysfs.check(case) == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sysfs").mkdir()
    (tmp_path / "sysfs" / "ryzen").symlink_to(HERE / "ghw-amd-ryzen-1600")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "sysfs: 1 of 1 cases agree\n"
    assert main([str(HERE)]) == 2
    assert main([]) == 2


def test_damage_is_noticed() -> None:
    golden = json.loads((HERE / "ghw-amd-ryzen-1600" / "golden.json").read_text())["kernel"]
    hardware = read("ghw-amd-ryzen-1600")
    thread, node, device = hardware.threads[0], hardware.numa[0], hardware.pci[0]
    for damaged in (
        replace(hardware, threads=hardware.threads[1:]),
        replace(hardware, offline=1 << 20),
        replace(hardware, threads=(replace(thread, core=77), *hardware.threads[1:])),
        replace(hardware, threads=(replace(thread, l3=None), *hardware.threads[1:])),
        replace(hardware, numa=()),
        replace(hardware, numa=(replace(node, memory=1),)),
        replace(hardware, numa=(replace(node, distances=()),)),
        replace(hardware, memory_capacity=None),
        replace(hardware, pci=hardware.pci[1:]),
        replace(hardware, pci=(replace(device, numa=0), *hardware.pci[1:])),
        replace(hardware, pci=(replace(device, parents=()), *hardware.pci[1:])),
    ):
        try:
            found = list(sysfs.differences(golden, damaged))
        except KeyError as missing:  # a node that is not there has no row to compare
            found = [str(missing)]
        assert found


def test_cgroup_limits() -> None:
    host = read("hwloc-16amd64-4n4c-cgroup-distance-merge").host
    assert host
    assert (host.cgroup, format_ids(host.cpuset or 0), format_ids(host.mems or 0)) == ("hybrid", "0-3", "2-3")


def test_names_and_kinds() -> None:
    found = {device.address: (device.kind, device.names) for device in read("ghw-amd-ryzen-1600").pci}
    assert found["0000:00:00.0"] == ("host-bridge", ())
    assert found["0000:00:01.3"] == ("bridge", ())
    assert found["0000:01:00.1"] == ("storage", ("sda", "sdb", "sdc"))
    assert found["0000:06:00.1"] == ("nic", ("enp6s0f1",))
    assert found["0000:0a:00.0"] == ("gpu", ("card0",))
    assert found["0000:0a:00.1"] == ("other", ())


def test_a_kubelet_on_two_l3_groups() -> None:
    machine = kubelet_view(read("ghw-amd-ryzen-1600"))
    assert isinstance(machine, Machine)
    uncores = {group: format_ids(cpus) for group, cpus in machine.layout.uncores.items()}
    assert uncores == {0: "0-2,6-8", 1: "3-5,9-11"}


def test_a_kubelet_refuses_large_numa_ids() -> None:
    found = kubelet_view(read("hwloc-48amd64-4pa2n6c-sparse"))
    assert not isinstance(found, Machine)
    assert [remark.place for remark in found] == ["numa.id"]


def test_nothing_is_unpacked_elsewhere(tmp_path: Path) -> None:
    archive, inside = tmp_path / "a.tar", tmp_path / "inside"
    inside.mkdir()
    with tarfile.open(archive, "w") as tree:
        for name, target in (
            ("sys/out", "../../elsewhere"),
            ("sys/in", "../proc"),
            ("sys/far", "/etc"),
            ("../above", "x"),
            ("sys/cpu", "../../elsewhere"),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tree.addfile(member)
        for name in ("sys/cpu/online", "../escaped", "sys/in/version"):
            member = tarfile.TarInfo(name)
            member.size = 1
            tree.addfile(member, io.BytesIO(b"0"))
    with tarfile.open(archive) as tree:
        sysfs.unpack(tree, str(inside))
    assert {path.name for path in tmp_path.iterdir()} == {"a.tar", "inside"}
    found = {str(path.relative_to(inside)) for path in inside.rglob("*") if not path.is_dir()}
    assert found == {"sys/cpu/online", "sys/in/version"}
