"""Where a job goes on this machine: the engine's decision, in the terms that a launcher needs.

Rules kept here:

1. The engine decides, on the holds of the ledger as its state: whole CPUs under the static policy, memory
   under the Static policy, GPUs and other devices as a device plugin's, each hold one container.
2. Of GPUs, the sets with the best links are offered to the engine one after another, best first, one for
   each set of NUMA nodes; the first is taken beside which it finds room for everything else, else the
   first that it admits.
3. A job without whole CPUs runs in the shared pool, on the part of it that is near to its memory and GPUs.
   An exclusive grant may not take the last CPU, nor what was promised, from under those who run there.
4. Without an amount of memory nothing is booked, but its pages come from the NUMA nodes of its CPUs and GPUs
   (where these have no memory, from the nearest that have).  What is really available counts beside what is
   booked, with an amount or without (``memory``).
5. What could not be given even on the empty machine is a mistake in the request, not want of room.
6. What a request says about where is kept to (``where``), in the shared pool, too: nobody may take the last
   CPU of the NUMA nodes that a job there has to stay on.
"""

from collections.abc import Sequence

from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.where import NUMA_LABEL, check_where, open_nodes
from numawise.errors import InputError
from numawise.render.words import bytes_text, counted
from numawise.results.allotment import Allotment, allotment_of
from numawise.results.placement import Capacity, Grant, Hold, NoRoom, Placement, pool_cpus, pool_of
from numawise.rules.model import BEST_EFFORT, NONE
from numawise.sets import NumaSet, format_ids, ids_of
from numawise.values import replace


def place(capacity: Capacity, holds: Sequence[Hold], request: JobRequest, hold_id: str) -> Placement | NoRoom:
    """Decide where a job goes, given who holds what; raise ``InputError`` for what can never be given."""
    check_where(capacity, request)
    found = decide(capacity, holds, request, hold_id)
    if isinstance(found, Placement) or not (holds or capacity.memory_now):
        return _possible(capacity, request, found)
    idle = replace(capacity, memory_now=None)
    _possible(idle, request, decide(idle, (), request, hold_id))
    if request.within is not None and request.within.limits and not found.advice:
        advice = f"it keeps within {request.within.words}; with --ignore-affinity more may be free"
        return replace(found, advice=advice)
    return found


def _possible(capacity: Capacity, request: JobRequest, found: Placement | NoRoom) -> Placement | NoRoom:
    if isinstance(found, Placement):
        return found
    if request.within is not None and request.within.limits:
        raise InputError(
            f"this was started within {request.within.words}, which cannot give that even when nothing runs: "
            f"{found.reason}",
            advice="ask for less, or drop it with --ignore-affinity",
        )
    raise InputError(
        f"this machine cannot give that, even when nothing runs: {found.reason}",
        advice=found.advice
        or f"{_has(capacity, request)}; ask for less"
        + ("" if request.numa is None else ", or for other NUMA nodes")
        + ("" if request.policy in (NONE, BEST_EFFORT) else " or take another --policy"),
    )


def _has(capacity: Capacity, request: JobRequest) -> str:
    """What there is on an idle machine, or on the NUMA nodes that the request names."""
    if request.numa is None:
        cpus, reserved, gpus = capacity.machine.layout.all, capacity.reserved, len(capacity.gpus)
        memory, subject = "", "it"
    else:
        numa = request.numa.bits
        cpus, subject = capacity.cpus_of(numa), f"NUMA {request.numa}"
        reserved = cpus & capacity.reserved
        gpus = sum(bool(home & numa) for home in capacity.links.numa) if capacity.links else 0
        memory = ", " + bytes_text(sum(n.memory for n in capacity.machine.numa if numa >> n.id & 1))
    kept = f" (CPUs {format_ids(reserved)} are kept for the system)" if reserved else ""
    return f"{subject} has {cpus.bit_count()} CPUs{kept}{memory}, {gpus_text(gpus)}"


def decide(
    capacity: Capacity, holds: Sequence[Hold], request: JobRequest, hold_id: str
) -> Placement | NoRoom:
    """Decide as things are; whether it could ever be given is not asked."""
    numa = open_nodes(capacity, holds, request)
    if isinstance(numa, NoRoom):
        return numa
    pool = pool_of(capacity, holds)
    if not request.has_own_cpus:
        short = pool_shortage(capacity, pool, holds, request)
        if short:
            return short
    if not request.is_placed:
        near = 0 if request.numa is None else numa
        within = request.within or Allotment()
        mems = with_memory(capacity, numa, within.mems)
        kept = request.granted_memory_policy
        grant = Grant(near=near, mems=mems, cpu_limit=request.cpus, memory_policy=kept)
        cpus = pool_cpus(capacity, pool & within.cpus if within.cpus else pool, near)
        return Placement(grant, cpus, mems, policy=request.policy, remarks=capacity.remarks)

    from numawise.apps.launch.ask import ask  # noqa: PLC0415 - the engine, which a place in the pool does not need

    beside = _beside_mask(capacity, request)
    if beside is not None:
        found = ask(capacity, holds, beside, hold_id)
        if isinstance(found, Placement):
            return found
    return ask(capacity, holds, request, hold_id)


