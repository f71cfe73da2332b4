"""Asking the engine where a job goes: the ledger as its state, the job as a pod, its answer as a placement.

Rules kept here are those of ``decide``, 1 to 4.  It is imported when something is asked for: a job that only
wants a place in the shared pool starts without the engine.
"""

from collections.abc import Iterable, Sequence

from numawise.apps.launch.capacity import NIC_RESOURCE, WORDS, nics_of
from numawise.apps.launch.decide import shared_shortage, with_memory
from numawise.apps.launch.memory import book, roomy_part, scant_nodes, scant_remarks, take_out_used
from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.shortage import shortage
from numawise.apps.launch.wanted_gpus import gpus_wanted, part_gpus, use_remarks
from numawise.apps.launch.where import MachinePart, narrowed, part_of
from numawise.apps.launch.whole import with_whole_nodes
from numawise.engine.admit import Admitted, Crashed, Rejected, admit
from numawise.engine.memory.tables import empty_tables
from numawise.engine.state import Block, CpuState, DeviceState, MemoryState, NodeState, Plugin
from numawise.errors import InputError, quoted
from numawise.gpus.choose import Choice
from numawise.machine.hardware import Gpu
from numawise.machine.model import Machine
from numawise.machine.nearest import near_nics
from numawise.quantity import Quantity
from numawise.request.model import CPU, GUARANTEED, MEMORY, ContainerRequest, PodRequest, Role
from numawise.results.placement import (
    Capacity,
    Grant,
    Hold,
    MemoryPart,
    NoRoom,
    Placement,
    in_ids_of,
    pool_cpus,
    pool_of,
)
from numawise.rules.model import CpuOptions, Rules
from numawise.sets import bits_of, format_ids, ids_of
from numawise.values import dataclass, replace

JOB = "job"


@dataclass(frozen=True, slots=True)
class _Found:
    """An answer of the engine, with the GPUs it was asked about."""

    decision: Admitted | Rejected | Crashed
    choice: "Choice | None" = None
    preferred: bool = False
    aligned: bool = False
    """Admitted, and everything as near together as it can be, or beside its GPUs."""


def ask(capacity: Capacity, holds: Sequence[Hold], request: JobRequest, hold_id: str) -> Placement | NoRoom:
    """Let the engine decide on a request; why not, when it refuses."""
    rules = Rules(
        cpu_static=True,
        cpu_options=CpuOptions(full_cores=request.full_cores),
        reserved_cpus=capacity.reserved,
        reserved_cores=capacity.machine.layout.cores_touching(capacity.reserved),
        memory_static=request.memory > 0,
        topology_policy=request.policy,
    )
    holds = in_ids_of(capacity, holds)
    part = part_of(capacity, holds, request)
    if isinstance(part, NoRoom):
        return part
    every = _state(capacity, rules, holds)
    scant = scant_nodes(capacity, every.memory.numa)
    roomy = roomy_part(capacity, request, part, scant)
    found = _answer(capacity, roomy, rules, every, holds, request, hold_id) if roomy else None
    if roomy is not None and isinstance(found, _Found) and found.aligned:
        part = roomy
    else:
        found = _answer(capacity, part, rules, every, holds, request, hold_id)
    if isinstance(found, NoRoom):
        return found
    if not isinstance(found.decision, Admitted):
        return shortage(capacity, part, holds, request, narrowed(every, part), found.decision)
    stays = request.numa is not None or part is roomy
    placement = _placement(capacity, part, holds, request, hold_id, found, stays=stays)
    if request.exclusive and isinstance(placement, Placement):
        placement = with_whole_nodes(capacity, holds, request, part, placement)
    if isinstance(placement, NoRoom):
        return placement
    return replace(placement, remarks=(*placement.remarks, *scant_remarks(capacity, placement, scant)))


def _answer(
    capacity: Capacity,
    part: MachinePart,
    rules: Rules,
    every: NodeState,
    holds: Sequence[Hold],
    request: JobRequest,
    hold_id: str,
) -> _Found | NoRoom:
    """The engine's answer about a part of the machine; no room where it has not enough GPUs."""
    candidates: Sequence[Choice] = ()
    resource, count = "", 0
    if request.gpus or request.gpu_ids:
        wanted = gpus_wanted(capacity, holds, request, part)
        if isinstance(wanted, NoRoom):
            return wanted
        candidates, resource, count = wanted
    pod = _request(capacity, request, resource, count, hold_id)
    return _best(capacity, part.machine, rules, narrowed(every, part), pod, resource, candidates)


