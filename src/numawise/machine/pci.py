"""What a PCI device is, by its class code and, for displays, its maker."""

from numawise.machine.hardware import (
    ACCELERATOR,
    BRIDGE,
    GPU,
    HOST_BRIDGE,
    NIC,
    NVME,
    OTHER,
    STORAGE,
)

NVIDIA, AMD, INTEL = 0x10DE, 0x1002, 0x8086
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
