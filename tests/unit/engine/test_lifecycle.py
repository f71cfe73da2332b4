"""Between admissions: containers start, pods go, plugins speak, CPUs are pushed, the kubelet restarts."""

from dataclasses import replace
from typing import Any

import pytest

from numawise.engine.admit import Admitted, Rejected
from numawise.engine.lifecycle import Started
from numawise.engine.trace import Defect, Step
from numawise.machine.preference import LowestIds
from numawise.node.node import SimulatedNode, boot
from numawise.request.model import PodRequest
from numawise.sets import format_ids
from tests.unit.build import (
    GI,
    GPU,
    STATIC,
    T3,
    devices_of,
    kubelet,
    machine,
    pod,
    static_memory,
    three_gpu_server,
)


def run(node: SimulatedNode, wanted: PodRequest) -> list[str]:
    """Admit and start a pod; what its containers are created with, as ``name cpus mems``."""
    decision = node.admit(wanted)
    assert isinstance(decision, Admitted), decision
    return told(node.start(wanted, decision))


def told(started: tuple[Started, ...]) -> list[str]:
    return [
        f"{one.container} {one.error or format_ids(one.cpus)}{'' if one.mems is None else f' {format_ids(one.mems)}'}"
        for one in started
    ]


def restarted(node: SimulatedNode, **config: Any) -> SimulatedNode:
    """The kubelet goes down while its pods run on, and comes up again."""
    again = boot(node.machine, config or node.config, node.files, node.state)
    assert isinstance(again, SimulatedNode), again
    return again


EVERYTHING = {**STATIC, **static_memory(GI, GI), "systemReserved": {"cpu": "500m", "memory": str(2 * GI)}}


# --- starting ------------------------------------------------------------------------------------


def test_what_containers_are_created_with() -> None:
    node = kubelet(machine(T3, 8 * GI), **EVERYTHING, topologyManagerPolicy="restricted")
    assert run(node, pod("p", "a cpu=2 memory=1Gi", "b cpu=500m memory=1Gi")) == [
        "a 1,9 0",
        "b 0,2-8,10-15 0",
    ]
    assert run(node, pod("q", "c cpu=1")) == ["c 0,2-8,10-15"]  # Burstable: no memory of its own


def test_without_a_static_policy_nothing_is_set() -> None:
    assert run(kubelet(machine(T3)), pod("p", "a cpu=2 memory=1Gi")) == ["a "]


def test_finished_init_containers_give_back_memory_and_keep_cpus() -> None:
    node = kubelet(machine(T3, 8 * GI), **EVERYTHING, topologyManagerPolicy="restricted")
    run(node, pod("p", "init i cpu=4 memory=2Gi", "sidecar s cpu=1 memory=1Gi", "a cpu=2 memory=1Gi"))
    assert list(node.state.cpu.assignments["p"]) == ["i", "s", "a"]
    assert list(node.state.memory.assignments["p"]) == ["s", "a"]
    assert node.state.running == {("p", "s"), ("p", "a")}


def test_devices_of_pods_managed_as_a_whole_are_chosen_at_the_start() -> None:
    config = {"topologyManagerPolicy": "best-effort", "topologyManagerScope": "pod"}
    gates = {"featureGates": {"PodLevelResourceManagers": True}}
    node = kubelet(three_gpu_server(), **STATIC, **config, **gates)
    wanted = pod("p", f"a {GPU}=2", level="cpu=2..2 memory=1Gi..1Gi")
    decision = node.admit(wanted)
    assert isinstance(decision, Admitted)
    assert not node.state.devices.grants
    assert told(node.start(wanted, decision)) == ["a 14-15"]
    assert node.state.devices.grants["p"]["a"][GPU].ids == {"G1", "G2"}


