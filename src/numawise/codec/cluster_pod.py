"""Pods of a cluster by the ten thousand, as far as the state of nodes depends on them.

Rules kept here:

1. ``slim_pod`` leaves of an object what decides or names: requests, constraints, owner, phase, conditions.
   Commands, environment, volumes and managed fields go; the parts that pods of one workload share are shared.
2. What pods of one workload ask for is read once: their requests are one value, so that everything that is
   known of a shape is found by it.
3. A pod is known by the uid that its kubelet uses.  One that cannot be read says why, and is never guessed.
4. Pods come to a node in the order of their binding: static ones first, then those that the kubelet had
   looked at before they were first seen here, by their times; then the others by the version of the object
   that bound them.  Versions are compared as numbers, as etcd counts them.
"""

from collections.abc import Mapping
from typing import Any

from numawise.codec.allocated import allocated_by_status
from numawise.codec.bundle.pods import HASH
from numawise.codec.bundle.pods import SOURCE as SOURCE_ANNOTATION
from numawise.codec.constraints import OS_LABEL
from numawise.codec.document import mapping
from numawise.codec.objects import MIRROR, RUNNING, kubelet_uid
from numawise.codec.pod import pod_from
from numawise.codec.pod_phase import CONTAINER_STATUSES, containers_run, has_ended
from numawise.codec.stamps import stamp_seconds
from numawise.errors import InputError
from numawise.request.defaults import RawPod
from numawise.strconv import whole_number
from numawise.values import dataclass, replace

Value = Mapping[str, Any]
Order = tuple[int, float, float, int, str]
OURS = "numawise.dev/"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Says ``false`` of pods that nobody may restart."""
METADATA = (
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "labels",
    "ownerReferences", "finalizers",
)  # fmt: skip
SPEC = (
    "nodeSelector", "affinity", "tolerations", "priority", "priorityClassName", "os", "overhead", "resources",
    "resourceClaims", "restartPolicy", "schedulerName", "hostNetwork", "hostIPC", "hostUsers",
    "preemptionPolicy", "runtimeClassName", "terminationGracePeriodSeconds",
)  # fmt: skip
CONTAINER = ("name", "resources", "restartPolicy", "resizePolicy")
STATUS = (
    "phase", "reason", "message", "startTime", "qosClass", "conditions", "nominatedNodeName",
    "resourceClaimStatuses", "extendedResourceClaimStatus", "allocatedResources", "resources",
)  # fmt: skip
CONTAINER_STATUS = ("name", "state", "resources", "allocatedResources")
SECURITY = ("supplementalGroupsPolicy", "sysctls")
MOST_TEMPLATES = 20_000
"""What pods ask for that is remembered; beyond, all is forgotten and read again."""
MOST_CONTAINERS = 256
"""Of a pod that is asked about: ten thousand would take seconds for each state that a node is in."""


@dataclass(frozen=True, slots=True)
class ClusterPod:
    """A pod as the API server shows it."""

    uid: str
    """As its kubelet knows it (rule 3)."""
    namespace: str
    name: str
    raw: RawPod | None
    """None: it cannot be read."""
    problem: str = ""
    node: str = ""
    """Where it is bound; '': nowhere yet."""
    ended: bool = False
    """It has ended, or its kubelet refused it."""
    runs: bool = False
    """Its kubelet has let it in, as its status says."""
    leaving: bool = False
    gated: bool = False
    """A scheduling gate keeps it from being bound."""
    ends: bool = False
    """It is one that ends by itself: a job."""
    created: float = 0.0
    """Seconds since 1970; 0: not known."""
    bound: float = 0.0
    """Likewise, when it was bound."""
    order: Order = (0, 0.0, 0.0, 0, "")
    """Its place among the pods of its node (rule 4)."""
    version: int = 0
    """Of the object."""

    @property
    def waits(self) -> bool:
        """It is to be bound, and nothing keeps it from that but room."""
        return not (self.node or self.ended or self.leaving or self.gated)

    @property
    def title(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def scheduling_gates(value: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a pod's scheduling gates."""
    gates = mapping(value.get("spec")).get("schedulingGates")
    return tuple(str(mapping(gate).get("name") or "") for gate in (gates if isinstance(gates, list) else ()))


