"""What a node publishes of itself: all that its kubelet's next decision depends on, as one value."""

from collections.abc import Mapping
from typing import Any

from numawise.engine.state import NodeState
from numawise.machine.description import NodeDescription
from numawise.machine.model import Machine
from numawise.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Publication:
    """The exact state of one node."""

    node: str
    """The node's name in the cluster."""
    kubelet: str
    """The kubelet's version as the kubelet writes it, such as ``v1.34.2``."""
    machine: Machine
    config: Mapping[str, Any]
    """Fields of its configuration, as a file has them, as far as they decide; no other is set."""
    description: NodeDescription | None = None
    """What the Node object says that sums are compared with; labels and taints are not in it."""
    state: NodeState = field(default_factory=NodeState)
    missing: tuple[str, ...] = ()
    """What could not be learnt of the node, in sentences; empty: everything is known."""
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Uid → namespace and name of live pods, where they are told; agents do not."""
