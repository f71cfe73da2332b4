"""A decision as steps: in the kubelet's order, each pointing at what it is about; and what a suggestion leads to."""

from typing import Any

import pytest

from numawise.engine.admit import Admitted
from numawise.explain.case import admitted, case_of, decided
from numawise.explain.explain import explain, explain_case
from numawise.render.why import why_text
from numawise.results.explanation import DecisionWalk, Explanation, explanation_data
from numawise.results.walk import CPUS_STEP, WalkStep
from tests.unit.explain.asking import GI, SMALL, SMT, case, node, raw

SINGLE, RESTRICTED, BEST = "single-numa-node", "restricted", "best-effort"


def walk(policy: str, *containers: str, hardware: Any = SMALL, **more: Any) -> DecisionWalk:
    found = explain(case(hardware, policy, *containers, **more), walk=True).walk
    assert found is not None
    return found


def lines(found: DecisionWalk) -> list[str]:
    return [f"{step.kind}: {step.text}" for step in found.steps]


def test_the_steps_of_an_admitted_pod() -> None:
    found = walk(SINGLE, "c cpu=3 memory=1Gi x/gpu=1", running=["r cpu=6 memory=1Gi"])
    assert lines(found) == [
        "hints: x/gpu: NUMA 0-1 preferred; cpu: NUMA 1 preferred; memory: NUMA 0-1 preferred",
        "merge: x/gpu prefers NUMA 0 or 1: NUMA 0 or 1 left",
        "merge: cpu prefers NUMA 1: NUMA 1 left",
        "merge: memory prefers NUMA 0 or 1: NUMA 1 left",
        "verdict: best: NUMA 1, preferred: accepted",
        "devices: g2 on NUMA 1; the kubelet may as well take g3",
        "cpus: none: a NUMA node has 8 CPUs, and only 3 are wanted",
        "cpus: none: a socket has 8 CPUs, and only 3 are wanted",
        "cpus: 3 cores give all 3 CPUs wanted: 8-10 on NUMA 1",
        "memory: 1 GiB on NUMA 1",
        "outcome: Admitted: everything on NUMA 1: 3 CPUs (8-10), 1 GiB of memory, x/gpu g2",
    ]
    outcome = found.steps[-1]
    assert (str(outcome.cpus), list(outcome.numa), [one.id for one in outcome.devices]) == (
        "8-10",
        [1],
        ["g2"],
    )
    assert [step.ok for step in found.steps if step.ok is not None] == [True, True]


def test_a_refusal_ends_where_it_was_refused() -> None:
    found = walk(SINGLE, "c cpu=9 memory=1Gi")
    assert [step.kind for step in found.steps] == ["hints", "merge", "merge", "verdict", "outcome"]
    verdict = found.steps[-2]
    assert verdict.ok is False
    assert verdict.text == "best: no NUMA nodes, not preferred: refused"
    assert verdict.rule.startswith("single-numa-node admits a pod only when one NUMA node")
    assert list(found.steps[1].numa) == []


def test_an_allocation_that_fails_shows_what_was_taken_until_then() -> None:
    found = walk(BEST, "c cpu=14 memory=1Gi", running=["r cpu=3 memory=1Gi"])
    kinds = [step.kind for step in found.steps]
    assert kinds[-2:] == ["failed", "outcome"]
    taken = [step for step in found.steps if step.kind == CPUS_STEP and len(step.cpus)]
    assert [(str(step.cpus), step.wanted, str(step.before)) for step in taken] == [("4-7", 14, "")]
    assert taken[0].text == "4 cores give 4 of the 14 CPUs wanted: 4-7 on NUMA 0"
    assert found.steps[-2].title == "CPU Manager refuses"
    assert "not enough cpus available" in found.steps[-2].text


def test_every_round_sees_what_the_containers_before_it_were_given() -> None:
    found = walk(BEST, "c cpu=5 memory=20Gi x/gpu=1", "d cpu=5 memory=20Gi x/gpu=1", running=[])
    assert [one.container for one in found.rounds] == ["c", "d"]
    free = [
        {hints.resource: [place.free for place in hints.places] for hints in one.hints}
        for one in found.rounds
    ]
    assert free[0] == {"x/gpu": [2, 2], "cpu": [7, 8], "memory": [63 * GI, 64 * GI]}
    assert free[1] == {"x/gpu": [1, 2], "cpu": [2, 8], "memory": [43 * GI, 64 * GI]}
    assert [step.container for step in found.steps if step.kind == "verdict"] == ["c", "d"]


def test_what_pods_left_that_are_gone_counts_as_free() -> None:
    kubelet = node(SMALL, BEST, ["r cpu=6 memory=40Gi"])
    kubelet.remove("r0")
    found = explain(case_of(kubelet, raw("p", "c cpu=1 memory=1Gi")), walk=True).walk
    assert found is not None
    memory = next(hints for hints in found.rounds[0].hints if hints.resource == "memory")
    assert [place.free for place in memory.places] == [63 * GI, 64 * GI]


