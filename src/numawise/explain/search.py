"""How much of something would be admitted: the search for the largest amount below, the smallest above.

Rules kept here:

1. The verdict is not monotone: under ``restricted`` less can be too little.  It can change only at certain
   amounts (the *marks*: what is free, or could be, on so many NUMA nodes); between two of them it is.
2. Every amount that is given back was tried.
"""

from collections.abc import Callable, Iterable, Sequence

from numawise.engine.admit import Crashed, Rejected
from numawise.explain.adjustable import Dial, dials_of
from numawise.explain.case import ExplainCase, acceptable, admitted, with_pod
from numawise.explain.change import SetAmount, with_amounts
from numawise.results.explanation import Suggestion
from numawise.values import dataclass

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


# --------------------------------------------------------------------------------------------------
# One search for changes: the case, what refused it, and how often the engine may still be asked.
#
# Rules kept here:
#
# 1. A change counts only when the API server would take the pod and the engine admits it.
# 2. The search is bounded by the number of questions to the engine, never by time, so that it always finds
#    the same.


TRIALS = ((8, 600), (16, 200), (64, 60))
"""Up to so many NUMA nodes: how often the engine is asked; a decision takes longer the more there are."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A suggestion and how dear it is."""

    cost: float
    suggestion: Suggestion


class ChangeSearch:
    """What all kinds of changes look at."""

    def __init__(
        self, case: ExplainCase, decision: Rejected | Crashed, container: str, resources: Sequence[str]
    ) -> None:
        self.case = case
        self.reason = decision.reason if isinstance(decision, Rejected) else ""
        self.insufficient = decision.insufficient if isinstance(decision, Rejected) else None
        """What the sums had too little of."""
        self.crashed = isinstance(decision, Crashed)
        self.container = container
        """Where it failed; '' when the pod as a whole did."""
        self.resources = tuple(resources)
        """Those that decided."""
        self.trials = Trials(next((n for most, n in TRIALS if len(case.machine.numa) <= most), TRIALS[-1][1]))
        self.dials: tuple[Dial, ...] = dials_of(case, container, resources)
        names = [one.name for one in case.pod.containers]
        self.here = tuple(
            dial for dial in self.dials if dial.container is None or names[dial.container] == container
        )
        """The dials of the container that failed."""

    def works(self, case: ExplainCase) -> bool:
        """True when the changed case is admitted (rule 1)."""
        return acceptable(case.pod) and self.trials.spend() and admitted(case)

    def works_with(self, changes: Sequence[SetAmount]) -> bool:
        """True when the pod is admitted with other amounts."""
        return self.works(with_pod(self.case, with_amounts(self.case.raw, changes)))