def _best(
    capacity: Capacity,
    machine: Machine,
    rules: Rules,
    state: NodeState,
    pod: PodRequest,
    resource: str,
    candidates: "Sequence[Choice]",
) -> _Found:
    """The engine's answer for the best GPUs that it can align (rule 2)."""
    best: _Found | None = None
    for choice in candidates or (None,):
        offered = _offering(capacity, state, resource, choice) if choice else state
        decision = admit(machine, rules, offered, pod, pick=_nearest(capacity, choice))
        hint = decision.affinity.get(JOB) if isinstance(decision, Admitted) else None
        found = _Found(decision, choice, preferred=hint is None or hint.preferred)
        if isinstance(decision, Admitted) and (
            found.preferred or _beside(capacity, decision, pod.uid, choice)
        ):
            return replace(found, aligned=True)
        if best is None or (isinstance(decision, Admitted) and not isinstance(best.decision, Admitted)):
            best = found
    assert best is not None
    return best


def _beside(capacity: Capacity, admitted: Admitted, uid: str, choice: "Choice | None") -> bool:
    """Whether everything else lies on the NUMA nodes of the GPUs."""
    if choice is None:
        return False
    state = admitted.state
    own = state.cpu.assignments.get(uid, {}).get(JOB, 0)
    blocks = state.memory.assignments.get(uid, {}).get(JOB, ())
    cpus = own or state.cpu.shared & capacity.cpus_of(choice.numa)
    used = capacity.numa_of(cpus)
    for block in blocks:
        used |= block.numa
    return bool(cpus) and not used & ~choice.numa


def _state(capacity: Capacity, rules: Rules, holds: Sequence[Hold]) -> NodeState:
    """The ledger as the engine's state (rule 1)."""
    every = capacity.machine.layout.all
    books = empty_tables(capacity.machine, rules)
    blocks: dict[str, dict[str, tuple[Block, ...]]] = {}
    taken: dict[str, set[str]] = {}
    take_out_used(books, book(books, holds, capacity.machine.numa_bits), capacity.memory_now)
    for hold in holds:
        if hold.grant.memory:
            blocks[hold.id] = {JOB: tuple(Block(m.numa, MEMORY, m.size) for m in hold.grant.memory)}
        for resource, ids in hold.grant.devices:
            taken.setdefault(resource, set()).update(ids)
    plugins = {
        plugin.resource: Plugin(
            {device.id: device for device in plugin.devices},
            frozenset(device.id for device in plugin.devices if device.healthy),
            connected=True,
        )
        for plugin in capacity.machine.plugins
    }
    return NodeState(
        cpu=CpuState(
            pool_of(capacity, holds),
            {hold.id: {JOB: hold.grant.cpus & every} for hold in holds if hold.grant.cpus & every},
        ),
        memory=MemoryState(books, blocks),
        devices=DeviceState(plugins, {}, {name: frozenset(ids) for name, ids in taken.items()}),
        active=dict.fromkeys(hold.id for hold in holds),
    )


def _request(capacity: Capacity, request: JobRequest, resource: str, gpus: int, hold_id: str) -> PodRequest:
    """The job as a pod of one container."""
    amounts: dict[str, Quantity] = {}
    if request.cpus or request.exclusive:  # whole nodes: a CPU of its own, wherever the rest is
        amounts[CPU] = Quantity.parse(f"{request.cpus or 1000}m")
    if request.memory:
        amounts[MEMORY] = Quantity.of(request.memory)
    if gpus:
        amounts[resource] = Quantity.of(gpus)
    for name, count in (*request.devices, *(((NIC_RESOURCE, request.nics),) if request.nics else ())):
        full = WORDS.get(name, name)
        known = [plugin.resource for plugin in capacity.machine.plugins]
        if full not in known:
            short = {value: key for key, value in WORDS.items()}
            offers = ", ".join(short.get(one, one) for one in known) or "none at all"
            raise InputError(
                f"this machine has no resource {quoted(name)}",
                field="--nics" if name == NIC_RESOURCE else "--device",
                advice=f"it has {offers}",
            )
        amounts[full] = amounts.get(full, Quantity()) + Quantity.of(count)
    job = ContainerRequest(JOB, Role.APP, amounts, amounts)
    return PodRequest(hold_id, request.name or hold_id, GUARANTEED, (job,))


def _offering(capacity: Capacity, state: NodeState, resource: str, choice: "Choice") -> NodeState:
    """The state with every GPU but those of the choice taken."""
    others = frozenset(
        name
        for position, name in enumerate(capacity.gpu_ids)
        if capacity.gpu_resources[position] == resource and not choice.gpus >> position & 1
    )
    allocated = {**state.devices.allocated, resource: others}
    return replace(state, devices=replace(state.devices, allocated=allocated))


