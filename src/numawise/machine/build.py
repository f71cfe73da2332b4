"""Hardware out of a plan: so many sockets, NUMA nodes and cores, and a slot for every device.

Rules kept here:

1. Cores are dealt out evenly, NUMA node after NUMA node, and numbered in that order.  How the threads of a
   core are numbered is the plan's choice (``split``: 0 and 64; ``adjacent``: 0 and 1; ``interleaved``:
   round the NUMA nodes, as some vendors do).
2. Devices that name the same switch hang below it; every other device has a root port of its own.
   PCIe addresses and bridges are made up in the order of the slots, unless a slot gives its address.
3. The link matrix follows from the places: one switch, one NUMA node, or neither.
"""

from collections.abc import Iterable, Mapping, Sequence

from numawise.machine.hardware import (
    ASSUMED,
    GPU,
    NIC,
    NVIDIA,
    NVME,
    Cache,
    Gpu,
    Hardware,
    Matrix,
    MemoryNode,
    PciDevice,
    Remark,
    Thread,
    gpu_maker,
)
from numawise.sets import bits_of, format_ids
from numawise.values import dataclass, replace

SPLIT, ADJACENT, INTERLEAVED = "split", "adjacent", "interleaved"
CLASS_CODES = {GPU: 0x030200, NIC: 0x020000, NVME: 0x010802}
NOT_GIVEN = -1
LOCAL, SAME_SOCKET, ACROSS, ATTACHED, DETACHED = 10, 12, 21, 17, 28  # usual distances in firmware tables


@dataclass(frozen=True, slots=True)
class Slot:
    """One device and where it sits."""

    name: str
    kind: str
    numa: int = NOT_GIVEN
    switch: str = ""
    """Devices with the same word here share a PCIe switch."""
    card: str = ""
    """Devices with the same word here are ports of one card."""
    model: str = ""
    memory: int | None = None
    uuid: str = ""
    address: str = ""
    own_numa: int | None = None
    """NUMA node of the device's own memory."""


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """What a machine consists of."""

    cores: int
    sockets: int = 1
    numa: int = 1
    """NUMA nodes with CPUs."""
    threads: int = 1
    numbering: str = SPLIT
    memory: tuple[int, ...] = ()
    """Bytes of each NUMA node, those without CPUs last; the last entry stands for all that follow."""
    memory_only: int = 0
    """Further NUMA nodes without CPUs."""
    hugepages: tuple[tuple[str, int], ...] = ()
    """Of every NUMA node with CPUs."""
    cores_per_l3: int | None = None
    """None: all of a socket."""
    l3_size: int | None = None
    same_socket: int = SAME_SOCKET
    across: int = ACROSS
    slots: tuple[Slot, ...] = ()
    gpu_link: str = ""
    """Link between any two GPUs, such as ``NV18``; '' where PCIe is all they have."""
    switch_link: str = "PIX"
    """Link between devices below one switch."""
    nic_link: str = ""
    """Link between a GPU and a NIC, where it does not follow from their places."""
    name: str = ""
    source: str = "plan"
    assumed: tuple[str, ...] = ()
    """What is not known about the machine and was filled in."""


def build(plan: MachinePlan) -> Hardware:
    """Make the hardware that a plan describes."""
    threads = _threads(plan)
    cpus: dict[int, int] = {}
    for thread in threads:
        assert thread.numa is not None
        cpus[thread.numa] = cpus.get(thread.numa, 0) | 1 << thread.cpu
    numa = _numa(plan, cpus)
    pci = _pci(plan.slots, cpus)
    addresses = {slot.name: device.address for slot, device in zip(plan.slots, pci, strict=True)}
    return Hardware(
        threads=threads,
        numa=numa,
        pci=tuple(sorted(pci, key=lambda device: device.address)),
        gpus=tuple(
            Gpu(
                name=slot.name,
                uuid=slot.uuid,
                address=addresses[slot.name],
                model=slot.model,
                memory=slot.memory,
                cpus=cpus.get(slot.numa),
                numa=(slot.numa,) if slot.numa in cpus else None,
                own_numa=slot.own_numa,
                maker=gpu_maker(slot.model) or NVIDIA,
            )
            for slot in plan.slots
            if slot.kind == GPU
        ),
        matrix=_matrix(plan, cpus),
        memory_capacity=sum(node.memory or 0 for node in numa),
        name=plan.name,
        sources=(plan.source,),
        remarks=tuple(Remark(ASSUMED, plan.name, text) for text in plan.assumed),
    )


def with_distances(hardware: Hardware, rows: Mapping[int, Mapping[int, int]]) -> Hardware:
    """The same hardware with other distances."""
    numa = tuple(replace(node, distances=tuple(sorted(rows[node.id].items()))) for node in hardware.numa)
    return replace(hardware, numa=numa)


