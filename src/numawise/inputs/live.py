"""The cluster as it is, from an API server: read once, or followed for ever.

Rules kept here:

1. Nodes, pods and NodeResourceTopologies are listed, then followed, each in a thread of its own
   (``kube.following``): an ended watch, a version that is gone, a server that restarts or refuses changes
   what is missing, never what is known.
2. All of it goes into one ``LiveCluster`` under ``lock``; whoever asks it holds that lock.
3. A server without NodeResourceTopologies is said once; everything else goes on, and it is asked again from
   time to time.
4. Of each object that is kept which decides (``codec.cluster_pod``); of a NodeResourceTopology its name, so
   that those who are told of changes see it whole as it is and by name as it was.
5. Once everything was read, all states are worked out, and what is there is taken out of the reach of the
   garbage collector, which would go through a million values now and then, a second long.
"""

import asyncio
import gc
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from numawise.cluster.live import LiveCluster, LiveSettings
from numawise.codec.cluster_pod import PodReading
from numawise.codec.document import mapping
from numawise.codec.kubeconfig import ClusterAccess
from numawise.codec.objects import unmanaged
from numawise.kube.calls import NotServed, as_it_is, listed
from numawise.kube.client import NODES, PODS, TOPOLOGIES, ApiRefused, Cluster, Object
from numawise.kube.following import Change, FollowedObjects
from numawise.results.node_room import CONSERVATIVE, EXACT, UNKNOWN
from numawise.service.duty import GAUGE, MetricFamily, MetricName
from numawise.service.log import WARNING, ServiceLog
from numawise.values import dataclass

NODE, POD, TOPOLOGY = "Node", "Pod", "NodeResourceTopology"
NODES_KNOWN = MetricName(
    "numawise_cluster_nodes", GAUGE, "Nodes, by how their answers are known: exact, conservative, unknown."
)
PODS_KNOWN = MetricName("numawise_cluster_pods", GAUGE, "Pods that the API server lists.")
FEED_METRICS = (NODES_KNOWN, PODS_KNOWN)
FIRST_ANSWER = 3.0
NODE_LISTS = ("images", "volumesInUse", "volumesAttached")
"""Parts of the status of a Node object that decide nothing."""
Heard = Callable[[str, Object | None, Object | None], None]
"""Told of a change: kind of object, as it was, as it is; None: it is not there."""


@dataclass(frozen=True, slots=True)
class FeedGap:
    """A list that was not read yet, or that is no longer followed."""

    what: str
    """``list nodes``."""
    problem: str
    """'': it is being read."""
    since: float | None
    """What is known of it may be old since then; None: nothing is known of it."""
    served: bool
    """False: the server has no such list."""


