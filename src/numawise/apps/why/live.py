"""A pod of a cluster, and everything around it that the API server returns, as values.

Rules kept here:

1. What the API server returns is looked at with care: a member of another shape than expected counts as
   absent.
2. A pod ran at some time when it had started by then and had not ended; one that the kubelet refused never
   ran. A pod that has ended but whose containers still run, or that is being deleted, is counted by its
   kubelet.
3. Static pods come first, as at the kubelet's start; then the order is by start time, by creation where
   these are equal, and by name.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any

from numawise.codec.document import mapping
from numawise.codec.kubeletlog.hints import reason_of
from numawise.codec.objects import MIRROR, kubelet_uid
from numawise.codec.pod import pod_from
from numawise.codec.pod_phase import container_statuses, has_ended, is_refusal, refusal_of
from numawise.codec.podresources import PodResources
from numawise.errors import ClusterError, InputError
from numawise.inputs.spec import read_release
from numawise.kube.client import Object
from numawise.request.defaults import RawPod
from numawise.rules.versions import Version
from numawise.values import dataclass, replace

SECONDS = len("2026-11-15T11:04:28")
BEGINS = ("Pulling", "Pulled", "Created", "Started")
TIMES = ("lastTimestamp", "eventTime", "firstTimestamp")


@dataclass(frozen=True, slots=True)
class LiveNode:
    """What the API server returned about a node."""

    name: str = ""
    object: Object | None = None
    pods: tuple[Object, ...] | None = None
    """All of its pods; None: they may not be seen."""
    configz: Mapping[str, Any] | None = None
    topology: Object | None = None
    """Its NodeResourceTopology."""
    answers: PodResources | None = None
    """What its kubelet's PodResources socket answers; None: it cannot be reached."""
    here: bool = False
    """We are on this node."""
    remarks: tuple[str, ...] = ()

    @property
    def info(self) -> Mapping[str, Any]:
        """What the node says about itself."""
        return mapping(mapping(mapping(self.object).get("status")).get("nodeInfo"))

    @property
    def version(self) -> Version | None:
        """The release of its kubelet; None when it is not known."""
        text = str(self.info.get("kubeletVersion") or "")
        return read_release(text, field="the node's kubeletVersion").version if text else None


@dataclass(frozen=True, slots=True)
class Live:
    """What the API server returned about a pod."""

    namespace: str
    asked: str
    """The name that was asked for."""
    pod: Object | None = None
    events: tuple[Object, ...] = ()
    node: LiveNode = LiveNode()
    template: bool = False
    """The pod is the template of its owner: no such pod exists."""
    gone: tuple[str, ...] = ()
    """Pods of its namespace that ran on its node when it was refused and are gone, by their events."""
    remarks: tuple[str, ...] = ()

    @property
    def status(self) -> Mapping[str, Any]:
        """The pod's status."""
        return mapping(mapping(self.pod).get("status"))

    @property
    def sent_to(self) -> str:
        """The node that the scheduler or somebody else sent it to; '' when it has none yet."""
        spec = mapping(mapping(self.pod).get("spec"))
        return str(spec.get("nodeName") or "") or next(filter(None, map(host_of, self.refusals)), "")

    @property
    def refusals(self) -> tuple[Object, ...]:
        """Events in which the kubelet refused the pod, the newest first."""
        refusals = [one for one in self.events if is_refusal(str(one.get("reason") or ""))]
        return tuple(sorted(refusals, key=event_time, reverse=True))

    @property
    def refusal(self) -> tuple[str, str]:
        """Why the kubelet refused it, in its words: reason and message; empty when it did not."""
        if is_refused(self.pod):
            reason = str(self.status.get("reason") or "")
            return reason_of(reason) or reason, str(self.status.get("message") or "")
        if (self.pod is None or self.template) and self.refusals:
            reason = str(self.refusals[0].get("reason"))
            return reason_of(reason) or reason, str(self.refusals[0].get("message") or "")
        return "", ""

    @property
    def moment(self) -> str:
        """When the kubelet refused it, to the second; '' when it did not, or that is not known."""
        if not self.refusal[0]:
            return ""
        if self.pod is None or self.template:
            return event_time(self.refusals[0])
        return start_time(self.pod) or created(self.pod)


