"""Connections that never say who they are, on real sockets: an honest one gets in all the same."""

import asyncio
import contextlib
import http.client
import itertools
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.host.certificates import make_certificates
from numawise.service.duty import INFO_METRIC, MetricName
from numawise.service.entrance import EntranceBounds, peer_of
from numawise.service.pages import serve_pages
from numawise.service.web_server import WebServer
from tests.waiting import PATIENCE, until

BOUNDS = EntranceBounds(most=24, of_peer=8, seconds=PATIENCE)
"""So long that nobody is sent away because of the time."""
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The first bytes of a handshake."""


async def application(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Served:
    """A server with certificates, and who comes."""

    def __init__(self, folder: Path, bounds: EntranceBounds) -> None:
        made = make_certificates(("localhost",), "client")
        texts = {"ca": made.authority, "server": made.server.certificate + made.server.key, "client": made.client.certificate + made.client.key}  # fmt: skip
        for name, text in texts.items():
            (folder / name).write_text(text)
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(folder / "server")
        own.load_verify_locations(folder / "ca")
        own.verify_mode = ssl.CERT_REQUIRED
        self.trust = ssl.create_default_context(cafile=folder / "ca")
        self.trust.load_cert_chain(folder / "client")
        self.trust.check_hostname = False
        self.server = WebServer(application, ssl=own, bounds=bounds)
        self.port = self.server.start("127.0.0.1", 0)[1]

    def answers(self, source: str = "127.0.0.1") -> bool:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=PATIENCE, context=self.trust, source_address=(source, 0)
        )
        with contextlib.closing(connection):
            connection.request("GET", "/")
            return connection.getresponse().read() == b"ok"

    def comes(self, source: str = "127.0.0.1", says: bytes = b"") -> socket.socket:
        stream = socket.create_connection(("127.0.0.1", self.port), PATIENCE, (source, 0))
        stream.sendall(says)
        return stream


@contextlib.contextmanager
def served(folder: Path, bounds: EntranceBounds = BOUNDS) -> Iterator[Served]:
    running = Served(folder, bounds)
    try:
        yield running
    finally:
        asyncio.run(running.server.stop())


def closed(streams: list[socket.socket]) -> list[bool]:
    """Which of them the other side has closed by now."""

    def is_closed(stream: socket.socket) -> bool:
        stream.setblocking(False)
        try:
            return stream.recv(65536) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    return [is_closed(stream) for stream in streams]


@pytest.mark.parametrize("says", [pytest.param(b"", id="silent"), pytest.param(HELLO, id="half a handshake")])
@pytest.mark.parametrize("peers", [1, 40])
def test_an_honest_question_is_answered(tmp_path: Path, says: bytes, peers: int) -> None:
    sources = itertools.cycle(f"127.0.1.{number + 1}" for number in range(peers))
    with served(tmp_path) as running, contextlib.ExitStack() as stack:
        streams = [stack.enter_context(running.comes(next(sources), says)) for _ in range(300)]
        assert running.answers()
        most = BOUNDS.of_peer if peers == 1 else BOUNDS.most
        until(lambda: closed(streams).count(False) <= most, "only as many as may be are left")
        assert running.answers()


def test_from_the_same_address_too(tmp_path: Path) -> None:
    with served(tmp_path) as running, contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(running.comes())
        assert running.answers()


def test_the_newest_of_the_greediest_stay_and_others_are_not_touched(tmp_path: Path) -> None:
    with (
        served(tmp_path, EntranceBounds(most=10, of_peer=8, seconds=PATIENCE)) as running,
        contextlib.ExitStack() as stack,
    ):
        few = [stack.enter_context(running.comes("127.0.1.2")) for _ in range(3)]
        many = [stack.enter_context(running.comes("127.0.1.3")) for _ in range(20)]
        until(lambda: closed(many).count(True) >= 13, "the greediest is sent away")
        assert closed(many) == [True] * 13 + [False] * 7
        assert not any(closed(few))


@pytest.mark.parametrize("says", [pytest.param(b"", id="silent"), pytest.param(HELLO, id="half a handshake")])
def test_whoever_says_nothing_is_sent_away_after_a_time(tmp_path: Path, says: bytes) -> None:
    with served(tmp_path, EntranceBounds(seconds=0.2)) as running, running.comes(says=says) as stream:
        until(lambda: closed([stream]) == [True], "it is closed")
        assert running.answers()


def test_what_is_said_in_the_clear_ends_there(tmp_path: Path) -> None:
    with served(tmp_path) as running, running.comes(says=b"GET / HTTP/1.1\r\n\r\n") as stream:
        until(lambda: closed([stream]) == [True], "it is closed")
        assert running.answers()


def test_pages_are_answered_beside_those_who_say_nothing() -> None:
    async def asked() -> str:
        entrance = serve_pages("127.0.0.1", 0, MetricName("numawise", INFO_METRIC, "It."), ())
        host, port = entrance.sockets[0].getsockname()
        silent = [await asyncio.open_connection(host, port) for _ in range(200)]
        half = [await asyncio.open_connection(host, port) for _ in range(50)]
        for _, writer in half:
            writer.write(b"GET /hea")
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        left = entrance.waiting
        entrance.close()
        for _, other in (*silent, *half, (reader, writer)):
            other.close()
        assert left <= EntranceBounds().of_peer
        return answer.decode()

    assert asyncio.run(asked()).startswith("HTTP/1.1 200 OK")


@pytest.mark.parametrize(("address", "peer"), [
    ("10.1.2.3",                "10.1.2.3"),
    ("::ffff:10.1.2.3",         "10.1.2.3"),
    ("2001:db8:0:1::1",         "20010db800000001"),
    ("2001:db8:0:1:ffff::2",    "20010db800000001"),
    ("fe80::1%eth0",            "fe80000000000000"),
])  # fmt: skip
def test_peers(address: str, peer: str) -> None:
    assert peer_of(address) == peer
