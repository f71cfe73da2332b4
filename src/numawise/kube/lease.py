"""Who of several programs leads: one of them holds a Lease, and the others wait for it to grow old.

Rules kept here:

1. A Lease is taken or kept by a compare-and-swap: the request names the version that it replaces, so that of
   two who take it at the same time one is refused.
2. No clock of another machine counts.  A Lease is old when it did not change for its whole length on our own
   monotonic clock, whatever times stand in it.
3. Whoever leads stops before anybody else may begin: after ``USABLE`` of the length since the moment *before*
   the last request that kept the Lease was sent.  A server that does not answer ends a leadership, too.
4. Whoever stops gives the Lease back, so that the next one does not wait.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from numawise.codec.document import mapping
from numawise.codec.stamps import micro_stamp
from numawise.errors import ClusterError, NumawiseError
from numawise.kube.calls import send
from numawise.kube.client import ABSENT, ApiConflict, Cluster, Object
from numawise.values import dataclass

LENGTH, RENEWED = 15.0, 3.0
"""Seconds that a Lease counts, and after which its holder renews it."""
USABLE = 2 / 3
"""The part of its length during which its holder acts."""
LONGEST_LENGTH = 3600
LEASE_VERSION = "coordination.k8s.io/v1"


def leases_path(namespace: str) -> str:
    """Where the Leases of a namespace are."""
    return f"/apis/{LEASE_VERSION}/namespaces/{namespace}/leases"


@dataclass(slots=True)
class Election:
    """What one candidate knows of a Lease; times are of its own monotonic clock."""

    identity: str
    length: float = LENGTH
    holder: str = ""
    version: str = ""
    """The version that was last seen."""
    transitions: int = 0
    seen: float = 0.0
    """When that version was first seen."""
    theirs: float = LENGTH
    """How long its holder says that it counts."""
    acted: float | None = None
    """Just before the request was sent that took or kept the Lease; None: it is not ours."""

    def observe(self, lease: Object | None, now: float) -> None:
        """The Lease as the server has it; None: there is none."""
        spec = mapping((lease or {}).get("spec"))
        version = str(mapping((lease or {}).get("metadata")).get("resourceVersion") or "")
        if version != self.version or not self.seen:
            self.version, self.seen = version, now
        self.holder = str(spec.get("holderIdentity") or "")
        length, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        known = isinstance(length, int) and 0 < length <= LONGEST_LENGTH
        self.theirs = float(length) if known and isinstance(length, int) else self.length
        self.transitions = transitions if isinstance(transitions, int) else 0
        if self.holder != self.identity:
            self.acted = None

    def may_take(self, now: float) -> bool:
        """Whether the Lease is ours, nobody's, or old (rule 2)."""
        return self.holder in ("", self.identity) or now - self.seen >= self.theirs

    def took(self, lease: Object, sent: float) -> None:
        """The server has accepted what we wrote, in a request sent then."""
        self.acted = None
        self.observe(lease, sent)
        if self.holder == self.identity:
            self.acted = sent

    def lost(self) -> None:
        """Somebody else was quicker."""
        self.acted = None

    def leads(self, now: float) -> bool:
        """Whether we may act (rule 3)."""
        return self.acted is not None and now - self.acted < self.length * USABLE

    def spec(self, wall: float) -> dict[str, Any]:
        """What to write so that the Lease is ours."""
        stamp = micro_stamp(wall)
        anew = self.holder != self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self.length),
            "renewTime": stamp,
            "leaseTransitions": self.transitions + (1 if anew and self.version else 0),
            **({"acquireTime": stamp} if anew else {}),
        }


class LeaseKeeper:
    """Takes and keeps a Lease at a server; every call blocks until the server has answered."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.cluster, self.namespace, self.name = cluster, namespace, name
        self.clock, self.wall = clock, wall
        self.election = Election(identity)
        self.problem = ""
        self._known: Object | None = None

    @property
    def path(self) -> str:
        """Where the Lease is."""
        return f"{leases_path(self.namespace)}/{self.name}"

    def leads(self) -> bool:
        """Whether we may act now."""
        return self.election.leads(self.clock())

    def turn(self) -> bool:
        """Look at the Lease, and take or keep it where that may be; whether we lead then."""
        try:
            self._turn()
            self.problem = ""
        except ApiConflict:
            self.election.lost()
        except NumawiseError as problem:
            self.problem = str(problem)
        return self.leads()

    def release(self) -> None:
        """Give the Lease back, if it is ours (rule 4)."""
        election, known = self.election, self._known
        if election.acted is None or known is None:
            return
        election.lost()
        spec = {**mapping(known.get("spec")), "holderIdentity": "", "leaseDurationSeconds": 1}
        self._put(spec)

    def _turn(self) -> None:
        election = self.election
        found = send(self.cluster, "GET", self.path, f"get lease {self.name}")
        self._known = found
        election.observe(found, self.clock())
        if not election.may_take(self.clock()):
            return
        sent = self.clock()
        spec = {**mapping((found or {}).get("spec")), **election.spec(self.wall())}
        written = self._put(spec) if found is not None else self._create(spec)
        self._known = written
        election.took(written, sent)

    def _create(self, spec: Mapping[str, Any]) -> Object:
        path, what = leases_path(self.namespace), f"create leases in namespace {self.namespace}"
        answer = send(self.cluster, "POST", path, what, self._object(spec))
        if answer is None:
            raise ClusterError(f"there is no namespace {self.namespace} for the Lease ({ABSENT})")
        return answer

    def _put(self, spec: Mapping[str, Any]) -> Object:
        answer = send(self.cluster, "PUT", self.path, f"update lease {self.name}", self._object(spec))
        if answer is None:
            raise ApiConflict(f"the Lease {self.name} is gone")
        return answer

    def _object(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {"name": self.name, "namespace": self.namespace}
        version = self.election.version
        return {
            "apiVersion": LEASE_VERSION,
            "kind": "Lease",
            "metadata": metadata | ({"resourceVersion": version} if version else {}),
            "spec": dict(spec),
        }
