"""hwloc's XML as hardware: what ``lstopo --of xml`` writes, of hwloc 1, 2 and 3.

Rules kept here:

1. Sets are hwloc's own: a NUMA node without CPUs of its own (HBM, CXL) has those it is local to.
   A CPU belongs to the nearest node of ordinary memory, the lowest one where there are several.
2. hwloc 1 puts the cores inside the NUMA nodes, and a node it may not use has an empty set; such a
   node is left out, as later versions do, and a remark says so.
3. A PCI device is near to the CPUs of the object it is attached to, and on a NUMA node where that is one.
4. Links between GPUs are those measured (NVLink, XGMI); the others follow from the bridges.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from numawise.codec.hardware.hwloc_items import HwlocItem, items_of, kibibytes, type_of
from numawise.codec.hardware.xmltree import (
    Element,
    decimal,
    hexadecimal,
    matrix_of,
    number,
    pci_address,
    words,
    xml_tree,
)
from numawise.errors import InputError
from numawise.machine.hardware import (
    AMD,
    BRIDGE,
    INTEL,
    NVIDIA,
    ODD,
    UNKNOWN,
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
from numawise.machine.pci import pci_kind
from numawise.quantity import Quantity
from numawise.sets import LARGEST_ID, format_ids, ids_of
from numawise.strconv import whole_number
from numawise.values import replace

SOURCE = "hwloc"
NEWEST = 3

ORDINARY = frozenset({"", "DRAM"})
LATENCY = 4
COMPUTE = re.compile(r"(nvml|cuda|rsmi|ze|opencl)(\d+)")
LIBRARIES = ("nvml", "rsmi", "ze", "cuda", "opencl")  # the most distinctive GPU numbers first
GPU_MEMORY = ("CUDAGlobalMemorySize", "RSMIVRAMSize", "LevelZeroHBMSize", "OpenCLGlobalMemorySize")
BANDWIDTHS = {"NVLinkBandwidth": "NV", "XGMIBandwidth": "XGMI", "XeLinkBandwidth": "XeLink"}
NVLINK_RATES = (25_000, 20_000)  # MB/s of one link: the second is the first generation's
PCI_TYPE = re.compile(r"([0-9a-fA-F]+) \[([0-9a-fA-F]+):([0-9a-fA-F]+)\](?: \[\S*\])?(?: (\S+))?(?: (\S+))?")
BRIDGE_PCI = re.compile(r"([0-9a-fA-F]+):\[([0-9a-fA-F]+)-([0-9a-fA-F]+)\]")


def read(text: str, file: str = "") -> Hardware:
    """Read an hwloc XML text."""
    root = xml_tree(text, file)
    top = next(root.all("object"), None)
    if root.tag not in ("topology", "root") or top is None:
        advice = "export it with lstopo --of xml"
        raise InputError("is not an hwloc topology", file=file, line=root.line, advice=advice)
    version = number(root.attributes.get("version", "1").partition(".")[0]) or 1
    items = tuple(items_of(top))
    remarks: list[Remark] = []
    if version > NEWEST:
        remarks.append(Remark(ODD, file, f"format {root.attributes['version']} is newer than this reader"))
    nodes = _numa_nodes(items, version, root, remarks)
    threads = _threads(items, nodes, file)
    pci = tuple(_pci(items, nodes))
    gpus, labels = _gpus(items, pci, nodes)
    infos = items[0].infos | {
        e.attributes.get("name", ""): e.attributes.get("value", "") for e in root.all("info")
    }
    offline = _absent(items[0], threads, version, remarks)
    return Hardware(
        threads=threads,
        offline=offline,
        numa=nodes,
        pci=pci,
        gpus=gpus,
        matrix=_matrix(root, pci, gpus, labels, items),
        host=Host(
            cpuset=words(top.attributes.get("allowed_cpuset")),
            mems=words(top.attributes.get("allowed_nodeset")),
            kernel=infos.get("OSRelease", ""),
        ),
        name=infos.get("HostName", ""),
        sources=(SOURCE,),
        remarks=tuple(remarks),
    )


def _numa_nodes(
    items: Sequence[HwlocItem], version: int, root: Element, remarks: list[Remark]
) -> tuple[MemoryNode, ...]:
    top = items[0]
    usable = words(top.element.attributes.get("nodeset")) if version == 1 else None
    found: dict[int, MemoryNode] = {}
    left_out: list[int] = []
    order: list[tuple[HwlocItem, int]] = []
    for item in items:
        if item.type != "NUMANode":
            continue
        index = item.index
        if index is None or index > LARGEST_ID or index in found:
            remarks.append(Remark(ODD, f"NUMA node {index}", "has no number of its own, and is left out"))
            continue
        order.append((item, index))
        if usable and not usable >> index & 1:
            left_out.append(index)
            continue
        cpus = item.cpus if version > 1 else _cpus_before_2(item)
        memory = number(item.element.attributes.get("local_memory"))
        note = item.subtype if item.subtype != "DRAM" else ""
        found[index] = MemoryNode(index, cpus, memory, _hugepages(item.element), note=note)
    if left_out:
        text = "has no memory that may be used; hwloc leaves it out, and its CPUs are on no node"
        remarks += [Remark(ODD, f"NUMA node {index}", text) for index in left_out]
    if not found:
        given = top.element.attributes
        total = number(given.get("local_memory"))
        total = kibibytes(given.get("memory_kB")) if total is None else total  # as version 0.9 says it
        found[0] = MemoryNode(0, top.cpus, total, _hugepages(top.element))
        remarks.append(Remark(ODD, "NUMA", "the file has no NUMA node; assuming one that has everything"))
    if any(node.memory is not None for node in found.values()):  # what is zero is left out of the file
        found = {i: n if n.memory is not None else replace(n, memory=0) for i, n in found.items()}
    rows = _latencies(root, order, remarks)
    return tuple(
        replace(
            node,
            distances=tuple((to, rows[i][to]) for to in sorted(rows.get(i, ())) if to in found),
        )
        for i, node in sorted(found.items())
    )


def _cpus_before_2(item: HwlocItem) -> int:
    """CPUs of a node of hwloc 1: on Knights Landing the fast memory is near its one plain neighbour.

    Counterpart: ``hwloc__xml_import_object``.
    """
    cpus = item.cpus
    if cpus or item.subtype != "MCDRAM" or not item.above:
        return cpus
    around = item.above[-1]
    beside = [e for e in around.element.all("object") if type_of(e) == "NUMANode" and e is not item.element]
    near = [one for e in beside if (one := HwlocItem(e, "NUMANode", item.above)).cpus == around.cpus]
    return around.cpus if len(near) == 1 and not near[0].subtype else 0


def _hugepages(element: Element) -> tuple[tuple[str, int], ...]:
    """Pages larger than the ordinary one, which is the smallest that is listed."""
    found: dict[int, int] = {}
    for page in element.all("page_type"):
        size = number(page.attributes.get("size"))
        if size:
            found[size] = number(page.attributes.get("count")) or 0
    return tuple((str(Quantity.of(size)), found[size]) for size in sorted(found)[1:])


def _latencies(
    root: Element, order: Sequence[tuple[HwlocItem, int]], remarks: list[Remark]
) -> dict[int, dict[int, int]]:
    """NUMA id → NUMA id → distance, out of the matrix that the system itself gave."""
    ranked: list[tuple[tuple[bool, bool], list[int], list[int]]] = []
    for matrix in root.all("distances2"):
        kind = number(matrix.attributes.get("kind")) or 0
        if matrix.attributes.get("type") in ("NUMANode", "Node") and kind & LATENCY:
            ids = [number(word) or 0 for word in _joined(matrix, "indexes")]
            values = [number(word) or 0 for word in _joined(matrix, "u64values")]
            rank = (matrix.attributes.get("name") != "NUMALatency", not kind & 1)
            ranked.append((rank, ids, values))
    for holder in {id(one): one for item, _ in order for one in (*item.above, item)}.values():
        ids = [i for item, i in order if holder is item or holder in item.above]
        for matrix in holder.element.all("distances"):
            base = decimal(matrix.attributes.get("latency_base", "1"))
            ratios = [decimal(e.attributes.get("value")) for e in matrix.all("latency")]
            values = [round(ratio * base) for ratio in ratios]
            ranked.append(((10 not in values[:1], False), ids, values))
    ranked = [one for one in ranked if len(one[1]) > 1 and len(one[2]) == len(one[1]) ** 2]
    if not ranked:
        return {}
    ranked.sort(key=lambda one: one[0])
    if len(ranked) > 1:
        text = f"there are {len(ranked)} matrices of NUMA latency; using the most likely one"
        remarks.append(Remark(ODD, "distances", text))
    _, ids, values = ranked[0]
    size = len(ids)
    return {i: dict(zip(ids, values[at * size : (at + 1) * size], strict=True)) for at, i in enumerate(ids)}


def _joined(matrix: Element, tag: str) -> list[str]:
    return " ".join(element.text for element in matrix.all(tag)).split()


def _threads(items: Sequence[HwlocItem], nodes: Sequence[MemoryNode], file: str) -> tuple[Thread, ...]:
    threads: dict[int, Thread] = {}
    online = words(items[0].element.attributes.get("online_cpuset"))
    homes: dict[int, int] = {}
    for node in sorted(nodes, key=lambda n: (n.note not in ORDINARY, n.id)):
        homes |= dict.fromkeys((i for i in ids_of(node.cpus) if i not in homes), node.id)
    caches: dict[int, Cache] = {}
    for item in items:
        if item.type != "PU":
            continue
        cpu = item.index
        line = item.element.line
        if cpu is None or cpu > LARGEST_ID:
            raise InputError("a PU has no usable os_index", file=file, line=line, advice="export it again")
        if cpu in threads:
            advice = "give the machines one by one"
            raise InputError(f"CPU {cpu} is listed twice", file=file, line=line, advice=advice)
        if online is not None and not online >> cpu & 1:
            continue
        core, package, die = item.nearest("Core"), item.nearest("Package"), item.nearest("Die")
        threads[cpu] = Thread(
            cpu,
            core=core.index if core else None,
            socket=package.index if package else None,
            die=die.index if die else None,
            numa=homes.get(cpu),
            siblings=core.cpus if core else 0,
            l2=_cache(item.nearest("L2Cache"), caches),
            l3=_cache(item.nearest("L3Cache"), caches),
        )
    if not threads:
        raise InputError("has no CPUs", file=file, line=items[0].element.line, advice="export it again")
    return tuple(threads[cpu] for cpu in sorted(threads))


def _cache(item: HwlocItem | None, known: dict[int, Cache]) -> Cache | None:
    if item is None:
        return None
    if id(item) not in known:
        size = number(item.element.attributes.get("cache_size"))
        known[id(item)] = Cache(item.cpus, size or None, item.index)
    return known[id(item)]


def _absent(top: HwlocItem, threads: Sequence[Thread], version: int, remarks: list[Remark]) -> int:
    """CPUs that the machine has and the file does not show."""
    complete = words(top.element.attributes.get("complete_cpuset")) or 0
    online = words(top.element.attributes.get("online_cpuset"))
    shown = sum(1 << thread.cpu for thread in threads)
    absent = complete & ~shown
    if not absent:
        return 0
    if version == 1 and online is not None:
        hidden = absent & online
        if hidden:
            text = f"CPUs {format_ids(hidden)} are online and not shown: they may not be used from there"
            remarks.append(Remark(UNKNOWN, "cpus", text))
        return absent & ~online
    text = f"CPUs {format_ids(absent)} are not shown: offline, or they may not be used from there"
    remarks.append(Remark(UNKNOWN, "cpus", text))
    return absent


def _pci(items: Iterable[HwlocItem], nodes: Sequence[MemoryNode]) -> Iterator[PciDevice]:
    names: dict[int, list[HwlocItem]] = {}
    devices: list[tuple[HwlocItem, str]] = []
    for item in items:
        address = pci_address(item.element.attributes.get("pci_busid", ""))
        if item.type in ("PCIDev", "Bridge") and address:
            devices.append((item, address))
        elif item.type == "OSDev" and item.above:
            names.setdefault(id(item.above[-1].element), []).append(item)
    for item, address in devices:
        found = PCI_TYPE.match(item.element.attributes.get("pci_type", ""))
        class_code = vendor = None
        if found:  # the interface is given since version 3
            vendor = int(found[2], 16)
            class_code = int(found[1], 16) << 8 | (hexadecimal(found[5]) or 0)
        infos = item.infos
        yield PciDevice(
            address,
            vendor=vendor,
            device=int(found[3], 16) if found else None,
            class_code=class_code,
            kind=BRIDGE if item.type == "Bridge" else pci_kind(class_code, vendor),
            numa=_node_of(item.cpus, nodes),
            local_cpus=item.cpus,
            parents=tuple(name for outer in item.above if (name := _bridge(outer))),
            names=tuple(
                name
                for one in names.get(id(item.element), ())
                if (name := one.element.attributes.get("name", ""))
            ),
            model=infos.get("PCIDevice") or item.element.attributes.get("name", ""),
        )


def _bridge(item: HwlocItem) -> str:
    """A bridge's address, or the bus of a host bridge; nothing for what is not a bridge."""
    if item.type != "Bridge":
        return ""
    address = pci_address(item.element.attributes.get("pci_busid", ""))
    if address:
        return address
    found = BRIDGE_PCI.fullmatch(item.element.attributes.get("bridge_pci", ""))
    return f"pci{int(found[1], 16):04x}:{int(found[2], 16):02x}" if found else ""


