"""What a picture shows: which boxes, in which box, with which words."""

from dataclasses import replace

import pytest

from numawise.machine.catalog import machine_named
from numawise.machine.hardware import Gpu, Hardware, Host, PciDevice
from numawise.machine.synthetic import synthetic
from numawise.render.picture.arrange import arrange
from numawise.render.picture.boxes import Box
from numawise.render.picture.layout import picture
from numawise.render.picture.svg import METRICS
from numawise.render.picture.tables import link_table
from numawise.render.words import bytes_text, clean, cpus_text, ranges, runs, wrap
from numawise.sets import parse_ids
from tests.unit.render.geometry import MACHINES, faults


def outline(box: Box, depth: int = 0) -> list[str]:
    """The boxes of a picture, one a line, indented by what is inside what."""
    lines = [f"{'  ' * depth}{box.kind} {box.title}".rstrip()]
    for inner in box.boxes:
        if inner.kind not in ("table", "legend"):
            lines += outline(inner, depth + 1)
    return lines


def drawn(words: str) -> list[str]:
    return outline(picture(synthetic(words)).box)[1:]


@pytest.mark.parametrize(("words", "expected"), [
    pytest.param("2s 2n 4c", ["  numa NUMA 0 · socket 0", "  numa NUMA 1 · socket 1"], id="socket and NUMA node share a box"),
    pytest.param("1s 1n 4c", ["  numa NUMA 0"], id="one socket needs no name"),
    pytest.param("1s 2n 4c", ["  socket Socket 0", "    numa NUMA 0", "    numa NUMA 1"], id="NUMA nodes inside a socket"),
    pytest.param("2s 1n 4c", ["  numa NUMA 0 · sockets 0-1"], id="sockets inside a NUMA node"),
    pytest.param("1s 4c l3=2c", ["  numa NUMA 0"], id="small L3s are no boxes where every core is named"),
    pytest.param("1s 64c l3=32c", ["  numa NUMA 0", "    l3 L3 0", "    l3 L3 1"], id="several L3s"),
    pytest.param("1s 4c 4gpu pairs", ["  numa NUMA 0", "    switch PCIe switch", "      gpu GPU0", "      gpu GPU1", "    switch PCIe switch", "      gpu GPU2", "      gpu GPU3"], id="switches"),
    pytest.param("1s 4c 1gpu", ["  numa NUMA 0", "    gpu GPU0"], id="a switch with one device is not drawn"),
    pytest.param("1s 4c memonly=1", ["  numa NUMA 0", "  memory NUMA 1"], id="memory only"),
    pytest.param("1s 4c 2gpu nvlink=4", ["  numa NUMA 0", "    gpu GPU0", "    gpu GPU1", "  fabric NVLink: NV4 between GPU0-GPU1"], id="NVLink"),
])  # fmt: skip
def test_boxes(words: str, expected: list[str]) -> None:
    assert drawn(words) == expected


def test_every_core_has_a_cell_and_few_cores_have_numbers() -> None:
    few = picture(synthetic("1s 4c 2t")).box.boxes[0]
    assert [cell.text for cell in few.cells] == ["0 4", "1 5", "2 6", "3 7"]
    many = picture(synthetic("2s 192c 2t")).box.boxes
    assert [len(box.cells) for box in many[:2]] == [96, 96]
    assert not any(cell.text for box in many for cell in box.cells)
    assert many[0].lines[0] == "cores 0-95, threads 192-287"


def test_empty_numa_nodes_are_told_together() -> None:
    boxes = outline(picture(machine_named("gb200")).box)
    assert "  empty NUMA 3-9,11-17,19-25,27-33" in boxes
    assert [box for box in boxes if box.startswith("  memory")] == [
        f"  memory NUMA {i}" for i in (2, 10, 18, 26)
    ]


