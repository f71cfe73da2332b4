"""Where a job goes on this machine: the engine's decision, told in what a launcher needs.

Rules kept here:

1. The engine decides, on the holds of the ledger as its state: whole CPUs under the static policy, memory
   under the Static policy, GPUs and other devices as a device plugin's, each hold one container.
2. Of GPUs, the sets with the best links are offered to the engine one after another, best first, one for
   each set of NUMA nodes; the first is taken beside which it finds room for everything else, else the
   first that it admits.
3. A job without whole CPUs runs in the shared pool, on the part of it that is near to its memory and GPUs.
   An exclusive grant may not take the last CPU, nor what was promised, from under those who run there.
4. Without an amount of memory nothing is booked, but its pages come from the NUMA nodes of its CPUs and GPUs
   (where these have no memory, from the nearest that have).
5. What could not be given even on the empty machine is a mistake in the request, not want of room.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from numawise.apps.launch.capacity import Site, pool_cpus, pool_of
from numawise.apps.launch.no_room import NoRoom, gpus_text, pool_shortage
from numawise.apps.launch.request import Wish
from numawise.errors import InputError
from numawise.machine.hardware import Gpu
from numawise.results.hold import Grant, Hold
from numawise.rules.model import BEST_EFFORT, NONE
from numawise.sets import format_ids, ids_of


@dataclass(frozen=True, slots=True)
class Nic:
    """A network card that belongs to a placement."""

    name: str
    """What the system calls it: ``eth0``."""
    hca: str = ""
    """Its RDMA device, such as ``mlx5_0``; '' when it has none."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What a job was given, and what to say about it."""

    grant: Grant
    cpus: int
    """CPUs it may run on: its own, or its part of the shared pool."""
    mems: int
    """NUMA nodes its memory comes from."""
    memory: int = 0
    """Bytes it may use; 0: no limit was asked for."""
    gpus: tuple[Gpu, ...] = ()
    """In the order the job shall see them."""
    nics: tuple[Nic, ...] = ()
    """Network cards near to the GPUs, the nearest first."""
    policy: str = ""
    aligned: bool = True
    """Everything lies on one set of NUMA nodes, as small as the request allows."""
    remarks: tuple[str, ...] = ()
    """What the user should know, a sentence each."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables for the job."""


def place(site: Site, holds: Sequence[Hold], wish: Wish, hold_id: str) -> Placement | NoRoom:
    """Decide where a job goes, given who holds what; raise ``InputError`` for what can never be given."""
    found = _decide(site, holds, wish, hold_id)
    if isinstance(found, Placement) or not holds:
        return _possible(site, wish, found)
    _possible(site, wish, _decide(site, (), wish, hold_id))
    return found


def _possible(site: Site, wish: Wish, found: Placement | NoRoom) -> Placement | NoRoom:
    if isinstance(found, Placement):
        return found
    every = site.machine.layout.all
    told = f" (CPUs {format_ids(site.reserved)} are kept for the system)" if site.reserved else ""
    raise InputError(
        f"this machine cannot give that, even when nothing runs: {found.reason}",
        advice=found.advice
        or f"it has {every.bit_count()} CPUs{told}, {gpus_text(len(site.gpus))}; ask for less"
        + ("" if wish.policy in (NONE, BEST_EFFORT) else " or take another --policy"),
    )


def _decide(site: Site, holds: Sequence[Hold], wish: Wish, hold_id: str) -> Placement | NoRoom:
    pool = pool_of(site, holds)
    if not wish.whole_cpus:
        short = pool_shortage(pool, holds, wish)
        if short:
            return short
    if not (wish.whole_cpus or wish.memory or wish.gpus or wish.gpu_ids or wish.devices or wish.nics):
        mems = with_memory(site, site.machine.numa_bits)
        grant = Grant(mems=mems, cpu_limit=wish.cpus)
        return Placement(grant, pool_cpus(site, pool, 0), mems, policy=wish.policy, remarks=site.remarks)
    from numawise.apps.launch.engine_request import ask  # noqa: PLC0415 - the engine: a place in the pool needs none of it

    return ask(site, holds, wish, hold_id)


def with_memory(site: Site, numa: int) -> int:
    """The NUMA nodes of a set that have memory; where one has none, the nearest that has (rule 4)."""
    memory = {node.id for node in site.machine.numa if node.memory}
    rows = {node.id: dict(node.distances) for node in site.hardware.numa}
    found = 0
    for node in ids_of(numa):
        if node in memory or not memory:
            found |= 1 << node
        else:
            found |= 1 << min(memory, key=lambda other: (rows.get(node, {}).get(other, 255), other))
    return found
