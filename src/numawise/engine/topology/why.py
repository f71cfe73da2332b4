"""Why a merge came out as it did: the masks it looked at, and who stood against each."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, islice

from numawise.engine.hint import Family, Hint, Listed, Ruled
from numawise.engine.topology.merge import width_wanted
from numawise.engine.trace import (
    CHOSEN,
    FARTHER,
    HIGHER,
    NARROWER,
    NOT_PREFERRED,
    NOT_SHARED,
    WIDER,
    Candidate,
    HintsMerged,
    TooManyCombinations,
)
from numawise.sets import ids_of

SHOWN = 64
"""So many candidates are told at most."""
COST = 6.0 / 16.6e6
"""CPU seconds of the kubelet for one combination: measured, 8 NUMA nodes and three resources."""
NOTICEABLE = 1_000_000


def blow_up(voters: Iterable[Family], container: str | None, *, single: bool) -> TooManyCombinations | None:
    """What the kubelet's own merge would cost, where that is much; None where it is not.

    Under ``single-numa-node`` it keeps one hint per node before it combines.
    """
    combinations = 1
    for family in voters:
        nodes = family.reach.bit_count()
        combinations *= max(1, nodes if single else 2**nodes - 1)
    if combinations < NOTICEABLE:
        return None
    return TooManyCombinations(container, combinations, combinations * COST)


def told(
    every: int,
    voters: Mapping[str, Family],
    container: str | None,
    best: Hint,
    *,
    admitted: bool,
    nearest: bool,
) -> HintsMerged:
    """The merge of one container or pod as a step."""
    width = width_wanted(voters.values())
    chosen = best.numa.bits if best.numa is not None else every
    candidates = [
        _candidate(mask, chosen, voters, best, width, nearest=nearest)
        for mask in _masks(every, voters, chosen)
    ]
    impossible = [name for name, family in voters.items() if not family.reach]
    against: Sequence[str] = impossible
    if not best.preferred and not impossible:
        against = [name for name, family in voters.items() if not family.prefers(chosen)]
        against = against or _disagreeing(voters)
    elif best.preferred:
        against = [name for name, family in voters.items() if _narrows(family, every)]
    return HintsMerged(container, best, admitted, width, tuple(candidates), tuple(against))


def _masks(every: int, voters: Mapping[str, Family], chosen: int) -> list[int]:
    """Single nodes, what anybody prefers, and the chosen mask; few enough to look at."""
    masks = dict.fromkeys(1 << node for node in ids_of(every))
    for family in voters.values():
        if isinstance(family, Listed):
            masks.update(dict.fromkeys(islice((m for m, liked in family.hints if liked), SHOWN)))
        elif isinstance(family, Ruled) and family.width > 1:
            nodes = [1 << node for node in ids_of(family.reach)]
            liked = (mask for mask in map(sum, combinations(nodes, family.width)) if family.prefers(mask))
            masks.update(dict.fromkeys(islice(liked, SHOWN)))
    masks[chosen] = None
    ordered = sorted(masks, key=lambda mask: (mask.bit_count(), mask))
    return [m for at, m in enumerate(ordered) if at < SHOWN or m == chosen]


def _candidate(
    mask: int, chosen: int, voters: Mapping[str, Family], best: Hint, width: int, *, nearest: bool
) -> Candidate:
    preferred = bool(voters) and all(family.prefers(mask) for family in voters.values())
    if mask == chosen:
        return Candidate(mask, kept=True, preferred=best.preferred, why=CHOSEN)
    lacking = tuple(name for name, family in voters.items() if not family.offers(mask))
    if lacking:
        return Candidate(mask, kept=False, preferred=False, why=NOT_SHARED, resources=lacking)
    if best.preferred and not preferred:
        disliked = tuple(name for name, family in voters.items() if not family.prefers(mask))
        return Candidate(mask, kept=False, preferred=False, why=NOT_PREFERRED, resources=disliked)
    count, wanted = mask.bit_count(), chosen.bit_count()
    if count > wanted:
        why = WIDER
    elif count < wanted and not best.preferred and count < width:
        why = NARROWER
    else:
        why = FARTHER if nearest else HIGHER
    return Candidate(mask, kept=False, preferred=preferred, why=why)


def _disagreeing(voters: Mapping[str, Family]) -> list[str]:
    """Resources whose narrowest hints are wider than another's."""
    widths = {name: family.narrowest for name, family in voters.items()}
    return [name for name, width in widths.items() if width == max(widths.values(), default=0)]


def _narrows(family: Family, every: int) -> bool:
    """True when the resource does not prefer every single node, so that it had a say."""
    return not all(family.prefers(1 << node) for node in ids_of(every))
