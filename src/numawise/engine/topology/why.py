"""Why a merge came out as it did: the masks it looked at, and who stood against each.

Counterpart: none; the kubelet keeps its reasons to itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from numawise.engine.hint import Family, Hint, HintList, HintRule
from numawise.engine.masks import some_masks
from numawise.engine.topology.merge import width_wanted
from numawise.engine.trace import (
    CHOSEN,
    FARTHER,
    HIGHER,
    NOT_PREFERRED,
    NOT_SHARED,
    WIDER,
    Candidate,
    HintsMerged,
    TooManyCombinations,
)
from numawise.sets import ids_of

SHOWN = 64
"""So many candidates are reported at most."""
PER_COMBINATION = 6.0 / 16.6e6
"""CPU seconds of the kubelet for one combination: measured, 8 NUMA nodes and three resources."""
PER_MASK = 3.7 / (3 * 65535)
"""CPU seconds of the kubelet for one mask it looks at: measured, 16 NUMA nodes, ``single-numa-node``."""
NOTICEABLE = 1.0
"""Seconds from which on it is worth telling."""


def blow_up(voters: Iterable[Family], container: str | None, *, single: bool) -> TooManyCombinations | None:
    """What the kubelet's own merge would cost, where that is much; None where it is not.

    It looks at every mask of every resource, and then combines those that are hints; under
    ``single-numa-node`` it keeps one hint per node before it combines.
    """
    combinations, masks = 1, 0
    for family in voters:
        nodes = family.reach.bit_count()
        masks += 2**nodes - 1
        combinations *= max(1, nodes if single else 2**nodes - 1)
    seconds = combinations * PER_COMBINATION + masks * PER_MASK
    return TooManyCombinations(container, combinations, masks, seconds) if seconds >= NOTICEABLE else None


def merge_step(
    every: int,
    voters: Mapping[str, Family],
    container: str | None,
    best: Hint,
    *,
    admitted: bool,
    nearest: bool,
    early: bool = False,
) -> HintsMerged:
    """The merge of one container or pod as a step; ``early``: by the rule up to 1.23."""
    width = 1 if early else width_wanted(voters.values())
    chosen = best.numa.bits if best.numa is not None else every
    candidates = [
        _candidate(mask, chosen, voters, best, nearest=nearest) for mask in _masks(every, voters, chosen)
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
    """Single nodes, what any resource prefers, and the chosen mask; few enough to look at."""
    masks = dict.fromkeys(1 << node for node in ids_of(every))
    for family in voters.values():
        if isinstance(family, HintList):
            masks.update(dict.fromkeys(islice((m for m, liked in family.hints if liked), SHOWN)))
        elif isinstance(family, HintRule) and family.width > 1:
            masks.update(dict.fromkeys(m for m in family.extra_masks if family.prefers(m)))
            if family.possible and family.width >= family.smallest:
                by_rule = some_masks(SHOWN, family.width, family.nodes, family.needs, family.touch)
                masks.update(dict.fromkeys(by_rule))
    masks[chosen] = None
    ordered = sorted(masks, key=lambda mask: (mask.bit_count(), mask))
    return [m for at, m in enumerate(ordered) if at < SHOWN or m == chosen]


def _candidate(
    mask: int, chosen: int, voters: Mapping[str, Family], best: Hint, *, nearest: bool
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
    wider = mask.bit_count() > chosen.bit_count()
    why = WIDER if wider else FARTHER if nearest else HIGHER
    return Candidate(mask, kept=False, preferred=preferred, why=why)


def _disagreeing(voters: Mapping[str, Family]) -> list[str]:
    """Resources whose narrowest hints are wider than another's."""
    widths = {name: family.narrowest for name, family in voters.items()}
    return [name for name, width in widths.items() if width == max(widths.values(), default=0)]


def _narrows(family: Family, every: int) -> bool:
    """True when the resource does not prefer every single node, so that it had a say."""
    return not all(family.prefers(1 << node) for node in ids_of(every))
