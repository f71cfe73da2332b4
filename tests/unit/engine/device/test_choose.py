"""Which GPUs are chosen on machines as they are built, and what is said about it."""

from dataclasses import replace

import pytest

from numawise.gpus.choose import GpuLinks, advice, choices
from numawise.machine.catalog import machine_named
from numawise.machine.hardware import Gpu, Hardware, Matrix, MemoryNode
from numawise.machine.nearest import gpus_of
from numawise.machine.synthetic import synthetic
from numawise.sets import format_ids, parse_ids

NV1, NV2 = ("01", "02", "13", "26", "37", "45", "46", "57"), ("03", "04", "12", "15", "23", "47", "56", "67")


def machine(rows: str, homes: str) -> Hardware:
    """Links as printed, row by row, and the NUMA node of each GPU; every NUMA node has eight CPUs."""
    names = [f"GPU{i}" for i in range(len(homes))]
    cells = [row.split() for row in rows.strip().splitlines()]
    numa = sorted({int(home) for home in homes if home != "-"})
    return Hardware(
        numa=tuple(MemoryNode(i, 0xFF << 8 * i, 1 << 30) for i in numa),
        gpus=tuple(
            Gpu(name, numa=None if home == "-" else (int(home),))
            for name, home in zip(names, homes, strict=True)
        ),
        matrix=Matrix(
            tuple(names),
            links={name: dict(zip(names, row, strict=True)) for name, row in zip(names, cells, strict=False)},
        ),
    )


def hybrid_cube_mesh() -> Hardware:
    """A DGX-1 with V100s, by its NVLinks; the way over PCIe is not told beside them."""
    links = dict.fromkeys(NV1, "NV1") | dict.fromkeys(NV2, "NV2")
    rows = [
        " ".join("X" if i == j else links.get("".join(sorted((i, j))), "SYS") for j in "01234567")
        for i in "01234567"
    ]
    return machine("\n".join(rows), "00001111")


def with_mig() -> Hardware:
    """Two GPUs, the first one divided in three, the second in two."""
    whole = machine("X NODE\nNODE X", "00")
    parts = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    instances = tuple(Gpu(f"GPU{i}:{at}", f"MIG-{i}{at}", numa=(0,), parent=f"GPU{i}") for i, at in parts)
    return replace(whole, gpus=(*whole.gpus, *instances))


BRIDGED = """
X    NODE SYS  NV4
NODE X    NV4  SYS
SYS  NV4  X    NODE
NV4  SYS  NODE X
"""
TRIPLES = """
X   PIX PIX SYS SYS
PIX X   PIX SYS SYS
PIX PIX X   SYS SYS
SYS SYS SYS X   PIX
SYS SYS SYS PIX X
"""
MACHINES = {
    "pairs": machine_named("8gpu-server"),
    "dgx-1": hybrid_cube_mesh(),
    "dgx-a100": machine_named("dgx-a100"),
    "dgx-h100": machine_named("dgx-h100"),
    "mi300x": machine_named("mi300x"),
    "l40s-4": machine("X PHB NODE NODE\nPHB X NODE NODE\nNODE NODE X PHB\nNODE NODE PHB X", "0000"),
    "bridged": machine(BRIDGED, "0011"),
    "triples": machine(TRIPLES, "00011"),
    "single": machine("X", "0"),
    "no-links": machine("", "0011"),
    "nothing": machine("", "----"),
    "mig": with_mig(),
    "16-pairs": synthetic("2s 2n 32c 16gpu pairs"),
    "16-nvlink": synthetic("2s 4n 32c 16gpu nvlink=6"),
}
LINKS = {name: GpuLinks.of(hardware, gpus_of(hardware)) for name, hardware in MACHINES.items()}

