"""What the healer may do, whom it asks, and what it counts."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from numawise.apps.heal.cleaning import CleaningRules
from numawise.apps.heal.holds import HoldSettings, Prospect
from numawise.apps.heal.refused import RefusedPod
from numawise.kube.client import Object
from numawise.values import dataclass, field


class Judging(Protocol):
    """Whoever knows what kubelets would say."""

    def prospect(self, pod: Object) -> Prospect:
        """What all nodes would say to a pod now."""
        ...

    def promise(self, pod: Object, node: str) -> None:
        """A pod is being sent to a node."""
        ...

    def hosts(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """The host name labels of nodes."""
        ...

    def explanation(self, refused: RefusedPod, pod: Object) -> str:
        """Why a pod was refused."""
        ...


@dataclass(frozen=True, slots=True)
class HealRules:
    """What the healer may do."""

    apply: bool = False
    cleaning: CleaningRules = CleaningRules()
    holds: HoldSettings = HoldSettings()


@dataclass(slots=True)
class HealCounts:
    """What metrics show."""

    refused: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    longest: float = 0.0
