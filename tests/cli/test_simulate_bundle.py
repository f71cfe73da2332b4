"""``numawise simulate --bundle``: a node as it was collected, its pods running."""

import json
from pathlib import Path

import pytest

from tests.cli.run import numawise, refused
from tests.nodetree import grow_node, pod_list

SHARED = "kind: Pod\nmetadata: {name: s}\nspec: {containers: [{name: c, resources: {limits: {cpu: 500m, memory: 1Mi}}}]}\n"


@pytest.fixture
def bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "pods.json").write_text(pod_list())
    (tmp_path / "s.yaml").write_text(SHARED)
    words = (
        "--pods",
        tmp_path / "pods.json",
        "--kube",
        "1.36.4",
        "--keep-names",
        "-o",
        tmp_path / "b.tar.gz",
    )
    assert numawise(capsys, "bundle", "--root", grow_node(tmp_path / "root"), *words).status == 0
    return tmp_path / "b.tar.gz"


def test_what_running_pods_asked_for_counts(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Six CPUs: two pods with two of their own, one that shares with half a one, and one that was refused."""
    words = ("--bundle", bundle, "--fill", bundle.parent / "s.yaml", "-o", "json")
    found = json.loads(numawise(capsys, "simulate", *words).out)
    assert found["kubernetes"] == "1.36"
    (filled,) = found["filled"]
    assert (filled["count"], filled["stopped"]["reason"]) == (3, "OutOfcpu")


def test_running_pods_are_known_by_name(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle.parent / "steps.yaml").write_text("- restart\n- remove: train-a-n1\n- add: s.yaml\n- reconcile\n")
    ran = numawise(capsys, "simulate", "--bundle", bundle, "--steps", bundle.parent / "steps.yaml", "--map")
    assert ran.status == 0
    assert "step 1: 3 running pods admitted again\n" in ran.out
    assert "step 4: container c of acme/train-d-n1 gets CPUs 0-3,6-7\n" in ran.out
    assert "held by acme/train-b-n1" in ran.out
    assert "held by acme/train-a-n1" not in ran.out


def test_a_bundle_among_nodes(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "simulate", "--nodes", bundle, "-o", "json", bundle.parent / "s.yaml")
    (node,) = json.loads(ran.out)["nodes"]
    assert (node["name"], node["pods"], node["resources"]["cpu"]) == (
        "b",
        4,
        {"allocatable": 6, "requested": 5},
    )


def test_what_stands_beside_it_wins(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle.parent / "k.yaml").write_text("cpuManagerPolicy: none\n")
    words = ("--bundle", bundle, "--kubelet-config", bundle.parent / "k.yaml", bundle.parent / "s.yaml")
    refused(numawise(capsys, "simulate", *words), "b.tar.gz", 'configured policy "none" differs')
    ran = numawise(capsys, "simulate", *words, "--kube", "1.31")
    refused(ran, "b.tar.gz")


def test_two_releases(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--bundle", bundle, "--compare-kube", "1.35,1.36", bundle.parent / "s.yaml")
    ran = numawise(capsys, "simulate", *words)
    assert (ran.status, ran.out) == (0, "nothing changes for 1 pods from 1.35 to 1.36\n")
