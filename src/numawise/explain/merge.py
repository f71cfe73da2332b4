"""Why a merge of hints came out as it did: what each resource left over, and who stood in the way.

Rules kept here:

1. Everything follows from the hints and the policy; what is free and asked for is shown where it is known,
   so that pasted hints and those of a log are explained by the same code.
2. One cause is named, the first of: a resource that nothing can serve; one that cannot have what the policy
   demands even alone; the fewest resources that cannot have it together.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from numawise.engine.hint import HintRule
from numawise.explain.free import REUSED, Voter, preferred_masks, single_nodes
from numawise.explain.words import (
    amount,
    asked_text,
    free_by_numa_text,
    free_text,
    nodes_text,
    numa_text,
    number,
    shortage_text,
    title,
    titles,
)
from numawise.render.words import both
from numawise.request.model import CPU, MEMORY
from numawise.results.explanation import BYTES, CPUS, IMPOSSIBLE, Narrowing, NumaFree
from numawise.rules.model import BEST_EFFORT, NONE, RESTRICTED, SINGLE
from numawise.sets import ids_of
from numawise.values import dataclass

SHOWN = 6
"""Masks that a line has room for."""
MOST = 512
"""Preferred masks that are looked at."""
RULES: Mapping[str, str] = {
    NONE: "none does not ask for hints; it refuses a pod only when an allocation fails",
    BEST_EFFORT: "best-effort takes the best NUMA nodes available and never refuses a pod because of them",
    RESTRICTED: "restricted admits a pod only when all resources prefer the same NUMA nodes, as few as each "
    "would need on an idle machine",
    SINGLE: "single-numa-node admits a pod only when one NUMA node serves all resources "
    "that have a preference",
}
OLD_RESTRICTED = (
    "restricted (up to 1.23) admits a pod only when every resource gets as few NUMA nodes as it would need "
    "on an idle machine"
)


@dataclass(frozen=True, slots=True)
class Cause:
    """What decided."""

    resources: tuple[str, ...]
    text: str
    """Without a full stop."""


@dataclass(frozen=True, slots=True)
class Merging:
    """The policy's side of a merge."""

    policy: str
    every: int
    """All NUMA nodes, packed."""
    equal: bool = True
    """Preferred takes equal masks (1.24 and later)."""

    @property
    def rule(self) -> str:
        """What the policy demands."""
        if self.policy == RESTRICTED and not self.equal:
            return OLD_RESTRICTED
        return RULES.get(self.policy, "")


def narrowings(voters: Sequence[Voter], merging: Merging) -> tuple[Narrowing, ...]:
    """What each resource in turn prefers, and what is left then."""
    steps = []
    left: Sequence[int] | None = None
    bound = merging.every
    for voter in voters:
        family = voter.family
        single = merging.policy == SINGLE
        own = _singles(voter, merging.every) if single else preferred_masks(family, MOST)
        if left is None:
            left = own
        elif single or merging.equal:
            left = [mask for mask in left if family.prefers(mask)]
        else:
            left = sorted({a & b for a in left for b in own if a & b}, key=lambda m: (m.bit_count(), m))
        more = len(own) > SHOWN or len(left) > SHOWN
        cut = not single and len(own) >= MOST  # there may be more: all that it reaches
        wanted = family.reach if cut else _union(own)
        bound &= wanted
        reach = bound if cut else _union(left)
        steps.append(
            Narrowing(voter.hints.resource, tuple(own[:SHOWN]), tuple(left[:SHOWN]), more, wanted, reach)
        )
    return tuple(steps)


def _union(masks: Sequence[int]) -> int:
    bits = 0
    for mask in masks:
        bits |= mask
    return bits


# --- the cause ------------------------------------------------------------------------------


