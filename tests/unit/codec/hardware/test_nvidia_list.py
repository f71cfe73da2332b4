import pytest

from numawise.codec.hardware.nvidia_list import read
from numawise.errors import InputError


def listed(text: str) -> list[str]:
    """``GPU0 GPU-1 NVIDIA A100`` for each GPU."""
    return [" ".join([gpu.name, gpu.uuid or "-", gpu.model]) for gpu in read(text, "file").gpus]


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-2)\n",
                 ["GPU0 GPU-1 NVIDIA A100-SXM4-40GB", "GPU1 GPU-2 NVIDIA A100-SXM4-40GB"],     id="two"),
    pytest.param("> GPU 0: Tesla K80 (UUID: GPU-1)\r\n", ["GPU0 GPU-1 Tesla K80"],            id="quoted"),
    pytest.param("GPU 0: A (Laptop) X (UUID: GPU-1)", ["GPU0 GPU-1 A (Laptop) X"],             id="brackets in a name"),
    pytest.param("GPU 0: A (UUID: GPU-1) GPU 1: B (UUID: GPU-2)", ["GPU0 GPU-1 A", "GPU1 GPU-2 B"], id="one line"),
    pytest.param("GPU models and configuration: GPU 0: Tesla V100\nGPU 1: Tesla V100\n",
                 ["GPU0 - Tesla V100", "GPU1 - Tesla V100"],                                   id="collect_env"),
    pytest.param("GPU 0,1: NVIDIA B300\nGPU 0,1 Compute Capability: 10.3\n",
                 ["GPU0 - NVIDIA B300", "GPU1 - NVIDIA B300"],                                 id="several at once"),
    pytest.param("GPU 0: A (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\nGPU 0: A (UUID: GPU-1)\n", ["GPU0 GPU-1 A"],
                                                                                               id="nvlink --status"),
    pytest.param("GPU 0: A (UUID: GPU-x)\nGPU 1: A (UUID: GPU-x)\n", ["GPU0 - A", "GPU1 - A"], id="redacted"),
])  # fmt: skip
def test_list(text: str, expected: list[str]) -> None:
    assert listed(text) == expected


def test_mig_devices() -> None:
    text = """
GPU 0: NVIDIA A100 (UUID: GPU-1)
  MIG 3g.20gb     Device  0: (UUID: MIG-GPU-1/2/0)
  MIG 1g.10gb+me  Device  1: (UUID: MIG-2)
  MIG 1c.3g.20gb  Device  2: (UUID: MIG-3)
GPU 1: NVIDIA A100 (UUID: GPU-2)
Unable to determine the device handle for GPU 0000:05:00.0: Unknown Error
"""
    found = read(text, "file")
    assert [(gpu.name, gpu.uuid, gpu.model, gpu.parent) for gpu in found.gpus] == [
        ("GPU0", "GPU-1", "NVIDIA A100", ""),
        ("GPU0:0", "MIG-GPU-1/2/0", "MIG 3g.20gb", "GPU0"),
        ("GPU0:1", "MIG-2", "MIG 1g.10gb+me", "GPU0"),
        ("GPU0:2", "MIG-3", "MIG 1c.3g.20gb", "GPU0"),
        ("GPU1", "GPU-2", "NVIDIA A100", ""),
    ]
    assert [(remark.kind, remark.place) for remark in found.remarks] == [("unknown", "GPU")]


@pytest.mark.parametrize(
    "text", ["", "No devices found.", "GPU0 is fine", "  MIG 1g.5gb Device 0: (UUID: MIG-1)"]
)
def test_refusal(text: str) -> None:
    with pytest.raises(InputError, match="lists no GPU"):
        read(text, "file")
