"""Whom a kubelet ends for a critical pod."""

from dataclasses import replace
from typing import Any

import pytest

from numawise.engine.admit import Admitted, Rejected
from numawise.engine.preemption import preemptable, requested
from numawise.engine.trace import PodsPreempted, Step
from numawise.node.node import SimulatedNode
from numawise.request.constraints import PodConstraints
from numawise.rules.behaviour import behaviour_of
from tests.unit.build import GI, STATIC, T3, kubelet, machine, pod

CRITICAL = PodConstraints(priority=2_000_000_000)


def busy(pods: dict[str, str], **config: Any) -> SimulatedNode:
    """16 CPUs without a reservation of CPUs."""
    node = kubelet(machine(T3, 8 * GI), **config)
    for uid, asks in pods.items():
        assert isinstance(node.admit(pod(uid, f"c {asks}")), Admitted)
    return node


def ended(node: SimulatedNode, asks: str, constraints: PodConstraints = CRITICAL) -> str:
    """Uids of the pods that are ended, or the message."""
    decision = node.ask(replace(pod("critical", f"c {asks}".strip()), constraints=constraints))
    if isinstance(decision, Rejected):
        return decision.message
    assert isinstance(decision, Admitted)
    return " ".join(decision.preempted)


@pytest.mark.parametrize(("running", "asks", "victims"), [
    pytest.param({"a": "cpu=6..7", "b": "cpu=8..9"},                     "cpu=6..7",  "a",    id="the smallest that is enough"),
    pytest.param({"a": "cpu=2..3", "b": "cpu=3..4", "d": "cpu=5..6"},    "cpu=12..13", "a d", id="nearest first, then the rest"),
    pytest.param({"a": "cpu=5 memory=1Gi", "b": "cpu=9..10"},            "cpu=6..7",  "b",    id="Guaranteed pods last"),
    pytest.param({"a": "cpu=4..5"},                                      "cpu=4..5",  "",     id="nobody while there is room"),
    pytest.param({"a": ""},                                              "cpu=17..18",
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to "
        "preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]",    id="not enough to end"),
])  # fmt: skip
def test_victims(running: dict[str, str], asks: str, victims: str) -> None:
    found = ended(busy(running), asks)
    assert sorted(found.split()) == sorted(victims.split())


def test_only_resources_are_made_room_for() -> None:
    node = busy({"a": "cpu=14..15"})
    assert ended(node, "cpu=8..9", replace(CRITICAL, os="windows")).startswith("Failed to admit pod")
    assert ended(node, "cpu=8..9", PodConstraints(priority=1_999_999_999)).startswith(
        "Node didn't have enough"
    )


@pytest.mark.parametrize(("mine", "theirs", "may"), [
    (CRITICAL,                             PodConstraints(),                                       True),
    (CRITICAL,                             CRITICAL,                                               False),
    (PodConstraints(priority=2_000_001_000), CRITICAL,                                             True),
    (PodConstraints(static=True),          PodConstraints(priority=1_000),                         True),
    (PodConstraints(static=True),          PodConstraints(static=True),                            False),
    (CRITICAL,                             PodConstraints(static=True),                            False),
    (CRITICAL,                             PodConstraints(static=True, priority=5),                True),
])  # fmt: skip
def test_who_may_end_whom(mine: PodConstraints, theirs: PodConstraints, *, may: bool) -> None:
    pods = [replace(pod(uid, "c"), constraints=one) for uid, one in (("a", mine), ("b", theirs))]
    assert preemptable(pods[0], pods[1]) == may


def test_equal_pods_are_ended_by_chance_and_a_step_says_so() -> None:
    node = busy({"b": "cpu=8..9", "a": "cpu=8..9"})
    steps: list[Step] = []
    wanted = replace(pod("critical", "c cpu=8..9"), constraints=CRITICAL)
    decision = node.ask(wanted, steps.append)
    assert isinstance(decision, Admitted)
    assert decision.preempted == ("a",)
    assert PodsPreempted(("a",), ("a", "b")) in steps


def test_what_is_freed_is_collected_later() -> None:
    node = busy({"a": "cpu=6 memory=1Gi", "b": "cpu=1..2"}, **STATIC)
    held = node.state.cpu.assignments["a"]["c"]
    wanted = replace(pod("critical", "c cpu=9 memory=1Gi"), constraints=CRITICAL)
    decision = node.admit(wanted)
    assert isinstance(decision, Admitted)
    assert decision.preempted == ("b",)
    assert isinstance(node.admit(replace(pod("more", "c cpu=4..5"), constraints=CRITICAL)), Admitted)
    assert node.state.active.keys() == {"critical", "more"}
    assert node.state.cpu.assignments["a"]["c"] == held  # until a manager looks again
    assert node.state.cpu.assignments["critical"]["c"] & held == 0
    assert isinstance(node.admit(pod("q", "c cpu=1 memory=1Gi")), Admitted)
    assert "a" not in node.state.cpu.assignments


def test_how_a_pod_counts_depends_on_the_release() -> None:
    rules = kubelet(machine(T3)).rules
    early = replace(rules, behaviour=behaviour_of((1, 33)))
    wanted = pod("p", "sidecar s cpu=3..4", "a cpu=4..5")
    assert (requested(rules, wanted, "cpu"), requested(early, wanted, "cpu")) == (7000, 4000)
    assert requested(rules, wanted, "pods") == 1
