"""Any text gives hardware or an ``InputError``; damage takes links away and never adds one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from numawise.codec.hardware import lscpu, lspci, numactl, nvidia_list, nvidia_topo, rocm_topo
from numawise.codec.hardware.matrix.affinity import replay
from numawise.codec.hardware.recognise import READERS, recognise, split
from numawise.errors import InputError
from numawise.machine.hardware import Hardware, Matrix
from tests.property.strategies import laws

TEXTS = Path(__file__).parent.parent / "machines" / "data" / "texts"
MODULES = (nvidia_topo, nvidia_list, rocm_topo, numactl, lscpu, lspci)
PRINTS = {
    "nvidia-topo": (TEXTS / "nvidia-topo" / "hand-a100x4-blank-cpu-for-some.txt").read_text(),
    "rocm-topo": (TEXTS / "rocm-topo" / "issue-vllm-11249.txt").read_text(),
    "numactl": (TEXTS / "numactl" / "dax-vm-zero-node.txt").read_text(),
    "lscpu": (TEXTS / "lscpu" / "issue-vllm-15253.txt").read_text(),
    "lscpu-table": "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n0 0 0 0 0:0:0:0 yes\n1 - - - ::: no\n",
    "lscpu-json": '{"lscpu": [{"field": "NUMA node0 CPU(s):", "data": "0-3", "children": []}]}',
    "nvidia-list": "GPU 0: NVIDIA A100 (UUID: GPU-1)\n  MIG 1g.5gb Device 0: (UUID: MIG-1)\n",
    "lspci": "17:00.0 3D controller [0302]: NVIDIA [10de:2330] (rev a1)\n\tNUMA node: 0\n",
}
TELLING = r"""
    GPU0 GPU1 GPU[0] GPU NIC0 mlx5_0 X NV1 NV18 SYS NODE PIX NV18NODE SYS0-3 CPU Affinity NUMA ID N/A 0 1 0-3 0-3,8 0-310
    node 0 cpus: size: 12 MB distances: available: 2 nodes (0-1) physcpubind: 10 255 -1 0: CPU(s): On-line list: node0
    Thread(s) per core: Socket(s): NODE SOCKET CORE ONLINE yes no - # CPU,Core,Socket,Node,,L1d 0,0,0,0,,0 0:0:0:0
    === Weight between two GPUs Link Type XGMI PCIE (Topology) Numa Node: Affinity: 17:00.0 [0302]: [10de:2330] Slot:
    {"lscpu":[{"field":"data"}]} {"cpus":[{"cpu":0}]} <topology> <system> > | \t ^[[4m [0m 99999999999999999999
"""
WORDS = st.sampled_from([*TELLING.split(), "\u00b2", "\u0663", "\uff1a"])
TEXT = st.one_of(
    st.text(max_size=200),
    st.lists(st.one_of(WORDS, st.sampled_from(["\n", "\t", " ", "  ", "\r\n"])), max_size=80).map(" ".join),
    st.lists(st.one_of(WORDS, st.sampled_from(["\n", "\t", "\n\t"])), max_size=80).map("".join),
)


def result(reader: Callable[[str, str], Hardware], text: str) -> Hardware | None:
    """What a reader gives; any exception but InputError fails the test."""
    try:
        return reader(text, "file")
    except InputError:
        return None


@st.composite
def damages(draw: st.DrawFn, text: str) -> str:
    """A text that lost, gained or swapped characters and lines."""
    for _ in range(draw(st.integers(0, 4))):
        lines = text.split("\n")
        at = draw(st.integers(0, max(len(text) - 1, 0)))
        line = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["character", "span", "line", "insert", "twice"])):
            case "character":
                text = text[:at] + text[at + 1 :]
            case "span":
                text = text[:at] + text[at + draw(st.integers(1, 40)) :]
            case "line":
                text = "\n".join([*lines[:line], *lines[line + 1 :]])
            case "insert":
                text = text[:at] + draw(st.sampled_from(list(" \t\n|#>X0-,NGPU²"))) + text[at:]
            case _:
                text = "\n".join([*lines, lines[line]])
    return text


@given(text=TEXT)
@example(text="GPU0" + "9" * 5000 + " X")
@example(text="available: " + "9" * 5000 + " nodes (0)")
@example(text="{" * 5000)
@example(text='{"cpus": ' * 2000)
@laws(300)
def test_any_text_is_read_or_refused(text: str) -> None:
    for module in MODULES:
        result(module.read, text)
    recognise(text)
    for name, part in split(text):
        if name in READERS:
            result(READERS[name], part)


@pytest.mark.parametrize("name", PRINTS)
@given(data=st.data())
@laws(150)
def test_damaged_print_is_read_or_refused(name: str, data: st.DataObject) -> None:
    text = data.draw(damages(PRINTS[name]))
    result(READERS[name], text)
    recognise(text)
    split(text)


LINKS = st.sampled_from(["SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV12", "NV18"])
AFFINITIES = st.sampled_from([
    ("0-31,64-95", "0", "N/A"), ("32-63,96-127", "1", "N/A"), ("56-111,168-223", "3", "N/A"), ("0-71", "0", "4"),
    ("0,2,4,6,8,10", "0", "N/A"), (None, "1", "N/A"), (None, None, "N/A"), ("0-19", "N/A", "N/A"), ("7", "0-1", "N/A"),
])  # fmt: skip
Affinity = tuple[str | None, str | None, str | None]
Square = dict[str, dict[str, str]]


@st.composite
def matrices(draw: st.DrawFn) -> tuple[Square, dict[str, Affinity], str]:
    """A symmetric matrix, its affinities, and the text that the driver prints for it."""
    gpus = [f"GPU{i}" for i in range(draw(st.integers(1, 8)))]
    nics = draw(st.sampled_from([[], ["NIC0"], ["NIC0", "NIC1", "NIC2"], ["mlx5_0", "mlx5_bond_1"]]))
    names = [*gpus, *nics]
    links: Square = {name: {name: "X"} for name in names}
    for at, one in enumerate(names):
        for two in names[at + 1 :]:
            links[one][two] = links[two][one] = draw(LINKS)
    near: dict[str, Affinity] = {gpu: draw(AFFINITIES) for gpu in gpus}
    lines = ["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for row in names:
        cells = "".join("\t X " if links[row][to] == "X" else f"\t{links[row][to]}" for to in names)
        lines.append(row + cells + (_printed(near[row]) if row in near else "\t\t\t\t"))
    return links, near, "\n".join([*lines, "", "Legend:", "", "  X    = Self", ""])


def _printed(values: Affinity) -> str:
    cpus, numa, own = values
    return f"\t{cpus or ''}" + ("\t\tN/A" if numa == "N/A" else f"\t{numa or ''}") + f"\t\t{own or ''}"


def affinities(matrix: Matrix) -> dict[str, Affinity]:
    return {
        gpu: (matrix.cpu_affinity.get(gpu), matrix.numa_affinity.get(gpu), matrix.gpu_numa_id.get(gpu))
        for gpu in matrix.gpus
    }


DRESSES: dict[str, Callable[[str], str]] = {
    "as printed": lambda line: line,
    "tabs written out": lambda line: line.expandtabs(8),
    "quoted": lambda line: f"> {line}",
    "commented": lambda line: f"# {line.expandtabs(8)}",
    "indented": lambda line: f"    {line}",
    "labelled": lambda line: f"0: {line}",
    "logged": lambda line: f"2024-05-01T10:11:12Z stdout F {line.expandtabs(8)}",
    "stripped": str.strip,
    "coloured": lambda line: f"\x1b[32m{line}\x1b[0m",
    "underlined, escape lost": lambda line: f"[4m{line}[0m",
    "Windows": lambda line: f"{line}\r",
    "hard blanks": lambda line: line.expandtabs(8).replace(" ", "\u00a0"),
}


@pytest.mark.parametrize("dress", DRESSES)
@given(printed=matrices())
@laws(40)
def test_matrix_in_any_dress(dress: str, printed: tuple[Square, dict[str, Affinity], str]) -> None:
    links, near, text = printed
    found = nvidia_topo.read("\n".join(map(DRESSES[dress], text.split("\n"))), "file")
    assert found.matrix is not None
    assert found.matrix.links == links
    assert affinities(found.matrix) == near


@given(printed=matrices(), width=st.integers(30, 160))
@laws(150)
def test_terminal_that_swallows_tabs(printed: tuple[Square, dict[str, Affinity], str], width: int) -> None:
    """Links are whole; affinities are right or not known."""
    links, near, text = printed
    found = result(nvidia_topo.read, "\n".join(replay(line, width) for line in text.split("\n")))
    assume(found is not None)
    assert found is not None
    assert found.matrix is not None
    for row, cells in found.matrix.links.items():
        assert cells.items() <= links[row].items()
        assert len(links[row]) - len(cells) <= 1  # NV1 and a NUMA node may have run together
    for gpu, values in affinities(found.matrix).items():
        assert all(mine in (None, told) for mine, told in zip(values, near[gpu], strict=True))


@given(printed=matrices(), data=st.data())
@laws(150)
def test_lost_lines_take_links_away(
    printed: tuple[Square, dict[str, Affinity], str], data: st.DataObject
) -> None:
    links, near, text = printed
    lines = text.split("\n")
    kept = data.draw(st.lists(st.sampled_from(range(len(lines))), unique=True).map(sorted))
    found = result(nvidia_topo.read, "\n".join(lines[at] for at in kept) + "\n")
    if found is None or found.matrix is None:
        return
    for row, cells in found.matrix.links.items():
        assert cells == links[row]
    for gpu, values in affinities(found.matrix).items():
        assert values in (near[gpu], (None, None, None))


@given(printed=matrices(), data=st.data())
@laws(150)
def test_text_that_breaks_off(printed: tuple[Square, dict[str, Affinity], str], data: st.DataObject) -> None:
    links, _, text = printed
    text = data.draw(st.sampled_from([text, text.expandtabs(8)]))
    found = result(nvidia_topo.read, text[: data.draw(st.integers(0, len(text)))])
    if found is None or found.matrix is None:
        return
    for row, cells in found.matrix.links.items():
        assert cells.items() <= links[row].items()
