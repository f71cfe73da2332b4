"""``numawise scheduler`` in a process of its own, beside a stand-in of the API server."""

import contextlib
import http.client
import json
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.kube.server import Server, kubeconfig
from tests.waiting import PATIENCE, until
from tests.warm import Program


class Extender:
    """The program, and questions to it."""

    def __init__(self, folder: Path, server: str, *words: str) -> None:
        self.folder, self.words = folder, words
        self.log = folder / "log"
        self.config = kubeconfig(folder / "kubeconfig", server)
        self.trust: ssl.SSLContext | None = None
        self.process = self.started()

    def started(self) -> Program:
        listen = () if "--listen" in self.words else ("--listen", "127.0.0.1:0")
        words = ("--kubeconfig", str(self.config), *listen, "--pages", "127.0.0.1:0", *self.words)
        with self.log.open("ab") as log:
            return Program("scheduler", *words, stderr=log)

    def said(self, words: str) -> list[dict[str, Any]]:
        text = self.log.read_text() if self.log.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if words in line["message"]]

    def ready(self) -> None:
        until(lambda: self.process.poll() is not None or self.said("answering"), "the extender answers")
        assert self.process.poll() is None, self.log.read_text()
        until(lambda: self.said("listening"), "pages")
        until(lambda: self.page("/readyz")[0] == 200, "the extender is ready")

    @property
    def address(self) -> str:
        return str(self.said("answering")[-1]["address"])

    def connection(self, trust: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        assert parts.hostname
        assert parts.port
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
        context = trust or self.trust
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=PATIENCE, context=context)

    def raw(self, verb: str, body: bytes | None, method: str = "POST") -> tuple[int, bytes]:
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, f"/{verb}", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def ask(self, verb: str, body: Any, method: str = "POST") -> Any:
        status, text = self.raw(verb, json.dumps(body).encode() if body is not None else None, method)
        assert status == 200, text
        return json.loads(text)

    def page(self, path: str) -> tuple[int, str]:
        host, _, port = str(self.said("listening")[-1]["address"]).rpartition(":")
        with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=PATIENCE)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def metric(self, line: str) -> str:
        """The value of a line of the metrics."""
        lines = [one for one in self.page("/metrics")[1].splitlines() if one.startswith(f"{line} ")]
        return lines[0].rpartition(" ")[2] if lines else ""

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def extender(folder: Path, server: Server | str, *words: str) -> Iterator[Extender]:
    """An extender that is gone in the end."""
    running = Extender(folder, server if isinstance(server, str) else server.address, *words)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()
