"""An extender that says yes to all: ``python -m e2e.yes PORT CERTIFICATE KEY``, what ours is measured beside.

It has the same server and the same transport as ours, and decides nothing.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvicorn


class Asked(msgspec.Struct, rename={"names": "NodeNames"}):
    """What a scheduler sends, as far as it is read."""

    names: list[str] | None = None


DECODER = msgspec.json.Decoder(Asked)
ENCODER = msgspec.json.Encoder()
HEADERS = [(b"content-type", b"application/json")]


def answer(path: str, body: bytes) -> bytes:
    """To ``/filter``: all of them; to ``/prioritize``: all alike."""
    names = DECODER.decode(body).names or []
    if path.endswith("/filter"):
        return ENCODER.encode({"Nodes": None, "NodeNames": names, "FailedNodes": {}, "Error": ""})
    return ENCODER.encode([{"Host": name, "Score": 0} for name in names])


async def application(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """One question."""
    if scope["type"] != "http":
        return
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    data = answer(scope["path"], b"".join(parts))
    length = (b"content-length", str(len(data)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, length]})
    await send({"type": "http.response.body", "body": data})


if __name__ == "__main__":
    port, certificate, key = sys.argv[1:]
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=int(port),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="warning",
        access_log=False,
        lifespan="off",
    )
