"""Why a job finds no room now: the answer as a value, and the shared pool's reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

from numawise.apps.launch.request import Wish
from numawise.results.hold import Hold


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The machine has it, but not now."""

    reason: str
    """One sentence: what is short, and by how much."""
    holders: tuple[Hold, ...] = ()
    """Who holds what is missing."""
    message: str = ""
    """What a kubelet would have said."""
    advice: str = ""
    """What to ask for instead, where that is plain."""


def pool_shortage(pool: int, holds: Sequence[Hold], wish: Wish) -> NoRoom | None:
    """Why the shared pool cannot take one more."""
    if not pool:
        return NoRoom("no CPU is left in the shared pool", tuple(h for h in holds if h.grant.cpus))
    promised = sum(hold.grant.cpu_limit for hold in holds)
    left = pool.bit_count() * 1000 - promised
    if wish.cpus > left:
        reason = f"{cpus_text(wish.cpus)} asked for in the shared pool, {cpus_text(max(left, 0))} of it left"
        return NoRoom(reason, tuple(h for h in holds if h.grant.cpus or h.grant.cpu_limit))
    return None


def shared_shortage(pool: int, holds: Sequence[Hold]) -> NoRoom | None:
    """Why those in the shared pool could not go on with what would be left of it (rule 3)."""
    shared = tuple(hold for hold in holds if not hold.grant.cpus)
    promised = sum(hold.grant.cpu_limit for hold in shared)
    if shared and (not pool or promised > pool.bit_count() * 1000):
        left = f"{pool.bit_count()} CPUs would be left" if pool else "no CPU would be left"
        needed = f" ({cpus_text(promised)} promised)" if promised else ""
        return NoRoom(f"{left} in the shared pool, where {len(shared)} jobs run{needed}", shared)
    return None


def cpus_text(milli: int) -> str:
    """``8 CPUs``, ``0.5 CPUs``."""
    return f"{milli / 1000:g} CPU{'' if milli == 1000 else 's'}"


def gpus_text(count: int) -> str:
    """``1 GPU``, ``no GPUs``."""
    return f"{count} GPU{'' if count == 1 else 's'}" if count else "no GPUs"


def size_text(size: int) -> str:
    """``1.5 GiB``, ``300 MiB``."""
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"
