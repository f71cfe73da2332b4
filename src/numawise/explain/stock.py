"""How many devices of a resource there are, and how many of them are free."""

from dataclasses import dataclass

from numawise.engine.state import NodeState


@dataclass(frozen=True, slots=True)
class Stock:
    """Devices of one resource."""

    total: int
    healthy: int
    free: int
    unplaced: int
    """Free ones that are on no NUMA node."""

    @property
    def text(self) -> str:
        """``8 in all, 5 in use, 1 unhealthy``."""
        parts = [f"{self.total} in all"]
        if self.healthy - self.free:
            parts.append(f"{self.healthy - self.free} in use")
        if self.total - self.healthy:
            parts.append(f"{self.total - self.healthy} unhealthy")
        return ", ".join(parts)


def stock_of(state: NodeState, resource: str) -> Stock:
    """How many devices there are, and how many are free."""
    plugin = state.devices.plugins.get(resource)
    if plugin is None:
        return Stock(0, 0, 0, 0)
    free = plugin.healthy - state.devices.allocated.get(resource, frozenset())
    unplaced = sum(not plugin.devices[name].numa for name in free)
    return Stock(len(plugin.devices), len(plugin.healthy), len(free), unplaced)
