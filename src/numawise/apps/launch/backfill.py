"""Who may pass those who wait: a job whose grant provably delays none of them.

What is proved: let *H* be the holds of now, *J* the grant of the job that wants to pass, *W* a request that
waits ahead of it.  For every part *R* of *H* that may be left when others end, if *W* fits beside *R*, it
fits beside *R* and *J*.  So *W* starts no later than without *J*, whoever ends and when.  A property test
compares with every such *R* (``tests/property/test_backfill.py``).

Rules kept here:

1. What *J* does not take cannot be missing.  Of each kind that it takes, on each NUMA node that it takes it
   from, enough must stay free for all that those ahead ask for of that kind together.  Then the engine is
   given the same hints for *W* as without *J*: a set of NUMA nodes with that node has enough in that node
   alone, any other set is as it was; and since what is free only grows while others end, this holds for
   every *R*.
2. CPUs: for a waiter that wants whole cores, only cores that are free as a whole count.  The shared pool is
   of the whole machine: what exclusive jobs take from it, and what is promised in it, must leave those ahead
   both a CPU and what they and the jobs in it were promised; the same on NUMA nodes that somebody named.
3. Memory: a job with memory on one NUMA node forbids groups of nodes with that one in them.  That changes
   nothing for a waiter who is only given preferred nodes (``restricted``, ``single-numa-node``, ``none``).
   One with ``best-effort`` may be put on any node; it needs no group as long as every node of the machine is
   large enough for it and nobody has memory on several nodes, for then all nodes that could be grouped are
   idle, and each does alone.  Memory on several nodes passes nobody who asks for memory.
4. Devices by number: those of one resource and the same NUMA nodes count together; GPUs in use without a hold
   are not counted.  Beyond the number of GPUs up to which their choice is exact (``gpus.search``), nobody
   takes one from under those who wait for some.
5. CPUs and devices that a waiter named are not taken.  NUMA nodes outside of those that it named are of no
   use to it, so what is taken there takes nothing from it.
6. Whoever keeps within less than the machine (``taskset`` and the like) is passed by those alone who take
   nothing of any kind that it needs.  While a job keeps within a mask in the shared pool, one CPU of the mask
   stays there, whichever that will be; so with such a job nobody takes CPUs, nor such a place in the pool,
   from before somebody who waits for CPUs.
7. Whoever wants NUMA nodes or the machine as a whole passes nobody and is passed by nobody.
"""

from collections.abc import Sequence

from numawise.apps.launch.capacity import NIC_RESOURCE, WORDS
from numawise.apps.launch.memory import book, take_out_used
from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.wanted_gpus import named_gpus, resource_by_number
from numawise.apps.launch.where import EXCLUSIVE_LABEL, NUMA_LABEL
from numawise.engine.memory.tables import empty_tables
from numawise.gpus.search import MOST_EXACT
from numawise.request.model import MEMORY
from numawise.results.allotment import allotment_of
from numawise.results.placement import Capacity, Hold, in_ids_of, pool_of, same_device
from numawise.rules.model import BEST_EFFORT, Rules
from numawise.sets import bits_of, ids_of
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class WaiterNeed:
    """What one who waits asks for, as far as it can be taken away."""

    request: JobRequest
    numa: int
    """NUMA nodes that it may be placed on."""
    devices: dict[str, int]
    """Resource → how many by number."""
    named: dict[str, str]
    """Device → its resource."""

    @classmethod
    def of(cls, capacity: Capacity, request: JobRequest) -> "WaiterNeed":
        """What a request needs; raise ``InputError`` for GPUs that the machine does not have."""
        positions = named_gpus(capacity, request) if request.gpu_ids else ()
        numa = capacity.machine.numa_bits if request.numa is None else request.numa.bits
        named = {capacity.gpu_ids[position]: capacity.gpu_resources[position] for position in positions}
        return cls(request, numa, _devices(capacity, request), named)

    @property
    def cpus(self) -> int:
        """CPUs to have alone."""
        return self.request.whole_cpus


def _devices(capacity: Capacity, request: JobRequest) -> dict[str, int]:
    wanted: dict[str, int] = {}
    counts = [(WORDS.get(name, name), count) for name, count in request.devices]
    if request.gpus and capacity.gpus:
        counts.append((resource_by_number(capacity), request.gpus))
    if request.nics:
        counts.append((NIC_RESOURCE, request.nics))
    for resource, count in counts:
        wanted[resource] = wanted.get(resource, 0) + count
    return wanted


