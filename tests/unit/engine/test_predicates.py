"""The sums: what is compared, in which order, in which words; and that the managers come first."""

from dataclasses import replace
from typing import Any

import pytest

from numawise.codec.document import Document
from numawise.codec.pod import pod_from, pod_object
from numawise.engine.admit import Admitted, Rejected
from numawise.engine.predicates import Insufficient, Sums, asked, insufficient, shortages
from numawise.node.node import SimulatedNode, boot
from numawise.quantity import Quantity
from numawise.render.words import insufficient_text
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import Role
from numawise.rules.behaviour import behaviour_of
from numawise.rules.versions import Version
from tests.unit.build import GI, GPU, STATIC, T3, devices_of, kubelet, machine, pod, three_gpu_server

NODE = {"cpu": 10000, "memory": 8 * GI, "pods": 3, "x/gpu": 2}


def short(
    wanted: dict[str, int], used: dict[str, int], *, release: Version = (1, 36), allocated: int = 0
) -> str:
    """``resource requested used capacity`` of what is insufficient; '' when it fits."""
    rules = replace(kubelet(machine(T3)).rules, behaviour=behaviour_of(release))
    devices = {"x/gpu": frozenset(f"g{i}" for i in range(allocated))} if allocated else {}
    amounts = {
        name: Quantity(size * 10**6) if name == "cpu" else Quantity.of(size) for name, size in wanted.items()
    }
    wanting = defaulted(RawPod("p", "p", (RawContainer("c", Role.APP, amounts, {}),)))
    found = next(iter(shortages(rules, Sums(NODE, used), wanting, devices)), None)
    return f"{found.resource} {found.requested} {found.used} {found.capacity}" if found else ""


@pytest.mark.parametrize(("wanted", "used", "expected"), [
    pytest.param({"cpu": 6000},                   {"cpu": 4000},                "",                        id="just enough"),
    pytest.param({"cpu": 6000},                   {"cpu": 4001},                "cpu 6000 4001 10000",     id="one thousandth too much"),
    pytest.param({"memory": 9 * GI},              {},                           f"memory {9 * GI} 0 {8 * GI}", id="memory"),
    pytest.param({"cpu": 11000, "memory": 9 * GI}, {"pods": 3},                 "pods 1 3 3",              id="pods first"),
    pytest.param({"memory": 9 * GI, "cpu": 11000}, {},                          "cpu 11000 0 10000",       id="then CPU"),
    pytest.param({"x/gpu": 3, "memory": 9 * GI},  {},                           f"memory {9 * GI} 0 {8 * GI}", id="then memory"),
    pytest.param({"x/gpu": 1},                    {"x/gpu": 2},                 "x/gpu 1 2 2",             id="then everything else"),
    pytest.param({"hugepages-2Mi": 2 << 20},      {},                           "hugepages-2Mi 2097152 0 0", id="huge pages the node has none of"),
    pytest.param({"x/nic": 5},                    {},                           "",                        id="extended resources it does not know are dropped"),
    pytest.param({"example.kubernetes.io/x": 5},  {},                           "",                        id="Kubernetes' own names are not counted"),
    pytest.param({"cpu": 0, "memory": GI},        {"cpu": 20000},               "",                        id="zero fits where others ask for too much"),
    pytest.param({},                              {"cpu": 20000},               "",                        id="nothing asked"),
])  # fmt: skip
def test_fits(wanted: dict[str, int], used: dict[str, int], expected: str) -> None:
    assert short(wanted, used) == expected


@pytest.mark.parametrize(("release", "wanted", "used", "expected"), [
    ((1, 27), {"memory": GI}, {"cpu": 20000}, "cpu 0 20000 10000"),  # none of the CPU is asked for, and too much used
    ((1, 28), {"memory": GI}, {"cpu": 20000}, ""),
    ((1, 25), {"x/gpu": 0},   {"x/gpu": 3},   "x/gpu 0 3 2"),
    ((1, 26), {"x/gpu": 0},   {"x/gpu": 3},   ""),
])  # fmt: skip
def test_requests_for_zero(
    release: Version, wanted: dict[str, int], used: dict[str, int], expected: str
) -> None:
    assert short(wanted, used, release=release) == expected


def test_devices_that_are_allocated_count_as_allocatable() -> None:
    assert short({"x/gpu": 1}, {"x/gpu": 3}) == "x/gpu 1 3 2"
    assert short({"x/gpu": 1}, {"x/gpu": 3}, allocated=4) == ""


def test_the_kubelets_words() -> None:
    found = Insufficient("cpu", 6000, 4500, 10000)
    assert found.reason == "OutOfcpu"
    assert (
        found.message == "Node didn't have enough resource: cpu, requested: 6000, used: 4500, capacity: 10000"
    )
    assert insufficient_text(found) == "6 asked for, 5500m of 10 not requested yet"
    memory = Insufficient("memory", 9 * GI, 0, 8 * GI)
    assert insufficient_text(memory) == "9Gi asked for, 8Gi of 8Gi not requested yet"


