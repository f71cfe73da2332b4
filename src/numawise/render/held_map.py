"""The map of a machine with all who hold something of it, for a page.

Rules kept here:

1. Everybody who has CPUs, memory or devices is a holder with a mark of its own, in the order of coming; so
   is the system, for which CPUs and memory are kept.  What several have, each of them has; the drawing, where
   one mark has room, calls it ``several``'s.
2. What the drawing cannot say is beside it as data: holders, parts, tables, the shared pool.
3. A mark is one or more of A-Z and 0-9; ``r`` is what is reserved, ``*`` what several have.
4. Nothing is free only because the file that would say who has it cannot be read, or is not there.
"""

from collections.abc import Iterable, Mapping, Sequence

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE
from numawise.engine.state import DeviceState, NodeState, held_by, recorded
from numawise.machine.hardware import GPU, NIC, Hardware, hardware_of
from numawise.machine.locality import cpus_by_numa, numa_of, short_address
from numawise.machine.model import Machine
from numawise.machine.preference import REPLICA
from numawise.node.node import SimulatedNode
from numawise.node.state.folder import StateFolder, cpus_word, memory_text
from numawise.render.holders import RESERVED, SEVERAL, bytes_by_numa, pod_name
from numawise.render.holds import gpu_names, held, owner_text
from numawise.render.picture.boxes import MARKS, SOCKET, SYSTEM, Marked, Marks
from numawise.render.picture.devices import items_of
from numawise.render.picture.inline import DrawnPart, inline
from numawise.render.picture.layout import picture, remark_notes
from numawise.render.picture.svg import HOLDS_LIGHT
from numawise.render.picture.tables import Table, distance_table, every_distance, link_table, meanings
from numawise.render.words import bytes_text, clean
from numawise.results.explanation import Explanation
from numawise.results.machine_map import MapForm, MapHolderForm, MapMemory, MapPart, MapTable, MapTableRow
from numawise.results.placement import Capacity, Hold, pool_of
from numawise.rules.model import Rules
from numawise.sets import CpuSet, NumaSet, bits_of, format_ids, ids_of
from numawise.values import dataclass, field, replace

POD, JOB = "pod", "job"
CPUS, DEVICES = "cpus", "devices"


@dataclass(frozen=True, slots=True)
class MapHolder:
    """Somebody who has something of a machine."""

    id: str
    """Unique on the map: uid of a pod, id of a hold."""
    name: str
    kind: str = POD
    cpus: int = 0
    """CPUs that it has alone."""
    memory: Mapping[int, int] = field(default_factory=dict)
    """NUMA node → bytes."""
    devices: tuple[str, ...] = ()
    """By any of their names."""
    lines: tuple[str, ...] = ()
    """What else there is to say, for people."""


@dataclass(frozen=True, slots=True)
class MapSource:
    """What a map is drawn from."""

    hardware: Hardware
    holders: tuple[MapHolder, ...] = ()
    shared: int | None = None
    """The shared pool; None: nobody has CPUs alone here, or it is not known."""
    reserved: int = 0
    """CPUs kept for the system."""
    notices: tuple[str, ...] = ()
    """What must be known to read the map, a sentence each."""
    unknown: tuple[str, ...] = ()
    """Of which of ``CPUS`` and ``DEVICES`` nobody says who has them (rule 4)."""
    before: tuple[str, ...] = ()
    """Holders of a map that this one is compared with, in its order: who is on both has the same mark."""


# --- where it comes from ----------------------------------------------------------------------


def map_of_node(
    node: SimulatedNode,
    names: Mapping[str, str] | None = None,
    owners: Mapping[str, str] | None = None,
    hardware: Hardware | None = None,
) -> MapSource:
    """A kubelet's node; ``names`` and ``owners`` by pod uid, ``hardware`` where more of it is known."""
    drawn = hardware_of(node.machine) if hardware is None else with_offered(hardware, node.machine)
    return map_of_state(drawn, node.state, node.rules, names, owners)


