"""Containers with a resize policy, where the kubelet's managers do not let them grow.

Rules kept here:

1. A ``resizePolicy`` that is written says that the container is meant to be resized in place.
2. What the kubelet makes of a resize is asked, not repeated: the pod is admitted on an empty node and asks
   for more of the resource.  Without a machine only what no machine would allow is reported.
"""

from collections.abc import Iterator, Mapping

from numawise.apps.check.context import Context
from numawise.engine.resize import ALLOCATED, INFEASIBLE, UNCHANGED, infeasible
from numawise.inputs.pods import PodSource
from numawise.node.node import Files, SimulatedNode, boot, simulate
from numawise.quantity import Quantity
from numawise.request.model import CPU, MEMORY, Amounts, PodRequest
from numawise.results.finding import Finding, Severity, found
from numawise.values import replace

MORE = {CPU: Quantity.parse("1"), MEMORY: Quantity.parse("1Gi")}
MANAGERS = "Resize is infeasible for Guaranteed Pods"


def resize_findings(source: PodSource, pod: PodRequest, context: Context) -> Iterator[Finding]:
    """What becomes of containers that are meant to be resized (rule 1)."""
    node = context.start.node
    if node is None or not node.rules.resize.enabled or not pod.guaranteed:
        return
    if not (node.rules.cpu_static or node.rules.memory_static):
        return
    for request, (_, part) in zip(pod.containers, source.parts, strict=True):
        policies = part.at("resizePolicy").value
        listed = policies if isinstance(policies, list) else []
        names = [one.get("resourceName") for one in listed if isinstance(one, Mapping)]
        for resource in dict.fromkeys(name for name in names if name in MORE):
            outcome, words = _asked(pod, _larger(pod, request.name, resource), context)
            if not outcome:
                continue
            message = f"container {request.name} has a resizePolicy for {resource}: a resize is {outcome}"
            milder = None if outcome == INFEASIBLE else Severity.INFO
            yield found("NW439", source.place(part, "resizePolicy"), message, severity=milder, kubelet=words)


def _larger(pod: PodRequest, name: str, resource: str) -> PodRequest:
    """The pod with more of a resource in one container."""
    containers = tuple(
        replace(one, requests=_more(one.requests, resource), limits=_more(one.limits, resource))
        if one.name == name
        else one
        for one in pod.containers
    )
    return replace(pod, containers=containers)


def _more(amounts: Amounts, resource: str) -> Amounts:
    more = MORE[resource]
    has = amounts.get(resource, Quantity())
    return {**amounts, resource: Quantity(has.nano + more.nano, more.style)}


def _asked(pod: PodRequest, larger: PodRequest, context: Context) -> tuple[str, str]:
    """What the kubelet makes of it, and its words (rule 2); '' when it is carried out."""
    node = context.start.node
    assert node is not None
    if not context.known:
        words = infeasible(node.rules, larger, pod, node.allocatable())
        return (INFEASIBLE, words) if words.startswith(MANAGERS) else ("", "")
    tried = (
        boot(context.machine, context.start.config, Files(), version=context.version)
        if context.start.config is not None
        else None
    )
    if not isinstance(tried, SimulatedNode):
        return "", ""
    tried.write_files = False
    tried.plugins_registered(context.machine.plugins)
    (outcome,) = simulate(tried, [pod])
    results = tried.resize(larger) if outcome.admitted else ()
    for result in results:
        if result.uid == pod.uid and result.outcome not in (ALLOCATED, UNCHANGED):
            return result.outcome, result.message
    return "", ""