def merge_cause(voters: Sequence[Voter], merging: Merging) -> Cause:
    """Why no answer was preferred (rule 2)."""
    impossible = [voter for voter in voters if voter.hints.answer == IMPOSSIBLE]
    if impossible:
        return Cause(_names(impossible), "; ".join(_impossible(voter) for voter in impossible))
    if merging.policy == SINGLE:
        alone = _short_ones([voter for voter in voters if not single_nodes(voter.family, merging.every)])
        if alone:
            return _joined(alone, [_no_single_node(voter) for voter in alone], merging.policy)
        return _incompatible(voters, {v.hints.resource: _singles(v, merging.every) for v in voters}, merging)
    liked = {voter.hints.resource: preferred_masks(voter.family, MOST) for voter in voters}
    alone = _short_ones([voter for voter in voters if not liked[voter.hints.resource]])
    if alone:
        return _joined(alone, [_not_preferred(voter) for voter in alone], merging.policy)
    return _incompatible(voters, liked, merging)


def _short_ones(voters: list[Voter]) -> list[Voter]:
    """Memory and huge pages share their hints: of these only the types that are short somewhere."""
    memory = [voter for voter in voters if voter.hints.unit == BYTES]
    short = [v for v in memory if all((p.free or 0) < (v.hints.asked or 0) for p in v.hints.places)]
    return [voter for voter in voters if voter not in memory or voter in short or not short]


def _names(voters: Sequence[Voter]) -> tuple[str, ...]:
    return tuple(voter.hints.resource for voter in voters)


def _singles(voter: Voter, every: int) -> tuple[int, ...]:
    return tuple(1 << numa for numa in ids_of(single_nodes(voter.family, every)))


def _joined(voters: Sequence[Voter], texts: Sequence[str], policy: str) -> Cause:
    """Several resources, each of which alone is enough for a no."""
    kinds: dict[str, str] = {}
    for voter, text in zip(voters, texts, strict=True):
        kinds.setdefault(text, voter.hints.resource)
    shown = "; ".join(kinds)
    demand = _demand(voters, policy)
    return Cause(_names(voters), f"{shown}; {demand}" if demand else shown)


def _demand(voters: Sequence[Voter], policy: str) -> str:
    if policy == SINGLE:
        return f"{SINGLE} needs one NUMA node with all of {'it' if voters[0].hints.unit == BYTES else 'them'}"
    if policy == RESTRICTED:
        widths = {width for voter in voters if (width := width_of(voter))}
        if len(widths) == 1:
            return f"{RESTRICTED} takes no more than {nodes_text(widths.pop())} for it"
        return f"{RESTRICTED} takes no more NUMA nodes than an idle machine would need"
    return ""


def _impossible(voter: Voter) -> str:
    hints = voter.hints
    if hints.note:
        return f"{hints.resource}: {hints.note}"
    if hints.asked is None:
        return f"{hints.resource}: no NUMA nodes can serve it, the list of hints is empty"
    free = sum(place.free or 0 for place in hints.places)
    rooms = free_by_numa_text(hints.unit, hints.places, hints.asked)
    has = free_text(hints.unit, free, hints.asked)
    known = f" ({rooms})" if rooms and free else ""
    return f"{hints.resource}: {asked_text(hints)} and {has} on the whole machine{known}"


def _no_single_node(voter: Voter) -> str:
    """A resource that no NUMA node can serve alone."""
    hints = voter.hints
    if hints.asked is None:
        masks = both([numa_text(mask) for mask, _ in hints.wider[:2]], "or")
        return f"{hints.resource}: no hint for one NUMA node is preferred, only {masks or 'unpreferred ones'}"
    largest = max((place.size or 0 for place in hints.places), default=0)
    rooms = free_by_numa_text(hints.unit, hints.places, hints.asked)
    if hints.asked > largest:
        most = amount(hints.unit, largest, hints.asked)
        had = f"no NUMA node of this machine can give more than {most}{_kept(voter)}"
        return f"{hints.resource}: {asked_text(hints)} and {had}"
    short = shortage_text(hints)
    return f"{hints.resource}: {asked_text(hints)}, {rooms}{f', {short}' if short else ''}"


