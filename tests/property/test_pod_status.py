"""One reading of a pod's status: every way to a pod says the same of whether it holds something, and of how much."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.allocated import allocated_by_status
from numawise.codec.bundle.manifest import Names
from numawise.codec.bundle.pods import reduced
from numawise.codec.cluster_pod import PodReading
from numawise.codec.document import Document
from numawise.codec.pod import pod_from, pod_object
from numawise.codec.pod_phase import has_ended, refusal_of
from numawise.node.node import SimulatedNode, started
from numawise.request.defaults import RawPod
from tests.cli.run import EXAMPLES, numawise
from tests.unit.nodes import machine

EIGHT = EXAMPLES / "8gpu-server"
PHASES = ("Running", "Running", "Pending", "Succeeded", "Failed", "Failed", "Unknown", "")
REASONS = ("", "TopologyAffinityError", "UnexpectedAdmissionError", "OutOfcpu", "Evicted")
STATES = ({}, {"running": {}}, {"running": {}}, {"waiting": {}}, {"terminated": {}})
SIZES = ("250m", "1", "2", "6", "24", "60")


def random_pod(rng: random.Random, name: str) -> dict[str, Any]:
    """A pod as an API server may list it."""
    containers, rows = [], []
    for number in range(rng.choice([1, 1, 2])):
        cpu, limit = rng.choice(SIZES), rng.random() < 0.5
        own = {"cpu": cpu, "memory": "1Gi"}
        resources = {"requests": own} | ({"limits": own} if limit else {})
        containers.append({"name": f"c{number}", "image": "x", "resources": resources})
        row: dict[str, Any] = {"name": f"c{number}", "state": rng.choice(STATES)}
        if rng.random() < 0.4:
            row["allocatedResources"] = {**own, "cpu": rng.choice(SIZES)}
        if rng.random() < 0.3:
            row["resources"] = {"requests": {**own, "cpu": rng.choice(SIZES)}, "limits": own if limit else {}}
        rows.append(row)
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if rng.random() < 0.2:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec: dict[str, Any] = {"containers": containers}
    if rng.random() < 0.8:
        spec["nodeName"] = "n1"
    status: dict[str, Any] = {"phase": rng.choice(PHASES), "reason": rng.choice(REASONS), "message": ""}
    if rng.random() < 0.7:
        status["containerStatuses"] = rows
    if rng.random() < 0.3:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
    if rng.random() < 0.2:
        spec["resources"] = {"requests": {"cpu": "120", "memory": "4Gi"}}
        status["allocatedResources"] = {"cpu": rng.choice(["120", "125"]), "memory": "4Gi"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def sizes(node: SimulatedNode, raw: RawPod) -> list[object]:
    """What a kubelet counts of a pod, and what it waits for."""
    return [
        [
            {name: amount.nano for name, amount in (amounts or {}).items()}
            for one in (pod, *pod.containers)
            for amounts in (one.requests, one.limits)
        ]
        for pod in (node.requested(raw), node.wanted(raw))
    ]


@pytest.mark.parametrize("release", [(1, 32), (1, 35), (1, 37)])
def test_every_reader_says_the_same(release: tuple[int, int]) -> None:
    rng = random.Random(release[1])
    node = started(machine(), {}, release)
    for number in range(400):
        value = random_pod(rng, f"p{number}")
        listed = pod_object(Document(value, "pods.json").root)
        expected = sizes(node, listed)
        assert sizes(node, pod_from(value)) == expected, value
        reading = PodReading()
        slim = reading.slim(value)
        for one in (reading.read(value), reading.read(slim)):
            assert one.raw is not None
            assert sizes(node, one.raw) == expected, value
            assert one.ended == has_ended(value) == has_ended(slim), value
        bundled = reduced(Document(value, "pods.json").root, Names())
        assert sizes(node, pod_object(Document(bundled, "b").root)) == expected, (value, bundled)
        assert has_ended(bundled) == has_ended(value), (value, bundled)
        assert (refusal_of(bundled) is None) == (refusal_of(value) is None), value
        assert allocated_by_status(listed.as_allocated, value["spec"], {}) == listed.as_allocated


@pytest.mark.parametrize("seed", range(25))
def test_simulate_and_why_agree_about_lists(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that run are let in alike; why has besides those that were refused, last, and they change nothing."""
    rng = random.Random(seed)
    items = [random_pod(rng, f"p{number}") for number in range(rng.randrange(1, 9))]
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": items}))
    node = ("--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet.yaml")
    refused = {one["metadata"]["name"] for one in items if refusal_of(one) and has_ended(one)}
    living = {one["metadata"]["name"] for one in items if not has_ended(one)}
    simulated = numawise(capsys, "simulate", *node, tmp_path / "pods.json", "-o", "json")
    explained = numawise(capsys, "why", *node, tmp_path / "pods.json", "-o", "json")
    if not living:
        assert simulated.status == 2
    else:
        found = {one["name"]: one["verdict"] for one in json.loads(simulated.out)["pods"]}
        assert found.keys() == living
    if not living | refused:
        assert explained.status == 2
        return
    said = [(one["name"], one["verdict"]) for one in json.loads(explained.out)["pods"]]
    assert [name for name, _ in said[len(living) :]] == [
        one["metadata"]["name"] for one in items if one["metadata"]["name"] in refused
    ]
    for name, verdict in said[: len(living)]:
        waits = verdict in ("deferred", "infeasible")  # it runs, and does not get the size that it asks for
        assert found[name] == ("admitted" if waits else verdict)
