"""``numawise capacity``: how many more pods the nodes would let in, from every form of a node."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.run import EXAMPLES, ROOT, Ran, numawise, program, refused

EIGHT = EXAMPLES / "8gpu-server"
NODES = ("--nodes", "8gpu-server:2", "--kubelet-config", EIGHT / "kubelet-single-numa-node.yaml")


def pod(folder: Path, name: str, gpus: int, cpu: str = "2") -> Path:
    limits = {"cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}))
    return path


def totals(ran: Ran) -> dict[str, int]:
    return {shape["name"]: shape["total"] for shape in json.loads(ran.out)["shapes"]}


def test_counts_by_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [pod(tmp_path, f"g{gpus}", gpus) for gpus in (1, 2, 3, 4, 5)]
    ran = numawise(capsys, "capacity", *NODES, *pods, "-o", "json")
    assert ran.status == 1
    assert totals(ran) == {"g5": 0, "g4": 4, "g3": 4, "g2": 8, "g1": 16}
    five = json.loads(ran.out)["shapes"][0]["nodes"]
    assert [(node["node"], node["count"], node["reason"]) for node in five] == [
        ("8gpu-server-0", 0, "TopologyAffinityError"),
        ("8gpu-server-1", 0, "TopologyAffinityError"),
    ]


def test_counting_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "capacity", *NODES, "--most", "3", pod(tmp_path, "g1", 1))
    assert ran.status == 0
    assert (
        ran.out.splitlines()[1].split()[-5:]
        == ["6+", "8gpu-server-0", "(3+),", "8gpu-server-1", "(3+)", "-"][1:]
    )


def test_it_is_what_fill_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = pod(tmp_path, "g1", 1, "9")
    node = ("--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet.yaml")
    filled = json.loads(numawise(capsys, "simulate", *node, "--fill", path, "-o", "json").out)["filled"][0]
    words = ("--nodes", f"{EIGHT}/machine.yaml:1", "--kubelet-config", EIGHT / "kubelet.yaml")
    assert totals(numawise(capsys, "capacity", *words, path, "-o", "json")) == {"g1": filled["count"]}


def test_nothing_to_count(capsys: pytest.CaptureFixture[str]) -> None:
    refused(numawise(capsys, "capacity", *NODES), "no pod that runs", "give PODS")


def test_the_page_is_real() -> None:
    page = (ROOT / "docs/how-to/simulate-your-node.md").read_text()
    ((command, output),) = re.findall(
        r"```console\n\$ (numawise capacity (?:[^\n]*\\\n)*[^\n]*\n)(.*?)```", page, re.DOTALL
    )
    ran = program(*shlex.split(command.replace("\\\n", " "))[1:], COLUMNS="100", NO_COLOR="1")
    assert ran.out + ran.err == output
