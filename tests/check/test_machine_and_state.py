"""Reservations on a machine, the machine itself, and state files."""

import json
import re
from pathlib import Path

import pytest

from numawise.codec.checkpoint import encode_cpu, encode_memory
from numawise.engine.memory.tables import charge
from numawise.engine.state import Block, CpuState, MemoryState, MemoryTable, NumaMemory
from numawise.results.finding import Severity
from numawise.sets import parse_ids
from tests.check.folder import HEAD, STATIC, check, codes, one, pod

GIB = 1 << 30
UID, OTHER = "39b37746-7f5e-4064-b8e1-eebd2bfaa003", "f21fe02b-e6e2-4d04-9a4a-9e57367fa324"


def cpu_file(shared: str, *entries: str, policy: str = "static") -> str:
    """``uid/container=cpus`` for every entry."""
    held: dict[str, dict[str, int]] = {}
    for entry in entries:
        owner, _, cpus = entry.partition("=")
        uid, _, container = owner.partition("/")
        held.setdefault(uid, {})[container] = parse_ids(cpus)
    return encode_cpu(policy, CpuState(parse_ids(shared), held))


def memory_file(totals: list[int], reserved: int = 100 << 20, block: tuple[int, int] | None = None) -> str:
    """Memory of NUMA nodes, of which the first keeps the reservation; a block is held on a node."""
    books = {}
    for numa, total in enumerate(totals):
        system = 0 if numa else reserved
        free = total - system
        books[numa] = NumaMemory(0, {"memory": MemoryTable(total, system, free, 0, free)}, 1 << numa)
    held = {}
    if block is not None:
        numa, size = block
        charge(books, 1 << numa, "memory", size)
        held = {UID: {"main": (Block(1 << numa, "memory", size),)}}
    return encode_memory("Static", MemoryState(books, held))


MEMORY = f"{HEAD}memoryManagerPolicy: Static\nreservedMemory: [{{numaNode: 0, limits: {{memory: 100Mi}}}}]\n"


# --- reservations ---------------------------------------------------------------------------


def reserving(kube: str = "", system: str = "", eviction: str = "", *entries: str) -> str:
    lines = [HEAD.strip(), "memoryManagerPolicy: Static"]
    lines += [f"kubeReserved: {{memory: {kube}}}"] if kube else []
    lines += [f"systemReserved: {{memory: {system}}}"] if system else []
    lines += [f"evictionHard: {{{eviction}}}"] if eviction else []
    lines += ["reservedMemory:"] if entries else []
    for entry in entries:
        numa, _, amount = entry.partition("=")
        lines.append(f"- {{numaNode: {numa}, limits: {{memory: {amount}}}}}")
    return "\n".join(lines) + "\n"


# fmt: off
@pytest.mark.parametrize(("config", "why", "fix"), [
    pytest.param(reserving("2Gi", "2Gi", "", "0=2Gi", "1=2Gi"),
                 "kubeReserved 2Gi + systemReserved 2Gi + evictionHard 100Mi = 4196Mi; reservedMemory is 100Mi too little",
                 "reservedMemory: [{numaNode: 0, limits: {memory: 2148Mi}}, {numaNode: 1, limits: {memory: 2Gi}}]",            id="the eviction threshold forgotten"),
    pytest.param(reserving("1Gi", "1Gi", "nodefs.available: 10%", "0=2148Mi"),
                 "kubeReserved 1Gi + systemReserved 1Gi + evictionHard 0 = 2Gi; reservedMemory is 100Mi too much",
                 "reservedMemory: [{numaNode: 0, limits: {memory: 2Gi}}]; or keep it, and systemReserved memory: 1124Mi",      id="no threshold"),
    pytest.param(reserving("3Gi", "", ""),
                 "kubeReserved 3Gi + systemReserved 0 + evictionHard 100Mi = 3172Mi; reservedMemory is 3172Mi too little",
                 "reservedMemory: [{numaNode: 0, limits: {memory: 1586Mi}}, {numaNode: 1, limits: {memory: 1586Mi}}]",        id="nothing written: an even split"),
    pytest.param(reserving("", "", "", "0=1Gi", "1=4Gi"),
                 "kubeReserved 0 + systemReserved 0 + evictionHard 100Mi = 100Mi; reservedMemory is 5020Mi too much",
                 "systemReserved memory: 5020Mi; or reservedMemory: [{numaNode: 0, limits: {memory: 50Mi}}, {numaNode: 1, limits: {memory: 50Mi}}]", id="far too much"),
])
def test_a_split_that_adds_up(config: str, why: str, fix: str, tmp_path: Path) -> None:
    files = {"kubelet.yaml": config, "machine.yaml": "= 2s 8c 64g"}
    found = one(check(tmp_path, files), "NW221")
    assert (found.why, found.fix) == (why, fix)
    (split,) = re.findall(r"reservedMemory: \[.*?\}\]", fix)
    kept = [line for line in config.splitlines() if not line.startswith(("reservedMemory", "- {numaNode"))]
    mended = "\n".join([*kept, split]) + "\n"
    assert "NW221" not in codes(check(tmp_path, {**files, "kubelet.yaml": mended}))