def test_all_that_is_insufficient_is_known_in_order() -> None:
    rules = kubelet(machine(T3)).rules
    node = {**NODE, "ephemeral-storage": 10}
    wanted = {"x/gpu": 3, "ephemeral-storage": 11, "memory": 9 * GI, "cpu": 11000, "hugepages-2Mi": 1}
    found = insufficient(rules, Sums(node, {"pods": 3}), wanted)
    expected = ["pods", "cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "x/gpu"]
    assert [one.resource for one in found] == expected


def test_ephemeral_storage_that_is_not_known_is_not_compared() -> None:
    assert short({"ephemeral-storage": 1 << 60}, {}) == ""


def test_a_pod_asks_for_the_most_it_needs_at_one_time() -> None:
    wanted = pod("p", "init i cpu=6", "sidecar s cpu=1", "a cpu=2", "b cpu=2")
    assert asked(wanted) == {"pods": 1, "cpu": 6000}


def test_what_the_runtime_class_adds_counts_too() -> None:
    manifest = {
        "metadata": {"name": "p"},
        "spec": {
            "overhead": {"cpu": "250m", "memory": "120Mi"},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    }
    assert asked(defaulted(pod_from(manifest))) == {"pods": 1, "cpu": 1250, "memory": 120 << 20}
    read = pod_object(Document({"apiVersion": "v1", "kind": "Pod", **manifest}).root)
    assert asked(defaulted(read))["cpu"] == 1250


# --- on a node -----------------------------------------------------------------------------------


def busy(**more: Any) -> SimulatedNode:
    """16 CPUs, of which one is reserved and 12 asked for by a pod without CPUs of its own."""
    node = kubelet(machine(T3, 8 * GI), **{**STATIC, "topologyManagerPolicy": "restricted", **more})
    assert isinstance(node.admit(pod("shared", "c cpu=12..13")), Admitted)
    return node


def test_the_managers_allocate_before_the_sums_refuse() -> None:
    node = busy()
    refused = node.admit(pod("p", "c cpu=4 memory=1Gi"))
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.provider) == ("OutOfcpu", "")
    assert refused.message.endswith("cpu, requested: 4000, used: 12000, capacity: 15000")
    assert refused.insufficient == Insufficient("cpu", 4000, 12000, 15000)
    assert node.state.cpu.assignments["p"]["c"].bit_count() == 4  # stays until it is collected
    assert "p" not in node.state.active
    assert isinstance(node.admit(pod("q", "c cpu=2 memory=1Gi")), Admitted)
    assert "p" not in node.state.cpu.assignments


def test_when_both_refuse_the_managers_speak() -> None:
    refused = busy().admit(pod("p", "c cpu=20 memory=1Gi"))
    assert isinstance(refused, Rejected)
    assert refused.reason == "TopologyAffinityError"
    assert refused.insufficient is None


def test_the_managers_alone() -> None:
    node = busy()
    node.predicates = False
    assert isinstance(node.admit(pod("p", "c cpu=4 memory=1Gi")), Admitted)


def test_asking_keeps_nothing() -> None:
    node = busy()
    before = node.state
    assert isinstance(node.ask(pod("p", "c cpu=4 memory=1Gi")), Rejected)
    assert isinstance(node.ask(pod("p", "c cpu=2 memory=1Gi")), Admitted)
    assert node.state is before


def test_sums_follow_pods_that_come_and_go() -> None:
    node = kubelet(machine(T3, 8 * GI), maxPods=2)
    for uid in ("a", "b"):
        assert isinstance(node.admit(pod(uid, "c cpu=1")), Admitted)
    full = node.admit(pod("c", "c"))
    assert isinstance(full, Rejected)
    assert full.message == "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"
    node.remove("a")
    assert isinstance(node.admit(pod("c", "c")), Admitted)


def test_a_restarted_kubelet_counts_pods_as_it_hears_of_them() -> None:
    node = kubelet(machine(T3, 8 * GI))
    wanted = [pod("a", "c cpu=8"), pod("b", "c cpu=7")]
    for one in wanted:
        assert isinstance(node.admit(one), Admitted)
    less = boot(node.machine, {"systemReserved": {"cpu": "4"}}, node.files, node.state)
    assert isinstance(less, SimulatedNode)
    again = [less.admit(one) for one in wanted]
    assert [type(one) for one in again] == [Admitted, Rejected]  # not the first for the sake of the second


def test_a_device_that_fell_ill_is_still_counted_while_it_is_allocated() -> None:
    node = kubelet(three_gpu_server())
    assert isinstance(node.admit(pod("p", f"c {GPU}=3")), Admitted)
    node.devices_changed(GPU, devices_of("G0@0 !G1@0 !G2@1"))
    assert (node.allocatable()[GPU], node.used()[GPU]) == (1, 3)
    refused = node.admit(pod("q", f"c {GPU}=1"))
    assert isinstance(refused, Rejected)
    assert refused.provider == "device"  # the managers speak first
