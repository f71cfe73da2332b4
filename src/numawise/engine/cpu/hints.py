"""Which NUMA nodes could serve a request for exclusive CPUs.

Counterpart: ``GetTopologyHints`` of pkg/kubelet/cm/cpumanager/policy_static.go.
"""

from numawise.engine.hint import NO_PREFERENCE, NOWHERE, Answer, HintRule, Sockets
from numawise.engine.provider import Admission
from numawise.engine.sparing import Need
from numawise.machine.model import CpuLayout
from numawise.request.model import ContainerRequest, PodRequest, Role, most_at_once
from numawise.rules.model import Rules
from numawise.sets import bits_of


def exclusive_cpus(rules: Rules, pod: PodRequest, container: ContainerRequest) -> int:
    """How many CPUs a container has to itself; 0: it runs in a shared pool."""
    if not pod.guaranteed:
        return 0
    if pod.pod_level and rules.behaviour.pod_level_excluded:
        return container.whole_cpus if rules.pod_level_managers and container.fixed else 0
    return container.whole_cpus


def exclusive_pod_cpus(rules: Rules, pod: PodRequest) -> int:
    """How many CPUs a pod has to itself at one time."""
    if not pod.guaranteed:
        return 0
    if pod.pod_level and rules.pod_level_managers:
        return pod.whole_cpus
    lasting = rules.behaviour.sidecars_keep_their_share
    return most_at_once(
        pod.containers, lambda container: exclusive_cpus(rules, pod, container), lasting=lasting
    )


def container_hints(admission: Admission, container: ContainerRequest) -> Answer:
    """Hints for one container."""
    layout, rules, pod = admission.machine.layout, admission.rules, admission.pod
    cpu = admission.draft.cpu
    count = exclusive_cpus(rules, pod, container) if rules.cpu_static else 0
    if not count:
        return NO_PREFERENCE
    held = cpu.get(pod.uid, container.name)
    if held is None:
        free = cpu.shared & ~rules.reserved_cpus
        return {"cpu": family(layout, rules, free, cpu.reusable.get(pod.uid, 0), count)}
    if held.bit_count() != count:
        return {"cpu": NOWHERE}
    return {"cpu": family(layout, rules, held, 0, count)}


def pod_hints(admission: Admission) -> Answer:
    """Hints for a pod as a whole."""
    layout, rules, pod = admission.machine.layout, admission.rules, admission.pod
    cpu = admission.draft.cpu
    count = exclusive_pod_cpus(rules, pod) if rules.cpu_static else 0
    if not count:
        return NO_PREFERENCE
    if pod.pod_level and rules.pod_level_managers and empty_pool(rules, pod, count):
        return {"cpu": NOWHERE}
    held = 0
    recorded = cpu.rows.get(pod.uid, {})
    for container in pod.containers if recorded else ():
        cpus = recorded.get(container.name)
        if cpus is None:
            continue
        if cpus.bit_count() != exclusive_cpus(rules, pod, container):
            return {"cpu": NOWHERE}
        held |= cpus
    if held.bit_count() == count:
        return {"cpu": family(layout, rules, held, 0, count)}
    free = cpu.shared & ~rules.reserved_cpus
    return {"cpu": family(layout, rules, free, cpu.reusable.get(pod.uid, 0) | held, count)}


def empty_pool(rules: Rules, pod: PodRequest, total: int) -> str:
    """Why a pod's own shared pool would be empty though a container needs it; '' when it is not."""
    sidecars = exclusive = 0
    shared = False
    for container in pod.containers:
        count = exclusive_cpus(rules, pod, container)
        if container.role is Role.INIT:
            if not count and sidecars >= total:
                return "pod rejected, pod has shared init containers but no cpus available for them"
            continue
        shared = shared or not count
        exclusive += count
        if container.role is Role.SIDECAR:
            sidecars += count
    if shared and exclusive >= total:
        return (
            "pod rejected, sum of exclusive container cpu requests equals pod budget, "
            "leaving no cpus for shared containers"
        )
    return ""


def family(layout: CpuLayout, rules: Rules, available: int, reusable: int, count: int) -> HintRule:
    """Masks whose nodes have enough available CPUs, and all those that may be used again."""
    amounts = []
    touch = []
    nodes = 0
    for numa, cpus in layout.numas.items():
        bit = 1 << numa
        nodes |= bit
        amounts.append((bit, (available & cpus).bit_count()))
        if reusable & cpus:
            touch.append(bit)
    width = _width(layout, count)
    return HintRule(
        nodes=nodes,
        needs=(Need(tuple(amounts), count - reusable.bit_count()),),
        touch=tuple(touch),
        width=width,
        sockets=_sockets(layout, width) if rules.cpu_options.by_socket else None,
    )


def _width(layout: CpuLayout, count: int) -> int:
    """How many nodes the request needs on an empty machine, reserved CPUs counted in."""
    for width, size in enumerate(sorted((c.bit_count() for c in layout.numas.values()), reverse=True), 1):
        count -= size
        if count <= 0:
            return width
    return len(layout.numas)


def _sockets(layout: CpuLayout, width: int) -> Sockets | None:
    per_socket = len(layout.numas) // len(layout.sockets)
    if per_socket < 1:
        return None
    of_numa = {numa: bits_of(sockets) for numa, sockets in layout.sockets_of_numa.items()}
    return Sockets(of_numa, fewest=-(-width // per_socket))
