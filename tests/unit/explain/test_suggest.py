"""Suggestions: of each kind the smallest, told to the letter, smallest first, and each admitted when followed."""

from dataclasses import replace
from typing import Any

import pytest

from numawise.codec.pod import pod_from
from numawise.engine.admit import Rejected
from numawise.explain.case import ExplainCase, admitted, case_of, with_pod
from numawise.explain.change import with_amounts
from numawise.explain.explain import explain
from numawise.explain.node_changes import Elsewhere
from numawise.explain.search import dials_of, fewest, marks_of
from numawise.results.explanation import (
    NEVER,
    NOT_NOW,
    Explanation,
    Suggestion,
    explanation_data,
    suggestion_data,
)
from tests.unit.build import even, machine
from tests.unit.explain.asking import GI, SMALL, SMT, case, kinds, node, of_kind, raw, why
from tests.why import patched

SINGLE, RESTRICTED, BEST = "single-numa-node", "restricted", "best-effort"
WHOLE_CORES = {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}
FULL = ("a cpu=4 memory=1Gi", "b cpu=4 memory=1Gi")
POD = {"topologyManagerScope": "pod"}


@pytest.mark.parametrize(("policy", "pod", "more", "kind", "text"), [
    pytest.param(SINGLE, ["c cpu=9 memory=1Gi"], {}, "reduce", "Ask for 1 CPU less: set cpu to 8 instead of 9 in container c (limits)", id="fewer CPUs"),
    pytest.param(SINGLE, ["c cpu=1 memory=65Gi"], {}, "reduce", "Ask for 1 GiB less memory: set memory to 64Gi instead of 65Gi in container c (limits)", id="less memory"),
    pytest.param(SINGLE, ["c cpu=1 memory=1Gi x/gpu=3"], {}, "reduce", "Ask for 1 x/gpu less: set x/gpu to 2 instead of 3 in container c (limits)", id="fewer devices"),
    pytest.param(SINGLE, ["c cpu=9..9 memory=1Gi"], {}, "reduce", "Ask for 1 CPU less: set cpu to 8 instead of 9 in container c (requests and limits)", id="both sides"),
    pytest.param(SINGLE, ["init i cpu=9 memory=1Gi", "c cpu=1 memory=1Gi"], {}, "reduce", "Ask for 1 CPU less: set cpu to 8 instead of 9 in init container i (limits)", id="init container"),
    pytest.param(SINGLE, ["c cpu=5 memory=1Gi", "d cpu=5 memory=1Gi"], POD, "scope", "Set topologyManagerScope to container instead of pod: each container is then aligned for itself", id="container scope"),
    pytest.param(SINGLE, ["c cpu=9 memory=1Gi"], {}, "policy", "Set topologyManagerPolicy to best-effort instead of single-numa-node: alignment is then attempted, but no longer guaranteed", id="policy"),
    pytest.param(SINGLE, ["c cpu=9 memory=70Gi"], {}, "policy", "Set topologyManagerPolicy to restricted instead of single-numa-node: pods may then span NUMA nodes where they need to", id="strictest policy"),
    pytest.param(SINGLE, ["c cpu=9 memory=1Gi"], {}, "share", "Do without exclusive CPUs: set cpu to 8900m instead of 9 in container c (limits)", id="shared pool"),
    pytest.param(RESTRICTED, ["c cpu=4 memory=70Gi"], {}, "grow", "Ask for 5 more CPUs, so that all of it needs the same number of NUMA nodes: set cpu to 9 instead of 4 in container c (limits)", id="more CPUs"),
    pytest.param(SINGLE, ["c cpu=1 memory=1Gi x/gpu=2", "d cpu=1 memory=1Gi x/gpu=2", "e cpu=1 memory=1Gi x/gpu=1"], {}, "drop", "Do without x/gpu: remove it from container e", id="no device"),
    pytest.param(BEST, ["c cpu=1 memory=1.5Gi"], {}, "exact", "Write the amount as a whole number: memory as 1536Mi in container c (limits)", id="whole number"),
])  # fmt: skip
def test_kinds(policy: str, pod: list[str], more: dict[str, Any], kind: str, text: str) -> None:
    assert of_kind(why(SMALL, policy, *pod, **more), kind)["text"] == text


