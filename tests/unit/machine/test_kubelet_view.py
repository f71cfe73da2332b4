from dataclasses import replace

import pytest

from numawise.machine.hardware import Cache, Gpu, Hardware, MemoryNode, PciDevice, Thread
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Device, DevicePlugin, Machine, Numa
from numawise.sets import parse_ids

MIB = 1 << 20


def threads(text: str, *, l3: dict[str, int | None] | None = None) -> tuple[Thread, ...]:
    """``0:0.0.0 8:0.0.0``: CPU, NUMA node (``-``: not known), socket and core; and L3s by their CPUs."""
    caches = {
        cpu: Cache(parse_ids(cpus), MIB, number)
        for cpus, number in (l3 or {}).items()
        for cpu in range(64)
        if parse_ids(cpus) >> cpu & 1
    }
    found = []
    for word in text.split():
        cpu, _, place = word.partition(":")
        numa, socket, core = (None if part == "-" else int(part) for part in place.split("."))
        found.append(Thread(int(cpu), core, socket, numa=numa, l3=caches.get(int(cpu))))
    return tuple(found)


def view(hardware: Hardware) -> Machine:
    machine = kubelet_view(replace(hardware, sources=hardware.sources or ("sysfs",)))
    assert isinstance(machine, Machine), machine
    return machine


def uncores(hardware: Hardware) -> list[int | None]:
    return [cpu.uncore_cache for cpu in view(hardware).cpus]


def test_distances_to_nodes_that_are_offline_are_left_out() -> None:
    nodes = (MemoryNode(id=1, memory=MIB, distances=((0, 21), (1, 10))),)
    assert view(Hardware(threads=threads("4:1.0.0"), numa=nodes)).numa == (Numa(1, MIB, distances=(10,)),)


def test_nodes_in_text_order() -> None:
    nodes = tuple(MemoryNode(id=i, memory=i, distances=((10, 3), (2, 2), (1, 1))) for i in (1, 2, 10))
    machine = view(Hardware(threads=threads("0:1.0.0 1:2.0.1 2:10.0.2"), numa=nodes))
    row = (1, 2, 3)
    assert machine.numa == (Numa(1, 1, (), row), Numa(10, 10, (), row), Numa(2, 2, (), row))


def test_everything_is_carried_over() -> None:
    node = MemoryNode(0, 0b1, 5 * MIB, (("2Mi", 3), ("1Gi", 1)), ((0, 10), (1, 21)))
    spare = MemoryNode(1, distances=((0, 21), (1, 10)))
    machine = view(Hardware(threads=threads("0:0.-1.7"), numa=(node, spare), memory_capacity=9 * MIB))
    assert machine.numa == (Numa(0, 5 * MIB, (("2Mi", 3), ("1Gi", 1)), (10, 21)), Numa(1, 0, (), (21, 10)))
    assert [(cpu.cpu, cpu.core, cpu.socket, cpu.numa) for cpu in machine.cpus] == [(0, 7, -1, 0)]
    assert (machine.capacity, machine.plugins) == (9 * MIB, ())


def test_no_nodes_one_for_each_package() -> None:
    machine = view(Hardware(threads=threads("0:-.0.0 1:-.3.0"), memory_capacity=MIB))
    assert [(cpu.cpu, cpu.numa) for cpu in machine.cpus] == [(0, 0), (1, 3)]
    assert machine.numa == (Numa(0), Numa(3))


def test_a_node_lists_the_cpu() -> None:
    machine = view(Hardware(threads=threads("0:-.0.0 1:1.0.1"), numa=(MemoryNode(0, cpus=1), MemoryNode(1))))
    assert [cpu.numa for cpu in machine.cpus] == [0, 1]


@pytest.mark.parametrize(("cpus", "l3", "expected"), [
    pytest.param("0:0.0.0 1:0.0.1", {"0-1": 4}, [None, None], id="one L3 for the node"),
    pytest.param("0:0.0.0 1:0.0.1 2:0.0.0 3:0.0.1", {"0-3": 4}, [None] * 4, id="with siblings"),
    pytest.param("0:0.0.0 1:0.0.1", {"0": 4, "1": 5}, [4, 5], id="smaller than the node"),
    pytest.param("0:0.0.0 1:1.0.1", {"0-1": 4}, [4, 4], id="larger than the node"),
    pytest.param("0:0.0.0 1:0.0.0 2:0.0.1", {"0-2": 4}, [4, 4, 4], id="mixed cores"),
    pytest.param("0:0.0.0 1:0.0.1", {"0-1": None}, [None, None], id="no id"),
    pytest.param("0:0.0.0 1:0.0.1 2:0.0.2", {"0": 4, "1": None, "2": 6}, [4, None, None], id="gives up midway"),
    pytest.param("2:0.0.2 10:0.0.10", {"2": None, "10": 5}, [None, 5], id="gives up in text order"),
    pytest.param("2:0.0.2 10:0.0.10", {"2": 5, "10": None}, [None, None], id="gives up at the first"),
    pytest.param("0:0.0.0 1:1.0.1", {"0,8": None, "1,9": 6}, [None, 6], id="gives up for one node only"),
    pytest.param("0:0.0.0 1:0.0.1", {}, [None, None], id="no L3"),
])  # fmt: skip
def test_uncore(cpus: str, l3: dict[str, int | None], expected: list[int | None]) -> None:
    assert uncores(Hardware(threads=threads(cpus, l3=l3), numa=(MemoryNode(0), MemoryNode(1)))) == expected


