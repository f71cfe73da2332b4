"""One search for changes: the case, what refused it, and how often the engine may still be asked.

Rules kept here:

1. A change counts only when the API server would take the pod and the engine admits it.
2. The search is bounded by the number of questions to the engine, never by time, so that it always finds
   the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from numawise.engine.admit import Crashed, Rejected
from numawise.explain.adjustable import Dial, dials_of
from numawise.explain.amounts import Trials
from numawise.explain.case import Case, acceptable, admitted, with_pod
from numawise.explain.change import SetAmount, with_amounts
from numawise.results.explanation import Suggestion

TRIALS = ((8, 600), (16, 200), (64, 60))
"""Up to so many NUMA nodes: how often the engine is asked; a decision takes longer the more there are."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A suggestion and how dear it is."""

    cost: float
    suggestion: Suggestion


class Search:
    """What all kinds of changes look at."""

    def __init__(
        self, case: Case, decision: Rejected | Crashed, container: str, resources: Sequence[str]
    ) -> None:
        self.case = case
        self.reason = decision.reason if isinstance(decision, Rejected) else ""
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

    def works(self, case: Case) -> bool:
        """True when the changed case is admitted (rule 1)."""
        return acceptable(case.pod) and self.trials.spend() and admitted(case)

    def works_with(self, changes: Sequence[SetAmount]) -> bool:
        """True when the pod is admitted with other amounts."""
        return self.works(with_pod(self.case, with_amounts(self.case.raw, changes)))
