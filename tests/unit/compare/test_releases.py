"""The same node under two releases: what changes, and which named behaviour it hangs on."""

from typing import Any

import pytest

from numawise.compare.attribution import (
    Blend,
    Pair,
    ReleaseDifference,
    Search,
    change_text,
    json_name,
    switches,
)
from numawise.compare.releases import Case, compare, run
from numawise.machine.model import Machine
from numawise.machine.preference import LowestIds
from numawise.node.node import Files, SimulatedNode, boot
from numawise.quantity import Quantity
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import Role
from numawise.rules.versions import Version
from numawise.sets import format_ids
from tests.unit.build import GI, GPU, STATIC, T3, even, machine, static_memory, three_gpu_server

RESTRICTED = {**STATIC, "topologyManagerPolicy": "restricted"}
FULL: dict[str, Any] = {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}
MEMORY = {**STATIC, **static_memory(GI, GI), "systemReserved": {"cpu": "500m", "memory": str(2 * GI)}}


def raw(name: str, *containers: str, level: dict[str, str] | None = None) -> RawPod:
    """A manifest: containers like ``c cpu=1 memory=1Gi``, init containers with ``init`` before."""
    made = []
    for text in containers:
        words = text.split()
        role = Role(words.pop(0)) if words[0] in ("init", "sidecar") else Role.APP
        limits = {key: Quantity.parse(value) for key, value in (word.split("=") for word in words[1:])}
        made.append(RawContainer(words[0], role, {}, limits))
    own = None if level is None else {key: Quantity.parse(value) for key, value in level.items()}
    return RawPod(name, name, tuple(made), own, own)


def found(
    hardware: Machine, config: dict[str, Any], old: Version, new: Version, *pods: RawPod
) -> list[tuple[str, str, list[str]]]:
    """(pod, kind, names of the reasons) of each change."""
    changes = compare(Case(hardware, pods=pods), Pair(old, new, config, config))
    return [(one.uid, one.kind, [reason.name for reason in one.reasons]) for one in changes]


def test_nothing_changes() -> None:
    pods = [raw("p", "c cpu=3 memory=1Gi"), raw("q", "c cpu=100 memory=1Gi")]
    assert found(three_gpu_server(), RESTRICTED, (1, 34), (1, 35), *pods) == []


# fmt: off
CASES = [
    pytest.param(three_gpu_server(), RESTRICTED, (1, 23), (1, 24), raw("p", f"c cpu=3 memory=1Gi {GPU}=3"),
                 [("p", "refused", ["preferred_needs_equal_masks"])], id="refused"),
    pytest.param(three_gpu_server(), RESTRICTED, (1, 24), (1, 23), raw("p", f"c cpu=3 memory=1Gi {GPU}=3"),
                 [("p", "admitted", ["preferred_needs_equal_masks"])], id="admitted, on the way back"),
    pytest.param(machine(even(4, 2, 8, 2)), STATIC, (1, 22), (1, 23), raw("p", "c cpu=4 memory=1Gi"),
                 [("p", "cpus", ["cpus_by_numa"])], id="other CPUs"),
    pytest.param(machine(T3, devices={"x/d": "a@0,1 b@0"}, preference=LowestIds()), RESTRICTED, (1, 21), (1, 22),
                 raw("p", "c x/d=1"), [("p", "devices", ["any_wanted_node_counts"])], id="other devices"),
    pytest.param(machine(T3, 8 * GI), {**MEMORY, "featureGates": {"MemoryManager": True}}, (1, 21), (1, 22),
                 raw("p", "init i cpu=1 memory=2Gi", "c cpu=1 memory=2Gi"), [("p", "memory", ["init_memory_reused"])], id="other memory"),
    pytest.param(machine(T3, 8 * GI), MEMORY, (1, 20), (1, 22), raw("p", "c cpu=1 memory=2Gi"),
                 [("p", "memory", ["has_memory_manager"])], id="a manager that was not there"),
    pytest.param(machine(T3, 8 * GI), MEMORY, (1, 33), (1, 34), raw("p", "c cpu=2 memory=1Gi", level={"cpu": "2", "memory": "1Gi"}),
                 [("p", "cpus", ["pod_level_excluded"]), ("p", "memory", ["pod_level_excluded"])], id="either of a gate and a behaviour"),
    pytest.param(machine(T3, 8 * GI), MEMORY, (1, 21), (1, 22), raw("p", "c cpu=2 memory=1Gi"),
                 [("p", "memory", ["gate MemoryManager"])], id="a gate that is on now"),
    pytest.param(machine(T3, devices={"x/d": "a@0"}), RESTRICTED, (1, 35), (1, 36), raw("p", "c cpu=1 memory=1Gi x/d=1"),
                 [("p", "hints", ["device_hints_over_hosting_nodes"])], id="hints alone"),
    pytest.param(machine(T3), STATIC, (1, 28), (1, 29), raw("p", "c cpu=99 memory=1Gi"),
                 [("p", "words", ["says_how_many_cpus"])], id="words alone"),
]
# fmt: on


