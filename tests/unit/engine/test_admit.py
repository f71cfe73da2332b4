"""One pod through everything: hints, merge, allocation, and the kubelet's words when it says no."""

from typing import Any

import pytest

from numawise.codec.checkpoint import CPU_FILE, encode_cpu
from numawise.engine.admit import Admitted, Crashed, Decision, Rejected
from numawise.engine.state import CpuState
from numawise.engine.trace import Defect, HintsFound, Step
from numawise.node.node import SimulatedNode
from numawise.sets import format_ids, parse_ids
from tests.unit.build import (
    GI,
    GPU,
    MI,
    STATIC,
    T3,
    even,
    kubelet,
    machine,
    pod,
    shown,
    static_memory,
    three_gpu_server,
)

NOT_ALIGNED = ("TopologyAffinityError", "Resources cannot be allocated with Topology locality")


def hints(steps: list[Step], provider: str) -> dict[str, str | None] | None:
    (found,) = (step.hints for step in steps if isinstance(step, HintsFound) and step.provider == provider)
    return found if found is None else {name: shown(family) for name, family in found.items()}


def given(node: SimulatedNode, uid: str, container: str = "c") -> str:
    return format_ids(node.state.cpu.assignments[uid][container])


def devices(node: SimulatedNode, uid: str, container: str = "c") -> str:
    grants = node.state.devices.grants.get(uid, {}).get(container, {})
    return " ".join(sorted(i for grant in grants.values() for i in grant.ids))


def why(decision: Decision) -> tuple[str, str]:
    assert isinstance(decision, Rejected)
    return decision.reason, decision.message


# --- the 3-GPU server, as the specification walks through it -------------------------------------


def three_gpu_node(policy: str, *, busy: str = "") -> SimulatedNode:
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy=policy)
    if busy == "14-27":
        assert isinstance(node.admit(pod("busy", "c cpu=14 memory=1Gi")), Admitted)
    elif busy:
        other = pod("other", f"c cpu=3 memory=1Gi {GPU}=1")
        assert isinstance(node.admit(other), Admitted)  # takes node 0, so that the next takes node 1
        assert isinstance(
            node.admit(pod("busy", f"c cpu=3 memory=1Gi {GPU}=1"), pick=lambda *_: ["G2"]), Admitted
        )
        node.remove("other")
        assert (given(node, "busy"), devices(node, "busy")) == ("14-16", "G2")
    return node


@pytest.mark.parametrize(("busy", "gpus", "cpus", "device_hints", "cpu_hints", "best", "expected", "restricted"), [
    ("",      0,  3, None,        "0! 1! 0-1", "0!",   "1-3",             True),
    ("",      0, 14, None,        "1! 0-1",    "1!",   "14-27",           True),
    ("14-27", 0, 12, None,        "0! 0-1",    "0!",   "1-12",            True),
    ("",      1,  3, "0! 1! 0-1", "0! 1! 0-1", "0!",   "1-3 G0",          True),
    ("",      2,  3, "1! 0-1",    "0! 1! 0-1", "1!",   "14-16 G1 G2",     True),
    ("G2",    2,  0, "0-1",       None,        "0-1",  "G0 G1",           False),
    ("G2",    2, 16, "0-1",       "0-1!",      "0-1",  "1-5,17-27 G0 G1", False),
    ("G2",    1, 16, "0! 1! 0-1", "0-1!",      "0-1",  "1-5,17-27 G0",    False),
])  # fmt: skip
def test_three_gpu_server(
    *,
    busy: str,
    gpus: int,
    cpus: int,
    device_hints: str | None,
    cpu_hints: str | None,
    best: str,
    expected: str,
    restricted: bool,
) -> None:
    asked = f"c cpu={cpus} memory=1Gi" if cpus else "c memory=1Gi"
    wanted = pod("p", f"{asked} {GPU}={gpus}" if gpus else asked)
    node = three_gpu_node("best-effort", busy=busy)
    steps: list[Step] = []
    decision = node.admit(wanted, steps.append)
    assert isinstance(decision, Admitted)
    assert hints(steps, "device") == ({GPU: device_hints} if gpus else {})
    assert hints(steps, "cpu") == ({"cpu": cpu_hints} if cpus else None)
    found = decision.affinity["c"]
    assert f"{found.numa}{'!' * found.preferred}" == best
    got = [given(node, "p")] if cpus else []
    assert " ".join([*got, devices(node, "p")]).strip() == expected

    for policy, admitted in (("restricted", restricted), ("single-numa-node", restricted)):
        decision = three_gpu_node(policy, busy=busy).admit(wanted)
        if admitted:
            assert isinstance(decision, Admitted)
        else:
            assert why(decision) == NOT_ALIGNED


