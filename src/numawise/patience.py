"""How long an answer may take, and how much it may read: whoever serves others sets both.

Rules kept here:

1. Where nobody set a limit there is none: commands take as long as they take, and people interrupt them.
2. A limit is of the thread that set it, also that of values which are read.
3. Once it is over every look raises.  What catches that on the way cannot hide it: the limit remembers.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from numawise.errors import InputError, NumawiseError


class Patience:
    """The limit of one answer."""

    __slots__ = ("_clock", "_ended", "_latest", "over", "seconds")

    def __init__(self, seconds: float, ended: Callable[[], bool], clock: Callable[[], float]) -> None:
        self.seconds = seconds
        self.over = False
        """Somebody looked, and it was over."""
        self._ended, self._clock, self._latest = ended, clock, clock() + seconds

    def look(self) -> None:
        """``InputError``: there is no time left, or nobody waits any more."""
        if self.over or self._ended() or self._clock() > self._latest:
            self.over = True
            raise self.problem()

    def problem(self) -> InputError:
        """What is said then."""
        return InputError(f"the answer takes longer than {self.seconds:.0f} seconds", advice="ask for less")


Heard = TypeVar("Heard")
_LIMIT: ContextVar[Patience | None] = ContextVar("patience", default=None)


@contextmanager
def within(
    seconds: float, ended: Callable[[], bool] = lambda: False, clock: Callable[[], float] = time.monotonic
) -> Iterator[Patience]:
    """What is done inside takes so long at most; ``ended``: nobody waits for it any more."""
    limit = Patience(seconds, ended, clock)
    before = _LIMIT.set(limit)
    try:
        yield limit
    except NumawiseError:
        if not limit.over:
            raise
    finally:
        _LIMIT.reset(before)
    if limit.over:
        raise limit.problem()


def looking(hear: Callable[[Heard], None]) -> Callable[[Heard], None]:
    """A listener that also looks: for work that tells of its steps and knows no clock."""
    limit = _LIMIT.get()
    if limit is None:
        return hear

    def both(heard: Heard) -> None:
        limit.look()
        hear(heard)

    return both


def look() -> None:
    """To be called where something is done again and again."""
    limit = _LIMIT.get()
    if limit is not None:
        limit.look()


class _Allowance:
    def __init__(self, values: int) -> None:
        self.left = values


_VALUES: ContextVar[_Allowance | None] = ContextVar("values", default=None)


@contextmanager
def at_most(values: int) -> Iterator[None]:
    """What is read inside has so many values together."""
    before = _VALUES.set(_Allowance(values))
    try:
        yield
    finally:
        _VALUES.reset(before)


def most_values(most: int) -> int:
    """How many values may be read now; ``most``: where nobody set a limit, or a higher one."""
    allowance = _VALUES.get()
    return most if allowance is None else max(0, min(allowance.left, most))


def values_read(count: int) -> None:
    """So many were read."""
    allowance = _VALUES.get()
    if allowance is not None:
        allowance.left -= count
