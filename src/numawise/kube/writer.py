"""What the agent writes at the API server, and nothing else: its object, a condition, Events, and one taint.

Rules kept here:

1. The NodeResourceTopology is applied (server-side apply) under one field manager.  Nothing is taken from
   another owner unless that is asked for: who owns it is said instead.
2. An apply names the version that it replaces, where one is known, so that somebody else's change is seen.
3. Of the node's status one condition is written, of its taints one key is removed, and only while nobody else
   changes them at the same time.
4. An Event that says the same of the same object again is one Event with a count.  At most ``MOST_EVENTS``
   of them are kept in mind, and an object gets at most ``BURST`` in a row and one in ``REFILL`` seconds then.
5. What goes wrong is one sentence with what to do (``ClusterError``).
"""

import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from numawise.codec.document import mapping
from numawise.errors import LONGEST_MESSAGE, ClusterError, cut
from numawise.kube.calls import APPLY, JSON, MERGE, METADATA_ALONE, STRATEGIC, send
from numawise.kube.client import (
    TOPOLOGY_GROUP,
    TOPOLOGY_KIND,
    TOPOLOGY_VERSIONS,
    ApiConflict,
    Cluster,
    Object,
)
from numawise.values import dataclass, field

MANAGER = "numawise-agent"
TOPOLOGIES = f"/apis/{TOPOLOGY_GROUP}/{TOPOLOGY_VERSIONS[0]}/noderesourcetopologies"
DEFINITION = "numawise agent --definition | kubectl apply -f -"
EVENTS_VERSION = "events.k8s.io/v1"
NORMAL, WARNING_EVENT = "Normal", "Warning"
MOST_EVENTS, BURST, REFILL = 512, 10, 60.0
LONGEST_NOTE = 1000
"""An API server takes 1,024 bytes."""
OWNER = re.compile(r'conflicts? with "([^"]{1,200})"')


class NoDefinition(ClusterError):
    """The cluster does not know what a NodeResourceTopology is."""


class OtherOwner(ApiConflict):
    """Another program publishes the same object."""


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """What a condition of the node says."""

    type: str
    status: str
    """``True``, ``False`` or ``Unknown``."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """What an Event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


@dataclass(slots=True)
class _Told:
    """An Event that was sent."""

    name: str
    namespace: str
    count: int = 1


@dataclass(slots=True)
class _Allowance:
    """How many Events an object may still get."""

    left: float = float(BURST)
    at: float = 0.0


