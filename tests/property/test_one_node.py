"""One node: simulate, --fill, --nodes and why give the same verdicts, the kubelet's sums among them."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from numawise.errors import KubeletRefused
from numawise.inputs.machine import read_machine
from numawise.inputs.spec import read_release
from numawise.node.node import started
from numawise.rules.versions import DEFAULT
from tests.cli.run import numawise

CONFIG = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\nevictionHard: {memory.available: 100Mi}\n"
MACHINE = "2s 2n 64c 2t 512gb"


def manifest(name: str, cpus: str, kind: str = "limits") -> str:
    resources = f"{{{kind}: {{cpu: {cpus}, memory: 1Gi}}}}"
    return (
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, "
        f"spec: {{containers: [{{name: c, resources: {resources}}}]}}}}\n---\n"
    )


@pytest.mark.parametrize(("cpus", "kind", "count", "fit"), [
    pytest.param(["100"] * 3, "limits",   3, 1, id="exclusive CPUs: the managers refuse as well"),
    pytest.param(["100"] * 3, "requests", 3, 1, id="shared CPUs: the sums alone refuse"),
    pytest.param(["100", "27", "1"], "requests", 3, 2, id="what is left is taken to the last CPU"),
    pytest.param(["60", "60"], "limits",  2, 2, id="room for all"),
])  # fmt: skip
def test_one_verdict(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    cpus: Sequence[str],
    kind: str,
    count: int,
    fit: int,
) -> None:
    config, pods = tmp_path / "kubelet.yaml", tmp_path / "pods.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    pods.write_text("".join(manifest(f"p{at}", size, kind) for at, size in enumerate(cpus)), encoding="utf-8")
    node = ("--machine", MACHINE, "--kubelet-config", config)
    simulated = json.loads(numawise(capsys, "simulate", *node, "-o", "json", pods).out)
    verdicts = [pod["verdict"] for pod in simulated["pods"]]
    assert (len(verdicts), verdicts.count("admitted")) == (count, fit)
    reasons = {pod["name"]: (pod.get("reason"), pod.get("message")) for pod in simulated["pods"]}
    explained = json.loads(numawise(capsys, "why", *node, "-o", "json", pods).out)
    assert [one["verdict"] for one in explained["pods"]] == verdicts
    for one in explained["pods"]:
        assert (one.get("reason") or None, one.get("message") or None) == reasons[one["name"]]
    fleet = json.loads(
        numawise(
            capsys, "simulate", "--nodes", f"{MACHINE}:1", "--kubelet-config", config, "-o", "json", pods
        ).out
    )
    assert [pod["verdict"] == "placed" for pod in fleet["pods"]] == [one == "admitted" for one in verdicts]
    if len(set(cpus)) == 1:
        filled = json.loads(numawise(capsys, "simulate", *node, "-o", "json", "--fill", pods).out)["filled"]
        assert min(count, filled[0]["count"]) == fit


def test_the_sums_are_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What is requested, by whom, and a suggestion that the same node admits."""
    config, pods = tmp_path / "kubelet.yaml", tmp_path / "pods.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    pods.write_text(manifest("first", "100", "requests") + manifest("second", "40"), encoding="utf-8")
    ran = numawise(capsys, "why", "--machine", MACHINE, "--kubelet-config", config, "-o", "json", pods)
    assert ran.status == 1
    refused = json.loads(ran.out)["pods"][1]
    assert refused["reason"] == "OutOfcpu"
    assert refused["message"] == (
        "Node didn't have enough resource: cpu, requested: 40000, used: 100000, capacity: 127000"
    )
    assert refused["answer"] == (
        "Rejected, not now (1 pod requests 100 CPUs): cpu: the pod requests 40, all pods together may request 127, "
        "and 1 other pod requests 100 of them"
    )
    texts = [one["text"] for one in refused["suggestions"]]
    assert any("27" in text for text in texts), texts
    assert any("Wait until pod default/first (requests 100 CPU" in text for text in texts), texts


def test_a_kubelet_that_would_not_start_is_an_exception() -> None:
    """It carries the stage and the kubelet's own words, and the release is the command's."""
    machine = read_machine(MACHINE).machine
    with pytest.raises(KubeletRefused, match="the kubelet would not start") as refused:
        started(machine, {"cpuManagerPolicy": "static"})
    assert refused.value.stage
    assert refused.value.reason in str(refused.value)
    assert started(machine, {}).version == DEFAULT == read_release("").version
