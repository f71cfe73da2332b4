"""Why a running pod does not get the size that its spec asks for, and what would give it that.

Rules kept here:

1. The pod runs with what its status says it is allocated; its spec is what it asks for.
2. Nothing is suggested that the simulated kubelet did not carry out after the very change.
3. A pod that the kubelet would not have admitted as it is explained like any other.
"""

from collections.abc import Iterator

from numawise.engine.admit import Admitted, Rejected
from numawise.engine.predicates import Insufficient, asked, size_of
from numawise.engine.resize import ALLOCATED, ResizeResult
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.node.node import Files, SimulatedNode
from numawise.quantity import Quantity
from numawise.render.resize import changed_sizes
from numawise.render.words import insufficient_text
from numawise.request.defaults import RawPod
from numawise.request.model import CPU, PodRequest
from numawise.results.explanation import ADMITTED, Explanation, Patch, Suggestion
from numawise.values import dataclass, replace

MOST = 4
"""So many other pods are suggested at most."""
INFEASIBLE_WORDS = {
    "CPU Manager": "a Guaranteed pod keeps its CPUs beside a static CPU Manager",
    "Memory Manager": "a Guaranteed pod keeps its memory beside a static Memory Manager",
    "swap": "its containers may swap, and then their memory cannot be changed while they run",
    "static-pods": "it is a static pod",
    "capacity": "the whole node has less than that",
}


@dataclass(frozen=True, slots=True)
class ProvenResize:
    """A suggestion, and the node on which the kubelet carried it out (rule 2)."""

    suggestion: Suggestion
    after: SimulatedNode
    explanation: Explanation
    """Of the pod then."""


@dataclass(frozen=True, slots=True)
class ExplainedResize:
    """What becomes of a resize, with what its suggestions lead to."""

    explanation: Explanation
    before: SimulatedNode
    """The node with the pod as it is."""
    after: SimulatedNode | None = None
    """The node with the pod as it asks to be; None: it does not get that."""
    proven: tuple[ProvenResize, ...] = ()
    """As many as the explanation has suggestions, in the same order."""


def explain_resize(node: SimulatedNode, raw: RawPod) -> ExplainedResize | None:
    """Explain the resize that a pod waits for; None: it would not run as it is (rule 3)."""
    node = _copy(node)
    if raw.uid in node.state.active:
        node.run_already([raw])
    elif not arrive_as_allocated(node, raw):
        return None
    pod = node.wanted(raw)
    tried = _copy(node)
    result = _own(tried.retry(), pod.uid)
    waiting = Explanation(
        name=pod.name, verdict=ADMITTED, answer="", namespace=pod.namespace, uid=pod.uid, qos=pod.qos
    )
    if result is None or result.outcome == ALLOCATED:
        return ExplainedResize(_allocated(waiting, result), node, tried)
    short = result.decision.insufficient if isinstance(result.decision, Rejected) else None
    proven = tuple(_proven(node, raw, result, short, waiting))
    explanation = replace(
        waiting,
        verdict=result.outcome,
        answer=f"{result.outcome.capitalize()}: {_cause(result, short)} ({changed_sizes(result)})",
        resources=(short.resource,) if short else (),
        reason=result.cause or result.reason,
        message=result.message,
        suggestions=tuple(one.suggestion for one in proven),
        searched=True,
    )
    return ExplainedResize(explanation, node, None, proven)


def _allocated(waiting: Explanation, result: ResizeResult | None) -> Explanation:
    """The pod once its resize is carried out."""
    sizes = changed_sizes(result) if result else ""
    what = f"its resize is carried out ({sizes})" if sizes else "it has the size that it asks for"
    return replace(waiting, answer=f"Allocated: with what is known of the node, {what}")


def _cause(result: ResizeResult, short: Insufficient | None) -> str:
    if short is not None:
        return f"{short.resource}: {insufficient_text(short)}"
    return next((text for word, text in INFEASIBLE_WORDS.items() if word in result.message), result.message)


