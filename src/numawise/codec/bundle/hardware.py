"""Hardware without what tells one machine from another of its kind: UUIDs, addresses in names, host names."""

import re
from dataclasses import replace

from numawise.codec.bundle.names import Names
from numawise.machine.hardware import Gpu, Hardware, Matrix, PciDevice, Remark

USUAL = re.compile(
    r"(eth|eno|ens|enp|enP|ib|ibp|ibs|roce|rocep|bnxt_re|hfi1_|efa_|rdmap|hns_|qedr|cxgb4_|erdma_|mana_|irdma"
    r"|mlx[0-9]_|nvme|sd|vd|xvd|card|renderD|controlD|wlan|wlp|usb|accel|mlx|NIC|GPU)[0-9a-z]*",
    re.ASCII,
)
"""What the kernel and its tools call devices; any other name was given by a person, or is an address."""


def without_identity(hardware: Hardware, names: Names) -> Hardware:
    """The same hardware with names replaced; as it is where names are kept."""
    if names.key is None:
        return hardware
    return replace(
        hardware,
        name="",
        pci=tuple(_device(device, names) for device in hardware.pci),
        gpus=tuple(_gpu(gpu, names) for gpu in hardware.gpus),
        matrix=_matrix(hardware.matrix, names) if hardware.matrix else None,
        remarks=tuple(
            Remark(one.kind, names.cleaned(one.place), names.cleaned(one.text)) for one in hardware.remarks
        ),
    )


def identities(hardware: Hardware) -> tuple[str, ...]:
    """Texts that hold the UUIDs of devices."""
    return tuple(gpu.uuid for gpu in hardware.gpus)


def _gpu(gpu: Gpu, names: Names) -> Gpu:
    return replace(gpu, uuid=names.device(gpu.uuid))


def _device(device: PciDevice, names: Names) -> PciDevice:
    return replace(device, names=tuple(_usual(name, names) for name in device.names))


def _matrix(matrix: Matrix, names: Names) -> Matrix:
    told = {short: _usual(name, names) for short, name in matrix.nic_names.items()}
    return replace(matrix, nic_names=told)


def _usual(name: str, names: Names) -> str:
    return name if USUAL.fullmatch(name) else names.name("device", name)
