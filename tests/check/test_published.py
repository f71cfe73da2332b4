"""NodeResourceTopologies: what is found in them, whatever else is given."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.run import program
from tests.cli.test_published import POLICY, pod, topology


def changed(**fields: object) -> dict[str, Any]:
    """The good object with some fields of its second zone's first resource, cpu, replaced."""
    value: dict[str, Any] = topology()
    value["zones"][1]["resources"][0] |= fields
    return value


def codes(folder: Path, *words: str) -> list[str]:
    ran = program("check", *words, "-o", "json", cwd=folder)
    assert ran.status in (0, 1), ran
    return sorted({one["code"] for one in json.loads(ran.out)["findings"] if one["code"].startswith("NW8")})


def written(folder: Path, value: object) -> str:
    (folder / "nrt.yaml").write_text(yaml.safe_dump(value, sort_keys=False))
    return "nrt.yaml"


@pytest.mark.parametrize(("value", "expected"), [
    pytest.param(topology(),                                                      [],        id="good"),
    pytest.param(changed(capacity="-8"),                                          ["NW802"], id="below zero"),
    pytest.param(changed(capacity="eight"),                                       ["NW802"], id="not a quantity"),
    pytest.param(changed(available=None),                                         ["NW802"], id="missing"),
    pytest.param(changed(available="8500m"),                                      ["NW803"], id="half a CPU too many"),
    pytest.param(changed(allocatable="9"),                                        ["NW803"], id="more than there is"),
    pytest.param(topology(zones=[]),                                              ["NW801"], id="no zones"),
    pytest.param(topology(zones="node-0"),                                        ["NW801"], id="not a list"),
    pytest.param(topology(()),                                                    ["NW806"], id="no policy"),
    pytest.param(topology((("topologyManagerPolicy", "strict"),)),                ["NW806"], id="unknown policy"),
    pytest.param(topology((), topologyPolicies=["SingleNUMANodePodLevel"]),       ["NW807"], id="the old field"),
    pytest.param(topology(topologyPolicies=["SingleNUMANodePodLevel"]),           [],        id="both agree"),
    pytest.param(topology((POLICY,), topologyPolicies=["Restricted"]),            ["NW807"], id="both differ"),
])  # fmt: skip
def test_an_object_by_itself(value: object, expected: Sequence[str], tmp_path: Path) -> None:
    assert codes(tmp_path, written(tmp_path, value)) == expected


@pytest.mark.parametrize(("rows", "expected"), [
    pytest.param(((10, 21), (21, 10)), [],        id="good"),
    pytest.param(((10, 21), ()),       ["NW808"], id="a row is missing"),
    pytest.param(((10, 21), (21,)),    ["NW808"], id="a row is short"),
    pytest.param(((10, 21), (10, 21)), ["NW808"], id="nearer to another"),
    pytest.param(((10, 21, 21), (21, 10)), ["NW808"], id="a zone that is not there"),
])  # fmt: skip
def test_distances(rows: Sequence[Sequence[int]], expected: Sequence[str], tmp_path: Path) -> None:
    value: dict[str, Any] = topology()
    for zone, row in zip(value["zones"], rows, strict=True):
        zone["costs"] = [{"name": f"node-{numa}", "value": cost} for numa, cost in enumerate(row)]
    assert codes(tmp_path, written(tmp_path, value)) == expected


def test_zones_without_the_gpus_of_the_node(tmp_path: Path) -> None:
    value: dict[str, Any] = topology()
    for zone in value["zones"]:
        del zone["resources"][1:]
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    node["status"] = {"allocatable": {"cpu": "14", "memory": "30Gi", "nvidia.com/gpu": "8"}}
    (tmp_path / "node.yaml").write_text(yaml.safe_dump(node))
    ran = program("check", written(tmp_path, value), "node.yaml", cwd=tmp_path)
    assert "the node has 8 of nvidia.com/gpu, and no zone has it" in " ".join(ran.out.split())
    node["metadata"]["name"] = "n2"
    (tmp_path / "node.yaml").write_text(yaml.safe_dump(node))
    assert codes(tmp_path, "nrt.yaml", "--node-object", "node.yaml", "--node-name", "n2") == []


@pytest.mark.parametrize(("policy", "scope", "expected"), [
    ("single-numa-node", "pod",       []),
    ("single-numa-node", "container", ["NW809"]),
    ("restricted",       "pod",       ["NW809"]),
])  # fmt: skip
def test_beside_a_configuration(policy: str, scope: str, expected: Sequence[str], tmp_path: Path) -> None:
    kubelet = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    kubelet |= {"topologyManagerPolicy": policy, "topologyManagerScope": scope}
    (tmp_path / "kubelet.yaml").write_text(yaml.safe_dump(kubelet))
    assert codes(tmp_path, written(tmp_path, topology()), "kubelet.yaml") == expected


def test_every_object_of_a_list(tmp_path: Path) -> None:
    second = {**topology(()), "metadata": {"name": "n2"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [topology(), second]}
    assert codes(tmp_path, written(tmp_path, listed)) == ["NW806"]
    ran = program("check", "-", stdin=yaml.safe_dump(listed))
    assert "NW806" in ran.out
    assert "NW403" not in ran.out


def test_several_files_are_each_judged(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(topology((), metadata={"name": "n2"})))
    ran = program("check", written(tmp_path, topology()), "b.yaml", cwd=tmp_path)
    assert ran.status == 0, ran
    assert "NW806" in ran.out
    assert "2 nodes are published" in ran.out
    assert (
        "2 nodes are published"
        not in program("check", "nrt.yaml", "b.yaml", "--node-name", "n2", cwd=tmp_path).out
    )


def test_another_machine_is_taken_and_the_object_judged(tmp_path: Path) -> None:
    assert codes(tmp_path, "--machine", "dgx-h100", written(tmp_path, topology(()))) == ["NW806"]


def test_reserved_cpus_are_where_the_object_keeps_them(tmp_path: Path) -> None:
    kubelet = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    kubelet |= {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"}
    kubelet |= {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,8"}
    (tmp_path / "kubelet.yaml").write_text(yaml.safe_dump(kubelet))
    (tmp_path / "pod.json").write_text(pod(8, 1))
    words = (written(tmp_path, topology()), "kubelet.yaml", "pod.json")
    ran = program("check", *words, cwd=tmp_path)
    assert "NW420" not in ran.out
    assert "reservedSystemCPUs '0,8' is taken as 0-1" in " ".join(ran.err.split())
    (tmp_path / "pod.json").write_text(pod(9, 1))
    ran = program("check", *words, cwd=tmp_path)
    assert ran.status == 1, ran
    assert "NW420" in ran.out
