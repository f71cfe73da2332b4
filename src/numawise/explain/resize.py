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
from numawise.node.node import Files, SimulatedNode
from numawise.quantity import Quantity
from numawise.render.resize import changed_sizes
from numawise.render.words import insufficient_text
from numawise.request.defaults import RawPod
from numawise.request.model import CPU, PodRequest
from numawise.results.explanation import ADMITTED, Explanation, Patch, Suggestion
from numawise.values import replace

MOST = 4
"""So many other pods are suggested at most."""
INFEASIBLE_WORDS = {
    "CPU Manager": "a Guaranteed pod keeps its CPUs beside a static CPU Manager",
    "Memory Manager": "a Guaranteed pod keeps its memory beside a static Memory Manager",
    "swap": "its containers may swap, and then their memory cannot be changed while they run",
    "static-pods": "it is a static pod",
    "capacity": "the whole node has less than that",
}


def explain_resize(node: SimulatedNode, raw: RawPod) -> Explanation | None:
    """Explain the resize that a pod waits for; None: it would not run as it is (rule 3)."""
    node = _copy(node)
    before = replace(raw, containers=raw.allocated, allocated=())
    if raw.uid in node.state.active:
        node.run_already([before])
    elif not arrive_as_allocated(node, raw):
        return None
    pod = node.requested(raw)
    tried = _copy(node)
    result = _own(tried.resize(pod), pod.uid)
    waiting = Explanation(
        name=pod.name, verdict=ADMITTED, answer="", namespace=pod.namespace, uid=pod.uid, qos=pod.qos
    )
    if result is None or result.outcome == ALLOCATED:
        sizes = changed_sizes(result) if result else ""
        what = f"its resize is carried out ({sizes})" if sizes else "it has the size that it asks for"
        return replace(waiting, answer=f"Allocated: with what is known of the node, {what}")
    short = result.decision.insufficient if isinstance(result.decision, Rejected) else None
    return replace(
        waiting,
        verdict=result.outcome,
        answer=f"{result.outcome.capitalize()}: {_cause(result, short)} ({changed_sizes(result)})",
        resources=(short.resource,) if short else (),
        reason=result.cause or result.reason,
        message=result.message,
        suggestions=tuple(_suggestions(node, pod, result, short)),
        searched=True,
    )


def _cause(result: ResizeResult, short: Insufficient | None) -> str:
    if short is not None:
        return f"{short.resource}: {insufficient_text(short)}"
    return next((text for word, text in INFEASIBLE_WORDS.items() if word in result.message), result.message)


def _suggestions(
    node: SimulatedNode, pod: PodRequest, result: ResizeResult, short: Insufficient | None
) -> Iterator[Suggestion]:
    if short is not None:
        yield from _less(node, pod, result, short)
        yield from _without_another(node, pod)
    again = _copy(node)
    again.remove(pod.uid)
    if again.would_run(replace(pod, uid=f"{pod.uid}-again")):
        text = "Delete the pod and create it with the new size"
        yield Suggestion("recreate", text, "its containers start from the beginning", recreate=True)


def _less(
    node: SimulatedNode, pod: PodRequest, result: ResizeResult, short: Insufficient
) -> Iterator[Suggestion]:
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
        tried = _own(_copy(node).resize(wanted), pod.uid)
        if tried is not None and tried.outcome == ALLOCATED:
            inits = sum(one.role.value != "app" for one in pod.containers)
            place = ("initContainers", at) if at < inits else ("containers", at - inits)
            patches = tuple(
                Patch("replace", ("spec", *place, "resources", side, name), str(amount))
                for side in (("requests", "limits") if fixed else ("requests",))
            )
            text = f"Ask for {name} {amount} in container {container.name}, the most that fits now"
            yield Suggestion("smaller-resize", text, pod=patches)


def _without_another(node: SimulatedNode, pod: PodRequest) -> Iterator[Suggestion]:
    """Pods whose end would make room, the smallest first."""
    others = [(uid, one) for uid, one in node.state.active.items() if uid != pod.uid and one is not None]
    others.sort(key=lambda other: (asked(other[1]).get(CPU, 0), other[0]))
    found = 0
    for uid, other in others:
        tried = _copy(node)
        tried.resize(pod)
        tried.remove(uid)
        tried.retry()
        if pod.uid in tried.state.resizes.desired:
            continue
        name = other.name if other.namespace == pod.namespace else f"{other.namespace}/{other.name}"
        yield Suggestion("remove", f"End pod {name}; the kubelet then tries the resize again", remove=(uid,))
        found += 1
        if found == MOST:
            return


def arrive_as_allocated(node: SimulatedNode, raw: RawPod) -> bool:
    """Admit and start a pod with the size that it is allocated; False: the kubelet would not take it."""
    pod = node.requested(replace(raw, containers=raw.allocated, allocated=()))
    decision = node.admit(pod)
    if isinstance(decision, Admitted):
        node.start(pod, decision)
    return isinstance(decision, Admitted)


def _own(results: tuple[ResizeResult, ...], uid: str) -> ResizeResult | None:
    return next((one for one in reversed(results) if one.uid == uid), None)


def _copy(node: SimulatedNode) -> SimulatedNode:
    return replace(node, files=Files(), write_files=False)
