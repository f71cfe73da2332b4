"""State files as people read them: rows, sentences, a map of the machine; and the same as data."""

from collections.abc import Sequence
from dataclasses import replace

from numawise.apps.state.change import Change, FileChange
from numawise.codec.checkpoint.look import WRITERS, Look
from numawise.machine.hardware import Hardware, MemoryNode, Thread
from numawise.node.state.finding import ERROR, Against, Finding
from numawise.node.state.folder import Holder, Live, StateFile, StateFolder, holders, label, memory_text
from numawise.node.state.readers import accepted_text, readings
from numawise.quantity import Quantity
from numawise.render.holders import Held, held_hardware
from numawise.results.plain import API_VERSION
from numawise.rules.versions import shown
from numawise.sets import bits_of, format_ids, ids_of

FILE_COLUMNS = ("FILE", "FORMAT", "POLICY", "CHECKSUM", "READ BY")
HOLDER_COLUMNS = ("POD", "CONTAINER", "CPUS", "MEMORY", "DEVICES")
MEMORY_COLUMNS = ("NUMA", "MEMORY", "TOTAL", "SYSTEM", "ALLOCATABLE", "RESERVED", "FREE", "USES", "GROUP")
SEVERAL = "several"
Data = dict[str, object]


# --- rows -----------------------------------------------------------------------------------


def file_rows(folder: StateFolder) -> list[tuple[str, ...]]:
    """A row for each file, under ``FILE_COLUMNS``."""
    return [
        (
            file.name,
            f"{file.look.format} ({WRITERS[file.name][file.look.format]})" if file.look.format else "-",
            file.look.policy or "-",
            checksum_text(file.look),
            accepted_text(readings(file)),
        )
        for file in folder.files
    ]


def checksum_text(found: Look) -> str:
    """``3300516549, right`` or what is wrong."""
    if not found.sums:
        return found.problem or "-"
    parts = []
    for one in found.sums:
        stored = "none" if one.stored is None else str(one.stored)
        parts.append(f"{stored}, right" if one.fits else f"{stored}, should be {one.right}")
    return "; ".join(parts)


def holder_rows(folder: StateFolder, live: Live | None) -> list[tuple[str, ...]]:
    """A row for each holder, under ``HOLDER_COLUMNS``."""
    rows: list[tuple[str, ...]] = []
    for one in holders(folder):
        pod = (live or {}).get(one.uid)
        name = pod.name if pod else one.uid or "?"
        if live is not None and pod is None and one.uid:
            name += " (gone)"
        devices = " ".join(f"{resource}={','.join(ids)}" for resource, ids in one.devices)
        rows.append(
            (
                name,
                one.container or "(whole pod)",
                format_ids(one.cpus) or "-",
                memory_text(one.blocks) or "-",
                devices or "-",
            )
        )
    return rows


def memory_rows(folder: StateFolder) -> list[tuple[str, ...]]:
    """A row for each NUMA node and kind of memory, under ``MEMORY_COLUMNS``; kinds with none are left out."""
    rows: list[tuple[str, ...]] = []
    for numa, node in sorted(folder.memory.numa.items()):
        for kind, table in sorted(node.tables.items(), key=lambda item: (item[0] != "memory", item[0])):
            if not table.total:
                continue
            amounts = (table.total, table.system, table.allocatable, table.reserved, table.free)
            rows.append(
                (
                    str(numa),
                    kind,
                    *(str(Quantity.of(size)) for size in amounts),
                    str(node.users),
                    format_ids(node.cells),
                )
            )
    return rows


def pool_text(folder: StateFolder) -> str:
    """The shared pool in a line; '' when there is no CPU file with one."""
    shared = folder.cpu.shared
    if not shared:
        return ""
    return f"shared pool: CPUs {format_ids(shared)} ({shared.bit_count()})"


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """Findings with the kubelet's words and what to do, each a few lines."""
    lines = []
    for one in findings:
        place = f"{one.file}: " if one.file else ""
        lines.append(f"{one.severity}: {place}{one.text} [{one.kind}]")
        if one.message:
            lines.append(f"    the kubelet says: {one.message}")
        if one.fix:
            lines.append(f"    fix: {one.fix}")
    return lines


def change_lines(change: Change) -> list[str]:
    """What becomes of the files, in lines."""
    lines = []
    for one in change.files:
        for text in one.said:
            lines.append(f"{one.file.name}: {text}")
    lines += [f"not done: {text}" for text in change.refused]
    return lines


# --- the map --------------------------------------------------------------------------------


