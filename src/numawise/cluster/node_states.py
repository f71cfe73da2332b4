"""The state of each node of a live cluster, worked out anew when something about it changed.

Rules kept here:

1. A node whose exact state is published is a member: it can be asked.  Of zones of another exporter, what is
   free is worked out; of anything else nothing is.
2. Nodes of one kind whose Node objects say the same to pods that look at no labels answer alike
   (``cluster.state_key``).
3. A published state is old when it is of another release than the kubelet runs, or lacks a pod that has run
   for some time.
"""

from collections.abc import Sequence
from heapq import heappush

from numawise.cluster.asking import Asker, Member, Occupant
from numawise.cluster.assumed import Replay, assumed_node
from numawise.cluster.choice import Chooser
from numawise.cluster.foreign import less, uncounted
from numawise.cluster.kept_places import KeptPlaces, KeptTerms
from numawise.cluster.node_view import NodeView
from numawise.cluster.source import TopologySource
from numawise.codec.cluster_pod import ClusterPod
from numawise.engine.predicates import used
from numawise.machine.description import NodeDescription
from numawise.node.node import SimulatedNode
from numawise.request.defaults import defaulted
from numawise.results.node_room import CONSERVATIVE, EXACT, UNKNOWN
from numawise.results.simulation import numas_of
from numawise.rules.versions import Version, profile_of
from numawise.values import replace

TIDY_EVERY = 2000
"""After so many changes of nodes, what is known of states that are no more is forgotten."""


class NodeStates:
    """Keeps the members of a cluster as they should be."""

    def __init__(self, stale_seconds: float, kept: KeptTerms) -> None:
        self.stale_seconds = stale_seconds
        self.asker = Asker(())
        self.members: list[Member] = []
        self.chooser = Chooser(self.members, self.asker)
        self.kept = KeptPlaces(self.members, self.asker, kept)
        self.looks: list[tuple[float, str]] = []
        """When a node is to be looked at again, soonest first."""
        self._classes: dict[object, int] = {}
        """Node objects that say the same to pods that look at no labels (rule 2)."""
        self._until_tidy = TIDY_EVERY
        self.nodes_read = False
        """All Node objects are known."""

    def is_gone(self, view: NodeView) -> bool:
        """Whether a node has no Node object any more."""
        return self.nodes_read and not view.exists

    def source(self, view: NodeView) -> TopologySource | None:
        """What is published of a node that is there."""
        return None if self.is_gone(view) else view.source

    def refresh(self, view: NodeView, now: float, clock: float) -> bool:
        """Work out the state of a node anew; False: it answers as before."""
        source, how = self.source(view), view.how
        view.left, view.doubts, view.stale = {}, (), False
        bound = sorted(view.pods.values(), key=lambda pod: pod.order)
        if source is None or source.node is None:
            self.forget(view)
            view.how = UNKNOWN if source is None or source.zones is None else CONSERVATIVE
            if source is not None and source.zones is not None:
                late = [pod.raw for pod in uncounted(source.zones, bound) if pod.raw is not None]
                late += [promise.pod for promise in view.promises.values()]
                view.left = less(source.zones, [defaulted(raw.as_allocated) for raw in late])
            return True
        replay = self._replay(view, source, source.node)
        assumed = assumed_node(replay.published, bound, view.ended.values(), view.promises.values(), replay)
        stale = self._stale(view, bound, now, clock)
        view.stale = bool(stale)
        view.doubts = (*source.missing, *assumed.doubts, *stale)
        view.how = CONSERVATIVE if view.doubts else EXACT
        node = assumed.node
        member = view.member
        if member is None:
            member = view.member = Member(view.name, node, 0, number=view.number)
            self.members.append(member)
        elif member.node is node:
            for uid, known in member.occupants.items():
                member.occupants[uid] = self._occupant(view, uid, known.numa)
            return view.how != how
        member.kind = source.kind, self._class(node.description)
        member.node, member.allocatable, member.used = node, node.allocatable(), dict(used(node.state))
        member.count()
        member.occupants = {
            uid: self._occupant(view, uid, numas_of(node.machine, node.state, uid))
            for uid in node.state.active
        }
        self.asker.changed(member)
        self._until_tidy -= 1
        if not self._until_tidy:
            self._tidy()
        return True

    def _replay(self, view: NodeView, source: TopologySource, node: SimulatedNode) -> Replay:
        """What was played on what is published, as the Node object describes it."""
        known = view.replay
        if known is None or known[0] is not source or known[1] is not view.description:
            if view.description is not None:
                node = replace(node)
                node.describe(view.description)
            known = view.replay = source, view.description, Replay(node)
        return known[2]

    def _tidy(self) -> None:
        """Forget what no node answers any more."""
        self._until_tidy = TIDY_EVERY
        self.asker.tidy(self.members)
        self.chooser.tidy(self.members)

    def forget(self, view: NodeView) -> None:
        """The state of a node is no longer known."""
        if view.member is not None:
            self.members[:] = [member for member in self.members if member is not view.member]
            self.kept.forget(view.member)
            view.member = view.replay = None

    def _class(self, description: NodeDescription | None) -> int:
        """A number for all that a Node object says to a pod that looks at no labels."""
        if description is None:
            return -1
        key = (
            description.taints,
            description.unschedulable,
            description.pressures,
            description.shutting_down,
            tuple(sorted(description.allocatable.items())),
        )
        return self._classes.setdefault(key, len(self._classes))

    def _occupant(self, view: NodeView, uid: str, numa: int) -> Occupant:
        pod = view.pods.get(uid)
        promised = uid in view.promises
        since = 0.0 if pod is None else pod.bound or pod.created
        return Occupant(numa, since, ends=promised or (pod is not None and pod.ends))

    def _stale(self, view: NodeView, bound: Sequence[ClusterPod], now: float, clock: float) -> list[str]:
        """Why a published state is an old one, as far as that shows."""
        source = view.source
        assert source is not None
        assert source.node is not None
        if view.kubelet and _release(view.kubelet) != source.node.version:
            return [f"it is published for kubelet {source.kubelet}, and the node runs {view.kubelet}"]
        state, longest = source.node.state, self.stale_seconds
        for pod in bound:
            if pod.runs and pod.uid not in state.active and pod.uid not in state.departed:
                since = now - (pod.bound or pod.created or now)
                if since > longest:
                    return [f"pod {pod.title} runs for {since:.0f} seconds and is not published: it is old"]
                heappush(self.looks, (clock + longest - max(0.0, since) + 1, view.name))
                break
        return []


def _release(kubelet: str) -> Version | None:
    """The release that a kubelet's version belongs to; None: one that is not known."""
    try:
        return profile_of(kubelet).version
    except ValueError:
        return None
