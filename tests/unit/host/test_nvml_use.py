"""Who uses which GPU: device files, NVML's list, and the lists of AMD's driver."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from numawise.host.nvml import COMPUTES, OPENED, GpuUse, kfd_users, nvidia_minors, nvml_users, opened
from numawise.machine.hardware import GPU, Hardware, PciDevice
from tests.unit.host.trees import grow

RECORDED = Path(__file__).parents[2] / "host/recorded/cuda-job"
AMD = Hardware(
    pci=(
        PciDevice("0000:03:00.0", kind=GPU, names=("card1", "renderD128")),
        PciDevice("0000:43:00.0", kind=GPU, names=("card2", "renderD129")),
    )
)


def driver(root: Path, **minors: int) -> Path:
    """NVIDIA's folder below ``/proc``: bus number → number of the device file."""
    text = (RECORDED / "information").read_text()
    tree: dict[str, str | bytes | None] = {}
    for bus, minor in minors.items():
        told = text.replace("Device Minor: \t 0", f"Device Minor: \t {minor}")
        tree[f"proc/driver/nvidia/gpus/0000:{bus[1:]}:00.0/information"] = told
    return grow(root, tree)


def test_device_numbers_are_not_in_order(tmp_path: Path) -> None:
    root = driver(tmp_path, b18=1, b28=0, bc1=10)
    assert nvidia_minors(root) == {1: "0000:18:00.0", 0: "0000:28:00.0", 10: "0000:c1:00.0"}
    found = opened(root, Hardware(), 7, ["/dev/nvidia0", "/dev/nvidia10"])
    assert found == (
        GpuUse(7, "0000:28:00.0", OPENED, "/dev/nvidia0"),
        GpuUse(7, "0000:c1:00.0", OPENED, "/dev/nvidia10"),
    )


def test_a_device_file_that_leads_nowhere(tmp_path: Path) -> None:
    assert opened(tmp_path, Hardware(), 7, ["/dev/nvidia3"]) == (GpuUse(7, "", OPENED, "/dev/nvidia3"),)


def test_render_nodes(tmp_path: Path) -> None:
    files = ["/dev/dri/card0", "/dev/dri/card2", "/dev/dri/renderD129", "/dev/kfd"]
    assert opened(tmp_path, AMD, 7, files) == (GpuUse(7, "0000:43:00.0", OPENED, "/dev/dri/card2"),)


class Nvml:
    """Answers as NVML's bindings do."""

    class NVMLError(Exception):
        """What they raise."""

    def __init__(self, gpus: dict[str, list[tuple[int, int | None]] | None]) -> None:
        self.gpus = list(gpus.items())

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, at: int) -> int:  # noqa: N802
        return at

    def nvmlDeviceGetPciInfo(self, at: int) -> Any:  # noqa: N802
        return SimpleNamespace(busId=self.gpus[at][0].encode() if at else self.gpus[at][0])

    def nvmlDeviceGetComputeRunningProcesses(self, at: int) -> Any:  # noqa: N802
        rows = self.gpus[at][1]
        if rows is None:
            raise self.NVMLError("Not Supported")
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in rows]


def test_nvml() -> None:
    library = Nvml(
        {"00000000:18:00.0": [(7, 1 << 30), (8, None)], "00000000:28:00.0": [], "00000000:38:00.0": None}
    )
    assert nvml_users(library) == (
        GpuUse(7, "0000:18:00.0", COMPUTES, "", 1 << 30),
        GpuUse(8, "0000:18:00.0", COMPUTES, "", None),
    )


@pytest.mark.parametrize("location", [
    ("domain 0\nlocation_id 17152", "0000:43:00.0"),
    ("domain 1\nlocation_id 769",   "0001:03:00.1"),
    ("location_id 1288",            "0000:05:01.0"),   # kernels before 5.4 name no domain
])  # fmt: skip
def test_kfd(tmp_path: Path, location: tuple[str, str]) -> None:
    base = "sys/class/kfd/kfd"
    tree: dict[str, str | bytes | None] = {
        f"{base}/topology/nodes/0/gpu_id": "0",
        f"{base}/topology/nodes/0/properties": "cpu_cores_count 64",
        f"{base}/topology/nodes/1/gpu_id": "30381",
        f"{base}/topology/nodes/1/properties": f"simd_count 304\n{location[0]}\ndrm_render_minor 129",
        f"{base}/proc/700/vram_30381": "1610571776",
        f"{base}/proc/700/sdma_30381": "99",
        f"{base}/proc/701/vram_30381": "0",
        f"{base}/proc/702/vram_4": "5",
    }
    assert kfd_users(grow(tmp_path, tree)) == (GpuUse(700, location[1], COMPUTES, "/dev/kfd", 1610571776),)


def test_no_drivers(tmp_path: Path) -> None:
    assert kfd_users(tmp_path) == ()
    assert nvidia_minors(tmp_path) == {}
