"""``numawise nodes`` without a cluster: nodes of files in one table."""

import json
from pathlib import Path

import pytest

from numawise.cluster.asking import Asker
from numawise.cluster.node_rooms import in_name_order
from numawise.inputs.live import TOPOLOGY
from numawise.inputs.spec import NodeSpec, read_node, start_node
from numawise.render.nodes import per_numa, shape_titles
from numawise.results.cluster import PodShape
from numawise.results.node_room import NodesReport
from tests.cli.run import EXAMPLES, numawise, program, refused
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import GPU, gpu_pod, kubelet, members_of, put

EIGHT = EXAMPLES / "8gpu-server"
NODES = ("--nodes", "8gpu-server:2", "--kubelet-config", EIGHT / "kubelet-single-numa-node.yaml")


def dumped(folder: Path, *loads: tuple[int, ...]) -> Path:
    """A list of NodeResourceTopologies as kubectl prints it; pods of so many GPUs on each node."""
    items = []
    for number, load in enumerate(loads):
        members = members_of([([f"n{number}"], kubelet())])
        for at, gpus in enumerate(load):
            put(Asker(members), members[0], gpu_pod(f"p{number}-{at}", gpus))
        items.append(published(members[0].node, f"n{number}"))
    path = folder / "nodes.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def test_idle_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "nodes", *NODES)
    assert ran.status == 0
    assert ran.out.splitlines()[1].split() == [
        "8gpu-server-0", "62|64", "any", "1023", "4|4", "-", "-", "given",
    ]  # fmt: skip
    assert "no pods are known here" in ran.out
    assert "policy single-numa-node/pod" in ran.out


def test_a_dump_with_and_without_the_objects_of_its_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three nodes that published one is there still; of published objects alone nobody can know."""
    dump = dumped(tmp_path, (1,), (), ())
    (pod := tmp_path / "p.json").write_text(json.dumps({"kind": "Pod", **api_pod("p", 2)}))
    for words, count in (("nodes",), 3), (("capacity", "-q", pod), 11):
        ran = numawise(capsys, words[0], "--nodes", dump, *words[1:], "-o", "json")
        listed = json.loads(ran.out)
        assert (len(listed["nodes"]) if "nodes" in listed else listed["shapes"][0]["total"]) == count
    assert ran.err == "numawise: nodes were not read: what is published may be of nodes that are gone\n"
    value = json.loads(dump.read_text())
    value["items"] = [
        {"kind": "Node", **api_node("n0")},
        *({"kind": TOPOLOGY, **one} for one in value["items"]),
    ]
    dump.write_text(json.dumps(value))
    for words, count in (("nodes",), 1), (("capacity", "-q", pod), 3):
        ran = numawise(capsys, words[0], "--nodes", dump, *words[1:], "-o", "json")
        listed = json.loads(ran.out)
        assert (len(listed["nodes"]) if "nodes" in listed else listed["shapes"][0]["total"]) == count
    assert ran.err == "numawise: published of nodes without a Node object, and not counted: n1, n2\n"


def test_a_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "nodes", "--nodes", dumped(tmp_path, (4, 1), (2, 1, 2)), "-o", "json")
    first, second = json.loads(ran.out)["nodes"]
    assert [numa["free"][GPU] for numa in first["numa"]] == [0, 3]
    assert (first["largest"], first["fits"], first["places"]) == (
        "4 gpu, 1 cpu, 1Gi",
        "2 gpu, 1 cpu, 1Gi",
        1,
    )
    assert (first["unit"], first["holes"]) == (GPU, 3)
    assert [numa["free"][GPU] for numa in second["numa"]] == [1, 2]
    assert second["holes"] == 3
    assert first["free"][GPU] == 3
    assert first["pods"] == 2


def test_a_dump_of_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With Node and Pod objects: what was bound since counts, and labels choose."""
    path = dumped(tmp_path, (4,), ())
    items = json.loads(path.read_text())["items"]
    items += [{"kind": "Node", **api_node(name)} for name in ("n0", "n1", "n2")]
    items += [{"kind": "Pod", **api_pod("late", 4, "n1")}, {"kind": "Pod", **api_pod("waits", 4)}]
    items[2]["metadata"]["labels"]["pool"] = "a"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    nodes = json.loads(numawise(capsys, "nodes", "--nodes", path, "-o", "json").out)["nodes"]
    assert [(node["name"], node["known"], node["free"].get(GPU)) for node in nodes] == [
        ("n0", "exact", 4),
        ("n1", "exact", 4),
        ("n2", "unknown", None),
    ]
    (node,) = json.loads(numawise(capsys, "nodes", "--nodes", path, "-l", "pool=a", "-o", "json").out)[
        "nodes"
    ]
    assert node["name"] == "n0"
    ran = numawise(capsys, "capacity", "--nodes", path, "-o", "json")
    (shape,) = json.loads(ran.out)["shapes"]
    assert {one["node"]: one["count"] for one in shape["nodes"]} == {"n0": 1, "n1": 1, "n2": 0}


