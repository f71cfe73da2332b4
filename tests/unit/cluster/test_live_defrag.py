"""The smallest restart in a cluster as the API server shows it."""

from typing import Any

from numawise.cluster.defrag import smallest_restart
from numawise.cluster.live import LiveCluster
from numawise.cluster.restartable import NO_OWNER
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import gpu_pod, kubelet

WEB = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
NOW = 1000.0


def cluster(*pods: dict[str, Any], nodes: str = "n0 n1") -> LiveCluster:
    view = LiveCluster()
    for name in nodes.split():
        view.take_node(name, api_node(name), NOW)
        view.take_topology(name, published(kubelet(), name), NOW)
    for pod in pods:
        view.take_pod(pod, NOW)
    return view


def owned(name: str, gpus: int, node: str) -> dict[str, Any]:
    pod = api_pod(name, gpus, node)
    pod["metadata"]["ownerReferences"] = WEB
    return pod


def test_a_plan() -> None:
    pods = [owned("a", 4, "n0"), owned("b", 2, "n0"), owned("c", 4, "n1"), owned("d", 2, "n1")]
    found = smallest_restart(cluster(*pods), gpu_pod("waits", 4), NOW, pods)
    assert found.plan is not None
    assert [(step.name, step.node, step.to) for step in found.plan.steps] == [("b", "n0", "n1")]
    assert found.plan.node == "n0"
    assert found.complete


def test_who_stays() -> None:
    pods = [owned("a", 4, "n0"), api_pod("b", 2, "n0"), owned("c", 4, "n1"), owned("d", 2, "n1")]
    view = cluster(*pods)
    found = smallest_restart(view, gpu_pod("waits", 4), NOW, pods)
    assert found.plan is not None
    assert [(step.name, step.to) for step in found.plan.steps] == [("d", "n0")]
    assert found.fixed == {NO_OWNER: 1}
    none = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {}}, "status": {}}
    assert smallest_restart(view, gpu_pod("waits", 4), NOW, pods, [none]).plan is None


def test_nodes_that_are_not_exact_take_no_part() -> None:
    pods = [owned("a", 4, "n0"), owned("b", 2, "n0")]
    view = cluster(*pods, nodes="n0")
    view.take_node("silent", api_node("silent"), NOW)
    assert smallest_restart(view, gpu_pod("waits", 4), NOW, pods).plan is None


def test_nothing_of_the_view_changes() -> None:
    pods = [owned("a", 4, "n0"), owned("b", 2, "n0"), owned("c", 4, "n1"), owned("d", 2, "n1")]
    view = cluster(*pods)
    before = [view.situation(name, NOW) for name in view.names]
    smallest_restart(view, gpu_pod("waits", 4), NOW, pods)
    assert [view.situation(name, NOW) for name in view.names] == before
