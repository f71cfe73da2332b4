"""What a picture of a machine shows: boxes in boxes with labels, tables and a legend.

One layout, several writers: this module decides *what* is drawn and in which box, ``arrange`` decides
*where*, and ``text``, ``svg`` and ``html`` draw it.

Rules kept here:

1. A box stands for something that exists: socket, NUMA node, L3 group, switch, device.  Where every socket
   has one NUMA node, the two share a box; where a NUMA node has several sockets, it is the outer one.
2. Large numbers become ranges ("cores 0-31, threads 64-95"); every core still has its cell, with
   its CPU numbers only where they are few.
3. What is not known is said, never guessed: devices without a NUMA node have a box of their own.
4. Colour repeats what a word or a mark already says.
5. Text from outside is cleaned of control characters before it is shown.
"""

from collections.abc import Mapping, Sequence

from numawise.machine.hardware import GPU, NIC, Hardware, MemoryNode, Thread
from numawise.machine.locality import cores_in, cpus_by_numa, first_cpus, whole_gpus
from numawise.render.picture.boxes import (
    EMPTY,
    ENTRY,
    FABRIC,
    L3,
    LEGEND,
    MACHINE,
    MARKS,
    MEMORY,
    MIXED,
    NUMA,
    ROW,
    SOCKET,
    SWITCH,
    SYSTEM,
    TABLE,
    UNPLACED,
    Box,
    Cell,
    Marks,
    Picture,
    clean_box,
    held_note,
)
from numawise.render.picture.devices import DeviceItem, SwitchBox, items_of, short_model, tree
from numawise.render.picture.tables import distance_table, fabrics, link_table, meanings
from numawise.render.words import bytes_text, clean, counted, cpus_text, ranges, runs
from numawise.sets import bits_of, format_ids, ids_of
from numawise.values import dataclass, replace

FEW_CORES = 32  # of a machine, up to which every core shows its CPU numbers
FEW_NODES = 16  # with CPUs, up to which every one has a frame of its own
MOST_NOTES = 8
LONGEST_FABRIC = 60


def picture(
    hardware: Hardware, holds: Mapping[int, str] | None = None, marks: Marks | None = None
) -> Picture:
    """Lay out a machine; ``holds`` says who holds which CPU, ``marks`` who has the rest."""
    held = {cpu: clean(label) for cpu, label in (holds or {}).items()}
    labels = tuple(dict.fromkeys(label for _, label in sorted(held.items())))
    if marks is not None:
        labels = tuple(marks.holders)
    nodes = {node.id: node for node in hardware.numa}
    draw = _Draw(hardware, held, labels, cpus_by_numa(hardware), nodes, marks)
    name = clean(hardware.name) or "machine"
    line = summary(hardware)
    return Picture(name, line, clean_box(draw.machine(name, line)), labels)


def summary(hardware: Hardware) -> str:
    """The machine in one line."""
    sockets = {
        thread.socket for thread in hardware.threads if thread.socket is not None and thread.socket >= 0
    }
    every = bits_of(thread.cpu for thread in hardware.threads)
    cores = len(cores_in(hardware, every))
    parts = []
    if sockets:
        parts.append(counted(len(sockets), "socket"))
    if hardware.numa:
        parts.append(counted(len(hardware.numa), "NUMA node"))
    if hardware.threads and cores != len(hardware.threads):
        parts.append(counted(cores, "core"))
    if hardware.threads:
        parts.append(counted(len(hardware.threads), "CPU"))
    memory = hardware.memory_capacity or sum(node.memory or 0 for node in hardware.numa)
    if memory:
        parts.append(bytes_text(memory))
    gpus = whole_gpus(hardware)
    if gpus:
        models = {short_model(gpu.model) for gpu in gpus}
        model = models.pop() if len(models) == 1 else ""
        parts.append(counted(len(gpus), "GPU") + (f" ({clean(model)})" if model else ""))
    nics = sum(item.kind == NIC for item in items_of(hardware))
    if nics:
        parts.append(counted(nics, "NIC"))
    return ", ".join(parts) or "nothing is known about it"


