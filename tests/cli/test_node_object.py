"""``--node-object``: labels, taints, conditions and amounts of a node, in every command that takes one."""

import json
from pathlib import Path

import pytest

import numawise as nw
from tests.cli.run import numawise

MACHINE = ["--machine", "2s 2n 16c", "--kubelet-flags", "--cpu-manager-policy=static --reserved-cpus=0"]
NODE = """\
kind: Node
metadata: {name: n7, labels: {kubernetes.io/os: linux, zone: a}}
spec: {taints: [{key: gpu, value: h100, effect: NoExecute}]}
status: {allocatable: {ephemeral-storage: 10Gi}}
"""
TOLERANT = "tolerations: [{key: gpu, operator: Exists}]"


def pod(name: str, *spec: str, asks: str = "cpu: 1") -> str:
    lines = "".join(f"  {line}\n" for line in spec)
    container = f"{{name: c, resources: {{requests: {{{asks}}}}}}}"
    return f"kind: Pod\nmetadata: {{name: {name}}}\nspec:\n{lines}  containers: [{container}]\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "pods.yaml").write_text(
        "---\n".join(
            [
                pod("west", "nodeSelector: {zone: b}", TOLERANT),
                pod("shy"),
                pod("big", TOLERANT, asks="cpu: 10, ephemeral-storage: 20Gi"),
                pod("batch", TOLERANT, asks="cpu: 12"),
                pod("agent", TOLERANT, "priority: 2000000000", asks="cpu: 6"),
            ]
        )
    )
    return tmp_path


def test_simulate(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*MACHINE, "--node-object", here / "node.yaml", here / "pods.yaml"]
    ran = numawise(capsys, "simulate", *words)
    assert ran.status == 1
    assert "nodeSelector demands zone=b, and the node has zone=a" in ran.out
    assert "kubectl taint node n7 gpu=h100:NoExecute-" in ran.out
    assert "agent: critical: the kubelet ends pod batch to make room" in ran.out
    assert ran.out.rstrip().endswith("2 of 5 pods admitted, 1 ended for critical pods")
    data = json.loads(numawise(capsys, "simulate", *words, "-o", "json").out)
    assert [one.get("reason") for one in data["pods"]] == [
        "NodeAffinity", "TaintToleration", "OutOfephemeral-storage", None, None,
    ]  # fmt: skip
    assert data["pods"][4]["preempted"] == ["default/batch"]
    assert not any("not_judged" in one for one in data["pods"])


