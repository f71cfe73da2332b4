"""Whether the dealing of a remainder never ends for some set of NUMA nodes.

Counterpart: the loops over ``remainder`` in ``takeByTopologyNUMADistributed`` of
pkg/kubelet/cm/cpumanager/cpu_assignment.go.

Known defect: the kubelet deals the remainder among every subset of every set of nodes that it visits,
where the free CPUs of the subset are enough.  Where their whole groups are not, it never leaves the loop.
"""

from collections.abc import Sequence
from itertools import accumulate

from numawise.engine.cpu.dealing import Deal
from numawise.engine.search import SearchLimit


def never_ends(deal: Deal, places: Sequence[int], limit: SearchLimit, until: Sequence[int] | None) -> bool:
    """True when some set, up to this one in order of places, has a subset that is dealt to without end."""
    left, groups, size, rest = deal.left, deal.groups, deal.size, deal.rest
    if not rest or all(cpus % deal.group == 0 for cpus in left):
        return False
    count = len(left)
    most = _most_free(left, groups, rest)
    if most[0][rest] < rest * deal.group:
        return False
    richest, freest = _sums(groups), _sums(left)
    failed: set[tuple[int, int, int, int, int, bool]] = set()

    def possible(at: int, slots: int, room: int, lack: int, short: int, met: bool, tight: bool) -> bool:  # noqa: FBT001
        # room: the subset must have fewer groups than these; lack: CPUs that it still lacks; short: groups
        # that the set still lacks; met: all needed members are there; tight: ``until`` begins like the set.
        if not slots:
            return lack <= 0 and short <= 0 and met
        if count - at < slots or lack > most[at][room] or short > richest[at][slots]:
            return False
        # Members beside the subset: one without a group, where there must be one, and one with a group.
        if lack > freest[at][max(0, slots - (not met) - (room == short))]:
            return False
        end = until[size - slots] if tight and until is not None else None
        if end is not None and places[at] > end:
            return False
        state = (at, slots, room, max(lack, 0), max(short, 0), met)
        if not tight and state in failed:
            return False
        limit.step()
        own = groups[at]
        still = end == places[at]
        if (
            own
            and own < room
            and possible(at + 1, slots - 1, room - own, lack - left[at], short - own, met, still)
        ):
            return True
        if possible(at + 1, slots - 1, room, lack, short - own, met or not own, still):
            return True
        if not still and possible(at + 1, slots, room, lack, short, met, tight):
            return True
        if not tight:
            failed.add(state)
        return False

    return possible(0, size, rest, rest * deal.group, rest, not deal.poorest, until is not None)


def _most_free(left: Sequence[int], groups: Sequence[int], rest: int) -> list[list[int]]:
    """By position and number of groups: the most free CPUs of nodes from there on with fewer groups."""
    rows = [[0] * (rest + 1)]
    for cpus, own in zip(reversed(left), reversed(groups), strict=True):
        row = rows[-1]
        if own:
            more = [max(a, b + cpus) for a, b in zip(row[own + 1 :], row[1:], strict=False)]
            row = row[: own + 1] + more
        rows.append(row)
    return rows[::-1]


def _sums(numbers: Sequence[int]) -> list[list[int]]:
    """By position and how many: the sum of the largest from there on."""
    return [[0, *accumulate(sorted(numbers[at:], reverse=True))] for at in range(len(numbers) + 1)]
