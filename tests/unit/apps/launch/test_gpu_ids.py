"""One GPU is one GPU in the ledger, whether or not the driver could be asked when it was held or looked at."""

from pathlib import Path

import pytest

from numawise.apps.launch.capacity import capacity_of, with_gpu_users
from numawise.apps.launch.decide import place
from numawise.apps.launch.request import JobRequest
from numawise.errors import HostError
from numawise.host.discover import driver_gpus, with_driver
from numawise.ledger.record import taken_by
from numawise.machine.hardware import (
    GPU,
    GPUS_GUESSED,
    NVIDIA,
    NVML,
    UNKNOWN,
    Gpu,
    Hardware,
    MemoryNode,
    PciDevice,
    Remark,
    Thread,
)
from numawise.render.holders import held_hardware, holds_held
from numawise.render.holds import free_gpus, gpu_names
from numawise.results.placement import Capacity, Grant, Hold, NoRoom, Owner, Placement, gpu_id, in_ids_of
from numawise.values import replace

RESOURCE = "nvidia.com/gpu"
GIB = 1 << 30
ADDRESSES = ("0000:17:00.0", "0000:2a:00.0")
WHOLE = tuple(
    Gpu(f"GPU{at}", f"GPU-{at}", address, numa=(0,), maker=NVIDIA) for at, address in enumerate(ADDRESSES)
)
PARTS = tuple(
    Gpu(f"GPU0:{at}", f"MIG-{at}", ADDRESSES[0], parent="GPU0", numa=(0,), maker=NVIDIA) for at in range(2)
)
FILES = Hardware(
    threads=tuple(Thread(cpu, cpu, 0, 0, 0, 1 << cpu) for cpu in range(4)),
    numa=(MemoryNode(0, 0xF, 64 * GIB),),
    pci=tuple(PciDevice(address, vendor=NVIDIA, kind=GPU, numa=0) for address in ADDRESSES),
)
UNASKED = replace(FILES, remarks=(Remark(UNKNOWN, NVML, f"NVML cannot be loaded: {GPUS_GUESSED}"),))

LOOKS = {
    "driver":   replace(FILES, gpus=WHOLE),
    "mig":      replace(FILES, gpus=(*WHOLE, *PARTS)),
    "files":    replace(UNASKED, gpus=WHOLE),    # /proc lists the UUIDs
    "pci":      UNASKED,                         # no UUID at all
}  # fmt: skip


def look(name: str) -> Capacity:
    return capacity_of(LOOKS[name])


def held(*ids: str) -> Hold:
    return Hold("aaaaa", "job", Owner(0, "root", "b"), Grant(devices=((RESOURCE, ids),)))


def taken(capacity: Capacity, *holds: Hold) -> Placement:
    found = place(capacity, holds, JobRequest(gpus=1), "bbbbb")
    assert isinstance(found, Placement)
    return found


def names(capacity: Capacity, *holds: Hold) -> str:
    """GPUs that a look finds free."""
    free = free_gpus(capacity, in_ids_of(capacity, holds))
    return " ".join(name for names in free.values() for name in names) or "none"


@pytest.mark.parametrize(("held_by", "name", "looked_at", "free"), [
    ("driver", "GPU0",   "driver", "GPU1"),
    ("driver", "GPU0",   "files",  "GPU1"),
    ("driver", "GPU0",   "pci",    "GPU1"),
    ("pci",    "GPU0",   "driver", "GPU1"),
    ("files",  "GPU1",   "driver", "GPU0"),
    ("mig",    "GPU0:1", "mig",    "GPU0:0 GPU1"),
    ("mig",    "GPU0:1", "pci",    "GPU1"),              # a part is held: so is the GPU
    ("pci",    "GPU0",   "mig",    "GPU1"),              # the GPU is held: so are its parts
    ("mig",    "GPU1",   "pci",    "GPU0"),
])  # fmt: skip
def test_held_and_looked_at_otherwise(held_by: str, name: str, looked_at: str, free: str) -> None:
    first, second = look(held_by), look(looked_at)
    gpu = next(gpu for gpu in first.gpus if gpu.name == name)
    hold = held(gpu_id(gpu))
    assert names(second, hold) == free
    found = taken(second, hold)
    assert found.gpus[0].name in free.split()
    assert taken_by([hold], found.grant) is None
    everything = place(second, (hold,), JobRequest(gpus=len(second.gpus)), "bbbbb")
    assert isinstance(everything, NoRoom)
    assert [one.id for one in everything.holders] == [hold.id]


