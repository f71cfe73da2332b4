"""The three state files: what is written, what is read in which release, and the kubelet's words for the rest."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from numawise.codec.checkpoint import (
    decode_cpu,
    decode_devices,
    decode_memory,
    encode_cpu,
    encode_devices,
    encode_memory,
)
from numawise.codec.checkpoint.device import simulated_response
from numawise.codec.checkpoint.reading import fnv1a
from numawise.engine.state import (
    Block,
    CpuState,
    DeviceFile,
    DeviceGrant,
    MemoryState,
    MemoryTable,
    NumaMemory,
)
from numawise.rules.behaviour import Behaviour
from numawise.rules.check import Refusal
from numawise.rules.model import Rules
from numawise.sets import parse_ids
from tests.recorded.compare import format_of

STATIC = Rules(cpu_static=True, memory_static=True)
NONE = Rules()


OLDER = Behaviour(cpu_file_tries_oldest_first=True, memory_file_may_lack_checksum=False)  # up to 1.35


def under(rules: Rules, behaviour: Behaviour = Rules().behaviour, *, managed: bool = False) -> Rules:  # noqa: B008
    return replace(rules, behaviour=behaviour, pod_level_managers=managed)


# --- the hash ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "value"), [("", 2166136261), ("a", 3826002220), ("foobar", 3214735720)])
def test_fnv1a(text: str, value: int) -> None:
    assert fnv1a(text) == value


def cpu_print(policy: str, shared: str, entries: str, *, pods: str = "") -> str:
    kind = (
        "map[string]string"
        if ":map[" not in entries and entries.startswith("map[cid")
        else "map[string]map[string]string"
    )
    return (
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){policy} DefaultCPUSet:(string){shared} "
        f"Entries:({kind}){entries}{pods} Checksum:(checksum.Checksum)0}}"
    )


@pytest.mark.parametrize(("text", "length", "checksum"), [
    (cpu_print("none", "", "map[]"),                                                                     151, 1353318690),
    (cpu_print("static", "0-27", "map[]"),                                                               157, 273146150),
    (cpu_print("static", "0,4-27", "map[39b37746-7f5e-4064-b8e1-eebd2bfaa003:map[app:1-3]]"),            208, 3300516549),
    (cpu_print("static", "0,13", "map[55784671-0e4e-49e2-b4d6-c0377ca14c81:map[app:1-12] "
                                 "6c5f3038-adfc-485d-9943-3fd5e825300d:map[app:14-27]]"),                259, 3558029577),
    (cpu_print("static", "0,20-27", "map[9388acc6-a396-4f03-a353-ce153da46aaf:map[app:1-13,17-19] "
                                    "f21fe02b-e6e2-4d04-9a4a-9e57367fa324:map[app:14-16]]"),             268, 4055801500),
    (cpu_print("static", "0,4-27", "map[cid1:1-3]"),                                                     None, 2403862819),
    (cpu_print("static", "0,4-27", "map[39b37746-7f5e-4064-b8e1-eebd2bfaa003:map[app:1-3]]",
               pods=" PodEntries:(state.PodCPUAssignments)map[]"),                                       None, 1641017815),
    (cpu_print("static", "0,5-9", "map[p1:map[app:1-3 log:4]]",
               pods=" PodEntries:(state.PodCPUAssignments)map[p1:{CPUSet:(cpuset.CPUSet){elems:(map[int]struct {})"
                    "map[1:{} 2:{} 3:{} 4:{}]}}]"),                                                      None, 1478881041),
])  # fmt: skip
def test_hashed_texts(text: str, length: int | None, checksum: int) -> None:
    assert length in (None, len(text))
    assert fnv1a(text) == checksum


# --- cpu_manager_state ---------------------------------------------------------------------------


def cpus(
    shared: str, entries: dict[str, dict[str, str]] | None = None, pods: dict[str, str] | None = None
) -> CpuState:
    return CpuState(
        parse_ids(shared),
        {
            uid: {name: parse_ids(text) for name, text in held.items()}
            for uid, held in (entries or {}).items()
        },
        {uid: parse_ids(text) for uid, text in (pods or {}).items()},
    )


POD = "39b37746-7f5e-4064-b8e1-eebd2bfaa003"


@pytest.mark.parametrize(("policy", "state", "pods", "text"), [
    ("none",   cpus(""),     False, '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'),
    ("static", cpus(""),     False, '{"policyName":"static","defaultCpuSet":"","checksum":3083571066}'),
    ("static", cpus("0-27"), False, '{"policyName":"static","defaultCpuSet":"0-27","checksum":273146150}'),
    ("none",   cpus("1-3"),  False, '{"policyName":"none","defaultCpuSet":"1-3","checksum":1850858057}'),
    ("static", cpus("0,4-27", {POD: {"app": "1-3"}}), False,
        ('{"policyName":"static","defaultCpuSet":"0,4-27","entries":{"39b37746-7f5e-4064-b8e1-eebd2bfaa003":{"app":"1-3"}},'
        '"checksum":3300516549}')),
    ("static", cpus("0,4-27", {POD: {"app": "1-3"}}), True,
        ('{"policyName":"static","defaultCpuSet":"0,4-27","entries":{"39b37746-7f5e-4064-b8e1-eebd2bfaa003":{"app":"1-3"}},'
        '"checksum":1641017815}')),
    ("static", cpus("0,5-9", {"p1": {"log": "4", "app": "1-3"}}, {"p1": "1-4"}), True,
        ('{"policyName":"static","defaultCpuSet":"0,5-9","entries":{"p1":{"app":"1-3","log":"4"}},'
        '"podEntries":{"p1":{"cpuSet":"1-4"}},"checksum":1478881041}')),
])  # fmt: skip
def test_cpu_file(*, policy: str, state: CpuState, pods: bool, text: str) -> None:
    assert encode_cpu(policy, state, pods=pods) == text
    rules = replace(under(NONE, managed=pods), cpu_static=policy == "static")
    assert decode_cpu(text, rules) == state


def test_members_are_sorted_by_bytes() -> None:
    text = encode_cpu("static", cpus("0", {"b": {"z": "1", "Z": "2"}, "a": {"é": "3", "f": "4"}}))
    assert list(json.loads(text)["entries"]) == ["a", "b"]
    assert list(json.loads(text)["entries"]["b"]) == ["Z", "z"]
    assert list(json.loads(text)["entries"]["a"]) == ["f", "é"]
    assert format_of("cpu_manager_state", text) == "containers"


def cpu_text(
    checksum: object, *, shared: str = "0,4-27", entries: Any = None, policy: str = "static", **more: Any
) -> str:
    content = {
        "policyName": policy,
        "defaultCpuSet": shared,
        "entries": entries,
        "checksum": checksum,
        **more,
    }
    return json.dumps({key: value for key, value in content.items() if value is not None})


V2 = {POD: {"app": "1-3"}}
V1 = {"cid1": "1-3"}
BAD = "checkpoint is corrupted"
AS_V1 = "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string"
MIGRATED = (
    "failed to migrate checkpoint from v1 to v2: containerID 'cid1' not found in initial containers list"
)
AS_V2_HASH = fnv1a(
    cpu_print("static", "0,4-27", f"map[{POD}:map[app:1-3]]").replace("Checkpoint)", "CheckpointV2)")
)


@pytest.mark.parametrize(("text", "older", "plain", "managed"), [
    pytest.param(cpu_text(3300516549, entries=V2),     "",        "",      "",      id="v2"),
    pytest.param(cpu_text(0, entries=V2),              "",        "",      "",      id="v2, checksum 0"),
    pytest.param(cpu_text(None, entries=V2),           "",        "",      "",      id="v2, no checksum"),
    pytest.param(cpu_text(1, entries=V2),              BAD,       AS_V1,   AS_V1,   id="v2, wrong: 1.36 tells of the wrong attempt"),
    pytest.param(cpu_text(AS_V2_HASH, entries=V2),     BAD,       "",      AS_V1,   id="v2 under the newer name"),
    pytest.param(cpu_text(1641017815, entries=V2),     BAD,       AS_V1,   "",      id="v3 without pods"),
    pytest.param(cpu_text(273146150, shared="0-27"),   "",        "",      "",      id="no entries"),
    pytest.param(cpu_text(1, shared="0-27"),           BAD,       BAD,     BAD,     id="no entries, wrong"),
    pytest.param("{",                                  "unexpected end of JSON input", "unexpected end of JSON input",
                                                       "unexpected end of JSON input", id="truncated"),
    pytest.param("",                                   "unexpected end of JSON input", "unexpected end of JSON input",
                                                       "unexpected end of JSON input", id="empty"),
])  # fmt: skip
def test_cpu_files_by_release(text: str, older: str, plain: str, managed: str) -> None:
    for rules, wanted in (
        (under(STATIC, OLDER), older),
        (under(STATIC), plain),
        (under(STATIC, managed=True), managed),
    ):
        found = decode_cpu(text, rules)
        if not wanted:
            assert isinstance(found, CpuState)
            continue
        assert found == Refusal(
            "cpu-manager-start",
            f"start cpu manager error: could not restore state from checkpoint: {wanted}, please drain this node and delete "
            'the CPU manager checkpoint file "/var/lib/kubelet/cpu_manager_state" before restarting Kubelet',
        )


@pytest.mark.parametrize("managed", [False, True])
def test_a_v1_file_names_containers_that_nobody_knows(*, managed: bool) -> None:
    assert complaint(decode_cpu(cpu_text(2403862819, entries=V1), under(STATIC, managed=managed))) == MIGRATED


def complaint(found: object) -> str:
    """The kubelet's inner complaint."""
    assert isinstance(found, Refusal), found
    return found.message.partition("from checkpoint: ")[2].rpartition(", please drain")[0]


