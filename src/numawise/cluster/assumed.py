"""What a node holds by what is known: its published state, with what happened since.

Rules kept here:

1. A published state that names a pod, live or gone, has it: nothing is assumed about it.
2. A pod that the API server shows bound there is put in by the engine: what its kubelet will say.  One that
   the engine would refuse while its status says that it runs counts with what it asks for, and is a doubt.
3. A pod that failed, ended or is gone is taken out; what it had is collected as a kubelet does.
4. Pods come and go in the order of the API server, by the versions of their objects.  One that came
   and went while nothing was published did both, unless a pod that came after it is published.
5. A promise is a pod that was sent to the node and is not seen there yet.  It comes after all others.  It
   ends when the pod is bound, anywhere, when it has gone, or after some time.
"""

from collections.abc import Iterable

from numawise.codec.cluster_pod import ClusterPod, Order
from numawise.engine.admit import Admitted
from numawise.node.node import SimulatedNode
from numawise.request.defaults import RawPod
from numawise.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class Promise:
    """A pod that was sent to a node and is not seen there yet."""

    pod: RawPod
    node: str
    until: float
    """By a clock that never goes back."""


@dataclass(frozen=True, slots=True)
class EndedPod:
    """A pod that failed, ended or is gone."""

    pod: ClusterPod
    """As it was last seen."""
    order: Order
    """When, among all that came and went."""
    seen: float
    """When that was heard of."""
    settled: bool = False
    """It was published while it was there, or one that came after it is published."""


@dataclass(frozen=True, slots=True)
class AssumedNode:
    """A node as it should be now."""

    node: SimulatedNode
    doubts: tuple[str, ...] = ()
    """What does not fit, a sentence each."""
    refused: tuple[str, ...] = ()
    """Uids of pods whose kubelet would say no."""


def assumed_node(
    published: SimulatedNode,
    bound: Iterable[ClusterPod],
    ended: Iterable[EndedPod],
    promised: Iterable[Promise],
) -> AssumedNode:
    """A node with what happened to it since it was published (rules 1 to 5)."""
    state = published.state
    known, departed = state.active, state.departed
    comes = [pod for pod in bound if pod.uid not in known and pod.uid not in departed]
    goes = [one for one in ended if one.pod.uid in known]
    passed = [
        one for one in ended if one.pod.uid not in known and one.pod.uid not in departed and not one.settled
    ]
    events: list[tuple[Order, ClusterPod | str]] = [(pod.order, pod) for pod in comes]
    events += [(one.pod.order, one.pod) for one in passed if one.pod.node]
    events += [(one.order, one.pod.uid) for one in (*goes, *passed)]
    events.sort(key=lambda event: event[0])
    node = replace(published)
    doubts: list[str] = []
    refused: list[str] = []
    for _, event in events:
        if isinstance(event, str):
            if event in node.state.active:
                node.remove(event)
        elif event.raw is None:
            doubts.append(f"pod {event.title} {event.problem}")
        elif not _put(node, event.raw):
            refused.append(event.uid)
            if event.runs and not event.ended:
                node.run_already((event.raw,))
                doubts.append(
                    f"pod {event.title} runs there by its status and is not published, and the published "
                    "state would not let it in"
                )
    for promise in promised:
        if promise.pod.uid not in node.state.active and not _put(node, promise.pod):
            refused.append(promise.pod.uid)
    return AssumedNode(node, tuple(doubts), tuple(refused))


def _put(node: SimulatedNode, raw: RawPod) -> bool:
    """Whether the kubelet lets a pod in; it starts then."""
    pod = node.requested(raw)
    decision = node.admit(pod)
    if not isinstance(decision, Admitted):
        return False
    node.start(pod, decision)
    return True
