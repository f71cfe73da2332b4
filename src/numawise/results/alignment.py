"""What of an admitted pod lies on NUMA nodes of its own, what does not, and why.

Rules kept here:

1. Every container has a row for its CPUs and its memory, asked for or not, and one for each type of huge
   pages, each device resource and each claim that it asks for.
2. ``aligned`` is a fact about the placement: what a container has lies on one NUMA node, or on the NUMA
   nodes that all its resources preferred.  In pod scope that is judged for all containers together.
3. What no manager gives (CPUs of the shared pool, memory that is not pinned) is not aligned, unless the
   machine has only one NUMA node that it can come from.
4. Where a NUMA node is not known, neither is the alignment: null.
5. A resource that nothing here offers is passed over by the kubelet: the container starts without it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from numawise.engine.cpu.hints import exclusive_cpus
from numawise.engine.device.hints import nodes_of
from numawise.engine.hint import Hint
from numawise.engine.lifecycle import Started
from numawise.engine.memory.hints import takes_part, wanted_by
from numawise.engine.state import DeviceGrant, NodeState, Plugin
from numawise.machine.model import Machine
from numawise.request.model import CPU, HUGEPAGES, MEMORY, ContainerRequest, PodRequest, Role
from numawise.results.claims import claim_outcomes
from numawise.results.plain import computed, hidden
from numawise.rules.model import NONE, Rules
from numawise.sets import NumaSet
from numawise.values import dataclass, field, replace

AlignmentReason = Literal[
    "qos-class",
    "pod-level-resources",
    "fraction-of-cpu",
    "cpu-manager-policy",
    "memory-manager-policy",
    "memory-amount",
    "topology-manager-policy",
    "not-preferred",
    "other-numa-nodes",
    "several-numa-nodes",
    "only-numa-node",
    "no-numa-node",
    "not-offered",
    "devices-not-known",
    "chosen-at-start",
    "cannot-start",
    "not-recorded",
    "claim",
]
QOS: AlignmentReason = "qos-class"
POD_LEVEL: AlignmentReason = "pod-level-resources"
FRACTION: AlignmentReason = "fraction-of-cpu"
CPU_POLICY: AlignmentReason = "cpu-manager-policy"
MEMORY_POLICY: AlignmentReason = "memory-manager-policy"
MEMORY_AMOUNT: AlignmentReason = "memory-amount"
TOPOLOGY_POLICY: AlignmentReason = "topology-manager-policy"
NOT_PREFERRED: AlignmentReason = "not-preferred"
ELSEWHERE: AlignmentReason = "other-numa-nodes"
SEVERAL: AlignmentReason = "several-numa-nodes"
ONLY_NODE: AlignmentReason = "only-numa-node"
NO_NUMA: AlignmentReason = "no-numa-node"
NOT_OFFERED: AlignmentReason = "not-offered"
NOT_KNOWN: AlignmentReason = "devices-not-known"
AT_START: AlignmentReason = "chosen-at-start"
CANNOT_START: AlignmentReason = "cannot-start"
NOT_RECORDED: AlignmentReason = "not-recorded"
CLAIM: AlignmentReason = "claim"

SHARED = frozenset({QOS, POD_LEVEL, FRACTION, CPU_POLICY, MEMORY_POLICY, MEMORY_AMOUNT, NOT_RECORDED})
"""Reasons of what no manager gives."""


@dataclass(frozen=True, slots=True)
class ResourceAlignment:
    """One resource of one container, and whether it lies where the rest does."""

    container: str
    resource: str
    """``cpu``, ``memory``, ``hugepages-1Gi``, a device resource; of a claim ``claim`` and its name."""
    requested: str | None
    """As the manifest asks for it; null: it asks for none, and gets what there is."""
    aligned: bool | None
    """Null: not known."""
    numa: NumaSet
    """Where it lies; empty: on no certain NUMA nodes."""
    reasons: tuple[AlignmentReason, ...] = ()
    """Why it is not aligned or not known to be; of an aligned one, why that is chance or on several nodes."""
    role: Role = hidden(Role.APP)
    common: int = hidden(0)
    """NUMA nodes, packed, of which each alone has all of it."""
    cpus: tuple[tuple[int, int], ...] = hidden(())
    """NUMA node and CPUs there, packed."""
    size: int = hidden(0)
    """Bytes."""
    devices: tuple[tuple[str, int], ...] = hidden(())
    """Id and NUMA nodes, packed."""

    @property
    def given(self) -> bool:
        """True when it is the container's own."""
        return bool(self.cpus or self.size or self.devices)