def test_a_container_that_cannot_start() -> None:
    config = {"topologyManagerPolicy": "best-effort", "topologyManagerScope": "pod"}
    gates = {"featureGates": {"PodLevelResourceManagers": True}}
    node = kubelet(three_gpu_server(), **STATIC, **config, **gates)
    node.predicates = False  # the sums would refuse it
    wanted = pod("p", f"a {GPU}=4", "b", level="cpu=2..2 memory=1Gi..1Gi")
    error = f"requested number of devices unavailable for {GPU}. Requested: 4, Available: 3"
    assert run(node, wanted)[0] == f"a {error}"
    assert ("p", "a") not in node.state.running


# --- going ---------------------------------------------------------------------------------------


def test_nothing_is_freed_when_a_pod_goes_but_when_somebody_looks() -> None:
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy="restricted")
    run(node, pod("p", f"c cpu=3 memory=1Gi {GPU}=1"))
    node.remove("p")
    assert "p" in node.state.cpu.assignments
    assert "p" in node.state.devices.grants
    assert node.state.departed == {"p"}
    node.reconcile()  # the CPU Manager's
    assert "p" not in node.state.cpu.assignments
    assert "p" in node.state.devices.grants
    run(node, pod("q", "c cpu=1"))  # hints are asked of all
    assert not node.state.devices.grants
    assert not node.state.departed


def test_removing_an_unknown_pod_does_nothing() -> None:
    node = kubelet(three_gpu_server(), **STATIC)
    before = node.state
    node.remove("nobody")
    assert node.state == before


def test_a_refused_pod_is_gone_at_once() -> None:
    node = kubelet(three_gpu_server(), **STATIC)
    assert isinstance(node.admit(pod("p", "a cpu=3 memory=1Gi", "b cpu=90 memory=1Gi")), Rejected)
    assert "p" not in node.state.active
    assert format_ids(node.state.cpu.assignments["p"]["a"]) == "1-3"
    node.reconcile()
    assert format_ids(node.state.cpu.shared) == "0-27"


def test_cpus_that_init_and_app_containers_share_are_freed_once() -> None:
    node = kubelet(machine(T3), **STATIC)
    run(node, pod("p", "init i cpu=4 memory=1Gi", "a cpu=2 memory=1Gi"))
    node.remove("p")
    node.reconcile()
    assert format_ids(node.state.cpu.shared) == "0-15"


# --- pushing -------------------------------------------------------------------------------------


def test_reconcile_pushes_what_changed() -> None:
    node = kubelet(machine(T3), **STATIC)
    run(node, pod("shared", "c cpu=1"))
    run(node, pod("own", "c cpu=2 memory=1Gi"))
    pushed = [(one.uid, format_ids(one.cpus)) for one in node.reconcile()]
    assert pushed == [("shared", "0,2-8,10-15")]  # the other was created with its own
    assert node.reconcile() == ()
    node.remove("own")
    assert [(one.uid, format_ids(one.cpus)) for one in node.reconcile()] == [("shared", "0-15")]


def test_finished_init_containers_are_not_pushed_to() -> None:
    node = kubelet(machine(T3), **STATIC)
    run(node, pod("p", "init i cpu=500m", "a cpu=1"))
    assert [one.container for one in node.reconcile()] == ["a"]


def test_policy_none_does_not_reconcile() -> None:
    node = kubelet(machine(T3))
    run(node, pod("p", "c cpu=1"))
    assert node.reconcile() == ()


# --- plugins -------------------------------------------------------------------------------------


def test_a_plugins_list_replaces_the_old_one() -> None:
    node = kubelet(three_gpu_server(), **STATIC)
    node.devices_changed(GPU, devices_of("G0@0 !G1@1"))
    plugin = node.state.devices.plugins[GPU]
    assert (set(plugin.devices), plugin.healthy, plugin.connected) == ({"G0", "G1"}, {"G0"}, True)
    assert node.state.devices.saved is not None
    assert node.state.devices.saved.registered == {GPU: {"G0"}}


def test_the_plugins_preference_outlives_a_new_list() -> None:
    node = kubelet(machine(T3, devices={"x/d": "a@0"}, preference=LowestIds()))
    node.devices_changed("x/d", devices_of("a@0 b@0"))
    assert node.state.devices.plugins["x/d"].preference == LowestIds()


