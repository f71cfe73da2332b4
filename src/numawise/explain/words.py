"""How an explanation words amounts, NUMA nodes and holders, and a change and what it costs."""

from collections.abc import Iterable, Sequence

from numawise.engine import predicates
from numawise.engine.predicates import PODS
from numawise.engine.state import Holding, held_by
from numawise.explain.case import ExplainCase
from numawise.explain.change import SetAmount, place_of, sides_of
from numawise.quantity import Quantity
from numawise.render.words import amount_text, both, bytes_text, counted
from numawise.request.defaults import RawPod
from numawise.request.model import CPU, MEMORY, Role
from numawise.results.explanation import BYTES, CPUS, NumaFree, Patch, ResourceHints
from numawise.rules.model import BEST_EFFORT, NONE, RESTRICTED
from numawise.sets import format_ids

UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
MOST_NAMED = 3
"""Pods that are described one by one."""
MOST_ROOMS = 4
"""NUMA nodes that have different amounts; of more, only the largest is shown."""


def title(resource: str) -> str:
    """A resource inside a sentence."""
    return "CPU" if resource == CPU else resource


def titles(resources: Iterable[str]) -> str:
    """Resources inside a sentence."""
    return both([title(resource) for resource in resources])


def number(count: int) -> str:
    """A small number as a word."""
    return NUMBERS[count] if 0 <= count < len(NUMBERS) else str(count)


def numa_text(mask: int) -> str:
    """``NUMA 0-1``."""
    return f"NUMA {format_ids(mask)}"


def nodes_text(count: int) -> str:
    """``one NUMA node``, ``two NUMA nodes``."""
    return f"{number(count)} NUMA {'node' if count == 1 else 'nodes'}"


def amount(unit: str, size: int, beside: int | None = None) -> str:
    """So much of something; ``beside``: another amount that must not look the same."""
    if unit != BYTES:
        return str(size)
    shown = bytes_text(size)
    if beside is None or beside == size or shown != bytes_text(beside):
        return shown
    for name, per in UNITS[1:]:
        shown, other = (f"{one / per:,.1f}".removesuffix(".0") for one in (size, beside))
        if shown != other:
            return f"{shown} {name}"
    return f"{size:,} bytes"


def asked_text(hints: ResourceHints) -> str:
    """``8 CPUs are asked for``."""
    return asked(hints.resource, hints.unit, hints.asked or 0)


def asked(resource: str, unit: str, size: int) -> str:
    """``8 CPUs are asked for``, ``120 GiB is asked for``."""
    if unit == CPUS:
        return f"{counted(size, 'CPU')} {'is' if size == 1 else 'are'} asked for"
    if unit == BYTES:
        what = "" if resource == MEMORY else " of huge pages"
        return f"{amount(BYTES, size)}{what} is asked for"
    return f"{size} {'is' if size == 1 else 'are'} asked for"


def free_text(unit: str, free: int, wanted: int) -> str:
    """``6 are free``, ``none is free``."""
    if not free:
        return "none is free"
    are = "is" if free == 1 or unit == BYTES else "are"
    return f"{amount(unit, free, wanted)} {are} free"


def free_by_numa_text(unit: str, places: Sequence[NumaFree], wanted: int) -> str:
    """Who has how much: ``NUMA 0 has 6 free and NUMA 1 has 4``."""
    by_room: dict[tuple[int, str], int] = {}
    for place in sorted((p for p in places if p.free is not None), key=lambda p: (-(p.free or 0), p.numa)):
        key = (place.free or 0, place.note)
        by_room[key] = by_room.get(key, 0) | 1 << place.numa
    rooms = list(by_room.items())
    if not rooms:
        return ""
    if len(rooms) <= MOST_ROOMS:
        rooms.sort(key=lambda room: room[1] & -room[1])
    if len(rooms) > MOST_ROOMS:
        ((most, note), nodes), *_ = rooms
        has = f"{numa_text(nodes)} {'has' if nodes.bit_count() == 1 else 'have'} the most free"
        return f"{has}, {amount(unit, most, wanted)}{f' ({note})' if note else ''}"
    parts = []
    for at, ((free, note), nodes) in enumerate(rooms):
        one = nodes.bit_count() == 1
        size = amount(unit, free, wanted) if free else "none"
        word = f"{'has' if one else 'have'} {size}"
        each = "" if one or not free else " each"
        parts.append(
            f"{numa_text(nodes)} {word}{' free' if at == 0 else ''}{each}{f' ({note})' if note else ''}"
        )
    return both(parts)


def shortage_text(hints: ResourceHints) -> str:
    """What the nearest NUMA node lacks: ``NUMA 0 lacks 2``; '' when none is short or nothing is known."""
    known = [place for place in hints.places if place.free is not None and not place.note]
    if hints.asked is None or not known or any((place.free or 0) >= hints.asked for place in hints.places):
        return ""
    nearest = max(known, key=lambda place: (place.free or 0, -place.numa))
    lacking = hints.asked - (nearest.free or 0)
    return f"{amount(hints.unit, lacking)} short" if lacking > 0 else ""


