"""gRPC on unix sockets: servers of methods that take and give bytes, and single calls.

Rules kept here:

1. grpclib does the protocol, and is imported here alone, inside the functions that need it: it is an extra.
2. What lies at our path is ours when it is a socket, belongs to this user, and nobody answers there.  Then it
   is replaced; anything else is left alone, and an error.  A socket is made for its owner only.
3. A method that raises ``CallRefused`` is answered with its sentence; any other mistake with a general one,
   and it goes to the log of grpclib.  The server goes on.
4. A socket is removed only while it is still the one that was made: another may have taken its place.
5. A connection outlives the close of its server, and what is called on it then is refused at once: nobody
   would end it.
"""

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from numawise.errors import ClusterError, HostError, quoted
from numawise.extras import needed
from numawise.kube.podresources import LONGEST_NAME
from numawise.values import dataclass

OWNER_ONLY = 0o177
CLOSING = 1.0
"""Seconds that open calls have to end."""


class CallRefused(Exception):
    """An answer that is no: its sentence goes to the one who asked."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method by its path: one answer, or a stream of them."""

    path: str
    answers: Callable[[bytes], Awaitable[bytes]] | None = None
    streams: Callable[[bytes], AsyncGenerator[bytes]] | None = None


class Serving:
    """A server at a socket, until it is closed."""

    def __init__(self, server: Any, path: str, closing: asyncio.Event) -> None:  # noqa: ANN401 - of an extra
        self.server, self.path, self.made, self.closing = server, path, _identity(path), closing

    def is_there(self) -> bool:
        """Whether the socket is still the one that was made; a kubelet that starts removes it."""
        return self.made is not None and _identity(self.path) == self.made

    async def close(self) -> None:
        """Take no more calls, end those that are open, and remove the socket (rule 4)."""
        self.closing.set()
        self.server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self.server.wait_closed()
        if self.is_there():
            with contextlib.suppress(OSError):
                _remove(self.path)


def _codec() -> Any:  # noqa: ANN401 - of an extra
    """Messages as they are: what they mean is known elsewhere."""

    class Bytes:
        __content_subtype__ = "proto"

        def encode(self, message: bytes, message_type: object) -> bytes:  # noqa: ARG002
            return message

        def decode(self, data: bytes, message_type: object) -> bytes:  # noqa: ARG002
            return data

    return Bytes()


# --- serving --------------------------------------------------------------------------------------


async def serve(path: str, methods: Sequence[Method]) -> Serving:
    """Serve methods at a socket; ``HostError``: the socket cannot be made."""
    needed("agent", "grpclib")
    from grpclib.server import Server  # noqa: PLC0415 - an extra

    class Service:
        def __mapping__(self) -> dict[str, Any]:
            return {method.path: _handler(method, closing) for method in methods}

    closing = asyncio.Event()
    await _give_way(path)
    listener = _bound(path)
    server = Server([Service()], codec=_codec())
    try:
        await server.start(sock=listener)
    except OSError as problem:
        listener.close()
        raise HostError(f"{path} cannot be served: {problem.strerror}") from None
    return Serving(server, path, closing)


def _handler(method: Method, closing: asyncio.Event) -> Any:  # noqa: ANN401 - of an extra
    from grpclib.const import Cardinality, Handler, Status  # noqa: PLC0415 - an extra
    from grpclib.exceptions import GRPCError  # noqa: PLC0415

    async def answer(stream: Any) -> None:  # noqa: ANN401 - of an extra
        if closing.is_set():
            raise GRPCError(Status.UNAVAILABLE, "the server stops")
        request = await stream.recv_message()
        try:
            if method.answers is not None:
                await stream.send_message(await method.answers(request or b""))
            elif method.streams is not None:
                async with contextlib.aclosing(method.streams(request or b"")) as replies:
                    async for reply in replies:
                        await stream.send_message(reply)
        except CallRefused as refusal:
            raise GRPCError(Status.INVALID_ARGUMENT, str(refusal)) from None

    kind = Cardinality.UNARY_STREAM if method.streams is not None else Cardinality.UNARY_UNARY
    return Handler(answer, kind, bytes, bytes)


async def _give_way(path: str) -> None:
    """Remove a socket that we left behind (rule 2)."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise HostError(f"{path} cannot be looked at: {problem.strerror}") from None
    if not stat.S_ISSOCK(there.st_mode) or there.st_uid != os.geteuid():
        raise HostError(f"{path} is not a socket of this user's", "remove it, if nobody needs it")
    try:
        async with asyncio.timeout(CLOSING):
            _, writer = await asyncio.open_unix_connection(path)
    except (ConnectionRefusedError, FileNotFoundError):
        with contextlib.suppress(FileNotFoundError):
            _remove(path)
        return
    except (OSError, TimeoutError):
        pass  # somebody listens who is too busy to answer
    else:
        writer.close()
    raise HostError(f"another process serves at {path}", "end it first; a node needs one agent")


def _bound(path: str) -> socket.socket:
    if len(os.fsencode(path)) > LONGEST_NAME:
        raise HostError(
            f"{quoted(path)} is too long for a socket ({LONGEST_NAME} bytes)",
            "use a folder with a shorter name",
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(OWNER_ONLY)
    try:
        listener.bind(path)
    except OSError as problem:
        listener.close()
        raise HostError(
            f"{path} cannot be made: {problem.strerror}", "check that folder and its rights"
        ) from None
    finally:
        os.umask(before)
    return listener


def _remove(path: str) -> None:
    Path(path).unlink()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        there = os.lstat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


# --- calling --------------------------------------------------------------------------------------


async def call(path: str, method: str, request: bytes, patience: float) -> bytes:
    """One call at a socket; ``ClusterError``: no answer, or a no."""
    needed("agent", "grpclib")
    from grpclib.client import Channel, UnaryUnaryMethod  # noqa: PLC0415 - an extra
    from grpclib.exceptions import GRPCError, StreamTerminatedError  # noqa: PLC0415

    channel = Channel(path=path, codec=_codec())
    try:
        asked = UnaryUnaryMethod(channel, method, bytes, bytes)
        async with asyncio.timeout(patience):  # its own would not count the time to connect
            answer: bytes = await asked(request)
            return answer
    except TimeoutError:
        raise ClusterError(f"{path} does not answer within {patience:.0f} seconds") from None
    except GRPCError as refusal:
        raise ClusterError(f"{path} refuses: {refusal.message or refusal.status.name}") from None
    except OSError as problem:
        raise ClusterError(f"{path} cannot be reached: {problem.strerror or problem}") from None
    except (StreamTerminatedError, AssertionError, Exception) as problem:  # noqa: BLE001 - a peer that speaks nonsense
        raise ClusterError(f"{path} does not speak gRPC: {type(problem).__name__}") from None
    finally:
        channel.close()
