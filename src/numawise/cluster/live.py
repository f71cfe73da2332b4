"""A cluster as it is: what every kubelet would say now, out of what the API server shows.

Rules kept here:

1. A node's state is what it publishes, with the pods put in that are bound or promised to it and that it does
   not publish yet (``cluster.assumed``).  From zones of another exporter comes a careful answer
   (``cluster.foreign``).  Of a node that publishes nothing, nothing is known: ``pass`` lets pods go there,
   ``hold`` lets those go that no manager would align.
2. An event changes the node it is about, and no other; what is known of states and shapes stays.
3. An answer says how it was come by: ``exact``; ``conservative``, also where the published state is
   incomplete, old or does not fit what the API server shows; ``unknown``.  ``problems`` has the sentences.
4. For pods that have waited longer than the patience, and were asked for not long ago, places are kept
   (``cluster.kept_places``): on nodes that the last question named, which are those that the scheduler's own
   filters left.  A pod that changes is asked for anew first.
5. Shapes are learned from every pod seen that has not too many containers; old ones are forgotten bit by bit.
6. Time only goes forward here: a clock that jumps back stands still.
7. Once Node objects were read, a node without one is gone: what it published counts for nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop
from itertools import count
from typing import Any

from numawise.cluster.asking import Situation, looks_nowhere
from numawise.cluster.assumed import EndedPod, Promise
from numawise.cluster.choice import Shapes, company
from numawise.cluster.foreign import REFUSED, judged
from numawise.cluster.kept_places import AskedPods, KeptTerms, LatePod, Turn, turn_of
from numawise.cluster.last_said import LastSaid
from numawise.cluster.node_states import NodeStates
from numawise.cluster.node_view import NodeView
from numawise.cluster.source import TopologyReading, TopologySource
from numawise.cluster.sums import lack_by_sums
from numawise.codec.cluster_pod import MOST_CONTAINERS, ClusterPod, PodReading
from numawise.codec.document import mapping
from numawise.codec.node import node_from
from numawise.codec.objects import kubelet_uid
from numawise.errors import InputError
from numawise.node.node import SimulatedNode
from numawise.request.defaults import RawPod, defaulted
from numawise.request.model import BEST_EFFORT, BURSTABLE
from numawise.results.cluster import NodeRating
from numawise.results.node_room import CONSERVATIVE, EXACT, UNKNOWN
from numawise.values import dataclass, replace

__all__ = [
    "HOLD",
    "PASS",
    "LiveCluster",
    "LiveSettings",
    "NodeVerdict",
    "NodeView",
    "Object",
    "is_aligned",
]
Object = Mapping[str, Any]
PASS, HOLD = "pass", "hold"
NOT_PUBLISHED = "nothing is published about this node"
ANY_PLACE = NodeRating(None, 0)
MANY_NODES, LOOK_AGAIN = 256, 5.0
"""With more nodes than that, better places are looked for so many seconds after the last look."""


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """How a cluster is seen."""

    unpublished: str = PASS
    """What becomes of pods on nodes of which nothing is known: ``pass`` or ``hold``."""
    promise_seconds: float = 30.0
    """How long a promise counts that is never seen bound."""
    patience: float = 300.0
    """Seconds that a pod waits before a place is kept for it."""
    kept: KeptTerms = KeptTerms()
    stale_seconds: float = 120.0
    """A pod that runs so long without being published makes a published state old."""


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What a node would do with a pod, and how that is known."""

    node: str
    rating: NodeRating | None
    """None: it would not be let in."""
    reason: str = ""
    """Why not."""
    how: str = EXACT
    """``exact``, ``conservative`` or ``unknown``."""
    kept: str = ""
    """Why the place is kept for another pod; '': it is not."""


