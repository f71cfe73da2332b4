"""The extender's address: listening, certificates, a thread of its own, and an orderly end.

Rules kept here:

1. It answers in a thread of its own, with a loop of its own: whoever asks for pages is answered meanwhile,
   and the cluster is followed by others.
2. Without certificates it listens on this machine's own addresses alone.
3. At the end no new connection is taken, questions that came are answered, and idle connections are closed.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

from numawise.apps.scheduler.callers import OwnCallers, patient_protocol
from numawise.apps.scheduler.certificates import CertificateFiles, Certificates
from numawise.apps.scheduler.questions import Questions, VerdictCounts
from numawise.apps.scheduler.web import WebQuestions
from numawise.errors import ClusterError, HostError, InputError
from numawise.service.duty import COUNTER, GAUGE, MetricFamily, MetricName
from numawise.service.log import INFO, WARNING, ServiceLog
from numawise.service.own_address import is_own_address
from numawise.service.turns import Turns
from numawise.values import dataclass

EXTRA = "numawise[cluster]"
LOOK_SECONDS = 5.0
"""Between two looks at the files of certificates."""
END_SECONDS = 3
IDLE_SECONDS = 300
"""A connection that is asked nothing for so long is closed; the scheduler keeps its own open."""
MOST_CONNECTIONS = 256
NODES_JUDGED = MetricName(
    "numawise_scheduler_nodes", COUNTER, "Nodes that were judged for a pod, by what came of it."
)
PODS_WITHOUT = MetricName(
    "numawise_scheduler_pods_without_node", COUNTER, "Times that no node was left for a pod."
)
PODS_UNREADABLE = MetricName(
    "numawise_scheduler_pods_unreadable", COUNTER, "Times that a pod could not be read."
)
PROMISES_MADE = MetricName("numawise_scheduler_promises", COUNTER, "Pods that were promised a node.")
PROMISES_NOW = MetricName(
    "numawise_scheduler_promises_now", GAUGE, "Promises that count now: sent to a node, not seen bound."
)
SERVING_METRICS = (NODES_JUDGED, PODS_WITHOUT, PODS_UNREADABLE, PROMISES_MADE, PROMISES_NOW)


@dataclass(frozen=True, slots=True)
class ExtenderAddress:
    """Where questions come in."""

    host: str = "127.0.0.1"
    port: int = 9443
    files: CertificateFiles | None = None
    """None: without encryption."""


def check_address(address: ExtenderAddress) -> None:
    """Rule 2."""
    if address.files is None and not is_own_address(address.host):
        raise InputError(
            f"without a certificate {address.host} would be answered in the clear",
            field="--listen",
            advice="give --tls-cert and --tls-key, or listen on 127.0.0.1",
        )


class Extender:
    """The duty that answers kube-scheduler."""

    name = "extender"

    def __init__(self, address: ExtenderAddress, web: WebQuestions, log: ServiceLog) -> None:
        self.address, self.web, self.log = address, web, log
        self.bound: tuple[str, int] | None = None
        self._certificates: Certificates | None = None
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._turns = Turns()

    @property
    def questions(self) -> Questions:
        """What it answers from."""
        return self.web.questions

    async def start(self) -> None:
        """Listen; ``HostError``: that cannot be done."""
        check_address(self.address)
        files = self.address.files
        self._certificates = Certificates(files) if files is not None else None
        listener = _listener(self.address)
        self.bound = listener.getsockname()[:2]
        self._server = _server(self.web, self._certificates)
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="extender", daemon=True
        )
        self._thread.start()
        scheme = "http" if files is None else "https"
        host, port = self.bound or ("", 0)
        shown = f"[{host}]" if ":" in host else host
        self.log.say(INFO, "answering kube-scheduler", address=f"{scheme}://{shown}:{port}")

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Look after certificates and the thread."""
        return (self._look_after(),)

    async def _look_after(self) -> None:
        while True:
            self._turns.turn("extender", LOOK_SECONDS)
            if self._thread is not None and not self._thread.is_alive():
                raise ClusterError("the thread that answers kube-scheduler has ended")
            if self._certificates is not None:
                try:
                    if self._certificates.refresh():
                        self.log.say(INFO, "new certificates are used")
                        self.log.forget("certificates")
                except HostError as problem:
                    self.log.once("certificates", WARNING, f"{problem}; the old certificates stay")
            await asyncio.sleep(LOOK_SECONDS)

    async def stop(self) -> None:
        """Rule 3."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            await asyncio.to_thread(self._thread.join, END_SECONDS + 2)

    def missing(self) -> Sequence[str]:
        """What is not ready."""
        if self._server is None or not self._server.started:
            return ("extender: does not listen yet",)
        return ()

    def stuck(self) -> Sequence[str]:
        """Loops that do not go on."""
        dead = self._thread is not None and not self._thread.is_alive()
        return (*self._turns.late(), *(["extender: its thread has ended"] if dead else []))

    def families(self) -> Sequence[MetricFamily]:
        """Its metrics."""
        counts: VerdictCounts = self.questions.counts
        judged = {"let-in": counts.let_in, "refused": counts.refused, "kept": counts.kept}
        rows = [({"verdict": word}, count) for word, count in {**judged, "unknown": counts.unknown}.items()]
        return (
            *self.web.families(),
            NODES_JUDGED.of(*rows),
            PODS_WITHOUT.of(({}, counts.no_node)),
            PODS_UNREADABLE.of(({}, counts.unreadable)),
            PROMISES_MADE.of(({}, counts.promised)),
            PROMISES_NOW.of(({}, len(self.questions.view.promises))),
        )


def _listener(address: ExtenderAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Named as TCP: asyncio then switches Nagle off, and no answer waits 40 ms for its second half.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(128)
    except OSError as problem:
        listener.close()
        raise HostError(
            f"{address.host}:{address.port} cannot be listened at: {problem.strerror or problem}",
            "name another with --listen",
        ) from None
    listener.setblocking(False)
    return listener


def needed() -> Any:  # noqa: ANN401 - a module of an extra
    """The server's library; ``ClusterError``: it is not installed."""
    try:
        import httptools  # noqa: PLC0415, F401
        import uvicorn  # noqa: PLC0415
    except ImportError as problem:
        raise ClusterError(f"{problem.name} is not installed", f"pip install '{EXTRA}'") from None
    return uvicorn


def _server(web: WebQuestions, certificates: Certificates | None) -> Any:  # noqa: ANN401
    uvicorn = needed()
    config = uvicorn.Config(
        web if certificates is not None else OwnCallers(web),
        loop="asyncio",
        http=patient_protocol(),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=END_SECONDS,
        limit_concurrency=MOST_CONNECTIONS,
    )
    with contextlib.suppress(AttributeError):
        config.load()
    config.ssl = certificates.context if certificates is not None else None
    return uvicorn.Server(config)
