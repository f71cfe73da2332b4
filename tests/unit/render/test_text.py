"""Pictures in the terminal: they fit, they can do without Unicode and colour, and stay as they are."""

import re
from pathlib import Path

import pytest

from numawise.machine.catalog import machine_named
from numawise.machine.hardware import Hardware
from numawise.machine.synthetic import synthetic
from numawise.render.picture.arrange import arrange
from numawise.render.picture.layout import picture
from numawise.render.picture.text import _metrics, text
from numawise.render.terminal import RESET
from numawise.render.words import columns
from tests.machines.pictures import drawn
from tests.unit.render.geometry import MACHINES, faults

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("hardware", MACHINES)
@pytest.mark.parametrize("width", [40, 80, 100, 137, 200])
def test_it_fits(hardware: Hardware, width: int) -> None:
    shown = picture(hardware)
    assert max(map(columns, text(shown, width).splitlines())) <= width
    placed, _ = arrange(shown.box, _metrics(shown), width)
    assert faults(placed, 1) == []


@pytest.mark.parametrize("hardware", MACHINES)
def test_plain_and_coloured_say_the_same(hardware: Hardware) -> None:
    shown = picture(hardware)
    plain, coloured, ascii_only = (
        text(shown, 100),
        text(shown, 100, color=True),
        text(shown, 100, ascii_only=True),
    )
    assert "\x1b" not in plain
    assert [line.rstrip() for line in ESCAPE.sub("", coloured).splitlines()] == plain.splitlines()
    assert ascii_only.isascii()
    assert len(ascii_only.splitlines()) == len(plain.splitlines())


def test_colour_ends_on_every_line() -> None:
    for line in text(picture(machine_named("dgx-h100")), 100, color=True).splitlines():
        assert (ESCAPE.findall(line) or [RESET])[-1] == RESET


def test_small_machine() -> None:
    assert (
        text(picture(synthetic("1s 2c 1gpu 1nic")), 80, ascii_only=True)
        == """\
1s 2c 1gpu 1nic
1 socket, 1 NUMA node, 2 CPUs, 64 GiB, 1 GPU, 1 NIC
+ NUMA 0 --------------------------------- 64 GiB +
| CPUs 0-1                                        |
| + PCIe switch --------------------------------+ |
| | GPU0  nic0                                  | |
| +---------------------------------------------+ |
+-------------------------------------------------+

Links
           GPU0
GPU0       X
NIC0 nic0  PIX

Legend
PIX    through one PCIe switch: near
"""
    )


def test_holds_are_letters() -> None:
    held = picture(synthetic("8c 2t"), {0: "web", 8: "web", 1: "db", 2: "web", 10: "db"})
    shown = text(held, 80)
    assert "│ Ab+·····  " in shown
    assert "A web: 0,2,8" in shown
    placed, _ = arrange(held.box, _metrics(held), 80)
    assert faults(placed, 1) == []


@pytest.mark.parametrize(
    "path", [path for path in drawn() if path.suffix == ".txt"], ids=lambda path: path.stem
)
def test_kept_pictures(path: Path) -> None:
    assert drawn()[path].splitlines() == path.read_text(encoding="utf-8").splitlines()
