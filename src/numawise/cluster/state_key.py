"""When two nodes answer alike: a key of a state that is the same whoever holds what.

Rules kept here:

1. Nodes with equal keys give the same answer to any pod that neither of them knows, with the same CPUs,
   memory and devices.  What the managers look at is in the key: machine, rules and Node object, the shared
   pool, every memory table, the devices that count as taken, and the sums of all requests.
2. What a pod has that is gone is collected at the next look, and so it is in the key, without its name.
3. Who lives where is not in the key.  A pod that looks at other pods (ports, a priority that ends others) is
   not answered by it; nor is a state with resizes, with containers whose devices may be used again, or one
   that has not heard of all its pods: these have no key.
"""

from collections import Counter
from collections.abc import Hashable, Mapping

from numawise.engine.state import NodeState
from numawise.node.node import SimulatedNode

StateKey = tuple[Hashable, ...]


def state_key(node: SimulatedNode, state: NodeState, used: Mapping[str, int]) -> StateKey | None:
    """The key of a node in a state (rule 1); None: nobody else answers like it (rule 3)."""
    reusable = state.reusable
    if not state.ready or state.resizes.desired or state.resizes.counted:
        return None
    if any(map(reusable.by, (*reusable.cpus, *reusable.memory, *reusable.devices))):
        return None
    return (
        id(node.machine),
        id(node.rules),
        id(node.description),
        state.cpu.shared,
        _memory(state),
        tuple((resource, id(plugin)) for resource, plugin in sorted(state.devices.plugins.items())),
        tuple(sorted((resource, ids) for resource, ids in state.devices.allocated.items() if ids)),
        tuple(sorted((name, size) for name, size in used.items() if size)),
        frozenset(Counter(_held(state, uid) for uid in state.departed).items()) if state.departed else (),
    )


def _memory(state: NodeState) -> Hashable:
    return tuple(
        (numa, memory.users, memory.cells, tuple(memory.tables.items()))
        for numa, memory in state.memory.numa.items()
    )


def _held(state: NodeState, uid: str) -> Hashable:
    """What is recorded for a pod that is gone (rule 2)."""
    return (
        uid == state.last_pod,
        tuple(state.cpu.assignments.get(uid, {}).items()),
        state.cpu.pods.get(uid),
        tuple(state.memory.assignments.get(uid, {}).items()),
        state.memory.pods.get(uid),
        tuple(
            (container, resource, grant.per_numa)
            for container, grants in state.devices.grants.get(uid, {}).items()
            for resource, grant in grants.items()
        ),
    )