@pytest.mark.parametrize(("hardware", "config", "old", "new", "wanted", "expected"), CASES)
def test_changes_and_their_reasons(
    hardware: Machine, config: dict[str, Any], old: Version, new: Version, wanted: RawPod, expected: object
) -> None:
    assert found(hardware, config, old, new, wanted) == expected


def test_a_later_pod_changes_for_the_reason_of_an_earlier_one() -> None:
    first, second = raw("p", "c cpu=4 memory=1Gi"), raw("q", "c cpu=4 memory=1Gi")
    changes = found(machine(even(4, 2, 8, 2)), STATIC, (1, 22), (1, 23), first, second)
    assert changes == [("p", "cpus", ["cpus_by_numa"]), ("q", "cpus", ["cpus_by_numa"])]


def test_only_what_matters_counts() -> None:
    case = Case(machine(T3), pods=(raw("p", "c cpu=99 memory=1Gi"),))
    (change,) = compare(case, Pair((1, 28), (1, 29), STATIC, STATIC))
    assert change.minor
    assert change.before.endswith("not enough cpus available to satisfy request, which is unexpected")
    assert "requested=99, available=15" in change.after


def test_a_kubelet_that_does_not_start_any_more() -> None:
    config = {**STATIC, "featureGates": {"TopologyManagerPolicyOptions": False}}
    (change,) = compare(Case(machine(T3)), Pair((1, 35), (1, 36), config, config))
    assert (change.kind, change.before) == ("does-not-start", "starts")
    assert "feature is locked to true" in change.after
    (back,) = compare(Case(machine(T3)), Pair((1, 36), (1, 35), config, config))
    assert (back.kind, back.after) == ("starts-again", "starts")


def test_other_reserved_cpus() -> None:
    """Four threads a core, but two are offline: which CPUs are lone ones?"""
    hardware = machine(tuple(cpu for cpu in even(2, 2, 4, 4) if cpu.cpu not in (0, 6)))
    config = {"cpuManagerPolicy": "static", "systemReserved": {"cpu": "4"}}
    (change,) = compare(Case(hardware), Pair((1, 21), (1, 22), config, config))
    assert (change.kind, change.before, change.after) == ("reserved-cpus", "2,4,8,12", "1,4,8,12")
    assert [reason.name for reason in change.reasons] == ["cpus_in_settled_order"]


