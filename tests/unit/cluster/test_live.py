"""A cluster out of objects: published states, pods that are bound, promised, ended or gone."""

from numawise.cluster.live import HOLD, LiveCluster, LiveSettings
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import gpu_pod, kubelet


def cluster(*names: str, settings: LiveSettings = LiveSettings()) -> LiveCluster:  # noqa: B008
    view = LiveCluster(settings)
    for name in names:
        view.take_node(name, api_node(name), 0.0)
        view.take_topology(name, published(kubelet(), name), 0.0)
    return view


def takers(view: LiveCluster, gpus: int, now: float = 0.0) -> list[str]:
    verdicts = view.judge(gpu_pod("probe", gpus), None, now)
    return [verdict.node for verdict in verdicts if verdict.rating is not None]


def test_bound_pods_count_before_they_are_published() -> None:
    view = cluster("a", "b")
    assert takers(view, 4) == ["a", "b"]
    view.take_pod(api_pod("x", 4, "a"), 1.0)
    view.take_pod(api_pod("y", 2, "a", 2), 1.0)
    assert takers(view, 4) == ["b"]
    assert takers(view, 2) == ["a", "b"]
    view.take_pod(api_pod("y", 2, "a", 3, phase="Succeeded"), 2.0)
    assert takers(view, 4) == ["a", "b"]
    view.take_pod(api_pod("x", 4, "a"), 3.0, gone=True)
    assert takers(view, 4) == ["a", "b"]


def test_a_published_pod_that_went_is_taken_out_of_a_late_object() -> None:
    node = kubelet()
    raw = gpu_pod("x", 4)
    node.admit(node.requested(raw))
    view = cluster("a")
    late = published(node, "a")
    view.take_pod(api_pod("x", 4, "a"), 1.0)
    view.take_pod(api_pod("x", 4, "a"), 2.0, gone=True)
    view.take_topology("a", late, 3.0)
    view.take_pod(api_pod("y", 4, "a"), 4.0)
    assert takers(view, 4) == ["a"]


def test_promises_are_bound_elsewhere_withdrawn_or_expire() -> None:
    view = cluster("a", "b")
    for number in range(2):
        view.promise(gpu_pod(f"p{number}", 4), "a", 0.0)
    assert takers(view, 4) == ["b"]
    view.take_pod(api_pod("p0", 4, "b"), 1.0)
    assert takers(view, 4, 1.0) == ["a", "b"]
    view.promise(gpu_pod("p2", 4), "a", 2.0)
    assert takers(view, 4, 2.0) == ["b"]
    view.withdraw("p2")
    assert takers(view, 4, 2.0) == ["a", "b"]
    view.promise(gpu_pod("p3", 4), "a", 2.0)
    assert takers(view, 4, -50.0) == ["b"]  # the clock was set back
    assert takers(view, 4, -15.0) == ["a", "b"]  # p1 is not seen for thirty seconds
    assert takers(view, 4, 0.0) == ["a", "b"]


def test_nothing_published_is_passed_or_held() -> None:
    for settings, passing in ((LiveSettings(), ["a"]), (LiveSettings(unpublished=HOLD), [])):
        view = LiveCluster(settings)
        view.take_node("a", api_node("a"), 0.0)
        assert takers(view, 4) == passing
        assert view.judge(gpu_pod("probe", 0, cpu="500m", memory="1Gi"), None, 0.0)[0].how == "unknown"
        assert view.problems("a") == ("nothing is published about this node",)
        assert view.situation("a", 0.0) is None


def test_an_object_of_another_node_counts_for_nothing() -> None:
    view = LiveCluster()
    view.take_topology("a", published(kubelet(), "b"), 0.0)
    assert view.problems("a") == ("its NodeResourceTopology is not used: it is the state of node 'b'",)
    assert view.how("a") == "unknown"


def test_labels_and_taints_come_from_the_node() -> None:
    view = cluster("a", "b")
    view.take_node("b", api_node("b", spec={"taints": [{"key": "x", "effect": "NoSchedule"}]}), 1.0)
    assert takers(view, 1) == ["a"]
    chosen = gpu_pod(
        "s", 1, nodeSelector={"kubernetes.io/hostname": "b"}, tolerations=[{"operator": "Exists"}]
    )
    assert [verdict.reason for verdict in view.judge(chosen, None, 1.0)] == ["NodeAffinity", ""]
