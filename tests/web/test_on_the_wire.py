"""A real server on a real socket: requests that are no HTTP, cut short, doubled or never end."""

import errno
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.waiting import PATIENCE

pytestmark = [needs.PROC, needs.SYS]
CLOSED = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)
"""What sending and receiving say of a connection that the other side has closed."""
ADDRESS = re.compile(r"http://(\[::1\]|127\.0\.0\.1):([0-9]+)/")


class Wire:
    """A server, and its log."""

    def __init__(self, listen: str, folder: Path) -> None:
        self.log = folder / "log"
        with self.log.open("w") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "numawise", "serve", "--listen", listen, "--machine", "8gpu-server"],
                env={**os.environ, "NUMAWISE_LEDGER": str(folder / "ledger")},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        while not (found := ADDRESS.search(self.log.read_text())):
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        self.host, self.port = found[1], int(found[2])

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host.strip("[]"), self.port), timeout=PATIENCE)

    def send(self, raw: bytes, *, end: bool = True) -> bytes:
        """What comes back for these bytes until the server closes, which it may do before they are all sent."""
        answer = b""
        with self.connect() as line:
            try:
                line.sendall(raw.replace(b"HOST", f"{self.host}:{self.port}".encode()))
                if end:
                    line.shutdown(socket.SHUT_WR)
                while part := line.recv(65536):
                    answer += part
            except OSError as problem:
                if problem.errno not in CLOSED:
                    raise
        return answer

    def answers(self) -> bool:
        raw = b"GET /api/v1/overview HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"
        return self.send(raw, end=False).startswith(b"HTTP/1.1 200 ")

    def close(self) -> None:
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0, self.log.read_text()
        said = self.log.read_text()
        assert '"level": "error"' not in said, said
        assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    wire = Wire("127.0.0.1:0", tmp_path_factory.mktemp("wire"))
    yield wire
    wire.close()


@pytest.mark.parametrize("raw", [
    b"", b"\r\n\r\n", b"\x00" * 100, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: HOST\r\n\r\n", b"GET / HTTP/1.1\r\nHost : HOST\r\n\r\n", b"GET /\x00 HTTP/1.1\r\nHost: HOST\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\nHost: HOST\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"POST /api/v1/map HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    b"POST /api/v1/map HTTP/1.1\r\nHost: HOST\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/map HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /api/v1/map HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{",
    b"GET http://evil.example/api/v1/overview HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: HOST\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n",
    b"GET /%zz%ff%00/..%2f HTTP/1.1\r\nHost: HOST\r\n\r\n", b"GET /api/v1/overview?%ff=%00 HTTP/1.1\r\nHost: HOST\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: HOST\r\nCookie: \xff\xfe\r\nIf-None-Match: \xff\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: HOST\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    b"GET /api/v1/overview HTTP/1.1\r\nHost: HOST\r\n\r\n" * 50,
    b"HEAD /api/v1/events HTTP/1.1\r\nHost: HOST\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n",
])  # fmt: skip
def test_it_goes_on_after_anything(wire: Wire, raw: bytes) -> None:
    answer = wire.send(raw)
    assert not re.match(rb"HTTP/1\.1 5", answer), answer[:300]
    assert wire.answers()


def test_a_large_body_is_refused_before_it_comes(wire: Wire) -> None:
    raw = (
        b"POST /api/v1/map HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: 99999999\r\n\r\n{"
    )
    assert wire.send(raw, end=False).startswith(b"HTTP/1.1 413 ")


def test_pages_that_listen_and_leave_cost_nothing(wire: Wire) -> None:
    lines = [wire.connect() for _ in range(50)]
    for line in lines:
        line.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: {wire.host}:{wire.port}\r\n\r\n".encode())
    assert all(line.recv(4096).startswith(b"HTTP/1.1 200 ") for line in lines)
    assert wire.answers()
    for line in lines:
        line.close()
    assert wire.answers()


def test_the_sixth_version_of_the_protocol(tmp_path: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this host has no ::1")
    wire = Wire("[::1]:0", tmp_path)
    assert wire.answers()
    wire.close()
