"""The public API where it differs from the tutorial: values instead of files, the same pod twice, odd orders."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import numawise as nw

EIGHT = Path(__file__).parents[2] / "examples" / "8gpu-server"
POD = EIGHT / "pods" / "05-affinity-check.yaml"
CONTAINER = "cuda-container"


@pytest.fixture
def node() -> nw.Node:
    return nw.Node("8gpu-server", EIGHT / "kubelet.yaml")


def test_machine_is_a_function_whatever_was_imported_before() -> None:
    code = (
        "import numawise as nw, numawise.machine.model; nw.Node; print(nw.machine('small-vm').hardware.name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "small-vm\n"


def test_the_same_manifest_twice_is_two_pods(node: nw.Node) -> None:
    first, second = node.admit(POD), node.admit(POD)
    assert first.uid != second.uid
    assert not set(first.containers[CONTAINER].cpus) & set(second.containers[CONTAINER].cpus)
    together = nw.simulate([POD, POD], "8gpu-server", EIGHT / "kubelet.yaml")
    assert [pod.uid for pod in together] == [first.uid, second.uid]


def test_what_is_asked_changes_nothing(node: nw.Node) -> None:
    before = node.state_files()
    assert node.fill(POD).count > 1
    assert node.explain(POD).admitted
    assert node.state_files() == before
    assert str(node.admit(POD).containers[CONTAINER].cpus) == "2-3,66-67"


@pytest.mark.parametrize("form", ["path", "mapping", "input"])
def test_a_configuration_may_be_a_value(form: str) -> None:
    bad = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "bad",
    }
    path = EIGHT / "kubelet-refused.yaml"
    config = {"path": path, "mapping": bad, "input": nw.kubelet_config(path)}[form]
    assert nw.check(machine="8gpu-server", config=config).errors
    with pytest.raises(nw.KubeletRefused):
        nw.Node("8gpu-server", config)


def test_flags_are_laid_over_a_value() -> None:
    config = nw.kubelet_config({"topologyManagerPolicy": "restricted"})
    over = nw.kubelet_config(config, flags="--topology-manager-policy=single-numa-node")
    assert over.raw((1, 36))["topologyManagerPolicy"] == "single-numa-node"
    with pytest.raises(nw.KubeletRefused):
        nw.Node("8gpu-server", config, flags="--cpu-manager-policy=static")


def test_a_restart_may_find_state_files_deleted(node: nw.Node) -> None:
    other = EIGHT / "kubelet-single-numa-node.yaml"
    node.admit(POD)
    with pytest.raises(nw.KubeletRefused):
        node.restart(other)
    assert [pod.admitted for pod in node.restart(other, delete=node.state_files())] == [True]


def test_pods_are_removed_by_any_of_their_names(node: nw.Node) -> None:
    for name in ("numa-affinity-test", "default/numa-affinity-test#2", "default/numa-affinity-test"):
        uid = node.admit(POD).uid
        node.remove(uid if "#" in name else name)
    with pytest.raises(nw.InputError, match="is not a pod of this node"):
        node.remove("numa-affinity-test")


def test_results_as_json(node: nw.Node) -> None:
    filled = json.loads(nw.to_json(node.fill(POD, most=2)))
    assert (filled["kind"], filled["count"], len(filled["copies"])) == ("Filled", 2, 2)
    assert filled["places"] == [{"numa": [0], "count": 2}]
    assert filled["stopped"]["by"] == "limit"
    assert json.loads(nw.to_json(nw.machine("small-vm")))["kind"] == "Hardware"