def map_hardware(folder: StateFolder, hardware: Hardware | None, live: Live | None) -> Hardware:
    """The machine with what is held written on it; without a machine, the CPUs that the files know."""
    some = holders(folder)
    if hardware is None:
        known = folder.cpu.shared
        for one in some:
            known |= one.cpus
        return Hardware(threads=tuple(Thread(cpu) for cpu in ids_of(known)), name="CPUs in the state files")
    devices = {name: label(one, live) for one in some for _, ids in one.devices for name in ids}
    numa = tuple(_node(folder, node) for node in hardware.numa)
    return replace(held_hardware(hardware, Held(devices=devices)), numa=numa)


def map_holds(folder: StateFolder, live: Live | None) -> dict[int, str]:
    """CPU → who has it."""
    found: dict[int, str] = {}
    for one in holders(folder):
        name = label(one, live)
        for cpu in ids_of(one.cpus):
            if cpu not in found or not one.container:
                found.setdefault(cpu, name)
            elif found[cpu].partition("/")[0] != name.partition("/")[0]:
                found[cpu] = SEVERAL
    return found


def _node(folder: StateFolder, node: MemoryNode) -> MemoryNode:
    books = folder.memory.numa.get(node.id)
    held = sum(table.reserved for table in books.tables.values()) if books else 0
    note = f"{node.note} {Quantity.of(held)} held".strip() if held else node.note
    return replace(node, note=note, distances=())


# --- data -----------------------------------------------------------------------------------


def state_data(folder: StateFolder, against: Against) -> Data:
    """Files, holders, pool and memory."""
    return {
        "apiVersion": API_VERSION,
        "kind": "KubeletState",
        "directory": str(folder.directory),
        "files": [_file_data(file) for file in folder.files],
        "sharedPool": format_ids(folder.cpu.shared),
        "holders": [_holder_data(one, against.live) for one in holders(folder)],
        "memory": [
            {
                "numa": numa,
                "uses": node.users,
                "group": list(ids_of(node.cells)),
                "amounts": {
                    kind: {
                        "total": table.total,
                        "systemReserved": table.system,
                        "allocatable": table.allocatable,
                        "reserved": table.reserved,
                        "free": table.free,
                    }
                    for kind, table in sorted(node.tables.items())
                },
            }
            for numa, node in sorted(folder.memory.numa.items())
        ],
    }


def verified_data(folder: StateFolder, against: Against, findings: Sequence[Finding]) -> Data:
    """The state with its findings."""
    errors = sum(one.severity == ERROR for one in findings)
    return {
        **state_data(folder, against),
        "kind": "KubeletStateReport",
        "kubernetes": shown(against.version),
        "errors": errors,
        "findings": [finding_data(one) for one in findings],
    }


def finding_data(one: Finding) -> Data:
    """A finding as JSON."""
    return {
        "kind": one.kind,
        "severity": one.severity,
        "file": one.file or None,
        "text": one.text,
        "kubelet": one.message or None,
        "fix": one.fix or None,
    }


def change_data(
    folder: StateFolder, change: Change, against: Against, backup: str | None, *, written: bool
) -> Data:
    """A change as JSON."""
    return {
        "apiVersion": API_VERSION,
        "kind": "KubeletStateChange",
        "directory": str(folder.directory),
        "kubernetes": shown(against.version),
        "written": written,
        "backup": backup,
        "files": [_change_data(one) for one in change.files],
        "refused": list(change.refused),
        "left": [finding_data(one) for one in change.left],
    }


def _change_data(one: FileChange) -> Data:
    return {
        "file": one.file.name,
        "path": str(one.file.path),
        "changes": list(one.said),
        "removed": one.text is None,
        "text": one.text,
    }


def _file_data(file: StateFile) -> Data:
    found = file.look
    return {
        "file": file.name,
        "path": str(file.path),
        "format": found.format or None,
        "policy": found.policy or None,
        "checksums": [
            {"member": one.member, "stored": one.stored, "right": one.right, "valid": one.fits}
            for one in found.sums
        ],
        "problem": found.problem or None,
        "remarks": list(found.remarks),
        "readers": [
            {
                "kubernetes": shown(one.version),
                "podLevelResourceManagers": one.gate,
                "problem": one.problem or None,
            }
            for one in readings(file)
        ],
    }


def _holder_data(one: Holder, live: Live | None) -> Data:
    pod = (live or {}).get(one.uid)
    return {
        "uid": one.uid or None,
        "pod": pod.name if pod else None,
        "container": one.container or None,
        "alive": None if live is None else pod is not None,
        "cpus": format_ids(one.cpus),
        "memory": [{"numa": format_ids(b.numa), "type": b.type, "size": b.size} for b in one.blocks],
        "devices": {resource: list(ids) for resource, ids in one.devices},
    }


def cpus_beyond(folder: StateFolder, hardware: Hardware) -> int:
    """CPUs that the files know and the machine does not have."""
    known = folder.cpu.shared
    for one in holders(folder):
        known |= one.cpus
    return known & ~bits_of(thread.cpu for thread in hardware.threads)
