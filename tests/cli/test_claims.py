"""simulate and why say what comes by claim, and what a pod that came back leaves behind."""

import json
from pathlib import Path

import pytest

from tests.cli.run import EXAMPLES, numawise

SERVER = EXAMPLES / "8gpu-server"
NODE = ("--machine", SERVER / "machine.yaml", "--kubelet-config", SERVER / "kubelet.yaml")
PODS = (EXAMPLES / "claims" / "train.yaml", EXAMPLES / "claims" / "objects.yaml")
Capture = pytest.CaptureFixture[str]
KUBELET = {
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
    "memoryManagerPolicy": "Static",
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "100Mi"}}],
    "topologyManagerPolicy": "single-numa-node",
}
AGENT = """\
apiVersion: v1
kind: Pod
metadata: {name: agent, uid: 3f0c}
spec:
  initContainers:
  - {name: prepare, resources: {limits: {cpu: "4", memory: 4Gi}}}
  containers:
  - {name: main, resources: {limits: {cpu: "1", memory: 1Gi}}}
"""
REFUSED = "the expected machine state is different from the real one"


def test_simulate_says_where_the_devices_of_a_claim_are(capsys: Capture) -> None:
    ran = numawise(capsys, "simulate", *NODE, *PODS, "-o", "json")
    (pod,) = json.loads(ran.out)["pods"]
    (claim,) = pod["claims"]
    assert (claim["name"], claim["claim"], claim["template"]) == (
        "devices",
        "train-devices-x7k2p",
        "two-gpus-and-nic",
    )
    assert [device["numa"] for device in claim["devices"]] == [0, 1, 0]
    assert (claim["numa"], claim["beside"], claim["given"]) == ([0, 1], [0], ["CPUs", "memory"])
    assert claim["aligned"] is False
    assert claim["text"] in numawise(capsys, "simulate", *NODE, *PODS).out


def test_devices_that_lie_well_do_so_by_chance(capsys: Capture, tmp_path: Path) -> None:
    text = PODS[1].read_text()
    near = tmp_path / "near.yaml"
    near.write_text(text.replace("numaNode: {int: 1}", "numaNode: {int: 0}"))
    ran = numawise(capsys, "simulate", *NODE, PODS[0], near, "-o", "json")
    (pod,) = json.loads(ran.out)["pods"]
    (claim,) = pod["claims"]
    assert claim["aligned"] is True
    assert "by chance" in claim["text"]
    assert pod["answer"].startswith("Admitted: everything on NUMA 0, but claim devices by chance: ")
    assert pod["alignment"]["everythingOn"] == 0


def test_why_says_it_with_the_claim_that_would_align(capsys: Capture) -> None:
    ran = numawise(capsys, "why", *NODE, *PODS, "-o", "json")
    (pod,) = json.loads(ran.out)["pods"]
    assert pod["answer"].startswith(
        "Admitted, but claim devices is not aligned: the Topology Manager does not"
    )
    assert "; on NUMA 0: 16 CPUs " in pod["answer"]
    assert "does not look at claims" in pod["remarks"][0]
    assert "matchAttribute: resource.kubernetes.io/numaNode" in pod["manifests"][0]
    older = numawise(capsys, "why", *NODE, PODS[0], "--kube", "1.36").out
    assert "its devices are not known here" in older.replace("\n", " ")
    assert "is not shown with a constraint that aligns it: the claim is not known" in older.replace("\n", " ")


def test_claims_without_a_pod(capsys: Capture) -> None:
    ran = numawise(capsys, "simulate", *NODE, PODS[1])
    assert ran.status == 2
    assert "has claims and no pods" in ran.err


def returned(folder: Path, capsys: Capture, pod: str) -> str:
    (folder / "kubelet.json").write_text(json.dumps(KUBELET))
    (folder / "agent.yaml").write_text(pod)
    steps = [
        {"add": {"file": "agent.yaml"}},
        {"remove": "agent"},
        {"add": {"file": "agent.yaml"}},
        {"restart": {}},
    ]
    (folder / "steps.yaml").write_text(json.dumps({"steps": steps}))
    config = ("--machine", "2s 2n 16c 1t 32g", "--kubelet-config", folder / "kubelet.json")
    return numawise(capsys, "simulate", *config, "--steps", folder / "steps.yaml").out


def test_simulate_tells_that_the_next_start_will_be_refused(capsys: Capture, tmp_path: Path) -> None:
    out = returned(tmp_path, capsys, AGENT)
    assert "step 3: agent: reuse-outlives-pod: " in out
    assert "step 3: agent: next-start-refused: " in out
    assert (
        f"step 4: the kubelet would not start (memory-manager-start): start memory manager error: [memorymanager] {REFUSED}"
        in out
    )


def test_a_pod_without_a_uid_is_another_one_each_time(capsys: Capture, tmp_path: Path) -> None:
    out = returned(tmp_path, capsys, AGENT.replace(", uid: 3f0c", ""))
    assert "reuse-outlives-pod" not in out
    assert "1 running pod admitted again" in out


def test_why_names_the_defect_where_a_state_file_looks_like_it(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "kubelet.json").write_text(json.dumps(KUBELET))
    (tmp_path / "agent.yaml").write_text(AGENT)
    (tmp_path / "state").mkdir()
    tables = {
        str(numa): {
            "numberOfAssignments": 1 - numa,
            "memoryMap": {
                "memory": {
                    "total": 16 << 30,
                    "systemReserved": system,
                    "allocatable": (16 << 30) - system,
                    "reserved": 0,
                    "free": (16 << 30) - system,
                }
            },
            "cells": [numa],
        }
        for numa, system in ((0, 100 << 20), (1, 0))
    }
    blocks = [{"numaAffinity": [0], "type": "memory", "size": 1 << 30}]
    state = {"policyName": "Static", "machineState": tables, "entries": {"3f0c": {"main": blocks}}}
    (tmp_path / "state" / "memory_manager_state").write_text(json.dumps({**state, "checksum": 0}))
    config = (
        "--machine",
        "2s 2n 16c 1t 32g",
        "--kubelet-config",
        tmp_path / "kubelet.json",
        "--kube",
        "1.36",
    )
    numawise(capsys, "state", "repair", tmp_path / "state", "--recompute-checksum", "--write")
    ran = numawise(
        capsys, "why", *config, "--state", tmp_path / "state", tmp_path / "agent.yaml", "-o", "json"
    )
    (kubelet,) = json.loads(ran.out)["pods"]
    assert kubelet["verdict"] == "not started"
    assert kubelet["message"].endswith(REFUSED)
    ((code, text),) = [(one["code"], one["text"]) for one in kubelet["findings"]]
    assert code == "reuse-outlives-pod"
    assert "pod 3f0c: 1Gi of memory on NUMA 0 less is reserved than is held" in text
    assert "--recompute-tables" in text
