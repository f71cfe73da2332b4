"""Which GPUs a process sees: every form of the variables that hide and reorder them."""

from dataclasses import replace

import pytest

from numawise.apps.launch.launchers import visible_gpus
from numawise.errors import HostError
from numawise.machine.hardware import Gpu, Hardware
from numawise.machine.synthetic import synthetic

NVIDIA = synthetic("2s 16c 4gpu")
NVIDIA = replace(
    NVIDIA, gpus=tuple(replace(gpu, uuid=f"GPU-{i}{i}a-b{i}") for i, gpu in enumerate(NVIDIA.gpus))
)
NAMELESS = synthetic("2s 16c 4gpu")
AMD = Hardware(gpus=tuple(Gpu(f"GPU{i}", f"GPU-{i}", maker=0x1002) for i in range(4)))
INTEL = Hardware(gpus=tuple(Gpu(f"GPU{i}", maker=0x8086) for i in range(4)))
PARTS = Hardware(
    gpus=(
        Gpu("GPU0", "GPU-0", maker=0x10DE),
        Gpu("GPU0:0", "MIG-a", parent="GPU0", maker=0x10DE),
        Gpu("GPU0:1", "MIG-b", parent="GPU0", maker=0x10DE),
        Gpu("GPU1", "GPU-1", maker=0x10DE),
    )
)


def seen(hardware: Hardware, **variables: str) -> str:
    return " ".join(gpu.name.removeprefix("GPU") for gpu in visible_gpus(hardware, variables).gpus)


# fmt: off
@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("2,0",                          "2 0",     id="by index, in this order"),
    pytest.param("GPU-33a-b3,GPU-11a-b1",        "3 1",     id="by UUID"),
    pytest.param("GPU-33,GPU-1",                 "3 1",     id="by the beginning of a UUID"),
    pytest.param("GPU-",                         "",        id="a beginning that fits several"),
    pytest.param(" 1 , 2 ",                      "1 2",     id="blanks"),
    pytest.param("",                             "",        id="none"),
    pytest.param("-1",                           "",        id="none, as people write it"),
    pytest.param("NoDevFiles",                   "",        id="none, as Slurm writes it"),
    pytest.param("0,2,-1,1",                     "0 2",     id="the list ends at what is none"),
    pytest.param("1,7,2",                        "1",       id="the list ends at what is not there"),
])
def test_cuda(text: str, expected: str) -> None:
    assert seen(NVIDIA, CUDA_VISIBLE_DEVICES=text) == expected


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("MIG-b",            "0:1",  id="an instance"),
    pytest.param("MIG-GPU-0/1/0",    "0",    id="an instance in the old form: its GPU"),
    pytest.param("GPU-1,0",          "1 0",  id="whole GPUs"),
])
def test_mig(text: str, expected: str) -> None:
    assert seen(PARTS, CUDA_VISIBLE_DEVICES=text) == expected
    assert seen(PARTS) == "0:0 0:1 1"


@pytest.mark.parametrize(("variables", "expected"), [
    pytest.param({},                                                            "0 1 2 3", id="all"),
    pytest.param({"ROCR_VISIBLE_DEVICES": "GPU-3,1"},                           "3 1",     id="by UUID and index"),
    pytest.param({"HIP_VISIBLE_DEVICES": "2,3"},                                "2 3",     id="HIP's"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "2"},                                 "2",       id="CUDA's counts for HIP, too"),
    pytest.param({"ROCR_VISIBLE_DEVICES": "3,1", "HIP_VISIBLE_DEVICES": "1"},   "1",       id="HIP's counts within ROCR's"),
    pytest.param({"ROCR_VISIBLE_DEVICES": "3", "HIP_VISIBLE_DEVICES": "2,0"},   "",        id="beyond what ROCR leaves"),
])
def test_amd(variables: dict[str, str], expected: str) -> None:
    assert seen(AMD, **variables) == expected
# fmt: on


def test_intel_counts_cards() -> None:
    assert seen(INTEL, ZE_AFFINITY_MASK="2.0,2.1,0") == "2 0"


@pytest.mark.parametrize(
    ("gpus", "expected"), [("GPU-22a-b2,GPU3", "2 3"), ("0000:00:00.0", ""), ("", "0 1 2 3")]
)
def test_a_hold_counts_where_nothing_else_does(gpus: str, expected: str) -> None:
    assert seen(NVIDIA, NUMAWISE_GPUS=gpus) == expected
    assert seen(NVIDIA, NUMAWISE_GPUS=gpus, CUDA_VISIBLE_DEVICES="1") == "1"


def test_gpus_by_address() -> None:
    address = NVIDIA.gpus[2].address
    assert address
    assert seen(NVIDIA, NUMAWISE_GPUS=address) == "2"


def test_an_unknown_uuid_is_no_guess() -> None:
    with pytest.raises(HostError, match=r"names GPU-77, .*numawise doctor"):
        visible_gpus(NAMELESS, {"CUDA_VISIBLE_DEVICES": "GPU-77"})
    found = visible_gpus(NVIDIA, {"CUDA_VISIBLE_DEVICES": "0,GPU-77"})
    assert [gpu.name for gpu in found.gpus] == ["GPU0"]
    assert found.remarks[0].startswith("CUDA_VISIBLE_DEVICES: 'GPU-77' is not a GPU of this machine")


def test_a_doubt_on_a_machine_with_different_gpus() -> None:
    mixed = replace(NVIDIA, gpus=(replace(NVIDIA.gpus[0], model="T4"), *NVIDIA.gpus[1:]))
    assert "PCI_BUS_ID" in visible_gpus(mixed, {"CUDA_VISIBLE_DEVICES": "1"}).remarks[0]
    order = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert not visible_gpus(mixed, order).remarks
    assert not visible_gpus(mixed, {"CUDA_VISIBLE_DEVICES": mixed.gpus[1].uuid}).remarks


def test_a_machine_without_gpus() -> None:
    found = visible_gpus(Hardware(), {"CUDA_VISIBLE_DEVICES": "0"})
    assert found.gpus == ()
    assert found.remarks == ("CUDA_VISIBLE_DEVICES=0 names GPUs, but none is known here",)
    assert visible_gpus(Hardware(), {"CUDA_VISIBLE_DEVICES": ""}).remarks == ()
