"""Why an allocation failed after the policy had no objection, and what makes a kubelet crash.

Rules kept here:

1. Numbers come from the state at the time when the allocation failed, not from the kubelet's message.
2. Where the state does not show what was missing, the kubelet's own words are given.
"""

from collections.abc import Iterable, Mapping, Sequence

from numawise.engine.admit import Rejected
from numawise.engine.failure import EMPTY_SHARED_POOL, SMT_ALIGNMENT, UNEXPECTED
from numawise.engine.memory.allocate import BREAKS_GROUP
from numawise.engine.memory.hints import INEXACT
from numawise.engine.predicates import PODS, Insufficient
from numawise.engine.state import NodeState, NumaMemory
from numawise.engine.trace import HintsMerged, Step
from numawise.explain.case import ExplainCase
from numawise.explain.demands import unmet_cause
from numawise.explain.free import amount_of, asked_of, is_memory, stock_of
from numawise.explain.merge import Cause
from numawise.explain.words import amount, asked, free_by_numa_text, free_text, nodes_text, numa_text
from numawise.render.words import amount_text, both, counted
from numawise.request.model import CPU, MEMORY, Amounts, ContainerRequest, Role
from numawise.results.explanation import BYTES, CPUS, DEVICES, NumaFree
from numawise.sets import format_ids, ids_of

WHOLE = "on the whole machine"
NOBODY_TO_END = "the pod is critical, but ending all pods that it may end would not free enough"


def failure_cause(case: ExplainCase, decision: Rejected, steps: Sequence[Step]) -> Cause:
    """Why a provider could not give what was asked."""
    if decision.unmet is not None:
        return Cause((), unmet_cause(case, decision.unmet))
    if decision.insufficient is not None:
        cause = _sums(case, decision.insufficient)
        if decision.reason == UNEXPECTED:
            return Cause(cause.resources, f"{cause.text}; {NOBODY_TO_END}")
        return cause
    container = decision.container or None
    if decision.provider == "cpu":
        return _cpus(case, decision, container)
    if decision.provider == "memory":
        return _memory(case, decision, container, steps)
    return _devices(case, decision)


def with_own_uses(case: ExplainCase, state: NodeState, cause: Cause) -> Cause:
    """A shortage on the whole machine, with what other containers of the pod have of it."""
    if WHOLE not in cause.text or len(cause.resources) != 1:
        return cause
    (resource,) = cause.resources
    if resource == CPU:
        own = 0
        for cpus in state.cpu.assignments.get(case.pod.uid, {}).values():
            own |= cpus
        held, unit = (own & ~left_by_inits(case, state)).bit_count(), CPUS
    else:
        inits = {one.name for one in case.pod.containers if one.role is Role.INIT}
        grants = state.memory.assignments.get(case.pod.uid, {})
        held, unit = (
            sum(
                block.size
                for name, blocks in grants.items()
                for block in blocks
                if block.type == resource and name not in inits
            ),
            BYTES,
        )
    if not held:
        return cause
    return Cause(
        cause.resources, f"{cause.text}; other containers of the pod have {amount(unit, held, held)}"
    )


# --- sums -----------------------------------------------------------------------------------


def _sums(case: ExplainCase, short: Insufficient) -> Cause:
    """The kubelet's general predicates: what all pods request together is more than there is."""
    if short.resource == PODS:
        text = f"{short.used} pods run here, and the kubelet takes {short.capacity} (maxPods)"
        return Cause((), f"pods: {text}")
    others = len(case.state.active) - (case.pod.uid in case.state.active)
    used = amount_text(short.resource, short.used)
    by = f", and {counted(others, 'other pod')} {'requests' if others == 1 else 'request'} {used} of them"
    capacity = amount_text(short.resource, short.capacity)
    requested = amount_text(short.resource, short.requested)
    text = f"the pod requests {requested}, all pods together may request {capacity}{by if short.used else ''}"
    return Cause((short.resource,), f"{short.resource}: {text}")


# --- CPUs -----------------------------------------------------------------------------------


