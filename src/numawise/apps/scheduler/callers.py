"""Who is listened to, and for how long: what the server's library leaves open.

Rules kept here:

1. The head of a request comes within ``HEAD_SECONDS`` and has at most ``LARGEST_HEAD`` bytes, or the
   connection is closed: otherwise a few hundred that say nothing would keep kube-scheduler out.
2. Where everybody on this machine is answered, without certificates, pages of a browser are not
   (``service/own_address.py``).
"""

from typing import Any

from numawise.apps.scheduler.web import Receive, Scope, Send, WebQuestions
from numawise.service.own_address import is_own_caller

HEAD_SECONDS, LARGEST_HEAD = 5.0, 65536
REFUSED = b'{"Error": "only programs of this machine are answered here"}'


def patient_protocol() -> type[Any]:
    """The library's protocol, with rule 1."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: PLC0415 - an extra

    class PatientProtocol(HttpToolsProtocol):  # type: ignore[misc] # an extra
        """A connection whose heads have an end."""

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401
            super().connection_made(transport)
            self.deadline: Any = None
            self._begin_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_head()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.deadline is not None:
                self.head += len(data)
            super().data_received(data)
            if self.deadline is not None and self.head > LARGEST_HEAD:
                self._give_up()

        def on_message_begin(self) -> None:
            if self.deadline is None:  # another request over the same connection
                self._begin_head()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._end_head()
            super().on_headers_complete()

        def _begin_head(self) -> None:
            self.head = 0
            self.deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)

        def _end_head(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

        def _give_up(self) -> None:
            self._end_head()
            self.transport.abort()

    return PatientProtocol


class OwnCallers:
    """Questions in the clear, of this machine's programs alone (rule 2)."""

    def __init__(self, web: WebQuestions) -> None:
        self.web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and not is_own_caller(scope["headers"]):
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(REFUSED)).encode()),
                (b"connection", b"close"),
            ]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": REFUSED})
            return
        await self.web(scope, receive, send)
