"""State files that real kubelets wrote: they verify, decode to what is known of them, and come out the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.checkpoint import (
    CPU_FILE,
    DEVICE_FILE,
    MEMORY_FILE,
    decode_cpu,
    decode_devices,
    decode_memory,
    encode_cpu,
    encode_devices,
)
from numawise.engine.state import CpuState, DeviceFile
from numawise.rules.behaviour import behaviour_of
from numawise.rules.check import Refusal
from numawise.rules.model import Rules
from numawise.sets import format_ids
from tests.recorded.compare import format_of

HERE = Path(__file__).parent / "state-files"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "kubelet-state"
RULES = Rules(cpu_static=True, memory_static=True)


def samples(kind: str) -> list[Any]:
    """Files of one kind whose checksum is known to be right; more where the shared data lies beside us."""
    found = {path.stem: path for folder in (SHARED, HERE) for path in sorted(folder.glob(f"{kind}--*.state"))}
    known = {name: json.loads(path.with_suffix(".json").read_text()) for name, path in found.items()}
    return [
        pytest.param(found[name].read_text().rstrip("\n"), case["golden"], id=name.partition("--")[2])
        for name, case in known.items()
        if case["golden"].get("checksum_valid")
    ]


CPU = samples(CPU_FILE)
DEVICES = samples(DEVICE_FILE)


def policy_rules(golden: dict[str, Any], version: tuple[int, int] = (1, 36)) -> Rules:
    return Rules(cpu_static=golden["policy"] == "static", behaviour=behaviour_of(version))


def test_the_samples_are_there() -> None:
    here = [path.name for path in HERE.glob("*.state")]
    assert len(here) == 21
    assert all((HERE / name).with_suffix(".json").exists() for name in here)
    sources = [json.loads(path.read_text())["source"] for path in HERE.glob("*.json")]
    assert {source.get("repo", source["kind"]) for source in sources} == {
        "seed document",
        "kubernetes/enhancements",
        "kubernetes/website",
        "kubevirt/kubevirt",
    }


# --- cpu_manager_state ---------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "golden"), CPU)
@pytest.mark.parametrize("version", [(1, 20), (1, 35), (1, 36)])
def test_cpu_files_decode(text: str, golden: dict[str, Any], version: tuple[int, int]) -> None:
    found = decode_cpu(text, policy_rules(golden, version))
    assert isinstance(found, CpuState)
    assert format_ids(found.shared) == golden["default_cpus"]
    held = {uid: {c: format_ids(cpus) for c, cpus in cs.items()} for uid, cs in found.assignments.items()}
    assert held == golden["entries"]


@pytest.mark.parametrize(("text", "golden"), CPU)
def test_cpu_files_come_out_byte_for_byte(text: str, golden: dict[str, Any]) -> None:
    found = decode_cpu(text, policy_rules(golden))
    assert isinstance(found, CpuState)
    assert encode_cpu(golden["policy"], found) == text
    assert format_of(CPU_FILE, text) == "containers"


@pytest.mark.parametrize(("text", "golden"), CPU)
def test_a_cut_cpu_file_is_refused(text: str, golden: dict[str, Any]) -> None:
    for length in range(len(text)):
        found = decode_cpu(text[:length], policy_rules(golden))
        assert isinstance(found, Refusal)
        assert found.message == refused_cpu("unexpected end of JSON input")


@pytest.mark.parametrize(("text", "golden"), CPU)
def test_an_edited_cpu_file_is_refused(text: str, golden: dict[str, Any]) -> None:
    error = (
        "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string"
        if golden["entries"]
        else "checkpoint is corrupted"
    )
    edited = [
        text.replace('"defaultCpuSet":"', '"defaultCpuSet":"300,'),
        text.replace('"checksum":', '"checksum":1'),
        text.replace('"policyName":"', '"policyName":"x'),
    ]
    for one in edited:
        found = decode_cpu(one, policy_rules(golden))
        assert isinstance(found, Refusal)
        assert found.message == refused_cpu(error)


@pytest.mark.parametrize(("text", "golden"), CPU)
def test_an_edited_cpu_file_without_checksum_is_accepted(text: str, golden: dict[str, Any]) -> None:
    content = json.loads(text)
    del content["checksum"]
    content["defaultCpuSet"] = "0-3"
    found = decode_cpu(json.dumps(content), policy_rules(golden))
    assert isinstance(found, CpuState)
    assert format_ids(found.shared) == "0-3"


def refused_cpu(error: str) -> str:
    return (
        f"start cpu manager error: could not restore state from checkpoint: {error}, please drain this node and delete "
        'the CPU manager checkpoint file "/var/lib/kubelet/cpu_manager_state" before restarting Kubelet'
    )


# --- kubelet_internal_checkpoint -----------------------------------------------------------------


def entries_of(file: DeviceFile) -> list[tuple[str, str, str, dict[str, list[str]]]]:
    return sorted(
        (uid, container, resource, {str(numa): list(ids) for numa, ids in grant.per_numa})
        for uid, containers in file.grants.items()
        for container, resources in containers.items()
        for resource, grant in resources.items()
    )


@pytest.mark.parametrize(("text", "golden"), DEVICES)
@pytest.mark.parametrize("version", [(1, 20), (1, 25), (1, 36)])
def test_device_files_decode(text: str, golden: dict[str, Any], version: tuple[int, int]) -> None:
    found = decode_devices(text, Rules(behaviour=behaviour_of(version)))
    assert isinstance(found, DeviceFile)
    assert entries_of(found) == sorted(
        (one["pod"], one["container"], one["resource"], one["devices"]) for one in golden["entries"]
    )
    assert {name: sorted(ids) for name, ids in found.registered.items()} == {
        name: sorted(ids) for name, ids in golden["registered"].items()
    }


@pytest.mark.parametrize(("text", "golden"), DEVICES)
def test_device_files_come_out_the_same(text: str, golden: dict[str, Any]) -> None:
    """The kubelet writes entries in chance order, we sort them: byte for byte where it happened to agree."""
    found = decode_devices(text, RULES)
    assert isinstance(found, DeviceFile)
    ours = encode_devices(found)
    assert format_of(DEVICE_FILE, text) == format_of(DEVICE_FILE, ours) == "devices"
    data = json.loads(text)["Data"]
    written = json.loads(ours)["Data"]
    order = [one["PodUID"] for one in data["PodDeviceEntries"]]
    assert sorted(data["PodDeviceEntries"], key=lambda one: one["PodUID"]) == written["PodDeviceEntries"]
    assert {k: sorted(v) for k, v in data["RegisteredDevices"].items()} == written["RegisteredDevices"]
    listed = golden["registered"].values()
    if order == sorted(order) and all(ids == sorted(ids) for ids in listed):
        assert ours == text


@pytest.mark.parametrize(("text", "golden"), DEVICES)
def test_a_damaged_device_file_is_given_up(text: str, golden: dict[str, Any]) -> None:
    assert golden["checksum_valid"]
    assert decode_devices(text[:-1], RULES) == "unexpected end of JSON input"
    assert decode_devices(text[: len(text) // 2], RULES) == "unexpected end of JSON input"
    assert decode_devices(text.replace('"Checksum":', '"Checksum":1'), RULES) == "checkpoint is corrupted"
    assert (
        decode_devices(text.replace('"ContainerName":"', '"ContainerName":"x'), RULES)
        == "checkpoint is corrupted"
    )
    content = json.loads(text)
    for unchecked in (0, None):
        assert (
            decode_devices(json.dumps({**content, "Checksum": unchecked}), RULES) == "checkpoint is corrupted"
        )


def test_devices_of_two_numa_nodes() -> None:
    text = (HERE / f"{DEVICE_FILE}--seed002-08.state").read_text()
    found = decode_devices(text, RULES)
    assert isinstance(found, DeviceFile)
    grant = found.grants["08b4a90a-534a-4fc6-90c3-b57ee777071d"]["app"]["nvidia.com/gpu"]
    assert [(numa, len(ids)) for numa, ids in grant.per_numa] == [(0, 1), (1, 1)]
    assert grant.response is not None
    assert b"NVIDIA_VISIBLE_DEVICES" in grant.response


# --- memory_manager_state ------------------------------------------------------------------------


def test_the_memory_file_of_the_first_releases_is_refused() -> None:
    """It calls the group ``nodes``, where later ones have ``cells``: its checksum cannot be right any more."""
    text = (HERE / f"{MEMORY_FILE}--k8s-docs.state").read_text()
    found = decode_memory(text, RULES)
    assert found == Refusal(
        "memory-manager-start",
        "start memory manager error: could not restore state from checkpoint: checkpoint is corrupted, please drain this "
        'node and delete the memory manager checkpoint file "/var/lib/kubelet/memory_manager_state" before restarting Kubelet',
    )
