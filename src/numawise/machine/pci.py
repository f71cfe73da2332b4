"""What a PCI device is, and which are GPUs that jobs can use where only the PCI list is known."""

from collections.abc import Iterable

from numawise.machine.hardware import (
    ACCELERATOR,
    AMD,
    BRIDGE,
    GPU,
    HOST_BRIDGE,
    INTEL,
    NIC,
    NVIDIA,
    NVME,
    OTHER,
    STORAGE,
    PciDevice,
)

GPU_MAKERS = frozenset({NVIDIA, AMD, INTEL, None})


def pci_kind(class_code: int | None, vendor: int | None) -> str:
    """What a function is, by its class code and, for displays, its maker."""
    if class_code is None:
        return OTHER
    major, minor = class_code >> 16, class_code >> 8 & 0xFF
    match major:
        case 0x01:
            return NVME if minor == 0x08 else STORAGE
        case 0x02:
            return NIC
        case 0x03:
            return GPU if vendor in GPU_MAKERS else OTHER
        case 0x06 if minor == 0x00:
            return HOST_BRIDGE
        case 0x06 if minor in (0x04, 0x09):  # PCI to PCI, the second kind half transparent
            return BRIDGE
        case 0x0B if minor == 0x40:  # co-processor
            return ACCELERATOR
        case 0x0C if minor == 0x06:  # InfiniBand, before it had a network class
            return NIC
        case 0x12:
            return GPU if vendor == AMD else ACCELERATOR
        case _:
            return OTHER


# --------------------------------------------------------------------------------------------------
# Which PCI functions are GPUs that jobs can use, where only the PCI list is known.
#
# Rules kept here:
#
# 1. A GPU is what its class and maker say (``pci_kind``), and any display controller without a screen: class
#    0302, or 0380 as in virtual machines that pretend to have GPUs.
# 2. Display adapters are not GPUs: those of a server's management controller and of virtual machines go by
#    their makers; a VGA adapter (class 0300) of a maker not known for GPUs is one when it is on a root bus.
# 3. What ``vfio-pci`` or ``pci-stub`` holds is kept for somebody else.
# 4. Intel's graphics on the root bus are part of the processor, and count only where nothing else does.


DISPLAY, VGA = 0x03, 0x0300
BOARD_MAKERS = frozenset({0x1A03, 0x102B, 0x18CA, 0x126F, 0x19E5})
"""ASPEED, Matrox, XGI, Silicon Motion, Huawei: their displays belong to management controllers."""
VIRTUAL_MAKERS = frozenset({0x1234, 0x1AF4, 0x1B36, 0x1013, 0x15AD, 0x80EE, 0x1414, 0x5853})
"""QEMU, Red Hat (virtio, QXL), Cirrus, VMware, VirtualBox, Microsoft, Xen: their VGA is a console."""
SCREENS = frozenset({(0x1AF4, 0x1050), (0x1B36, 0x0100)})
"""virtio-gpu and QXL are consoles of any class."""
TAKEN_AWAY = frozenset({"vfio-pci", "pci-stub"})


def gpu_functions(pci: Iterable[PciDevice]) -> tuple[PciDevice, ...]:
    """The functions that are GPUs for jobs, in order."""
    found = [device for device in pci if is_gpu(device)]
    cards = [device for device in found if not (device.vendor == INTEL and _on_root_bus(device))]
    return tuple(cards or found)


def is_gpu(device: PciDevice) -> bool:
    """Whether a function is a GPU (rules 1 to 3)."""
    screen = device.vendor in BOARD_MAKERS or (device.vendor, device.device) in SCREENS
    if screen or device.driver in TAKEN_AWAY:
        return False
    if device.kind == GPU:
        return True
    if device.class_code is None or device.class_code >> 16 != DISPLAY:
        return False
    if device.class_code >> 8 != VGA:
        return True
    return device.vendor not in VIRTUAL_MAKERS and not _on_root_bus(device)


def _on_root_bus(device: PciDevice) -> bool:
    if device.parents:
        return len(device.parents) == 1
    return device.address.split(":")[-2:-1] == ["00"]