@pytest.mark.parametrize(("text", "error"), [
    (cpu_text(0, policy="none"),            'configured policy "static" differs from state checkpoint policy "none"'),
    (cpu_text(0, shared="0,x-27"),          'could not parse default cpu set "0,x-27": strconv.Atoi: parsing "x": invalid syntax'),
    (cpu_text(0, shared="0,7-3"),           'could not parse default cpu set "0,7-3": invalid range "7-3" (7 > 3)'),
    (cpu_text(0, entries={"p": {"c": "1.2"}}),
        'could not parse cpuset "1.2" for container "c" in pod "p": strconv.Atoi: parsing "1.2": invalid syntax'),
    (cpu_text(0, policy="none", shared="x"), 'configured policy "static" differs from state checkpoint policy "none"'),  # in this order
    ("[]",                                  "json: cannot unmarshal array into Go value of type state.CPUManagerCheckpointV1"),
    (cpu_text(0, entries=[]),               "json: cannot unmarshal array into Go struct field CPUManagerCheckpointV1.entries of type map[string]string"),
    (cpu_text(0, shared=5),                 "json: cannot unmarshal number into Go struct field CPUManagerCheckpointV1.defaultCpuSet of type string"),
])  # fmt: skip
def test_cpu_files_that_cannot_be_read(text: str, error: str) -> None:
    assert complaint(decode_cpu(text, STATIC)) == error


