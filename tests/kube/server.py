"""An API server on loopback: real HTTP, real JSON, TLS and tokens, the pods and nodes that a test puts there."""

import json
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.kube.changes import Changes, strategic
from tests.kube.rbac import Rules

TOKEN = "a-good-token"

Objects = list[dict[str, Any]]


@dataclass
class State:
    """What the server knows, and who may see it."""

    pods: Objects = field(default_factory=list)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: Objects = field(default_factory=list)
    configz: dict[str, dict[str, Any]] = field(default_factory=dict)
    owners: Objects = field(default_factory=list)
    """Deployments, Jobs and so on, each with its kind."""
    topologies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Node → NodeResourceTopology."""
    topology_versions: tuple[str, ...] = ("v1alpha2", "v1alpha1")
    """The versions of these that are served; none: the definition is not installed."""
    slices: Objects = field(default_factory=list)
    """ResourceSlices."""
    slice_versions: tuple[str, ...] = ("v1",)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Path → object, of kinds that nothing else here knows (``tests.kube.changes``)."""
    guarded: set[str] = field(default_factory=set)
    """Names of pods that a disruption budget lets nobody evict."""
    token: str = TOKEN
    forbidden: set[str] = field(default_factory=set)
    """Words of paths that are answered with 403."""
    answers: dict[str, tuple[int, str, bytes]] = field(default_factory=dict)
    """Path → status, content type and body, whatever else there is."""
    page: int = 500
    asked: list[str] = field(default_factory=list)
    written: list[tuple[str, str, Any]] = field(default_factory=list)
    """Method, path and body of every change that was tried."""
    rules: Rules | None = None
    """What the caller may do; None: everything that is not forbidden."""
    version: int = 100
    changed: Condition = field(default_factory=Condition)
    """Notified after each change, for those who follow lists."""
    log: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    """Version, list, kind of event and object, as they happened."""

    def put_pod(self, value: dict[str, Any], event: str = "") -> None:
        """A pod comes or changes."""
        with self.changed:
            known = [one for one in self.pods if one["metadata"]["uid"] != value["metadata"]["uid"]]
            kind = event or ("ADDED" if len(known) == len(self.pods) else "MODIFIED")
            self.pods = known if event == "DELETED" else [*known, value]
            self.happened("pods", kind, value)

    def put_node(self, value: dict[str, Any], event: str = "MODIFIED") -> None:
        """The node comes, changes or goes."""
        with self.changed:
            if event == "DELETED":
                self.nodes.pop(value["metadata"]["name"], None)
            else:
                self.nodes[value["metadata"]["name"]] = value
            self.happened("nodes", event, value)

    def put_topology(self, value: dict[str, Any], event: str = "MODIFIED") -> None:
        """A NodeResourceTopology comes, changes or goes."""
        with self.changed:
            name = value["metadata"]["name"]
            value["metadata"].setdefault("uid", f"nrt-{name}")
            if event == "DELETED":
                self.topologies.pop(name, None)
            else:
                self.topologies[name] = value
            self.happened("noderesourcetopologies", event, value)

    def happened(self, plural: str, kind: str, value: dict[str, Any]) -> None:
        with self.changed:
            self.version += 1
            value.setdefault("metadata", {})["resourceVersion"] = str(self.version)
            self.log.append((self.version, plural, kind, json.loads(json.dumps(value))))
            self.changed.notify_all()


