"""What a Kubernetes Node object says of a node besides its hardware."""

from collections.abc import Mapping
from typing import Self

from numawise.values import dataclass, field, replace

NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE = "NoSchedule", "NoExecute", "PreferNoSchedule"
PRESSURES = ("DiskPressure", "MemoryPressure", "PIDPressure")
"""Conditions under which a kubelet turns pods away."""

UNREADY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of a node whose kubelet is not ready, or not heard of."""

CONFIGURED = ("cpu", "memory", "pods")
"""Amounts that every Node object lists."""


@dataclass(frozen=True, slots=True)
class Taint:
    """Pods that do not tolerate it are kept away."""

    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node as its Node object describes it."""

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    labels_known: bool = True
    """False: labels and taints were taken out, so that nothing can be said of selectors."""
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    pressures: tuple[str, ...] = ()
    """Those of ``PRESSURES`` that are true, by name."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """CPUs in thousandths, everything else in whole units; empty: not known."""
    strict_groups: bool = False
    """The container runtime supports ``supplementalGroupsPolicy: Strict``."""
    kernel: str = ""
    """The kernel's release; '' when it is not known."""
    shutting_down: bool = False

    @property
    def ready(self) -> bool:
        """False: the control plane keeps pods away, because the kubelet does not call itself ready."""
        return not any(taint.key in UNREADY for taint in self.taints)

    def without(self, *resources: str) -> Self:
        """The same node, when what it says of these resources is no longer so."""
        kept = {name: size for name, size in self.allocatable.items() if name not in resources}
        return replace(self, allocatable=kept)

    def reconfigured(self) -> Self:
        """The same node under another configuration, on which these amounts depend."""
        own = [name for name in self.allocatable if name in CONFIGURED or name.startswith("hugepages-")]
        return self.without(*own)
