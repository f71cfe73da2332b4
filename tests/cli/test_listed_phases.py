"""What ``kubectl get pods -o json`` lists: pods that have ended hold nothing, refused ones are explained on the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise import api
from tests.cli.run import EXAMPLES, Ran, numawise

EIGHT = EXAMPLES / "8gpu-server"
NODE = ("--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet.yaml")
REFUSAL = {
    "reason": "TopologyAffinityError",
    "message": "Pod was rejected: Resources cannot be allocated with Topology locality",
}


def listed(name: str, cpu: int, phase: str = "Running", *, node: str = "a", **status: Any) -> dict[str, Any]:
    own = {"cpu": str(cpu), "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "app", "image": "x", "resources": {"requests": own, "limits": own}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": phase, "qosClass": "Guaranteed", **status},
    }


def ask(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    *items: dict[str, Any],
    apart: bool = False,
) -> tuple[dict[str, dict[str, Any]], Ran]:
    """What a command says of each pod of a list, or of as many files."""
    files = []
    for name, value in (
        [(one["metadata"]["name"], one) for one in items]
        if apart
        else [("pods", {"kind": "List", "items": items})]
    ):
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(value))
    ran = numawise(capsys, command, *NODE, *files, "-o", "json")
    return {one["name"]: one for one in json.loads(ran.out)["pods"]} if ran.out else {}, ran


def recorded(tmp_path: Path, *pods: dict[str, Any]) -> Path:
    """State files of the node with these pods."""
    node = api.Node(EIGHT / "machine.yaml", EIGHT / "kubelet.yaml")
    assert all(one.admitted for one in node.admit_all(pods))
    (tmp_path / "state").mkdir()
    for name, text in node.state_files().items():
        (tmp_path / "state" / name).write_text(text)
    return tmp_path / "state"


# 124 CPUs on two NUMA nodes: 60 and 64
@pytest.mark.parametrize("apart", [False, True], ids=["list", "files"])
def test_a_refused_pod_is_explained_on_what_the_others_hold(
    *, apart: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    items = (listed("a", 40), listed("b", 60, "Failed", **REFUSAL), listed("c", 60))
    found, ran = ask(capsys, tmp_path, "why", *items, apart=apart)
    assert list(found) == ["a", "c", "b"]
    assert {name: one["verdict"] for name, one in found.items()} == {
        "a": "admitted", "b": "rejected", "c": "admitted"
    }  # fmt: skip
    assert found["b"]["reason"] == "TopologyAffinityError"
    assert [one["remove"] for one in found["b"]["suggestions"] if one.get("remove")]
    assert ran.status == 1
    simulated, _ = ask(capsys, tmp_path, "simulate", *items, apart=apart)
    assert {name: one["verdict"] for name, one in simulated.items()} == {"a": "admitted", "c": "admitted"}


def test_what_held_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    refused = listed("b", 8, "Failed", **REFUSAL)
    said = "The kubelet refused it, but with {} it is admitted. It said then: TopologyAffinityError: "
    for others, held in (
        ((), "no other pod known"),
        ((listed("a", 40),), "the other pod given"),
        ((listed("a", 40), listed("c", 60)), "the 2 other pods given"),
    ):
        found, _ = ask(capsys, tmp_path, "why", refused, *others)
        assert found["b"]["remarks"][0].startswith(said.format(held))


@pytest.mark.parametrize("command", ["why", "simulate"])
@pytest.mark.parametrize("apart", [False, True], ids=["list", "files"])
def test_a_pod_that_has_ended_holds_nothing(
    *, command: str, apart: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stopped = {"containerStatuses": [{"name": "app", "state": {"terminated": {}}}]}
    deleted = listed("d", 60, **stopped)
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ended = (listed("e", 60, "Succeeded"), listed("f", 60, "Failed", reason="Evicted"), deleted)
    found, ran = ask(capsys, tmp_path, command, *ended, listed("a", 60), listed("b", 60), apart=apart)
    assert {name: one["verdict"] for name, one in found.items()} == {"a": "admitted", "b": "admitted"}
    assert ran.err == "numawise: pods: 3 that have ended are left out\n"
    assert ran.status == 0


@pytest.mark.parametrize("command", ["why", "simulate"])
def test_one_that_is_stopping_still_holds(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    leaving = listed("a", 60, containerStatuses=[{"name": "app", "state": {"running": {}}}])
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    lost = listed("b", 60, "Failed", containerStatuses=[{"name": "app", "state": {"running": {}}}])
    found, _ = ask(capsys, tmp_path, command, leaving, lost, listed("c", 8))
    assert [one["verdict"] for one in found.values()] == ["admitted", "admitted", "rejected"]


@pytest.mark.parametrize("command", ["why", "simulate"])
def test_pods_without_a_node_come_after_those_that_run(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """``kubectl`` lists by name."""
    items = (listed("a", 60, "Pending", node=""), listed("b", 60), listed("c", 60))
    found, _ = ask(capsys, tmp_path, command, *items)
    assert {name: one["verdict"] for name, one in found.items()} == {
        "b": "admitted", "c": "admitted", "a": "rejected"
    }  # fmt: skip


@pytest.mark.parametrize("command", ["why", "simulate"])
def test_one_that_is_all_that_was_named_is_asked_about(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """``kubectl get pod a -o json``: would it be let in again?"""
    found, ran = ask(capsys, tmp_path, command, listed("a", 60, "Succeeded"), apart=True)
    assert (found["a"]["verdict"], ran.err, ran.status) == ("admitted", "", 0)


@pytest.mark.parametrize("command", ["why", "simulate"])
def test_state_files_of_a_pod_that_has_ended(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """They may be older than the list."""
    state = recorded(tmp_path, listed("a", 60))
    items = {"kind": "List", "items": [listed("a", 60, "Succeeded"), listed("b", 60), listed("c", 60)]}
    (tmp_path / "now.json").write_text(json.dumps(items))
    ran = numawise(capsys, command, *NODE, "--state", state, tmp_path / "now.json", "-o", "json")
    assert [one["verdict"] for one in json.loads(ran.out)["pods"]] == ["admitted", "admitted"]


@pytest.mark.parametrize("command", ["why", "simulate"])
def test_a_mirror_goes_by_the_uid_of_its_static_pod(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What the state files have of it is its own, and not another pod's."""
    state = recorded(tmp_path, listed("a", 60))
    mirror = listed("a", 60)
    mirror["metadata"] |= {"uid": "its-mirror", "annotations": {"kubernetes.io/config.mirror": "uid-a"}}
    (tmp_path / "now.json").write_text(json.dumps({"kind": "List", "items": [mirror, listed("b", 60)]}))
    ran = numawise(capsys, command, *NODE, "--state", state, tmp_path / "now.json", "-o", "json")
    assert [one["verdict"] for one in json.loads(ran.out)["pods"]] == ["admitted", "admitted"]