def _node_of(cpus: int, nodes: Sequence[MemoryNode]) -> int | None:
    """The one NUMA node with just these CPUs, ordinary memory first."""
    fit = [(n.note not in ORDINARY, n.id) for n in nodes if n.cpus and n.cpus == cpus]
    return min(fit)[1] if fit else None


def _gpus(
    items: Sequence[HwlocItem], pci: Sequence[PciDevice], nodes: Sequence[MemoryNode]
) -> tuple[tuple[Gpu, ...], dict[str, str]]:
    """GPUs that a library for computing knows, and which GPU each of its names stands for."""
    by_place: dict[str, list[HwlocItem]] = {}
    memory_of: dict[str, int] = {}
    for item in items:
        infos = item.infos
        if item.type == "OSDev" and COMPUTE.match(item.element.attributes.get("name", "")):
            if infos.get("OpenCLDeviceType", "GPU") == "GPU":
                holder = item.above[-1].element.attributes.get("pci_busid", "") if item.above else ""
                place = pci_address(holder) or item.element.attributes["name"]
                by_place.setdefault(place, []).append(item)
        elif item.type == "NUMANode" and item.index is not None and pci_address(infos.get("PCIBusID", "")):
            memory_of[pci_address(infos["PCIBusID"]) or ""] = item.index
    numbers = {place: _gpu_number(found) for place, found in by_place.items()}
    if len(set(numbers.values())) != len(numbers) or len({library for library, _ in numbers.values()}) > 1:
        numbers = {place: (0, at) for at, place in enumerate(sorted(by_place))}
    gpus: list[Gpu] = []
    labels: dict[str, str] = {}
    for place in sorted(by_place, key=lambda p: numbers[p]):
        found = by_place[place]
        best = sorted(found, key=lambda item: _gpu_number([item]), reverse=True)
        infos = {name: value for item in best for name, value in item.infos.items()}
        name = f"GPU{numbers[place][1]}"
        labels |= {item.element.attributes["name"]: name for item in found}
        cpus = found[0].cpus
        sizes = [size for key in GPU_MEMORY if (size := kibibytes(infos.get(key)))]
        gpus.append(
            Gpu(
                name,
                uuid=infos.get("NVIDIAUUID") or infos.get("AMDUUID") or infos.get("LevelZeroUUID", ""),
                address=place if any(device.address == place for device in pci) else "",
                model=infos.get("GPUModel", ""),
                memory=sizes[0] if sizes else None,
                cpus=cpus,
                numa=tuple(n.id for n in nodes if n.cpus and n.note in ORDINARY and not n.cpus & ~cpus),
                own_numa=memory_of.get(place),
                maker=_maker(place, infos, pci),
            )
        )
    return tuple(gpus), labels