def test_devices_without_a_numa_node_stand_apart() -> None:
    box = picture(machine_named("small-vm")).box
    assert outline(box)[2:] == ["  unplaced Devices without a NUMA node", "    nic eth0", "    nvme nvme0"]
    near = Hardware(threads=synthetic("2s 2c").threads, gpus=(Gpu("GPU0", numa=(0, 1)),))
    assert "  unplaced Near NUMA 0-1" in outline(picture(near).box)


def test_many_virtual_functions_are_counted() -> None:
    functions = tuple(
        PciDevice(f"0000:17:{i:02x}.0", kind="nic", numa=0, names=(f"eth{i}",)) for i in range(40)
    )
    box = picture(replace(synthetic("4c"), pci=functions)).box.boxes[0]
    assert [inner.title for inner in box.boxes] == [*(f"eth{i}" for i in range(6)), "and 34 more"]


def test_ports_of_one_card_are_no_switch() -> None:
    chain = ("pci0000:17", "0000:17:01.0")
    ports = tuple(
        PciDevice(f"0000:18:00.{i}", kind="nic", numa=0, parents=chain, names=(f"eth{i}",)) for i in (0, 1)
    )
    box = picture(replace(synthetic("4c"), pci=ports)).box.boxes[0]
    assert [inner.kind for inner in box.boxes] == ["nic", "nic"]


def test_a_switch_inside_a_switch() -> None:
    def chain(i: int) -> tuple[str, ...]:
        return ("pci0000:17", "0000:17:01.0", "up", f"down{i // 2}", f"up{i // 2}", f"port{i}")

    cards = tuple(
        PciDevice(f"0000:2{i}:00.0", kind="nic", numa=0, parents=chain(i), names=(f"n{i}",)) for i in range(4)
    )
    (outer,) = picture(replace(synthetic("4c"), pci=cards)).box.boxes[0].boxes
    assert [inner.kind for inner in outer.boxes] == ["switch", "switch"]
    assert [leaf.title for inner in outer.boxes for leaf in inner.boxes] == ["n0", "n1", "n2", "n3"]


def test_links_stand_in_for_a_missing_tree() -> None:
    hardware = replace(machine_named("8gpu-server"), pci=())
    assert drawn("1c") == ["  numa NUMA 0"]
    (first, second) = picture(hardware).box.boxes[:2]
    groups = [[leaf.title for leaf in switch.boxes] for box in (first, second) for switch in box.boxes]
    assert groups == [["GPU0", "GPU1"], ["GPU2", "GPU3"], ["GPU4", "GPU5"], ["GPU6", "GPU7"]]


def test_a_matrix_alone_gives_numa_nodes() -> None:
    known = machine_named("l40s-8gpu")
    box = picture(Hardware(gpus=known.gpus, matrix=known.matrix)).box
    assert outline(box)[1:7] == [
        "  numa NUMA 0",
        "    switch PCIe switch",
        "      gpu GPU0",
        "      gpu GPU1",
        "      nic mlx5_0",
        "    switch PCIe switch",
    ]
    assert box.boxes[0].lines == ("CPUs 0-31,64-95",)


def test_holds_mark_cells_and_are_told() -> None:
    shown = picture(synthetic("4c 2t"), {0: "web", 4: "web", 1: "db", 2: "web", 6: "db"})
    box = shown.box.boxes[0]
    assert [(cell.hold, cell.part) for cell in box.cells] == [
        ("web", False),
        ("db", True),
        ("several", False),
        ("", False),
    ]
    assert [line for line in box.lines if line[1] == " "] == ["A web: 0,2,4", "B db: 1,6"]
    assert shown.holds == ("web", "db")


def test_limits_of_the_system_are_told() -> None:
    host = Host(cpuset=0b11, isolated=0b1000)
    told = picture(replace(synthetic("4c"), host=host, offline=0b110000)).box.boxes[-1]
    assert [(entry.title, *entry.lines) for entry in told.boxes] == [
        ("offline", "CPUs 4-5"),
        ("isolated", "CPUs 3 are isolated from the scheduler"),
        ("cpuset", "processes here may use CPUs 0-1 alone"),
    ]


