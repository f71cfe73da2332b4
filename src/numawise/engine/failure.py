"""Why an allocation could not be made, as the kubelet tells it."""

from dataclasses import dataclass

UNEXPECTED = "UnexpectedAdmissionError"
SMT_ALIGNMENT = "SMTAlignmentError"
EMPTY_SHARED_POOL = "EmptyPodSharedPoolError"
TOPOLOGY_AFFINITY = "TopologyAffinityError"


@dataclass(frozen=True, slots=True)
class Failure:
    """An allocation failed; ``reason`` is the pod's reason."""

    error: str
    reason: str = UNEXPECTED

    @property
    def message(self) -> str:
        """The pod's message."""
        if self.reason == UNEXPECTED:
            return f"Allocate failed due to {self.error}, which is unexpected"
        return self.error


NIL = "runtime error: invalid memory address or nil pointer dereference"


class Crash(Exception):
    """The kubelet does not survive this: it crashes, or never returns."""
