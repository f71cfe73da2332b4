"""A pod whose resize waits counts with what its kubelet has allocated, as after a restart of the kubelet."""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise import api
from tests.cli.run import EXAMPLES, numawise
from tests.nodetree import grow_node
from tests.unit.inputs.test_bundle import make

EIGHT = EXAMPLES / "8gpu-server"
NODE = ("--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet.yaml")
Capture = pytest.CaptureFixture[str]


def listed(name: str, cpu: str, *, allocated: str = "", reason: str = "", node: str = "n1") -> dict[str, Any]:
    """A pod that asks for so many CPUs, and has ``allocated`` by its status."""
    status: dict[str, Any] = {"phase": "Running" if node else "Pending"}
    if allocated:
        row = {
            "name": "c",
            "state": {"running": {}},
            "allocatedResources": {"cpu": allocated, "memory": "100Mi"},
        }
        status["containerStatuses"] = [row]
    if reason:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    requests = {"cpu": cpu, "memory": "100Mi"}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}],
            **({"nodeName": node} if node else {}),
        },
        "status": status,
    }


def record(**cpus: str) -> str:
    """The kubelet's record of what containers ``c`` of pods were allocated."""
    entries = {
        f"uid-{name}": {"ContainerResources": {"c": {"requests": {"cpu": cpu, "memory": "100Mi"}}}}
        for name, cpu in cpus.items()
    }
    return json.dumps({"data": json.dumps({"entries": entries}), "checksum": 1})


def verdicts(
    capsys: Capture, tmp_path: Path, command: str, *pods: dict[str, Any], more: tuple[object, ...] = ()
) -> dict[str, str]:
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": pods}))
    ran = numawise(capsys, command, *NODE, *more, tmp_path / "pods.json", "-o", "json")
    found = {one["name"]: one["verdict"] for one in json.loads(ran.out)["pods"]}
    assert ran.status == int(not {*found.values()} <= {"admitted"}), ran
    return found


# 124 CPUs
@pytest.mark.parametrize("reason", ["Deferred", "Infeasible", ""])
def test_the_next_pod_is_admitted(reason: str, capsys: Capture, tmp_path: Path) -> None:
    """The kubelet has allocated 8 CPUs; it does not count the 100 that the pod asks for."""
    pods = (listed("web", "100", allocated="8", reason=reason), listed("new", "60", node=""))
    assert verdicts(capsys, tmp_path, "simulate", *pods) == {"web": "admitted", "new": "admitted"}
    assert verdicts(capsys, tmp_path, "why", *pods)["new"] == "admitted"
    node = api.Node(EIGHT / "machine.yaml", EIGHT / "kubelet.yaml")
    assert [one.admitted for one in node.admit_all(pods)] == [True, True]


@pytest.mark.parametrize("command", ["simulate", "why"])
def test_what_is_allocated_counts_in_full(command: str, capsys: Capture, tmp_path: Path) -> None:
    """A pod that asks for less than it has: until its kubelet has carried that out."""
    pods = (listed("web", "8", allocated="100", reason="Deferred"), listed("new", "60", node=""))
    assert verdicts(capsys, tmp_path, command, *pods)["new"] == "rejected"


@pytest.mark.parametrize("command", ["simulate", "why"])
@pytest.mark.parametrize(("release", "gate", "expected"), [
    ("1.37", "",      "admitted"),
    ("1.33", "",      "admitted"),
    ("1.33", "false", "rejected"),
    ("1.32", "",      "rejected"),
])  # fmt: skip
def test_releases(
    command: str, release: str, gate: str, expected: str, capsys: Capture, tmp_path: Path
) -> None:
    gates = tmp_path / "drop-ins"
    gates.mkdir()
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    text = f"featureGates: {{InPlacePodVerticalScaling: {gate}}}\n" if gate else ""
    (gates / "10.conf").write_text(head + text)
    pods = (listed("web", "100", allocated="8", reason="Deferred"), listed("new", "60", node=""))
    more = ("--kube", release, "--config-dir", gates)
    assert verdicts(capsys, tmp_path, command, *pods, more=more)["new"] == expected


@pytest.mark.parametrize("command", ["simulate", "why"])
def test_the_record_comes_before_the_status(command: str, capsys: Capture, tmp_path: Path) -> None:
    """The spec changed while the kubelet was down: no status says so yet, or one says what was before."""
    node = api.Node(EIGHT / "machine.yaml", EIGHT / "kubelet.yaml")
    (tmp_path / "state").mkdir()
    for name, text in {**node.state_files(), "allocated_pods_state": record(web="8")}.items():
        (tmp_path / "state" / name).write_text(text)
    for web in (listed("web", "100"), listed("web", "100", allocated="90", reason="Deferred")):
        pods = (web, listed("new", "60", node=""))
        assert (
            verdicts(capsys, tmp_path, command, *pods, more=("--state", tmp_path / "state"))["new"]
            == "admitted"
        )


@pytest.mark.parametrize("source", ["status", "record"])
def test_a_bundle_has_what_is_allocated(source: str, capsys: Capture, tmp_path: Path) -> None:
    """Pods may request 6 CPUs of its node, and others have 4."""
    extra = {"var/lib/kubelet/allocated_pods_state": record(web="1")} if source == "record" else {}
    root = grow_node(tmp_path / "root", extra)
    web = listed("web", "6", allocated="1" if source == "status" else "", reason="Deferred")
    (tmp_path / "running.json").write_text(json.dumps({"kind": "List", "items": [web]}))
    made = make(root, pods=(str(tmp_path / "running.json"),), kube="1.36")
    (tmp_path / "node.tar.gz").write_bytes(made.data)
    (tmp_path / "new.json").write_text(json.dumps(listed("new", "1", node="")))
    for command in ("simulate", "why"):
        ran = numawise(
            capsys, command, "--bundle", tmp_path / "node.tar.gz", tmp_path / "new.json", "-o", "json"
        )
        (new,) = json.loads(ran.out)["pods"]
        assert new["verdict"] == "admitted", ran.out


@pytest.mark.parametrize(("release", "expected"), [("1.36", "admitted"), ("1.35", "rejected")])
def test_sizes_of_whole_pods(release: str, expected: str, capsys: Capture, tmp_path: Path) -> None:
    """They are allocated since 1.36 (gate InPlacePodLevelResourcesVerticalScaling)."""
    web = listed("web", "1")
    web["spec"]["resources"] = {"requests": {"cpu": "100", "memory": "8Gi"}}
    web["status"] |= {"allocatedResources": {"cpu": "8", "memory": "8Gi"}}
    pods = (web, listed("new", "60", node=""))
    assert verdicts(capsys, tmp_path, "simulate", *pods, more=("--kube", release))["new"] == expected


def test_a_resize_that_waits_is_tried_when_a_pod_goes(capsys: Capture, tmp_path: Path) -> None:
    pods = (listed("big", "60"), listed("web", "100", allocated="8", reason="Deferred"))
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": pods}))
    (tmp_path / "steps.yaml").write_text("steps: [{remove: big}]")
    ran = numawise(
        capsys, "simulate", *NODE, tmp_path / "pods.json", "--steps", tmp_path / "steps.yaml", "-o", "json"
    )
    (resize,) = json.loads(ran.out)["steps"][-1]["resizes"]
    assert (resize["pod"], resize["outcome"], ran.status) == ("default/web", "allocated", 0)
