"""A real node with our agent on it: what was published, what was predicted from it, and what the kubelet then did.

From the published object alone every verdict of a real kubelet follows, with the CPUs, memory blocks and devices that it
gave; and from what lay on the node then, our reader makes what was published.
"""

from pathlib import Path
from typing import Any

import pytest

from numawise.codec.node import node_from
from numawise.node.publication import publication_of, topology_object
from tests.recorded.outcomes import Outcome, predicted, seen, uid_of
from tests.recorded.published import node_of, publication, read_run
from tests.recorded.recorded_node import grow_hardware, recorded_node

HERE = Path(__file__).parent / "published"
RUNS = sorted(HERE.glob("*.jsonl.gz"))


@pytest.fixture(params=RUNS, ids=lambda path: path.name.partition(".")[0], scope="module")
def run(request: pytest.FixtureRequest) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return read_run(request.param)


Run = tuple[dict[str, Any], list[dict[str, Any]]]


def pods_of(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [step for step in steps if step["do"] == "add"]


def manifest(step: dict[str, Any]) -> dict[str, Any]:
    """A pod as it came, under the uid by which the kubelet knows it."""
    pod = step["pod"]
    return {**pod, "metadata": {**pod["metadata"], "uid": uid_of(pod)}}


def outcome(step: dict[str, Any]) -> Outcome:
    return seen({**step["pod"], "status": step["status"]}, step["after"]["files"], step["after"]["answers"])


def test_every_pod_is_predicted_from_the_object_alone(run: Run) -> None:
    steps = pods_of(run[1])
    for step in steps:
        node = node_of(step["object"])
        if step["labels"]:  # of the node, which are not published
            node.describe(node_from(step["before"]["node"]))
        mine, _ = predicted(node, manifest(step))
        assert (step["step"], mine.differences(outcome(step))) == (step["step"], [])
    assert len(steps) >= 40


def test_all_kinds_of_verdicts_and_of_trouble_are_there(run: Run) -> None:
    steps = pods_of(run[1])
    reasons = {step["status"].get("reason") for step in steps if step["status"]["phase"] == "Failed"}
    assert reasons >= {
        "TopologyAffinityError",
        "SMTAlignmentError",
        "UnexpectedAdmissionError",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
    }
    assert {step["status"]["qosClass"] for step in steps} == {"Guaranteed", "Burstable", "BestEffort"}
    others = " ".join(step["do"] for step in run[1])
    for words in (
        "restarted",
        "killed",
        "deleted",
        "ended with success",
        "unhealthy",
        "switched to",
        "switched back",
    ):
        assert words in others


def test_what_lay_on_the_node_is_what_was_published(run: Run, tmp_path: Path) -> None:
    """Read anew from files, PodResources and the API's objects: the same pods, decisions and zones.

    What a refused pod had been given comes and goes after the object was published; zones are compared in all other
    steps.
    """
    first, steps = run
    root = grow_hardware(tmp_path, first)
    configuration, compared = "", 0
    for step in steps:
        configuration = step.get("configuration", configuration)
        if step["do"] != "add":
            continue
        with recorded_node(root, first, configuration) as recorded:
            sight = recorded.read(step["before"])
        assert sight.node is not None, sight.problems
        made, published = (
            publication_of(sight.node, "numa-vm", kubelet=first["kubernetes"]),
            publication(step["object"]),
        )
        for name in ("machine", "config"):
            assert (step["step"], getattr(made, name)) == (step["step"], getattr(published, name))
        assert (step["step"], set(made.state.active)) == (step["step"], set(published.state.active))
        mine, _ = predicted(sight.node, manifest(step))
        assert (step["step"], mine.differences(outcome(step))) == (step["step"], [])
        ours, theirs = made.state, published.state
        if (ours.cpu, ours.memory, ours.devices.allocated) == (
            theirs.cpu,
            theirs.memory,
            theirs.devices.allocated,
        ):
            assert (step["step"], topology_object(made)["zones"]) == (step["step"], step["object"]["zones"])
            compared += 1
    assert compared > len(pods_of(steps)) / 2