class PodReading:
    """Reads pods; what those of one workload share is read once (rule 2)."""

    def __init__(self) -> None:
        self._raws: dict[str, RawPod | str] = {}
        self._specs: dict[str, Value] = {}

    def slim(self, value: Value) -> dict[str, Any]:
        """An object without what decides nothing (rule 1)."""
        metadata, spec, status = (mapping(value.get(name)) for name in ("metadata", "spec", "status"))
        small: dict[str, Any] = {"metadata": {key: metadata[key] for key in METADATA if key in metadata}}
        notes = {
            key: text
            for key, text in mapping(metadata.get("annotations")).items()
            if key in (MIRROR, HASH, SOURCE_ANNOTATION, SAFE_TO_EVICT) or str(key).startswith(OURS)
        }
        if notes:
            small["metadata"]["annotations"] = notes
        own = self._shared_spec(spec)
        small["spec"] = {**own, "nodeName": spec["nodeName"]} if spec.get("nodeName") else own
        if spec.get("schedulingGates"):
            small["spec"] = {**small["spec"], "schedulingGates": spec["schedulingGates"]}
        small["status"] = {key: status[key] for key in STATUS if key in status}
        for key in CONTAINER_STATUSES:
            rows = status.get(key)
            if isinstance(rows, list):
                small["status"][key] = [_only(row, CONTAINER_STATUS) for row in rows]
        return small

    def read(self, value: Value, before: ClusterPod | None = None) -> ClusterPod:
        """A pod; ``before``: as it was last seen."""
        metadata, spec, status = (mapping(value.get(name)) for name in ("metadata", "spec", "status"))
        namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")
        uid = kubelet_uid(value) or f"{namespace}/{name}"
        raw = self._raw(metadata, spec, status)
        problem = "" if isinstance(raw, RawPod) else raw
        node = spec.get("nodeName")
        node = node if isinstance(node, str) else ""
        owner = _owner(metadata)
        pod = ClusterPod(
            uid=uid,
            namespace=namespace,
            name=name,
            raw=allocated_by_status(
                replace(raw, uid=uid, name=name, namespace=namespace, owner=owner), spec, status
            )
            if isinstance(raw, RawPod)
            else None,
            problem=problem,
            node=node,
            ended=has_ended(value),
            runs=status.get("phase") == RUNNING or containers_run(status),
            leaving=bool(metadata.get("deletionTimestamp")),
            gated=bool(spec.get("schedulingGates")),
            ends=spec.get("restartPolicy") in ("Never", "OnFailure") or owner.startswith("Job "),
            created=stamp_seconds(metadata.get("creationTimestamp")) or 0.0,
            bound=_bound(status),
            version=_version(metadata),
        )
        if before is not None and before.node == node:
            return replace(pod, order=before.order)
        return replace(pod, order=_order(pod, status)) if node else pod

    def asked(self, value: Value) -> ClusterPod:
        """A pod about which nodes are asked; one of too many containers cannot be read."""
        spec = mapping(value.get("spec"))
        lists = (spec.get(key) for key in ("initContainers", "containers"))
        count = sum(len(rows) for rows in lists if isinstance(rows, list))
        if count <= MOST_CONTAINERS:
            return self.read(value)
        pod = self.read({**value, "spec": {**spec, "initContainers": [], "containers": []}})
        return replace(
            pod, raw=None, problem=f"has {count} containers, and at most {MOST_CONTAINERS} are looked at"
        )

    def _raw(self, metadata: Value, spec: Value, status: Value) -> RawPod | str:
        """What pods like this ask for, or why that cannot be read."""
        notes, labels = mapping(metadata.get("annotations")), mapping(metadata.get("labels"))
        marks = {key: notes[key] for key in (MIRROR, SOURCE_ANNOTATION) if key in notes}
        system = {OS_LABEL: labels[OS_LABEL]} if OS_LABEL in labels else {}
        claims = {
            key: status[key]
            for key in ("resourceClaimStatuses", "extendedResourceClaimStatus", "qosClass")
            if key in status
        }
        own = self._shared_spec(spec)
        key = f"{id(own)} {marks} {system} {claims}"
        known = self._raws.get(key)
        if known is None:
            if len(self._raws) >= MOST_TEMPLATES:
                self._raws.clear()
            plain = {
                "metadata": {"name": "pod", "annotations": marks, "labels": system},
                "spec": own,
                "status": claims,
            }
            try:
                known = pod_from(plain)
            except (InputError, RecursionError) as problem:
                known = f"cannot be read: {problem}"
            self._raws[key] = known
        return known

    def _shared_spec(self, spec: Value) -> Value:
        """What decides of a spec, where it runs apart; equal ones are one value."""
        small: dict[str, Any] = {key: spec[key] for key in SPEC if key in spec}
        affinity = mapping(small.get("affinity"))
        if affinity:
            small["affinity"] = {key: affinity[key] for key in ("nodeAffinity",) if key in affinity}
        security = _only(mapping(spec.get("securityContext")), SECURITY)
        if security:
            small["securityContext"] = security
        for key in ("initContainers", "containers"):
            rows = spec.get(key)
            if isinstance(rows, list):
                small[key] = [_container(row) for row in rows]
            elif rows is not None:
                small[key] = rows
        text = repr(small)
        known = self._specs.get(text)
        if known is None:
            if len(self._specs) >= MOST_TEMPLATES:
                self._specs.clear()
                self._raws.clear()
            known = self._specs[text] = small
        return known


def _only(row: object, keys: tuple[str, ...]) -> Any:  # noqa: ANN401 - what is no mapping stays what it is
    return {key: row[key] for key in keys if key in row} if isinstance(row, Mapping) else row


def _container(row: object) -> Any:  # noqa: ANN401
    if not isinstance(row, Mapping):
        return row
    small = _only(row, CONTAINER)
    ports = row.get("ports")
    if isinstance(ports, list):
        hosts = [one for one in ports if not isinstance(one, Mapping) or one.get("hostPort")]
        if hosts:
            small["ports"] = hosts
    elif ports is not None:
        small["ports"] = ports
    return small


def _owner(metadata: Value) -> str:
    """Who recreates a pod, as ``StatefulSet db``."""
    rows = metadata.get("ownerReferences")
    owners = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    owner = next((row for row in owners if row.get("controller")), owners[0] if owners else None)
    return f"{owner.get('kind', '')} {owner.get('name', '')}" if owner is not None else ""


def _bound(status: Value) -> float:
    rows = status.get("conditions")
    for row in rows if isinstance(rows, list) else ():
        condition = mapping(row)
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return stamp_seconds(condition.get("lastTransitionTime")) or 0.0
    return 0.0


def _version(metadata: Value) -> int:
    version = str(metadata.get("resourceVersion") or "")
    return whole_number(version) if version.isascii() and version.isdigit() else 0


def _order(pod: ClusterPod, status: Value) -> Order:
    """Rule 4."""
    number = pod.version
    if pod.raw is not None and (pod.raw.constraints.static or pod.raw.constraints.mirror):
        return 0, pod.created, 0.0, number, pod.name
    started = stamp_seconds(status.get("startTime")) or 0.0
    if started or not number:
        return 1, started or pod.bound or pod.created, pod.bound, number, pod.name
    return 2, 0.0, 0.0, number, pod.name
