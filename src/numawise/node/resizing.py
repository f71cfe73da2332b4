"""Resize pods of a simulated node: what the API server says first, and what follows when sizes change.

Rules kept here:

1. A resize that the API server of the release would not take never reaches the kubelet.
2. Containers have their new sizes as soon as these are allocated.  A pod that has become smaller makes room:
   what waits is tried again.
"""

from collections.abc import Iterable, Mapping

from numawise.engine.resize import ALLOCATED, UNCHANGED, ResizeResult
from numawise.engine.trace import Note, ignore
from numawise.errors import InputError
from numawise.node.node import SimulatedNode
from numawise.request.model import PodRequest
from numawise.request.resize import Resizable, ResizeRequest, refusal, resized, spelt_out
from numawise.results.simulation import Resized

Names = Mapping[str, str]
"""Uid → namespace and name."""


def resize(
    node: SimulatedNode, uid: str, change: ResizeRequest, names: Names, note: Note = ignore
) -> list[Resized]:
    """Change the size of a live pod, and try everything that waits; ``ValueError``: it fits no container."""
    if not node.rules.behaviour.resize_conditions:
        raise InputError(
            "resizes are simulated from Kubernetes 1.33 on", advice="give a later release with --kube"
        )
    pod = node.desired(uid)
    if pod is None:
        return []
    change = spelt_out(pod, change)
    problem = _refusal(node, pod, change)
    if problem:
        refused = ResizeResult(uid, UNCHANGED, pod=resized(pod, change), before=pod)
        return [Resized(names[uid], refused, refusal=problem)]
    return settle(node, node.resize(resized(pod, change), note), names, note)


def settle(
    node: SimulatedNode, results: Iterable[ResizeResult], names: Names, note: Note = ignore
) -> list[Resized]:
    """What became of resizes that were tried, and of those that they made room for (rule 2)."""
    latest = tuple(results)
    every = [*latest]
    node.sizes_reported()
    while node.rules.behaviour.resizes_wait_in_a_queue and any(result.shrank for result in latest):
        latest = node.retry(note)
        every += latest
        node.sizes_reported()
    return [Resized(names[result.uid], result, _held(node, result)) for result in every]


def _held(node: SimulatedNode, result: ResizeResult) -> tuple[tuple[str, int], ...]:
    """Exclusive CPUs of containers that ask for another number of them since they were resized."""
    held = node.state.cpu.assignments.get(result.uid, {})
    if result.pod is None or result.outcome != ALLOCATED:
        return ()
    return tuple(
        (container.name, held[container.name])
        for container in result.pod.containers
        if container.name in held and held[container.name].bit_count() != container.whole_cpus
    )


def _refusal(node: SimulatedNode, pod: PodRequest, change: ResizeRequest) -> str:
    """Why the API server of the release would not take a resize; '': it would (rule 1)."""
    rules = node.rules
    if not rules.resize.enabled:
        return "the gate InPlacePodVerticalScaling is off"
    pods, inits = rules.resize.pod_level, rules.resize.init_containers
    return refusal(Resizable(pods, inits, rules.behaviour.memory_limits_shrink), pod, change)