class Handler(Changes, BaseHTTPRequestHandler):
    server: "Server"

    @property
    def state(self) -> State:  # type: ignore[override]
        return self.server.state

    def do_GET(self) -> None:
        state = self.server.state
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        state.asked.append(self.path)
        if self.may(parts.path):
            way = [part for part in parts.path.split("/") if part]
            if query.get("watch") == "true":
                self.follow(way[-1], query)
            else:
                self.found(way, query)

    def may(self, path: str) -> bool:
        """Whether the caller may ask this; the answer is given where not."""
        state = self.server.state
        if path in state.answers:
            code, kind, body = state.answers[path]
            self.answer(code, body, kind)
        elif self.headers.get("Authorization") != f"Bearer {state.token}":
            self.refuse(401, "Unauthorized", "Unauthorized")
        elif any(word in path for word in state.forbidden) or (
            state.rules is not None and not state.rules.allow(self.command, self.path)
        ):
            told = f'pods is forbidden: User "robot" cannot do that: {path}'
            self.refuse(403, "Forbidden", told)
        else:
            return True
        return False

    def follow(self, plural: str, query: Mapping[str, str]) -> None:
        """Send what happens to a list, line by line, until the server ends."""
        state, seen = self.server.state, int(query.get("resourceVersion") or 0)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        while not self.server.ending.is_set():
            with state.changed:
                news = [one for one in state.log if one[0] > seen and one[1] == plural]
                if not news:
                    state.changed.wait(0.05)
                    continue
            for version, _, kind, value in news:
                chosen = kind == "ERROR" or _chosen(value, query)
                if chosen or "status.phase" in query.get("fieldSelector", ""):
                    told = kind if chosen else "DELETED"  # it is no longer one of these, if it ever was
                    self.wfile.write(json.dumps({"type": told, "object": value}).encode() + b"\n")
                seen = version
            self.wfile.flush()
        self.close_connection = True

    # --- changes --------------------------------------------------------------------------------

    def do_POST(self) -> None:
        self.changing()

    def do_PATCH(self) -> None:
        self.changing()

    def changing(self) -> None:
        state = self.server.state
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
        state.asked.append(self.path)
        state.written.append((self.command, self.path, body))
        if not self.may(parts.path):
            return
        way, kind = [part for part in parts.path.split("/") if part], self.headers["Content-Type"]
        with state.changed:
            match [self.command, *way]:
                case ["PATCH", "apis", "topology.node.k8s.io", version, "noderesourcetopologies", name]:
                    if version not in state.topology_versions:
                        self.answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
                    else:
                        assert kind == "application/apply-patch+yaml"
                        self.apply(name, body, query)
                case ["PATCH", "api", "v1", "nodes", name, *rest] if rest in ([], ["status"]):
                    self.patch_node(name, body, kind)
                case ["POST", "apis", "events.k8s.io", "v1", "namespaces", _, "events"]:
                    state.events.append(body)
                    self.json(body, 201)
                case ["PATCH", "apis", "events.k8s.io", "v1", "namespaces", _, "events", name]:
                    found = next((one for one in state.events if one["metadata"]["name"] == name), None)
                    if found is not None:
                        found.update(body)
                    self.one(found, f'events "{name}" not found')
                case _:
                    if not self.change(way, body, kind):
                        self.refuse(404, "NotFound", "the server could not find the requested resource")

    def apply(self, name: str, body: dict[str, Any], query: Mapping[str, str]) -> None:
        """Server-side apply of whole lists, with their owners."""
        state = self.server.state
        manager, wanted = query["fieldManager"], body["metadata"].get("resourceVersion")
        now = state.topologies.get(name)
        if wanted and (now is None or now["metadata"]["resourceVersion"] != wanted):
            self.refuse(
                409,
                "Conflict",
                "the object has been modified; please apply your changes to the latest version",
            )
            return
        owners = dict(now["owners"]) if now is not None and "owners" in now else {}
        fields = [field for field in ("zones", "attributes", "topologyPolicies") if field in body]
        others = {
            owners[field]
            for field in fields
            if owners.get(field, manager) != manager and now is not None and now.get(field) != body[field]
        }
        if others and query.get("force") != "true":
            told = "; ".join(
                f'conflict with "{other}" using topology.node.k8s.io/v1alpha2: .zones'
                for other in sorted(others)
            )
            self.refuse(409, "Conflict", f"Apply failed with 1 conflict: {told}")
            return
        owners |= dict.fromkeys(fields, manager)
        metadata = {**body["metadata"], "uid": f"nrt-{name}"}
        metadata["managedFields"] = [
            {"manager": one, "operation": "Apply"} for one in sorted(set(owners.values()))
        ]
        state.put_topology({**(now or {}), **body, "metadata": metadata, "owners": owners})
        self.json(state.topologies[name])

    def patch_node(self, name: str, body: dict[str, Any], kind: str) -> None:
        state = self.server.state
        node = state.nodes.get(name)
        if node is None:
            self.refuse(404, "NotFound", f'nodes "{name}" not found')
            return
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != node["metadata"].get("resourceVersion"):
            self.refuse(409, "Conflict", "the object has been modified")
            return
        node = json.loads(json.dumps(node))
        if "status" in body:
            assert kind == "application/strategic-merge-patch+json"
            node["status"] = strategic(node.get("status") or {}, body["status"])
        if "labels" in body.get("metadata", {}):
            node["metadata"]["labels"] = {**node["metadata"].get("labels", {}), **body["metadata"]["labels"]}
        if "spec" in body:
            assert kind == "application/merge-patch+json"
            node["spec"] = {**node.get("spec", {}), "taints": body["spec"]["taints"] or []}
        state.put_node(node)
        self.json(node)

    def found(self, path: list[str], query: Mapping[str, str]) -> None:
        state = self.server.state
        match path:
            case _ if "/" + "/".join(path) in state.kept:
                self.json(state.kept["/" + "/".join(path)])
            case ["api", "v1", "namespaces", namespace, "pods", name]:
                self.one(
                    next((p for p in state.pods if _is(p, namespace, name)), None), f'pods "{name}" not found'
                )
            case ["api", "v1", "namespaces", namespace, "pods"]:
                self.many("PodList", [p for p in state.pods if _is(p, namespace)], query)
            case ["api", "v1", "pods"]:
                self.many("PodList", state.pods, query)
            case ["api", "v1", "namespaces", namespace, "events"]:
                self.many("EventList", [e for e in state.events if _is(e, namespace)], query)
            case ["api", "v1", "namespaces", namespace, plural, name]:
                self.owner(plural, namespace, name)
            case ["apis", "apps" | "batch", "v1", "namespaces", namespace, plural, name]:
                self.owner(plural, namespace, name)
            case ["apis", "apps" | "batch", "v1", "namespaces", namespace, plural]:
                self.many(
                    "List", [o for o in state.owners if _is(o, namespace) and _plural(o) == plural], query
                )
            case ["apis", "topology.node.k8s.io", version, "noderesourcetopologies", name]:
                if version not in state.topology_versions:
                    self.answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
                else:
                    self.one(state.topologies.get(name), f'noderesourcetopologies "{name}" not found')
            case ["apis", "topology.node.k8s.io", version, "noderesourcetopologies"]:
                if version not in state.topology_versions:
                    self.answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
                else:
                    self.many("NodeResourceTopologyList", list(state.topologies.values()), query)
            case ["apis", "resource.k8s.io", version, "resourceslices"] if version in state.slice_versions:
                self.many("ResourceSliceList", state.slices, query)
            case ["api", "v1", "nodes"]:
                self.many("NodeList", list(state.nodes.values()), query)
            case ["api", "v1", "nodes", name]:
                self.one(state.nodes.get(name), f'nodes "{name}" not found')
            case ["api", "v1", "nodes", name, "proxy", "configz"]:
                found = state.configz.get(name)
                if found is None:
                    self.answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
                else:
                    self.json({"kubeletconfig": found})
            case _:
                self.refuse(404, "NotFound", "the server could not find the requested resource")

    def owner(self, plural: str, namespace: str, name: str) -> None:
        named = (o for o in self.server.state.owners if _is(o, namespace, name) and _plural(o) == plural)
        self.one(next(named, None), f'{plural} "{name}" not found')

    def one(self, found: Mapping[str, Any] | None, missing: str) -> None:
        if found is None:
            self.refuse(404, "NotFound", missing)
        else:
            self.json(found)

    def many(self, kind: str, items: Objects, query: Mapping[str, str]) -> None:
        items = [item for item in items if _chosen(item, query)]
        start = int(query.get("continue") or 0)
        size = min(int(query.get("limit") or 500), self.server.state.page)
        more = str(start + size) if start + size < len(items) else ""
        page = items[start : start + size]
        self.json(
            {
                "kind": kind,
                "apiVersion": "v1",
                "metadata": {"continue": more, "resourceVersion": str(self.server.state.version)},
                "items": page,
            }
        )

    def json(self, value: object, code: int = 200) -> None:
        self.answer(code, json.dumps(value).encode(), "application/json")

    def refuse(self, code: int, reason: str, message: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        self.json({**status, "message": message, "reason": reason, "code": code}, code)

    def answer(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests keep quiet."""


class Server(ThreadingHTTPServer):
    """The server, and where it is."""

    daemon_threads = True

    def __init__(self, state: State, certificate: tuple[Path, Path] | None = None, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.state = state
        self.ending = Event()
        self.certificate = certificate
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def address(self) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """A client that does not trust us is no news."""


@contextmanager
def serving(state: State, certificate: tuple[Path, Path] | None = None, port: int = 0) -> Iterator[Server]:
    server = Server(state, certificate, port)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


def make_certificate(folder: Path, name: str = "IP:127.0.0.1") -> tuple[Path, Path]:
    """A certificate that nobody else has signed."""
    key, certificate = folder / "key.pem", folder / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=kube-apiserver"]
    subprocess.run([*words, "-addext", f"subjectAltName={name}"], check=True, capture_output=True)
    return certificate, key


def kubeconfig(
    path: Path, server: str, *, user: object = None, namespace: str = "", **cluster: object
) -> Path:
    """A kubeconfig with one context."""
    inner = {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {})
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "u", "user": {"token": TOKEN} if user is None else user}],
                "contexts": [{"name": "here", "context": inner}],
            }
        )
    )
    return path


def _chosen(item: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    """Whether selectors of fields and labels choose an object."""
    for wish in filter(None, query.get("fieldSelector", "").split(",")):
        way, _, value = wish.partition("=")
        if (str(_at(item, way.rstrip("!").split(".")) or "") == value) is way.endswith("!"):
            return False
    labels = item["metadata"].get("labels") or {}
    wishes = [wish.partition("=") for wish in filter(None, query.get("labelSelector", "").split(","))]
    return all(labels.get(key) == value for key, _, value in wishes)


def _plural(item: Mapping[str, Any]) -> str:
    return f"{item['kind'].lower()}s"


def _is(item: Mapping[str, Any], namespace: str, name: str = "") -> bool:
    metadata = item["metadata"]
    return metadata.get("namespace") == namespace and name in ("", metadata.get("name"))


def _at(item: object, steps: list[str]) -> object:
    for step in steps:
        item = item.get(step) if isinstance(item, Mapping) else None
    return item
