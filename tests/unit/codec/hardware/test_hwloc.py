"""hwloc XML: what is read of each version, and what is refused with its line."""

import pytest

from numawise.codec.hardware.hwloc import read
from numawise.codec.hardware.xmltree import DEEPEST, LARGEST_XML, words
from numawise.errors import InputError
from numawise.machine.hardware import ODD, UNKNOWN, Cache, Gpu, Hardware, MemoryNode, Thread
from numawise.sets import format_ids, parse_ids

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'


def box(kind: str, cpus: str, inside: str = "", **attributes: object) -> str:
    """An object with a CPU set in the kernel's form."""
    given = "".join(f' {name.rstrip("_")}="{value}"' for name, value in attributes.items())
    return f'<object type="{kind}" cpuset="0x{parse_ids(cpus):08x}"{given}>{inside}</object>'


def pu(cpu: int) -> str:
    return box("PU", str(cpu), os_index=cpu)


def core(index: int, *cpus: int) -> str:
    return box("Core", ",".join(map(str, cpus)), "".join(map(pu, cpus)), os_index=index)


def numa(index: int, cpus: str, memory: int, inside: str = "", **more: object) -> str:
    return box("NUMANode", cpus, inside, os_index=index, local_memory=memory, **more)


def topology(inside: str, version: str | None = "2.0", more: str = "", **attributes: object) -> str:
    given = f' version="{version}"' if version else ""
    sets = {"complete_cpuset": "0x000000ff", "allowed_cpuset": "0x0000000f", "nodeset": "0x00000003"}
    machine = box("Machine", "0-7", inside, **{**sets, **attributes})
    return f"{HEAD}<topology{given}>\n{machine}\n{more}</topology>\n"


CACHED = box("L3Cache", "0-3", core(0, 0, 4) + core(1, 1, 5), cache_size=16 << 20, os_index=3)
PAGES = '<page_type size="4096" count="9"/><page_type size="2097152" count="5"/>'
TWO_PACKAGES = (
    box("Package", "0-1,4-5", numa(0, "0-1,4-5", 1 << 30, PAGES) + CACHED, os_index=0)
    + box("Package", "2-3,6-7", numa(1, "2-3,6-7", 2 << 30) + core(0, 2, 6) + core(1, 3, 7), os_index=1)
)  # fmt: skip
DISTANCES = """\
<distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
<indexes length="4">1 0 </indexes><u64values length="6">10 21 </u64values><u64values length="6">22 11</u64values>
</distances2>
"""


def test_cpus_and_memory() -> None:
    found = read(topology(TWO_PACKAGES, more=DISTANCES))
    assert len(found.threads) == 8
    assert found.threads[5] == Thread(5, core=1, socket=0, numa=0, siblings=0x22, l3=Cache(0xF, 16 << 20, 3))
    assert found.threads[2] == Thread(2, core=0, socket=1, numa=1, siblings=0x44)
    assert found.numa == (
        MemoryNode(0, 0x33, 1 << 30, (("2Mi", 5),), ((0, 11), (1, 22))),
        MemoryNode(1, 0xCC, 2 << 30, (), ((0, 21), (1, 10))),
    )
    assert found.host is not None
    assert found.host.cpuset == 0xF
    assert found.sources == ("hwloc",)
    assert not found.remarks


def test_version_1_has_cores_inside_nodes() -> None:
    cache = box("Cache", "0-3", core(0, 0, 1) + core(1, 2, 3), depth=2, cache_type=0, cache_size=4096)
    instruction = box("Cache", "0-3", cache, depth=3, cache_type=2)
    matrix = (
        '<distances nbobjs="2" relative_depth="1" latency_base="10.000000">'
        + "".join(f'<latency value="{ratio}"/>' for ratio in ("1.000000", "2.100000", "2.100000", "1.000000"))
        + "</distances>"
    )
    text = topology(
        matrix
        + numa(0, "0-3", 1 << 30, box("Socket", "0-3", instruction, os_index=4))
        + box("Node", "4-7", core(0, 4, 5) + core(1, 6, 7), os_index=1, local_memory=7),
        None,
    )
    found = read(text)
    assert found.threads[2] == Thread(2, core=1, socket=4, numa=0, siblings=0xC, l2=Cache(0xF, 4096))
    assert [(node.id, node.memory, node.distances) for node in found.numa] == [
        (0, 1 << 30, ((0, 10), (1, 21))),
        (1, 7, ((0, 21), (1, 10))),
    ]