@dataclass(frozen=True, slots=True)
class Alignment:
    """What of an admitted pod is aligned."""

    resources: tuple[ResourceAlignment, ...]
    qos: str = hidden("")
    policy: str = hidden(NONE)
    pod_scope: bool = hidden(False)
    offered: tuple[str, ...] = hidden(())
    """Device resources that the machine has."""
    errors: tuple[tuple[str, str], ...] = hidden(())
    """Containers that cannot start, and why."""
    memory_manager: bool = hidden(True)
    """The kubelet has one."""

    @computed
    def aligned(self) -> bool | None:
        """True when everything is, false when something is not; null: something is not known."""
        known = [one.aligned for one in self.resources]
        return False if False in known else None if None in known else True

    @computed
    def numa(self) -> NumaSet:
        """All NUMA nodes that something lies on."""
        mask = 0
        for one in self.resources:
            mask |= one.numa.bits
        return NumaSet(mask)

    @computed
    def everything_on(self) -> int | None:
        """The NUMA node that everything lies on; null: there is none."""
        common = -1
        for one in self.resources:
            common &= one.common if one.aligned else 0
        return (common & -common).bit_length() - 1 if common > 0 else None

    @computed
    def missing(self) -> tuple[str, ...]:
        """Resources that the pod asks for and nothing here offers: its containers start without them."""
        return tuple(dict.fromkeys(one.resource for one in self.resources if NOT_OFFERED in one.reasons))

    @property
    def scattered(self) -> bool:
        """True when something lies on other NUMA nodes than the rest, or on more than it needs."""
        apart = {NOT_PREFERRED, ELSEWHERE, TOPOLOGY_POLICY}
        return any(one.aligned is False and apart.intersection(one.reasons) for one in self.resources)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What an alignment is judged by beside what was granted."""

    machine: Machine
    rules: Rules
    listed: Mapping[str, int] = field(default_factory=dict)
    """What the Node object lists as allocatable; empty: that is not known."""


def alignment_of(
    pod: PodRequest,
    node: NodeFacts,
    granted: NodeState,
    affinity: Mapping[str, Hint],
    started: Iterable[Started] = (),
) -> Alignment:
    """What of a pod is aligned that was granted this, once its containers started."""
    errors = {one.container: one.error for one in started if one.error}
    look = _Look(pod, node.rules, node.machine, granted, affinity, node.listed, errors)
    return Alignment(
        tuple(look.rows()),
        pod.qos,
        node.rules.topology_policy,
        node.rules.pod_scope,
        tuple(sorted(granted.devices.plugins)),
        tuple(errors.items()),
        node.rules.memory_manager,
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """One pod, and what is known of it."""

    pod: PodRequest
    rules: Rules
    machine: Machine
    granted: NodeState
    affinity: Mapping[str, Hint]
    listed: Mapping[str, int]
    errors: Mapping[str, str]
    with_cpus: int = field(init=False)
    """NUMA nodes that have CPUs, packed."""
    with_memory: int = field(init=False)
    """NUMA nodes that have memory; all, where sizes are not known."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "with_cpus", sum(1 << numa for numa, cpus in self.machine.layout.numas.items() if cpus))
        sized = sum(1 << numa.id for numa in self.machine.numa if numa.memory)
        put(self, "with_memory", sized or self.machine.numa_bits)

    @property
    def one_node(self) -> int:
        """The only NUMA node of the machine, packed; 0: it has several."""
        every = self.machine.numa_bits
        return every if every.bit_count() == 1 else 0

    def rows(self) -> Iterator[ResourceAlignment]:
        """All rows, judged (rules 1 and 2)."""
        containers = self.pod.containers
        together = self.rules.pod_scope and self.rules.topology_policy != NONE
        for group in [containers] if together else [(one,) for one in containers]:
            rows = [row for container in group for row in self.container_rows(container)]
            judged = self.judged(rows)
            for container in group:
                yield from (row for row in judged if row.container == container.name)
                yield from self.claim_rows(container)

    def container_rows(self, container: ContainerRequest) -> Iterator[ResourceAlignment]:
        """What a container has, in the order of the resources; what is given still has to be judged."""
        yield self.cpu_row(container)
        yield from self.memory_rows(container)
        for resource, count in container.devices:
            if count > 0:
                yield from self.device_row(container, resource)

    def row(
        self,
        container: ContainerRequest,
        resource: str,
        mask: int,
        *,
        common: int | None = None,
        cpus: tuple[tuple[int, int], ...] = (),
        size: int = 0,
        devices: tuple[tuple[str, int], ...] = (),
    ) -> ResourceAlignment:
        """Something that lies somewhere."""
        alone = mask if mask.bit_count() == 1 else 0
        return ResourceAlignment(
            container.name,
            resource,
            _asked(container, resource),
            aligned=False,
            numa=NumaSet(mask),
            role=container.role,
            common=alone if common is None else common,
            cpus=cpus,
            size=size,
            devices=devices,
        )

    def floating(
        self,
        container: ContainerRequest,
        resource: str,
        reasons: tuple[AlignmentReason, ...],
        homes: int,
    ) -> ResourceAlignment:
        """Something that comes from any of the NUMA nodes ``homes`` (rule 3)."""
        only = homes if homes.bit_count() == 1 else 0
        row = self.row(container, resource, only)
        return replace(row, aligned=bool(only), reasons=(ONLY_NODE, *reasons) if only else reasons)

    # --- CPUs and memory ---

    def cpu_row(self, container: ContainerRequest) -> ResourceAlignment:
        cpus = self.granted.cpu.assignments.get(self.pod.uid, {}).get(container.name, 0)
        if not cpus:
            return self.floating(container, CPU, self.cpu_reasons(container), self.with_cpus)
        parts = tuple((numa, own & cpus) for numa, own in self.machine.layout.numas.items() if own & cpus)
        return self.row(container, CPU, sum(1 << numa for numa, _ in parts), cpus=parts)

    def memory_rows(self, container: ContainerRequest) -> Iterator[ResourceAlignment]:
        """Memory and huge pages; the blocks of an init container shrink when later ones take them over."""
        blocks = self.granted.memory.assignments.get(self.pod.uid, {}).get(container.name, ())
        wanted = {
            name: amount.value
            for name, amount in container.requests.items()
            if amount.nano and (name == MEMORY or name.startswith(HUGEPAGES))
        }
        for kind in dict.fromkeys((MEMORY, *sorted(wanted), *(block.type for block in blocks if block.size))):
            own = [block for block in blocks if block.type == kind and (block.size or kind in wanted)]
            mask = 0
            for block in own:
                mask |= block.numa
            if mask:
                size = wanted.get(kind) or sum(block.size for block in own)
                yield self.row(container, kind, mask, size=size)
            else:
                yield self.floating(container, kind, self.memory_reasons(container), self.with_memory)

    def cpu_reasons(self, container: ContainerRequest) -> tuple[AlignmentReason, ...]:
        pod, rules = self.pod, self.rules
        policy: tuple[AlignmentReason, ...] = () if rules.cpu_static else (CPU_POLICY,)
        if not pod.guaranteed:
            return (QOS, *policy)
        if pod.pod_level and not exclusive_cpus(rules, pod, container):
            return (POD_LEVEL, *policy)
        if not container.whole_cpus and CPU in container.requests:
            return (FRACTION, *policy)
        return policy or (NOT_RECORDED,)

    def memory_reasons(self, container: ContainerRequest) -> tuple[AlignmentReason, ...]:
        pod, rules = self.pod, self.rules
        policy: tuple[AlignmentReason, ...] = () if rules.memory_static else (MEMORY_POLICY,)
        if not pod.guaranteed:
            return (QOS, *policy)
        if policy:
            return policy
        if pod.pod_level and (not takes_part(rules, pod) or not wanted_by(rules, pod, container)):
            return (POD_LEVEL,)
        return (MEMORY_AMOUNT,) if container.memory is None else (NOT_RECORDED,)

    # --- devices ---

    def device_row(self, container: ContainerRequest, resource: str) -> Iterator[ResourceAlignment]:
        """Rules 4 and 5."""
        grant = self.granted.devices.grants.get(self.pod.uid, {}).get(container.name, {}).get(resource)
        if grant is not None:
            yield self.granted_row(container, resource, grant)
            return
        if resource in container.claimed:
            if not any(resource in claim.resources for claim in self.pod.claims):
                yield self.not_given(container, resource, CLAIM, aligned=None)
        elif container.name in self.errors:
            yield self.not_given(container, resource, CANNOT_START, aligned=False)
        elif resource in self.granted.devices.plugins:
            yield self.not_given(container, resource, AT_START, aligned=None)
        elif self.listed.get(resource):
            yield self.not_given(container, resource, NOT_KNOWN, aligned=None)
        else:
            yield self.not_given(container, resource, NOT_OFFERED, aligned=False)

    def not_given(
        self, container: ContainerRequest, resource: str, reason: AlignmentReason, *, aligned: bool | None
    ) -> ResourceAlignment:
        return replace(self.row(container, resource, 0), aligned=aligned, reasons=(reason,))

    def granted_row(
        self, container: ContainerRequest, resource: str, grant: DeviceGrant
    ) -> ResourceAlignment:
        """Devices that were given; a device on several NUMA nodes is on each of them."""
        plugin = self.granted.devices.plugins.get(resource, Plugin())
        spots = dict.fromkeys(sorted(grant.ids), 0)
        for numa, ids in grant.per_numa:
            for name in ids:
                spots[name] |= 1 << numa if numa >= 0 else 0
        for name in spots:
            device = plugin.devices.get(name)
            if device is not None:  # old releases record devices without NUMA node on NUMA 0
                spots[name] = 0 if device.numa_unknown else nodes_of(device)
            spots[name] = spots[name] or self.one_node
        mask, common = 0, -1
        for nodes in filter(None, spots.values()):
            mask, common = mask | nodes, common & nodes
        row = self.row(container, resource, mask, common=max(0, common), devices=tuple(spots.items()))
        return row if all(spots.values()) else replace(row, aligned=None, reasons=(NO_NUMA,))

    # --- judging ---

    def judged(self, rows: Sequence[ResourceAlignment]) -> list[ResourceAlignment]:
        """Whether what was given lies together, and with it what can only come from one NUMA node."""
        common = -1
        for row in rows:
            common &= row.common if row.given and row.numa else -1
        judged = [self.judge(row, together=common != 0) if row.given else row for row in rows]
        return [
            replace(row, aligned=False, reasons=row.reasons[1:])
            if row.aligned and not row.given and not row.common & common
            else row
            for row in judged
        ]

    def judge(self, row: ResourceAlignment, *, together: bool) -> ResourceAlignment:
        """Whether one resource lies where the rest does."""
        reason: tuple[AlignmentReason, ...] = ()
        if row.aligned is None and (together or not row.numa):
            return row
        if self.rules.topology_policy == NONE:
            reason = (ONLY_NODE,) if self.one_node else (TOPOLOGY_POLICY,)
            return replace(row, aligned=together, reasons=reason)
        if together:
            return replace(row, aligned=True, reasons=(ONLY_NODE,) if self.one_node else ())
        hint = self.affinity.get(row.container)
        if hint is None or not hint.preferred or hint.numa is None:
            return replace(row, aligned=False, reasons=(NOT_PREFERRED,))
        wanted = hint.numa.bits
        outside = row.numa.bits & ~wanted
        if row.devices:
            outside = any(not nodes & wanted for _, nodes in row.devices)
        if outside:
            return replace(row, aligned=False, reasons=(ELSEWHERE,))
        reason = (SEVERAL,) if hint.numa.bits.bit_count() > 1 else ()
        return row if row.aligned is None else replace(row, aligned=True, reasons=reason)

    # --- claims ---

    def claim_rows(self, container: ContainerRequest) -> Iterator[ResourceAlignment]:
        """Devices of claims: where they lie with the rest, that is chance."""
        if not self.pod.claims:
            return
        outcomes = claim_outcomes(self.pod, self.granted, self.machine, admitted=True)
        for claim, outcome in zip(self.pod.claims, outcomes, strict=True):
            if container.name not in claim.containers:
                continue
            common = -1
            for device in claim.devices:
                common &= 1 << device.numa if device.numa is not None and device.numa >= 0 else 0
            aligned = outcome.aligned
            if aligned is None and claim.placed and claim.numa:  # there is nothing else to lie with
                aligned = common > 0
            for name in [f"{CLAIM} {claim.name}"] if claim.name else claim.resources:
                row = self.row(container, name, claim.numa or self.one_node, common=max(0, common))
                if self.one_node and not claim.numa:
                    yield replace(row, aligned=True, common=self.one_node, reasons=(ONLY_NODE,))
                else:
                    yield replace(row, aligned=aligned, reasons=(CLAIM,))


def _asked(container: ContainerRequest, resource: str) -> str | None:
    amount = container.requests.get(resource) or container.limits.get(resource)
    return str(amount) if amount is not None and amount.nano else None
