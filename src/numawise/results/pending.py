"""A pod that waits for a node: what every node would say to it, and what would let it in."""

from numawise.results.plain import optional
from numawise.results.restart import RestartSearch
from numawise.values import dataclass

HOLD_GATE = "numawise.dev/hold"
"""The scheduling gate of pods that ``numawise heal`` lets wait."""


@dataclass(frozen=True, slots=True)
class NodesAlike:
    """Nodes that would not let a pod in for the same reason."""

    nodes: tuple[str, ...]
    reason: str
    """One sentence."""
    known: str = "exact"
    """How: ``exact``, ``conservative`` or ``unknown``."""
    never: bool | None = None
    """Not even idle; null: not known, or not a matter of resources."""


@dataclass(frozen=True, slots=True)
class AwaitedEnd:
    """A node that lets a pod in once others have ended that end by themselves."""

    node: str
    pods: tuple[str, ...]
    """Namespace and name of each."""


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """What the nodes of a cluster would say to a pod."""

    nodes: int
    """How many there are."""
    scheduler: str = ""
    """What the scheduler said, in its words."""
    gates: tuple[str, ...] = ()
    """Scheduling gates that hold the pod back."""
    able: tuple[str, ...] = ()
    """Nodes that would let it in now, the best first."""
    open: tuple[str, ...] = ()
    """Nodes that have enough by sums, and of which it is not known what their kubelets would say."""
    alike: tuple[NodesAlike, ...] = ()
    """All others, by the reason; the reason of most nodes first."""
    never: bool = False
    """No node could let it in, even if all were idle."""
    nearest: str = ""
    """The node that suggestions are about; empty: none."""
    awaited: AwaitedEnd | None = optional(None)
    restart: RestartSearch | None = optional(None)
