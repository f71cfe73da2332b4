"""What the managers have in common: each gives hints, allocates and collects for the pod under admission.

Counterpart: ``HintProvider`` of pkg/kubelet/cm/topologymanager/topology_manager.go.

Rules kept here:

1. Providers are asked, and allocate, in the order they stand in the tuple that the Topology Manager holds.
2. A provider collects what pods left that are gone before it gives hints or allocates.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from numawise.engine.draft import Draft
from numawise.engine.failure import Failure
from numawise.engine.hint import Answer, Hint
from numawise.engine.trace import Note, ignore
from numawise.machine.model import Machine
from numawise.request.model import ContainerRequest, PodRequest, Role
from numawise.rules.model import Rules
from numawise.values import dataclass

Pick = Callable[[str, str, frozenset[str], int], Iterable[str] | None]
"""(container, resource, candidates, how many) → the device ids to take where the kubelet's choice is free."""


def lowest(_container: str, _resource: str, _candidates: frozenset[str], _count: int) -> None:
    """Leave free choices to the lowest ids."""
    return


@dataclass(slots=True)
class Admission:
    """One pod on its way through: what it may look at and write to."""

    machine: Machine
    rules: Rules
    draft: Draft
    pod: PodRequest
    note: Note = ignore
    pick: Pick = lowest
    resize: bool = False
    """The pod runs already, and asks for another size."""

    @property
    def skipped(self) -> bool:
        """True when nothing is allocated, because the pod is only resized."""
        return self.resize and self.rules.behaviour.managers_skip_resizes


class Provider(Protocol):
    """A manager, as the Topology Manager sees it."""

    name: str

    def present(self, rules: Rules) -> bool:
        """True when the kubelet has this manager."""
        ...

    def collect(self, admission: Admission) -> None:
        """Take back what pods had that are gone."""
        ...

    def hints(self, admission: Admission, container: ContainerRequest | None) -> Answer:
        """Which NUMA nodes could serve a container (None: the pod as a whole), by resource."""
        ...

    def allocate(self, admission: Admission, container: ContainerRequest, affinity: Hint) -> Failure | None:
        """Give a container what it asks for."""
        ...

    def allocate_pod(self, admission: Admission, affinity: Hint) -> Failure | None:
        """Give a pod what it asks for as a whole (gate PodLevelResourceManagers)."""
        ...


def hands_on(rules: Rules, container: ContainerRequest) -> bool:
    """True when later containers of the pod may use again what this one had.

    Ordinary init containers hand on; sidecars only in releases that forget they go on running.
    """
    if container.role is Role.SIDECAR:
        return not rules.behaviour.sidecars_keep_their_share
    return container.role is Role.INIT
