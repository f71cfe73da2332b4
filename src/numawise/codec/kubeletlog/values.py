"""What a line of a kubelet's log says, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from numawise.engine.hint import Family, Hint
from numawise.rules.versions import ENDLESS, EVER, Version

ADMIT_STARTED = "admit_start"
HINTS = "hints"
"""What one provider answered, as the Topology Manager heard it."""
PROVIDER_HINTS = "provider_hints"
"""The same, as the provider itself tells it."""
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
REJECTED = "rejected"
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

YEARLESS = 1904
"""Stands for a year that nobody told; it has a 29 February."""
HALF_A_YEAR = timedelta(days=183)


@dataclass(frozen=True, slots=True)
class Origin:
    """Which kubelet wrote a line: the node, where that is told, and its process."""

    host: str = ""
    pid: int = 0


@dataclass(frozen=True, slots=True)
class PodRef:
    """What a line tells of a pod's identity; parts that it does not tell are empty."""

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
        """True when both tell the same name or the same uid, and nothing speaks against it."""
        if self.contradicts(other):
            return False
        return bool((self.name and other.name) or (self.uid and other.uid))

    def with_(self, other: "PodRef") -> "PodRef":
        """What both tell together."""
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
    """None: for the pod as a whole, or not told."""
    hints: Mapping[str, Family | None] = field(default_factory=dict)
    """By resource; None: no wish."""
    unsure: frozenset[str] = frozenset()
    """Resources without hints of which the line does not tell whether that is no wish or no way."""
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
    releases: tuple[Version, Version] = ANY_RELEASE
    """First and last release that word it so."""


def between(first: datetime, last: datetime) -> timedelta:
    """Time from one line to a later one; a yearless log may run over New Year's Eve."""
    passed = last - first
    if passed < -HALF_A_YEAR and first.year == last.year == YEARLESS:
        passed += timedelta(days=366)
    return passed


def stamp_text(time: datetime) -> str:
    """``2024-08-15 22:24:53``, or ``Aug 15 22:24:53`` where the year is not told."""
    if time.year == YEARLESS:
        return f"{MONTHS[time.month - 1]} {time.day} {time:%H:%M:%S}"
    return f"{time:%Y-%m-%d %H:%M:%S}"


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
