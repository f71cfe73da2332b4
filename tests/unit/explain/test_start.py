"""Kubelets that do not start: the refusal, and changes after which they do."""

from typing import Any

import pytest

from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.explain.start import explain_refusal
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.results.explanation import NOT_STARTED, Explanation, suggestion_data
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from tests.unit.build import STATIC, even, kubelet, machine
from tests.unit.explain.asking import SMALL
from tests.why import patched

MEMORY = {"memoryManagerPolicy": "Static", "systemReserved": {"memory": "1Gi", "cpu": "1"}}
NINE = machine(even(9, 1, 18), 1 << 30)


def refused(hardware: Machine, config: dict[str, Any], files: dict[str, str] | None = None) -> Explanation:
    node = boot(hardware, config, Files(dict(files or {})))
    assert isinstance(node, Refusal)
    decoded = decode_kubelet_config(config)
    assert isinstance(decoded, KubeletConfig)
    found = explain_refusal(node, hardware, decoded, Files(dict(files or {})))
    assert found.verdict == NOT_STARTED
    assert found.answer == f"The kubelet does not start ({node.stage}): {node.message}"
    for one in found.suggestions:
        told = suggestion_data(one)
        kept = {name: text for name, text in (files or {}).items() if name not in told.get("delete", ())}
        started = boot(hardware, patched(config, told.get("kubelet", ())), Files(kept))
        assert isinstance(started, SimulatedNode), (one.text, started)
    return found


def entry(numa: int, size: str, kind: str = "memory") -> dict[str, Any]:
    return {"numaNode": numa, "limits": {kind: size}}


@pytest.mark.parametrize(("hardware", "config", "texts"), [
    pytest.param(SMALL, {"cpuManagerPolicy": "static"}, ["Reserve a CPU for the system: set systemReserved cpu to 1", "Reserve a core for the system: set reservedSystemCPUs to 0", "Set cpuManagerPolicy to none instead of static"], id="no CPU reserved"),
    pytest.param(SMALL, {**MEMORY, "reservedMemory": [entry(0, "1Gi")]}, ["Set reservedMemory to 1124Mi on NUMA 0, 1124Mi in all", "Set memoryManagerPolicy to None instead of Static"], id="reserved memory does not add up"),
    pytest.param(SMALL, {**MEMORY, "reservedMemory": [entry(0, "512Mi"), entry(1, "600Mi")]}, ["Set reservedMemory to 512Mi on NUMA 0 and 612Mi on NUMA 1, 1124Mi in all", "Set memoryManagerPolicy to None instead of Static"], id="split kept"),
    pytest.param(SMALL, {**MEMORY, "reservedMemory": [entry(0, "1124Mi"), entry(0, "1Gi")]}, ["Set reservedMemory to 1124Mi on NUMA 0, 1124Mi in all"], id="named twice"),
    pytest.param(SMALL, {**MEMORY, "reservedMemory": [entry(7, "1124Mi")]}, ["Set reservedMemory to 1124Mi on NUMA 0, 1124Mi in all", "Set memoryManagerPolicy to None instead of Static"], id="no such node"),
    pytest.param(SMALL, {"memoryManagerPolicy": "static", "systemReserved": {"memory": "1Gi"}}, ["Set memoryManagerPolicy to Static instead of static, and reservedMemory so that it adds up", "Set memoryManagerPolicy to None instead of static"], id="small letter"),
    pytest.param(SMALL, {**STATIC, "cpuManagerPolicyOptions": {"full-pcpu-only": "true"}}, ["Write full-pcpus-only instead of full-pcpu-only in cpuManagerPolicyOptions", "Remove full-pcpu-only from cpuManagerPolicyOptions"], id="misspelt option"),
    pytest.param(SMALL, {**STATIC, "cpuManagerPolicyOptions": {"align-by-socket": "true"}}, ["Switch the feature gate CPUManagerPolicyAlphaOptions on", "Remove align-by-socket from cpuManagerPolicyOptions"], id="gate off"),
    pytest.param(SMALL, {"topologyManagerPolicy": "single-numa"}, ["Set topologyManagerPolicy to single-numa-node instead of single-numa"], id="misspelt policy"),
    pytest.param(SMALL, {"featureGates": {"CPUManagerMagic": True}}, ["Remove CPUManagerMagic from featureGates"], id="unknown gate"),
    pytest.param(NINE, {"topologyManagerPolicy": "restricted"}, ['Set max-allowable-numa-nodes to "9" in topologyManagerPolicyOptions', "Set topologyManagerPolicy to none instead of restricted"], id="too many NUMA nodes"),
    pytest.param(SMALL, {"topologyManagerScope": "node", "featureGates": {"Magic": True}}, ["Remove Magic from featureGates; remove topologyManagerScope"], id="two things at once"),
    pytest.param(SMALL, {"evictionHard": {"memory.free": "1Gi"}}, ["Remove memory.free from evictionHard"], id="eviction signal"),
    pytest.param(SMALL, {**STATIC, "reservedSystemCPUs": "0,99"}, ["Set reservedSystemCPUs to 0 instead of 0,99"], id="CPU that is not there"),
])  # fmt: skip
def test_configurations(hardware: Machine, config: dict[str, Any], texts: list[str]) -> None:
    assert [one.text for one in refused(hardware, config).suggestions] == texts


def test_the_sum_is_explained() -> None:
    found = refused(SMALL, {**MEMORY, "reservedMemory": [entry(0, "1Gi")]})
    (remark,) = found.remarks
    parts = "systemReserved 1Gi + kubeReserved 0 + evictionHard memory.available 100Mi"
    assert remark == f"reservedMemory must add up to 1124Mi: {parts}"


def test_state_file_of_another_policy() -> None:
    old = kubelet(SMALL, **STATIC)
    found = refused(SMALL, {**STATIC, "cpuManagerPolicy": "none"}, old.files.texts)
    assert [(one.text, one.delete) for one in found.suggestions] == [
        ("Set cpuManagerPolicy back to static, with which cpu_manager_state was written", ()),
        ("Stop the kubelet, delete /var/lib/kubelet/cpu_manager_state, start it", ("cpu_manager_state",)),
    ]
    assert found.suggestions[-1].price == "drain the node first: what its pods hold is forgotten"
