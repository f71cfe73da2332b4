"""A finding: what is wrong, where, why that matters and what to do; the value that everything here makes.

Rules kept here:

1. A code never changes its meaning.  A finding may be milder than its code (``severity``), never graver.
2. ``message`` is about this case; where the kubelet or the API server would refuse, it is what they say, to
   the letter, and ``stage`` tells when.
3. Findings are equal when they say the same about the same place; the same one is told once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from numawise.results.codes import CODES


class Severity(Enum):
    """How much a finding matters."""

    ERROR = "error"
    """The kubelet does not start, or the pod never runs."""
    WARNING = "warning"
    """It works, and will hurt."""
    INFO = "info"
    """Good to know."""


RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands."""

    file: str = ""
    line: int | None = None
    field: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found."""

    code: str
    severity: Severity
    file: str
    line: int | None
    field: str
    message: str
    why: str = ""
    fix: str = ""
    stage: str = ""
    """At which stage of its start the kubelet refuses; '' when it does not."""

    @property
    def title(self) -> str:
        """What the code stands for."""
        return CODES[self.code].title


def found(
    code: str,
    place: Place,
    message: str,
    *,
    why: str = "",
    fix: str = "",
    severity: Severity | None = None,
    stage: str = "",
) -> Finding:
    """A finding of a code, with the code's own severity and words where nothing else is said."""
    told = CODES[code]
    return Finding(
        code=code,
        severity=severity or Severity(told.severity),
        file=place.file,
        line=place.line,
        field=place.field,
        message=message,
        why=why or told.why,
        fix=fix or told.fix,
        stage=stage,
    )


def ordered(findings: Iterable[Finding], order: Iterable[str] = ()) -> tuple[Finding, ...]:
    """Without repeats; by file, in the given order or as they come; then by line, the gravest first."""
    different = tuple(dict.fromkeys(findings))
    names = dict.fromkeys([*order, *(one.file for one in different)])
    files = {name: at for at, name in enumerate(names)}

    def key(one: Finding) -> tuple[int, int, int, str]:
        return files[one.file], one.line or 0, RANK[one.severity], one.code

    return tuple(sorted(different, key=key))
