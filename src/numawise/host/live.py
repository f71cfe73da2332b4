"""The machine we are on, read as quickly as a launcher needs it: files first, NVML only for NVIDIA's GPUs."""

from pathlib import Path

from numawise.errors import HostError
from numawise.host.discover import read_hardware
from numawise.machine.hardware import GPU, UNKNOWN, Hardware, Remark
from numawise.machine.pci import NVIDIA

HERE = Path("/")


def read_live(root: Path | None = None) -> Hardware:
    """This machine, or the copy of the files of one below ``root``."""
    found = read_hardware(root or HERE)
    if root is not None or not any(device.vendor == NVIDIA and device.kind == GPU for device in found.pci):
        return found
    from numawise.codec.hardware.combine import combine  # noqa: PLC0415 - only machines with such GPUs need it

    return combine([found, read_nvml()])


def read_nvml() -> Hardware:
    """GPUs as NVML tells them; a remark alone when it cannot be asked."""
    from numawise.host.nvml import load, read_gpus  # noqa: PLC0415 - an extra

    try:
        return read_gpus(load())
    except HostError as problem:
        return Hardware(remarks=(Remark(UNKNOWN, "gpus", f"NVML cannot be asked: {problem.message}"),))