def _cpus(case: ExplainCase, decision: Rejected, container: str | None) -> Cause:
    layout, rules, state = case.machine.layout, case.rules, decision.state
    count = asked_of(case, container, CPU)
    wanted = asked(CPU, CPUS, count)
    if decision.reason == EMPTY_SHARED_POOL:
        shared = _sharing(case)
        return Cause(
            (CPU,),
            f"cpu: containers with exclusive CPUs take all {count} CPUs of the pod, and {shared} "
            "has none left to share",
        )
    threads = layout.threads_per_core
    if decision.reason == SMT_ALIGNMENT:
        if threads and count % threads:
            text = f"full-pcpus-only allocates whole cores, and a core has {threads} CPUs here"
            return Cause((CPU,), f"cpu: {wanted}; {text}, so {count} cannot be allocated")
        free = state.cpu.shared & ~rules.reserved_cores
        rooms = free_by_numa_text(CPUS, cpu_places(case, free), count)
        return Cause(
            (CPU,),
            f"cpu: {wanted} and {free_text(CPUS, free.bit_count(), count)} in whole cores"
            f"{f' ({rooms})' if free else ''}; full-pcpus-only allocates nothing else",
        )
    free = state.cpu.shared & ~rules.reserved_cpus | left_by_inits(case, state)
    if free.bit_count() >= count:
        return Cause((CPU,), f"cpu: {wanted}, {free.bit_count()} are free, but: {decision.error}")
    rooms = free_by_numa_text(CPUS, cpu_places(case, free), count)
    has = free_text(CPUS, free.bit_count(), count)
    return Cause((CPU,), f"cpu: {wanted} and {has} on the whole machine{f' ({rooms})' if free else ''}")


def cpu_places(case: ExplainCase, free: int) -> tuple[NumaFree, ...]:
    """Free CPUs by NUMA node."""
    return tuple(
        NumaFree(numa, free=(cpus & free).bit_count(), size=(cpus & ~case.rules.reserved_cpus).bit_count())
        for numa, cpus in case.machine.layout.numas.items()
    )


def left_by_inits(case: ExplainCase, state: NodeState) -> int:
    """CPUs of finished init containers that later containers of the pod may use again."""
    again = used = 0
    for container in case.pod.containers:
        cpus = state.cpu.assignments.get(case.pod.uid, {}).get(container.name, 0)
        if container.role is Role.INIT:
            again |= cpus
        else:
            used |= cpus
    return again & ~used


def _sharing(case: ExplainCase) -> str:
    """Containers that want to share what the pod has."""
    names = [one.name for one in case.pod.containers if not one.fixed or not one.whole_cpus]
    noun = "container" if len(names) == 1 else "containers"
    return f"{noun} {both(names)}" if names else "a container"


# --- memory ---------------------------------------------------------------------------------


def _memory(case: ExplainCase, decision: Rejected, container: str | None, steps: Sequence[Step]) -> Cause:
    if decision.reason == EMPTY_SHARED_POOL:
        text = (
            f"containers with memory of their own take all of the pod's, and {_sharing(case)} has none left"
        )
        return Cause((MEMORY,), f"memory: {text}")
    wanted = _wanted(case, container)
    if decision.error == INEXACT:
        kinds = inexact_kinds(case, container) or (MEMORY,)
        text = "is written with a fraction or an exponent, which the Memory Manager does not read"
        return Cause(kinds, f"{both(kinds)}: the amount {text}")
    books = decision.state.memory.numa
    mask = _chosen(steps, container)
    if decision.error == BREAKS_GROUP and mask is not None:
        busy = [numa for numa in ids_of(mask) if books[numa].users and books[numa].cells != mask]
        why = _uses(case, decision.state, busy)
        return Cause((MEMORY,), f"memory: {numa_text(mask)} would have to serve as one group, but {why}")
    if not wanted:
        return Cause(
            (MEMORY,),
            "memory: the container asks for no memory of its own, and the "
            "Memory Manager fails on an empty request",
        )
    for kind, size in wanted.items():
        tables = {numa: node.tables[kind] for numa, node in books.items() if kind in node.tables}
        free = sum(table.free for table in tables.values())
        places = [
            NumaFree(numa, free=table.free, size=table.allocatable, note=_group_note(books[numa], numa))
            for numa, table in tables.items()
        ]
        rooms = free_by_numa_text(BYTES, places, size)
        if free < size:
            total = free_text(BYTES, free, size)
            return Cause(
                (kind,),
                f"{kind}: {asked(kind, BYTES, size)} and {total} on the whole machine ({rooms})",
            )
    if mask is not None:
        found = _not_extended(case, decision.state, wanted, mask)
        if found:
            return found
    return _no_group(case, decision.state, wanted)


def _wanted(case: ExplainCase, container: str | None) -> Mapping[str, int]:
    kinds = {kind for one in case.pod.containers for kind, _ in one.memory or ()}
    kinds |= {kind for kind, _ in case.pod.memory or ()}
    amounts = {kind: asked_of(case, container, kind) for kind in sorted(kinds)}
    return {kind: size for kind, size in amounts.items() if size}


def _chosen(steps: Sequence[Step], container: str | None) -> int | None:
    """The NUMA nodes that the merge gave the container; None: any."""
    for step in reversed(steps):
        if isinstance(step, HintsMerged) and step.container in (None, container):
            return None if step.best.numa is None else step.best.numa.bits
    return None