@pytest.mark.parametrize(("config", "severity"), [
    pytest.param("apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nspec:\n  kubeletConfig:\n    cpuManagerPolicy: static\n", Severity.INFO, id="the platform reserves"),
    pytest.param("apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration: {kubeletExtraArgs: [{name: cpu-manager-policy, value: static}]}\n", Severity.WARNING, id="laid over another"),
    pytest.param(f"{HEAD}cpuManagerPolicy: static\n",                                                                                              Severity.ERROR,   id="the whole"),
])
def test_what_may_stand_elsewhere_is_a_warning(config: str, severity: Severity, tmp_path: Path) -> None:
    assert one(check(tmp_path, {"kubelet.yaml": config}), "NW201").severity is severity


@pytest.mark.parametrize(("reserved", "machine", "expected"), [
    # 2 NUMA nodes, 8 cores of 2 threads each: threads of core 0 are 0 and 16
    pytest.param('reservedSystemCPUs: "0,8,16,24"', "= 2s 16c 2t", set(),                id="a core of each"),
    pytest.param('reservedSystemCPUs: "0,16"',      "= 2s 16c 2t", {"NW210"},            id="a core of one"),
    pytest.param('reservedSystemCPUs: "0,8"',       "= 2s 16c 2t", {"NW209"},            id="half a core of each"),
    pytest.param('reservedSystemCPUs: "0"',         "= 2s 16c 2t", {"NW209", "NW210"},   id="half a core"),
    pytest.param('kubeReserved: {cpu: "1"}',        "= 2s 16c 2t", {"NW209", "NW210"},   id="one CPU, chosen by the kubelet"),
    pytest.param("kubeReserved: {cpu: 500m}",       "= 2s 16c 2t", {"NW208", "NW209", "NW210"}, id="half a CPU"),
    pytest.param('reservedSystemCPUs: "0"',         "= 1s 4c",     set(),                id="one NUMA node, one thread"),
    pytest.param('reservedSystemCPUs: "0-3"',       "= 1s 4c",     {"NW211"},            id="everything"),
    pytest.param('reservedSystemCPUs: "0-4"',       "= 1s 4c",     {"NW203"},            id="one more"),
    pytest.param('kubeReserved: {cpu: "5"}',        "= 1s 4c",     {"NW204", "NW215"},   id="more than there are"),
])
def test_reserved_cpus(reserved: str, machine: str, expected: set[str], tmp_path: Path) -> None:
    config = f"{HEAD}cpuManagerPolicy: static\n{reserved}\n"
    report = check(tmp_path, {"kubelet.yaml": config, "machine.yaml": machine})
    assert codes(report) & {"NW203", "NW204", "NW208", "NW209", "NW210", "NW211", "NW215"} == expected


@pytest.mark.parametrize(("reserved", "whole", "advised"), [
    pytest.param("kubeReserved: {cpu: 500m}\n",                                  1, 'cpu: "1" in kubeReserved',       id="one alone"),
    pytest.param("kubeReserved: {cpu: 500m}\nsystemReserved: {cpu: 1300m}\n",    2, 'cpu: "1500m" in systemReserved', id="both have fractions"),
    pytest.param('kubeReserved: {cpu: "2"}\nsystemReserved: {cpu: 250m}\n',      3, 'cpu: "2750m" in kubeReserved',   id="one of them"),
])  # fmt: skip
def test_a_fraction_of_a_cpu_is_rounded_over_both_reservations(reserved: str, whole: int, advised: str, tmp_path: Path) -> None:
    config = f"{HEAD}cpuManagerPolicy: static\n{reserved}"
    report = check(tmp_path, {"kubelet.yaml": config, "machine.yaml": "= 2s 16c 2t"})
    (finding,) = [finding for finding in report.findings if finding.code == "NW208"]
    assert finding.fix == f"reserve a whole number: {whole} in reservedSystemCPUs, or {advised}"
    value, _, name = advised.removeprefix("cpu: ").partition(" in ")
    assert [way.title for way in finding.corrections] == [f"set {name}.cpu to {value}"]


