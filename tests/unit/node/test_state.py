"""State files looked at, repaired and converted: judged by the simulated kubelet that must start on them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.state.change import carry_out
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE, encode_cpu, encode_memory
from numawise.codec.checkpoint.look import FLAT, V1, V2, V3, V4, look
from numawise.engine.state import CpuState, MemoryState
from numawise.errors import HostError, InputError
from numawise.inputs.pods import read_live
from numawise.inputs.state import read_state
from numawise.node.node import Files, SimulatedNode, boot
from numawise.node.state.change import Change, folder_after
from numawise.node.state.convert import convert, target_format
from numawise.node.state.folder import Against, StateFolder
from numawise.node.state.lint import verify
from numawise.node.state.memory_tables import drift
from numawise.node.state.readers import accepted_text, readings
from numawise.node.state.repair import repair, reset_names
from numawise.node.state.repair_request import RepairRequest
from numawise.quantity import Quantity
from numawise.render.state import map_holds
from numawise.request.defaults import RawContainer
from numawise.request.model import Role
from numawise.results.finding import Severity
from numawise.rules.versions import NEWEST, Version
from numawise.sets import parse_ids
from tests.unit.nodes import (
    CONFIG,
    MIB,
    at_work,
    config,
    machine,
    memory_changed,
    pod,
    without_cpus,
    written,
)

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
SHARED = Path(__file__).parents[4] / "shared" / "data"
RECORDED = Path(__file__).parents[2] / "recorded" / "state-files"
GATED = {**CONFIG, "featureGates": {"PodLevelResourceManagers": True}, "topologyManagerScope": "pod"}
VERSIONS: list[Version] = [(1, 20), (1, 21), (1, 24), (1, 31), (1, 35), (1, 36), NEWEST]
TRAIN, SERVE = pod("train", 4, "6Gi", 1), pod("serve", 2, "2Gi", 1)


def folder_of(tmp_path: Path, node: SimulatedNode | None = None, **changed: str) -> StateFolder:
    texts = dict((node or at_work(TRAIN, SERVE)).files.texts)
    return read_state(str(written(tmp_path, {**texts, **changed})))


def against(**more: Any) -> Against:
    return Against(**{"machine": machine(), "config": config(), **more})


def kinds(folder: StateFolder, compared: Against) -> set[tuple[str, str]]:
    return {(one.severity, one.code) for one in verify(folder, compared)}


def live_file(path: Path, *uids: str, **more: Any) -> Path:
    items = []
    for uid in uids:
        limits = {"cpu": "2", "memory": "2Gi"}
        container = {"name": "main", "image": "x", "resources": {"limits": limits}}
        items.append(
            {
                "metadata": {"name": uid.removeprefix("uid-"), "uid": uid},
                "spec": {"containers": [container]},
                "status": {"phase": "Running"},
                **more,
            }
        )
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items}))
    return path


# --- verify --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_kubelet_wrote_is_in_order(tmp_path: Path, version: Version) -> None:
    node = at_work(TRAIN, SERVE, version=version)
    folder = folder_of(tmp_path, node)
    assert all(file.look.fits for file in folder.files)
    assert kinds(folder, Against(node.machine, node.config, version=version)) == set()
    assert kinds(folder, Against(node.machine, version=version)) == set()
    assert kinds(folder, Against(version=version)) == set()


def edited(**members: object) -> Callable[[str], str]:
    """A file with other members, its checksum left as it is."""
    return lambda text: json.dumps({**json.loads(text), **members})


def recomputed(name: str, change: Callable[[Any], Any]) -> Callable[[str], str]:
    """A file with another content and the right checksum for it."""

    def edit(text: str) -> str:
        found = look(name, text)
        if found.cpu is not None:
            return encode_cpu(found.policy, change(found.cpu), data=True)
        assert found.memory is not None
        return encode_memory(found.policy, change(found.memory), data=True)

    return edit


def both_have(cpus: str) -> Callable[[CpuState], CpuState]:
    return lambda state: replace(
        state, assignments={**state.assignments, "uid-third": {"main": parse_ids(cpus)}}
    )


def one_use_more(state: MemoryState) -> MemoryState:
    return replace(state, numa={n: replace(node, users=node.users + 1) for n, node in state.numa.items()})


@pytest.mark.parametrize(("name", "damage", "code", "message"), [
    pytest.param(CPU_FILE,    lambda text: text[:40],                                "NW303", "unexpected end of JSON input", id="cut off"),
    pytest.param(MEMORY_FILE, lambda _: "",                                          "NW303", "unexpected end of JSON input", id="empty"),
    pytest.param(CPU_FILE,    lambda text: text.replace('"dataChecksum":', '"dataChecksum":1'), "NW302", "checkpoint is corrupted", id="checksum"),
    pytest.param(DEVICE_FILE, lambda text: text.replace('"Checksum":', '"Checksum":1'), "NW304", "checkpoint is corrupted",     id="device checksum"),
    pytest.param(CPU_FILE,    recomputed(CPU_FILE, lambda s: replace(s, shared=s.shared | 1 << 1)), "NW307", "overlaps with default cpuset", id="in the pool and given away"),
    pytest.param(CPU_FILE,    recomputed(CPU_FILE, both_have("1")),                  "NW308", "",                             id="two pods, one CPU: the kubelet does not notice"),
    pytest.param(CPU_FILE,    recomputed(CPU_FILE, lambda s: replace(s, shared=s.shared & ~(1 << 15))), "NW305", "doesn't match with CPUs in state", id="a CPU that nobody has"),
    pytest.param(MEMORY_FILE, recomputed(MEMORY_FILE, one_use_more),                 "NW318", "the expected machine state is different from the real one", id="tables"),
])  # fmt: skip
def test_damage_is_found(
    tmp_path: Path, name: str, damage: Callable[[str], str], code: str, message: str
) -> None:
    node = at_work(TRAIN, SERVE)
    folder = folder_of(tmp_path, node, **{name: damage(node.files.texts[name])})
    found = verify(folder, against())
    assert [(one.severity, one.code, Path(one.file).name) for one in found] == [(ERROR, code, name)]
    assert message in found[0].kubelet
    assert bool(found[0].kubelet) == bool(message)
    started = boot(machine(), config(), Files(folder.texts), version=NEWEST)
    assert isinstance(started, SimulatedNode) == (not message or name == DEVICE_FILE)


def test_a_checksum_that_the_release_does_not_need_is_good_to_know(tmp_path: Path) -> None:
    node = at_work(TRAIN, version=(1, 36))
    text = edited(checksum=0)(node.files.texts[CPU_FILE])
    folder = folder_of(tmp_path, node, **{CPU_FILE: text})
    (found,) = verify(folder, Against(version=(1, 36)))
    assert (found.severity, found.code) == (INFO, "NW314")
    assert found.message.startswith("there is no checksum, but should be ")


def test_the_two_copies_of_1_37_may_differ(tmp_path: Path) -> None:
    node = at_work(TRAIN)
    folder = folder_of(tmp_path, node, **{CPU_FILE: edited(policyName="none")(node.files.texts[CPU_FILE])})
    found = {(one.severity, one.code) for one in verify(folder, against())}
    assert (WARNING, "NW315") in found


@pytest.mark.parametrize(("more", "code", "message"), [
    pytest.param({"cpuManagerPolicy": "none"},       "NW301", 'configured policy "none" differs from state checkpoint policy "static"', id="CPU policy"),
    pytest.param({"memoryManagerPolicy": "None"},    "NW301", 'configured policy "None" differs from state checkpoint policy "Static"', id="memory policy"),
    pytest.param({"reservedSystemCPUs": "0-1,8"},    "NW306",  'not all reserved cpus: "0-1,8" are present in defaultCpuSet',            id="a reserved CPU is given away"),
    pytest.param({"cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}}, "NW306", 'some of strictly reserved cpus: "0,8"',      id="strict"),
    pytest.param({"topologyManagerPolicy": "nice"},  "NW121", "topologyManagerPolicy",                                            id="no configuration"),
    pytest.param({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1124Mi"}}]}, "NW310", "the expected machine state is different", id="another reservation"),
])  # fmt: skip
def test_another_configuration(tmp_path: Path, more: dict[str, object], code: str, message: str) -> None:
    found = verify(folder_of(tmp_path), against(config=config(**more)))
    assert any(one.code == code and one.severity is ERROR and message in one.kubelet for one in found)


@pytest.mark.parametrize(("pods", "expected"), [
    pytest.param(["uid-train", "uid-serve"],              set(),                    id="all are alive"),
    pytest.param(["uid-train"],                           {(WARNING, "NW312")}, id="one is gone"),
    pytest.param(["uid-train", "uid-serve", "uid-third"], {(INFO, "NW319")},   id="one has no CPUs"),
])  # fmt: skip
def test_pods_that_are_gone_or_missing(
    tmp_path: Path, pods: list[str], expected: set[tuple[str, str]]
) -> None:
    live = read_live([str(live_file(tmp_path / "pods.json", *pods))])[0]
    assert kinds(folder_of(tmp_path), against(live=live)) == expected


def test_ended_pods_and_static_pods(tmp_path: Path) -> None:
    """An ended pod is gone; a static one is known by the hash that the kubelet uses."""
    ended = live_file(tmp_path / "a.json", "uid-train", status={"phase": "Succeeded"})
    static = live_file(
        tmp_path / "b.json",
        "mirror",
        metadata={"name": "s", "uid": "mirror", "annotations": {"kubernetes.io/config.hash": "uid-serve"}},
    )
    live = read_live([str(ended), str(static)])[0]
    found = verify(folder_of(tmp_path), against(live=live))
    assert [one.message.split()[1] for one in found if one.code == "NW312"] == ["uid-train"]


def test_pods_without_uid_cannot_be_compared(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text("kind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: i}]}\n")
    with pytest.raises(InputError, match=r"no metadata\.uid"):
        read_live([str(path)])[0]


# --- the machine has changed ---------------------------------------------------------------------


@pytest.mark.parametrize(("changes", "usual", "safe"), [
    pytest.param((0, 0),                     True,  True,  id="the same"),
    pytest.param((-4 * MIB, 8 * MIB),        True,  True,  id="a reboot"),
    pytest.param((-128 * MIB, 0),            True,  True,  id="the most that is usual"),
    pytest.param((-129 * MIB, 0),            False, True,  id="more than usual, and still room"),
    pytest.param((-25 * 1024 * MIB, 0),      False, True,  id="just room for the 6Gi"),
    pytest.param((-26 * 1024 * MIB, 0),      False, False, id="no room"),
    pytest.param((-32 * 1024 * MIB, 0),      False, False, id="less than is reserved"),
])  # fmt: skip
def test_memory_drift(tmp_path: Path, changes: tuple[int, int], usual: bool, safe: bool) -> None:  # noqa: FBT001
    folder = folder_of(tmp_path, at_work(TRAIN))
    now = memory_changed(machine(), *changes)
    found = drift(folder.memory, now)
    assert (found.there, found.usual, not found.obstacle) == (any(changes), usual, safe)
    change = repair(folder, RepairRequest(adapt_memory=True), against(machine=now))
    assert bool(change.refused) == (not safe)
    assert change.changes == (safe and any(changes))
    if safe:
        assert change.left == ()
        after = folder_after(folder, change)
        assert isinstance(boot(now, config(), Files(after.texts), version=NEWEST), SimulatedNode)
        assert after.memory.assignments == folder.memory.assignments
        assert after.cpu == folder.cpu


def test_huge_pages_that_are_gone_are_not_adapted_over_a_pod(tmp_path: Path) -> None:
    with_pages = machine("2s 2n 8c 2t 64g hugepages=1Gi:4")
    raw = pod("paged", 2, "1Gi")
    limits = {**raw.containers[0].limits, "hugepages-1Gi": Quantity.parse("3Gi")}
    raw = replace(raw, containers=(RawContainer("main", Role.APP, limits, limits),))
    folder = folder_of(tmp_path, at_work(raw, on=with_pages))
    fewer = replace(
        with_pages, numa=tuple(replace(numa, hugepages=(("1Gi", 2),)) for numa in with_pages.numa)
    )
    assert "hugepages-1Gi" in drift(folder.memory, fewer).obstacle
    assert repair(folder, RepairRequest(adapt_memory=True), against(machine=fewer)).refused


@pytest.mark.parametrize(("off", "drop", "refused", "left"), [
    pytest.param((15,),  (),             0, "0,3-8,11-14",     id="a free one"),
    pytest.param((1,),   (),             1, None,              id="somebody's"),
    pytest.param((1, 9), ("uid-train",), 0, "0,2-8,10-15",     id="somebody's who is dropped"),
])  # fmt: skip
def test_cpus_that_went_offline(
    tmp_path: Path, off: tuple[int, ...], drop: tuple[str, ...], refused: int, left: str | None
) -> None:
    folder = folder_of(tmp_path, at_work(TRAIN))
    assert folder.cpu.assignments == {"uid-train": {"main": parse_ids("1-2,9-10")}}
    now = without_cpus(machine(), *off)
    assert (ERROR, "NW305") in kinds(folder, against(machine=now))
    change = repair(folder, RepairRequest(adapt_cpus=True, drop=drop), against(machine=now))
    assert len(change.refused) == refused
    if left is not None:
        after = folder_after(folder, change)
        assert after.cpu.shared == parse_ids(left)
        assert isinstance(boot(now, config(), Files(after.texts), version=NEWEST), SimulatedNode)


def test_new_cpus_need_the_configuration(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, at_work(TRAIN, on=without_cpus(machine(), 7, 15)))
    unknown = repair(folder, RepairRequest(adapt_cpus=True), against(config=None))
    assert "--kubelet-config" in unknown.refused[0]
    known = repair(folder, RepairRequest(adapt_cpus=True), against())
    assert folder_after(folder, known).cpu.shared == parse_ids("0,3-8,11-15")
    assert known.left == ()


def test_strictly_reserved_cpus_stay_out_of_the_pool(tmp_path: Path) -> None:
    strict = {**CONFIG, "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}}
    node = at_work(TRAIN, kubelet=strict)
    folder = folder_of(tmp_path, node)
    assert kinds(folder, Against(node.machine, node.config)) == set()
    assert kinds(folder, Against(node.machine)) == {(INFO, "NW317")}
    assert not repair(folder, RepairRequest(adapt_cpus=True), Against(node.machine, node.config)).changes


# --- repair --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["uid-train", "uid-tr"])
def test_a_dropped_pod_leaves_no_trace(tmp_path: Path, version: Version, name: str) -> None:
    node = at_work(TRAIN, SERVE, version=version)
    folder = folder_of(tmp_path, node)
    compared = Against(node.machine, node.config, version=version)
    after = folder_after(folder, repair(folder, RepairRequest(drop=(name,)), compared))
    assert not any("uid-train" in text for text in after.texts.values())
    assert after.cpu.assignments["uid-serve"] == folder.cpu.assignments["uid-serve"]
    assert after.devices.grants["uid-serve"] == folder.devices.grants["uid-serve"]
    assert [file.look.format for file in after.files] == [file.look.format for file in folder.files]
    assert kinds(after, compared) == set()


def test_dropping_all_pods_is_an_empty_node(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    after = folder_after(folder, repair(folder, RepairRequest(drop=("uid-train", "uid-serve")), against()))
    empty = at_work()
    assert after.cpu == empty.state.cpu
    assert after.memory.numa == empty.state.memory.numa


def test_stale_pods_are_removed(tmp_path: Path) -> None:
    live = read_live([str(live_file(tmp_path / "pods.json", "uid-serve"))])[0]
    folder = folder_of(tmp_path)
    after = folder_after(folder, repair(folder, RepairRequest(remove_stale=True), against(live=live)))
    assert set(after.cpu.assignments) == set(after.memory.assignments) == {"uid-serve"}


def test_a_group_of_numa_nodes_is_counted_again(tmp_path: Path) -> None:
    """Memory over both NUMA nodes: what is left after a pod is dropped is what a kubelet expects."""
    folder = folder_of(tmp_path, at_work(pod("a", 1, "40Gi"), pod("b", 1, "10Gi")))
    assert folder.memory.numa[0].cells == 3
    after = folder_after(folder, repair(folder, RepairRequest(drop=("uid-a",)), against(version=(1, 31))))
    assert isinstance(boot(machine(), config(), Files(after.texts), version=(1, 31)), SimulatedNode)


def test_memory_tables_are_counted_again(tmp_path: Path) -> None:
    node = at_work(TRAIN)
    text = recomputed(MEMORY_FILE, one_use_more)(node.files.texts[MEMORY_FILE])
    folder = folder_of(tmp_path, node, **{MEMORY_FILE: text})
    after = folder_after(folder, repair(folder, RepairRequest(recompute_tables=True), against()))
    assert after.texts[MEMORY_FILE] == node.files.texts[MEMORY_FILE]


@pytest.mark.parametrize("name", [CPU_FILE, MEMORY_FILE, DEVICE_FILE])
def test_a_checksum_is_recomputed(tmp_path: Path, name: str) -> None:
    node = at_work(TRAIN)
    right = node.files.texts[name]
    member = "Checksum" if name == DEVICE_FILE else "dataChecksum"
    folder = folder_of(tmp_path, node, **{name: right.replace(f'"{member}":', f'"{member}":1')})
    change = repair(folder, RepairRequest(recompute_checksum=True), against())
    assert [one.file.name for one in change.files] == [name]
    assert folder_after(folder, change).texts[name] == right


@pytest.mark.parametrize(("asked", "more", "words"), [
    pytest.param(RepairRequest(),                      {},                "nothing to repair was named", id="nothing"),
    pytest.param(RepairRequest(drop=("uid-x",)),       {},                "no pod in the state files",   id="unknown pod"),
    pytest.param(RepairRequest(drop=("uid-",)),        {},                "2 pods in the state files",   id="several pods"),
    pytest.param(RepairRequest(remove_stale=True),     {},                "which pods are alive",        id="no pods given"),
    pytest.param(RepairRequest(adapt_memory=True),     {"machine": None}, "the machine is not known",    id="no machine, memory"),
    pytest.param(RepairRequest(adapt_cpus=True),       {"machine": None}, "the machine is not known",    id="no machine, CPUs"),
])  # fmt: skip
def test_what_cannot_be_asked(tmp_path: Path, asked: RepairRequest, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        repair(folder_of(tmp_path), asked, against(**more))


def test_an_unreadable_file_can_only_be_removed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, **{CPU_FILE: "{"})
    assert repair(folder, RepairRequest(recompute_checksum=True), against()).refused
    change = repair(folder, RepairRequest(reset=reset_names(("cpu",))), against())
    assert change.left == ()
    carry_out(folder, change.files)
    assert not (tmp_path / CPU_FILE).exists()


# --- convert -------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", VERSIONS)
@pytest.mark.parametrize("new", VERSIONS)
def test_converted_files_are_what_the_other_release_writes(
    tmp_path: Path, old: Version, new: Version
) -> None:
    node = at_work(TRAIN, SERVE, version=old)
    folder = folder_of(tmp_path, node)
    change = convert(folder, Against(version=new))
    texts = folder_after(folder, change).texts
    if min(old, new) > (1, 20):
        assert change.refused == ()
        assert texts == at_work(TRAIN, SERVE, version=new).files.texts
    for name, text in texts.items():
        wanted = target_format(name, new)
        assert not wanted or look(name, text).format == wanted


def whole_pod() -> SimulatedNode:
    limits = {"cpu": Quantity.of(2), "memory": Quantity.parse("1Gi")}
    raw = replace(
        pod("whole"),
        containers=(RawContainer("a", Role.APP, limits, limits), RawContainer("b", Role.APP)),
        requests={"cpu": Quantity.of(4), "memory": Quantity.parse("4Gi")},
        limits={"cpu": Quantity.of(4), "memory": Quantity.parse("4Gi")},
    )
    return at_work(raw, kubelet=GATED, version=(1, 36))


@pytest.mark.parametrize(("version", "gate", "formats", "lost"), [
    pytest.param((1, 31), False, (V2, V1), 2, id="an older release"),
    pytest.param((1, 36), False, (V2, V1), 2, id="the gate off"),
    pytest.param((1, 36), True,  (V3, V2), 0, id="the gate on"),
    pytest.param((1, 37), False, (V4, V3), 0, id="1.37"),
])  # fmt: skip
def test_what_pods_have_as_a_whole(
    tmp_path: Path,
    version: Version,
    gate: bool,  # noqa: FBT001 - a column
    formats: tuple[str, str],
    lost: int,
) -> None:
    node = whole_pod()
    assert [node.files.texts[name].count("podEntries") for name in (CPU_FILE, MEMORY_FILE)] == [1, 1]
    folder = folder_of(tmp_path, node)
    change = convert(folder, Against(version=version), gate=gate)
    after = folder_after(folder, change)
    found = tuple(look(name, after.texts[name]).format for name in (CPU_FILE, MEMORY_FILE))
    assert found == formats
    assert sum(text.startswith("lost: ") for one in change.files for text in one.said) == lost
    assert all(file.look.fits for file in after.files)
    if lost:
        assert not after.cpu.pods
        assert isinstance(boot(machine(), CONFIG, Files(after.texts), version=version), SimulatedNode)
    else:
        assert after.cpu == folder.cpu


def test_the_gate_is_seen_in_the_files(tmp_path: Path) -> None:
    node = whole_pod()
    folder = folder_of(tmp_path, node)
    for compared in (
        Against(version=(1, 36)),
        Against(node.machine, version=(1, 36)),
        Against(node.machine, node.config, version=(1, 36)),
    ):
        assert kinds(folder, compared) == set()
    assert kinds(folder, Against(version=(1, 35))) == {(ERROR, "NW303")}
    change = repair(folder, RepairRequest(drop=("uid-whole",)), Against(version=(1, 36)))
    assert [file.look.format for file in folder_after(folder, change).files][:2] == [V3, V2]


def test_containers_known_by_id_are_looked_up(tmp_path: Path) -> None:
    text = '{"policyName":"static","defaultCpuSet":"0,4-27","entries":{"cid1":"1-3"},"checksum":2403862819}'
    folder = read_state(str(written(tmp_path, {CPU_FILE: text})))
    assert folder.files[0].look.format == V1
    assert "cid1" in convert(folder, Against(version=(1, 31))).refused[0]
    status = {"phase": "Running", "containerStatuses": [{"name": "app", "containerID": "containerd://cid1"}]}
    live = read_live([str(live_file(tmp_path / "pods.json", "uid-p", status=status))])[0]
    change = convert(folder, Against(live=live, version=(1, 31)))
    assert folder_after(folder, change).cpu.assignments == {"uid-p": {"app": parse_ids("1-3")}}


def test_devices_without_numa_nodes_get_those_of_the_machine(tmp_path: Path) -> None:
    text = (
        '{"Data":{"PodDeviceEntries":[{"PodUID":"p","ContainerName":"c","ResourceName":"nvidia.com/gpu",'
        '"DeviceIDs":["GPU3"],"AllocResp":""}],"RegisteredDevices":{}},"Checksum":%d}'
    )
    right = look(DEVICE_FILE, text % 1).sums[0].right
    folder = read_state(str(written(tmp_path, {DEVICE_FILE: text % right})))
    assert folder.files[0].look.format == FLAT
    gpu3 = machine().plugins[0].devices[3]
    assert gpu3.numa == (1,)
    renamed = replace(
        machine(), plugins=(replace(machine().plugins[0], devices=(replace(gpu3, id="GPU3"),)),)
    )
    for hardware, numa in ((None, 0), (renamed, 1)):
        change = convert(folder, Against(machine=hardware, version=(1, 31)))
        grant = folder_after(folder, change).devices.grants["p"]["c"]["nvidia.com/gpu"]
        assert grant.per_numa == ((numa, ("GPU3",)),)
        assert any(said.startswith("assumed") for said in change.files[0].said) == (hardware is None)


def test_a_wrong_checksum_is_not_converted(tmp_path: Path) -> None:
    node = at_work(TRAIN, version=(1, 31))
    folder = folder_of(tmp_path, node, **{CPU_FILE: edited(checksum=1)(node.files.texts[CPU_FILE])})
    change = convert(folder, Against(version=NEWEST))
    assert [text.split()[0] for text in change.refused] == [CPU_FILE]
    assert [one.file.name for one in change.files] == [MEMORY_FILE]


# --- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}',                                     "1.20 to 1.37",            id="v2"),
    pytest.param('{"policyName":"none","defaultCpuSet":"","checksum":1}',                                              "none",                    id="wrong"),
    pytest.param('{"policyName":"static","defaultCpuSet":"0,5-9","entries":{"p1":{"app":"1-3","log":"4"}},"podEntries":{"p1":{"cpuSet":"1-4"}},"checksum":1478881041}',
                 "1.37, 1.36 with PodLevelResourceManagers",   id="v3"),
])  # fmt: skip
def test_who_reads_a_file(tmp_path: Path, text: str, expected: str) -> None:
    (file,) = read_state(str(written(tmp_path, {CPU_FILE: text}))).files
    assert accepted_text(readings(file)) == expected


def test_a_single_file_is_known_by_its_content(tmp_path: Path) -> None:
    texts = at_work(TRAIN).files.texts
    for name, text in texts.items():
        path = tmp_path / "saved"
        path.write_text(text)
        assert [file.name for file in read_state(str(path)).files] == [name]
    path.write_text("{}")
    with pytest.raises(InputError, match="not a kubelet state file"):
        read_state(str(path))


def test_a_cpu_that_two_have_is_marked(tmp_path: Path) -> None:
    node = at_work(TRAIN, SERVE)
    text = recomputed(CPU_FILE, both_have("1"))(node.files.texts[CPU_FILE])
    holds = map_holds(folder_of(tmp_path, node, **{CPU_FILE: text}), None)
    assert holds[1] == "several"
    assert holds[2] == holds[9] == "uid-trai/main"
    assert 0 not in holds


# --- writing -------------------------------------------------------------------------------------


def test_nothing_is_written_over_a_file_that_changed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    change = repair(folder, RepairRequest(drop=("uid-train",)), against())
    (tmp_path / CPU_FILE).write_text("new")
    with pytest.raises(HostError, match="has changed meanwhile"):
        carry_out(folder, change.files)
    assert (tmp_path / MEMORY_FILE).read_text() == folder.texts[MEMORY_FILE]
    assert not list(tmp_path.glob("numawise-backup-*"))


def test_a_change_without_changes_writes_nothing(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    assert carry_out(folder, Change().files) is None


# --- files that real kubelets wrote --------------------------------------------------------------


def real_files() -> list[Any]:
    found = {
        path.stem: path
        for folder in (SHARED / "kubelet-state", RECORDED)
        for path in sorted(folder.glob("*.state"))
    }
    golden = {
        name: json.loads(path.with_suffix(".json").read_text())["golden"] for name, path in found.items()
    }
    return [pytest.param(path, id=name) for name, path in found.items() if golden[name].get("checksum_valid")]


@pytest.mark.parametrize("path", real_files())
def test_files_of_real_kubelets(path: Path) -> None:
    folder = read_state(str(path))
    (file,) = folder.files
    assert file.look.fits
    assert verify(folder, Against()) == ()
    for version in VERSIONS:
        change = convert(folder, Against(version=version))
        assert change.refused == ()
        assert change.left == ()


@pytest.mark.skipif(
    not (SHARED / "kubelet-run").is_dir(), reason="the recorded run is not beside the project"
)
def test_the_state_of_a_real_run(tmp_path: Path) -> None:
    """A kubelet 1.36.4 wrote these files on a machine with 2 NUMA nodes of about 1 GiB, and refused a third pod."""
    run = SHARED / "kubelet-run" / "vm-2s"
    texts = {name: (run / name).read_text() for name in (CPU_FILE, MEMORY_FILE, DEVICE_FILE)}
    folder = read_state(str(written(tmp_path, texts)))
    live = read_live([str(run / "pods.json")])[0]
    small = machine("2s 2n 4c 2t adjacent 2g")
    sizes = (1008349184, 1055584256)
    nodes = zip(small.numa, sizes, strict=True)
    pages = (("1Gi", 0), ("2Mi", 0))
    small = replace(small, numa=tuple(replace(numa, memory=size, hugepages=pages) for numa, size in nodes))
    settings = config(
        {},
        (1, 36),
        cpuManagerPolicy="static",
        memoryManagerPolicy="Static",
        reservedSystemCPUs="0,1",
        kubeReserved={"memory": "300Mi"},
        evictionHard={"memory.available": "100Mi"},
        reservedMemory=[
            {"numaNode": 0, "limits": {"memory": "300Mi"}},
            {"numaNode": 1, "limits": {"memory": "100Mi"}},
        ],
    )
    (only,) = verify(folder, Against(small, settings, live, (1, 36)))
    assert (only.code, only.severity) == ("NW320", INFO)
    assert only.message.startswith("2 example.com/gpu devices of the checkpoint are not on this machine")
    assert set(folder.cpu.assignments) <= set(live)