def _not_extended(case: ExplainCase, state: NodeState, wanted: Mapping[str, int], mask: int) -> Cause | None:
    """The nodes the other resources settled on have too little, and cannot be joined by others."""
    books = state.memory.numa
    for kind, size in wanted.items():
        free = sum(books[numa].tables[kind].free for numa in ids_of(mask) if kind in books[numa].tables)
        if free >= size:
            continue
        rest = [numa for numa in books if not mask >> numa & 1]
        have = "has" if mask.bit_count() == 1 else "have"
        text = (
            f"{kind}: {asked(kind, BYTES, size)}, {numa_text(mask)} that the merge chose {have} "
            f"{amount(BYTES, free, size)} free, and no larger set of NUMA nodes may take it"
        )
        reasons = _uses(case, state, [numa for numa in (*ids_of(mask), *rest) if books[numa].users])
        return Cause((kind,), f"{text}: {reasons}" if reasons else text)
    return None


def _no_group(case: ExplainCase, state: NodeState, wanted: Mapping[str, int]) -> Cause:
    """Enough is free in all, but the nodes cannot be used together."""
    books = state.memory.numa
    able = {kind: _able(books, kind, size) for kind, size in wanted.items()}
    kind = next((kind for kind, masks in able.items() if not masks), "")
    if not kind and len(able) > 1:
        parts = [
            f"{kind} only on {both([numa_text(mask) for mask in masks[:3]], 'or')}"
            for kind, masks in able.items()
        ]
        return Cause(tuple(wanted), f"{', '.join(parts)}: no NUMA nodes that may be used have all of it")
    kind = kind or next(iter(wanted))
    size = wanted[kind]
    tables = {numa: node.tables[kind] for numa, node in books.items() if kind in node.tables}
    places = [
        NumaFree(numa, free=table.free, note=_group_note(books[numa], numa)) for numa, table in tables.items()
    ]
    rooms = free_by_numa_text(BYTES, places, size)
    reasons = _uses(case, state, [numa for numa, node in books.items() if node.users])
    text = f"{kind}: {asked(kind, BYTES, size)}, {rooms}; these cannot serve it together"
    return Cause((kind,), f"{text}: {reasons}" if reasons else text)


def _able(books: Mapping[int, NumaMemory], kind: str, size: int) -> tuple[int, ...]:
    """NUMA nodes, groups, and all idle nodes together, that have so much of one type free."""
    masks = [1 << numa for numa, node in books.items() if node.cells.bit_count() == 1]
    masks += sorted({node.cells for node in books.values() if node.cells.bit_count() > 1})
    idle = sum(1 << numa for numa, node in books.items() if not node.users)
    if idle.bit_count() > 1:
        masks.append(idle)
    free = {numa: node.tables[kind].free for numa, node in books.items() if kind in node.tables}
    return tuple(mask for mask in masks if sum(free.get(numa, 0) for numa in ids_of(mask)) >= size)


def _group_note(node: NumaMemory, numa: int) -> str:
    others = node.cells & ~(1 << numa)
    return f"in a group with NUMA {format_ids(others)}" if others else ""


def _uses(case: ExplainCase, state: NodeState, numas: Iterable[int]) -> str:
    """What keeps NUMA nodes from joining a group."""
    books = state.memory.numa
    parts, own = _own_uses(case, state, tuple(numas))
    groups: dict[int, None] = {}
    alone = 0
    for numa in numas:
        cells = books[numa].cells
        if cells.bit_count() > 1 and not own >> numa & 1:
            groups[cells] = None
        elif not own >> numa & 1:
            alone |= 1 << numa
    if alone:
        serve = "serves" if alone.bit_count() == 1 else "serve"
        parts.insert(0, f"{numa_text(alone)} {serve} pods on {nodes_text(1)} each and can join no group")
    parts += [f"{numa_text(cells)} already serve pods as one group" for cells in groups]
    return both(parts)


def _own_uses(case: ExplainCase, state: NodeState, numas: Sequence[int]) -> tuple[list[str], int]:
    """Containers of the pod itself that use NUMA nodes, and the nodes that nobody else uses."""
    users = dict.fromkeys(numas, 0)
    places: dict[str, int] = {}
    for name, blocks in state.memory.assignments.get(case.pod.uid, {}).items():
        for block in blocks:
            for numa in ids_of(block.numa):
                if numa in users:
                    users[numa] += 1
                    places[name] = places.get(name, 0) | block.numa
    own = sum(1 << numa for numa, count in users.items() if count and count >= state.memory.numa[numa].users)
    inits = {one.name for one in case.pod.containers if one.role is Role.INIT}
    texts = [
        f"{'init container' if name in inits else 'container'} {name} of this pod has its memory on "
        f"{numa_text(mask)}"
        for name, mask in places.items()
        if mask & own
    ]
    return texts, own