@pytest.mark.parametrize(("config", "machine", "kube", "expected"), [
    pytest.param("topologyManagerPolicy: restricted",       "= 2s 8n 64c 8gpu",   "1.36", {"NW130"},                 id="devices alone are quick"),
    pytest.param("cpuManagerPolicy: static\nreservedSystemCPUs: '0'\nmemoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]\ntopologyManagerPolicy: restricted",
                 "= 2s 8n 64c 8gpu",   "1.36", {"NW232", "NW210"},     id="three resources on eight"),
    pytest.param("cpuManagerPolicy: static\nreservedSystemCPUs: '0'\ntopologyManagerPolicy: best-effort",
                 "= 2s 4n 64c 8gpu",   "1.36", {"NW131", "NW210"},     id="four are quick"),
    pytest.param("topologyManagerPolicy: restricted",       "= 2s 16n 64c",       "1.36", {"NW130", "NW231"},        id="sixteen"),
    pytest.param("topologyManagerPolicy: restricted",       "= 2s 16n 64c",       "1.30", {"NW130", "NW231"},        id="sixteen, and no option for it"),
    pytest.param("topologyManagerPolicy: none",             "= 2s 16n 64c",       "1.36", set(),                     id="nobody counts"),
    pytest.param("topologyManagerPolicy: restricted",       "= 2s 8c memonly=1",  "1.36", {"NW130", "NW238"},        id="memory alone"),
    pytest.param("topologyManagerPolicy: restricted",       "= 1s 8c",            "1.36", {"NW130", "NW240"},        id="one NUMA node"),
])
def test_machines(config: str, machine: str, kube: str, expected: set[str], tmp_path: Path) -> None:
    report = check(tmp_path, {"kubelet.yaml": f"{HEAD}{config}\n", "machine.yaml": machine}, kube)
    assert codes(report) == expected


# --- state files ----------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "machine", "code", "words"), [
    pytest.param(cpu_file("0-3"),                                       "= 1s 4c", "",      "",                                        id="as the machine is"),
    pytest.param(cpu_file("0-1", f"{UID}/main=2-3"),                    "= 1s 4c", "",      "",                                        id="somebody holds two"),
    pytest.param(cpu_file("0-2"),                                       "= 1s 4c", "NW305", "neither in the shared pool nor assigned: CPU 3", id="a CPU came"),
    pytest.param(cpu_file("0-1", f"{UID}/main=2-5"),                    "= 1s 4c", "NW305", f"not online any more: CPUs 4-5 of {UID[:8]}/main", id="CPUs went"),
    pytest.param(cpu_file("1-3"),                                       "= 1s 4c", "NW306", "CPU 0 is reserved now",                   id="the reserved one is not shared"),
    pytest.param(cpu_file("0-3", f"{UID}/main=3"),                      "= 1s 4c", "NW307", "",                                        id="shared and exclusive"),
    pytest.param(cpu_file("0-1", f"{UID}/a=2-3", f"{OTHER}/b=3"),       "= 1s 4c", "NW308", "",                                        id="twice exclusive"),
    pytest.param(cpu_file("0-1", f"{UID}/init=2-3", f"{UID}/app=3"),    "= 1s 4c", "",      "",                                        id="an init container's, handed on"),
    pytest.param(cpu_file("", policy="none"),                           "= 1s 4c", "NW301", "written under policy none",               id="another policy"),
    pytest.param(cpu_file("0-3").replace("0-3", "0-2,3"),               "= 1s 4c", "NW302", "the checksum is",                         id="edited"),
    pytest.param(cpu_file("0-3")[:-9],                                  "= 1s 4c", "NW303", "",                                        id="cut off"),
    pytest.param('{"policyName":"static","defaultCpuSet":"0-3"}',       "= 1s 4c", "NW314", "",                                        id="without checksum"),
    pytest.param('{"policyName":"static","defaultCpuSet":"0-x"}',       "= 1s 4c", "NW303 NW314", "",                                  id="no list of CPUs"),
])
def test_cpu_files(text: str, machine: str, code: str, words: str, tmp_path: Path) -> None:
    files = {"kubelet.yaml": STATIC, "machine.yaml": machine, "state/cpu_manager_state": text}
    report = check(tmp_path, files)
    assert {finding.code for finding in report.findings if finding.code.startswith("NW3")} == set(code.split())
    if words:
        assert words in one(report, code).message