def _kept(voter: Voter) -> str:
    """What is kept back where that is what is missing."""
    hints = voter.hints
    if hints.unit == CPUS and width_of(voter) == 1:
        return " (CPUs reserved for the system are not handed out)"
    return ""


def _not_preferred(voter: Voter) -> str:
    """A resource that would need more NUMA nodes than on an idle machine."""
    hints = voter.hints
    if hints.asked is None:
        return f"{hints.resource}: none of its hints is preferred"
    width = width_of(voter)
    rooms = free_by_numa_text(hints.unit, hints.places, hints.asked)
    idle = f"would fit {nodes_text(width)} of an idle machine" if width else "would fit an idle machine"
    sizes = sorted((place.size or 0 for place in hints.places), reverse=True)
    if width and sum(sizes[:width]) < hints.asked:
        most = amount(hints.unit, sum(sizes[:width]), hints.asked)
        kept = "" if hints.unit != CPUS else ", as CPUs reserved for the system are not handed out"
        whole = f"{nodes_text(width)} {'counts' if width == 1 else 'count'} as large enough for it"
        return f"{hints.resource}: {asked_text(hints)}; {whole}, but can give {most} at most{kept}"
    short = shortage_text(hints) if width == 1 else ""
    return f"{hints.resource}: {asked_text(hints)} and {idle}, but {rooms}{f', {short}' if short else ''}"


def width_of(voter: Voter) -> int:
    """How many NUMA nodes a preferred hint has; 0: unknown."""
    if isinstance(voter.family, HintRule):
        return voter.family.width
    return min((m.bit_count() for m in preferred_masks(voter.family, MOST)), default=0)


# --- resources that cannot have it together -------------------------------------------------


def _incompatible(voters: Sequence[Voter], liked: Mapping[str, tuple[int, ...]], merging: Merging) -> Cause:
    fewest = _fewest(voters, liked, merging)
    names = _names(fewest)
    widths = {name: {mask.bit_count() for mask in liked[name]} for name in names}
    if merging.policy != SINGLE and merging.equal and not set.intersection(*widths.values()):
        return Cause(names, _different_widths(fewest, widths, merging.policy))
    kinds = _kinds(fewest, liked)
    parts = [f"{_hints_of(group)} only on {_masks(masks)}" for group, masks in kinds]
    common = (
        "NUMA node" if all(m.bit_count() == 1 for _, masks in kinds for m in masks) else "set of NUMA nodes"
    )
    serves = "both" if len(names) == 2 else "all"
    text = f"{', '.join(parts)}: no {common} serves {serves}"
    lacks = _lacks(fewest)
    if lacks:
        text += f" ({lacks})"
    return Cause(names, text)


def _fewest(
    voters: Sequence[Voter], liked: Mapping[str, tuple[int, ...]], merging: Merging
) -> tuple[Voter, ...]:
    """The fewest voters that have nothing in common; those of one manager speak once."""
    for size in range(2, len(voters) + 1):
        for some in combinations(voters, size):
            if not _common(some, liked, merging):
                return some
    return tuple(voters)


def _common(some: Sequence[Voter], liked: Mapping[str, tuple[int, ...]], merging: Merging) -> bool:
    first = min(some, key=lambda voter: len(liked[voter.hints.resource]))
    rest = [voter for voter in some if voter is not first]
    if merging.policy == SINGLE or merging.equal:
        return any(all(v.family.prefers(m) for v in rest) for m in liked[first.hints.resource])
    left = set(liked[first.hints.resource])
    for voter in rest:
        left = {a & b for a in left for b in liked[voter.hints.resource] if a & b}
    return bool(left)


def _kinds(
    voters: Sequence[Voter], liked: Mapping[str, tuple[int, ...]]
) -> list[tuple[list[str], tuple[int, ...]]]:
    """Resources that have the same masks, together."""
    found: dict[tuple[int, ...], list[str]] = {}
    for voter in voters:
        found.setdefault(liked[voter.hints.resource], []).append(voter.hints.resource)
    return [(names, masks) for masks, names in found.items()]


