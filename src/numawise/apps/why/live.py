"""A pod of a cluster, and everything around it that the API server returns.

Rules kept here:

1. A pod that is gone is looked for by its owner: the newest pod of the same owner stands for it, one that
   was refused before any other.  Where there is none, the events about the pod say what happened.
2. What we may not see is left out, and a remark says so; without the pod itself there is nothing to explain.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from numawise.codec.bundle.pods import is_refusal, kubelet_uid
from numawise.codec.pod import pod_from
from numawise.errors import ClusterError, InputError, quoted
from numawise.inputs.spec import read_release
from numawise.kube.client import Cluster, Object
from numawise.request.defaults import RawPod
from numawise.rules.versions import Version
from numawise.values import dataclass, replace

POD = re.compile(r"(?:po|pod|pods)/([a-z0-9][a-z0-9.-]*)")
LAST_PART = re.compile(r"-[a-z0-9]+$")
FAILED = "Failed"
NOBODY: tuple[Object, ...] = ()

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Live:
    """What the API server returned about a pod."""

    namespace: str
    asked: str
    """The name that was asked for."""
    pod: Object | None = None
    node: Object | None = None
    neighbours: tuple[Object, ...] = ()
    """All pods of its node."""
    events: tuple[Object, ...] = ()
    configz: Mapping[str, Any] | None = None
    remarks: tuple[str, ...] = ()

    @property
    def node_name(self) -> str:
        """The node that it was sent to; '' when it has none yet."""
        spec = (self.pod or {}).get("spec") or {}
        hosts = [str((one.get("source") or {}).get("host") or "") for one in self.refusals]
        return str(spec.get("nodeName") or "") or next(filter(None, hosts), "")

    @property
    def status(self) -> Mapping[str, Any]:
        """The pod's status."""
        return (self.pod or {}).get("status") or {}

    @property
    def refusals(self) -> tuple[Object, ...]:
        """Events in which the kubelet refused the pod, the newest first."""
        found = [one for one in self.events if is_refusal(str(one.get("reason") or ""))]
        return tuple(sorted(found, key=_when, reverse=True))

    @property
    def refusal(self) -> tuple[str, str]:
        """Why the kubelet refused it, in its words: reason and message; empty when it did not."""
        reason = str(self.status.get("reason") or "")
        if self.status.get("phase") == FAILED and is_refusal(reason):
            return reason, str(self.status.get("message") or "")
        if self.pod is None and self.refusals:
            return str(self.refusals[0].get("reason")), str(self.refusals[0].get("message") or "")
        return "", ""

    @property
    def info(self) -> Mapping[str, Any]:
        """What the node says about itself."""
        found: Mapping[str, Any] = ((self.node or {}).get("status") or {}).get("nodeInfo") or {}
        return found

    @property
    def version(self) -> Version | None:
        """The release of the node's kubelet; None when it is not known."""
        text = str(self.info.get("kubeletVersion") or "")
        return read_release(text, field="the node's kubeletVersion").version if text else None


def live_name(word: str) -> str:
    """The pod that ``pod/NAME`` means; '' for any other word."""
    found = POD.fullmatch(word)
    return found[1] if found else ""


def look_up(cluster: Cluster, namespace: str, name: str) -> Live:
    """Ask for a pod and everything around it."""
    remarks: list[str] = []
    pod = cluster.pod(namespace, name)
    events = _allowed(lambda: cluster.events(namespace, name), remarks, NOBODY)
    if pod is None:
        pod = _successor(cluster.pods(namespace), name)
        if pod is not None:
            found = str(pod["metadata"]["name"])
            remarks.append(f"Pod {name} is gone; this is {found}, which {owner_of(pod)} created in its place")
            events = (*events, *_allowed(lambda: cluster.events(namespace, found), remarks, NOBODY))
    live = Live(namespace, name, pod, events=events)
    if pod is None and not live.refusals:
        raise ClusterError(
            f"there is no pod {quoted(name)} in namespace {quoted(namespace)}, and no event about it"
        )
    if pod is None:
        remarks.append(f"Pod {name} is gone and was not replaced; this is what its events say")
    node = live.node_name
    if node:
        live = replace(
            live,
            node=_allowed(lambda: cluster.node(node), remarks, None),
            neighbours=_allowed(lambda: cluster.pods_on(node), remarks, NOBODY),
            configz=_configz(cluster, node, remarks),
        )
    return replace(live, remarks=tuple(dict.fromkeys(remarks)))


def raw_pod(pod: Object) -> RawPod:
    """A pod of the API server as the engine takes it, under the uid that its kubelet knows."""
    try:
        raw = pod_from(pod)
    except InputError as problem:
        raise ClusterError(f"the API server's pod cannot be read: {problem}") from None
    return replace(raw, uid=kubelet_uid(pod) or raw.uid, owner=owner_of(pod))


def raw_pods(pods: Iterable[Object]) -> tuple[RawPod, ...]:
    """Likewise several, without those that have ended."""
    return tuple(
        raw_pod(pod) for pod in pods if (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")
    )


def owner_of(pod: Object) -> str:
    """Who recreates the pod, as ``StatefulSet db``; '' when nobody does."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    found = next((one for one in owners if one.get("controller")), owners[0] if owners else None)
    return f"{found.get('kind', '')} {found.get('name', '')}" if found else ""


def _successor(pods: Iterable[Object], name: str) -> Object | None:
    """The pod that stands for one that is gone (rule 1)."""
    stem = LAST_PART.sub("", name)
    family = LAST_PART.sub("", stem)
    owned = [pod for pod in pods if owner_of(pod)]
    found = [pod for pod in owned if owner_of(pod).partition(" ")[2] == stem]
    if not found and family != stem:
        found = [pod for pod in owned if owner_of(pod).startswith(f"ReplicaSet {family}-")]
    return max(found, key=lambda pod: (_is_refused(pod), _born(pod)), default=None)


def _is_refused(pod: Object) -> bool:
    status = pod.get("status") or {}
    return status.get("phase") == FAILED and is_refusal(str(status.get("reason") or ""))


def _born(pod: Object) -> str:
    return str((pod.get("metadata") or {}).get("creationTimestamp") or "")


def _when(event: Object) -> str:
    metadata = event.get("metadata") or {}
    times = (event.get("lastTimestamp"), event.get("eventTime"), metadata.get("creationTimestamp"))
    return str(next(filter(None, times), ""))


def _configz(cluster: Cluster, node: str, remarks: list[str]) -> Mapping[str, Any] | None:
    answer = _allowed(lambda: cluster.configz(node), remarks, None)
    found = (answer or {}).get("kubeletconfig")
    return found if isinstance(found, Mapping) else None


def _allowed(ask: Callable[[], Answer], remarks: list[str], otherwise: Answer) -> Answer:
    """An answer, or a remark why there is none (rule 2)."""
    try:
        return ask()
    except ClusterError as problem:
        remarks.append(f"Not known: {problem.message}")
        return otherwise
