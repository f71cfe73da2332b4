"""Laws of admission, over random machines, configurations and pods.

Machines are even here: with offline threads or mixed cores the kubelet hands out CPUs twice, a defect that
is reproduced (``test_cpu_choice``).  Where another known defect breaks a law, the step that names it says so.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from numawise.codec.checkpoint import (
    CPU_FILE,
    DEVICE_FILE,
    MEMORY_FILE,
    decode_cpu,
    decode_devices,
    decode_memory,
)
from numawise.engine.admit import Admitted, Crashed, Rejected, admit
from numawise.engine.cpu.hints import exclusive_cpus
from numawise.engine.draft import Draft
from numawise.engine.lifecycle import remove
from numawise.engine.state import DeviceFile, NodeState
from numawise.engine.trace import Defect, Step, TooManyCombinations
from numawise.node.node import Files, SimulatedNode, boot
from numawise.request.model import PodRequest, Role
from numawise.sets import ids_of
from tests.property.strategies import Case, cases, laws
from tests.recorded.compare import format_of
from tests.unit.build import GI, STATIC, even, kubelet, machine, pod, static_memory


def booted(case: Case) -> SimulatedNode:
    node = boot(case.machine, case.config, Files())
    assert isinstance(node, SimulatedNode), node
    node.plugins_registered(case.machine.plugins)
    return node


def played(case: Case) -> Iterator[tuple[SimulatedNode, NodeState, PodRequest, object, list[Step]]]:
    """Each admission of the case: the node after it, the state before it, the pod, the decision, the steps."""
    node = booted(case)
    came: list[PodRequest] = []
    for event in case.events:
        if isinstance(event, int):
            if event < len(came):
                node.remove(came[event].uid)
            continue
        came.append(event)
        before = node.state
        steps: list[Step] = []
        decision = node.admit(event, steps.append)
        yield node, before, event, decision, steps
        if isinstance(decision, Crashed):
            return
        if isinstance(decision, Admitted):
            node.start(event, decision)


def defects(steps: list[Step]) -> set[str]:
    return {step.name for step in steps if isinstance(step, Defect)}


# --- the engine is a function --------------------------------------------------------------------


@laws(120)
@given(cases())
def test_a_state_is_never_changed(case: Case) -> None:
    node = booted(case)
    for event in case.events:
        if isinstance(event, int):
            continue
        kept = copy.deepcopy(node.state)
        state = node.state
        admit(case.machine, node.rules, state, event)
        remove(state, event.uid)
        assert state == kept
        decision = node.admit(event)
        assert state == kept
        if isinstance(decision, Admitted):
            node.start(event, decision)
            assert state == kept


@laws(120)
@given(cases())
def test_same_input_same_output(case: Case) -> None:
    for node, before, wanted, decision, steps in played(case):
        again: list[Step] = []
        earlier = replace(node, state=before)
        assert earlier.ask(wanted, again.append) == decision
        assert again == steps
        assert earlier.ask(wanted) == decision  # with nobody listening


# --- CPUs ----------------------------------------------------------------------------------------


def held_by_departed(state: NodeState) -> int:
    cpus = 0
    for uid in state.departed:
        for held in state.cpu.assignments.get(uid, {}).values():
            cpus |= held
    return cpus


@laws(250)
@given(cases())
def test_cpus_that_are_granted_were_free_and_are_as_many_as_asked(case: Case) -> None:
    for node, before, wanted, decision, _ in played(case):
        if not isinstance(decision, Admitted) or not node.rules.cpu_static:
            continue
        free = (before.cpu.shared | held_by_departed(before)) & ~node.rules.reserved_cpus
        granted = decision.state.cpu.assignments.get(wanted.uid, {})
        for container in wanted.containers:
            count = exclusive_cpus(node.rules, wanted, container)
            cpus = granted.get(container.name, 0)
            assert cpus.bit_count() == count
            assert not cpus & ~free


@laws(250)
@given(cases())
def test_cpus_belong_to_one_pod_or_to_the_shared_pool(case: Case) -> None:
    for node, _, _, decision, _ in played(case):
        if not node.rules.cpu_static or isinstance(decision, Crashed):
            continue
        state = node.state.cpu
        every = case.machine.layout.all
        if node.rules.cpu_options.strict_reservation:
            every &= ~node.rules.reserved_cpus
        together = state.shared
        for containers in state.assignments.values():
            pod_cpus = 0
            for cpus in containers.values():
                pod_cpus |= cpus
            assert not pod_cpus & together
            together |= pod_cpus
        assert together == every


@laws(200)
@given(cases())
def test_inside_a_pod_only_init_containers_share(case: Case) -> None:
    for _, _, wanted, decision, _ in played(case):
        if not isinstance(decision, Admitted):
            continue
        taken = 0
        for container in wanted.containers:
            if container.role is not Role.INIT:
                cpus = decision.state.cpu.assignments.get(wanted.uid, {}).get(container.name, 0)
                assert not cpus & taken
                taken |= cpus


@laws(200)
@given(cases())
def test_under_single_numa_node_all_comes_from_the_node(case: Case) -> None:
    """Container scope; what the merge promised, the allocation keeps."""
    config = {**case.config, "topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container"}
    options = config.get("cpuManagerPolicyOptions", {})
    if "align-by-socket" in options:
        config["cpuManagerPolicyOptions"] = {}
    for _, _, wanted, decision, _ in played(replace(case, config=config)):
        if not isinstance(decision, Admitted):
            continue
        for name, hint in decision.affinity.items():
            assert hint.preferred
            if hint.numa is None:
                continue
            assert len(hint.numa) == 1
            (numa,) = hint.numa
            state = decision.state
            cpus = state.cpu.assignments.get(wanted.uid, {}).get(name, 0)
            assert not cpus & ~case.machine.layout.numas[numa]
            for block in state.memory.assignments.get(wanted.uid, {}).get(name, ()):
                assert block.numa == 1 << numa
            for resource, grant in state.devices.grants.get(wanted.uid, {}).get(name, {}).items():
                devices = state.devices.plugins[resource].devices
                if any(device.numa for device in devices.values()):
                    assert all(numa in (devices[i].numa or ()) or not devices[i].numa for i in grant.ids)


# --- memory --------------------------------------------------------------------------------------


@laws(250)
@given(cases())
def test_memory_is_what_was_asked_and_the_books_balance(case: Case) -> None:
    broken = False
    for node, _, wanted, decision, steps in played(case):
        broken = broken or "single-node-in-group" in defects(steps)
        if not node.rules.memory_static or isinstance(decision, Crashed):
            continue
        state = node.state.memory
        for numa in state.numa.values():
            for table in numa.tables.values():
                assert table.free + table.reserved == table.allocatable
                assert 0 <= table.free <= table.allocatable <= table.total
        if isinstance(decision, Admitted) and wanted.guaranteed:
            granted = decision.state.memory.assignments.get(wanted.uid, {})
            for container in wanted.containers:
                blocks = {block.type: block.size for block in granted.get(container.name, ())}
                asked = dict(container.memory or ())
                assert blocks.keys() == asked.keys()
                if container.role is Role.INIT:  # what later containers use again is taken off
                    assert all(blocks[kind] <= size for kind, size in asked.items())
                else:
                    assert blocks == asked
        if not broken:
            charged: dict[str, int] = {}
            for containers in state.assignments.values():
                for blocks_held in containers.values():
                    for block in blocks_held:
                        charged[block.type] = charged.get(block.type, 0) + block.size
            for kind in {kind for numa in state.numa.values() for kind in numa.tables}:
                reserved = sum(numa.tables[kind].reserved for numa in state.numa.values())
                assert reserved == charged.get(kind, 0)


@laws(200)
@given(cases())
def test_a_numa_node_is_used_alone_or_in_one_group(case: Case) -> None:
    for node, _, _, _, steps in played(case):
        if "single-node-in-group" in defects(steps):
            return
        for numa, books in node.state.memory.numa.items():
            assert books.cells >> numa & 1
            for other in ids_of(books.cells):
                assert node.state.memory.numa[other].cells == books.cells


# --- devices -------------------------------------------------------------------------------------


def taken_devices(state: NodeState) -> dict[str, set[str]]:
    """Devices of pods that are still there, by resource."""
    taken: dict[str, set[str]] = {}
    for uid, containers in state.devices.grants.items():
        if uid not in state.departed:
            for resources in containers.values():
                for resource, grant in resources.items():
                    taken.setdefault(resource, set()).update(grant.ids)
    return taken


@laws(250)
@given(cases())
def test_devices_that_are_granted_were_free_and_healthy(case: Case) -> None:
    for _, before, wanted, decision, _ in played(case):
        if not isinstance(decision, Admitted):
            continue
        taken = taken_devices(before)
        running: dict[str, set[str]] = {}
        for container in wanted.containers:
            grants = decision.state.devices.grants.get(wanted.uid, {}).get(container.name, {})
            asked = {name: count for name, count in container.devices if count}
            assert {name: len(grant.ids) for name, grant in grants.items() if grant.ids} == asked
            for resource, grant in grants.items():
                plugin = before.devices.plugins[resource]
                assert grant.ids <= plugin.healthy
                assert not grant.ids & taken.get(resource, set())
                if container.role is not Role.INIT:
                    assert not grant.ids & running.setdefault(resource, set())
                    running[resource] |= grant.ids


# --- and back ------------------------------------------------------------------------------------


def collected(node: SimulatedNode, state: NodeState) -> NodeState:
    """The state after every manager has looked for pods that are gone."""
    draft = Draft(state)
    from numawise.engine.cpu.allocate import collect as cpus  # noqa: PLC0415 - three of the same name
    from numawise.engine.device.manager import collect as devices  # noqa: PLC0415
    from numawise.engine.memory.allocate import collect as memory  # noqa: PLC0415

    if node.rules.cpu_static:
        cpus(draft)
    memory(draft)
    devices(draft)
    return draft.freeze()


def group_sums(state: NodeState) -> dict[tuple[int, str], tuple[int, int]]:
    """Free and reserved memory by group of nodes: inside a group only the sums mean anything."""
    sums: dict[tuple[int, str], tuple[int, int]] = {}
    for books in state.memory.numa.values():
        for kind, table in books.tables.items():
            free, reserved = sums.get((books.cells, kind), (0, 0))
            sums[books.cells, kind] = free + table.free, reserved + table.reserved
    return sums


@laws(250)
@given(cases())
def test_release_undoes_grant(case: Case) -> None:
    for node, before, wanted, decision, steps in played(case):
        if isinstance(decision, Crashed) or "single-node-in-group" in defects(steps):
            continue
        assert isinstance(decision, Admitted | Rejected)
        clean = collected(node, before)
        after = collected(node, remove(decision.state, wanted.uid))
        assert after.cpu == clean.cpu
        assert after.memory.assignments == clean.memory.assignments
        assert group_sums(after) == group_sums(clean)
        assert {n: (b.users, b.cells) for n, b in after.memory.numa.items()} == {
            n: (b.users, b.cells) for n, b in clean.memory.numa.items()
        }
        assert after.devices.grants == clean.devices.grants
        assert {k: v for k, v in after.devices.allocated.items() if v} == {
            k: v for k, v in clean.devices.allocated.items() if v
        }
        assert not after.departed


# --- state files ---------------------------------------------------------------------------------


def per_numa(file: DeviceFile) -> Mapping[str, Any]:
    return {
        uid: {name: {r: grant.per_numa for r, grant in grants.items()} for name, grants in containers.items()}
        for uid, containers in file.grants.items()
    }


@laws(150)
@given(cases())
def test_state_files_say_what_the_state_is(case: Case) -> None:
    for node, _, _, decision, _ in played(case):
        if isinstance(decision, Crashed):
            return
        texts = node.files.texts
        for name, text in texts.items():
            assert format_of(name, text)
        assert decode_cpu(texts[CPU_FILE], node.rules) == node.state.cpu
        assert decode_memory(texts[MEMORY_FILE], node.rules) == node.state.memory
        saved = node.state.devices.saved
        if saved is not None:
            found = decode_devices(texts[DEVICE_FILE], node.rules)
            assert isinstance(found, DeviceFile)
            assert per_numa(found) == per_numa(saved)
            assert found.registered == saved.registered


@laws(100)
@given(cases())
def test_a_kubelet_starts_again_on_its_files(case: Case) -> None:
    """Known exceptions: no shared CPU left under strict reservation, and groups of memory nodes broken before."""
    broken = False
    for node, _, _, decision, steps in played(case):
        broken = broken or "single-node-in-group" in defects(steps)
        if isinstance(decision, Crashed) or broken or (node.rules.cpu_static and not node.state.cpu.shared):
            return
        again = boot(case.machine, case.config, Files(dict(node.files.texts)))
        assert isinstance(again, SimulatedNode), again
        assert again.state.cpu == node.state.cpu
        assert again.state.memory == node.state.memory


# --- wide machines -------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [16, 34, 64])
@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("asked", [
    "c cpu=1 memory=1Gi x/d=1",
    "c cpu=6 memory=1Gi x/d=1",
    "c cpu=1 memory=20Gi x/d=3",
    "c cpu=13 memory=20Gi x/d=5",
    "c cpu=1 memory=1Gi x/d=65",
])  # fmt: skip
def test_wide_machines_end(nodes: int, policy: str, asked: str) -> None:
    """The kubelet would compare up to 2**192 combinations here."""
    devices = " ".join(f"d{i:02}@{i}" for i in range(nodes))
    hardware = machine(even(nodes, nodes // 2, 4 * nodes), 8 * GI, devices={"x/d": devices})
    memory = {**static_memory(GI), "systemReserved": {"cpu": "500m", "memory": str(GI)}}
    node = kubelet(
        hardware,
        **{**STATIC, **memory},
        topologyManagerPolicy=policy,
        topologyManagerPolicyOptions={"max-allowable-numa-nodes": "64"},
    )
    for number in range(3):
        steps: list[Step] = []
        decision = node.admit(pod(f"p{number}", asked), steps.append)
        assert isinstance(decision, Admitted | Rejected)
        assert any(isinstance(step, TooManyCombinations) for step in steps)
