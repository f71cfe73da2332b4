"""Hardware as plain data for JSON and YAML, and back.

Rules kept here:

1. Sets of CPUs and NUMA nodes are text in the kernel's list format, ``0-3,8``; vendor, device and class
   are hexadecimal text as the kernel prints them.
2. ``null`` is "not known"; an empty text or list is "known, and none".
3. Distances stand by position in the list of NUMA nodes.
4. What is written can be read again and is the same value.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from numawise.codec.document import Document, read_documents
from numawise.errors import InputError
from numawise.machine.hardware import (
    Cache,
    Gpu,
    Hardware,
    Host,
    Matrix,
    MemoryNode,
    PciDevice,
    Remark,
    Thread,
    gpu_maker,
)
from numawise.results.plain import API_VERSION
from numawise.sets import LARGEST_ID, format_ids, parse_ids

KIND = "Hardware"
EXPECTED = "give what 'numawise discover -o json' wrote"

Id = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_ID)]
Bytes = Annotated[int, msgspec.Meta(ge=0)]


class WireCpu(msgspec.Struct):
    """An entry of ``cpus``."""

    cpu: Id
    core: int | None = None
    socket: int | None = None
    numa: Id | None = None
    die: int | None = None
    siblings: str | None = None
    l2: str | None = None
    l2_id: int | None = None
    l2_size: int | None = None
    l3: str | None = None
    l3_id: int | None = None
    l3_size: int | None = None


class WireNuma(msgspec.Struct):
    """An entry of ``numa``."""

    id: Id
    cpus: str = ""
    memory: Bytes | None = None
    hugepages: dict[str, Bytes] = {}
    distances: list[int | None] = []
    note: str = ""


class WireDevice(msgspec.Struct, rename={"class_": "class"}):
    """An entry of ``devices``."""

    address: str
    vendor: str | None = None
    device: str | None = None
    class_: str | None = None
    kind: str = "other"
    numa: int | None = None
    local_cpus: str | None = None
    parents: list[str] = []
    driver: str = ""
    names: list[str] = []
    model: str = ""


class WireGpu(msgspec.Struct):
    """An entry of ``gpu_devices``."""

    name: str
    uuid: str = ""
    address: str = ""
    model: str = ""
    memory: int | None = None
    cpus: str | None = None
    numa: list[Id] | None = None
    own_numa: Id | None = None
    parent: str = ""
    vendor: str | None = None
    resource: str = ""


class WireHost(msgspec.Struct):
    """The field ``host``."""

    cpuset: str | None = None
    mems: str | None = None
    isolated: str | None = None
    numa_balancing: bool | None = None
    cgroup: str = ""
    kernel: str = ""


class WireRemark(msgspec.Struct):
    """An entry of ``remarks``."""

    kind: str
    place: str
    text: str


class WireHardware(msgspec.Struct):
    """A whole file."""

    cpus: list[WireCpu] = []
    offline: str = ""
    numa: list[WireNuma] = []
    devices: list[WireDevice] = []
    gpu_devices: list[WireGpu] = []
    gpus: list[str] = []
    nics: list[str] = []
    links: dict[str, dict[str, str]] | None = None
    cpu_affinity: dict[str, str | None] = {}
    numa_affinity: dict[str, str | None] = {}
    gpu_numa_id: dict[str, str | None] = {}
    nic_names: dict[str, str] = {}
    host: WireHost | None = None
    memory_capacity: Bytes | None = None
    name: str = ""
    sources: list[str] = []
    remarks: list[WireRemark] = []


def hardware_data(hardware: Hardware) -> dict[str, object]:
    """Hardware as plain data."""
    ids = [node.id for node in hardware.numa]
    matrix = hardware.matrix or Matrix(tuple(gpu.name for gpu in hardware.gpus))
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": hardware.name,
        "sources": list(hardware.sources),
        "cpus": [_cpu(thread) for thread in hardware.threads],
        "offline": format_ids(hardware.offline),
        "numa": [_numa(node, ids) for node in hardware.numa],
        "memory_capacity": hardware.memory_capacity,
        "devices": [_device(device) for device in hardware.pci],
        "gpu_devices": [_gpu(gpu) for gpu in hardware.gpus],
        "gpus": list(matrix.gpus),
        "nics": list(matrix.nics),
        "links": {row: dict(cells) for row, cells in matrix.links.items()} if hardware.matrix else None,
        "cpu_affinity": dict(matrix.cpu_affinity),
        "numa_affinity": dict(matrix.numa_affinity),
        "gpu_numa_id": dict(matrix.gpu_numa_id),
        "nic_names": dict(matrix.nic_names),
        "host": _host(hardware.host) if hardware.host else None,
        "remarks": [{"kind": r.kind, "place": r.place, "text": r.text} for r in hardware.remarks],
    }


def read(text: str, file: str = "") -> Hardware:
    """Read a saved discovery."""
    documents = read_documents(text, file)
    if len(documents) != 1:
        raise InputError(f"holds {len(documents)} documents; expected one", file=file, advice=EXPECTED)
    return hardware_from(documents[0])


def is_hardware(value: object) -> bool:
    """True for what ``hardware_data`` makes."""
    return isinstance(value, Mapping) and value.get("kind") == KIND and "cpus" in value


def hardware_from(document: Document) -> Hardware:
    """Read hardware out of a document."""
    if not is_hardware(document.value):
        raise document.error((), "is not saved hardware", EXPECTED)
    try:
        return _build(msgspec.convert(document.value, WireHardware))
    except (msgspec.ValidationError, ValueError) as problem:
        raise document.error((), f"is not saved hardware: {problem}", EXPECTED) from None


def _cpu(thread: Thread) -> dict[str, object]:
    l2, l3 = thread.l2, thread.l3
    return {
        "cpu": thread.cpu,
        "core": thread.core,
        "socket": thread.socket,
        "numa": thread.numa,
        "die": thread.die,
        "siblings": format_ids(thread.siblings) or None,
        "l2": None if l2 is None else format_ids(l2.cpus),
        "l2_id": l2.id if l2 else None,
        "l2_size": l2.size if l2 else None,
        "l3": None if l3 is None else format_ids(l3.cpus),
        "l3_id": l3.id if l3 else None,
        "l3_size": l3.size if l3 else None,
    }


def _numa(node: MemoryNode, ids: list[int]) -> dict[str, object]:
    row = dict(node.distances)
    return {
        "id": node.id,
        "cpus": format_ids(node.cpus),
        "memory": node.memory,
        "hugepages": dict(node.hugepages),
        "distances": [row.get(i) for i in ids] if row else [],
        "note": node.note,
    }


def _device(device: PciDevice) -> dict[str, object]:
    return {
        "address": device.address,
        "vendor": _hex(device.vendor, 4),
        "device": _hex(device.device, 4),
        "class": _hex(device.class_code, 6),
        "kind": device.kind,
        "numa": device.numa,
        "local_cpus": _ids(device.local_cpus),
        "parents": list(device.parents),
        "driver": device.driver,
        "names": list(device.names),
        "model": device.model,
    }


def _gpu(gpu: Gpu) -> dict[str, object]:
    return {
        "name": gpu.name,
        "uuid": gpu.uuid,
        "address": gpu.address,
        "model": gpu.model,
        "memory": gpu.memory,
        "cpus": _ids(gpu.cpus),
        "numa": None if gpu.numa is None else list(gpu.numa),
        "own_numa": gpu.own_numa,
        "parent": gpu.parent,
        "vendor": _hex(gpu.maker, 4),
        "resource": gpu.resource,
    }


def _host(host: Host) -> dict[str, object]:
    return {
        "cpuset": _ids(host.cpuset),
        "mems": _ids(host.mems),
        "isolated": _ids(host.isolated),
        "numa_balancing": host.numa_balancing,
        "cgroup": host.cgroup,
        "kernel": host.kernel,
    }


def _ids(bits: int | None) -> str | None:
    return None if bits is None else format_ids(bits)


def _hex(number: int | None, digits: int) -> str | None:
    return None if number is None else f"0x{number:0{digits}x}"


def _build(wire: WireHardware) -> Hardware:
    ids = [node.id for node in wire.numa]
    if len({cpu.cpu for cpu in wire.cpus}) != len(wire.cpus) or len(set(ids)) != len(ids):
        raise ValueError("a CPU or NUMA node is listed twice")
    vendors = {device.address: _number(device.vendor) for device in wire.devices}
    return Hardware(
        threads=tuple(_thread(cpu) for cpu in wire.cpus),
        offline=parse_ids(wire.offline),
        numa=tuple(_node(node, ids) for node in wire.numa),
        pci=tuple(
            PciDevice(
                device.address,
                vendor=_number(device.vendor),
                device=_number(device.device),
                class_code=_number(device.class_),
                kind=device.kind,
                numa=device.numa,
                local_cpus=_bits(device.local_cpus),
                parents=tuple(device.parents),
                driver=device.driver,
                names=tuple(device.names),
                model=device.model,
            )
            for device in wire.devices
        ),
        gpus=tuple(
            Gpu(
                gpu.name,
                uuid=gpu.uuid,
                address=gpu.address,
                model=gpu.model,
                memory=gpu.memory,
                cpus=_bits(gpu.cpus),
                numa=None if gpu.numa is None else tuple(gpu.numa),
                own_numa=gpu.own_numa,
                parent=gpu.parent,
                maker=_number(gpu.vendor) or vendors.get(gpu.address) or gpu_maker(gpu.model),
                resource=gpu.resource,
            )
            for gpu in wire.gpu_devices
        ),
        matrix=_matrix(wire),
        host=_host_from(wire.host) if wire.host else None,
        memory_capacity=wire.memory_capacity,
        name=wire.name,
        sources=tuple(wire.sources),
        remarks=tuple(Remark(remark.kind, remark.place, remark.text) for remark in wire.remarks),
    )


def _thread(wire: WireCpu) -> Thread:
    return Thread(
        wire.cpu,
        core=wire.core,
        socket=wire.socket,
        die=wire.die,
        numa=wire.numa,
        siblings=parse_ids(wire.siblings or ""),
        l2=None if wire.l2 is None else Cache(parse_ids(wire.l2), wire.l2_size, wire.l2_id),
        l3=None if wire.l3 is None else Cache(parse_ids(wire.l3), wire.l3_size, wire.l3_id),
    )


def _node(wire: WireNuma, ids: list[int]) -> MemoryNode:
    if wire.distances and len(wire.distances) != len(ids):
        raise ValueError(f"NUMA node {wire.id} has {len(wire.distances)} distances for {len(ids)} nodes")
    return MemoryNode(
        wire.id,
        parse_ids(wire.cpus),
        wire.memory,
        tuple(wire.hugepages.items()),
        tuple((to, far) for to, far in zip(ids, wire.distances, strict=False) if far is not None),
        wire.note,
    )


def _matrix(wire: WireHardware) -> Matrix | None:
    if wire.links is None:
        return None
    return Matrix(
        gpus=tuple(wire.gpus),
        nics=tuple(wire.nics),
        links=wire.links,
        cpu_affinity=wire.cpu_affinity,
        numa_affinity=wire.numa_affinity,
        gpu_numa_id=wire.gpu_numa_id,
        nic_names=wire.nic_names,
    )


def _host_from(wire: WireHost) -> Host:
    return Host(
        cpuset=_bits(wire.cpuset),
        mems=_bits(wire.mems),
        isolated=_bits(wire.isolated),
        numa_balancing=wire.numa_balancing,
        cgroup=wire.cgroup,
        kernel=wire.kernel,
    )


def _bits(text: str | None) -> int | None:
    return None if text is None else parse_ids(text)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text, 16)
