"""Who holds what, on terminals of every width: a line for each hold, and what each NUMA node has left."""

import io
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.memory import free_memory
from numawise.machine.synthetic import synthetic
from numawise.render.hold_table import cut_end, cut_list, cut_middle, write_free, write_holds
from numawise.render.words import columns, gpu_ranges
from numawise.results.placement import Capacity, Grant, Hold, MemoryPart, Owner
from numawise.sets import parse_ids

SERVER = capacity_of(synthetic("2s 2n 64c 2t 8gpu pairs 1024g"))
GIB = 1 << 30


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def hold(words: str, gpus: Sequence[int] = (), *, name: str = "", command: str = "") -> Hold:
    """``id user CPUs NUMA GiB`` or, with a fraction for the CPUs, in the shared pool."""
    id_, user, cpus, numa, size = words.split()
    mems = parse_ids(numa)
    own = 0 if "." in cpus else parse_ids(cpus)
    return Hold(
        id_,
        name or id_ * 2,
        Owner(1000, user, "boot", pid=4711),
        Grant(
            cpus=own,
            mems=mems,
            memory=(MemoryPart(mems, int(size) * GIB),) if int(size) else (),
            devices=(("nvidia.com/gpu", tuple(SERVER.gpu_ids[at] for at in gpus)),) if gpus else (),
            cpu_limit=0 if own else int(float(cpus) * 1000),
            memory_policy="preferred",
        ),
        mode="cgroup v2",
        command=tuple(command.split()),
    )


HOLDS = (
    hold("rpfpx ada 1-4,65-68 0 64", (0, 1), name="train", command="python train.py --epochs 10"),
    hold("j4hdm root 0.5 0-1 0", name="watch", command="./watcher"),
    hold("k2x9q christopher.hendersson 5,7,9,11,13,15,17,19,21,33-39,70,72,74,100-110 0-1 700", (2, 4, 6, 7),
         name="train-llama-70b-with-a-very-long-name-run-17", command="torchrun train.py"),
)  # fmt: skip
AT_80 = """\
HOLD   NAME          USER        CPUS           NUMA  MEMORY   DEVICES     SINCE
rpfpx  train         ada         1-4,65-68      0     64 GiB   GPU0-1      2h5m
j4hdm  watch         root        0.5 of shared  0-1   -        -           2h5m
k2x9q  train-ll…-17  christ…son  5,7,9,… (30)   0-1   700 GiB  GPU2,4,6-7  2h5m
"""
FREE = """\
FREE    CPUS                                        MEMORY              GPUS
NUMA 0  6,8,10,12,14,16,18,20,22-31,69,71,73,75-95  0 of 512 GiB        GPU3
NUMA 1  32,40-63,96-99,111-127                      260 GiB of 512 GiB  GPU5
"""


def holds_text(holds: Sequence[Hold], width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """The table on a terminal of this width; 0: in a pipe."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    file = Terminal() if width else io.StringIO()
    holds = [replace(hold, since=time.time() - 7530) for hold in holds]
    write_holds(holds, SERVER, holds, file)
    return file.getvalue()


def free_text(capacity: Capacity, holds: Sequence[Hold], width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    file = Terminal() if width else io.StringIO()
    write_free(capacity, holds, free_memory(capacity, holds), file)
    return file.getvalue()


def test_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert holds_text(HOLDS, 80, monkeypatch) == AT_80
    assert free_text(SERVER, HOLDS, 80, monkeypatch) == FREE


def test_wide_terminals_show_more(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [holds_text(HOLDS, width, monkeypatch).split("\n")[0].split() for width in (80, 100, 120, 250)]
    assert [len(set(wider) - set(head)) for head, wider in pairwise(heads)] == [1, 2, 0]
    widest = holds_text(HOLDS, 250, monkeypatch)
    assert "train-llama-70b-with-a-very-long-name-run-17" in widest
    assert "5,7,9,11,13,15,17,19,21,33-39,70,72,74,100-110" in widest


def test_a_pipe_gets_everything_whatever_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = holds_text(HOLDS, 0, monkeypatch)
    assert "…" not in piped
    assert "0.5 of shared 0,6,8,10" in piped
    assert piped.split("\n")[0].split() == [
        *("HOLD", "NAME", "USER", "OWNER", "CPUS", "NUMA", "MEMORY", "DEVICES", "BY", "SINCE", "COMMAND")
    ]


@pytest.mark.parametrize("seed", range(40))
def test_a_line_for_each_hold_at_every_width(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    holds = []
    for number in range(chance.randint(1, 6)):
        cpus = ",".join(map(str, sorted(chance.sample(range(128), chance.randint(1, 60)))))
        words = f"h{number:04} {'u' * chance.randint(1, 30)} {chance.choice([cpus, '1.5'])} 0-1 {chance.randint(0, 1000)}"
        gpus = sorted(chance.sample(range(8), chance.randint(0, 8)))
        name = chance.choice(["a", "日本語" * chance.randint(1, 9), "x\x1b[1m\n" * 3, "n" * 63])
        holds.append(hold(words, gpus, name=name, command="c " * chance.randint(0, 50)))
    for width in range(30 + seed % 4, 240, 4):  # each width ten times in all
        text = holds_text(holds, width, monkeypatch)
        lines = text.splitlines()
        assert [line[:5] for line in lines] == ["HOLD ", *(hold.id for hold in holds)]
        assert max(map(columns, lines)) <= width


def test_memory_and_gpus_of_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    capacity = capacity_of(synthetic("1s 1n 4c 1t"))
    assert free_text(capacity, (), 80, monkeypatch).splitlines()[0].split() == ["FREE", "CPUS", "MEMORY"]


@pytest.mark.parametrize(("text", "width", "cut"), [
    ("1-4,65-68",      9,  "1-4,65-68"),
    ("1-4,65-68,70",   11, "1-4,… (9)"),
    ("1-4,65-68,70",   6,  "1-4,…"),
    ("GPU0-3,5 nic0",  11, "GPU0-3,5 …"),
    ("100-110",        4,  "100…"),
])  # fmt: skip
def test_lists_are_cut_behind_a_comma(text: str, width: int, cut: str) -> None:
    assert (text if len(text) <= width else cut_list(text, width)) == cut


@pytest.mark.parametrize("text", ["a", "train-llama-70b-run-17", "日本語" * 5, ""])
@pytest.mark.parametrize("width", range(1, 30))
def test_what_is_cut_fits(text: str, width: int) -> None:
    for cut in (cut_end, cut_middle):
        assert columns(cut(text, width)) <= width
        assert columns(text) > width or cut(text, width) == text


@pytest.mark.parametrize(("names", "text"), [
    ("GPU0 GPU1 GPU2 GPU3",      "GPU0-3"),
    ("GPU0 GPU2 GPU4 GPU5 GPU6", "GPU0,2,4-6"),
    ("GPU3",                     "GPU3"),
    ("GPU0:0 GPU0:1 GPU1",       "GPU0:0-1 GPU1"),
    ("GPU0 mlx5_0 mlx5_1",       "GPU0 mlx5_0-1"),
    ("GPU1 GPU0",                "GPU1,0"),
    ("card card GPU01",          "card card GPU01"),
    ("",                         ""),
])  # fmt: skip
def test_ranges_of_gpus(names: str, text: str) -> None:
    assert gpu_ranges(names.split()) == text
