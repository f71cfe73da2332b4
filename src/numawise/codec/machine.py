"""Machines as files: what may stand in a machine file, and what it means.

Rules kept here:

1. ``decode_machine`` reads what a person wrote: every field is known, every id is in range
   and unique, every CPU and device stands on a NUMA node of the file.
2. ``machine_from`` reads what a program wrote, such as a recorded scenario.  It demands the
   same shape, but lets a device name a NUMA node that is not there, as the kubelet does
   (it leaves such a node out), and any resource name or distance row.
3. Both build the machine with the same code, so they agree wherever both accept.
4. Which devices a plugin prefers is a word; ``best-effort`` goes by the points of the links between them.
5. Memory is bytes, or a quantity (``512Gi``); a page size is kept in its canonical text.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from numawise.codec.document import Document, Part, number_text, shown
from numawise.codec.scalars import LARGEST_INT
from numawise.errors import quoted
from numawise.machine.model import Cpu, Device, DevicePlugin, Machine, Numa
from numawise.machine.preference import PREFERENCES, LinkedGpus, Preference
from numawise.quantity import Quantity

MOST_CPUS = 65536  # ids are below; keeps a mistyped one from filling the memory
MOST_NUMA = 64  # the kubelet's sets of NUMA nodes have as many bits
LINKED = "best-effort"
WAYS = (*PREFERENCES, LINKED)
LONGEST_POINTS = 10
UNIQUE = "give each id once"
LINKS_ADVICE = "give the points of the link between every two devices, as numawise machine new writes them"

MACHINE_FIELDS = ("cpus", "numa", "devices", "memory_capacity")
CPU_FIELDS = ("cpu", "core", "socket", "numa", "uncore_cache")
NUMA_FIELDS = ("id", "memory", "hugepages", "distances")
PLUGIN_FIELDS = ("devices", "preferred_allocation", "links", "refuses_several")
DEVICE_FIELDS = ("id", "numa", "unhealthy", "numa_unknown")

Count = Annotated[int, msgspec.Meta(ge=0)]
NumaId = Annotated[int, msgspec.Meta(ge=0, lt=MOST_NUMA)]


class MachineFileCpu(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of ``cpus``."""

    cpu: Annotated[int, msgspec.Meta(ge=0, lt=MOST_CPUS)]
    core: int
    socket: int
    numa: NumaId
    uncore_cache: int | None = None


