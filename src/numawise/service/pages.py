"""What a program answers over HTTP: ``/healthz``, ``/readyz`` and ``/metrics``, and nothing else.

Rules kept here:

1. One request a connection, bounded in time and size; whoever asks can change nothing, and keeps nobody else
   out (``entrance``).
2. Healthy is a program whose loop runs (it would not answer otherwise) and none of whose duties is stuck.
   Ready is one whose duties all do what they are for; what is missing is said.
3. Metrics are OpenMetrics text; the program and its version come first.
"""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Sequence

from numawise.service.duty import COUNTER, GAUGE, SUFFIXES, Duty, MetricFamily, MetricName
from numawise.service.entrance import Entrance, EntranceBounds, listening_socket
from numawise.version import __version__

PATIENCE, LARGEST = 5.0, 8192
TEXT = "text/plain; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
CPU_SECONDS = MetricName("process_cpu_seconds", COUNTER, "Seconds of CPU that the program has used.")
RESIDENT = MetricName("process_resident_memory_bytes", GAUGE, "Memory that the program has now.")
OWN_METRICS = (CPU_SECONDS, RESIDENT)
PAGE_SIZE = resource.getpagesize()


def serve_pages(address: str, port: int, about: MetricName, duties: Sequence[Duty]) -> Entrance:
    """Serve the pages; ``HostError``: that address cannot be had."""

    async def answer(stream: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=stream, limit=LARGEST)
        try:
            with contextlib.suppress(asyncio.LimitOverrunError):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(page(head.split(b"\r\n", 1)[0].decode("latin-1"), about, duties))
                await writer.drain()
        finally:
            writer.close()

    return Entrance(listening_socket(address, port), answer, EntranceBounds(seconds=PATIENCE))


def page(request: str, about: MetricName, duties: Sequence[Duty]) -> bytes:
    """The answer to a request line."""
    method, _, rest = request.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    kind = TEXT
    if method not in ("GET", "HEAD"):
        status, body = "405 Method Not Allowed", "only GET and HEAD\n"
    elif path == "/healthz":
        status, body = _judged([line for duty in duties for line in duty.stuck()])
    elif path == "/readyz":
        status, body = _judged([line for duty in duties for line in duty.missing()])
    elif path == "/metrics":
        status, body, kind = "200 OK", metrics(about, duties), OPEN_METRICS
    else:
        status, body = "404 Not Found", "there are /healthz, /readyz and /metrics\n"
    raw = body.encode()
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(raw)}",
        "Connection: close",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode() + (b"" if method == "HEAD" else raw)


def _judged(wrong: Sequence[str]) -> tuple[str, str]:
    """Status and text of a page that is good when nothing is wrong."""
    return (
        ("503 Service Unavailable", "".join(f"{line}\n" for line in wrong)) if wrong else ("200 OK", "ok\n")
    )


def metrics(about: MetricName, duties: Sequence[Duty]) -> str:
    """All metrics as OpenMetrics text (rule 3)."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    families = [
        about.of(({"version": __version__}, 1)),
        *(family for duty in duties for family in duty.families()),
        CPU_SECONDS.of(({}, round(usage.ru_utime + usage.ru_stime, 3))),
        RESIDENT.of(({}, _resident(usage.ru_maxrss))),
    ]
    return "\n".join([*(line for family in families for line in _lines(family)), "# EOF", ""])


def _lines(family: MetricFamily) -> list[str]:
    about = family.about
    name = about.name + SUFFIXES.get(about.kind, "")
    lines = [f"# TYPE {about.name} {about.kind}", f"# HELP {about.name} {about.words}"]
    rows = [*((name, row) for row in family.rows), *((about.name + end, row) for end, row in family.parts)]
    for row_name, (labels, value) in rows:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        number = f"{value:.3f}" if value % 1 else str(int(value))
        lines.append(f"{row_name}{{{inner}}} {number}" if inner else f"{row_name} {number}")
    return lines


def _resident(most_kib: int) -> int:
    """Bytes of memory now; where /proc is not mounted, the most there ever were."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:  # noqa: PTH123 - of the kernel
            return int(stream.read().split()[1]) * PAGE_SIZE
    except (OSError, ValueError, IndexError):
        return most_kib * 1024


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
