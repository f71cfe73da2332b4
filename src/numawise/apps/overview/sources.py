"""Where the cluster on the page comes from: an API server that is followed, files, or the example.

Rules kept here:

1. Files are what ``numawise nodes --nodes`` takes: dumps of kubectl, or nodes of any other kind, which count
   as they are described.
2. Whatever it comes from, it is one ``LiveCluster`` with a lock, a clock and its pods.
"""

import threading
import time
from collections.abc import Callable, Sequence

from numawise.apps.overview.example import example_objects
from numawise.cluster.live import LiveCluster
from numawise.cluster.live_places import Lock
from numawise.codec.object_list import LARGEST_UNPACKED
from numawise.codec.stamps import second_stamp
from numawise.errors import InputError
from numawise.inputs.cluster import VisibleCluster, followed_remarks
from numawise.inputs.dump import Extent, dumped_cluster, listed_cluster
from numawise.inputs.live import LiveFeed
from numawise.inputs.node_groups import groups_of
from numawise.inputs.spec import NodeSpec
from numawise.kube.client import Object
from numawise.results.cluster_board import BoardSource
from numawise.values import dataclass

MOST_DROPPED = 50_000
LARGEST_DROPPED = 512 << 20
"""Objects of a dropped dump, and bytes of memory that their values take; 8 kB each, as pods usually are."""
CLUSTER, FILES, EXAMPLE, NOTHING = "cluster", "files", "example", "none"
NO_CLUSTER = BoardSource(NOTHING)


@dataclass(frozen=True, slots=True)
class SourceCluster:
    """A cluster that can be looked at (rule 2)."""

    source: BoardSource
    view: LiveCluster
    clock: Callable[[], float]
    lock: Lock
    pods: Callable[[], Sequence[Object]]
    remarks: Callable[[], Sequence[str]] = tuple
    given: bool = False
    """The nodes are those of files, as they describe them."""

    @property
    def size(self) -> int:
        """How many nodes and pods it has."""
        return len(self.view.views) + len(self.pods())


def followed_cluster(feed: LiveFeed) -> SourceCluster:
    """The cluster of an API server, as long as it is followed."""
    source = BoardSource(CLUSTER, feed.cluster.access.server)
    return SourceCluster(source, feed.view, feed.clock, feed.lock, feed.pods, lambda: followed_remarks(feed))


def cluster_of_files(
    paths: Sequence[str],
    spec: NodeSpec,
    name: str,
    number: str = "",
    say: Callable[[str], None] = lambda _: None,
) -> SourceCluster:
    """Nodes of files (rule 1); ``number``: by which it is called."""
    seen = dumped_cluster(paths) if spec == NodeSpec() else None
    if seen is not None:
        return _read_once(BoardSource(FILES, name, second_stamp(seen.now), number), seen)
    view, now = LiveCluster(), time.time()
    for names, node in groups_of(paths, spec, lambda text: say(text) if text else None):
        view.take_given(names, node, now)
    return _read_once(BoardSource(FILES, name, "", number), VisibleCluster(view, now), given=True)


def dumped(paths: Sequence[str], name: str, number: str) -> SourceCluster:
    """A cluster of dropped files, which are dumps."""
    seen = dumped_cluster(paths, extent=Extent(MOST_DROPPED, LARGEST_UNPACKED, LARGEST_DROPPED))
    if seen is None:
        raise InputError(
            "there is no dump of a cluster in it",
            field="files",
            advice="give what kubectl get nodes,pods,noderesourcetopologies -A -o json prints",
        )
    return _read_once(BoardSource(FILES, name, second_stamp(seen.now), number), seen)


def example_cluster(number: str, now: float | None = None, scale: int = 1) -> SourceCluster:
    """The example."""
    moment = time.time() if now is None else now
    seen = listed_cluster(example_objects(moment, scale), moment)
    return _read_once(BoardSource(EXAMPLE, "an example", second_stamp(moment), number), seen)


def _read_once(source: BoardSource, seen: VisibleCluster, *, given: bool = False) -> SourceCluster:
    def clock() -> float:
        return seen.now

    def pods() -> Sequence[Object]:
        return seen.pods

    def remarks() -> Sequence[str]:
        return seen.remarks

    return SourceCluster(source, seen.view, clock, threading.RLock(), pods, remarks, given)
