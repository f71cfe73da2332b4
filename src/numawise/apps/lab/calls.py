"""What a lab asks of the API server; every call blocks until it has answered.

Rules kept here:

1. A pod is written to by its uid: one that was made anew under the same name is left alone.
2. A node, and what belongs to it, is changed only when it is ours (``node_object.is_ours``).
"""

from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from typing import Any

from numawise.apps.lab.node_object import LABEL, LEASES, MADE_BY, TRUE, is_ours, lease_object
from numawise.codec.document import mapping
from numawise.codec.objects import object_name, object_uid
from numawise.codec.stamps import micro_stamp
from numawise.errors import ClusterError, quoted
from numawise.kube.calls import MERGE, STRATEGIC, listed, send
from numawise.kube.client import NODES, ApiConflict, Cluster, Object, list_path
from numawise.kube.events import ObjectReference
from numawise.kube.lease import leases_path
from numawise.kube.writer import DEFINITION, WRITTEN_TOPOLOGIES, ClusterWriter
from numawise.values import dataclass

MANAGER = "numawise-lab"
LEASE_PATH = leases_path(LEASES)
OWN_NODES = {"labelSelector": f"{LABEL}={TRUE}"}
BOUND_PODS = {"fieldSelector": "spec.nodeName!="}
WRITTEN = {"fieldManager": MANAGER}


@dataclass(frozen=True, slots=True)
class LabCalls:
    """The API server, as a lab uses it."""

    cluster: Cluster
    lab: str
    clock: Callable[[], float]

    # --- nodes --------------------------------------------------------------------------------

    def own_nodes(self) -> dict[str, Object]:
        """The nodes that this lab made, by name."""
        values, _ = listed(self.cluster, NODES, "list nodes", OWN_NODES)
        return {object_name(value): value for value in values if is_ours(value, self.lab)}

    def nodes_named(self, names: Container[str]) -> dict[str, Object]:
        """The nodes of these names, whoever made them."""
        values, _ = listed(self.cluster, NODES, "list nodes", {})
        return {object_name(value): value for value in values if object_name(value) in names}

    def register(self, value: Mapping[str, Any]) -> Object:
        """Make a node, or bring one that is ours up to date (rule 2)."""
        name = object_name(value)
        try:
            made = send(self.cluster, "POST", NODES, "create nodes", value, params=WRITTEN)
        except ApiConflict:
            made = None
        if made is not None:
            return made
        self.check(name)
        metadata = {"labels": value["metadata"]["labels"]}
        send(self.cluster, "PATCH", f"{NODES}/{name}", f"patch node {name}", {"metadata": metadata}, MERGE)
        return self.report(name, value["status"])

    def check(self, name: str) -> Object:
        """A node that must be ours."""
        value = send(self.cluster, "GET", f"{NODES}/{name}", f"get node {name}")
        if value is None:
            raise ClusterError(f"there is no node {name}", "it was deleted meanwhile; start the lab again")
        if not is_ours(value, self.lab):
            raise stranger(value, self.lab)
        return value

    def report(self, name: str, status: Mapping[str, Any]) -> Object:
        """Write the status of a node of ours."""
        what = f"patch the status of node {name}"
        path = f"{NODES}/{name}/status"
        answer = send(self.cluster, "PATCH", path, what, {"status": status}, STRATEGIC, params=WRITTEN)
        if answer is None:
            raise ClusterError(f"there is no node {name}", "it was deleted meanwhile; start the lab again")
        return answer

    def renew(self, name: str, uid: str) -> None:
        """Say that a node lives."""
        body = {"spec": {"renewTime": micro_stamp(self.clock()), "holderIdentity": name}}
        what = f"patch lease {name} in namespace {LEASES}"
        if send(self.cluster, "PATCH", f"{LEASE_PATH}/{name}", what, body, MERGE) is None:
            self.first_lease(name, uid)

    def first_lease(self, name: str, uid: str) -> None:
        """Make the Lease of a node; one that is there stays."""
        what = f"create leases in namespace {LEASES}"
        with suppress(ApiConflict):
            send(self.cluster, "POST", LEASE_PATH, what, lease_object(name, uid, self.clock()))

    def remove_node(self, value: Object) -> None:
        """Delete a node that is ours, as it was seen; its Lease and what is published of it go with it."""
        name, uid = object_name(value), object_uid(value)
        if not is_ours(value, self.lab):
            raise stranger(value, self.lab)
        body = {"preconditions": {"uid": uid}}
        send(self.cluster, "DELETE", f"{NODES}/{name}", f"delete node {name}", body)
        send(self.cluster, "DELETE", f"{LEASE_PATH}/{name}", f"delete lease {name} in namespace {LEASES}")
        self.unpublish(name)

    # --- pods (rule 1) ------------------------------------------------------------------------

    def write_status(self, pod: ObjectReference, status: Mapping[str, Any]) -> bool:
        """Write the status of a pod; False: it is gone."""
        path = f"{list_path('Pod', pod.namespace)}/{pod.name}/status"
        what = f"patch the status of pods in namespace {pod.namespace}"
        body = {"metadata": {"uid": pod.uid}, "status": status}
        return send(self.cluster, "PATCH", path, what, body, STRATEGIC, params=WRITTEN) is not None

    def remove_pod(self, pod: ObjectReference) -> None:
        """Remove a pod that was asked to go, now that nothing of it runs."""
        path = f"{list_path('Pod', pod.namespace)}/{pod.name}"
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
        send(self.cluster, "DELETE", path, f"delete pods in namespace {pod.namespace}", body)

    # --- what is published --------------------------------------------------------------------

    def check_definition(self) -> None:
        """The cluster must know what is published."""
        what = "list noderesourcetopologies"
        if send(self.cluster, "GET", WRITTEN_TOPOLOGIES, what, params={"limit": "1"}) is None:
            raise ClusterError(
                f"{self.cluster.access.server} has no definition of NodeResourceTopology",
                f"install one ({DEFINITION}), or give --publish none",
            )

    def published(self) -> dict[str, Object]:
        """What is published now, by node."""
        values, _ = listed(self.cluster, WRITTEN_TOPOLOGIES, "list noderesourcetopologies", {})
        return {object_name(value): value for value in values}

    def publish(self, name: str, value: Mapping[str, Any]) -> None:
        """Publish the state of a node of ours."""
        ClusterWriter(self.cluster, name, self.lab, self.clock, MANAGER).apply_topology(value)

    def unpublish(self, name: str) -> None:
        """Take back what is published of a node of ours."""
        send(self.cluster, "DELETE", f"{WRITTEN_TOPOLOGIES}/{name}", f"delete noderesourcetopology {name}")


def stranger(value: Mapping[str, Any], lab: str) -> ClusterError:
    """Why a node is not touched."""
    notes = mapping(mapping(value.get("metadata")).get("annotations"))
    other = notes.get(MADE_BY)
    if other:
        return ClusterError(
            f"node {object_name(value)} was made by lab {quoted(str(other))}, and this one is {quoted(lab)}",
            f"give --lab {other}, or other names to the nodes",
        )
    return ClusterError(
        f"node {object_name(value)} was not made by a lab, and is not touched",
        "give other names to the nodes",
    )
