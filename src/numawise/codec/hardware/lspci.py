"""``lspci``, also with ``-v``, ``-nn``, ``-n``, ``-D``, ``-k`` or ``-vmm``: PCI devices and their NUMA nodes.

Rules kept here:

1. A device begins where a line begins with an address and a class; what is indented below belongs to it.
2. Without ``-D`` the domain is 0, as lspci leaves it out then.
3. A class is known by its number, or else by lspci's name for it; vendor and device only by numbers, except
   for the makers of GPUs.  What the text does not say is None: ``lspci`` alone names no NUMA node.
"""

import re
from collections.abc import Sequence

from numawise.codec.hardware import pasted
from numawise.codec.hardware.xmltree import pci_address
from numawise.errors import InputError, quoted
from numawise.machine.hardware import (
    AMD,
    INTEL,
    NVIDIA,
    ODD,
    UNKNOWN,
    UNREADABLE,
    Hardware,
    PciDevice,
    Remark,
)
from numawise.machine.pci import pci_kind
from numawise.strconv import whole_number
from numawise.values import dataclass, field

SOURCE = "lspci"
ADVICE = "give what lspci -D -nn -v prints"
ADDRESS = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
DEVICE = re.compile(rf"({ADDRESS})[ \t]+(.+)")
CLASS = re.compile(r"([^:\[\]\"]+?)[ \t]*(?:\[([0-9a-fA-F]{4})\])?:[ \t]+(.+)")
NUMBERS = re.compile(r"([0-9a-fA-F]{4}):[ \t]+([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\b(.*)")
QUOTED = re.compile(r'"([^"]*)"')
IDS = re.compile(r"\[([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\]")
NUMBERED = re.compile(r"(.*?)[ \t]*\[([0-9a-fA-F]{4})\]")
REVISION = re.compile(r"[ \t]*\((?:rev|prog-if)\b.*")
INTERFACE = re.compile(r"\(prog-if ([0-9a-fA-F]{2})\b")
NUMA = re.compile(r"NUMA ?[Nn]ode:?[ \t]+(-?[0-9]{1,5})\b")
DRIVER = re.compile(r"Kernel driver in use:[ \t]*(\S+)")
TAGGED = re.compile(r"(Slot|Class|Vendor|Device|NUMANode|Driver|ProgIf):[ \t]+(.+)")
LONGEST = 400
OTHER_MAKER = 0  # known by name, and not as a maker of GPUs
MAKERS = {NVIDIA: "NVIDIA", AMD: "Advanced Micro Devices, Inc. [AMD/ATI]", INTEL: "Intel"}
CLASSES = {
    "SCSI storage controller": 0x0100, "IDE interface": 0x0101, "RAID bus controller": 0x0104,
    "SATA controller": 0x0106, "Serial Attached SCSI controller": 0x0107,
    "Non-Volatile memory controller": 0x0108, "Mass storage controller": 0x0180,
    "Ethernet controller": 0x0200, "Infiniband controller": 0x0207, "Fabric controller": 0x0208,
    "Network controller": 0x0280, "VGA compatible controller": 0x0300, "3D controller": 0x0302,
    "Display controller": 0x0380, "Audio device": 0x0403, "RAM memory": 0x0500,
    "Memory controller": 0x0580, "CXL": 0x0502, "Host bridge": 0x0600, "ISA bridge": 0x0601,
    "PCI bridge": 0x0604, "Bridge": 0x0680, "Serial controller": 0x0700,
    "Communication controller": 0x0780, "PIC": 0x0800, "System peripheral": 0x0880,
    "Co-processor": 0x0B40, "USB controller": 0x0C03, "Fibre Channel": 0x0C04, "SMBus": 0x0C05,
    "InfiniBand": 0x0C06, "IPMI Interface": 0x0C07, "Signal processing controller": 0x1180,
    "Processing accelerators": 0x1200, "Non-Essential Instrumentation": 0x1300,
    "Encryption controller": 0x1080,
}  # fmt: skip


@dataclass(slots=True)
class LspciEntry:
    """A device and the lines below it."""

    address: str
    head: str
    below: list[str] = field(default_factory=list)


