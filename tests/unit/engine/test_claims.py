"""Extended resources that a claim backs, release by release."""

import pytest

from numawise.engine.admit import Admitted, Rejected
from numawise.engine.trace import Defect, Step
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.quantity import Quantity
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import PodRequest, Role
from numawise.rules.versions import Version
from tests.unit.build import GPU, even, machine

CLASS = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
ON = {"featureGates": {"DRAExtendedResource": True}}


def kubelet(hardware: Machine, version: Version, **config: object) -> SimulatedNode:
    kubelet = {"topologyManagerPolicy": "restricted", **config}
    node = boot(hardware, kubelet, Files(), version=version)
    assert isinstance(node, SimulatedNode)
    node.plugins_registered(hardware.plugins)
    return node


def pod(
    uid: str, resource: str = GPU, count: int = 1, *, claimed: bool = True, backed: bool = False
) -> RawPod:
    limits = {resource: Quantity.of(count)}
    names = frozenset({resource})
    container = RawContainer("c", Role.APP, limits, limits, claimed=names if claimed else frozenset(),
                             backed=names if backed else frozenset())  # fmt: skip
    return RawPod(uid, uid, (container,))


def requested(uid: str, resource: str = GPU, count: int = 1, *, claimed: bool = True) -> PodRequest:
    return defaulted(pod(uid, resource, count, claimed=claimed))


def server() -> Machine:
    return machine(even(2, 2, 8), devices={GPU: "g0@0 g1@1"})


@pytest.mark.parametrize(("version", "gate", "given"), [
    ((1, 34), True,  {"g0"}),
    ((1, 35), False, {"g0"}),
    ((1, 35), True,  set()),
    ((1, 36), False, {"g0"}),
    ((1, 36), True,  set()),
    ((1, 37), True,  set()),
])  # fmt: skip
def test_the_device_manager_gives_nothing_of_it(version: Version, gate: bool, given: set[str]) -> None:  # noqa: FBT001
    node = kubelet(server(), version, featureGates={"DRAExtendedResource": gate})
    assert isinstance(node.admit(requested("p")), Admitted)
    grants = node.state.devices.grants.get("p", {}).get("c", {})
    assert (grants[GPU].ids if GPU in grants else set()) == given


def test_hints_are_made_for_it_all_the_same() -> None:
    node = kubelet(server(), (1, 36))
    node.admit(requested("a", count=2, claimed=False))
    steps: list[Step] = []
    decision = node.admit(requested("b"), steps.append)
    assert isinstance(decision, Rejected)
    assert decision.reason == "TopologyAffinityError"
    assert Defect("claimed-resource-hinted", f"{GPU} of container c") in steps
    steps.clear()
    off = kubelet(server(), (1, 36), featureGates={"DRAExtendedResource": False})
    off.admit(requested("b"), steps.append)
    assert not any(isinstance(step, Defect) for step in steps)


@pytest.mark.parametrize(("version", "resource", "count", "reason"), [
    ((1, 35), GPU,              3, "OutOfnvidia.com/gpu"),
    ((1, 36), GPU,              3, ""),
    ((1, 34), CLASS,            1, ""),
    ((1, 35), CLASS,            1, ""),
    ((1, 36), CLASS,            1, ""),
    ((1, 34), "hugepages-2Mi",  2 << 20, ""),
    ((1, 35), "hugepages-2Mi",  2 << 20, ""),
    ((1, 36), "hugepages-2Mi",  2 << 20, "OutOfhugepages-2Mi"),
])  # fmt: skip
def test_the_sums(version: Version, resource: str, count: int, reason: str) -> None:
    node = kubelet(server(), version, topologyManagerPolicy="none", **ON)
    decision = node.admit(requested("p", resource, count))
    assert (decision.reason if isinstance(decision, Rejected) else "") == reason


def test_what_others_have_by_claim_counts_as_used() -> None:
    node = kubelet(server(), (1, 36), topologyManagerPolicy="none")
    assert isinstance(node.admit(requested("a", count=2)), Admitted)
    decision = node.admit(requested("b", claimed=False))
    assert isinstance(decision, Rejected)
    assert decision.reason == "OutOfnvidia.com/gpu"


@pytest.mark.parametrize(("version", "devices", "claims"), [
    ((1, 35), {},             0),
    ((1, 36), {},             1),
    ((1, 36), {GPU: "g0@0"},  0),
])  # fmt: skip
def test_the_scheduler_gives_by_claim_what_the_node_has_not(
    version: Version, devices: dict[str, str], claims: int
) -> None:
    node = kubelet(machine(even(2, 2, 8), devices=devices), version)
    wanted = node.requested(pod("p", claimed=False, backed=True))
    assert len(wanted.claims) == claims
    assert (GPU in wanted.containers[0].claimed) == bool(claims)
