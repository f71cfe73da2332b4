"""An admission while a log is read: what its lines have said so far.

A verdict is what a line shows; see rule 3 of ``admissions``.
"""

from datetime import datetime

from numawise.engine.failure import SMT_ALIGNMENT, TOPOLOGY_AFFINITY, UNEXPECTED
from numawise.engine.hint import NOWHERE, Family, Hint
from numawise.results.explanation import ADMITTED, REJECTED
from numawise.results.log import (
    UNFINISHED,
    LoggedAdmission,
    LoggedRound,
    Origin,
    PodRef,
    Shortage,
    Trouble,
)
from numawise.values import dataclass, field


@dataclass(slots=True)
class OpenRound:
    """Hints of one container, or of the pod, and what became of them, as lines come."""

    container: str | None
    hints: dict[str, Family | None] = field(default_factory=dict)
    own: dict[str, Family | None] = field(default_factory=dict)
    """As the providers report them; used where the Topology Manager's line is missing."""
    unsure: set[str] = field(default_factory=set)
    nearby: set[str] = field(default_factory=set)
    """Resources of which only a line that names no pod says how they answered."""
    shortages: dict[str, Shortage] = field(default_factory=dict)
    best: Hint | None = None
    answered: bool = False
    placed: bool = False
    cut: bool = False
    named: bool = False

    @property
    def preferred(self) -> bool:
        """The answer is as good as it gets."""
        return self.best is not None and self.best.preferred

    def value(self) -> LoggedRound:
        hints = {**{name: one for name, one in self.own.items() if name not in self.hints}, **self.hints}
        for name in self.unsure & hints.keys():
            # Neither line came; an answer that is preferred cannot hold a resource without a way.
            if hints[name] is NOWHERE and self.preferred:
                hints[name] = None
        unsure = frozenset((self.unsure | self.nearby) & hints.keys())
        return LoggedRound(
            self.container, hints, self.shortages, self.best, self.placed, self.cut, self.named, unsure
        )


@dataclass(slots=True)
class OpenAdmission:
    """An admission of which more may be heard."""

    origin: Origin
    pod: PodRef
    line: int
    last: int
    time: datetime | None
    announced: bool = False
    """The kubelet said that it begins, as it will for the next one, too."""
    rounds: list[OpenRound] = field(default_factory=list)
    pod_scope: bool = False
    allocating: bool = False
    shortages: dict[str, Shortage] = field(default_factory=dict)
    verdict: str = ""
    reason: str = ""
    message: str = ""
    accepted: bool = False
    """The Topology Manager has said yes; the sums come after it."""
    resize: bool = False
    heard: set[tuple[str, str]] = field(default_factory=set)
    """Who has reported a rejection."""
    troubles: list[Trouble] = field(default_factory=list)
    cpus: dict[str, str] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """True when lines say how it ended."""
        return bool(self.verdict or self.troubles)

    @property
    def passed(self) -> bool:
        """True when the Topology Manager let it pass, as far as lines show."""
        last = self.rounds[-1] if self.rounds else None
        return bool(last.placed if last is not None else self.allocating) or self.accepted

    @property
    def over(self) -> bool:
        """True when nothing that belongs to an admission can follow any more, but for words about it."""
        last = self.rounds[-1] if self.rounds else None
        refused = last is not None and last.answered and not last.placed and not last.preferred
        return refused or self.settled

    def value(self) -> LoggedAdmission:
        verdict, stated, likely = self._verdict()
        reason = self.reason
        if REJECTED in (verdict, likely) and not reason:
            reason = self._concluded_reason()
        return LoggedAdmission(
            self.pod,
            self.origin,
            self.time,
            self.line,
            self.last,
            tuple(one.value() for one in self.rounds),
            self.pod_scope,
            verdict,
            stated,
            likely,
            reason,
            self.message,
            tuple(dict.fromkeys(self.troubles)),
            dict(self.cpus),
            dict(self.devices),
            dict(self.wanted),
            self.resize,
        )

    def _verdict(self) -> tuple[str, bool, str]:
        """Verdict, whether a line says it, and which is likely where none does (rule 3)."""
        if self.verdict:
            return self.verdict, True, ""
        if self.troubles:
            named = any(trouble.named for trouble in self.troubles)
            return (REJECTED, False, "") if named else (UNFINISHED, False, REJECTED)
        return UNFINISHED, False, ADMITTED if self.passed else ""

    def _concluded_reason(self) -> str:
        if not self.troubles:
            return TOPOLOGY_AFFINITY
        return SMT_ALIGNMENT if self.troubles[-1].error.startswith("SMT Alignment") else UNEXPECTED
