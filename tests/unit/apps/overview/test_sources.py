"""Where a cluster on the page comes from."""

import json
from pathlib import Path

import pytest

from numawise.apps.overview.board import ClusterBoard
from numawise.apps.overview.example import example_objects
from numawise.apps.overview.sources import SourceCluster, cluster_of_files, dumped
from numawise.errors import InputError
from numawise.inputs.spec import NodeSpec
from numawise.results.cluster_board import ClusterBoardForm


def shown(source: SourceCluster) -> ClusterBoardForm:
    return ClusterBoard(source.view, source.clock, given=source.given).answer(source.source)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.json"
    items = [value for _, value in example_objects(1_800_000_000.0)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return path


def test_a_dump(dump: Path) -> None:
    for source in (
        cluster_of_files([str(dump)], NodeSpec(), "dump.json"),
        dumped([str(dump)], "dump.json", "1"),
    ):
        form = shown(source)
        assert (form.source.kind, form.source.name, len(form.rows)) == ("files", "dump.json", 26)
        assert len(source.pods()) > form.waiting > 0


def test_equal_machines(tmp_path: Path) -> None:
    config = tmp_path / "kubelet.yaml"
    config.write_text("topologyManagerPolicy: restricted\n", encoding="utf-8")
    spec = NodeSpec(kubelet_config=(str(config),))
    source = cluster_of_files(["dgx-h100:3", "xeon-2s:2"], spec, "nodes")
    form = shown(source)
    assert form.names == ("dgx-h100-0", "dgx-h100-1", "dgx-h100-2", "xeon-2s-0", "xeon-2s-1")
    assert {row.known for row in form.rows} == {"given"}
    assert form.rows[0].whole[form.resources.index("nvidia.com/gpu")] == 8


def test_files_that_are_no_dump(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("kind: Pod\nmetadata: {name: a}\n", encoding="utf-8")
    with pytest.raises(InputError, match="no dump of a cluster") as problem:
        dumped([str(path)], "pod.yaml", "1")
    assert "kubectl get nodes,pods,noderesourcetopologies" in problem.value.advice


@pytest.mark.parametrize("kind", ["Node", "NodeResourceTopology"])
@pytest.mark.parametrize(("name", "words"), [
    ("<b>x</b>", "the name '<b>x</b>', which no node can have"),
    ("a%2Fb",    "the name 'a%2Fb', which no node can have"),
    ("..",       "which no node can have"),
    ([7],        "which no node can have"),
    ("",         "has no name"),
    (None,       "has no name"),
])  # fmt: skip
def test_names_that_nobody_could_ask_about(kind: str, name: object, words: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [{"kind": kind, "metadata": {"name": name}}]}))
    with pytest.raises(InputError) as problem:
        dumped([str(path)], "dump.json", "1")
    assert (problem.value.file, problem.value.field) == (str(path), "metadata.name")
    assert problem.value.message.startswith(f"a {kind} has")
    assert words in problem.value.message


def test_a_pod_on_a_node_that_nobody_could_ask_about(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    node = {"kind": "Node", "metadata": {"name": "a"}}
    pods = [
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": name}} for name in ("", "a", "a/b")
    ]
    path.write_text(json.dumps({"kind": "List", "items": [node, *pods[:2]]}))
    assert dumped([str(path)], "dump.json", "1").size == 3
    path.write_text(json.dumps({"kind": "List", "items": [node, *pods]}))
    with pytest.raises(InputError, match="a Pod is on a node with the name 'a/b', which no node can have"):
        dumped([str(path)], "dump.json", "1")
