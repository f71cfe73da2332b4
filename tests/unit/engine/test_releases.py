"""The same kubelet, release by release: where each named behaviour begins and ends."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from numawise.codec.decision import decision_data
from numawise.engine.admit import Admitted, Crashed, Decision, Rejected
from numawise.engine.trace import Step
from numawise.machine.model import Machine
from numawise.machine.preference import LowestIds
from numawise.node.node import Files, SimulatedNode, boot
from numawise.quantity import Quantity
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import PodRequest, Role
from numawise.rules.behaviour import WAYS
from numawise.sets import format_ids
from tests.unit.build import (
    GI,
    GPU,
    STATIC,
    T3,
    devices_of,
    even,
    machine,
    pod,
    static_memory,
    three_gpu_server,
)

MEMORY = {**STATIC, **static_memory(GI, GI), "systemReserved": {"cpu": "500m", "memory": str(2 * GI)}}
FOUR = {**STATIC, **static_memory(GI, GI, GI, GI), "systemReserved": {"cpu": "500m", "memory": str(4 * GI)}}


def kubelet(
    minor: int, hardware: Machine, files: dict[str, str] | None = None, **config: Any
) -> SimulatedNode:
    gates = config.get("featureGates", {})
    if minor == 21 and "memoryManagerPolicy" in config:
        config["featureGates"] = {**gates, "MemoryManager": True}
    node = boot(hardware, config, Files(dict(files or {})), version=(1, minor))
    assert isinstance(node, SimulatedNode), node
    node.plugins_registered(hardware.plugins)
    return node


def restarted(node: SimulatedNode, minor: int) -> SimulatedNode:
    again = boot(node.machine, node.config, node.files, node.state, version=(1, minor))
    assert isinstance(again, SimulatedNode), again
    return again


def run(node: SimulatedNode, wanted: PodRequest) -> Decision:
    decision = node.admit(wanted)
    if isinstance(decision, Admitted):
        node.start(wanted, decision)
    return decision


def verdict(decision: Decision) -> str:
    if isinstance(decision, Crashed):
        return "crash"
    return decision.message if isinstance(decision, Rejected) else "admitted"


def hints(node: SimulatedNode, wanted: PodRequest) -> Any:
    steps: list[Step] = []
    decision = node.admit(wanted, steps.append)
    return json.loads(json.dumps(decision_data(decision, steps)))["hint_rounds"][0]["hints"]


# --- one function a behaviour: what comes of it in a release ---------------------------------


def equal_masks(minor: int) -> str:
    node = kubelet(minor, three_gpu_server(), **STATIC, topologyManagerPolicy="restricted")
    return verdict(run(node, pod("p", f"c cpu=3 memory=1Gi {GPU}=3")))


def pushed_again(minor: int) -> str:
    node = kubelet(minor, machine(T3), **STATIC)
    run(node, pod("p", "c cpu=2 memory=1Gi"))
    return " ".join(format_ids(one.cpus) for _ in range(2) for one in node.reconcile())


def last_pod(minor: int) -> str:
    node = kubelet(minor, machine(T3), **STATIC)
    run(node, pod("p", "c cpu=2 memory=1Gi"))
    node.remove("p")
    node.reconcile()
    return "kept" if node.state.cpu.assignments else "freed"


def homeless(minor: int) -> str:
    node = kubelet(minor, machine(T3, devices={"x/d": "a@1 b"}), **STATIC)
    run(node, pod("p", "c x/d=2"))
    (grant,) = node.state.devices.grants["p"]["c"].values()
    return " ".join(f"{numa}:{','.join(ids)}" for numa, ids in grant.per_numa)


def empty_topology(minor: int) -> object:
    node = kubelet(minor, machine(T3, devices={"x/d": "a@"}), **STATIC, topologyManagerPolicy="best-effort")
    return hints(node, pod("p", "c x/d=1"))["device"]["x/d"]


def one_of_two_nodes(minor: int) -> str:
    hardware = machine(T3, devices={"x/d": "a@0,1 b@0"}, preference=LowestIds())
    node = kubelet(minor, hardware, **STATIC, topologyManagerPolicy="restricted")
    run(node, pod("p", "c x/d=1"))
    return " ".join(sorted(node.state.devices.grants["p"]["c"]["x/d"].ids))


def vanished(minor: int) -> str:
    node = kubelet(minor, machine(T3, devices={"x/d": "a@0 b@1"}), topologyManagerPolicy="best-effort")
    wanted = pod("p", "c x/d=2")
    run(node, wanted)
    again = restarted(node, minor)
    again.devices_changed("x/d", devices_of("b@1"))
    return verdict(again.admit(wanted))


def unplugged(minor: int) -> str:
    """The file tells of a resource that no plugin registered."""
    node = kubelet(minor, machine(T3, devices={"x/d": "a@0"}))
    run(node, pod("p", "c x/d=1"))
    text = node.files.texts["kubelet_internal_checkpoint"]
    again = boot(machine(T3), {}, Files({"kubelet_internal_checkpoint": text}), version=(1, minor))
    assert isinstance(again, SimulatedNode)
    again.state = _without_registration(again)
    return verdict(again.admit(pod("q", "c x/d=1")))


def _without_registration(node: SimulatedNode) -> Any:
    return replace(node.state, devices=replace(node.state.devices, plugins={}))


def late_plugin(minor: int) -> str:
    """After a restart an init container's devices are looked at before the plugin is back."""
    node = kubelet(minor, machine(T3, devices={"x/d": "a@0"}))
    wanted = pod("p", "init i x/d=1", "c cpu=1")
    run(node, wanted)
    return verdict(restarted(node, minor).admit(wanted))


