"""The best choices where links are nested: pairs in switches, switches in NUMA nodes, these in the machine.

Rules kept here:

1. Links are nested when at every level the GPUs that reach each other all do so without a detour.  Machines
   are built so whose GPUs have PCIe alone, or the same NVLinks to all others.
2. The worth of a choice is then a sum over groups, and depends on how many of each group are chosen.  So the
   best for every number and every set of NUMA nodes is found from the inside out, exactly.
3. Where more than ``MANY_HOMES`` NUMA nodes have free GPUs, only the best ``FEW`` sets of them are carried
   on for each number; the very best choice is among them.
"""

from collections.abc import Sequence

from numawise.gpus.measure import Measure
from numawise.sets import ids_of
from numawise.values import dataclass

MANY_HOMES = 8
FEW = 32

Reached = dict[tuple[int, int], int]
"""(NUMA nodes, how many GPUs are chosen) → the best worth."""
NOTHING: Reached = {(0, 0): 0}


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """GPUs that reach each other over links of one level."""

    gpus: int
    step: int = 0
    """Points of its level above those of the group around it."""
    parts: tuple["GpuGroup", ...] = ()
    """Smaller groups with better links, and single GPUs; empty for a single GPU."""


def nesting(measure: Measure) -> GpuGroup | None:
    """All GPUs as one group; None where links are not nested (rule 1)."""
    parts = [GpuGroup(1 << i) for i in ids_of(measure.free)]
    for step, reach in measure.levels():
        inside: dict[int, list[GpuGroup]] = {}
        for part in parts:
            gpus = reach[(part.gpus & -part.gpus).bit_length() - 1]
            inside.setdefault(gpus, []).append(part)
        parts = []
        for gpus, members in inside.items():
            if any(reach[i] != gpus for i in ids_of(gpus)):
                return None
            same = members[0] if len(members) == 1 else GpuGroup(gpus, 0, tuple(members))
            parts.append(GpuGroup(gpus, same.step + step, same.parts))
    return parts[0] if len(parts) == 1 else GpuGroup(measure.free, 0, tuple(parts))


def best_nested(measure: Measure, whole: GpuGroup, numa: Sequence[int], must: int) -> dict[int, int]:
    """NUMA nodes → the best worth of a choice that lies on just these."""
    homes = {numa[i] for i in ids_of(measure.free)}
    walk = _Walk(measure, numa, must, FEW if len(homes) > MANY_HOMES else 0)
    reached = walk.of(whole)
    return {nodes: worth for (nodes, chosen), worth in reached.items() if chosen == measure.count}


@dataclass(frozen=True, slots=True)
class _Walk:
    measure: Measure
    numa: Sequence[int]
    must: int
    few: int
    """Sets of NUMA nodes to carry on for each number of GPUs; 0: all."""

    def of(self, group: GpuGroup) -> Reached:
        """The best worth for every number of GPUs of a group."""
        found, joined = NOTHING, 0
        single: dict[int, int] = {}
        for part in group.parts or (group,):
            if part.parts:
                joined |= part.gpus
                found = self.both(found, self.of(part), joined)
            else:
                home = self.numa[part.gpus.bit_length() - 1]
                single[home] = single.get(home, 0) | part.gpus
        for home, gpus in single.items():
            joined |= gpus
            found = self.both(found, self.alike(gpus, home), joined)
        total, step = group.gpus.bit_count(), group.step
        pairs, rest = self.measure.pairs, self.measure.rest
        return {
            (nodes, chosen): worth + step * (pairs[chosen] + rest[total - chosen])
            for (nodes, chosen), worth in found.items()
        }

    def alike(self, gpus: int, home: int) -> Reached:
        """So many of some GPUs whose links are unknown: those that must be in, then the lowest."""
        found: Reached = {}
        needed = gpus & self.must
        order = [*ids_of(needed), *ids_of(gpus & ~needed)]
        top = self.measure.positions - 1
        bits = self.measure.bits(needed)
        for chosen in range(needed.bit_count(), min(len(order), self.measure.count) + 1):
            found[home if chosen else 0, chosen] = bits
            if chosen < len(order):
                bits |= 1 << top - order[chosen]
        return found

    def both(self, one: Reached, other: Reached, gpus: int) -> Reached:
        """The best of two parts together, which have these GPUs."""
        if one is NOTHING:
            return other
        most = self.measure.count
        least = most - (self.measure.free & ~gpus).bit_count()
        found: Reached = {}
        for (nodes, chosen), worth in one.items():
            for (more_nodes, more), worth_more in other.items():
                if least <= chosen + more <= most:
                    key = nodes | more_nodes, chosen + more
                    sum_of_both = worth + worth_more
                    if key not in found or sum_of_both > found[key]:
                        found[key] = sum_of_both
        return self.fewer(found) if self.few else found

    def fewer(self, reached: Reached) -> Reached:
        """The best sets of NUMA nodes for each number of GPUs (rule 3)."""
        seen: dict[int, int] = {}
        found: Reached = {}
        for key, worth in sorted(reached.items(), key=lambda item: -item[1]):
            seen[key[1]] = seen.get(key[1], 0) + 1
            if seen[key[1]] <= self.few:
                found[key] = worth
        return found