@pytest.mark.parametrize(("text", "code", "words"), [
    # a machine with two NUMA nodes of 4Gi, of which 100Mi are reserved on the first
    pytest.param(memory_file([4 * GIB, 4 * GIB]),                              "",      "",                                                                id="as the machine is"),
    pytest.param(memory_file([4 * GIB, 4 * GIB], block=(1, GIB)),              "",      "",                                                                id="somebody holds some"),
    pytest.param(memory_file([4 * GIB + (2 << 20), 4 * GIB]),                  "NW310", "NUMA 0 has 2Mi less memory than recorded (4Gi, recorded 4098Mi), as after a reboot (up to 128Mi); safe", id="2Mi less after a reboot"),
    pytest.param(memory_file([4 * GIB, 4 * GIB - 4096]),                       "NW310", "NUMA 1 has 4Ki more memory",                                        id="a page more"),
    pytest.param(memory_file([4 * GIB, 5 * GIB], block=(1, 5 * GIB)),          "NW310", "not safe to adapt: pods have 5Gi of memory on NUMA 1",                         id="more is held than is left"),
    pytest.param(memory_file([4 * GIB, 4 * GIB], reserved=GIB),                "NW310", "NUMA 0 keeps 100Mi of memory for the system (recorded 1Gi)",                             id="another reservation"),
    pytest.param(memory_file([4 * GIB]),                                       "NW310", "NUMA 1 is new",                              id="a NUMA node came"),
    pytest.param(memory_file([4 * GIB, 4 * GIB, GIB], block=(2, GIB)),         "NW311", "",                                                                id="held on a node that went"),
    pytest.param(memory_file([4 * GIB, 4 * GIB]).replace("Static", "None"),    "NW301 NW302", "",                                                                id="edited"),
])
def test_memory_files(text: str, code: str, words: str, tmp_path: Path) -> None:
    files = {"kubelet.yaml": MEMORY, "machine.yaml": "= 2s 8c 8g", "state/memory_manager_state": text}
    report = check(tmp_path, files)
    assert {finding.code for finding in report.findings if finding.code.startswith("NW3")} == set(code.split())
    if words:
        assert words in one(report, code).message
# fmt: on


def test_safe_drift_can_be_repaired(tmp_path: Path) -> None:
    text = memory_file([4 * GIB + (2 << 20), 4 * GIB])
    files = {"kubelet.yaml": MEMORY, "machine.yaml": "= 2s 8c 8g", "state/memory_manager_state": text}
    assert "numawise state repair --adapt-memory" in one(check(tmp_path, files), "NW310").fix


def test_without_a_machine_only_the_file_is_judged(tmp_path: Path) -> None:
    files = {"kubelet.yaml": STATIC, "state/cpu_manager_state": cpu_file("0-6", f"{UID}/main=9")}
    assert not {code for code in codes(check(tmp_path, files)) if code.startswith("NW3")}


def test_stale_pods_need_a_list_of_pods(tmp_path: Path) -> None:
    state = {"state/cpu_manager_state": cpu_file("0-1", f"{UID}/main=2-3")}
    alone = pod('{limits: {cpu: "2", memory: 1Gi}}')
    assert "NW312" not in codes(check(tmp_path, {**state, "pod.yaml": alone}))
    item = {"metadata": {"name": "a", "uid": OTHER}, "spec": {"containers": [{"name": "main", "image": "a"}]}}
    listed = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [item]})
    assert UID in one(check(tmp_path, {**state, "pod.yaml": listed}), "NW312").message
    item["metadata"] = {"name": "a", "uid": UID}
    listed = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [item]})
    assert "NW312" not in codes(check(tmp_path, {**state, "pod.yaml": listed}))


def test_pasted_prints_are_a_machine(tmp_path: Path) -> None:
    text = (
        "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n0 0 0 0 0:0:0:0 yes\n1 1 1 1 1:1:1:1 yes\n2 - - - - no\n"
    )
    config = f'{HEAD}cpuManagerPolicy: static\nreservedSystemCPUs: "0,2"\n'
    report = check(tmp_path, {"kubelet.yaml": config, "machine.txt": text})
    found = one(report, "NW203")
    assert found.message == "reserved-cpus: 0,2 is not a subset of online-cpus: 0-1"
    assert found.why == "CPU 2 is offline"


def test_what_is_missing_of_a_machine_is_told(tmp_path: Path) -> None:
    text = "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 1000 MB\nnode 0 free: 10 MB\n"
    report = check(tmp_path, {"kubelet.yaml": STATIC, "machine.txt": text})
    assert one(report, "NW003").severity is Severity.WARNING
