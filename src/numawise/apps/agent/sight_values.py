"""A kubelet seen from all sides at one moment, and what is missing of it, as values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numawise.codec.podresources import PodResources
from numawise.machine.hardware import Hardware
from numawise.machine.model import Machine
from numawise.machine.preference import Preference
from numawise.node.node import SimulatedNode
from numawise.values import dataclass, field

NO_STATE, NO_CONFIGURATION = "StateUnreadable", "ConfigurationUnknown"
NO_POD_RESOURCES, NO_VERSION = "PodResourcesMissing", "KubeletVersionUnknown"
NO_MACHINE, NOT_STARTED = "MachineUnknown", "KubeletWouldNotStart"
STALE_CONFIGURATION, UNSETTLED = "ConfigurationChanged", "SourcesDisagree"
NO_PODS = "PodsUnknown"
NO_POLICY, NO_DEVICE_NODES = "TopologyPolicyNone", "DevicesWithoutNumaNode"


@dataclass(frozen=True, slots=True)
class SightProblem:
    """Something that is missing."""

    reason: str
    """One word, as a condition's reason."""
    text: str
    """What is missing, and what to do."""


@dataclass(frozen=True, slots=True)
class ApiView:
    """What an API server says of the node; None: it was not asked, or does not say."""

    node: Mapping[str, Any] | None = None
    pods: tuple[Mapping[str, Any], ...] | None = None
    synced: bool = False
    """The pods are those of now, as far as the server knows."""


@dataclass(frozen=True, slots=True)
class OwnPlugin:
    """How the agent's own device plugin answers for a resource, which nothing at the kubelet shows."""

    preference: Preference | None = None
    refuses_several: bool = False


OwnPlugins = Callable[[], Mapping[str, OwnPlugin]]
"""Asks which resources the agent serves now."""


@dataclass(frozen=True, slots=True)
class KubeletSight:
    """A kubelet, seen from all sides at one moment."""

    node: SimulatedNode | None = None
    """Ready to be asked; None: not enough is known."""
    hardware: Hardware | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    """State file → text."""
    answers: PodResources | None = None
    pods: Sequence[Mapping[str, Any]] | None = None
    """As the API server lists them; None: it was not asked."""
    problems: tuple[str, ...] = ()
    """What is missing, a sentence each."""
    at: float = 0.0
    """Seconds since 1970."""
    reasons: tuple[str, ...] = ()
    """A word for each problem."""
    name: str = ""
    """The node's name in the cluster."""
    kubelet: str = ""
    """The kubelet's version; '' when it is not known."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """What the kubelet runs with."""
    settled: bool = True
    """False: the sources did not agree, so that they are read again soon."""
    object: Mapping[str, Any] | None = None
    """The Node object."""
    machine: Machine | None = None
    """What the kubelet sees of the hardware; None: not known."""

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.node is not None and not self.problems

    def same(self, other: "KubeletSight | None") -> bool:
        """Whether it shows what another showed."""
        if other is None or any(getattr(self, name) != getattr(other, name) for name in COMPARED):
            return False
        mine, theirs = self.node, other.node
        if mine is None or theirs is None:
            return mine is theirs
        return mine.state == theirs.state and mine.description == theirs.description


COMPARED = ("texts", "answers", "problems", "kubelet", "configuration", "hardware")
