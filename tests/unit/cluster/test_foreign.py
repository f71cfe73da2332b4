"""Zones of other exporters: a careful answer, which is never more than the kubelet would say."""

import random
from collections import Counter

import pytest

from numawise.cluster.asking import Asker, LetIn, Situation, members_of
from numawise.cluster.live import LiveCluster
from numawise.cluster.node_rooms import live_rooms
from numawise.codec.fingerprint import fingerprint
from numawise.engine.admit import Admitted
from numawise.node.node import SimulatedNode
from numawise.quantity import Quantity
from tests.property.lives import members, some_pod
from tests.unit.cluster.live_objects import api_node, api_pod, foreign
from tests.unit.cluster.nodes import GPU, gpu_pod, kubelet

POLICIES = (
    {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "pod",
        "memoryManagerPolicy": "Static",
    },
    {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container"},
    {"topologyManagerPolicy": "restricted"},
    {"topologyManagerPolicy": "best-effort"},
)
NOW = 1_794_823_200.0 + 3600
"""An hour after the object was written."""


def seen(node: SimulatedNode, **more: str) -> LiveCluster:
    view = LiveCluster()
    view.take_topology("a", foreign(node, "a", **more), NOW)
    return view


def verdict(view: LiveCluster, gpus: int, cpu: str = "1", memory: str = "1Gi") -> tuple[bool, int]:
    (one,) = view.judge(gpu_pod("probe", gpus, cpu, memory), ["a"], NOW)
    assert one.how == "conservative"
    return one.rating is not None, one.rating.numa if one.rating is not None else 0


def test_one_zone_must_have_all() -> None:
    view = seen(kubelet())
    assert verdict(view, 4) == (True, 1)
    assert verdict(view, 5) == (False, 0)
    assert verdict(view, 1, cpu="8") == (False, 0)
    assert verdict(view, 0, cpu="500m") == (True, 1)
    assert view.situation("a", NOW) is None
    assert view.problems("a") == ()


def test_no_more_is_free_than_pods_may_get() -> None:
    value = foreign(kubelet(), "a")
    for zone in value["zones"]:
        for resource in zone["resources"]:
            resource["available"] = "1e30"
    view = LiveCluster()
    view.take_topology("a", value, NOW)
    assert verdict(view, 4)[0]
    assert not verdict(view, 5)[0]
    assert not verdict(view, 1, cpu="8")[0]


def test_without_a_node_object_the_sums_are_those_of_the_zones() -> None:
    zones = zones_of("a", node := kubelet())
    (alone,) = live_rooms(seen(node), ["a"], NOW).nodes
    assert alone.known == "conservative"
    assert alone.allocatable[GPU] == zones[GPU] > 0
    assert alone.allocatable["cpu"] == zones["cpu"] * 1000
    assert alone.free == alone.allocatable
    view = seen(node)
    view.take_node("a", api_node("a"), NOW)
    (listed,) = live_rooms(view, ["a"], NOW).nodes
    described = view.views["a"].description
    assert described is not None
    assert listed.allocatable == described.allocatable != alone.allocatable


def zones_of(name: str, node: SimulatedNode) -> Counter[str]:
    """What the zones that are published have together."""
    sums: Counter[str] = Counter()
    for zone in foreign(node, name)["zones"]:
        for one in zone["resources"]:
            sums[one["name"]] += Quantity.parse(one["allocatable"]).value
    return sums


def test_pods_that_may_not_be_counted_are_taken_off_every_zone() -> None:
    view = seen(kubelet())
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-16T10:59:50Z"}
    view.take_pod(api_pod("x", 2, "a", conditions=[bound]), NOW)
    assert verdict(view, 3) == (False, 0)
    assert verdict(view, 2) == (True, 1)
    view.promise(gpu_pod("y", 2), "a", NOW)
    assert verdict(view, 1) == (False, 0)
    view.withdraw("y")
    early = {**bound, "lastTransitionTime": "2026-11-16T09:00:00Z"}
    view.take_pod(api_pod("x", 2, "a", version=2, conditions=[early]), NOW)
    assert verdict(view, 3) == (True, 1)  # the object was written long after


def test_a_fingerprint_says_who_is_counted() -> None:
    counted = fingerprint([("default", "x"), ("default", "y")])
    view = seen(kubelet(), fingerprint=counted)
    recent = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-16T10:59:50Z"}]
    for number, name in enumerate("xy"):
        view.take_pod(api_pod(name, 2, "a", number + 1, conditions=recent), NOW)
    assert verdict(view, 4) == (True, 1)
    view.take_pod(api_pod("z", 1, "a", 7, conditions=recent), NOW)
    assert verdict(view, 4) == (False, 0)
    assert verdict(view, 3) == (True, 1)


def test_sums_and_taints_of_the_node_count() -> None:
    view = seen(kubelet())
    view.take_node("a", api_node("a", spec={"unschedulable": True}), NOW)
    (one,) = view.judge(gpu_pod("p", 1), None, NOW)
    assert (one.rating, one.reason) == (None, "TaintToleration")


@pytest.mark.parametrize("written", ["", "sometimes"])
def test_without_a_policy_nothing_is_concluded(written: str) -> None:
    value = foreign(kubelet(), "a")
    value["attributes"] = [{"name": "topologyManagerPolicy", "value": written}]
    value["topologyPolicies"] = []
    view = LiveCluster()
    view.take_topology("a", value, NOW)
    assert view.how("a") == "unknown"
    assert view.problems("a") == ("its NodeResourceTopology does not name the kubelet's topology policy",)


@pytest.mark.parametrize("config", POLICIES, ids=lambda config: str(config["topologyManagerPolicy"]))
def test_a_yes_is_what_the_kubelet_says(config: dict[str, object]) -> None:
    """Whatever is on the node: a yes by its zones is a yes of its kubelet, sums apart."""
    (member,) = members(config, 1)
    yes = no = 0
    for seed in range(12):
        draw = random.Random(seed)
        node = members_of([(["a"], member.node)])[0].node
        node.state = member.node.state
        for step in range(draw.randrange(6)):
            pod = node.requested(some_pod(draw, f"p{step}"))
            decision = node.admit(pod)
            if isinstance(decision, Admitted):
                node.start(pod, decision)
        view = seen(node)
        (made,) = members_of([(["a"], node)])
        asker = Asker([made])
        for _ in range(12):
            probe = some_pod(draw, "probe")
            if asker.lack(Situation.of(made), probe) is not None:
                continue
            (one,) = view.judge(probe, ["a"], NOW)
            kubelets = isinstance(asker.ask(Situation.of(made), probe), LetIn)
            if one.rating is not None:
                assert kubelets, (seed, probe)
                yes += 1
            no += one.rating is None
    assert yes > 20
