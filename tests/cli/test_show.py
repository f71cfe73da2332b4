"""``numawise show``: which machine is meant, the forms of the picture, and every kind of bad input."""

import io
import json
import os
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from numawise.cli.main import COMMANDS
from numawise.cli.show import wants_color
from numawise.host.processes import start_time
from numawise.ledger.place import boot_id, machine_id
from numawise.ledger.store import Ledger
from numawise.results.placement import Grant, Hold, Owner
from tests import needs
from tests.cli.run import EXAMPLES, numawise, refused
from tests.machines.pictures import HERE, WIDTH


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "show", COMMANDS.get("show", "Draw a machine."))
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def test_a_name_gives_the_kept_picture(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "show", "8gpu-server", "--width", WIDTH)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines() == (HERE / "8gpu-server.txt").read_text(encoding="utf-8").splitlines()


def test_words_one_by_one_or_together(capsys: pytest.CaptureFixture[str]) -> None:
    apart = numawise(capsys, "show", "2s", "4c", "2t", "2gpu", "nvlink")
    assert apart == numawise(capsys, "show", "2s 4c 2t 2gpu nvlink")
    assert "NVLink: NV18 between GPU0-GPU1" in apart.out


@pytest.mark.parametrize("name", ["8gpu-server", "3gpu-server", "incident-server"])
def test_a_machine_file(capsys: pytest.CaptureFixture[str], name: str) -> None:
    ran = numawise(capsys, "show", EXAMPLES / name / "machine.yaml")
    assert ran.status == 0
    assert ran.out.splitlines()[0] == name
    assert "2 sockets, 2 NUMA nodes" in ran.out


def test_a_machine_file_as_json_on_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = {"numa": [{"id": 0, "memory": "1Gi"}], "cpus": [{"cpu": 0, "core": 0, "socket": 0, "numa": 0}]}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(machine).encode())))
    ran = numawise(capsys, "show", "-", "--ascii")
    assert ran.status == 0
    assert "| CPU 0" in ran.out


def test_saved_hardware(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    file.write_text(numawise(capsys, "show", "dgx-h100", "-o", "json").out)
    assert numawise(capsys, "show", file).out == numawise(capsys, "show", "dgx-h100").out


def test_a_copy_of_the_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    node = tmp_path / "sys/devices/system/node/node0"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("0\n")
    cpu = tmp_path / "sys/devices/system/cpu"
    (cpu / "cpu0/topology").mkdir(parents=True)
    (cpu / "online").write_text("0\n")
    (cpu / "cpu0/topology/core_id").write_text("0\n")
    (cpu / "cpu0/topology/physical_package_id").write_text("0\n")
    ran = numawise(capsys, "show", "--root", tmp_path)
    assert ran.status == 0
    assert "NUMA 0" in ran.out


def test_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "show")
    assert ran.status == 0
    assert ran.out.startswith("this machine\n")


@pytest.mark.parametrize(("options", "beginning"), [
    (["-o", "svg"],  "<svg "),
    (["-o", "html"], "<!doctype html>"),
    (["-o", "json"], "{\\n"),
    (["-o", "text"], "small-vm\\n"),
])  # fmt: skip
def test_forms(capsys: pytest.CaptureFixture[str], options: list[str], beginning: str) -> None:
    ran = numawise(capsys, "show", "small-vm", *options)
    assert ran.status == 0
    assert ran.out.startswith(beginning.replace("\\n", "\n"))


@pytest.mark.parametrize(("name", "beginning"), [
    ("a.svg", "<svg "), ("a.html", "<!doctype"), ("a.JSON", "{"), ("a.txt", "small-vm"), ("a", "small-vm"),
])  # fmt: skip
def test_files_by_their_suffix(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, beginning: str
) -> None:
    ran = numawise(capsys, "show", "small-vm", "--out", tmp_path / name)
    assert (ran.status, ran.out) == (0, "")
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(beginning)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_svg_is_the_kept_picture(capsys: pytest.CaptureFixture[str]) -> None:
    drawing = numawise(capsys, "show", "dgx-h100", "-o", "svg").out
    assert drawing == (HERE / "dgx-h100.svg").read_text(encoding="utf-8")
    ET.fromstring(drawing)


