"""The words of ``nvidia-smi topo -m``: links, affinity values, and words that ran together.

Rules kept here:

1. A link is one of the driver's words, or one that the print's own legend explains as a connection.
2. Words that ran together are taken apart when there is one way to do it, and else not at all.
"""

import re
from functools import lru_cache

from numawise.sets import parse_ids
from numawise.values import dataclass

WORDS = frozenset({"X", "SYS", "NODE", "PHB", "PXB", "PIX", "PSB", "SOC"})
NVLINK = r"NV[0-9]{1,2}"
LIST = r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*"
NOT_AVAILABLE = "N/A"
VALUE = re.compile(rf"{LIST}|{NOT_AVAILABLE}|-1")
VALUE_LIKE = re.compile(r"[0-9,-][0-9A-Za-z,/-]*|N/A?[0-9A-Z,/-]*")
GLUED_VALUES = re.compile(rf"({LIST})?((?:{NOT_AVAILABLE})+)")
LEGEND = re.compile(r"\b([A-Z][A-Z0-9]{2,4})\b[*` ]*=[ \t]*Connection\b")
WHOLE_NVLINK = re.compile(rf"(?<![^\s|*]){NVLINK}(?![^\s|*])")
PEER_WORDS = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U", "CS"})


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The links that one print may hold."""

    words: frozenset[str] = WORDS
    nvlinks: frozenset[str] = frozenset()
    """Those seen alone, such as ``NV18``: they distinguish ``NV120-31`` from ``NV1`` and ``20-31``."""

    @property
    def pattern(self) -> str:
        """One link, for a regular expression."""
        return _pattern(self.words)

    def is_link(self, word: str) -> bool:
        return word in self.words or (word.startswith("NV") and 2 < len(word) < 5 and word[2:].isdecimal())

    def links(self, word: str) -> list[str] | None:
        """The links of a word in which several may have run together."""
        if not _run(self.pattern).fullmatch(word):
            return None
        return _one(self.pattern).findall(word)

    def links_and_value(self, word: str) -> tuple[list[str], str] | None:
        """The links of a word that ends in an affinity value, if there is one way to see it."""
        found = _run_and_value(self.pattern).fullmatch(word)
        if not found:
            return None
        links, value = _one(self.pattern).findall(found[1]), found[2]
        ways = {(links[-1], value)} if well_formed(value) else set()
        if links[-1].startswith("NV"):
            digits = links[-1][2:] + value
            for length in (1, 2):
                if digits[:length].isdecimal() and VALUE.fullmatch(digits[length:]):
                    ways.add((f"NV{digits[:length]}", digits[length:]))
            ways = {way for way in ways if well_formed(way[1])}
        if len(ways) > 1:
            ways = {way for way in ways if way[0] in self.nvlinks}
        if len(ways) != 1:
            return None
        link, value = ways.pop()
        return [*links[:-1], link], value


def vocabulary(text: str) -> Vocabulary:
    """The links a text may hold: the usual ones and those of its legend."""
    legend = {word for word in LEGEND.findall(text) if not any(_is_rest(word, known) for known in WORDS)}
    return Vocabulary(WORDS | legend, frozenset(WHOLE_NVLINK.findall(text)))


def _is_rest(word: str, known: str) -> bool:
    """Whether a word may be a known one that lost letters."""
    letters = iter(known)
    return all(letter in letters for letter in word)


def well_formed(value: str) -> bool:
    """Whether a value is a list of ids that runs upwards, or none at all."""
    if value in (NOT_AVAILABLE, "-1"):
        return True
    if not VALUE.fullmatch(value):
        return False
    last = -1
    for part in value.split(","):
        first, _, end = part.partition("-")
        if len(first) > 5 or len(end) > 5 or int(first) <= last:
            return False
        last = int(end or first)
        if last < int(first):
            return False
    return True


def id_list(value: str | None) -> int | None:
    """The ids of a value as a packed set, where it is one."""
    if value is None or not value[:1].isdecimal() or not well_formed(value):
        return None
    try:
        return parse_ids(value)
    except ValueError:
        return None


@lru_cache(maxsize=64)
def _pattern(words: frozenset[str]) -> str:
    return "|".join([NVLINK, *sorted(words, key=lambda word: (-len(word), word))])


@lru_cache(maxsize=64)
def _one(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@lru_cache(maxsize=64)
def _run(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern})+")


@lru_cache(maxsize=64)
def _run_and_value(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"((?:{pattern})+)({LIST}|{NOT_AVAILABLE})")