def _proven(
    node: SimulatedNode, raw: RawPod, result: ResizeResult, short: Insufficient | None, waiting: Explanation
) -> Iterator[ProvenResize]:
    pod = node.wanted(raw)
    if short is not None:
        yield from _less(node, pod, result, short, waiting)
        yield from _without_another(node, pod, waiting)
    again = _copy(node)
    again.remove(pod.uid)
    case = case_of(again, replace(raw, uid=f"{pod.uid}-again", allocated=None))
    if again.would_run(case.pod):
        found = explain(case, walk=True)
        decision = again.admit(case.pod)
        assert isinstance(decision, Admitted)
        again.start(case.pod, decision)
        text = "Delete the pod and create it with the new size"
        recreated = Suggestion("recreate", text, "its containers start from the beginning", recreate=True)
        yield ProvenResize(recreated, again, found)


def _less(
    node: SimulatedNode, pod: PodRequest, result: ResizeResult, short: Insufficient, waiting: Explanation
) -> Iterator[ProvenResize]:
    """The most that one container may ask for instead."""
    name, over = short.resource, short.requested - (short.capacity - short.used)
    for at, container in enumerate(pod.containers):
        if result.before is None or name not in container.requests:
            continue
        before = size_of(name, result.before.containers[at].requests.get(name))
        size = size_of(name, container.requests[name]) - over
        if size <= before:
            continue
        amount = Quantity(size * 10**6) if name == CPU else Quantity.of(size)
        limits = container.limits
        fixed = name in limits and limits[name].nano == container.requests[name].nano
        sides = {"requests": {**container.requests, name: amount}}
        sides["limits"] = {**limits, name: amount} if fixed else dict(limits)
        smaller = replace(container, requests=sides["requests"], limits=sides["limits"])
        wanted = replace(pod, containers=(*pod.containers[:at], smaller, *pod.containers[at + 1 :]))
        after = _copy(node)
        tried = _own(after.resize(wanted), pod.uid)
        if tried is not None and tried.outcome == ALLOCATED:
            inits = sum(one.role.value != "app" for one in pod.containers)
            place = ("initContainers", at) if at < inits else ("containers", at - inits)
            patches = tuple(
                Patch("replace", ("spec", *place, "resources", side, name), str(amount))
                for side in (("requests", "limits") if fixed else ("requests",))
            )
            text = f"Ask for {name} {amount} in container {container.name}, the most that fits now"
            smaller_one = Suggestion("smaller-resize", text, pod=patches)
            yield ProvenResize(smaller_one, after, _allocated(waiting, tried))


def _without_another(node: SimulatedNode, pod: PodRequest, waiting: Explanation) -> Iterator[ProvenResize]:
    """Pods whose end would make room, the smallest first."""
    others = [(uid, one) for uid, one in node.state.active.items() if uid != pod.uid and one is not None]
    others.sort(key=lambda other: (asked(other[1]).get(CPU, 0), other[0]))
    found = 0
    for uid, other in others:
        tried = _copy(node)
        tried.resize(pod)
        results = (*tried.remove(uid), *tried.retry())
        if pod.uid in tried.state.resizes.desired:
            continue
        name = other.name if other.namespace == pod.namespace else f"{other.namespace}/{other.name}"
        ended = Suggestion(
            "remove", f"End pod {name}; the kubelet then tries the resize again", remove=(uid,)
        )
        yield ProvenResize(ended, tried, _allocated(waiting, _own(results, pod.uid)))
        found += 1
        if found == MOST:
            return


def arrive_as_allocated(node: SimulatedNode, raw: RawPod) -> bool:
    """Admit and start a pod with the size that it is allocated; False: the kubelet would not take it."""
    pod = node.requested(raw)
    decision = node.admit(pod)
    if isinstance(decision, Admitted):
        node.start(pod, decision)
        node.await_size(raw)
    return isinstance(decision, Admitted)


def _own(results: tuple[ResizeResult, ...], uid: str) -> ResizeResult | None:
    return next((one for one in reversed(results) if one.uid == uid), None)


def _copy(node: SimulatedNode) -> SimulatedNode:
    return replace(node, files=Files(), write_files=False)
