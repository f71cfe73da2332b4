"""The agent from start to stop: what it does is worked out once, then its duties go on.

Rules kept here:

1. What is going to be done is a value before anything is done (``AgentPlan``); ``--dry-run`` prints it.
2. How it goes on and ends is ``service.attending``'s: no more calls, sockets removed, exit status 0.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numawise.apps.agent.claimed_devices import slice_devices
from numawise.apps.agent.cluster_view import NodeCluster
from numawise.apps.agent.drift_reports import DriftReports
from numawise.apps.agent.export import ExportPlan, TopologyExport
from numawise.apps.agent.kubelet_sight import ApiView, SightSource
from numawise.apps.agent.node_events import NodeEvents
from numawise.apps.agent.offer_plan import OfferPlan
from numawise.apps.agent.offering import DeviceOffering
from numawise.apps.agent.watching import Watcher, WatchPlan
from numawise.codec.kubeconfig import ClusterAccess
from numawise.extras import needed
from numawise.host.nvml_library import load
from numawise.inputs.gathered import NodeSources
from numawise.kube.client import Cluster
from numawise.kube.writer import ClusterWriter
from numawise.service.attending import ServicePages, attend
from numawise.service.duty import INFO_METRIC, Duty, MetricName
from numawise.service.log import ServiceLog
from numawise.values import dataclass, replace

LIBRARIES = ("grpclib", "lightkube", "xxhash")
"""What it asks for before it begins; the first alone where no API server is asked."""
LOGGERS = ("grpclib",)
AGENT = MetricName("numawise_agent", INFO_METRIC, "The agent and its version.")


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


def run(plan: AgentPlan, log: ServiceLog, *, driver: Callable[[], Any] = load) -> int:
    """Be the agent until a signal ends it."""
    needed("agent", *(LIBRARIES if plan.access is not None else LIBRARIES[:1]))
    attend(lambda: duties_of(plan, log, driver), ServicePages(AGENT, plan.listen), log, LOGGERS)
    return 0


def duties_of(plan: AgentPlan, log: ServiceLog, driver: Callable[[], Any]) -> Sequence[Duty]:
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
    plan: AgentPlan, watch: WatchPlan, source: SightSource, cluster: Cluster | None, log: ServiceLog
) -> Watcher:
    """The watcher, with a writer of its own: each duty waits for its own calls."""
    if cluster is None or plan.sources is None:
        return Watcher(watch, source, log, DriftReports(log))
    node = plan.sources.node
    events = NodeEvents(ClusterWriter(cluster, node, plan.instance).events)
    asking = replace(watch, slices=partial(slice_devices, cluster, node))
    return Watcher(asking, source, log, DriftReports(log, events))