def test_a_dump_in_parts_and_one_without_what_agents_publish(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published, nodes, pods = dumped(tmp_path, ()), tmp_path / "described.json", tmp_path / "pods.json"
    away = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    nodes.write_text(
        json.dumps({"kind": "NodeList", "items": [{**api_node("n0"), "spec": {"taints": [away]}}]})
    )
    pods.write_text(json.dumps({"kind": "PodList", "items": []}))
    parts = [word for path in (nodes, pods, published) for word in ("--nodes", path)]
    for words, known in ((parts[:4], "unknown"), (parts, "exact")):
        (node,) = json.loads(numawise(capsys, "nodes", *words, "-o", "json").out)["nodes"]
        assert node["known"] == known
        assert "it is not ready" in node["notes"]


def test_numa_nodes_stand_by_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects list their zones by name, node-10 before node-2."""
    settings = {
        "topologyManagerPolicy": "best-effort",
        "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "12"},
    }
    node = start_node(read_node(NodeSpec(machine=("6s 12n 24c",), kubelet_config=settings)))
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"kind": "List", "items": [published(node, "wide")]}))
    (wide,) = json.loads(numawise(capsys, "nodes", "--nodes", path, "-o", "json").out)["nodes"]
    assert [one["numa"] for one in wide["numa"]] == list(range(12))


def test_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = dumped(tmp_path, (), (4,))
    ran = numawise(capsys, "nodes", "n1", "--nodes", path)
    assert [line.split()[0] for line in ran.out.partition("\n\n")[0].splitlines()] == ["NODE", "n1"]
    refused(numawise(capsys, "nodes", "n7", "--nodes", path), "there is no node 'n7'")
    refused(numawise(capsys, "nodes", *NODES, "-l", "a=b"), "--selector is for nodes of a cluster")
    refused(numawise(capsys, "nodes", "--nodes", path, "--context", "a"), "is for a cluster")


def test_it_fits_a_narrow_terminal() -> None:
    ran = program("nodes", *map(str, NODES), COLUMNS="80")
    assert ran.status == 0
    assert all(len(line) <= 80 for line in ran.out.partition("\n\n")[0].splitlines())


def test_order_and_many_numa_nodes() -> None:
    assert in_name_order(["n10", "n2", "a", "n2b"]) == ["a", "n2", "n2b", "n10"]
    assert per_numa([30, 12]) == "30|12"
    assert per_numa([14, 14, 14, 14, 12, 0, 0, 0]) == "4x14|12|3x0"


@pytest.mark.parametrize(("names", "titles"), [
    (["4 gpu, 8 cpu", "2 gpu, 8 cpu"],               ["4 gpu", "2 gpu"]),
    (["4 gpu, 8 cpu", "4 gpu, 9 cpu", "8 cpu"],      ["4 gpu, 8 cpu", "4 gpu, 9 cpu", "8 cpu"]),
    (["4 gpu", "4 gpu, 8 cpu"],                      ["4 gpu", "4 gpu, 8 cpu"]),
    (["14 gpu, 1 cpu", "1 gpu, 1 cpu"],              ["14 gpu", "1 gpu"]),
])  # fmt: skip
def test_titles_of_shapes(names: list[str], titles: list[str]) -> None:
    report = NodesReport((), tuple(PodShape(name) for name in names))
    assert list(shape_titles(report).values()) == titles