class MachineFileNuma(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of ``numa``."""

    id: NumaId
    memory: int | float | str | None = None
    hugepages: dict[str, Count] | None = None
    distances: list[int] | None = None


class MachineFileDevice(msgspec.Struct, forbid_unknown_fields=True):
    """One device of a plugin."""

    id: str
    numa: list[int] | None = None
    unhealthy: bool | None = None
    numa_unknown: bool | None = None


class WirePlugin(msgspec.Struct, forbid_unknown_fields=True):
    """The devices of one resource name."""

    devices: list[MachineFileDevice]
    preferred_allocation: str | None = None
    links: list[str] | None = None
    refuses_several: bool | None = None


class WireMachine(msgspec.Struct, forbid_unknown_fields=True):
    """A whole machine file."""

    cpus: list[MachineFileCpu]
    numa: list[MachineFileNuma]
    devices: dict[str, WirePlugin] | None = None
    memory_capacity: int | float | str | None = None


def decode_machine(document: Document, *, devices_anywhere: bool = False) -> Machine:
    """Read a machine file (rule 1); ``devices_anywhere``: with rule 2's tolerance for devices."""
    check_machine(document.root, devices_anywhere=devices_anywhere)
    try:
        return _build(document.value)
    except (msgspec.ValidationError, ValueError) as problem:
        raise document.error((), f"is not a machine: {problem}", "compare it with an example") from None


def machine_from(value: Mapping[str, object], file: str = "") -> Machine:
    """Read a machine out of plain values (rule 2)."""
    try:
        return _build(value)
    except (msgspec.ValidationError, ValueError) as problem:
        document = Document(value, file)
        check_machine(document.root, devices_anywhere=True)  # mostly finds the better words
        raise document.error((), f"is not a machine: {problem}") from None


def devices_from(value: object, file: str = "") -> tuple[Device, ...]:
    """Read a list of devices, as a plugin sends it, out of plain values (rule 2)."""
    try:
        return _devices(msgspec.convert(value, list[MachineFileDevice]))
    except (msgspec.ValidationError, ValueError) as problem:
        document = Document(value, file)
        _check_devices(document.root, None)
        raise document.error((), f"is not a list of devices: {problem}") from None


def encode_machine(machine: Machine) -> dict[str, object]:
    """The machine as plain values; fields that say nothing are left out."""
    encoded: dict[str, object] = {
        "cpus": [_without_none(c, CPU_FIELDS) for c in machine.cpus],
        "numa": [_encode_numa(numa) for numa in machine.numa],
    }
    if machine.memory_capacity is not None:
        encoded["memory_capacity"] = machine.memory_capacity
    if machine.plugins:
        encoded["devices"] = {plugin.resource: _encode_plugin(plugin) for plugin in machine.plugins}
    return encoded


def _build(value: object) -> Machine:
    """Build the machine; raise ``ValueError`` where ids clash or lead nowhere."""
    wire = msgspec.convert(value, WireMachine)
    numas = {numa.id for numa in wire.numa}
    if not wire.cpus or len(numas) != len(wire.numa) or not numas.issuperset({c.numa for c in wire.cpus}):
        raise ValueError("its CPUs and NUMA nodes do not fit together")
    if len({c.cpu for c in wire.cpus}) != len(wire.cpus):
        raise ValueError("two CPUs have the same number")
    return Machine(
        cpus=tuple([Cpu(c.cpu, c.core, c.socket, c.numa, c.uncore_cache) for c in wire.cpus]),
        numa=tuple(
            Numa(
                id=numa.id,
                memory=_bytes(numa.memory) or 0,
                hugepages=tuple((_page_size(size), pages) for size, pages in (numa.hugepages or {}).items()),
                distances=tuple(numa.distances or ()),
            )
            for numa in wire.numa
        ),
        plugins=tuple(
            DevicePlugin(
                resource, _devices(plugin.devices), _preference(plugin), bool(plugin.refuses_several)
            )
            for resource, plugin in (wire.devices or {}).items()
        ),
        memory_capacity=_bytes(wire.memory_capacity),
    )


def _devices(wire: list[MachineFileDevice]) -> tuple[Device, ...]:
    if len({device.id for device in wire}) != len(wire):
        raise ValueError("two devices of one resource have the same id")
    return tuple(
        Device(d.id, None if d.numa is None else tuple(d.numa), not d.unhealthy, bool(d.numa_unknown))
        for d in wire
    )


def _preference(plugin: WirePlugin) -> Preference | None:
    name, count = plugin.preferred_allocation, len(plugin.devices)
    links = None if plugin.links is None else [_points(row) for row in plugin.links]
    if links is not None and (
        len(links) != count
        or any(len(row) != count for row in links)
        or any(links[i][j] != links[j][i] for i in range(count) for j in range(i))
    ):
        raise ValueError("links is not one number for every two devices, the same both ways")
    if name == LINKED:
        if links is None:
            raise ValueError(f"preferred_allocation {LINKED} goes by links, and there are none")
        return LinkedGpus(tuple(device.id for device in plugin.devices), tuple(links))
    if name is None:
        return None
    if name not in PREFERENCES:
        raise ValueError(f"preferred_allocation {shown(name)} is not one of {', '.join(WAYS)}")
    return PREFERENCES[name]


def _points(row: str) -> tuple[int, ...]:
    """Points of the links of one device; raise ``ValueError`` when they are not numbers."""
    if not all(word.isascii() and word.isdecimal() and len(word) < LONGEST_POINTS for word in row.split()):
        raise ValueError(f"{shown(row)} is not a list of numbers")
    return tuple(map(int, row.split()))


def _bytes(value: float | str | None) -> int | None:
    """A number of bytes, written as such or as a quantity; raise ``ValueError`` for any other."""
    if value is None:
        return None
    if type(value) is not int:
        amount = Quantity.parse(value.strip() if isinstance(value, str) else number_text(value))
        if amount.nano % 10**9:
            raise ValueError("it is not a whole number of bytes")
        value = amount.nano // 10**9
    if not 0 <= value <= LARGEST_INT:
        raise ValueError("it is negative" if value < 0 else "it is more than 64 bits hold")
    return int(value)


def _page_size(text: str) -> str:
    return str(Quantity.parse(text))


def check_machine(root: Part, *, devices_anywhere: bool = False) -> None:
    """Find the first thing in a machine file that cannot be, and say so with its place."""
    machine = root.mapping(what="a machine: a mapping with cpus and numa")
    if "kind" in machine and "cpus" not in machine:
        raise root.error(f"is {shown(machine['kind'])}, not a machine", "give a file with cpus and numa")
    root.mapping(MACHINE_FIELDS)
    nodes = root.at("numa").items("a list of NUMA nodes")
    if not nodes:
        raise root.at("numa").error("is missing or empty", "list the NUMA nodes with id and memory")
    numas: dict[int, int] = {}
    for i, node in enumerate(nodes):
        node.mapping(NUMA_FIELDS, "a NUMA node: a mapping with id and memory")
        number = node.at("id").integer(0, MOST_NUMA - 1)
        if number in numas:
            raise node.at("id").error(f"NUMA node {number} is already numa[{numas[number]}]", UNIQUE)
        numas[number] = i
        _check_numa(node, len(nodes))
    _check_cpus(root.at("cpus"), numas)
    _check_bytes(root.at("memory_capacity"))
    for resource in root.at("devices").mapping(what="a mapping from resource names to their devices"):
        plugin = root.at("devices", resource)
        plugin.mapping(PLUGIN_FIELDS, "a mapping with devices")
        if not devices_anywhere and ("/" not in resource or not all(resource.partition("/")[::2])):
            raise plugin.error("a resource name is a domain, / and a name", "write it like nvidia.com/gpu")
        preferred = plugin.at("preferred_allocation")
        if preferred.value not in (None, *WAYS):
            ways = ", ".join(map(quoted, WAYS))
            raise preferred.error(f"must be one of {ways} or absent, not {shown(preferred.value)}")
        several = plugin.at("refuses_several")
        if not isinstance(several.value, bool | None):
            raise several.error(f"must be true or false, not {shown(several.value)}")
        _check_devices(plugin.at("devices"), None if devices_anywhere else numas)
        _check_links(plugin.at("links"), len(plugin.at("devices").items()))
        if preferred.value == LINKED and plugin.at("links").value is None:
            raise preferred.error(f"{quoted(LINKED)} goes by links, and there are none", LINKS_ADVICE)


def _check_cpus(part: Part, numas: Mapping[int, int]) -> None:
    cpus = part.items("a list of CPUs")
    if not cpus:
        raise part.error("is missing or empty", "list the CPUs with cpu, core, socket and numa")
    seen: dict[int, int] = {}
    for i, cpu in enumerate(cpus):
        cpu.mapping(CPU_FIELDS, "a CPU: a mapping with cpu, core, socket and numa")
        number = cpu.at("cpu").integer(0, MOST_CPUS - 1)
        if number in seen:
            raise cpu.at("cpu").error(f"CPU {number} is already cpus[{seen[number]}]", UNIQUE)
        seen[number] = i
        for name in ("core", "socket"):
            cpu.at(name).integer(-1, LARGEST_INT)
        if cpu.at("uncore_cache").value is not None:
            cpu.at("uncore_cache").integer(0, LARGEST_INT)
        _check_on(cpu.at("numa"), numas)


def _check_numa(node: Part, count: int) -> None:
    _check_bytes(node.at("memory"))
    sizes: set[str] = set()
    for size in node.at("hugepages").mapping(what="a mapping from page sizes to numbers of pages"):
        pages = node.at("hugepages", size)
        try:
            amount = Quantity.parse(size)
        except ValueError as problem:
            raise pages.error(f"{shown(size)} is not a page size: {problem}", "write it like 2Mi") from None
        if amount.value < 1 or amount.value & (amount.value - 1) or amount.value * 10**9 != amount.nano:
            raise pages.error(f"{shown(size)} is not a power of two", "page sizes are like 2Mi or 1Gi")
        if _page_size(size) in sizes:
            raise pages.error(f"{shown(size)} is the same size as another one", "give each size once")
        sizes.add(_page_size(size))
        pages.integer(0, LARGEST_INT)
    distances = node.at("distances").items("a list of distances")
    if distances and len(distances) != count:
        wanted = f"must have one entry for each of the {count} NUMA nodes, not {len(distances)}"
        raise node.at("distances").error(wanted, "give all of them or leave it out")
    for distance in distances:
        distance.integer(0, LARGEST_INT)


def _check_devices(part: Part, numas: Mapping[int, int] | None) -> None:
    """Check one list of devices; ``numas`` None: they may be on any NUMA node."""
    if part.value is None:
        raise part.error("is missing", "list the devices with id and numa")
    seen: dict[str, int] = {}
    for i, device in enumerate(part.items("a list of devices")):
        device.mapping(DEVICE_FIELDS, "a device: a mapping with id and numa")
        name = device.at("id").text()
        if not name:
            raise device.at("id").error("is empty", "give each device an id")
        if name in seen:
            raise device.at("id").error(f"device {shown(name)} is already entry {seen[name]}", UNIQUE)
        seen[name] = i
        for numa in device.at("numa").items("a list of NUMA ids, [] or null"):
            if numas is None:
                numa.integer(-LARGEST_INT, LARGEST_INT)
            else:
                _check_on(numa, numas)
        for flag in (device.at("unhealthy"), device.at("numa_unknown")):
            if not isinstance(flag.value, bool | None):
                raise flag.error(f"must be true or false, not {shown(flag.value)}")


def _check_links(part: Part, count: int) -> None:
    """Check the points of links: a row for each device, the same both ways."""
    if part.value is None:
        return
    rows = part.items("a list of rows")
    points: list[tuple[int, ...]] = []
    for row in rows:
        try:
            points.append(_points(row.text()))
        except ValueError as problem:
            raise row.error(str(problem), LINKS_ADVICE) from None
    if len(points) != count or any(len(numbers) != count for numbers in points):
        raise part.error(f"must have {count} rows of {count} numbers, as there are devices", LINKS_ADVICE)
    for i, numbers in enumerate(points):
        for j, number in enumerate(numbers[:i]):
            if number != points[j][i]:
                raise part.error(
                    f"from device {i} to {j} it is {number}, and back {points[j][i]}", LINKS_ADVICE
                )


def _check_on(part: Part, numas: Mapping[int, int]) -> None:
    number = part.integer(0, MOST_NUMA - 1)
    if number not in numas:
        known = ", ".join(map(str, sorted(numas)))
        raise part.error(f"there is no NUMA node {number}", f"numa lists {known}")


def _check_bytes(part: Part) -> None:
    value, reason = part.value, "it is neither a number nor text"
    if isinstance(value, int | float | str | None) and not isinstance(value, bool):
        try:
            _bytes(value)
        except ValueError as problem:
            reason = str(problem)
        else:
            return
    raise part.error(f"{shown(value)} is not an amount of memory: {reason}", "write bytes, or 512Gi")


def _encode_numa(numa: Numa) -> dict[str, object]:
    encoded: dict[str, object] = {"id": numa.id, "memory": numa.memory}
    if numa.hugepages:
        encoded["hugepages"] = dict(numa.hugepages)
    if numa.distances:
        encoded["distances"] = list(numa.distances)
    return encoded


def device_list(devices: Iterable[Device]) -> list[dict[str, object]]:
    """Devices as a plugin lists them, in the form that ``devices_from`` reads."""
    found: list[dict[str, object]] = []
    for device in devices:
        found.append({"id": device.id, "numa": None if device.numa is None else list(device.numa)})
        if not device.healthy:
            found[-1]["unhealthy"] = True
        if device.numa_unknown:
            found[-1]["numa_unknown"] = True
    return found


def _encode_plugin(plugin: DevicePlugin) -> dict[str, object]:
    devices = device_list(plugin.devices)
    encoded: dict[str, object] = {"devices": devices}
    preference = plugin.preference
    if isinstance(preference, LinkedGpus):
        at = [preference.gpus.index(device.id) for device in plugin.devices if device.id in preference.gpus]
        if len(at) == len(devices):
            encoded |= {
                "preferred_allocation": LINKED,
                "links": [" ".join(str(preference.points[i][j]) for j in at) for i in at],
            }
    elif name := next((name for name, known in PREFERENCES.items() if known == preference), ""):
        encoded["preferred_allocation"] = name  # that of our own plugin is not one of a machine file
    return encoded | ({"refuses_several": True} if plugin.refuses_several else {})


def _without_none(value: object, fields: tuple[str, ...]) -> dict[str, object]:
    found = {name: getattr(value, name) for name in fields}
    return {name: content for name, content in found.items() if content is not None}
