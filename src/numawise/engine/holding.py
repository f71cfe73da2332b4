"""What one pod has on a node, put together out of what the managers recorded."""

from collections.abc import Mapping
from dataclasses import dataclass

from numawise.engine.state import NodeState


@dataclass(frozen=True, slots=True)
class Holding:
    """What one pod has on a node."""

    cpus: int = 0
    memory: Mapping[str, int] | None = None
    """Bytes by type."""
    numa: int = 0
    """NUMA nodes its memory comes from."""
    devices: Mapping[str, int] | None = None
    """Number of devices by resource."""

    def __bool__(self) -> bool:
        return bool(self.cpus or self.memory or self.devices)


def held_by(state: NodeState, uid: str) -> Holding:
    """What is recorded for one pod."""
    cpus = state.cpu.pods.get(uid, 0)
    for one in state.cpu.assignments.get(uid, {}).values():
        cpus |= one
    memory: dict[str, int] = {}
    numa = 0
    blocks = [block for own in state.memory.assignments.get(uid, {}).values() for block in own]
    for block in state.memory.pods.get(uid) or blocks:
        memory[block.type] = memory.get(block.type, 0) + block.size
        numa |= block.numa
    devices: dict[str, set[str]] = {}
    for resources in state.devices.grants.get(uid, {}).values():
        for resource, grant in resources.items():
            devices.setdefault(resource, set()).update(grant.ids)
    return Holding(cpus, memory, numa, {name: len(ids) for name, ids in devices.items() if ids})
