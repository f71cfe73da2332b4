"""Pods whose restart elsewhere would let a waiting pod in, as values."""

from collections.abc import Mapping

from numawise.results.cluster import PodShape
from numawise.sets import NumaSet
from numawise.values import dataclass, field


@dataclass(frozen=True, slots=True)
class RestartStep:
    """A pod that is restarted, and a node that would let it in then."""

    namespace: str
    name: str
    uid: str
    owner: str
    """Who makes it anew, as ``ReplicaSet web-5d4f``."""
    priority: int
    shape: PodShape
    node: str
    """Where it runs now."""
    to: str
    """Where it would be let in; the scheduler may send it elsewhere."""


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """The fewest pods whose restart lets a pod in, each step as the kubelets would answer."""

    namespace: str
    name: str
    """Of the pod that waits."""
    node: str
    """Where it would be let in."""
    numa: NumaSet
    """On which NUMA nodes it would have something of its own."""
    steps: tuple[RestartStep, ...] = ()
    """In the order in which they are let in again, after the pod that waits; none: it is let in as it is."""
    smallest: bool = True
    """No other set is smaller, of lower priority or asks for less; false: not all of them were tried."""


@dataclass(frozen=True, slots=True)
class RestartSearch:
    """What came of looking for a plan."""

    plan: RestartPlan | None
    complete: bool
    """Everything within the bounds was tried."""
    most: int
    """Plans of so many pods were looked for."""
    fixed: Mapping[str, int] = field(default_factory=dict)
    """How many pods may not be restarted, by the reason."""
