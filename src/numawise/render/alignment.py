"""The first sentence about an admitted pod: what of it is not aligned, and why; and where the rest is.

Rules kept here:

1. "Everything on NUMA 0" is said only when every row of the alignment lies on that NUMA node.
2. What is missing comes first, then what is not aligned or not known to be; the reasons follow.
3. A resource that fares alike in all containers is named alone, else with its containers.
"""

from collections.abc import Iterable, Iterator, Sequence

from numawise.render.words import both, bytes_text, counted
from numawise.request.model import CPU, HUGEPAGES, MEMORY, Role
from numawise.results.alignment import (
    AT_START,
    CANNOT_START,
    CLAIM,
    CPU_POLICY,
    ELSEWHERE,
    FRACTION,
    MEMORY_AMOUNT,
    MEMORY_POLICY,
    NO_NUMA,
    NOT_KNOWN,
    NOT_OFFERED,
    NOT_PREFERRED,
    NOT_RECORDED,
    ONLY_NODE,
    POD_LEVEL,
    QOS,
    SEVERAL,
    SHARED,
    TOPOLOGY_POLICY,
    Alignment,
    AlignmentReason,
    ResourceAlignment,
)
from numawise.results.claims import NOT_ALIGNED
from numawise.sets import format_ids

MOST_NAMED = 4
"""Containers, amounts or resources that are named."""
ROLES = {Role.INIT: "init container", Role.SIDECAR: "sidecar", Role.APP: "container"}
Rows = Sequence[ResourceAlignment]


def alignment_text(alignment: Alignment, cause: str = "") -> str:
    """The sentence, without a full stop; ``cause``: why no NUMA nodes were preferred by all, where known."""
    verdict, where = alignment_verdict(alignment, cause), placed_text(alignment)
    if not where:
        return verdict
    if alignment.everything_on is not None:
        return f"{verdict}: {where}" if verdict.count(": ") == 1 else f"{verdict}; {where}"
    return f"{verdict}; {where}"


def noteworthy(alignment: Alignment) -> bool:
    """True when there is more to say than that everything is on one NUMA node."""
    rows = alignment.resources
    return alignment.everything_on is None or any(
        row.reasons and ONLY_NODE not in row.reasons for row in rows
    )


def alignment_verdict(alignment: Alignment, cause: str = "") -> str:
    """The same without where things are."""
    rows = alignment.resources
    failing = [row for row in rows if not row.aligned]
    if not failing and not alignment.errors:
        return f"Admitted: {_aligned(alignment)}"
    heads = [f"container {name} cannot start" for name, _ in alignment.errors[:MOST_NAMED]]
    heads += _heads(alignment, failing)
    reasons = [error for _, error in alignment.errors[:MOST_NAMED]]
    reasons += _reasons(alignment, [row for row in rows if not row.aligned or _by_chance(row)], cause)
    return f"Admitted, but {', and '.join(heads)}: {'; '.join(reasons)}"


# --- the verdict ------------------------------------------------------------------------------


def _by_chance(row: ResourceAlignment) -> bool:
    return row.aligned is True and any(reason in (TOPOLOGY_POLICY, CLAIM) for reason in row.reasons)


def _aligned(alignment: Alignment) -> str:
    """Nothing is to be said against it, but perhaps that it is chance, or on several NUMA nodes."""
    rows = alignment.resources
    lucky = [row for row in rows if _by_chance(row)]
    numa = alignment.everything_on
    if numa is not None and not lucky:
        only = ", the only NUMA node that it can come from" if _only(rows) else ""
        shared = any(row.resource == CPU and not row.given for row in rows)
        return f"everything on NUMA {numa}{only}{', with CPUs of the shared pool' if shared else ''}"
    nodes = f"NUMA {alignment.numa}"
    names = {row.container for row in rows}
    each = all(_common(row for row in rows if row.container == name) for name in names)
    if numa is not None:
        head = f"everything on NUMA {numa}"
    elif each:
        head = f"each container on one NUMA node, the pod on {nodes}"
    else:
        head = f"spread over {nodes}, as few NUMA nodes as it needs"
    if not lucky:
        own = ", as topologyManagerScope container aligns each for itself"
        return head + (own if each and numa is None and not alignment.pod_scope else "")
    whole = len(lucky) == len([row for row in rows if row.given or row in lucky])
    what = "" if whole else f"{both(_names(lucky, rows))} "
    return f"{head}, but {what}by chance: {'; '.join(_reasons(alignment, lucky, ''))}"


def _only(rows: Rows) -> bool:
    return any(ONLY_NODE in row.reasons for row in rows)


def _common(rows: Iterable[ResourceAlignment]) -> int:
    common = -1
    for row in rows:
        common &= row.common
    return common


