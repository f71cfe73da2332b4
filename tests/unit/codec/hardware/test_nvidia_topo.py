"""The matrix of links in every shape people hand it on; what cannot be told is left out, and said."""

import pytest

from numawise.codec.hardware.matrix.affinity import replay
from numawise.codec.hardware.nvidia_topo import read
from numawise.errors import InputError
from numawise.machine.hardware import Hardware, Matrix
from numawise.sets import format_ids


def tabs(text: str) -> str:
    """``→`` stands for a tab."""
    return text.replace("→", "\t")


def matrix(text: str) -> Matrix:
    found = read(text, "file").matrix
    assert found is not None
    return found


def rows(found: Matrix) -> dict[str, str]:
    """``GPU0: X NV1`` for each row, ``.`` where nothing is told."""
    names = [*found.gpus, *found.nics]
    return {row: " ".join(links.get(name, ".") for name in names) for row, links in found.links.items()}


def near(found: Matrix, gpu: str = "GPU0") -> str:
    """``0-3|0|N/A``: CPU affinity, NUMA affinity, GPU NUMA ID; ``.`` where nothing is told."""
    columns = (found.cpu_affinity, found.numa_affinity, found.gpu_numa_id)
    return "|".join(column.get(gpu) or "." for column in columns)


TWO = {"GPU0": "X NV1", "GPU1": "NV1 X"}
PRINTED = tabs("""\
→GPU0→GPU1→CPU Affinity→NUMA Affinity→GPU NUMA ID
GPU0→ X →NV1→0-3→0→→N/A
GPU1→NV1→ X →4-7→1→→N/A
""")


@pytest.mark.parametrize("text", [
    pytest.param(PRINTED,                                                            id="as printed"),
    pytest.param(PRINTED.expandtabs(8),                                              id="tabs written out"),
    pytest.param(PRINTED.lstrip(),                                                   id="header without its blank cell"),
    pytest.param("GPU Topology:\n" + PRINTED + "\nLegend:\n\n  X    = Self\n",       id="text around"),
    pytest.param("$ nvidia-smi topo -m\n" + PRINTED.replace("\n", "\n\n"),           id="double spaced"),
    pytest.param("".join(f"> {line}\n" for line in PRINTED.splitlines()),            id="quoted"),
    pytest.param("".join(f"[n1] {line}\n" for line in PRINTED.splitlines()),         id="labelled by a launcher"),
    pytest.param(" ".join(PRINTED.split()),                                          id="line ends lost"),
    pytest.param("\n".join(" ".join(line.split()) for line in PRINTED.split("\n")),  id="blanks squeezed"),
    pytest.param(PRINTED.replace("\tGPU0\tGPU1\t", "\t   GPU0GPU1", 1),              id="names run together"),
    pytest.param(PRINTED.replace("NV1\t", "NV1", 1).replace("1\t0-3", "10-3"),       id="link and CPUs run together"),
    pytest.param("    " + PRINTED,                                                   id="header indented"),
    pytest.param(tabs("""\
→GPU0→GPU1→CPU Affinity
NUMA Affinity→GPU NUMA ID
GPU0→ X →NV1→0-3
0→→N/A
GPU1→NV1→ X →4-7
1→→N/A
"""),                                                                                id="last columns wrapped"),
    pytest.param("""
        |      | GPU0 | GPU1 | CPU Affinity | NUMA Affinity | GPU NUMA ID |
        |:-----|:----:|------|--------------|---------------|-------------|
        | **GPU0** | X | NV1  | 0-3 | 0 | N/A |
        | **GPU1** | NV1 | X  | 4-7 | 1 | N/A |
    """,                                                                             id="Markdown"),
    pytest.param("""
        +--------------+---------------+------+------+------+-------------+
        | CPU Affinity | NUMA Affinity |      | GPU0 | GPU1 | GPU NUMA ID |
        +==============+===============+======+======+======+=============+
        | 0-3          | 0             | GPU0 | X    | NV1  | N/A         |
        +--------------+---------------+------+------+------+-------------+
        | 4-7          | 1             | GPU1 | NV1  | X    | N/A         |
        +--------------+---------------+------+------+------+-------------+
    """,                                                                             id="grid, columns moved"),
])  # fmt: skip
def test_same_matrix(text: str) -> None:
    found = matrix(text)
    assert rows(found) == TWO
    assert near(found) == "0-3|0|N/A"
    assert near(found, "GPU1") == "4-7|1|N/A"


