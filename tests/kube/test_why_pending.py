"""``numawise why`` for pods that no node has been found for: what every node would say, and what would let them in."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.run import Ran
from tests.kube.server import State
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import GPU, kubelet

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient x/gpu.",
}
Ask = Callable[..., Ran]
Told = Callable[..., dict[str, Any]]


def owned(name: str, gpus: int, node: str = "", owner: str = "ReplicaSet web", **more: Any) -> dict[str, Any]:
    pod = api_pod(name, gpus, node, **{"restart": "Always", **more})
    kind, _, title = owner.partition(" ")
    pod["metadata"]["ownerReferences"] = [{"kind": kind, "name": title, "controller": True}]
    return pod


def budgets(*values: dict[str, Any]) -> tuple[int, str, bytes]:
    return 200, "application/json", json.dumps({"items": list(values), "metadata": {}}).encode()


@pytest.fixture
def state() -> State:
    """Two nodes of two halves: one half is taken on each, and of the other two GPUs; a pod of four waits."""
    state = State(nodes={name: api_node(name) for name in ("n1", "n2")})
    state.pods = [
        owned("a", 4, "n1"),
        owned("b", 2, "n1"),
        owned("c", 4, "n2"),
        owned("d", 2, "n2"),
        owned("waits", 4, owner="StatefulSet train", conditions=[UNSCHEDULABLE]),
    ]
    for name in state.nodes:
        state.put_topology(published(kubelet(), name))
    state.answers[BUDGETS] = budgets()
    return state


@pytest.fixture
def ask(asking: Callable[[str], Ask]) -> Ask:
    return asking("why")


@pytest.fixture
def told(ask: Ask) -> Told:
    def tell(*words: str) -> dict[str, Any]:
        ran = ask(*words, "-o", "json")
        assert ran.status == 1, ran
        (pod,) = json.loads(ran.out)["pods"]
        return dict(pod)

    return tell


def test_no_node_now(told: Told) -> None:
    pod = told("pod/waits")
    assert pod["verdict"] == "not scheduled"
    assert pod["answer"] == "Not scheduled: none of 2 nodes would let it in now"
    cluster = pod["cluster"]
    assert cluster["scheduler"] == "Unschedulable: 0/3 nodes are available: 3 Insufficient x/gpu."
    (alike,) = cluster["alike"]
    assert alike == {
        "nodes": ["n1", "n2"],
        "reason": f"it has fewer than 4 {GPU} left",
        "known": "exact",
        "never": False,
    }
    (step,) = cluster["restart"]["plan"]["steps"]
    assert (step["name"], step["node"], step["to"]) == ("b", "n1", "n2")
    assert cluster["nearest"] == "n1"
    assert any("default/b " in one["text"] for one in pod["suggestions"]), pod["suggestions"]


def test_as_text(ask: Ask) -> None:
    ran = ask("statefulset/train", "--width", "80")
    assert "It is let in on node n1 (NUMA 1) once 1 pod has been restarted: b." in " ".join(ran.out.split())
    assert "The scheduler says: Unschedulable" in ran.out
    assert f"2 nodes: it has fewer than 4 {GPU} left" in ran.out
    assert "What would help on node n1" in ran.out
    narrow = " ".join(ask("statefulset/train", "--width", "60").out.split())
    assert "- b of ReplicaSet web, priority 0, 2 gpu, 1 cpu, 1Gi: from node n1 to node n2" in narrow
    assert all(len(line) <= 80 for line in ran.out.splitlines())


def test_reasons_are_grouped(told: Told, state: State) -> None:
    """One node lacks GPUs in one place, one has a taint, one other labels, one is kept by sums."""
    state.pods = [
        owned("a", 3, "n1"),
        owned("b", 3, "n1"),
        owned("waits", 2, spec={"nodeSelector": {"pool": "gpu"}}),
    ]
    for name in ("n1", "n2", "n3", "n4"):
        state.nodes[name] = api_node(name)
        state.nodes[name]["metadata"]["labels"]["pool"] = "gpu"
        state.put_topology(published(kubelet(), name))
    state.nodes["n2"]["spec"] = {"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}
    del state.nodes["n3"]["metadata"]["labels"]["pool"]
    state.nodes["n4"]["status"]["allocatable"] = {"cpu": "500m", "memory": "1Gi", GPU: "8", "pods": "110"}
    cluster = told("pod/waits")["cluster"]
    assert {tuple(one["nodes"]): (one["reason"], one["never"]) for one in cluster["alike"]} == {
        ("n1",): (f"no NUMA node has 2 {GPU} free", False),
        ("n2",): ("the node has the taint team=b:NoSchedule, which the pod does not tolerate", None),
        ("n3",): ("the pod's nodeSelector demands pool=gpu, and the node has no label pool", True),
        ("n4",): ("it has too little CPU even when idle", True),
    }


def test_never(told: Told, state: State) -> None:
    state.pods.append(owned("huge", 8))
    pod = told("pod/huge")
    assert pod["answer"] == (
        "Not scheduled: it can never be admitted as the nodes are: none of 2 nodes could, even idle"
    )
    assert pod["cluster"]["never"]
    (alike,) = pod["cluster"]["alike"]
    assert alike["reason"] == f"no NUMA node has 8 {GPU} even when idle"
    assert "restart" not in pod["cluster"]


def test_never_is_not_said_while_a_node_is_unknown(told: Told, state: State) -> None:
    state.nodes["silent"] = api_node("silent")
    state.nodes["silent"]["status"]["allocatable"] = {"cpu": "8", "memory": "16Gi", GPU: "8", "pods": "110"}
    state.pods.append(owned("huge", 8))
    pod = told("pod/huge")
    assert not pod["cluster"]["never"]
    assert pod["cluster"]["open"] == ["silent"]
    assert (
        "node silent may let it in, but publishes nothing that would tell; none of the other 2 would"
        in (pod["answer"])
    )
    state.nodes["silent"]["status"]["allocatable"][GPU] = "4"
    pod = told("pod/huge")
    assert pod["cluster"]["never"]
    assert pod["cluster"]["alike"][1]["reason"] == f"it has fewer than 8 {GPU} left"


def test_a_node_would_by_now(told: Told, state: State) -> None:
    state.pods = [pod for pod in state.pods if pod["metadata"]["name"] != "b"]
    pod = told("pod/waits")
    assert pod["answer"] == "Not scheduled: node n1 would by now let it in (1 of 2 nodes)"
    assert pod["cluster"]["able"] == ["n1"]
    assert "restart" not in pod["cluster"]


def test_a_pod_that_is_held(ask: Ask, told: Told, state: State) -> None:
    state.pods[-1]["spec"]["schedulingGates"] = [{"name": "numawise.dev/hold"}]
    assert told("pod/waits")["cluster"]["gates"] == ["numawise.dev/hold"]
    assert "held back by the scheduling gate numawise.dev/hold (numawise heal removes it" in " ".join(
        ask("pod/waits").out.split()
    )


def test_pods_that_end_by_themselves_are_waited_for(told: Told, state: State) -> None:
    state.pods[1] = owned("b", 2, "n1", owner="Job b", restart="Never")
    state.pods[3]["metadata"]["ownerReferences"] = []
    cluster = told("pod/waits")["cluster"]
    assert cluster["awaited"] == {"node": "n1", "pods": ["default/b"]}


def test_a_place_that_is_kept(told: Told, state: State) -> None:
    """An earlier pod waits for the half that a job will leave; a later, smaller one may not take it."""
    state.nodes.pop("n2")
    state.topologies.pop("n2")
    state.pods = [
        owned("a", 4, "n1"),
        owned("b", 2, "n1", owner="Job b", restart="Never"),
        owned("early", 4, created="2026-11-16T10:00:00Z"),
        owned("late", 1, created="2026-11-16T11:00:00Z"),
    ]
    (alike,) = told("pod/late")["cluster"]["alike"]
    assert alike["reason"] == "its place may be kept for pod default/early, which has waited longer"


def test_an_owner_without_pods_is_judged_by_its_template(told: Told, state: State) -> None:
    template = {"spec": owned("x", 4)["spec"]}
    state.owners = [
        {
            "kind": "Deployment",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {"template": template},
        }
    ]
    pod = told("deployment/train")
    assert pod["answer"] == "Not scheduled: there is no such pod yet; none of 2 nodes would let it in now"
    assert pod["cluster"]["alike"][0]["nodes"] == ["n1", "n2"]


def test_rights(ask: Ask, told: Told, state: State) -> None:
    state.forbidden = {"poddisruptionbudgets"}
    del state.answers[BUDGETS]
    pod = told("pod/waits")
    assert "restart" not in pod["cluster"]
    assert any("no restart of other pods was looked for" in remark for remark in pod["remarks"])
    state.forbidden = {"noderesourcetopologies"}
    pod = told("pod/waits")
    assert pod["cluster"]["open"] == ["n1", "n2"]
    assert any("what nodes publish is not known" in remark for remark in pod["remarks"])
    state.forbidden = {"/api/v1/nodes", "/api/v1/pods", "noderesourcetopologies"}
    ran = ask("pod/waits")
    assert ran.status == 1
    assert "no kubelet has seen it; Unschedulable" in " ".join(ran.out.split())


def test_a_protected_pod_is_not_restarted(told: Told, state: State) -> None:
    def budget(name: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": name}}},
            "status": {"disruptionsAllowed": 0},
        }

    state.answers[BUDGETS] = budgets(budget("b"), budget("d"))
    restart = told("pod/waits")["cluster"]["restart"]
    assert restart["plan"] is None
    assert restart["fixed"] == {"its disruption budget allows none": 2}