def _heads(alignment: Alignment, failing: Rows) -> list[str]:
    """What the pod lacks: missing resources, then what is not aligned, or not known to be (rule 2)."""
    rows = alignment.resources
    missing = [row for row in failing if NOT_OFFERED in row.reasons]
    apart = [row for row in failing if row.aligned is False and row not in missing]
    unknown = [row for row in failing if row.aligned is None]
    heads = [f"without {both(_names(missing, rows))}"] if missing else []
    others = [*apart, *unknown]
    if not others:
        return heads
    kept = [row for row in rows if row.aligned]
    names, kept_names = _names(others, rows), _names(kept, rows)
    whole = not any(" of " in name for name in (*names, *kept_names))
    if not kept:
        return [*heads, f"nothing is {'aligned' if apart else 'known to be aligned'}"]
    if whole and len(kept_names) < len(names):
        known = "aligned" if apart else "known to be aligned"
        aside = _aside(alignment, kept)
        heads.append(f"only {both(kept_names)} {_are(kept_names)} {known}{f', {aside}' if aside else ''}")
        return heads
    if apart:
        named = _names(apart, rows)
        heads.append(f"{both(named)} {_are(named)} not aligned")
    if unknown:
        named = _names(unknown, rows)
        heads.append(f"whether {both(named)} {_are(named)} aligned is not known")
    rest = _aside(alignment, kept)
    if rest:
        heads.append(f"the rest only {rest}")
    return heads


def _aside(alignment: Alignment, kept: Rows) -> str:
    """How far what is aligned is: by chance, or on several NUMA nodes."""
    if all(_by_chance(row) for row in kept):
        return "by chance"
    mask = 0
    for row in kept:
        mask |= row.numa.bits
    if any(SEVERAL in row.reasons for row in kept):
        return f"over NUMA {format_ids(mask)}, as few NUMA nodes as it needs"
    placed = [row for row in kept if row.numa]
    if not _common(placed) and not alignment.pod_scope:
        return f"container by container, on NUMA {format_ids(mask)}"
    return ""


def _are(names: Sequence[str]) -> str:
    return "are" if len(names) > 1 or names[0].startswith("CPUs") or " and " in names[0] else "is"


def _names(some: Rows, rows: Rows) -> list[str]:
    """Resources by name, with their containers where not all of these fare alike (rule 3)."""
    chosen: dict[str, list[ResourceAlignment]] = {}
    for row in some:
        chosen.setdefault(row.resource, []).append(row)
    owners: dict[str, list[str]] = {}
    for resource, own in chosen.items():
        every = sum(row.resource == resource for row in rows)
        owners.setdefault("" if len(own) == every else f" of {_containers(own)}", []).append(_title(resource))
    whole = owners.pop("", [])
    return [*whole, *(f"{both(resources)}{owner}" for owner, resources in owners.items())]


def _title(resource: str) -> str:
    return "CPUs" if resource == CPU else resource


