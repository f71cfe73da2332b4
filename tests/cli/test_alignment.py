"""What of an admitted pod is aligned: all commands say the same, and status 1 where a resource is not offered."""

import json
from pathlib import Path
from typing import Any

import pytest

import numawise as nw
from tests.cli.run import numawise

Capture = pytest.CaptureFixture[str]
MACHINE = "2s 2n 16c 4gpu 128g"
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: {policy}
reservedSystemCPUs: "0"
evictionHard: {{memory.available: 1Gi}}
reservedMemory:
- {{numaNode: 0, limits: {{memory: 1Gi}}}}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  containers:
  - name: main
    image: x
    resources: {resources}
"""
PODS = {
    "Guaranteed": "{limits: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 1}}",
    "Burstable": "{requests: {cpu: 2}, limits: {nvidia.com/gpu: 1}}",
    "a GPU alone": "{limits: {nvidia.com/gpu: 1}}",
    "a fraction": "{limits: {cpu: 1500m, memory: 8Gi, nvidia.com/gpu: 2}}",
    "nothing": "{}",
    "two NUMA nodes": "{limits: {cpu: 10, memory: 100Gi, nvidia.com/gpu: 4}}",
    "another maker's": "{limits: {cpu: 4, memory: 8Gi, amd.com/gpu: 1}}",
}
FIRST = {
    "Guaranteed": "Admitted: everything on NUMA 0: 4 CPUs ",
    "Burstable": "Admitted, but only nvidia.com/gpu is aligned: the pod is Burstable, so ",
    "a GPU alone": "Admitted, but only nvidia.com/gpu is aligned: the pod is BestEffort, so ",
    "a fraction": "Admitted, but CPUs are not aligned: 1500m is not a whole number of CPUs, so ",
    "nothing": "Admitted, but nothing is aligned: the pod is BestEffort, so ",
    "two NUMA nodes": "Admitted: spread over NUMA 0-1, as few NUMA nodes as it needs; ",
    "another maker's": "Admitted, but without amd.com/gpu: no device plugin offers it on this machine, which has nvidia.com/gpu",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kubelet.yaml").write_text(CONFIG.format(policy="restricted"))
    return tmp_path


def asked(capsys: Capture, command: str, *more: str) -> tuple[int, dict[str, Any]]:
    ran = numawise(
        capsys, *command.split(), *more, "--kubelet-config", "kubelet.yaml", "-o", "json", "pod.yaml"
    )
    assert ran.status in (0, 1), ran
    return ran.status, json.loads(ran.out)["pods"][0]


@pytest.mark.parametrize("kind", PODS)
def test_all_commands_say_the_same(capsys: Capture, here: Path, kind: str) -> None:
    (here / "pod.yaml").write_text(POD.format(resources=PODS[kind]))
    machine = ("--machine", MACHINE)
    status, simulated = asked(capsys, "simulate", *machine)
    explained_status, explained = asked(capsys, "why", *machine)
    missing = simulated["alignment"]["missing"]
    assert simulated["verdict"] == explained["verdict"] == "admitted"
    assert simulated["answer"] == explained["answer"]
    assert simulated["answer"].startswith(FIRST[kind])
    assert simulated["alignment"] == explained["alignment"]
    assert status == explained_status == (1 if missing else 0)
    assert missing == (["amd.com/gpu"] if kind == "another maker's" else [])
    decision = nw.Node(MACHINE, "kubelet.yaml").admit("pod.yaml")
    assert (decision.admitted, decision.answer) == (True, simulated["answer"])
    assert json.loads(nw.to_json(decision))["alignment"] == simulated["alignment"]
    if not missing:  # a scheduler does not send the pod there otherwise
        _, sent = asked(capsys, "simulate", "--nodes", MACHINE + ":1")
        assert (sent["answer"], sent["alignment"]) == (simulated["answer"], simulated["alignment"])


def test_notes_name_what_is_not_aligned_once_for_pods_alike(capsys: Capture, here: Path) -> None:
    (here / "kubelet.yaml").write_text(CONFIG.format(policy="best-effort"))
    pods = [
        POD.format(resources=PODS["Burstable"]).replace("name: p}", f"name: p{number}}}")
        for number in range(3)
    ]
    (here / "pod.yaml").write_text("---\n".join(pods))
    ran = numawise(capsys, "simulate", "--machine", MACHINE, "--kubelet-config", "kubelet.yaml", "pod.yaml")
    lines = [line for line in ran.out.splitlines() if "aligned" in line]
    (line,) = lines
    assert line == (
        "p0, p1, p2: admitted, but only nvidia.com/gpu is aligned: the pod is Burstable, so its CPUs come from the "
        "shared pool and its memory from any NUMA node"
    )


def test_a_pod_without_what_it_asks_for_is_counted(capsys: Capture, here: Path) -> None:
    (here / "pod.yaml").write_text(POD.format(resources=PODS["another maker's"]))
    ran = numawise(capsys, "simulate", "--machine", MACHINE, "--kubelet-config", "kubelet.yaml", "pod.yaml")
    assert ran.status == 1
    assert ran.out.endswith("1 of 1 pods admitted, 1 without a resource that this machine does not offer\n")


def test_where_the_configurations_differ(capsys: Capture, here: Path) -> None:
    (here / "other.yaml").write_text("cpuManagerPolicy: none\ntopologyManagerPolicy: none\n")
    (here / "pod.yaml").write_text(POD.format(resources=PODS["Guaranteed"]))
    ran = numawise(
        capsys, "simulate", "--machine", MACHINE, "--kubelet-config", "kubelet.yaml", "--compare", "other.yaml", "pod.yaml"
    )  # fmt: skip
    assert (
        "other.yaml: p: admitted, but only nvidia.com/gpu is aligned, by chance: cpuManagerPolicy is not"
        in ran.out
    )


def test_plan_pod_says_what_the_node_does_not_align(capsys: Capture, here: Path) -> None:
    (here / "kubelet.yaml").write_text(
        "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\ntopologyManagerPolicy: restricted\n"
    )
    (here / "pod.yaml").write_text(POD.format(resources=PODS["Guaranteed"]))
    status, planned = asked(capsys, "plan pod", "--machine", MACHINE)
    proof = planned["proof"]
    assert (status, proof["admitted"], proof["aligned"]) == (0, True, True)
    assert ", but memory is not aligned: memoryManagerPolicy is not Static, so " in proof["text"]
    assert proof["alignment"]["aligned"] is False
