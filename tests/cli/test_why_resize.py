"""``numawise why`` about pods that run and wait for another size."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import EXAMPLES, numawise

EIGHT = EXAMPLES / "8gpu-server"
BATCH = """
kind: Pod
metadata: {name: batch}
spec: {containers: [{name: worker, resources: {requests: {cpu: 32, memory: 64Gi}}}]}
"""
PENDING = "conditions: [{type: PodResizePending, status: 'True', reason: Deferred}]"


def waiting(wanted: str, has: str, *, condition: str = PENDING) -> str:
    """A pod ``web`` that asks for something else than it has."""
    return f"""
kind: Pod
metadata: {{name: web}}
spec: {{containers: [{{name: server, resources: {wanted}}}]}}
status: {{{condition}, containerStatuses: [{{name: server, {has}}}]}}
"""


def why(capsys: pytest.CaptureFixture[str], tmp_path: Path, *pods: str) -> dict[str, Any]:
    """What is said of the last pod."""
    (tmp_path / "pods.yaml").write_text("\n---\n".join(pods))
    files = ("--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet.yaml")
    ran = numawise(capsys, "why", *files, tmp_path / "pods.yaml", "-o", "json")
    assert ran.err == ""
    told: dict[str, Any] = json.loads(ran.out)["pods"][-1]
    assert ran.status == (0 if told["verdict"] == "admitted" else 1)
    return told


def test_deferred(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pod = waiting("{requests: {cpu: 100}}", "allocatedResources: {cpu: 8}")
    told = why(capsys, tmp_path, BATCH, pod)
    assert (told["verdict"], told["reason"]) == ("deferred", "OutOfcpu")
    assert told["answer"] == "Deferred: cpu: 100 asked for, 92 of 124 not requested yet (server: cpu 8 → 100)"
    assert [one["kind"] for one in told["suggestions"]] == ["smaller-resize", "remove"]
    assert told["suggestions"][0]["pod"] == [
        {"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "92"}
    ]
    assert told["suggestions"][1]["remove"] == ["default/batch"]


def test_infeasible(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wanted = "{limits: {cpu: 16, memory: 8Gi}}"
    has = "allocatedResources: {cpu: 8, memory: 8Gi}, resources: {limits: {cpu: 8, memory: 8Gi}}"
    told = why(capsys, tmp_path, BATCH, waiting(wanted, has))
    assert told["verdict"] == "infeasible"
    assert told["message"].startswith("Resize is infeasible for Guaranteed Pods alongside CPU Manager")
    assert [one["kind"] for one in told["suggestions"]] == ["recreate"]


@pytest.mark.parametrize(("has", "condition"), [
    ("allocatedResources: {cpu: 8}", PENDING),
    ("resources: {requests: {cpu: 8}}", PENDING),
    ("allocatedResources: {cpu: 8}", "conditions: []"),
    ("allocatedResources: [8]", PENDING),
    ("allocatedResources: {cpu: [8]}", "conditions: 5"),
])  # fmt: skip
def test_what_fits(capsys: pytest.CaptureFixture[str], tmp_path: Path, has: str, condition: str) -> None:
    told = why(capsys, tmp_path, BATCH, waiting("{requests: {cpu: 16}}", has, condition=condition))
    assert told["verdict"] == "admitted"
    assert told["answer"].startswith(
        ("Allocated: ", "Admitted, but nothing is aligned: the pod is Burstable")
    )
