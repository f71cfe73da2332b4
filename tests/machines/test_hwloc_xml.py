"""hwloc's XML and NCCL's: every recorded file is read as its golden says; and the comparers notice damage."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.document import Document
from numawise.codec.hardware import hwloc
from numawise.codec.hardware.combine import combine
from numawise.codec.hardware.encode import hardware_data, hardware_from
from numawise.machine.hardware import Hardware
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Machine
from tests.machines import hwloc_xml, nccl_topo

HERE = Path(__file__).parent / "data" / "hwloc"
SHARED = Path(__file__).parents[3] / "shared" / "data"
HWLOC, NCCL, SYSFS = SHARED / "hwloc-xml", SHARED / "nccl-topo", SHARED / "sysfs"


def listed(folder: Path, pattern: str) -> list[Any]:
    if not folder.is_dir():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"there is no {folder}"))]
    return [pytest.param(path, id=path.parent.name) for path in sorted(folder.glob(pattern))]


def read(golden: Path) -> tuple[Hardware, Any]:
    return hwloc.read((golden.parent / "topology.xml").read_text(), golden.parent.name), json.loads(
        golden.read_text()
    )


@pytest.mark.parametrize("golden", [*listed(HERE, "*/golden.json"), *listed(HWLOC, "*/golden.json")])
def test_hwloc(golden: Path) -> None:
    found, told = read(golden)
    assert hwloc_xml.differences(found, told) == []
    assert hardware_from(Document(hardware_data(found))) == found


@pytest.mark.parametrize("golden", listed(SYSFS, "*/golden.json"))
def test_exports_of_trees(golden: Path) -> None:
    export = golden.parent / "hwloc.xml"
    told = json.loads(golden.read_text()).get("hwloc")
    if not export.exists() or not told:
        pytest.skip("hwloc made nothing of this tree")
    assert hwloc_xml.differences(hwloc.read(export.read_text()), told) == []


def test_all_of_hwloc_are_there() -> None:
    if not HWLOC.is_dir():
        pytest.skip(f"there is no {HWLOC}")
    results = dict(hwloc_xml.cases(HWLOC))
    assert len(results) >= 60
    assert not any(results.values())


def test_nccl() -> None:
    if not NCCL.is_dir():
        pytest.skip(f"there is no {NCCL}")
    results = dict(nccl_topo.cases(NCCL))
    assert len(results) >= 6
    assert not any(results.values())


@pytest.mark.parametrize("golden", listed(HERE, "*/golden.json"))
def test_a_kubelet_can_be_simulated_on_them(golden: Path) -> None:
    machine = kubelet_view(combine([read(golden)[0]], assume=True))
    assert isinstance(machine, Machine)


@pytest.mark.parametrize(
    ("damage", "noticed"),
    [
        pytest.param(lambda h: replace(h, threads=h.threads[1:]), "cpuset", id="a CPU less"),
        pytest.param(lambda h: replace(h, numa=h.numa[::-1]), "numa", id="nodes in another order"),
        pytest.param(
            lambda h: replace(h, pci=(replace(h.pci[0], parents=()), *h.pci[1:])), "parents", id="no bridge"
        ),
        pytest.param(lambda h: replace(h, matrix=replace(h.matrix, links={})), "GPU", id="no links"),
        pytest.param(
            lambda h: replace(h, threads=tuple(replace(t, siblings=1) for t in h.threads)),
            "siblings",
            id="other siblings",
        ),
    ],
)
def test_damage_is_noticed(damage: Any, noticed: str) -> None:
    found, told = read(HERE / "hwloc3-power8gpudistances" / "golden.json")
    assert any(noticed in text for text in hwloc_xml.differences(damage(found), told))
