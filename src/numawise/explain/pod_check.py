"""The containers of a node, each beside what it was granted: read, judged, and as one verdict a container.

``numawise verify --pods`` asks for everything once; the agent's watcher asks again and again, for as little
as will do.

Rules kept here:

1. A container counts while its control group is there and its pod is not being deleted.
2. Ids of containers are known by the API server's list of pods and by the kubelet's links; either will do.
3. What cannot change without a new record (devices, claims, what the records say) is judged once a record.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from numawise.codec.claims import DeviceKey, SliceDevice
from numawise.codec.document import mapping
from numawise.codec.objects import kubelet_uid
from numawise.codec.podresources import ListedContainer, PodResources
from numawise.explain.drift import judge_claims, judge_cpuset, judge_devices, judge_pages, judge_records
from numawise.explain.grants import KubeletRecords, RecordedGrant, granted
from numawise.explain.placement import grade_of
from numawise.host.pod_groups import (
    ROOT,
    ContainerGroup,
    ContainerName,
    GroupCpuset,
    GroupPages,
    PodGroups,
    container_names,
    group_trees,
)
from numawise.machine.hardware import Hardware
from numawise.machine.locality import numa_of
from numawise.request.claims import ClaimedDevice, PodClaim
from numawise.results.finding import Finding
from numawise.results.verification import JobGrade
from numawise.values import dataclass, field

STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """All that is known of what a node's kubelet granted, at one moment."""

    hardware: Hardware
    records: KubeletRecords = field(default_factory=KubeletRecords)
    answers: PodResources | None = None
    pods: Iterable[Mapping[str, Any]] | None = None
    """As the API server lists them."""
    devices: Mapping[DeviceKey, SliceDevice] = field(default_factory=dict)
    """What ResourceSlices say of devices."""


@dataclass(frozen=True, slots=True)
class ContainerCheck:
    """A container, what it was granted, and what was found."""

    id: str
    group: ContainerGroup
    grant: RecordedGrant
    cpuset: GroupCpuset
    pages: GroupPages | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def grade(self) -> JobGrade:
        """Whether it has what it was granted."""
        return grade_of(self.findings)


class PodChecker:
    """Checks the containers of a host, and remembers where they are."""

    def __init__(self, groups: PodGroups, root: Path = ROOT) -> None:
        self.groups, self.root = groups, root
        self._links: dict[str, ContainerName] = {}
        self._grants: tuple[tuple[object, ...], dict[str, RecordedGrant]] = ((), {})
        self._listed: dict[tuple[str, str, str], ListedContainer] = {}
        self._fixed: dict[str, tuple[object, tuple[Finding, ...]]] = {}

    @classmethod
    def of(cls, root: Path = ROOT) -> "PodChecker | None":
        """A checker for a host; None where no cpuset controller is mounted."""
        trees = group_trees(root)
        return None if trees is None else cls(PodGroups(trees, root), root)

    def check(self, node: NodeRecord, *, pages: bool = True) -> tuple[ContainerCheck, ...]:
        """Look at every container; ``pages``: also at where its memory lies, which costs more."""
        self._links = container_names(self.root, self._links)
        names = self._links | named_containers(node.pods or ())
        leaving = leaving_uids(node.pods or ())
        grants = self._granted(node, {id_: name for id_, name in names.items() if name.uid not in leaving})
        places = self.groups.find([(grant.uid, id_) for id_, grant in grants.items()])
        alone = [grant for grant in grants.values() if grant.alone]
        checks = []
        for id_, group in places.items():
            grant = grants[id_]
            cpuset = self.groups.cpuset(group, (grant.cpus, grant.mems))
            lies = self.groups.pages(group) if pages else None
            findings = [*judge_cpuset(node.hardware, grant, cpuset, alone, by_systemd=group.by_systemd)]
            if pages:
                findings += judge_pages(node.hardware, grant, cpuset, lies)
            findings += self._judged_once(node, id_, grant)
            checks.append(ContainerCheck(id_, group, grant, cpuset, lies, tuple(findings)))
        return tuple(checks)

    def again(self, node: NodeRecord, check: ContainerCheck) -> ContainerCheck:
        """One container once more, by a record that was just read; nothing is taken from before."""
        name = check.grant.uid, check.grant.namespace, check.grant.pod, check.grant.container
        grant = granted(node.records, name, node.answers)
        cpuset = self.groups.cpuset(check.group)
        return ContainerCheck(check.id, check.group, grant, cpuset)

    def _granted(self, node: NodeRecord, names: Mapping[str, ContainerName]) -> dict[str, RecordedGrant]:
        """Id → grant; made again when the record or the containers are others (rule 3)."""
        key = (id(node.records), id(node.answers), id(node.devices), tuple(names.items()))
        if self._grants[0] != key:
            self._listed = _listed(node.answers)
            self._fixed = {id_: judged for id_, judged in self._fixed.items() if id_ in names}
            grants = {}
            for id_, name in names.items():
                who = name.uid, name.namespace, name.pod, name.container
                claims = _claims(self._listed.get(who[1:]), node.devices)
                grants[id_] = granted(node.records, who, node.answers, claims)
            self._grants = (key, grants)
            # what the ids above belong to must live as long as they are compared
            self._alive = (node.records, node.answers, node.devices)
        return self._grants[1]

    def _judged_once(self, node: NodeRecord, id_: str, grant: RecordedGrant) -> tuple[Finding, ...]:
        listed = self._listed.get((grant.namespace, grant.pod, grant.container))
        basis = grant, listed, node.records.blocks(grant.uid, grant.container), node.hardware
        before = self._fixed.get(id_)
        if before is None or before[0] != basis:
            findings = (
                *judge_devices(node.hardware, grant),
                *judge_claims(node.hardware, grant),
                *judge_records(grant, node.records, listed),
            )
            self._fixed[id_] = before = (basis, findings)
        return before[1]


