"""What a kubelet's log says, as values: of a line, of an admission, of the kubelets that wrote it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from numawise.engine.hint import Family, Hint
from numawise.results.explanation import REJECTED, Explanation
from numawise.rules.versions import ENDLESS, EVER, Version, shown
from numawise.values import dataclass, field

ADMIT_STARTED = "admit_start"
HINTS = "hints"
"""What one provider answered, as the Topology Manager heard it."""
PROVIDER_HINTS = "provider_hints"
"""The same, as the provider itself reports it."""
NO_PREFERENCE = "no_preference"
IMPOSSIBLE = "impossible"
SHORT = "short"
"""Too few devices for any hint: how many are asked for, how many are there."""
MERGED = "merged_hint"
BEST = "best_hint"
AFFINITY = "affinity"
"""The best hint was accepted and stored."""
RESULT = "result"
"""The Topology Manager's answer; an empty message is a yes."""
DENIED = "denied"
"""The kubelet turns the pod away, with reason and message."""
EVENT_REJECTED = "rejected"
"""The same, as an event of the pod."""
STATUS = "status"
"""The same, as the pod's status; or the older words of a later check."""
ALLOCATING = "allocating"
CPUS_WANTED = "cpus_wanted"
FAILED = "failed"
"""An allocation failed, with the error."""
CPUS = "cpus"
"""Which CPUs a container was given."""
DEVICES = "devices"
WANTED = "wanted"
"""How much of a resource a container asks for."""
POLICY = "policy"
RELEASE = "release"
MACHINE = "machine"
"""Which NUMA nodes there are."""
CAME = "came"
"""A pod was sent to the kubelet."""
RECREATED = "recreated"
RUNNING = "running"
"""What only a pod that was admitted comes to."""
START_FAILED = "start_failed"
"""A kubelet ends, or a manager of it, before it has started; ``provider`` is the stage of the line."""
LAST_WORDS = "last words"
"""The ``text`` of such an event after which the process is gone."""

YEARLESS = 1904
"""Stands for an unknown year; it has a 29 February."""
HALF_A_YEAR = timedelta(days=183)


@dataclass(frozen=True, slots=True)
class Origin:
    """Which kubelet wrote a line: the node, where that is known, and its process."""

    host: str = ""
    pid: int = 0
    boot: int = 0
    """How often a process of this number began before it, where the log shows that."""


@dataclass(frozen=True, slots=True)
class PodRef:
    """What a line says of a pod's identity; parts that it does not give are empty."""

    name: str = ""
    namespace: str = ""
    uid: str = ""

    def __bool__(self) -> bool:
        return bool(self.name or self.uid)

    @property
    def shown(self) -> str:
        """``namespace/name`` as far as it is known."""
        return f"{self.namespace}/{self.name}" if self.namespace and self.name else self.name or self.uid

    def contradicts(self, other: "PodRef") -> bool:
        """True when the two cannot be the same pod."""
        return bool(
            (self.name != other.name and self.name and other.name)
            or (self.uid != other.uid and self.uid and other.uid)
            or (self.namespace != other.namespace and self.namespace and other.namespace)
        )

    def matches(self, other: "PodRef") -> bool:
        """True when both have the same name or the same uid, and nothing contradicts it."""
        if self.contradicts(other):
            return False
        return bool((self.name and other.name) or (self.uid and other.uid))

    def with_(self, other: "PodRef") -> "PodRef":
        """What both say together."""
        return PodRef(self.name or other.name, self.namespace or other.namespace, self.uid or other.uid)