def test_reading_is_as_lenient_as_go() -> None:
    text = '{ "POLICYNAME": "static", "defaultCPUSet": "0-3", "Entries": null, "more": [1], "checksum": 0 }'
    assert decode_cpu(text, STATIC) == cpus("0-3")
    assert decode_cpu('{"policyName":"none"}', NONE) == CpuState()


def test_white_space_does_not_count_for_the_checksum() -> None:
    text = encode_cpu("static", cpus("0,4-27", V2))
    assert decode_cpu(json.dumps(json.loads(text), indent=3), STATIC) == cpus("0,4-27", V2)


# --- memory_manager_state ------------------------------------------------------------------------

TABLE = MemoryTable(2048, 512, 1536, 0, 1536)
EXAMPLE = MemoryState(
    {
        0: NumaMemory(
            2,
            {
                "hugepages-1Gi": MemoryTable(4096, 0, 4096, 0, 4096),
                "memory": MemoryTable(2048, 512, 1536, 1024, 512),
            },
            0b01,
        ),
        1: NumaMemory(0, {"memory": TABLE}, 0b10),
    },
    {"pod": {"c1": (Block(1, "memory", 1024), Block(1, "hugepages-1Gi", 0))}},
)
EXAMPLE_TEXT = (
    '{"policyName":"Static","machineState":{"0":{"numberOfAssignments":2,"memoryMap":{"hugepages-1Gi":{"total":4096,'
    '"systemReserved":0,"allocatable":4096,"reserved":0,"free":4096},"memory":{"total":2048,"systemReserved":512,'
    '"allocatable":1536,"reserved":1024,"free":512}},"cells":[0]},"1":{"numberOfAssignments":0,"memoryMap":{"memory":'
    '{"total":2048,"systemReserved":512,"allocatable":1536,"reserved":0,"free":1536}},"cells":[1]}},"entries":{"pod":{"c1":'
    '[{"numaAffinity":[0],"type":"memory","size":1024},{"numaAffinity":[0],"type":"hugepages-1Gi","size":0}]}},'
    '"checksum":4082369211}'
)