@dataclass(slots=True)
class ClusterWriter:
    """One node's writer; every call blocks until the server has answered."""

    cluster: Cluster
    node: str
    instance: str = ""
    """Who we are, where several could be: the name of our pod, or the host's."""
    clock: Callable[[], float] = time.time
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _told: "OrderedDict[tuple[str, ...], _Told]" = field(default_factory=OrderedDict)
    _allowances: "OrderedDict[ObjectReference, _Allowance]" = field(default_factory=OrderedDict)

    # --- the object (rules 1 and 2) -------------------------------------------------------------

    def apply_topology(self, value: Mapping[str, Any], version: str = "", *, force: bool = False) -> Object:
        """Publish the object; returns it as it is then.

        ``version``: the one that it replaces.  ``NoDefinition``, ``OtherOwner``, ``ApiConflict``.
        """
        metadata = {**value["metadata"], **({"resourceVersion": version} if version else {})}
        params = {"fieldManager": MANAGER, "force": "true" if force else "false"}
        try:
            answer = send(
                self.cluster,
                "PATCH",
                f"{TOPOLOGIES}/{self.node}",
                f"apply noderesourcetopology {self.node}",
                {**value, "metadata": metadata},
                APPLY,
                params=params,
            )
        except ApiConflict as problem:
            owners = tuple(dict.fromkeys(OWNER.findall(problem.message)))
            if not owners:
                raise
            raise OtherOwner(
                f"NodeResourceTopology {self.node} is published by {', '.join(owners)}",
                "let one program publish it, or give --force-ownership",
            ) from None
        if answer is None:
            raise NoDefinition(
                f"{self.cluster.access.server} has no definition of {TOPOLOGY_KIND}",
                f"install one: {DEFINITION}",
            )
        return answer

    def topology(self) -> Object | None:
        """The object as it is at the server; None: there is none."""
        return send(self.cluster, "GET", f"{TOPOLOGIES}/{self.node}", f"get noderesourcetopology {self.node}")

    def topology_version(self) -> str:
        """Its version; '' when there is none."""
        what = f"get noderesourcetopology {self.node}"
        answer = send(self.cluster, "GET", f"{TOPOLOGIES}/{self.node}", what, accept=METADATA_ALONE)
        return str(mapping((answer or {}).get("metadata")).get("resourceVersion") or "")

    # --- the node (rule 3) ------------------------------------------------------------------------

    def node_object(self) -> Object:
        """The node as it is."""
        found = send(self.cluster, "GET", f"/api/v1/nodes/{self.node}", f"get node {self.node}")
        if found is None:
            raise ClusterError(f"there is no node {self.node}", "name it with --node")
        return found

    def set_condition(self, condition: NodeCondition, *, changed: bool = True) -> None:
        """Write a condition of the node; ``changed``: its status is another one than before."""
        now = _seconds(self.clock())
        body: dict[str, str] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": cut(condition.message, LONGEST_MESSAGE),
            "lastHeartbeatTime": now,
        }
        if changed:
            body["lastTransitionTime"] = now
        self._patched_node("/status", "status", {"status": {"conditions": [body]}}, STRATEGIC)

    def remove_taint(self, key: str) -> bool:
        """Remove the taints of one key; whether there were any.  ``ApiConflict``: try again."""
        node = self.node_object()
        taints = mapping(node.get("spec")).get("taints") or ()
        kept = [one for one in taints if not (isinstance(one, Mapping) and one.get("key") == key)]
        if len(kept) == len(taints):
            return False
        version = str(mapping(node.get("metadata")).get("resourceVersion") or "")
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": kept or None}}
        self._patched_node("", "taints", body, MERGE)
        return True

    def _patched_node(self, part: str, what: str, body: Mapping[str, Any], kind: str) -> None:
        path = f"/api/v1/nodes/{self.node}{part}"
        answer = send(
            self.cluster,
            "PATCH",
            path,
            f"patch the {what} of node {self.node}",
            body,
            kind,
            params={"fieldManager": MANAGER},
        )
        if answer is None:
            raise ClusterError(f"there is no node {self.node}", "name it with --node")

    # --- Events (rule 4) --------------------------------------------------------------------------

    def tell(
        self,
        about: ObjectReference,
        reason: str,
        note: str,
        kind: str = WARNING_EVENT,
        action: str = "Observe",
    ) -> bool:
        """Send an Event, or count one that was sent; whether it was sent at all."""
        key = (about.kind, about.namespace, about.name, about.uid, reason, note, kind)
        with self._lock:
            if not self._allowed(about):
                return False
            known = self._told.get(key)
            if known is not None and self._counted(known):
                self._told.move_to_end(key)
                return True
            self._told[key] = self._sent(about, reason, note, kind, action)
            while len(self._told) > MOST_EVENTS:
                self._told.popitem(last=False)
            return True

    def _allowed(self, about: ObjectReference) -> bool:
        now = self.clock()
        own = self._allowances.setdefault(about, _Allowance(at=now))
        self._allowances.move_to_end(about)
        while len(self._allowances) > MOST_EVENTS:
            self._allowances.popitem(last=False)
        own.left = min(float(BURST), own.left + max(0.0, now - own.at) / REFILL)
        own.at = now
        if own.left < 1:
            return False
        own.left -= 1
        return True

    def _sent(self, about: ObjectReference, reason: str, note: str, kind: str, action: str) -> _Told:
        namespace = about.namespace or "default"
        now = self.clock()
        digits = hashlib.sha256(f"{now}{about}{reason}{note}".encode()).hexdigest()[:16]
        name = f"{about.name[:200]}.{digits}"
        regarding = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
        }
        body = {
            "apiVersion": EVENTS_VERSION,
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": _micro(now),
            "reportingController": f"numawise.dev/{MANAGER}",
            "reportingInstance": (self.instance or self.node)[:128],
            "action": action[:128],
            "reason": reason[:128],
            "type": kind,
            "note": _bytes(note),
            "regarding": {name: value for name, value in regarding.items() if value},
        }
        path = f"/apis/{EVENTS_VERSION}/namespaces/{namespace}/events"
        if send(self.cluster, "POST", path, f"create events in namespace {namespace}", body, JSON) is None:
            raise ClusterError(f"there is no namespace {namespace} for an Event")
        return _Told(name, namespace)

    def _counted(self, known: _Told) -> bool:
        """Count an Event that happens again; False: it is no longer there."""
        known.count += 1
        path = f"/apis/{EVENTS_VERSION}/namespaces/{known.namespace}/events/{known.name}"
        body = {"series": {"count": known.count, "lastObservedTime": _micro(self.clock())}}
        what = f"patch events in namespace {known.namespace}"
        return send(self.cluster, "PATCH", path, what, body, MERGE) is not None


def _seconds(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _bytes(note: str) -> str:
    raw = note.encode()
    return note if len(raw) <= LONGEST_NOTE else raw[:LONGEST_NOTE].decode(errors="ignore") + "…"