@pytest.mark.parametrize(("device", "looked_at", "free"), [
    ("GPU-0",  "driver", "GPU1"),
    ("GPU-0",  "files",  "GPU1"),
    ("GPU-0",  "mig",    "GPU1"),
    ("MIG-1",  "mig",    "GPU0:0 GPU1"),
    ("GPU-0",  "pci",    "none"),        # which of them it is cannot be known
    ("MIG-1",  "files",  "none"),
    ("GPU-9",  "driver", "GPU0 GPU1"),   # a GPU that this process is not shown
    ("GPU-9",  "files",  "GPU0 GPU1"),
])  # fmt: skip
def test_holds_by_uuid(device: str, looked_at: str, free: str) -> None:
    assert names(look(looked_at), held(device)) == free


def test_the_ledger_refuses_a_gpu_and_a_part_of_it() -> None:
    address = ADDRESSES[0]
    for one, other in ((address, f"{address}/MIG-0"), (f"{address}/MIG-0", address), (address, address)):
        assert taken_by([held(one)], held(other).grant)
    assert taken_by([held(f"{address}/MIG-0")], held(f"{address}/MIG-1").grant) is None
    assert taken_by([held("0000:17:00.0")], held("0000:17:00.01").grant) is None


@pytest.mark.parametrize("looked_at", ["driver", "files", "pci"])
def test_a_picture_marks_held_gpus(looked_at: str) -> None:
    capacity = look(looked_at)
    hardware = replace(capacity.hardware, gpus=capacity.hardware.gpus or capacity.gpus)
    marked = held_hardware(hardware, holds_held([held(ADDRESSES[1])], gpu_names(capacity)))
    assert [gpu.name for gpu in marked.gpus] == ["GPU0", "GPU1: job"]
    assert bool(marked.remarks) == (looked_at != "driver")


def test_what_is_guessed_is_said_to_jobs_with_gpus_alone() -> None:
    capacity = look("pci")
    assert GPUS_GUESSED in " ".join(with_gpu_users(capacity, JobRequest(gpus=1)).remarks)
    assert with_gpu_users(capacity, JobRequest(cpus=1000)).remarks == capacity.remarks == ()


def test_uuids_out_of_the_drivers_files(tmp_path: Path) -> None:
    assert driver_gpus(FILES, tmp_path) == ()
    uuid = "1b122d05-8c93-e80c-c42d-a43b421ae510"
    for address, words in zip(
        ADDRESSES, (f"GPU-{uuid}", "GPU-????????-????-????-????-????????????"), strict=True
    ):
        folder = tmp_path / "proc/driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t NVIDIA H200\nGPU UUID: \t {words}\n")
    found = driver_gpus(FILES, tmp_path)
    look = with_driver(FILES, _cannot_be_loaded, tmp_path)
    assert [(gpu.name, gpu.uuid) for gpu in look.gpus] == [(gpu.name, gpu.uuid) for gpu in found]
    assert [remark.text for remark in look.remarks if remark.place == NVML] == [
        f"NVML cannot be loaded (gone): {GPUS_GUESSED}; install it"
    ]
    assert [(gpu.name, gpu.address, gpu.uuid) for gpu in found] == [
        ("GPU0", ADDRESSES[0], f"GPU-{uuid}"),
        ("GPU1", ADDRESSES[1], ""),
    ]


def _cannot_be_loaded() -> Hardware:
    raise HostError("NVML cannot be loaded (gone)", advice="install it")


def test_the_driver_is_believed_when_it_can_be_asked(tmp_path: Path) -> None:
    found = with_driver(FILES, lambda: Hardware(gpus=WHOLE, sources=("nvml",)), tmp_path)
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-0", "GPU-1"]
    assert not [remark for remark in found.remarks if remark.place == NVML]