def with_offered(hardware: Hardware, machine: Machine) -> Hardware:
    """The hardware, with the GPUs that device plugins offer where it shows none itself."""
    if hardware.gpus or any(device.kind == GPU for device in hardware.pci):
        return hardware
    return replace(hardware, gpus=hardware_of(machine).gpus)


def map_of_files(hardware: Hardware, folder: StateFolder, names: Mapping[str, str]) -> MapSource:
    """What the state files of a kubelet record, where its configuration is not known."""
    state = NodeState(folder.cpu, folder.memory, DeviceState(grants=folder.devices.grants))
    file = folder.file(CPU_FILE)
    static = file is not None and file.look.cpu is not None and file.look.policy == "static"
    unknown = tuple(
        what for what, name in ((CPUS, CPU_FILE), (DEVICES, DEVICE_FILE)) if not folder.tells(name)
    )
    return map_of_state(hardware, state, replace(Rules(), cpu_static=static), names, unknown=unknown)


def map_of_state(
    hardware: Hardware,
    state: NodeState,
    rules: Rules,
    names: Mapping[str, str] | None = None,
    owners: Mapping[str, str] | None = None,
    unknown: tuple[str, ...] = (),
) -> MapSource:
    """What the pods of a node have, and what is kept for the system."""
    known = {uid: f"{pod.namespace}/{pod.name}" for uid, pod in state.active.items() if pod is not None}
    known |= names or {}
    holders = [
        _pod(state, uid, pod_name(uid, known), (owners or {}).get(uid, ""), unknown)
        for uid in dict.fromkeys((*state.active, *recorded(state)))
    ]
    reserved = rules.reserved_cpus if rules.cpu_static else 0
    system = {
        numa: sum(table.system for table in books.tables.values())
        for numa, books in state.memory.numa.items()
    }
    holders.append(_system(reserved, system))
    shared = state.cpu.shared if rules.cpu_static else None
    return MapSource(hardware, tuple(holders), shared, reserved, unknown=unknown)


def map_of_holds(capacity: Capacity, holds: Iterable[Hold], notices: Iterable[str] = ()) -> MapSource:
    """What the jobs of a host have."""
    hardware = replace(
        capacity.hardware,
        name=capacity.hardware.name or "this machine",
        gpus=capacity.hardware.gpus or capacity.gpus,
    )
    live, names = tuple(holds), gpu_names(capacity)
    holders = [_job(hold, names) for hold in live]
    holders.append(_system(capacity.reserved, {}))
    return MapSource(
        hardware, tuple(holders), pool_of(capacity, live), capacity.reserved, tuple(map(clean, notices))
    )


def with_jobs(node: MapSource, host: MapSource) -> MapSource:
    """A node's pods together with the jobs that run beside them on the same host."""
    jobs = tuple(one for one in host.holders if one.kind == JOB)
    taken = 0
    for one in jobs:
        taken |= one.cpus
    shared = node.shared if node.shared is None else node.shared & ~taken
    notices = (*node.notices, *host.notices)
    return replace(node, holders=(*node.holders, *jobs), shared=shared, notices=notices)


def _pod(state: NodeState, uid: str, name: str, owner: str, unknown: Sequence[str]) -> MapHolder:
    cpus, own = held_by(state, uid).cpus, state.cpu.assignments.get(uid, {})
    blocks = state.memory.assignments.get(uid, {})
    every = state.memory.pods.get(uid) or tuple(block for some in blocks.values() for block in some)
    grants = state.devices.grants.get(uid, {})
    devices = {
        container: tuple(sorted({i for grant in resources.values() for i in grant.ids}))
        for container, resources in grants.items()
    }
    lines = [f"of {owner}"] if owner and owner != name else []
    if uid in state.departed:
        name += " (gone)"
        lines.append("what it had is not collected yet")
    if state.cpu.pods.get(uid):
        lines.append(f"whole pod: CPUs {format_ids(state.cpu.pods[uid])}")
    for container in dict.fromkeys((*own, *blocks, *devices)):
        had = [
            f"CPUs {format_ids(own[container])}" if own.get(container) else "",
            memory_text(blocks.get(container, ())),
            " ".join(devices.get(container, ())),
        ]
        lines.append(f"{container}: {', '.join(filter(None, had)) or 'nothing of its own'}")
    if not cpus:
        lines.append("its CPUs are not known" if CPUS in unknown else "runs in the shared pool")
    granted = tuple(dict.fromkeys(i for ids in devices.values() for i in ids))
    return MapHolder(uid, name, POD, cpus, bytes_by_numa(every), granted, tuple(lines))


