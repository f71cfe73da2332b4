"""Who still holds what is recorded, by each kind of evidence."""

from collections.abc import Mapping
from pathlib import Path
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
from numawise.codec.checkpoint.look import look
from numawise.codec.checkpoint.reading import AllottedPod
from numawise.codec.document import Document
from numawise.codec.podresources import PodResources, pod_resources_of
from numawise.engine.state import Block, CpuState, DeviceFile, DeviceGrant, MemoryState
from numawise.inputs.podresources import Evidence, holders_of
from numawise.node.state.folder import StateFile, StateFolder

GPU = "x/gpu"
WHOLE = {"c": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}}
SHARED: Mapping[str, Any] = {"c": {"requests": {"cpu": "500m"}}}


def folder(
    allocated: Mapping[str, Any] | None, *, cpus: Mapping[str, int], memory: str = "", gpus: str = ""
) -> StateFolder:
    """State files: CPUs by uid; uids with memory and with a GPU."""
    cpu = CpuState(0b11, {uid: {"c": own} for uid, own in cpus.items()})
    blocks = {uid: {"c": (Block(1, "memory", 1 << 30),)} for uid in memory.split()}
    grants = {uid: {"c": {GPU: DeviceGrant(((0, (f"g-{uid}",)),))}} for uid in gpus.split()}
    texts = {
        CPU_FILE: encode_cpu("static", cpu),
        MEMORY_FILE: encode_memory("Static", MemoryState({}, blocks)),
        DEVICE_FILE: encode_devices(DeviceFile(grants, {GPU: frozenset({"g-a"})})),
    }
    files = tuple(
        StateFile(name, Path(name), text.encode(), look(name, text)) for name, text in texts.items()
    )
    record = {uid: AllottedPod(own) for uid, own in allocated.items()} if allocated is not None else None
    return StateFolder(Path(), files, record)


def listed(*pods: Mapping[str, Any]) -> PodResources:
    return pod_resources_of([Document({"podResources": list(pods)})])


def pod(name: str, *, cpus: tuple[int, ...] = (), gpu: str = "") -> dict[str, Any]:
    devices = [{"resourceName": GPU, "deviceIds": [gpu]}] if gpu else []
    return {
        "name": name,
        "namespace": "ml",
        "containers": [{"name": "c", "cpuIds": list(cpus), "devices": devices}],
    }


def gone(seen: Evidence) -> str:
    return " ".join(sorted(holders_of(seen).gone))


def test_without_evidence_everybody_counts() -> None:
    state = folder(None, cpus={"a": 0b1100}, memory="a b", gpus="a c")
    assert gone(Evidence(state, static_cpus=True)) == ""


def test_a_list_of_all_pods_decides() -> None:
    state = folder({"a": WHOLE}, cpus={"a": 0b1100}, gpus="a b")
    assert gone(Evidence(state, all_pods=True)) == "a b"


def test_what_was_never_allocated_was_refused() -> None:
    state = folder({"a": WHOLE}, cpus={"a": 0b1100, "b": 0b110000}, gpus="b")
    assert gone(Evidence(state)) == "b"
    assert gone(Evidence(state, records=False)) == ""


@pytest.mark.parametrize(("allocated", "memory", "static", "expected"), [
    pytest.param({"a": WHOLE},  "a", 1, "a", id="collected by the CPU Manager"),
    pytest.param({"a": WHOLE},  "",  1, "",  id="perhaps never guaranteed"),
    pytest.param({"a": SHARED}, "a", 1, "",  id="a fraction of a CPU"),
    pytest.param({"a": WHOLE},  "a", 0, "",  id="no static policy"),
])  # fmt: skip
def test_whole_cpus_that_nobody_has(
    allocated: Mapping[str, Any], memory: str, static: int, expected: str
) -> None:
    state = folder(allocated, cpus={}, memory=memory, gpus="a")
    assert gone(Evidence(state, static_cpus=bool(static))) == expected


def test_pods_are_known_by_what_they_have() -> None:
    state = folder({"a": WHOLE, "b": WHOLE, "c": SHARED}, cpus={"a": 0b1100, "b": 0b110000}, gpus="c")
    found = holders_of(Evidence(state, answers=listed(pod("train", cpus=(4, 5)), pod("see", gpu="g-c"))))
    assert found.gone == {"a"}
    assert {one.uid: one.name for one in found.running} == {"b": "train", "c": "see"}


def test_pods_without_anything_are_known_by_their_containers() -> None:
    state = folder({"a": SHARED, "b": SHARED, "d": {"other": {}}}, cpus={})
    both = holders_of(Evidence(state, answers=listed(pod("p"), pod("q"))))
    assert (both.gone, both.remarks) == ({"d"}, ())
    one = holders_of(Evidence(state, answers=listed(pod("p"))))
    assert one.gone == {"d"}
    assert "which of them is not known" in one.remarks[0]
    assert holders_of(Evidence(state, answers=listed())).gone == {"a", "b", "d"}


def test_what_pods_request_comes_from_the_record() -> None:
    state = folder({"a": WHOLE}, cpus={"a": 0b1100})
    (found,) = holders_of(Evidence(state)).running
    assert str(found.containers[0].requests["cpu"]) == "2"
