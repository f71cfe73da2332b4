"""The server from start to stop.

Rules kept here:

1. What is going to be done is a value before anything is done (``PagePlan``); ``--dry-run`` prints it.
2. Without a token only this machine itself is answered.
3. How it goes on and ends is ``service.attending``'s.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any

from numawise.apps.overview.sources import SourceCluster, followed_cluster
from numawise.codec.kubeconfig import ClusterAccess
from numawise.errors import HostError, InputError
from numawise.inputs.live import LiveFeed
from numawise.service.attending import ServicePages, attend
from numawise.service.duty import GAUGE, INFO_METRIC, Duty, MetricFamily, MetricName
from numawise.service.entrance import EntranceBounds
from numawise.service.log import INFO, ServiceLog
from numawise.service.own_address import is_own_address
from numawise.service.turns import Turns
from numawise.service.web_server import LOGGERS, WebServer, shown_address
from numawise.values import dataclass
from numawise.web.application import PageApplication
from numawise.web.catalogue import OPERATIONS
from numawise.web.desk import CLUSTER, Desk, Served
from numawise.web.guards import Guards
from numawise.web.watching import LOOK_SECONDS as WATCH_SECONDS
from numawise.web.watching import ServedWatch

LOOK_SECONDS, TELL_SECONDS, MOST_CONNECTIONS = 5.0, 1.0, 1200
HURRY_SECONDS = 1.5
ENTRANCE = EntranceBounds(most=256, of_peer=256)
"""All users of a machine come from one address."""
IDLE_SECONDS = 30
"""A connection that is asked nothing for so long is closed; a page opens another."""
PAGE = MetricName("numawise_page", INFO_METRIC, "The web server and its version.")
LISTENERS = MetricName("numawise_page_listeners", GAUGE, "Pages that listen for changes now.")


@dataclass(frozen=True, slots=True)
class PagePlan:
    """What a server is going to do."""

    served: Served
    host: str = "127.0.0.1"
    port: int = 9801
    names: tuple[str, ...] = ()
    """Further names of the server."""
    token: str = ""
    allow_changes: bool = False
    pages: tuple[str, int] | None = None
    nodes: SourceCluster | None = None
    """Nodes of files."""
    access: ClusterAccess | None = None
    """The cluster that is followed."""

    def check(self) -> None:
        """Rule 2."""
        if not self.token and not is_own_address(self.host):
            raise InputError(
                f"without a token everybody who reaches {self.host} would be answered",
                field="--listen",
                advice="give --token-file, or listen on 127.0.0.1",
            )


class PageServer:
    """The duty that answers browsers."""

    name = "page"

    def __init__(self, plan: PagePlan, desk: Desk, log: ServiceLog) -> None:
        plan.check()
        self.plan, self.desk, self.log = plan, desk, log
        self.bound: tuple[str, int] | None = None
        names = frozenset({*(name.lower() for name in plan.names), plan.host.lower()})
        self.application = PageApplication(desk, Guards(names, plan.token), OPERATIONS, log)
        self._server: WebServer | None = None
        self._turns = Turns()

    async def start(self) -> None:
        """Listen; ``HostError``: that cannot be done."""
        self._server = WebServer(
            self.application, name="page", most=MOST_CONNECTIONS, idle=IDLE_SECONDS, bounds=ENTRANCE
        )
        self.bound = self._server.start(self.plan.host, self.plan.port)
        self.log.say(INFO, "the page is at", address=shown_address("http", self.bound) + "/")

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Look after the thread, and for what changes."""
        return (self._look_after(), self._watch())

    async def _watch(self) -> None:
        watcher = await asyncio.to_thread(ServedWatch, self.desk)
        while True:
            self._turns.turn("watch", WATCH_SECONDS)
            await asyncio.to_thread(watcher.look)
            await asyncio.sleep(WATCH_SECONDS)

    async def _look_after(self) -> None:
        while True:
            self._turns.turn("page", LOOK_SECONDS)
            if self._server is not None and self._server.ended:
                raise HostError("the thread that answers browsers has ended")
            await asyncio.sleep(LOOK_SECONDS)

    async def stop(self) -> None:
        """Answer what was asked, as far as that takes ``HURRY_SECONDS``, and end."""
        self.desk.news.end()
        asyncio.get_running_loop().call_later(HURRY_SECONDS, self.application.hurry)
        if self._server is not None:
            await self._server.stop()
        self.application.close()
        self.desk.close()

    def missing(self) -> Sequence[str]:
        """What is not ready."""
        return () if self._server is not None and self._server.answers else ("page: does not listen yet",)

    def stuck(self) -> Sequence[str]:
        """Loops that do not go on."""
        return self._turns.late()

    def families(self) -> Sequence[MetricFamily]:
        """Its metrics."""
        return (LISTENERS.of(({}, len(self.desk.news))),)


def run(plan: PagePlan, log: ServiceLog) -> int:
    """Serve until a signal ends it."""
    attend(lambda: duties_of(plan, log), ServicePages(PAGE, plan.pages), log, LOGGERS)
    return 0


def duties_of(plan: PagePlan, log: ServiceLog) -> Sequence[Duty]:
    """The duties of a plan, not yet started."""
    feed = LiveFeed(plan.access, log) if plan.access is not None else None
    cluster = plan.nodes if feed is None else followed_cluster(feed)
    desk = Desk(plan.served, log, allow_changes=plan.allow_changes, cluster=cluster)
    page = PageServer(plan, desk, log)
    return (page,) if feed is None else (page, feed, ClusterNews(feed, desk))


class ClusterNews:
    """The duty that tells pages of changes of the cluster: at once, and then not for ``TELL_SECONDS``.

    That something can no longer be followed, or can again, is a change, too.
    """

    name = "cluster news"

    def __init__(self, feed: LiveFeed, desk: Desk) -> None:
        self.feed, self.desk = feed, desk
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._gaps = feed.gaps()
        self._turns = Turns()
        feed.subscribe(self._heard)

    def _heard(self, *_: object) -> None:
        """From a thread of the feed."""
        if self._loop is not None and not self._news.is_set():
            with contextlib.suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._news.set)

    async def start(self) -> None:
        """What was read before anybody listened is news."""
        self._loop = asyncio.get_running_loop()
        self._news.set()

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Tell."""
        return (self._tell(),)

    async def _tell(self) -> None:
        while True:
            self._turns.turn(self.name, 2 * TELL_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TELL_SECONDS):
                    await self._news.wait()
            gaps = self.feed.gaps()
            if self._news.is_set() or gaps != self._gaps:
                self._news.clear()
                self._gaps = gaps
                self.desk.changed(CLUSTER)
                await asyncio.sleep(TELL_SECONDS)

    async def stop(self) -> None:
        """Nothing."""

    def missing(self) -> Sequence[str]:
        """Nothing."""
        return ()

    def stuck(self) -> Sequence[str]:
        """Loops that do not go on."""
        return self._turns.late()

    def families(self) -> Sequence[MetricFamily]:
        """None."""
        return ()