class _nearest:  # noqa: N801 - used as the function it stands for
    """Picks network cards by how near they are to the GPUs; leaves other choices to the lowest ids."""

    def __init__(self, capacity: Capacity, choice: "Choice | None") -> None:
        self.capacity = capacity
        self.choice = choice

    def __call__(
        self, _container: str, resource: str, candidates: frozenset[str], count: int
    ) -> Iterable[str] | None:
        if resource != NIC_RESOURCE or self.choice is None:
            return None
        gpus = [gpu.name for gpu in _chosen(self.capacity, self.choice)]
        order = [nic.name for nic in near_nics(self.capacity.hardware, gpus) if nic.name in candidates]
        return order[:count]


def _chosen(capacity: Capacity, choice: "Choice | None") -> tuple[Gpu, ...]:
    return tuple(capacity.gpus[position] for position in ids_of(choice.gpus)) if choice else ()


# --- telling the outcome ----------------------------------------------------------------------


def _placement(
    capacity: Capacity,
    part: MachinePart,
    holds: Sequence[Hold],
    request: JobRequest,
    hold_id: str,
    found: _Found,
    *,
    stays: bool,
) -> Placement | NoRoom:
    """What was found, as a placement; ``stays``: a job of the shared pool keeps to this part of it."""
    admitted = found.decision
    assert isinstance(admitted, Admitted)
    state = admitted.state
    own = state.cpu.assignments.get(hold_id, {}).get(JOB, 0)
    blocks = state.memory.assignments.get(hold_id, {}).get(JOB, ())
    if part.within.mems:  # the engine counts a block to all nodes of the hint; only these had any free
        blocks = tuple(replace(one, numa=one.numa & part.within.mems or one.numa) for one in blocks)
    devices = {
        resource: tuple(sorted(grant.ids))
        for resource, grant in state.devices.grants.get(hold_id, {}).get(JOB, {}).items()
    }
    pool = pool_of(capacity, holds) & ~own
    if own:
        short = shared_shortage(capacity, pool, holds)
        if short:
            return short
    hint = admitted.affinity.get(JOB)
    every = part.numa
    near = 0
    if not own and hint is not None and hint.numa is not None and (blocks or devices):
        near = hint.numa.bits if hint.numa.bits != every else 0
    if not own and stays:
        near = near or every
    within = part.within
    cpus = own or pool_cpus(capacity, pool & within.cpus if within.cpus else pool, near)
    booked = 0
    for block in blocks:
        booked |= block.numa
    beside = capacity.numa_of(own) if own else near or every
    if within.mems and request.memory_policy is None:
        beside = every  # bound as it was allotted: the kernel takes the nearest of these first
    mems = booked or with_memory(capacity, beside, within.mems)
    gpus = _chosen(capacity, found.choice)
    grant = Grant(
        cpus=own,
        near=near,
        mems=mems,
        memory=tuple(MemoryPart(block.numa, block.size) for block in blocks),
        devices=tuple(sorted(devices.items())),
        cpu_limit=0 if own else request.cpus,
        memory_policy=request.granted_memory_policy,
    )
    granted_nics = devices.get(NIC_RESOURCE, ())
    return Placement(
        grant=grant,
        cpus=cpus,
        mems=mems,
        memory=request.memory,
        gpus=gpus,
        nics=nics_of(capacity, gpus, granted_nics),
        policy=request.policy,
        aligned=found.preferred,
        remarks=tuple(_remarks(capacity, part, holds, request, found, cpus, near)),
    )


def _remarks(
    capacity: Capacity,
    part: MachinePart,
    holds: Sequence[Hold],
    request: JobRequest,
    found: _Found,
    cpus: int,
    near: int,
) -> Iterable[str]:
    yield from capacity.remarks
    choice = found.choice
    if choice is not None and capacity.links is not None and request.gpus:
        taken = {name for hold in holds for _, names in hold.grant.devices for name in names}
        free = part_gpus(capacity, part) & bits_of(
            p for p, name in enumerate(capacity.gpu_ids) if name not in taken
        )
        from numawise.gpus.choose import advice  # noqa: PLC0415 - as above

        text = advice(capacity.links, free, request.gpus)
        if text and choice.numa.bit_count() > 1:
            yield text
    yield from use_remarks(capacity, choice.gpus if choice is not None else 0)
    if not found.preferred:
        yield f"not aligned: its parts lie on several NUMA nodes (policy {request.policy} allows that)"
    if near and not cpus & capacity.cpus_of(near):
        yield f"no shared CPU is left on NUMA {format_ids(near)}, so it runs on {format_ids(cpus)}"
