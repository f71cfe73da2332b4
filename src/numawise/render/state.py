"""State files as people read them: rows, sentences, a map of the machine."""

from collections.abc import Sequence

from numawise.codec.checkpoint.look import WRITERS, Look
from numawise.machine.hardware import GPU_RESOURCES, NVIDIA, Hardware, MemoryNode, Thread
from numawise.node.state.folder import (
    Live,
    StateFolder,
    holders,
    known_cpus,
    label,
    memory_text,
)
from numawise.node.state.readers import accepted_text, readings
from numawise.quantity import Quantity
from numawise.render.holders import HolderMap, held_hardware
from numawise.results.simulation import NOT_KNOWN
from numawise.results.state import KubeletStateChange, Unmatched
from numawise.sets import format_ids, ids_of
from numawise.values import replace

FILE_COLUMNS = ("FILE", "FORMAT", "POLICY", "CHECKSUM", "READ BY")
HOLDER_COLUMNS = ("POD", "CONTAINER", "CPUS", "MEMORY", "DEVICES")
MEMORY_COLUMNS = ("NUMA", "MEMORY", "TOTAL", "SYSTEM", "ALLOCATABLE", "RESERVED", "FREE", "USES", "GROUP")
SEVERAL = "several"


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


def change_lines(change: KubeletStateChange) -> list[str]:
    """What becomes of the files, in lines."""
    lines = [f"{file.file}: {text}" for file in change.files for text in file.changes]
    return [*lines, *(f"not done: {text}" for text in change.refused)]


# --- the map --------------------------------------------------------------------------------


def map_hardware(
    folder: StateFolder, hardware: Hardware | None, live: Live | None, unmatched: Sequence[Unmatched] = ()
) -> Hardware:
    """The machine with what is held written on it; without a machine, the CPUs that the files know.

    ``unmatched``: nobody knows whether GPUs of these resources are free.
    """
    some = holders(folder)
    if hardware is None:
        return Hardware(
            threads=tuple(Thread(cpu) for cpu in ids_of(known_cpus(folder))), name="CPUs in the state files"
        )
    devices = {name: label(one, live) for one in some for _, ids in one.devices for name in ids}
    unknown = {one.kind for one in unmatched if one.decides}
    for gpu in hardware.gpus:
        if (gpu.resource_name or GPU_RESOURCES[NVIDIA]) in unknown:
            devices.setdefault(gpu.uuid or gpu.name, NOT_KNOWN)
    numa = tuple(_node(folder, node) for node in hardware.numa)
    return replace(held_hardware(hardware, HolderMap(devices=devices)), numa=numa)


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
    recorded = folder.memory.numa.get(node.id)
    held = sum(table.reserved for table in recorded.tables.values()) if recorded else 0
    note = f"{node.note} {Quantity.of(held)} held".strip() if held else node.note
    return replace(node, note=note, distances=())
