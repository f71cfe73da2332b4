"""``numawise capacity`` on a cluster: the same as of a dump of it, with what was bound since."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run import Ran, numawise, refused
from tests.kube.server import State
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import GPU, kubelet

Ask = Callable[..., Ran]


@pytest.fixture
def state() -> State:
    state = State(nodes={name: api_node(name) for name in ("n1", "n2")})
    state.pods = [api_pod("a", 4, "n1"), api_pod("b", 1, "n1"), api_pod("waits", 2)]
    for name in state.nodes:
        state.put_topology(published(kubelet(), name))
    return state


@pytest.fixture
def ask(asking: Callable[[str], Ask]) -> Ask:
    return asking("capacity")


def totals(ran: Ran) -> dict[str, int]:
    return {shape["name"]: shape["total"] for shape in json.loads(ran.out)["shapes"]}


def shape(folder: Path, gpus: int) -> Path:
    path = folder / f"g{gpus}.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **api_pod(f"g{gpus}", gpus)}))
    return path


def test_learned_shapes(ask: Ask) -> None:
    ran = ask("-o", "json")
    assert ran.status == 0, ran
    assert totals(ran) == {"4 gpu, 1 cpu, 1Gi": 2, "2 gpu, 1 cpu, 1Gi": 5, "1 gpu, 1 cpu, 1Gi": 11}
    assert json.loads(ran.out)["learned"]
    assert "3 shapes of pods that run on 2 nodes" in ask().out


def test_given_shapes(ask: Ask, tmp_path: Path) -> None:
    ran = ask(shape(tmp_path, 3), shape(tmp_path, 5), "-o", "json")
    assert ran.status == 1
    assert totals(ran) == {"g5": 0, "g3": 3}


def test_it_is_what_a_dump_says(
    ask: Ask, state: State, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was bound since it was published."""
    state.pods = []
    dump = tmp_path / "nodes.json"
    dump.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": list(state.topologies.values())})
    )
    shapes = [shape(tmp_path, gpus) for gpus in (1, 2, 3, 4)]
    offline = json.loads(numawise(capsys, "capacity", "--nodes", dump, *shapes, "-o", "json").out)
    assert json.loads(ask(*shapes, "-o", "json").out) == offline


def test_places_are_not_counted_on_nodes_that_are_gone(ask: Ask, state: State, tmp_path: Path) -> None:
    words = (shape(tmp_path, 2), "-o", "json")
    (before,) = json.loads(ask(*words).out)["shapes"]
    for name in ("gone-1", "gone-2"):
        state.put_topology(published(kubelet(), name))
    ran = ask(*words)
    assert json.loads(ran.out)["shapes"] == [before]
    assert ran.err == "numawise: published of nodes without a Node object, and not counted: gone-1, gone-2\n"


def test_nodes_that_are_not_known(ask: Ask, state: State, tmp_path: Path) -> None:
    for name in ("silent", "none"):
        state.nodes[name] = api_node(name)
        state.nodes[name]["status"]["allocatable"] = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    state.nodes["silent"]["status"]["allocatable"][GPU] = "8"
    (places,) = json.loads(ask(shape(tmp_path, 4), "-o", "json").out)["shapes"]
    reasons = {node["node"]: node["reason"] for node in places["nodes"] if not node["count"]}
    assert reasons.pop("n1") == "TopologyAffinityError"
    assert reasons == {"silent": "nothing is published about this node", "none": f"OutOf{GPU}"}


def test_rights_and_words(ask: Ask, state: State, capsys: pytest.CaptureFixture[str]) -> None:
    refused(ask("--nodes", "dgx-h100:2"), "are for a cluster", "leave one out")
    refused(ask("--kubelet-config", "x"), "go with --nodes")
    state.forbidden = {"/pods"}
    refused(numawise(capsys, "capacity", "--nodes", "nope.json"), "nope.json")
    ran = ask()
    assert ran.status == 2
    assert "shapes are not learned" in ran.err
    assert "give PODS" in ran.err


def test_no_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    ran = numawise(capsys, "capacity")
    assert (ran.status, ran.out) == (5, "")
    assert "no cluster is known here" in ran.err
    assert "--nodes" in ran.err
