"""Where connections come in: whoever has said nothing yet, or not who he is, keeps nobody else out.

Rules kept here:

1. A connection has ``seconds`` to say its first byte, and as long again until it is let in: until its
   handshake is over, where there is one, or until it was answered.  Until its first byte it is a socket and
   nothing more: no buffers, no task.
2. Not yet let in are at most ``of_peer`` connections of one peer, and ``most`` of all.  Beyond that the
   oldest of that peer is closed, or of the peer that has the most; silent ones first: a newcomer has a turn.
3. A peer is an address; of IPv6 the first half, which one machine has all to itself.
4. Where the system has no descriptors left, the same happens, and after ``REST`` seconds it is tried again.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable

from numawise.errors import HostError
from numawise.values import dataclass

BACKLOG, AT_ONCE, REST = 1024, 64, 0.1


@dataclass(frozen=True, slots=True)
class EntranceBounds:
    """How many may be on their way in, and for how long."""

    most: int = 128
    of_peer: int = 32
    seconds: float = 5.0


@dataclass(slots=True, eq=False)
class Newcomer:
    """A connection that is not let in yet."""

    stream: socket.socket
    peer: str
    deadline: asyncio.TimerHandle | None = None
    letting_in: "asyncio.Task[None] | None" = None


class Entrance:
    """Takes connections, and lets them in by ``let_in``, which ends when that is done; run by one loop."""

    def __init__(
        self,
        listener: socket.socket,
        let_in: Callable[[socket.socket], Awaitable[object]],
        bounds: EntranceBounds = EntranceBounds(),  # noqa: B008 - a frozen value
    ) -> None:
        self.sockets = (listener,)
        self._let_in, self._bounds = let_in, bounds
        self._loop = asyncio.get_running_loop()
        self._newcomers: dict[str, dict[Newcomer, None]] = {}
        """Peer → its connections, the oldest first."""
        self._listening = False
        self._listen()

    def close(self) -> None:
        """Take no more; those who are not let in are sent away."""
        self._rest()
        for listener in self.sockets:
            listener.close()
        for newcomer in [one for own in self._newcomers.values() for one in own]:
            self._send_away(newcomer)

    async def wait_closed(self) -> None:
        """As a server of asyncio's has it: nobody is left to wait for."""

    @property
    def waiting(self) -> int:
        """How many are not let in yet."""
        return sum(map(len, self._newcomers.values()))

    # --- inside ---------------------------------------------------------------------------------

    def _listen(self) -> None:
        (listener,) = self.sockets
        if listener.fileno() >= 0:
            self._loop.add_reader(listener, self._accept)
            self._listening = True

    def _rest(self) -> None:
        if self._listening:
            self._loop.remove_reader(self.sockets[0])
            self._listening = False

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                stream, address = self.sockets[0].accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # rule 4
                self._close_one(self._crowd())
                self._rest()
                self._loop.call_later(REST, self._listen)
                return
            self._welcome(stream, peer_of(str(address[0])))

    def _welcome(self, stream: socket.socket, peer: str) -> None:
        own = self._newcomers.get(peer, {})
        if len(own) >= self._bounds.of_peer:
            self._close_one(own)
        elif self.waiting >= self._bounds.most:
            self._close_one(self._crowd())
        stream.setblocking(False)
        newcomer = Newcomer(stream, peer)
        self._newcomers.setdefault(peer, {})[newcomer] = None
        newcomer.deadline = self._loop.call_later(self._bounds.seconds, self._send_away, newcomer)
        self._loop.add_reader(stream, self._begin, newcomer)

    def _crowd(self) -> dict[Newcomer, None]:
        """The connections of the peer that has the most."""
        return max(self._newcomers.values(), key=len, default={})

    def _close_one(self, crowd: dict[Newcomer, None]) -> None:
        """Rule 2."""
        silent = (newcomer for newcomer in crowd if newcomer.letting_in is None)
        newcomer = next(silent, None) or next(iter(crowd), None)
        if newcomer is not None:
            self._send_away(newcomer)

    def _begin(self, newcomer: Newcomer) -> None:
        """It has said something."""
        self._loop.remove_reader(newcomer.stream)
        if newcomer.deadline is not None:
            newcomer.deadline.cancel()
        newcomer.letting_in = self._loop.create_task(self._enter(newcomer))

    async def _enter(self, newcomer: Newcomer) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError, EOFError):
            async with asyncio.timeout(self._bounds.seconds):
                await self._let_in(newcomer.stream)
        self._forget(newcomer)

    def _send_away(self, newcomer: Newcomer) -> None:
        if newcomer.letting_in is not None:
            newcomer.letting_in.add_done_callback(lambda _: newcomer.stream.close())
            newcomer.letting_in.cancel()
        else:
            self._loop.remove_reader(newcomer.stream)
            newcomer.stream.close()
        self._forget(newcomer)

    def _forget(self, newcomer: Newcomer) -> None:
        if newcomer.deadline is not None:
            newcomer.deadline.cancel()
        own = self._newcomers.get(newcomer.peer, {})
        own.pop(newcomer, None)
        if not own:
            self._newcomers.pop(newcomer.peer, None)


def peer_of(address: str) -> str:
    """Whose connection it is (rule 3)."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return str(known)
    return str(known.ipv4_mapped or known.packed[:8].hex())


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens; ``HostError``: that cannot be done."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: asyncio then switches Nagle off, and no answer waits 40 ms for its second half.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as problem:
        listener.close()
        raise HostError(
            f"{host}:{port} cannot be listened at: {getattr(problem, 'strerror', None) or problem}",
            "name another with --listen",
        ) from None
    listener.setblocking(False)
    return listener
