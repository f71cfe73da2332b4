"""A kubelet starts, or says why not: building its managers, then picking up the state of an earlier one."""

from typing import Any

import pytest

from numawise.codec.checkpoint import (
    CPU_FILE,
    DEVICE_FILE,
    MEMORY_FILE,
    encode_cpu,
    encode_devices,
    encode_memory,
)
from numawise.engine.state import Block, CpuState, DeviceFile, DeviceGrant, MemoryState
from numawise.machine.model import Machine, Numa
from numawise.node.node import SimulatedNode
from numawise.rules.check import Refusal
from numawise.sets import format_ids, parse_ids
from tests.unit.build import (
    GI,
    MI,
    STATIC,
    T1,
    T3,
    T5,
    T6,
    even,
    kubelet,
    machine,
    pod,
    started,
    static_memory,
)

SERVER = machine(T3, 8 * GI)


def refusal(hardware: Machine, files: dict[str, str] | None = None, **config: Any) -> tuple[str, str]:
    node = started(hardware, files, **config)
    assert isinstance(node, Refusal), "it started"
    return node.stage, node.message


# --- the Topology Manager ------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "gates", "message"), [
    ({"x": "y"},                             {}, 'unknown Topology Manager Policy option: "x"'),
    ({"prefer-closest-numa-nodes": "maybe"}, {}, 'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "maybe": invalid syntax'),
    ({"max-allowable-numa-nodes": "x"},      {}, 'unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: parsing "x": invalid syntax'),
    ({"max-allowable-numa-nodes": "7"},      {}, 'the minimum value of "max-allowable-numa-nodes" should not be less than 8'),
    ({"prefer-closest-numa-nodes": "true"},  {}, "cannot discover NUMA topology: error getting NUMA distances from cadvisor"),
])  # fmt: skip
def test_topology_options(options: dict[str, str], gates: dict[str, bool], message: str) -> None:
    config = {"topologyManagerPolicyOptions": options, "featureGates": gates}
    assert refusal(SERVER, topologyManagerPolicy="restricted", **config) == ("topology-manager", message)
    assert isinstance(started(SERVER, topologyManagerPolicy="none", **config), SimulatedNode)  # nobody looks


def test_too_many_numa_nodes() -> None:
    nine = Machine(T1, tuple(Numa(i, GI) for i in range(9)))  # those without CPUs count too
    message = "unsupported on machines with more than 8 NUMA Nodes"
    assert refusal(nine, topologyManagerPolicy="best-effort") == ("topology-manager", message)
    assert isinstance(started(nine), SimulatedNode)
    raised = {"max-allowable-numa-nodes": "9"}
    assert isinstance(
        started(nine, topologyManagerPolicy="best-effort", topologyManagerPolicyOptions=raised), SimulatedNode
    )


# --- the CPU Manager -----------------------------------------------------------------------------

ALPHA = {"CPUManagerPolicyAlphaOptions": True}


@pytest.mark.parametrize(("options", "config", "message"), [
    ({"x": "true"},                 {}, 'unknown CPU Manager Policy option: "x"'),
    ({"full-pcpus-only": "maybe"},  {}, 'bad value for option "full-pcpus-only": strconv.ParseBool: parsing "maybe": invalid syntax'),
    ({"align-by-socket": "false"},  {}, 'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided'),
    ({"distribute-cpus-across-numa": "true"}, {"featureGates": {"CPUManagerPolicyBetaOptions": False}},
        'CPU Manager Policy Beta-level Options not enabled, but option "distribute-cpus-across-numa" provided'),
    ({"full-pcpus-only": "true", "distribute-cpus-across-cores": "true"}, {"featureGates": ALPHA},
        "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used at the same time"),
    ({"distribute-cpus-across-numa": "true", "distribute-cpus-across-cores": "true"}, {"featureGates": ALPHA},
        "static policy options distribute-cpus-across-numa and distribute-cpus-across-cores can not be used at the same time"),
    ({"prefer-align-cpus-by-uncorecache": "true", "distribute-cpus-across-cores": "true"}, {"featureGates": ALPHA},
        "static policy options prefer-align-cpus-by-uncorecache and distribute-cpus-across-cores can not be used at the same time"),
    ({"prefer-align-cpus-by-uncorecache": "true", "distribute-cpus-across-numa": "true"}, {},
        "static policy options prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa can not be used at the same time"),
    ({"align-by-socket": "true"},   {"featureGates": ALPHA, "topologyManagerPolicy": "single-numa-node"},
        "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"),
])  # fmt: skip
def test_cpu_options(options: dict[str, str], config: dict[str, Any], message: str) -> None:
    found = refusal(SERVER, **STATIC, cpuManagerPolicyOptions=options, **config)
    assert found == ("cpu-manager", f"new static policy error: {message}")


