"""Ask a kubelet on its PodResources socket: two calls of gRPC, with nothing but the standard library.

Rules kept here:

1. One call is one connection: HTTP/2 with prior knowledge, one stream, one message each way.  Headers are
   sent as plain literals and not read: a call that failed is known by the message that does not come.
2. Everything is bounded: time, bytes, and the depth of messages.
3. Of the messages those fields are read that ``codec.podresources`` knows, and given as protobuf's JSON form.
"""

import os
import socket
import struct
import time

from numawise.errors import ClusterError
from numawise.kube.protobuf import NUMBER, NUMBERS, TEXT, TEXTS, Json, Message, Single, decoded

SERVICE = "v1.PodResourcesLister"
LIST, ALLOCATABLE = "List", "GetAllocatableResources"
SOCKET = "pod-resources/kubelet.sock"
"""Below the kubelet's directory."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
ACKNOWLEDGED, END_STREAM, END_HEADERS, PADDED = 1, 1, 4, 8
NO_TABLE, INITIAL_WINDOW = 1, 4
LARGEST_WINDOW, FIRST_WINDOW = 2**31 - 1, 65535
LARGEST, PATIENCE, STREAM = 32 << 20, 10.0, 1
LONGEST_NAME = 107
"""Bytes that the kernel takes as the name of a socket."""


def ask(path: str) -> tuple[Json, tuple[str, ...]]:
    """What the socket answers, by call, in protobuf's JSON form; and what went wrong with other calls.

    ``ClusterError``: nobody answers there at all.
    """
    return PodResourcesSocket(path).ask()


class PodResourcesSocket:
    """A socket that is asked again and again; what comes again, an answer or a pod in it, is read once."""

    def __init__(self, path: str, patience: float = PATIENCE) -> None:
        self.path, self.patience = path, patience
        self._last: dict[str, tuple[bytes, Json]] = {}
        self._pods: dict[bytes, Json] = {}

    def ask(self) -> tuple[Json, tuple[str, ...]]:
        """As ``ask``; an answer that is the same object is the same answer."""
        answers: Json = {}
        problems = []
        for call, name, message in ((LIST, "List", LISTED), (ALLOCATABLE, "Allocatable", OFFERED)):
            try:
                raw = _called(self.path, f"/{SERVICE}/{call}", self.patience)
                if name not in self._last or self._last[name][0] != raw:
                    known = self._pods if message is LISTED else None
                    self._last[name] = (raw, decoded(raw, message, known))
                answers[name] = self._last[name][1]
            except ClusterError as problem:
                problems.append(f"{call}: {problem.message}")
        if not answers:
            raise ClusterError(problems[0])
        return answers, tuple(problems)


def held_devices(path: str) -> dict[str, frozenset[str]]:
    """Resource → the devices that containers have; ``ClusterError``: nobody says."""
    answer = decoded(_called(path, f"/{SERVICE}/{LIST}"), LISTED)
    held: dict[str, set[str]] = {}
    for pod in answer["podResources"]:
        for container in pod["containers"]:
            for devices in container["devices"]:
                held.setdefault(devices.get("resourceName", ""), set()).update(devices["deviceIds"])
    return {resource: frozenset(ids) for resource, ids in held.items()}


# --- the call -------------------------------------------------------------------------------------


def _called(path: str, method: str, patience: float = PATIENCE) -> bytes:
    """The message that a call without arguments is answered with."""
    deadline = time.monotonic() + patience
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(patience)
            _connect(connection, path)
            connection.sendall(_request(method))
            return _message(_body(connection, deadline))
    except TimeoutError:
        raise ClusterError(f"{path} does not answer within {patience:.0f} seconds") from None
    except OSError as problem:
        raise ClusterError(f"{path} cannot be asked: {problem.strerror or problem}") from None
    except ValueError as problem:
        raise ClusterError(f"{path}: {problem}") from None


def _connect(connection: socket.socket, path: str) -> None:
    """Connect; to a long name by way of its folder, because the kernel takes short ones alone."""
    if len(os.fsencode(path)) <= LONGEST_NAME:
        connection.connect(path)
        return
    folder, _, name = path.rpartition("/")
    opened = os.open(
        folder or ("/" if path.startswith("/") else "."), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    )
    try:
        connection.connect(f"/proc/self/fd/{opened}/{name}")
    finally:
        os.close(opened)


def _request(method: str) -> bytes:
    settings = struct.pack(">HIHI", NO_TABLE, 0, INITIAL_WINDOW, LARGEST_WINDOW)
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": method,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    packed = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())
    return b"".join(
        (
            PREFACE,
            _frame(SETTINGS, 0, settings, 0),
            _frame(WINDOW, 0, struct.pack(">I", LARGEST_WINDOW - FIRST_WINDOW), 0),
            _frame(HEADERS, END_HEADERS, packed),
            _frame(DATA, END_STREAM, b"\0" * 5),
        )
    )


def _text(text: str) -> bytes:
    raw = text.encode()
    return bytes((len(raw),)) + raw  # all of them are shorter than 127 bytes


def _frame(kind: int, flags: int, payload: bytes, stream: int = STREAM) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _body(connection: socket.socket, deadline: float) -> bytes:
    """All data of our stream, until the server has ended it."""
    body = bytearray()
    while time.monotonic() < deadline:
        head = _exactly(connection, 9)
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        payload = _exactly(connection, int.from_bytes(head[:3], "big"))
        if kind == SETTINGS and not flags & ACKNOWLEDGED:
            connection.sendall(_frame(SETTINGS, ACKNOWLEDGED, b"", 0))
        elif kind == PING and not flags & ACKNOWLEDGED:
            connection.sendall(_frame(PING, ACKNOWLEDGED, payload, 0))
        elif kind == GO_AWAY or (kind == RESET and stream == STREAM):
            raise ValueError("it ended the call without an answer")
        elif stream & LARGEST_WINDOW == STREAM and kind in (DATA, HEADERS):
            if kind == DATA:
                body += payload[1 : len(payload) - payload[0]] if flags & PADDED else payload
            if len(body) > LARGEST:
                raise ValueError(f"it answers with more than {LARGEST >> 20} MiB")
            if flags & END_STREAM:
                return bytes(body)
    raise TimeoutError


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        piece = connection.recv(size - len(parts))
        if not piece:
            raise ValueError("it does not speak gRPC, or closed the connection")
        parts += piece
    return bytes(parts)


def _message(body: bytes) -> bytes:
    if len(body) < 5:
        raise ValueError("it refused the call; the kubelet may be too old for it")
    compressed, size = struct.unpack(">BI", body[:5])
    if compressed or len(body) != size + 5:
        raise ValueError("its answer is cut off or compressed")
    return body[5:]


# --- messages -------------------------------------------------------------------------------------

_NODE = Message({1: ("ID", NUMBER)})
_TOPOLOGY = Single(Message({1: ("nodes", _NODE)}))
_DEVICES = Message({1: ("resourceName", TEXT), 2: ("deviceIds", TEXTS), 3: ("topology", _TOPOLOGY)})
_MEMORY = Message({1: ("memoryType", TEXT), 2: ("size", NUMBER), 3: ("topology", _TOPOLOGY)})
_CLAIMED = Message({2: ("driverName", TEXT), 3: ("poolName", TEXT), 4: ("deviceName", TEXT)})
_CLAIM = Message({2: ("claimName", TEXT), 3: ("claimNamespace", TEXT), 4: ("claimResources", _CLAIMED)})
_CONTAINER = Message(
    {
        1: ("name", TEXT),
        2: ("devices", _DEVICES),
        3: ("cpuIds", NUMBERS),
        4: ("memory", _MEMORY),
        5: ("dynamicResources", _CLAIM),
    }
)
_POD = Message({1: ("name", TEXT), 2: ("namespace", TEXT), 3: ("containers", _CONTAINER)})
LISTED = Message({1: ("podResources", _POD)})
OFFERED = Message({1: ("devices", _DEVICES), 2: ("cpuIds", NUMBERS), 3: ("memory", _MEMORY)})