def test_version_1_leaves_out_nodes_without_usable_memory() -> None:
    text = topology(numa(0, "0-3", 5, core(0, 0)) + numa(2, "4-7", 0, core(0, 4)), None)
    found = read(text)
    assert [node.id for node in found.numa] == [0]
    assert [thread.numa for thread in found.threads] == [0, None]
    assert (found.remarks[0].kind, found.remarks[0].place) == (ODD, "NUMA node 2")


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        pytest.param("", "0-3", id="near its plain neighbour"),
        pytest.param('<info name="Type" value="DRAM"/>', "", id="hwloc knows a plain neighbour only"),
    ],
)
def test_version_1_fast_memory_of_knights_landing(beside: str, expected: str) -> None:
    fast = box("NUMANode", "", '<info name="Type" value="MCDRAM"/>', os_index=1, local_memory=9)
    group = box("Group", "0-3", numa(0, "0-3", 5, beside + core(0, 0, 1, 2, 3)) + fast)
    found = read(topology(group, None))
    assert [(format_ids(node.cpus), node.note) for node in found.numa] == [("0-3", ""), (expected, "MCDRAM")]
    assert {thread.numa for thread in found.threads} == {0}


def test_cpus_belong_to_ordinary_memory() -> None:
    both = numa(0, "0-7", 1, subtype="HBM") + numa(1, "0-7", 2) + numa(3, "0-7", 3)
    found = read(topology(box("Package", "0-7", both + core(0, *range(8)), os_index=0)))
    assert {thread.numa for thread in found.threads} == {1}
    assert [node.note for node in found.numa] == ["HBM", "", ""]


def test_without_numa_nodes_there_is_one() -> None:
    found = read(topology(core(0, *range(8)), local_memory=77))
    assert found.numa == (MemoryNode(0, 0xFF, 77),)
    assert [remark.kind for remark in found.remarks] == [ODD]


def test_cpus_that_are_not_shown() -> None:
    found = read(topology(core(0, 0, 1)))
    assert format_ids(found.offline) == "2-7"
    assert UNKNOWN in {remark.kind for remark in found.remarks}
    found = read(topology(core(0, 0, 1), None, online_cpuset="0x0000000f"))
    assert format_ids(found.offline) == "4-7"
    assert any("2-3" in remark.text for remark in found.remarks)


def test_a_die_is_a_die_in_every_version() -> None:
    die = box("Die", "0-3", core(0, 0), os_index=2)
    group = box("Group", "4-7", core(1, 4), os_index=3, kind_=104)
    found = read(topology(box("Package", "0-7", die + group, os_index=0)))
    assert [thread.die for thread in found.threads] == [2, 3]


# --- devices ------------------------------------------------------------------------------------------------


def pci(address: str, kind: str, inside: str = "", tag: str = "PCIDev", **more: object) -> str:
    given = "".join(f' {name}="{value}"' for name, value in more.items())
    return f'<object type="{tag}" pci_busid="{address}" pci_type="{kind}"{given}>{inside}</object>'


def bridge(address: str, inside: str) -> str:
    return pci(address, "0604 [8086:1234] [0000:0000] 01", inside, "Bridge", bridge_type="1-1")


def host(bus: str, inside: str) -> str:
    return f'<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[{bus}-ff]">{inside}</object>'


def osdev(name: str, kind: int, index: int = 0, **infos: str) -> str:
    told = "".join(f'<info name="{key}" value="{value}"/>' for key, value in infos.items())
    return f'<object type="OSDev" name="{name}" osdev_type="{kind}" gp_index="{index}">{told}</object>'


