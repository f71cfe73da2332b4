"""Comparisons as values: pods under two configurations, two releases side by side, an upgrade."""

from numawise.results.simulation import ScenarioRun, Simulated
from numawise.rules.versions import Version
from numawise.values import dataclass

# --- two configurations -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodPair:
    """One pod under both configurations; None: the kubelet was gone by then."""

    uid: str
    name: str
    first: Simulated | None
    second: Simulated | None
    differs: bool
    """Its verdict, or anything a container has of its own, is otherwise."""


@dataclass(frozen=True, slots=True)
class ConfigComparison:
    """The same scenario under two configurations."""

    names: tuple[str, str]
    runs: tuple[ScenarioRun, ScenarioRun]
    pods: tuple[PodPair, ...]

    @property
    def differing(self) -> int:
        """How many pods differ."""
        return sum(pod.differs for pod in self.pods)

    @property
    def same(self) -> bool:
        """The two configurations make no difference."""
        first, second = self.runs
        counts = [[filled.count for filled in run.fills] for run in self.runs]
        return (
            not self.differing
            and counts[0] == counts[1]
            and first.lost == second.lost
            and first.ended == second.ended
        )


# --- two releases -----------------------------------------------------------------------------

REFUSED, ADMITTED, CRASHED = "refused", "admitted", "crashed"
CPUS, MEMORY, DEVICES, START_ERROR = "cpus", "memory", "devices", "start-error"
RESERVED, STOPPED, STARTED, FORGOTTEN = "reserved-cpus", "does-not-start", "starts-again", "forgotten-file"
AFFINITY, WORDS, HINTS = "affinity", "words", "hints"
MINOR = frozenset({AFFINITY, WORDS, HINTS})
"""Changes that no grant depends on."""


@dataclass(frozen=True, slots=True)
class Reason:
    """What a change depends on."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """Something that is otherwise in the newer release."""

    kind: str
    before: str
    after: str
    pod: str = ""
    """Namespace and name; '' for the kubelet as a whole."""
    uid: str = ""
    reasons: tuple[Reason, ...] = ()

    @property
    def minor(self) -> bool:
        """True when no pod gets anything else."""
        return self.kind in MINOR


@dataclass(frozen=True, slots=True)
class UpgradeEffect:
    """Something about the configuration, a state file or a running pod."""

    kind: str
    name: str
    """The gate, field, file or pod."""
    text: str
    stops: bool = False
    """The newer kubelet does not start because of it, and the older one did."""
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """What an upgrade changes."""

    old: Version
    new: Version
    pods: int
    findings: tuple[UpgradeEffect, ...] = ()
    changes: tuple[ReleaseChange, ...] = ()

    @property
    def matters(self) -> bool:
        """True when something stops the kubelet, or a pod gets something else."""
        return any(one.stops for one in self.findings) or any(not one.minor for one in self.changes)
