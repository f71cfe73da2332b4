"""Suggestions: of each kind the smallest, told to the letter, smallest first, and each admitted when followed."""

from dataclasses import replace
from typing import Any

import pytest

from numawise.codec.pod import pod_from
from numawise.explain.case import ExplainCase, admitted, case_of, with_pod
from numawise.explain.change import with_amounts
from numawise.explain.explain import explain
from numawise.explain.node_changes import Elsewhere
from numawise.explain.search import dials_of, marks_of
from numawise.results.explanation import Explanation, Suggestion, suggestion_data
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
    pytest.param(SINGLE, ["init i cpu=9 memory=1Gi", "c cpu=1 memory=1Gi"], {}, "reduce", "Ask for 1 CPU less: set cpu to 8 instead of 9 in container i (limits)", id="init container"),
    pytest.param(SINGLE, ["c cpu=5 memory=1Gi", "d cpu=5 memory=1Gi"], POD, "scope", "Set topologyManagerScope to container instead of pod: each container is then aligned for itself", id="container scope"),
    pytest.param(SINGLE, ["c cpu=9 memory=1Gi"], {}, "policy", "Set topologyManagerPolicy to best-effort instead of single-numa-node: alignment is then attempted, but no longer guaranteed", id="policy"),
    pytest.param(SINGLE, ["c cpu=9 memory=70Gi"], {}, "policy", "Set topologyManagerPolicy to restricted instead of single-numa-node: pods may then span NUMA nodes where they need to", id="strictest policy"),
    pytest.param(SINGLE, ["c cpu=10 memory=1Gi", "d cpu=2 memory=1Gi"], {}, "balance", "Divide evenly among the containers: set cpu to 6 instead of 10 in container c (limits); set cpu to 6 instead of 2 in container d (limits)", id="evenly"),
    pytest.param(SINGLE, ["c cpu=9 memory=1Gi x/gpu=2"], {}, "split", "Divide container c into 2: c with cpu 5, memory 512Mi, x/gpu 1 and c-2 with cpu 4, memory 512Mi, x/gpu 1", id="two containers"),
    pytest.param(SINGLE, ["c cpu=9 memory=1Gi"], {}, "share", "Do without exclusive CPUs: set cpu to 8500m instead of 9 in container c (limits)", id="shared pool"),
    pytest.param(RESTRICTED, ["c cpu=4 memory=70Gi"], {}, "grow", "Ask for 5 more CPUs, so that it needs as many NUMA nodes as the rest: set cpu to 9 instead of 4 in container c (limits)", id="more CPUs"),
    pytest.param(SINGLE, ["c cpu=1 memory=1Gi x/gpu=5"], {}, "drop", "Do without x/gpu: remove it from container c", id="no device"),
    pytest.param(BEST, ["c cpu=1 memory=1.5Gi"], {}, "exact", "Write the amount as a whole number: memory as 1536Mi in container c (limits)", id="whole number"),
])  # fmt: skip
def test_kinds(policy: str, pod: list[str], more: dict[str, Any], kind: str, text: str) -> None:
    assert of_kind(why(SMALL, policy, *pod, **more), kind)["text"] == text


def test_smallest_first() -> None:
    found = why(SMALL, SINGLE, "c cpu=6 memory=1Gi", running=FULL)
    assert kinds(found) == ["reduce", "remove", "split", "policy", "share"]
    assert found.suggestions[1].text == "Remove pod default/r0, which holds 4 CPUs (1-4) and 1 GiB on NUMA 0"
    assert found.suggestions[1].remove == ("r0",)


@pytest.mark.parametrize(("pod", "texts"), [
    pytest.param(["c cpu=3 memory=1Gi"], ["set cpu to 2 instead of 3 in container c (limits)", "set cpu to 4 instead of 3 in container c (limits)"], id="down and up"),
    pytest.param(["c cpu=1 memory=1Gi"], ["set cpu to 2 instead of 1 in container c (limits)"], id="only up"),
    pytest.param(["c cpu=3 memory=1Gi", "d cpu=5 memory=1Gi"], ["set cpu to 2 instead of 3 in container c (limits); set cpu to 4 instead of 5 in container d (limits)", "set cpu to 4 instead of 3 in container c (limits); set cpu to 6 instead of 5 in container d (limits)"], id="all odd ones"),
])  # fmt: skip
def test_whole_cores(pod: list[str], texts: list[str]) -> None:
    found = why(SMT, "none", *pod, **WHOLE_CORES)
    told = [one.text for one in found.suggestions if one.kind == "round"]
    assert told == [f"Ask for an even number of CPUs: {text}" for text in texts]
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
    assert set(found.remove) == {"r0", "r1"}
    assert found.text.startswith("Remove pods default/r1, which holds ")


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


def test_a_running_pod_that_is_refused_is_to_be_made_anew() -> None:
    kubelet = node(SMALL, SINGLE, [raw("p", "c cpu=4 memory=1Gi")])
    found = explain(case_of(kubelet, raw("p", "c cpu=5 memory=1Gi")))
    assert found.answer == "Rejected: cpu: 5 CPUs are asked for, but 4 are held already"
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
