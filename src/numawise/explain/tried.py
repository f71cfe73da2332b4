"""A suggestion tried: the node after it, and the pod explained there."""

from collections.abc import Sequence

from numawise.errors import InputError
from numawise.explain.case import admitted_node
from numawise.explain.explain import Proven, explain
from numawise.node.node import SimulatedNode
from numawise.results.explanation import Explanation, Suggestion
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class TriedSuggestion:
    """What a suggestion leads to."""

    suggestion: Suggestion
    explanation: Explanation | None
    """Of the pod, after the change; None: there is none, the kubelet alone starts."""
    after: SimulatedNode
    """The node then, with the pod."""
    before: SimulatedNode | None = None
    """The node as it was; None: its kubelet did not start."""


def tried(proven: Sequence[Proven], number: int, before: SimulatedNode | None) -> TriedSuggestion:
    """What one of several leads to is what proved it: the case of the search, and the pod let in."""
    check_suggestion(number, len(proven))
    chosen = proven[number]
    after = admitted_node(chosen.after) or chosen.after.node
    return TriedSuggestion(chosen.suggestion, explain(chosen.after, walk=True), after, before)


def check_suggestion(number: int, count: int) -> None:
    """Say that there is none of that number."""
    if number >= count:
        what = f"there is no suggestion {number}: {count} can be tried"
        raise InputError(what, field="suggestion", advice="ask why again, and choose one of its answer")
