"""Who has what, written on a machine."""

from numawise.machine.hardware import Gpu, Hardware, MemoryNode, PciDevice
from numawise.render.holders import SEVERAL, held_hardware, holds_held
from numawise.results.placement import Grant, Hold, MemoryPart, Owner
from numawise.sets import parse_ids

OWNER = Owner(uid=0, user="root", boot="b")


def hold(name: str, cpus: str = "", **more: object) -> Hold:
    return Hold(name, name, OWNER, Grant(cpus=parse_ids(cpus), **more))  # type: ignore[arg-type]


def test_cpus_by_name_and_those_of_several() -> None:
    held = holds_held([hold("a", "0-2"), hold("b", "2-3"), hold("pool")], {})
    assert held.cpus == {0: "a", 1: "a", 2: SEVERAL, 3: "b"}


def test_devices_and_memory_carry_their_holder() -> None:
    parts = (MemoryPart(1, 1 << 30), MemoryPart(3, 2 << 30))
    devices = (("nvidia.com/gpu", ("GPU-1",)), ("x/nic", ("mlx5_0",)))
    held = holds_held([hold("a", memory=parts, devices=devices)], {"GPU-1": "GPU0"})
    hardware = Hardware(
        numa=(MemoryNode(0, memory=4 << 30), MemoryNode(1, memory=4 << 30), MemoryNode(2)),
        gpus=(Gpu("GPU0"), Gpu("GPU1")),
        pci=(PciDevice("0000:01:00.0", names=("mlx5_0", "eth0")), PciDevice("0000:02:00.0")),
    )
    found = held_hardware(hardware, held)
    assert [node.note for node in found.numa] == ["· 2 GiB held", "· 1 GiB held", ""]
    assert [gpu.name for gpu in found.gpus] == ["GPU0: a", "GPU1"]
    assert [device.names for device in found.pci] == [("mlx5_0: a", "eth0"), ()]