def host_of(event: Object) -> str:
    """The node whose kubelet made an event."""
    source = mapping(event.get("source"))
    named = source.get("host") or event.get("reportingInstance")
    return named if isinstance(named, str) else ""


def gone_since(events: Iterable[Object], node: str, moment: str, listed: Container[str]) -> tuple[str, ...]:
    """Pods that ran on a node then, by the events of its kubelet, and are listed no more."""
    first: dict[str, str] = {}
    ended: dict[str, str] = {}
    for event in events:
        name = mapping(event.get("involvedObject")).get("name")
        if not isinstance(name, str) or host_of(event) != node or name in listed:
            continue
        reason = event.get("reason")
        if reason in BEGINS:
            began = time_text(event.get("firstTimestamp")) or event_time(event)
            first[name] = min(began, first.get(name, began))
        elif reason == "Killing":
            ended[name] = max(event_time(event), ended.get(name, ""))
    return tuple(
        name for name, began in first.items() if began <= moment and ended.get(name, moment + "Z") > moment
    )


def is_refused(pod: Object | None) -> bool:
    """Whether the kubelet refused a pod."""
    return refusal_of(pod) is not None


# --- times ----------------------------------------------------------------------------------


def time_text(value: object) -> str:
    """A time to the second, without its zone, which is always UTC; '' for anything else."""
    return value[:SECONDS] if isinstance(value, str) and len(value) >= SECONDS else ""


def event_time(event: Object) -> str:
    """When an event was last seen."""
    born = mapping(event.get("metadata")).get("creationTimestamp")
    return next(filter(None, (time_text(event.get(name)) for name in TIMES)), "") or time_text(born)


def created(pod: Object) -> str:
    """When a pod was created."""
    return time_text(mapping(pod.get("metadata")).get("creationTimestamp"))


def start_time(pod: Object) -> str:
    """When its kubelet first saw a pod."""
    return time_text(mapping(pod.get("status")).get("startTime"))


def end_time(pod: Object) -> str:
    """When the last container of a pod ended; '' when one runs, or when that is not known."""
    status = mapping(pod.get("status"))
    ends: list[str] = []
    for row in container_statuses(status):
        state = mapping(row.get("state"))
        if "running" in state:
            return ""
        ends.append(time_text(mapping(state.get("terminated")).get("finishedAt")))
    return max(ends, default="")


def ran_at(pod: Object, moment: str, *, including: bool = True) -> bool:
    """Whether a pod held something then; '' means now (rule 2).

    ``including``: a pod that started within the same second counts.
    """
    if is_refused(pod) or not mapping(pod.get("spec")).get("nodeName"):
        return False
    started = start_time(pod)
    if moment and started and (started > moment or (started == moment and not including)):
        return False
    if not has_ended(pod):
        return bool(started) or not moment or created(pod) <= moment
    return bool(moment) and end_time(pod) > moment


def in_order(pods: Iterable[Object]) -> list[Object]:
    """Pods in the order in which the kubelet admitted them (rule 3)."""

    def key(pod: Object) -> tuple[bool, str, str, str]:
        metadata = mapping(pod.get("metadata"))
        static = MIRROR in mapping(metadata.get("annotations"))
        return not static, start_time(pod) or created(pod), created(pod), str(metadata.get("name"))

    return sorted(pods, key=key)


# --- for the engine -------------------------------------------------------------------------


def raw_pod(pod: Object) -> RawPod:
    """A pod of the API server as the engine takes it, under the uid that its kubelet knows."""
    try:
        raw = pod_from(pod)
    except InputError as problem:
        raise ClusterError(f"the API server's pod cannot be read: {problem}") from None
    return replace(raw, uid=kubelet_uid(pod) or raw.uid, owner=owner_of(pod))


def owner_of(pod: Object) -> str:
    """Who recreates the pod, as ``StatefulSet db``; '' when nobody does."""
    rows = mapping(pod.get("metadata")).get("ownerReferences")
    owners = [mapping(one) for one in rows] if isinstance(rows, list) else []
    owner = next((one for one in owners if one.get("controller")), owners[0] if owners else None)
    return f"{owner.get('kind', '')} {owner.get('name', '')}" if owner else ""