@dataclass(frozen=True, slots=True)
class _Draw:
    """Makes the boxes of one machine."""

    hardware: Hardware
    held: Mapping[int, str]
    labels: tuple[str, ...]
    cpus_of: Mapping[int, int]
    """CPUs of every NUMA node that has some."""
    nodes: Mapping[int, MemoryNode]
    marks: Marks | None = None

    @property
    def cores(self) -> int:
        """Cores of the whole machine."""
        return len(cores_in(self.hardware, bits_of(thread.cpu for thread in self.hardware.threads)))

    def machine(self, name: str, line: str) -> Box:
        """The whole machine: sockets, then what stands beside them, then tables and legend."""
        items = items_of(self.hardware)
        placed = {node.id for node in self.hardware.numa} | set(self.cpus_of)
        by_numa: dict[int, list[DeviceItem]] = {}
        lost: list[DeviceItem] = []
        for item in items:
            if len(item.numa) == 1 and item.numa[0] in placed:
                by_numa.setdefault(item.numa[0], []).append(item)
            else:
                lost.append(item)
        boxes = self.sockets(by_numa)
        boxes += self.fabric()
        boxes += self.memory_only(by_numa)
        boxes += self.unplaced(lost)
        if self.marks is None:
            boxes += self.tables(items)
        return Box(MACHINE, name, lines=(line,), boxes=tuple(boxes))

    def sockets(self, by_numa: Mapping[int, Sequence[DeviceItem]]) -> list[Box]:
        """Sockets with their NUMA nodes (rule 1)."""
        nodes = self.cpus_of
        sockets: dict[int | None, int] = {}
        for thread in self.hardware.threads:
            known = thread.socket if thread.socket is not None and thread.socket >= 0 else None
            sockets[known] = sockets.get(known, 0) | 1 << thread.cpu
        if not nodes:
            return [
                self.bare_socket(socket, cpus) for socket, cpus in sorted(sockets.items(), key=_by_socket)
            ]
        owners = {numa: [s for s, cpus in sockets.items() if cpus & here] for numa, here in nodes.items()}
        if not sockets or None in sockets or any(len(found) > 1 for found in owners.values()):
            return [self.numa(numa, by_numa, owners[numa]) for numa in nodes]
        homes: dict[int | None, list[int]] = {}
        for numa, (owner,) in owners.items():
            homes.setdefault(owner, []).append(numa)
        if all(len(found) == 1 for found in homes.values()):
            return [self.numa(numa, by_numa, owners[numa]) for numa in nodes]
        shared = self.shared_l3()
        return [
            Box(
                SOCKET,
                f"Socket {socket}",
                note=shared.get(socket, ""),
                boxes=tuple(self.numa(numa, by_numa, (), tell_l3=socket not in shared) for numa in found),
                cpus=sockets[socket],
                numa=tuple(found),
            )
            for socket, found in sorted(homes.items(), key=lambda home: min(home[1]))
        ]

    def bare_socket(self, socket: int | None, cpus: int) -> Box:
        """A socket of a machine whose NUMA nodes are not known."""
        title = "CPUs" if socket is None else f"Socket {socket}"
        caches, note, boxes = self.caches(cpus)
        lines = (cpus_text(self.hardware, cpus), *note, "NUMA nodes are not known")
        lines = (*lines, *self.hold_lines(cpus))
        return Box(SOCKET, title, lines=lines, cells=caches, boxes=tuple(boxes), cpus=cpus)

    def numa(
        self,
        numa: int,
        by_numa: Mapping[int, Sequence[DeviceItem]],
        sockets: Sequence[int | None],
        *,
        tell_l3: bool = True,
    ) -> Box:
        """One NUMA node with CPUs."""
        node = self.node(numa)
        cpus = self.cpus_of[numa]
        named = [socket for socket in sockets if socket is not None]
        title = f"NUMA {numa}"
        if len(named) == 1 and len({thread.socket for thread in self.hardware.threads}) > 1:
            title += f" · socket {named[0]}"
        elif len(named) > 1:
            title += f" · sockets {runs(named)}"
        cells, cache_lines, boxes = self.caches(cpus)
        brief = self.marks is not None and len(self.cpus_of) > FEW_NODES
        lines = [f"CPUs {format_ids(cpus)}" if brief else cpus_text(self.hardware, cpus)]
        lines += cache_lines if tell_l3 else ()
        lines += [f"huge pages {count} x {size}" for size, count in node.hugepages if count]
        lines += self.hold_lines(cpus)
        boxes += self.devices(by_numa.get(numa, ()))
        note = bytes_text(node.memory) if node.memory else "no memory" if node.memory == 0 else ""
        tip = [f"NUMA node {numa}", f"CPUs {format_ids(cpus)}", f"memory {note}" if note else ""]
        return Box(
            ROW if len(self.cpus_of) > FEW_NODES and not boxes else NUMA,
            title,
            f"{note} {self.memory_note(node)}".strip(),
            tuple(lines),
            cells,
            tuple(boxes),
            tip=", ".join(word for word in tip if word),
            brief=f"NUMA {numa}: {ranges(cpus)}{f', {note}' if note else ''}",
            cpus=cpus,
            numa=(numa,),
            fill=self.fill(node),
        )

    def memory_note(self, node: MemoryNode) -> str:
        """What is said about the memory of a node, beside how much it is."""
        return held_note(node.note, self.memory_held(node))

    def memory_held(self, node: MemoryNode) -> int:
        """Bytes of a node that somebody has; the system's own part is not counted."""
        parts = self.marks.memory.get(node.id, ()) if self.marks is not None else ()
        return sum(size for label, size in parts if label != SYSTEM)

    def fill(self, node: MemoryNode) -> tuple[tuple[str, float], ...]:
        """Who has which share of a node's memory."""
        parts = self.marks.memory.get(node.id, ()) if self.marks is not None else ()
        return tuple((label, size / node.memory) for label, size in parts if size and node.memory)

    def node(self, numa: int) -> MemoryNode:
        """What is known about a NUMA node; nothing, when only its CPUs name it."""
        return self.nodes.get(numa) or MemoryNode(numa)

    def caches(self, cpus: int) -> tuple[tuple[Cell, ...], tuple[str, ...], list[Box]]:
        """Cells of these CPUs, lines about their L3, or a box for each L3 where there are several."""
        groups: dict[int, Thread] = {}
        for thread in self.hardware.threads:
            if cpus >> thread.cpu & 1 and thread.l3:
                groups.setdefault(thread.l3.cpus, thread)
        few = len(self.hardware.threads) <= 2 * FEW_CORES and self.cores <= FEW_CORES
        if len(groups) <= 1 or all((bits & cpus).bit_count() <= 2 and few for bits in groups):
            lines = (
                tuple(self.l3_line(thread, cpus) for thread in groups.values()) if len(groups) == 1 else ()
            )
            return self.cells(cpus, few=few), tuple(filter(None, lines)), []
        sizes = {thread.l3.size for thread in groups.values() if thread.l3}
        size = sizes.pop() if len(sizes) == 1 else None
        line = f"{len(groups)} L3 of {bytes_text(size)}" if size else f"{len(groups)} L3"
        boxes = []
        for number, (bits, thread) in enumerate(groups.items()):
            assert thread.l3
            known = number if thread.l3.id is None else thread.l3.id
            own = bits & cpus
            boxes.append(
                Box(
                    L3,
                    f"L3 {known}" + ("" if size or not thread.l3.size else f", {bytes_text(thread.l3.size)}"),
                    self.core_numbers(own),
                    cells=self.cells(own, few=few),
                    tip=f"L3 cache {known}, CPUs {format_ids(bits)}",
                    brief=f"L3 {known}: {self.core_numbers(own)}",
                    cpus=own,
                )
            )
        return (), (line,), boxes

    def core_numbers(self, cpus: int) -> str:
        """The numbers of cores, that is, of their first CPUs; all CPUs where these are neighbours."""
        cores = cores_in(self.hardware, cpus)
        apart = all(core & core >> 1 == 0 for core in cores)
        return ranges(first_cpus(cores)) if apart else ranges(cpus)

    def l3_line(self, thread: Thread, cpus: int) -> str:
        """The one L3 that a NUMA node has, or has a part of."""
        assert thread.l3
        size = f"L3 {bytes_text(thread.l3.size)}" if thread.l3.size else ""
        others = [numa for numa, here in self.cpus_of.items() if here & thread.l3.cpus & ~cpus]
        return f"{size or 'L3'}, shared with NUMA {runs(others)}" if others else size

    def shared_l3(self) -> dict[int | None, str]:
        """Sockets whose NUMA nodes share one L3, and what to write beside them."""
        found: dict[int | None, set[int]] = {}
        sizes: dict[int | None, int | None] = {}
        cpus: dict[int | None, int] = {}
        for thread in self.hardware.threads:
            found.setdefault(thread.socket, set()).add(thread.l3.cpus if thread.l3 else 0)
            sizes[thread.socket] = thread.l3.size if thread.l3 else None
            cpus[thread.socket] = cpus.get(thread.socket, 0) | 1 << thread.cpu
        return {
            socket: f"L3 {bytes_text(size)}" if (size := sizes[socket]) else ""
            for socket, groups in found.items()
            if groups == {cpus[socket]}
        }

    def cells(self, cpus: int, *, few: bool) -> tuple[Cell, ...]:
        """A cell for every core."""
        cells = []
        for core in cores_in(self.hardware, cpus):
            by_cpu = {cpu: self.held.get(cpu, "") for cpu in ids_of(core)}
            holders = set(by_cpu.values()) - {""}
            hold = MIXED if len(holders) > 1 else next(iter(holders), "")
            word = "CPU" if len(by_cpu) == 1 else "core with CPUs"
            tip = f"{word} {format_ids(core)}"
            if holders:
                tip += ": " + ", ".join(
                    f"{cpu} {self.name(who, cpu) or 'free'}" for cpu, who in by_cpu.items()
                )
            text = " ".join(map(str, by_cpu)) if few else ""
            mark = self.mark(hold) if self.marks is not None else ""
            part = bool(hold) and "" in by_cpu.values()
            cells.append(Cell(f"{text} {mark}".strip(), tip, hold, part, core, mark))
        return tuple(cells)

    def name(self, label: str, of: int | str) -> str:
        """What to call the holder of a CPU or a device."""
        if self.marks is None:
            return label
        return (
            self.marks.holders[label].name
            if label in self.marks.holders
            else self.marks.several.get(of, label)
        )

    def mark(self, label: str) -> str:
        """The mark of a holder on a map; ``*`` for several, '' for none."""
        holders = self.marks.holders if self.marks is not None else {}
        return holders[label].mark if label in holders else "*" if label else ""

    def hold_lines(self, cpus: int) -> list[str]:
        """Who holds which of these CPUs; beside a map whose cells carry marks, its holders say that."""
        if self.marks is not None:
            return []
        lines = []
        for i, label in enumerate(self.labels):
            own = bits_of(cpu for cpu, holder in self.held.items() if holder == label) & cpus
            if own:
                lines.append(f"{MARKS[i % len(MARKS)]} {label}: {ranges(own)}")
        return lines

    def devices(self, items: Sequence[DeviceItem]) -> list[Box]:
        """The devices of one place, in their switches."""
        return [self.device(one) for one in tree(self.hardware, items)]

    def device(self, one: DeviceItem | SwitchBox) -> Box:
        """A device, or a switch with what hangs below it."""
        if isinstance(one, SwitchBox):
            return Box(SWITCH, "PCIe switch", boxes=tuple(self.device(inner) for inner in one.items))
        known = (one.name, one.address, *one.known)
        hold = (
            next((self.marks.devices[name] for name in known if name in self.marks.devices), "")
            if self.marks
            else ""
        )
        box = Box(one.kind, one.name, self.mark(hold), one.lines, tip=one.tip)
        told = f"{one.name}, held by {self.name(hold, one.name)}" if hold else ""
        return replace(box, numa=one.numa, device=one.name, hold=hold, brief=told)

    def memory_only(self, by_numa: Mapping[int, Sequence[DeviceItem]]) -> list[Box]:
        """NUMA nodes without CPUs: each with memory its box, the empty ones together."""
        owners = {gpu.own_numa: gpu.name for gpu in self.hardware.gpus if gpu.own_numa is not None}
        with_cpus = self.cpus_of
        boxes = []
        empty = []
        for node in self.hardware.numa:
            if node.id in with_cpus:
                continue
            inside = self.devices(by_numa.get(node.id, ()))
            if not node.memory and not inside:
                empty.append(node)
                continue
            lines = [f"memory of {owners[node.id]}" if node.id in owners else _memory_kind(node)]
            near = [(distance, numa) for numa, distance in node.distances if numa in with_cpus]
            if near:
                distance, numa = min(near)
                lines.append(f"nearest: NUMA {numa} ({distance})")
            note = bytes_text(node.memory) if node.memory else ""
            note = f"{note} {held_note('', self.memory_held(node))}".strip()
            box = Box(MEMORY, f"NUMA {node.id}", note, tuple(lines), boxes=tuple(inside))
            boxes.append(replace(box, numa=(node.id,), fill=self.fill(node)))
        if empty:
            ids = runs(node.id for node in empty)
            known = {node.memory for node in empty} == {0}
            text = "no CPUs, no memory" if known else "no CPUs, memory not known"
            boxes.append(Box(EMPTY, f"NUMA {ids}", text))
        return boxes

    def unplaced(self, items: Sequence[DeviceItem]) -> list[Box]:
        """Devices that no single NUMA node can claim (rule 3)."""
        places: dict[tuple[int, ...], list[DeviceItem]] = {}
        for item in items:
            places.setdefault(item.numa, []).append(item)
        boxes = []
        for numa, members in sorted(places.items()):
            title = f"Near NUMA {runs(numa)}" if numa else "Devices without a NUMA node"
            boxes.append(Box(UNPLACED, title, boxes=tuple(self.devices(members))))
        return boxes

    def fabric(self) -> list[Box]:
        """Links beside PCIe: NVLink, xGMI."""
        boxes = []
        for title, lines in fabrics(self.hardware):
            short = len(lines) == 1 and len(lines[0]) < LONGEST_FABRIC
            if short and self.marks is not None:  # a note is broken into lines where it must be
                boxes.append(Box(FABRIC, title, lines[0]))
                continue
            boxes.append(Box(FABRIC, f"{title}: {lines[0]}") if short else Box(FABRIC, title, lines=lines))
        return boxes

    def tables(self, items: Sequence[DeviceItem]) -> list[Box]:
        """Links and distances, what the words mean, and what a reader should know.

        Who holds what is a picture of its own: the links are left to the one without holds.
        """
        boxes = []
        ends = [item for item in items if item.kind in (GPU, NIC) and not self.held]
        links = link_table(self.hardware, ends)
        if links:
            boxes.append(Box(TABLE, "Links", table=links))
        distances = distance_table(self.hardware)
        if distances:
            boxes.append(Box(TABLE, "NUMA distances", table=distances))
        entries = [Box(ENTRY, word, lines=(meaning,)) for word, meaning in meanings(links)]
        for i, label in enumerate(self.labels):
            entries.append(Box(ENTRY, MARKS[i % len(MARKS)], lines=(f"held by {label}",)))
        if entries:
            boxes.append(Box(LEGEND, "Legend", boxes=tuple(entries)))
        notes = remark_notes(self.hardware)
        if len(notes) > MOST_NOTES:
            more = len(notes) - MOST_NOTES + 1
            notes = [*notes[: MOST_NOTES - 1], ("more", f"{more} further remarks: see -o json")]
        if notes:
            told = tuple(Box(ENTRY, kind, lines=(text,)) for kind, text in notes)
            boxes.append(Box(LEGEND, "Remarks", boxes=told))
        return boxes


def remark_notes(hardware: Hardware) -> list[tuple[str, str]]:
    """What a reader should know: settings of the system that affect placement, then remarks: kind, text."""
    notes = []
    host, every = hardware.host, bits_of(thread.cpu for thread in hardware.threads)
    if hardware.offline:
        notes.append(("offline", f"CPUs {ranges(hardware.offline)}"))
    if host and host.isolated:
        notes.append(("isolated", f"CPUs {ranges(host.isolated)} are isolated from the scheduler"))
    if host and host.cpuset is not None and host.cpuset & every != every:
        notes.append(("cpuset", f"processes here may use CPUs {ranges(host.cpuset)} alone"))
    for remark in hardware.remarks:
        itself = remark.place in ("", hardware.name)
        notes.append((remark.kind, remark.text if itself else f"{remark.place}: {remark.text}"))
    return notes


def _by_socket(item: tuple[int | None, int]) -> int:
    return -1 if item[0] is None else item[0]


def _memory_kind(node: MemoryNode) -> str:
    return f"{node.note} memory, no CPUs" if node.note else "memory only, no CPUs"
