"""Callers that mean harm: the extender answers kube-scheduler all the same."""

import contextlib
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from numawise.codec.extender import LARGEST_BODY, MOST_VALUES
from numawise.host.certificates import make_certificates
from numawise.service.web_server import LARGEST_HEAD, MOST_CONNECTIONS
from tests import needs
from tests.kube.extenders import Extender, extender
from tests.kube.server import serving
from tests.kube.test_scheduler import question, refused, state
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    """One for all tests here: it answers after whatever was done to it."""
    with serving(state("a")) as server, extender(tmp_path_factory.mktemp("asked"), server) as running:
        running.ready()
        yield running


def connected(running: Extender) -> socket.socket:
    parts = urlsplit(running.address)
    assert parts.hostname
    return socket.create_connection((parts.hostname, parts.port or 0), PATIENCE)


def answers(running: Extender) -> bool:
    return bool(running.ask("filter", question("p", 4, "a"))["NodeNames"] == ["a"])


@pytest.mark.parametrize("said", [
    pytest.param(b"",                                                          id="nothing"),
    pytest.param(b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",      id="half a head"),
    pytest.param(b"GET /capacity HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /fi", id="half of a second head"),
])  # fmt: skip
def test_a_head_that_never_ends_is_waited_for_in_vain(asked: Extender, said: bytes) -> None:
    with connected(asked) as stream:
        stream.sendall(said)
        assert answers(asked)
        while stream.recv(65536):  # until it is closed; socket.timeout otherwise
            pass
    assert answers(asked)


def test_a_head_without_end_is_cut(asked: Extender) -> None:
    with connected(asked) as stream:
        stream.sendall(b"POST /filter HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for number in range(LARGEST_HEAD):
                stream.sendall(b"X-%d: %s\r\n" % (number, b"a" * 1000))
            pytest.fail("64 MB of head were taken")
    assert answers(asked)


def test_connections_that_say_nothing_do_not_keep_the_scheduler_out(asked: Extender) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connected(asked)) for _ in range(MOST_CONNECTIONS + 20)]
        for stream in idle:  # each is closed by the other side
            with contextlib.suppress(ConnectionError):
                while stream.recv(4096):
                    pass
        assert answers(asked)


@pytest.mark.parametrize("body", [
    pytest.param(b'{"Pod":{"metadata":{"uid":"u"},"spec":{"containers":[%s{}]}},"NodeNames":["a"]}', id="containers"),
    pytest.param(b'{"Pod":{"metadata":{"uid":"u"}},"Nodes":{"items":[%s{}]}}',                       id="nodes"),
])  # fmt: skip
def test_a_body_of_empty_objects_is_refused_by_their_number(asked: Extender, body: bytes) -> None:
    status, text = asked.raw("filter", body % (b"{}," * (MOST_VALUES // 2)))
    assert status == 413
    assert f"values, and at most {MOST_VALUES} may be" in json.loads(text)["Error"]
    assert answers(asked)


def test_a_body_that_is_too_large_is_told_so(asked: Extender) -> None:
    status, text = asked.raw("filter", b" " * (LARGEST_BODY + 1))
    assert status == 413
    assert (
        "larger than 8 MiB; let the scheduler send names of nodes (nodeCacheCapable: true)"
        in json.loads(text)["Error"]
    )
    assert answers(asked)


def test_a_pod_of_thousands_of_containers_is_not_judged(asked: Extender) -> None:
    pod = question("p", 4, "a")
    before = asked.metric("numawise_scheduler_pods_unreadable_total")
    pod["Pod"]["spec"]["containers"] += [{"name": f"c{number}"} for number in range(10_000)]
    assert asked.ask("filter", pod)["NodeNames"] == ["a"]
    assert int(asked.metric("numawise_scheduler_pods_unreadable_total")) == int(before) + 1
    assert asked.ask("prioritize", pod) == [{"Host": "a", "Score": 0}]
    status, text = asked.raw("capacity", json.dumps(pod["Pod"]).encode())
    assert (status, "at most 256 are looked at" in text.decode()) == (400, True)


def test_a_body_that_stops_keeps_nobody_waiting(asked: Extender) -> None:
    with connected(asked) as stream:
        stream.sendall(b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        assert answers(asked)
        assert stream.recv(65536).startswith(b"HTTP/1.1 408 ")
    assert answers(asked)


def test_a_body_in_pieces_that_never_ends_is_refused(asked: Extender) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(asked) as stream, contextlib.suppress(ConnectionError):
        stream.sendall(head)
        for _ in range(300):
            stream.sendall(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
        pytest.fail("300 MB were taken")
    assert answers(asked)


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "capacity"])
@pytest.mark.parametrize("body", [
    pytest.param(b"[" * 700_000,                                   id="deep list"),
    pytest.param(b'{"Pod":' * 300_000,                             id="deep object"),
    pytest.param(b'{"Pod":{"metadata":{"annotations":' + b'{"a":' * 50_000, id="deep inside a pod"),
    pytest.param(b'{"Pod": ' + b"9" * 1_000_000 + b"}",            id="a long number"),
])  # fmt: skip
def test_strange_bodies_are_answered(asked: Extender, verb: str, body: bytes) -> None:
    status, text = asked.raw(verb, body)
    assert status in (200, 400)
    assert json.loads(text)
    assert answers(asked)


@pytest.mark.parametrize(("headers", "status"), [
    ({"Host": "127.0.0.1:9443"},                                  200),
    ({"Host": "localhost"},                                       200),
    ({"Host": "[::1]:9443"},                                      200),
    ({"Host": "rebound.example.com"},                             403),
    ({"Host": "10.0.0.1:9443"},                                   403),
    ({"Host": "127.0.0.1", "Origin": "https://page.example.com"}, 403),
    ({"Host": "127.0.0.1", "Origin": "null"},                     403),
])  # fmt: skip
def test_pages_of_a_browser_are_not_answered(asked: Extender, headers: dict[str, str], status: int) -> None:
    with contextlib.closing(asked.connection()) as connection:
        connection.request("GET", "/capacity", None, headers)
        assert connection.getresponse().status == status


@needs.OPENSSL
def test_with_certificates_as_the_manifest_has_them(tmp_path: Path) -> None:
    made = make_certificates(("numawise-scheduler.numawise.svc",), "kube-scheduler")
    texts = {
        "ca.crt": made.authority, "tls.crt": made.server.certificate, "tls.key": made.server.key,
        "client.crt": made.client.certificate, "client.key": made.client.key,
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    words = [
        "--tls-cert",
        f"{tmp_path}/tls.crt",
        "--tls-key",
        f"{tmp_path}/tls.key",
        "--client-ca",
        f"{tmp_path}/ca.crt",
    ]
    with serving(state("a")) as server, extender(tmp_path, server, *words) as running:
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        trust.check_hostname = False  # the name is of the cluster, and the address of this machine
        trust.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
        running.trust = trust
        running.ready()
        assert answers(running)
        with connected(running) as silent:  # a handshake that never comes
            assert answers(running)
            silent.sendall(b"GET /capacity HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert b"200" not in silent.recv(4096)
        for name in ("client.crt", "tls.crt"):
            stranger = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
            stranger.check_hostname = False
            if name == "tls.crt":  # a server's certificate makes no client
                stranger.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
            assert refused(running, stranger)
        assert answers(running)
