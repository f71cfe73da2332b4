"""The choice of a node as values: what a placement would leave, and what came of a trace of pods.

Times are in seconds.
"""

from collections.abc import Mapping

from numawise.request.defaults import RawPod
from numawise.results.plain import computed, hidden
from numawise.values import dataclass, field

# --- one pod on one node ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class PodSize:
    """How large a pod is: devices first, then CPUs, then memory."""

    devices: int = 0
    milli_cpus: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class PodShape:
    """Pods that ask for the same."""

    name: str
    """``4 gpu, 88 cpu, 900Gi``."""
    size: PodSize = PodSize()
    resources: Mapping[str, int] = field(default_factory=dict)
    """CPUs in thousandths, memory in bytes, everything else by number."""


@dataclass(frozen=True, slots=True)
class LostPlaces:
    """Places for a larger shape that a node would no longer have."""

    shape: str
    before: int
    after: int

    @property
    def count(self) -> int:
        """How many."""
        return max(0, self.before - self.after)


@dataclass(frozen=True, slots=True)
class NodeRating:
    """What letting a pod in would mean for a node."""

    aligned: bool | None
    """Nothing that the kubelet's managers would give it lies apart from the rest; None: not known."""
    numa: int
    """NUMA nodes, packed, that it would have something on."""
    lost: tuple[LostPlaces, ...] = ()
    """Larger shapes, the largest first, also those of which nothing is lost."""
    left: tuple[int, int] = (0, 0)
    """Devices of the kinds it asks for, and CPUs, that stay free on these NUMA nodes."""
    link_points: int = 0
    """Of the links between its GPUs; more is better."""

    @property
    def rank(self) -> tuple[object, ...]:
        """Sort key, best first."""
        return (
            self.aligned is False,
            self.aligned is None,
            self.numa.bit_count(),
            tuple(places.count for places in self.lost),
            self.left,
            -self.link_points,
        )


# --- a trace of pods --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod of a trace."""

    at: float
    """Seconds since the beginning."""
    seconds: float
    """How long it runs."""
    pod: RawPod


LEAST, MOST, ASKED, OURS, POOL = "least-allocated", "most-allocated", "asked", "numawise", "pool"
NODE_CHOICES = (LEAST, MOST, ASKED, OURS, POOL)


@dataclass(frozen=True, slots=True)
class ShapeWaits:
    """What became of all pods of one shape."""

    shape: PodShape
    pods: int
    """How many came."""
    refusals: int
    """How often a kubelet refused one."""
    aligned: int | None
    """How many were given everything that the kubelet's managers give in one place; null: nobody decided."""
    waits: tuple[float, ...] = hidden(())
    """Seconds from arrival to start, of those that started, sorted."""

    @computed
    def started(self) -> int:
        """How many started."""
        return len(self.waits)

    @computed
    def median(self) -> float:
        """Of the waiting time."""
        return _rounded(self.quantile(0.5))

    @computed
    def mean(self) -> float:
        """Of the waiting time."""
        return _rounded(sum(self.waits) / len(self.waits)) if self.waits else 0.0

    @computed
    def p95(self) -> float:
        """The longest of the shortest 95 %."""
        return _rounded(self.quantile(0.95))

    @computed
    def longest(self) -> float:
        """Of the waiting time."""
        return _rounded(self.waits[-1]) if self.waits else 0.0

    def quantile(self, share: float) -> float:
        """The smallest time that so many did not exceed."""
        if not self.waits:
            return 0.0
        return self.waits[max(0, -int(-share * len(self.waits) // 1) - 1)]


def _rounded(seconds: float) -> float:
    return round(seconds, 1)


@dataclass(frozen=True, slots=True)
class FreeMoment:
    """What was free at one time."""

    at: float
    free: int
    """Devices, or thousandths of CPUs, that nobody had."""
    usable: int
    """Of these, what pods of the largest shape so far could be given; never more than is free."""
    waiting: int
    """Pods that waited."""


@dataclass(frozen=True, slots=True)
class ChoiceRun:
    """What came of a trace under one choice of node."""

    choice: str
    shapes: tuple[ShapeWaits, ...]
    """The largest first."""
    never: int
    """Pods that never started."""
    moments: tuple[FreeMoment, ...] = ()

    @computed
    def refusals(self) -> int:
        """How often a kubelet refused a pod."""
        return sum(shape.refusals for shape in self.shapes)

    @computed
    def mean_wait(self) -> float:
        """Of all pods."""
        waits = [wait for shape in self.shapes for wait in shape.waits]
        return _rounded(sum(waits) / len(waits)) if waits else 0.0

    @computed
    def aligned_share(self) -> float | None:
        """Of all pods that started; null: nobody decided."""
        started = sum(shape.started for shape in self.shapes)
        known = [shape.aligned for shape in self.shapes if shape.aligned is not None]
        return round(sum(known) / started, 4) if known and started else None

    @computed
    def fragmented(self) -> float | None:
        """Mean over time of the share of what is free that the largest shape cannot be given."""
        weighed = total = 0.0
        for moment, later in zip(self.moments, self.moments[1:], strict=False):
            if moment.free:
                weighed += (later.at - moment.at) * (1 - moment.usable / moment.free)
                total += later.at - moment.at
        return round(weighed / total, 4) if total else None


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """A trace under several choices, side by side."""

    nodes: int
    pods: int
    seconds: float
    """From the first arrival to the last."""
    retry: float
    """Seconds after which a refused pod is made anew."""
    patience: float
    """Seconds after which a place is kept for a pod that waits."""
    unit: str
    """What ``free`` and ``usable`` count: a device resource, or ``cpu``."""
    choices: tuple[ChoiceRun, ...] = ()
    interrupted: bool = False


# --- how many more would be let in ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodePlaces:
    """How many pods of a shape one node would let in now."""

    node: str
    count: int
    more: bool = False
    """Counting was ended there; it may be more."""
    reason: str = ""
    """Why there is no further one."""


@dataclass(frozen=True, slots=True)
class ShapePlaces:
    """How many pods of one shape would be let in now."""

    name: str
    """As it was given: the name of a pod, or what pods that run ask for."""
    shape: PodShape
    nodes: tuple[NodePlaces, ...]

    @computed
    def total(self) -> int:
        """On all nodes together."""
        return sum(node.count for node in self.nodes)


@dataclass(frozen=True, slots=True)
class PlacesReport:
    """How many more pods would be let in, by shape and node; each shape alone, as if no other came."""

    learned: bool
    """The shapes are those of pods that run there."""
    shapes: tuple[ShapePlaces, ...]
