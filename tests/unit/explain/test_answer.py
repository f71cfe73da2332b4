"""The answer in one sentence: which resource decided, on which NUMA node, by how much."""

from typing import Any

import pytest

from numawise.codec.document import Document
from numawise.codec.workload import decode_pods
from numawise.engine.admit import Admitted
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.results.explanation import ADMITTED, CRASHED, REJECTED
from numawise.values import replace
from tests.unit.build import even, machine
from tests.unit.explain.asking import FOUR, GI, SMALL, SMT, case, node, raw, why

SINGLE, RESTRICTED, BEST = "single-numa-node", "restricted", "best-effort"
WHOLE_CORES = {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}
FULL = ("a cpu=4 memory=1Gi", "b cpu=4 memory=1Gi")
SHARES = replace(SMALL, plugins=(replace(SMALL.plugins[0], refuses_several=True),))
APART = ("a cpu=6 memory=1Gi", "b cpu=2 memory=40Gi")


@pytest.mark.parametrize(("hardware", "policy", "pod", "running", "more", "answer"), [
    pytest.param(SMALL, SINGLE,     "c cpu=6 memory=1Gi",         FULL,  {}, "cpu: 6 CPUs are asked for, NUMA 0 has 3 free and NUMA 1 has 4, 2 short; single-numa-node needs one NUMA node with all of them", id="one node, too little free"),
    pytest.param(SMALL, SINGLE,     "c cpu=9 memory=1Gi",         (),    {}, "cpu: 9 CPUs are asked for and no NUMA node of this machine can give more than 8; single-numa-node needs one NUMA node with all of them", id="one node, too small"),
    pytest.param(SMALL, SINGLE,     "c cpu=16 memory=1Gi",        (),    {}, "cpu: 16 CPUs are asked for and 15 are free on the whole machine (NUMA 0 has 7 free and NUMA 1 has 8)", id="nowhere"),
    pytest.param(SMALL, SINGLE,     "c cpu=4 memory=40Gi",        APART, {}, "CPU hints only on NUMA 1, memory hints only on NUMA 0: no NUMA node serves both (NUMA 0 lacks 3 of 4 CPUs and NUMA 1 lacks 16 GiB of 40 GiB of memory)", id="the incident"),
    pytest.param(SMALL, SINGLE,     "c cpu=1 memory=65Gi",        (),    {}, "memory: 65 GiB is asked for and no NUMA node of this machine can give more than 64 GiB; single-numa-node needs one NUMA node with all of it", id="memory of one node"),
    pytest.param(SMALL, SINGLE,     "c cpu=1 memory=1Gi x/gpu=3", (),    {}, "x/gpu: 3 are asked for and no NUMA node of this machine can give more than 2; single-numa-node needs one NUMA node with all of them", id="devices of one node"),
    pytest.param(SMALL, RESTRICTED, "c cpu=6 memory=1Gi",         FULL,  {}, "cpu: 6 CPUs are asked for and would fit one NUMA node of an idle machine, but NUMA 0 has 3 free and NUMA 1 has 4, 2 short; restricted takes no more than one NUMA node for it", id="preferred width not attained"),
    pytest.param(SMALL, RESTRICTED, "c cpu=4 memory=1Gi x/gpu=3", (),    {}, "x/gpu needs two NUMA nodes (3 are asked for, at most 2 each) and CPU needs one NUMA node (4 CPUs are asked for); restricted wants the same NUMA nodes preferred by all", id="different widths"),
    pytest.param(SMALL, BEST,       "c cpu=4 memory=1Gi x/gpu=3", ("a cpu=1 memory=1Gi x/gpu=2",), {}, "x/gpu: 3 are asked for and 2 are free (4 in all, 2 in use)", id="devices used up"),
    pytest.param(SHARES, BEST,      "c cpu=1 memory=1Gi x/gpu=2", (),    {}, "x/gpu: 2 are asked for, and its device plugin gives a container one share, no more", id="one share"),
    pytest.param(SMALL, BEST,       "c cpu=1 memory=128Gi",       (),    {}, "memory: 128 GiB is asked for and 127 GiB is free on the whole machine (NUMA 0 has 63 GiB free and NUMA 1 has 64 GiB)", id="memory nowhere"),
    pytest.param(SMALL, BEST,       "c cpu=1 memory=1.5Gi",       (),    {}, "memory: the amount is written with a fraction or an exponent, which the Memory Manager does not read", id="memory not whole"),
    pytest.param(SMALL, "none",     "c cpu=16 memory=1Gi",        (),    {}, "cpu: 16 CPUs are asked for and 15 are free on the whole machine (NUMA 0 has 7 free and NUMA 1 has 8)", id="no policy, no CPUs"),
    pytest.param(SMT,   "none",     "c cpu=3 memory=1Gi",         (),    WHOLE_CORES, "cpu: 3 CPUs are asked for; full-pcpus-only allocates whole cores, and a core has 2 CPUs here, so 3 cannot be allocated", id="odd"),
    pytest.param(SMT,   "none",     "c cpu=12 memory=1Gi",        ("a cpu=4 memory=1Gi",), WHOLE_CORES, "cpu: 12 CPUs are asked for and 10 are free in whole cores (NUMA 0 has 2 free and NUMA 1 has 8); full-pcpus-only allocates nothing else", id="too few whole cores"),
])  # fmt: skip
def test_rejected(
    hardware: Any, policy: str, pod: str, running: Any, more: dict[str, Any], answer: str
) -> None:
    found = why(hardware, policy, pod, running=running, **more)
    assert (found.verdict, found.cause) == (REJECTED, answer)
    assert all(name in found.answer.lower() for name in found.resources)
    assert found.resources
    assert found.searched