@pytest.mark.parametrize(("columns", "tail", "expected"), [
    pytest.param("CPU Affinity→NUMA Affinity→GPU NUMA ID", "→0-31,64-95→0→→N/A",  "0-31,64-95|0|N/A", id="all"),
    pytest.param("CPU Affinity→NUMA Affinity→GPU NUMA ID", "→→1→→N/A",            ".|1|N/A",          id="no CPUs"),
    pytest.param("CPU Affinity→NUMA Affinity→GPU NUMA ID", "→→→→N/A",             ".|.|N/A",          id="neither"),
    pytest.param("CPU Affinity→NUMA Affinity→GPU NUMA ID", "→0-7→→N/A→→N/A",      "0-7|N/A|N/A",      id="not known"),
    pytest.param("CPU Affinity→NUMA Affinity→GPU NUMA ID", "→→→N/A→→N/A",         ".|N/A|N/A",        id="none known"),
    pytest.param("CPU Affinity→NUMA Affinity→GPU NUMA ID", "→0-71→0→→4",          "0-71|0|4",         id="Grace"),
    pytest.param("CPU Affinity→NUMA Affinity",             "→0-7→0-1",            "0-7|0-1|.",        id="range"),
    pytest.param("CPU Affinity→NUMA Affinity",             "→0-7→→N/A",           "0-7|N/A|.",        id="older"),
    pytest.param("CPU Affinity→NUMA Affinity",             "→→1",                 ".|1|.",            id="older, no CPUs"),
    pytest.param("CPU Affinity",                           "→0-0,8-8,16-16,24-24", "0-0,8-8,16-16,24-24|.|.", id="oldest"),
    pytest.param("CPU Affinity→NUMA Affinity",             "→0-7→0→→N/A",         "0-7|0|N/A",        id="header cut off"),
])  # fmt: skip
@pytest.mark.parametrize(
    "dress", [str, lambda text: text.expandtabs(8), lambda text: f"  {text}".replace("\n", "\n  ")]
)
def test_affinity(columns: str, tail: str, expected: str, dress: type[str]) -> None:
    text = tabs(f"→GPU0→NIC0→{columns}\nGPU0→ X →SYS{tail}\nNIC0→SYS→ X →→→→\n")
    found = matrix(dress(text))
    assert rows(found) == {"GPU0": "X SYS", "NIC0": "SYS X"}
    assert near(found) == expected


def test_value_under_its_heading() -> None:
    """A table aligned by hand: only the column tells that 1 is a NUMA node."""
    text = """
        GPU0  GPU1  CPU Affinity  NUMA Affinity  GPU NUMA ID
  GPU0   X    NV1   0-3           0              N/A
  GPU1  NV1    X                  1              N/A
"""
    found = matrix(text)
    assert near(found) == "0-3|0|N/A"
    assert near(found, "GPU1") == ".|1|N/A"


def test_lone_value_without_a_place() -> None:
    found = read("GPU0 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X 1 N/A\n", "file")
    assert found.matrix is not None
    assert near(found.matrix) == ".|.|."
    assert [remark.kind for remark in found.remarks] == ["unknown"]


WIDE = tabs("""\
→GPU0→GPU1→NIC0→CPU Affinity→NUMA Affinity→GPU NUMA ID
GPU0→ X →NV12→PIX→0-47,96-143→0→→N/A
GPU1→NV12→ X →SYS→48-95,144-191→1→→N/A
NIC0→PIX→SYS→ X →→→→
""")


