"""``numawise machine``: files for simulate, the catalogue, and bad words."""

import json
from pathlib import Path

import pytest
import yaml

from numawise.cli.main import COMMANDS
from numawise.machine.catalog import CATALOG
from tests.cli.run import EXAMPLES, numawise, refused


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("machine", "show"):
        monkeypatch.setitem(COMMANDS, name, COMMANDS.get(name, "Machines."))


def test_new_is_what_simulate_takes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(numawise(capsys, "machine", "new", "8gpu-server").out)
    pods = sorted((EXAMPLES / "8gpu-server" / "pods").glob("*.yaml"))
    kubelet = EXAMPLES / "8gpu-server" / "kubelet.yaml"
    arguments = ["--kubelet-config", kubelet, "-o", "json", *pods]
    ours = json.loads(numawise(capsys, "simulate", "--machine", machine, *arguments).out)
    example = EXAMPLES / "8gpu-server" / "machine.yaml"
    theirs = json.loads(numawise(capsys, "simulate", "--machine", example, *arguments).out)
    assert [pod["verdict"] for pod in ours["pods"]] == [pod["verdict"] for pod in theirs["pods"]]


def test_new_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    as_yaml = numawise(capsys, "machine", "new", "2s", "4n", "64c", "2t", "8gpu", "nvlink")
    as_json = numawise(capsys, "machine", "new", "2s 4n 64c 2t 8gpu nvlink", "-o", "json")
    assert (as_yaml.status, as_json.status) == (0, 0)
    machine = yaml.safe_load(as_yaml.out)
    assert machine == json.loads(as_json.out)
    assert len(machine["cpus"]) == 128
    assert [device["numa"] for device in machine["devices"]["nvidia.com/gpu"]["devices"]] == [
        [i // 2] for i in range(8)
    ]


def test_new_with_all_that_is_known(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    saved = tmp_path / "saved.yaml"
    saved.write_text(numawise(capsys, "machine", "new", "2s 8c 2gpu nvlink=4 2nic", "--hardware").out)
    assert yaml.safe_load(saved.read_text())["links"]["GPU0"]["GPU1"] == "NV4"


@pytest.mark.parametrize("name", CATALOG)
def test_every_name_makes_a_file(capsys: pytest.CaptureFixture[str], name: str, tmp_path: Path) -> None:
    ran = numawise(capsys, "machine", "new", name, "-o", "json")
    assert (ran.status, ran.err) == (0, "")
    file = tmp_path / "it.json"
    file.write_text(ran.out)
    assert numawise(capsys, "show", file).out.startswith("it\n")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    lines = numawise(capsys, "machine", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", *CATALOG]
    assert numawise(capsys, "machine", "list", "-o", "name").out.split() == list(CATALOG)
    data = json.loads(numawise(capsys, "machine", "list", "-o", "json").out)
    assert {
        "name": "dgx-h100",
        "summary": CATALOG["dgx-h100"].summary,
        "source": CATALOG["dgx-h100"].source,
    } in data


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "machine", "show", "dgx-h100", "--ascii")
    assert ran.status == 0
    assert ran.out.isascii()
    assert ran.out.splitlines()[-1] == f"Source: {CATALOG['dgx-h100'].source}"


@pytest.mark.parametrize(("arguments", "words"), [
    (["new", "2m", "1g"],     ["'2m' is not a word of a machine description", "8gpu"]),
    (["new", "dgx-h10"],      ["'dgx-h10' is neither a file, a folder nor a machine", "did you mean 'dgx-h100'?"]),
    (["new", "256n 256c"],    ["the kubelet counts NUMA nodes from 0 to 63"]),
    (["show", "what"],        ["there is no machine 'what'", "8gpu-server"]),
])  # fmt: skip
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]) -> None:
    refused(numawise(capsys, "machine", *arguments), *words)


@pytest.mark.parametrize("arguments", [[], ["new"], ["list"], ["show"]])
def test_help(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    ran = numawise(capsys, "machine", *arguments, "--help")
    assert ran.status == 0
    assert "Usage: numawise machine" in ran.out
