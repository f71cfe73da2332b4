from pathlib import Path

import pytest

from numawise.host.pci import place_of
from numawise.machine.hardware import PciDevice
from numawise.machine.pci import pci_kind
from tests.unit.host.trees import PCI, read, remarks

ROOT_PORT, NIC = "0000:17:00.0", "0000:18:00.0"
BELOW = f"sys/devices/pci0000:17/{ROOT_PORT}/{NIC}"
FILES = {
    "vendor": "0x15b3",
    "device": "0x1021",
    "class": "0x020700",
    "numa_node": "1",
    "local_cpulist": "8-15",
    "driver": "-> ../../../../bus/pci/drivers/mlx5_core",
}
EXPECTED = PciDevice(
    address=NIC,
    vendor=0x15B3,
    device=0x1021,
    class_code=0x020700,
    kind="nic",
    numa=1,
    local_cpus=0xFF00,
    parents=("pci0000:17", ROOT_PORT),
    driver="mlx5_core",
)


def at(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


@pytest.mark.parametrize(("class_code", "vendor", "kind"), [
    (0x010601, 0x8086, "storage"),
    (0x010802, 0x144D, "nvme"),
    (0x020000, 0x8086, "nic"),
    (0x020700, 0x15B3, "nic"),
    (0x028000, 0x15B3, "nic"),
    (0x0C0600, 0x1077, "nic"),          # InfiniBand in the days of qib
    (0x030000, 0x10DE, "gpu"),
    (0x030200, 0x10DE, "gpu"),          # H100
    (0x038000, 0x1002, "gpu"),          # MI250
    (0x120000, 0x1002, "gpu"),          # MI300X
    (0x030000, 0x8086, "gpu"),
    (0x030000, None,   "gpu"),
    (0x030000, 0x1A03, "other"),        # ASPEED, the board controller's VGA
    (0x030000, 0x1AF4, "other"),        # virtio
    (0x040300, 0x10DE, "other"),        # a GPU's sound
    (0x068000, 0x10DE, "other"),        # NVSwitch
    (0x120000, 0x1DA3, "accelerator"),  # Gaudi
    (0x0B4000, 0x8086, "accelerator"),  # Xeon Phi, QuickAssist
    (0x060000, 0x8086, "host-bridge"),
    (0x060400, 0x8086, "bridge"),
    (0x060900, 0x8086, "bridge"),
    (0x060100, 0x8086, "other"),        # ISA
    (0xFF0000, 0x8086, "other"),
    (None,     0x10DE, "other"),
])  # fmt: skip
def test_kind(class_code: int | None, vendor: int | None, kind: str) -> None:
    assert pci_kind(class_code, vendor) == kind


def test_by_link(tmp_path: Path) -> None:
    links = {f"{PCI}/{NIC}": f"-> ../../../devices/pci0000:17/{ROOT_PORT}/{NIC}"}
    assert read(tmp_path, at(BELOW, FILES) | links).pci == (EXPECTED,)


def test_by_link_from_the_root(tmp_path: Path) -> None:
    links = {f"{PCI}/{NIC}": f"-> /{BELOW}"}
    assert read(tmp_path, at(BELOW, FILES) | links).pci == (EXPECTED,)


def test_folders_in_place_of_links(tmp_path: Path) -> None:
    (found,) = read(tmp_path, at(f"{PCI}/{NIC}", FILES)).pci
    assert (found.parents, found.vendor, found.local_cpus) == ((), 0x15B3, 0xFF00)


def test_folders_beside_devices(tmp_path: Path) -> None:
    tree = at(BELOW, FILES) | {f"{PCI}/{NIC}/class": "0"}
    assert read(tmp_path, tree).pci == (EXPECTED,)


@pytest.mark.parametrize("above", ["", "platform/soc.pcie/"])
def test_no_bus_at_all(tmp_path: Path, above: str) -> None:
    tree = at(BELOW.replace("sys/devices/", f"sys/devices/{above}"), FILES)
    port, nic = read(tmp_path, tree).pci
    assert (port.address, port.parents) == (ROOT_PORT, ("pci0000:17",))
    assert nic == EXPECTED


def test_a_bridge_inside_a_device(tmp_path: Path) -> None:
    """Intel's VMD is a PCI function with a PCI domain of its own below it."""
    folder = "devices/pci0000:17/0000:17:05.5/pci10000:00/10000:00:02.0/10000:01:00.0"
    tree = {f"sys/{folder}/class": "0x010802", f"{PCI}/10000:01:00.0": f"-> ../../../{folder}"}
    (found,) = read(tmp_path, tree).pci
    assert found.parents == ("pci0000:17", "0000:17:05.5", "pci10000:00", "10000:00:02.0")
    assert found.numa is None


@pytest.mark.parametrize("link", [
    "../../../devices/pci0000:17/0000:18:00.0",
    "../../../../../../../../../../../../../../../../etc",
    "0000:18:00.0",
])  # fmt: skip
def test_a_link_that_leads_nowhere(tmp_path: Path, link: str) -> None:
    found = read(tmp_path, {f"{PCI}/{NIC}": f"-> {link}"})
    assert found.pci == (PciDevice(NIC),)
    assert remarks(found)[-1] == f"odd {PCI}/{NIC}"


def test_bad_files(tmp_path: Path) -> None:
    bad: dict[str, str | bytes | None] = {
        f"{PCI}/{NIC}/vendor": b"\xde\xad\0\1",
        f"{PCI}/{NIC}/class": "0x",
        f"{PCI}/{NIC}/numa_node": None,
        f"{PCI}/{NIC}/local_cpulist": "8-15,",
        f"{PCI}/{NIC}/local_cpus": "0000ff00",
        f"{PCI}/{NIC}/driver": "plain text",
        f"{PCI}/uevent": "",
    }
    found = read(tmp_path, bad)
    assert found.pci == (PciDevice(NIC, local_cpus=0xFF00),)
    names = ("vendor", "class", "numa_node", "local_cpulist")
    assert remarks(found)[2:] == [f"unreadable {PCI}/{NIC}/{name}" for name in names]


def test_modalias_fills_in(tmp_path: Path) -> None:
    alias = "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00"
    (found,) = read(tmp_path, {f"{PCI}/{NIC}/modalias": alias}).pci
    assert (found.vendor, found.device, found.class_code, found.kind) == (0x10DE, 0x2330, 0x030200, "gpu")


def test_names(tmp_path: Path) -> None:
    device = "../../devices/pci0000:17/0000:17:00.0/0000:18:00.0"
    tree = at(BELOW, FILES) | {
        f"{PCI}/{NIC}": f"-> ../../../devices/pci0000:17/{ROOT_PORT}/{NIC}",
        "sys/class/net/ens1": f"-> {device}/net/ens1",
        "sys/class/net/lo": "-> ../../devices/virtual/net/lo",
        "sys/class/net/usb0": f"-> {device}/usb1/1-1/net/usb0",
        "sys/class/net/old0/device": f"-> ../../{device}",
        "sys/class/infiniband/mlx5_0": f"-> {device}/infiniband/mlx5_0",
        "sys/class/drm/card0": f"-> {device}/drm/card0",
        "sys/class/drm/card0-DP-1": f"-> {device}/drm/card0/card0-DP-1",
        "sys/class/drm/renderD128": f"-> {device}/drm/renderD128",
        "sys/class/drm/version": "drm 1.1.0",
    }
    (found,) = read(tmp_path, tree).pci
    assert found.names == ("ens1", "old0", "mlx5_0", "card0", "renderD128")


def test_names_without_classes(tmp_path: Path) -> None:
    tree = at(BELOW, FILES) | {f"{BELOW}/net/ens1/mtu": "1500", f"{BELOW}/infiniband/mlx5_0/fw_ver": "1"}
    assert read(tmp_path, tree).pci[-1].names == ("ens1", "mlx5_0")


def test_model(tmp_path: Path) -> None:
    tree = at(f"{PCI}/0000:3b:00.0", {"vendor": "0x10de", "class": "0x030200"}) | {
        "proc/driver/nvidia/gpus/0000:3b:00.0/information": "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 1",
        f"{PCI}/0000:c1:00.0/vendor": "0x1002",
        f"{PCI}/0000:c1:00.0/class": "0x120000",
        f"{PCI}/0000:c1:00.0/product_name": "AMD Instinct MI300X",
    }
    assert [found.model for found in read(tmp_path, tree).pci] == [
        "NVIDIA H100 80GB HBM3",
        "AMD Instinct MI300X",
    ]


def test_order() -> None:
    addresses = ["10000:00:00.0", "0000:0a:00.0", "0000:02:00.1", "0000:02:00.0"]
    assert sorted(addresses, key=place_of) == addresses[::-1]
