"""How many more of these fit?  Copies of a pod until one is refused.

Rules kept here:

1. A copy fits when the scheduler would send it (the sum of all requests stays within what is allocatable),
   the kubelet admits it, and its containers start.
2. The copy that does not fit leaves no trace.
3. It ends at ``most`` copies in any case.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from numawise.engine.admit import Admitted, Crashed, Rejected
from numawise.engine.lifecycle import start_containers
from numawise.engine.predicates import Sums, asked, insufficient
from numawise.engine.state import NodeState
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.machine.model import Machine
from numawise.node.node import Node, Simulated
from numawise.request.defaults import RawPod

MOST = 10_000
REJECTED, CRASHED, START, SUMS, LIMIT = "rejected", "crashed", "start-error", "sums", "limit"

Progress = Callable[[int], None]
"""Told how many pods are done."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why there is no further copy."""

    by: str
    """``rejected``, ``crashed``, ``start-error``, ``sums`` or ``limit``."""
    reason: str = ""
    message: str = ""
    why: str = ""
    """What ran out, in a sentence."""


@dataclass(slots=True)
class Filled:
    """The copies that fit."""

    pod: RawPod
    copies: list[Simulated] = field(default_factory=list)
    stop: Stop = field(default_factory=lambda: Stop(LIMIT))

    @property
    def count(self) -> int:
        """How many."""
        return len(self.copies)


def fill(node: Node, found: Filled, most: int = MOST, progress: Progress | None = None) -> None:
    """Admit and start copies of a pod on a node until one does not fit; each is found as soon as it runs."""
    limit = node.allocatable()
    while found.count < most:
        raw = copy_of(found.pod, found.count)
        pod = node.requested(raw)
        short = insufficient(node.rules, Sums(limit, node.used()), asked(pod))
        if short is not None:
            found.stop = Stop(SUMS, short.reason, short.message, short.text)
            return
        decision = node.ask(pod)
        if isinstance(decision, Crashed):
            found.stop = Stop(CRASHED, "", decision.message, _why(node, raw))
            return
        if isinstance(decision, Rejected):
            found.stop = Stop(REJECTED, decision.reason, decision.message, _why(node, raw))
            return
        state, started = start_containers(node.machine, node.rules, decision.state, pod, decision.affinity)
        failed = next((one for one in started if one.error), None)
        if failed is not None:
            found.stop = Stop(START, "", failed.error, f"container {failed.container} could not start")
            return
        granted = NodeState(decision.state.cpu, decision.state.memory, state.devices)
        node.keep(state)
        found.copies.append(Simulated(pod, decision, (), started, granted))
        if progress is not None:
            progress(found.count)


def copy_of(pod: RawPod, number: int) -> RawPod:
    """One of many copies."""
    name = f"{pod.name}-{number}"
    return replace(
        pod, name=name, uid=f"copy/{pod.namespace}/{name}", owner=pod.owner or f"Pod {pod.name}", qos=pod.qos
    )


def _why(node: Node, raw: RawPod) -> str:
    return explain(case_of(node, raw), suggest=False).answer


def numas_of(machine: Machine, one: Simulated) -> int:
    """The NUMA nodes on which an admitted pod has CPUs, memory or devices; 0: it has none of its own."""
    if not isinstance(one.decision, Admitted):
        return 0
    uid, state = one.pod.uid, one.granted
    cpus = state.cpu.pods.get(uid, 0)
    for own in state.cpu.assignments.get(uid, {}).values():
        cpus |= own
    mask = 0
    for numa, own in machine.layout.numas.items():
        if own & cpus:
            mask |= 1 << numa
    for blocks in (*state.memory.assignments.get(uid, {}).values(), state.memory.pods.get(uid, ())):
        for block in blocks:
            mask |= block.numa
    for resources in state.devices.grants.get(uid, {}).values():
        for grant in resources.values():
            for numa, _ in grant.per_numa:
                if numa >= 0:
                    mask |= 1 << numa
    return mask
