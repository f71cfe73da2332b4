"""Hints: which NUMA nodes a resource could come from, and which of these it prefers.

Counterpart: ``TopologyHint`` of pkg/kubelet/cm/topologymanager/topology_manager.go.

A resource that is asked about its placement answers with a *family* of NUMA masks, given by
a rule where there is one.  A list of all masks doubles with every NUMA node, and the kubelet
drowns in it; most decisions need to look at a handful.

Rules kept here:

1. A family by rule is *upward closed*: what fits into a mask fits into every wider one drawn
   from the same nodes.  Where that does not hold, masks are listed.
2. Walking a family gives the kubelet's list in the kubelet's order: by size, then by the
   positions of the nodes.
3. There are three kinds of nothing: ``NO_PREFERENCE`` (anything will do, harmless), ``NOWHERE`` (placement is
   wanted and none is possible) and ``ANY`` (the merged hint names no NUMA nodes).
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final, Protocol

from numawise.engine.masks import fewest_nodes
from numawise.engine.search import SearchLimit
from numawise.engine.sparing import Keeper, Need
from numawise.sets import NumaSet, ids_of
from numawise.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Hint:
    """NUMA nodes to use (None: any will do), and whether this is as good as it gets."""

    numa: NumaSet | None
    preferred: bool

    @property
    def mask(self) -> int | None:
        """The NUMA nodes, packed; None: any will do."""
        return None if self.numa is None else self.numa.bits


ANY = Hint(None, preferred=False)
"""No NUMA nodes were agreed on: anything may come from anywhere."""


@dataclass(frozen=True, slots=True)
class Sockets:
    """The second way to be preferred under ``align-by-socket``: as few sockets as can be."""

    of_numa: Mapping[int, int]
    """NUMA node → its sockets, packed."""
    fewest: int

    def met_by(self, mask: int) -> bool:
        """True when the nodes of the mask lie on the fewest sockets."""
        sockets = 0
        for numa in ids_of(mask):
            sockets |= self.of_numa.get(numa, 0)
        return sockets.bit_count() == self.fewest


class Family(Protocol):
    """The hints of one resource."""

    def __iter__(self) -> Iterator[tuple[int, bool]]:
        """Walk all (mask, preferred) in the kubelet's order."""
        ...

    def prefers(self, mask: int) -> bool:
        """True when the mask is among the hints and preferred."""
        ...

    def offers(self, mask: int) -> bool:
        """True when the mask is among the hints."""
        ...

    @property
    def reach(self) -> int:
        """All nodes that occur in some hint."""
        ...

    @property
    def narrowest(self) -> int:
        """Number of nodes of the smallest hint; 0 without hints."""
        ...

    @property
    def widest(self) -> int:
        """Number of nodes of the largest hint; 0 without hints."""
        ...


NO_PREFERENCE: Final = None
"""A provider, or one resource of it, takes anything: the kubelet's nil."""
Answer = Mapping[str, Family | None] | None
"""What a provider says, by resource; ``NO_PREFERENCE`` for one resource or for all."""


@dataclass(frozen=True, slots=True)
class HintList:
    """Hints given one by one."""

    hints: tuple[tuple[int, bool], ...] = ()
    masks: Mapping[int, bool] = field(init=False, repr=False, compare=False)
    reach: int = field(init=False, repr=False, compare=False)
    narrowest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        masks: dict[int, bool] = {}
        reach = 0
        for mask, preferred in self.hints:
            masks[mask] = preferred or masks.get(mask, False)
            reach |= mask
        object.__setattr__(self, "masks", masks)
        object.__setattr__(self, "reach", reach)
        object.__setattr__(self, "narrowest", min((m.bit_count() for m in masks), default=0))

    def __iter__(self) -> Iterator[tuple[int, bool]]:
        return iter(self.hints)

    @property
    def widest(self) -> int:
        """Number of nodes of the largest hint; 0 without hints."""
        return max((mask.bit_count() for mask in self.masks), default=0)

    def prefers(self, mask: int) -> bool:
        """True when the mask is among the hints and preferred."""
        return self.masks.get(mask, False)

    def offers(self, mask: int) -> bool:
        """True when the mask is among the hints."""
        return mask in self.masks