# --- refusals by allocation ----------------------------------------------------------------------

T3_GIB = machine(T3, 8 * GI)
TIGHT = "Allocate failed due to {}, which is unexpected"


@pytest.mark.parametrize(("config", "asked", "reason", "message"), [
    pytest.param({}, "c cpu=16 memory=1Gi", "UnexpectedAdmissionError",
                 TIGHT.format("not enough cpus available to satisfy request: requested=16, available=15"), id="CPUs"),
    pytest.param({"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}, "c cpu=3 memory=1Gi", "SMTAlignmentError",
                 "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2", id="half a core"),
    pytest.param({"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}, "c cpu=16 memory=1Gi", "SMTAlignmentError",
                 "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 14, requested CPUs = 16, "
                 "CPUs per core = 2", id="whole cores"),
    pytest.param({}, "c cpu=1 memory=1Gi x/d=3", "UnexpectedAdmissionError",
                 TIGHT.format("requested number of devices unavailable for x/d. Requested: 3, Available: 2"), id="devices"),
    pytest.param({}, "c cpu=16 memory=1Gi x/d=3", "UnexpectedAdmissionError",
                 TIGHT.format("requested number of devices unavailable for x/d. Requested: 3, Available: 2"),
                 id="devices complain before CPUs"),
])  # fmt: skip
def test_allocation_refuses_under_policy_none_too(
    config: dict[str, Any], asked: str, reason: str, message: str
) -> None:
    hardware = machine(T3, devices={"x/d": "a@0 b@1"})
    node = kubelet(hardware, **{**STATIC, **config})
    assert why(node.admit(pod("p", asked))) == (reason, message)


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node", "best-effort"])
def test_memory_that_fits_nowhere_is_refused_by_allocation(policy: str) -> None:
    node = kubelet(T3_GIB, **static_memory(GI, GI), topologyManagerPolicy=policy)
    reason, message = why(node.admit(pod("p", "c cpu=1 memory=20Gi")))
    assert reason == "UnexpectedAdmissionError"
    assert message.startswith("Allocate failed due to [memorymanager] failed to ")


def test_a_huge_page_size_nobody_has_crashes_the_kubelet() -> None:
    node = kubelet(T3_GIB, **static_memory(GI, GI), topologyManagerPolicy="restricted")
    before = node.state
    assert isinstance(node.admit(pod("p", "c cpu=1 memory=1Gi hugepages-2Mi=2Mi")), Crashed)
    assert node.state is before


def test_dealing_without_end_is_a_crash() -> None:
    """The specification's confirmed input: CPU 4 reserved, others held, 14 CPUs asked in whole cores."""
    hardware = machine(even(4, 4, 12, 2, near=True))
    held = parse_ids("6-7,9,11,13,18,21")
    file = encode_cpu("static", CpuState(hardware.layout.all & ~held, {"other": {"c": held}}))
    node = kubelet(
        hardware,
        {CPU_FILE: file},
        cpuManagerPolicy="static",
        reservedSystemCPUs="4",
        cpuManagerPolicyOptions={"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"},
    )
    steps: list[Step] = []
    decision = node.admit(pod("p", "c cpu=14 memory=1Gi"), steps.append)
    assert isinstance(decision, Crashed)
    assert decision.message.startswith("the kubelet never returns")
    assert "never-returns" in {step.name for step in steps if isinstance(step, Defect)}


def test_full_cores_are_not_airtight() -> None:
    """Node 0 has CPU 0 reserved; 8 CPUs with the affinity {0} take its sibling 8 along."""
    node = kubelet(
        machine(T3, devices={"x/d": "a@0"}),
        **STATIC,
        topologyManagerPolicy="best-effort",
        cpuManagerPolicyOptions={"full-pcpus-only": "true"},
    )
    assert isinstance(node.admit(pod("p", "c cpu=8 memory=1Gi x/d=1")), Admitted)
    assert given(node, "p") == "1-4,8-11"


# --- init containers -----------------------------------------------------------------------------


@pytest.mark.parametrize(("containers", "expected", "shared"), [
    (["init i0 cpu=4", "init i1 cpu=2", "c0 cpu=2", "c1 cpu=4"],
     {"i0": "1-2,9-10", "i1": "1,9", "c0": "1,9", "c1": "2-3,10-11"}, "0,4-8,12-15"),
    (["init i0 cpu=4", "sidecar s0 cpu=2", "c0 cpu=2", "c1 cpu=1500m"],
     {"i0": "1-2,9-10", "s0": "1,9", "c0": "2,10"}, "0,3-8,11-15"),
])  # fmt: skip
def test_init_containers_hand_their_cpus_on(
    containers: list[str], expected: dict[str, str], shared: str
) -> None:
    node = kubelet(machine(T3), **STATIC, topologyManagerPolicy="best-effort")
    assert isinstance(node.admit(pod("p", *(f"{text} memory=1Gi" for text in containers))), Admitted)
    assert {name: format_ids(cpus) for name, cpus in node.state.cpu.assignments["p"].items()} == expected
    assert format_ids(node.state.cpu.shared) == shared


def test_a_pod_refused_at_its_second_container_keeps_the_first_ones_cpus_for_a_while() -> None:
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy="restricted")
    decision = node.admit(pod("p", "a cpu=3 memory=1Gi", f"b cpu=16 memory=1Gi {GPU}=1"))
    assert why(decision) == NOT_ALIGNED
    assert given(node, "p", "a") == "1-3"
    assert isinstance(node.admit(pod("q", "c cpu=3 memory=1Gi")), Admitted)  # collected before it was asked
    assert given(node, "q") == "1-3"
    assert "p" not in node.state.cpu.assignments


# --- scopes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scope", "expected"), [
    ("container", {"a": "1-8",  "b": "14-21"}),   # each container by itself
    ("pod",       None),                          # 16 together never fit one node
])  # fmt: skip
def test_scope(scope: str, expected: dict[str, str] | None) -> None:
    node = kubelet(
        three_gpu_server(), **STATIC, topologyManagerPolicy="single-numa-node", topologyManagerScope=scope
    )
    decision = node.admit(pod("p", "a cpu=8 memory=1Gi", "b cpu=8 memory=1Gi"))
    if expected is None:
        assert why(decision) == NOT_ALIGNED
    else:
        assert {name: format_ids(cpus) for name, cpus in node.state.cpu.assignments["p"].items()} == expected


