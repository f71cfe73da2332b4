"""What a Kubernetes Node object says of a node besides its hardware."""

from collections.abc import Mapping

from numawise.values import dataclass, field

NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE = "NoSchedule", "NoExecute", "PreferNoSchedule"
PRESSURES = ("DiskPressure", "MemoryPressure", "PIDPressure")
"""Conditions under which a kubelet turns pods away."""


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
