"""The four topology policies: what is merged, and whether the result is accepted.

Counterpart: pkg/kubelet/cm/topologymanager/policy_none.go, policy_best_effort.go, policy_restricted.go and
policy_single_numa_node.go, and ``sumDistances`` of numa_info.go.
"""

from collections.abc import Sequence

from numawise.engine.failure import Crash
from numawise.engine.hint import Family, Hint
from numawise.engine.topology.merge import (
    Merged,
    merge,
    merge_literally,
    merge_narrowest,
    merge_single,
    nearby,
)
from numawise.engine.topology.nearest import Distance
from numawise.machine.model import Machine
from numawise.rules.model import BEST_EFFORT, SINGLE, Rules
from numawise.sets import NumaSet, ids_of


def judge(machine: Machine, rules: Rules, families: Sequence[Family]) -> tuple[Hint, bool]:
    """The best hint of all, and whether the policy admits it."""
    if rules.topology_policy == SINGLE:
        best = merge_single(machine.numa_bits, families)
        numa = None if best.mask == machine.numa_bits else NumaSet(best.mask)
        return Hint(numa, best.preferred), best.preferred
    best = _merged(machine, rules, families)
    admitted = best.preferred or rules.topology_policy == BEST_EFFORT
    return Hint(NumaSet(best.mask), best.preferred), admitted


def _merged(machine: Machine, rules: Rules, families: Sequence[Family]) -> Merged:
    if not rules.behaviour.preferred_needs_equal_masks:
        return merge_narrowest(machine.numa_bits, families)
    if not rules.prefer_closest:
        return merge(machine.numa_bits, families)
    distance = distances_of(machine)
    if machine.numa_bits.bit_length() > len(machine.numa):  # gaps in the ids: some comparison crashes
        return merge_literally(machine.numa_bits, families, distance)
    return merge(machine.numa_bits, families, distance)


def distances_of(machine: Machine) -> Distance:
    """Sum of distances inside a mask; rows are indexed by node *id*, as the kubelet does it."""
    if not machine.numa:
        return nearby
    rows = {numa.id: numa.distances for numa in machine.numa}

    def distance(mask: int) -> int:
        nodes = list(ids_of(mask))
        total = 0
        for one in nodes:
            row = rows[one]
            if nodes[-1] >= len(row):
                beyond = next(node for node in nodes if node >= len(row))
                raise Crash(f"runtime error: index out of range [{beyond}] with length {len(row)}")
            total += sum([row[other] for other in nodes])
        return total

    return distance