def test_smallest_first() -> None:
    found = why(SMALL, SINGLE, "c cpu=6 memory=1Gi", running=FULL)
    assert kinds(found) == ["reduce", "remove", "share", "policy"]
    assert found.suggestions[1].text == (
        "Wait until pod default/r0 (holds 4 CPUs (1-4) and 1 GiB on NUMA 0) ends, or remove it"
    )
    assert found.suggestions[1].remove == ("r0",)


@pytest.mark.parametrize(("pod", "texts"), [
    pytest.param(["c cpu=3 memory=1Gi"], ["set cpu to 2 instead of 3 in container c (limits)", "set cpu to 4 instead of 3 in container c (limits)"], id="down and up"),
    pytest.param(["c cpu=1 memory=1Gi"], ["set cpu to 2 instead of 1 in container c (limits)"], id="only up"),
    pytest.param(["c cpu=3 memory=1Gi", "d cpu=5 memory=1Gi"], ["set cpu to 2 instead of 3 in container c (limits); set cpu to 4 instead of 5 in container d (limits)", "set cpu to 4 instead of 3 in container c (limits); set cpu to 6 instead of 5 in container d (limits)"], id="all odd ones"),
])  # fmt: skip
def test_whole_cores(pod: list[str], texts: list[str]) -> None:
    found = why(SMT, "none", *pod, **WHOLE_CORES)
    assert {one.text for one in found.suggestions if one.kind == "round"} == {
        f"Ask for an even number of CPUs: {text}" for text in texts
    }
    assert of_kind(found, "option")["kubelet"] == [
        {"op": "remove", "path": "/cpuManagerPolicyOptions/full-pcpus-only"}
    ]


def test_the_smallest_pod_goes_and_two_where_one_is_not_enough() -> None:
    gpus = ["a cpu=1 memory=1Gi x/gpu=2", "b cpu=1 memory=1Gi x/gpu=1", "c cpu=1 memory=1Gi x/gpu=1"]
    assert why(SMALL, BEST, "d cpu=1 memory=1Gi x/gpu=1", running=gpus).suggestions[0].remove == ("r1",)
    found = next(
        one
        for one in why(SMALL, BEST, "d cpu=1 memory=1Gi x/gpu=3", running=gpus).suggestions
        if one.kind == "remove"
    )
    assert "r0" in found.remove
    assert len(found.remove) == 2
    assert found.text.startswith("Wait until pods default/r")


def test_unhealthy_devices_are_to_be_healed() -> None:
    hardware = machine(even(2, 2, 16), 64 * GI, devices={"x/gpu": "!g0@0 !g1@0"})
    found = why(hardware, BEST, "c cpu=1 memory=1Gi x/gpu=1")
    assert found.suggestions[0] == Suggestion(
        "heal", "Bring g0 and g1 of x/gpu back to health: they are reported unhealthy", heal=("x/gpu",)
    )


def test_another_node() -> None:
    large = machine(even(2, 2, 64), 64 * GI)
    pod = raw("p", "c cpu=9 memory=1Gi")
    others = [
        Elsewhere("small", case_of(node(SMALL, SINGLE), pod)),
        Elsewhere("large", case_of(node(large, SINGLE), pod)),
    ]
    found = explain(case_of(node(SMALL, SINGLE), pod), others)
    assert found.suggestions[0] == Suggestion(
        "node", "Send the pod to node large, which admits it as it is", node="large"
    )


def test_several_amounts_only_where_one_is_not_enough() -> None:
    found = why(SMALL, SINGLE, "c cpu=12 memory=100Gi")
    assert found.suggestions[0].text == (
        "Change several amounts: set cpu to 8 instead of 12 in container c (limits); "
        "set memory to 64Gi instead of 100Gi in container c (limits)"
    )


def test_a_configuration_that_would_cost_running_pods_is_not_suggested() -> None:
    """Under container scope the running pod spans both NUMA nodes; pod scope would refuse it at the restart."""
    running = [raw("r", "a cpu=5 memory=1Gi", "b cpu=5 memory=1Gi")]
    found = explain(
        case_of(node(SMALL, SINGLE, running), raw("p", "c cpu=3 memory=1Gi", "d cpu=3 memory=1Gi"))
    )
    assert "scope" not in kinds(found)
    assert "reduce" in kinds(found)