def test_advice_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    text = numawise(capsys, "show", "8gpu-server", "--advice").out
    assert "5 GPUs: cross NUMA nodes, 4 + 1: uneven, 4 or 8 would be better" in text
    assert "<h2>How many GPUs</h2>" in numawise(capsys, "show", "8gpu-server", "--advice", "-o", "html").out
    data = json.loads(numawise(capsys, "show", "8gpu-server", "--advice", "-o", "json").out)
    assert [one["title"] for one in data["advice"]][:2] == ["GPUs by NUMA node", "How many GPUs"]
    assert "advice" not in json.loads(numawise(capsys, "show", "8gpu-server", "-o", "json").out)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_width(capsys: pytest.CaptureFixture[str], width: int) -> None:
    lines = numawise(capsys, "show", "dgx-a100", "--width", width).out.splitlines()
    assert max(map(len, lines)) <= width


def test_columns_of_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, numawise(capsys, "show", "dgx-a100").out.splitlines())) <= 60


def test_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    out = numawise(capsys, "show", "8gpu-server", "--ascii", "--advice").out
    assert out.isascii()
    assert "+ NUMA 0 - socket 0 -" in out


def test_colour_has_manners(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in numawise(capsys, "show", "8gpu-server").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32mGPU0" in numawise(capsys, "show", "8gpu-server").out
    assert "\x1b" not in numawise(capsys, "show", "8gpu-server", "-o", "svg").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in numawise(capsys, "show", "8gpu-server").out
    assert wants_color(None) is False
    assert wants_color(True) is True


@pytest.mark.parametrize(("arguments", "words"), [
    (["dgx-h10"],                    ["'dgx-h10' is neither a file, a folder nor a machine of the catalogue", "did you mean 'dgx-h100'?"]),
    (["no/such/file.yaml"],          ["is neither a file, a folder nor a machine", "numawise machine list"]),
    (["2m", "1g"],                   ["'2m' is not a word of a machine description", "2s, 4n, 64c"]),
    (["2s", "3c"],                   ["3 cores do not divide into 2 sockets"]),
    (["--root", "/no/such/root"],    ["/no/such/root", "is neither a file, a folder"]),
    (["--root", "/", "dgx-h100"],    ["'dgx-h100' and '/' name two machines"]),
    (["dgx-h100", "--out", "/no/such/folder/a.svg"], ["/no/such/folder/a.svg", "cannot be written"]),
])  # fmt: skip
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]) -> None:
    refused(numawise(capsys, "show", *arguments), *words)


def test_a_bad_machine_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "machine.yaml"
    file.write_text("cpus:\n- {cpu: 0, core: 0, socket: 0, numa: 3}\nnuma:\n- {id: 0}\n")
    refused(numawise(capsys, "show", file), f"{file}:2", "there is no NUMA node 3")


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "show", "--help")
    assert ran.status == 0
    assert "numawise show dgx-h100 --advice" in ran.out


# --- holds ---------------------------------------------------------------------------------------


@needs.PROC
def test_the_holds_of_this_host(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMAWISE_LEDGER", str(tmp_path / "ledger"))
    cpu = min(os.sched_getaffinity(0))
    owner = Owner(os.getuid(), "me", boot_id(), os.getpid(), start_time(os.getpid()) or 0)
    gone = replace(owner, pid=2**22, start=5)
    with Ledger.open(tmp_path / "ledger", machine_id()) as opened, opened.change() as change:
        change.add(Hold("b2345", "train", owner, Grant(1 << cpu)))
        change.add(Hold("b2346", "dead", gone, Grant(0)))
    ran = numawise(capsys, "show", "--holds")
    assert (ran.status, ran.err) == (0, "")
    assert f"A train: {cpu}" in ran.out
    assert "held by train" in ran.out
    found = json.loads(numawise(capsys, "show", "--holds", "-o", "json").out)
    assert [(hold["name"], hold["cpus"]) for hold in found["holds"]] == [("train", str(cpu))]
    assert "held by train" in numawise(capsys, "show", "--holds", "-o", "svg").out


@pytest.mark.parametrize("words", [["dgx-h100"], ["--root", "/"], ["--from", "x"]])
def test_holds_are_of_this_host_alone(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    refused(numawise(capsys, "show", "--holds", *words), "--holds", "holds are of this host")