NOBODY, NOWHERE_TOLD = PodRef(), Origin()
ANY_RELEASE = (EVER, ENDLESS)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a line says; fields that its kind does not have stay empty."""

    kind: str
    line: int = 0
    origin: Origin = NOWHERE_TOLD
    time: datetime | None = None
    structured: bool = True
    """False: plain text of 1.20 and before."""
    pod: PodRef = NOBODY
    container: str | None = None
    """None: for the pod as a whole, or not known."""
    hints: Mapping[str, Family | None] = field(default_factory=dict)
    """By resource; None: no preference."""
    unsure: frozenset[str] = frozenset()
    """Resources without hints, where the line does not say whether they had no preference or no way."""
    hint: Hint | None = None
    provider: str = ""
    resource: str = ""
    asked: int | None = None
    available: int | None = None
    reason: str = ""
    message: str = ""
    text: str = ""
    """CPUs, devices, policy, release."""
    scope: str = ""
    numas: int = 0
    pods: tuple[PodRef, ...] = ()
    cut: bool = False
    """The line ends before its time."""
    resize: bool = False
    """It is about another size for a pod that runs (1.36 and later say so)."""
    releases: tuple[Version, Version] = ANY_RELEASE
    """First and last release that word it so."""


def between(first: datetime, last: datetime) -> timedelta:
    """Time from one line to a later one; a yearless log may run over New Year's Eve."""
    passed = last - first
    if passed < -HALF_A_YEAR and first.year == last.year == YEARLESS:
        passed += timedelta(days=366)
    return passed


def seconds_between(first: datetime | None, last: datetime | None) -> float | None:
    """Seconds from one to the other; None where one is not known."""
    if first is None or last is None:
        return None
    return max(0.0, between(first, last).total_seconds())


def stamp_text(time: datetime) -> str:
    """``2024-08-15 22:24:53``, or ``Aug 15 22:24:53`` where the year is not known."""
    if time.year == YEARLESS:
        return f"{MONTHS[time.month - 1]} {time.day} {time:%H:%M:%S}"
    return f"{time:%Y-%m-%d %H:%M:%S}"


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


# --------------------------------------------------------------------------------------------------
# What a kubelet's log says of admissions, as values and as plain data.
#
# Rules kept here:
#
# 1. An admission is what the log says of it; what is concluded and not logged is marked as such.
# 2. Rejections of one owner are one finding with a count, the last of them in full.


KIND = "KubeletLog"
UNFINISHED = "unfinished"
"""The log does not say how it ended."""

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a resource has no hints at all."""

    asked: int | None
    available: int | None
    held: bool = False
    """So many are held already, and another number is asked for."""


@dataclass(frozen=True, slots=True)
class LoggedRound:
    """One merge, as far as the log shows it."""

    container: str | None = None
    """None: for the pod as a whole."""
    hints: Mapping[str, Family | None] = field(default_factory=dict)
    shortages: Mapping[str, Shortage] = field(default_factory=dict)
    best: Hint | None = None
    placed: bool = False
    """The answer was accepted."""
    cut: bool = False
    """A line of it is cut off, so hints may be missing."""
    named: bool = False
    """A line that names the pod has the answer; else it is that of a line nearby."""
    open: frozenset[str] = frozenset()
    """Resources of which the log does not show whether they had no preference or no way."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An allocation that failed, in the words of its manager."""

    provider: str
    error: str
    container: str = ""
    named: bool = False
    """The line names the pod."""


@dataclass(frozen=True, slots=True)
class LoggedAdmission:
    """One admission."""

    pod: PodRef = NOBODY
    origin: Origin = NOWHERE_TOLD
    start: datetime | None = None
    first_line: int = 0
    last_line: int = 0
    rounds: tuple[LoggedRound, ...] = ()
    pod_scope: bool = False
    verdict: str = UNFINISHED
    stated: bool = False
    """The log says so; else it is concluded."""
    likely: str = ""
    """The verdict that is probable, where lines that would show it are not in the log."""
    reason: str = ""
    message: str = ""
    troubles: tuple[Trouble, ...] = ()
    cpus: Mapping[str, str] = field(default_factory=dict)
    """By container."""
    devices: Mapping[str, str] = field(default_factory=dict)
    """By resource."""
    wanted: Mapping[str, int] = field(default_factory=dict)
    """How much of each resource was asked for, where it is known."""
    resize: bool = False
    """The pod runs, and asks for another size."""

    @property
    def rejected(self) -> bool:
        """True when the pod was turned away."""
        return self.verdict == REJECTED

    @property
    def decisive(self) -> LoggedRound | None:
        """The merge that explains most: of a refusal the last, else the first that was not preferred."""
        if REJECTED not in (self.verdict, self.likely):
            for one in self.rounds:
                if one.best is not None and not one.best.preferred:
                    return one
        return self.rounds[-1] if self.rounds else None


