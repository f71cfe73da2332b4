"""Resizes: what is allocated, deferred or infeasible, in which words, and in which order they are tried."""

from typing import Any

import pytest

from numawise.engine.resize import ResizeResult
from numawise.node.node import Files, SimulatedNode, boot, restart
from numawise.request.constraints import PodConstraints
from numawise.request.model import PodRequest
from numawise.rules.versions import Version
from numawise.values import replace
from tests.unit.build import GI, T3, machine, pod

CPU_STATIC = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
SINGLE = {"topologyManagerPolicy": "single-numa-node"}
EXCLUSIVE = {"featureGates": {"InPlacePodVerticalScalingExclusiveCPUs": True}}


def node_of(release: int = 36, **config: Any) -> SimulatedNode:
    """A kubelet of 1.``release`` on 16 CPUs and two times 8 GiB."""
    version: Version = (1, release)
    node = boot(
        machine(T3, 8 * GI),
        {"evictionHard": {"memory.available": "100Mi"}, **config},
        Files(),
        version=version,
    )
    assert isinstance(node, SimulatedNode)
    return node


def admit(node: SimulatedNode, *pods: PodRequest) -> None:
    for one in pods:
        node.admit(one)
        assert one.uid in node.state.active


def told(results: tuple[ResizeResult, ...]) -> str:
    """``a allocated, b deferred OutOfcpu``."""
    return ", ".join(f"{one.uid} {one.outcome} {one.cause}".rstrip() for one in results)


def with_priority(request: PodRequest, priority: int) -> PodRequest:
    return replace(request, constraints=PodConstraints(priority=priority))


# --- one resize ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after", "expected"), [
    pytest.param("c cpu=2 memory=1Gi",     "c cpu=4 memory=1Gi",     "p allocated",            id="more"),
    pytest.param("c cpu=2 memory=1Gi",     "c cpu=1 memory=512Mi",   "p allocated",            id="less"),
    pytest.param("c cpu=2.. memory=1Gi..", "c cpu=40.. memory=1Gi..", "p deferred OutOfcpu",   id="more than the node has"),
    pytest.param("c cpu=2.. memory=1Gi..", "c cpu=2.. memory=64Gi..", "p deferred OutOfmemory", id="more memory than the node has"),
    pytest.param("c cpu=2 memory=1Gi",     "c cpu=2 memory=1Gi",     "",                       id="nothing"),
])  # fmt: skip
def test_without_static_managers(before: str, after: str, expected: str) -> None:
    node = node_of()
    admit(node, pod("p", before))
    assert told(node.resize(pod("p", after))) == expected


@pytest.mark.parametrize(("release", "message"), [
    (33, "Node didn't have enough capacity: cpu, requested: 20000, capacity: 16000"),
    (35, "Node didn't have enough capacity: cpu, requested: 20000, capacity: 16000"),
    (36, "Node didn't have enough resource: cpu, requested: 20000, used: 0, capacity: 16000"),
])  # fmt: skip
def test_beyond_the_node(release: int, message: str) -> None:
    node = node_of(release)
    admit(node, pod("p", "c cpu=2 memory=1Gi"))
    (result,) = node.resize(pod("p", "c cpu=20 memory=1Gi"))
    assert (result.reason, result.message) == ("Infeasible" if release < 36 else "Deferred", message)


