"""Hints as people write and paste them, read into families.

Rules kept here:

1. Short form: ``1! 0-1``: the NUMA nodes of each hint in the kernel's list format, ``!`` when preferred.
   ``any`` or ``*`` alone: the resource has no preference.  ``none`` alone: nothing can serve it.
2. The kubelet's old log form: ``{01 true} {11 false}``; a mask in binary digits, the last one is NUMA 0.
3. The kubelet's newer log form: ``[{"NUMANodeAffinity":2,"Preferred":true}]``; a mask as a number.
4. A hint without NUMA nodes is no preference when preferred, and stands for "impossible" when not.
"""

import json
import re

from numawise.engine.hint import NOWHERE, Family, HintList
from numawise.errors import quoted
from numawise.sets import parse_ids

ANY, NONE = ("any", "*", "*!", "any!"), ("none", "[]", "-")
OLD = re.compile(r"\{\s*([01]+|<?nil>?)\s+(true|false)\s*\}", re.ASCII)
OLD_LIST = re.compile(rf"\[?\s*(?:{OLD.pattern}[\s,]*)+\]?", re.ASCII)
LARGEST = 64
FORMS = "write 1! 0-1 (! for preferred), any, none, or paste what the kubelet logs"


def parse_hints(text: str) -> Family | None:
    """The hints of one resource; None: it has no preference.  ``ValueError``: what is wrong with the text."""
    text = text.strip()
    if text in ANY:
        return None
    if text in NONE or not text:
        return NOWHERE
    if text.startswith(("[", "{")) and '"' in text:
        return _family(_newer(text))
    if OLD_LIST.fullmatch(text):
        return _family([_old(found) for found in OLD.finditer(text)])
    return _family([_short(word) for word in text.split()])


def _family(hints: list[tuple[int | None, bool]]) -> Family | None:
    if any(mask is None for mask, _ in hints):
        if len(hints) > 1:
            raise ValueError("a hint for any NUMA node cannot be combined with others")
        return None if hints[0][1] else NOWHERE
    return HintList(tuple((mask, liked) for mask, liked in hints if mask is not None))


def _short(word: str) -> tuple[int | None, bool]:
    nodes, liked = word.rstrip("!"), word.endswith("!")
    if nodes in ANY:
        return None, True
    try:
        mask = parse_ids(nodes)
    except ValueError as problem:
        raise ValueError(f"{quoted(word)} is not a hint ({problem}); {FORMS}") from None
    return _checked(mask, word), liked


def _old(found: re.Match[str]) -> tuple[int | None, bool]:
    digits, liked = found[1], found[2] == "true"
    return (None if "nil" in digits else _checked(int(digits, 2), found[0])), liked


def _newer(text: str) -> list[tuple[int | None, bool]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{quoted(text)} is not JSON as the kubelet logs it; {FORMS}") from None
    found: list[tuple[int | None, bool]] = []
    for one in value if isinstance(value, list) else [value]:
        mask = one.get("NUMANodeAffinity") if isinstance(one, dict) else ""
        liked = one.get("Preferred") if isinstance(one, dict) else None
        if not isinstance(liked, bool) or not (mask is None or (isinstance(mask, int) and mask >= 0)):
            raise ValueError(f"{json.dumps(one)} is not a hint; {FORMS}")
        found.append((None if mask is None else _checked(mask, str(mask)), liked))
    return found


def _checked(mask: int, shown: str) -> int:
    if not mask:
        raise ValueError(f"{quoted(shown)} names no NUMA node; {FORMS}")
    if mask.bit_length() > LARGEST:
        highest = mask.bit_length() - 1
        raise ValueError(f"{quoted(shown)} names NUMA {highest}; the kubelet knows 0 to {LARGEST - 1}")
    return mask
