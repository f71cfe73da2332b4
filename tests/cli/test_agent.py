"""``numawise agent`` as typed, right and wrong."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.run import EXAMPLES, program

FAKE = EXAMPLES / "agent/fake.yaml"


def test_dry_run_as_data() -> None:
    ran = program(
        "agent", "--device-plugin", "--fake", FAKE, "--dry-run", "-o", "json", "--kubelet-dir", "/k"
    )
    assert ran.status == 0
    data = json.loads(ran.out)
    gpus, nics = data["resources"]
    assert gpus["socket"] == "/k/device-plugins/numawise-example.com_gpu.sock"
    assert [(device["id"], device["numa"]) for device in gpus["devices"]] == [
        ("gpu0", [0]),
        ("gpu1", [0]),
        ("gpu2", [1]),
        ("gpu3", [1]),
    ]
    assert nics["devices"][0]["gets"]["env"] == {"EXAMPLE_COM_NIC": "nic0"}


@pytest.mark.parametrize(("words", "status", "said"), [
    ([],                                              2, "there is nothing to do; add --device-plugin"),
    (["--device-plugin", "--fake", "nowhere.yaml"],   2, "nowhere.yaml: there is no such file"),
    (["--device-plugin", "--config", "nowhere:x"],    2, "nowhere:x: there is no such file"),
    (["--device-plugin", "--fake", FAKE, "--config", FAKE], 2, "--fake and --config are both given; take one"),
    (["--device-plugin", "--fake", FAKE, "--listen", "80"], 2, "--listen '80' is not an address and a port"),
    (["--device-plugin", "--fake", FAKE, "--listen", "x:99999"], 2, "is not an address and a port"),
    (["--device-plugin", "--config", EXAMPLES / "device-plugin/shared.yaml:nobody"], 2, "'nobody'"),
    (["--device-plugin", "--root", "/nonexistent"],   3, "there are no GPUs of NVIDIA's driver on this machine"),
])  # fmt: skip
def test_mistakes_are_one_sentence(words: list[object], status: int, said: str) -> None:
    ran = program("agent", "--dry-run", *words)
    assert ran.status == status
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "grpclib", None)
    ran = program("agent", "--device-plugin", "--fake", FAKE, "--kubelet-dir", tmp_path, "--listen", "off")
    assert ran.status == 5
    assert ran.err == (
        "numawise: speaking with a kubelet needs an extra that is not installed; install numawise[agent]\n"
    )


def test_what_is_not_acted_on_is_said(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("version: v1\nflags: {failOnInitError: false, gdsEnabled: true}\n")
    ran = program("agent", "--device-plugin", "--config", config, "--dry-run", "--root", tmp_path)
    assert ran.status == 0
    assert f"{config}:2: flags.gdsEnabled: is not acted on" in ran.err
