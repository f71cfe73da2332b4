"""A NodeResourceTopology with the exact state of its node is a whole node to every command."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from numawise.codec.document import read_documents
from numawise.codec.machine import decode_machine
from numawise.codec.publication import STATE_ATTRIBUTE
from numawise.engine.admit import Admitted
from numawise.node.node import SimulatedNode
from numawise.node.publication import publication_of, state_texts, topology_object
from numawise.sets import format_ids
from tests.cli.run import Ran, program
from tests.unit.build import pod
from tests.unit.published import GPU, busy_nodes, run, static

ASKED = "a cpu=2 memory=2Gi nvidia.com/gpu=1"


def manifest(cpus: int = 2, gpus: int = 1) -> str:
    limits = {"cpu": str(cpus), "memory": "2Gi", GPU: str(gpus)}
    spec = {"containers": [{"name": "a", "image": "i", "resources": {"limits": limits}}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "next"}, "spec": spec})


def object_of(node: SimulatedNode, name: str = "n1", **more: Any) -> dict[str, Any]:
    return topology_object(publication_of(node, name, kubelet="v1.36.4", **more))


def written(folder: Path, *objects: dict[str, Any], name: str = "nrt.yaml") -> None:
    value = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    (folder / name).write_text(yaml.safe_dump(value, sort_keys=False))
    (folder / "pod.json").write_text(manifest())


def ran(folder: Path, *words: str) -> Ran:
    return program(*words, cwd=folder)


def decided(folder: Path, *words: str) -> tuple[dict[str, Any], str]:
    done = ran(folder, "simulate", *words, "pod.json", "-o", "json")
    assert done.status in (0, 1), done
    (result,) = json.loads(done.out)["pods"]
    return result, done.err


@pytest.fixture
def node() -> SimulatedNode:
    """Whose next pod gets other CPUs and GPUs than an empty node's first."""
    node = static()
    run(node, "11111111-1111-4111-8111-111111111111", "a cpu=2 memory=1Gi nvidia.com/gpu=1")
    return node


@pytest.mark.parametrize("words", [
    pytest.param(("--machine", "nrt.yaml"),                          id="as the machine"),
    pytest.param(("--state", "nrt.yaml"),                            id="as the state"),
    pytest.param(("--machine", "nrt.yaml", "--state", "nrt.yaml"),   id="as both"),
    pytest.param(("--machine", "list.yaml", "--node-name", "n1"),    id="one of a list"),
])  # fmt: skip
def test_it_decides_as_the_node(words: tuple[str, ...], node: SimulatedNode, tmp_path: Path) -> None:
    written(tmp_path, object_of(node))
    written(tmp_path, object_of(static(), "n2"), object_of(node), name="list.yaml")
    result, said = decided(tmp_path, *words)
    decision = node.ask(pod("next", ASKED))
    assert isinstance(decision, Admitted)
    (container,) = result["containers"]
    assert result["verdict"] == "admitted"
    assert container["cpus"] == format_ids(decision.state.cpu.assignments["next"]["a"])
    assert not said, "nothing is assumed"


def test_every_command_has_the_same_node(node: SimulatedNode, tmp_path: Path) -> None:
    written(tmp_path, object_of(node))
    result, _ = decided(tmp_path, "--machine", "nrt.yaml")
    (container,) = result["containers"]
    for words in (("why",), ("plan", "pod")):
        done = ran(tmp_path, *words, "--machine", "nrt.yaml", "pod.json")
        assert (done.status, done.err) == (0, ""), done
        assert f"({container['cpus']})" in " ".join(done.out.split()), done.out
    held = ran(tmp_path, "state", "show", "nrt.yaml").out
    assert "11111111-1111-4111-8111-111111111111" in held
    drawn = ran(tmp_path, "show", "nrt.yaml").out
    assert "gpu5" in drawn
    verified = ran(tmp_path, "state", "verify", "nrt.yaml")
    assert verified.out.splitlines()[-2:] == [
        "nothing found",
        "for Kubernetes 1.36; not compared: --pods not given",
    ]
    found = ran(tmp_path, "discover", "--from", "nrt.yaml", "--machine")
    assert decode_machine(read_documents(found.out, "found")[0]).cpus == node.machine.cpus


def test_the_release_is_the_nodes_own(node: SimulatedNode, tmp_path: Path) -> None:
    """1.37 is the default; what is published says 1.36."""
    written(tmp_path, object_of(node))
    assert "(1.36)" in ran(tmp_path, "plan", "pod", "--machine", "nrt.yaml", "pod.json").out
    assert "(1.34)" in ran(tmp_path, "plan", "pod", "--machine", "nrt.yaml", "--kube", "1.34", "pod.json").out