def test_an_l2_without_id_hides_the_l3() -> None:
    found = tuple(
        replace(t, l2=Cache(1 << t.cpu, MIB)) for t in threads("0:0.0.0 1:0.0.1", l3={"0": 0, "1": 1})
    )
    assert uncores(Hardware(threads=found, numa=(MemoryNode(0),))) == [None, None]


def test_sources_that_know_no_cache_ids() -> None:
    found = threads("0:0.0.0 1:0.0.1 2:0.0.2 3:0.0.3", l3={"2-3": None, "0-1": None})
    assert uncores(Hardware(threads=found, numa=(MemoryNode(0),), sources=("hwloc",))) == [0, 0, 1, 1]


@pytest.mark.parametrize(("hardware", "places"), [
    (Hardware(),                                                               ["threads"]),
    (Hardware(numa=(MemoryNode(0),)),                                          ["threads"]),
    (Hardware(threads=threads("0:0.0.0 1:-.0.1"), numa=(MemoryNode(0),)),      ["threads.numa"]),
    (Hardware(threads=threads("0:0.0.0 1:-.0.1")),                             ["threads.numa"]),
    (Hardware(threads=threads("0:0.0.- 1:0.-.1")),                             ["threads.core", "threads.socket"]),
    (Hardware(threads=threads("0:-.-.0")),                                     ["threads.socket"]),
    (Hardware(threads=threads("0:-.-1.0")),                                    ["numa.id"]),
    (Hardware(threads=threads("0:0.0.0"), numa=(MemoryNode(0), MemoryNode(64))), ["numa.id"]),
    (Hardware(threads=threads("0:255.0.0")),                                   ["numa.id"]),
])  # fmt: skip
def test_what_is_missing(hardware: Hardware, places: list[str]) -> None:
    found = kubelet_view(hardware)
    assert not isinstance(found, Machine)
    assert [remark.place for remark in found] == places
    assert {remark.kind for remark in found} == {"unknown"}


NVIDIA = PciDevice("0000:3b:00.0", 0x10DE, 0x2330, 0x030200, "gpu", 1, driver="nvidia")
AMD = PciDevice("0000:c1:00.0", 0x1002, 0x74A1, 0x120000, "gpu", 0, driver="amdgpu")
INTEL = PciDevice("0000:00:02.0", 0x8086, 0x56C0, 0x038000, "gpu", -1, driver="i915", names=("card1",))
BARE = Hardware(threads=threads("0:0.0.0"), numa=(MemoryNode(0), MemoryNode(1)))


def test_gpus_by_pci() -> None:
    taken = replace(NVIDIA, address="0000:d8:00.0", driver="vfio-pci")
    assert view(replace(BARE, pci=(INTEL, NVIDIA, AMD, taken))).plugins == (
        DevicePlugin("gpu.intel.com/i915", (Device("card1-0"),)),
        DevicePlugin("nvidia.com/gpu", (Device("0000:3b:00.0", (1,)),)),
        DevicePlugin("amd.com/gpu", (Device("0000:c1:00.0", (0,)),)),
    )


def test_a_copy_without_drivers() -> None:
    assert view(replace(BARE, pci=(replace(AMD, driver=""),))).plugins[0].resource == "amd.com/gpu"


def test_gpus_by_their_own_library() -> None:
    gpus = (
        Gpu("GPU0", uuid="GPU-aa", address=NVIDIA.address, numa=(0,), maker=NVIDIA.vendor),
        Gpu("GPU1", uuid="GPU-bb", numa=(0,)),
        Gpu("MIG0", uuid="MIG-cc", numa=(0,), parent="GPU1"),
        Gpu("GPU2"),
        Gpu("card0", maker=0x1002, numa=(1,)),
        Gpu("card1", maker=0x8086),
    )
    assert view(replace(BARE, pci=(NVIDIA, AMD), gpus=gpus)).plugins == (
        DevicePlugin("nvidia.com/gpu", (Device("GPU-aa", (1,)), Device("GPU-bb", (0,)), Device("GPU2"))),
        DevicePlugin("amd.com/gpu", (Device("card0", (1,)),)),
        DevicePlugin("gpu.intel.com/i915", (Device("card1"),)),
    )


def test_plugins_given() -> None:
    given = DevicePlugin("nvidia.com/gpu", (Device("a"),))
    machine = kubelet_view(replace(BARE, pci=(NVIDIA, AMD)), (given,))
    assert isinstance(machine, Machine)
    assert [plugin.resource for plugin in machine.plugins] == ["nvidia.com/gpu", "amd.com/gpu"]
    assert machine.plugins[0] is given