def no_memory_manager(minor: int) -> str:
    node = kubelet(minor, machine(T3, 8 * GI), **STATIC, topologyManagerPolicy="best-effort")
    asked = hints(node, pod("p", "c cpu=1 memory=1Gi"))
    return f"{' '.join(asked)}; {' '.join(sorted(node.files.texts))}"


def used_again(minor: int) -> str:
    node = kubelet(minor, machine(T3, 8 * GI), **MEMORY)
    run(node, pod("p", "init i cpu=1 memory=4Gi", "c cpu=1 memory=4Gi"))
    return _free(node)


def used_again_by_two(minor: int) -> str:
    """A pod after another one with init containers: what may its second container use again?"""
    node = kubelet(minor, machine(T3, 16 * GI), **MEMORY)
    run(node, pod("o", "init i cpu=1 memory=1Gi", "c cpu=1 memory=1Gi"))
    run(node, pod("p", "init i cpu=1 memory=4Gi", "c cpu=1 memory=1Gi", "d cpu=1 memory=1Gi"))
    return _free(node)


def _free(node: SimulatedNode) -> str:
    return " ".join(f"{node.state.memory.numa[n].tables['memory'].free / GI:g}" for n in (0, 1))


def width_in_groups(minor: int) -> object:
    """NUMA nodes 0 and 1 are grouped, 2 and 3 have half the memory: is one NUMA node enough at best?"""
    hardware = machine(even(4, 4, 16), (8 * GI, 8 * GI, 4 * GI, 4 * GI))
    node = kubelet(minor, hardware, **FOUR, topologyManagerPolicy="best-effort")
    run(node, pod("o", "c cpu=1 memory=12Gi"))
    return hints(node, pod("p", "c cpu=1 memory=5Gi"))["memory"]["memory"]


def widened(minor: int) -> str:
    """Memory needs both NUMA nodes, the device is on the last one, and the merge settles on that."""
    hardware = machine(T3, (16 * GI, 4 * GI), devices={"x/d": "a@1"})
    node = kubelet(minor, hardware, **MEMORY, topologyManagerPolicy="best-effort")
    return verdict(run(node, pod("p", "c cpu=1 memory=17Gi x/d=1")))


def sidecar(minor: int) -> str:

    amounts = {"cpu": Quantity.parse("2"), "memory": Quantity.parse("1Gi")}
    parts = (RawContainer("s", Role.SIDECAR, {}, amounts), RawContainer("c", Role.APP, {}, amounts))
    gates = {"featureGates": {"SidecarContainers": True}} if minor == 28 else {}
    node = kubelet(minor, machine(T3, 8 * GI), **MEMORY, **gates)
    wanted = defaulted(RawPod("p", "p", parts), sidecars=node.rules.sidecars)
    run(node, wanted)
    cpus = node.state.cpu.assignments["p"]
    return f"{format_ids(cpus['s'])} {format_ids(cpus['c'])} {len(node.state.memory.assignments['p'])}"


GONE = "Resources cannot be allocated with Topology locality"
UNKNOWN = "Allocate failed due to {} allocate unregistered device x/d, which is unexpected"
NO_HEALTHY = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices x/d, which is unexpected"
EXTEND = (
    "Allocate failed due to [memorymanager] failed to find NUMA nodes to extend the current topology hint, "
    "which is unexpected"
)


@pytest.mark.parametrize(("behaviour", "outcomes"), [
    (equal_masks,       {20: "admitted", 23: "admitted", 24: GONE, 37: GONE}),
    (pushed_again,      {20: "1,9 1,9", 21: "1,9 1,9", 22: "", 37: ""}),
    (last_pod,          {20: "freed", 21: "freed", 22: "kept", 31: "kept", 32: "freed"}),
    (homeless,          {20: "0:b 1:a", 22: "0:b 1:a", 23: "-1:b 1:a"}),
    (empty_topology,    {20: [], 25: [], 26: None}),
    (one_of_two_nodes,  {20: "b", 21: "b", 22: "a"}),
    (vanished,          {20: "admitted", 33: "admitted", 34: "crash"}),
    (unplugged,         {20: UNKNOWN.format("can't"), 24: UNKNOWN.format("can't"), 25: UNKNOWN.format("cannot")}),
    (late_plugin,       {20: "admitted", 24: "admitted", 25: NO_HEALTHY}),
    (no_memory_manager, {20: "device cpu; cpu_manager_state", 21: "device cpu; cpu_manager_state",
                         22: "device cpu memory; cpu_manager_state memory_manager_state"}),
    (used_again,        {21: "3 3", 22: "3 7"}),
    (used_again_by_two, {22: "11 15", 23: "12 15"}),
    (width_in_groups,   {22: [[[2, 3], True]], 23: [[[2, 3], False]]}),
    (widened,           {21: EXTEND, 22: "admitted"}),
    (sidecar,           {27: "1,9 1,9 1", 28: "1,9 1,9 1", 29: "1,9 2,10 2"}),
])  # fmt: skip
def test_from_release_to_release(behaviour: Callable[[int], object], outcomes: dict[int, object]) -> None:
    assert {minor: behaviour(minor) for minor in outcomes} == outcomes


def test_every_behaviour_can_be_asked_for_alone() -> None:
    """A kubelet whose behaviours are taken from two releases, one at a time, starts and decides."""
    for way in WAYS:
        node = kubelet(36, three_gpu_server(), **STATIC, topologyManagerPolicy="restricted")
        turned = {way.name: not getattr(node.rules.behaviour, way.name)}
        node.rules = replace(node.rules, behaviour=replace(node.rules.behaviour, **turned))
        assert isinstance(
            run(node, pod("p", "init i cpu=1 memory=1Gi", f"c cpu=3 memory=1Gi {GPU}=1")), Admitted
        )
        node.reconcile()