def test_what_is_named_beside_it_takes_the_place_of_its_part(node: SimulatedNode, tmp_path: Path) -> None:
    written(tmp_path, object_of(node))
    before, _ = decided(tmp_path, "--machine", "nrt.yaml")
    for name, text in state_texts(publication_of(node, "n1")).items():
        (tmp_path / "state").mkdir(exist_ok=True)
        (tmp_path / "state" / name).write_text(text)
    asked, _ = decided(tmp_path, "--machine", "nrt.yaml", "--state", "state")
    assert asked["containers"] == before["containers"], "its own state files say the same"
    config = {**publication_of(node, "n1").config, "topologyManagerPolicy": "best-effort"}
    (tmp_path / "k.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "pod.json").write_text(manifest(cpus=9))
    before, _ = decided(tmp_path, "--machine", "nrt.yaml")
    assert (before["verdict"], before["reason"]) == ("rejected", "TopologyAffinityError")
    after, _ = decided(tmp_path, "--machine", "nrt.yaml", "--kubelet-config", "k.yaml")
    assert after["verdict"] == "admitted"


def test_pods_whose_requests_are_not_known_are_mentioned(node: SimulatedNode, tmp_path: Path) -> None:
    node.keep(type(node.state)(node.state.cpu, node.state.memory, node.state.devices, active={"x": None}))
    written(tmp_path, object_of(node, missing=("the config of the kubelet was not readable",)))
    _, said = decided(tmp_path, "--machine", "nrt.yaml")
    assert "nrt.yaml: the config of the kubelet was not readable" in said
    assert "nrt.yaml: what 1 pod asks for is not published" in said


@pytest.mark.parametrize(("value", "sentence"), [
    pytest.param("v1:0123456789abcdef:AAAA", "numawise.dev/state: cannot be unpacked", id="damaged"),
    pytest.param("v9:0123456789abcdef:AAAA", "numawise.dev/state: is of form v9, and this numawise reads v1", id="newer"),
])  # fmt: skip
def test_what_is_broken_is_no_answer(value: str, sentence: str, node: SimulatedNode, tmp_path: Path) -> None:
    made = object_of(node)
    for one in made["attributes"]:
        if one["name"] == STATE_ATTRIBUTE:
            one["value"] = value
    written(tmp_path, made)
    for words in (("simulate", "--machine"), ("why", "--machine"), ("simulate", "--state")):
        done = ran(tmp_path, *words, "nrt.yaml", "pod.json")
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1), done
        assert sentence in done.err
    checked = json.loads(ran(tmp_path, "check", "nrt.yaml", "-o", "json").out)
    assert [one["code"] for one in checked["findings"]] == ["NW810"]
    made["attributes"] = [one for one in made["attributes"] if "/" not in one["name"]]
    written(tmp_path, made)
    result, said = decided(tmp_path, "--machine", "nrt.yaml")
    assert result["verdict"] == "admitted"
    assert "does not have CPU ids" in said, "without them it is as any exporter's"


def test_nothing_is_wrong_with_what_we_publish(tmp_path: Path) -> None:
    for node in busy_nodes():
        written(tmp_path, object_of(node))
        found = json.loads(ran(tmp_path, "check", "--machine", "nrt.yaml", "-o", "json").out)["findings"]
        codes = {one["code"] for one in found}
        assert codes <= {"NW237"}, "the machine itself has a GPU without a NUMA node"


def test_a_second_exporter_is_noticed(node: SimulatedNode, tmp_path: Path) -> None:
    made = object_of(node)
    made["zones"][1]["resources"][0]["available"] = "5"
    written(tmp_path, made)
    done = ran(tmp_path, "check", "nrt.yaml", "--select", "NW8", "-o", "json")
    (found,) = json.loads(done.out)["findings"]
    assert (found["code"], found["message"]) == ("NW811", "node-1: available is 5 cpu, by the state 8")


def test_a_cluster_of_published_nodes(node: SimulatedNode, tmp_path: Path) -> None:
    """Each is its kubelet now: the one with two GPUs left on one NUMA node takes the pod that needs them."""
    full = static()
    run(full, "first", "a cpu=2 memory=1Gi nvidia.com/gpu=2")
    run(full, "second", "a cpu=2 memory=1Gi nvidia.com/gpu=2")
    written(tmp_path, object_of(full, "full"), object_of(node, "n1"))
    (tmp_path / "pod.json").write_text(manifest(gpus=2))
    done = ran(tmp_path, "simulate", "--nodes", "nrt.yaml", "pod.json", "-o", "json")
    result = json.loads(done.out)
    assert (done.status, done.err) == (0, ""), done
    assert [one["name"] for one in result["nodes"]] == ["full", "n1"]
    assert [one["node"] for one in result["pods"]] == ["n1"]
    assert [one["pods"] for one in result["nodes"]] == [2, 2]
