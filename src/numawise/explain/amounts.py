"""How much of something would be admitted: the search for the largest amount below, the smallest above.

Rules kept here:

1. The verdict is not monotone: under ``restricted`` less can be too little.  It can change only at certain
   amounts (the *marks*: what is free, or could be, on so many NUMA nodes); between two of them it is.
2. Every amount that is given back was tried.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

Works = Callable[[int], bool]
FEW = 64
"""So few amounts are tried one by one."""
MOST_MARKS = 48


@dataclass(slots=True)
class Trials:
    """How often the engine may still be asked."""

    left: int

    def spend(self) -> bool:
        """Take one; False: there are none left."""
        self.left -= 1
        return self.left >= 0


def largest(works: Works, most: int, marks: Iterable[int], least: int = 1) -> int | None:
    """The largest amount from ``least`` to below ``most`` that works; None: none was found."""
    if most - least <= FEW:
        return next((amount for amount in range(most - 1, least - 1, -1) if works(amount)), None)
    inside = sorted({mark for mark in marks if least < mark < most - 1}, reverse=True)[:MOST_MARKS]
    above = most
    for mark in (most - 1, *inside, least):
        if works(mark):
            return bisect(works, mark, above)
        above = mark
    return None


def bisect(works: Works, good: int, bad: int) -> int:
    """The last good amount before a bad one."""
    while bad - good > 1:
        middle = (good + bad) // 2
        if works(middle):
            good = middle
        else:
            bad = middle
    return good


def smallest_above(works: Works, least: int, marks: Iterable[int], most: int) -> int | None:
    """The smallest mark above ``least`` and not above ``most`` that works; None: none does."""
    return next((mark for mark in sorted(set(marks)) if least < mark <= most and works(mark)), None)
