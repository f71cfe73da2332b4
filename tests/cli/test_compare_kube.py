"""``numawise simulate --compare-kube``: what changes from one release to another, and every kind of bad input."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.run import Ran, numawise, refused
from tests.cli.smallnode import KUBELET, MACHINE

PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: wide}
spec:
  containers:
  - name: app
    resources: {limits: {cpu: 1, memory: 1Gi, x/gpu: 2}}
---
apiVersion: v1
kind: Pod
metadata: {name: small}
spec:
  containers:
  - name: app
    resources: {limits: {cpu: 1, memory: 1Gi}}
"""
REASON = "A merged hint is preferred only when all masks agree, and its width is judged by the resource that needs most NUMA nodes. (since 1.24)"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "machine.yaml").write_text(MACHINE)
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    (tmp_path / "pods.yaml").write_text(PODS)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], here: Path, releases: str, *more: object) -> Ran:
    files = ["--machine", here / "machine.yaml", "--kubelet-config", here / "kubelet.yaml"]
    return numawise(capsys, "simulate", *files, "--compare-kube", releases, *more, here / "pods.yaml")


def test_what_changes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, here, "1.23,1.24")
    assert (ran.status, ran.err) == (1, "")
    head, wide, small, blank, *notes = ran.out.splitlines()
    assert head.split() == ["POD", "CHANGE", "1.23", "1.24"]
    refusal = "(TopologyAffinityError: Resources cannot be allocated with Topology locality)"
    assert wide.split(maxsplit=4) == ["wide", "refused", "admitted", "rejected", refusal]
    assert small.split() == ["small", "other", "CPUs", "app", "2", "app", "1"]
    assert notes == [
        f"wide: refused, because of preferred_needs_equal_masks: {REASON}",
        f"small: other CPUs, because of preferred_needs_equal_masks: {REASON}",
        "2 of 2 pods change from 1.23 to 1.24 (1 refused, 1 other CPUs)",
    ]
    assert not blank


@pytest.mark.parametrize("releases", ["1.34,1.35", "v1.34.2, v1.35.0", "1.24,1.23.4", "1.36,1.36"])
def test_nothing_changes(here: Path, capsys: pytest.CaptureFixture[str], releases: str) -> None:
    if releases.startswith("1.24"):
        (here / "pods.yaml").write_text(PODS.replace("x/gpu: 2", "x/gpu: 1"))
    ran = run(capsys, here, releases)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("nothing changes for 2 pods from 1.")


def test_hints_alone_do_not_count(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "machine.yaml").write_text(MACHINE.replace("numa: [1]}\n", "numa: [0]}\n"))
    ran = run(capsys, here, "1.35,1.36")
    assert (ran.status, ran.out) == (
        0,
        "other hints, but no other grant: wide\nnothing changes for 2 pods from 1.35 to 1.36\n",
    )


def test_json_and_yaml_say_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, here, "1.23,1.24", "-o", "json")
    found = json.loads(ran.out)
    assert ran.status == 1
    assert found == yaml.safe_load(run(capsys, here, "1.23,1.24", "-o", "yaml").out)
    assert list(found) == ["apiVersion", "kind", "from", "to", "remarks", "pods", "changes"]
    assert [(one["kind"], one["pod"], one["minor"]) for one in found["changes"]] == [
        ("refused", "default/wide", False),
        ("cpus", "default/small", False),
    ]
    assert found["changes"][0]["reasons"] == [{"name": "preferred_needs_equal_masks", "text": REASON}]


def test_a_newer_release_is_taken_for_the_newest(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, here, "1.37,1.40", "-o", "json")
    remark = "Kubernetes 1.40 is newer than any known release; it is treated as 1.37"
    assert (ran.status, ran.err) == (0, f"numawise: {remark}\n")
    found = json.loads(ran.out)
    assert (found["from"], found["to"], found["remarks"]) == ("1.37", "1.37", [remark])


def test_state_files_count_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = here / "state"
    state.mkdir()
    text = '{"policyName":"static","defaultCpuSet":"0-3","data":"x","dataChecksum":1}'
    (state / "cpu_manager_state").write_text(text)
    ran = run(capsys, here, "1.36,1.37", "--state", state)
    assert ran.status == 1
    assert "(kubelet)" in ran.out
    assert "does not start (cpu-manager-start)" in ran.out
    assert "(kubelet): does not start, because of files_carry_data: " in ran.out


@pytest.mark.parametrize(("releases", "words"), [
    ("1.34",           "--compare-kube: '1.34' is not two versions; such as 1.34,1.36"),
    ("1.34,1.35,1.36", "--compare-kube: '1.34,1.35,1.36' is not two versions; such as 1.34,1.36"),
    ("1.34:1.36",      "--compare-kube: '1.34:1.36' is not two versions; such as 1.34,1.36"),
    ("1.19,1.36",      "--compare-kube: Kubernetes 1.19 is not known; known are 1.20 to 1.37"),
    ("old,new",        "--compare-kube: 'old' is not a Kubernetes version such as 1.36"),
])  # fmt: skip
def test_bad_versions(here: Path, capsys: pytest.CaptureFixture[str], releases: str, words: str) -> None:
    refused(run(capsys, here, releases), words)


def test_not_together_with_kube(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(run(capsys, here, "1.34,1.36", "--kube", "1.35"), "--kube and --compare-kube exclude each other")


@pytest.mark.parametrize(("field", "releases", "status"), [
    ("mergeDefaultEvictionSettings: true", "1.31,1.32", 2),
    ("mergeDefaultEvictionSettings: true", "1.31,1.33", 0),
    ("cpuManagerPolicyy: static",          "1.34,1.36", 2),
])  # fmt: skip
def test_fields_that_one_of_them_reads(
    here: Path, capsys: pytest.CaptureFixture[str], field: str, releases: str, status: int
) -> None:
    (here / "kubelet.yaml").write_text(f"{KUBELET}{field}\n")
    (here / "pods.yaml").write_text(PODS.partition("---\n")[2])
    ran = run(capsys, here, releases)
    if status == 2:
        refused(ran, f'unknown field "{field.partition(":")[0]}"')
    else:
        assert (ran.status, ran.out) == (0, "nothing changes for 1 pods from 1.31 to 1.33\n")
