"""A kubelet on its device plugin sockets: registers, watches, prefers and allocates as the real one does.

It speaks gRPC with grpclib and has messages of its own, written by hand: what is tested does not read itself.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.protocol import H2Protocol
from grpclib.server import Server

from tests.kube.wire import part
from tests.waiting import PATIENCE

SERVICE = "/v1beta1.DevicePlugin/"


class Bytes:
    __content_subtype__ = "proto"

    def encode(self, message: bytes, _: object) -> bytes:
        return message

    def decode(self, data: bytes, _: object) -> bytes:
        return data


def parts(raw: bytes) -> dict[int, list[Any]]:
    """The fields of a message: numbers, or bytes."""
    out: dict[int, list[Any]] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(raw):
        key = number()
        if key & 7 == 0:
            out.setdefault(key >> 3, []).append(number())
        else:
            size = number()
            out.setdefault(key >> 3, []).append(raw[at : at + size])
            at += size
    return out


def text(message: Mapping[int, list[Any]], number: int) -> str:
    return str(message.get(number, [b""])[0], "utf-8")


def pairs(message: Mapping[int, list[Any]], number: int) -> dict[str, str]:
    return {text(parts(entry), 1): text(parts(entry), 2) for entry in message.get(number, [])}


@dataclass
class Watched:
    """A resource that was registered."""

    endpoint: str
    options: dict[int, list[Any]]
    channel: Channel
    devices: dict[str, tuple[str, tuple[int, ...] | None]] = field(default_factory=dict)
    """Id → health and NUMA nodes; None: no topology."""
    updates: int = 0
    watching: bool = False
    task: "asyncio.Task[None] | None" = None


class Listening(Server):  # type: ignore[misc]
    """A server that ends its connections, too, when it is closed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.connections: list[H2Protocol] = []

    def _protocol_factory(self) -> H2Protocol:
        self.connections.append(super()._protocol_factory())
        return self.connections[-1]

    def close(self) -> None:
        super().close()
        for connection in self.connections:
            if hasattr(connection, "processor"):
                connection.processor.close()


class Kubelet:
    """Its device manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.resources: dict[str, Watched] = {}
        self.registrations: list[str] = []
        self.refusal = ""
        self.watches = True
        self.changed = asyncio.Event()
        self.server: Listening | None = None

    async def start(self) -> None:
        """Remove all sockets of the folder and listen, as a kubelet does when it starts."""
        for path in self.folder.iterdir():
            if path.is_socket():
                path.unlink()

        class Registration:
            def __mapping__(_) -> dict[str, Handler]:  # noqa: N805
                handler = Handler(self.register, Cardinality.UNARY_UNARY, bytes, bytes)
                return {"/v1beta1.Registration/Register": handler}

        self.server = Listening([Registration()], codec=Bytes())
        await self.server.start(path=str(self.folder / "kubelet.sock"))

    async def stop(self) -> None:
        """End as a kubelet does that is killed: its socket stays where it is."""
        if self.server is not None:
            self.server.close()  # first: nobody registers any more
            self.server = None
        for name in list(self.resources):
            await self.forget(name)
        await asyncio.sleep(0)  # connections end at the next turn

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def forget(self, name: str) -> None:
        """Stop watching a resource."""
        await self.end(self.resources.pop(name))

    async def end(self, watched: Watched) -> None:
        if watched.task is not None:
            watched.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watched.task
        watched.channel.close()

    async def register(self, stream: Any) -> None:
        message = parts(await stream.recv_message())
        name = text(message, 3)
        if self.refusal:
            raise GRPCError(Status.UNKNOWN, self.refusal)
        assert text(message, 1) == "v1beta1"
        before = self.resources.get(name)
        channel = Channel(path=str(self.folder / text(message, 2)), codec=Bytes())
        watched = Watched(text(message, 2), parts(message.get(4, [b""])[0]), channel)
        self.resources[name] = watched  # in one step: a resource that registers again was never gone
        self.registrations.append(name)
        if before is not None:
            await self.end(before)
        if self.watches:
            watched.task = asyncio.create_task(self.watch(watched))
        await stream.send_message(b"")
        self.tell()

    async def watch(self, watched: Watched) -> None:
        method = UnaryStreamMethod(watched.channel, f"{SERVICE}ListAndWatch", bytes, bytes)
        try:
            async with method.open() as stream:
                await stream.send_message(b"", end=True)
                async for raw in stream:
                    watched.devices = dict(map(device, parts(raw).get(1, [])))
                    watched.updates += 1
                    watched.watching = True
                    self.tell()
        except (GRPCError, StreamTerminatedError, OSError):
            pass
        finally:
            watched.watching = False
            self.tell()

    async def call(self, name: str, method: str, request: bytes) -> dict[int, list[Any]]:
        asked = UnaryUnaryMethod(self.resources[name].channel, SERVICE + method, bytes, bytes)
        return parts(await asked(request))

    async def allocate(self, name: str, *containers: tuple[str, ...]) -> list[dict[int, list[Any]]]:
        request = b"".join(part(1, b"".join(part(1, one) for one in ids)) for ids in containers)
        return [parts(one) for one in (await self.call(name, "Allocate", request)).get(1, [])]

    async def prefer(
        self, name: str, available: tuple[str, ...], size: int, must: tuple[str, ...] = ()
    ) -> list[str]:
        inner = b"".join(part(1, one) for one in available) + b"".join(part(2, one) for one in must)
        answer = await self.call(name, "GetPreferredAllocation", part(1, inner + part(3, size)))
        return [one.decode() for one in parts(answer[1][0]).get(1, [])]

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def until(self, true: Callable[[], object], what: str) -> None:
        """Wait until something is true; looked at after each event, and now and then."""
        async with asyncio.timeout(PATIENCE):
            while not true():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), 0.2)
        assert true(), what

    async def knows(self, name: str) -> Watched:
        """The resource, once its devices have come."""
        await self.until(lambda: name in self.resources and self.resources[name].watching, f"{name} watched")
        return self.resources[name]


def device(raw: bytes) -> tuple[str, tuple[str, tuple[int, ...] | None]]:
    message = parts(raw)
    topology = message.get(3)
    nodes = None
    if topology is not None:
        nodes = tuple(parts(node).get(1, [0])[0] for node in parts(topology[0]).get(1, []))
    return text(message, 1), (text(message, 2), nodes)
