"""Calls to the page's application in this process: every byte goes through its guards, routes and handlers."""

import asyncio
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from numawise.apps.overview.sources import SourceCluster
from numawise.inputs.spec import NodeSpec
from numawise.service.log import ServiceLog
from numawise.web.application import PageApplication
from numawise.web.catalogue import OPERATIONS
from numawise.web.desk import Desk, Served
from numawise.web.guards import Guards
from tests.web import contract

HOST = "127.0.0.1:9801"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json", self.body
        data = self.data
        assert data["status"] == self.status
        return dict(data)


class Page:
    """An application with its desk; a closed one leaves nothing behind."""

    def __init__(
        self,
        served: Served | None = None,
        *,
        allow_changes: bool = False,
        guards: Guards | None = None,
        operations: Any = OPERATIONS,
        cluster: SourceCluster | None = None,
    ) -> None:
        self.written = io.StringIO()
        log = ServiceLog(self.written, structured=True)
        self.desk = Desk(served or Served(), log, allow_changes=allow_changes, cluster=cluster)
        self.application = PageApplication(self.desk, guards or Guards(peer=own_peer), operations, log)
        self._is_real = operations is OPERATIONS

    def close(self) -> None:
        self.application.close()
        self.desk.close()
        if self._is_real:
            assert '"mistake in ' not in self.written.getvalue()

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, b"", headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.call("POST", path, raw, {"content-type": "application/json"} | headers)

    def call(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        return asyncio.run(self._call(method, path, body, headers or {}))

    async def ask(self, method: str, path: str) -> Answer:
        """Ask beside others."""
        return await self._call(method, path, b"", {})

    async def twice(self, path: str, name: str, value: str) -> Answer:
        """Ask with a header that is given more than once."""
        return await self._call("GET", path, b"", {name: value}, again=[(name.encode(), value.encode())])

    async def never(self, path: str) -> Answer:
        """Send a question whose body does not come."""
        return await self._call("POST", path, None, {"content-type": "application/json"})

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        again: Sequence[tuple[bytes, bytes]] = (),
    ) -> Answer:
        parts = urlsplit(path if path.startswith("/") else f"/api/v1/{path}")
        given = {"host": HOST} | {name.replace("_", "-").lower(): value for name, value in headers.items()}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote(parts.path), "raw_path": quote(parts.path, safe="/%").encode(), "query_string": parts.query.encode(), "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()] + list(again),
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 9801),
        }  # fmt: skip
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if body is None:
                await asyncio.Event().wait()
            if messages:
                return messages.pop(0)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.application(scope, receive, send)
        start = next(one for one in sent if one["type"] == "http.response.start")
        content = b"".join(one.get("body", b"") for one in sent if one["type"] == "http.response.body")
        answer = Answer(
            start["status"], {n.decode().lower(): v.decode() for n, v in start["headers"]}, content
        )
        if self._is_real:
            contract.check(method, parts.path, answer.status, answer.headers, content)
        return answer


def own_peer(peer: object, own: object) -> int:  # noqa: ARG001 - nothing is connected in one process
    """Whoever calls is the user who runs the server."""
    return os.geteuid()


def named(machine: str, **parts: Any) -> Served:
    """A server for a machine of the catalogue, a description or a file."""
    return Served(NodeSpec(machine=(machine,), **parts), host=False)
