"""PCI functions out of ``/sys/bus/pci`` and ``/sys/devices``.

Rules kept here:

1. ``/sys/bus/pci/devices`` names every function and links to its folder below ``/sys/devices``; the path of
   that folder is the chain of bridges.  Copies of trees may have folders in place of the links, or no
   ``bus`` at all: then the bridges are found by walking ``/sys/devices``.
2. Links are read as text and followed below the root, so a copy never leads to this host's own files.
3. Vendor, device and class stand in files of their own; where those are missing, ``modalias`` has them.
4. A display adapter is a GPU when its maker makes GPUs: the VGA output of a board controller or of a
   virtual machine is none.  AMD's accelerators of class 12 are GPUs by all but their class.
5. The system's names for a function are those whose ``/sys/class`` entry lies below its folder, unless a
   USB bus lies between.
"""

import os.path
import re
from collections.abc import Mapping

from numawise.host.files import Tree
from numawise.machine.hardware import ACCELERATOR, GPU, NIC, NVME, ODD, STORAGE, PciDevice
from numawise.machine.pci import pci_kind
from numawise.values import replace

BUS = "sys/bus/pci/devices"
DEVICES = "sys/devices"
NVIDIA_GPUS = "proc/driver/nvidia/gpus"
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
HOST = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.ASCII)
MODALIAS = re.compile(
    r"pci:v([0-9A-F]{8})d([0-9A-F]{8})sv[0-9A-F]{8}sd[0-9A-F]{8}bc([0-9A-F]{2})sc([0-9A-F]{2})i([0-9A-F]{2})"
)
MODEL = re.compile(r"^Model:\s*(\S.*)$", re.MULTILINE)
DRM = re.compile(r"card[0-9]+|renderD[0-9]+", re.ASCII)
DEEPEST = 32
NAMES = (
    ("sys/class/net", "net", {NIC}),
    ("sys/class/infiniband", "infiniband", {NIC}),
    ("sys/class/nvme", "nvme", {NVME}),
    ("sys/block", "block", {STORAGE, NVME}),
    ("sys/class/drm", "drm", {GPU}),
    ("sys/class/accel", "accel", {ACCELERATOR}),
)
"""Class folder, its counterpart inside a device's folder, and the kinds of device that have one."""


def read_pci(tree: Tree) -> tuple[PciDevice, ...]:
    """Every PCI function, by address."""
    folders = _folders(tree)
    found = [_device(tree, address, folders[address]) for address in sorted(folders, key=place_of)]
    names = _names(tree, found, folders)
    return tuple(
        replace(device, names=tuple(names[device.address])) if device.address in names else device
        for device in found
    )


def place_of(address: str) -> tuple[int, ...]:
    """An address as numbers: domain, bus, device, function."""
    return tuple(int(part, 16) for part in address.replace(".", ":").split(":"))


def _folders(tree: Tree) -> dict[str, str]:
    """Address → folder below the root; empty when the link leads nowhere."""
    found: dict[str, str] = {}
    plain = []
    for name in tree.names(BUS):
        if not ADDRESS.fullmatch(name):
            continue
        link = tree.link(f"{BUS}/{name}")
        if link is None:
            plain.append(name)
            continue
        folder = _below_root(BUS, link)
        if folder and tree.leads_somewhere(folder):
            found[name] = folder
        else:
            tree.remark(ODD, f"{BUS}/{name}", f"leads nowhere: {link}")
            found[name] = ""
    if plain or not found:
        walked: dict[str, str] = {}
        _walk(tree, DEVICES, walked, 0)
        for name in tree.names(f"{DEVICES}/platform"):  # bridges of small ARM and RISC-V machines
            _walk(tree, f"{DEVICES}/platform/{name}", walked, 0)
        for name in plain:
            found[name] = walked.get(name, f"{BUS}/{name}")
        if not found:
            return walked
    return found


def _below_root(folder: str, link: str) -> str:
    """The path, from the root on, that a link in a folder leads to; empty when it leads out of the root."""
    path = os.path.normpath(link.lstrip("/") if link.startswith("/") else f"{folder}/{link}")
    return "" if path.startswith("..") else path


def _walk(tree: Tree, folder: str, found: dict[str, str], depth: int) -> None:
    for name in tree.names(folder) if depth < DEEPEST else ():
        path = f"{folder}/{name}"
        is_function = ADDRESS.fullmatch(name)
        if (is_function or HOST.fullmatch(name)) and tree.link(path) is None:
            if is_function:
                found.setdefault(name, path)
            _walk(tree, path, found, depth + 1)


def _device(tree: Tree, address: str, folder: str) -> PciDevice:
    if not folder:
        return PciDevice(address)
    place = folder + "/"
    vendor, device = tree.number(place + "vendor"), tree.number(place + "device")
    class_code = tree.number(place + "class")
    if vendor is None or device is None or class_code is None:
        alias = MODALIAS.match(tree.text(place + "modalias") or "")
        if alias:
            vendor = int(alias[1], 16) if vendor is None else vendor
            device = int(alias[2], 16) if device is None else device
            class_code = int(alias[3] + alias[4] + alias[5], 16) if class_code is None else class_code
    kind = pci_kind(class_code, vendor)
    driver = tree.link(place + "driver")
    above = folder.split("/")[:-1]
    return PciDevice(
        address=address,
        vendor=vendor,
        device=device,
        class_code=class_code,
        kind=kind,
        numa=tree.number(place + "numa_node"),
        local_cpus=tree.ids_or_mask(place + "local_cpulist", place + "local_cpus"),
        parents=tuple(part for part in above if HOST.fullmatch(part) or ADDRESS.fullmatch(part)),
        driver=driver.rpartition("/")[2] if driver else "",
        model=_model(tree, address, place) if kind == GPU else "",
    )


def _model(tree: Tree, address: str, place: str) -> str:
    """A GPU's name on the market, where its driver reports it."""
    model = MODEL.search(tree.text(f"{NVIDIA_GPUS}/{address}/information") or "")
    return model[1].strip() if model else tree.text(place + "product_name") or ""


def _names(tree: Tree, devices: list[PciDevice], folders: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for class_folder, inner, kinds in NAMES:
        entries = sorted(name for name in tree.names(class_folder) if inner != "drm" or DRM.fullmatch(name))
        for name in entries:
            path = f"{class_folder}/{name}"
            link = tree.link(path) or tree.link(f"{path}/device") or ""
            owners = ADDRESS.findall(link)
            if owners and "/usb" not in link:
                found.setdefault(owners[-1], []).append(name)
        if not entries:  # a copy without the class; the names also stand inside the devices' folders
            for device in devices:
                if device.kind in kinds and folders[device.address]:
                    for name in sorted(tree.names(f"{folders[device.address]}/{inner}")):
                        if inner != "drm" or DRM.fullmatch(name):
                            found.setdefault(device.address, []).append(name)
    return found