def gpu(address: str, number: int) -> str:
    nvml = osdev(f"nvml{number}", 1, 90 + number, GPUModel="H", NVIDIAUUID=f"GPU-{number}")
    cuda = osdev(f"cuda{3 - number}", 5, CUDAGlobalMemorySize="1024", GPUModel="other")
    return pci(address, "0302 [10de:2330] [10de:0001] a1", cuda + nvml)


NIC = pci("0000:0b:00.0", "0207 [15b3:1021] [15b3:0001] 00", osdev("ib0", 2) + osdev("mlx5_0", 3), name="X7")
TREE = (
    box(
        "Package",
        "0-3",
        numa(0, "0-3", 1)
        + core(0, 0, 1, 2, 3)
        + host(
            "00",
            bridge(
                "0000:00:01.0",
                bridge("0000:02:00.0", gpu("0000:03:00.0", 0))
                + bridge("0000:02:01.0", gpu("0000:04:00.0", 1) + bridge("0000:05:00.0", NIC)),
            )
            + bridge("0000:00:02.0", gpu("0000:07:00.0", 2)),
        ),
        os_index=0,
    )
    + box("Package", "4-7", numa(1, "4-7", 1) + core(0, 4) + host("80", gpu("0000:81:00.0", 3)), os_index=1)
)  # fmt: skip


def test_pci_devices_with_their_bridges() -> None:
    found = read(topology(TREE))
    devices = {device.address: device for device in found.pci}
    assert devices["0000:04:00.0"].parents == ("pci0000:00", "0000:00:01.0", "0000:02:01.0")
    nic = devices["0000:0b:00.0"]
    assert (nic.vendor, nic.device, nic.class_code, nic.kind) == (0x15B3, 0x1021, 0x020700, "nic")
    assert (nic.names, nic.model, nic.numa, nic.local_cpus) == (("ib0", "mlx5_0"), "X7", 0, 0xF)
    assert devices["0000:00:01.0"].kind == "bridge"
    assert devices["0000:81:00.0"].parents == ("pci0000:80",)


def test_gpus_are_numbered_as_nvml_does() -> None:
    found = read(topology(TREE))
    assert [gpu.name for gpu in found.gpus] == ["GPU0", "GPU1", "GPU2", "GPU3"]
    assert found.gpus[3] == Gpu("GPU3", "GPU-3", "0000:81:00.0", "H", 1 << 20, 0xF0, (1,), maker=0x10DE)


def test_links_follow_from_the_bridges() -> None:
    matrix = read(topology(TREE)).matrix
    assert matrix is not None
    # fmt: off
    assert {row: " ".join(cells.values()) for row, cells in matrix.links.items()} == {
        "GPU0": "X PIX PHB SYS PXB",
        "GPU1": "PIX X PHB SYS PIX",
        "GPU2": "PHB PHB X SYS PHB",
        "GPU3": "SYS SYS SYS X SYS",
        "NIC0": "PXB PIX PHB SYS X",
    }
    # fmt: on
    assert matrix.nic_names == {"NIC0": "mlx5_0"}
    assert matrix.cpu_affinity["GPU3"] == "4-7"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param("0 50000 50000 0", "NV2", id="25 GB/s a link"),
        pytest.param("0 40000 40000 0", "NV2", id="20 GB/s a link: the first generation"),
        pytest.param("0 100000 100000 0", "NV4", id="either: the later one"),
        pytest.param("0 0 0 0", "PIX", id="none measured"),
        pytest.param("0 1 1", "PIX", id="a matrix cut short"),
    ],
)
def test_nvlink_bandwidth_counts_links(values: str, expected: str) -> None:
    more = (
        '<distances2 type="OSDev" nbobjs="2" kind="9" name="NVLinkBandwidth" indexing="gp">'
        f'<indexes length="6">90 91</indexes><u64values length="9">{values}</u64values></distances2>'
    )
    matrix = read(topology(TREE, more=more)).matrix
    assert matrix is not None
    assert matrix.links["GPU0"]["GPU1"] == expected