def _maker(place: str, infos: Mapping[str, str], pci: Sequence[PciDevice]) -> int | None:
    """Who made the GPU of a place: as PCI says, as the library that names it, or as its model does."""
    function = next((device for device in pci if device.address == place), None)
    by_uuid = {"NVIDIAUUID": NVIDIA, "AMDUUID": AMD, "LevelZeroUUID": INTEL}
    maker_id = next((maker for name, maker in by_uuid.items() if infos.get(name)), None)
    return maker_id or gpu_maker(f"{infos.get('GPUVendor', '')} {infos.get('GPUModel', '')}", function)


def _gpu_number(found: Iterable[HwlocItem]) -> tuple[int, int]:
    """Which library identifies it best, and its number there."""
    names = [COMPUTE.match(item.element.attributes["name"]) for item in found]
    return min((LIBRARIES.index(one[1]), whole_number(one[2])) for one in names if one)


def _matrix(
    root: Element,
    pci: Sequence[PciDevice],
    gpus: Sequence[Gpu],
    labels: Mapping[str, str],
    items: Iterable[HwlocItem],
) -> Matrix | None:
    fabric = {
        item.element.attributes.get("name", ""): item.above[-1].element.attributes.get("pci_busid", "")
        for item in items
        if item.type == "OSDev" and item.above and _is_fabric(item, root)
    }
    by_address = {device.address: device for device in pci}
    ends = {gpu.name: by_address[gpu.address] for gpu in gpus if gpu.address in by_address}
    nics = {
        f"NIC{at}": name for at, name in enumerate(sorted(fabric)) if pci_address(fabric[name]) in by_address
    }
    ends |= {nic: by_address[pci_address(fabric[name]) or ""] for nic, name in nics.items()}
    if not gpus:
        return None
    measured = _measured(root, labels, items)
    return matrix_of(ends, gpus, nics, measured)