def test_the_description_names_every_numa_node_and_device() -> None:
    told = picture(machine_named("dgx-h100")).description
    for word in ("NUMA 0", "NUMA 1", "cores 0-55, threads 112-167", "GPU0", "mlx5_11", "NVLink"):
        assert word in told


@pytest.mark.parametrize(("cpus", "expected"), [
    ("0-3",                  "0-3"),
    ("0,2,4,6,8,10,12,14,16,18,20,22,24", "0-24 step 2"),
    ("0-1,4-5,8-9,12-13,16-17,20-21,24-25,28-29,32", "0-1,4-5,8-9,12-13,… (17)"),
])  # fmt: skip
def test_ranges(cpus: str, expected: str) -> None:
    assert ranges(parse_ids(cpus)) == expected


@pytest.mark.parametrize(("words", "expected"), [
    ("1c",               "CPU 0"),
    ("4c",               "CPUs 0-3"),
    ("1c 2t",            "CPUs 0-1, one core"),
    ("4c 2t",            "cores 0-3, threads 4-7"),
    ("4c 2t adjacent",   "CPUs 0-7, a core is 0-1"),
    ("2s 40c 2t interleaved", "cores 0-38 step 2, threads 40-78 step 2"),
])  # fmt: skip
def test_cpus_text(words: str, expected: str) -> None:
    hardware = synthetic(words)
    assert cpus_text(hardware, hardware.numa[0].cpus) == expected


@pytest.mark.parametrize(("amount", "expected"), [
    (0, "0 bytes"), (512, "512 bytes"), (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB"), (1 << 40, "1 TiB"), (1152 << 30, "1152 GiB"),
])  # fmt: skip
def test_bytes_text(amount: int, expected: str) -> None:
    assert bytes_text(amount) == expected


def test_runs_takes_any_number() -> None:
    assert runs([3, 1, 2, 2**40, 7]) == "1-3,7,1099511627776"


def test_wrap_breaks_at_blanks_and_commas_and_long_words_anywhere() -> None:
    assert wrap("cores 0-3,8-11 and more", 10, len) == ["cores 0-3,", "8-11 and", "more"]
    assert wrap("0-3,8-11,16-19", 9, len) == ["0-3,8-11,", "16-19"]
    assert wrap("abcdefgh", 3, len, anywhere=True) == ["abc", "def", "gh"]
    assert wrap("a abcdefgh b", 3, len) == ["a", "abcdefgh", "b"]
    assert wrap("", 3, len) == [""]


def test_clean_leaves_no_control_characters() -> None:
    assert clean("\x1b[31mred\x07\nx\n") == r"\x1b[31mred\x07 x"


def test_many_equal_rows_of_nics_are_joined() -> None:
    hardware = synthetic("1s 4c 1gpu 40nic")
    items = picture(hardware).box.boxes[-2].table
    assert items is not None
    assert len(items.rows) == 2
    assert link_table(synthetic("4c"), []) is None


@pytest.mark.parametrize("hardware", MACHINES)
@pytest.mark.parametrize("width", [320, 700, 1192])
def test_nothing_overlaps_or_leaves_its_frame(hardware: Hardware, width: int) -> None:
    placed, _ = arrange(picture(hardware).box, METRICS, width)
    assert placed.width <= width
    assert faults(placed, METRICS.line) == []


def test_like_boxes_stand_in_like_columns() -> None:
    placed, lines = arrange(picture(machine_named("mi300x")).box, METRICS, 1192)
    first, second = (box for box in placed.boxes if box.kind == "numa")
    assert (first.width, first.height) == (second.width, second.height)
    assert [(b.x - first.x, b.y) for b in first.boxes] == [(b.x - second.x, b.y) for b in second.boxes]
    assert sorted(line.kind for line in lines) == ["fabric", "fabric", "interconnect"]
