"""A NodeResourceTopology as the machine: its configuration counts where none is given."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.cli.run import program

POLICY = ("topologyManagerPolicy", "single-numa-node")
SCOPE = ("topologyManagerScope", "pod")
ROWS = (
    {"cpu": "8 6 6", "memory": "16Gi 14Gi 14Gi", "nvidia.com/gpu": "2 2 2"},
    {"cpu": "8 8 8", "memory": "16Gi 16Gi 16Gi", "nvidia.com/gpu": "2 2 2"},
)


def topology(
    attributes: Sequence[tuple[str, str]] = (POLICY, SCOPE),
    rows: Sequence[dict[str, str]] = ROWS,
    **more: object,
) -> dict[str, object]:
    """An object of two NUMA nodes: capacity, allocatable and available of each resource."""
    sizes = ("capacity", "allocatable", "available")
    zones = [
        {
            "name": f"node-{numa}",
            "type": "Node",
            "resources": [
                {"name": name, **dict(zip(sizes, row.split(), strict=True))} for name, row in row_of.items()
            ],
        }
        for numa, row_of in enumerate(rows)
    ]
    listed = [{"name": name, "value": value} for name, value in attributes]
    kind = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    return {**kind, "metadata": {"name": "n1"}, "attributes": listed, "zones": zones, **more}


def pod(cpus: int, gpus: int) -> str:
    limits = {"cpu": str(cpus), "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})


def simulated(folder: Path, *words: str, cpus: int, gpus: int = 1) -> tuple[dict[str, object], str]:
    (folder / "pod.json").write_text(pod(cpus, gpus))
    ran = program("simulate", "--machine", "nrt.yaml", *words, "pod.json", "-o", "json", cwd=folder)
    assert ran.status in (0, 1), ran
    (result,) = json.loads(ran.out)["pods"]
    return result, " ".join(ran.err.split())


@pytest.mark.parametrize(("attributes", "cpus", "gpus", "verdict"), [
    pytest.param((POLICY, SCOPE),                                    6, 2, "admitted", id="fits one NUMA node"),
    pytest.param((POLICY, SCOPE),                                    8, 2, "admitted", id="fits the other, where nothing is reserved"),
    pytest.param((POLICY, SCOPE),                                    9, 2, "rejected", id="fits none"),
    pytest.param((("topologyManagerPolicy", "best-effort"), SCOPE),  9, 2, "admitted", id="another policy"),
])  # fmt: skip
def test_the_published_configuration_decides(
    attributes: Sequence[tuple[str, str]], cpus: int, gpus: int, verdict: str, tmp_path: Path
) -> None:
    (tmp_path / "nrt.yaml").write_text(yaml.safe_dump(topology(attributes)))
    result, said = simulated(tmp_path, cpus=cpus, gpus=gpus)
    assert result["verdict"] == verdict
    assert f"assumed from this NodeResourceTopology: policy {attributes[0][1]} with scope pod" in said
    assert "CPU Manager static with 2 reserved CPUs, Memory Manager Static" in said


def test_why_and_plan_pod_agree(tmp_path: Path) -> None:
    (tmp_path / "nrt.yaml").write_text(yaml.safe_dump(topology()))
    (tmp_path / "pod.json").write_text(pod(9, 1))
    ran = program("why", "--machine", "nrt.yaml", "pod.json", cwd=tmp_path)
    assert ran.status == 1
    assert ran.out.splitlines()[1].startswith("Rejected, never on this machine as configured")
    assert "configuration assumed" in ran.err
    ran = program("plan", "pod", "--machine", "nrt.yaml", "pod.json", cwd=tmp_path)
    assert ran.status == 1
    assert "configuration assumed" in ran.err


def test_a_policy_that_is_not_published_must_be_given(tmp_path: Path) -> None:
    (tmp_path / "nrt.yaml").write_text(yaml.safe_dump(topology(())))
    (tmp_path / "pod.json").write_text(pod(1, 1))
    for command in ("simulate", "why"):
        ran = program(command, "--machine", "nrt.yaml", "pod.json", cwd=tmp_path)
        assert (ran.status, ran.err.count("\n")) == (2, 1), ran
        assert "--kubelet-config: is missing, and nrt.yaml does not have the topology policy" in ran.err


def test_reserved_cpus_of_a_file_are_moved_to_where_the_object_keeps_some(tmp_path: Path) -> None:
    (tmp_path / "nrt.yaml").write_text(yaml.safe_dump(topology()))
    (tmp_path / "k.yaml").write_text(
        "cpuManagerPolicy: static\nreservedSystemCPUs: 0,8\ntopologyManagerPolicy: single-numa-node\n"
    )
    words = ("--kubelet-config", "k.yaml")
    result, said = simulated(tmp_path, *words, cpus=8)
    assert result["verdict"] == "admitted"
    assert "k.yaml: reservedSystemCPUs '0,8' is taken as 0-1" in said
    assert "assumed from" not in said
    (tmp_path / "same.yaml").write_text(
        "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\ntopologyManagerPolicy: single-numa-node\n"
    )
    _, said = simulated(tmp_path, "--kubelet-config", "same.yaml", cpus=8)
    assert "is taken as" not in said


def test_what_only_reads_the_machine_assumes_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "nrt.yaml").write_text(yaml.safe_dump(topology()))
    ran = program("plan", "kubelet", "--machine", "nrt.yaml", cwd=tmp_path)
    assert ran.status == 0
    assert "configuration assumed" not in ran.err


@pytest.mark.parametrize(("gpus", "answer"), [
    (2, "Rejected, not now (pods that are not known hold 2 nvidia.com/gpu): "),
    (3, "Rejected, never on this machine as configured, even idle: "),
])  # fmt: skip
def test_what_is_in_use_by_nobody_that_is_known_may_become_free(
    tmp_path: Path, gpus: int, answer: str
) -> None:
    rows = [row | {"nvidia.com/gpu": "2 2 1"} for row in ROWS]
    (tmp_path / "nrt.yaml").write_text(yaml.safe_dump(topology(rows=rows)))
    (tmp_path / "pod.json").write_text(pod(1, gpus))
    ran = program(
        "why", "--machine", "nrt.yaml", "--state", "nrt.yaml", "pod.json", "-o", "json", cwd=tmp_path
    )
    (explained,) = json.loads(ran.out)["pods"]
    assert explained["answer"].startswith(answer)
    assert explained["heldBy"] == []
