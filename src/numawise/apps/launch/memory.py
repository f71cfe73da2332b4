"""How much memory of each NUMA node can be promised to one more job: what is booked, what is really there.

Rules kept here:

1. On each NUMA node what can be promised is its memory, less what holds have booked, less what is in use
   beyond that: by jobs without an amount, by programs without a hold, by the system.  What a hold uses of its
   booking is in both, so it is taken off once: in use beyond bookings is all that is in use less, of each
   hold, the smaller of what it has booked and what it uses there.
2. A hold that has not touched its memory yet keeps it: its booking counts whether used or not.
3. Where nothing counts what a hold uses (it has no control group with a memory controller, or a container
   engine has it), it is taken to use all that it has booked.  With such holds alone, rule 1 says: the
   smaller of what is not booked and what is available.
4. A node has next to nothing left below ``SCANT`` bytes, or below 1/``SCANT_SHARE`` of its memory.  A job
   goes there only where no other place is as good: the engine is first asked about the rest of the machine.
5. The engine sees all this as its state: memory in use counts as taken, by nobody in particular.  Where
   nothing is known of a node (another machine's file), only bookings count.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.where import MachinePart, part_without
from numawise.engine.memory.tables import NumaTables, charge, empty_tables
from numawise.engine.state import NumaMemory
from numawise.host import confine
from numawise.host.nodememory import read_available
from numawise.render.words import bytes_text
from numawise.request.model import MEMORY
from numawise.results.placement import BOUND, Capacity, Hold, MemoryNow, Placement
from numawise.rules.model import Rules
from numawise.sets import bits_of, ids_of
from numawise.values import replace

SCANT, SCANT_SHARE = 256 << 20, 32


def with_memory_now(capacity: Capacity, holds: Sequence[Hold], root: Path) -> Capacity:
    """The capacity with the memory that its NUMA nodes have now, and what of it holds use."""
    available = read_available((node.id for node in capacity.machine.numa if node.memory), root)
    if not available:
        return capacity
    used = {}
    for hold in holds:
        found = confine.used_memory(hold.mode, hold.group, root) if hold.grant.memory else None
        if found is not None:
            used[hold.id] = found
    return replace(capacity, memory_now=MemoryNow(available, used))


def book(books: NumaTables, holds: Sequence[Hold], numa: int) -> dict[str, dict[int, int]]:
    """Charge what holds have booked; hold → NUMA node → bytes of it there."""
    found: dict[str, dict[int, int]] = {}
    for hold in holds:
        before = {node: books[node].tables[MEMORY].reserved for node in books}
        for part in hold.grant.memory:
            if part.numa & numa:
                charge(books, part.numa & numa, MEMORY, part.size)
        if hold.grant.memory:
            after = {node: books[node].tables[MEMORY].reserved for node in books}
            found[hold.id] = {node: after[node] - before[node] for node in books}
    return found


def take_out_used(books: NumaTables, booked: Mapping[str, Mapping[int, int]], now: MemoryNow | None) -> None:
    """Let what is in use beyond bookings count as taken (rules 1 to 3)."""
    for node, available in (now.available if now else {}).items():
        if now is None or node not in books:
            continue
        table = books[node].tables[MEMORY]
        own = 0
        for hold, amounts in booked.items():
            size = amounts.get(node, 0)
            own += min(size, now.used[hold].get(node, 0)) if hold in now.used else size
        beyond = min(max(table.allocatable - available - own, 0), table.free)
        if beyond:
            left = replace(table, reserved=table.reserved + beyond, free=table.free - beyond)
            books[node] = replace(books[node], tables={**books[node].tables, MEMORY: left})


def free_memory(capacity: Capacity, holds: Sequence[Hold]) -> dict[int, int]:
    """NUMA node → bytes that could be promised to one more job (rule 1)."""
    books = empty_tables(capacity.machine, Rules())
    take_out_used(books, book(books, holds, capacity.machine.numa_bits), capacity.memory_now)
    return {node: books[node].tables[MEMORY].free for node in books}


def scant_nodes(capacity: Capacity, books: Mapping[int, NumaMemory]) -> int:
    """NUMA nodes that have next to nothing left (rule 4), packed."""
    if capacity.memory_now is None:
        return 0
    return bits_of(
        node
        for node in capacity.memory_now.available
        if node in books and books[node].tables[MEMORY].free < _least(books[node].tables[MEMORY].total)
    )


def _least(total: int) -> int:
    return max(SCANT, total // SCANT_SHARE)


def roomy_part(capacity: Capacity, request: JobRequest, part: MachinePart, scant: int) -> MachinePart | None:
    """The part without nodes that have next to nothing left; None where that is no question."""
    left = part.numa & ~scant
    named = request.cpu_ids is not None or bool(request.gpu_ids)
    if named or left == part.numa or not capacity.cpus_of(left):
        return None
    return part_without(part, capacity.cpus_of(part.numa & scant), left)


def scant_remarks(capacity: Capacity, placement: Placement, scant: int) -> Iterator[str]:
    """What to say of a job whose memory is to come from nodes that have next to nothing left."""
    now, short = capacity.memory_now, placement.mems & scant
    if now is None or not short or placement.grant.memory:
        return
    amounts = ", ".join(f"{bytes_text(now.available.get(node, 0))} on NUMA {node}" for node in ids_of(short))
    if placement.grant.memory_policy == BOUND:
        yield f"little memory is left where it is bound to: {amounts}"
    elif any(node.memory for node in capacity.machine.numa if not scant >> node.id & 1):
        yield f"little memory is left: {amounts}; its pages will come from other NUMA nodes"
    else:
        yield f"little memory is left: {amounts}"


def in_use_text(capacity: Capacity, books: Mapping[int, NumaMemory], booked: int) -> str:
    """How much is missing because it is in use without being booked, to be added to a sentence; or ''."""
    beyond = sum(books[node].tables[MEMORY].reserved for node in books) - booked
    if capacity.memory_now is None or beyond <= 0:
        return ""
    return f" ({bytes_text(beyond)} is in use that nobody has booked)"