def test_memory_file() -> None:
    assert encode_memory("Static", EXAMPLE) == EXAMPLE_TEXT
    assert decode_memory(EXAMPLE_TEXT, STATIC) == EXAMPLE


@pytest.mark.parametrize(("pods", "checksum"), [(False, 4236770233), (True, 512582496)])
def test_empty_memory_file(*, pods: bool, checksum: int) -> None:
    text = f'{{"policyName":"None","machineState":{{}},"checksum":{checksum}}}'
    assert encode_memory("None", MemoryState(), pods=pods) == text
    assert decode_memory(text, under(NONE, managed=pods)) == MemoryState()


def test_numa_keys_are_sorted_as_text_and_hashed_as_numbers() -> None:
    state = MemoryState({numa: NumaMemory(0, {"memory": TABLE}, 1 << numa) for numa in (10, 2, 1)})
    text = encode_memory("Static", state)
    assert list(json.loads(text)["machineState"]) == ["1", "10", "2"]
    assert format_of("memory_manager_state", text) == "containers"
    assert decode_memory(text, STATIC) == state


PODS = replace(EXAMPLE, pods={"pod": (Block(1, "memory", 1024),), "none": ()})


def test_a_file_with_pods() -> None:
    text = encode_memory("Static", PODS, pods=True)
    assert '"podEntries":{"none":{},"pod":{"memoryBlocks":[' in text
    assert format_of("memory_manager_state", text) == "containers and pods"
    assert decode_memory(text, under(STATIC, managed=True)) == PODS
    assert complaint(decode_memory(text, STATIC)) == BAD  # a newer file than it can read


def memory_hash(name: str) -> int:
    text = (
        f"(*state.{name}){{PolicyName:(string)Static MachineState:(state.NUMANodeMap)map[] "
        "Entries:(state.ContainerMemoryAssignments)map[] Checksum:(checksum.Checksum)0}"
    )
    return fnv1a(text)


@pytest.mark.parametrize(("checksum", "older", "plain", "managed"), [
    (memory_hash("MemoryManagerCheckpoint"),   "",  "",  ""),
    (memory_hash("MemoryManagerCheckpointV1"), BAD, "",  BAD),
    (0,                                        BAD, "",  ""),
    (None,                                     BAD, "",  ""),
    (1,                                        BAD, BAD, BAD),
])  # fmt: skip
def test_memory_files_by_release(checksum: int | None, older: str, plain: str, managed: str) -> None:
    content: dict[str, Any] = {"policyName": "Static", "machineState": {}}
    if checksum is not None:
        content["checksum"] = checksum
    for rules, wanted in (
        (under(STATIC, OLDER), older),
        (under(STATIC), plain),
        (under(STATIC, managed=True), managed),
    ):
        found = decode_memory(json.dumps(content), rules)
        assert (complaint(found) if wanted else "") == wanted
        assert isinstance(found, MemoryState) is not bool(wanted)


