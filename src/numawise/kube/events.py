"""Events of the API server, sent once and counted then.

Rules kept here:

1. An Event that says the same of the same object again is one Event with a count.  At most ``MOST_EVENTS``
   of them are kept in mind, and an object gets at most ``BURST`` in a row and one in ``REFILL`` seconds then.
2. What goes wrong is one sentence with what to do (``ClusterError``).
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from numawise.codec.stamps import micro_stamp
from numawise.errors import ClusterError
from numawise.kube.calls import JSON, MERGE, send
from numawise.kube.client import Cluster
from numawise.values import dataclass, field

EVENTS_VERSION = "events.k8s.io/v1"
NORMAL, WARNING_EVENT = "Normal", "Warning"
MOST_EVENTS, BURST, REFILL = 512, 10, 60.0
LONGEST_NOTE = 1000
"""An API server takes 1,024 bytes."""


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
class EventWriter:
    """Sends Events of one program; every call blocks until the server has answered."""

    cluster: Cluster
    program: str
    """``numawise-agent``."""
    instance: str
    """Which one of that program: the name of our pod, or the host's."""
    clock: Callable[[], float] = time.time
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _told: "OrderedDict[tuple[str, ...], _Told]" = field(default_factory=OrderedDict)
    _allowances: "OrderedDict[ObjectReference, _Allowance]" = field(default_factory=OrderedDict)

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
            "eventTime": micro_stamp(now),
            "reportingController": f"numawise.dev/{self.program}",
            "reportingInstance": self.instance[:128],
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
        body = {"series": {"count": known.count, "lastObservedTime": micro_stamp(self.clock())}}
        what = f"patch events in namespace {known.namespace}"
        return send(self.cluster, "PATCH", path, what, body, MERGE) is not None


def _bytes(note: str) -> str:
    raw = note.encode()
    return note if len(raw) <= LONGEST_NOTE else raw[:LONGEST_NOTE].decode(errors="ignore") + "…"
