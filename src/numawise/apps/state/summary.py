"""State files as documents: who holds what, with what is wrong, and what becomes of them."""

from collections.abc import Sequence
from dataclasses import fields

from numawise.engine.state import NumaMemory
from numawise.node.state.change import Change, FileChange
from numawise.node.state.folder import Against, Holder, Live, StateFile, StateFolder, holders
from numawise.node.state.readers import readings
from numawise.results.finding import Finding
from numawise.results.state import (
    Checksum,
    HeldMemory,
    KubeletState,
    KubeletStateChange,
    KubeletStateReport,
    MemoryAmounts,
    NumaTable,
    Reader,
    StateFileChange,
    StateFileSummary,
    StateHolder,
    Unmatched,
)
from numawise.rules.versions import shown
from numawise.sets import CpuSet, NumaSet, format_ids


def summarized(folder: StateFolder, against: Against, unmatched: tuple[Unmatched, ...] = ()) -> KubeletState:
    """Files, holders, pool and memory."""
    return KubeletState(
        directory=str(folder.directory),
        files=tuple(_file(file) for file in folder.files),
        shared_pool=CpuSet(folder.cpu.shared),
        holders=tuple(_holder(holder, against.live) for holder in holders(folder)),
        memory=tuple(_table(numa, node) for numa, node in sorted(folder.memory.numa.items())),
        unmatched=unmatched,
    )


def reported(
    folder: StateFolder,
    against: Against,
    findings: Sequence[Finding],
    unmatched: tuple[Unmatched, ...] = (),
) -> KubeletStateReport:
    """The state with its findings."""
    state = summarized(folder, against, unmatched)
    return KubeletStateReport(
        **{field.name: getattr(state, field.name) for field in fields(state)},
        kubernetes=shown(against.version),
        findings=tuple(findings),
    )


def changed(
    folder: StateFolder, change: Change, against: Against, backup: str | None, *, written: bool
) -> KubeletStateChange:
    """What becomes of the files."""
    return KubeletStateChange(
        directory=str(folder.directory),
        kubernetes=shown(against.version),
        written=written,
        backup=backup,
        files=tuple(_change(file) for file in change.files),
        refused=change.refused,
        left=change.left,
    )


def _change(change: FileChange) -> StateFileChange:
    file = change.file
    return StateFileChange(file.name, str(file.path), change.said, change.text is None, change.text)


def _file(file: StateFile) -> StateFileSummary:
    look = file.look
    return StateFileSummary(
        file=file.name,
        path=str(file.path),
        format=look.format or None,
        policy=look.policy or None,
        checksums=tuple(Checksum(each.member, each.stored, each.right, each.fits) for each in look.sums),
        problem=look.problem or None,
        remarks=look.remarks,
        readers=tuple(
            Reader(shown(each.version), each.gate, each.problem or None) for each in readings(file)
        ),
    )


def _holder(holder: Holder, live: Live | None) -> StateHolder:
    pod = (live or {}).get(holder.uid)
    return StateHolder(
        uid=holder.uid or None,
        pod=pod.name if pod else None,
        container=holder.container or None,
        alive=None if live is None else pod is not None,
        cpus=CpuSet(holder.cpus),
        memory=tuple(HeldMemory(format_ids(block.numa), block.type, block.size) for block in holder.blocks),
        devices=dict(holder.devices),
    )


def _table(numa: int, node: NumaMemory) -> NumaTable:
    amounts = {
        kind: MemoryAmounts(table.total, table.system, table.allocatable, table.reserved, table.free)
        for kind, table in sorted(node.tables.items())
    }
    return NumaTable(numa, node.users, NumaSet(node.cells), amounts)