def inexact_kinds(case: ExplainCase, container: str | None) -> tuple[str, ...]:
    """The types of memory whose amounts the Memory Manager cannot read."""
    owners: list[Amounts] = [one.requests for one in case.pod.containers if container in (None, one.name)]
    if case.pod.requests:
        owners.append(case.pod.requests)
    names = {
        name for amounts in owners for name, size in amounts.items() if is_memory(name) and not size.exact
    }
    return tuple(sorted(names))


# --- devices --------------------------------------------------------------------------------


def _devices(case: ExplainCase, decision: Rejected) -> Cause:
    container = next((one for one in case.pod.containers if one.name == decision.container), None)
    for resource, count in sorted(container.devices) if container else ():
        if resource in decision.error:
            text = _device_text(case, decision, container, resource, count)
            return Cause((resource,), f"{resource}: {text}")
    return Cause((), decision.error)


def _device_text(
    case: ExplainCase, decision: Rejected, container: ContainerRequest | None, resource: str, count: int
) -> str:
    assert container is not None
    state = decision.state
    stock = stock_of(case, state, resource)
    wanted = asked(resource, DEVICES, count)
    grant = state.devices.grants.get(case.pod.uid, {}).get(container.name, {}).get(resource)
    if grant is not None and len(grant.ids) != count:
        return f"{wanted}, but the container already has {len(grant.ids)}"
    if resource not in state.devices.plugins:
        return f"{wanted}, but its device plugin has not registered"
    if not stock.healthy:
        return (
            f"{wanted}, but none of {stock.total} is healthy"
            if stock.total
            else f"{wanted}, but there is none"
        )
    if grant is not None:
        lost = sorted(grant.ids - state.devices.plugins[resource].healthy)
        return f"the container has {both(lost)}, which {'is' if len(lost) == 1 else 'are'} no longer healthy"
    if stock.free + stock.left < count:
        return f"{wanted} and {free_text(DEVICES, stock.free + stock.left, count)} ({stock.text})"
    if state.devices.plugins[resource].refuses_several and count > 1:
        return f"{wanted}, and its device plugin gives a container one share, no more"
    return f"{wanted}, {stock.free} are free, but: {decision.error}"


# --- crashes --------------------------------------------------------------------------------


def crash_cause(case: ExplainCase, message: str) -> Cause:
    """What the kubelet does not survive."""
    books = case.state.memory.numa
    kinds = {kind for one in case.pod.containers for kind, _ in one.memory or ()}
    kinds |= {kind for kind, _ in case.pod.memory or ()}
    for kind in sorted(kinds) if case.rules.memory_static else ():
        lacking = [numa for numa, node in books.items() if kind not in node.tables]
        if lacking:
            nodes = numa_text(sum(1 << numa for numa in lacking))
            have = "has" if len(lacking) == 1 else "have"
            return Cause(
                (kind,),
                f"{kind}: {nodes} {have} no entry for such huge pages, and the Memory Manager of the kubelet "
                "crashes on that",
            )
    gone = _vanished(case)
    if gone:
        return gone
    options = case.rules.cpu_options
    if case.rules.prefer_closest and case.machine.numa_bits.bit_length() > len(case.machine.numa):
        ids = format_ids(case.machine.numa_bits)
        return Cause(
            (),
            f"prefer-closest-numa-nodes: the NUMA ids of this machine ({ids}) have gaps, and the kubelet "
            "reads beyond the end of its table of distances",
        )
    if options.across_numa and "never returns" in message:
        counts = both([str(n) for one in case.pod.containers if (n := amount_of(one, CPU))])
        return Cause(
            (CPU,),
            f"cpu: distribute-cpus-across-numa never finishes with {counts} CPUs on what is free",
        )
    return Cause((), message)


def _vanished(case: ExplainCase) -> Cause | None:
    """Devices that the pod holds and that its plugin no longer lists."""
    for resources in case.state.devices.grants.get(case.pod.uid, {}).values():
        for resource, grant in resources.items():
            plugin = case.state.devices.plugins.get(resource)
            lost = sorted(grant.ids - plugin.devices.keys()) if plugin else []
            if lost:
                return Cause(
                    (resource,),
                    f"{resource}: the pod has {both(lost)}, which the device plugin no longer lists, and the "
                    "Device Manager of the kubelet crashes on that",
                )
    return None
