"""Pods that a kubelet refused, out of what the API server shows: the evidence for everything that is done.

Rules kept here:

1. Refused is a pod that failed with a reason of the kubelet's admission, on a node, and of which no container
   ever began.  A pod that ran is never one, whatever its status says otherwise.
2. Pods belong together by the uid of their controller and the revision of its template (``OwnerRevision``).
   A pod without a controller stands alone.
3. What pods say of themselves is somebody else's text: names are checked as the API server checks them, and
   everything else is cut, without control characters.
"""

import re
from collections.abc import Mapping
from typing import Any

from numawise.codec.cluster_pod import scheduling_gates
from numawise.codec.document import mapping
from numawise.codec.kubeletlog.hints import reason_of
from numawise.codec.objects import FAILED
from numawise.errors import cut
from numawise.kube.client import NAME
from numawise.render.words import clean
from numawise.results.pending import HOLD_GATE
from numawise.values import dataclass, field

Object = Mapping[str, Any]
STEERED = "numawise.dev/steered"
JOB_TRACKING = "batch.kubernetes.io/job-tracking"
REPLICA_SET, STATEFUL_SET, REPLICATION = "ReplicaSet", "StatefulSet", "ReplicationController"
JOB, BARE = "Job", "Pod"
HELD_KINDS = (REPLICA_SET, STATEFUL_SET, REPLICATION, JOB)
"""Owners whose next pod may go anywhere.  A Job waits longer each time by itself, and gives up for good in
the end; a DaemonSet waits, too, and its pods belong to one node each."""
REVISIONS = ("controller-revision-hash", "pod-template-hash")
NO_REVISION = "none"
LONGEST_TEXT = 300
UID = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)
REVISION = re.compile(r"[0-9A-Za-z._-]{1,63}", re.ASCII)
REASON = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ./_-]{0,252}", re.ASCII)
KIND = re.compile(r"[A-Za-z]{1,63}", re.ASCII)
GROUP_VERSION = re.compile(r"[a-z0-9.-]{1,100}(/[a-z0-9]{1,30})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class OwnerRevision:
    """A controller, and the revision of its template that made a pod."""

    uid: str
    revision: str

    @property
    def key(self) -> str:
        """As the list of holds has it."""
        return f"{self.uid}.{self.revision}"


@dataclass(frozen=True, slots=True)
class Controller:
    """The owner that makes a pod anew."""

    kind: str
    name: str
    namespace: str
    of: OwnerRevision
    api_version: str = "apps/v1"

    @property
    def title(self) -> str:
        """As people name it."""
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class RefusedPod:
    """A pod that a kubelet refused."""

    uid: str
    namespace: str
    name: str
    version: str
    node: str
    reason: str
    message: str
    created: str
    owner: Controller | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    leaving: bool = False

    @property
    def title(self) -> str:
        """As people name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def owner_kind(self) -> str:
        """The kind of its controller; ``Pod``: it has none."""
        return self.owner.kind if self.owner is not None else BARE


def refused_pod(value: Object) -> RefusedPod | None:
    """A pod that was refused (rule 1); None: anything else."""
    metadata, spec, status = (mapping(value.get(part)) for part in ("metadata", "spec", "status"))
    raw_reason = status.get("reason")
    reason = reason_of(raw_reason) if isinstance(raw_reason, str) and REASON.fullmatch(raw_reason) else ""
    node, name, namespace = spec.get("nodeName"), metadata.get("name"), metadata.get("namespace")
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if status.get("phase") != FAILED or not reason or _ran(status):
        return None
    if not (_fits(UID, uid) and _fits(NAME, name) and _fits(NAME, namespace) and _fits(NAME, node)):
        return None
    if not isinstance(version, str) or not version:
        return None
    finalizers = metadata.get("finalizers")
    return RefusedPod(
        str(uid),
        str(namespace),
        str(name),
        version,
        str(node),
        reason,
        cut(clean(str(status.get("message") or "")), LONGEST_TEXT),
        str(metadata.get("creationTimestamp") or "")[:40],
        controller_of(value),
        {str(key): str(text) for key, text in mapping(metadata.get("labels")).items()},
        tuple(map(str, finalizers)) if isinstance(finalizers, list) else (),
        bool(metadata.get("deletionTimestamp")),
    )


def controller_of(value: Object) -> Controller | None:
    """The controller of a pod, with the revision (rule 2); None: it has none that can be named."""
    metadata = mapping(value.get("metadata"))
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        one = mapping(reference)
        if one.get("controller") is not True:
            continue
        kind, name, uid = one.get("kind"), one.get("name"), one.get("uid")
        version, namespace = one.get("apiVersion"), metadata.get("namespace")
        named = _fits(KIND, kind) and _fits(NAME, name) and _fits(UID, uid) and _fits(NAME, namespace)
        if named and _fits(GROUP_VERSION, version):
            of = OwnerRevision(str(uid), revision_of(metadata))
            return Controller(str(kind), str(name), str(namespace), of, str(version))
    return None


def revision_of(metadata: Object) -> str:
    """The revision that a pod's labels name."""
    labels = mapping(metadata.get("labels"))
    named = next((labels[label] for label in REVISIONS if labels.get(label)), NO_REVISION)
    return str(named) if _fits(REVISION, named) else NO_REVISION


def is_held(value: Object) -> bool:
    """Whether a pod waits behind our gate."""
    metadata, spec = mapping(value.get("metadata")), mapping(value.get("spec"))
    return (
        HOLD_GATE in scheduling_gates(value)
        and not spec.get("nodeName")
        and not metadata.get("deletionTimestamp")
    )


def _ran(status: Object) -> bool:
    """Whether any container ever began."""
    for part in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        rows = status.get(part)
        for row in rows if isinstance(rows, list) else ():
            one = mapping(row)
            states = (mapping(one.get("state")), mapping(one.get("lastState")))
            if one.get("restartCount") or one.get("started") or one.get("containerID"):
                return True
            if any("running" in state or "terminated" in state for state in states):
                return True
    return False


def _fits(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