def _containers(rows: Rows) -> str:
    roles: dict[Role, list[str]] = {}
    for row in rows:
        roles.setdefault(row.role, []).append(row.container)
    parts = []
    for role, names in roles.items():
        shown = names[:MOST_NAMED] + ([f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else [])
        parts.append(f"{ROLES[role]}{'s' * (len(names) > 1)} {both(shown)}")
    return both(parts)


# --- the reasons ------------------------------------------------------------------------------


def _reasons(alignment: Alignment, rows: Rows, cause: str) -> list[str]:
    """A clause for each kind of reason, most telling first."""
    by_reason: dict[AlignmentReason, list[ResourceAlignment]] = {}
    for row in rows:
        for reason in row.reasons:
            by_reason.setdefault(reason, []).append(row)
    clauses = [*_outside_reasons(alignment, by_reason)]
    if NOT_PREFERRED in by_reason:
        clauses.append(cause or f"no NUMA nodes suit all of it, and {alignment.policy} takes what it gets")
    shared = [row for row in rows if not row.given and SHARED.intersection(row.reasons) and not row.aligned]
    if shared:
        clauses.append(_shared_reason(alignment, by_reason, shared))
    if ELSEWHERE in by_reason:
        names = both(_names(by_reason[ELSEWHERE], alignment.resources))
        clauses.append(f"{names} came from other NUMA nodes than were chosen")
    if TOPOLOGY_POLICY in by_reason:
        clauses.append("topologyManagerPolicy none does not look at NUMA nodes")
    if CLAIM in by_reason:
        clauses.append(NOT_ALIGNED)
    return clauses


def _outside_reasons(
    alignment: Alignment, by_reason: dict[AlignmentReason, list[ResourceAlignment]]
) -> Iterator[str]:
    """What plugins, and the machine's description, say or do not say."""
    if NOT_OFFERED in by_reason:
        it = "it" if len(alignment.missing) == 1 else "them"
        what = it if len(by_reason) == 1 else both(alignment.missing)
        if alignment.offered:
            shown = both(alignment.offered[:MOST_NAMED])
            yield f"no device plugin offers {what} on this machine, which has {shown}"
        else:
            yield f"no device plugin offers {what} on this machine, as far as it is described"
        yield f"a kubelet starts the container without {it}, and a scheduler sends the pod elsewhere"
    if NOT_KNOWN in by_reason:
        names = both(_names(by_reason[NOT_KNOWN], alignment.resources))
        yield f"the Node object lists {names}, and nothing else is known of its devices"
    homeless: dict[str, list[str]] = {}
    for row in by_reason.get(NO_NUMA, ()):
        homeless.setdefault(row.resource, []).extend(name for name, nodes in row.devices if not nodes)
    for resource, ids in homeless.items():
        more = [f"{len(ids) - MOST_NAMED} more"] if len(ids) > MOST_NAMED else []
        yield f"no NUMA node is known for {both(ids[:MOST_NAMED] + more)} of {resource}"
    if AT_START in by_reason:
        names = both(_names(by_reason[AT_START], alignment.resources))
        yield f"{names} will be chosen when the container starts"
    if CANNOT_START in by_reason and not alignment.errors:
        yield "the container cannot start"


def _shared_reason(
    alignment: Alignment, by_reason: dict[AlignmentReason, list[ResourceAlignment]], shared: Rows
) -> str:
    """``the pod is Burstable, so its CPUs come from the shared pool and its memory from any NUMA node``."""
    causes = []
    if QOS in by_reason:
        causes.append(f"the pod is {alignment.qos}")
    if POD_LEVEL in by_reason:
        causes.append("the pod has resources of its own (spec.resources)")
    if FRACTION in by_reason:
        amounts = list(dict.fromkeys(str(row.requested) for row in by_reason[FRACTION]))[:MOST_NAMED]
        causes.append(f"{both(amounts)} {'is' if len(amounts) == 1 else 'are'} not a whole number of CPUs")
    if CPU_POLICY in by_reason:
        causes.append("cpuManagerPolicy is not static")
    if MEMORY_POLICY in by_reason:
        static = "memoryManagerPolicy is not Static"
        causes.append(static if alignment.memory_manager else "this kubelet has no Memory Manager")
    if MEMORY_AMOUNT in by_reason:
        causes.append("the Memory Manager does not read a fraction or an exponent")
    if NOT_RECORDED in by_reason:
        causes.append("the kubelet has no record of it")
    every = alignment.resources
    results: list[str] = []
    floats = any(row.resource == CPU for row in shared)
    for resources, source in (((CPU,), "the shared pool"), ((MEMORY, HUGEPAGES), "any NUMA node")):
        rows = [row for row in shared if row.resource.startswith(resources)]
        names = [f"the {name}" if " of " in name else f"its {name}" for name in _names(rows, every)]
        if names:
            verb = " come" if resources == (CPU,) else "" if floats else " may come"
            results.append(f"{both(names)}{verb} from {source}")
    return f"{both(causes)}, so {both(results)}"


# --- where things are -------------------------------------------------------------------------


def placed_text(alignment: Alignment) -> str:
    """What the containers have of their own; one NUMA node is named once."""
    rows = [row for row in alignment.resources if row.given]
    placed = [row for row in rows if row.numa]
    parts = []
    common = _common(placed)
    named = len({row.container for row in alignment.resources}) > 1
    if placed and common > 0:
        numa = (common & -common).bit_length() - 1
        lead = "" if numa == alignment.everything_on else f"on NUMA {numa}: "
        parts.append(lead + _listed(placed, named=named, places=False))
    elif placed:
        parts.append(_listed(placed, named=named, places=True))
    homeless = [row for row in rows if not row.numa]
    if homeless:
        parts.append(f"on unknown NUMA nodes: {_listed(homeless, named=named, places=False)}")
    return "; ".join(parts)


def apart_text(alignment: Alignment) -> str:
    """``CPUs on NUMA 0-1 and nvidia.com/gpu on NUMA 0``: what does not lie together."""
    rows = [row for row in alignment.resources if row.given and row.aligned is False]
    named = len({row.container for row in alignment.resources}) > 1
    return both(
        [
            f"{_title(row.resource)}{f' of {row.container}' if named else ''} on NUMA {row.numa}"
            for row in rows
        ]
    )


def _listed(rows: Rows, *, named: bool, places: bool) -> str:
    by_container: dict[str, list[str]] = {}
    for row in rows:
        by_container.setdefault(row.container, []).append(_amount(row, places=places))
    texts = [
        f"{name if named else ''} {', '.join(amounts)}".strip()
        for name, amounts in list(by_container.items())[:MOST_NAMED]
    ]
    if len(by_container) > MOST_NAMED:
        texts.append(f"and {counted(len(by_container) - MOST_NAMED, 'more container')}")
    return "; ".join(texts)


def _amount(row: ResourceAlignment, *, places: bool) -> str:
    """``4 CPUs (0-3) on NUMA 0``."""
    if row.cpus:
        parts = [
            (f"{counted(cpus.bit_count(), 'CPU')} ({format_ids(cpus)})", f" on NUMA {numa}")
            for numa, cpus in row.cpus
        ]
        return both([amount + (where if places else "") for amount, where in parts])
    where = f" on NUMA {row.numa}" if places and row.numa else ""
    if row.size:
        return f"{bytes_text(row.size)} of {row.resource}{where}"
    return f"{row.resource} {', '.join(name for name, _ in row.devices)}{where}"