def delays(capacity: Capacity, holds: Sequence[Hold], job: Hold, needs: Sequence[WaiterNeed]) -> str:
    """What a job might take from those ahead, in a word; '' when it provably takes nothing."""
    holds = in_ids_of(capacity, holds)
    if any(need.request.exclusive for need in needs) or dict(job.labels).get(EXCLUSIVE_LABEL):
        return "what it wants to have alone"
    limited = [need for need in needs if need.request.within is not None and need.request.within.limits]
    if limited and (job.grant.cpus or job.grant.cpu_limit):
        return "CPUs"
    masked = [hold for hold in (*holds, job) if not hold.grant.cpus and allotment_of(hold).cpus]
    if masked and (job.grant.cpus or job in masked) and any(need.cpus for need in needs):
        return "CPUs"
    if _takes_cpus(capacity, holds, job, needs) or _takes_pool(capacity, holds, job, needs):
        return "CPUs"
    if job.grant.memory and (
        any(need.request.memory for need in limited) or _takes_memory(capacity, holds, job, needs)
    ):
        return "memory"
    taken = {device for hold in holds for _, ids in hold.grant.devices for device in ids}
    for resource, ids in job.grant.devices:
        kinds = {kind for need in limited for kind in (*need.devices, *need.named.values())}
        if resource in kinds or _takes_devices(capacity, taken, resource, ids, needs):
            return "devices"
    return ""


def hopeless(capacity: Capacity, request: JobRequest, needs: Sequence[WaiterNeed]) -> bool:
    """Whether a request cannot pass, wherever it would be placed: decided without looking at holds."""
    if request.exclusive or any(need.request.exclusive for need in needs):
        return True
    if request.whole_cpus:
        own = capacity.machine.numa_bits if request.numa is None else request.numa.bits
        if all(
            _wanted(needs, node) >= capacity.cpus_of(1 << node).bit_count()
            for node in ids_of(own)
            if capacity.cpus_of(1 << node)
        ):
            return True
    sizes = {plugin.resource: len(plugin.devices) for plugin in capacity.machine.plugins}
    return any(
        sum(need.devices.get(resource, 0) for need in needs) + count > sizes.get(resource, 0)
        for resource, count in _devices(capacity, request).items()
    )


def _wanted(needs: Sequence[WaiterNeed], node: int) -> int:
    """CPUs by number that those ahead may be given on a NUMA node."""
    return sum(need.cpus for need in needs if need.numa >> node & 1 and need.request.cpu_ids is None)


# --- CPUs ---------------------------------------------------------------------------------------


