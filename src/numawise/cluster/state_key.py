"""When two nodes answer alike: a key of a state that is the same whoever holds what.

Rules kept here:

1. Nodes with equal keys give the same answer to any pod that neither of them knows, with the same CPUs and
   memory, and devices in the same places.  What the managers look at is in the key: machine, rules and Node
   object, the shared pool, every memory table, the devices that count as taken, and the sums of all requests.
2. What a pod has that is gone is collected at the next look, and so it is in the key, without its name.
3. Who lives where is not in the key.  A pod that looks at other pods (ports, a priority that ends others) is
   not answered by it; nor is a state with resizes, with containers whose devices may be used again, or one
   that has not heard of all its pods: these have no key.
4. Devices are known by their rank among the ids of their plugin, so that nodes of one type answer alike
   though every GPU has an id of its own: ids are only ever compared.  Replicas of a device have its id in
   theirs, so such plugins keep their ids.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from typing import Any

from numawise.engine.state import NodeState, Plugin
from numawise.machine.preference import LinkedGpus, LowestIds
from numawise.node.node import SimulatedNode
from numawise.values import dataclass, field

StateKey = tuple[Hashable, ...]
MOST_PLUGINS = 4096


@dataclass(slots=True)
class DeviceRanks:
    """Plugins as they are remembered, each once; equal ones have one number (rule 4)."""

    numbers: dict[Hashable, int] = field(default_factory=dict)
    plugins: dict[int, tuple[Plugin, int, Mapping[str, int]]] = field(default_factory=dict)

    def of(self, plugin: Plugin) -> tuple[int, Mapping[str, int]]:
        """The number of a plugin, and the rank of each of its devices."""
        known = self.plugins.get(id(plugin))
        if known is None:
            ranks, key = ranked(plugin)
            number = self.numbers.setdefault(key, len(self.numbers))
            if len(self.plugins) >= MOST_PLUGINS:
                self.plugins.clear()
            known = self.plugins[id(plugin)] = plugin, number, ranks
        return known[1], known[2]


def ranked(plugin: Plugin) -> tuple[Mapping[str, int], Hashable]:
    """The rank of each device, and all that decides of a plugin, ids left out (rule 4)."""
    preference = plugin.preference
    names = sorted(plugin.devices)
    ranks = {name: rank for rank, name in enumerate(names)}
    key: Hashable
    if preference is None or isinstance(preference, LowestIds):
        key = type(preference).__name__
    elif isinstance(preference, LinkedGpus) and ranks.keys() >= set(preference.gpus):
        key = tuple(ranks[name] for name in preference.gpus), preference.points
    else:
        key = repr(preference), tuple(names)
    order = tuple((ranks[name], one.numa, name in plugin.healthy) for name, one in plugin.devices.items())
    return ranks, (key, order, plugin.refuses_several, plugin.connected)


def state_key(
    node: SimulatedNode,
    state: NodeState,
    used: Mapping[str, int],
    ranks: DeviceRanks,
    kind: Hashable = None,
) -> StateKey | None:
    """The key of a node in a state (rule 1); None: nobody else answers like it (rule 3).

    ``kind``: stands for machine, rules and Node object; None: they are known by what they are.
    """
    reusable = state.reusable
    if not state.ready or state.resizes.desired or state.resizes.counted:
        return None
    if any(map(reusable.by, (*reusable.cpus, *reusable.memory, *reusable.devices))):
        return None
    plugins = {resource: ranks.of(plugin) for resource, plugin in sorted(state.devices.plugins.items())}
    return (
        kind if kind is not None else (id(node.machine), id(node.rules), id(node.description)),
        state.cpu.shared,
        _memory(state),
        tuple((resource, number) for resource, (number, _) in plugins.items()),
        tuple(
            (resource, _places(plugins, resource, ids))
            for resource, ids in sorted(state.devices.allocated.items())
            if ids
        ),
        tuple(sorted((name, size) for name, size in used.items() if size)),
        frozenset(Counter(_held(state, uid, plugins) for uid in state.departed).items())
        if state.departed
        else (),
    )


Plugins = Mapping[str, tuple[int, Mapping[str, int]]]


def _places(plugins: Plugins, resource: str, ids: Collection[str]) -> Hashable:
    """Devices by rank; those that their plugin does not list by id."""
    ranks = plugins[resource][1] if resource in plugins else {}
    bits = 0
    for one in ids:
        if one not in ranks:
            return tuple(sorted(ids))
        bits |= 1 << ranks[one]
    return bits


def _memory(state: NodeState) -> Hashable:
    flat: list[Any] = []
    for numa, memory in state.memory.numa.items():
        flat += (numa, memory.users, memory.cells)
        for kind, table in memory.tables.items():
            flat += (kind, table.total, table.system, table.allocatable, table.reserved, table.free)
    return tuple(flat)


def _held(state: NodeState, uid: str, plugins: Plugins) -> Hashable:
    """What is recorded for a pod that is gone (rule 2)."""
    return (
        uid == state.last_pod,
        tuple(state.cpu.assignments.get(uid, {}).items()),
        state.cpu.pods.get(uid),
        tuple(state.memory.assignments.get(uid, {}).items()),
        state.memory.pods.get(uid),
        tuple(
            (
                container,
                resource,
                tuple((numa, _places(plugins, resource, ids)) for numa, ids in grant.per_numa),
            )
            for container, grants in state.devices.grants.get(uid, {}).items()
            for resource, grant in grants.items()
        ),
    )
