"""The Memory Manager's tables beside the machine: how far they differ, and tables that fit.

Rules kept here:

1. A machine has not the same amount of memory after every boot: the kernel moves itself between NUMA nodes
   and frees more or less of what it needed to boot.  Up to ``USUAL`` a difference is taken for that.
2. Tables can be adapted when every block still fits: the same NUMA nodes and kinds of memory, and in each
   group at least as much to give as is recorded to be given.  Pods that run then keep what they have.
3. Adapted tables are what the kubelet expects at its start: the machine's own, with all blocks charged.
"""

from collections.abc import Iterable, Mapping

from numawise.engine.memory.tables import NumaTables, charge, empty_tables, same_tables
from numawise.engine.state import Block, MemoryState, NumaMemory
from numawise.machine.model import Machine
from numawise.quantity import Quantity
from numawise.request.model import MEMORY
from numawise.rules.model import Rules
from numawise.sets import format_ids, ids_of
from numawise.values import dataclass, replace

USUAL = 128 << 20
"""Bytes by which a NUMA node's memory may differ from boot to boot: a kernel's image, and some."""
LARGEST = 2**63
"""Beyond it an amount has wrapped below zero."""
Reserved = Mapping[int, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Difference:
    """One amount of the tables that is not the machine's."""

    numa: int
    kind: str
    recorded: int
    now: int

    @property
    def change(self) -> int:
        """How much more there is now; negative when there is less."""
        return self.now - self.recorded


@dataclass(frozen=True, slots=True)
class Drift:
    """How the tables and the machine differ."""

    gone: int = 0
    """NUMA nodes that only the tables have, packed."""
    new: int = 0
    """NUMA nodes that only the machine has, packed."""
    totals: tuple[Difference, ...] = ()
    reservations: tuple[Difference, ...] = ()
    kinds: tuple[str, ...] = ()
    """Kinds of memory, such as huge pages of a size, that only one side has."""
    obstacle: str = ""
    """Why the tables cannot be adapted; '' when they can."""

    @property
    def there(self) -> bool:
        """True when there is any difference."""
        return bool(self.gone or self.new or self.totals or self.reservations or self.kinds)

    @property
    def usual(self) -> bool:
        """True when it is what a reboot does (rule 1)."""
        small = all(one.kind == MEMORY and abs(one.change) <= USUAL for one in self.totals)
        return small and not (self.gone or self.new or self.reservations or self.kinds)


def recorded_reservation(state: MemoryState) -> Reserved:
    """What the tables keep for the system."""
    return {
        numa: {kind: table.system for kind, table in node.tables.items() if table.system}
        for numa, node in state.numa.items()
    }


def drift(state: MemoryState, machine: Machine, reserved: Reserved | None = None) -> Drift:
    """Compare the tables with the machine; ``reserved``: what its kubelet keeps for the system, if known."""
    now = machine_tables(machine, recorded_reservation(state) if reserved is None else reserved)
    before, after = set(state.numa), set(now)
    totals, reservations, kinds = [], [], []
    for numa in sorted(before & after):
        there, here = state.numa[numa].tables, now[numa].tables
        kinds += [f"{kind} on NUMA {numa}" for kind in sorted(there.keys() ^ here.keys())]
        for kind in sorted(there.keys() & here.keys()):
            if there[kind].total != here[kind].total:
                totals.append(Difference(numa, kind, there[kind].total, here[kind].total))
            if there[kind].system != here[kind].system:
                reservations.append(Difference(numa, kind, there[kind].system, here[kind].system))
    found = Drift(
        gone=sum(1 << numa for numa in before - after),
        new=sum(1 << numa for numa in after - before),
        totals=tuple(totals),
        reservations=tuple(reservations),
        kinds=tuple(kinds),
    )
    return replace(found, obstacle=_obstacle(state, now)) if found.there else found


def machine_tables(machine: Machine, reserved: Reserved) -> NumaTables:
    """The tables of the machine when nothing runs."""
    return empty_tables(machine, Rules(memory_static=True, reserved_memory=reserved))


def own_tables(state: MemoryState) -> NumaTables:
    """The tables' own amounts, as if nothing ran."""
    return {
        numa: NumaMemory(
            0,
            {kind: replace(table, reserved=0, free=table.allocatable) for kind, table in node.tables.items()},
            1 << numa,
        )
        for numa, node in state.numa.items()
    }


def charged(state: MemoryState, tables: NumaTables) -> MemoryState | str:
    """The same blocks in other tables (rule 3); a text when they do not fit."""
    problem = _obstacle(state, tables)
    if problem:
        return problem
    charged_tables = dict(tables)
    for _, blocks in recorded_blocks(state):
        for block in blocks:
            charge(charged_tables, block.numa, block.type, block.size)
    return replace(state, numa=charged_tables)


def contradiction(state: MemoryState) -> str:
    """Where the tables do not follow from their own blocks; '' when they do."""
    if not state.numa:
        return "there are blocks, but no NUMA nodes" if state.assignments else ""
    expected = charged(state, own_tables(state))
    if isinstance(expected, str):
        return expected
    if same_tables(expected.numa, state.numa, by_group=True):
        return ""
    for numa, node in sorted(state.numa.items()):
        other = expected.numa[numa]
        if node.cells != other.cells:
            return (
                f"NUMA {numa} is said to be in the group {format_ids(node.cells)}, "
                f"its blocks make that {format_ids(other.cells)}"
            )
        if node.users != other.users:
            return f"NUMA {numa} is said to be used {node.users} times, its blocks make that {other.users}"
    return "what is free and reserved does not follow from the blocks"


def undercharged(state: MemoryState) -> tuple[Difference, ...]:
    """Where less is reserved than the blocks hold, as the defect ``reuse-outlives-pod`` leaves it."""
    expected = charged(state, own_tables(state)) if state.numa else ""
    if isinstance(expected, str):
        return ()
    return tuple(
        Difference(numa, kind, table.reserved, expected.numa[numa].tables[kind].reserved)
        for numa, node in sorted(state.numa.items())
        for kind, table in sorted(node.tables.items())
        if table.reserved < expected.numa[numa].tables[kind].reserved < LARGEST
    )


def recorded_blocks(state: MemoryState) -> Iterable[tuple[str, tuple[Block, ...]]]:
    """Blocks with their owner, as the kubelet counts them: of a pod as a whole, or of its containers."""
    for uid, containers in state.assignments.items():
        if uid in state.pods:
            yield uid, state.pods[uid]
            continue
        for container, blocks in containers.items():
            yield f"{uid}/{container}", blocks


def amount(size: int) -> str:
    """Bytes as a quantity; with a sign where it has one."""
    return f"{'-' if size < 0 else ''}{Quantity.of(abs(size))}"


def drift_text(change: Drift) -> str:
    """How tables and machine differ, in one sentence."""
    parts = []
    if change.gone:
        parts.append(f"NUMA {format_ids(change.gone)} is gone")
    if change.new:
        parts.append(f"NUMA {format_ids(change.new)} is new")
    parts += [_difference(one) for one in change.totals]
    parts += [
        f"NUMA {one.numa} keeps {amount(one.now)} of {one.kind} for the system "
        f"(recorded {amount(one.recorded)})"
        for one in change.reservations
    ]
    if change.kinds:
        parts.append(f"only one side knows {', '.join(change.kinds)}")
    if change.usual:
        parts.append(f"as after a reboot (up to {amount(USUAL)})")
    return ", ".join(parts)


def _difference(one: Difference) -> str:
    way = "more" if one.change > 0 else "less"
    return (
        f"NUMA {one.numa} has {amount(abs(one.change))} {way} {one.kind} than recorded "
        f"({amount(one.now)}, recorded {amount(one.recorded)})"
    )


def _obstacle(state: MemoryState, tables: Mapping[int, NumaMemory]) -> str:
    """Why the recorded blocks cannot be charged to these tables (rule 2)."""
    for numa, node in sorted(tables.items()):
        for kind, table in sorted(node.tables.items()):
            if table.allocatable >= LARGEST:
                return f"NUMA {numa} has less {kind} than is reserved and in huge pages"
    wanted: dict[tuple[int, str], int] = {}
    for owner, blocks in recorded_blocks(state):
        for block in blocks:
            for numa in ids_of(block.numa):
                if numa not in tables:
                    return f"{owner} has memory on NUMA {numa}, which the machine does not have"
                if block.type not in tables[numa].tables:
                    return f"{owner} has {block.type} on NUMA {numa}, which has no such memory"
            wanted[block.numa, block.type] = wanted.get((block.numa, block.type), 0) + block.size
    for kind in sorted({kind for _, kind in wanted}):
        sizes = {mask: size for (mask, other), size in wanted.items() if other == kind}
        for group in sorted({*sizes, *_joined(sizes)}):
            size = sum(more for mask, more in sizes.items() if not mask & ~group)
            room = sum(tables[numa].tables[kind].allocatable for numa in ids_of(group))
            if size > room:
                where = f"on NUMA {format_ids(group)}, which now has {amount(room)} to give"
                return f"pods have {amount(size)} of {kind} {where}"
    return ""


def _joined(masks: Iterable[int]) -> tuple[int, ...]:
    """Masks that share a node, put together until none do."""
    joined: list[int] = []
    for mask in masks:
        apart = [other for other in joined if not other & mask]
        for other in joined:
            mask |= other if other & mask else 0
        joined = [*apart, mask]
    return tuple(joined)