def read(text: str, file: str = "") -> Hardware:
    """Read a list of PCI devices."""
    remarks: list[Remark] = []
    found: dict[str, PciDevice] = {}
    for entry in _entries(pasted.lines(text)):
        device = _device(entry)
        if device is None:
            remarks.append(Remark(UNREADABLE, entry.address, f"{quoted(entry.head)} names no class"))
        elif device.address in found:
            remarks.append(Remark(ODD, device.address, "is listed twice; using the first one"))
        else:
            found[device.address] = device
    if not found:
        raise InputError("lists no PCI device", file=file, advice=ADVICE)
    if all(device.numa is None for device in found.values()):
        remarks.append(Remark(UNKNOWN, "NUMA", "the text names no NUMA nodes; lspci -v prints them"))
    return Hardware(pci=tuple(found.values()), sources=(SOURCE,), remarks=tuple(remarks))


def _entries(lines: Sequence[str]) -> list[LspciEntry]:
    entries: list[LspciEntry] = []
    tags: dict[str, str] = {}
    for line in [*lines, ""]:
        tagged = TAGGED.fullmatch(line.strip())
        if tagged and (tagged[1] == "Slot" or tags):
            if tagged[1] == "Slot" and tags:
                entries += _from_tags(tags)
                tags = {}
            tags.setdefault(tagged[1], tagged[2].strip())
            continue
        if not line.strip():
            entries += _from_tags(tags)
            tags = {}
            continue
        device = DEVICE.match(line.strip()[:LONGEST])
        if device and (CLASS.match(device[2]) or NUMBERS.match(device[2]) or device[2].startswith('"')):
            entries.append(LspciEntry(device[1], device[2]))
        elif entries and (line[:1] in " \t" or NUMA.search(line) or DRIVER.search(line)):
            entries[-1].below.append(line)
    return entries


def _from_tags(tags: dict[str, str]) -> list[LspciEntry]:
    """An entry of ``lspci -vmm`` written as the others are."""
    if "Slot" not in tags or "Class" not in tags or not re.fullmatch(ADDRESS, tags["Slot"]):
        return []
    vendor, device = NUMBERED.fullmatch(tags.get("Vendor", "")), NUMBERED.fullmatch(tags.get("Device", ""))
    name = (
        f"{vendor[1] if vendor else tags.get('Vendor', '')} {device[1] if device else tags.get('Device', '')}"
    )
    ids = f" [{vendor[2]}:{device[2]}]" if vendor and device else ""
    below = [f"NUMA node: {tags['NUMANode']}"] if "NUMANode" in tags else []
    below += [f"Kernel driver in use: {tags['Driver']}"] if "Driver" in tags else []
    interface = f" (prog-if {tags['ProgIf']})" if "ProgIf" in tags else ""
    return [LspciEntry(tags["Slot"], f"{tags['Class']}: {name}{ids}{interface}", below)]


def _device(entry: LspciEntry) -> PciDevice | None:
    address = pci_address(entry.address)
    parts = _parts(entry.head)
    if address is None or parts is None:
        return None
    code, vendor, device, model = parts
    interface = INTERFACE.search(entry.head)
    class_code = None if code is None else code << 8 | (int(interface[1], 16) if interface else 0)
    below = "\n".join(entry.below)
    numa, driver = NUMA.search(below), DRIVER.search(below)
    return PciDevice(
        address,
        vendor=vendor,
        device=device,
        class_code=class_code,
        kind=pci_kind(class_code, OTHER_MAKER if vendor is None and model else vendor),
        numa=whole_number(numa[1]) if numa else None,
        driver=driver[1] if driver else "",
        model=model,
    )


def _parts(head: str) -> tuple[int | None, int | None, int | None, str] | None:
    """Class, vendor, device and model."""
    numbers = NUMBERS.match(head)
    if numbers:
        return int(numbers[1], 16), int(numbers[2], 16), int(numbers[3], 16), ""
    if head.startswith('"'):  # lspci -mm
        quoted = QUOTED.findall(head)
        if len(quoted) < 3:
            return None
        head = f"{quoted[0]}: {quoted[1]} {quoted[2]}"
    found = CLASS.match(head)
    if not found:
        return None
    name = found[1].strip()
    code = int(found[2], 16) if found[2] else CLASSES.get(name)
    if code is None and name.startswith("Class "):
        number = name.split()[-1]
        code = int(number, 16) if re.fullmatch(r"[0-9a-fA-F]{4}", number) else None
    model = REVISION.sub("", found[3])
    ids = IDS.search(found[3])
    model = IDS.sub("", model).strip()
    if ids:
        return code, int(ids[1], 16), int(ids[2], 16), model
    vendor = next((number for number, maker in MAKERS.items() if model.startswith(maker)), None)
    return code, vendor, None, model
