"""The PodResources socket: a server that speaks HTTP/2 frame by frame, right and wrong."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from numawise.errors import ClusterError
from numawise.kube.podresources import PREFACE, ask
from tests import needs
from tests.kube.wire import part, varint

Answer = Callable[[socket.socket, bytes], None]


DEVICE = part(1, "x/gpu") + part(2, "g0") + part(3, part(1, part(1, 1)))
CLAIMED = part(1, part(1, "x/gpu=0")) + part(2, "gpu.x") + part(3, "n1") + part(4, "gpu-0")
CLAIM = part(5, part(2, "train-gpu") + part(3, "ml") + part(4, CLAIMED))
CONTAINER = part(1, "c") + part(2, DEVICE) + part(3, varint(2) + varint(300)) + CLAIM + part(9, "new")
LISTED = part(1, part(1, "train") + part(2, "ml") + part(3, CONTAINER))
OFFERED = part(1, DEVICE) + part(1, part(1, "x/nic") + part(2, "n0")) + part(2, varint(2))


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def messages(connection: socket.socket, request: bytes) -> None:
    """Answer as Go's server does: settings, a ping, headers, data in pieces, trailers."""
    message = LISTED if b"/List" in request else OFFERED
    body = b"\0" + struct.pack(">I", len(message)) + message
    connection.sendall(frame(4, 0, b"", 0) + frame(6, 0, b"12345678", 0) + frame(1, 4, b"\x88"))
    for start in range(0, len(body), 7):
        connection.sendall(frame(0, 0, body[start : start + 7]))
    connection.sendall(frame(0, 8, b"\x02\0\0") + frame(1, 5, b"\x88"))


def refused(connection: socket.socket, request: bytes) -> None:
    if b"/List" in request:
        messages(connection, request)
    else:
        connection.sendall(frame(4, 0, b"", 0) + frame(1, 5, b"\x88"))


def silent(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def reset(connection: socket.socket, _: bytes) -> None:
    connection.sendall(frame(3, 0, b"\0\0\0\1"))


def cut(connection: socket.socket, _: bytes) -> None:
    connection.sendall(frame(0, 1, b"\0\0\0\0\x09abc"))


@contextmanager
def kubelet(path: Path, answer: Answer) -> Iterator[str]:
    """A server that takes two calls."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    request = b""
                    while not request.endswith(b"\0" * 5):
                        request += connection.recv(65536)
                    assert request.startswith(PREFACE)
                    answer(connection, request)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield str(path)
        thread.join(30)


@needs.PROC
def test_a_socket_with_a_long_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.chdir(folder)
    with kubelet(Path("s"), messages):
        answers, problems = ask(str(folder / "s"))
    assert sorted(answers) == ["Allocatable", "List"]
    assert problems == ()


def test_both_calls(tmp_path: Path) -> None:
    with kubelet(tmp_path / "s", messages) as path:
        answers, problems = ask(path)
    topology = {"nodes": [{"ID": 1}]}
    device = {"resourceName": "x/gpu", "deviceIds": ["g0"], "topology": topology}
    claimed = {"driverName": "gpu.x", "poolName": "n1", "deviceName": "gpu-0"}
    claim = {"claimName": "train-gpu", "claimNamespace": "ml", "claimResources": [claimed]}
    assert problems == ()
    assert answers == {
        "List": {
            "podResources": [
                {
                    "name": "train",
                    "namespace": "ml",
                    "containers": [
                        {
                            "name": "c",
                            "devices": [device],
                            "cpuIds": [2, 300],
                            "memory": [],
                            "dynamicResources": [claim],
                        }
                    ],
                }
            ]
        },
        "Allocatable": {
            "devices": [device, {"resourceName": "x/nic", "deviceIds": ["n0"]}],
            "cpuIds": [2],
            "memory": [],
        },
    }


def test_a_kubelet_without_the_second_call(tmp_path: Path) -> None:
    with kubelet(tmp_path / "s", refused) as path:
        answers, problems = ask(path)
    assert list(answers) == ["List"]
    assert "GetAllocatableResources" in problems[0]
    assert "refused the call" in problems[0]


@pytest.mark.parametrize(("answer", "message"), [
    (silent, "does not speak gRPC"),
    (reset, "ended the call"),
    (cut, "cut off"),
])  # fmt: skip
def test_what_is_no_kubelet(tmp_path: Path, answer: Answer, message: str) -> None:
    with kubelet(tmp_path / "s", answer) as path, pytest.raises(ClusterError, match=message):
        ask(path)


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cannot be asked: No such file"):
        ask(str(tmp_path / "none"))
