"""What cannot be said of a pod because it is not known where devices are.

Rules kept here:

1. Only devices that are free matter, and only on machines with several NUMA nodes under a topology policy.
2. Under ``best-effort`` a pod is admitted wherever the devices are; its place is not known.
3. Under ``restricted`` and ``single-numa-node`` nothing is known, with two exceptions: what refuses a pod
   without regard to NUMA nodes refuses it anyway; and one that is refused without these devices is refused
   with them, because one more resource never makes the others agree.
4. What a pod is given whose place is not known others do not get: their places are not known either.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from numawise.engine.admit import Admitted, Rejected
from numawise.engine.failure import TOPOLOGY_AFFINITY
from numawise.machine.model import unlocated
from numawise.request.model import GUARANTEED, PodRequest
from numawise.results.simulation import Doubt
from numawise.rules.model import BEST_EFFORT, NONE
from numawise.values import replace

if TYPE_CHECKING:
    from numawise.node.node import SimulatedNode


def doubt_about(node: "SimulatedNode", pod: PodRequest) -> Doubt:
    """What is not known of a pod that comes next."""
    policy = node.rules.topology_policy
    if policy == NONE or len(node.machine.numa) < 2 or not unlocated(node.machine.plugins):
        return Doubt()
    asked = {name for container in pod.containers for name, count in container.devices if count}
    names = tuple(name for name in _unlocated(node) if name in asked)
    if _placed(pod):
        names = tuple(dict.fromkeys((*names, *node.doubt.resources)))
    if not names:
        return Doubt()
    decision = node.ask(pod)
    if isinstance(decision, Admitted):
        return Doubt(names, verdict=policy != BEST_EFFORT)
    if not isinstance(decision, Rejected) or decision.reason != TOPOLOGY_AFFINITY:
        return Doubt()
    without = node.ask(_without(pod, names))
    return Doubt() if isinstance(without, Rejected) else Doubt(names, verdict=True)


def _placed(pod: PodRequest) -> bool:
    """Whether a pod is given anything of its own."""
    return pod.qos == GUARANTEED or any(one.devices for one in pod.containers)


def _unlocated(node: "SimulatedNode") -> Iterable[str]:
    """Resources with free devices that are nobody knows where."""
    plugins = node.machine.plugins
    for name in unlocated(plugins):
        taken = node.state.devices.allocated.get(name, ())
        devices = next(plugin.devices for plugin in plugins if plugin.resource == name)
        if any(one.numa_unknown and one.healthy and one.id not in taken for one in devices):
            yield name


def _without(pod: PodRequest, names: Iterable[str]) -> PodRequest:
    dropped = frozenset(names)
    containers = tuple(
        replace(
            one,
            requests={name: size for name, size in one.requests.items() if name not in dropped},
            limits={name: size for name, size in one.limits.items() if name not in dropped},
        )
        for one in pod.containers
    )
    return replace(pod, containers=containers)