def _hints_of(names: Sequence[str]) -> str:
    return f"{titles(names)} hints"


def _masks(masks: Sequence[int]) -> str:
    """``NUMA 1``, ``NUMA 0 or 1``, ``NUMA 0-1 or 2-3``."""
    shown = [numa_text(mask).removeprefix("NUMA ") for mask in masks[:SHOWN]]
    if len(masks) > SHOWN:
        shown = [*shown[:-1], f"{len(masks) - SHOWN + 1} others"]
    return f"NUMA {both(shown, 'or')}"


def _lacks(voters: Sequence[Voter]) -> str:
    """What is missing where the others would be: ``NUMA 0 lacks 2 CPUs of 4``."""
    parts = []
    for voter in voters:
        hints = voter.hints
        others = 0
        for other in voters:
            if other is not voter:
                others |= sum(1 << p.numa for p in other.hints.places if other.family.prefers(1 << p.numa))
        for place in hints.places:
            if others >> place.numa & 1 and not voter.family.prefers(1 << place.numa):
                text = _lack(hints.resource, hints.unit, hints.asked, place)
                if text:
                    parts.append((place.numa, text))
    by_numa: dict[int, list[str]] = {}
    for numa, text in sorted(parts, key=lambda part: part[0]):
        by_numa.setdefault(numa, []).append(text)
    if not by_numa or len(by_numa) > 4:
        return ""
    masks: dict[str, int] = {}
    for numa, texts in by_numa.items():
        masks[both(texts)] = masks.get(both(texts), 0) | 1 << numa
    return both([_who_lacks(mask, text) for text, mask in masks.items()])


def _who_lacks(mask: int, text: str) -> str:
    """``NUMA 0 lacks 2 of 4 CPUs``, ``NUMA 2-3 each lack …``."""
    if mask.bit_count() == 1:
        return f"{numa_text(mask)} {text}"
    for word, plural in (
        ("lacks ", "each lack "),
        ("does not ", "do not "),
        ("has ", "have "),
        ("is ", "are "),
    ):
        if text.startswith(word):
            return f"{numa_text(mask)} {plural}{text.removeprefix(word)}"
    return f"{numa_text(mask)} {text}"


def _lack(resource: str, unit: str, wanted: int | None, place: NumaFree) -> str:
    if wanted is None or place.free is None:
        return ""
    if place.note:
        if place.note.endswith(REUSED):
            return f"does not serve it, as {place.note}"
        return f"is {place.note}" if place.note.startswith("in ") else f"has {place.note}"
    missing = wanted - place.free
    if missing <= 0:
        return ""
    what = {CPU: " CPUs", MEMORY: " of memory"}.get(resource, f" {title(resource)}")
    size = amount(unit, wanted, missing)
    return f"lacks {amount(unit, missing, wanted)} of {size}{what}"


def _different_widths(voters: Sequence[Voter], widths: Mapping[str, set[int]], policy: str) -> str:
    parts = []
    for voter in voters:
        hints = voter.hints
        width = min(widths[hints.resource])
        asked = ""
        if hints.asked is not None:
            sizes = [place.size for place in hints.places if place.size]
            each = (
                f", at most {amount(hints.unit, max(sizes), hints.asked)} each" if sizes and width > 1 else ""
            )
            asked = f" ({asked_text(hints)}{each})"
        noun = "NUMA node" if width == 1 else "NUMA nodes"
        parts.append(f"{title(hints.resource)} needs {number(width)} {noun}{asked}")
    demand = {
        RESTRICTED: f"{RESTRICTED} wants the same NUMA nodes preferred by all",
    }.get(policy, "they cannot all have the NUMA nodes they prefer")
    return f"{both(parts)}; {demand}"
