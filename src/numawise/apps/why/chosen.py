"""One pod out of those that a node has or is given: explained in full, and each suggestion to be tried.

Rules kept here:

1. Pods that are given come in their order, each after those before it.  Without any, the pods of the node are
   asked about: those that run, and those that its kubelet refused, on what was held when they were listed.
2. One pod is explained in full: the one that is chosen, or the first that is refused, or the first.  Of the
   others there is the verdict and its sentence.
3. What a suggestion leads to is what proved it: the case of the search, and the pod let in.
"""

from collections.abc import Mapping, Sequence

from numawise.apps.why.nodes import ExplainedPod, PodQueue, node_after, node_of
from numawise.errors import InputError, quoted
from numawise.explain.case import admitted_node
from numawise.explain.tried import TriedSuggestion, check_suggestion, tried
from numawise.inputs.pods import PodNamed
from numawise.inputs.spec import NodeInput
from numawise.node.node import SimulatedNode
from numawise.request.defaults import RawPod
from numawise.results.explanation import ADMITTED, NOT_STARTED, Explanation
from numawise.results.why_page import GIVEN, REFUSED, RUNNING, JudgedPod
from numawise.values import dataclass

MOST_LISTED = 1000
"""So many pods are judged in one call."""


@dataclass(frozen=True, slots=True)
class ChosenPod:
    """All pods with their verdicts, and one of them in full."""

    pods: tuple[JudgedPod, ...]
    chosen: int | None
    """Number of the pod in full; None: the kubelet does not start."""
    explained: ExplainedPod
    remarks: tuple[str, ...] = ()

    @property
    def tries(self) -> int:
        """How many of its suggestions can be tried."""
        if self.explained.explanation.verdict == NOT_STARTED:
            return len(self.explained.explanation.suggestions)
        resize = self.explained.resize
        return len(self.explained.proven if resize is None else resize.proven)


def choose_pod(
    source: NodeInput, pods: Sequence[PodNamed], name: str = "", number: int | None = None
) -> ChosenPod:
    """Explain one pod by its name or number among all (rules 1 and 2)."""
    node = node_of(source)
    if isinstance(node, Explanation):
        return ChosenPod((), None, ExplainedPod(node), source.remarks)
    return _chosen(source, node, pods, name, number)


def try_suggestion(
    source: NodeInput, pods: Sequence[PodNamed], suggestion: int, name: str = "", number: int | None = None
) -> TriedSuggestion:
    """What a suggestion for that pod leads to (rule 3)."""
    found = choose_pod(source, pods, name, number)
    explanation = found.explained.explanation
    check_suggestion(suggestion, found.tries)
    if explanation.verdict == NOT_STARTED:
        started = node_after(source, suggestion)
        then = _chosen(source, started, pods, name, number) if pods else None
        case = then.explained.case if then is not None else None
        after = admitted_node(case) if case is not None else None
        return TriedSuggestion(
            explanation.suggestions[suggestion],
            then.explained.explanation if then is not None else None,
            after or started,
        )
    resize = found.explained.resize
    if resize is not None:
        carried = resize.proven[suggestion]
        return TriedSuggestion(carried.suggestion, carried.explanation, carried.after, resize.before)
    case = found.explained.case
    return tried(found.explained.proven, suggestion, case.node if case is not None else None)


def pod_names(node: SimulatedNode, *others: RawPod) -> Mapping[str, str]:
    """Uid → namespace and name of the pods of a node, as far as they are known."""
    known = {uid: f"{pod.namespace}/{pod.name}" for uid, pod in node.state.active.items() if pod is not None}
    return {**known, **{raw.uid: f"{raw.namespace}/{raw.name}" for raw in others}}


def _chosen(
    source: NodeInput, node: SimulatedNode, pods: Sequence[PodNamed], name: str, number: int | None
) -> ChosenPod:
    own = () if pods else pods_of(source)
    queue = PodQueue(source, node, pods or own)
    if not queue.pods:
        raise InputError("no pod is given, and none is known to run", advice="give a pod")
    if len(queue.pods) > MOST_LISTED:
        what = f"{len(queue.pods)} pods are given, and at most {MOST_LISTED} are judged at once"
        raise InputError(what, advice="give fewer")
    wanted = pod_number(queue.pods, name, number)
    listed: list[JudgedPod] = []
    chosen: tuple[int, ExplainedPod] | None = None
    for at, raw in enumerate(queue.pods):
        explained = queue.explained(raw, suggest=False)
        refused = explained.explanation.verdict != ADMITTED
        listed.append(_listed(raw, explained.explanation, queue, known=not pods))
        first = chosen is None or (refused and listed[chosen[0]].verdict == ADMITTED)
        if at == wanted if wanted is not None else first:
            chosen = at, queue.explained(raw, walk=True)
        if not queue.arrive(raw, explained):
            break
    if chosen is None:
        raise InputError("the kubelet crashes before that pod comes", field="number", advice="choose another")
    return ChosenPod(tuple(listed), *chosen, (*source.remarks_of_start, *queue.remarks))


def pods_of(source: NodeInput) -> tuple[RawPod, ...]:
    """The pods of the node itself: refused ones first, as they are what is asked about."""
    refused = source.bundle.refused() if source.bundle is not None else ()
    uids = {raw.uid for raw in refused}
    return (*refused, *(raw for raw in source.running if raw.uid not in uids))


def _listed(raw: RawPod, found: Explanation, queue: PodQueue, *, known: bool) -> JudgedPod:
    origin = GIVEN if not known else REFUSED if raw.uid in queue.refusals else RUNNING
    return JudgedPod(raw.namespace, raw.name, raw.uid, found.verdict, found.answer, origin)


def pod_number(pods: Sequence[RawPod], name: str, number: int | None) -> int | None:
    """Which of the pods is meant; None: any."""
    if name:
        for at, raw in enumerate(pods):
            if name in (raw.uid, raw.name, f"{raw.namespace}/{raw.name}"):
                return at
        raise InputError(
            f"there is no pod {quoted(name)}", field="pod", advice="give one of the pods that are listed"
        )
    if number is not None and number >= len(pods):
        what = f"there is no pod number {number}: there are {len(pods)}"
        raise InputError(what, field="number", advice="count from 0")
    return number
