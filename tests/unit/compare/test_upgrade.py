"""Upgrade reports: gates, fields, state files and pods, each with its reason; in words and as data."""

import json
from typing import Any

import pytest

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.compare.upgrade import upgrade
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.render.comparison import change_notes, change_rows, summary
from numawise.request.defaults import RawPod, defaulted
from numawise.results.comparison import UpgradeReport
from numawise.rules.versions import Version
from tests.unit.build import GI, GPU, STATIC, T3, machine, three_gpu_server
from tests.unit.codec.test_checkpoint import flat_text
from tests.unit.compare.test_releases import FULL, MEMORY, RESTRICTED, raw

SERVER = machine(T3, 8 * GI, devices={"x/d": "a@0 b@1"})


def left_by(
    version: Version, config: dict[str, Any], *pods: RawPod, hardware: Machine = SERVER
) -> dict[str, str]:
    """The state files of a kubelet that admitted these pods."""
    node = boot(hardware, config, Files(), version=version)
    assert isinstance(node, SimulatedNode), node
    node.plugins_registered(hardware.plugins)
    for one in pods:
        node.admit(defaulted(one))
    return dict(node.files.texts)


def report(
    config: dict[str, Any],
    old: Version,
    new: Version,
    *pods: RawPod,
    files: dict[str, str] | None = None,
    hardware: Machine = SERVER,
) -> UpgradeReport:
    return upgrade(config, hardware, files or {}, pods, old, new)


def findings(found: UpgradeReport) -> list[tuple[str, str, bool]]:
    return [(one.kind, one.name, one.stops) for one in found.findings]


def gates(**given: bool) -> dict[str, Any]:
    return {**STATIC, "featureGates": given}


# fmt: off
@pytest.mark.parametrize(("config", "old", "new", "expected", "text"), [
    pytest.param(gates(MemoryManager=True), (1, 35), (1, 36), [("gate-unknown", "MemoryManager", True)],
                 "is unknown to 1.36, 1.35 is the last release that has it; remove it from featureGates", id="gone"),
    pytest.param(gates(TopologyManagerPolicyOptions=False), (1, 35), (1, 36), [("gate-locked", "TopologyManagerPolicyOptions", True)],
                 "cannot be off: 1.36 has it locked on (since 1.36); remove it from featureGates", id="locked"),
    pytest.param(gates(TopologyManagerPolicyOptions=True), (1, 35), (1, 36), [], "", id="locked to what it is"),
    pytest.param(gates(PodLevelResourceManagers=False), (1, 36), (1, 35), [("gate-unknown", "PodLevelResourceManagers", True)],
                 "is unknown to 1.35, 1.36 is the first release that has it; remove it from featureGates", id="not there yet"),
    pytest.param(gates(NoSuchGate=True), (1, 35), (1, 36), [("gate-unknown", "NoSuchGate", False)],
                 "is unknown to every release; remove it from featureGates", id="nonsense"),
    pytest.param(STATIC, (1, 33), (1, 34), [("gate-default", "PodLevelResources", False)],
                 "is off in 1.33 and on in 1.34, if not set", id="another default"),
    pytest.param({**STATIC, "mergeDefaultEvictionSettings": True}, (1, 31), (1, 33), [("field-new", "mergeDefaultEvictionSettings", False)],
                 "was ignored by 1.31 and counts in 1.33 (read since 1.33)", id="a field that counts now"),
    pytest.param({**STATIC, "mergeDefaultEvictionSettings": True}, (1, 33), (1, 31), [("field-gone", "mergeDefaultEvictionSettings", False)],
                 "counted in 1.33 and is ignored by 1.31 (read since 1.33); remove it", id="a field that counts no more"),
    pytest.param({**STATIC, "cpuManagerPolicyy": "x"}, (1, 35), (1, 36), [("field-unknown", "cpuManagerPolicyy", False)],
                 "is ignored by both; remove it", id="a field that never counted"),
])
def test_configurations(config: dict[str, Any], old: Version, new: Version, expected: object, text: str) -> None:
    found = report(config, old, new)
    assert findings(found) == expected
    assert not found.findings or found.findings[0].text == text