def _beside_mask(capacity: Capacity, request: JobRequest) -> JobRequest | None:
    """The request for memory and GPUs where the mask has CPUs; None where that is said, or is everywhere.

    With CPUs of its own the engine sees to that; in the shared pool it does not know where the job will run.
    """
    cpus = request.within.cpus if request.within else 0
    numa = capacity.numa_of(cpus & capacity.machine.layout.all)
    if not numa or numa == capacity.machine.numa_bits or request.has_own_cpus or request.numa is not None:
        return None
    return None if request.gpu_ids else replace(request, numa=NumaSet(numa))


def with_memory(capacity: Capacity, numa: int, within: int = 0) -> int:
    """The NUMA nodes of a set that have memory; where one has none, the nearest that has (rule 4).

    ``within``: nodes that memory may come from; 0: all.
    """
    memory = {
        node.id for node in capacity.machine.numa if node.memory and (not within or within >> node.id & 1)
    }
    rows = {node.id: dict(node.distances) for node in capacity.hardware.numa}
    found = 0
    for node in ids_of(numa):
        if node in memory or not memory:
            found |= 1 << node
        else:
            found |= 1 << min(memory, key=lambda other: (rows.get(node, {}).get(other, 255), other))
    return found


def pool_shortage(capacity: Capacity, pool: int, holds: Sequence[Hold], request: JobRequest) -> NoRoom | None:
    """Why the shared pool cannot take one more."""
    if not pool:
        return NoRoom("no CPU is left in the shared pool", tuple(h for h in holds if h.grant.cpus))
    parts = [(pool, "", tuple(holds))]
    if request.numa is not None:
        numa, there = request.numa.bits, capacity.cpus_of(request.numa.bits)
        if not pool & there:
            reason = f"no CPU of NUMA {request.numa} is left in the shared pool"
            return NoRoom(reason, tuple(hold for hold in holds if hold.grant.cpus & there))
        inside = tuple(hold for hold in holds if hold.grant.near and not hold.grant.near & ~numa)
        parts.append((pool & there, f" on NUMA {request.numa}", inside))
    within = request.within or Allotment()
    if within.cpus:
        part, where = parts[-1][:2]
        inside = tuple(hold for hold in holds if _is_inside(hold, within.cpus))
        parts.append((part & within.cpus, f"{where} within {within.words}", inside))
    if not parts[-1][0]:
        reason = f"no CPU is left in the shared pool{parts[-1][1]}"
        return NoRoom(reason, tuple(hold for hold in holds if hold.grant.cpus & (within.cpus or -1)))
    for cpus, where, sharing in parts:
        left = cpus.bit_count() * 1000 - sum(hold.grant.cpu_limit for hold in sharing)
        if request.cpus > left:
            reason = (
                f"{cpus_text(request.cpus)} asked for in the shared pool{where}, "
                f"{cpus_text(max(left, 0))} of it left"
            )
            return NoRoom(reason, tuple(h for h in holds if h.grant.cpus or h.grant.cpu_limit))
    return None


def _is_inside(hold: Hold, cpus: int) -> bool:
    """Whether a hold in the shared pool runs on some of these CPUs only."""
    kept = allotment_of(hold).cpus
    return not hold.grant.cpus and bool(kept) and not kept & ~cpus


def shared_shortage(capacity: Capacity, pool: int, holds: Sequence[Hold]) -> NoRoom | None:
    """Why those in the shared pool could not go on with what would be left of it (rules 3 and 6)."""
    shared = tuple(hold for hold in holds if not hold.grant.cpus)
    promised = sum(hold.grant.cpu_limit for hold in shared)
    if shared and (not pool or promised > pool.bit_count() * 1000):
        left = f"{counted(pool.bit_count(), 'CPU')} would be left" if pool else "no CPU would be left"
        needed = f" ({cpus_text(promised)} promised)" if promised else ""
        run = "1 job runs" if len(shared) == 1 else f"{len(shared)} jobs run"
        return NoRoom(f"{left} in the shared pool, where {run}{needed}", shared)
    for hold in shared:
        if dict(hold.labels).get(NUMA_LABEL) and not pool & capacity.cpus_of(hold.grant.near):
            numa = format_ids(hold.grant.near)
            reason = f"no CPU of NUMA {numa} would be left in the shared pool, where {hold.name} keeps to it"
            return NoRoom(reason, (hold,))
        kept = allotment_of(hold).cpus & capacity.machine.layout.all
        if kept and not pool & kept:
            left = f"no CPU of {format_ids(kept)} would be left in the shared pool"
            reason = f"{left}, and {hold.name} keeps within these"
            return NoRoom(reason, (hold,))
    return None


def cpus_text(milli: int) -> str:
    """``8 CPUs``, ``0.5 CPUs``."""
    return f"{milli / 1000:g} CPU{'' if milli == 1000 else 's'}"


def gpus_text(count: int) -> str:
    """``1 GPU``, ``no GPUs``."""
    return f"{count} GPU{'' if count == 1 else 's'}" if count else "no GPUs"