# --------------------------------------------------------------------------------------------------
# How a change is described: what to edit, to the letter, and what it costs.


RECREATED = "Recreate the pod (delete it, or leave it to its controller): the new pod is admitted"
FORCED = (
    "Delete the pod with --force while the kubelet is down, start the kubelet, and recreate the pod: it is "
    "then admitted"
)
RESTART = "requires a restart of the kubelet; running pods stay admitted"
LOST = {
    RESTRICTED: "pods may then span NUMA nodes where they need to",
    BEST_EFFORT: "alignment is then attempted, but no longer guaranteed",
    NONE: "nothing is aligned any more",
}


def owner_text(raw: RawPod, number: int | None) -> str:
    """Whose amount it is."""
    if number is None:
        return "the pod's own resources"
    one = raw.containers[number]
    return f"{'init ' if one.role is Role.INIT else ''}container {one.name}"


def set_text(raw: RawPod, change: SetAmount) -> str:
    """``set cpu to 2 instead of 4 in container main (requests and limits)``."""
    sides = sides_of(raw, change.container, change.resource)
    owner = owner_text(raw, change.container)
    if change.amount is None:
        return f"{change.resource} to nothing instead of {old_amount(raw, change)} in {owner} (remove it)"
    return f"{change.resource} to {change.amount} instead of {old_amount(raw, change)} in {owner} ({sides})"


def old_amount(raw: RawPod, change: SetAmount) -> Quantity:
    """What the manifest asks for now."""
    owner = raw if change.container is None else raw.containers[change.container]
    both_sides = {**(owner.requests or {}), **(owner.limits or {})}
    return both_sides[change.resource]


def reduction_text(raw: RawPod, change: SetAmount, value: int) -> str:
    """Less of one resource."""
    assert change.amount is not None
    less = value - change.amount.value
    if change.resource == CPU:
        what = f"{counted(less, 'CPU')} less"
    elif change.resource == MEMORY:
        what = f"{bytes_text(less)} less memory"
    elif "/" in change.resource:
        what = f"{less} {change.resource} less"
    else:
        what = f"{bytes_text(less)} less of {change.resource}"
    return f"Ask for {what}: set {set_text(raw, change)}"


def growth_text(raw: RawPod, changes: Sequence[SetAmount]) -> str:
    """More of one resource, or of several."""
    what = "more"
    if len(changes) == 1:
        (change,) = changes
        assert change.amount is not None
        more = change.amount.value - old_amount(raw, change).value
        what = counted(more, "more CPU") if change.resource == CPU else f"more {change.resource}"
    why = "so that all of it needs the same number of NUMA nodes"
    return f"Ask for {what}, {why}: set {'; set '.join(set_text(raw, change) for change in changes)}"


def init_text(raw: RawPod, changes: Sequence[SetAmount]) -> tuple[str, str]:
    """Init containers whose CPUs stand in the way of the containers after them."""
    numbers = [change.container for change in changes if change.container is not None]
    names = both([raw.containers[number].name for number in numbers])
    amounts = "; set ".join(set_text(raw, change) for change in changes)
    who, its = ("init container", "its") if len(numbers) == 1 else ("init containers", "their")
    if all(change.amount is not None and not change.amount.whole for change in changes):
        text = f"Let {who} {names} run in the shared pool: set {amounts}"
        return (
            text,
            f"only {who} {names} then {'runs' if len(numbers) == 1 else 'run'} without exclusive CPUs",
        )
    what = "CPUs" if all(change.resource == CPU for change in changes) else "memory"
    return f"Let {who} {names} have {its} {what} where the other containers fit: set {amounts}", ""


def rounding_text(raw: RawPod, changes: Sequence[SetAmount], threads: int) -> str:
    """Whole cores."""
    even = "an even number of CPUs" if threads == 2 else f"a multiple of {threads} CPUs"
    return f"Ask for {even}: set {'; set '.join(set_text(raw, change) for change in changes)}"


def together_text(raw: RawPod, changes: Sequence[SetAmount]) -> str:
    """Several amounts at once."""
    return f"Change several amounts: set {'; set '.join(set_text(raw, change) for change in changes)}"


def exact_text(raw: RawPod, changes: Sequence[SetAmount]) -> str:
    """Amounts without fractions."""
    parts = []
    for change in changes:
        sides = sides_of(raw, change.container, change.resource)
        parts.append(f"{change.resource} as {change.amount} in {owner_text(raw, change.container)} ({sides})")
    return f"Write the amount as a whole number: {'; '.join(parts)}"


def fractional_text(raw: RawPod, changes: Sequence[SetAmount]) -> tuple[str, str]:
    """CPUs from the shared pool."""
    text = f"Do without exclusive CPUs: set {'; set '.join(set_text(raw, change) for change in changes)}"
    return text, "its CPUs then come from the shared pool and are not aligned"


