"""Which functions of a PCI list are GPUs."""

import pytest

from numawise.machine.hardware import PciDevice
from numawise.machine.pci import gpu_functions, pci_kind

ROOT, PORT = ("pci0000:00",), ("pci0000:00", "0000:00:01.0")
VGA, OTHER, THREE_D, PROCESSING = 0x030000, 0x038000, 0x030200, 0x120000
NVIDIA, AMD, INTEL, QEMU, ASPEED, MATROX = 0x10DE, 0x1002, 0x8086, 0x1234, 0x1A03, 0x102B
HUAWEI, VIRTIO, MOORE_THREADS, HABANA, MICROSOFT = 0x19E5, 0x1AF4, 0x1ED5, 0x1DA3, 0x1414


def function(
    vendor: int | None,
    class_code: int | None,
    parents: tuple[str, ...] = PORT,
    driver: str = "",
    device: int = 0,
) -> PciDevice:
    kind = pci_kind(class_code, vendor)
    return PciDevice("0000:01:00.0", vendor, device, class_code, kind, parents=parents, driver=driver)


# fmt: off
FUNCTIONS = [
    pytest.param(function(NVIDIA, THREE_D),                            1, id="data centre GPU"),
    pytest.param(function(NVIDIA, VGA),                                1, id="GPU with a screen"),
    pytest.param(function(NVIDIA, THREE_D, driver="vfio-pci"),         0, id="kept for a virtual machine"),
    pytest.param(function(NVIDIA, THREE_D, driver="pci-stub"),         0, id="kept by a stub"),
    pytest.param(function(NVIDIA, 0x040300),                           0, id="sound of a GPU"),
    pytest.param(function(AMD, OTHER),                                 1, id="Instinct"),
    pytest.param(function(AMD, PROCESSING),                            1, id="Instinct as accelerator"),
    pytest.param(function(INTEL, OTHER),                               1, id="Intel's data centre GPU"),
    pytest.param(function(INTEL, VGA, ROOT),                           1, id="in the processor, alone"),
    pytest.param(function(HABANA, PROCESSING),                         0, id="accelerator"),
    pytest.param(function(QEMU, OTHER, device=0x1111),                 1, id="QEMU's display without VGA"),
    pytest.param(function(QEMU, OTHER, ROOT),                          1, id="the same on the root bus"),
    pytest.param(function(QEMU, VGA, ROOT, device=0x1111),             0, id="QEMU's console"),
    pytest.param(function(QEMU, VGA, device=0x1111),                   0, id="QEMU's console, behind a port"),
    pytest.param(function(VIRTIO, OTHER, device=0x1050),               0, id="virtio's console"),
    pytest.param(function(MICROSOFT, VGA, ROOT),                       0, id="Hyper-V's console"),
    pytest.param(function(MICROSOFT, THREE_D, ()),                     1, id="Hyper-V's GPU"),
    pytest.param(function(ASPEED, VGA),                                0, id="management controller"),
    pytest.param(function(MATROX, VGA, ROOT),                          0, id="another"),
    pytest.param(function(HUAWEI, VGA),                                0, id="yet another"),
    pytest.param(function(MOORE_THREADS, VGA),                         1, id="maker not known, in a slot"),
    pytest.param(function(MOORE_THREADS, VGA, ROOT),                   0, id="maker not known, on board"),
    pytest.param(function(None, THREE_D),                              1, id="maker not told"),
    pytest.param(function(NVIDIA, None),                               0, id="class not told"),
]
# fmt: on


@pytest.mark.parametrize(("device", "count"), FUNCTIONS)
def test_is_a_gpu(device: PciDevice, count: int) -> None:
    assert len(gpu_functions((device,))) == count


def test_graphics_in_the_processor_count_only_alone() -> None:
    inside, card = function(INTEL, VGA, ROOT), function(INTEL, VGA)
    assert gpu_functions((inside, card, function(ASPEED, VGA))) == (card,)
    assert gpu_functions((inside, function(NVIDIA, THREE_D))) == (function(NVIDIA, THREE_D),)
    assert gpu_functions((inside, function(ASPEED, VGA))) == (inside,)


@pytest.mark.parametrize(("address", "count"), [("0000:00:02.0", 1), ("0000:03:00.0", 2), ("", 2)])
def test_root_bus_without_a_tree(address: str, count: int) -> None:
    """Prints of lspci tell addresses, but no bridges."""
    graphics = PciDevice(address, INTEL, 0, VGA, pci_kind(VGA, INTEL))
    assert len(gpu_functions((graphics, function(NVIDIA, THREE_D)))) == count
