"""What files are that are named without saying so: above all a node as it publishes itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise.inputs.recognise import recognised
from numawise.inputs.spec import NodeSpec, read_node
from tests.cli.test_published import pod, topology

POD = pod(2, 1)
NODE = json.dumps(topology())
LIST = json.dumps({"apiVersion": "v1", "kind": "List", "items": [topology()]})
BOTH = json.dumps({"apiVersion": "v1", "kind": "List", "items": [topology(), json.loads(POD)]})


def sorted_out(folder: Path, files: dict[str, str], **spec: Any) -> Any:
    for name, text in files.items():
        (folder / name).write_text(text)
    return recognised(NodeSpec(**spec), [str(folder / name) for name in files])


def names(files: tuple[str, ...]) -> list[str]:
    return [Path(file).name for file in files]


@pytest.mark.parametrize(("files", "published", "pods"), [
    pytest.param({"n.json": NODE},                                ["n.json"], [],         id="an object"),
    pytest.param({"n.json": LIST},                                ["n.json"], [],         id="a list of them"),
    pytest.param({"n.yaml": f"{NODE}\n---\n{NODE}\n"},            ["n.yaml"], [],         id="two documents"),
    pytest.param({"p.json": POD, "n.json": NODE},                 ["n.json"], ["p.json"], id="beside a pod"),
    pytest.param({"b.json": BOTH},                                [],         ["b.json"], id="in a list with pods"),
    pytest.param({"b.yaml": f"{NODE}\n---\n{POD}\n"},             [],         ["b.yaml"], id="in a file with pods"),
])  # fmt: skip
def test_a_node_as_it_publishes_itself(
    files: dict[str, str], published: list[str], pods: list[str], tmp_path: Path
) -> None:
    found = sorted_out(tmp_path, files)
    assert (names(found.published), names(found.pods)) == (published, pods)
    assert names(found.objects) == list(files), "in the order in which they were named"
    assert names(found.node.machine) == published
    assert found.spec == NodeSpec(), "whoever judges them one by one has no machine yet"


def test_it_is_a_whole_node(tmp_path: Path) -> None:
    node = read_node(sorted_out(tmp_path, {"n.json": NODE}).node)
    assert (node.name, node.config.topology_manager_policy) == ("n1", "single-numa-node")
    assert len(node.machine.numa) == 2


def test_it_says_more_than_a_machine_that_was_named(tmp_path: Path) -> None:
    found = sorted_out(tmp_path, {"n.json": NODE}, machine=("dgx-h100",))
    assert found.spec.machine == ("dgx-h100",)
    assert names(found.node.machine) == ["n.json"]


def test_what_kubeadm_has_beside_a_configuration_makes_no_pods() -> None:
    file = str(Path(__file__).parents[3] / "examples" / "platforms" / "kubeadm.yaml")
    found = recognised(NodeSpec(), [file])
    assert (found.spec.kubelet_config, found.pods) == ((file,), ())
