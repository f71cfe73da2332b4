"""What the agent answers over HTTP: ``/healthz``, ``/readyz`` and ``/metrics``, and nothing else.

Rules kept here:

1. One request a connection, bounded in time and size; whoever asks can change nothing.
2. Healthy is an agent whose loop runs: it would not answer otherwise.  Ready is one whose resources are all
   watched by a kubelet; what is missing is said.
3. Metrics are OpenMetrics text.  Names are in ``METRICS``, which the documentation is compared with.
"""

import asyncio
import contextlib
import resource
from collections import Counter
from collections.abc import Iterable, Sequence

from numawise.apps.agent.plugin import GIVEN, REFUSED, ResourcePlugin
from numawise.errors import HostError
from numawise.version import __version__

PATIENCE, LARGEST = 5.0, 8192
TEXT = "text/plain; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
METRICS = {
    "numawise_agent": ("info", "The agent and its version."),
    "numawise_device_plugin_devices": ("gauge", "Devices by resource, NUMA node and health."),
    "numawise_device_plugin_in_touch": ("gauge", "1: the kubelet took the resource and watches it."),
    "numawise_device_plugin_registrations": ("counter", "Registrations at the kubelet, by outcome."),
    "numawise_device_plugin_calls": ("counter", "Calls of the kubelet, by method and outcome."),
    "numawise_device_plugin_health_changes": ("counter", "Changes of devices' health that were published."),
    "process_cpu_seconds": ("counter", "Seconds of CPU that the agent has used."),
    "process_resident_memory_bytes": ("gauge", "Memory that the agent has now."),
}
METHODS = ("ListAndWatch", "GetPreferredAllocation", "Allocate")
PAGE_SIZE = resource.getpagesize()


async def serve_pages(address: str, port: int, plugins: Sequence[ResourcePlugin]) -> asyncio.Server:
    """Serve the pages; ``HostError``: that address cannot be had."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(page(head.split(b"\r\n", 1)[0].decode("latin-1"), plugins))
                await writer.drain()
        writer.close()

    try:
        return await asyncio.start_server(answer, address, port, limit=LARGEST)
    except OSError as problem:
        raise HostError(
            f"{address}:{port} cannot be listened at: {problem.strerror or problem}",
            "name another with --listen",
        ) from None


def page(request: str, plugins: Sequence[ResourcePlugin]) -> bytes:
    """The answer to a request line."""
    method, _, rest = request.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    kind = TEXT
    if method not in ("GET", "HEAD"):
        status, body = "405 Method Not Allowed", "only GET and HEAD\n"
    elif path == "/healthz":
        status, body = "200 OK", "ok\n"
    elif path == "/readyz":
        missing = [plugin.offer.resource for plugin in plugins if not plugin.in_touch]
        status = "503 Service Unavailable" if missing else "200 OK"
        body = "".join(f"{name}: no kubelet watches it\n" for name in missing) or "ok\n"
    elif path == "/metrics":
        status, body, kind = "200 OK", metrics(plugins), OPEN_METRICS
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


def metrics(plugins: Sequence[ResourcePlugin]) -> str:
    """All metrics as OpenMetrics text."""
    out: list[str] = []

    def family(name: str, rows: Iterable[tuple[dict[str, str], float]], suffix: str = "") -> None:
        kind, words = METRICS[name]
        out.append(f"# TYPE {name} {kind}")
        out.append(f"# HELP {name} {words}")
        for labels, value in rows:
            inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            number = f"{value:.3f}" if value % 1 else str(int(value))
            out.append(f"{name}{suffix}{{{inner}}} {number}" if inner else f"{name}{suffix} {number}")

    family("numawise_agent", [({"version": __version__}, 1)], "_info")
    family("numawise_device_plugin_devices", [row for plugin in plugins for row in _devices(plugin)])
    family(
        "numawise_device_plugin_in_touch",
        [({"resource": plugin.offer.resource}, int(plugin.in_touch)) for plugin in plugins],
    )
    family(
        "numawise_device_plugin_registrations",
        [
            ({"resource": plugin.offer.resource, "outcome": outcome}, plugin.counts["Register", outcome])
            for plugin in plugins
            for outcome in (GIVEN, REFUSED)
        ],
        "_total",
    )
    family(
        "numawise_device_plugin_calls",
        [
            (
                {"resource": plugin.offer.resource, "method": method, "outcome": outcome},
                plugin.counts[method, outcome],
            )
            for plugin in plugins
            for method in METHODS
            for outcome in (GIVEN, REFUSED)
        ],
        "_total",
    )
    family(
        "numawise_device_plugin_health_changes",
        [
            ({"resource": plugin.offer.resource, "to": word}, plugin.counts["health", word])
            for plugin in plugins
            for word in ("bad", "good")
        ],
        "_total",
    )
    usage = resource.getrusage(resource.RUSAGE_SELF)
    family("process_cpu_seconds", [({}, round(usage.ru_utime + usage.ru_stime, 3))], "_total")
    family("process_resident_memory_bytes", [({}, _resident(usage.ru_maxrss))])
    return "\n".join([*out, "# EOF", ""])


def _devices(plugin: ResourcePlugin) -> list[tuple[dict[str, str], float]]:
    counts: Counter[tuple[str, str]] = Counter()
    for device in plugin.listed():
        numa = ",".join(map(str, device.numa)) or "none"
        counts[numa, "healthy" if device.healthy else "unhealthy"] += 1
    name = plugin.offer.resource
    return [
        ({"resource": name, "numa": numa, "health": health}, count)
        for (numa, health), count in sorted(counts.items())
    ]


def _resident(most_kib: int) -> int:
    """Bytes of memory now; where /proc is not mounted, the most there ever were."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:  # noqa: PTH123 - of the kernel
            return int(stream.read().split()[1]) * PAGE_SIZE
    except (OSError, ValueError, IndexError):
        return most_kib * 1024


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