# --- restarting ----------------------------------------------------------------------------------


def test_pods_are_admitted_again_and_keep_what_they_have() -> None:
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy="restricted")
    wanted = pod("p", f"c cpu=3 memory=1Gi {GPU}=2")
    run(node, wanted)
    again = restarted(node)
    assert not again.state.ready
    assert again.state.active == {"p": wanted}
    again.plugins_registered(again.machine.plugins)
    decision = again.admit(wanted)
    assert isinstance(decision, Admitted)
    assert {name: str(hint.numa) for name, hint in decision.affinity.items()} == {"c": "1"}
    again.sources_ready()
    assert again.state.cpu == node.state.cpu
    assert again.state.devices.grants["p"]["c"][GPU].ids == {"G1", "G2"}


@pytest.mark.parametrize(("policy", "admitted"), [("best-effort", True), ("restricted", False)])
def test_running_pods_are_judged_by_the_new_policy(*, policy: str, admitted: bool) -> None:
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy="best-effort")
    wanted = pod("p", f"c cpu=16 memory=1Gi {GPU}=1")
    run(node, wanted)
    again = restarted(node, **STATIC, topologyManagerPolicy=policy)
    again.plugins_registered(again.machine.plugins)
    assert isinstance(again.admit(wanted), Admitted) is admitted


def test_nothing_is_collected_until_all_pods_were_heard_of() -> None:
    node = kubelet(three_gpu_server(), **STATIC, topologyManagerPolicy="restricted")
    run(node, pod("gone", "c cpu=3 memory=1Gi"))
    run(node, pod("here", "c cpu=3 memory=1Gi"))
    node.remove("gone")
    again = restarted(node)
    assert again.state.departed == {"gone"}
    again.admit(pod("new", "c cpu=3 memory=1Gi"))
    assert set(again.state.cpu.assignments) == {"gone", "here", "new"}
    again.sources_ready()
    again.reconcile()
    assert set(again.state.cpu.assignments) == {"here", "new"}


def test_after_a_restart_everything_is_pushed_once() -> None:
    node = kubelet(machine(T3), **STATIC)
    wanted = pod("p", "c cpu=2 memory=1Gi")
    run(node, wanted)
    assert node.reconcile() == ()
    again = restarted(node)
    again.admit(wanted)
    again.sources_ready()
    assert told(again.reconcile()) == ["c 1,9"]


def test_a_restart_while_a_device_is_ill() -> None:
    """The container runs, so its devices are not looked at before all pods are known; afterwards they are."""
    node = kubelet(three_gpu_server(), **STATIC)
    wanted = pod("p", f"c cpu=3 memory=1Gi {GPU}=2")
    run(node, wanted)
    again = restarted(node)
    ill = "G0@0 " + " ".join(f"!{i}@1" for i in ("G1", "G2"))
    again.plugins_registered([replace(again.machine.plugins[0], devices=devices_of(ill))])
    assert isinstance(again.admit(wanted), Admitted)
    again.sources_ready()
    decision = again.admit(wanted)
    assert isinstance(decision, Rejected)
    assert "previously allocated devices are no longer healthy" in decision.message


# --- pods that come back under their uid ---------------------------------------------------------


def comes_back(node: SimulatedNode, wanted: PodRequest, *between: PodRequest) -> int:
    """Bytes that a pod is charged when it runs, goes, is collected, and comes back after some others."""
    run(node, wanted)
    node.remove(wanted.uid)
    run(node, pod("collector", "x"))  # asks for nothing, but has the managers collect
    for other in between:
        run(node, other)
    free = sum(numa.tables["memory"].free for numa in node.state.memory.numa.values())
    run(node, wanted)
    return free - sum(numa.tables["memory"].free for numa in node.state.memory.numa.values())


WITH_INIT = pod("p", "init i cpu=2 memory=3Gi", "a cpu=2 memory=1Gi")


