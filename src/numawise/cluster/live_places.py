"""How many more pods of a shape a cluster would let in now, as it is.

Rules kept here:

1. Counting is ``cluster.places``'s, on each node's state with the pods put in that are bound or promised.
   Places that are kept for pods that wait are counted, too.
2. Without pods, the shapes are those that were learned: the most frequent ones that are given something of
   their own, one of each name.  They come with what else they demand of a node, such as the taints that they
   tolerate; those of a DaemonSet are not meant, each is for one node.
3. Of a node with zones of another exporter it is known whether one more would be let in, and no more, where
   its Node object has enough by sums.  Of one that publishes nothing, nothing is counted, and the reason is
   said.
4. What was counted is known until the node changes.  The lock is given back often.
"""

import contextlib
import time
from collections.abc import Callable, Hashable, Sequence

from numawise.cluster.choice import shape_of
from numawise.cluster.counting import counted_places
from numawise.cluster.live import NOT_PUBLISHED, LiveCluster, is_aligned
from numawise.cluster.places import places_on
from numawise.cluster.sums import lack_by_sums
from numawise.request.defaults import RawPod
from numawise.results.cluster import NodePlaces, PlacesReport, ShapePlaces
from numawise.results.node_room import CONSERVATIVE

AT_ONCE = 0.003
"""Seconds for which the lock is held, unless one node alone takes longer."""
MOST_KNOWN = 200_000
DAEMONS = "DaemonSet "
Lock = contextlib.AbstractContextManager[object]


class LivePlaces:
    """Counts, and remembers."""

    def __init__(self, view: LiveCluster, lock: Lock | None = None) -> None:
        self.view = view
        self.lock: Lock = lock if lock is not None else contextlib.nullcontext()
        self._known: dict[Hashable, tuple[int, bool, str]] = {}

    def learned(self) -> list[tuple[str, RawPod]]:
        """The shapes that were learned, the largest first (rule 2)."""
        with self.lock:
            shapes = self.view.shapes
            pods = [(shapes.known[key].shape.name, shapes.known[key].pods[0]) for key in shapes.counted]
        named: dict[str, RawPod] = {}
        for name, pod in pods:
            if is_aligned(pod) and not pod.owner.startswith(DAEMONS):
                named.setdefault(name, pod)
        return list(named.items())

    def report(
        self,
        named: Sequence[tuple[str, RawPod]],
        most: int,
        clock: Callable[[], float],
        pause: Callable[[], None] = lambda: None,
        *,
        reasons: bool = True,
    ) -> PlacesReport:
        """Count copies of each pod, at most so many on a node; without pods, of what was learned.

        ``reasons``: find out, too, why there is no further one; it takes longer.
        """
        learned = not named
        shapes = []
        for name, pod in named or self.learned():
            with self.lock:
                names = self.view.names
            nodes: list[NodePlaces] = []
            while len(nodes) < len(names):
                with self.lock:
                    now, end = clock(), time.monotonic() + AT_ONCE
                    while len(nodes) < len(names):
                        nodes.append(self._count(names[len(nodes)], pod, most, now, reasons=reasons))
                        if time.monotonic() > end:
                            break
                pause()
            shapes.append(ShapePlaces(name, shape_of(pod), tuple(nodes)))
        shapes.sort(key=lambda places: places.shape.size, reverse=True)
        return PlacesReport(learned, tuple(shapes))

    def visit(self, clock: Callable[[], float]) -> None:
        """Work out the state of every node, so that nobody has to wait for it."""
        with self.lock:
            names = list(self.view.names)
        while names:
            with self.lock:
                now, end = clock(), time.monotonic() + AT_ONCE
                while names and time.monotonic() < end:
                    self.view.situation(names.pop(), now)
            time.sleep(0)

    def _count(self, node: str, pod: RawPod, most: int, now: float, *, reasons: bool) -> NodePlaces:
        view = self.view
        situation = view.situation(node, now)
        if situation is None:
            known_node = view.views.get(node)
            short = lack_by_sums(known_node, pod) if known_node is not None else None
            if short is not None:
                return NodePlaces(node, 0, reason=short.reason)
            (verdict,) = view.judge(pod, (node,), now)
            if verdict.how != CONSERVATIVE:
                return NodePlaces(node, 0, reason=NOT_PUBLISHED)
            if verdict.rating is None:
                return NodePlaces(node, 0, reason=verdict.reason)
            return NodePlaces(node, 1, more=True)
        member = situation.member
        key = view.asker.place(member, pod), view.asker.shape(pod), most, reasons
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            count = None if reasons else counted_places(view.asker, situation, pod, most)
            known = (count, count >= most, "") if count is not None else None
            known = self._known[key] = known or places_on(view.asker, member, pod, most)
        return NodePlaces(node, *known)