@pytest.mark.parametrize(("policy", "pods", "answer"), [
    pytest.param(SINGLE, ["c cpu=4 memory=1Gi x/gpu=1"],               "Admitted: everything on NUMA 0: 4 CPUs (1-4), 1 GiB of memory, x/gpu g0", id="together"),
    pytest.param(SINGLE, ["c cpu=7 memory=1Gi", "d cpu=8 memory=1Gi"], "Admitted: each container on one NUMA node, the pod on NUMA 0-1, as topologyManagerScope container aligns each for itself; c 7 CPUs (1-7) on NUMA 0, 1 GiB of memory on NUMA 0; d 8 CPUs (8-15) on NUMA 1, 1 GiB of memory on NUMA 1", id="each for itself"),
    pytest.param(BEST,   ["c cpu=9 memory=1Gi"],                       "Admitted, but nothing is aligned: CPU needs two NUMA nodes (9 CPUs are asked for, at most 8 each) and memory needs one NUMA node (1 GiB is asked for); they cannot all have the NUMA nodes they prefer; 1 CPU (1) on NUMA 0 and 8 CPUs (8-15) on NUMA 1, 1 GiB of memory on NUMA 0-1", id="what best-effort lost"),
    pytest.param(SINGLE, ["c cpu=500m memory=1Gi"],                    "Admitted, but CPUs are not aligned: 500m is not a whole number of CPUs, so its CPUs come from the shared pool; on NUMA 0: 1 GiB of memory", id="a part of a CPU"),
    pytest.param(SINGLE, ["c cpu=1..2 memory=1Gi"],                    "Admitted, but nothing is aligned: the pod is Burstable, so its CPUs come from the shared pool and its memory from any NUMA node", id="not Guaranteed"),
    pytest.param("none", ["c cpu=9 memory=1Gi"],                       "Admitted, but nothing is aligned: topologyManagerPolicy none does not look at NUMA nodes; 1 CPU (1) on NUMA 0 and 8 CPUs (8-15) on NUMA 1, 1 GiB of memory on NUMA 0", id="no policy"),
])  # fmt: skip
def test_admitted(policy: str, pods: list[str], answer: str) -> None:
    found = why(SMALL, policy, *pods)
    assert (found.verdict, found.answer) == (ADMITTED, answer)
    assert not found.suggestions
    assert not found.searched


def test_container_is_named_where_there_are_several() -> None:
    found = why(SMALL, SINGLE, "c cpu=2 memory=1Gi", "d cpu=9 memory=1Gi")
    assert found.cause.startswith("container d: cpu: 9 CPUs are asked for")
    assert found.container == "d"


def test_numbers_are_those_after_the_containers_before() -> None:
    found = why(SMALL, SINGLE, "c cpu=5 memory=1Gi", "d cpu=5 memory=1Gi", "e cpu=5 memory=1Gi")
    assert found.container == "e"
    assert "NUMA 0 has 2 free and NUMA 1 has 3" in found.answer


@pytest.mark.parametrize(("owner", "words"), [
    ("StatefulSet db",  "StatefulSet db keeps recreating it"),
    ("ReplicaSet web",  "ReplicaSet web keeps recreating it, leaving a failed pod behind each time"),
    ("DaemonSet agent", "DaemonSet agent keeps recreating it on this node"),
    ("Job train",       "Job train recreates it until its backoffLimit is reached"),
    ("Node n1",         ""),
    ("",                ""),
])  # fmt: skip
def test_who_recreates_it(owner: str, words: str) -> None:
    found = explain(case_of(node(SMALL, SINGLE), raw("p", "c cpu=9 memory=1Gi", owner=owner)))
    assert any(words in remark for remark in found.remarks) if words else not found.remarks


def test_a_live_pod_tells_its_owner() -> None:
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9"}]
    manifest = {
        "kind": "Pod",
        "metadata": {"name": "p", "ownerReferences": owners},
        "spec": {"containers": [{"name": "c"}]},
    }
    (pod,) = decode_pods(Document(manifest))
    assert pod.owner == "ReplicaSet web-7d9"
    (bare,) = decode_pods(Document({**manifest, "metadata": {"name": "p"}}))
    assert bare.owner == ""