def test_nvlink_through_a_switch() -> None:
    switch = pci("0000:09:00.0", "0680 [10de:22a3] [10de:0001] a1", "", subtype="NVSwitch", gp_index=50)
    more = (
        '<distances2hetero nbobjs="3" kind="25" name="NVLinkBandwidth">'
        '<indexes length="9">OSDev:90 OSDev:91 PCIDev:50</indexes>'
        '<u64values length="9">0 0 450000 0 0 450000 450000 450000 0</u64values></distances2hetero>'
    )
    matrix = read(topology(TREE + host("f0", switch), more=more)).matrix
    assert matrix is not None
    assert matrix.links["GPU0"]["GPU1"] == "NV18"


def test_version_3_tells_interface_and_kinds_of_devices() -> None:
    disk = pci("0000:0c:00.0", "0108 [144d:a808] [144d:a801] 00 02", osdev("nvme0n1", 1))
    fabric = pci("0000:0d:00.0", "0207 [15b3:1021] [15b3:0001] 00 00", osdev("mlx5_7", 32))
    found = read(topology(TREE + host("0c", disk + fabric), "3.0"))
    devices = {device.address: device for device in found.pci}
    assert (devices["0000:0c:00.0"].class_code, devices["0000:0c:00.0"].kind) == (0x010802, "nvme")
    assert found.matrix is not None
    assert "mlx5_7" in found.matrix.nic_names.values()


def test_memory_of_a_gpu_is_its_own_node() -> None:
    own = numa(9, "", 3, '<info name="PCIBusID" value="0000:81:00.0"/>', subtype="GPUMemory")
    found = read(topology(TREE + own))
    assert found.gpus[3].own_numa == 9
    assert found.gpus[3].numa == (1,)


# --- sets and refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x00000003", 3),
        ("0x1,0x00000000", 1 << 32),
        ("0x00000303,0x03030000,,0x03030303", (0x303 << 96) + (0x03030000 << 64) + 0x03030303),
        ("00000000,00000003", 3),
        ("0x0", 0),
        ("0xf...f", None),
        ("", None),
        (None, None),
        ("0xzz", None),
        ("0x1,0x100000000", None),
        (",".join(["0x1"] * 5000), None),
    ],
)
def test_sets(text: str | None, expected: int | None) -> None:
    assert words(text) == expected


BOMB = '<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n<topology><object type="&b;"/></topology>'
OUTSIDE = '<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<topology>&a;</topology>'


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        pytest.param(topology(TWO_PACKAGES)[:-20], 4, "not valid XML", id="cut off"),
        pytest.param("\n\n<topology>\n<object></wrong>", 4, "mismatched tag", id="wrong tag"),
        pytest.param(BOMB, 1, "declares entities", id="entities"),
        pytest.param(OUTSIDE, 1, "declares entities", id="entities outside"),
        pytest.param("<system/>", 1, "not an hwloc topology", id="another root"),
        pytest.param("<topology/>", 1, "not an hwloc topology", id="nothing inside"),
        pytest.param("hello", 1, "not valid XML", id="no XML"),
        pytest.param("", 1, "not valid XML", id="empty"),
        pytest.param(topology(""), 4, "has no CPUs", id="no CPUs"),
        pytest.param(topology(core(0, 1) + core(1, 1)), 4, "CPU 1 is listed twice", id="two machines"),
        pytest.param("<topology>" + "<object>" * DEEPEST, 1, "too deeply", id="deep"),
    ],
)
def test_refusals(text: str, line: int, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read(text, "machine.xml")
    assert (caught.value.file, caught.value.line) == ("machine.xml", line)


def test_size_is_bounded() -> None:
    with pytest.raises(InputError, match="larger than 50 MiB"):
        read("<topology>" + " " * LARGEST_XML)


def test_a_newer_format_is_read_with_a_remark() -> None:
    found: Hardware = read(topology(TWO_PACKAGES, "4.1"), "new.xml")
    assert [(remark.kind, remark.place) for remark in found.remarks] == [(ODD, "new.xml")]
