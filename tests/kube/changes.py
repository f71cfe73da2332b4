"""Changes that kubelets, controllers and healers make, as an API server takes them: nodes, pods, Leases and the like.

Objects that nothing else of the server knows (Leases, HoldLists …) are kept by their path in ``State.kept``.
"""

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.kube.server import State

KEPT_KINDS = ("leases", "holdlists")
ENDED = ("Succeeded", "Failed")
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


def merged(value: Any, patch: Any) -> Any:
    """A merge patch, applied."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(value) if isinstance(value, Mapping) else {}
    for name, part in patch.items():
        if part is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), part)
    return found


def strategic(value: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A strategic merge patch, as far as statuses need it: conditions are merged by type."""
    found: dict[str, Any] = merged(
        value, {name: part for name, part in patch.items() if name != "conditions"}
    )
    for condition in patch.get("conditions") or ():
        rows = found.setdefault("conditions", [])
        known = next((one for one in rows if one["type"] == condition["type"]), None)
        if known is None:
            rows.append(merged({}, condition))
        else:
            known.update(merged(known, condition))
    return found


class Changes(BaseHTTPRequestHandler):
    """A part of the server's handler."""

    state: "State"

    def json(self, value: object, code: int = 200) -> None:
        raise NotImplementedError

    def refuse(self, code: int, reason: str, message: str) -> None:
        raise NotImplementedError

    def do_PUT(self) -> None:
        self.changing()

    def do_DELETE(self) -> None:
        self.changing()

    def changing(self) -> None:
        raise NotImplementedError

    def change(self, way: list[str], body: dict[str, Any], kind: str) -> bool:
        """Make a change; False: there is no such place.  The state's lock is held."""
        match [self.command, *way]:
            case ["POST", "api", "v1", "nodes"]:
                self._make_node(body)
            case ["DELETE", "api", "v1", "nodes", name]:
                self._delete_node(name, body)
            case ["PATCH", "api", "v1", "namespaces", namespace, "pods", name, "status"]:
                assert kind == STRATEGIC
                self._patch_pod_status(namespace, name, body)
            case ["PATCH", "api", "v1", "namespaces", namespace, "pods", name]:
                assert kind == MERGE
                self._patch_pod(namespace, name, body)
            case ["POST", "api", "v1", "namespaces", namespace, "pods", name, "eviction"]:
                self._evict(namespace, name, body)
            case ["DELETE", "api", "v1", "namespaces", namespace, "pods", name]:
                self._delete_pod(namespace, name, body)
            case ["DELETE", "apis", "topology.node.k8s.io", _, "noderesourcetopologies", name]:
                self._delete_topology(name)
            case ["POST", *_] if way[-1] in KEPT_KINDS:
                self._make_kept("/" + "/".join(way), body)
            case [_, *_] if len(way) > 1 and way[-2] in KEPT_KINDS:
                self._change_kept("/" + "/".join(way), body, kind)
            case _:
                return False
        return True

    # --- nodes ----------------------------------------------------------------------------------

    def _make_node(self, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        if name in self.state.nodes:
            self.refuse(409, "AlreadyExists", f'nodes "{name}" already exists')
            return
        body["metadata"]["uid"] = f"node-{name}-{self.state.version}"
        self.state.nodes[name] = body
        self.state.happened("nodes", "ADDED", body)
        self.json(body, 201)

    def _delete_node(self, name: str, body: Mapping[str, Any]) -> None:
        node = self.state.nodes.get(name)
        if node is None:
            self.refuse(404, "NotFound", f'nodes "{name}" not found')
        elif self._as_meant(node, body):
            del self.state.nodes[name]
            self.state.happened("nodes", "DELETED", node)
            self.json(node)

    # --- pods -----------------------------------------------------------------------------------

    def _pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        for pod in self.state.pods:
            if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (namespace, name):
                return pod
        self.refuse(404, "NotFound", f'pods "{name}" not found')
        return None

    def _patch_pod_status(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        pod = self._pod(namespace, name)
        if pod is None:
            return
        if body.get("metadata", {}).get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            self.refuse(409, "Conflict", "Precondition failed: UID in precondition")
            return
        changed = {**pod, "metadata": dict(pod["metadata"])}
        changed["status"] = strategic(pod.get("status") or {}, body["status"])
        self.state.put_pod(changed)
        self.json(changed)

    def _patch_pod(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        pod = self._pod(namespace, name)
        if pod is None:
            return
        wanted = body.get("metadata", {})
        if any(key in wanted and wanted[key] != pod["metadata"][key] for key in ("uid", "resourceVersion")):
            self.refuse(409, "Conflict", "the object has been modified")
            return
        changed = merged(pod, body)
        self.state.put_pod(changed)
        self.json(changed)

    def _evict(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        if name in self.state.guarded:
            self.refuse(429, "TooManyRequests", "Cannot evict pod as it would violate the disruption budget.")
            return
        self._delete_pod(namespace, name, body.get("deleteOptions") or {})

    def _delete_pod(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        """With a grace period a bound pod is only marked; its kubelet removes it later."""
        pod = self._pod(namespace, name)
        if pod is None or not self._as_meant(pod, body):
            return
        ended = pod.get("status", {}).get("phase") in ENDED or not pod["spec"].get("nodeName")
        grace = 0 if ended else body.get("gracePeriodSeconds", 30)
        changed = {**pod, "metadata": dict(pod["metadata"])}
        if grace:
            changed["metadata"] |= {
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": grace,
            }
            self.state.put_pod(changed)
        else:
            self.state.put_pod(changed, "DELETED")
        self.json(changed)

    def _delete_topology(self, name: str) -> None:
        value = self.state.topologies.get(name)
        if value is None:
            self.refuse(404, "NotFound", f'noderesourcetopologies "{name}" not found')
            return
        self.state.put_topology(value, "DELETED")
        self.json(value)

    # --- whatever is kept by its path -----------------------------------------------------------

    def _make_kept(self, place: str, body: dict[str, Any]) -> None:
        path = f"{place}/{body['metadata']['name']}"
        if path in self.state.kept:
            self.refuse(
                409, "AlreadyExists", f'{place.rsplit("/", 1)[1]} "{body["metadata"]["name"]}" already exists'
            )
            return
        body["metadata"].setdefault("uid", f"kept-{self.state.version}")
        self._keep(path, body, "ADDED", 201)

    def _change_kept(self, path: str, body: dict[str, Any], kind: str) -> None:
        known = self.state.kept.get(path)
        plural, name = path.rsplit("/", 2)[1:]
        if known is None:
            self.refuse(404, "NotFound", f'{plural} "{name}" not found')
            return
        if self.command == "DELETE":
            if self._as_meant(known, body):
                del self.state.kept[path]
                self.state.happened(plural, "DELETED", known)
                self.json(known)
            return
        version = body.get("metadata", {}).get("resourceVersion")
        if version and version != known["metadata"]["resourceVersion"]:
            self.refuse(409, "Conflict", "the object has been modified")
            return
        assert self.command == "PUT" or kind == MERGE
        fresh = (
            {**body, "metadata": {**known["metadata"], **body["metadata"]}}
            if self.command == "PUT"
            else merged(known, body)
        )
        self._keep(path, fresh, "MODIFIED")

    def _keep(self, path: str, value: dict[str, Any], event: str, code: int = 200) -> None:
        value = json.loads(json.dumps(value))
        self.state.kept[path] = value
        self.state.happened(path.rsplit("/", 2)[1], event, value)
        self.json(value, code)

    def _as_meant(self, value: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
        """Whether an object is the one that a deletion names; the answer is given where not."""
        for name, wanted in (body.get("preconditions") or {}).items():
            if wanted != value["metadata"].get(name):
                self.refuse(409, "Conflict", f"the {name} in the precondition does not match the record")
                return False
        return True