def test_recorded_pods_are_admitted_again() -> None:
    """Running pods go through a restart; one that only the files know stays where it is."""
    node = boot(machine(T3), {**STATIC, **FULL}, Files(), version=(1, 36))
    assert isinstance(node, SimulatedNode)
    for name in ("p", "q", "r"):
        wanted = raw(name, "c cpu=4 memory=1Gi")
        node.admit(defaulted(wanted))
    case = Case(machine(T3), dict(node.files.texts), (raw("q", "c cpu=4 memory=1Gi"),), restart=True)
    config = {**STATIC, **FULL}
    changes = compare(case, Pair((1, 36), (1, 37), config, config))
    assert [(one.kind, one.uid) for one in changes] == [("admitted", "q")]
    assert [reason.name for reason in changes[0].reasons] == ["smt_check_before_record"]
    after = run(case, config, (1, 37))
    assert after.pods[0].grants["cpus"] == {"c": format_ids(node.state.cpu.assignments["q"]["c"])}


# --- switches ---------------------------------------------------------------------------------


def test_switches_are_what_two_releases_do_differently() -> None:
    pair = Pair((1, 34), (1, 36), STATIC, STATIC)
    assert {switch.name for switch in switches(pair)} == {
        "MemoryManager",
        "device_hints_over_hosting_nodes",
        "cpu_file_tries_oldest_first",
        "memory_file_may_lack_checksum",
        "node_read_again",
        "TaintTolerationComparisonOperators",
        "PodLevelResourceManagers",
        "DRAExtendedResource",
        "claimed_resources_not_allocated",
        "claimed_resources_not_counted",
        "missing_scalars_left_to_claims",
        "resizes_end_at_capacity",
        "resize_capacity_ignores_eviction",
        "static_pods_keep_their_size",
        "pod_sizes_noticed",
        "managers_read_the_status",
    }
    assert switches(Pair((1, 36), (1, 36), STATIC, STATIC)) == ()


def test_everything_set_back_is_the_old_release() -> None:
    pods = tuple(raw(f"p{count}", f"c cpu={count} memory=1Gi {GPU}=1") for count in (3, 5, 7))
    case = Case(three_gpu_server(), pods=pods)
    for minor in range(20, 36):
        pair = Pair((1, minor), (1, 36), RESTRICTED, RESTRICTED)
        every = Blend(pair, frozenset(switches(pair)))
        assert run(case, RESTRICTED, (1, 36), every) == run(case, RESTRICTED, (1, minor)), minor


def test_a_smallest_set_is_found() -> None:
    """An outcome that needs two switches together, and one that either of two brings about."""
    pair = Pair((1, 36), (1, 36), {}, {})
    a, b, c = (ReleaseDifference("behaviour", name) for name in "abc")
    both: Search[bool] = Search(pair, lambda blend: {a, c} <= blend.back, (a, b, c))
    assert both.explain(bool) == (a, c)
    either: Search[bool] = Search(pair, lambda blend: bool({a, c} & blend.back), (a, b, c))
    assert either.explain(bool) == (c,)
    never: Search[bool] = Search(pair, lambda _: False, (a, b, c))
    assert never.explain(bool) == ()


@pytest.mark.parametrize(("switch", "text"), [
    (ReleaseDifference("behaviour", "device_hints_over_hosting_nodes"),
     "Device hints range over the NUMA nodes that have such devices, not over all. (since 1.36)"),
    (ReleaseDifference("behaviour", "smt_check_before_record"),
     "Not in 1.37: `full-pcpus-only` is checked before it is checked whether the container already has its CPUs. (until 1.36)"),
    (ReleaseDifference("gate", "PodLevelResources"),
     "Gate PodLevelResources is not there in 1.31, on by default in 1.37."),
    (ReleaseDifference("field", "eviction_hard"),
     "Field evictionHard has another default or meaning."),
])  # fmt: skip
def test_switches_in_words(switch: ReleaseDifference, text: str) -> None:
    assert change_text(switch, Pair((1, 31), (1, 37), {}, {})) == text


def test_fields_in_words() -> None:
    assert json_name("reserved_system_cpus") == "reservedSystemCPUs"
    assert change_text(
        ReleaseDifference("field", "memory_manager_policy"), Pair((1, 20), (1, 22), {}, {})
    ) == ("Field memoryManagerPolicy is read since 1.21.")