def test_pod_scope_gives_all_containers_one_affinity() -> None:
    node = kubelet(
        three_gpu_server(), **STATIC, topologyManagerPolicy="restricted", topologyManagerScope="pod"
    )
    decision = node.admit(pod("p", f"a cpu=3 memory=1Gi {GPU}=2", "b cpu=3 memory=1Gi"))
    assert isinstance(decision, Admitted)
    assert {name: str(hint.numa) for name, hint in decision.affinity.items()} == {"a": "1", "b": "1"}
    assert (given(node, "p", "a"), given(node, "p", "b")) == ("14-16", "17-19")


MANAGED = {"featureGates": {"PodLevelResourceManagers": True}}


@pytest.mark.parametrize(("config", "message"), [
    ({},                     None),  # without the gate such pods have no wish
    ({**MANAGED},            "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"),
    ({**MANAGED, "topologyManagerScope": "pod"},
                             "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"),
])  # fmt: skip
def test_pod_level_resources(config: dict[str, Any], message: str | None) -> None:
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy="single-numa-node", **config)
    decision = node.admit(pod("p", "a cpu=16 memory=1Gi", level="cpu=16..16 memory=2Gi..2Gi"))
    if message is None:
        assert isinstance(decision, Admitted)
        assert not node.state.cpu.assignments
    else:
        assert why(decision) == ("TopologyAffinityError", message)