def test_a_running_pod_that_is_refused_is_to_be_recreated() -> None:
    kubelet = node(SMALL, SINGLE, [raw("p", "c cpu=4 memory=1Gi")])
    found = explain(case_of(kubelet, raw("p", "c cpu=5 memory=1Gi")))
    assert found.cause == "cpu: 5 CPUs are asked for, but 4 are held already"
    assert found.answer.startswith("Rejected, not now (recreated, the pod is admitted): ")
    assert [(one.kind, one.recreate) for one in found.suggestions] == [("recreate", True)]
    too_large = explain(case_of(kubelet, raw("p", "c cpu=9 memory=1Gi")))
    assert {one.recreate for one in too_large.suggestions} == {True}
    assert "reduce" in kinds(too_large)


def test_pod_level_resources_are_edited_where_they_stand() -> None:
    more = {"featureGates": {"PodLevelResourceManagers": True}, **POD}
    found = why(SMALL, SINGLE, "c cpu=2 memory=1Gi", "d", level="cpu=9..9 memory=4Gi..4Gi", **more)
    assert (
        found.message
        == "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"
    )
    told = of_kind(found, "reduce")
    assert (
        told["text"]
        == "Ask for 1 CPU less: set cpu to 8 instead of 9 in the pod's own resources (requests and limits)"
    )
    assert told["pod"] == [
        {"op": "replace", "path": f"/spec/resources/{side}/cpu", "value": "8"}
        for side in ("requests", "limits")
    ]


def test_pod_level_resources_stay_above_the_containers() -> None:
    more = {"featureGates": {"PodLevelResourceManagers": True}, **POD}
    found = why(SMALL, SINGLE, "c cpu=9 memory=1Gi", "d", level="cpu=12..12 memory=4Gi..4Gi", **more)
    assert "reduce" in kinds(found)
    for one in found.suggestions:
        edits = {patch.path: patch.value for patch in one.pod}
        level = int(str(edits.get(("spec", "resources", "limits", "cpu"), 12)))
        own = str(edits.get(("spec", "containers", 0, "resources", "limits", "cpu"), 9))
        assert own.endswith("m") or int(own) <= level


# --- several edits, and what they are worth -------------------------------------------------------


SERVER = machine(
    even(2, 2, 128), 512 * GI, devices={"nvidia.com/gpu": " ".join(f"g{n}@{n // 4}" for n in range(8))}
)
"""128 CPUs, 1 TiB and 8 GPUs on two NUMA nodes."""
TRAIN = "c cpu=32..32 memory=256Gi..256Gi nvidia.com/gpu=8"


def test_eight_gpus_under_restricted_get_cpus_and_memory_that_span_as_many_nodes() -> None:
    first, *rest = why(SERVER, RESTRICTED, TRAIN).suggestions
    assert first.text == (
        "Ask for more, so that all of it needs the same number of NUMA nodes: "
        "set cpu to 65 instead of 32 in container c (requests and limits); "
        "set memory to 524289Mi instead of 256Gi in container c (requests and limits)"
    )
    assert first.kind == "grow"
    assert [one.kind for one in rest] == [
        "policy",
        "reduce",
    ]  # the GPUs are kept as long as anything else helps
    assert why(SERVER, RESTRICTED, TRAIN, memory=False).suggestions[0].text == (
        "Ask for 33 more CPUs, so that all of it needs the same number of NUMA nodes: "
        "set cpu to 65 instead of 32 in container c (requests and limits)"
    )


def test_growth_beyond_what_others_leave_of_the_sums_is_not_suggested() -> None:
    """A Burstable pod holds no CPU, so that all are free; but its requests count."""
    pod, other = "c cpu=4 memory=70Gi", "b cpu=7 memory=1Gi..2Gi"
    assert "grow" in kinds(why(SMALL, RESTRICTED, pod))
    found = why(SMALL, RESTRICTED, pod, running=[other])
    assert found.reason == "TopologyAffinityError"
    assert "grow" not in kinds(found)
    kubelet = node(SMALL, RESTRICTED, [other])
    grown = kubelet.ask(case_of(kubelet, raw("p", "c cpu=9 memory=70Gi")).pod)
    assert isinstance(grown, Rejected)
    assert grown.reason == "OutOfcpu"