def test_align_by_socket_wants_no_more_sockets_than_numa_nodes() -> None:
    config = {**STATIC, "cpuManagerPolicyOptions": {"align-by-socket": "true"}, "featureGates": ALPHA}
    message = (
        "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
    )
    assert refusal(machine(T6), **config) == ("cpu-manager", f"new static policy error: {message}")
    assert isinstance(started(machine(T5), **config), SimulatedNode)


@pytest.mark.parametrize(("config", "message"), [
    ({"cpuManagerPolicy": "bogus"},           'unknown policy: "bogus"'),
    ({"cpuManagerPolicy": "static"},          "[cpumanager] unable to determine reserved CPU resources for static policy"),
    ({"cpuManagerPolicy": "static", "systemReserved": {"cpu": "0"}},
                                              "[cpumanager] unable to determine reserved CPU resources for static policy"),
    ({"cpuManagerPolicy": "static", "systemReserved": {"cpu": "99"}},
        "new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of  did not equal 99)"),
    ({"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
        "new none policy error: None policy: received unsupported options=map[full-pcpus-only:true]"),
    ({"cpuManagerPolicyOptions": {"b": "1", "a": "2"}},
        "new none policy error: None policy: received unsupported options=map[a:2 b:1]"),
])  # fmt: skip
def test_cpu_policy(config: dict[str, Any], message: str) -> None:
    assert refusal(SERVER, **config) == ("cpu-manager", message)


@pytest.mark.parametrize(("amount", "options", "gates", "reserved"), [
    ("500m",  {}, {}, "0"),
    ("1",     {}, {}, "0"),
    ("1001m", {}, {}, "0,4"),
    ("2",     {}, {}, "0,4"),
    ("3",     {}, {}, "0-1,4"),
    ("2",     {"distribute-cpus-across-cores": "true"}, ALPHA, "0-1"),  # options choose what is reserved, too
])  # fmt: skip
def test_which_cpus_are_reserved(
    amount: str, options: dict[str, str], gates: dict[str, bool], reserved: str
) -> None:
    node = kubelet(
        machine(T1),
        cpuManagerPolicy="static",
        systemReserved={"cpu": amount},
        cpuManagerPolicyOptions=options,
        featureGates=gates,
    )
    assert format_ids(node.rules.reserved_cpus) == reserved


def test_an_explicit_list_replaces_the_numbers() -> None:
    node = kubelet(
        machine(T1),
        cpuManagerPolicy="static",
        reservedSystemCPUs="2,5",
        systemReserved={"cpu": "7"},
        kubeReserved={"cpu": "1"},
    )
    assert format_ids(node.rules.reserved_cpus) == "2,5"
    assert format_ids(node.rules.reserved_cores) == "1-2,5-6"
    assert str(node.settings.reservation["cpu"]) == "2"


def test_an_explicit_list_must_be_online() -> None:
    found = refusal(machine(T1), cpuManagerPolicy="static", reservedSystemCPUs="0-40")
    assert found == ("reserved-cpus", "reserved-cpus: 0-40 is not a subset of online-cpus: 0-7")


# --- the Memory Manager --------------------------------------------------------------------------


def reserved(*entries: tuple[int, str, str]) -> list[dict[str, Any]]:
    return [{"numaNode": node, "limits": {name: size}} for node, name, size in entries]


BALANCED = {"systemReserved": {"memory": "1Gi"}, "memoryManagerPolicy": "Static"}  # and 100Mi for eviction


@pytest.mark.parametrize(("config", "message"), [
    ({"memoryManagerPolicy": "static"},       'unknown policy: "static"'),
    ({"memoryManagerPolicy": "BestEffort"},   'policy "BestEffort" is not available for platform "linux"'),
    ({**BALANCED, "reservedMemory": reserved((7, "memory", "1124Mi"))},
        "the reserved memory configuration references a NUMA node 7 that does not exist on this machine"),
    ({**BALANCED, "reservedMemory": reserved((0, "memory", "1Gi"))},
        'the total amount "1Gi" of type "memory" is not equal to the value "1124Mi" determined by Node Allocatable feature'),
    ({**BALANCED},
        'the total amount "0" of type "memory" is not equal to the value "1124Mi" determined by Node Allocatable feature'),
    ({**BALANCED, "systemReserved": {}, "kubeReserved": {"memory": "2G"}, "reservedMemory": reserved((0, "memory", "1Gi"), (1, "memory", "1G"))},
        'the total amount "2073741824" of type "memory" is not equal to the value "2104857600" determined by Node Allocatable feature'),
    ({**BALANCED, "reservedMemory": reserved((0, "memory", "1124Mi"), (0, "hugepages-1Gi", "1Gi"))},
        'the total amount "1Gi" of type "hugepages-1Gi" is not equal to the value "0" determined by Node Allocatable feature'),
    ({**BALANCED, "evictionHard": {}, "systemReserved": {"memory": "1536Mi"}, "reservedMemory": reserved((0, "memory", "1.5Gi"))},
        "could not covert a variable of type Quantity to int64"),
    ({**BALANCED, "evictionHard": {}, "reservedMemory": reserved((0, "memory", "1073741824000m"))},
        "could not covert a variable of type Quantity to int64"),
    ({"memoryManagerPolicy": "Static", "evictionHard": {}},
        "[memorymanager] you should specify the system reserved memory"),
])  # fmt: skip
def test_memory_policy(config: dict[str, Any], message: str) -> None:
    assert refusal(SERVER, **config) == ("memory-manager", message)


@pytest.mark.parametrize("config", [
    {**BALANCED, "reservedMemory": reserved((0, "memory", "1124Mi"))},
    {**BALANCED, "reservedMemory": reserved((0, "memory", "1Gi"), (1, "memory", "100Mi"))},
    {**BALANCED, "kubeReserved": {"memory": "1Gi"}, "reservedMemory": reserved((1, "memory", "2148Mi"))},
    {**BALANCED, "evictionHard": {"nodefs.available": "10%"}, "reservedMemory": reserved((0, "memory", "1Gi"))},
    {"memoryManagerPolicy": "None", "reservedMemory": reserved((0, "memory", "5Gi"))},  # nobody adds it up
])  # fmt: skip
def test_good_memory_reservations(config: dict[str, Any]) -> None:
    assert isinstance(started(SERVER, **config), SimulatedNode)


# --- on an earlier kubelet's CPU file ------------------------------------------------------------


def cpu_file(shared: str, held: dict[str, str] | None = None) -> dict[str, str]:
    assignments = {"p": {name: parse_ids(cpus) for name, cpus in held.items()}} if held else {}
    return {CPU_FILE: encode_cpu("static", CpuState(parse_ids(shared), assignments))}


STRICT = {**STATIC, "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}}


@pytest.mark.parametrize(("config", "shared", "held", "message"), [
    (STATIC, "",    {"c": "1"},   "default cpuset cannot be empty"),
    (STATIC, "1-7", {},           'not all reserved cpus: "0" are present in defaultCpuSet: "1-7"'),
    (STRICT, "0-7", {},           'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-7"'),
    (STATIC, "0-7", {"c": "1"},   'pod: p, container: c cpuset: "1" overlaps with default cpuset "0-7"'),
    (STATIC, "0-8", {},           'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-8"'),
    (STATIC, "0-5", {"c": "6"},   'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-6"'),
    (STRICT, "1-6", {},           'current set of available CPUs "1-7" doesn\'t match with CPUs in state "1-6"'),
])  # fmt: skip
def test_cpu_files_that_do_not_fit(
    config: dict[str, Any], shared: str, held: dict[str, str], message: str
) -> None:
    found = refusal(machine(T1), cpu_file(shared, held), **config)
    assert found == ("cpu-manager-start", f"start cpu manager error: {message}")


@pytest.mark.parametrize(("config", "shared", "held", "expected"), [
    (STATIC, "",    {},           "0-7"),
    (STRICT, "",    {},           "1-7"),
    (STATIC, "0-5", {"c": "6-7"}, "0-5"),
    (STRICT, "1-5", {"c": "6-7"}, "1-5"),
])  # fmt: skip
def test_cpu_files_that_fit(config: dict[str, Any], shared: str, held: dict[str, str], expected: str) -> None:
    node = kubelet(machine(T1), cpu_file(shared, held), **config)
    assert format_ids(node.state.cpu.shared) == expected


def test_without_a_file_the_pool_is_everything() -> None:
    assert format_ids(kubelet(machine(T1), **STATIC).state.cpu.shared) == "0-7"
    assert format_ids(kubelet(machine(T1), **STRICT).state.cpu.shared) == "1-7"
    assert format_ids(kubelet(machine(T1)).state.cpu.shared) == ""


def test_pods_of_the_files_are_taken_as_running() -> None:
    node = kubelet(machine(T1), cpu_file("0-5", {"c": "6-7"}), **STATIC)
    assert list(node.state.active) == ["p"]
    assert not node.state.departed
    node.admit(pod("q", "c cpu=1 memory=1Gi"))
    assert "p" in node.state.cpu.assignments  # not collected


# --- on an earlier kubelet's memory file ---------------------------------------------------------

MEMORY = static_memory(512 * MI, 512 * MI)
SMALL = machine(T3, 2 * GI)


def memory_file(edit: str = "") -> dict[str, str]:
    """The file after a pod ran; ``old -> new`` changes one of its values, and drops the checksum."""
    node = kubelet(SMALL, **MEMORY)
    node.admit(pod("p", "c cpu=1 memory=1Gi"))
    text = node.files.texts[MEMORY_FILE]
    if edit:
        old, _, new = edit.partition(" -> ")
        assert old in text
        text = text.replace(old, new, 1)
        text = text[: text.index(',"checksum"')] + "}"
    return {MEMORY_FILE: text}


DIFFERENT = "[memorymanager] the expected machine state is different from the real one"


@pytest.mark.parametrize(("edit", "message"), [
    ('"total":2147483648 -> "total":1',                    DIFFERENT),
    ('"systemReserved":536870912 -> "systemReserved":0',   DIFFERENT),
    ('"allocatable":1610612736 -> "allocatable":1',        DIFFERENT),
    ('"reserved":1073741824 -> "reserved":0',              DIFFERENT),
    ('"free":536870912 -> "free":0',                       DIFFERENT),
    ('"numberOfAssignments":1 -> "numberOfAssignments":2', DIFFERENT),
    ('"cells":[1] -> "cells":[0,1]',                       DIFFERENT),
    ('"size":1073741824 -> "size":1',                      DIFFERENT),
    ('"numaAffinity":[0] -> "numaAffinity":[5]', "[memorymanager] (pod: p, container: c) the memory assignment uses the NUMA that does not exist"),
    ('"type":"memory" -> "type":"hugepages-2Mi"', "[memorymanager] (pod: p, container: c) the memory assignment uses memory resource that does not exist"),
])  # fmt: skip
def test_memory_files_that_do_not_fit(edit: str, message: str) -> None:
    found = refusal(SMALL, memory_file(edit), **MEMORY)
    assert found == ("memory-manager-start", f"start memory manager error: {message}")


def test_assignments_without_a_machine() -> None:
    orphan = MemoryState({}, {"p": {"c": (Block(1, "memory", 5),)}})
    found = refusal(SMALL, {MEMORY_FILE: encode_memory("Static", orphan)}, **MEMORY)
    message = "[memorymanager] machine state can not be empty when it has memory assignments"
    assert found == ("memory-manager-start", f"start memory manager error: {message}")


def test_a_machine_or_reservation_that_changed() -> None:
    assert refusal(machine(T3, 4 * GI), memory_file(), **MEMORY)[1].endswith(DIFFERENT)
    assert refusal(SMALL, memory_file(), **static_memory(256 * MI, 768 * MI))[1].endswith(DIFFERENT)


def test_memory_files_that_fit() -> None:
    node = kubelet(SMALL, memory_file(), **MEMORY)
    assert node.state.memory.assignments == {"p": {"c": (Block(1, "memory", GI),)}}
    empty = {MEMORY_FILE: encode_memory("Static", MemoryState())}
    assert kubelet(SMALL, empty, **MEMORY).state.memory == kubelet(SMALL, **MEMORY).state.memory


def test_inside_a_group_only_the_sums_count() -> None:
    """After the release of an earlier block the bytes lie elsewhere than a fresh replay would put them."""
    node = kubelet(SMALL, **MEMORY, topologyManagerPolicy="best-effort")
    node.admit(pod("p1", "c cpu=1 memory=2Gi"))
    node.admit(pod("p2", "c cpu=1 memory=512Mi"))
    node.remove("p1")
    node.admit(pod("p3", "c cpu=1"))
    node.admit(pod("p4", "c cpu=1 memory=512Mi"))
    before = node.state.memory
    assert (
        kubelet(SMALL, node.files.texts, **MEMORY, topologyManagerPolicy="best-effort").state.memory == before
    )


# --- files together ------------------------------------------------------------------------------


def test_the_cpu_manager_complains_first() -> None:
    files = {CPU_FILE: "{", MEMORY_FILE: "{"}
    both = {**STATIC, **MEMORY, "systemReserved": {"cpu": "1", "memory": "1Gi"}}
    assert refusal(SMALL, files, **both)[0] == "cpu-manager-start"
    assert refusal(SMALL, {MEMORY_FILE: "{"}, **both)[0] == "memory-manager-start"
    wrong_pool = {**cpu_file("1-15"), MEMORY_FILE: "{"}
    assert refusal(SMALL, wrong_pool, **both)[0] == "cpu-manager-start"


def test_a_damaged_device_file_is_forgotten() -> None:
    hardware = machine(T3, devices={"x/d": "a@0"})
    grant = DeviceFile({"p": {"c": {"x/d": DeviceGrant(((0, ("a",)),))}}}, {"x/d": frozenset("a")})
    good = encode_devices(grant)
    node = kubelet(hardware, {DEVICE_FILE: good})
    assert list(node.state.devices.grants) == ["p"]
    assert not node.files.forgotten
    node = kubelet(hardware, {DEVICE_FILE: good.replace('"a"', '"b"')})
    assert not node.state.devices.grants
    assert "checkpoint is corrupted" in node.files.forgotten


@pytest.mark.parametrize(("before", "after", "message"), [
    ({},     STATIC, 'configured policy "static" differs from state checkpoint policy "none"'),
    (STATIC, {},     'configured policy "none" differs from state checkpoint policy "static"'),
    (MEMORY, {},     '[memorymanager] configured policy "None" differs from state checkpoint policy "Static"'),
    ({},     MEMORY, '[memorymanager] configured policy "Static" differs from state checkpoint policy "None"'),
])  # fmt: skip
def test_a_changed_policy_stops_the_kubelet(
    before: dict[str, Any], after: dict[str, Any], message: str
) -> None:
    files = kubelet(SMALL, **before).files.texts
    kind, file = ("memory", MEMORY_FILE) if "memory" in message else ("cpu", CPU_FILE)
    named = "memory" if kind == "memory" else "CPU"
    assert refusal(SMALL, files, **after) == (
        f"{kind}-manager-start",
        (
            f"start {kind} manager error: could not restore state from checkpoint: {message}, please drain this node and "
            f'delete the {named} manager checkpoint file "/var/lib/kubelet/{file}" before restarting Kubelet'
        ),
    )


def test_everything_at_once_starts_again_as_it_was() -> None:
    hardware = machine(even(2, 2, 8, 2), 8 * GI, devices={"x/d": "a@0 b@1"})
    config = {**STATIC, **static_memory(GI, GI), "systemReserved": {"cpu": "500m", "memory": str(2 * GI)}}
    node = kubelet(hardware, **config, topologyManagerPolicy="restricted")
    for i in range(3):
        node.admit(pod(f"p{i}", f"c cpu=3 memory=1Gi{' x/d=1' if i else ''}"))
    again = kubelet(hardware, node.files.texts, **config, topologyManagerPolicy="restricted")
    assert again.state.cpu == node.state.cpu
    assert again.state.memory == node.state.memory
    assert {
        uid: {c: {r: g.per_numa for r, g in rs.items()} for c, rs in cs.items()}
        for uid, cs in again.state.devices.grants.items()
    } == {
        uid: {c: {r: g.per_numa for r, g in rs.items()} for c, rs in cs.items()}
        for uid, cs in node.state.devices.grants.items()
    }
    assert again.files.texts == node.files.texts
