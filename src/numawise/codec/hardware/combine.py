"""Several readings of one machine become one.

Rules kept here:

1. For each field the most trusted source that knows it is believed: the kernel's files, then cAdvisor, hwloc,
   ``lscpu -e`` and ``-p``, numactl, ``lscpu``, lspci, NCCL, the GPU makers' tools.  Those are believed first
   about links between GPUs, which the others only work out from the PCI tree.
2. What a less trusted source says otherwise is kept as a remark.  Numbers that a tool counts on its own
   (cores, sockets) differ only when they group the CPUs differently.
3. A source may see less than all: a job's CPUs, a container's GPUs.  Sources that share no CPU, or that deal
   the same CPUs out to other NUMA nodes, are not of one machine: that is an error.
4. What follows is filled in: the node of a CPU that one node lists, the threads of a core that has a number,
   the CPUs near to a GPU on a known node.  A node's list adds no CPU to those that the kernel calls online.
5. What nobody knows is said once, at the end; guesses are made only where they are asked for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TypeVar

from numawise.codec.hardware.assume import assumed
from numawise.codec.hardware.xmltree import pci_address
from numawise.errors import InputError
from numawise.machine.hardware import (
    DIFFERS,
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
)
from numawise.sets import bits_of, format_ids, ids_of
from numawise.values import replace

TRUST = (
    "sysfs",
    "cadvisor",
    "hwloc",
    "lscpu-table",
    "numactl",
    "lscpu",
    "lspci",
    "nccl",
    "nvml",
    "nvidia",
    "rocm",
)
TABLE = "lscpu-table"
KERNEL = frozenset({"sysfs", "cadvisor"})
MAKERS = ("nvml", "nvidia", "rocm")
ROUNDING = 2 << 20  # numactl counts in MiB
SAME_LINKS = frozenset({frozenset({"SYS", "SOC"}), frozenset({"PHB", "NODE"})})  # old words; NCCL's view
SHOWN = 4

LabelledReading = tuple[str, Hardware]
T = TypeVar("T")


def combine(parts: Sequence[Hardware], *, assume: bool = False) -> Hardware:
    """Make one hardware of several readings; ``assume`` also fills gaps by stated rules."""
    if not parts:
        raise InputError("there is nothing to combine", advice="give at least one reading of a machine")
    readings = sorted(((_label(part), part) for part in parts), key=lambda one: _trust(one[1]))
    _check_one_machine(readings)
    remarks = [remark for _, part in readings for remark in part.remarks]
    threads, offline = _threads(readings, remarks)
    numa = _numa(readings, remarks)
    counted = any(part.threads and "sysfs" in part.sources for _, part in readings)
    absent = ~bits_of(thread.cpu for thread in threads) if counted else offline
    threads = _grouped(_placed(threads, numa, absent))
    named = {thread.numa for thread in threads if thread.numa is not None} - {node.id for node in numa}
    numa = tuple(_with_cpus(node, threads) for node in (*numa, *map(MemoryNode, sorted(named))))
    combined = Hardware(
        threads=threads,
        offline=offline,
        numa=numa,
        pci=_pci(readings, remarks),
        gpus=_gpus(readings, numa, remarks),
        matrix=_matrix(readings, remarks),
        host=_host(readings),
        memory_capacity=_first(part.memory_capacity for _, part in readings),
        name=_first(part.name or None for _, part in readings) or "",
        sources=tuple(dict.fromkeys(source for _, part in readings for source in part.sources)),
    )
    remarks += _unknown(combined)
    combined = replace(combined, remarks=tuple(dict.fromkeys(remarks)))
    if not assume:
        return combined
    whole, doubts = assumed(combined), list[Remark]()
    gpus = _near_all(whole.gpus, whole.numa, doubts)
    return replace(whole, gpus=gpus, remarks=tuple(dict.fromkeys((*whole.remarks, *doubts))))


def _label(part: Hardware) -> str:
    return "+".join(part.sources) or part.name or "a reading"


def _trust(part: Hardware) -> int:
    """Place in the order of trust; of a combined reading, that of its best source."""
    return min((_rank(source, part) for source in part.sources), default=len(TRUST))


def _rank(source: str, part: Hardware) -> int:
    if source.startswith("lscpu") and any(thread.core is not None for thread in part.threads):
        source = TABLE
    found = [at for at, name in enumerate(TRUST) if source.startswith(name)]
    return max(found, key=lambda at: len(TRUST[at])) if found else len(TRUST)


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


# --- are they of one machine? ----------------------------------------------------------------------------


def _homes(part: Hardware) -> dict[int, int]:
    """CPUs by NUMA node, as far as known."""
    found: dict[int, int] = {}
    for thread in part.threads:
        if thread.numa is not None:
            found[thread.numa] = found.get(thread.numa, 0) | 1 << thread.cpu
    return found or {node.id: node.cpus for node in part.numa if node.cpus}


def _cpus(part: Hardware) -> int:
    return bits_of(thread.cpu for thread in part.threads) | reduce(or_, _homes(part).values(), 0)


def _check_one_machine(readings: Sequence[LabelledReading]) -> None:
    for at, (first, one) in enumerate(readings):
        for second, other in readings[at + 1 :]:
            problem = _contradiction((first, one), (second, other))
            if problem:
                text = f"{first} and {second} are not of one machine: {problem}"
                raise InputError(text, advice="give readings of one and the same machine")


def _contradiction(one: LabelledReading, other: LabelledReading) -> str:
    cpus = [_cpus(part) | part.offline for _, part in (one, other)]
    if all(cpus) and not cpus[0] & cpus[1]:
        return f"{one[0]} has CPUs {format_ids(cpus[0])}, {other[0]} {format_ids(cpus[1])}"
    homes = [_homes(part) for _, part in (one, other)]
    shared = reduce(or_, homes[0].values(), 0) & reduce(or_, homes[1].values(), 0)
    counts = [sum(bool(cpus & shared) for cpus in found.values()) for found in homes]
    if counts[0] != counts[1]:
        return f"{one[0]} divides the CPUs among {counts[0]} NUMA nodes, {other[0]} to {counts[1]}"
    for (_, part), here, (name, _) in ((one, cpus[1], other), (other, cpus[0], one)):
        near = reduce(or_, (gpu.cpus or 0 for gpu in part.gpus), 0)
        if here and near and not near & here:
            return f"GPUs are near CPUs {format_ids(near)}, and {name} has {format_ids(here)}"
    return ""


# --- CPUs ------------------------------------------------------------------------------------------------


def _threads(readings: Sequence[LabelledReading], remarks: list[Remark]) -> tuple[tuple[Thread, ...], int]:
    found: dict[int, Thread] = {}
    offline = 0
    for label, part in readings:
        before, shared = dict(found), 0
        refused = 0
        for thread in part.threads:
            if offline >> thread.cpu & 1:
                refused |= 1 << thread.cpu
            elif thread.cpu in found:
                shared |= 1 << thread.cpu
                found[thread.cpu] = _filled(found[thread.cpu], thread)
            else:
                found[thread.cpu] = thread
        if before:
            more = bits_of(thread.cpu for thread in part.threads if thread.cpu not in before) & ~refused
            if more:
                remarks.append(Remark(DIFFERS, "cpus", f"CPUs {format_ids(more)} are in {label} only"))
            remarks += _disagreements(before, {t.cpu: t for t in part.threads}, shared, label)
        if refused:
            remarks.append(Remark(DIFFERS, "offline", f"CPUs {format_ids(refused)} are online in {label}"))
        offline |= part.offline & ~bits_of(found)
    return tuple(found[cpu] for cpu in sorted(found)), offline


def _filled(known: Thread, more: Thread) -> Thread:
    """What is known of a CPU, with the gaps filled."""
    return Thread(
        known.cpu,
        core=_first((known.core, more.core)),
        socket=_first((known.socket, more.socket)),
        die=_first((known.die, more.die)),
        numa=_first((known.numa, more.numa)),
        siblings=known.siblings or more.siblings,
        l2=_cache(known.l2, more.l2),
        l3=_cache(known.l3, more.l3),
    )


def _cache(known: Cache | None, more: Cache | None) -> Cache | None:
    if known is None or more is None or known.cpus != more.cpus:
        return known or more
    return Cache(known.cpus, _first((known.size, more.size)), _first((known.id, more.id)))


def _disagreements(
    before: Mapping[int, Thread], more: Mapping[int, Thread], shared: int, label: str
) -> Iterator[Remark]:
    """What a source says otherwise about CPUs, a remark for each field."""
    looks: tuple[tuple[str, Callable[[Thread], int | None], bool], ...] = (
        ("socket", lambda t: t.socket, True),
        ("numa", lambda t: t.numa, False),
        ("siblings", lambda t: (t.siblings & shared) or None, False),
        ("l3", lambda t: (t.l3.cpus & shared) or None if t.l3 else None, False),
    )
    for field, look, own_count in looks:
        pairs = {cpu: (look(before[cpu]), look(more[cpu])) for cpu in ids_of(shared)}
        pairs = {cpu: pair for cpu, pair in pairs.items() if None not in pair}
        if own_count:
            groups: list[dict[int | None, int]] = [{}, {}]
            for cpu, pair in pairs.items():
                for group, value in zip(groups, pair, strict=True):
                    group[value] = group.get(value, 0) | 1 << cpu
            if set(groups[0].values()) == set(groups[1].values()):
                continue
        other: dict[tuple[int | None, int | None], int] = {}
        for cpu, pair in pairs.items():
            if pair[0] != pair[1]:
                other[pair] = other.get(pair, 0) | 1 << cpu
        is_set = field in ("siblings", "l3")
        texts = [
            f"CPUs {format_ids(cpus)}: {_shown(theirs, is_set)} there, {_shown(mine, is_set)} here"
            for (mine, theirs), cpus in other.items()
        ]
        if texts:
            yield Remark(DIFFERS, f"cpus.{field}", f"{label} says otherwise: {_some(texts)}")


def _shown(value: int | None, is_set: bool) -> str:  # noqa: FBT001
    return format_ids(value or 0) if is_set else str(value)


def _some(texts: Sequence[str]) -> str:
    shown = "; ".join(texts[:SHOWN])
    return shown if len(texts) <= SHOWN else f"{shown}; and {len(texts) - SHOWN} more"


def _placed(threads: Sequence[Thread], numa: Sequence[MemoryNode], absent: int) -> tuple[Thread, ...]:
    """All CPUs that a NUMA node lists, each on its node, without those that are absent (rule 4)."""
    found = {thread.cpu: thread for thread in threads}
    listed: dict[int, list[int]] = {}
    for node in numa:
        for cpu in ids_of(node.cpus & ~absent):
            listed.setdefault(cpu, []).append(node.id)
    for cpu, ids in listed.items():
        thread = found.get(cpu, Thread(cpu))
        found[cpu] = replace(thread, numa=ids[0]) if thread.numa is None and len(ids) == 1 else thread
    return tuple(found[cpu] for cpu in sorted(found))


def _grouped(threads: Sequence[Thread]) -> tuple[Thread, ...]:
    """Siblings of CPUs whose core is known by its number alone (rule 4)."""
    groups: dict[tuple[int | None, ...], int] = {}
    for thread in threads:
        key = (thread.socket, thread.numa, thread.core)
        groups[key] = groups.get(key, 0) | 1 << thread.cpu
    return tuple(
        thread
        if thread.siblings or thread.core is None or thread.socket is None
        else replace(thread, siblings=groups[thread.socket, thread.numa, thread.core])
        for thread in threads
    )


# --- memory ----------------------------------------------------------------------------------------------


def _numa(readings: Sequence[LabelledReading], remarks: list[Remark]) -> tuple[MemoryNode, ...]:
    found: dict[int, MemoryNode] = {}
    for label, part in readings:
        texts: list[str] = []
        for node in part.numa:
            known = found.get(node.id)
            if known is None:
                found[node.id] = node
                continue
            texts += _node_differs(known, node)
            found[node.id] = MemoryNode(
                node.id,
                known.cpus or (node.cpus if not _knows_cpus(readings, label) else 0),
                node.memory if known.memory is None else known.memory,
                known.hugepages or node.hugepages,
                known.distances or node.distances,
                known.note or node.note,
            )
        if texts:
            remarks.append(Remark(DIFFERS, "numa", f"{label} says otherwise: {_some(texts)}"))
    order = {node.id: at for _, part in reversed(readings) for at, node in enumerate(part.numa)}
    return tuple(sorted(found.values(), key=lambda node: (order.get(node.id, 0), node.id)))


def _knows_cpus(readings: Sequence[LabelledReading], label: str) -> bool:
    """Whether a more trusted source has given the CPUs of nodes: a node without any then has none."""
    return any(_homes(part) for name, part in readings[: [name for name, _ in readings].index(label)])


def _node_differs(known: MemoryNode, more: MemoryNode) -> Iterator[str]:
    if None not in (known.memory, more.memory) and abs((known.memory or 0) - (more.memory or 0)) > ROUNDING:
        yield f"node {more.id} has {more.memory} bytes there, {known.memory} here"
    for size, pages in more.hugepages:
        mine = dict(known.hugepages).get(size)
        if mine is not None and mine != pages:
            yield f"node {more.id} has {pages} pages of {size} there, {mine} here"
    row = dict(known.distances)
    far = [to for to, distance in more.distances if row.get(to, distance) != distance]
    if far:
        yield f"node {more.id} has other distances to {', '.join(map(str, far))}"


def _with_cpus(node: MemoryNode, threads: Sequence[Thread]) -> MemoryNode:
    return node if node.cpus else replace(node, cpus=bits_of(t.cpu for t in threads if t.numa == node.id))


# --- devices ---------------------------------------------------------------------------------------------


def _pci(readings: Sequence[LabelledReading], remarks: list[Remark]) -> tuple[PciDevice, ...]:
    found: list[PciDevice] = []
    places: dict[str, int] = {}
    for label, part in readings:
        texts = []
        for device in part.pci:
            at = places.get(device.address) if device.address else None
            if at is None or label == _first(name for name, other in readings if other.pci):
                places.setdefault(device.address, len(found))
                found.append(device)
                continue
            known = found[at]
            both = known.numa is not None and device.numa is not None and min(known.numa, device.numa) >= 0
            if both and known.numa != device.numa:
                texts.append(f"{device.address} is on {device.numa} there, on {known.numa} here")
            found[at] = replace(
                known,
                vendor=_first((known.vendor, device.vendor)),
                device=_first((known.device, device.device)),
                class_code=_first((known.class_code, device.class_code)),
                numa=_first((known.numa, device.numa)),
                local_cpus=_first((known.local_cpus, device.local_cpus)),
                parents=known.parents or device.parents,
                driver=known.driver or device.driver,
                names=tuple(dict.fromkeys((*known.names, *device.names))),
                model=known.model or device.model,
            )
        if texts:
            remarks.append(Remark(DIFFERS, "devices.numa", f"{label} says otherwise: {_some(texts)}"))
    return tuple(found)


def _makers_first(readings: Sequence[LabelledReading]) -> list[LabelledReading]:
    return sorted(readings, key=lambda one: not any(s.startswith(MAKERS) for s in one[1].sources))


def _gpus(
    readings: Sequence[LabelledReading], numa: Sequence[MemoryNode], remarks: list[Remark]
) -> tuple[Gpu, ...]:
    found: list[Gpu] = []
    for label, part in _makers_first(readings):
        first = not found
        for gpu in part.gpus:
            at = None if first else _same_gpu(found, gpu)
            if at is None:
                if not first:
                    remarks.append(Remark(DIFFERS, "gpus", f"{gpu.name} is in {label} only"))
                found.append(gpu)
            else:
                found[at] = _filled_gpu(found[at], gpu)
    return _near_all(found, numa, remarks)


def _same_gpu(found: Sequence[Gpu], gpu: Gpu) -> int | None:
    """Which of the known ones it is: by id, by address, else by name."""
    for look in (lambda g: g.uuid, lambda g: pci_address(g.address), lambda g: g.name):
        own = look(gpu)
        for at, known in enumerate(found):
            if own and look(known) == own:
                return at
        if own and all(look(known) for known in found):
            return None
    return None


def _filled_gpu(known: Gpu, more: Gpu) -> Gpu:
    return Gpu(
        known.name,
        uuid=known.uuid or more.uuid,
        address=known.address or more.address,
        model=known.model or more.model,
        memory=_first((known.memory, more.memory)),
        cpus=_first((known.cpus, more.cpus)),
        numa=_first((known.numa, more.numa)),
        own_numa=_first((known.own_numa, more.own_numa)),
        parent=known.parent or more.parent,
        mig=known.mig or more.mig,
        maker=_first((known.maker, more.maker)),
        resource=known.resource or more.resource,
    )


def _near_all(gpus: Iterable[Gpu], numa: Iterable[MemoryNode], remarks: list[Remark]) -> tuple[Gpu, ...]:
    nodes = {node.id: node.cpus for node in numa if node.cpus}
    return tuple(_near(gpu, nodes, remarks) for gpu in gpus)


def _near(gpu: Gpu, nodes: Mapping[int, int], remarks: list[Remark]) -> Gpu:
    """CPUs and NUMA nodes near to a GPU: each implies the other, or contradicts it."""
    if not nodes:
        return gpu
    there = reduce(or_, (nodes.get(i, 0) for i in gpu.numa or ()), 0)
    if gpu.numa and gpu.cpus and gpu.cpus & ~there:
        text = f"{gpu.name} is near CPUs {format_ids(gpu.cpus)}, and its NUMA nodes have {format_ids(there)}"
        remarks.append(Remark(DIFFERS, "gpus.cpus", text))
    if gpu.cpus is None and there:
        return replace(gpu, cpus=there)
    if not gpu.numa and gpu.cpus:
        holding = tuple(i for i, cpus in nodes.items() if cpus & gpu.cpus)
        covered = reduce(or_, (nodes[i] for i in holding), 0)
        if len(holding) == 1 or covered == gpu.cpus:
            return replace(gpu, numa=holding)
    return gpu


def _matrix(readings: Sequence[LabelledReading], remarks: list[Remark]) -> Matrix | None:
    having = [(label, part.matrix) for label, part in _makers_first(readings) if part.matrix]
    if not having:
        return None
    best = having[0][1]
    for label, other in having[1:]:
        texts = [
            f"{row} to {column} is {link} there, {mine} here"
            for row, cells in other.links.items()
            for column, link in cells.items()
            if row in best.gpus and column in best.gpus
            if (mine := best.links.get(row, {}).get(column, link)) != link
            if frozenset({mine, link}) not in SAME_LINKS
        ]
        if texts:
            remarks.append(Remark(DIFFERS, "links", f"{label} says otherwise: {_some(texts)}"))
    return best


def _host(readings: Sequence[LabelledReading]) -> Host | None:
    hosts = [part.host for _, part in readings if part.host]
    if not hosts:
        return None
    return Host(
        cpuset=_first(host.cpuset for host in hosts),
        mems=_first(host.mems for host in hosts),
        isolated=_first(host.isolated for host in hosts),
        numa_balancing=_first(host.numa_balancing for host in hosts),
        cgroup=_first(host.cgroup or None for host in hosts) or "",
        kernel=_first(host.kernel or None for host in hosts) or "",
    )


# --- what nobody knows -----------------------------------------------------------------------------------


def _unknown(found: Hardware) -> Iterator[Remark]:
    """What cannot be known from these sources; the readers of the kernel's own files say what these lack."""
    if KERNEL & set(found.sources):
        return
    if not found.threads:
        yield Remark(UNKNOWN, "cpus", "which CPUs there are")
    gaps: tuple[tuple[str, str, Callable[[Thread], bool]], ...] = (
        ("cpus.siblings", "which CPUs share a core", lambda t: not t.siblings),
        ("cpus.core", "the core ids", lambda t: t.core is None),
        ("cpus.socket", "the socket", lambda t: t.socket is None),
        ("cpus.numa", "the NUMA node", lambda t: t.numa is None),
        ("cpus.l3", "which CPUs share an L3 cache", lambda t: t.l3 is None),
    )
    for place, what, is_gap in gaps:
        cpus = bits_of(thread.cpu for thread in found.threads if is_gap(thread))
        if cpus:
            of_all = len(found.threads) == cpus.bit_count()
            yield Remark(UNKNOWN, place, what if of_all else f"{what}, of CPUs {format_ids(cpus)}")
    if not found.numa:
        yield Remark(UNKNOWN, "numa", "which NUMA nodes there are")
    without = [str(node.id) for node in found.numa if node.memory is None]
    if without:
        yield Remark(UNKNOWN, "numa.memory", f"the memory of NUMA nodes {', '.join(without)}")
    if len(found.numa) > 1 and not any(node.distances for node in found.numa):
        yield Remark(UNKNOWN, "numa.distances", "the distances between NUMA nodes")
    if found.numa and not any(node.hugepages for node in found.numa):
        yield Remark(UNKNOWN, "numa.hugepages", "the huge pages")
    lost = [gpu.name for gpu in found.gpus if gpu.numa is None and gpu.cpus is None]
    if lost:
        yield Remark(UNKNOWN, "gpus.numa", f"the NUMA nodes near to {', '.join(lost)}")
