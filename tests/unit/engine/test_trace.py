"""Why is data: the steps that a decision tells, in order, and the defects it names."""

from dataclasses import replace
from typing import Any

import pytest

from numawise.codec.checkpoint import CPU_FILE
from numawise.engine.admit import Admitted, Rejected
from numawise.engine.hint import HintList
from numawise.engine.topology.why import merge_step as told_merge
from numawise.engine.trace import (
    CHOSEN,
    DEFECTS,
    FARTHER,
    HIGHER,
    NOT_PREFERRED,
    NOT_SHARED,
    WIDER,
    AllocationFailed,
    BufferReused,
    CpusGranted,
    CpusTaken,
    Defect,
    DevicesChosen,
    HintsFound,
    HintsMerged,
    MemoryGranted,
    StaleRemoved,
    Step,
    TooManyCombinations,
)
from numawise.machine.model import Cpu
from numawise.machine.preference import LowestIds
from numawise.node.node import SimulatedNode
from numawise.request.model import PodRequest
from numawise.rules.behaviour import behaviour_of
from numawise.sets import format_ids, parse_ids
from tests.unit.build import (
    GI,
    GPU,
    MI,
    STATIC,
    T3,
    even,
    hint,
    hints_of,
    kubelet,
    machine,
    pod,
    shown,
    static_memory,
    three_gpu_server,
)


def told(node: SimulatedNode, wanted: PodRequest) -> list[Step]:
    steps: list[Step] = []
    node.admit(wanted, steps.append)
    return steps


def only(steps: list[Step], kind: type) -> list[Any]:
    return [step for step in steps if isinstance(step, kind)]


def defects(steps: list[Step]) -> list[str]:
    return [step.name for step in only(steps, Defect)]


def candidates(merged: HintsMerged) -> list[str]:
    return [
        f"{format_ids(one.mask)}{'!' * one.preferred} {one.why}{''.join(f', {name}' for name in one.resources)}"
        for one in merged.candidates
    ]


# --- in order ------------------------------------------------------------------------------------


def test_the_steps_of_an_admission() -> None:
    hardware = machine(T3, 8 * GI, devices={"x/d": "a@0 b@1"})
    config = {**STATIC, **static_memory(GI, GI), "systemReserved": {"cpu": "500m", "memory": str(2 * GI)}}
    node = kubelet(hardware, **config, topologyManagerPolicy="restricted")
    steps = told(node, pod("p", "c cpu=3 memory=1Gi x/d=1"))
    told_of = (HintsFound, HintsMerged, DevicesChosen, CpusTaken, CpusGranted, MemoryGranted)
    assert [type(step) for step in steps if isinstance(step, told_of)] == [
        HintsFound, HintsFound, HintsFound, HintsMerged, DevicesChosen, CpusTaken, CpusTaken, CpusGranted, MemoryGranted,
    ]  # fmt: skip
    found = {
        step.provider: {name: shown(family) for name, family in step.hints.items()}
        for step in only(steps, HintsFound)
    }
    assert found == {
        "device": {"x/d": "0! 1! 0-1"},
        "cpu": {"cpu": "0! 1! 0-1"},
        "memory": {"memory": "0! 1! 0-1"},
    }
    assert only(steps, CpusTaken) == [
        CpusTaken("core", 1, parse_ids("1,9"), 0),
        CpusTaken("cpu", 0, parse_ids("8"), 0),
    ]
    assert only(steps, CpusGranted) == [CpusGranted("c", parse_ids("1,8-9"), parse_ids("1,8-9"))]
    assert only(steps, MemoryGranted) == [MemoryGranted("c", 1, (("memory", GI),), extended=False)]
    assert only(steps, DevicesChosen) == [DevicesChosen("c", "x/d", ("a",), ("a",), (), aligned=True)]


def test_the_same_decision_without_a_listener() -> None:
    wanted = pod("p", f"c cpu=3 memory=1Gi {GPU}=1")
    heard, alone = (
        kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy="restricted") for _ in range(2)
    )
    told(heard, wanted)
    alone.admit(wanted)
    assert heard.state == alone.state


def test_what_a_refusal_tells() -> None:
    node = kubelet(machine(T3), **STATIC)
    (failed,) = only(told(node, pod("p", "c cpu=16 memory=1Gi")), AllocationFailed)
    assert (failed.container, failed.provider, failed.reason) == ("c", "cpu", "UnexpectedAdmissionError")
    assert failed.message.startswith("Allocate failed due to not enough cpus")


