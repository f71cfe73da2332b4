"""An API server on loopback: real HTTP, real JSON, TLS and tokens, the pods and nodes that a test puts there."""

import json
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

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
    token: str = TOKEN
    forbidden: set[str] = field(default_factory=set)
    """Words of paths that are answered with 403."""
    answers: dict[str, tuple[int, str, bytes]] = field(default_factory=dict)
    """Path → status, content type and body, whatever else there is."""
    page: int = 500
    asked: list[str] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    server: "Server"

    def do_GET(self) -> None:
        state = self.server.state
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        state.asked.append(self.path)
        if parts.path in state.answers:
            code, kind, body = state.answers[parts.path]
            self.answer(code, body, kind)
        elif self.headers.get("Authorization") != f"Bearer {state.token}":
            self.refuse(401, "Unauthorized", "Unauthorized")
        elif any(word in parts.path for word in state.forbidden):
            told = f'pods is forbidden: User "robot" cannot do that: {parts.path}'
            self.refuse(403, "Forbidden", told)
        else:
            self.found([part for part in parts.path.split("/") if part], query)

    def found(self, path: list[str], query: Mapping[str, str]) -> None:
        state = self.server.state
        match path:
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
        for wish in filter(None, query.get("fieldSelector", "").split(",")):
            way, _, value = wish.partition("=")
            items = [item for item in items if str(_at(item, way.lstrip("!").split("."))) == value]
        start = int(query.get("continue") or 0)
        size = min(int(query.get("limit") or 500), self.server.state.page)
        more = str(start + size) if start + size < len(items) else ""
        page = items[start : start + size]
        self.json(
            {
                "kind": kind,
                "apiVersion": "v1",
                "metadata": {"continue": more, "resourceVersion": "7"},
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

    def __init__(self, state: State, certificate: tuple[Path, Path] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.state = state
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
def serving(state: State, certificate: tuple[Path, Path] | None = None) -> Iterator[Server]:
    server = Server(state, certificate)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
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


def _plural(item: Mapping[str, Any]) -> str:
    return f"{item['kind'].lower()}s"


def _is(item: Mapping[str, Any], namespace: str, name: str = "") -> bool:
    metadata = item["metadata"]
    return metadata.get("namespace") == namespace and name in ("", metadata.get("name"))


def _at(item: object, steps: list[str]) -> object:
    for step in steps:
        item = item.get(step) if isinstance(item, Mapping) else None
    return item