NOWHERE = HintList()
"""Placement is wanted and none is possible: the kubelet's empty list."""


@dataclass(frozen=True, slots=True)
class HintRule:
    """Hints given by a rule, with some extra masks."""

    nodes: int
    """Masks are drawn from these NUMA nodes …"""
    needs: tuple[Need, ...]
    """… must meet all of these …"""
    touch: tuple[int, ...] = ()
    """… and touch each of these."""
    smallest: int = 1
    """Masks by rule have at least so many nodes."""
    extra_masks: frozenset[int] = frozenset()
    """Masks that are hints too, whatever the rule says."""
    width: int = 1
    """Masks of so many nodes are preferred."""
    sockets: Sockets | None = None
    order: tuple[int, ...] | None = None
    """Nodes in the order in which hints are listed; None: ascending."""
    reach: int = field(init=False, repr=False, compare=False)
    possible: bool = field(init=False, repr=False, compare=False)
    """The rule has at least one mask."""

    def __post_init__(self) -> None:
        nodes = self.nodes
        possible = nodes.bit_count() >= self.smallest and self._fits(nodes)
        reach = nodes if possible else 0
        for mask in self.extra_masks:
            reach |= mask
        object.__setattr__(self, "possible", possible)
        object.__setattr__(self, "reach", reach)

    @property
    def keeper(self) -> Keeper:
        """The rule as one that may leave out nodes."""
        return Keeper(self.nodes, self.needs, self.touch, self.smallest)

    def _fits(self, mask: int) -> bool:
        for nodes in self.touch:
            if not nodes & mask:
                return False
        for need in self.needs:
            total = 0
            for nodes, amount in need.amounts:
                if nodes & mask:
                    total += amount
            if total < need.least:
                return False
        return True

    def by_rule(self, mask: int) -> bool:
        """True when the rule alone makes the mask a hint."""
        return not mask & ~self.nodes and mask.bit_count() >= self.smallest and self._fits(mask)

    def offers(self, mask: int) -> bool:
        """True when the mask is among the hints."""
        return mask in self.extra_masks or (self.possible and self.by_rule(mask))

    def prefers(self, mask: int) -> bool:
        """True when the mask is among the hints and preferred."""
        return self.likes(mask) and self.offers(mask)

    def likes(self, mask: int) -> bool:
        """True when the mask would be preferred if it were a hint."""
        return mask.bit_count() == self.width or (self.sockets is not None and self.sockets.met_by(mask))

    def __iter__(self) -> Iterator[tuple[int, bool]]:
        order = ids_of(self.reach) if self.order is None else self.order
        nodes = [1 << numa for numa in order if self.reach >> numa & 1]
        limit = SearchLimit()
        for size in range(1, len(nodes) + 1):
            for chosen in combinations(nodes, size):
                limit.step()
                mask = sum(chosen)
                if self.offers(mask):
                    yield mask, self.likes(mask)

    @property
    def narrowest(self) -> int:
        """Number of nodes of the smallest hint; 0 without hints."""
        fewest = min((mask.bit_count() for mask in self.extra_masks), default=0)
        if not self.possible or fewest == 1:
            return fewest
        by_rule = fewest_nodes(self.nodes, self.needs, self.touch, self.smallest)
        return min(fewest, by_rule) if fewest else by_rule

    @property
    def widest(self) -> int:
        """Number of nodes of the largest hint; 0 without hints."""
        most = max((mask.bit_count() for mask in self.extra_masks), default=0)
        return max(most, self.nodes.bit_count()) if self.possible else most