def test_pods_that_are_gone_are_told_when_they_are_collected() -> None:
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy="restricted")
    told(node, pod("p", f"c cpu=3 memory=1Gi {GPU}=1"))
    node.remove("p")
    steps = told(node, pod("q", "c cpu=3 memory=1Gi"))
    assert only(steps, StaleRemoved) == [StaleRemoved("device", "p"), StaleRemoved("cpu", "p")]


def test_in_pod_scope_hints_are_the_pods() -> None:
    node = kubelet(
        three_gpu_server(), **STATIC, topologyManagerPolicy="restricted", topologyManagerScope="pod"
    )
    steps = told(node, pod("p", "a cpu=3 memory=1Gi", "b cpu=3 memory=1Gi"))
    assert [step.container for step in only(steps, HintsFound)] == [None] * 3
    assert [step.container for step in only(steps, HintsMerged)] == [None]
    assert [step.container for step in only(steps, CpusGranted)] == ["a", "b"]


# --- candidates ----------------------------------------------------------------------------------


def merged(policy: str, asked: str, *before: str, **config: Any) -> HintsMerged:
    """The merge of one container on the 3-GPU server, after other pods."""
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy=policy, **config)
    for number, text in enumerate(before):
        node.admit(pod(f"before-{number}", text))
    (found,) = only(told(node, pod("p", asked)), HintsMerged)
    return found


def test_equal_nodes() -> None:
    found = merged("best-effort", "c cpu=3 memory=1Gi")
    assert found.best == hint("0!")
    assert found.admitted
    assert found.width == 1
    assert candidates(found) == [f"0! {CHOSEN}", f"1! {HIGHER}"]
    assert found.decided_by == ()


def test_one_node_cannot() -> None:
    found = merged("best-effort", f"c cpu=3 memory=1Gi {GPU}=2")
    assert found.best == hint("1!")
    assert candidates(found) == [f"0 {NOT_SHARED}, {GPU}", f"1! {CHOSEN}"]
    assert found.decided_by == (GPU,)


def test_the_neediest_resource_sets_the_width() -> None:
    found = merged("best-effort", f"c cpu=16 memory=1Gi {GPU}=1")
    assert found.best == hint("0-1")
    assert found.width == 2
    assert candidates(found) == [f"0 {NOT_SHARED}, cpu", f"1 {NOT_SHARED}, cpu", f"0-1 {CHOSEN}"]
    assert found.decided_by == (GPU,)
    assert not merged("restricted", f"c cpu=16 memory=1Gi {GPU}=1").admitted


def test_nobody_was_asked() -> None:
    found = merged("restricted", "c memory=1Gi")
    assert found.best == hint("0-1!")
    assert found.decided_by == ()


def test_an_impossible_resource_decides() -> None:
    found = merged("restricted", f"c cpu=3 memory=1Gi {GPU}=4")
    assert not found.admitted
    assert found.decided_by == (GPU,)


FOUR = ((10, 20, 40, 30), (20, 10, 30, 40), (40, 30, 10, 15), (30, 40, 15, 10))


def test_masks_that_were_farther_or_wider() -> None:
    hardware = machine(even(4, 4, 16), distances=FOUR)
    options = {"prefer-closest-numa-nodes": "true"}
    node = kubelet(
        hardware, **STATIC, topologyManagerPolicy="restricted", topologyManagerPolicyOptions=options
    )
    (found,) = only(told(node, pod("p", "c cpu=7 memory=1Gi")), HintsMerged)
    assert found.best == hint("2-3!")
    why = {format_ids(one.mask): one.why for one in found.candidates}
    assert why["2-3"] == CHOSEN
    assert why["0-1"] == FARTHER
    assert why["0"] == NOT_SHARED


def test_resources_that_disagree_on_the_width() -> None:
    """Four CPUs fit one node of four, two devices need two nodes."""
    hardware = machine(even(4, 4, 16), devices={"x/d": "a@0 b@1 c@2 d@3"})
    node = kubelet(hardware, **STATIC, topologyManagerPolicy="best-effort")
    (found,) = only(told(node, pod("p", "c cpu=4 memory=1Gi x/d=2")), HintsMerged)
    assert found.best == hint("0-1")
    assert found.width == 2
    why = {format_ids(one.mask): (one.why, one.resources) for one in found.candidates}
    assert why["0-1"] == (CHOSEN, ())
    assert why["1"] == (NOT_SHARED, ("x/d",))
    assert why["2-3"] == (HIGHER, ())
    assert found.decided_by == ("cpu",)


