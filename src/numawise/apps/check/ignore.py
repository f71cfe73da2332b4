"""Findings that a file asks to be left out: ``# numawise: ignore NW221``.

Rules kept here:

1. The comment counts for its own line; on a line of its own, for the next line that is not a comment as well;
   among the first comments of a file, before anything else, for the whole file.
2. It names one or several codes.  A code that does not exist is told.
"""

import re
from collections.abc import Iterator, Mapping

from numawise.errors import meant
from numawise.results.finding import Finding, Place, codes, found
from numawise.values import dataclass, field

COMMENT = re.compile(r"(?:^|\s)#\s*numawise:\s*ignore\b[:\s]*(.*)$", re.IGNORECASE)
WORD = re.compile(r"[\s,]+")
CODE = re.compile(r"NW\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ignored:
    """The codes that a file asks to leave out."""

    everywhere: frozenset[str] = frozenset()
    lines: Mapping[int, frozenset[str]] = field(default_factory=dict)
    unknown: tuple[tuple[int, str], ...] = ()
    """Line and word of codes that do not exist."""

    def covers(self, finding: Finding) -> bool:
        """True when a finding is to be left out."""
        own = self.lines.get(finding.line or 0, frozenset())
        return finding.code in self.everywhere or finding.code in own


def ignored_in(text: str) -> Ignored:
    """Read the comments of a file."""
    if "numawise:" not in text.lower():
        return Ignored()
    everywhere: set[str] = set()
    lines: dict[int, set[str]] = {}
    unknown: list[tuple[int, str]] = []
    waiting: set[str] = set()
    head = True
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        alone = bare.startswith("#")
        head = head and (alone or not bare or bare.startswith(("---", "%")))
        codes, strangers = _codes(line)
        unknown += [(number, word) for word in strangers]
        if alone and head:
            everywhere |= codes
        elif alone:
            waiting |= codes
        elif bare:
            lines[number] = codes | waiting
            waiting = set()
    return Ignored(
        frozenset(everywhere),
        {number: frozenset(codes) for number, codes in lines.items() if codes},
        tuple(unknown),
    )


def _codes(line: str) -> tuple[set[str], list[str]]:
    found_comment = COMMENT.search(line)
    if not found_comment:
        return set(), []
    known: set[str] = set()
    strangers: list[str] = []
    for word in filter(None, WORD.split(found_comment[1].strip())):
        if word.upper() in codes():
            known.add(word.upper())
        elif CODE.fullmatch(word) or not (known or strangers):
            strangers.append(word)
        else:
            break  # words behind the codes say why
    return known, strangers


def unknown_findings(file: str, ignored: Ignored) -> Iterator[Finding]:
    """Codes in comments that do not exist (rule 2)."""
    for line, word in ignored.unknown:
        near = meant(word.upper(), tuple(codes()))
        fix = f"did you mean {near}?" if near else ""
        yield found("NW001", Place(file, line), f"there is no code {word}", fix=fix)
