"""Points and words of links, from whatever tells about them."""

from dataclasses import replace

import pytest

from numawise.gpus.links import SAME_GPU, GpuLinks
from numawise.machine.hardware import GPU, Gpu, Hardware, Matrix, MemoryNode, PciDevice
from numawise.machine.nearest import gpus_of
from numawise.sets import parse_ids

ROOT, PORT = "pci0000:16", "0000:16:01.0"
FAR = "pci0000:40"
TREES = {  # the bridges above the two GPUs
    "": ((), ()),
    "switch": ((ROOT, PORT, "up", "a"), (ROOT, PORT, "up", "b")),
    "switches": ((ROOT, PORT, "up", "a"), (ROOT, PORT, "up", "b", "c", "d")),
    "bridge": ((ROOT, PORT), (ROOT, "0000:16:02.0")),
    "apart": ((ROOT, PORT), (FAR, "0000:40:01.0")),
}


def two(told: tuple[str, str] | None, tree: str, numa: tuple[int | None, int | None]) -> GpuLinks:
    """Two GPUs: their links in the matrix both ways, their place in the PCIe tree, their NUMA nodes."""
    names = ("GPU0", "GPU1")
    matrix = None
    if told is not None:
        matrix = Matrix(names, links={"GPU0": {"GPU1": told[0]}, "GPU1": {"GPU0": told[1]}})
    hardware = Hardware(
        numa=(MemoryNode(0, 0b11, 1), MemoryNode(1, 0b1100, 1)),
        pci=tuple(
            PciDevice(f"0000:{bus}:00.0", kind=GPU, numa=-1 if home is None else home, parents=parents)
            for bus, parents, home in zip((17, 18), TREES[tree], numa, strict=True)
        ),
        gpus=tuple(Gpu(name, address=f"0000:{bus}:00.0") for name, bus in zip(names, (17, 18), strict=True)),
        matrix=matrix,
    )
    return GpuLinks.of(hardware, gpus_of(hardware))


# fmt: off
PAIRS = [
    pytest.param(("PIX", "PIX"),   "",         (0, 0),       "PIX",  50,   id="as told"),
    pytest.param(("PSB", "PSB"),   "",         (0, 0),       "PSB",  60,   id="one board"),
    pytest.param(("PXB", "PXB"),   "",         (0, 0),       "PXB",  40,   id="several switches"),
    pytest.param(("PHB", "PHB"),   "switch",   (0, 0),       "PHB",  30,   id="the matrix before the tree"),
    pytest.param(("SOC", "SOC"),   "",         (0, 1),       "SOC",  10,   id="old word for SYS"),
    pytest.param(("PIX", "NODE"),  "",         (0, 0),       "NODE", 20,   id="the worse direction"),
    pytest.param(("NV4", ""),      "",         (0, 0),       "NV4",  420,  id="one direction alone"),
    pytest.param(("", "NV4"),      "bridge",   (0, 0),       "NV4",  430,  id="the other direction alone"),
    pytest.param(("NV18", "NV18"), "switch",   (0, 0),       "NV18", 1850, id="NVLinks and a switch"),
    pytest.param(("NV18", "NV18"), "apart",    (0, 0),       "NV18", 1820, id="NVLinks in a NUMA node"),
    pytest.param(("NV18", "NV18"), "",         (0, 1),       "NV18", 1810, id="NVLinks across"),
    pytest.param(("NV18", "NV18"), "",         (None, None), "NV18", 1800, id="NVLinks, PCIe not known"),
    pytest.param(("XGMI", "XGMI"), "",         (0, 0),       "XGMI", 120,  id="xGMI is like an NVLink"),
    pytest.param(("?", "?"),       "",         (0, 0),       "?",    0,    id="a word nobody knows"),
    pytest.param(None,             "switch",   (0, 0),       "PIX",  50,   id="tree: one switch"),
    pytest.param(None,             "switches", (0, 0),       "PXB",  40,   id="tree: several switches"),
    pytest.param(None,             "bridge",   (0, 0),       "PHB",  30,   id="tree: host bridge"),
    pytest.param(None,             "apart",    (0, 0),       "NODE", 20,   id="tree: NUMA node"),
    pytest.param(None,             "apart",    (0, 1),       "SYS",  10,   id="tree: across"),
    pytest.param(None,             "",         (None, None), "",     0,    id="nothing tells"),
    pytest.param(None,             "apart",    (None, 1),    "",     0,    id="one place is not known"),
]
# fmt: on


