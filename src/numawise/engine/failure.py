"""Why an allocation could not be made, in the kubelet's words.

Counterpart: pkg/kubelet/cm/admission/errors.go.
"""

from numawise.values import dataclass

UNEXPECTED = "UnexpectedAdmissionError"
SMT_ALIGNMENT = "SMTAlignmentError"
EMPTY_SHARED_POOL = "EmptyPodSharedPoolError"
TOPOLOGY_AFFINITY = "TopologyAffinityError"


@dataclass(frozen=True, slots=True)
class Failure:
    """An allocation failed; ``reason`` is the pod's reason."""

    error: str
    reason: str = UNEXPECTED
    by_chance: bool = False
    """Several device resources were asked for: which of them is complained about is chance."""

    @property
    def message(self) -> str:
        """The pod's message."""
        if self.reason == UNEXPECTED:
            return f"Allocate failed due to {self.error}, which is unexpected"
        return self.error


NIL = "runtime error: invalid memory address or nil pointer dereference"


class Crash(Exception):
    """The kubelet does not survive this: it crashes, or never returns."""
