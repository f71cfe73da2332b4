"""The clusters that the page shows: the one that is served, the example, and dumps that were dropped.

Rules kept here:

1. A dropped dump is known by its content; few are kept, with ``MOST_DROPPED`` nodes and pods in all, and the
   one that nobody asked about for the longest time goes first.  Nobody's dump changes what others see.
2. What was worked out about a cluster is kept with it.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from numawise.apps.overview.board import ClusterBoard
from numawise.apps.overview.sources import MOST_DROPPED, NO_CLUSTER, SourceCluster, dumped, example_cluster
from numawise.apps.why.stuck import StuckPods
from numawise.cluster.live_places import LivePlaces
from numawise.codec.web.given import FileGiven
from numawise.errors import quoted
from numawise.results.cluster_board import BoardSource
from numawise.web.problems import WebProblem

EXAMPLE_ID = "example"
MOST_DUMPS = 4


class ShownCluster:
    """A cluster, and what was worked out about it (rule 2)."""

    def __init__(self, cluster: SourceCluster) -> None:
        self.cluster, self.source = cluster, cluster.source
        self.board = ClusterBoard(
            cluster.view, cluster.clock, lock=cluster.lock, given=cluster.given, remarks=cluster.remarks
        )
        self.stuck = StuckPods(cluster.view, cluster.clock, cluster.lock, cluster.pods)
        self.places = LivePlaces(cluster.view, cluster.lock)


class Clusters:
    """All of them; several threads may ask."""

    def __init__(self, served: SourceCluster | None = None) -> None:
        self._served = ShownCluster(served) if served is not None else None
        self._others: OrderedDict[str, ShownCluster] = OrderedDict()
        self._lock, self._reading = threading.Lock(), threading.Lock()

    @property
    def source(self) -> BoardSource:
        """Where the cluster that is served comes from."""
        return self._served.source if self._served is not None else NO_CLUSTER

    def shown(self, which: str) -> ShownCluster | None:
        """The one that is meant; None: none is served; ``WebProblem``: it is not known."""
        if not which:
            return self._served
        known = self._known(which)
        if known is not None:
            return known
        if which == EXAMPLE_ID:
            return self._keep(which, lambda: example_cluster(EXAMPLE_ID))
        raise WebProblem(404, f"there is no dump {quoted(which)} here any more", "drop it again")

    def drop(self, files: Sequence[FileGiven], paths: Sequence[str]) -> BoardSource:
        """Take dropped dumps."""
        content = hashlib.sha256()
        for number, file in enumerate(files):
            content.update(file.content(f"$.files[{number}]"))
        which = content.hexdigest()[:16]
        name = ", ".join(file.name for file in files[:3]) + (" …" if len(files) > 3 else "")
        return self._keep(which, lambda: dumped(paths, name, which)).source

    def _known(self, which: str) -> ShownCluster | None:
        with self._lock:
            known = self._others.get(which)
            if known is not None:
                self._others.move_to_end(which)
            return known

    def _keep(self, which: str, read: Callable[[], SourceCluster]) -> ShownCluster:
        """Rule 1.  One is read at a time, for two would take twice the memory; who is known does not wait."""
        with self._reading:
            known = self._known(which)
            if known is None:
                known = ShownCluster(read())
                with self._lock:
                    self._others[which] = known
                    while len(self._others) > 1 and self._is_too_much():
                        self._others.popitem(last=False)
            return known

    def _is_too_much(self) -> bool:
        size = sum(one.cluster.size for one in self._others.values())
        return len(self._others) > MOST_DUMPS or size > MOST_DROPPED
