"""What the healer asks of the API server: the list of holds, gates, removals, evictions, and who owns a pod.

Rules kept here:

1. Every change names what it was decided on: uid and version of a pod, the one key of the list.  Whatever
   changed meanwhile is not touched (``ApiConflict``).
2. Every change stands in the audit log before it is asked for.
3. An owner counts once the server has shown it, in the pod's own namespace and with the uid that the pod
   names: a pod can say that it is anybody's.
"""

from collections.abc import Mapping
from typing import Any

from numawise.apps.heal.audit import AuditedChange, AuditLog
from numawise.apps.heal.hold_list import LIST_VERSION, POLICY_VERSION, ListedHold, hold_list
from numawise.apps.heal.refused import (
    JOB,
    NO_REVISION,
    REPLICA_SET,
    REVISIONS,
    STATEFUL_SET,
    Controller,
    RefusedPod,
)
from numawise.apps.heal.rights import BINDINGS, HOLD_LISTS, HOLDS, POLICIES, POLICY
from numawise.codec.document import mapping
from numawise.codec.objects import object_uid
from numawise.errors import ClusterError
from numawise.kube.calls import MERGE, send
from numawise.kube.client import KINDS, ApiConflict, ApiRefused, Cluster, Object, list_path
from numawise.kube.events import ObjectReference

HAS_ENDED = "its owner has ended"
GONE, OTHER_TEMPLATE, NO_REPLICAS = (
    "its owner is gone",
    "its owner has another template",
    "no replicas are wanted",
)
DEPLOYMENT = "Deployment"
ENDED_JOB = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


class HealWriter:
    """One cluster's healer at work; every call blocks until the server has answered."""

    def __init__(self, cluster: Cluster, namespace: str, audit: AuditLog) -> None:
        self.cluster, self.namespace, self.audit = cluster, namespace, audit

    # --- owners (rule 3) ------------------------------------------------------------------------

    def owner(self, owner: Controller) -> Object | None:
        """The owner as the server has it; None: there is none of that name and uid."""
        if owner.kind not in KINDS:
            return None
        path, what = f"{list_path(owner.kind, owner.namespace)}/{owner.name}", KINDS[owner.kind][2]
        found = send(self.cluster, "GET", path, f"get {what} in namespace {owner.namespace}")
        same = found is not None and object_uid(found) == owner.of.uid
        return found if same else None

    # --- the list of holds ----------------------------------------------------------------------

    def listed(self) -> Mapping[str, Any]:
        """The list, as it is; made where it is not there."""
        found = send(self.cluster, "GET", self._list, f"get holdlist {HOLDS}")
        if found is None:
            body = hold_list(self.namespace)
            path, what = self._list.rpartition("/")[0], f"create holdlists in namespace {self.namespace}"
            found = send(self.cluster, "POST", path, what, body)
        if found is None:
            raise ClusterError(
                f"there is no namespace {self.namespace}, or the cluster knows no {HOLD_LISTS}",
                "name another with --namespace, or do: numawise heal --policy | kubectl apply -f -",
            )
        return mapping(found.get("data"))

    def policy_problem(self) -> str:
        """Why holds do nothing; '': the policy and its binding are there."""
        for plural in (POLICIES, BINDINGS):
            path = f"/apis/{POLICY_VERSION}/{plural}/{POLICY}"
            try:
                found = send(self.cluster, "GET", path, f"get {plural} {POLICY}")
            except ApiRefused as problem:
                return str(problem)
            if found is None:
                return (
                    f"{self.cluster.access.server} has no {plural} {POLICY}: pods are explained and removed, "
                    "but loops go on (numawise heal --policy | kubectl apply -f -; Kubernetes 1.36 or newer)"
                )
        return ""

    def put_hold(self, hold: ListedHold, action: str, why: str, evidence: Mapping[str, Any]) -> None:
        """Put an owner on the list, or keep it there."""
        with self.audit.change(_about(hold.owner, action, why, evidence)):
            self._patch_list({hold.owner.of.key: hold.text})

    def end_hold(self, owner: Controller, why: str) -> None:
        """Take an owner off the list."""
        with self.audit.change(_about(owner, "end-hold", why, {"key": owner.of.key})):
            self._patch_list({owner.of.key: None})

    def _patch_list(self, data: Mapping[str, str | None]) -> None:
        what = f"patch holdlist {HOLDS}"
        if send(self.cluster, "PATCH", self._list, what, {"data": dict(data)}, MERGE) is not None:
            return
        if all(text is None for text in data.values()):
            return  # nobody is on a list that is gone
        self.listed()
        if send(self.cluster, "PATCH", self._list, what, {"data": dict(data)}, MERGE) is None:
            raise ApiConflict(f"the list {HOLDS} is gone")

    @property
    def _list(self) -> str:
        return f"/apis/{LIST_VERSION}/namespaces/{self.namespace}/{HOLD_LISTS}/{HOLDS}"

    # --- pods (rule 1) --------------------------------------------------------------------------

    def release(self, pod: Object, patch: Mapping[str, Any], why: str, evidence: Mapping[str, Any]) -> None:
        """Take our gate off a pod."""
        metadata = mapping(pod.get("metadata"))
        change = AuditedChange(
            "release",
            "Pod",
            str(metadata.get("namespace")),
            str(metadata.get("name")),
            str(metadata.get("uid")),
            why,
            {"version": metadata.get("resourceVersion"), **evidence},
        )
        path = f"{list_path('Pod', change.namespace)}/{change.name}"
        with self.audit.change(change):
            if send(self.cluster, "PATCH", path, "patch pods", patch, MERGE) is None:
                raise ApiConflict("the pod is gone")

    def remove(self, pod: RefusedPod, why: str) -> None:
        """Delete a refused pod, if it is still what was looked at."""
        evidence = {
            "version": pod.version,
            "phase": "Failed",
            "reason": pod.reason,
            "message": pod.message,
            "node": pod.node,
            "owner": pod.owner.title if pod.owner is not None else "",
        }
        change = AuditedChange("delete", "Pod", pod.namespace, pod.name, pod.uid, why, evidence)
        path = f"{list_path('Pod', pod.namespace)}/{pod.name}"
        named = {"uid": pod.uid, "resourceVersion": pod.version}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": named}
        with self.audit.change(change):
            if send(self.cluster, "DELETE", path, "delete pods", body) is None:
                raise ApiConflict("the pod is gone")

    def evict(self, namespace: str, name: str, uid: str, why: str, evidence: Mapping[str, Any]) -> None:
        """Ask for an eviction, which disruption budgets may refuse."""
        path = f"{list_path('Pod', namespace)}/{name}/eviction"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        with self.audit.change(AuditedChange("evict", "Pod", namespace, name, uid, why, evidence)):
            if send(self.cluster, "POST", path, "create pods/eviction", body) is None:
                raise ApiConflict("the pod is gone")


