"""Certificates of two sides: they know each other, and nobody else."""

import socket
import ssl
import threading
from pathlib import Path

from tests import needs

from numawise.host.certificates import CertifiedPair, make_certificates

pytestmark = needs.OPENSSL
NAMES = ("numawise-scheduler.apart.svc", "numawise-scheduler.apart")


def files(folder: Path, name: str, pair: CertifiedPair) -> tuple[Path, Path]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_text(pair.certificate)
    key.write_text(pair.key)
    return certificate, key


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str:
    """What came of a handshake, and of the first words behind it."""
    near, far = socket.socketpair()
    said: list[str] = []

    def serve() -> None:
        try:
            with server.wrap_socket(far, server_side=True) as stream:
                stream.sendall(b"yes")
        except OSError as problem:
            said.append(str(problem))
            far.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(near, server_hostname=name) as stream:
            answer = stream.recv(3).decode() or "ended"
    except OSError as problem:
        answer = str(problem)
    finally:
        near.close()
        thread.join()
    return answer


def test_two_sides_know_each_other(tmp_path: Path) -> None:
    made, others = make_certificates(NAMES, "kube-scheduler"), make_certificates(NAMES, "kube-scheduler")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=made.authority)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(*files(tmp_path, "server", made.server))

    def client(pair: CertifiedPair | None, authority: str = made.authority) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cadata=authority)
        if pair is not None:
            context.load_cert_chain(*files(tmp_path, "client", pair))
        return context

    for name in NAMES:
        assert shaken(server, client(made.client), name) == "yes"
    assert "mismatch" in shaken(server, client(made.client), "another.apart.svc")
    assert "yes" not in shaken(server, client(None), NAMES[0])
    assert "yes" not in shaken(server, client(others.client), NAMES[0])
    assert "yes" not in shaken(server, client(made.server), NAMES[0])  # it is for servers
    assert "verify failed" in shaken(server, client(made.client, others.authority), NAMES[0])
