"""A hand inside the guest: it does what the host says, and tells what the kubelet has written.

The host decides what happens and compares, as Python is an order of magnitude slower in an emulated guest.  One
request is one JSON object with ``do``; an error of the guest comes back as its text.
"""

import http.client
import json
import os
import threading
import time
import traceback
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from e2e.node import KUBELET, Node, runs
from numawise.errors import ClusterError
from numawise.kube.podresources import ask

PORT, PUBLISHED = 10260, 11260
AGENT = ("127.0.0.1", 9797)
FILES = (
    "cpu_manager_state",
    "memory_manager_state",
    "device-plugins/kubelet_internal_checkpoint",
    "allocated_pods_state",
)


class GuestFailed(Exception):
    """What the guest said went wrong."""


@dataclass(frozen=True)
class Look:
    """What lay on the node at one time."""

    files: dict[str, str]
    """Name of a state file, without its folder → text."""
    written: dict[str, float]
    """When each was written, by the host's clock."""
    answers: dict[str, Any]
    """What PodResources answered; empty: nobody did."""


class Hand:
    """The host's end."""

    def ask(self, do: str, **more: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", PUBLISHED, timeout=1800)
        try:
            connection.request("POST", "/", json.dumps({"do": do, **more}))
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "error" in answer:
            raise GuestFailed(answer["error"])
        return answer["value"]

    def look(self) -> Look:
        before = time.time()
        seen = self.ask("look")
        ahead = seen["now"] - (before + time.time()) / 2
        return Look(
            seen["files"], {name: at - ahead for name, at in seen["written"].items()}, seen["answers"]
        )

    def run(self, *words: str, **environment: str) -> tuple[int, str]:
        """Run a program in the guest; its exit status, and what it said."""
        status, said = self.ask("run", words=words, environment=environment)
        return status, said


def serve(node: Node) -> None:
    """The guest's end, until the host says that it is over."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                answer = {"value": _done(node, over, **body)}
            except Exception:  # noqa: BLE001 - said outside
                answer = {"error": traceback.format_exc()}
            raw = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            """Not to be mixed with what the guest reports."""

    with HTTPServer(("", PORT), Handler) as server:
        while not over.is_set():
            server.handle_request()


def _done(node: Node, over: threading.Event, do: str, **more: Any) -> Any:
    match do:
        case "start":
            node.start(more["config"], tuple(more["duties"]), more["huge_pages"])
        case "look":
            return _seen()
        case "run":
            done = runs(*more["words"], env={**os.environ, **more["environment"]})
            return done.returncode, done.stdout + done.stderr
        case "write":
            path = Path(more["path"])
            fresh = path.with_name(f".{path.name}.new")
            fresh.write_text(more["text"])
            fresh.replace(path)
        case "remove":
            Path(more["path"]).unlink()
        case "page":
            return _status(more["path"])
        case "tree":
            return _texts(more["globs"])
        case "end":
            over.set()
    return None


def _status(path: str) -> int:
    """What a page of the agent answers; 0: nobody does."""
    connection = http.client.HTTPConnection(*AGENT, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def _texts(globs: list[str]) -> dict[str, str]:
    """Path → text of the guest's files that can be read."""
    found = {}
    for path in sorted({path for glob in globs for path in Path("/").glob(glob)}):
        try:
            found[str(path).lstrip("/")] = path.read_text()
        except (OSError, UnicodeDecodeError):
            continue
    return found


def _seen() -> dict[str, Any]:
    texts, written = {}, {}
    for name in FILES:
        path = KUBELET / name
        if path.exists():
            texts[path.name], written[path.name] = path.read_text(), path.stat().st_mtime
    try:
        answers, _ = ask(str(KUBELET / "pod-resources/kubelet.sock"))
    except ClusterError:
        answers = {}
    return {"files": texts, "written": written, "answers": answers, "now": time.time()}
