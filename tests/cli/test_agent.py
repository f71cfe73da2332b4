"""``numawise agent`` as typed, right and wrong."""

import json
from pathlib import Path

import pytest
import yaml

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


@pytest.mark.parametrize(("words", "said"), [
    ([],                                                 "a manifest needs an image; give --image NAME"),
    (["--image", "two words"],                           "--image 'two words' is not the name of an image"),
    (["--image", "x", "--namespace", "Big"],             "--namespace 'Big' is not the name of a namespace"),
    (["--image", "x", "--config", "nowhere.yaml"],       "nowhere.yaml: there is no such file"),
    (["--image", "x", "--fake", FAKE, "--config", FAKE], "--fake and --config are both given"),
])  # fmt: skip
def test_mistakes_with_manifests(words: list[object], said: str) -> None:
    ran = program("agent", "--device-plugin", "--manifest", *words)
    assert ran.status == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


def test_a_manifest_runs_what_was_typed(tmp_path: Path) -> None:
    config = tmp_path / "plugin.yaml"
    config.write_text("version: v1\nflags: {plugin: {passDeviceSpecs: true}}\n")
    ran = program(
        "agent", "--device-plugin", "--config", config, "--kubelet-dir", "/data/kubelet", "--listen", "0.0.0.0:1234",
        "--manifest", "--image", "registry.example.com:5000/numawise@sha256:" + "0" * 64, "--namespace", "gpus",
    )  # fmt: skip
    assert ran.status == 0
    objects = {one["kind"]: one for one in yaml.safe_load_all(ran.out)}
    assert objects["ConfigMap"]["data"]["config.yaml"] == config.read_text()
    assert {one["metadata"].get("namespace", "gpus") for one in objects.values()} == {"gpus"}
    spec = objects["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"] == [
        "agent", "--device-plugin", "--kubelet-dir", "/data/kubelet", "--listen", "0.0.0.0:1234",
        "--config", "/etc/numawise-agent/config.yaml",
    ]  # fmt: skip
    assert container["ports"] == [{"name": "pages", "containerPort": 1234}]
    assert spec["runtimeClassName"] == "nvidia"
    assert [volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume] == [
        "/data/kubelet/device-plugins",
        "/data/kubelet/pod-resources",
        "/dev",
    ]


def test_what_is_not_acted_on_is_said(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("version: v1\nflags: {failOnInitError: false, gdsEnabled: true}\n")
    ran = program("agent", "--device-plugin", "--config", config, "--dry-run", "--root", tmp_path)
    assert ran.status == 0
    assert f"{config}:2: flags.gdsEnabled: is not acted on" in ran.err
