"""Why the engine found no room, in the user's words: what is short, by how much, and who holds it.

Rules kept here:

1. What is short in sum is told first: CPUs, memory, devices; only then that it is free but not together.
2. The kubelet's own words go along, for those who grep.
"""

from collections.abc import Sequence

from numawise.apps.launch.capacity import NIC_RESOURCE, WORDS, Site
from numawise.apps.launch.no_room import NoRoom, cpus_text, size_text
from numawise.apps.launch.request import Wish
from numawise.engine.admit import Crashed, Rejected
from numawise.engine.failure import SMT_ALIGNMENT
from numawise.engine.state import NodeState
from numawise.request.model import MEMORY
from numawise.results.hold import Hold


def shortage(
    site: Site, holds: Sequence[Hold], wish: Wish, state: NodeState, decision: Rejected | Crashed
) -> NoRoom:
    """What is short, in the user's words; the kubelet's go along."""
    said = decision.message
    if isinstance(decision, Crashed):
        return NoRoom(f"the request breaks the rules: {said}", (), said)
    free = state.cpu.shared & ~site.reserved
    exclusive = tuple(hold for hold in holds if hold.grant.cpus)
    if wish.whole_cpus > free.bit_count():
        return NoRoom(f"{cpus_text(wish.cpus)} asked for, {free.bit_count()} free", exclusive)
    if decision.reason == SMT_ALIGNMENT:
        return _cores_shortage(site, wish, exclusive, free, said)
    left = {numa: books.tables[MEMORY].free for numa, books in state.memory.numa.items()}
    booked = tuple(hold for hold in holds if hold.grant.memory)
    if wish.memory > sum(left.values()):
        reason = f"{size_text(wish.memory)} of memory asked for, {size_text(sum(left.values()))} free"
        return NoRoom(reason, booked)
    asked = {WORDS.get(name, name): count for name, count in wish.devices}
    if wish.nics:
        asked[NIC_RESOURCE] = asked.get(NIC_RESOURCE, 0) + wish.nics
    for plugin in site.machine.plugins:
        taken = state.devices.allocated.get(plugin.resource, frozenset())
        rest = len({device.id for device in plugin.devices} - taken)
        if asked.get(plugin.resource, 0) > rest:
            having = tuple(hold for hold in holds if plugin.resource in dict(hold.grant.devices))
            reason = f"{asked[plugin.resource]} of {plugin.resource} asked for, {rest} free"
            return NoRoom(reason, having)
    if decision.provider == "memory":
        reason = (
            f"{size_text(wish.memory)} of memory would have to come from several NUMA nodes, "
            "and jobs that keep to some of these have memory there"
        )
        return NoRoom(reason, booked, said)
    parts = [
        f"NUMA {numa} has {(free & cpus).bit_count()} CPUs"
        + (f" and {size_text(left[numa])}" if numa in left else "")
        for numa, cpus in (site.cpus or {}).items()
    ]
    reason = f"it is free, but not together as policy {wish.policy} wants it ({', '.join(parts)} free)"
    return NoRoom(reason, tuple(holds), f"{decision.reason}: {said}")


def _cores_shortage(site: Site, wish: Wish, exclusive: tuple[Hold, ...], free: int, said: str) -> NoRoom:
    threads = site.machine.layout.threads_per_core
    count = wish.whole_cpus
    if count % threads:
        reason = f"{count} CPUs are no whole number of cores, which have {threads} threads here"
        fitting = " or ".join(
            str(n) for n in (count // threads * threads, -(-count // threads) * threads) if n
        )
        return NoRoom(reason, exclusive, said, f"ask for {fitting}")
    cores = sum(free & core == core for core in site.machine.layout.cores.values())
    return NoRoom(f"{count // threads} whole cores asked for, {cores} free", exclusive, said)