@pytest.mark.parametrize(("hardware", "pod", "more"), [
    pytest.param(SMT, "c cpu=5 memory=1Gi", {}, id="an odd number"),
    pytest.param(SMT, "c cpu=11 memory=1Gi", {}, id="beyond one NUMA node"),
    pytest.param(SMALL, "c cpu=9 memory=1Gi", {}, id="no threads"),
    pytest.param(SMT, "c cpu=6 memory=1Gi", {"cpuManagerPolicyOptions": {"distribute-cpus-across-numa": "true"}, "featureGates": {"CPUManagerPolicyBetaOptions": True}}, id="distributed"),
    pytest.param(SMT, "c cpu=4 memory=1Gi", {"scope": "pod"}, id="pod scope"),
])  # fmt: skip
def test_the_passes_together_are_what_the_container_got(
    hardware: Any, pod: str, more: dict[str, Any]
) -> None:
    if more.pop("scope", ""):
        more["topologyManagerScope"] = "pod"
    asked = case(hardware, BEST, pod, **more)
    decision = decided(asked)
    assert isinstance(decision, Admitted)
    found = explain(asked, walk=True).walk
    assert found is not None
    passes = [step for step in found.steps if step.kind == CPUS_STEP]
    union = before = 0
    for step in passes:
        assert step.before.bits == before
        assert not step.cpus.bits & before
        before |= step.cpus.bits
        union |= step.cpus.bits
    assert union == decision.state.cpu.assignments["p"]["c"] == found.steps[-1].cpus.bits


def test_a_pod_that_runs_keeps_what_it_has() -> None:
    kubelet = node(SMALL, BEST, ["r cpu=3 memory=1Gi"])
    found = explain(case_of(kubelet, raw("r0", "r cpu=3 memory=1Gi")), walk=True).walk
    assert found is not None
    kept = [step for step in found.steps if step.kind == CPUS_STEP]
    assert [(step.title, step.text) for step in kept] == [
        ("Kept by container r", "it has 3 CPUs already: 1-3 on NUMA 0")
    ]


def test_a_pod_without_a_wish_has_its_steps_too() -> None:
    found = walk(BEST, "c")
    assert (
        lines(found)[0] == "hints: nothing is asked for that a manager aligns, so that any NUMA node will do"
    )
    assert [step.kind for step in found.steps] == ["hints", "verdict", "outcome"]


def test_as_plain_data() -> None:
    data = explanation_data(explain(case(SMALL, SINGLE, "c cpu=3 memory=1Gi"), walk=True))
    step = data["walk"]["steps"][-1]
    assert (step["kind"], step["cpus"], step["numa"], step["ok"]) == ("outcome", "1-3", [0], True)
    assert data["walk"]["rounds"][0] == data["round"]
    assert "walk" not in explanation_data(explain(case(SMALL, SINGLE, "c cpu=3 memory=1Gi")))


@pytest.mark.parametrize(("policy", "containers", "running"), [
    pytest.param(SINGLE, ["c cpu=9 memory=1Gi"], [], id="amounts and policies"),
    pytest.param(SINGLE, ["c cpu=6 memory=1Gi"], ["a cpu=4 memory=1Gi", "b cpu=4 memory=1Gi"], id="other pods"),
    pytest.param(BEST, ["c cpu=20 memory=1Gi x/gpu=4"], ["a cpu=1 memory=1Gi x/gpu=1"], id="several together"),
])  # fmt: skip
def test_every_suggestion_comes_with_the_case_that_proved_it(
    policy: str, containers: list[str], running: list[str]
) -> None:
    found = explain_case(case(SMALL, policy, *containers, running=running))
    assert found.explanation.suggestions == tuple(one.suggestion for one in found.proven)
    assert found.proven
    for one in found.proven:
        assert admitted(one.after)
        after = explain(one.after, walk=True)
        assert after.admitted
        assert after.walk is not None


def test_steps_are_values() -> None:
    first, second = (walk(SINGLE, "c cpu=3 memory=1Gi") for _ in range(2))
    assert first == second
    assert all(isinstance(step, WalkStep) for step in first.steps)


def test_an_explanation_has_none_unless_asked() -> None:
    found: Explanation = explain(case(SMALL, SINGLE, "c cpu=3 memory=1Gi"))
    assert found.walk is None


def test_the_steps_on_a_terminal() -> None:
    found = explain(case(SMALL, SINGLE, "c cpu=3 memory=1Gi"), walk=True)
    drawn = why_text([found], 100, steps=True).splitlines()
    assert "  4. Verdict of single-numa-node: best: NUMA 0, preferred: accepted" in drawn
    assert "Merge" not in drawn
    assert "Steps" not in why_text([found], 100).splitlines()
