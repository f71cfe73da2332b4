"""Why the engine found no room, in the user's words: what is short, by how much, and who holds it.

Rules kept here:

1. What is short in sum is reported first: CPUs, memory, devices; then that it is free but not together.
2. The kubelet's own words go along, for those who grep.
"""

from collections.abc import Sequence

from numawise.apps.launch.capacity import NIC_RESOURCE, WORDS
from numawise.apps.launch.decide import cpus_text
from numawise.apps.launch.memory import in_use_text
from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.where import MachinePart
from numawise.engine.admit import Crashed, Rejected
from numawise.engine.failure import SMT_ALIGNMENT
from numawise.engine.state import NodeState
from numawise.render.words import bytes_text
from numawise.request.model import MEMORY
from numawise.results.placement import Capacity, Hold, NoRoom


def shortage(
    capacity: Capacity,
    part: MachinePart,
    holds: Sequence[Hold],
    request: JobRequest,
    state: NodeState,
    decision: Rejected | Crashed,
) -> NoRoom:
    """What is short, in the user's words; the kubelet's go along."""
    said = decision.message
    if isinstance(decision, Crashed):
        return NoRoom(f"the request breaks the rules: {said}", (), said)
    free = state.cpu.shared & ~capacity.reserved
    exclusive = tuple(hold for hold in holds if hold.grant.cpus)
    if request.whole_cpus > free.bit_count():
        return NoRoom(f"{cpus_text(request.cpus)} asked for, {free.bit_count()} free{part.text}", exclusive)
    if decision.reason == SMT_ALIGNMENT:
        return _cores_shortage(capacity, request, exclusive, free, said)
    left = {numa: books.tables[MEMORY].free for numa, books in state.memory.numa.items()}
    booked = tuple(hold for hold in holds if hold.grant.memory)
    if request.memory > sum(left.values()):
        free_text = f"{bytes_text(sum(left.values()))} free{part.text}"
        amount = sum(part.size for hold in booked for part in hold.grant.memory)
        free_text += in_use_text(capacity, state.memory.numa, amount)
        reason = f"{bytes_text(request.memory)} of memory asked for, {free_text}"
        return NoRoom(reason, booked)
    asked = {WORDS.get(name, name): count for name, count in request.devices}
    if request.nics:
        asked[NIC_RESOURCE] = asked.get(NIC_RESOURCE, 0) + request.nics
    for plugin in capacity.machine.plugins:
        taken = state.devices.allocated.get(plugin.resource, frozenset())
        rest = len({device.id for device in plugin.devices} - taken)
        if asked.get(plugin.resource, 0) > rest:
            having = tuple(hold for hold in holds if plugin.resource in dict(hold.grant.devices))
            reason = f"{asked[plugin.resource]} of {plugin.resource} asked for, {rest} free{part.text}"
            return NoRoom(reason, having)
    if decision.provider == "memory":
        reason = (
            f"{bytes_text(request.memory)} of memory would have to come from several NUMA nodes, "
            "and jobs that keep to some of these have memory there"
        )
        return NoRoom(reason, booked, said)
    parts = [
        f"NUMA {numa} has {(free & cpus).bit_count()} CPUs"
        + (f" and {bytes_text(left[numa])}" if numa in left else "")
        for numa, cpus in (capacity.cpus or {}).items()
        if part.numa >> numa & 1
    ]
    reason = f"it is free, but not together as policy {request.policy} wants it ({', '.join(parts)} free)"
    return NoRoom(reason, tuple(holds), f"{decision.reason}: {said}")


def _cores_shortage(
    capacity: Capacity, request: JobRequest, exclusive: tuple[Hold, ...], free: int, said: str
) -> NoRoom:
    threads = capacity.machine.layout.threads_per_core
    count = request.whole_cpus
    if count % threads:
        reason = f"{count} CPUs are not a whole number of cores, which have {threads} threads here"
        fitting = " or ".join(
            str(n) for n in (count // threads * threads, -(-count // threads) * threads) if n
        )
        return NoRoom(reason, exclusive, said, f"ask for {fitting}")
    cores = sum(free & core == core for core in capacity.machine.layout.cores.values())
    return NoRoom(f"{count // threads} whole cores asked for, {cores} free", exclusive, said)