@pytest.mark.parametrize("width", range(24, 90))
def test_terminal_that_swallows_tabs(width: int) -> None:
    """Copied off a terminal of any width, the matrix is whole; an affinity is right or not told."""
    found = matrix("\n".join(replay(line, width) for line in WIDE.split("\n")))
    assert rows(found) == {"GPU0": "X NV12 PIX", "GPU1": "NV12 X SYS", "NIC0": "PIX SYS X"}
    for gpu, expected in (("GPU0", "0-47,96-143|0|N/A"), ("GPU1", "48-95,144-191|1|N/A")):
        assert near(found, gpu) in (expected, ".|.|.")


@pytest.mark.parametrize("width", range(24, 90))
def test_terminal_that_cuts_lines(width: int) -> None:
    """Where each screen line became a line of its own."""
    lines = [line.expandtabs(8) for line in WIDE.split("\n")]
    cut = [line[at : at + width] for line in lines for at in range(0, len(line) or 1, width)]
    found = matrix("\n".join(cut))
    assert rows(found) == {"GPU0": "X NV12 PIX", "GPU1": "NV12 X SYS", "NIC0": "PIX SYS X"}
    assert near(found) == "0-47,96-143|0|N/A"
    assert near(found, "GPU1") == "48-95,144-191|1|N/A"


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("→GPU0→GPU1→GPU2\nGPU0→ X →→NV1\nGPU1→SYS→ X →NV2\nGPU2→NV1→NV2→ X \n",
                 {"GPU0": "X . NV1", "GPU1": "SYS X NV2", "GPU2": "NV1 NV2 X"}, id="a blank cell stays blank"),
    pytest.param("→GPU0→GPU1→GPU2\nGPU0→ X →NV1\nGPU1→SYS→ X →NV2\nGPU2→NV1→NV2→ X \n",
                 {"GPU1": "SYS X NV2", "GPU2": "NV1 NV2 X"},                    id="a cell is missing: which?"),
    pytest.param("→GPU0→GPU1→GPU2\nGPU0→ X →N0DE→NV1\nGPU1→SYS→ X →NV2\n",
                 {"GPU0": "X . NV1", "GPU1": "SYS X NV2"},                      id="a word that is no link"),
    pytest.param("→GPU0→GPU1→NIC0\nGPU0→ X →SYS→PIX\nNIC0→PIX→SYS→ X \n",
                 {"GPU0": "X SYS PIX", "NIC0": "PIX SYS X"},                    id="a row is missing"),
    pytest.param("→GPU0→GPU1→NIC0\nGPU0→ X →SYS→PIX\nGPU1→SYS→ X →NV1",
                 {"GPU0": "X SYS PIX", "GPU1": "SYS X NV1"},                    id="the end of the text"),
    pytest.param("→GPU0→GPU1→NIC0→NIC1\nGPU0→ X →SYS→PIX→SYS\nGPU1→SYS→ X →NV1",
                 {"GPU0": "X SYS PIX SYS", "GPU1": "SYS X . ."},                id="NV1 may be cut from NV12"),
    pytest.param("→GPU0→GPU1→NIC0\nGPU0→ X →SYS→PIX\nGPU1→SYS→SYS→ X \n",
                 {"GPU0": "X SYS PIX"},                                         id="X in another's column"),
    pytest.param("→GPU0→PU1→GPU2\nGPU0→ X →SYS→PIX\nGPU1→SYS→ X →NV1\nGPU2→PIX→NV1→ X \n",
                 {"GPU0": "X SYS PIX", "GPU1": "SYS X NV1", "GPU2": "PIX NV1 X"}, id="the header lost a letter"),
    pytest.param("→GPU0→GPU1\nGPU0→ X →SYS\nGPU1→SYS→ X \nNIC0→PIX→SYS\n",
                 {"GPU0": "X SYS .", "GPU1": "SYS X .", "NIC0": "PIX SYS ."},   id="NIC columns cut off"),
    pytest.param("→GPU1→GPU3\nGPU1→ X →NV4\nGPU3→NV4→ X \n",
                 {"GPU1": "X NV4", "GPU3": "NV4 X"},                            id="some of the GPUs"),
    pytest.param("→GPU0→GPU1\nGPU0→X→C2C\nGPU1→C2C→X\n\n  C2C = Connection traversing a chip to chip link\n",
                 {"GPU0": "X C2C", "GPU1": "C2C X"},                            id="a new word of the legend"),
    pytest.param("→GPU0→GPU1\nGPU0→ X →SYS\nGPU1→SYS→ X \n$ topo -m | grep GPU1\nGPU1→PIX→ X \n",
                 {"GPU0": "X SYS", "GPU1": "SYS X"},                            id="a row that comes again"),
])  # fmt: skip
def test_damage(text: str, expected: dict[str, str]) -> None:
    assert rows(matrix(tabs(text))) == expected


