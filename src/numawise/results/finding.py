"""A finding: what is wrong, where, why that matters and what to do; the one form for all commands.

Rules kept here:

1. A code never changes its meaning.  Codes ``NW…`` are described in ``data/codes.toml``; findings about jobs
   and hosts have words for codes, such as ``memory-remote``.
2. A finding may be milder than its code (``severity``), never graver.
3. ``message`` is about this case; where the kubelet or the API server refuses, it is what they say, to the
   letter, or ``kubelet`` is, and ``stage`` says when.
4. Findings are equal when they say the same about the same place; the same one is reported once.
5. ``fix`` says in words what to do; ``corrections`` do it, where a change of the file does.
"""

import tomllib
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from types import MappingProxyType

from numawise.results.correction import Correction
from numawise.results.plain import computed, hidden, optional
from numawise.values import dataclass

REGISTRY = Path(__file__).parent / "data" / "codes.toml"


class Severity(Enum):
    """How much a finding matters."""

    ERROR = "error"
    """The kubelet does not start, a pod never runs, or two pods have the same thing."""
    WARNING = "warning"
    """It works, and will cause trouble."""
    INFO = "info"
    """Good to know."""


RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Code:
    """What a code stands for: the page about it, as data."""

    title: str
    severity: Severity
    why: str
    """One sentence: what comes of it."""
    fix: str
    """One sentence: what to do."""
    about: str
    """One paragraph: how it comes about, and what is behind it."""


@dataclass(frozen=True, slots=True)
class FindingCode:
    """One code of the registry (``check --explain``)."""

    code: str
    title: str
    severity: Severity
    why: str
    fix: str
    about: str


@cache
def codes() -> Mapping[str, Code]:
    """The registry, in the order of the numbers."""
    tables = tomllib.loads(REGISTRY.read_text(encoding="utf-8"))
    return MappingProxyType({
        name: Code(**{**table, "severity": Severity(table["severity"])}) for name, table in tables.items()
    })  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands."""

    file: str = ""
    line: int | None = None
    field: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, or one thing that is good to know."""

    code: str
    severity: Severity
    message: str
    """What is wrong here."""
    file: str = optional("")
    line: int | None = optional(None)
    field: str = optional("")
    why: str = ""
    """What comes of it."""
    fix: str = ""
    """What to do."""
    kubelet: str = optional("")
    """The kubelet's own words, where the message has others."""
    stage: str = optional("")
    """At which stage of its start the kubelet refuses; '' when it does not."""
    manifest: str = optional("")
    """An object to paste, as YAML."""
    corrections: tuple[Correction, ...] = optional(())
    """Changes of the file that mend it; the first is the one to recommend."""

    @property
    def certain(self) -> Correction | None:
        """The correction that can only be meant so; None: somebody has to decide."""
        first = next(iter(self.corrections), None)
        return first if first is not None and first.certain else None

    @computed
    def title(self) -> str:
        """What the code stands for; '' for codes that are words."""
        known = codes().get(self.code)
        return known.title if known else ""


@dataclass(frozen=True, slots=True)
class LookedAt:
    """How much was checked."""

    kubelets: int = 0
    """Kubelet configurations."""
    machines: int = 0
    state_files: int = 0
    pods: int = 0
    """Pods and pod templates."""
    device_plugins: int = 0
    """Configurations of device plugins."""

    @property
    def nothing(self) -> bool:
        """True when no check had anything to look at."""
        return not (self.kubelets or self.machines or self.state_files or self.pods or self.device_plugins)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found, and what was left out."""

    findings: tuple[Finding, ...]
    ignored: int = 0
    """Findings that comments or options asked to leave out."""
    looked_at: LookedAt = LookedAt()
    """What was checked."""
    files: tuple[str, ...] = hidden(())
    """Files that were read."""
    remarks: tuple[str, ...] = hidden(())
    """What was left out or assumed while reading."""

    @computed
    def errors(self) -> int:
        """How many errors there are."""
        return count(self.findings, Severity.ERROR)

    @computed
    def warnings(self) -> int:
        """How many warnings there are."""
        return count(self.findings, Severity.WARNING)

    @computed
    def notes(self) -> int:
        """How many findings are good to know, and no more."""
        return count(self.findings, Severity.INFO)

    def failed(self, *, strict: bool = False) -> bool:
        """True when something is wrong; ``strict``: warnings count as well."""
        return bool(self.errors or (strict and self.warnings))


def count(findings: Iterable[Finding], severity: Severity) -> int:
    """How many findings have a severity."""
    return sum(finding.severity is severity for finding in findings)


def found(
    code: str,
    place: Place,
    message: str,
    *,
    why: str = "",
    fix: str = "",
    severity: Severity | None = None,
    kubelet: str = "",
    stage: str = "",
    manifest: str = "",
    corrections: Iterable[Correction | None] = (),
) -> Finding:
    """A finding of a code, with the code's own severity and words where nothing else is said."""
    known = codes()[code]
    return Finding(
        code=code,
        severity=severity or known.severity,
        message=message,
        file=place.file,
        line=place.line,
        field=place.field,
        why=why or known.why,
        fix=fix or known.fix,
        kubelet=kubelet,
        stage=stage,
        manifest=manifest,
        corrections=tuple(one for one in corrections if one is not None),
    )


def ordered(findings: Iterable[Finding], order: Iterable[str] = ()) -> tuple[Finding, ...]:
    """Without repeats; the gravest first; then by file, in the given order or as they come, and by line."""
    different = tuple(dict.fromkeys(findings))
    names = dict.fromkeys([*order, *(finding.file for finding in different)])
    files = {name: at for at, name in enumerate(names)}

    def key(finding: Finding) -> tuple[int, int, int, str]:
        return RANK[finding.severity], files[finding.file], finding.line or 0, finding.code

    return tuple(sorted(different, key=key))
