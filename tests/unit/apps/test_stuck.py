"""Pods that wait or were refused, each with the first sentence of ``why``."""

import threading
from typing import Any

import pytest

from numawise.apps.overview.sources import example_cluster
from numawise.apps.why.pending import PodAsked, ShapeRefusals
from numawise.apps.why.stuck import StuckPods
from numawise.cluster.live import LiveCluster
from numawise.results.cluster_board import BoardSource, PodListForm
from numawise.results.pending import NodesAlike
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import kubelet

SOURCE = BoardSource("files", "x")
NOW = 1_794_823_230.0  # half a minute after the pods were made


class Cluster:
    """A cluster, and its pods as the API server shows them."""

    def __init__(self) -> None:
        self.view = LiveCluster()
        self.objects: list[dict[str, Any]] = []
        self.pods = StuckPods(self.view, lambda: NOW, threading.RLock(), lambda: self.objects)

    def node(self, name: str, *, publishes: bool = True) -> None:
        self.view.take_node(name, api_node(name), NOW)
        if publishes:
            self.view.take_topology(name, published(kubelet(), name), NOW)

    def pod(self, value: dict[str, Any]) -> None:
        self.objects.append(value)
        self.view.take_pod(value, NOW)

    def report(self, budget: float = 60.0) -> PodListForm:
        return self.pods.report(SOURCE, budget)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.node(name)
        cluster.pod(api_pod(f"holds-{name}", 4, name, phase="Running"))
    return cluster


def test_waiting(cluster: Cluster) -> None:
    cluster.pod(api_pod("later", 1, created="2026-11-16T10:05:00Z"))
    cluster.pod(api_pod("waits", 5, created="2026-11-16T10:01:00Z"))
    form = cluster.report()
    assert (form.waiting, form.refused, form.more, form.left_out) == (2, 0, False, 0)
    first, second = form.pods
    assert (first.name, first.state, first.shape) == ("waits", "waiting", "5 gpu, 1 cpu, 1Gi")
    assert first.since == "2026-11-16T10:01:00Z"
    assert "it can never be admitted as the nodes are" in first.sentence
    assert first.never
    assert first.reasons[0].text.startswith("2 nodes: no NUMA node has 5 x/gpu")
    assert (first.ask, second.able, second.ask) == ("n1", ("n1", "n2"), "n1")
    assert second.sentence == "Not scheduled: nodes n1 and n2 would by now let it in (2 of 2 nodes)."


def test_held_back_by_a_gate(cluster: Cluster) -> None:
    cluster.pod(api_pod("held", 1, spec={"schedulingGates": [{"name": "example.com/quota"}]}))
    (pod,) = cluster.report().pods
    assert pod.state == "gated"
    assert "held back by the scheduling gate example.com/quota" in pod.sentence
    assert "would let it in" in pod.sentence


def test_refused_by_its_kubelet(cluster: Cluster) -> None:
    words = {"reason": "TopologyAffinityError", "message": "Resources cannot be allocated"}
    cluster.pod(api_pod("again", 5, "n1", phase="Failed", **words))
    cluster.pod(api_pod("by-now", 4, "n2", phase="Failed", **words))
    cluster.pod(api_pod("ended", 4, "n2", phase="Failed", reason="Error"))
    form = cluster.report()
    assert (form.waiting, form.refused) == (0, 2)
    now = {pod.name: pod for pod in form.pods}
    assert now["again"].words == "TopologyAffinityError: Resources cannot be allocated"
    assert now["again"].sentence.startswith("Rejected, ")
    assert "5 are asked for" in now["again"].sentence
    assert now["by-now"].sentence == "Node n2 refused it, and would let it in by now."
    assert cluster.pods.counts() == (0, 2)


def test_refused_by_a_node_that_publishes_nothing(cluster: Cluster) -> None:
    cluster.node("silent", publishes=False)
    cluster.pod(api_pod("again", 4, "silent", phase="Failed", reason="TopologyAffinityError"))
    (pod,) = cluster.report().pods
    assert "publishes nothing that would tell" in pod.sentence
    assert pod.ask == ""


def test_those_that_ask_for_the_same_share_an_answer_and_time_is_limited(cluster: Cluster) -> None:
    for number in range(3):
        cluster.pod(api_pod(f"like-{number}", 5))
    cluster.pod(api_pod("other", 6))
    reports = [cluster.report(budget=0.0)]
    while reports[-1].more:
        assert len(reports) < 20, "each report goes on from the one before"
        reports.append(cluster.report(budget=0.0))
    assert len(reports) > 1
    assert not any(pod.sentence for pod in reports[0].pods)
    first, *others = reports[-1].pods
    assert [pod.sentence for pod in others[:2]] == [first.sentence] * 2


def test_an_answer_holds_until_a_node_changes(cluster: Cluster) -> None:
    cluster.pod(api_pod("waits", 4))
    before = cluster.report().pods[0]
    assert before.able == ("n1", "n2")
    cluster.pod(api_pod("takes", 4, "n1", 2, phase="Running"))
    after = cluster.report().pods[0]
    assert after.able == ("n2",)
    assert after.reasons[0].text == "1 node: it has fewer than 4 x/gpu left"


def test_pods_that_leave_or_cannot_be_read(cluster: Cluster) -> None:
    leaving = api_pod("leaving", 1)
    leaving["metadata"]["deletionTimestamp"] = "2026-11-16T10:09:00Z"
    cluster.pod(leaving)
    broken = api_pod("broken", 1)
    broken["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "much"}}
    cluster.pod(broken)
    (pod,) = cluster.report().pods
    assert pod.name == "broken"
    assert "cannot be read" in pod.sentence


def test_it_is_what_why_says_of_each_node() -> None:
    source = example_cluster("", NOW)
    view = source.view
    for pod in view.waiting:
        assert pod.raw is not None
        brief = PodAsked(view, pod.raw, NOW, ShapeRefusals()).answers()
        full = PodAsked(view, pod.raw, NOW).answers()
        for short, long in zip(brief, full, strict=True):
            assert _told(short) == _told(long)


def _told(answer: tuple[Any, ...]) -> list[object]:
    alike = [one for one in answer if isinstance(one, NodesAlike)]
    return sorted((one.nodes, one.reason, one.known, bool(one.never)) for one in alike) or list(answer)