# fmt: off
FIRST = [  # machine, free, count, chosen, NUMA nodes, worst link
    ("pairs",     "0-7",       1, "0",         "0",     ""),
    ("pairs",     "1-7",       1, "1",         "0",     ""),      # its partner is gone
    ("pairs",     "0-4,6-7",   1, "4",         "1",     ""),
    ("pairs",     "2-7",       1, "2",         "0",     ""),      # NUMA 0 is broken into already
    ("pairs",     "0-5",       1, "4",         "1",     ""),
    ("pairs",     "0-2,4-7",   1, "2",         "0",     ""),
    ("pairs",     "0-7",       2, "0-1",       "0",     "PIX"),
    ("pairs",     "1-7",       2, "2-3",       "0",     "PIX"),   # not a pair of the whole NUMA 1
    ("pairs",     "0-5",       2, "4-5",       "1",     "PIX"),
    ("pairs",     "1,3-4,6",   2, "1,3",       "0",     "NODE"),
    ("pairs",     "1,4",       2, "1,4",       "0-1",   "SYS"),
    ("pairs",     "0-7",       3, "0-2",       "0",     "NODE"),
    ("pairs",     "0-4",       3, "0-2",       "0",     "NODE"),  # though 0-1 with 4 would spare a pair
    ("pairs",     "0-2,4-7",   3, "0-2",       "0",     "NODE"),
    ("pairs",     "0-7",       4, "0-3",       "0",     "NODE"),
    ("pairs",     "1-7",       4, "4-7",       "1",     "NODE"),
    ("pairs",     "0-7",       5, "0-4",       "0-1",   "SYS"),
    ("pairs",     "0-7",       6, "0-5",       "0-1",   "SYS"),
    ("pairs",     "0-7",       8, "0-7",       "0-1",   "SYS"),
    ("dgx-1",     "0-7",       1, "0",         "0",     ""),
    ("dgx-1",     "1-7",       1, "1",         "0",     ""),
    ("dgx-1",     "0-7",       2, "0,3",       "0",     "NV2"),
    ("dgx-1",     "1-2,4-7",   2, "1-2",       "0",     "NV2"),
    ("dgx-1",     "0-1,4-5",   2, "0-1",       "0",     "NV1"),   # one NVLink less, but one NUMA node
    ("dgx-1",     "0-7",       4, "0-3",       "0",     "NV1"),
    ("dgx-1",     "4-7",       3, "4,6-7",     "1",     "NV1"),
    ("dgx-a100",  "0-7",       2, "0-1",       "3",     "NV12"),
    ("dgx-a100",  "1-7",       1, "1",         "3",     ""),
    ("dgx-a100",  "0-7",       4, "0-3",       "1,3",   "NV12"),
    ("dgx-a100",  "0-1,4-7",   4, "4-7",       "5,7",   "NV12"),  # NUMA nodes of one socket
    ("dgx-h100",  "0-7",       4, "0-3",       "0",     "NV18"),
    ("dgx-h100",  "1-7",       1, "1",         "0",     ""),
    ("dgx-h100",  "3-7",       4, "4-7",       "1",     "NV18"),
    ("dgx-h100",  "2-7",       2, "2-3",       "0",     "NV18"),
    ("mi300x",    "0-7",       4, "0-3",       "0",     "XGMI"),
    ("mi300x",    "2-7",       2, "2-3",       "0",     "XGMI"),
    ("l40s-4",    "0-3",       2, "0-1",       "0",     "PHB"),
    ("l40s-4",    "1-3",       1, "1",         "0",     ""),
    ("l40s-4",    "1-3",       2, "2-3",       "0",     "PHB"),
    ("bridged",   "0-3",       2, "0,3",       "0-1",   "NV4"),
    ("bridged",   "1-3",       1, "3",         "1",     ""),
    ("bridged",   "0-1",       2, "0-1",       "0",     "NODE"),
    ("triples",   "0-4",       1, "0",         "0",     ""),      # one of three breaks no pair
    ("triples",   "0-4",       2, "3-4",       "1",     "PIX"),   # and leaves three together
    ("single",    "0",         1, "0",         "0",     ""),
    ("no-links",  "0-3",       2, "0-1",       "0",     "NODE"),
    ("no-links",  "1-3",       1, "1",         "0",     ""),
    ("nothing",   "0-3",       2, "0-1",       "",      ""),
    ("mig",       "0-4",       1, "0",         "0",     ""),      # one of three parts of a GPU
    ("mig",       "0-4",       2, "3-4",       "0",     "X"),
    ("mig",       "1-4",       2, "1-2",       "0",     "X"),
    ("mig",       "2-4",       1, "2",         "0",     ""),
    ("mig",       "0-4",       4, "0-3",       "0",     "NODE"),
    ("16-pairs",  "0-15",      1, "0",         "0",     ""),
    ("16-pairs",  "0-6,8-15",  1, "6",         "0",     ""),
    ("16-pairs",  "1-7,8-9",   1, "1",         "0",     ""),      # though 8 has fewer links in all
    ("16-pairs",  "0-15",      8, "0-7",       "0",     "NODE"),
    ("16-pairs",  "2-15",      8, "8-15",      "1",     "NODE"),
    ("16-pairs",  "0-15",      6, "0-5",       "0",     "NODE"),
    ("16-nvlink", "0-15",      4, "0-3",       "0",     "NV6"),
    ("16-nvlink", "1-15",      2, "1-2",       "0",     "NV6"),
    ("16-nvlink", "1-15",      3, "1-3",       "0",     "NV6"),
    ("16-nvlink", "0-15",      8, "0-7",       "0-1",   "NV6"),
]
# fmt: on


