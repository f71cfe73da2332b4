"""The kubelet's command-line flags: names, kinds, the field of the configuration that each sets, releases.

The table is ``data/flags.txt``.  Kinds:

``text`` · ``truth`` (needs no value) · ``int32`` · ``int64`` · ``duration`` · ``list`` (a,b) ·
``pairs`` (k=v,k=v) · ``pair`` (one k=v each time) · ``angles`` (k<v) · ``gates`` (k=true) ·
``memory`` (0:memory=1Gi) · ``other`` (a value that is taken as it is).
"""

from functools import cache

from numawise.datafile import data_lines
from numawise.rules.versions import NEWEST, OLDEST, Version
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class FlagKind:
    """A flag as one release knows it."""

    name: str
    kind: str
    field: tuple[str, ...]
    """The field it sets, step by step; none: it is not part of the configuration."""


@cache
def known_flags(version: Version) -> dict[str, FlagKind]:
    """The flags of a release, by name."""
    return {flag.name: flag for flag, since, until in _rows() if since <= version <= until}


def flag_span(name: str) -> tuple[Version, Version] | None:
    """The first and the last release that has a flag; None when no known one has."""
    spans = [(since, until) for flag, since, until in _rows() if flag.name == name]
    if not spans:
        return None
    return min(since for since, _ in spans), min(NEWEST, max(until for _, until in spans))


@cache
def _rows() -> tuple[tuple[FlagKind, Version, Version], ...]:
    rows = []
    for line in data_lines(__file__, "flags.txt"):
        name, kind, field, *span = line.split()
        since, until = (*map(int, span), *(OLDEST[1], NEWEST[1])[len(span) :])
        steps = () if field == "-" else tuple(field.split("."))
        rows.append((FlagKind(name, kind, steps), (1, since), (1, until)))
    return tuple(rows)