def _is_fabric(item: HwlocItem, root: Element) -> bool:
    """InfiniBand and RoCE devices: type 3, and since version 3 a bit of its own."""
    kind = number(item.element.attributes.get("osdev_type")) or 0
    return bool(kind & 32) if root.attributes.get("version", "1").startswith("3") else kind == 3


def _measured(
    root: Element, labels: Mapping[str, str], items: Iterable[HwlocItem]
) -> dict[tuple[str, str], str]:
    """Links that a bandwidth was measured on: ``NV4``, ``XGMI``."""
    names: dict[int, str] = {}
    switches: set[int] = set()
    for item in items:
        own = number(item.element.attributes.get("gp_index"))
        if own is None:
            own = number(item.element.attributes.get("id", "").removeprefix("obj"))
        if own is None:
            continue
        if item.type == "OSDev" and item.element.attributes.get("name") in labels:
            names[own] = labels[item.element.attributes["name"]]
        elif item.subtype == "NVSwitch":
            switches.add(own)
    found: dict[tuple[str, str], str] = {}
    for matrix in (*root.all("distances2"), *root.all("distances2hetero")):
        word = BANDWIDTHS.get(matrix.attributes.get("name", ""))
        ids = [number(index.rpartition(":")[2]) for index in _joined(matrix, "indexes")]
        values = [number(value) or 0 for value in _joined(matrix, "u64values")]
        size = len(ids)
        if not word or len(values) != size * size:
            continue
        through = [at for at, own in enumerate(ids) if own in switches]
        rates: dict[tuple[str, str], int] = {}
        for a, one in enumerate(ids):
            for b, other in enumerate(ids):
                if a != b and one in names and other in names:
                    direct = values[a * size + b]
                    rate = direct or sum(min(values[a * size + s], values[b * size + s]) for s in through)
                    if rate:
                        rates[names[one], names[other]] = rate
        even = [unit for unit in NVLINK_RATES if not any(rate % unit for rate in rates.values())]
        unit = (*even, *NVLINK_RATES)[0]
        for pair, rate in rates.items():
            found[pair] = f"NV{max(1, round(rate / unit))}" if word == "NV" else word
    return found
