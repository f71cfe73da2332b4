"""Admit pods one after the other on a simulated kubelet."""

from collections.abc import Iterable
from dataclasses import dataclass

from numawise.engine.admit import Admitted, Crashed, Decision
from numawise.engine.lifecycle import Started
from numawise.engine.state import NodeState
from numawise.engine.trace import Step
from numawise.node.node import Node
from numawise.request.model import PodRequest


@dataclass(frozen=True, slots=True)
class Simulated:
    """What became of one pod, and why."""

    pod: PodRequest
    decision: Decision
    steps: tuple[Step, ...]
    started: tuple[Started, ...]
    granted: NodeState
    """The state between admission and start: what was granted to whom."""


def simulate(node: Node, pods: Iterable[PodRequest], *, start: bool = True) -> tuple[Simulated, ...]:
    """Admit and start the pods in order; a crash of the kubelet ends it.

    ``start``: False for pods that run already, and are only admitted again.
    """
    outcomes = []
    for pod in pods:
        steps: list[Step] = []
        decision = node.admit(pod, steps.append)
        granted = node.state
        started: tuple[Started, ...] = ()
        if isinstance(decision, Admitted) and start:
            started = node.start(pod, decision, steps.append)
            if any(container.devices for container in pod.containers):
                granted = with_devices(granted, node.state)
        outcomes.append(Simulated(pod, decision, tuple(steps), started, granted))
        if isinstance(decision, Crashed):
            break
    return tuple(outcomes)


def with_devices(granted: NodeState, started: NodeState) -> NodeState:
    """What was granted, devices that were only chosen at the start included."""
    return NodeState(granted.cpu, granted.memory, started.devices)