def _threads(plan: MachinePlan) -> tuple[Thread, ...]:
    per_numa, per_socket = plan.cores // plan.numa, plan.cores // plan.sockets
    per_l3 = plan.cores_per_l3 or per_socket
    numbers = [_numbers(plan, core, per_numa) for core in range(plan.cores)]
    siblings = [bits_of(row) for row in numbers]
    l3_cpus: dict[int, int] = {}
    for core, bits in enumerate(siblings):
        l3_cpus[core // per_l3] = l3_cpus.get(core // per_l3, 0) | bits
    caches = {number: Cache(bits, plan.l3_size, number) for number, bits in l3_cpus.items()}
    threads = [
        Thread(
            cpu=cpu,
            core=core % per_socket,
            socket=core // per_socket,
            numa=core // per_numa,
            siblings=siblings[core],
            l3=caches[core // per_l3],
        )
        for core, row in enumerate(numbers)
        for cpu in row
    ]
    return tuple(sorted(threads, key=lambda thread: thread.cpu))


def _numbers(plan: MachinePlan, core: int, per_numa: int) -> list[int]:
    """CPU numbers of the threads of one core, counted over the whole machine."""
    if plan.numbering == ADJACENT:
        return [core * plan.threads + thread for thread in range(plan.threads)]
    if plan.numbering == INTERLEAVED:
        core = core % per_numa * plan.numa + core // per_numa
    return [core + thread * plan.cores for thread in range(plan.threads)]


def _numa(plan: MachinePlan, cpus: Mapping[int, int]) -> tuple[MemoryNode, ...]:
    count = plan.numa + plan.memory_only
    return tuple(
        MemoryNode(
            id=i,
            cpus=cpus.get(i, 0),
            memory=plan.memory[min(i, len(plan.memory) - 1)] if plan.memory else None,
            hugepages=plan.hugepages if i in cpus else (),
            distances=tuple((j, _distance(plan, i, j)) for j in range(count)),
        )
        for i in range(count)
    )


def _distance(plan: MachinePlan, one: int, other: int) -> int:
    if one == other:
        return LOCAL
    if one < plan.numa and other < plan.numa:
        return plan.same_socket if _socket(plan, one) == _socket(plan, other) else plan.across
    far = max(one, other)
    if min(one, other) >= plan.numa:
        return DETACHED
    owner = (far - plan.numa) * plan.numa // plan.memory_only
    return ATTACHED if owner == min(one, other) else DETACHED


def _socket(plan: MachinePlan, numa: int) -> int:
    return numa * plan.sockets // plan.numa


def _pci(slots: Sequence[Slot], cpus: Mapping[int, int]) -> list[PciDevice]:
    """PCI functions in the order of the slots, below bridges that are made up (rule 2)."""
    chains: dict[str, tuple[str, tuple[str, ...]]] = {}
    domain, bus = 0, 0x10
    for members in _by_switch(slots):
        need = len(members) + 3 if len(members) > 1 else 2
        if bus + need > 0xFF:
            domain, bus = domain + 1, 0x10
        root, port = f"pci{domain:04x}:{bus:02x}", f"{domain:04x}:{bus:02x}:01.0"
        if len(members) == 1 or members[0].card:
            for i, slot in enumerate(members):
                chains[slot.name] = f"{domain:04x}:{bus + 1:02x}:00.{i}", (root, port)
        else:
            up = f"{domain:04x}:{bus + 1:02x}:00.0"
            for i, slot in enumerate(members):
                down = f"{domain:04x}:{bus + 2:02x}:{i % 32:02x}.{i // 32}"
                chains[slot.name] = f"{domain:04x}:{bus + 3 + i:02x}:00.0", (root, port, up, down)
        bus = (bus + need + 7) // 8 * 8
    return [
        PciDevice(
            address=slot.address or chains[slot.name][0],
            class_code=CLASS_CODES.get(slot.kind),
            kind=slot.kind,
            numa=slot.numa,
            local_cpus=cpus.get(slot.numa),
            parents=chains[slot.name][1] if not slot.address else (),
            names=() if slot.kind == GPU else (slot.name,),
            model=slot.model,
        )
        for slot in slots
    ]


def _by_switch(slots: Iterable[Slot]) -> list[list[Slot]]:
    """Slots that share a switch or a card together, by NUMA node, in order."""
    groups: dict[tuple[int, str], list[Slot]] = {}
    for i, slot in enumerate(slots):
        groups.setdefault((slot.numa, slot.switch or slot.card or f"\n{i}"), []).append(slot)
    return [groups[key] for key in sorted(groups, key=lambda key: key[0])]


def _matrix(plan: MachinePlan, cpus: Mapping[int, int]) -> Matrix | None:
    gpus = [slot for slot in plan.slots if slot.kind == GPU]
    nics = [slot for slot in plan.slots if slot.kind == NIC]
    if not gpus:
        return None
    labels = {slot.name: slot.name for slot in gpus} | {slot.name: f"NIC{i}" for i, slot in enumerate(nics)}
    return Matrix(
        gpus=tuple(slot.name for slot in gpus),
        nics=tuple(labels[slot.name] for slot in nics),
        links={
            labels[one.name]: {labels[other.name]: _link(plan, one, other) for other in (*gpus, *nics)}
            for one in (*gpus, *nics)
        },
        cpu_affinity={slot.name: format_ids(cpus[slot.numa]) for slot in gpus if slot.numa in cpus},
        numa_affinity={slot.name: str(slot.numa) for slot in gpus if slot.numa in cpus},
        gpu_numa_id={slot.name: "N/A" if slot.own_numa is None else str(slot.own_numa) for slot in gpus},
        nic_names={labels[slot.name]: slot.name for slot in nics},
    )


def _link(plan: MachinePlan, one: Slot, other: Slot) -> str:
    """Link between two devices (rule 3)."""
    if one is other:
        return "X"
    kinds = {one.kind, other.kind}
    if kinds == {GPU} and plan.gpu_link:
        return plan.gpu_link
    if kinds == {GPU, NIC} and plan.nic_link:
        return plan.nic_link
    if one.numa != other.numa or one.numa == NOT_GIVEN:
        return "SYS"
    if one.card and one.card == other.card:
        return "PIX"
    return plan.switch_link if one.switch and one.switch == other.switch else "NODE"