def _job(hold: Hold, names: dict[str, str]) -> MapHolder:
    memory = bytes_by_numa(hold.grant.memory)
    devices = tuple(names.get(one, one) for _, ids in hold.grant.devices for one in ids)
    lines = [f"hold {hold.id} of {hold.owner.user}, {owner_text(hold)}", *held(hold, names)]
    if not hold.grant.cpus:
        near = f", near NUMA {format_ids(hold.grant.near)}" if hold.grant.near else ""
        lines.append(f"runs in the shared pool{near}")
    if hold.command:
        lines.append(" ".join(hold.command))
    return MapHolder(hold.id, hold.name, JOB, hold.grant.cpus, memory, devices, tuple(lines))


def _system(cpus: int, memory: Mapping[int, int]) -> MapHolder:
    lines = [f"CPUs {format_ids(cpus)}: no pod or job has them alone"] if cpus else []
    return MapHolder(SYSTEM, RESERVED, SYSTEM, cpus, memory, lines=tuple(lines))


# --- the map ----------------------------------------------------------------------------------


def map_data(source: MapSource, width: int, *, tables: bool = True) -> MapForm:
    """The map, drawn for a width in pixels; ``tables``: with those of links and distances."""
    hardware = source.hardware
    holders = _distinct(source.holders)
    cpus = _by_cpu(holders)
    devices, elsewhere = _by_device(hardware, holders)
    memory: dict[int, list[tuple[str, int]]] = {}
    for one in holders:
        for numa, size in one.memory.items():
            memory.setdefault(numa, []).append((one.id, size))
    known = {one.id: one.name for one in holders}
    order = list(dict.fromkeys((*source.before, *known)))
    letters = _letters(order)
    names = {one: Marked(letters[one], clean(known.get(one, one))) for one in order}
    owners = _Owners(cpus, devices, {numa: tuple(shares) for numa, shares in memory.items()}, names)
    seen = picture(hardware, {cpu: _label(who) for cpu, who in cpus.items()}, owners.marks())
    drawing = inline(seen, width)
    every = bits_of(thread.cpu for thread in hardware.threads)
    free = 0 if CPUS in source.unknown else every & ~bits_of(cpus) & ~source.reserved
    homes = _Homes(cpus_by_numa(hardware), {item.name: item.numa for item in items_of(hardware)})
    return MapForm(
        name=seen.name,
        summary=seen.summary,
        description=seen.description,
        width=drawing.width,
        height=drawing.height,
        svg=drawing.svg,
        cpus=CpuSet(every),
        shared=None if source.shared is None else CpuSet(source.shared),
        reserved=CpuSet(source.reserved),
        free=CpuSet(free),
        holders=tuple(
            _holder(one, homes, names[one.id].mark, order.index(one.id), devices, elsewhere)
            for one in holders
        ),
        parts=tuple(_part(part, source, owners) for part in drawing.parts),
        tables=tuple(_tables(hardware)) if tables else (),
        unknown=source.unknown,
        notices=source.notices,
        remarks=tuple(clean(f"{kind}: {text}") for kind, text in remark_notes(hardware)),
    )


def _distinct(holders: Iterable[MapHolder]) -> list[MapHolder]:
    """The holders with ids that are unlike each other and can be printed; the system only if it has any."""
    found: dict[str, MapHolder] = {}
    for one in holders:
        if one.kind == SYSTEM:
            if one.cpus or any(one.memory.values()):
                found[SYSTEM] = one
            continue
        name = clean(one.id)
        while name in found or name in (SYSTEM, SEVERAL, ""):
            name += "'"
        found[name] = replace(one, id=name)
    return list(found.values())


