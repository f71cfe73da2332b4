"""What the API server says of the agent's node: the Node object and its pods, followed in threads.

Rules kept here:

1. Nothing but the start waits for the server: what was last known counts, and whether it may be old.
2. A change that decides nothing (a heartbeat, a pod's conditions) wakes nobody.
3. A server that does not answer or refuses is said once, until it does.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from numawise.apps.agent.sight_values import ApiView
from numawise.codec.allocated import allocated_words
from numawise.codec.kubeconfig import ClusterAccess
from numawise.codec.pod_phase import has_ended
from numawise.errors import NumawiseError
from numawise.kube.client import NODES, PODS, Cluster, Object
from numawise.kube.following import FollowedObjects
from numawise.service.duty import MetricFamily
from numawise.service.log import INFO, WARNING, ServiceLog

FIRST_ANSWER = 3.0
"""Seconds that the start waits for a server."""
DECIDING = (("metadata", "labels"), ("spec",), ("status", "allocatable"), ("status", "nodeInfo"))
"""Fields of a Node object that decide on something."""


class NodeCluster:
    """The API server, about one node."""

    name = "API server"

    def __init__(self, access: ClusterAccess, node: str, log: ServiceLog, *, configz: bool = False) -> None:
        """``configz``: also ask the kubelet for its configuration."""
        self.access, self.node, self.log = access, node, log
        self._wakes: list[Callable[[], None]] = []
        self.cluster = Cluster(access)
        """One connection for everybody who speaks with the server."""
        self._asks_configz = configz
        chosen = {"fieldSelector": f"spec.nodeName={node}"}
        what = f"list the pods of node {node}"
        self.pods = FollowedObjects(self.cluster, PODS, what, chosen, self._changed, pod_matters)
        chosen, what = {"fieldSelector": f"metadata.name={node}"}, f"list node {node}"
        self.nodes = FollowedObjects(self.cluster, NODES, what, chosen, self._changed, node_matters)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call this, from a thread, when something changed."""
        self._wakes.append(wake)

    def view(self) -> ApiView:
        """What is known now (rule 1)."""
        problems = tuple(dict.fromkeys(filter(None, (self.pods.problem, self.nodes.problem))))
        for number, text in enumerate(problems):
            self.log.once(f"{self.name} {number}", WARNING, text)
        for number in range(len(problems), 2):
            self.log.forget(f"{self.name} {number}")
        nodes = self.nodes.objects or ()
        return ApiView(nodes[0] if nodes else None, self.pods.objects, self.pods.synced)

    def configz(self) -> Mapping[str, Any] | None:
        """What the kubelet runs with, as it answers through the server; None: it does not."""
        if not self._asks_configz:
            return None
        try:
            answer = self.cluster.configz(self.node)
        except NumawiseError as problem:
            self.log.once("configz", INFO, f"the kubelet's files are read, because {problem}")
            return None
        found = (answer or {}).get("kubeletconfig")
        return found if isinstance(found, Mapping) else None

    async def start(self) -> None:
        """Begin to follow; what the server answers soon is known from the first reading on."""
        for followed in (self.pods, self.nodes):
            followed.start()
        for followed in (self.pods, self.nodes):
            await asyncio.to_thread(followed.wait, FIRST_ANSWER)

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """None: threads follow."""
        return ()

    async def stop(self) -> None:
        """Follow no more."""
        self.pods.stop()
        self.nodes.stop()

    def missing(self) -> Sequence[str]:
        """Nothing: who needs the server says so."""
        return ()

    def stuck(self) -> Sequence[str]:
        """Nothing: a server that is gone is no reason to restart."""
        return ()

    def families(self) -> Sequence[MetricFamily]:
        """None of its own."""
        return ()

    def _changed(self) -> None:
        for wake in self._wakes:
            wake()


def pod_matters(before: Object | None, after: Object | None) -> bool:
    """Whether a pod came, went, ended, asks for something else, or has it now (rule 2)."""
    if before is None or after is None:
        return True
    if before.get("spec") != after.get("spec") or has_ended(before) != has_ended(after):
        return True
    return allocated_words(before) != allocated_words(after)


def node_matters(before: Object | None, after: Object | None) -> bool:
    """Whether something of a Node object changed that decides (rule 2)."""
    if before is None or after is None:
        return True
    if any(_at(before, way) != _at(after, way) for way in DECIDING):
        return True
    return _conditions(before) != _conditions(after)


def _conditions(value: Object) -> list[tuple[object, object, object]]:
    found = _at(value, ("status", "conditions"))
    conditions = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    return [(one.get("type"), one.get("status"), one.get("message")) for one in conditions]


def _at(value: object, way: Sequence[str]) -> object:
    for step in way:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
