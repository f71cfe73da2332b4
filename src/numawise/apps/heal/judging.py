"""What kubelets would say to pods that wait, asked of the cluster as it is followed; and why one was refused.

Rules kept here:

1. A node counts as one that would let a pod in only where something is published about it.  What all nodes
   would say is known exactly where every answer is exact.
2. Of a refusal the words are those of ``why``, on the state of that node as it is now, and the first of the
   changes that would let the pod in.  Where that state would let it in by now, or is not published, the words
   are the kubelet's.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from numawise.apps.heal.holds import Prospect
from numawise.apps.heal.refused import RefusedPod
from numawise.apps.heal.steering import HOST_NAME
from numawise.cluster.live import NodeVerdict
from numawise.codec.cluster_pod import PodReading
from numawise.errors import NumawiseError, cut
from numawise.explain.at_node import named_node
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.inputs.live import LiveFeed
from numawise.kube.client import Object
from numawise.request.defaults import RawPod
from numawise.results.node_room import EXACT, UNKNOWN

LONGEST_REASON, LONGEST_NOTE = 200, 900


class LiveJudge:
    """Asks the cluster that a feed follows."""

    def __init__(self, feed: LiveFeed) -> None:
        self.feed = feed
        self._reading = PodReading()

    def prospect(self, pod: Object) -> Prospect:
        """What all nodes would say to a pod now (rule 1)."""
        raw = self.raw(pod)
        if raw is None or not self.feed.synced():
            return Prospect()
        with self.feed.lock:
            verdicts = self.feed.view.judge(raw, None, self.feed.clock())
            able = self.feed.view.ranked(verdict for verdict in verdicts if verdict.how != UNKNOWN)
        return Prospect(
            tuple(verdict.node for verdict in able),
            bool(verdicts) and all(verdict.how == EXACT for verdict in verdicts),
            _common(verdicts),
        )

    def promise(self, pod: Object, node: str) -> None:
        """A pod is being sent to a node."""
        raw = self.raw(pod)
        if raw is not None:
            with self.feed.lock:
                self.feed.view.promise(raw, node, self.feed.clock())

    def hosts(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """The host name labels of nodes, '' where there is none."""
        with self.feed.lock:
            views = {node: self.feed.view.views.get(node) for node in nodes}
            known = {node: view.description for node, view in views.items() if view is not None}
        return {node: one.labels.get(HOST_NAME, "") for node, one in known.items() if one is not None}

    def raw(self, pod: Object) -> RawPod | None:
        """What a pod asks for; None: it cannot be read."""
        return self._reading.asked(pod).raw

    def explanation(self, refused: RefusedPod, pod: Object) -> str:
        """Why a pod was refused, and the smallest change that lets it in (rule 2)."""
        said = f"{refused.node} refused the pod: {refused.reason}: {refused.message}"
        raw = self.raw(pod)
        if raw is None:
            return cut(said, LONGEST_NOTE)
        with self.feed.lock:
            view = self.feed.view
            situation = view.situation(refused.node, self.feed.clock())
            if situation is None:
                return cut(f"{said}; the node publishes nothing that explains it", LONGEST_NOTE)
            pods = [pod.raw for pod in view.views[refused.node].pods.values() if pod.raw is not None]
            node = named_node(situation.member.node, pods)
        try:
            found = explain(case_of(node, raw))
        except NumawiseError:
            return cut(said, LONGEST_NOTE)
        if found.admitted:
            return cut(f"{said}; it would be let in there now", LONGEST_NOTE)
        fix = f". Smallest fix: {found.suggestions[0].text}" if found.suggestions else ""
        return cut(f"{refused.reason} on {refused.node}: {found.answer}{fix}", LONGEST_NOTE)


def _common(verdicts: Sequence[NodeVerdict]) -> str:
    """The reason that most nodes give."""
    reasons = Counter(verdict.reason or verdict.kept for verdict in verdicts if verdict.rating is None)
    reasons.update(verdict.kept for verdict in verdicts if verdict.rating is not None and verdict.kept)
    ((reason, count),) = reasons.most_common(1) or [("", 0)]
    more = f" ({count} of {len(verdicts)} nodes)" if len(verdicts) > 1 and count else ""
    return cut(reason, LONGEST_REASON) + more