def test_an_init_container_that_stands_in_the_way_is_named_and_changed() -> None:
    """Its CPU on NUMA 0 must be used again, and the app container fits NUMA 1 alone."""
    found = why(SMALL, SINGLE, "init setup cpu=1 memory=1Gi", "c cpu=8 memory=1Gi")
    assert found.cause == (
        "container c: cpu: 8 CPUs are asked for, NUMA 0 has 6 free and NUMA 1 has 8 "
        "(CPU 1 of init container setup on NUMA 0 must be used again); "
        "single-numa-node needs one NUMA node with all of them"
    )
    assert found.suggestions[0].text == (
        "Let init container setup run in the shared pool: set cpu to 900m instead of 1 in init container setup (limits)"
    )
    assert [one.kind for one in found.suggestions[:2]] == ["init", "reduce"]
    assert found.suggestions[1].text.startswith(
        "Ask for 1 CPU less: set cpu to 7 instead of 8 in container c"
    )


def test_memory_of_an_init_container_stands_in_the_way() -> None:
    found = why(SMALL, "none", "init setup cpu=1 memory=1Gi", "c cpu=1 memory=100Gi")
    assert found.cause.endswith("init container setup of this pod has its memory on NUMA 0")


@pytest.mark.parametrize(("pod", "running", "outlook", "first"), [
    pytest.param("c cpu=9 memory=1Gi", (), NEVER, "Rejected, never on this machine as configured, even idle: cpu: 9 CPUs", id="never"),
    pytest.param("c cpu=6 memory=1Gi", FULL, NOT_NOW, "Rejected, not now (2 pods hold 8 CPUs): cpu: 6 CPUs", id="held"),
    pytest.param("c cpu=9 memory=1Gi", FULL, NEVER, "Rejected, never on this machine as configured, even idle: cpu: 9 CPUs", id="never, and held"),
])  # fmt: skip
def test_never_or_not_now_is_said_first(pod: str, running: tuple[str, ...], outlook: str, first: str) -> None:
    found = why(SMALL, SINGLE, pod, running=running)
    assert found.answer.startswith(first)
    assert found.outlook == outlook
    assert found.held_by == (("r0", "r1") if outlook == NOT_NOW else ())
    data = explanation_data(found)
    assert (data["outlook"], data["heldBy"]) == (outlook, list(found.held_by))


def test_what_is_not_now_for_other_reasons() -> None:
    ill = machine(even(2, 2, 16), 64 * GI, devices={"x/gpu": "!g0@0 g1@1"})
    assert why(ill, BEST, "c cpu=1 memory=1Gi x/gpu=2").answer.startswith(
        "Rejected, not now (1 x/gpu is unhealthy): x/gpu: 2 are asked for"
    )
    sums = why(SMALL, BEST, "c cpu=4..5 memory=1Gi", running=["b cpu=13..14 memory=1Gi"])
    assert sums.reason == "OutOfcpu"
    assert sums.answer.startswith("Rejected, not now (1 pod requests 13 CPUs): cpu: the pod requests 4")


def test_why_even_an_idle_machine_would_not_do_is_said_where_it_is_another_reason() -> None:
    running = ["a cpu=1 memory=1Gi x/gpu=2", "b cpu=1 memory=1Gi x/gpu=2"]
    found = why(SMALL, SINGLE, "c cpu=9 memory=1Gi x/gpu=1", running=running)
    assert found.answer.startswith("Rejected, never on this machine as configured, even idle: cpu: 9 CPUs")
    assert found.remarks[0].startswith("Now: x/gpu: 1 is asked for and none is free (4 in all, 4 in use)")
    assert found.suggestions[0].text.startswith(
        "Ask for 1 CPU less: set cpu to 8 instead of 9 in container c (limits); and wait until pod default/r"
    )


def test_a_device_goes_last() -> None:
    gpus = ["a cpu=1 memory=1Gi x/gpu=2", "b cpu=1 memory=1Gi x/gpu=2"]
    assert kinds(why(SMALL, SINGLE, "c cpu=1 memory=1Gi x/gpu=1", running=gpus)) == ["remove", "drop"]


