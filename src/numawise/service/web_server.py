"""A web server in a thread of its own: listening, connections with an end, an orderly stop.

Rules kept here:

1. It answers in a thread of its own, with a loop of its own: whoever asks for pages is answered meanwhile.
2. The head of a request comes within ``HEAD_SECONDS`` and has at most ``LARGEST_HEAD`` bytes, or the
   connection is closed: otherwise a few hundred that say nothing would keep all others out.
3. Whoever has not said who he is keeps nobody out (``entrance``).
4. At the end no new connection is taken, questions that came are answered, and idle connections are closed.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable
from typing import Any

from numawise.service.entrance import Entrance, EntranceBounds, listening_socket

END_SECONDS = 3
IDLE_SECONDS = 300
"""A connection that is asked nothing for so long is closed; kube-scheduler keeps its own open."""
MOST_CONNECTIONS = 256
HEAD_SECONDS, LARGEST_HEAD = 5.0, 65536
LIBRARIES = ("httptools", "uvicorn")
"""What a program asks for before it makes one."""
LOGGERS = ("uvicorn", "uvicorn.error")


class WebServer:
    """An application of uvicorn's kind (ASGI) behind an address."""

    def __init__(
        self,
        application: Any,  # noqa: ANN401 - ASGI's
        *,
        name: str = "web",
        ssl: Any = None,  # noqa: ANN401 - a context, or None
        most: int = MOST_CONNECTIONS,
        idle: int = IDLE_SECONDS,
        bounds: EntranceBounds = EntranceBounds(),  # noqa: B008 - a frozen value
    ) -> None:
        self._name = name
        self._server = _server(application, ssl, most, idle, bounds)
        self._thread: threading.Thread | None = None

    def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and answer from now on; ``HostError``: that cannot be done."""
        listener = listening_socket(host, port)
        bound: tuple[str, int] = listener.getsockname()[:2]
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name=self._name, daemon=True
        )
        self._thread.start()
        return bound

    async def stop(self) -> None:
        """Rule 4."""
        if self._thread is not None:
            self._server.should_exit = True
            await asyncio.to_thread(self._thread.join, END_SECONDS + 2)

    @property
    def answers(self) -> bool:
        """Whether it has begun to answer."""
        return bool(self._server.started)

    @property
    def ended(self) -> bool:
        """Whether its thread has ended, which it should not by itself."""
        return self._thread is not None and not self._thread.is_alive()


def shown_address(scheme: str, bound: tuple[str, int]) -> str:
    """An address as browsers write it."""
    host, port = bound
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _server(
    application: Any,  # noqa: ANN401 - ASGI's
    ssl: Any,  # noqa: ANN401 - a context, or None
    most: int,
    idle: int,
    bounds: EntranceBounds,
) -> Any:  # noqa: ANN401 - of an extra
    import uvicorn  # noqa: PLC0415 - an extra

    class GuardedServer(uvicorn.Server):  # type: ignore[misc] # an extra
        """The library's server, with rule 3."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await self.lifespan.startup()
            config, loop = self.config, asyncio.get_running_loop()

            def protocol() -> Any:  # noqa: ANN401
                return config.http_protocol_class(
                    config=config, server_state=self.server_state, app_state=self.lifespan.state
                )

            def let_in(stream: socket.socket) -> Awaitable[object]:
                return loop.connect_accepted_socket(protocol, stream, ssl=config.ssl)

            self.servers = [Entrance(listener, let_in, bounds) for listener in sockets or ()]
            self.started = True

    config = uvicorn.Config(
        application,
        loop="asyncio",
        http=patient_protocol(),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=idle,
        timeout_graceful_shutdown=END_SECONDS,
        limit_concurrency=most,
    )
    with contextlib.suppress(AttributeError):
        config.load()
    config.ssl = ssl
    return GuardedServer(config)


def patient_protocol() -> type[Any]:
    """The library's protocol, with rule 2."""
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