@pytest.mark.parametrize(("between", "charged"), [
    ((),                                      0),   # 2 GiB of the init container are still remembered as reusable
    ((pod("q", "c cpu=1..2"),),               0),   # Burstable pods do not reach the allocation of memory
    ((pod("q", "c cpu=1 memory=1Gi"),),       GI),  # another pod that is given memory ends it
])  # fmt: skip
def test_what_init_containers_had_is_remembered_by_uid(between: tuple[PodRequest, ...], charged: int) -> None:
    node = kubelet(machine(T3, 8 * GI), **EVERYTHING, topologyManagerPolicy="restricted")
    assert comes_back(node, WITH_INIT, *between) == charged


def test_a_kubelet_that_starts_remembers_nothing_of_init_containers() -> None:
    node = kubelet(machine(T3, 8 * GI), **EVERYTHING, topologyManagerPolicy="restricted")
    run(node, WITH_INIT)
    assert node.state.reusable.by("p")
    assert not restarted(node).state.reusable.by("p")


def test_a_pod_that_comes_back_is_told_of() -> None:
    node = kubelet(machine(T3, 8 * GI), **EVERYTHING, topologyManagerPolicy="restricted")
    run(node, WITH_INIT)
    node.remove("p")
    steps: list[Step] = []
    node.admit(WITH_INIT, steps.append)
    assert Defect("reuse-outlives-pod", "p") in steps


def test_a_pod_that_comes_back_with_other_containers_loses_what_the_old_ones_had() -> None:
    """Collecting goes by the names of the containers, not by the pod alone."""
    node = kubelet(machine(T3, 8 * GI), **EVERYTHING, topologyManagerPolicy="restricted")
    run(node, pod("p", "a cpu=2 memory=1Gi", "b cpu=2 memory=1Gi"))
    node.remove("p")
    run(node, pod("p", "a cpu=2 memory=1Gi", "c cpu=2 memory=1Gi"))
    assert list(node.state.cpu.assignments["p"]) == ["a", "c"]
    assert list(node.state.memory.assignments["p"]) == ["a", "c"]


@pytest.mark.parametrize(("collected", "pushed"), [
    (False, []),                # nobody looked in between: what was pushed last is still known
    (True,  ["c 0-15"]),
])  # fmt: skip
def test_pushed_sets_outlive_the_pod_until_they_are_collected(*, collected: bool, pushed: list[str]) -> None:
    node = kubelet(machine(T3, 8 * GI), **EVERYTHING, topologyManagerPolicy="restricted")
    wanted = pod("p", "c cpu=1..2")
    run(node, wanted)
    assert told(node.reconcile()) == ["c 0-15"]
    node.remove("p")
    if collected:
        assert told(node.reconcile()) == []
    run(node, wanted)
    assert told(node.reconcile()) == pushed


def test_a_sidecar_that_cannot_start_keeps_the_others_waiting() -> None:
    config = {"topologyManagerPolicy": "best-effort", "topologyManagerScope": "pod"}
    gates = {"featureGates": {"PodLevelResourceManagers": True}}
    node = kubelet(three_gpu_server(), **STATIC, **config, **gates)
    node.predicates = False
    wanted = pod("p", f"sidecar s {GPU}=4", "a", level="cpu=2..2 memory=1Gi..1Gi")
    assert [line.split()[0] for line in run(node, wanted)] == ["s"]


def test_the_cpus_of_a_pod_that_cannot_be_divided_stay_taken() -> None:
    config = {"topologyManagerPolicy": "best-effort", "topologyManagerScope": "pod"}
    gates = {"featureGates": {"PodLevelResourceManagers": True}}
    node = kubelet(three_gpu_server(), **STATIC, **config, **gates)
    wanted = pod("p", "a cpu=2 memory=1Gi", "b cpu=2 memory=1Gi", level="cpu=3..3 memory=2Gi..2Gi")
    assert isinstance(node.admit(wanted), Rejected)
    assert node.state.cpu.pods["p"].bit_count() == 3
    run(node, pod("q", "c"))
    assert node.state.cpu.pods["p"].bit_count() == 3