@pytest.mark.parametrize(("text", "error"), [
    ("{",     "unexpected end of JSON input"),
    (EXAMPLE_TEXT.replace('"size":1024', '"size":1025'), BAD),
    ('{"policyName":"None"}', '[memorymanager] configured policy "Static" differs from state checkpoint policy "None"'),
    ('{"policyName":"Static","machineState":{"0":{"memoryMap":{"memory":{"total":-1}}}}}',
        "json: cannot unmarshal number -1 into Go struct field MemoryTable.total of type uint64"),
    ('{"policyName":"Static","machineState":{"a":{}}}',
        "json: cannot unmarshal number a into Go struct field MemoryManagerCheckpointV1.machineState of type int"),
    ('{"policyName":"Static","machineState":{"99999999999999999999":{}}}',
        "json: cannot unmarshal number 99999999999999999999 into Go struct field MemoryManagerCheckpointV1.machineState of type int"),
    ('{"policyName":"Static","machineState":{"99999999999":{}}}',
        "there cannot be a NUMA node 99999999999: a kubelet knows 0 to 63"),
    ('{"policyName":"Static","machineState":{"0":{"cells":[0,64]}}}',
        "there cannot be a NUMA node 64: a kubelet knows 0 to 63"),
    ('{"policyName":"Static","machineState":{"0":{"cells":["0"]}}}',
        "json: cannot unmarshal string into Go struct field NUMANodeState.cells of type int"),
])  # fmt: skip
def test_memory_files_that_cannot_be_read(text: str, error: str) -> None:
    found = decode_memory(text, STATIC)
    assert complaint(found) == error
    assert isinstance(found, Refusal)
    assert found.message == (
        f"start memory manager error: could not restore state from checkpoint: {error}, please drain this node and delete "
        'the memory manager checkpoint file "/var/lib/kubelet/memory_manager_state" before restarting Kubelet'
    )


# --- kubelet_internal_checkpoint -----------------------------------------------------------------