def test_memory_group_names_its_owner() -> None:
    """A pod over both NUMA nodes makes them one group; a pod that needs one of them is refused."""
    kubelet = node(SMALL, BEST, [raw("wide", "c cpu=1 memory=100Gi")])
    found = explain(case_of(kubelet, raw("p", "c cpu=1 memory=40Gi")))
    assert "NUMA 0 has none free (in a group with NUMA 1)" in found.answer
    assert any("one memory group as long as pod wide runs" in remark for remark in found.remarks)


def test_two_types_of_memory_on_different_nodes() -> None:
    hardware = machine(even(2, 2, 8), [16 * GI, 32 * GI], hugepages={"1Gi": 4})
    busy = ["a cpu=1 memory=15Gi hugepages-1Gi=4Gi"]  # more memory than NUMA 0 has
    found = why(hardware, "none", "c cpu=1 memory=12Gi hugepages-1Gi=1Gi", running=busy)
    told = (
        "hugepages-1Gi only on NUMA 0, memory only on NUMA 1: no NUMA nodes that may be used have all of it"
    )
    assert found.cause == told


def test_of_two_types_of_memory_the_short_one_is_named() -> None:
    hardware = machine(even(2, 2, 8), [16 * GI, 32 * GI], hugepages={"1Gi": 4})
    found = why(hardware, SINGLE, "c cpu=1 memory=29Gi hugepages-1Gi=1Gi")
    assert found.resources == ("memory",)
    assert "hugepages" not in found.answer


def test_amounts_that_look_the_same_are_told_apart() -> None:
    found = why(SMALL, SINGLE, f"c cpu=1 memory={64 * GI + (1 << 20)}")
    assert (
        "64 GiB is asked for and no NUMA node of this machine can give more than 65,536 MiB" in found.answer
    )


@pytest.mark.parametrize(("hardware", "more", "pod", "answer"), [
    pytest.param(SMALL, {}, "c cpu=1 memory=1Gi hugepages-2Mi=2Mi", "hugepages-2Mi: NUMA 0-1 have no entry for such huge pages", id="huge pages that a node lacks"),
])  # fmt: skip
def test_crashes(hardware: Any, more: dict[str, Any], pod: str, answer: str) -> None:
    found = why(hardware, RESTRICTED, pod, **more)
    assert found.verdict == CRASHED
    assert found.answer.startswith(f"The kubelet crashes on this pod: {answer}")
    assert any(code == "crash" for code, _ in found.findings)


def test_rule_is_told_when_the_policy_refused_and_only_then() -> None:
    assert why(SMALL, SINGLE, "c cpu=9 memory=1Gi").rule.startswith("single-numa-node admits")
    assert not why(SMALL, BEST, "c cpu=16 memory=1Gi").rule


def test_hint_table_is_what_the_engine_answered() -> None:
    found = why(FOUR, RESTRICTED, "c cpu=10 memory=1Gi x/gpu=1")
    assert found.round is not None
    told = {wish.resource: [(p.numa, p.mark, p.free) for p in wish.places] for wish in found.round.hints}
    assert told == {
        "x/gpu": [(0, "preferred", 2), (1, "preferred", 1), (2, "no", 0), (3, "preferred", 1)],
        "cpu": [(0, "no", 7), (1, "no", 8), (2, "no", 8), (3, "no", 8)],
        "memory": [(0, "preferred", 15 * GI), *((n, "preferred", 16 * GI) for n in (1, 2, 3))],
    }
    assert [(step.resource, step.left) for step in found.round.narrowings] == [
        ("x/gpu", (1, 2, 8)),
        ("cpu", ()),
        ("memory", ()),
    ]


def test_explaining_changes_nothing() -> None:
    kubelet = node(SMALL, SINGLE, FULL)
    before = kubelet.state
    one = case_of(kubelet, raw("p", "c cpu=6 memory=1Gi"))
    assert explain(one) == explain(one)
    assert kubelet.state is before
    assert case(SMALL, SINGLE, "c cpu=1 memory=1Gi").state.active == {}


def test_without_suggestions_none_are_looked_for() -> None:
    found = explain(case(SMALL, SINGLE, "c cpu=9 memory=1Gi"), suggest=False)
    assert (found.suggestions, found.searched) == ((), False)


def test_a_pod_that_is_known_can_be_admitted_again() -> None:
    kubelet = node(SMALL, SINGLE, [raw("p", "c cpu=4 memory=1Gi")])
    found = explain(case_of(kubelet, raw("p", "c cpu=4 memory=1Gi")))
    assert found.answer == "Admitted: everything on NUMA 0: 4 CPUs (1-4), 1 GiB of memory"
    assert isinstance(kubelet.admit(case_of(kubelet, raw("p", "c cpu=4 memory=1Gi")).pod), Admitted)
