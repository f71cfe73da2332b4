"""All that is known of one node of a live cluster."""

from collections.abc import Mapping

from numawise.cluster.asking import Member
from numawise.cluster.assumed import EndedPod, Promise, Replay
from numawise.cluster.source import TopologySource
from numawise.codec.cluster_pod import ClusterPod
from numawise.engine.predicates import add, asked
from numawise.engine.state import NodeState
from numawise.machine.description import NodeDescription
from numawise.request.defaults import defaulted
from numawise.results.node_room import UNKNOWN
from numawise.values import dataclass, field, replace

REMEMBERED = 600.0
"""Seconds that a pod is remembered which is gone and no longer published: an older object may still come."""


@dataclass(slots=True)
class NodeView:
    """All that is known of one node."""

    name: str
    number: int
    source: TopologySource | None = None
    description: NodeDescription | None = None
    described_problem: str = ""
    kubelet: str = ""
    """The version that the Node object names."""
    pods: dict[str, ClusterPod] = field(default_factory=dict)
    """Bound here and not ended, by uid."""
    promises: dict[str, Promise] = field(default_factory=dict)
    ended: dict[str, EndedPod] = field(default_factory=dict)
    """Pods that ended or went, as long as a published state may not know it, by uid."""
    member: Member | None = None
    replay: tuple[TopologySource, NodeDescription | None, Replay] | None = None
    """What happened since the state was published, and to what it happened."""
    how: str = UNKNOWN
    doubts: tuple[str, ...] = ()
    stale: bool = False
    """What is published is an old state, as far as that shows."""
    changes: int = 0
    """How often something about it was heard of or promised."""
    left: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Of another exporter's zones: what is free, careful as ever."""

    given: bool = False
    """Somebody described it in files."""

    @property
    def exists(self) -> bool:
        """Whether there is a Node object, read or not, or somebody described the node."""
        return self.description is not None or bool(self.described_problem) or self.given

    def settle(self, state: NodeState, clock: float) -> None:
        """A state was published: what it shows to be past need not be remembered."""
        published = [pod.order for uid in state.active if (pod := self.pods.get(uid)) is not None]
        last = max(published, default=None)
        remembered = {}
        for uid, ended in self.ended.items():
            there = uid in state.active
            if ended.seen > clock - REMEMBERED or there:
                past = there or uid in state.departed or (last is not None and ended.pod.order < last)
                remembered[uid] = replace(ended, settled=True) if past and not ended.settled else ended
        self.ended = remembered

    def used_sums(self) -> dict[str, int]:
        """What all pods that are bound or promised ask for together."""
        sums: dict[str, int] = {}
        raws = [pod.raw for pod in self.pods.values()]
        for raw in (*raws, *(promise.pod for promise in self.promises.values())):
            if raw is not None:
                add(sums, asked(defaulted(raw)))
        return sums
