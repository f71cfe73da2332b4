"""Where a job may go when its request says so: NUMA nodes, CPUs by number, whole nodes, the machine.

Rules kept here:

1. What is said is compared with the machine first.  What is not there, cannot be given or contradicts the
   rest is refused, with what is there.
2. The engine is asked about that part of the machine alone: NUMA nodes outside do not exist for it, and CPUs
   that were not named are nobody's.  So all that it grants lies within what was said, and it is the engine
   that decides as ever.
3. Memory that a job keeps on a node together with one outside counts as all of that node's, as the kubelet
   counts it.
4. Whole NUMA nodes are given where nobody has anything: no CPU, memory or device, no place in the shared pool
   that keeps to them.  The engine places what is asked for among these; then the nodes it used, or all that
   were named, belong to the job as they are, but for the CPUs that are kept for the system.
5. While a job has NUMA nodes as a whole nobody else is placed on them, and while it has the machine nobody at
   all, not even in the shared pool.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numawise.apps.launch.request import Exclusive, JobRequest
from numawise.errors import InputError
from numawise.machine.model import Machine
from numawise.results.allotment import WITHIN, Allotment, allotment_of
from numawise.results.placement import BOUND, Capacity, Hold, NoRoom, pool_of
from numawise.sets import bits_of, format_ids, ids_of
from numawise.values import dataclass, replace

if TYPE_CHECKING:
    from numawise.engine.state import NodeState, NumaMemory

NUMA_LABEL, EXCLUSIVE_LABEL = "numa", "exclusive"
"""Labels of a hold: the NUMA nodes it was told to keep to, and what it shares with nobody."""


@dataclass(frozen=True, slots=True)
class MachinePart:
    """The part of a machine that a request may be given."""

    machine: Machine
    numa: int
    """Its NUMA nodes, packed."""
    cpus: int
    """Its CPUs, packed."""
    whole: bool = True
    """It is the whole machine."""
    within: Allotment = Allotment()
    """What was allotted from outside."""

    @property
    def text(self) -> str:
        """`` on NUMA 1``, to be added to a sentence; '' for the whole machine."""
        numa = f" on NUMA {format_ids(self.numa)}" if self.machine.numa_bits and not self.whole else ""
        return numa + (f" within {self.within.words}" if self.within.limits else "")


def where_labels(request: JobRequest) -> tuple[tuple[str, str], ...]:
    """What a hold has to keep of where it was said to be."""
    numa = ((NUMA_LABEL, str(request.numa)),) if request.numa is not None else ()
    within = ((WITHIN, request.within.label),) if request.within and request.within.limits else ()
    return (*numa, *(((EXCLUSIVE_LABEL, request.exclusive.value),) if request.exclusive else ()), *within)


# --- what is said, compared with the machine (rule 1) -------------------------------------------


def check_where(capacity: Capacity, request: JobRequest) -> None:
    """Raise ``InputError`` for what this machine cannot give to anybody, ever."""
    if request.numa is not None:
        _check_numa(capacity, request, request.numa.bits)
    if request.cpu_ids is not None:
        _check_cpus(capacity, request, request.cpu_ids.bits)
    if request.within is not None and request.within.limits:
        _check_within(capacity, request, request.within)


def _check_within(capacity: Capacity, request: JobRequest, within: Allotment) -> None:
    numa = capacity.machine.numa_bits if request.numa is None else request.numa.bits
    cpus = capacity.cpus_of(numa) if request.numa is not None else capacity.machine.layout.all
    wanted = cpus if request.cpu_ids is None else request.cpu_ids.bits
    problem = ""
    if within.mems and request.memory_policy not in (None, BOUND):
        problem = f"--memory-policy {request.memory_policy} may reach outside"
    elif within.cpus and request.cpu_ids is not None and wanted & ~within.cpus:
        problem = f"{cpus_named(wanted & ~within.cpus)} of --cpu-ids would be outside"
    elif within.cpus and not cpus & within.cpus:
        problem = f"none of {cpus_named(cpus)} is inside"
    elif request.exclusive and (within.gpus is not None or within.mems):
        problem = f"--exclusive {request.exclusive.value} takes all memory and GPUs of a NUMA node"
    elif within.cpus and request.exclusive and not _whole_nodes(capacity, numa, within, request):
        problem = f"--exclusive {request.exclusive.value} would reach outside"
    if problem:
        raise InputError(
            f"this was started within {within.words}, and {problem}",
            advice="ask for something inside, or drop it with --ignore-affinity",
        )


def _whole_nodes(capacity: Capacity, numa: int, within: Allotment, request: JobRequest) -> int:
    """The NUMA nodes that an allotment has as a whole; for the machine and for named nodes, all or none."""
    found = bits_of(
        node
        for node in ids_of(numa)
        if capacity.cpus_of(1 << node) and not capacity.cpus_of(1 << node) & ~capacity.reserved & ~within.cpus
    )
    every = request.exclusive is Exclusive.MACHINE or request.numa is not None
    with_cpus = capacity.numa_of(capacity.cpus_of(numa))
    return 0 if every and with_cpus & ~found else found


def _check_numa(capacity: Capacity, request: JobRequest, numa: int) -> None:
    every = capacity.machine.numa_bits
    with_cpus = capacity.numa_of(capacity.machine.layout.all)
    if numa & ~every:
        raise InputError(
            f"this machine has no NUMA {_nodes(numa & ~every)}",
            field="--numa",
            advice=f"it has {_nodes(every)}",
        )
    if not numa & with_cpus:
        known = bits_of(thread.numa for thread in capacity.hardware.threads if thread.numa is not None)
        lacks = "no CPU that may be given" if numa & known else "memory, but no CPU to run on"
        raise InputError(
            f"NUMA {_nodes(numa)} has {lacks}",
            field="--numa",
            advice=f"name one with CPUs as well: {format_ids(with_cpus)}",
        )
    if request.memory and not any(node.memory for node in capacity.machine.numa if numa >> node.id & 1):
        with_memory = bits_of(node.id for node in capacity.machine.numa if node.memory)
        raise InputError(
            f"NUMA {_nodes(numa)} has no memory that may be given",
            field="--numa and --memory",
            advice=f"name one with memory as well: {format_ids(with_memory)}",
        )


def _check_cpus(capacity: Capacity, request: JobRequest, cpus: int) -> None:
    hardware, layout = capacity.hardware, capacity.machine.layout
    there = bits_of(thread.cpu for thread in hardware.threads)
    online = cpus & there
    outside = 0 if request.numa is None else online & ~capacity.cpus_of(request.numa.bits)
    causes = (
        (cpus & hardware.offline, "offline"),
        (cpus & ~there & ~hardware.offline, "not on this machine"),
        (online & ~layout.all, "out of reach here (isolcpus, or the cpuset this runs in)"),
        (cpus & capacity.reserved, "kept for the system (reserved-cpus)"),
        (outside & layout.all, f"not on NUMA {request.numa}"),
    )
    for some, cause in causes:
        if some:
            raise InputError(
                f"{cpus_named(some)} {'is' if some.bit_count() == 1 else 'are'} {cause}",
                field="--cpu-ids",
                advice=f"choose from {format_ids(_may_be_named(capacity, request))}",
            )
    broken = layout.cores_touching(cpus) & ~cpus
    if request.full_cores and broken:
        raise InputError(
            f"{format_ids(cpus)} has a part of a core: {cpus_named(broken)} would be missing",
            field="--cpu-ids and --full-cores",
            advice=f"write {format_ids(layout.cores_touching(cpus))}",
        )


def _may_be_named(capacity: Capacity, request: JobRequest) -> int:
    numa = capacity.machine.numa_bits if request.numa is None else request.numa.bits
    return capacity.cpus_of(numa) & ~capacity.reserved


def _nodes(numa: int) -> str:
    return f"{'node' if numa.bit_count() == 1 else 'nodes'} {format_ids(numa)}"


def cpus_named(cpus: int) -> str:
    """``CPU 3``, ``CPUs 0-7``."""
    return f"{'CPU' if cpus.bit_count() == 1 else 'CPUs'} {format_ids(cpus)}"


# --- the part of the machine that is left (rules 2 to 5) ----------------------------------------


def part_of(capacity: Capacity, holds: Sequence[Hold], request: JobRequest) -> MachinePart | NoRoom:
    """What of the machine the request may be given as things are, or why nothing."""
    every = capacity.machine.numa_bits
    numa = open_nodes(capacity, holds, request)
    if isinstance(numa, NoRoom):
        return numa
    if request.exclusive is Exclusive.MACHINE and holds:
        return NoRoom(f"the machine is not free: {_holds_text(len(holds))} on it", tuple(holds))
    within = request.within or Allotment()
    if request.exclusive and within.cpus:
        numa &= _whole_nodes(capacity, numa, within, request)
    if request.exclusive:
        taken = bits_of(node for node in ids_of(numa) if _holders(capacity, holds, 1 << node))
        if request.numa is not None and taken:
            return NoRoom(f"NUMA {format_ids(taken)} is not free", _holders(capacity, holds, taken))
        numa &= ~taken
        if not capacity.cpus_of(numa) & ~capacity.reserved:
            return NoRoom("no NUMA node is free as a whole", _holders(capacity, holds, taken))
    cpus = capacity.cpus_of(numa) if numa != every else capacity.machine.layout.all
    if request.cpu_ids is not None:
        wanted = request.cpu_ids.bits
        missing = wanted & ~pool_of(capacity, holds)
        if missing:
            is_are = "is" if missing.bit_count() == 1 else "are"
            holders = tuple(hold for hold in holds if hold.grant.cpus & missing)
            return NoRoom(f"{cpus_named(missing)} {is_are} not free", holders)
        cpus &= wanted
    else:
        cpus &= ~_left_for_masks(capacity, holds)
    if within.cpus:
        cpus &= within.cpus
    return MachinePart(_machine_part(capacity.machine, numa), numa, cpus, numa == every, within)


def _left_for_masks(capacity: Capacity, holds: Sequence[Hold]) -> int:
    """CPUs that stay in the shared pool: one for each job there that keeps within a mask of its own.

    Of a mask the highest is left, since the engine begins with the lowest; none where one is kept anyway.
    """
    pool = pool_of(capacity, holds)
    left = pool & capacity.reserved
    for hold in holds:
        mask = 0 if hold.grant.cpus else pool & allotment_of(hold).cpus
        if mask and not mask & left:
            left |= 1 << mask.bit_length() - 1
    return left & ~capacity.reserved


def open_nodes(capacity: Capacity, holds: Sequence[Hold], request: JobRequest) -> int | NoRoom:
    """The NUMA nodes that are named, or all, without those that somebody has as a whole (rule 5)."""
    numa = capacity.machine.numa_bits if request.numa is None else request.numa.bits
    alone = [hold for hold in holds if dict(hold.labels).get(EXCLUSIVE_LABEL)]
    held = 0
    for hold in alone:
        if (EXCLUSIVE_LABEL, Exclusive.MACHINE.value) in hold.labels:
            return NoRoom(f"{hold.name} has the whole machine", (hold,))
        held |= nodes_of(capacity, hold)
    if alone and not capacity.cpus_of(numa & ~held):
        return NoRoom(f"NUMA {format_ids(numa)} is held as a whole", _holders(capacity, alone, numa))
    return numa & ~held


def _holders(capacity: Capacity, holds: Sequence[Hold], numa: int) -> tuple[Hold, ...]:
    """The holds that have something of some NUMA nodes."""
    return tuple(hold for hold in holds if nodes_of(capacity, hold) & numa)


def nodes_of(capacity: Capacity, hold: Hold) -> int:
    """The NUMA nodes of which a hold has CPUs, memory or devices, or whose part of the pool it keeps to."""
    grant = hold.grant
    nodes = capacity.numa_of(grant.cpus) if grant.cpus else grant.near
    for part in grant.memory:
        nodes |= part.numa
    held = {(resource, device) for resource, ids in grant.devices for device in ids}
    for plugin in capacity.machine.plugins if held else ():
        for device in plugin.devices:
            if (plugin.resource, device.id) in held:
                nodes |= bits_of(device.numa or ())
    return nodes


def _machine_part(machine: Machine, numa: int) -> Machine:
    """The machine as if it had these NUMA nodes only."""
    if numa == machine.numa_bits:
        return machine
    kept = [at for at, node in enumerate(machine.numa) if numa >> node.id & 1]
    return replace(
        machine,
        cpus=tuple(cpu for cpu in machine.cpus if numa >> cpu.numa & 1),
        numa=tuple(
            replace(
                machine.numa[at],
                distances=tuple(machine.numa[at].distances[other] for other in kept)
                if machine.numa[at].distances
                else (),
            )
            for at in kept
        ),
    )


def part_without(part: MachinePart, cpus: int, numa: int) -> MachinePart:
    """A part with these NUMA nodes of it alone, and without these CPUs."""
    machine = _machine_part(part.machine, numa)
    return replace(part, machine=machine, numa=numa, cpus=part.cpus & ~cpus, whole=False)


def _holds_text(count: int) -> str:
    return f"{count} hold{'' if count == 1 else 's'}"


def narrowed(state: "NodeState", part: MachinePart) -> "NodeState":
    """The engine's state with that part of the machine alone (rules 2 and 3)."""
    mems = part.numa & part.within.mems if part.within.mems else part.numa
    tables = {
        node: table if not table.cells & ~mems else _spent(node, table)
        for node, table in state.memory.numa.items()
        if part.numa >> node & 1
    }
    allocated = dict(state.devices.allocated)
    for plugin in part.machine.plugins if not part.whole else ():
        outside = {device.id for device in plugin.devices if not bits_of(device.numa or ()) & part.numa}
        allocated[plugin.resource] = allocated.get(plugin.resource, frozenset()) | outside
    return replace(
        state,
        cpu=replace(state.cpu, shared=state.cpu.shared & part.cpus),
        memory=replace(state.memory, numa=tables),
        devices=replace(state.devices, allocated=allocated),
    )


def _spent(node: int, table: "NumaMemory") -> "NumaMemory":
    """A NUMA node of which nothing is left, with nobody from outside in its group."""
    tables = {
        kind: replace(one, reserved=one.reserved + one.free, free=0) for kind, one in table.tables.items()
    }
    return replace(table, tables=tables, cells=1 << node)
