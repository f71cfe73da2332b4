"""A new size for a pod: what is changed of its spec, and what the API server would not take.

Rules kept here:

1. Quantities are merged into the spec by name; what is not named stays.
2. Only CPU and memory change, of containers, sidecars and, where the release lets it, init containers and
   pods.  Nothing is removed, and the QoS class stays.
3. ``refusal`` is in the API server's words; a change that passed it before is only applied.
"""

from collections.abc import Mapping

from numawise.errors import quoted
from numawise.request.defaults import qos_class
from numawise.request.model import CPU, MEMORY, Amounts, ContainerRequest, PodRequest, Role
from numawise.values import dataclass, field, replace

SIZES = (CPU, MEMORY)


@dataclass(frozen=True, slots=True)
class SizeChange:
    """New requests and limits."""

    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    sizes: Amounts = field(default_factory=dict)
    """New requests that take along a limit which was the same, or is below."""

    def settled(self, requests: Amounts, limits: Amounts) -> "SizeChange":
        """The change spelt out, for what has these requests and limits."""
        if not self.sizes:
            return self
        along = {}
        for name, amount in self.sizes.items():
            limit, request = limits.get(name), requests.get(name)
            if limit is None:
                continue
            if request is None or limit.nano == request.nano or limit.nano < amount.nano:
                along[name] = amount
        return SizeChange({**self.sizes, **self.requests}, {**along, **self.limits})


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """What is to change of one pod; ``''`` stands for its only container."""

    containers: Mapping[str, SizeChange] = field(default_factory=dict)
    pod: SizeChange | None = None
    """Pod-level resources."""


def spelt_out(pod: PodRequest, change: ResizeRequest) -> ResizeRequest:
    """A change with the names and limits that go without saying; ``ValueError``: it fits no container."""
    known = {container.name: container for container in pod.containers}
    apps = [container.name for container in pod.containers if container.role is Role.APP]
    changes: dict[str, SizeChange] = {}
    for name, size in change.containers.items():
        if not name and len(apps) > 1:
            raise ValueError(f"which container of {pod.name}? It has {', '.join(apps)}")
        container = known.get(name or apps[0])
        if container is None:
            raise ValueError(f"{pod.name} has no container {quoted(name)}, but {', '.join(known)}")
        changes[container.name] = size.settled(container.requests, container.limits)
    own = change.pod and change.pod.settled(pod.requests or {}, pod.limits or {})
    return ResizeRequest(changes, own)


def resized(pod: PodRequest, change: ResizeRequest) -> PodRequest:
    """The pod with its new spec (rule 1)."""
    containers = tuple(
        _changed(container, change.containers[container.name])
        if container.name in change.containers
        else container
        for container in pod.containers
    )
    pod = replace(pod, containers=containers)
    if change.pod is None:
        return pod
    requests = {**(pod.requests or {}), **change.pod.requests}
    return replace(pod, requests=requests, limits={**(pod.limits or {}), **change.pod.limits})


def _changed(container: ContainerRequest, change: SizeChange) -> ContainerRequest:
    requests, limits = {**container.requests, **change.requests}, {**container.limits, **change.limits}
    for name, amount in change.limits.items():
        requests.setdefault(name, amount)
    return replace(container, requests=requests, limits=limits)


@dataclass(frozen=True, slots=True)
class Resizable:
    """What a release lets change, beside containers and sidecars."""

    pods: bool = True
    """Pod-level resources (gate InPlacePodLevelResourcesVerticalScaling)."""
    init_containers: bool = True
    """Gate InPlacePodVerticalScalingInitContainers."""
    shrinking_memory: bool = True
    """Memory limits may shrink, or be added, without a restart of the container."""


def refusal(may: Resizable, pod: PodRequest, change: ResizeRequest) -> str:
    """Why the API server of the release would not take a change; '': it would (rule 2)."""
    if pod.constraints.static or pod.constraints.mirror:
        return "static pods cannot be resized"
    if (pod.pod_level or change.pod is not None) and not may.pods:
        return (
            "resize of pods with pod-level resources is forbidden when "
            "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
        )
    for container in pod.containers:
        size = change.containers.get(container.name)
        problem = _size_refusal(may, container, size) if size else ""
        if problem:
            return f"container {container.name}: {problem}"
    own = change.pod or SizeChange()
    if any(name not in SIZES for name in (*own.requests, *own.limits)):
        return "only cpu and memory resources are mutable"
    after = resized(pod, change)
    for container in after.containers:
        problem = _above_limit(container.requests, container.limits)
        if problem:
            return f"container {container.name}: {problem}"
    sizes = [(one.requests, one.limits) for one in after.containers]
    if after.pod_level:
        sizes = [(after.requests or {}, after.limits or {})]
        if problem := _above_limit(*sizes[0]):
            return problem
    if qos_class(sizes) != pod.qos:
        return "Pod QOS Class may not change as a result of resizing"
    return ""


def _size_refusal(may: Resizable, container: ContainerRequest, size: SizeChange) -> str:
    if any(name not in SIZES for name in (*size.requests, *size.limits)):
        return "only cpu and memory resources are mutable"
    if container.role is Role.INIT and not may.init_containers:
        return "resources for non-sidecar init containers are immutable"
    limit, before = size.limits.get(MEMORY), container.limits.get(MEMORY)
    if limit is None or may.shrinking_memory or MEMORY in container.restarts_for:
        return ""
    if before is None:
        return "memory limits cannot be added unless resizePolicy is RestartContainer"
    shrinks = limit.nano < before.nano
    return "memory limits cannot be decreased unless resizePolicy is RestartContainer" if shrinks else ""


def _above_limit(requests: Amounts, limits: Amounts) -> str:
    for name in SIZES:
        request, limit = requests.get(name), limits.get(name)
        if request is not None and limit is not None and request.nano > limit.nano:
            return f"Invalid value: {request}: must be less than or equal to {name} limit of {limit}"
    return ""