@pytest.mark.parametrize(("voters", "best", "expected", "decided_by"), [
    ({"a": "0 1!", "b": "0! 1!"},           "1!",  [f"0 {NOT_PREFERRED}, a", f"1! {CHOSEN}"],                          ("a",)),
    ({"a": "0! 0-1!", "b": "0! 0-1!"},      "0!",  [f"0! {CHOSEN}", f"1 {NOT_SHARED}, a, b", f"0-1! {WIDER}"],         ("a", "b")),
    ({"a": "0-1!", "b": "0-1"},             "0-1", [f"0 {NOT_SHARED}, a, b", f"1 {NOT_SHARED}, a, b", f"0-1 {CHOSEN}"], ("b",)),
    ({"a": "0!", "b": "1!"},                "0-1", [f"0 {NOT_SHARED}, b", f"1 {NOT_SHARED}, a", f"0-1 {CHOSEN}"],      ("a", "b")),
    ({"a": "", "b": "0!"},                  "0",   [f"0 {CHOSEN}", f"1 {NOT_SHARED}, a, b"],                           ("a",)),
])  # fmt: skip
def test_who_stood_against_what(
    voters: dict[str, str], best: str, expected: list[str], decided_by: tuple[str, ...]
) -> None:
    families = {name: HintList(tuple(hints_of(text))) for name, text in voters.items()}
    found = told_merge(0b11, families, "c", hint(best), admitted=True, nearest=False)
    assert candidates(found) == expected
    assert found.decided_by == decided_by


# --- what the kubelet leaves to chance -----------------------------------------------------------


def test_a_free_choice_of_devices_says_so() -> None:
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy="best-effort")
    told(node, pod("first", f"c cpu=3 memory=1Gi {GPU}=1"))
    (step,) = only(told(node, pod("p", f"c cpu=3 memory=1Gi {GPU}=1")), DevicesChosen)
    assert (step.chosen, step.fixed, step.open_to, step.free, step.aligned) == (
        ("G1",),
        (),
        ("G1", "G2"),
        True,
        True,
    )


def test_a_forced_choice_says_so_too() -> None:
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy="best-effort")
    (step,) = only(told(node, pod("p", f"c cpu=3 memory=1Gi {GPU}=2")), DevicesChosen)
    assert (step.chosen, step.fixed, step.free) == (("G1", "G2"), ("G1", "G2"), False)


def test_the_plugins_choice_is_not_free() -> None:
    hardware = machine(T3, devices={"x/d": "a@0 b@0 c@0"}, preference=LowestIds())
    node = kubelet(hardware, **STATIC, topologyManagerPolicy="best-effort")
    (step,) = only(told(node, pod("p", "c x/d=1")), DevicesChosen)
    assert (step.chosen, step.free) == (("a",), False)


# --- defects, reproduced and named ---------------------------------------------------------------


def test_memory_nowhere() -> None:
    node = kubelet(
        machine(T3, 2 * GI), **static_memory(512 * MI, 512 * MI), topologyManagerPolicy="restricted"
    )
    steps = told(node, pod("p", "c cpu=1 memory=4Gi"))
    assert defects(steps) == ["memory-nowhere-is-no-preference"]
    assert only(steps, HintsMerged)[0].admitted


def test_a_running_pod_is_refused_for_want_of_free_cores() -> None:
    config = {**STATIC, "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}
    hardware = machine(T3)
    node = kubelet(hardware, **config)
    wanted = pod("p", "c cpu=14 memory=1Gi")
    assert isinstance(node.admit(wanted), Admitted)
    again = kubelet(hardware, node.files.texts, **config)
    again.rules = replace(again.rules, behaviour=behaviour_of((1, 36)))  # 1.37 looks first
    steps: list[Step] = []
    decision = again.admit(wanted, steps.append)
    assert isinstance(decision, Rejected)
    assert decision.message == (
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 0, requested CPUs = 14, "
        "CPUs per core = 2"
    )
    assert defects(steps) == ["running-pod-refused-for-free-cores"]


def test_cpus_that_were_not_free() -> None:
    hybrid = [
        Cpu(0, 0, 0, 0),
        Cpu(1, 0, 0, 0),
        Cpu(2, 1, 0, 0),
        Cpu(3, 1, 0, 0),
        *(Cpu(i, i, 0, 0) for i in range(4, 8)),
    ]
    node = kubelet(machine(hybrid), cpuManagerPolicy="static", reservedSystemCPUs="0")
    steps = told(node, pod("p", "c cpu=2 memory=1Gi"))
    assert only(steps, CpusTaken) == [CpusTaken("core", 0, 0b11, 0b01)]
    assert defects(steps) == ["cpus-not-free"]


def test_a_split_core() -> None:
    options = {"full-pcpus-only": "true"}
    hardware = machine(T3, devices={"x/d": "a@0"})
    node = kubelet(hardware, **STATIC, topologyManagerPolicy="best-effort", cpuManagerPolicyOptions=options)
    assert "split-core" in defects(told(node, pod("p", "c cpu=8 memory=1Gi x/d=1")))


def test_an_overwritten_set_of_nodes() -> None:
    """8 nodes of 4 CPUs; node 7's first CPU is reserved by hand so that 16 fit elsewhere."""
    config = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "32", "topologyManagerPolicy": "none"}
    hardware = machine([*even(8, 8, 32), Cpu(32, 99, 7, 7)])
    options = {"distribute-cpus-across-numa": "true"}
    steps = told(
        kubelet(hardware, **config, cpuManagerPolicyOptions=options), pod("p", "c cpu=16 memory=1Gi")
    )
    (step,) = only(steps, BufferReused)
    assert (step.chosen, step.used) == ((0, 1, 2, 3), (0, 1, 2, 7))


