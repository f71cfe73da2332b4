"""More of several resources at once, so that all of them need as many NUMA nodes as the widest does.

Hints are preferred when they have as few NUMA nodes as an idle machine would need for the amount, and under
``restricted`` those of all resources must agree.  Eight GPUs that need two NUMA nodes and CPUs that fit one
never do.

Rules kept here:

1. The widest resource is the measure; whatever needs fewer NUMA nodes is asked for in the smallest amount
   that needs as many.  Nothing is asked for in a smaller amount.
2. Both ``why`` and ``plan pod`` ask here, so that both find the same.
"""

from itertools import accumulate

from numawise.explain.case import ExplainCase
from numawise.explain.free import asked_of, is_memory
from numawise.explain.search import ChangeSearch, Dial, Edits, Target
from numawise.request.model import CPU, Role


def grown_edits(search: ChangeSearch) -> Edits | None:
    """The least growth with which the pod is admitted; None: none does, or none is known to."""
    main = _main_dials(search)
    totals = {resource: _total(search.case, dial) for resource, dial in main.items()}
    widths = {resource: width_of(search.case, resource, totals[resource]) for resource in main}
    widest = max(widths.values(), default=0)
    edits: dict[Dial, Target] = {}
    for resource, dial in main.items():
        if 0 < widths[resource] < widest:
            more = least_for(search.case, resource, widest) - totals[resource]
            edits[dial] = -(-(dial.value + more) // dial.step)
    if widest < 2 or not edits or not search.works_edited(edits):
        return None
    found = search.minimal(edits)
    if found and all(isinstance(target, int) and target > dial.steps for dial, target in found.items()):
        return found
    return None


def _main_dials(search: ChangeSearch) -> dict[str, Dial]:
    """For each resource the amount to change: of the container that failed, or the largest of the pod."""
    case = search.case
    found: dict[str, Dial] = {}
    for dial in search.dials if case.rules.pod_scope or not search.container else search.here:
        init = dial.container is not None and case.pod.containers[dial.container].role is Role.INIT
        if init and search.name_of(dial) != search.container:
            continue
        known = found.get(dial.resource)
        if known is None or dial.value > known.value:
            found[dial.resource] = dial
    return found


def _total(case: ExplainCase, dial: Dial) -> int:
    """What is asked of a resource in one merge."""
    if not case.rules.pod_scope or dial.container is None:
        return dial.value
    return max(dial.value, asked_of(case, None, dial.resource))


def sizes_of(case: ExplainCase, resource: str) -> list[int]:
    """What each NUMA node of an idle machine counts as having, largest first."""
    if resource == CPU:
        sizes = [cpus.bit_count() for cpus in case.machine.layout.numas.values()]
    elif is_memory(resource):
        nodes = case.state.memory.numa.values()
        sizes = [node.tables[resource].allocatable for node in nodes if resource in node.tables]
    else:
        plugin = case.state.devices.plugins.get(resource)
        counts: dict[int, int] = {}
        for device in plugin.devices.values() if plugin else ():
            for numa in device.numa or ():
                counts[numa] = counts.get(numa, 0) + 1
        sizes = list(counts.values())
    return sorted(sizes, reverse=True)


def width_of(case: ExplainCase, resource: str, size: int) -> int:
    """How many NUMA nodes an amount needs at least; 0: it has no NUMA nodes, or there are not enough."""
    sums = accumulate(sizes_of(case, resource))
    return next((count for count, total in enumerate(sums, 1) if total >= size), 0)


def least_for(case: ExplainCase, resource: str, width: int) -> int:
    """The least amount that needs so many NUMA nodes."""
    return sum(sizes_of(case, resource)[: width - 1]) + 1
