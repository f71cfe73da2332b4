"""The questions of kube-scheduler, answered: which nodes, which first, whom to end.

Rules kept here:

1. An answer always comes, and never a wrong certainty: what cannot be read or decided is passed or held back
   as the settings say, with a sentence.  An extender that fails keeps every pod of a cluster from its node.
2. A pod that is asked about is bound nowhere: what was promised to it is given back.
3. The best node is promised when nodes are compared, or when one alone is left: the scheduler then compares
   nothing.  A pod that is given nothing of its own needs no promise.
4. ``preempt`` keeps the nodes where the kubelet would let the pod in once the victims have ended, with the
   victims that were chosen: the scheduler has spared all whose end its own rules do not need, and protects by
   budgets that are not seen here, so none is left out and none is added.
5. The nodes that ``filter`` left are compared as it found them: what happens between these two questions of
   one pod counts for the next.
6. Once nodes were compared, the scheduler is busy with binding: the node that was promised is worked out
   then, not when the next pod waits for it.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from numawise.apps.scheduler.refusals import Refusals
from numawise.apps.scheduler.scores import NodeScores, RatingRanks, node_scores
from numawise.cluster.asking import LetIn
from numawise.cluster.live import HOLD, PASS, LiveCluster, NodeVerdict
from numawise.codec.cluster_pod import ClusterPod
from numawise.codec.extender import LOWEST_SCORE, ExtenderArgs, FilterAnswer, NodeVictims, PreemptArgs
from numawise.render.cluster import shortened
from numawise.request.defaults import RawPod
from numawise.results.node_room import UNKNOWN
from numawise.values import dataclass

MOMENT = 1.0
"""Seconds for which nodes are compared as they were found."""
PREEMPT_SECONDS = 1.0
"""As long as ``preempt`` looks at nodes; beyond that it answers with those it has seen."""
NOT_YET = "numawise has not read the cluster yet"


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """What becomes of what is not known."""

    unpublished: str = PASS
    """Before the cluster was read, as for nodes that publish nothing: ``pass`` or ``hold``."""
    unreadable: str = PASS
    """Pods that cannot be read: likewise."""


@dataclass(slots=True)
class VerdictCounts:
    """How nodes and pods were judged so far."""

    let_in: int = 0
    refused: int = 0
    kept: int = 0
    unknown: int = 0
    no_node: int = 0
    """Pods for which no node was left."""
    unreadable: int = 0
    promised: int = 0


@dataclass(frozen=True, slots=True)
class LeftNodes:
    """What ``filter`` left of the nodes last."""

    uid: str = ""
    names: tuple[str, ...] = ()
    verdicts: Sequence[NodeVerdict] = ()
    at: float = -math.inf


class Questions:
    """Answers questions from what is known of a cluster; called by one thread at a time."""

    def __init__(
        self,
        view: LiveCluster,
        lock: "threading.RLock",
        settings: ExtenderSettings = ExtenderSettings(),  # noqa: B008 - a frozen value
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.view, self.lock, self.settings, self.clock = view, lock, settings, clock
        self.refusals = Refusals()
        self.counts = VerdictCounts()
        self._left = LeftNodes()
        self._ranks = RatingRanks()

    # --- filter -------------------------------------------------------------------------------

    def filter(self, args: ExtenderArgs, *, synced: bool = True) -> FilterAnswer:
        """The nodes that would let a pod in, and why the others would not."""
        with self.lock:
            now = self.clock()
            pod = self.view.reading.asked(args.pod)
            if pod.raw is None:
                self.counts.unreadable += 1
                return _all(args.names, self.settings.unreadable, f"the pod {pod.problem}")
            if not synced:
                return _all(args.names, self.settings.unpublished, NOT_YET)
            return self._filter(pod.raw, args.names, now)

    def filter_again(self, args: ExtenderArgs, since: int) -> FilterAnswer | None:
        """The answer after one that left no node; None: nothing has changed since."""
        with self.lock:
            if self.view.changes == since:
                return None
            self.counts.no_node -= 1  # the same question
            return self.filter(args)

    def _filter(self, raw: RawPod, names: Sequence[str], now: float) -> FilterAnswer:
        view, counts = self.view, self.counts
        view.withdraw(raw.uid)
        verdicts = view.ask(raw, names, now)
        left = [verdict for verdict in verdicts if verdict.rating is not None and not verdict.kept]
        refused = []
        if len(left) < len(verdicts):
            refused = [verdict for verdict in verdicts if verdict.rating is None or verdict.kept]
        unknown = len([1 for verdict in left if verdict.how == UNKNOWN])
        kept = sum(bool(verdict.kept) for verdict in refused)
        counts.unknown += unknown
        counts.let_in += len(left) - unknown
        counts.kept += kept
        counts.refused += len(refused) - kept
        counts.no_node += not left
        self._left = LeftNodes(raw.uid, tuple([verdict.node for verdict in left]), left, time.monotonic())
        failed, never = self.refusals.of(view, raw, refused) if refused else ({}, {})
        if len(left) == 1:
            self._promise(raw, node_scores((), left, view.first, self._ranks), now)
        return FilterAnswer(self._left.names, failed, never)

    def _promise(self, raw: RawPod, scores: NodeScores, now: float) -> None:
        """Rule 3."""
        if scores.best:
            self.view.promise(raw, scores.best, now)
            self.counts.promised += 1

    # --- prioritize ---------------------------------------------------------------------------

    def prioritize(self, args: ExtenderArgs, *, synced: bool = True) -> Mapping[str, int]:
        """What each node is worth."""
        with self.lock:
            now = self.clock()
            pod = self.view.reading.asked(args.pod)
            if pod.raw is None or not synced:
                return dict.fromkeys(args.names, LOWEST_SCORE)
            verdicts = self._judged(pod.raw, args.names, now)
            scores = node_scores(args.names, verdicts, self.view.first, self._ranks)
            self._promise(pod.raw, scores, now)
            return scores.scores

    def _judged(self, raw: RawPod, names: tuple[str, ...], now: float) -> Sequence[NodeVerdict]:
        """What nodes say; as ``filter`` found it, where that was a moment ago (rule 5)."""
        left, self._left = self._left, LeftNodes()
        if left.uid == raw.uid and left.names == names and time.monotonic() - left.at < MOMENT:
            return left.verdicts
        self.view.withdraw(raw.uid)
        return self.view.judge(raw, names, now)

    def prepare(self) -> None:
        """Work out what a promise changed, while nobody waits for an answer (rule 6)."""
        with self.lock:
            self.view.refresh(self.clock())

    # --- preempt ------------------------------------------------------------------------------

    def preempt(self, args: PreemptArgs, *, synced: bool = True) -> Mapping[str, NodeVictims]:
        """The nodes where ending the victims would let the pod in (rule 4)."""
        with self.lock:
            pod = self.view.reading.asked(args.pod)
            if pod.raw is None or not synced:
                way = self.settings.unreadable if pod.raw is None else self.settings.unpublished
                return {} if way == HOLD else args.victims
            return self._preempt(pod, pod.raw, args.victims)

    def _preempt(
        self, pod: ClusterPod, raw: RawPod, victims: Mapping[str, NodeVictims]
    ) -> Mapping[str, NodeVictims]:
        now, end = self.clock(), time.monotonic() + PREEMPT_SECONDS
        self.view.withdraw(pod.uid)
        proven: dict[str, NodeVictims] = {}
        for name, chosen in victims.items():
            if time.monotonic() > end and proven:
                break
            situation = self.view.situation(name, now)
            if situation is None:
                (verdict,) = self.view.judge(raw, (name,), now)
                if self.settings.unpublished == PASS or verdict.rating is not None:
                    proven[name] = chosen
            elif isinstance(self.view.asker.ask(situation.without(chosen.uids), raw), LetIn):
                proven[name] = chosen
        return proven


def _all(names: Sequence[str], way: str, words: str) -> FilterAnswer:
    """All nodes, or none of them with one sentence for all (rule 1)."""
    if way == PASS:
        return FilterAnswer(tuple(names))
    return FilterAnswer((), dict.fromkeys(names, shortened(words)))