class LiveFeed:
    """Follows a cluster; a duty of a program."""

    name = "cluster"

    def __init__(
        self,
        access: ClusterAccess,
        log: ServiceLog,
        settings: LiveSettings = LiveSettings(),  # noqa: B008 - a frozen value
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.cluster, self.log, self.clock = Cluster(access), log, clock
        self.view = LiveCluster(settings)
        self.lock = threading.RLock()
        self._heard: list[Heard] = []
        self._known: set[str] = set()
        """Kinds of objects that were read once."""
        self._lost: dict[str, float] = {}
        """Since when those of them that are known are no longer followed."""
        slim = PodReading().slim
        self._followed = {
            NODE: self._follow(NODE, NODES, slim_node),
            POD: self._follow(POD, PODS, slim),
            TOPOLOGY: self._follow(TOPOLOGY, TOPOLOGIES[0], slim_topology, named),
        }
        self._followed[TOPOLOGY].paths = TOPOLOGIES

    def subscribe(self, heard: Heard) -> None:
        """Call this, from a thread, after each change that the view has taken."""
        self._heard.append(heard)

    def synced(self) -> bool:
        """Whether everything that the server has was read, and is being followed."""
        return not self.missing()

    def was_synced(self) -> bool:
        """Whether everything was read once; what is known stays, also while the server is away."""
        return all(
            kind in self._known or (kind == TOPOLOGY and not followed.served)
            for kind, followed in self._followed.items()
        )

    def pods(self) -> tuple[Object, ...]:
        """All pods, as far as they decide; none while they were not read."""
        return self._followed[POD].objects or ()

    # --- a duty ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to follow."""
        for followed in self._followed.values():
            followed.start()
        for followed in self._followed.values():
            await asyncio.to_thread(followed.wait, FIRST_ANSWER)

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """None: threads follow."""
        return ()

    async def stop(self) -> None:
        """Follow no more."""
        for followed in self._followed.values():
            followed.stop()

    def missing(self) -> Sequence[str]:
        """What is not read yet, or may be old; what the server does not have is not missed."""
        return [gap.problem or f"{gap.what}: not answered yet" for gap in self.gaps() if gap.served]

    @property
    def problem(self) -> str:
        """Why a list that the server has cannot be read; '': all were, or are not answered yet."""
        return next((gap.problem for gap in self.gaps() if gap.served and gap.problem), "")

    def gaps(self) -> tuple[FeedGap, ...]:
        """The lists that are not read yet, or no longer followed."""
        return tuple(
            FeedGap(
                followed.what,
                followed.problem,
                self._lost.setdefault(kind, self.clock()) if kind in self._known else None,
                followed.served or kind != TOPOLOGY,
            )
            for kind, followed in self._followed.items()
            if not followed.synced
        )

    def stuck(self) -> Sequence[str]:
        """Nothing: a server that is gone is no reason to restart."""
        return ()

    def families(self) -> Sequence[MetricFamily]:
        """How many nodes and pods are known, and how."""
        with self.lock:
            known = Counter(self.view.views[name].how for name in self.view.names)
            pods = len(self.view.pods)
        return (
            NODES_KNOWN.of(*(({"how": how}, known[how]) for how in (EXACT, CONSERVATIVE, UNKNOWN))),
            PODS_KNOWN.of(({}, pods)),
        )

    # --- inside ---------------------------------------------------------------------------------

    def _follow(
        self,
        kind: str,
        path: str,
        slim: Callable[[Object], Object],
        remembered: Callable[[Object], Object] = as_it_is,
    ) -> FollowedObjects:
        what = f"list {path.rpartition('/')[2]}"

        def took(changes: Sequence[Change]) -> None:
            self._take(kind, changes)

        def changed() -> None:
            self._say(kind)

        return FollowedObjects(
            self.cluster, path, what, {}, changed, never, took=took, slim=slim, remembered=remembered
        )

    def _take(self, kind: str, changes: Sequence[Change]) -> None:
        with self.lock:
            now = self.clock()
            for before, after in changes:
                take(self.view, kind, before, after, now)
        for heard in self._heard:
            for before, after in changes:
                heard(kind, before, after)

    def _make_ready(self) -> None:
        """Rule 5."""
        with self.lock:
            self.view.refresh(self.clock())
        gc.collect()
        gc.freeze()

    def _say(self, kind: str) -> None:
        if self._followed[kind].synced:
            ready = self.was_synced()
            self._known.add(kind)
            self._lost.pop(kind, None)
            if kind == NODE:
                with self.lock:
                    self.view.nodes_were_read()
            if not ready and self.was_synced():
                self._make_ready()
        elif kind in self._known:
            self._lost.setdefault(kind, self.clock())
        problem = self._followed[kind].problem
        if problem:
            self.log.once(f"{self.name} {kind}", WARNING, problem)
        else:
            self.log.forget(f"{self.name} {kind}")


def never(_: Object | None, __: Object | None) -> bool:
    """Changes of objects are told elsewhere."""
    return False


def take(view: LiveCluster, kind: str, before: Object | None, after: Object | None, now: float) -> None:
    """Let a view have a change."""
    value = after if after is not None else before
    if value is None:
        return
    if kind == POD:
        view.take_pod(value, now, gone=after is None)
        return
    name = str(mapping(value.get("metadata")).get("name") or "")
    if kind == NODE:
        view.take_node(name, after, now)
    else:
        view.take_topology(name, after, now)


def live_cluster(
    cluster: Cluster,
    now: float,
    settings: LiveSettings = LiveSettings(),  # noqa: B008 - a frozen value
    *,
    refused: Callable[[ApiRefused], None] | None = None,
    seen: Callable[[str, Object], None] = lambda _kind, _value: None,
) -> LiveCluster:
    """Everything of a cluster, read once.

    ``refused``: called for what may not be seen, which is left out then; without it that is an error.
    ``seen``: called for each object, with its kind.
    """
    view = LiveCluster(settings)

    def read(kind: str, path: str, slim: Callable[[Object], Object]) -> None:
        try:
            values = listed(cluster, path, f"list {path.rpartition('/')[2]}", {}, slim)[0]
        except ApiRefused as problem:
            if refused is None:
                raise
            refused(problem)
            return
        for value in values:
            take(view, kind, None, value, now)
            seen(kind, value)
        if kind == NODE:
            view.nodes_were_read()

    read(NODE, NODES, slim_node)
    read(POD, PODS, PodReading().slim)
    for path in TOPOLOGIES:
        try:
            read(TOPOLOGY, path, slim_topology)
        except NotServed:
            continue
        break
    return view


def slim_node(value: Object) -> Object:
    """A Node object without what decides nothing: images, managers, volumes."""
    status = mapping(value.get("status"))
    return {
        "metadata": unmanaged(value)["metadata"],
        "spec": mapping(value.get("spec")),
        "status": {key: part for key, part in status.items() if key not in NODE_LISTS},
    }


def slim_topology(value: Object) -> Object:
    """A NodeResourceTopology as its node wrote it; of its managers the times alone."""
    metadata = mapping(value.get("metadata"))
    rows = metadata.get("managedFields")
    times = [{"time": mapping(row).get("time")} for row in (rows if isinstance(rows, list) else ())]
    return {**value, "metadata": {**metadata, "managedFields": times}}


def named(value: Object) -> Object:
    """What is remembered of an object whose content nobody asks for again: name, uid and version."""
    metadata = mapping(value.get("metadata"))
    return {"metadata": {key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata}}