def test_many_pods_that_hold_what_is_missing() -> None:
    running = [f"c cpu=1 memory={n + 1}Mi" for n in range(12)]
    found = why(SMALL, BEST, "c cpu=14 memory=1Gi", running=running)
    assert found.suggestions[0].kind == "remove"
    assert len(found.suggestions[0].remove) == 11
    assert found.suggestions[0].text.startswith("Wait until 11 pods end, or remove them: default/r")


@pytest.mark.parametrize(("items", "needed"), [
    pytest.param("abc", "b", id="one"),
    pytest.param("abcdefghij", "bi", id="two of many"),
    pytest.param("abcdefghij", "abcdefghij", id="all"),
    pytest.param("abcd", "", id="any of them"),
])  # fmt: skip
def test_fewest(items: str, needed: str) -> None:
    assert set(fewest(tuple(items), lambda some: set(needed) <= set(some))) == set(needed or "a")


# --- following them ------------------------------------------------------------------------------


def manifest(pod: str) -> dict[str, Any]:
    """A manifest of one container per word group ``name cpu=… ; name cpu=…``."""
    containers = []
    for text in pod.split(";"):
        name, *amounts = text.split()
        limits = dict(amount.split("=") for amount in amounts)
        containers.append({"name": name, "resources": {"limits": limits, "requests": dict(limits)}})
    return {"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": containers}}


@pytest.mark.parametrize("pod", [
    "c cpu=9 memory=1Gi",
    "c cpu=9 memory=65Gi x/gpu=3",
    "c cpu=10 memory=1Gi ; d cpu=2 memory=1Gi",
    "c cpu=12 memory=100Gi ; d cpu=3 memory=3Gi x/gpu=2",
])  # fmt: skip
@pytest.mark.parametrize("policy", [SINGLE, RESTRICTED])
def test_patches_do_what_the_texts_say(policy: str, pod: str) -> None:
    given = manifest(pod)
    kubelet = node(SMALL, policy, ["r cpu=2 memory=1Gi"])
    found = explain(case_of(kubelet, pod_from(given)))
    assert found.suggestions
    for one in found.suggestions:
        if one.pod:
            edited = pod_from(patched(given, suggestion_data(one)["pod"]))
            assert admitted(case_of(kubelet, edited)), one
            assert not admitted(case_of(kubelet, pod_from(given)))


# --- how much ------------------------------------------------------------------------------------


def exhaustive(one: ExplainCase) -> dict[tuple[Any, str], int]:
    """The largest amounts that are admitted, by trying all."""
    found = {}
    for dial in dials_of(one):
        for steps in range(dial.steps - 1, dial.least - 1, -1):
            if admitted(with_pod(one, with_amounts(one.raw, [dial.set_to(steps)]))):
                found[dial.container, dial.resource] = steps * dial.step
                break
    return found


@pytest.mark.parametrize("policy", [SINGLE, RESTRICTED, BEST])
@pytest.mark.parametrize("pod", ["c cpu=15 memory=1Gi", "c cpu=15 memory=80Mi x/gpu=4", "c cpu=14 memory=60Mi ; d cpu=9 memory=90Mi"])  # fmt: skip
def test_amounts_are_the_largest(policy: str, pod: str) -> None:
    hardware = machine(even(2, 2, 16), [70 << 20, 64 << 20], devices={"x/gpu": "g0@0 g1@0 g2@1"})
    one = case(hardware, policy, *pod.split(";"), running=["r cpu=2 memory=8Mi"], memory=False)
    best = exhaustive(one)
    found: Explanation = explain(replace(one))
    for suggestion in found.suggestions:
        if (
            suggestion.kind == "reduce"
            and len({patch.path[:-2] for patch in suggestion.pod}) == 1
            and len(suggestion.pod) == 1
        ):
            path, value = suggestion.pod[0].path, suggestion.pod[0].value
            assert int(str(value)) == best[path[2], str(path[-1])]


def test_marks_are_what_nodes_have() -> None:
    one = case(SMALL, SINGLE, "c cpu=15 memory=1Gi", running=["r cpu=2 memory=1Gi"])
    cpu = next(dial for dial in dials_of(one) if dial.resource == "cpu")
    assert marks_of(one, cpu) == [16, 13, 8, 5]
