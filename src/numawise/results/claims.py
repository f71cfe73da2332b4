"""What a pod has by claim beside what its kubelet gave it, and whether the two lie together.

Rules kept here:

1. The kubelet does not align what comes by claim with CPUs, memory and devices of plugins.  Where they lie
   together, that is chance, and the sentence says so.
2. Only containers that use the claim count: the NUMA nodes of what they were given are ``beside``.
3. Where the devices are not known, or the pod has nothing of its own, nothing is said of the outcome.
"""

from collections.abc import Iterator

from numawise.engine.state import NodeState
from numawise.machine.model import Machine
from numawise.request.claims import ClaimedDevice, PodClaim
from numawise.request.model import PodRequest
from numawise.results.plain import computed
from numawise.sets import NumaSet
from numawise.values import dataclass

NOT_ALIGNED = "the Topology Manager does not look at claims"
MOST_DEVICES = 8


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """One claim of a pod, and what its containers have beside it."""

    name: str
    """By which the pod calls it; '' for the claim that backs extended resources."""
    claim: str
    """The ResourceClaim; '' when it is not known."""
    template: str
    """The ResourceClaimTemplate; '' when there is none."""
    containers: tuple[str, ...]
    resources: tuple[str, ...]
    """Extended resources that it backs."""
    devices: tuple[ClaimedDevice, ...]
    """What it was allocated; empty when that is not known."""
    numa: NumaSet
    """The NUMA nodes of the devices, as far as they are known."""
    given: tuple[str, ...]
    """What the kubelet gave its containers: ``CPUs``, ``memory``, and device resources by name."""
    beside: NumaSet
    """The NUMA nodes of that; empty: there are none."""
    aligned: bool | None
    """Whether all devices are on those NUMA nodes; null: not known."""
    admitted: bool
    """The pod was admitted; its claims had no part in that."""

    @computed
    def text(self) -> str:
        """The outcome in one sentence."""
        called = f"claim {self.name}" if self.name else f"claim for {', '.join(self.resources)}"
        if not self.admitted:
            return f"{called} had no part in this: {NOT_ALIGNED}"
        if not self.containers:
            return f"{called}: no container uses it"
        where = _devices_text(self.devices)
        if not self.beside:
            return f"{called}: {where}; there are no CPUs, memory or other devices to align it with"
        *others, last = self.given
        own = f"the {', '.join(others)} and {last}" if others else f"the {last}"
        own += f" beside {'is' if self.given == ('memory',) else 'are'} on NUMA {self.beside}"
        if self.aligned is None:
            return f"{called}: {where}; {own}. They may be far apart: {NOT_ALIGNED}"
        if self.aligned:
            return f"{called}: {where}, and {own}, by chance: {NOT_ALIGNED}"
        return f"{called}: {where}, but {own}: {NOT_ALIGNED}"


def _devices_text(devices: tuple[ClaimedDevice, ...]) -> str:
    if not devices:
        return "its devices are not known here"
    places = [
        f"{one.driver} {one.name} {'on an unknown NUMA node' if one.numa is None else f'on NUMA {one.numa}'}"
        for one in devices[:MOST_DEVICES]
    ]
    more = f" and {len(devices) - MOST_DEVICES} more" if len(devices) > MOST_DEVICES else ""
    return ", ".join(places) + more


def claim_outcomes(
    pod: PodRequest, granted: NodeState, machine: Machine, *, admitted: bool
) -> tuple[ClaimOutcome, ...]:
    """What came of each claim of a pod; ``granted``: the state in which it has what it was given."""
    return tuple(_outcome(pod, claim, granted, machine, admitted=admitted) for claim in pod.claims)


def _outcome(
    pod: PodRequest, claim: PodClaim, granted: NodeState, machine: Machine, *, admitted: bool
) -> ClaimOutcome:
    beside = 0
    given: dict[str, None] = {}
    for name in claim.containers if admitted else ():
        for what, mask in _given(pod.uid, name, granted, machine):
            beside |= mask
            given[what] = None
    aligned = claim.numa & ~beside == 0 if claim.placed and beside else None
    return ClaimOutcome(
        name=claim.name,
        claim=claim.claim,
        template=claim.template,
        containers=claim.containers,
        resources=claim.resources,
        devices=claim.devices,
        numa=NumaSet(claim.numa),
        given=tuple(given),
        beside=NumaSet(beside),
        aligned=aligned,
        admitted=admitted,
    )


def _given(uid: str, container: str, granted: NodeState, machine: Machine) -> Iterator[tuple[str, int]]:
    """What a container was given, and its NUMA nodes, packed."""
    cpus = granted.cpu.assignments.get(uid, {}).get(container, 0)
    for numa, own in machine.layout.numas.items():
        if own & cpus:
            yield "CPUs", 1 << numa
    for block in granted.memory.assignments.get(uid, {}).get(container, ()):
        if block.size:
            yield "memory", block.numa
    for resource, grant in granted.devices.grants.get(uid, {}).get(container, {}).items():
        for numa, _ in grant.per_numa:
            if numa >= 0:
                yield resource, 1 << numa
