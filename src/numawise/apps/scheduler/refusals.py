"""Why nodes are left out, a sentence each, quickly enough for thousands of nodes.

Rules kept here:

1. The sentence is the answer of ``why``.  It is worked out once for each state and shape, and kept.
2. What is not known yet is worked out for as long as a question may take for that (``BUDGET``).  The nodes
   that are left have the kubelet's reason alone; the next question finds more.
3. kube-scheduler puts the sentences of all nodes into one Event of 1,024 characters, equal ones once.  With
   more than ``MOST_SENTENCES`` different ones, each says only what nodes have in common.
4. A node that no state of which would let the pod in is said to be so: nobody is to be ended there.  Where
   the state is not known exactly, it is not said.  What is true of an idle machine is so of all of its kind.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence

from numawise.cluster.asking import Asker, Member, Shape, Situation
from numawise.cluster.live import LiveCluster, NodeVerdict
from numawise.cluster.refusal import refusal_name
from numawise.engine.matching import Unmet
from numawise.engine.predicates import Insufficient
from numawise.errors import NumawiseError
from numawise.explain.case import case_of, idle
from numawise.explain.explain import explain
from numawise.explain.outlook import NEVER_TEXT
from numawise.render.cluster import refusal_group, refusal_sentence, shortened
from numawise.render.demands import unmet_text
from numawise.render.refusal import short_text
from numawise.request.defaults import RawPod
from numawise.results.explanation import NEVER
from numawise.results.node_room import EXACT
from numawise.values import dataclass

BUDGET = 0.015
"""Seconds of a question for what is not known yet."""
MOST_SENTENCES = 4
MOST_KNOWN, MOST_PLAIN = 20_000, 1000


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
        self._known: dict[Shape, dict[Hashable, NodeRefusal]] = {}
        self._size = 0
        self._plain: dict[str, NodeRefusal] = {}

    def of(
        self, view: LiveCluster, raw: RawPod, refused: Sequence[NodeVerdict]
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Of nodes that were just left out: a sentence each; apart, those that never would (rule 4)."""
        end = self._clock() + self._budget
        known, place = self._known_of(view.asker.shape(raw)), view.asker.place
        found: list[tuple[str, NodeRefusal]] = []
        for verdict in refused:
            seen = view.views.get(verdict.node) if not verdict.kept else None
            member = seen.member if seen is not None else None
            refusal = None
            if member is not None:
                at: Hashable = (place(member, raw), verdict.how)
                kind = NEVER, member.kind
                refusal = known.get(at) or (known.get(kind) if verdict.how == EXACT else None)
                if refusal is None and self._clock() < end:
                    refusal, always = _explained(view.asker, member, raw, verdict)
                    if refusal is not None:
                        known[kind if always and member.kind is not None else at] = refusal
                        self._size += 1
            found.append((verdict.node, refusal or self._plainly(verdict.kept or verdict.reason)))
        differ = {id(refusal): refusal.sentence for _, refusal in found}
        apart = len(set(differ.values())) > MOST_SENTENCES
        failed: dict[str, str] = {}
        never: dict[str, str] = {}
        for node, refusal in found:
            (never if refusal.never else failed)[node] = refusal.group if apart else refusal.sentence
        return failed, never

    def _known_of(self, shape: Shape) -> dict[Hashable, NodeRefusal]:
        if self._size >= MOST_KNOWN:
            self._known.clear()
            self._size = 0
        return self._known.setdefault(shape, {})

    def _plainly(self, words: str) -> NodeRefusal:
        refusal = self._plain.get(words)
        if refusal is None:
            if len(self._plain) >= MOST_PLAIN:
                self._plain.clear()
            refusal = self._plain[words] = NodeRefusal(shortened(words), shortened(words))
        return refusal


def _explained(
    asker: Asker, member: Member, raw: RawPod, verdict: NodeVerdict
) -> tuple[NodeRefusal | None, bool]:
    """What ``why`` says of a node (None: nothing), and whether it says so of every node of its kind."""
    case = case_of(member.node, raw)
    situation = Situation.of(member)
    name = refusal_name(asker, situation, raw)
    try:
        explanation = explain(idle(case) if name.never else case, suggest=False)
    except NumawiseError:
        return None, False
    never = explanation.outlook == NEVER and verdict.how == EXACT
    if explanation.admitted:  # the scheduler would not send it there
        lack = asker.lack(situation, raw)
        words = short_text(lack) if isinstance(lack, Insufficient) else ""
        if isinstance(lack, Unmet):
            words = unmet_text(lack, member.node.requested(raw), lambda uid: uid)[0]
        text = shortened(f"{name.reason}: {words}" if words else verdict.reason)
        return NodeRefusal(text, text), False
    if not explanation.answer:
        return None, False
    refusal = NodeRefusal(refusal_sentence(explanation), refusal_group(explanation), never)
    return refusal, never and NEVER_TEXT in explanation.answer
