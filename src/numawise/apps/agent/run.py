"""The agent from start to stop: what it does is worked out once, then its duties go on.

Rules kept here:

1. What is going to be done is a value before anything is done (``AgentPlan``); ``--dry-run`` prints it.
2. SIGTERM and SIGINT end it in order: no more calls, sockets removed, exit status 0.
3. A task that fails by a mistake ends the agent with that error: whoever started it starts it again.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numawise.apps.agent.claimed_devices import slice_devices
from numawise.apps.agent.cluster_view import NodeCluster
from numawise.apps.agent.drift_reports import DriftReports
from numawise.apps.agent.duty import Duty
from numawise.apps.agent.export import ExportPlan, TopologyExport
from numawise.apps.agent.kubelet_sight import ApiView, SightSource
from numawise.apps.agent.log import INFO, AgentLog, LibraryLog
from numawise.apps.agent.node_events import NodeEvents
from numawise.apps.agent.offer_plan import OfferPlan
from numawise.apps.agent.offering import DeviceOffering
from numawise.apps.agent.pages import serve_pages
from numawise.apps.agent.watching import Watcher, WatchPlan
from numawise.codec.kubeconfig import ClusterAccess
from numawise.host.nvml_library import load
from numawise.inputs.gathered import NodeSources
from numawise.kube.client import Cluster
from numawise.kube.grpc import needed
from numawise.kube.writer import ClusterWriter
from numawise.values import dataclass, replace

LIBRARIES = ("grpclib", "asyncio")
LONGEST_STOP = 5.0
"""Seconds that tasks have to end."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What an agent is going to do."""

    offer: OfferPlan | None = None
    listen: tuple[str, int] | None = None
    sources: NodeSources | None = None
    """Where the kubelet is seen, for duties that need that; None: for none."""
    access: ClusterAccess | None = None
    """The API server; None: it is not asked."""
    configz: bool = False
    """Ask the kubelet for its configuration through it."""
    export: ExportPlan | None = None
    watch: WatchPlan | None = None
    instance: str = ""
    """Which agent this is, where several could be."""


def run(plan: AgentPlan, log: AgentLog, *, driver: Callable[[], Any] = load) -> int:
    """Be the agent until a signal ends it."""
    needed()
    handler = LibraryLog(log)
    for name in LIBRARIES:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
    try:
        asyncio.run(_serve(plan, log, driver))
    finally:
        for name in LIBRARIES:
            logging.getLogger(name).removeHandler(handler)
    return 0


def duties_of(plan: AgentPlan, log: AgentLog, driver: Callable[[], Any]) -> Sequence[Duty]:
    """The duties of a plan, not yet started."""
    duties: list[Duty] = []
    offering = DeviceOffering(plan.offer, log, driver) if plan.offer is not None else None
    if offering is not None:
        duties.append(offering)
    if plan.sources is None:
        return duties
    cluster = None
    if plan.access is not None:
        cluster = NodeCluster(plan.access, plan.sources.node, log, configz=plan.configz)
        duties.append(cluster)
    source = SightSource(
        plan.sources,
        plan.sources.node,
        log,
        view=cluster.view if cluster is not None else ApiView,
        configz=cluster.configz if cluster is not None else None,
        own_plugins=offering.own_plugins if offering is not None else dict,
    )
    if cluster is not None:
        cluster.subscribe(source.wake)
    duties.append(source)
    connection = cluster.cluster if cluster is not None else None
    if plan.export is not None and connection is not None:
        writer = ClusterWriter(connection, plan.sources.node, plan.instance)
        duties.append(TopologyExport(plan.export, source, writer, log))
    if plan.watch is not None:
        duties.append(_watcher(plan, plan.watch, source, connection, log))
    return duties


def _watcher(
    plan: AgentPlan, watch: WatchPlan, source: SightSource, cluster: Cluster | None, log: AgentLog
) -> Watcher:
    """The watcher, with a writer of its own: each duty waits for its own calls."""
    if cluster is None or plan.sources is None:
        return Watcher(watch, source, log, DriftReports(log))
    node = plan.sources.node
    events = NodeEvents(ClusterWriter(cluster, node, plan.instance))
    asking = replace(watch, slices=partial(slice_devices, cluster, node))
    return Watcher(asking, source, log, DriftReports(log, events))


async def _serve(plan: AgentPlan, log: AgentLog, driver: Callable[[], Any]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    duties = duties_of(plan, log, driver)
    pages = await serve_pages(*plan.listen, duties) if plan.listen else None
    if pages is not None:
        host, port = pages.sockets[0].getsockname()[:2]
        log.say(INFO, "listening", address=f"{host}:{port}")
    tasks: list[asyncio.Task[None]] = []
    try:
        for duty in duties:
            await duty.start()
        tasks = [asyncio.create_task(one) for duty in duties for one in duty.tasks()]
        ending = asyncio.create_task(stop.wait())
        await _until(ending, tasks)
        log.say(INFO, "stopping")
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LONGEST_STOP)
        for duty in duties:
            await duty.stop()
        if pages is not None:
            pages.close()


async def _until(ending: "asyncio.Task[Any]", tasks: list["asyncio.Task[None]"]) -> None:
    """Wait for a signal; what fails before is raised (rule 3)."""
    waiting: set[asyncio.Task[Any]] = {ending, *tasks}
    while not ending.done():
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {ending}:
            with contextlib.suppress(asyncio.CancelledError):
                task.result()
