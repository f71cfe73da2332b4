"""Why nodes are left out, a sentence each, quickly enough for thousands of nodes.

Rules kept here:

1. The sentence is the answer of ``why``.  It is worked out once for each state and shape, and kept.
2. What is not known yet is worked out for as long as a question may take for that (``BUDGET``).  The nodes
   that are left have the kubelet's reason alone; the next question finds more.
3. kube-scheduler puts the sentences of all nodes into one Event of 1,024 characters, equal ones once.  With
   more than ``MOST_SENTENCES`` different ones, each says only what nodes have in common.
4. A node that no state of which would let the pod in is said to be so: nobody is to be ended there.  Where
   the state is not known exactly, it is not said.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence

from numawise.cluster.live import EXACT, LiveCluster, NodeVerdict
from numawise.errors import NumawiseError
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.render.cluster import refusal_group, refusal_sentence, shortened
from numawise.request.defaults import RawPod
from numawise.results.explanation import NEVER
from numawise.values import dataclass

BUDGET = 0.015
"""Seconds of a question for what is not known yet."""
MOST_SENTENCES = 4
MOST_KNOWN = 20_000


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Why one node would not let a pod in."""

    sentence: str
    group: str
    """What it has in common with other nodes."""
    never: bool = False
    """No state of the node would."""


class Refusals:
    """The sentences that are known."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, budget: float = BUDGET) -> None:
        self._clock, self._budget = clock, budget
        self._known: dict[Hashable, NodeRefusal] = {}

    def of(
        self, view: LiveCluster, raw: RawPod, refused: Sequence[NodeVerdict], now: float
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Of nodes that are left out: a sentence each; apart, those that never would (rules 3 and 4)."""
        end = self._clock() + self._budget
        found: dict[str, NodeRefusal] = {}
        same: dict[str, NodeRefusal] = {}
        for verdict in refused:
            refusal = None
            if not verdict.kept and verdict.reason:
                refusal = self._refusal(view, raw, verdict, now, end)
            if refusal is None:
                words = verdict.kept or verdict.reason
                refusal = same.get(words)
                if refusal is None:
                    refusal = same[words] = NodeRefusal(shortened(words), shortened(words))
            found[verdict.node] = refusal
        apart = len({one.sentence for one in found.values()}) > MOST_SENTENCES
        failed: dict[str, str] = {}
        never: dict[str, str] = {}
        for node, refusal in found.items():
            (never if refusal.never else failed)[node] = refusal.group if apart else refusal.sentence
        return failed, never

    def _refusal(
        self, view: LiveCluster, raw: RawPod, verdict: NodeVerdict, now: float, end: float
    ) -> NodeRefusal | None:
        """What ``why`` says of a node; None: its state is not known, or there is no time (rules 1 and 2)."""
        situation = view.situation(verdict.node, now)
        if situation is None:
            return None
        member = situation.member
        key = view.asker.place(member, raw), view.asker.shape(raw), verdict.how
        known = self._known.get(key)
        if known is None and self._clock() < end:
            try:
                explanation = explain(case_of(member.node, raw), suggest=False)
            except NumawiseError:
                return None
            if not explanation.answer:
                return None
            known = NodeRefusal(
                refusal_sentence(explanation),
                refusal_group(explanation),
                explanation.outlook == NEVER and verdict.how == EXACT,
            )
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = known
        return known