def named_containers(pods: Iterable[Mapping[str, Any]]) -> dict[str, ContainerName]:
    """Id → whose container it is, of those that run by the API server's list (rule 2)."""
    names = {}
    for pod in pods:
        metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
        uid, namespace, name = kubelet_uid(pod), metadata.get("namespace"), metadata.get("name")
        for kind in STATUSES:
            statuses = status.get(kind)
            for one in statuses if isinstance(statuses, list | tuple) else ():
                container = mapping(one)
                id_ = str(container.get("containerID") or "").rpartition("//")[2]
                if id_ and uid and "running" in mapping(container.get("state")):
                    names[id_] = ContainerName(
                        uid, str(namespace or "default"), str(name or ""), str(container.get("name") or "")
                    )
    return names


def leaving_uids(pods: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Uids of pods that are being deleted (rule 1)."""
    return frozenset(
        kubelet_uid(pod) for pod in pods if mapping(pod.get("metadata")).get("deletionTimestamp")
    )


def on_one_numa_node(hardware: Hardware, grant: RecordedGrant) -> bool:
    """Whether the CPUs of a container's own, its memory and its devices are granted on one NUMA node."""
    numa = numa_of(hardware, grant.cpus) if grant.alone else 0
    numa |= grant.mems
    for device in grant.devices:
        numa |= device.numa if not device.numa & numa else 0
    return numa.bit_count() == 1


def _listed(answers: PodResources | None) -> dict[tuple[str, str, str], ListedContainer]:
    return {
        (pod.namespace, pod.name, name): container
        for pod in (answers.pods if answers is not None else None) or ()
        for name, container in pod.containers.items()
    }


def _claims(listed: ListedContainer | None, devices: Mapping[DeviceKey, SliceDevice]) -> tuple[PodClaim, ...]:
    """The claims of a container, by PodResources and ResourceSlices."""
    return tuple(
        PodClaim(claim.name, claim.name, known=True, devices=tuple(_claimed(claim.devices, devices)))
        for claim in (listed.claims if listed is not None else ())
    )


def _claimed(keys: Iterable[DeviceKey], devices: Mapping[DeviceKey, SliceDevice]) -> Iterator[ClaimedDevice]:
    for driver, pool, name in keys:
        known = devices.get((driver, pool, name))
        yield ClaimedDevice("", driver, pool, name, known.numa if known is not None else None)
