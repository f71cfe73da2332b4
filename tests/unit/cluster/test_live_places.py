"""How many more a live cluster lets in: given shapes, learned ones, nodes of which little is known."""

import threading

from numawise.cluster.live import LiveCluster
from numawise.cluster.live_places import LivePlaces
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import gpu_pod, kubelet


def cluster(*names: str) -> LiveCluster:
    view = LiveCluster()
    for name in names:
        view.take_node(name, api_node(name), 0.0)
        view.take_topology(name, published(kubelet(), name), 0.0)
    return view


def counts(view: LiveCluster, gpus: int, *, reasons: bool = True) -> dict[str, tuple[int, bool, str]]:
    report = LivePlaces(view).report([("x", gpu_pod("x", gpus))], 5, lambda: 1.0, reasons=reasons)
    return {node.node: (node.count, node.more, node.reason) for node in report.shapes[0].nodes}


def test_bound_and_promised_pods_count() -> None:
    view = cluster("a", "b", "c")
    view.take_pod(api_pod("p", 3, "a"), 0.0)
    view.promise(gpu_pod("q", 1), "b", 0.0)
    assert {name: count for name, (count, _, _) in counts(view, 4).items()} == {"a": 1, "b": 1, "c": 2}
    assert counts(view, 4)["a"][2] == "TopologyAffinityError"
    for gpus in (1, 2, 3, 4):
        tried, counted = counts(view, gpus), counts(view, gpus, reasons=False)
        assert {name: one[:2] for name, one in tried.items()} == {
            name: one[:2] for name, one in counted.items()
        }


def test_nodes_without_a_state_say_so() -> None:
    view = cluster("a")
    view.take_node("silent", api_node("silent"), 0.0)
    assert counts(view, 4)["silent"] == (0, False, "nothing is published about this node")


def test_learned_shapes_are_those_that_are_given_something() -> None:
    view = cluster("a")
    daemon = api_pod("d", 0, "a", 2)
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "x", "controller": True}]
    shared = api_pod("s", 0, "a", 3)
    shared["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    for value in (api_pod("p", 2, "a"), daemon, shared, api_pod("w", 4)):
        view.take_pod(value, 0.0)
    places = LivePlaces(view, threading.RLock())
    assert [name for name, _ in places.learned()] == ["4 gpu, 1 cpu, 1Gi", "2 gpu, 1 cpu, 1Gi"]
    report = places.report((), 64, lambda: 1.0)
    assert report.learned
    assert [(shape.name, shape.total) for shape in report.shapes] == [
        ("4 gpu, 1 cpu, 1Gi", 1),
        ("2 gpu, 1 cpu, 1Gi", 3),
    ]


def test_what_changed_is_counted_again() -> None:
    view = cluster("a")
    places = LivePlaces(view)
    named = [("x", gpu_pod("x", 4))]
    assert places.report(named, 5, lambda: 1.0).shapes[0].total == 2
    view.take_pod(api_pod("p", 1, "a"), 1.0)
    assert places.report(named, 5, lambda: 1.0).shapes[0].total == 1
    places.visit(lambda: 1.0)
