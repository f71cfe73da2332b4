"""Pods that come back under their uid, and what the kubelet makes of them: the defect ``reuse-outlives-pod``.

Rules kept here:

1. A pod comes back under its uid when that is made from its manifest or written in it: static pods (by their
   annotations, their owner, or the folder they lie in), and manifests with a uid of their own.
2. It matters where an ordinary init container has CPUs, memory or devices that a later one may use again.
3. What comes of it is tried on an empty node: the pod comes, goes, comes back, and the kubelet restarts.
   Without a machine it is said as what may happen.
"""

from collections.abc import Iterator
from pathlib import Path

from numawise.apps.check.context import Context
from numawise.inputs.pods import PodSource
from numawise.node.node import Files, SimulatedNode, boot, next_start, simulate
from numawise.request.model import ContainerRequest, PodRequest, Role
from numawise.results.finding import Finding, Severity, found
from numawise.rules.check import Refusal

STORED = ("resourceVersion", "creationTimestamp")


def returning_findings(source: PodSource, pod: PodRequest, context: Context) -> Iterator[Finding]:
    """What a pod does to its kubelet when it comes back under its uid."""
    how = _how(source, pod, context)
    holders = [one for one in pod.containers if one.role is Role.INIT and _holds(one, pod, context)]
    if not how or not holders:
        return
    names = ", ".join(one.name for one in holders)
    what = f"{how}: it comes back under its uid, and what init container {names} had is then used again"
    part = next(
        part for one, (_, part) in zip(pod.containers, source.parts, strict=True) if one is holders[0]
    )
    place = source.place(part, "resources")
    if not context.known:
        yield found("NW438", place, f"{what}: the kubelet may refuse its next start")
        return
    refusal = _tried(pod, context)
    if refusal is None:
        yield found("NW438", place, f"{what} although it is not its own", severity=Severity.INFO)
    else:
        message = f"{what}: the kubelet refuses its next start"
        yield found("NW438", place, message, kubelet=refusal.message, stage=refusal.stage)


def _how(source: PodSource, pod: PodRequest, context: Context) -> str:
    """Why a pod comes back under its uid (rule 1); '' when it does not."""
    if source.kind != "Pod" or source.metadata is None:
        return ""
    metadata = source.metadata
    folder = context.configuration.raw.get("staticPodPath")
    file = source.spec.document.file
    inside = isinstance(folder, str) and bool(folder) and Path(file).absolute().is_relative_to(folder)
    static = pod.constraints.static or pod.constraints.mirror or inside
    if static or metadata.at("ownerReferences", 0, "kind").value == "Node":
        return "a static pod"
    if source.uid and not any(metadata.at(field).value for field in STORED):
        return f"metadata.uid is {source.uid}"
    return ""


def _holds(container: ContainerRequest, pod: PodRequest, context: Context) -> bool:
    """True when the kubelet gives the container something that others cannot have (rule 2)."""
    cpus = pod.guaranteed and context.static_cpus and container.whole_cpus > 0
    memory = pod.guaranteed and context.static_memory and any(size for _, size in container.memory or ())
    return cpus or memory or any(count for _, count in container.devices)


def _tried(pod: PodRequest, context: Context) -> Refusal | None:
    """How the kubelet refuses its next start (rule 3); None: it does not."""
    if context.start.config is None:
        return None
    node = boot(context.machine, context.start.config, Files(), version=context.version)
    if not isinstance(node, SimulatedNode):
        return None
    node.write_files = False
    node.plugins_registered(context.machine.plugins)
    for _ in range(2):
        (outcome,) = simulate(node, [pod])
        if not outcome.admitted:
            return None
        refusal = next_start(node)
        node.remove(pod.uid)
    return refusal