def test_a_single_node_in_a_group() -> None:
    config = {**STATIC, **static_memory(512 * MI, 512 * MI)}
    config["systemReserved"] = {"cpu": "500m", "memory": str(1024 * MI)}
    hardware = machine(T3, 2 * GI, devices={"x/d": "a@1"})
    node = kubelet(hardware, **config, topologyManagerPolicy="best-effort")
    assert isinstance(node.admit(pod("p", "c cpu=1 memory=2Gi")), Admitted)
    steps = told(node, pod("q", "c cpu=1 memory=512Mi x/d=1"))
    assert "single-node-in-group" in defects(steps)


def test_pod_level_allocation_is_made_again() -> None:
    config: dict[str, Any] = {
        **STATIC,
        "topologyManagerPolicy": "best-effort",
        "topologyManagerScope": "pod",
        "featureGates": {"PodLevelResourceManagers": True},
    }
    hardware = three_gpu_server()
    node = kubelet(hardware, **config)
    wanted = pod("p", "a", level="cpu=4..4 memory=1Gi..1Gi")
    assert isinstance(node.admit(wanted), Admitted)
    again = kubelet(hardware, {CPU_FILE: node.files.texts[CPU_FILE]}, **config)
    assert "pod-level-allocated-again" in defects(told(again, wanted))


def test_a_crash() -> None:
    node = kubelet(
        machine(T3, 2 * GI), **static_memory(512 * MI, 512 * MI), topologyManagerPolicy="restricted"
    )
    assert defects(told(node, pod("p", "c cpu=1 memory=1Gi hugepages-2Mi=2Mi"))) == ["crash"]


def test_every_defect_has_its_sentence() -> None:
    assert set(DEFECTS) == {
        "memory-nowhere-is-no-preference",
        "claimed-resource-hinted",
        "next-start-refused",
        "running-pod-refused-for-free-cores",
        "cpus-not-free",
        "split-core",
        "buffer-reused",
        "single-node-in-group",
        "pod-level-allocated-again",
        "reuse-outlives-pod",
        "cpus-counted-twice",
        "socket-order-by-chance",
        "never-returns",
        "crash",
    }
    assert all(text.endswith(".") for text in DEFECTS.values())


@pytest.mark.parametrize(("nodes", "policy", "stalls"), [
    (4,  "restricted",       False),
    (8,  "restricted",       True),
    (8,  "single-numa-node", False),
    (16, "single-numa-node", True),
    (64, "single-numa-node", True),
])  # fmt: skip
def test_a_merge_that_would_stall_the_kubelet_is_told(*, nodes: int, policy: str, stalls: bool) -> None:
    devices = " ".join(f"d{i:02}@{i}" for i in range(nodes))
    hardware = machine(even(nodes, nodes, 4 * nodes), 8 * GI, devices={"x/d": devices})
    config = {**STATIC, **static_memory(GI), "systemReserved": {"cpu": "500m", "memory": str(GI)}}
    options = {"max-allowable-numa-nodes": "64"}
    node = kubelet(hardware, **config, topologyManagerPolicy=policy, topologyManagerPolicyOptions=options)
    found = only(told(node, pod("p", "c cpu=1 memory=1Gi x/d=1")), TooManyCombinations)
    assert bool(found) is stalls
    for step in found:
        assert step.container == "c"
        assert step.masks == 3 * (2**nodes - 1)
        assert step.seconds >= 1
