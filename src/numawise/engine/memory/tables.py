"""The Memory Manager's tables: how memory is counted per NUMA node, charged and given back.

Counterpart: pkg/kubelet/cm/memorymanager/state, and ``updateMachineState``, ``releaseMemory`` and
``validateState`` of policy_static.go.

Rules kept here:

1. Arithmetic is unsigned and wraps at 64 bits, as in the kubelet; a node whose huge pages and
   reservation exceed its memory has an absurd amount free.
2. A charge fills nodes from the lowest up; a release frees from the lowest up, so inside a group
   only the sums mean anything.
3. A node leaves its group when nothing uses it any more.
"""

from collections.abc import Iterable, Mapping

from numawise.engine.state import Block, MemoryState, MemoryTable, NumaMemory
from numawise.machine.model import Machine
from numawise.quantity import Quantity
from numawise.request.model import HUGEPAGES, MEMORY
from numawise.rules.model import Rules
from numawise.sets import ids_of
from numawise.values import replace

WRAP = 2**64
NumaTables = dict[int, NumaMemory]


def empty_tables(machine: Machine, rules: Rules) -> NumaTables:
    """The tables of a machine on which nothing runs."""
    by_numa: NumaTables = {}
    for numa in machine.numa:
        reserved = rules.reserved_memory.get(numa.id, {})
        tables: dict[str, MemoryTable] = {}
        pages_total = 0
        for size_text, pages in numa.hugepages:
            size = Quantity.parse(size_text)
            name = f"{HUGEPAGES}{Quantity.of(size.value)}"
            total = pages * size.value % WRAP
            pages_total += total
            tables[name] = _table(total, reserved.get(name, 0), 0)
        tables[MEMORY] = _table(numa.memory, reserved.get(MEMORY, 0), pages_total)
        by_numa[numa.id] = NumaMemory(0, tables, 1 << numa.id)
    return by_numa


def _table(total: int, system: int, pages: int) -> MemoryTable:
    allocatable = (total - system - pages) % WRAP
    return MemoryTable(total, system, allocatable, 0, allocatable)


def charge(by_numa: NumaTables, mask: int, kind: str, size: int) -> None:
    """Book a use of some memory on the nodes of the mask."""
    for numa in ids_of(mask):
        node = by_numa[numa]
        tables = node.tables
        table = tables[kind]
        amount = min(table.free, size)
        if amount > 0:
            size -= amount
            tables = {
                **tables,
                kind: replace(table, reserved=(table.reserved + amount) % WRAP, free=table.free - amount),
            }
        by_numa[numa] = NumaMemory(node.users + 1, tables, mask)


def discharge(by_numa: NumaTables, block: Block) -> None:
    """Take a use of memory off the tables."""
    size = block.size
    for numa in ids_of(block.numa):
        node = by_numa[numa]
        users = node.users - 1
        tables = node.tables
        table = tables[block.type]
        amount = min(table.reserved, size)
        if amount > 0:
            size -= amount
            tables = {
                **tables,
                block.type: replace(
                    table, reserved=table.reserved - amount, free=(table.free + amount) % WRAP
                ),
            }
        by_numa[numa] = NumaMemory(users, tables, 1 << numa if users == 0 else node.cells)


def breaks_group(by_numa: Mapping[int, NumaMemory], mask: int) -> bool:
    """True when a mask of several nodes has a node that is used alone or in another group."""
    return mask.bit_count() > 1 and any(
        by_numa[numa].users > 0 and by_numa[numa].cells != mask for numa in ids_of(mask)
    )


def replayed(machine: Machine, rules: Rules, state: MemoryState) -> NumaTables | str:
    """The tables as the recorded blocks make them; a text when these do not fit the machine."""
    by_numa = empty_tables(machine, rules)
    for owner, blocks in _recorded(state):
        for block in blocks:
            where = f"[memorymanager] ({owner}) the memory assignment uses"
            if any(numa not in by_numa for numa in ids_of(block.numa)):
                return f"{where} the NUMA that does not exist"
            if any(block.type not in by_numa[numa].tables for numa in ids_of(block.numa)):
                return f"{where} memory resource that does not exist"
            charge(by_numa, block.numa, block.type, block.size)
    return by_numa


def _recorded(state: MemoryState) -> Iterable[tuple[str, tuple[Block, ...]]]:
    for uid, containers in state.assignments.items():
        if uid in state.pods:
            yield f"pod: {uid}, container: ", state.pods[uid]
            continue
        for container, blocks in containers.items():
            yield f"pod: {uid}, container: {container}", blocks


def same_tables(
    expected: Mapping[int, NumaMemory], found: Mapping[int, NumaMemory], *, by_group: bool
) -> bool:
    """True when the recorded tables agree with the expected ones (free and reserved: by group)."""
    if expected.keys() != found.keys():
        return False
    for numa, node in expected.items():
        other = found[numa]
        if (node.users, node.cells) != (
            other.users,
            other.cells,
        ) or node.tables.keys() != other.tables.keys():
            return False
        for kind, table in node.tables.items():
            there = other.tables[kind]
            fixed = (table.total, table.system, table.allocatable)
            if fixed != (there.total, there.system, there.allocatable):
                return False
            cells = node.cells if by_group else 1 << numa
            if _sums(expected, cells, kind) != _sums(found, cells, kind):
                return False
    return True


def _sums(by_numa: Mapping[int, NumaMemory], cells: int, kind: str) -> tuple[int, int]:
    tables = [by_numa[n].tables[kind] for n in ids_of(cells) if n in by_numa and kind in by_numa[n].tables]
    return sum(t.free for t in tables) % WRAP, sum(t.reserved for t in tables) % WRAP