@pytest.mark.parametrize(("name", "free", "count", "gpus", "numa", "worst"), FIRST)
def test_first_choice(name: str, free: str, count: int, gpus: str, numa: str, worst: str) -> None:
    first = choices(LINKS[name], parse_ids(free), count)[0]
    assert (format_ids(first.gpus), format_ids(first.numa), first.worst) == (gpus, numa, worst)


# fmt: off
EVERY = [  # machine, free, count, must, choices as GPUs@NUMA nodes, best first
    ("pairs",    "0-7",     1, "",    "0@0 4@1"),
    ("pairs",    "1-7",     1, "",    "1@0 4@1"),
    ("pairs",    "0-7",     2, "",    "0-1@0 4-5@1 0,4@0-1"),
    ("pairs",    "0-7",     5, "",    "0-4@0-1"),
    ("pairs",    "0-7",     2, "5",   "4-5@1 0,5@0-1"),
    ("pairs",    "0-7",     3, "2",   "0-2@0 2-4@0-1"),
    ("pairs",    "0-7",     3, "2,7", "2-3,7@0-1"),
    ("pairs",    "0-7",     2, "3,4", "3-4@0-1"),
    ("pairs",    "3,6",     2, "3,6", "3,6@0-1"),
    ("dgx-1",    "0-7",     2, "",    "0,3@0 4,7@1 0,4@0-1"),
    ("dgx-a100", "0-7",     1, "",    "0@3 2@1 4@7 6@5"),
    ("dgx-a100", "0-3",     3, "",    "0-2@1,3"),
    ("nothing",  "1-3",     3, "",    "1-3@"),
    ("mig",      "0-4",     3, "4",   "0,3-4@0"),
    ("pairs",    "0-7",     9, "",    ""),   # too many
    ("pairs",    "0-1",     3, "",    ""),
    ("pairs",    "0-7",     0, "",    ""),
    ("pairs",    "0-7",     1, "0-1", ""),   # more must be in than are asked for
    ("pairs",    "1-7",     2, "0",   ""),   # not free
    ("pairs",    "",        1, "",    ""),
    ("pairs",    "0-63",    8, "",    "0-7@0-1"),  # positions beyond the machine are nobody's
]
# fmt: on


@pytest.mark.parametrize(("name", "free", "count", "must", "expected"), EVERY)
def test_every_choice(name: str, free: str, count: int, must: str, expected: str) -> None:
    found = choices(LINKS[name], parse_ids(free), count, parse_ids(must))
    assert " ".join(f"{format_ids(one.gpus)}@{format_ids(one.numa)}" for one in found) == expected
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert [one.points for one in found] == [LINKS[name].points_of(one.gpus) for one in found]