def _about(owner: Controller, action: str, why: str, evidence: Mapping[str, Any]) -> AuditedChange:
    return AuditedChange(action, owner.kind, owner.namespace, owner.name, owner.of.uid, why, evidence)


def unfit(owner: Controller, found: Object | None) -> str:
    """Why an owner is not held, or no longer; '': it makes pods of this revision."""
    if found is None:
        return GONE
    metadata, spec, status = (mapping(found.get(part)) for part in ("metadata", "spec", "status"))
    if metadata.get("deletionTimestamp"):
        return GONE
    if spec.get("replicas") == 0 or spec.get("suspend") is True:
        return NO_REPLICAS
    if owner.kind == JOB:
        conditions = status.get("conditions")
        rows = map(mapping, conditions if isinstance(conditions, list) else ())
        ended = any(row.get("type") in ENDED_JOB and row.get("status") == "True" for row in rows)
        return HAS_ENDED if ended else ""
    revision = owner.of.revision
    if owner.kind == STATEFUL_SET:
        newest = status.get("updateRevision")
        return OTHER_TEMPLATE if newest and revision not in (newest, NO_REVISION) else ""
    if owner.kind == REPLICA_SET:
        own = mapping(metadata.get("labels")).get(REVISIONS[1])
        return OTHER_TEMPLATE if own and revision not in (own, NO_REVISION) else ""
    return ""


def people_look_at(owner: Controller, found: Object | None) -> ObjectReference:
    """The object that people look at: the Deployment of a ReplicaSet, the owner itself otherwise."""
    references = mapping((found or {}).get("metadata")).get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        above = mapping(reference)
        if above.get("controller") is True and above.get("kind") == DEPLOYMENT:
            return ObjectReference(
                DEPLOYMENT, str(above.get("name")), owner.namespace, str(above.get("uid")), "apps/v1"
            )
    return ObjectReference(owner.kind, owner.name, owner.namespace, owner.of.uid, owner.api_version)
