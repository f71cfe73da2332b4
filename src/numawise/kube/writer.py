"""What is written of a node at the API server: its NodeResourceTopology, a condition, and one taint.

Rules kept here:

1. The NodeResourceTopology is applied (server-side apply) under one field manager.  Nothing is taken from
   another owner unless that is asked for: who owns it is said instead.
2. An apply names the version that it replaces, where one is known, so that somebody else's change is seen.
3. Of the node's status one condition is written, of its taints one key is removed, and only while nobody else
   changes them at the same time.
4. What goes wrong is one sentence with what to do (``ClusterError``).
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from numawise.codec.document import mapping
from numawise.codec.stamps import second_stamp
from numawise.errors import LONGEST_MESSAGE, ClusterError, cut
from numawise.kube.calls import APPLY, MERGE, METADATA_ALONE, STRATEGIC, send
from numawise.kube.client import (
    NODES,
    TOPOLOGIES,
    TOPOLOGY_KIND,
    ApiConflict,
    Cluster,
    Object,
)
from numawise.kube.events import EventWriter
from numawise.values import dataclass, field

MANAGER = "numawise-agent"
WRITTEN_TOPOLOGIES = TOPOLOGIES[0]
DEFINITION = "numawise agent --definition | kubectl apply -f -"
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


@dataclass(slots=True)
class ClusterWriter:
    """One node's writer; every call blocks until the server has answered."""

    cluster: Cluster
    node: str
    instance: str = ""
    """Who we are, where several could be: the name of our pod, or the host's."""
    clock: Callable[[], float] = time.time
    manager: str = MANAGER
    """Under which name it owns what it writes."""
    events: EventWriter = field(init=False)

    def __post_init__(self) -> None:
        self.events = EventWriter(self.cluster, self.manager, self.instance or self.node, self.clock)

    # --- the object (rules 1 and 2) -------------------------------------------------------------

    def apply_topology(self, value: Mapping[str, Any], version: str = "", *, force: bool = False) -> Object:
        """Publish the object; returns it as it is then.

        ``version``: the one that it replaces.  ``NoDefinition``, ``OtherOwner``, ``ApiConflict``.
        """
        metadata = {**value["metadata"], **({"resourceVersion": version} if version else {})}
        params = {"fieldManager": self.manager, "force": "true" if force else "false"}
        try:
            answer = send(
                self.cluster,
                "PATCH",
                f"{WRITTEN_TOPOLOGIES}/{self.node}",
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
        return send(
            self.cluster, "GET", f"{WRITTEN_TOPOLOGIES}/{self.node}", f"get noderesourcetopology {self.node}"
        )

    def topology_version(self) -> str:
        """Its version; '' when there is none."""
        what = f"get noderesourcetopology {self.node}"
        answer = send(self.cluster, "GET", f"{WRITTEN_TOPOLOGIES}/{self.node}", what, accept=METADATA_ALONE)
        return str(mapping((answer or {}).get("metadata")).get("resourceVersion") or "")

    # --- the node (rule 3) ------------------------------------------------------------------------

    def node_object(self) -> Object:
        """The node as it is."""
        found = send(self.cluster, "GET", f"{NODES}/{self.node}", f"get node {self.node}")
        if found is None:
            raise ClusterError(f"there is no node {self.node}", "name it with --node")
        return found

    def set_condition(self, condition: NodeCondition, *, changed: bool = True) -> None:
        """Write a condition of the node; ``changed``: its status is another one than before."""
        now = second_stamp(self.clock())
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
        path = f"{NODES}/{self.node}{part}"
        answer = send(
            self.cluster,
            "PATCH",
            path,
            f"patch the {what} of node {self.node}",
            body,
            kind,
            params={"fieldManager": self.manager},
        )
        if answer is None:
            raise ClusterError(f"there is no node {self.node}", "name it with --node")
