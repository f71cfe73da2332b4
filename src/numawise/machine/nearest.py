"""What is near to what: each GPU's NUMA node with CPUs, and the NICs nearest to a set of GPUs.

Rules kept here:

1. The GPUs of a machine are those that NVML or a link matrix names; MIG instances stand in place of the GPU
   they are parts of.  Where nothing names GPUs, the PCI list does (``displays``).
2. A GPU belongs to one NUMA node that has CPUs and memory, its home.  The first of these that is known
   decides: the nodes it is reported with; the distances from a reported node that has no CPUs, or no memory;
   the distances from the node of the GPU's own memory; the CPUs that PCI calls local; the bridges above it.
   Nodes that are equally near, or all of them where that is unknown, are shared out evenly among the GPUs of
   the machine, in the order of the PCIe tree so that those below one switch stay together.
3. Whatever was not simply reported is explained in a sentence, except that a machine with one NUMA node
   leaves nothing to resolve for a GPU that names none.
4. A MIG instance is where its parent is.
5. NICs are ordered by their links to the GPUs.  A NIC has a network interface, an RDMA device or both; which
   name is which shows by how drivers and rdma-core call RDMA devices.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from numawise.machine.hardware import NIC, Gpu, Hardware, PciDevice
from numawise.machine.locality import (
    NODE,
    SYS,
    Links,
    cpus_by_numa,
    link_rank,
    pci_by_address,
    short_address,
    whole_gpus,
)
from numawise.machine.pci import TAKEN_AWAY, gpu_functions
from numawise.sets import bits_of, format_ids, ids_of
from numawise.values import dataclass, replace

RDMA = (
    *("mlx", "mthca", "hfi1_", "qib", "bnxt_re", "irdma", "i40iw", "qedr", "cxgb", "ocrdma", "hns_", "erdma"),
    *("efa", "rdmap", "roce", "mana_", "usnic", "vmw_pvrdma", "ionic_", "rxe", "siw", "opap", "iwp"),
)
"""How RDMA devices are called: by their drivers, or by their place as rdma-core does."""
RDMA_OR_NET = ("ibp", "ibs", "ibo", "ibx")
"""InfiniBand by place: the RDMA device and the network interface may both be called so."""


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """Where a GPU is counted to."""

    gpu: Gpu
    numa: int
    """Packed: its home, a NUMA node with CPUs; 0 when the machine has none."""
    near: int
    """Packed: all NUMA nodes that are as near as its home."""
    remark: str = ""
    """How that came about, where it was not simply reported."""


@dataclass(frozen=True, slots=True)
class NearNic:
    """A NIC, seen from some GPUs."""

    net: str
    """Network interface, such as ``eth0``; '' when it has none."""
    hca: str
    """RDMA device, such as ``mlx5_0``; '' when it has none."""
    link: str = ""
    """Its best link to one of the GPUs; '' when unknown."""
    nearest: tuple[str, ...] = ()
    """Names of the GPUs that have no better NIC."""
    device: PciDevice | None = None
    """Its PCI function; None when only a link matrix lists it."""

    @property
    def name(self) -> str:
        """What to call it."""
        return self.net or self.hca


def gpus_of(hardware: Hardware) -> tuple[Gpu, ...]:
    """The GPUs that can be given to jobs (rule 1)."""
    whole = whole_gpus(hardware)
    if whole or hardware.gpus:
        parts: dict[str, list[Gpu]] = {}
        for gpu in hardware.gpus:
            if gpu.parent:
                parts.setdefault(gpu.parent, []).append(gpu)
        named = {gpu.name for gpu in whole}
        orphans = [gpu for parent, group in parts.items() if parent not in named for gpu in group]
        return (*(part for gpu in whole for part in parts.get(gpu.name, [gpu])), *orphans)
    return tuple(
        Gpu(
            name=f"GPU{i}",
            address=short_address(device.address),
            model=device.model,
            cpus=device.local_cpus or None,
            numa=(device.numa,) if device.numa is not None and device.numa >= 0 else None,
            maker=device.vendor,
        )
        for i, device in enumerate(gpu_functions(hardware.pci))
    )


def usable_numa(hardware: Hardware) -> int:
    """NUMA nodes with CPUs and memory; those with CPUs where none is known to have both.  Packed.

    In a print of links, which names no NUMA nodes as such, they are those that GPUs are reported with.
    """
    if not hardware.numa and not hardware.threads:
        return bits_of(numa for gpu in hardware.gpus for numa in gpu.numa or () if numa >= 0)
    cpus = cpus_by_numa(hardware)
    empty = {node.id for node in hardware.numa if node.memory == 0}
    return bits_of(numa for numa in cpus if numa not in empty) or bits_of(cpus)


def placed_gpus(hardware: Hardware, gpus: Sequence[Gpu] = ()) -> tuple[GpuPlace, ...]:
    """The home of every GPU (rules 2 to 4), in the order of the GPUs; all of the machine by default."""
    every = gpus_of(hardware)
    asked = tuple(gpus) or every
    chips = _chips(hardware, (*every, *asked))
    look = _Look(hardware, usable_numa(hardware), cpus_by_numa(hardware), pci_by_address(hardware))
    found = {name: look.near(gpu) for name, gpu in chips.items()}
    homes = look.shared_out(chips, {name: near for name, (near, _) in found.items()})
    return tuple(
        GpuPlace(gpu, homes[chip], near, _sentence(gpu, homes[chip], near, how))
        for gpu, chip, (near, how) in ((gpu, chip_of(gpu), found[chip_of(gpu)]) for gpu in asked)
    )


def chip_of(gpu: Gpu) -> str:
    """Name of the GPU itself: of a MIG instance, the GPU it is a part of."""
    return gpu.parent or gpu.name


def _chips(hardware: Hardware, gpus: Iterable[Gpu]) -> Mapping[str, Gpu]:
    """The GPUs themselves, by name, in order."""
    whole = {gpu.name: gpu for gpu in whole_gpus(hardware)}
    found: dict[str, Gpu] = {}
    for gpu in gpus:
        found.setdefault(chip_of(gpu), whole.get(chip_of(gpu), gpu))
    return found


@dataclass(frozen=True, slots=True)
class _Look:
    """A machine, prepared for looking up where its GPUs are."""

    hardware: Hardware
    usable: int
    """Packed NUMA nodes that can be a home."""
    cpus: Mapping[int, int]
    """NUMA node → CPUs."""
    devices: Mapping[str, PciDevice]

    def near(self, gpu: Gpu) -> tuple[int, str]:
        """Usable NUMA nodes nearest to a GPU, and how they were found; '' when simply reported."""
        device = self.device(gpu)
        reported = self.reported(gpu, device)
        if reported & self.usable:
            return reported & self.usable, ""
        if self.usable.bit_count() < 2 and not reported and gpu.own_numa is None:
            return self.usable, ""
        report = f"it reports NUMA node {format_ids(reported)}" if reported else "it reports no NUMA node"
        near, distance = self.nearest(reported)
        if near:
            lacks = "memory" if any(reported >> numa & 1 for numa in self.cpus) else "CPUs"
            return near, f"{report}, which has no {lacks}; the nearest that has, at distance {distance}"
        own = 0 if gpu.own_numa is None or gpu.own_numa < 0 else 1 << gpu.own_numa
        near, distance = self.nearest(own)
        if near:
            where = f"its own memory is NUMA node {format_ids(own)}"
            return near, f"{report} with CPUs; {where}, the nearest with CPUs at distance {distance}"
        if device is not None:
            local = bits_of(n for n, own in self.cpus.items() if own & (device.local_cpus or 0)) & self.usable
            if local and local != self.usable:
                return (
                    local,
                    f"{report}; by the CPUs {format_ids(device.local_cpus or 0)} that PCI calls local",
                )
            for address in reversed(device.parents):
                above = _named(self.devices.get(address)) & self.usable
                if above:
                    return above, f"{report}; by the bridge {address} above it"
        return self.usable, f"{report}, and nothing else gives one"

    def device(self, gpu: Gpu) -> PciDevice | None:
        """Its PCI function."""
        return self.devices.get(short_address(gpu.address)) if gpu.address else None

    def reported(self, gpu: Gpu, device: PciDevice | None) -> int:
        """NUMA nodes that a GPU is reported with; of several, the one that PCI names.  Packed."""
        stated = bits_of(numa for numa in gpu.numa or () if numa >= 0)
        by_pci = _named(device)
        if stated:
            return by_pci if stated & by_pci & self.usable else stated
        if by_pci:
            return by_pci
        every = 0
        for own in self.cpus.values():
            every |= own
        near = (gpu.cpus or 0) & every
        return bits_of(numa for numa, own in self.cpus.items() if own & near) if near != every else 0

    def nearest(self, start: int) -> tuple[int, int]:
        """The usable NUMA nodes at the least distance from some node of a set, and that distance."""
        best, found = 0, 0
        for one, other, distance in _distances(self.hardware) if start else ():
            if start >> one & 1 and self.usable >> other & 1 and (not found or distance <= best):
                found = (found if distance == best else 0) | 1 << other
                best = distance
        return found, best

    def shared_out(self, chips: Mapping[str, Gpu], near: Mapping[str, int]) -> Mapping[str, int]:
        """One NUMA node for each GPU: the only one it is near to, or an even part of several."""
        homes = {name: bits for name, bits in near.items() if bits.bit_count() < 2}
        order = {name: i for i, name in enumerate(chips)}

        def place(name: str) -> tuple[tuple[str, ...], int]:
            device = self.device(chips[name])
            return (device.parents if device else ()), order[name]

        groups: dict[int, list[str]] = {}
        for name in sorted((name for name in chips if name not in homes), key=place):
            groups.setdefault(near[name], []).append(name)
        for nodes, names in sorted(groups.items()):
            load = {numa: sum(home == 1 << numa for home in homes.values()) for numa in ids_of(nodes)}
            room = dict.fromkeys(load, 0)
            for _ in names:  # always to the emptiest, of equals to the lowest
                room[min(load, key=lambda numa: (load[numa] + room[numa], numa))] += 1
            dealt = [numa for numa, count in room.items() for _ in range(count)]
            homes |= {name: 1 << numa for name, numa in zip(names, dealt, strict=True)}
        return homes


def _named(device: PciDevice | None) -> int:
    """The NUMA node that the firmware names for a function, packed; 0: none."""
    return 0 if device is None or device.numa is None or device.numa < 0 else 1 << device.numa


def _distances(hardware: Hardware) -> Iterator[tuple[int, int, int]]:
    """Distances both ways: a node without CPUs may be listed by the others only."""
    for node in hardware.numa:
        for other, distance in node.distances:
            if other >= 0 and node.id >= 0:
                yield node.id, other, distance
                yield other, node.id, distance


def _sentence(gpu: Gpu, home: int, near: int, how: str) -> str:
    if near.bit_count() > 1:
        several = how or f"it reports NUMA nodes {format_ids(near)} equally"
        return f"{gpu.name}: {several}; counted as NUMA node {format_ids(home)}, shared out evenly"
    return f"{gpu.name}: {how}; counted as NUMA node {format_ids(home)}" if how and home else ""


def gpu_links(hardware: Hardware, gpus: Sequence[Gpu]) -> Links:
    """The links of a machine, GPUs that only the PCI list has included."""
    return Links.of(hardware if hardware.gpus else replace(hardware, gpus=tuple(gpus)))


def near_nics(hardware: Hardware, gpus: Sequence[Gpu | str]) -> tuple[NearNic, ...]:
    """Every NIC with a name, those nearest to the GPUs first: PIX, PXB, PHB, NODE, SYS, not known.

    GPUs may be given by name.  Of equals come first the NICs with the better links to all of the GPUs
    together, then by address.
    """
    every = {gpu.name: gpu for gpu in (*gpus_of(hardware), *hardware.gpus)}
    asked = [every[gpu] if isinstance(gpu, str) else gpu for gpu in gpus]
    links = gpu_links(hardware, list(every.values()))
    homes = {chip_of(place.gpu): place.numa for place in placed_gpus(hardware, asked)} if asked else {}
    found = []
    for net, hca, device in _nics(hardware):
        texts = {chip: _nic_link(links, chip, home, (hca, net), device) for chip, home in homes.items()}
        found.append((net, hca, device, texts))
    ranks = {chip: [link_rank(texts[chip]) for *_, texts in found] for chip in homes}
    best = {chip: min(column) for chip, column in ranks.items() if column}
    rows = []
    for at, (net, hca, device, texts) in enumerate(found):
        own = sorted(ranks[chip][at] for chip in homes)
        link = min(texts.values(), key=link_rank, default="")
        chips = [chip for chip in homes if ranks[chip][at] == best[chip] and texts[chip]]
        nearest = tuple(gpu.name for gpu in asked if chip_of(gpu) in chips)
        rows.append((own, at, NearNic(net, hca, link, nearest, device)))
    return tuple(nic for *_, nic in sorted(rows, key=lambda row: row[:2]))


def _nics(hardware: Hardware) -> Iterable[tuple[str, str, PciDevice | None]]:
    """Network and RDMA name of every NIC; those that only the matrix knows come last."""
    seen: set[str] = set()
    for device in hardware.pci:
        if device.kind == NIC and device.names and device.driver not in TAKEN_AWAY:
            seen.update(device.names)
            yield *nic_names(device.names), device
    matrix = hardware.matrix
    for label in matrix.nics if matrix else ():
        name = matrix.nic_names.get(label, "") if matrix else ""
        if name and name not in seen:
            yield *nic_names((name,)), None


def nic_names(names: Sequence[str]) -> tuple[str, str]:
    """Network interface and RDMA device out of a NIC's names, '' for what it lacks; the first of many."""
    rdma = [name for name in names if name.startswith(RDMA)]
    nets = [name for name in names if not name.startswith(RDMA)]
    if not rdma:
        doubtful = [name for name in nets if name.startswith(RDMA_OR_NET)]
        rdma = doubtful[-1:]
        nets = [name for i, name in enumerate(nets) if name not in rdma or name in nets[:i]]
    return (nets[0] if nets else ""), (rdma[0] if rdma else "")


def _nic_link(links: Links, chip: str, home: int, names: Iterable[str], device: PciDevice | None) -> str:
    for name in names:
        text = links.between(chip, name) if name else ""
        if text:
            return text
    named = _named(device)
    return "" if not named or not home else NODE if named == home else SYS
