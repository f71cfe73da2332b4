"""GPUs by NVML: a recording of a real one, and hand-made answers for what that machine does not have."""

import importlib.util
import json
from pathlib import Path
from typing import Any

from numawise.host import nvml as subject
from numawise.machine.hardware import Gpu

HERE = Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("record_nvml", HERE / "record_nvml.py")
assert SPEC
assert SPEC.loader
record_nvml = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(record_nvml)

FOUR, EIGHTEEN = 4, 18


def replayed(calls: list[tuple[Any, ...]]) -> Any:
    """A library that answers (call, arguments…, answer); what is not listed is not supported."""
    rows = [{"call": c[0], "arguments": list(c[1:-1]), "answer": c[-1]} for c in calls]
    return record_nvml.Replayed({"calls": rows})


def gpus(count: int) -> list[tuple[Any, ...]]:
    """The answers every GPU gives."""
    calls: list[tuple[Any, ...]] = [("nvmlDeviceGetCount", count)]
    for i in range(count):
        bus = {"struct": {"busId": f"00000000:{i + 16:02X}:00.0"}}
        calls += [
            ("nvmlDeviceGetHandleByIndex", i, {"handle": f"g{i}"}),
            ("nvmlDeviceGetUUID", f"g{i}", f"GPU-{i}"),
            ("nvmlDeviceGetPciInfo", f"g{i}", bus),
        ]
    return calls


def test_recorded_h200() -> None:
    recording = json.loads((HERE / "recorded" / "nvml-h200.json").read_text())
    found = subject.read_gpus(record_nvml.Replayed(recording))
    assert found.gpus == (
        Gpu(
            name="GPU0",
            uuid="GPU-1b122d05-8c93-e80c-c42d-a43b421ae510",
            address="0000:00:06.0",
            model="NVIDIA H200",
            memory=150754820096,
            cpus=0xFFFF,
            numa=(0,),
            maker=0x10DE,
        ),
    )
    assert found.matrix
    assert found.matrix.links == {"GPU0": {"GPU0": "X"}}
    assert found.matrix.cpu_affinity == {"GPU0": "0-15"}
    assert found.remarks == ()


def test_links_over_nvswitch_are_those_of_the_poorer_gpu() -> None:
    calls = gpus(2)
    for gpu, links in (("g0", EIGHTEEN), ("g1", FOUR)):
        for link in range(links):
            calls += [
                ("nvmlDeviceGetNvLinkState", gpu, link, 1),
                ("nvmlDeviceGetNvLinkRemoteDeviceType", gpu, link, subject.TO_SWITCH),
            ]
    found = subject.read_gpus(replayed(calls)).matrix
    assert found
    assert found.links == {"GPU0": {"GPU0": "X", "GPU1": "NV4"}, "GPU1": {"GPU0": "NV4", "GPU1": "X"}}


def test_direct_links_count_per_peer_and_the_rest_is_pcie() -> None:
    calls = gpus(3)
    for gpu, peer in (("g0", 1), ("g1", 0)):
        for link in range(2):
            calls += [
                ("nvmlDeviceGetNvLinkState", gpu, link, 1),
                ("nvmlDeviceGetNvLinkRemoteDeviceType", gpu, link, subject.TO_GPU),
                (
                    "nvmlDeviceGetNvLinkRemotePciInfo",
                    gpu,
                    link,
                    {"struct": {"busId": f"00000000:{peer + 16:02X}:00.0"}},
                ),
            ]
    for one in ("g0", "g1", "g2"):
        for other in ("g0", "g1", "g2"):
            calls.append(
                ("nvmlDeviceGetTopologyCommonAncestor", one, other, 50 if "g2" in (one, other) else 20)
            )
    found = subject.read_gpus(replayed(calls)).matrix
    assert found
    assert found.links["GPU0"] == {"GPU0": "X", "GPU1": "NV2", "GPU2": "SYS"}


def test_mig_instances_count_through_their_parent() -> None:
    calls = [
        *gpus(1),
        ("nvmlDeviceGetCpuAffinityWithinScope", "g0", subject.WORDS, 0, {"list": [0xF0]}),
        ("nvmlDeviceGetMemoryAffinity", "g0", subject.NODE_WORDS, 0, {"list": [0b10]}),
        ("nvmlDeviceGetMigMode", "g0", {"list": [1, 1]}),
        ("nvmlDeviceGetMaxMigDeviceCount", "g0", 7),
        ("nvmlDeviceGetMigDeviceHandleByIndex", "g0", 2, {"handle": "m2"}),
        ("nvmlDeviceGetUUID", "m2", "MIG-2"),
    ]
    found = subject.read_gpus(replayed(calls))
    whole, part = found.gpus
    assert (part.name, part.uuid, part.parent) == ("GPU0:2", "MIG-2", "GPU0")
    assert (part.cpus, part.numa) == (whole.cpus, whole.numa) == (0xF0, (1,))
    assert found.matrix
    assert found.matrix.gpus == ("GPU0",)


def test_memory_of_its_own_is_not_the_cpus_node() -> None:
    calls = [
        *gpus(1),
        ("nvmlDeviceGetMemoryAffinity", "g0", subject.NODE_WORDS, 0, {"list": [0b1]}),
        ("nvmlDeviceGetNumaNodeId", "g0", 4),
    ]
    (gpu,) = subject.read_gpus(replayed(calls)).gpus
    assert (gpu.numa, gpu.own_numa) == ((0,), 4)


def test_what_is_not_supported_is_unknown_with_one_remark_each() -> None:
    found = subject.read_gpus(replayed(gpus(2)))
    assert [(gpu.cpus, gpu.numa, gpu.memory) for gpu in found.gpus] == [(None, None, None)] * 2
    places = [remark.place for remark in found.remarks]
    assert len(places) == len(set(places))
    assert "nvmlDeviceGetMemoryAffinity" in places


def test_no_gpus() -> None:
    found = subject.read_gpus(replayed([("nvmlDeviceGetCount", 0)]))
    assert (found.gpus, found.matrix) == ((), None)
