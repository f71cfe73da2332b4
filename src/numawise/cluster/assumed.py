"""What a node holds by what is known: its published state, with the pods put in that it does not have yet.

Rules kept here:

1. A published state that names a pod, live or gone, has it: nothing is assumed about it.
2. A pod that the API server shows bound there is put in by the engine, in the order of binding: what its
   kubelet will say.  One that the engine would refuse while its status says that it runs counts with what it
   asks for, and is a doubt.
3. A pod that failed, ended or is gone is taken out; what it had is collected as a kubelet does.
4. A promise is a pod that was sent to the node and is not seen there yet.  It comes after all others.  It
   ends when the pod is bound, anywhere, when it has gone, or after some time.
"""

from collections.abc import Collection, Iterable

from numawise.codec.cluster_pod import ClusterPod
from numawise.engine.admit import Admitted
from numawise.engine.lifecycle import remove
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
class AssumedNode:
    """A node as it should be now."""

    node: SimulatedNode
    doubts: tuple[str, ...] = ()
    """What does not fit, a sentence each."""
    refused: tuple[str, ...] = ()
    """Uids of pods whose kubelet would say no."""
    assumed: int = 0
    """Pods that were put in."""


def assumed_node(
    published: SimulatedNode,
    bound: Iterable[ClusterPod],
    promised: Iterable[Promise],
    gone: Collection[str],
) -> AssumedNode:
    """A node with its bound pods, in their order, and its promises (rules 1 to 4)."""
    state = published.state
    ended = [uid for uid in state.active if uid in gone]
    if ended:
        state = remove(state, *ended)
    node = replace(published, state=state)
    known = published.state.active
    doubts: list[str] = []
    refused: list[str] = []
    count = 0
    for pod in bound:
        if pod.uid in known or pod.uid in published.state.departed:
            continue
        if pod.raw is None:
            doubts.append(f"pod {pod.title} {pod.problem}")
            continue
        count += 1
        if not _put(node, pod.raw):
            refused.append(pod.uid)
            if pod.runs:
                node.run_already((pod.raw,))
                doubts.append(
                    f"pod {pod.title} runs there by its status, and is not published; the published state "
                    "would not let it in"
                )
    for promise in promised:
        if promise.pod.uid not in node.state.active:
            count += 1
            if not _put(node, promise.pod):
                refused.append(promise.pod.uid)
    return AssumedNode(node, tuple(doubts), tuple(refused), count)


def _put(node: SimulatedNode, raw: RawPod) -> bool:
    """Whether the kubelet lets a pod in; it starts then."""
    pod = node.requested(raw)
    decision = node.admit(pod)
    if not isinstance(decision, Admitted):
        return False
    node.start(pod, decision)
    return True