# fmt: on


def test_every_gate_is_told_not_only_the_first() -> None:
    config = gates(MemoryManager=True, TopologyManagerPolicyOptions=False, CPUManagerPolicyAlphaOptions=True)
    found = report(config, (1, 35), (1, 36))
    assert [name for _, name, stops in findings(found) if stops] == [
        "MemoryManager",
        "TopologyManagerPolicyOptions",
    ]
    (change,) = found.changes
    assert change.kind == "does-not-start"
    assert [reason.name for reason in change.reasons] == ["MemoryManager", "TopologyManagerPolicyOptions"]
    assert found.matters


PODS = (raw("p", "c cpu=2 memory=1Gi x/d=1"), raw("q", "c cpu=2 memory=1Gi"))


@pytest.mark.parametrize(
    ("old", "new"), [((1, 21), (1, 22)), ((1, 31), (1, 34)), ((1, 34), (1, 36)), ((1, 36), (1, 37))]
)
def test_files_that_are_taken_over(old: Version, new: Version) -> None:
    config = {**MEMORY, "featureGates": {"MemoryManager": True}} if old == (1, 21) else MEMORY
    files = left_by(old, config, *PODS)
    assert set(files) == {CPU_FILE, MEMORY_FILE, DEVICE_FILE}
    found = report(config, old, new, *PODS, files=files)
    assert not [one for one in found.findings if one.kind == "state-file"]
    assert not found.matters


def test_a_file_of_pod_level_managers_without_the_gate() -> None:
    """With the gate on, 1.36 writes a layout that 1.35 does not know."""
    on = {**MEMORY, "featureGates": {"PodLevelResourceManagers": True}}
    wanted = raw("p", "c cpu=2 memory=1Gi", level={"cpu": "2", "memory": "1Gi"})
    files = left_by(
        (1, 36), {**on, "topologyManagerScope": "pod", "topologyManagerPolicy": "restricted"}, wanted
    )
    found = report(MEMORY, (1, 36), (1, 35), files=files)
    told = [one for one in found.findings if one.kind == "state-file"]
    assert [one.name for one in told] == [CPU_FILE, MEMORY_FILE]
    assert all("1.36 does not take it either" in one.text for one in told)  # the gate is off in both


def test_files_that_are_refused_are_told_one_by_one() -> None:
    files = left_by((1, 37), MEMORY, *PODS)
    old_checksum = json.loads(files[MEMORY_FILE])["checksum"]
    broken = {
        CPU_FILE: files[CPU_FILE].replace('"checksum":', '"checksum":1'),
        MEMORY_FILE: files[MEMORY_FILE].replace(f'"checksum":{old_checksum}', '"checksum":7'),
    }
    found = report(MEMORY, (1, 37), (1, 36), files=broken)
    assert findings(found) == [("state-file", CPU_FILE, True), ("state-file", MEMORY_FILE, True)]
    for one in found.findings:
        assert "could not restore state from checkpoint" in one.text
        assert [reason.name for reason in one.reasons] == ["files_carry_data"]
    assert [change.kind for change in found.changes] == ["does-not-start"]
    assert not findings(report(MEMORY, (1, 36), (1, 37), files=left_by((1, 36), MEMORY, *PODS)))


def test_a_policy_that_changed_is_no_matter_of_the_release() -> None:
    files = left_by((1, 34), MEMORY)
    found = report({"cpuManagerPolicy": "none"}, (1, 34), (1, 36), files={CPU_FILE: files[CPU_FILE]})
    ((kind, name, stops),) = findings(found)
    assert (kind, name, stops) == ("state-file", CPU_FILE, False)
    assert 'configured policy "none" differs from state checkpoint policy "static"' in found.findings[0].text