@pytest.mark.parametrize(("told", "tree", "numa", "text", "points"), PAIRS)
def test_link(
    told: tuple[str, str] | None, tree: str, numa: tuple[int | None, int | None], text: str, points: int
) -> None:
    links = two(told, tree, numa)
    assert links.texts == (("X", text), (text, "X"))
    assert links.points == ((0, points), (points, 0))


def test_a_place_that_was_shared_out_tells_no_link() -> None:
    hardware = Hardware(
        numa=(MemoryNode(0, 0b11, 1), MemoryNode(1, 0b1100, 1)),
        gpus=tuple(Gpu(f"GPU{i}", numa=(0, 1)) for i in range(4)),
    )
    links = GpuLinks.of(hardware, hardware.gpus)
    assert links.numa == (1, 1, 2, 2)
    assert {text for row in links.texts for text in row} == {"X", ""}
    assert len(links.remarks) == 4


def test_parts_of_one_gpu_are_the_same_gpu() -> None:
    whole = (Gpu("GPU0", numa=(0,)), Gpu("GPU1", numa=(0,)))
    matrix = Matrix(("GPU0", "GPU1"), links={"GPU0": {"GPU1": "NV18"}, "GPU1": {"GPU0": "NV18"}})
    parts = tuple(Gpu(f"{gpu.name}:{at}", parent=gpu.name) for gpu in whole for at in range(2))
    hardware = Hardware(numa=(MemoryNode(0, 1, 1),), gpus=(*whole, *parts), matrix=matrix)
    links = GpuLinks.of(hardware, gpus_of(hardware))
    assert [gpu.name for gpu in links.gpus] == ["GPU0:0", "GPU0:1", "GPU1:0", "GPU1:1"]
    assert links.points[0] == (0, SAME_GPU, 1820, 1820)
    assert links.texts[0] == ("X", "X", "NV18", "NV18")
    assert SAME_GPU > 7200 > max(links.points[0][2:])


def test_gpus_that_only_the_pci_list_tells_of() -> None:
    bare = Hardware(
        numa=(MemoryNode(0, 0b11, 1),),
        pci=tuple(
            PciDevice(f"0000:{bus}:00.0", kind=GPU, numa=0, parents=parents)
            for bus, parents in zip((17, 18), TREES["switch"], strict=True)
        ),
    )
    assert GpuLinks.of(bare, gpus_of(bare)).texts[0][1] == "PIX"


@pytest.mark.parametrize(("gpus", "worst", "points", "numa"), [
    ("0-1", "PIX",  50,  0b1),
    ("0",   "",     0,   0b1),
    ("0-2", "SYS",  70,  0b11),
    ("",    "",     0,   0),
])  # fmt: skip
def test_sets(gpus: str, worst: str, points: int, numa: int) -> None:
    names = ("GPU0", "GPU1", "GPU2")
    rows = {"GPU0": {"GPU1": "PIX", "GPU2": "SYS"}, "GPU1": {"GPU2": "SYS"}}
    hardware = Hardware(
        numa=(MemoryNode(0, 0b11, 1, distances=((1, 21),)), MemoryNode(1, 0b1100, 1, distances=((0, 21),))),
        gpus=tuple(Gpu(name, numa=(home,)) for name, home in zip(names, (0, 0, 1), strict=True)),
        matrix=Matrix(names, links=rows),
    )
    links = GpuLinks.of(hardware, hardware.gpus)
    chosen = parse_ids(gpus)
    assert (links.worst(chosen), links.points_of(chosen), links.numa_of(chosen)) == (worst, points, numa)
    assert links.spread(0b11) == 21
    assert links.every == 0b111
    assert GpuLinks.of(replace(hardware, gpus=()), ()).every == 0