def test_a_pod_that_is_managed_as_a_whole() -> None:
    node = kubelet(
        three_gpu_server(),
        **STATIC,
        topologyManagerPolicy="restricted",
        topologyManagerScope="pod",
        **MANAGED,
    )
    wanted = pod("p", "a cpu=2 memory=1Gi", "b", level="cpu=6..6 memory=2Gi..2Gi")
    assert isinstance(node.admit(wanted), Admitted)
    assert {name: format_ids(cpus) for name, cpus in node.state.cpu.assignments["p"].items()} == {
        "a": "1-2",
        "b": "3-6",
    }
    assert {uid: format_ids(cpus) for uid, cpus in node.state.cpu.pods.items()} == {"p": "1-6"}
    node.remove("p")
    node.reconcile()
    assert format_ids(node.state.cpu.shared) == "0-27"
    assert not node.state.cpu.pods


WHOLE_POD: dict[str, Any] = {
    **STATIC,
    **MANAGED,
    "topologyManagerPolicy": "best-effort",
    "topologyManagerScope": "pod",
}


@pytest.mark.parametrize(("containers", "expected"), [
    (["init i cpu=2", "sidecar s cpu=2", "a cpu=2", "b"],
     {"i": "4,12", "s": "4,12", "a": "5,13", "b": "6-7,14-15"}),            # the init container was done before s
    (["init i", "sidecar s cpu=2", "init j", "a cpu=2"],
     {"i": "4-7,12-15", "s": "4,12", "j": "5-7,13-15", "a": "5,13"}),       # shared ones: what sidecars leave
    (["sidecar s", "a cpu=2"],
     {"s": "5-7,13-15", "a": "4,12"}),
])  # fmt: skip
def test_a_pods_cpus_are_divided_among_its_containers(
    containers: list[str], expected: dict[str, str]
) -> None:
    node = kubelet(machine(T3), **WHOLE_POD)
    texts = [f"{text} memory=1Gi" if "cpu" in text else text for text in containers]
    assert isinstance(node.admit(pod("p", *texts, level="cpu=8..8 memory=8Gi..8Gi")), Admitted)
    assert {name: format_ids(cpus) for name, cpus in node.state.cpu.assignments["p"].items()} == expected
    assert format_ids(node.state.cpu.pods["p"]) == "4-7,12-15"
    assert format_ids(node.state.cpu.shared) == "0-3,8-11"


@pytest.mark.parametrize(("options", "containers", "cpus", "reason", "message"), [
    ({}, ["a cpu=8 memory=1Gi", "b"], 8, "EmptyPodSharedPoolError",
     "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"),
    ({}, ["sidecar s cpu=8 memory=1Gi", "init i", "a cpu=0..0"], 8, "EmptyPodSharedPoolError",
     "pod rejected, pod has shared init containers but no cpus available for them"),
    ({}, ["a"], 16, "UnexpectedAdmissionError",
     TIGHT.format("not enough cpus available to satisfy request: requested=1, available=0")),  # 15 are taken first
    ({"full-pcpus-only": "true"}, ["a"], 3, "SMTAlignmentError",
     "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"),
])  # fmt: skip
def test_pods_that_cannot_be_divided(
    options: dict[str, str], containers: list[str], cpus: int, reason: str, message: str
) -> None:
    node = kubelet(machine(T3), **WHOLE_POD, cpuManagerPolicyOptions=options)
    decision = node.admit(pod("p", *containers, level=f"cpu={cpus}..{cpus} memory=8Gi..8Gi"))
    assert why(decision) == (reason, message)
    assert not node.state.cpu.assignments


def test_small_memory_is_pinned_without_a_topology_policy() -> None:
    node = kubelet(machine(T3, 2 * GI), **static_memory(512 * MI, 512 * MI))
    assert isinstance(node.admit(pod("p", "c cpu=1 memory=1Gi")), Admitted)
    assert [(b.numa, b.size) for b in node.state.memory.assignments["p"]["c"]] == [(1, GI)]