def _letters(holders: Iterable[str]) -> dict[str, str]:
    """Holder → its mark (rule 3)."""
    found: dict[str, str] = {}
    for one in holders:
        if one == SYSTEM:
            continue
        high, low = divmod(len(found), len(MARKS))
        found[one] = f"{MARKS[(high - 1) % len(MARKS)]}{MARKS[low]}" if high else MARKS[low]
    return {**found, SYSTEM: "r"}


def _by_cpu(holders: Iterable[MapHolder]) -> dict[int, tuple[str, ...]]:
    """CPU → who has it; it is reserved where nobody else has it."""
    found: dict[int, tuple[str, ...]] = {}
    for one in sorted(holders, key=lambda each: each.kind == SYSTEM):
        for cpu in ids_of(one.cpus):
            before = found.get(cpu, ())
            if not before or one.kind != SYSTEM:
                found[cpu] = (*before, one.id)
    return found


def _by_device(
    hardware: Hardware, holders: Sequence[MapHolder]
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Drawn device → who has it or a part of it, and holder → devices that are not drawn."""
    drawn = drawn_devices(hardware, (name for one in holders for name in one.devices))
    found: dict[str, tuple[str, ...]] = {}
    elsewhere: dict[str, tuple[str, ...]] = {}
    for one in holders:
        for name in one.devices:
            if name not in drawn:
                elsewhere[one.id] = (*elsewhere.get(one.id, ()), name)
            elif one.id not in found.get(drawn[name], ()):
                found[drawn[name]] = (*found.get(drawn[name], ()), one.id)
    return found, elsewhere


def _label(who: tuple[str, ...]) -> str:
    """What the drawing calls the holders of one CPU or device."""
    return who[0] if len(who) == 1 else SEVERAL


@dataclass(frozen=True, slots=True)
class _Owners:
    """Who has what."""

    cpus: Mapping[int, tuple[str, ...]]
    devices: Mapping[str, tuple[str, ...]]
    memory: Mapping[int, tuple[tuple[str, int], ...]]
    names: Mapping[str, Marked]

    def marks(self) -> Marks:
        """The same for the drawing."""
        devices = {device: _label(who) for device, who in self.devices.items()}
        several: dict[int | str, str] = {
            cpu: self.words(who) for cpu, who in self.cpus.items() if len(who) > 1
        }
        several |= {device: self.words(who) for device, who in self.devices.items() if len(who) > 1}
        return Marks(self.names, devices, self.memory, several)

    def of_device(self, drawn: str) -> tuple[str, ...]:
        """Who has a device, by its name as it is drawn: without control characters."""
        if drawn in self.devices:
            return self.devices[drawn]
        return next((who for name, who in self.devices.items() if clean(name) == drawn), ())

    def words(self, who: Iterable[str]) -> str:
        """Holders by name."""
        return " and ".join(self.names[one].name for one in who)


def drawn_devices(hardware: Hardware, names: Iterable[str]) -> dict[str, str]:
    """Device → its name in the drawing, of those that are drawn; a part of a GPU counts as the GPU."""
    wholes: dict[str, str] = {}
    for item in items_of(hardware):
        wholes |= {name: item.name for name in (item.name, item.address, *item.known) if name}
    for gpu in hardware.gpus:
        whole = gpu.parent or gpu.name
        wholes |= {name: whole for name in (gpu.uuid, gpu.name) if name and gpu.parent}
    found: dict[str, str] = {}
    for name in names:
        base = name.partition(REPLICA)[0]
        known = (base, short_address(base), base.partition("/")[0])
        place = next((wholes[each] for each in known if each in wholes), "")
        if place:
            found[name] = place
    return found


def walk_devices(hardware: Hardware, explained: Explanation | None) -> dict[str, str]:
    """The devices of all steps of a decision, likewise; none where nothing was decided step by step."""
    walk = explained.walk if explained is not None else None
    ids = dict.fromkeys(one.id for step in (walk.steps if walk else ()) for one in step.devices)
    return drawn_devices(hardware, ids)


@dataclass(frozen=True, slots=True)
class _Homes:
    """Where things are, looked up once for all holders."""

    cpus: Mapping[int, int]
    """NUMA node → its CPUs, packed."""
    devices: Mapping[str, tuple[int, ...]]

    def of(self, cpus: int, devices: Iterable[str]) -> int:
        """The NUMA nodes, packed, of CPUs and devices."""
        near = (numa for name in devices for numa in self.devices.get(name, ()))
        return bits_of(near) | bits_of(numa for numa, own in self.cpus.items() if own & cpus)


def _holder(
    one: MapHolder,
    homes: _Homes,
    mark: str,
    number: int,
    devices: Mapping[str, tuple[str, ...]],
    elsewhere: Mapping[str, tuple[str, ...]],
) -> MapHolderForm:
    sizes = sorted((numa, size) for numa, size in one.memory.items() if size)
    memory = tuple(MapMemory(numa, size, bytes_text(size)) for numa, size in sizes)
    own = {name for name, who in devices.items() if one.id in who}
    return MapHolderForm(
        id=one.id,
        name=clean(one.name),
        mark=mark,
        colour=number % len(HOLDS_LIGHT),
        kind=one.kind,
        cpus=CpuSet(one.cpus),
        numa=NumaSet(homes.of(one.cpus, own) | bits_of(part.numa for part in memory)),
        memory=memory,
        devices=(*sorted(own, key=_natural), *map(clean, elsewhere.get(one.id, ()))),
        lines=tuple(map(clean, one.lines)),
    )


def _natural(name: str) -> tuple[int, str]:
    return len(name), name


def _part(part: DrawnPart, source: MapSource, owners: _Owners) -> MapPart:
    box, cell = part.box, part.cell
    own = cell.cpus if cell else box.cpus
    shared, unknown = source.shared or 0, source.unknown
    known = DEVICES not in unknown if box.device and not cell else CPUS not in unknown
    who = [one for cpu in ids_of(own) for one in owners.cpus.get(cpu, ())]
    lines: list[str] = []
    if cell:
        for cpu in ids_of(own):
            free = "shared pool" if shared >> cpu & 1 else "free" if known else "not known"
            lines.append(f"CPU {cpu}: {owners.words(owners.cpus.get(cpu, ())) or free}")
    elif box.device:
        having = owners.of_device(box.device)
        who += having
        lines = [f"held by {owners.words(having)}"] if len(having) > 1 else []
        lines += [*box.lines, *(word for word in box.tip.split(", ") if word and word != box.device)]
    else:
        lines = [word for word in (box.note, *box.lines) if word]
        for holder in dict.fromkeys(who):
            of_it = bits_of(cpu for cpu in ids_of(own) if holder in owners.cpus.get(cpu, ()))
            lines.append(f"{owners.names[holder].name}: {cpus_word(of_it)}")
        for numa in box.numa if part.kind != SOCKET else ():
            for holder, size in owners.memory.get(numa, ()):
                if size:
                    who.append(holder)
                    lines.append(f"{bytes_text(size)} of its memory: {owners.names[holder].name}")
    held_by = tuple(dict.fromkeys(who))
    return MapPart(
        id=part.id,
        kind=part.kind,
        label=cpus_word(own) if cell else box.device or box.title,
        cpus=CpuSet(own),
        numa=NumaSet(bits_of(box.numa) or numa_of(source.hardware, own)),
        holders=held_by,
        free=known and not held_by,
        lines=tuple(lines),
    )


def _tables(hardware: Hardware) -> Iterable[MapTable]:
    links = link_table(hardware, [item for item in items_of(hardware) if item.kind in (GPU, NIC)])
    if links:
        yield _table("Links", links, dict(meanings(links)))
    distances = distance_table(hardware)
    if distances:
        yield _table("NUMA distances", distances, {})
    every = every_distance(hardware)
    if every:
        yield _table("All NUMA distances", every, {})


def _table(title: str, table: Table, means: Mapping[str, str]) -> MapTable:
    shown = table.cleaned(clean)
    return MapTable(
        title=title,
        corner=shown.corner,
        columns=shown.columns,
        rows=tuple(MapTableRow(row.label, row.cells) for row in shown.rows),
        note=shown.note,
        shades=dict(shown.shades),
        meanings=means,
    )
