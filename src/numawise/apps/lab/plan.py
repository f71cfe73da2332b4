"""What a lab is going to do, as a value."""

from numawise.apps.lab.node_object import NodeLook
from numawise.codec.kubeconfig import ClusterAccess
from numawise.errors import InputError, quoted
from numawise.kube.client import NAME
from numawise.node.node import SimulatedNode
from numawise.values import dataclass, field

OURS, FOREIGN, NOTHING = "ours", "foreign", "none"
HEARTBEAT = 10.0
MOST_NODES = 5000


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """How the state of the nodes is published."""

    form: str = OURS
    """``ours``: as the agent does; ``foreign``: zones alone, as other exporters do; ``none``: not at all."""
    delay: float = 0.0
    """Seconds from a change to its publication."""
    loss: float = 0.0
    """The share of publications that never arrive."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class LabPlan:
    """The nodes, and how they are run."""

    access: ClusterAccess
    nodes: dict[str, SimulatedNode]
    look: NodeLook
    publish: PublishPlan = field(default_factory=PublishPlan)
    factor: float = 1.0
    heartbeat: float = HEARTBEAT
    listen: tuple[str, int] | None = None


def check_names(names: list[str]) -> None:
    """Refuse what cannot be the name of a node."""
    for name in names:
        if not NAME.fullmatch(name):
            raise InputError(
                f"{quoted(name)} cannot be the name of a node",
                field="--nodes",
                advice="list the nodes in a file, with names of lower-case letters, digits, '-' and '.'",
            )
    if len(names) > MOST_NODES:
        raise InputError(f"{len(names)} nodes are too many", field="--nodes", advice=f"at most {MOST_NODES}")
