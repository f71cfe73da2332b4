"""Hardware as data: what it looks like, and that it comes back as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numawise.codec.document import Document
from numawise.codec.hardware.encode import hardware_data, hardware_from, read
from numawise.codec.output import to_json, to_yaml
from numawise.errors import InputError
from numawise.machine.hardware import (
    Cache,
    Gpu,
    Hardware,
    Host,
    Matrix,
    MemoryNode,
    PciDevice,
    Remark,
    Thread,
)

FULL = Hardware(
    threads=(
        Thread(0, 7, 0, 1, 2, 0b1001, Cache(9, 512, 3), Cache(0b1011, 4096, 8)),
        Thread(1, numa=0),
        Thread(3, socket=-1, l3=Cache(0)),
    ),
    offline=0x30,
    numa=(
        MemoryNode(2, 0b1001, 1 << 30, (("2Mi", 4), ("1Gi", 0)), ((2, 10), (0, 21))),
        MemoryNode(0, 0b10, None, note="HBM"),
    ),
    pci=(
        PciDevice(
            "0000:17:00.0", 0x10DE, 0x2330, 0x030200, "gpu", -1, 3, ("pci0000:16",), "nvidia", ("card1",), "H"
        ),
        PciDevice("0000:18:00.0"),
    ),
    gpus=(
        Gpu("GPU0", "GPU-1", "0000:17:00.0", "H", 80, 3, (2,), 9, maker=0x10DE),
        Gpu("GPU1", parent="GPU0", numa=(), resource="a/gpu"),
    ),
    matrix=Matrix(
        ("GPU0",),
        ("NIC0",),
        {"GPU0": {"GPU0": "X", "NIC0": "PIX"}, "NIC0": {"GPU0": "PIX", "NIC0": "X"}},
        {"GPU0": "0-1"},
        {"GPU0": "N/A"},
        {"GPU0": None},
        {"NIC0": "mlx5_0"},
    ),
    host=Host(cpuset=0xF, mems=5, numa_balancing=False, cgroup="v2", kernel="6.1"),
    memory_capacity=123,
    name="worker",
    sources=("sysfs", "nvml"),
    remarks=(Remark("odd", "here", "there"),),
)


def test_form() -> None:
    data: Any = hardware_data(FULL)
    assert (data["apiVersion"], data["kind"]) == ("numawise.dev/v1", "Hardware")
    assert data["cpus"][0] == {
        "cpu": 0, "core": 7, "socket": 0, "numa": 2, "die": 1, "siblings": "0,3",
        "l2": "0,3", "l2_id": 3, "l2_size": 512, "l3": "0-1,3", "l3_id": 8, "l3_size": 4096,
    }  # fmt: skip
    assert data["cpus"][1]["siblings"] is None
    assert data["offline"] == "4-5"
    assert data["numa"][0] == {
        "id": 2, "cpus": "0,3", "memory": 1 << 30, "hugepages": {"2Mi": 4, "1Gi": 0},
        "distances": [10, 21], "note": "",
    }  # fmt: skip
    device = data["devices"][0]
    assert (device["vendor"], device["device"], device["class"]) == ("0x10de", "0x2330", "0x030200")
    assert (device["numa"], device["local_cpus"], device["parents"]) == (-1, "0-1", ["pci0000:16"])
    assert (data["gpus"], data["nics"], data["nic_names"]) == (["GPU0"], ["NIC0"], {"NIC0": "mlx5_0"})
    assert data["links"]["GPU0"] == {"GPU0": "X", "NIC0": "PIX"}
    assert (data["cpu_affinity"], data["gpu_numa_id"]) == ({"GPU0": "0-1"}, {"GPU0": None})
    assert data["gpu_devices"][0]["uuid"] == "GPU-1"
    assert data["host"]["mems"] == "0,2"
    assert data["remarks"] == [{"kind": "odd", "place": "here", "text": "there"}]


def test_without_a_matrix_the_gpus_are_named_all_the_same() -> None:
    data = hardware_data(Hardware(gpus=(Gpu("GPU0"),)))
    assert (data["gpus"], data["links"]) == (["GPU0"], None)


@pytest.mark.parametrize("hardware", [FULL, Hardware()], ids=["full", "empty"])
def test_nothing_is_lost(hardware: Hardware) -> None:
    assert hardware_from(Document(hardware_data(hardware))) == hardware
    assert read(to_json(hardware_data(hardware))) == hardware
    assert read(to_yaml(hardware_data(hardware))) == hardware


bits = st.integers(0, 1 << 130)
maybe = st.none() | st.integers(0, 1 << 40)
word = st.text(max_size=6)
caches = st.builds(Cache, bits, maybe, maybe)
devices = st.builds(
    PciDevice, word, maybe, maybe, maybe, word, st.none() | st.integers(-1, 9), st.none() | bits,
    st.lists(word, max_size=3).map(tuple), word, st.lists(word, max_size=3).map(tuple), word,
)  # fmt: skip
threads = st.builds(
    Thread, st.integers(0, 999), maybe, st.none() | st.integers(-1, 9), maybe, st.none() | st.integers(0, 99), bits,
    st.none() | caches, st.none() | caches,
)  # fmt: skip


@given(st.lists(threads, unique_by=lambda t: t.cpu, max_size=4), st.lists(devices, max_size=3), bits)
def test_anything_comes_back(cpus: list[Thread], pci: list[PciDevice], offline: int) -> None:
    hardware = Hardware(threads=tuple(cpus), pci=tuple(pci), offline=offline)
    assert read(json.dumps(hardware_data(hardware))) == hardware


def changed(**fields: object) -> dict[str, object]:
    return {**hardware_data(FULL), **fields}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "is not saved hardware"),
        ([], "is not saved hardware"),
        ({"kind": "Pod", "cpus": []}, "is not saved hardware"),
        (changed(cpus=[{"cpu": "x"}]), r"Expected `int`, got `str` - at `\$.cpus\[0\].cpu`"),
        (changed(cpus=[{"cpu": 1 << 40}]), r"at `\$.cpus\[0\].cpu`"),
        (changed(cpus=[{"cpu": 1}, {"cpu": 1}]), "listed twice"),
        (changed(offline="7-3"), "invalid range"),
        (changed(numa=[{"id": 0, "distances": [1, 2]}]), "2 distances for 1 nodes"),
        (changed(devices=[{"address": "a", "vendor": "zz"}]), "invalid literal"),
    ],
)
def test_refusals(value: object, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        hardware_from(Document(value, "saved.json"))
    assert caught.value.file == "saved.json"


def test_one_document_is_wanted() -> None:
    with pytest.raises(InputError, match="holds 2 documents"):
        read("---\na: 1\n---\nb: 2\n", "saved.yaml")