# fmt: off
SYS_8, NV_8 = "8 would cross evenly, 4 + 4 (worst link SYS)", "8 would cross evenly, 4 + 4 (worst link NV18)"
NODE_4 = "4 would stay on NUMA node 0 (worst link NODE)"
ADVICE = [  # machine, free, count, sentences
    ("pairs",    "0-7",     1, ["1 GPU: GPU0 on NUMA node 0"]),
    ("pairs",    "0-7",     2, ["2 GPUs: GPU0, GPU1 on NUMA node 0 (link PIX)"]),
    ("pairs",    "0-7",     4, ["4 GPUs: GPU0, GPU1, GPU2, GPU3 on NUMA node 0 (worst link NODE)"]),
    ("pairs",    "0-7",     5, ["5 GPUs cross NUMA nodes 0-1: 4 + 1 (worst link SYS)", NODE_4, SYS_8]),
    ("pairs",    "0-5",     5, ["5 GPUs cross NUMA nodes 0-1: 4 + 1 (worst link SYS)", NODE_4]),
    ("pairs",    "0-7",     8, ["8 GPUs cross NUMA nodes 0-1: evenly, 4 + 4 (worst link SYS)", NODE_4]),
    ("pairs",    "0-1,4-5", 3, ["3 GPUs cross NUMA nodes 0-1: 2 + 1 (worst link SYS)",
                                "2 would stay on NUMA node 0 (link PIX)",
                                "4 would cross evenly, 2 + 2 (worst link SYS)"]),
    ("pairs",    "3,6",     2, ["2 GPUs cross NUMA nodes 0-1: evenly, 1 + 1 (link SYS)",
                                "1 would stay on NUMA node 0"]),
    ("pairs",    "0-7",     9, ["9 GPUs: only 8 free"]),
    ("pairs",    "0-7",     0, []),
    ("dgx-h100", "0-7",     5, ["5 GPUs cross NUMA nodes 0-1: 4 + 1 (worst link NV18)",
                                "4 would stay on NUMA node 0 (worst link NV18)", NV_8]),
    ("dgx-a100", "0-7",     5, ["5 GPUs cross NUMA nodes 1,3,7: 2 + 2 + 1 (worst link NV12)",
                                "2 would stay on NUMA node 3 (link NV12)",
                                "6 would cross evenly, 2 + 2 + 2 (worst link NV12)"]),
    ("dgx-1",    "0-1,4-5", 2, ["2 GPUs: GPU0, GPU1 on NUMA node 0 (link NV1)"]),
    ("16-pairs", "0-15",   10, ["10 GPUs cross NUMA nodes 0-1: 8 + 2 (worst link SYS)",
                                "8 would stay on NUMA node 0 (worst link NODE)",
                                "16 would cross evenly, 8 + 8 (worst link SYS)"]),
    ("single",   "0",       1, ["1 GPU: GPU0 on NUMA node 0"]),
    ("nothing",  "0-3",     3, ["3 GPUs: GPU0, GPU1, GPU2 (links not known)"]),
]
# fmt: on


@pytest.mark.parametrize(("name", "free", "count", "sentences"), ADVICE)
def test_advice(name: str, free: str, count: int, sentences: list[str]) -> None:
    assert advice(LINKS[name], parse_ids(free), count) == "; ".join(sentences)


def test_one_pair_of_nvlinks_does_not_outweigh_a_numa_node() -> None:
    rows = [
        " ".join(
            "X" if i == j else "NV4" if {i, j} == {4, 5} else "NODE" if i // 4 == j // 4 else "SYS"
            for j in range(6)
        )
        for i in range(6)
    ]
    given = machine("\n".join(rows), "000011")
    first = choices(GpuLinks.of(given, given.gpus), 0b111111, 4)[0]
    assert (format_ids(first.gpus), format_ids(first.numa), first.worst) == ("0-3", "0", "NODE")


def test_one_after_another_until_all_are_taken() -> None:
    """Single jobs fill pair after pair and NUMA node after NUMA node."""
    links, free, taken = LINKS["pairs"], 0xFF, []
    while free:
        first = choices(links, free, 1)[0]
        taken.append(format_ids(first.gpus))
        free &= ~first.gpus
    assert taken == list("01234567")


def test_more_than_sixteen() -> None:
    hardware = synthetic("2s 8n 64c 64gpu pairs")
    links = GpuLinks.of(hardware, gpus_of(hardware))
    first = choices(links, links.every & ~1, 2)[0]
    assert (format_ids(first.gpus), first.worst) == ("2-3", "PIX")
    assert format_ids(choices(links, links.every & ~1, 1)[0].gpus) == "1"
    assert format_ids(choices(links, links.every & ~1, 8)[0].gpus) == "8-15"
    assert format_ids(choices(links, links.every, 16)[0].gpus) == "0-15"


def test_more_than_sixteen_in_a_mesh() -> None:
    """A ring of twenty: neighbours have NVLinks, all others none; the search is bounded but finds runs."""
    size = 20
    rows = [
        " ".join("X" if i == j else "NV2" if (i - j) % size in (1, size - 1) else "SYS" for j in range(size))
        for i in range(size)
    ]
    links = GpuLinks.of(ring := machine("\n".join(rows), "0" * 10 + "1" * 10), gpus_of(ring))
    assert [(format_ids(one.gpus), format_ids(one.numa)) for one in choices(links, links.every, 4)] == [
        ("0-3", "0"),
        ("10-13", "1"),
    ]
    eleven = choices(links, links.every, 11)[0]
    assert (eleven.points, eleven.numa) == (9 * 220 + 210 + 45 * 10, 0b11)
