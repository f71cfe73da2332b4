"""What a pod demands of a node besides resources: labels, ports, an operating system, a place among others.

Rules kept here:

1. Everything is as written; what the API server adds stands in ``request.defaults``.
2. A pod is critical when it is static, a mirror of a static pod, or its priority is a system priority.
"""

from collections.abc import Mapping

from numawise.values import dataclass, field

SYSTEM_CRITICAL = 2_000_000_000
PRIORITIES = {"system-cluster-critical": SYSTEM_CRITICAL, "system-node-critical": SYSTEM_CRITICAL + 1000}
"""The priority classes that every cluster has."""
ANY_ADDRESS, TCP = "0.0.0.0", "TCP"  # noqa: S104 - what an absent hostIP means


@dataclass(frozen=True, slots=True)
class Toleration:
    """Taints that a pod puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """One expression about a node's labels or fields."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Expressions that must all hold."""

    labels: tuple[NodeRequirement, ...] = ()
    fields: tuple[NodeRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a container listens on."""

    port: int
    protocol: str = TCP
    address: str = ANY_ADDRESS
    sidecar: bool = False

    def conflicts(self, other: "HostPort") -> bool:
        """True when both cannot be had on one node."""
        return (
            self.port == other.port
            and self.protocol == other.protocol
            and (ANY_ADDRESS in (self.address, other.address) or self.address == other.address)
        )


@dataclass(frozen=True, slots=True)
class PodConstraints:
    """What a pod demands of its node."""

    node_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    """``requiredDuringSchedulingIgnoredDuringExecution``: one of the terms must hold; None: no demand."""
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    priority: int | None = None
    static: bool = False
    """It comes from a file or URL of the kubelet, not from the API server."""
    mirror: bool = False
    """It stands in the API server for a static pod."""
    os: str = ""
    """``spec.os.name``."""
    os_label: str | None = None
    """The pod's own label ``kubernetes.io/os``."""
    strict_groups: bool = False
    """``supplementalGroupsPolicy: Strict``."""
    sysctls: tuple[str, ...] = ()
    host_network: bool = False
    host_ipc: bool = False
    host_users: bool = True

    @property
    def critical(self) -> bool:
        """True when the kubelet makes room for the pod (rule 2)."""
        return self.static or self.mirror or (self.priority or 0) >= SYSTEM_CRITICAL


NO_CONSTRAINTS = PodConstraints()
NODE_IS_NOT_READY = (
    Toleration("node.kubernetes.io/not-ready", "Exists", effect="NoExecute"),
    Toleration("node.kubernetes.io/unreachable", "Exists", effect="NoExecute"),
)
"""What the API server lets every pod tolerate, for some minutes."""
DAEMONS_TOLERATE = (
    *NODE_IS_NOT_READY,
    *(
        Toleration(f"node.kubernetes.io/{name}", "Exists", effect="NoSchedule")
        for name in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
)
"""What the controller of a DaemonSet lets its pods tolerate."""
