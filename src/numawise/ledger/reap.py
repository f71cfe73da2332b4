"""Whose owner is dead: decided from facts that the caller brings.

Rules kept here:

1. A process of an earlier boot is dead.  A container of an earlier boot may live: engines start some again.
2. A process of this boot is dead when it has ended, or its number belongs to one that began at another time;
   but what it left running in its control group keeps the hold.
3. A container is dead when its engine says so.  While it is being made, the process that makes it counts.
4. What cannot be judged is alive: a process of another pid namespace or one that is hidden from us, an engine
   that does not answer.  Of two mistakes, giving CPUs to two jobs is the worse one.
"""

from collections.abc import Callable, Iterable
from functools import partial

from numawise.results.placement import Hold, Owner, Waiter


def dead(
    holds: Iterable[Hold], boot: str, alive: Callable[[Hold], bool], namespace: int = 0
) -> tuple[Hold, ...]:
    """The holds whose owners are dead; ``alive`` is asked where boot and namespace do not decide.

    ``boot`` is this boot's id ('' when it is not known), ``namespace`` the number of our pid namespace
    (0 when it is not known).
    """
    return tuple(hold for hold in holds if not _lives(hold.owner, boot, namespace, partial(alive, hold)))


def left_line(
    waiters: Iterable[Waiter], boot: str, alive: Callable[[Owner], bool], namespace: int = 0
) -> tuple[Waiter, ...]:
    """Those in line who are dead."""
    return tuple(
        waiter
        for waiter in waiters
        if not _lives(waiter.owner, boot, namespace, partial(alive, waiter.owner))
    )


def _lives(owner: Owner, boot: str, namespace: int, asked: Callable[[], bool]) -> bool:
    if not owner.container:
        if boot and owner.boot != boot:
            return False
        if namespace and owner.namespace and namespace != owner.namespace:
            return True
    return asked()