def unguaranteed_text(raw: RawPod, number: int, less: Quantity) -> tuple[str, str, tuple[Patch, ...]]:
    """Out of the Guaranteed class."""
    place = place_of(raw, number)
    one = raw.containers[number]
    path = (*place, "resources", "requests", MEMORY)
    if one.requests:
        patches: tuple[Patch, ...] = (Patch("add", path, str(less)),)
    else:
        patches = (Patch("add", path[:-1], {MEMORY: str(less)}),)
    text = (
        f"Leave the Guaranteed class: request {less} of memory in container {one.name} and keep the limit "
        f"at {one.limits[MEMORY]}"
    )
    return text, "the pod then has no exclusive CPUs, and its memory comes from any NUMA node", patches


def elsewhere_text(name: str) -> str:
    """Another node."""
    return f"Send the pod to node {name}, which admits it as it is"


def drop_text(raw: RawPod, changes: Sequence[SetAmount]) -> tuple[str, str]:
    """Without devices or huge pages."""
    resources = both(list(dict.fromkeys(change.resource for change in changes)))
    owners: dict[str, list[str]] = {}
    for change in changes:
        owners.setdefault(change.resource, []).append(owner_text(raw, change.container))
    if len(owners) == 1:
        (names,) = owners.values()
        has = f"{names[0]} then has" if len(names) == 1 else "these then have"
        return f"Do without {resources}: remove it from {both(names)}", f"{has} none of it"
    parts = [f"remove {resource} from {both(names)}" for resource, names in owners.items()]
    return f"Do without {resources}: {'; '.join(parts)}", "these then have none of it"


def without_text(raw: RawPod, changes: Sequence[SetAmount]) -> tuple[str, str]:
    """Without some devices, and less of others."""
    amounts = "; set ".join(set_text(raw, change) for change in changes)
    gone = both(list(dict.fromkeys(change.resource for change in changes if change.amount is None)))
    return f"Ask for what the machine has: set {amounts}", f"a container then has no {gone}"


def healing_text(resource: str, devices: Sequence[str]) -> str:
    """Devices that are ill."""
    some = both(list(devices[:4]) + ([f"{len(devices) - 4} more"] if len(devices) > 4 else []))
    they = "it is" if len(devices) == 1 else "they are"
    return f"Bring {some} of {resource} back to health: {they} reported unhealthy"


def removal_text(case: ExplainCase, uids: Sequence[str]) -> str:
    """Other pods end first."""
    if len(uids) > MOST_NAMED:
        names = both(
            [*(pod_name(case, uid) for uid in uids[:MOST_NAMED]), counted(len(uids) - MOST_NAMED, "other")]
        )
        return f"Wait until {len(uids)} pods end, or remove them: {names}"
    parts = both([_held_text(case, uid, held_by(case.state, uid)) for uid in uids])
    if len(uids) == 1:
        return f"Wait until pod {parts} ends, or remove it"
    return f"Wait until pods {parts} end, or remove them"


def joined_text(texts: Sequence[str]) -> str:
    """Several changes that are needed together."""
    first, *rest = texts
    return "; and ".join([first, *(f"{text[0].lower()}{text[1:]}" for text in rest)])


def pod_name(case: ExplainCase, uid: str) -> str:
    """A pod of the node by name, or else by its uid."""
    pod = case.state.active.get(uid)
    return f"{pod.namespace}/{pod.name}" if pod is not None else uid


def _held_text(case: ExplainCase, uid: str, holding: Holding) -> str:
    known, name = case.state.active.get(uid), pod_name(case, uid)
    parts = []
    if holding.cpus:
        parts.append(f"{counted(holding.cpus.bit_count(), 'CPU')} ({format_ids(holding.cpus)})")
    for kind, size in (holding.memory or {}).items():
        what = "" if kind == MEMORY else f" of {kind}"
        parts.append(f"{bytes_text(size)}{what} on {numa_text(holding.numa)}")
    parts += [f"{count} {resource}" for resource, count in (holding.devices or {}).items()]
    if not parts and known:
        requests = predicates.asked(known)
        parts = [
            f"{amount_text(resource, size)} {'CPU' if resource == CPU else resource}"
            for resource, size in requests.items()
            if size and resource != PODS
        ]
        return f"{name} (requests {both(parts)})" if parts else name
    return f"{name} (holds {both(parts)})"


def scope_text(scope: str, before: str) -> tuple[str, str]:
    """The other scope."""
    meaning = {
        "container": "each container is then aligned for itself",
        "pod": "all containers of a pod are then aligned together",
    }[scope]
    return f"Set topologyManagerScope to {scope} instead of {before}: {meaning}", RESTART


def policy_text(policy: str, before: str) -> tuple[str, str]:
    """Another policy."""
    return f"Set topologyManagerPolicy to {policy} instead of {before}: {LOST[policy]}", RESTART


def option_text(field: str, name: str) -> tuple[str, str]:
    """Without an option."""
    return f"Remove {name} from {field}", RESTART
