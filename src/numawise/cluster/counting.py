"""How many pods of a shape a node would let in one after the other, counted where that needs no trial.

Under ``single-numa-node``, and under ``restricted`` where one NUMA node could have it, a pod of one container
is let in when one NUMA node has all it asks for, and takes it there.  So the NUMA nodes do not depend on each
other, and what each has decides: the number is the sum of what goes into each, within the sums of the node.

Rules kept here:

1. A number is given where it is what trying would give (``tests/property/test_counting.py``), else None:
   several containers, pod-level requests, claims, options of the CPU policy, devices on several NUMA
   nodes or none, memory in groups, a plugin that may refuse, a node under pressure.
2. What pods have that are gone is collected first, as an admission does it.
"""

from collections.abc import Mapping

from numawise.cluster.asking import Asker, Situation
from numawise.engine.cpu.hints import exclusive_cpus
from numawise.engine.draft import Draft
from numawise.engine.memory.hints import takes_part, wanted_by
from numawise.engine.predicates import PODS, asked
from numawise.engine.provider import Admission
from numawise.engine.state import NodeState, NumaMemory, Plugin
from numawise.engine.topology.scope import PROVIDERS
from numawise.machine.description import NodeDescription
from numawise.machine.preference import LinkedGpus
from numawise.request.defaults import RawPod
from numawise.request.model import EPHEMERAL, MEMORY, ContainerRequest, PodRequest, Role
from numawise.rules.model import RESTRICTED, SINGLE, CpuOptions, Rules

PLAIN_OPTIONS = CpuOptions()
LARGEST = 1 << 62


def counted_places(asker: Asker, situation: Situation, raw: RawPod, most: int) -> int | None:
    """How many copies of a pod would be let in, at most ``most``; None: they have to be tried (rule 1)."""
    node, state = situation.member.node, situation.state
    rules = node.rules
    if not is_simple(rules) or not is_calm(state, node.description):
        return None
    pod, _ = asker.want(node, raw)
    container = only_container(pod)
    if container is None:
        return None
    if asker.lack(situation, raw) is not None:
        return 0
    left = _by_sums(situation, pod, most)
    cpus = exclusive_cpus(rules, pod, container) if rules.cpu_static else 0
    sizes = wanted_by(rules, pod, container) if takes_part(rules, pod) else ()
    devices = [(name, count) for name, count in container.devices if count]
    if sizes is None:
        return None
    if not cpus and not sizes and not devices:
        return left
    free = FreeAmounts(situation, pod)
    places = dict.fromkeys((numa.id for numa in node.machine.numa), left)
    if cpus:
        _narrow(
            places,
            {numa: (free.cpus & own).bit_count() for numa, own in node.machine.layout.numas.items()},
            cpus,
        )
        if rules.topology_policy == RESTRICTED and cpus > max(
            map(int.bit_count, node.machine.layout.numas.values())
        ):
            return None
    for kind, size in sizes:
        amounts = memory_by_numa(free.memory, kind, size, restricted=rules.topology_policy == RESTRICTED)
        if amounts is None:
            return None
        _narrow(places, amounts, size)
    for name, count in devices:
        on_numa = devices_by_numa(state.devices.plugins.get(name), free.taken.get(name, frozenset()), count)
        if on_numa is None:
            return None
        _narrow(places, on_numa, count)
        if rules.topology_policy == RESTRICTED and not wide_enough(state.devices.plugins[name], count):
            return None
    return min(left, sum(places.values()))


def is_simple(rules: Rules) -> bool:
    """Whether NUMA nodes do not depend on each other."""
    return rules.topology_policy in (SINGLE, RESTRICTED) and rules.cpu_options == PLAIN_OPTIONS


def is_calm(state: NodeState, description: NodeDescription | None) -> bool:
    """Whether nothing but room decides: no pod is resized, the node is under no pressure and stays."""
    if state.resizes.desired or state.resizes.counted:
        return False
    return description is None or not (description.pressures or description.shutting_down)


def only_container(pod: PodRequest) -> ContainerRequest | None:
    """The container that asks for everything a pod gets; None: there are several, or others ask."""
    if len(pod.containers) != 1 or pod.requests is not None or pod.claims:
        return None
    (container,) = pod.containers
    return None if container.role is not Role.APP or container.claimed else container


def _by_sums(situation: Situation, pod: PodRequest, most: int) -> int:
    """How many copies the sums of the node allow; the first of them fits."""
    limits, sums = situation.member.allocatable, situation.used
    for name, size in asked(pod).items():
        if size > 0 and (name in limits or name not in (MEMORY, EPHEMERAL, PODS)):
            most = min(most, max(1, (limits.get(name, 0) - sums.get(name, 0)) // size))
    return most


class FreeAmounts:
    """What nobody has, once what is left of pods that are gone was collected (rule 2)."""

    def __init__(self, situation: Situation, pod: PodRequest) -> None:
        node, state = situation.member.node, situation.state
        rules = node.rules
        if state.departed:
            draft = Draft(state, pod)
            draft.last_pod = pod.uid
            admission = Admission(node.machine, rules, draft, pod)
            for provider in PROVIDERS:
                if provider.present(rules):
                    provider.collect(admission)
            self.cpus = draft.cpu.shared & ~rules.reserved_cpus
            self.memory: Mapping[int, NumaMemory] = draft.memory.numa
            self.taken: Mapping[str, frozenset[str]] = draft.devices.allocated.rows
        else:
            self.cpus = state.cpu.shared & ~rules.reserved_cpus
            self.memory, self.taken = state.memory.numa, state.devices.allocated


def _narrow(places: dict[int, int], amounts: Mapping[int, int], size: int) -> None:
    for numa, most in places.items():
        if most:
            places[numa] = min(most, amounts.get(numa, 0) // size)


def memory_by_numa(
    memory: Mapping[int, NumaMemory], kind: str, size: int, *, restricted: bool
) -> dict[int, int] | None:
    """Bytes of a type that each NUMA node has free; None: nodes are grouped, or numbers wrap around."""
    amounts = {}
    largest = 0
    for numa, own in memory.items():
        table = own.tables.get(kind)
        if (
            table is None
            or own.cells.bit_count() > 1
            or table.allocatable >= LARGEST
            or table.free >= LARGEST
        ):
            return None
        amounts[numa] = table.free if table.allocatable >= size else 0
        largest = max(largest, table.allocatable)
    return None if not size or (restricted and largest < size) else amounts


def devices_by_numa(plugin: Plugin | None, taken: frozenset[str], count: int) -> dict[int, int] | None:
    """Devices that each NUMA node has free; None: some are on several or none, or the plugin may refuse."""
    if plugin is None or (plugin.refuses_several and count > 1):
        return None
    amounts: dict[int, int] = {}
    for device in plugin.devices.values():
        if device.numa is None or len(device.numa) != 1:
            return None
        (numa,) = device.numa
        amounts.setdefault(numa, 0)
        if device.id in plugin.healthy and device.id not in taken:
            amounts[numa] += 1
    if isinstance(plugin.preference, LinkedGpus) and count > 1:
        listed = set(plugin.preference.gpus)
        uneven = any(size % count for size in amounts.values())
        if uneven or not plugin.devices.keys() <= listed:
            return None
    return amounts


def wide_enough(plugin: Plugin, count: int) -> bool:
    """Whether one NUMA node could ever have so many."""
    amounts: dict[int, int] = {}
    for device in plugin.devices.values():
        for numa in device.numa or ():
            amounts[numa] = amounts.get(numa, 0) + 1
    return max(amounts.values(), default=0) >= count
