"""Which character devices a job is kept from: trees of ``/sys`` and ``/proc`` in, device numbers out."""

from pathlib import Path

import pytest

from numawise.host import gpu_nodes
from numawise.host.gpu_nodes import others_devices
from numawise.machine.hardware import AMD, INTEL, NVIDIA, Gpu
from tests.unit.host.trees import grow

DEVICES = """Character devices:
  1 mem
195 nvidia
195 nvidiactl
226 drm
234 nvidia-caps
510 nvidia-uvm
511 nvidia-nvswitch

Block devices:
195 nvidia-of-disks
259 blkext"""
FIRST, SECOND = (f"0000:{bus}:00.0" for bus in ("17", "65"))


def nvidia(number: int, address: str, **more: str) -> Gpu:
    return Gpu(f"GPU{number}", address=address, maker=NVIDIA, **more)


def tree(root: Path, *, minors: bool = True) -> Path:
    files: dict[str, str | bytes | None] = {"proc/devices": DEVICES}
    for number, address in ((1, FIRST), (0, SECOND)) if minors else ():  # the driver has an order of its own
        files[f"proc/driver/nvidia/gpus/{address}/information"] = f"Model: x\nDevice Minor: \t {number}"
    caps = "proc/driver/nvidia/capabilities"
    for place, minor in (("gpu1/mig/gi1", 10), ("gpu1/mig/gi1/ci0", 11), ("gpu1/mig/gi2", 12),
                         ("gpu1/mig/gi2/ci0", 13), ("gpu0/mig/gi1", 20), ("gpu0/mig/gi1/ci0", 21)):  # fmt: skip
        files[f"{caps}/{place}/access"] = f"DeviceFileMinor: {minor}\nDeviceFileMode: 292"
    drm = "sys/bus/pci/devices/{}/drm"
    files |= {
        f"{drm.format('0000:17:00.0')}/card1/dev": "226:1",
        f"{drm.format('0000:17:00.0')}/renderD128/dev": "226:128",
        f"{drm.format('0000:83:00.0')}/card2/dev": "226:2",
        f"{drm.format('0000:83:00.0')}/renderD129/dev": "226:129",
        f"{drm.format('0000:84:00.0')}/renderD130/dev": "226:130",
        f"{drm.format('0000:84:00.0')}/controlD64/dev": "226:64",
        f"{drm.format('0000:03:00.0')}/card0/dev": "226:0",  # the board's own screen
        "sys/class/kfd/kfd/dev": "240:0",
    }
    return grow(root, files)


def numbers(*arguments: object, root: Path) -> str:
    found = others_devices(*arguments, root)  # type: ignore[arg-type]
    assert not found.problem
    return " ".join(map(str, found.numbers))


def test_without_gpus_all_of_nvidia_is_refused(tmp_path: Path) -> None:
    gpus = (nvidia(0, FIRST), nvidia(1, SECOND))
    assert numbers(gpus, (), root=tree(tmp_path)) == "195:* 226:1 226:128 234:* 510:* 511:*"


def test_with_gpus_the_others_are_refused(tmp_path: Path) -> None:
    gpus = (nvidia(0, FIRST), nvidia(1, SECOND))
    root = tree(tmp_path)
    assert numbers(gpus, gpus[:1], root=root) == "195:0 234:20 234:21"
    assert numbers(gpus, gpus[1:], root=root) == "195:1 226:1 226:128 234:10 234:11 234:12 234:13"
    assert numbers(gpus, gpus, root=root) == ""


def test_a_mig_instance_keeps_its_capabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (nvidia(0, FIRST, parent="GPU0", uuid=uuid) for uuid in ("MIG-a", "MIG-b"))
    other = nvidia(1, SECOND)
    monkeypatch.setattr(gpu_nodes, "mig_instance", {"MIG-a": (1, 0), "MIG-b": (2, 0)}.get)  # what NVML says
    root = tree(tmp_path)
    assert numbers((one, two, other), (two,), root=root) == "195:0 234:10 234:11 234:20 234:21"
    monkeypatch.setattr(gpu_nodes, "mig_instance", lambda _: None)
    found = others_devices((one, two, other), (two,), root)
    assert " ".join(map(str, found.numbers)) == "195:0 234:20 234:21"
    assert "leave other MIG instances of its GPU open" in found.remarks[0]


def test_amd_and_intel_by_their_own_files(tmp_path: Path) -> None:
    amd = Gpu("GPU0", address="0000:83:00.0", maker=AMD)
    intel = Gpu("GPU1", address="0000:84:00.0", maker=INTEL)
    root = tree(tmp_path)
    assert numbers((amd, intel), (), root=root) == "226:2 226:129 226:130 240:0"
    assert numbers((amd, intel), (amd,), root=root) == "226:130"
    assert numbers((amd, intel), (intel,), root=root) == "226:2 226:129 240:0"


def test_a_job_with_gpus_of_one_maker_sees_none_of_another(tmp_path: Path) -> None:
    green, red = nvidia(0, FIRST), Gpu("GPU1", address="0000:83:00.0", maker=AMD)
    root = tree(tmp_path)
    assert numbers((green, red), (green,), root=root) == "226:2 226:129 234:20 234:21 240:0"
    assert numbers((green, red), (red,), root=root) == "195:* 226:1 226:128 234:* 510:* 511:*"


@pytest.mark.parametrize("granted", [0, 1])
def test_an_unknown_number_is_no_list(tmp_path: Path, granted: int) -> None:
    gpus = (nvidia(0, FIRST), nvidia(1, SECOND), Gpu("GPU2", address="0000:99:00.0", maker=AMD))
    found = others_devices(gpus, gpus[:granted], tree(tmp_path, minors=False))
    assert not found.numbers
    assert found.problem == f"the device number of {'GPU1, ' if granted else ''}GPU2 is not known"
