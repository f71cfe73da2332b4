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
6. What happened is played once: when more happens, it goes on from there (``Replay``).  A pod that was
   promised and is bound next is the same step.
"""

from collections.abc import Iterable

from numawise.codec.cluster_pod import ClusterPod, Order
from numawise.engine.admit import Admitted
from numawise.node.node import SimulatedNode
from numawise.request.defaults import RawPod
from numawise.values import dataclass, field, replace

MOST_REMEMBERED = 32
"""The last steps after which the node is remembered."""


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
    replay: "Replay | None" = None,
) -> AssumedNode:
    """A node with what happened to it since it was published (rules 1 to 5); ``replay``: of this state."""
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
    replay = replay or Replay(published)
    for number, (_, event) in enumerate(events):
        if isinstance(event, str):
            replay.play(number, Going(event))
        elif event.raw is None:
            replay.play(number, Unreadable(f"pod {event.title} {event.problem}"))
        else:
            replay.play(number, Coming(event.raw, event.title if event.runs and not event.ended else ""))
    count = len(events)
    for promise in promised:
        if promise.pod.uid not in replay.after(count).node.state.active:
            replay.play(count, Coming(promise.pod))
            count += 1
    return replay.after(count)


@dataclass(frozen=True, slots=True)
class Coming:
    """A pod comes."""

    pod: RawPod
    runs: str = ""
    """What it is called, where its status says that it runs."""


@dataclass(frozen=True, slots=True)
class Going:
    """A pod goes."""

    uid: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A pod comes that cannot be read."""

    words: str


NodeStep = Coming | Going | Unreadable


@dataclass(slots=True)
class Replay:
    """What happened to a node since it was published, step by step (rule 6)."""

    published: SimulatedNode
    _steps: list[NodeStep] = field(default_factory=list)
    _after: list[AssumedNode | None] = field(default_factory=list)
    """The node before all steps, and after each; None: not played yet, or long ago."""

    def play(self, number: int, step: NodeStep) -> None:
        """This is the step of that number; if it was another one, it and all later ones never happened."""
        steps = self._steps
        if number < len(steps):
            if self._is_same(number, step):
                return
            del steps[number:], self._after[number + 1 :]
        steps.append(step)

    def after(self, count: int) -> AssumedNode:
        """The node after so many steps, which are all there are so far."""
        known = self._after
        if not known:
            known.append(AssumedNode(replace(self.published)))
        known += [None] * (count + 1 - len(known))
        begin = count
        while known[begin] is None:
            begin -= 1
        node = known[begin]
        assert node is not None
        for number in range(begin, count):
            node = known[number + 1] = _played(node, self._steps[number])
        for number in range(count - MOST_REMEMBERED, 0, -1):
            if known[number] is None:
                break
            known[number] = None
        return node

    def _is_same(self, number: int, step: NodeStep) -> bool:
        before = self._steps[number]
        if before == step:
            return True
        if not isinstance(before, Coming) or not isinstance(step, Coming) or before.pod != step.pod:
            return False
        after = self._after[number + 1] if number + 1 < len(self._after) else None
        return after is not None and step.pod.uid not in after.refused  # let in, whether or not it runs yet


def _played(before: AssumedNode, step: NodeStep) -> AssumedNode:
    """A node after a step (rules 2 and 3)."""
    if isinstance(step, Unreadable):
        return replace(before, doubts=(*before.doubts, step.words))
    node = replace(before.node)
    if isinstance(step, Going):
        if step.uid in node.state.active:
            node.remove(step.uid)
        return replace(before, node=node)
    if _put(node, step.pod):
        return replace(before, node=node)
    doubts = before.doubts
    if step.runs:
        node.run_already((step.pod,))
        words = (
            f"pod {step.runs} runs there by its status and is not published, and the published "
            "state would not let it in"
        )
        doubts = (*doubts, words)
    return AssumedNode(node, doubts, (*before.refused, step.pod.uid))


def _put(node: SimulatedNode, raw: RawPod) -> bool:
    """Whether the kubelet lets a pod in; it starts then."""
    pod = node.requested(raw)
    decision = node.admit(pod)
    if not isinstance(decision, Admitted):
        return False
    node.start(pod, decision)
    node.await_size(raw)
    return True
