"""The extender's address: who may be answered there, its certificates, and the server behind it.

Rules kept here:

1. It answers in a thread of its own: the cluster is followed by others.
2. Without certificates it listens on this machine's own addresses alone.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from numawise.apps.scheduler.callers import OwnCallers
from numawise.apps.scheduler.certificates import CertificateFiles, Certificates
from numawise.apps.scheduler.questions import Questions, VerdictCounts
from numawise.apps.scheduler.web import WebQuestions
from numawise.errors import ClusterError, HostError, InputError
from numawise.service.duty import COUNTER, GAUGE, MetricFamily, MetricName
from numawise.service.log import INFO, WARNING, ServiceLog
from numawise.service.own_address import is_own_address
from numawise.service.turns import Turns
from numawise.service.web_server import WebServer, shown_address
from numawise.values import dataclass

LOOK_SECONDS = 5.0
"""Between two looks at the files of certificates."""
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
        self._server: WebServer | None = None
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
        certificates = self._certificates
        self._server = WebServer(
            self.web if certificates is not None else OwnCallers(self.web),
            name="extender",
            ssl=certificates.context if certificates is not None else None,
        )
        self.bound = self._server.start(self.address.host, self.address.port)
        scheme = "http" if files is None else "https"
        self.log.say(INFO, "answering kube-scheduler", address=shown_address(scheme, self.bound))

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Look after certificates and the thread."""
        return (self._look_after(),)

    async def _look_after(self) -> None:
        while True:
            self._turns.turn("extender", LOOK_SECONDS)
            if self._server is not None and self._server.ended:
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
        """Answer what was asked, and end."""
        if self._server is not None:
            await self._server.stop()

    def missing(self) -> Sequence[str]:
        """What is not ready."""
        if self._server is None or not self._server.answers:
            return ("extender: does not listen yet",)
        return ()

    def stuck(self) -> Sequence[str]:
        """Loops that do not go on."""
        dead = self._server is not None and self._server.ended
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
