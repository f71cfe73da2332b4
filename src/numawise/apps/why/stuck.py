"""All pods of a cluster that wait for a node or were refused, each with the first sentence of ``why``.

Rules kept here:

1. Pods that wait are asked about in the order they came, so that places kept for earlier ones count; those
   that ask for the same are asked about once, and share the answer.
2. Of a pod that a kubelet refused, its words stand beside what the node would say now.  Its state then may be
   another one; ``why pod/NAME`` rebuilds it.
3. What nodes said is kept as long as they do not change.  Asking takes at most ``budget`` seconds, and one
   node; pods whose nodes were not all asked by then have no sentence until somebody asks again.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from numawise.apps.why.live import created, is_refused
from numawise.apps.why.pending import OutOfTime, PodAsked, ShapeRefusals, condition_words, is_never
from numawise.cluster.asking import Shape
from numawise.cluster.choice import shape_of
from numawise.cluster.live import LiveCluster
from numawise.cluster.live_places import Lock
from numawise.codec.cluster_pod import ClusterPod, scheduling_gates
from numawise.codec.document import mapping
from numawise.codec.objects import kubelet_uid
from numawise.codec.pod_phase import has_ended
from numawise.errors import NumawiseError
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.kube.client import Object
from numawise.node.node import SimulatedNode
from numawise.render.pending import alike_line, pending_answer, pending_remarks
from numawise.request.defaults import RawPod
from numawise.results.cluster_board import (
    GATED,
    REFUSED,
    WAITING,
    BoardSource,
    PodListForm,
    StuckPod,
    WhyNot,
)
from numawise.results.pending import ClusterAnswer
from numawise.values import replace

MOST_LISTED, MOST_REASONS, MOST_ABLE = 500, 4, 4
MOST_SHAPES, MOST_KNOWN = 64, 20_000
BUDGET = 0.7


class StuckPods:
    """The pods of one cluster; several threads may ask.

    ``objects``: every pod as the API server shows it.
    """

    def __init__(
        self,
        view: LiveCluster,
        clock: Callable[[], float],
        lock: Lock,
        objects: Callable[[], Sequence[Object]],
    ) -> None:
        self.view, self.clock, self.lock, self.objects = view, clock, lock, objects
        self._known: dict[Shape, ShapeRefusals] = {}
        """Why nodes refuse pods of a shape."""
        self._answers: dict[Shape, tuple[int, ClusterAnswer]] = {}
        """What the nodes said to pods of a shape, and after how many changes of the cluster."""
        self._refusals: dict[Hashable, str] = {}
        self._asked = False
        """Something was asked since the report began, so that each goes on from the one before."""

    def counts(self) -> tuple[int, int]:
        """How many wait, those that are held back included, and how many were refused."""
        states = [state for state, _ in self._stuck()]
        return sum(state != REFUSED for state in states), states.count(REFUSED)

    def report(self, source: BoardSource, budget: float = BUDGET) -> PodListForm:
        """All of them (rule 3)."""
        stuck = [(state, one) for state, one in self._stuck()]
        waiting = sorted((pair for pair in stuck if pair[0] != REFUSED), key=lambda pair: _since(pair[1]))
        refused = sorted((pair for pair in stuck if pair[0] == REFUSED), key=lambda pair: _since(pair[1]))
        listed = (*waiting[:MOST_LISTED], *refused[::-1][:MOST_LISTED])
        end = time.monotonic() + budget
        pods, more = [], False
        with self.lock:
            self._asked = False
            for state, value in listed:
                pod = self._line(state, value, end)
                more |= not pod.sentence
                pods.append(pod)
        return PodListForm(source, len(waiting), len(refused), tuple(pods), len(stuck) - len(pods), more)

    def refused_everywhere(self, raw: RawPod, budget: float = BUDGET) -> tuple[str, tuple[WhyNot, ...]]:
        """Why no node would let a pod in: the first sentence, and the reasons of nodes."""
        with self.lock:
            answer = self._answer(raw, time.monotonic() + budget)
        if answer is None:
            return "The nodes are not all asked yet; count again to see why.", ()
        return f"{pending_answer(answer, template=True)}.", _reasons(answer)

    def _stuck(self) -> Iterator[tuple[str, Object]]:
        for value in self.objects():
            spec = mapping(value.get("spec"))
            if not spec.get("nodeName"):
                leaves = mapping(value.get("metadata")).get("deletionTimestamp")
                if not has_ended(value) and not leaves:
                    yield GATED if spec.get("schedulingGates") else WAITING, value
            elif is_refused(value):
                yield REFUSED, value

    def _line(self, state: str, value: Object, end: float) -> StuckPod:
        status = mapping(value.get("status"))
        known = self.view.pods.get(kubelet_uid(value))
        pod = known or self.view.reading.read(value)
        line = StuckPod(
            pod.namespace,
            pod.name,
            pod.uid,
            state,
            _since(value),
            shape_of(pod.raw).name if pod.raw is not None else "",
            pod.raw.owner if pod.raw is not None else "",
            pod.node,
            "",
        )
        if pod.raw is None:
            return replace(line, sentence=f"The pod {pod.problem}")
        if state == REFUSED:
            parts = (str(status.get(key) or "") for key in ("reason", "message"))
            words = ": ".join(filter(None, parts))
            sentence = self._refusal(pod, pod.raw, end)
            return replace(line, words=words, sentence=sentence, ask=self._exact((pod.node,)))
        answer = self._answer(pod.raw, end)
        said = condition_words(status, "PodScheduled")
        if answer is None:
            return replace(line, words=said)
        answer = replace(answer, gates=scheduling_gates(value))
        held = [f"{remark}." for remark in pending_remarks(answer)]
        return replace(
            line,
            sentence=" ".join((f"{pending_answer(answer)}.", *held)),
            reasons=_reasons(answer),
            able=answer.able[:MOST_ABLE],
            ask=self._to_ask(answer),
            words=said,
            never=answer.never,
        )

    def _to_ask(self, answer: ClusterAnswer) -> str:
        """The node whose answer says most: one that would let it in, one that would later, any other."""
        later = [alike.nodes[0] for alike in answer.alike if alike.never is False]
        return self._exact((*answer.able[:1], *later, *(alike.nodes[0] for alike in answer.alike)))

    def _exact(self, names: Iterable[str]) -> str:
        """The first node whose state is known; '': none."""
        known = (name for name in names if (view := self.view.views.get(name)) and view.member is not None)
        return next(known, "")

    def _answer(self, raw: RawPod, end: float) -> ClusterAnswer | None:
        """What the nodes say to pods like this; None: not all were asked (rules 1 and 3)."""
        view = self.view
        shape, now = view.asker.shape(raw), self.clock()
        known = self._answers.get(shape)
        if known is not None and known[0] == view.changes:
            return known[1]
        if time.monotonic() > end and self._asked:
            return None
        self._asked = True
        if len(self._known) >= MOST_SHAPES and shape not in self._known:
            self._known.clear()
            self._answers.clear()
        refusals = self._known.setdefault(shape, ShapeRefusals())
        if len(refusals.sentences) > MOST_KNOWN:
            refusals.sentences.clear()
            refusals.idle.clear()
        try:
            alike, able, unclear = PodAsked(view, raw, now, refusals, end).answers()
        except OutOfTime:
            return None
        answer = ClusterAnswer(
            nodes=len(view.names),
            able=able,
            open=unclear,
            alike=alike,
            never=is_never(alike, able, unclear),
        )
        self._answers[shape] = view.changes, answer
        return answer

    def _refusal(self, pod: ClusterPod, raw: RawPod, end: float) -> str:
        """What the node of a refused pod would say now (rule 2)."""
        view = self.view
        situation = view.situation(pod.node, self.clock())
        if situation is None:
            return f"Node {pod.node} refused it, and publishes nothing that would tell what it would say now."
        key = pod.node, view.asker.place(situation.member, raw), view.asker.shape(raw)
        if key not in self._refusals:
            if time.monotonic() > end and self._asked:
                return ""
            self._asked = True
            if len(self._refusals) >= MOST_KNOWN:
                self._refusals.clear()
            self._refusals[key] = _answer_now(pod.node, situation.member.node, raw)
        return self._refusals[key]


def _reasons(answer: ClusterAnswer) -> tuple[WhyNot, ...]:
    return tuple(WhyNot(*alike_line(alike)) for alike in answer.alike[:MOST_REASONS])


def _answer_now(name: str, node: SimulatedNode, raw: RawPod) -> str:
    """What a node would say to a pod that it refused."""
    try:
        explanation = explain(case_of(node, raw), suggest=False)
    except NumawiseError as problem:
        return f"Node {name} refused it; what it would say now is not known: {problem}."
    if explanation.admitted:
        return f"Node {name} refused it, and would let it in by now."
    return f"{explanation.answer}."


def _since(value: Object) -> str:
    """When a pod was made, in UTC; '': not known."""
    return created(value) and f"{created(value)}Z"