def device_text(entries: Any, registered: Any, checksum: int) -> str:
    return json.dumps(
        {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": registered}, "Checksum": checksum}
    )


ENTRY = {
    "PodUID": "p",
    "ContainerName": "c",
    "ResourceName": "r/x",
    "DeviceIDs": {"-1": ["d9"], "10": ["d3"], "2": ["d2", "d1"]},
    "AllocResp": "Csg=",
}
GRANT = DeviceGrant(((-1, ("d9",)), (2, ("d2", "d1")), (10, ("d3",))), b"\n\xc8")
REGISTERED = {"r/a": [], "r/x": ["d1", "d2"]}


@pytest.mark.parametrize(("entries", "registered", "checksum", "grants"), [
    (None,    {},         3467439661, {}),
    ([],      {},         2932075448, {}),
    ([ENTRY], REGISTERED, 4132576347, {"p": {"c": {"r/x": GRANT}}}),
])  # fmt: skip
def test_device_files(entries: Any, registered: Any, checksum: int, grants: Any) -> None:
    found = decode_devices(device_text(entries, registered, checksum), NONE)
    assert found == DeviceFile(grants, {name: frozenset(ids) for name, ids in registered.items()})
    assert decode_devices(device_text(entries, registered, checksum + 1), NONE) == BAD


def test_numa_keys_of_devices_are_sorted_as_text_and_hashed_as_numbers() -> None:
    file = DeviceFile({"p": {"c": {"r/x": GRANT}}}, {"r/x": frozenset({"d2", "d1"}), "r/a": frozenset()})
    text = encode_devices(file)
    assert text == (
        '{"Data":{"PodDeviceEntries":[{"PodUID":"p","ContainerName":"c","ResourceName":"r/x","DeviceIDs":{"-1":["d9"],'
        '"10":["d3"],"2":["d2","d1"]},"AllocResp":"Csg="}],"RegisteredDevices":{"r/a":[],"r/x":["d1","d2"]}},'
        '"Checksum":4132576347}'
    )


def field(number: int, *parts: bytes) -> bytes:
    """A length-delimited protobuf field of less than 128 bytes."""
    content = b"".join(parts)
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def test_a_recorded_response_is_kept() -> None:
    """One GPU on a 1.20 node: one environment variable and five device nodes."""
    gpus = [f"GPU-{rest}" for rest in ("77a702db-e37f-3a74-d46d-c5713f66058c", "9b341c59-f96b-ba85-c137-78c3652fea65",
                                       "c1e9f249-b37b-81c2-a8d9-ba5ca0294841")]  # fmt: skip
    response = field(1, field(1, b"NVIDIA_VISIBLE_DEVICES"), field(2, gpus[0].encode()))
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia0"):
        path = f"/dev/{name}".encode()
        response += field(3, field(1, path), field(2, path), field(3, b"rw"))
    assert len(response) == 280
    grant = DeviceGrant(((0, (gpus[0],)),), response)
    file = DeviceFile(
        {"513cb897-0262-4868-826f-aa943ee45a38": {"app": {"nvidia.com/gpu": grant}}},
        {"nvidia.com/gpu": frozenset(gpus)},
    )
    text = encode_devices(file)
    assert json.loads(text)["Checksum"] == 133412836
    assert decode_devices(text, NONE) == file


def test_the_response_of_a_simulated_plugin() -> None:
    assert simulated_response("example.com/my-nic", ["b", "a"]) == field(
        1, field(1, b"DEVICES_EXAMPLE_COM_MY_NIC"), field(2, b"a,b")
    )
    many = [f"device-{i:04}" for i in range(40)]  # longer than 127 bytes: two bytes of length
    found = simulated_response("x/d", many)
    assert found.endswith(",".join(many).encode())
    assert found[:3] == b"\n" + bytes([(len(found) - 3) & 0x7F | 0x80, (len(found) - 3) >> 7])


FLAT = {**ENTRY, "DeviceIDs": ["d2", "d1"]}


def flat_text() -> str:
    response = " ".join(map(str, base64.b64decode(FLAT["AllocResp"])))
    printed = (
        "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:(string)p "
        f"ContainerName:(string)c ResourceName:(string)r/x DeviceIDs:([]string)[d2 d1] AllocResp:([]uint8)[{response}]}}] "
        "RegisteredDevices:(map[string][]string)map[]}"
    )
    return device_text([FLAT], {}, fnv1a(printed))


def test_flat_lists_are_read_up_to_1_30() -> None:
    grants = {"p": {"c": {"r/x": DeviceGrant(((0, ("d2", "d1")),), b"\n\xc8")}}}
    assert decode_devices(flat_text(), under(NONE, Behaviour(reads_flat_device_lists=True))) == DeviceFile(
        grants, {}
    )
    assert decode_devices(flat_text(), NONE) == BAD


@pytest.mark.parametrize("text", [
    "", "{", "[]", '"x"', "null", '{"Data":5}', '{"Data":{"PodDeviceEntries":5}}', '{"Data":{"PodDeviceEntries":[5]}}',
    '{"Data":{"PodDeviceEntries":[{"AllocResp":"!"}]}}', '{"Data":{"PodDeviceEntries":[{"DeviceIDs":{"x":[]}}]}}',
    '{"Data":{"RegisteredDevices":[]}}', '{"Data":{"RegisteredDevices":{"a":5}}}',
])  # fmt: skip
def test_a_damaged_device_file_gives_a_reason_and_no_exception(text: str) -> None:
    found = decode_devices(text, NONE)
    assert isinstance(found, str)
    assert found


# --- checksums of others' test data --------------------------------------------------------------


@pytest.mark.parametrize(("policy", "shared", "entries", "checksum"), [
    ("none",  "4-6", {},                                                 354655845),
    ("none",  "1-3", {"pod": {"container1": "4-6", "container2": "1-3"}}, 3610638499),
    ("other", "1-3", {},                                                 1394507217),
])  # fmt: skip
def test_checksums_that_upstream_tests_know(
    policy: str, shared: str, entries: dict[str, dict[str, str]], checksum: int
) -> None:
    assert json.loads(encode_cpu(policy, cpus(shared, entries)))["checksum"] == checksum


@pytest.mark.parametrize(
    ("entries", "checksum"), [("map[]", 1694838852), ("map[containerID1:4-6 containerID2:1-3]", 3680390589)]
)
def test_old_checksums_that_upstream_tests_know(entries: str, checksum: int) -> None:
    printed = cpu_print("none", "1-3", entries).replace("map[string]map[string]string", "map[string]string")
    assert fnv1a(printed) == checksum


@pytest.mark.parametrize(("pods", "checksum"), [("", 4215593881), ("pod", 1278640530)])
def test_memory_checksums_that_upstream_tests_know(pods: str, checksum: int) -> None:
    """The policy is called ``static`` there, which no kubelet accepts; the hash does not mind."""
    block = Block(1, "memory", 512)
    state = MemoryState(
        {0: NumaMemory(0, {"memory": MemoryTable(2048, 512, 1536, 512, 1024)}, 0)},
        {"pod": {"container1": (block,)}},
        {"pod": (block,)} if pods else {},
    )
    assert json.loads(encode_memory("static", state, pods=bool(pods)))["checksum"] == checksum