def test_flat_device_files() -> None:
    """1.19 kept no NUMA nodes; such files are read up to 1.30."""
    found = report(MEMORY, (1, 30), (1, 31), files={DEVICE_FILE: flat_text()})
    told = [one for one in found.findings if one.kind == "state-file"]
    assert [(one.name, one.stops) for one in told] == [(DEVICE_FILE, False)]
    assert [reason.name for reason in told[0].reasons] == ["reads_flat_device_lists"]
    assert "forgotten-file" in [change.kind for change in found.changes]


def test_running_and_new_pods() -> None:
    running = raw("p", f"c cpu=3 memory=1Gi {GPU}=1")
    files = left_by((1, 23), RESTRICTED, running, hardware=three_gpu_server())
    wanted = raw("q", f"c cpu=3 memory=1Gi {GPU}=2")
    late = raw("r", "c cpu=4 memory=1Gi")
    found = report(
        RESTRICTED, (1, 23), (1, 24), running, wanted, late, files=files, hardware=three_gpu_server()
    )
    assert [(one.uid, one.kind) for one in found.changes if not one.minor] == []
    wanted = raw("q", "c cpu=16 memory=1Gi", f"d cpu=1 memory=1Gi {GPU}=2")
    found = report(RESTRICTED, (1, 23), (1, 24), wanted, hardware=three_gpu_server())
    assert [(one.uid, one.kind) for one in found.changes if not one.minor] == []
    wanted = raw("q", f"c cpu=3 memory=1Gi {GPU}=3")
    found = report(RESTRICTED, (1, 23), (1, 24), wanted, late, hardware=three_gpu_server())
    assert [(one.uid, one.kind) for one in found.changes if not one.minor] == [
        ("q", "refused"),
        ("r", "cpus"),
    ]


def test_a_running_pod_that_any_restart_refuses() -> None:
    full = {**STATIC, **FULL}
    pods = [raw(name, "c cpu=4 memory=1Gi") for name in ("p", "q", "r")]
    files = left_by((1, 34), full, *pods)
    found = report(full, (1, 34), (1, 36), *pods, files=files)
    refused = [one for one in found.findings if one.kind == "restart-refused"]
    assert [one.name for one in refused] == ["default/p", "default/q", "default/r"]
    assert "is running, and refused by any restart: SMTAlignmentError" in refused[0].text
    better = report(full, (1, 36), (1, 37), *pods, files=files)
    assert [(one.uid, one.kind) for one in better.changes] == [(name, "admitted") for name in "pqr"]


# --- in words and as data ---------------------------------------------------------------------


def test_words() -> None:
    wanted = raw("q", f"c cpu=3 memory=1Gi {GPU}=3")
    found = report(
        {**RESTRICTED, "cpuManagerPolicyy": "x"}, (1, 23), (1, 24), wanted, hardware=three_gpu_server()
    )
    reason = (
        "A merged hint is preferred only when all masks agree, and its width is judged by the resource that "
        "needs most NUMA nodes."
    )
    assert [(one.name, one.text) for one in found.findings] == [
        ("cpuManagerPolicyy", "is ignored by both; remove it")
    ]
    refused = "rejected (TopologyAffinityError: Resources cannot be allocated with Topology locality)"
    assert change_rows(found.changes) == [["q", "refused", "admitted", refused]]
    assert change_notes(found.changes) == [
        f"q: refused, because of preferred_needs_equal_masks: {reason} (since 1.24)"
    ]
    assert summary(found.changes, 1, (1, 23), (1, 24)) == "1 of 1 pods change from 1.23 to 1.24 (1 refused)"
    quiet = report(STATIC, (1, 34), (1, 35), wanted, hardware=three_gpu_server())
    assert summary(quiet.changes, 1, (1, 34), (1, 35)) == "nothing changes for 1 pods from 1.34 to 1.35"
    stopped = report(gates(NoSuchGate=True, MemoryManager=True), (1, 35), (1, 36))
    stopping = [(one.name, one.text) for one in stopped.findings if one.stops]
    assert stopping[0][0] == "MemoryManager"
    assert stopping[0][1].startswith("is unknown to 1.36")
    assert summary((), 3, (1, 34), (1, 35)) == "nothing changes for 3 pods from 1.34 to 1.35"
