"""``numawise nodes`` on a cluster: every node in one table, whatever is known of it and whatever may be seen."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run import Ran, numawise, refused
from tests.cli.test_published import topology
from tests.kube.server import State
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import GPU, kubelet

Ask = Callable[..., Ran]


@pytest.fixture
def state() -> State:
    """Two nodes whose agents publish, n1 half full with a hole; one of another exporter; one that is silent."""
    names = ("n1", "n2", "n10", "foreign", "silent")
    state = State(nodes={name: api_node(name) for name in names})
    state.nodes["n2"]["metadata"]["labels"] = {"pool": "gpu"}
    state.pods = [
        api_pod("large", 4, "n1"),
        api_pod("small", 1, "n1"),
        api_pod("waits", 4),
    ]
    state.nodes["silent"]["status"]["allocatable"] = {"cpu": "8", "memory": "16Gi", GPU: "4", "pods": "110"}
    state.nodes["foreign"]["status"]["allocatable"] = {"cpu": "14", "memory": "30Gi", GPU: "1", "pods": "110"}
    for name in ("n1", "n2", "n10"):
        state.put_topology(published(kubelet(), name))
    state.put_topology({**topology(), "metadata": {"name": "foreign"}})
    return state


@pytest.fixture
def ask(asking: Callable[[str], Ask]) -> Ask:
    return asking("nodes")


def test_what_is_published_of_a_node_that_is_gone_is_no_row(ask: Ask, state: State) -> None:
    for name in ("gone-1", "gone-2"):
        state.put_topology(published(kubelet(), name))
    state.pods.append(api_pod("left", 4, "gone-1"))
    ran = ask()
    assert "gone" not in ran.out
    assert "5 nodes: 3 exact" in ran.out
    assert ran.err.splitlines() == [
        "numawise: published of nodes without a Node object, and not counted: gone-1, gone-2",
        "numawise: a pod is bound to nodes without a Node object, and not counted: gone-1",
    ]
    state.forbidden = {"/nodes"}
    ran = ask()
    assert "gone-1" in ran.out  # nobody knows whether it is
    assert "nor which nodes are gone" in ran.err


def test_table(ask: Ask) -> None:
    ran = ask()
    assert (ran.status, ran.err) == (0, "")
    table, _, below = ran.out.partition("\n\n")
    assert [" ".join(line.split()) for line in table.splitlines()] == [
        "NODE CPUS GIB DEVICES HOLES FITS KNOWN",
        "foreign 6|8 14|16 nvidia.com/gpu 2|2, x/gpu any 1 - 1 gpu (1+) conservative",
        "n1 6|6 any 29 x/gpu 0|3 3 gpu 1 gpu (3) exact",
        "n2 7|7 any 31 x/gpu 4|4 0 4 gpu (2) exact",
        "n10 7|7 any 31 x/gpu 4|4 0 4 gpu (2) exact",
        "silent any 8 any 16 x/gpu any 4 - - unknown",
    ]
    assert "5 nodes: 3 exact, 1 conservative, 1 unknown; 3 of 19 free GPUs are of no use" in below
    assert "; policy single-numa-node/pod\n" in below
    assert "silent: nothing is published about this node" in below
    assert "shapes: 4 gpu, 1 cpu, 1Gi; 1 gpu, 1 cpu, 1Gi" in below
    assert "single-numa-node/pod" in ask("-o", "wide").out.splitlines()[1]


def test_policies_that_differ_have_a_column(ask: Ask, state: State) -> None:
    other = kubelet(topologyManagerPolicy="restricted", topologyManagerScope="container")
    state.put_topology(published(other, "n2"))
    lines = ask().out.splitlines()
    assert lines[0].split()[:2] == ["NODE", "POLICY"]
    assert {line.split()[1] for line in lines[1:6]} == {"single-numa-node/pod", "restricted", "-"}


def test_names_and_labels(ask: Ask) -> None:
    ran = ask("n10", "n1", "n10", "-o", "json")
    assert [node["name"] for node in json.loads(ran.out)["nodes"]] == ["n10", "n1"]
    ran = ask("-l", "pool=gpu", "-o", "json")
    assert [node["name"] for node in json.loads(ran.out)["nodes"]] == ["n2"]
    assert ask("-l", "pool in (none)").out == "There are no nodes.\n"
    refused(ask("n11"), "there is no node 'n11'", "did you mean n1")
    refused(ask("-l", "pool>3"), "not a label selector", "pool=gpu")
    refused(ask("--kubelet-config", "x"), "go with --nodes")


def test_values(ask: Ask, state: State) -> None:
    state.nodes["n1"]["spec"] = {"unschedulable": True}
    data = json.loads(ask("n1", "-o", "json").out)
    (node,) = data["nodes"]
    assert data["kind"] == "Nodes"
    assert [shape["name"] for shape in data["shapes"]] == ["4 gpu, 1 cpu, 1Gi", "1 gpu, 1 cpu, 1Gi"]
    assert node["numa"][1]["free"] == {"cpu": 6, GPU: 3}
    assert (node["largest"], node["fits"], node["places"]) == ("", "", 0)
    assert "it is cordoned" in node["notes"]
    assert "cordoned" in ask("-o", "wide").out


def test_stale(ask: Ask, state: State) -> None:
    state.nodes["n2"]["status"]["nodeInfo"]["kubeletVersion"] = "v1.36.0"
    data = json.loads(ask("n2", "-o", "json").out)
    assert data["nodes"][0]["known"] == "stale"


@pytest.mark.parametrize(("forbidden", "says"), [
    ("/nodes",                 "labels, taints and nodes that publish nothing are not known"),
    ("/pods",                  "pods that a node does not publish yet are not counted"),
    ("noderesourcetopologies", "what nodes publish is not known"),
])  # fmt: skip
def test_what_may_not_be_seen_is_said(ask: Ask, state: State, forbidden: str, says: str) -> None:
    state.forbidden = {forbidden}
    ran = ask()
    assert ran.status == 0
    assert says in ran.err
    assert "n10" in ran.out
    assert "n10" in ask("-o", "json").out


def failed(ran: Ran, *words: str) -> None:
    """The cluster cannot be asked: one sentence."""
    assert (ran.status, ran.out) == (5, "")
    (line,) = ran.err.splitlines()
    assert all(word in line for word in words), line


def test_nothing_may_be_seen(ask: Ask, state: State) -> None:
    state.forbidden = {"/"}
    failed(ask(), "you may not list nodes (403)", "ask for that right")


def test_labels_that_may_not_be_seen(ask: Ask, state: State) -> None:
    state.forbidden = {"/nodes"}
    failed(ask("-l", "pool=gpu"), "labels of nodes are not known")


def test_an_empty_cluster(ask: Ask, state: State) -> None:
    state.nodes, state.pods, state.topologies = {}, [], {}
    ran = ask()
    assert (ran.status, ran.out) == (0, "There are no nodes.\n")
    assert json.loads(ask("-o", "json").out)["nodes"] == []


def test_no_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    failed(numawise(capsys, "nodes"), "no cluster is known here")
