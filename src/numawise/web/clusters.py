"""The clusters that the page shows: the one that is served, the example, and dumps that were dropped.

Rules kept here:

1. A dropped dump is known by its content; of each person few are kept, with ``MOST_DROPPED`` nodes and pods
   in all, and the one that nobody asked about for the longest time goes first.  Nobody's dump changes what
   others see, or takes the place of theirs.
2. All people together have room for ``TIMES`` as much.  Once it is full, dumps that nobody asked about for
   ``IDLE_SECONDS`` go, and without any a further one is refused.
3. What was worked out about a cluster is kept with it.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

from numawise.apps.overview.board import ClusterBoard
from numawise.apps.overview.sources import MOST_DROPPED, NO_CLUSTER, SourceCluster, dumped, example_cluster
from numawise.apps.why.stuck import StuckPods
from numawise.cluster.live_places import LivePlaces
from numawise.codec.web.given import FileGiven
from numawise.errors import quoted
from numawise.results.cluster_board import BoardSource
from numawise.values import dataclass
from numawise.web.problems import WebProblem

EXAMPLE_ID = "example"
MOST_DUMPS, TIMES, IDLE_SECONDS = 4, 2, 900.0


class ShownCluster:
    """A cluster, and what was worked out about it (rule 3)."""

    def __init__(self, cluster: SourceCluster) -> None:
        self.cluster, self.source = cluster, cluster.source
        self.board = ClusterBoard(
            cluster.view, cluster.clock, lock=cluster.lock, given=cluster.given, remarks=cluster.remarks
        )
        self.stuck = StuckPods(cluster.view, cluster.clock, cluster.lock, cluster.pods)
        self.places = LivePlaces(cluster.view, cluster.lock)


class Clusters:
    """All of them; several threads may ask."""

    def __init__(
        self, served: SourceCluster | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._served = ShownCluster(served) if served is not None else None
        self._example: ShownCluster | None = None
        self._dumps: OrderedDict[str, _Dump] = OrderedDict()
        self._lock, self._reading = threading.Lock(), threading.Lock()

    @property
    def source(self) -> BoardSource:
        """Where the cluster that is served comes from."""
        return self._served.source if self._served is not None else NO_CLUSTER

    def shown(self, which: str) -> ShownCluster | None:
        """The one that is meant; None: none is served; ``WebProblem``: it is not known."""
        if not which:
            return self._served
        if which == EXAMPLE_ID:
            if self._example is None:
                with self._reading:
                    self._example = self._example or ShownCluster(example_cluster(EXAMPLE_ID))
            return self._example
        known = self._known(which)
        if known is not None:
            return known
        raise WebProblem(404, f"there is no dump {quoted(which)} here any more", "drop it again")

    def drop(self, files: Sequence[FileGiven], paths: Sequence[str], who: str = "") -> BoardSource:
        """Take somebody's dropped dumps; ``WebProblem``: there is no room (rule 2)."""
        content = hashlib.sha256()
        for number, file in enumerate(files):
            content.update(file.content(f"$.files[{number}]"))
        which = content.hexdigest()[:16]
        name = ", ".join(file.name for file in files[:3]) + (" …" if len(files) > 3 else "")
        return self._keep(which, who, lambda: dumped(paths, name, which)).source

    def _known(self, which: str, who: str | None = None) -> ShownCluster | None:
        with self._lock:
            dump = self._dumps.get(which)
            if dump is None:
                return None
            dump.asked = self._clock()
            self._dumps.move_to_end(which)
            if who is not None:
                dump.people.add(who)
                self._forget_own(who)
            return dump.shown

    def _keep(self, which: str, who: str, read: Callable[[], SourceCluster]) -> ShownCluster:
        """One is read at a time, for two would take twice the memory; who is known does not wait."""
        with self._reading:
            shown = self._known(which, who)
            if shown is None:
                self._make_room(1, who)
                shown = ShownCluster(read())
                self._make_room(shown.cluster.size, who)
                with self._lock:
                    self._dumps[which] = _Dump(shown, {who}, self._clock())
                    self._forget_own(who)
            return shown

    def _forget_own(self, who: str) -> None:
        """Rule 1."""
        own = [which for which, dump in self._dumps.items() if who in dump.people]
        while len(own) > 1 and self._is_too_much(own, 1):
            self._let_go(own.pop(0), who)

    def _make_room(self, size: int, who: str) -> None:
        """Rule 2; somebody's own dumps go for a further one, and are no reason to refuse it."""
        with self._lock:
            idle = self._clock() - IDLE_SECONDS
            for which in [which for which, dump in self._dumps.items() if dump.asked < idle]:
                if not self._is_too_much(self._dumps, TIMES, size):
                    return
                del self._dumps[which]
            others = [which for which, dump in self._dumps.items() if dump.people != {who}]
            if self._is_too_much(others, TIMES, size):
                advice = "come again in a quarter of an hour, or give it to numawise serve --nodes"
                raise WebProblem(409, "dumps of other people fill the room for all", advice)

    def _let_go(self, which: str, who: str) -> None:
        dump = self._dumps[which]
        dump.people.discard(who)
        if not dump.people:
            del self._dumps[which]

    def _is_too_much(self, which: Collection[str], times: int, more: int = 0) -> bool:
        """Whether these dumps, and a further one with so many objects, are more than may be kept."""
        size = more + sum(self._dumps[one].shown.cluster.size for one in which)
        return len(which) + (more > 0) > MOST_DUMPS * times or size > MOST_DROPPED * times


@dataclass(slots=True)
class _Dump:
    shown: ShownCluster
    people: set[str]
    """Who dropped it."""
    asked: float
    """When somebody last asked about it."""