@pytest.mark.parametrize(("release", "after", "message"), [
    (33, "c cpu=2 memory=2Gi", "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"),
    (34, "c cpu=3 memory=1Gi", 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'),
    (34, "c cpu=2 memory=2Gi", ""),
    (37, "c cpu=3 memory=1Gi", 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'),
])  # fmt: skip
def test_guaranteed_pods_beside_a_static_manager(release: int, after: str, message: str) -> None:
    node = node_of(release, **CPU_STATIC)
    admit(node, pod("p", "c cpu=2 memory=1Gi"))
    (result,) = node.resize(pod("p", after))
    assert (result.outcome, result.message) == ("infeasible" if message else "allocated", message)
    assert told(node.retry()) == ""


@pytest.mark.parametrize(("release", "policy", "expected"), [
    (36, "none",             "p allocated"),
    (36, "best-effort",      "p allocated"),
    (36, "single-numa-node", "p deferred TopologyAffinityError"),
    (37, "single-numa-node", "p allocated"),
])  # fmt: skip
def test_exclusive_cpus_stay_what_they_are(release: int, policy: str, expected: str) -> None:
    """With the gate the sums change; the CPUs never do, and a restart finds out."""
    node = node_of(release, **CPU_STATIC, **EXCLUSIVE, topologyManagerPolicy=policy)
    admit(node, pod("p", "c cpu=2 memory=1Gi"))
    held = node.state.cpu.assignments["p"]["c"]
    assert told(node.resize(pod("p", "c cpu=4 memory=1Gi"))) == expected
    assert node.state.cpu.assignments["p"]["c"] == held
    again = restart(node, node.config)
    assert isinstance(again, tuple)
    assert again[1][0].admitted == (release == 36 or policy != "single-numa-node")


def test_swap_makes_memory_infeasible_unless_the_container_restarts() -> None:
    node = node_of(memorySwap={"swapBehavior": "LimitedSwap"}, failSwapOn=False)
    before, after = pod("p", "c memory=1Gi..2Gi"), pod("p", "c memory=1500Mi..2Gi")
    admit(node, before)
    (result,) = node.resize(after)
    assert (result.outcome, result.message) == (
        "infeasible",
        "In-place resize of containers with swap is not supported.",
    )
    restarting = replace(after.containers[0], restarts_for=frozenset({"memory"}))
    larger = pod("p", "c memory=1700Mi..2Gi")
    assert (
        told(
            node.resize(
                replace(larger, containers=(replace(restarting, requests=larger.containers[0].requests),))
            )
        )
        == "p allocated"
    )


@pytest.mark.parametrize(("release", "outcome"), [(35, "infeasible"), (36, "allocated")])
def test_static_pods(release: int, outcome: str) -> None:
    node = node_of(release)
    static = PodConstraints(static=True)
    admit(node, replace(pod("p", "c cpu=1 memory=1Gi"), constraints=static))
    (result,) = node.resize(replace(pod("p", "c cpu=2 memory=1Gi"), constraints=static))
    assert result.outcome == outcome


def test_the_allocation_counts_and_not_the_wish() -> None:
    node = node_of()
    admit(node, pod("a", "c cpu=10.."), pod("b", "c cpu=2.."))
    assert told(node.resize(pod("a", "c cpu=15.."))) == "a deferred OutOfcpu"
    assert told(node.resize(pod("b", "c cpu=6.."))) == "a deferred OutOfcpu, b allocated"


def test_a_gate_that_is_off_leaves_no_allocation() -> None:
    node = node_of(34, featureGates={"InPlacePodVerticalScaling": False})
    admit(node, pod("p", "c cpu=2.."))
    assert told(node.resize(pod("p", "c cpu=20.."))) == ""
    assert node.used()["cpu"] == 20000


# --- several ------------------------------------------------------------------------------------


def test_order_of_those_that_wait() -> None:
    node = node_of()
    admit(node, *(pod(uid, "c cpu=3 memory=1Gi") for uid in "ag"), *(pod(uid, "c cpu=3..") for uid in "bc"))
    admit(node, pod("x", "c cpu=4.."))
    later = with_priority(pod("c", "c cpu=7.."), 10)
    for wanted in (
        pod("b", "c cpu=9.."),
        pod("a", "c cpu=9 memory=1Gi"),
        later,
        pod("g", "c cpu=9 memory=1Gi"),
    ):
        node.resize(wanted)
    assert node.state.resizes.queue == ("c", "a", "g", "b")
    node.resize(pod("x", "c cpu=3.."))
    assert node.state.resizes.queue == ("c", "a", "g", "b")
    assert told(node.remove("x"))[:11] == "c allocated"


def test_a_resize_taken_back_no_longer_waits() -> None:
    node = node_of()
    admit(node, pod("a", "c cpu=10.."), pod("b", "c cpu=2.."))
    node.resize(pod("a", "c cpu=15.."))
    assert told(node.resize(pod("a", "c cpu=10.."))) == "a unchanged"
    assert (node.state.resizes.desired, node.state.resizes.pending) == ({}, {})
    assert told(node.remove("b")) == "a unchanged"
    assert told(node.retry()) == ""


def test_before_the_queue_nothing_happens_when_pods_go() -> None:
    node = node_of(33)
    admit(node, pod("a", "c cpu=10.."), pod("b", "c cpu=6.."))
    assert told(node.resize(pod("a", "c cpu=12.."))) == "a deferred OutOfcpu"
    assert told(node.remove("b")) == ""
    assert told(node.retry()) == "a allocated"


def test_pods_come_back_with_what_they_were_allocated() -> None:
    node = node_of()
    admit(node, pod("a", "c cpu=10.."), pod("b", "c cpu=6.."))
    node.resize(pod("a", "c cpu=12.."))
    again = restart(node, node.config)
    assert isinstance(again, tuple)
    node, outcomes = again
    assert [one.admitted for one in outcomes] == [True, True]
    assert node.state.resizes.queue == ("a",)
    assert told(node.remove("b")) == "a allocated"


def test_a_crowded_kubelet_does_not_try_before_it_knows_its_pods() -> None:
    node = node_of()
    admit(node, pod("a", "c cpu=10.."))
    node.keep(replace(node.state, ready=False))
    assert told(node.resize(pod("a", "c cpu=12.."))) == ""
    assert node.state.resizes.queue == ("a",)


# --- init containers, pod level -----------------------------------------------------------------


@pytest.mark.parametrize(("gate", "expected"), [(True, "p deferred OutOfcpu"), (False, "p unchanged")])
def test_init_containers_have_a_size_of_their_own_with_a_gate(*, gate: bool, expected: str) -> None:
    node = node_of(featureGates={"InPlacePodVerticalScalingInitContainers": gate})
    admit(node, pod("p", "init i cpu=2..", "c cpu=2.."))
    assert told(node.resize(pod("p", "init i cpu=20..", "c cpu=2.."))) == expected


@pytest.mark.parametrize(("gate", "expected"), [(True, "p deferred OutOfcpu"), (False, "p unchanged")])
def test_pods_have_a_size_of_their_own_with_a_gate(*, gate: bool, expected: str) -> None:
    node = node_of(featureGates={"InPlacePodLevelResourcesVerticalScaling": gate})
    admit(node, pod("p", "c cpu=2..", level="cpu=4.. memory=1Gi.."))
    assert told(node.resize(pod("p", "c cpu=2..", level="cpu=20.. memory=1Gi.."))) == expected
    assert node.used()["cpu"] == (4000 if gate else 20000)


def test_a_pod_counts_with_its_old_size_until_its_containers_have_the_new_one() -> None:
    node = node_of()
    admit(node, pod("a", "c cpu=10.."), pod("b", "c cpu=4.."))
    node.resize(pod("b", "c cpu=8.."))
    assert told(node.resize(pod("a", "c cpu=2.."))) == "a allocated, b deferred OutOfcpu"
    node.sizes_reported()
    assert told(node.retry()) == "b allocated"


@pytest.mark.parametrize(("release", "expected"), [(36, "b deferred OutOfcpu"), (37, "b allocated")])
def test_sizes_are_compared_by_container_or_for_the_pod(release: int, expected: str) -> None:
    """One container grows as much as the other shrinks: for a while that counts twice, or not at all."""
    node = node_of(release)
    admit(node, pod("a", "c cpu=5..", "d cpu=1.."), pod("b", "c cpu=4.."))
    node.resize(pod("a", "c cpu=1..", "d cpu=5.."))
    assert told(node.resize(pod("b", "c cpu=8.."))) == expected


def test_infeasible_pods_count_as_they_run_where_pods_have_no_size_of_their_own() -> None:
    gates = {"featureGates": {"InPlacePodLevelResourcesVerticalScaling": False}}
    for release, used in ((36, 6000), (37, 2000)):
        node = node_of(release, **CPU_STATIC, **gates)
        admit(node, pod("p", "init i cpu=6 memory=1Gi", "c cpu=2 memory=1Gi"))
        node.resize(pod("p", "init i cpu=6 memory=1Gi", "c cpu=4 memory=1Gi"))
        node.sizes_reported()
        assert node.used()["cpu"] == used
