"""A pod that waits for a node, explained: what every node of the cluster would say, and what would let it in.

Rules kept here:

1. Every node is asked about the pod on its state of now; nodes that say the same are counted together.
2. What the scheduler said stands beside it in its own words, and so do scheduling gates.
3. What would let it in, as far as it is known: nodes that would by now; pods that end by themselves; the
   smallest restart of other pods; and changes of the pod or a node, on the node that is nearest: the one
   where the fewest pods hold what is missing.
4. *Never* is said only when it holds for every node.
5. What may not be seen is said, and nothing is concluded from it.  Without the right to list
   PodDisruptionBudgets no restart is looked for.
6. Places that numawise's scheduler would keep for pods before this one are said as places that may be kept:
   its settings, and the nodes that it was asked about, are not seen here.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from numawise.apps.why.live import Live, raw_pod
from numawise.cluster.asking import Situation
from numawise.cluster.defrag import smallest_restart
from numawise.cluster.kept_places import KeptPlaces, LatePod
from numawise.cluster.live import LiveCluster, NodeVerdict
from numawise.codec.cluster_pod import scheduling_gates
from numawise.codec.document import mapping
from numawise.errors import NumawiseError
from numawise.explain.at_node import NodeRefused, named_node, refused_briefly, refused_by, refused_by_sums
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.inputs.cluster import VisibleCluster, disruption_budgets, visible_cluster
from numawise.inputs.spec import NodeInput
from numawise.kube.client import ApiRefused, Cluster, Object
from numawise.node.node import SimulatedNode
from numawise.render.pending import pending_answer
from numawise.request.defaults import RawPod, defaulted
from numawise.results.explanation import NOT_SCHEDULED, Explanation
from numawise.results.node_room import UNKNOWN
from numawise.results.pending import AwaitedEnd, ClusterAnswer, NodesAlike
from numawise.results.restart import RestartSearch
from numawise.values import dataclass, field

MOST_EARLIER = 20
"""Pods that waited longer whose places are looked at."""


def is_pending(live: Live) -> bool:
    """Whether no node has been found for a pod, or for what an owner would make."""
    return live.pod is not None and not live.sent_to and not live.refusal[0] and not live.node.name


def explain_waiting(cluster: Cluster, given: NodeInput) -> Callable[[Live], Explanation | None]:
    """Explains pods that wait for a node, the cluster being read once; None: another way is better.

    That is so where a node was named or given, and where nothing of the cluster may be seen.
    """
    read: list[tuple[VisibleCluster, tuple[Object, ...] | None, str] | None] = []

    def explained(live: Live) -> Explanation | None:
        if not is_pending(live) or given.machine_input is not None or given.bundle is not None:
            return None
        if not read:
            try:
                read.append((visible_cluster(cluster), *disruption_budgets(cluster)))
            except ApiRefused:
                read.append(None)
        if read[0] is None:
            return None
        seen, budgets, remark = read[0]
        return explain_pending(live, seen, budgets, [remark] if remark else [])

    return explained


def explain_pending(
    live: Live, seen: VisibleCluster, budgets: Sequence[Object] | None, remarks: Sequence[str] = ()
) -> Explanation:
    """Explain a pod that waits for a node; ``budgets``: None where they are not known (rule 5)."""
    assert live.pod is not None
    raw = raw_pod(live.pod)
    asking = PodAsked(seen.view, raw, seen.now)
    asking.earlier_pods()
    alike, able, unclear = asking.answers()
    nearest = asking.nearest()
    suggested = None
    if nearest is not None and not able:
        suggested = explain(case_of(asking.named_node(nearest), raw))
    restart: RestartSearch | None = None
    awaited: AwaitedEnd | None = None
    never = is_never(alike, able, unclear)
    if not able and not never and seen.view.members:
        awaited = asking.awaited()
        if budgets is not None:
            restart = smallest_restart(seen.view, raw, seen.now, seen.pods, budgets)
    answer = ClusterAnswer(
        nodes=len(seen.view.names),
        scheduler=scheduler_words(live),
        gates=scheduling_gates(live.pod),
        able=able,
        open=unclear,
        alike=alike,
        never=never,
        nearest=nearest.member.name if suggested is not None and nearest is not None else "",
        awaited=awaited,
        restart=restart,
    )
    return Explanation(
        name=raw.name,
        verdict=NOT_SCHEDULED,
        answer=pending_answer(answer, template=live.template),
        namespace=live.namespace,
        uid=raw.uid,
        qos=str(live.status.get("qosClass") or defaulted(raw).qos),
        remarks=(*live.remarks, *seen.remarks, *remarks),
        suggestions=suggested.suggestions if suggested is not None else (),
        searched=bool(suggested is not None and suggested.suggestions),
        resources=suggested.resources if suggested is not None else (),
        cluster=answer,
    )


def is_never(alike: Sequence[NodesAlike], able: Sequence[str], unclear: Sequence[str]) -> bool:
    """Rule 4."""
    return bool(alike) and not able and not unclear and all(one.never for one in alike)


def scheduler_words(live: Live) -> str:
    """What the scheduler last said about a pod; '' when it said nothing."""
    return condition_words(live.status, "PodScheduled") or _event_words(live)


def condition_words(status: Mapping[str, Any], kind: str) -> str:
    """Why a condition of a pod is false: its reason and message."""
    rows = status.get("conditions")
    for one in map(mapping, rows if isinstance(rows, list) else ()):
        if one.get("type") == kind and one.get("status") == "False":
            return ": ".join(filter(None, [str(one.get("reason") or ""), str(one.get("message") or "")]))
    return ""


def _event_words(live: Live) -> str:
    said = [one for one in live.events if one.get("reason") == "FailedScheduling"]
    return f"FailedScheduling: {said[-1].get('message') or said[-1].get('note')}" if said else ""


@dataclass(slots=True)
class _Refusal:
    """One node that would not let the pod in."""

    verdict: NodeVerdict
    refused: NodeRefused
    situation: Situation | None


@dataclass(slots=True)
class ShapeRefusals:
    """Why nodes refuse pods of one shape, as far as they were asked; sentences alone are kept."""

    sentences: dict[Hashable, NodeRefused] = field(default_factory=dict)
    idle: dict[Hashable, Explanation] = field(default_factory=dict)


class OutOfTime(Exception):
    """Not all nodes could be asked within the time that there was."""


class PodAsked:
    """One pod, asked of all nodes.

    ``brief``: sentences are enough, and these are known already; ``end``: when to give up, by the clock of
    ``time.monotonic``.
    """

    def __init__(
        self,
        view: LiveCluster,
        raw: RawPod,
        now: float,
        brief: ShapeRefusals | None = None,
        end: float | None = None,
    ) -> None:
        self.view, self.raw, self.now, self.brief, self.end = view, raw, now, brief, end
        self.refusals: list[_Refusal] = []
        self.known: dict[Hashable, NodeRefused] = {} if brief is None else brief.sentences

    def answers(self) -> tuple[tuple[NodesAlike, ...], tuple[str, ...], tuple[str, ...]]:
        """Nodes that would not, by reason; nodes that would; nodes of which it is not known (rule 1)."""
        able, unclear = [], []
        for verdict in self.view.judge(self.raw, None, self.now):
            refused = self._refused(verdict)
            if refused is not None:
                situation = self.view.situation(verdict.node, self.now)
                self.refusals.append(_Refusal(verdict, refused, situation))
            elif verdict.how == UNKNOWN:
                unclear.append(verdict.node)
            else:
                able.append(verdict)
        groups: dict[tuple[str, str, bool | None], list[str]] = {}
        for one in self.refusals:
            key = one.refused.reason, one.verdict.how, one.refused.never
            groups.setdefault(key, []).append(one.verdict.node)
        alike = [NodesAlike(tuple(nodes), *key) for key, nodes in groups.items()]
        alike.sort(key=lambda one: (-len(one.nodes), one.reason))
        best = [verdict.node for verdict in self.view.ranked(able)]
        return tuple(alike), tuple(best), tuple(unclear)

    def earlier_pods(self) -> None:
        """Let the view know of pods that have waited longer (rule 6)."""
        patience, turn = self.view.settings.patience, self.view.turn(self.raw)
        earlier = [
            pod.raw
            for pod in self.view.waiting
            if pod.raw is not None
            and pod.uid != self.raw.uid
            and self.now - pod.created >= patience
            and self.view.turn(pod.raw) < turn
        ]
        for raw in sorted(earlier, key=self.view.turn)[:MOST_EARLIER]:
            self.view.ask(raw, None, self.now)

    def _refused(self, verdict: NodeVerdict) -> NodeRefused | None:
        """Why a node would not; None: it would, or nobody knows."""
        view, raw = self.view, self.raw
        situation = view.situation(verdict.node, self.now)
        if situation is None:
            node = view.views.get(verdict.node)
            short = refused_by_sums(node, raw, self._pod_name) if node is not None else None
            if short is not None:
                return short
            if verdict.rating is None:
                return NodeRefused(f"by what another exporter publishes: {verdict.reason}", None)
            return None
        if verdict.kept:
            return NodeRefused(f"its place may be {verdict.kept}", never=False)
        if verdict.rating is not None:
            return None
        key = view.asker.place(situation.member, raw), verdict.reason
        if key not in self.known:
            try:
                self.known[key] = self._asked(situation)
            except NumawiseError:
                self.known[key] = NodeRefused(verdict.reason, None)
            if self.end is not None and time.monotonic() > self.end:
                raise OutOfTime
        return self.known[key]

    def _asked(self, situation: Situation) -> NodeRefused:
        view, raw = self.view, self.raw
        if self.brief is None:
            return refused_by(view.asker, situation, raw, self._pod_name)
        return refused_briefly(view.asker, situation, raw, self._pod_name, self.brief.idle)

    def nearest(self) -> Situation | None:
        """Where the fewest pods hold what is missing (rule 3)."""
        near = [
            one
            for one in self.refusals
            if one.situation is not None
            and one.refused.explanation is not None
            and one.verdict.how != UNKNOWN
        ]

        def effort(one: _Refusal) -> tuple[bool, int, str]:
            explanation = one.refused.explanation
            assert explanation is not None
            return bool(one.refused.never), len(explanation.held_by), one.verdict.node

        best = min(near, key=effort, default=None)
        return best.situation if best is not None else None

    def named_node(self, situation: Situation) -> SimulatedNode:
        """A node whose pods have their names, which nodes do not publish."""
        pods = self.view.views[situation.member.name].pods.values()
        return named_node(situation.member.node, [pod.raw for pod in pods if pod.raw is not None])

    def awaited(self) -> AwaitedEnd | None:
        """Pods that end by themselves, and whose end lets the pod in."""
        places = KeptPlaces(self.view.members, self.view.asker)
        places.keep([LatePod(self.raw)], 0.0)
        place = places.places.get(self.raw.uid)
        if place is None or not place.uids:
            return None
        return AwaitedEnd(place.member.name, tuple(sorted(map(self._pod_name, place.uids))))

    def _pod_name(self, uid: str) -> str:
        pod = self.view.pods.get(uid)
        return pod.title if pod is not None else uid