def test_without_it_what_it_would_answer_is_not_judged(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = numawise(capsys, "simulate", *MACHINE, here / "pods.yaml")
    assert (
        "west: not judged: nodeSelector, as the Node object is not known; give it with --node-object"
        in ran.out
    )
    data = json.loads(numawise(capsys, "simulate", *MACHINE, here / "pods.yaml", "-o", "json").out)
    assert [one.get("not_judged") for one in data["pods"][:3]] == [
        ["nodeSelector"],
        None,
        ["ephemeral-storage"],
    ]


def test_a_step_changes_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calm = {"kind": "Node", "metadata": {"name": "n7", "labels": {"zone": "b"}}}
    (here / "west.yaml").write_text(pod("west", "nodeSelector: {zone: b}", TOLERANT))
    steps = [{"add": "west.yaml"}, {"node": calm}, {"add": "west.yaml"}, {"node": "node.yaml"}]
    (here / "day.yaml").write_text(json.dumps(steps))
    words = [*MACHINE, "--node-object", here / "node.yaml", "--steps", here / "day.yaml"]
    ran = numawise(capsys, "simulate", *words)
    assert ran.out.rstrip().endswith("1 of 2 pods admitted")
    assert ran.out.count("(node)") == 2
    (here / "day.yaml").write_text(json.dumps([{"node": None}]))
    assert "give a file with a Node object" in numawise(capsys, "simulate", *words).err


def test_why(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*MACHINE, "--node-object", here / "node.yaml", here / "pods.yaml", "-o", "json"]
    west, shy, big, _, agent = json.loads(numawise(capsys, "why", *words).out)["pods"]
    assert west["suggestions"][0]["pod"] == [{"op": "remove", "path": "/spec/nodeSelector/zone"}]
    toleration = {"key": "gpu", "operator": "Equal", "value": "h100", "effect": "NoExecute"}
    assert shy["suggestions"][0]["pod"] == [{"op": "add", "path": "/spec/tolerations", "value": [toleration]}]
    assert "ephemeral-storage: the pod requests 20Gi, all pods together may request 10Gi" in big["answer"]
    assert any("the kubelet ends pod default/batch" in remark for remark in agent["remarks"])


def test_many_nodes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [{"name": "a", "machine": "dgx-h100", "node": "node.yaml"}, {"name": "b", "machine": "dgx-h100"}]
    (here / "fleet.yaml").write_text(json.dumps({"nodes": nodes}))
    ran = numawise(
        capsys, "simulate", "--nodes", here / "fleet.yaml", *MACHINE[2:], here / "pods.yaml", "-o", "json"
    )
    placed = {one["name"]: one["node"] for one in json.loads(ran.out)["pods"]}
    assert placed == {"west": "b", "shy": "b", "big": "b", "batch": "a", "agent": "a"}


def test_check(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*MACHINE, "--node-object", here / "node.yaml", here / "pods.yaml", "-o", "json"]
    found = json.loads(numawise(capsys, "check", *words).out)["findings"]
    refused = {one["message"].partition(":")[0]: one["severity"] for one in found if one["code"] == "NW420"}
    assert [*refused.values()] == ["error", "info", "info"]


def test_python(here: Path) -> None:
    node = nw.Node(
        "2s 2n 16c", flags="--cpu-manager-policy=static --reserved-cpus=0", node_object=here / "node.yaml"
    )
    west, shy, _, batch, agent = node.admit_all([str(here / "pods.yaml")])
    assert (west.reason, shy.reason, batch.admitted) == ("NodeAffinity", "TaintToleration", True)
    assert agent.preempted == ("default/batch",)


@pytest.mark.parametrize(("text", "words"), [
    ("kind: Pod",                    '"Pod" is not a Node'),
    ("metadata: {name: other}",      "is node 'other', not 'n7'"),
    ("spec: {taints: [{key: a}]}",   "effect: is missing"),
    ("[]",                           "must be a Node object"),
])  # fmt: skip
def test_what_is_refused(here: Path, capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    (here / "node.yaml").write_text(text)
    named = ["--node-object", here / "node.yaml", "--node-name", "n7"]
    ran = numawise(capsys, "simulate", *MACHINE, *named, here / "pods.yaml")
    assert ran.status == 2
    assert words in ran.err
    assert "node.yaml" in ran.err


def test_a_scheduler_keeps_pods_away_that_a_kubelet_would_take(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "node.yaml").write_text(NODE.replace("NoExecute", "NoSchedule"))
    nodes = [{"name": "a", "machine": "dgx-h100", "node": "node.yaml"}]
    (here / "fleet.yaml").write_text(json.dumps({"nodes": nodes}))
    (here / "pods.yaml").write_text(pod("shy"))
    ran = numawise(capsys, "simulate", "--nodes", here / "fleet.yaml", *MACHINE[2:], here / "pods.yaml")
    assert "shy: fits nowhere: TaintToleration on 1 node" in ran.out
    assert "for example a: the node has the taint gpu=h100:NoSchedule" in ran.out
    assert (
        numawise(capsys, "simulate", *MACHINE, "--node-object", here / "node.yaml", here / "pods.yaml").status
        == 0
    )


def test_two_configurations_and_two_releases(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    amounts = "{cpu: 4, memory: 1Gi, pods: 110}"
    (here / "node.yaml").write_text(
        f"kind: Node\nmetadata: {{name: n7}}\nstatus: {{allocatable: {amounts}}}\n"
    )
    (here / "pods.yaml").write_text(pod("p", asks="cpu: 6"))
    (here / "new.yaml").write_text("cpuManagerPolicy: static\nreservedSystemCPUs: '0-1'\n")
    words = [*MACHINE, "--node-object", here / "node.yaml", here / "pods.yaml"]
    ran = numawise(capsys, "simulate", *words, "--compare", here / "new.yaml")
    assert "OutOfcpu" in ran.out  # the Node object is the old configuration's
    assert "new.yaml 1" in ran.out
    (here / "pods.yaml").write_text(pod("p", "nodeSelector: {zone: b}"))
    ran = numawise(capsys, "simulate", *words, "--compare-kube", "1.30,1.31")
    assert "Predicate NodeAffinity failed" in ran.out
