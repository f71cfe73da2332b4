import pytest

from numawise.codec.hardware.lspci import read
from numawise.errors import InputError


def devices(text: str) -> list[str]:
    """``address kind class vendor:device numa driver model`` for each device, ``-`` where nothing is told."""
    return [
        " ".join([
            device.address,
            device.kind,
            "-" if device.class_code is None else f"{device.class_code:06x}",
            "-" if device.vendor is None else f"{device.vendor:04x}",
            "-" if device.device is None else f"{device.device:04x}",
            "-" if device.numa is None else str(device.numa),
            device.driver or "-",
            device.model or "-",
        ])
        for device in read(text, "file").pci
    ]  # fmt: skip


VERBOSE = """\
0000:17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tSubsystem: NVIDIA Corporation Device [10de:16c1]
\tFlags: bus master, fast devsel, latency 0, IRQ 16, NUMA node 1, IOMMU group 6
\tKernel driver in use: nvidia
\tKernel modules: nvidiafb, nouveau

0000:5d:00.0 Non-Volatile memory controller [0108]: Samsung PM173X [144d:a824] (prog-if 02 [NVM Express])
\tNUMA node: 0
"""
VERBOSE_DEVICES = [
    "0000:17:00.0 gpu 030200 10de 2330 1 nvidia NVIDIA Corporation GH100 [H100 SXM5 80GB]",
    "0000:5d:00.0 nvme 010802 144d a824 0 - Samsung PM173X",
]
TAGGED = """\
Slot:\t17:00.0
Class:\t3D controller [0302]
Vendor:\tNVIDIA Corporation [10de]
Device:\tGH100 [H100 SXM5 80GB] [2330]
NUMANode:\t1
Driver:\tnvidia

Slot:\t5d:00.0
Class:\tNon-Volatile memory controller [0108]
Vendor:\tSamsung [144d]
Device:\tPM173X [a824]
ProgIf:\t02
NUMANode:\t0
"""


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param(VERBOSE,                                                      VERBOSE_DEVICES, id="-D -nn -v"),
    pytest.param("".join(f">{line}\n" for line in VERBOSE.splitlines()),       VERBOSE_DEVICES, id="quoted"),
    pytest.param(VERBOSE.replace("\n", "\r\n"),                                VERBOSE_DEVICES, id="Windows"),
    pytest.param(TAGGED,                                                       VERBOSE_DEVICES, id="-vmm"),
    pytest.param("17:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n",
                 ["0000:17:00.0 gpu 030200 10de - - - NVIDIA Corporation GH100"],               id="plain"),
    pytest.param("18:00.0 Infiniband controller: Mellanox Technologies MT2910 [ConnectX-7]\n",
                 ["0000:18:00.0 nic 020700 - - - - Mellanox Technologies MT2910 [ConnectX-7]"], id="NIC"),
    pytest.param("01:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 52)\n",
                 ["0000:01:00.0 other 030000 - - - - ASPEED Technology, Inc. ASPEED Graphics Family"], id="no GPU for work"),
    pytest.param("17:00.0 0302: 10de:2330 (rev a1)\n", ["0000:17:00.0 gpu 030200 10de 2330 - - -"], id="-n"),
    pytest.param('17:00.0 "3D controller" "NVIDIA Corporation" "GH100" -ra1 "NVIDIA" "Device 16c1"\n',
                 ["0000:17:00.0 gpu 030200 10de - - - NVIDIA Corporation GH100"],               id="-mm"),
    pytest.param("10000:e1:00.0 PCI bridge [0604]: Intel Corporation Device [8086:347a] (rev 06)\n",
                 ["10000:e1:00.0 bridge 060400 8086 347a - - Intel Corporation Device"],        id="a long domain"),
    pytest.param("17:00.0 Odd thing: Some Maker X1\n", ["0000:17:00.0 other - - - - - Some Maker X1"], id="unknown class"),
    pytest.param("17:00.0 3D controller: A\n17:00.0 3D controller: B\n", ["0000:17:00.0 other 030200 - - - - A"], id="twice"),
])  # fmt: skip
def test_devices(text: str, expected: list[str]) -> None:
    assert devices(text) == expected


def test_remarks() -> None:
    found = read("17:00.0 3D controller: A\n17:00.0 3D controller: B\n", "file")
    assert [(remark.kind, remark.place) for remark in found.remarks] == [
        ("odd", "0000:17:00.0"),
        ("unknown", "NUMA"),
    ]


@pytest.mark.parametrize("text", ["", "12:00:01 it began", "-[0000:00]-+-00.0", "lspci: command not found"])
def test_refusal(text: str) -> None:
    with pytest.raises(InputError, match="lists no PCI device"):
        read(text, "file")