def _takes_cpus(capacity: Capacity, holds: Sequence[Hold], job: Hold, needs: Sequence[WaiterNeed]) -> bool:
    own = job.grant.cpus
    named = 0
    for need in needs:
        named |= need.request.cpu_ids.bits if need.request.cpu_ids is not None else 0
    if own & named:
        return True
    layout = capacity.machine.layout
    free = pool_of(capacity, holds) & ~own & ~capacity.reserved & ~named
    whole = sum(core for core in set(layout.cores.values()) if free & core == core)
    for node in ids_of(capacity.numa_of(own)):
        wanted = _wanted(needs, node)
        there = free
        if any(need.request.full_cores and need.numa >> node & 1 for need in needs):
            wanted = -(-wanted // layout.threads_per_core) * layout.threads_per_core
            there = whole
        if wanted and (there & capacity.cpus_of(1 << node)).bit_count() < wanted:
            return True
    return False


def _takes_pool(capacity: Capacity, holds: Sequence[Hold], job: Hold, needs: Sequence[WaiterNeed]) -> bool:
    """Whether somebody could lack a CPU in the shared pool, or what was promised there (rule 2)."""
    own, limit = job.grant.cpus, job.grant.cpu_limit
    alone = sum(need.cpus for need in needs)
    sharing = [need for need in needs if not need.cpus]
    pool = pool_of(capacity, holds) & ~own
    reserved = capacity.reserved & capacity.machine.layout.all
    rest = pool.bit_count() - alone
    promised = sum(hold.grant.cpu_limit for hold in holds) + limit + sum(n.request.cpus for n in sharing)
    if own:
        used = bool(sharing) or any(not hold.grant.cpus for hold in holds)
        short = used and (rest < 1 or promised > rest * 1000)
    else:
        if alone:  # which never comes from the CPUs kept for the system
            rest = max(rest, reserved.bit_count())
        short = rest < 1 or bool(limit and promised > rest * 1000)
    return short or _takes_near(capacity, holds, job, needs, pool)


def _takes_near(
    capacity: Capacity, holds: Sequence[Hold], job: Hold, needs: Sequence[WaiterNeed], pool: int
) -> bool:
    """The same on NUMA nodes that somebody in the pool was told to keep to."""
    grant = job.grant
    alone = sum(need.cpus for need in needs)
    for need in needs:
        if need.cpus or need.request.numa is None:
            continue
        inside = [h.grant for h in (*holds, job) if h.grant.near and not h.grant.near & ~need.numa]
        there = pool & capacity.cpus_of(need.numa)
        touched = grant.cpus & capacity.cpus_of(need.numa) or (grant in inside and grant.cpu_limit)
        left = there.bit_count() * 1000 - sum(each.cpu_limit for each in inside)
        asked = sum(other.request.cpus for other in needs if not other.cpus and not other.numa & ~need.numa)
        if touched and (not there or left < asked):
            return True
    for hold in (*holds, job):
        if hold.grant.cpus or not alone:
            continue
        near = capacity.cpus_of(hold.grant.near) if dict(hold.labels).get(NUMA_LABEL) else 0
        for kept in (near, allotment_of(hold).cpus & capacity.machine.layout.all):
            touched = hold is job or grant.cpus & kept
            if kept and touched and not kept & capacity.reserved and (pool & kept).bit_count() <= alone:
                return True
    return False


# --- memory and devices -------------------------------------------------------------------------


def _takes_memory(capacity: Capacity, holds: Sequence[Hold], job: Hold, needs: Sequence[WaiterNeed]) -> bool:
    asking = [need for need in needs if need.request.memory]
    if not asking:
        return False
    every = capacity.machine.numa_bits
    books = empty_tables(capacity.machine, Rules())
    now = capacity.memory_now
    take_out_used(books, book(books, (*holds, job), every), now)
    grouped = _groups(holds)
    if _groups((job,)):
        return True
    for node in ids_of(sum({part.numa & every for part in job.grant.memory})):
        wanted = sum(need.request.memory for need in asking if need.numa >> node & 1)
        if wanted and (grouped >> node & 1 or books[node].tables[MEMORY].free < wanted):
            return True
    anywhere = max((need.request.memory for need in asking if need.request.policy == BEST_EFFORT), default=0)
    if not anywhere or len(books) == 1:
        return False
    sizes = {node: table.tables[MEMORY].allocatable for node, table in books.items()}
    if now is not None:
        sizes = {node: min(size, now.available.get(node, size)) for node, size in sizes.items()}
    return bool(grouped) or min(sizes.values()) < anywhere


def _groups(holds: Sequence[Hold]) -> int:
    """NUMA nodes of which somebody has memory together with others."""
    nodes = 0
    for part in (part for hold in holds for part in hold.grant.memory):
        nodes |= part.numa if part.numa.bit_count() > 1 else 0
    return nodes


def _takes_devices(
    capacity: Capacity, taken: set[str], resource: str, ids: Sequence[str], needs: Sequence[WaiterNeed]
) -> bool:
    named = {name for need in needs for name, kind in need.named.items() if kind == resource}
    if any(same_device(name, device) for name in named for device in ids):
        return True
    asking = [need for need in needs if need.devices.get(resource)]
    if not asking:
        return False
    if capacity.gpu_resources.count(resource) > MOST_EXACT:
        return True
    busy = {capacity.gpu_ids[position] for position in capacity.users or ()}
    groups: dict[int, set[str]] = {}
    for plugin in capacity.machine.plugins:
        if plugin.resource == resource:
            for device in plugin.devices:
                groups.setdefault(bits_of(device.numa or ()), set()).add(device.id)
    gone = {*ids, *taken, *busy, *named}
    for numa, group in groups.items():
        if group.isdisjoint(ids):
            continue
        useful = (need for need in asking if need.request.numa is None or need.numa & numa)
        if len(group - gone) < sum(need.devices[resource] for need in useful):
            return True
    return False