@pytest.mark.parametrize(("text", "reason"), [
    pytest.param("",                                                      "no matrix",    id="nothing"),
    pytest.param("GPU0 X marks the spot",                                 "no matrix",    id="prose"),
    pytest.param("GPU0→ X →NV1\nGPU1→NV1→ X \n",                          "no matrix",    id="no header"),
    pytest.param("→GPU0→GPU1\nGPU0→ X →OK\nGPU1→OK→ X \n",                "peer-to-peer", id="p2p"),
    pytest.param("→GPU0\nGPU0→ X\n\nLegend:\n\n X = Self\n OK = Status Ok\n", "peer-to-peer", id="p2p of one GPU"),
    pytest.param("→GPU0→GPU1→GPU2\nGPU0→SYS→ X \nGPU1→ X →SYS\n",         "do not fit",   id="rows of something else"),
])  # fmt: skip
def test_refusal(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as raised:
        read(tabs(text), "file")
    assert raised.value.file == "file"
    assert raised.value.advice


def remarks(found: Hardware) -> list[tuple[str, str]]:
    return [(remark.kind, remark.place) for remark in found.remarks]


def test_remarks() -> None:
    text = tabs("""\
→GPU0→GPU1→GPU2→NIC0→CPU Affinity→NUMA Affinity
GPU0→ X →NV1→SYS→PIX→-31,64-95→0
GPU1→NV2→ X →SYS→PIX→0,2,4,6,8,10→1
GPU2→SYS→SYS→ X →P1X→1,3,5,7,9,11→1
""")
    assert remarks(read(text + text, "file")) == [
        ("unreadable", "GPU2"),
        ("unreadable", "GPU0 CPU Affinity"),
        ("unknown", "rows"),
        ("odd", "links"),
        ("odd", "CPU Affinity"),
        ("odd", "text"),
        ("unknown", "GPU1 CPU Affinity"),
        ("unknown", "GPU2 CPU Affinity"),
    ]


def test_gpus() -> None:
    text = tabs("""\
→GPU0→GPU1→GPU2→CPU Affinity→NUMA Affinity→GPU NUMA ID
GPU0→ X →NV6→NV6→0-71→0→→4
GPU1→NV6→ X →NV6→0-3,8→0-1→→N/A
GPU2→NV6→NV6→ X →→→→N/A
""")
    found = read(text, "file")
    assert [(gpu.name, gpu.cpus and format_ids(gpu.cpus), gpu.numa, gpu.own_numa) for gpu in found.gpus] == [
        ("GPU0", "0-71", (0,), 4),
        ("GPU1", "0-3,8", (0, 1), None),
        ("GPU2", None, None, None),
    ]
    assert found.sources == ("nvidia-topo",)


def test_names_of_nics() -> None:
    text = tabs(
        "→GPU0→NIC0→NIC1\nGPU0→ X →SYS→SYS\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0```\n"
    )
    assert matrix(text).nic_names == {"NIC0": "mlx5_0", "NIC1": "mlx5_bond_0"}