@dataclass(frozen=True, slots=True)
class Kubelet:
    """What the log says of a kubelet itself."""

    origin: Origin = NOWHERE_TOLD
    policy: str = ""
    """'' when it is open."""
    policies: tuple[str, ...] = ()
    """Those that could have answered as it did."""
    policy_stated: bool = False
    scope: str = ""
    release: str = ""
    """As it says it."""
    releases: tuple[Version, Version] = ANY_RELEASE
    """Those that word their lines so."""
    numas: int = 0
    closest: bool = False
    """``prefer-closest-numa-nodes`` is on."""
    stores: bool = False
    """Lines about accepted answers were not filtered out of its log: one is there."""

    @property
    def releases_text(self) -> str:
        """``1.28 to 1.30``; '' when nothing is known."""
        since, until = self.releases
        if since == EVER and until == ENDLESS:
            return ""
        if since == until:
            return shown(since)
        if until == ENDLESS:
            return f"{shown(since)} or later"
        return f"{shown(until)} or before" if since == EVER else f"{shown(since)} to {shown(until)}"


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often this happened, and to whom."""

    owner: str = ""
    kind: str = ""
    """``StatefulSet``, ``ReplicaSet`` …, by the pod's name; '' when it shows none."""
    count: int = 1
    recreated: int = 0
    first: datetime | None = None
    last: datetime | None = None
    pods: tuple[str, ...] = ()
    """The last of the names."""
    names: int = 1
    """How many different names there were."""
    changes: int = 0
    """How often hints or reason were others than the time before."""

    @property
    def seconds(self) -> float | None:
        """From the first to the last."""
        return seconds_between(self.first, self.last)


@dataclass(frozen=True, slots=True)
class ExplainedAdmission:
    """An admission, or many alike, explained."""

    admission: LoggedAdmission
    kubelet: Kubelet
    explanation: Explanation
    repeats: Repeats = Repeats()


@dataclass(frozen=True, slots=True)
class StartFailure:
    """A kubelet that did not start, once or again and again for the same reason."""

    origin: Origin
    """The last that failed so."""
    stage: str
    """'' where its words belong to none that is known."""
    message: str
    """The kubelet's own words, without those around them."""
    code: str = ""
    """The finding of ``check`` that this is; '' for none."""
    count: int = 1
    first: datetime | None = None
    last: datetime | None = None
    first_line: int = 0
    last_line: int = 0
    started_later: int = 0
    """A line of a kubelet of this node that was up after the last failure; 0: there is none."""

    @property
    def seconds(self) -> float | None:
        """From the first to the last."""
        return seconds_between(self.first, self.last)


@dataclass(frozen=True, slots=True)
class ExplainedStart:
    """A start that failed, explained."""

    failure: StartFailure
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class LogReading:
    """What was read."""

    files: tuple[str, ...] = ()
    size: int = 0
    lines: int = 0
    known: int = 0
    """Lines of a kubelet."""
    cut: int = 0
    first: datetime | None = None
    last: datetime | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def skipped(self) -> int:
        """Lines that are none of a kubelet."""
        return max(0, self.lines - self.known)


@dataclass(frozen=True, slots=True)
class LogReport:
    """Everything that a log says."""

    reading: LogReading
    findings: tuple[ExplainedAdmission, ...] = ()
    admitted: int = 0
    rejected: int = 0
    unfinished: int = 0
    left_out: int = 0
    """Rejections of owners beyond those that are kept apart."""
    kubelets: tuple[Kubelet, ...] = ()
    others: tuple[str, ...] = ()
    """Pods that were not asked about, where nothing else was found."""
    early: int = 0
    """Admissions before the time that was asked for."""
    starts: tuple[ExplainedStart, ...] = ()
    """Kubelets that did not start."""
    resizes: int = 0
    """New sizes that running pods were refused."""
    starts_left_out: int = 0
    """Starts that failed for reasons beyond those that are kept apart."""

    @property
    def refused(self) -> bool:
        """True when a kubelet did not start, a pod was or probably was turned away, or a resize refused."""
        likely = any(one.admission.likely == REJECTED for one in self.findings)
        return bool(self.starts or self.rejected or self.resizes or likely)