class LiveCluster:
    """Nodes, pods and promises; no input or output, one thread at a time."""

    def __init__(self, settings: LiveSettings = LiveSettings()) -> None:  # noqa: B008 - a frozen value
        self.settings = settings
        self.views: dict[str, NodeView] = {}
        self.pods: dict[str, ClusterPod] = {}
        """Every pod that is there, by uid."""
        self.promises: dict[str, Promise] = {}
        self.states = NodeStates(settings.stale_seconds, settings.kept)
        self.asker, self.chooser, self.kept = self.states.asker, self.states.chooser, self.states.kept
        self.members = self.states.members
        self.reading, self.topologies = PodReading(), TopologyReading()
        self._numbers = count()
        self._dirty: set[str] = set()
        self._asked = AskedPods()
        self._said = LastSaid[NodeVerdict]()
        self.changes = 0
        """How often something was heard or promised."""
        self._places_of: object = None
        """By what places were kept last."""
        self._newest = 0
        """The newest version of a pod that was seen."""
        self._last: float | None = None
        self._clock = 0.0

    # --- what is known ------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """All nodes that are there (rule 7), in the order in which they were first heard of."""
        return tuple(name for name, view in self.views.items() if not self.states.is_gone(view))

    def nodes_were_read(self) -> None:
        """All Node objects are known from now on (rule 7)."""
        if not self.states.nodes_read:
            self.states.nodes_read = True
            for view in self.views.values():
                self._changed(view)

    @property
    def shapes(self) -> Shapes:
        """The shapes that were learned."""
        return self.chooser.shapes

    @property
    def waiting(self) -> tuple[ClusterPod, ...]:
        """Pods that are to be bound, in the order they came."""
        pods = [pod for pod in self.pods.values() if pod.waits]
        return tuple(sorted(pods, key=lambda pod: (pod.created, pod.namespace, pod.name)))

    def problems(self, name: str) -> tuple[str, ...]:
        """What is wrong with what is known of a node, a sentence each."""
        view = self.views.get(name)
        if view is None:
            return ("there is no such node",)
        self._refresh_all((name,))
        own = []
        if self.states.is_gone(view):
            own.append("it has no Node object: it is gone")
        elif view.source is None:
            own.append(NOT_PUBLISHED)
        elif view.source.problem:
            own.append(view.source.problem)
        own += [view.described_problem] if view.described_problem else []
        return (*own, *view.doubts)

    # --- what happens -------------------------------------------------------------------------

    def take_topology(self, name: str, value: Object | None, now: float) -> None:
        """The NodeResourceTopology of a node; None: it is gone."""
        self._tick(now)
        view = self._view(name)
        view.source = None if value is None else self.topologies.source(name, value, now)
        if view.source is not None and view.source.node is not None:
            view.settle(view.source.node.state, self._clock)
        self._changed(view)
        self._drop(view)

    def take_given(self, names: Iterable[str], node: SimulatedNode, now: float) -> None:
        """Nodes of files, all in the same state, as somebody described them."""
        self._tick(now)
        kind = -1 - len(self.views)  # no number of what is published
        for name in names:
            view = self._view(name)
            view.source, view.description = TopologySource(replace(node), kind=kind), node.description
            view.given = True
            self._changed(view)

    def take_node(self, name: str, value: Object | None, now: float) -> None:
        """The Node object of a node; None: it is gone."""
        self._tick(now)
        view = self._view(name)
        kubelet, wrong, description = "", "", None
        if value is not None:
            info = mapping(mapping(value.get("status")).get("nodeInfo"))
            kubelet = str(info.get("kubeletVersion") or "")
            try:
                description = node_from(value)
            except (InputError, RecursionError) as problem:
                wrong = f"its Node object cannot be read: {problem}"
        if (description, kubelet, wrong) != (view.description, view.kubelet, view.described_problem):
            view.description, view.kubelet, view.described_problem = description, kubelet, wrong
            self._changed(view)
        self._drop(view)

    def take_pod(self, value: Object, now: float, *, gone: bool = False) -> None:
        """A pod as it is now, or as it was last before it went."""
        self._tick(now)
        pod = self._read(value)
        before = self.pods.get(pod.uid)
        if gone:
            pod = replace(pod, version=max(pod.version, self._newest))
        self._newest = max(self._newest, pod.version)
        if before is not None and before.node and before.node != pod.node:
            self._leave(replace(before, version=pod.version))
        if gone:
            self.pods.pop(pod.uid, None)
        else:
            self.pods[pod.uid] = pod
            new = pod.raw if before is None and not pod.ended else None
            if new is not None and len(new.containers) <= MOST_CONTAINERS:
                self.shapes.see(new)
        if not pod.waits or gone or (before is not None and before.raw != pod.raw):
            self._asked.discard(pod.uid)
        if pod.node and pod.raw is not None and not gone:
            self.kept.bound(pod.raw)
        if (gone or pod.ended or pod.node) and pod.uid in self.promises:
            self.withdraw(pod.uid)
        if not pod.node:
            return
        if gone and pod.runs:
            self._vanish(pod)
        elif gone or pod.ended:
            self._leave(pod)
        elif before is None or before != pod:
            view = self._view(pod.node)
            known = view.pods.get(pod.uid)
            view.pods[pod.uid] = pod
            if known is None or known.raw != pod.raw or known.runs != pod.runs:
                self._changed(view)

    def promise(self, raw: RawPod, node: str, now: float) -> None:
        """A pod is being sent to a node: it counts there until it is seen bound, or for some time."""
        clock = self._tick(now)
        bound = self.pods.get(raw.uid)
        if bound is not None and bound.node:
            return
        self.withdraw(raw.uid)
        promise = Promise(self._interned(raw), node, clock + self.settings.promise_seconds)
        self.promises[raw.uid] = promise
        view = self._view(node)
        view.promises[raw.uid] = promise
        self._asked.discard(raw.uid)
        self._changed(view)

    def withdraw(self, uid: str) -> None:
        """A promise no longer counts."""
        promise = self.promises.pop(uid, None)
        view = self.views.get(promise.node) if promise is not None else None
        if view is not None and view.promises.pop(uid, None) is not None:
            self._changed(view)
            self._drop(view)

    # --- what kubelets would say --------------------------------------------------------------

    def ask(self, raw: RawPod, names: Sequence[str] | None, now: float) -> list[NodeVerdict]:
        """``judge`` for a pod that is to be bound to one of these nodes: if none takes it, it waits."""
        verdicts = self.judge(raw, names, now)
        pod = self.pods.get(raw.uid)
        if pod is not None and pod.waits:
            if any(verdict.rating is not None and not verdict.kept for verdict in verdicts):
                self._asked.discard(raw.uid)
            else:
                nodes = 0
                for verdict in verdicts:
                    view = self.views.get(verdict.node)
                    nodes |= 1 << view.number if view is not None else 0
                self._asked.add(LatePod(pod.raw or raw, pod.created, nodes), self._clock)
        return verdicts

    def judge(self, raw: RawPod, names: Sequence[str] | None, now: float) -> list[NodeVerdict]:
        """What each node would do with a pod, in the order of the names; None: all nodes."""
        self._expire(now)
        raw = self._interned(raw)
        names = self.names if names is None else names
        self._refresh_all(names)
        self._keep_places(now)
        verdicts = self._verdicts(names, raw)
        if not self.kept.places:
            return verdicts
        turn = self.turn(raw)
        kept = {id(place.member) for place in self.kept.earlier(turn)}
        return [self._with_kept(verdict, raw, turn, kept) for verdict in verdicts] if kept else verdicts

    def turn(self, raw: RawPod) -> Turn:
        """A pod's place in the order of pods: one that is not known came last."""
        known = self.pods.get(raw.uid)
        return turn_of(raw, known.created) if known is not None else turn_of(raw)

    def ranked(self, verdicts: Iterable[NodeVerdict]) -> list[NodeVerdict]:
        """Those nodes that would let the pod in and are kept for nobody else, the best first.

        The best by their ratings are compared by their company, too; nobody looks at the order of the others.
        """
        groups: dict[int, tuple[NodeRating, list[NodeVerdict]]] = {}
        for verdict in verdicts:
            rating = verdict.rating
            if rating is not None and not verdict.kept:
                group = groups.get(id(rating))
                if group is None:
                    group = groups[id(rating)] = rating, []
                group[1].append(verdict)
        ranks = sorted(((rating.rank, own) for rating, own in groups.values()), key=lambda pair: pair[0])
        best = ranks[0][0] if ranks else ()
        first = [verdict for rank, own in ranks if rank == best for verdict in own]
        rest = [verdict for rank, own in ranks if rank != best for verdict in own]
        return sorted(first, key=self._company) + rest

    def first(self, verdicts: Sequence[NodeVerdict]) -> NodeVerdict:
        """The best of nodes that are rated alike, by their company: the first of ``ranked``."""
        best, key, most = verdicts[0], self._company(verdicts[0]), 0
        for verdict in verdicts[1:]:
            view = self.views.get(verdict.node)
            if view is not None and view.member is not None and len(view.member.occupants) < most:
                continue  # it cannot have as many pods there
            own = self._company(verdict)
            if own < key:
                best, key = verdict, own
                most = -int(key[0])
        return best

    def refresh(self, now: float) -> None:
        """Work out now what changed since the last question, so that the next one need not."""
        self._tick(now)
        self._refresh_all(self.views)

    def situation(self, name: str, now: float) -> Situation | None:
        """A node with its bound and promised pods put in; None: its state is not published."""
        self._expire(now)
        self._refresh_all((name,))
        view = self.views.get(name)
        return Situation.of(view.member) if view is not None and view.member is not None else None

    def how(self, name: str) -> str:
        """How the answers of a node are come by."""
        self._refresh_all((name,))
        view = self.views.get(name)
        return UNKNOWN if view is None else view.how

    # --- inside: nodes ------------------------------------------------------------------------

    def _view(self, name: str) -> NodeView:
        view = self.views.get(name)
        if view is None:
            view = self.views[name] = NodeView(name, next(self._numbers))
        return view

    def _drop(self, view: NodeView) -> None:
        """Forget a node of which nothing is left."""
        known = view.source or view.description or view.described_problem or view.pods or view.promises
        if not known:
            self.views.pop(view.name, None)
            self._dirty.discard(view.name)
            self._said.changed(view.name)
            self.states.forget(view)

    def _changed(self, view: NodeView) -> None:
        self.changes += 1
        view.changes += 1
        self._dirty.add(view.name)

    def _leave(self, pod: ClusterPod) -> None:
        """A pod has left its node, by the version of its object."""
        view = self.views.get(pod.node)
        if view is None or pod.uid in view.ended:
            return
        was = view.pods.pop(pod.uid, None)
        order = (2, 0.0, 0.0, pod.version, pod.name)
        view.ended[pod.uid] = EndedPod(was or pod, order, self._clock, settled=was is None)
        self._changed(view)
        self._drop(view)

    def _vanish(self, pod: ClusterPod) -> None:
        """The object of a pod that runs was removed by force: its kubelet may still be ending it.

        A kubelet tells the end of a pod before its object goes; where it did not, what it publishes counts.
        """
        view = self.views.get(pod.node)
        if view is not None and view.pods.pop(pod.uid, None) is not None:
            self._changed(view)
            self._drop(view)

    def _refresh_all(self, names: Iterable[str]) -> None:
        if self._dirty:
            for name in self._dirty.intersection(names) if len(self._dirty) > 1 else list(self._dirty):
                self._dirty.discard(name)
                view = self.views.get(name)
                if view is None or self.states.refresh(view, self._last or 0.0, self._clock):
                    self._said.changed(name)

    # --- inside: pods -------------------------------------------------------------------------

    def _read(self, value: Object) -> ClusterPod:
        return self.reading.read(value, self.pods.get(kubelet_uid(value)))

    def _interned(self, raw: RawPod) -> RawPod:
        """The pod with the one value that all pods of its shape share."""
        key = self.asker.shape(raw)
        known = self.shapes.known.get(key)
        if known is None:
            return raw
        return replace(raw, containers=known.pods[0].containers)

    def _tick(self, now: float) -> float:
        """Rule 6."""
        if self._last is not None and now > self._last:
            self._clock += now - self._last
        self._last = now
        return self._clock

    def _expire(self, now: float) -> None:
        clock = self._tick(now)
        for uid, promise in list(self.promises.items()):
            if promise.until > clock:
                break
            self.withdraw(uid)
        while self.states.looks and self.states.looks[0][0] <= clock:
            view = self.views.get(heappop(self.states.looks)[1])
            if view is not None:
                self._changed(view)

    # --- inside: answers ----------------------------------------------------------------------

    def _verdicts(self, names: Sequence[str], raw: RawPod) -> list[NodeVerdict]:
        """What each node would do; those that did not change are not asked again (``cluster.last_said``)."""
        known, plain = self.chooser.known(raw), looks_nowhere(raw.constraints)

        def said(name: str) -> NodeVerdict:
            view = self.views.get(name)
            member = view.member if view is not None else None
            if view is None or member is None:
                return self._without_state(name, view, raw)
            at = member.token if plain else (member.number, member.changes)
            answer = known.get(at)
            if answer is None:
                answer = known[at] = self.chooser.rate(member, raw)
            if isinstance(answer, str):
                return NodeVerdict(name, None, answer, view.how)
            return NodeVerdict(name, answer, "", view.how)

        return self._said.of(self.asker.shape(raw), known, names, said)

    def _without_state(self, name: str, view: NodeView | None, raw: RawPod) -> NodeVerdict:
        """Of a node whose exact state is not known."""
        source = self.states.source(view) if view is not None else None
        if view is None or source is None or source.zones is None:
            return self._unpublished(name, raw)
        lack = lack_by_sums(view, raw)
        rating = judged(source.zones, view.left, defaulted(raw)) if lack is None else None
        reason = "" if rating is not None else lack.reason if lack is not None else REFUSED
        return NodeVerdict(name, rating, reason, CONSERVATIVE)

    def _unpublished(self, name: str, raw: RawPod) -> NodeVerdict:
        if self.settings.unpublished == PASS or not is_aligned(raw):
            return NodeVerdict(name, ANY_PLACE, "", UNKNOWN)
        return NodeVerdict(name, None, NOT_PUBLISHED, UNKNOWN)

    def _with_kept(self, verdict: NodeVerdict, raw: RawPod, turn: Turn, kept: set[int]) -> NodeVerdict:
        view = self.views.get(verdict.node)
        if verdict.rating is None or view is None or view.member is None or id(view.member) not in kept:
            return verdict
        if self.kept.allows(view.member, raw, turn):
            return verdict
        for place in self.kept.earlier(turn):
            if place.member is view.member:
                why = "has waited longer" if place.turn[0] == turn[0] else "has a higher priority"
                words = f"kept for pod {place.pod.namespace}/{place.pod.name}, which {why}"
                return replace(verdict, kept=words)
        return verdict

    def _keep_places(self, now: float) -> None:
        """Rule 4."""
        late = self._asked.late(self._clock, now - self.settings.patience)
        if not late and not self.kept.places:
            return
        many = len(self.members) > MANY_NODES
        held = [(place.member.number, place.member.changes) for place in self.kept.places.values()]
        moment = int(self._clock / LOOK_AGAIN) if many else self.changes
        waits = [(pod.raw.uid, pod.nodes) for pod in late]
        reason = waits, held, moment, self._clock >= self.kept.look_again and self._clock
        if reason != self._places_of:
            self._places_of = reason
            self.kept.keep(late, self._clock)

    def _company(self, verdict: NodeVerdict) -> tuple[float, ...]:
        view = self.views.get(verdict.node)
        if verdict.rating is None or view is None or view.member is None:
            return 0, 0.0, 1.0, view.number if view is not None else 0
        return company(verdict.rating, view.member)


def is_aligned(raw: RawPod) -> bool:
    """Whether a kubelet's managers may give a pod something of its own."""
    pod = defaulted(raw)
    return pod.qos not in (BEST_EFFORT, BURSTABLE) or any(container.devices for container in pod.containers)
