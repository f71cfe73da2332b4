"""A cluster on one page: every node in a row of few numbers, sums of all, and pods that found no place."""

from collections.abc import Mapping

from numawise.results.cluster import PodShape
from numawise.results.machine_map import MapForm
from numawise.results.node_room import NodeRoom
from numawise.results.plain import computed
from numawise.values import dataclass

WAITING, GATED, REFUSED = "waiting", "gated", "refused"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node; the columns of ``free``, ``size``, ``left`` and ``whole`` are the resources of the board."""

    name: str
    known: str
    """``exact``, ``conservative``, ``stale``, ``unknown`` or ``given``, as ``numawise nodes`` has it."""
    policy: str
    """Of the Topology Manager, with ``/pod`` where that is its scope; '': not known."""
    numa: tuple[int, ...]
    """Its NUMA nodes."""
    free: tuple[tuple[int | None, ...], ...]
    """What is free on each of them: CPUs, bytes, devices; null: not given out by NUMA node."""
    size: tuple[tuple[int | None, ...], ...]
    """Likewise, what pods may get in all."""
    left: tuple[int | None, ...]
    """What is free by sums: CPUs in thousandths, memory in bytes, devices; null: not there."""
    whole: tuple[int | None, ...]
    """Likewise, what pods may get in all."""
    pods: int
    fits: str | None
    """The largest known shape that it would let in now; '': none; null: no shape, or nothing of it, known."""
    places: int
    """How many of these."""
    more: bool
    """Counting was ended there; it may be more."""
    largest: str
    """The largest known shape that it would let in if it were idle."""
    unit: str
    """What holes are counted in: a device resource, or ``cpu`` (thousandths)."""
    holes: int | None
    """How much of what is free is of no use to ``largest``; null: not known."""
    fragmented: float | None
    """The share of what is free that is of no use to ``largest``; null: not known, or nothing is free."""
    cordoned: bool
    ready: bool
    """False: it has the taint of a node whose kubelet is not ready, or not heard of."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResourceTotal:
    """One resource, on all nodes of the board together."""

    resource: str
    free: int
    """By sums: CPUs in thousandths, memory in bytes, everything else by number."""
    whole: int


@dataclass(frozen=True, slots=True)
class HolesTotal:
    """What is free on all nodes together and of no use to the largest shapes."""

    unit: str
    holes: int
    free: int

    @computed
    def fragmented(self) -> float | None:
        """The share of what is free that is of no use; null: nothing is free."""
        return round(self.holes / self.free, 4) if self.free else None


@dataclass(frozen=True, slots=True)
class KnownCount:
    """So many nodes are known in one way."""

    known: str
    count: int


@dataclass(frozen=True, slots=True)
class LabelValues:
    """A label that tells nodes apart."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoardSource:
    """Where the nodes of a board come from."""

    kind: str
    """``cluster``: an API server; ``files``; ``example``; ``none``: there is nothing to show."""
    name: str = ""
    read: str = ""
    """The time that it shows, in UTC; '': now."""
    id: str = ""
    """Names it in later calls; '': what the server was started with."""


@dataclass(frozen=True, slots=True)
class ClusterBoardForm:
    """All nodes, or those that changed since a version."""

    source: BoardSource
    version: str = ""
    """Of the rows; given back as ``since`` it asks for what is newer."""
    changed: bool = False
    """The rows are those alone that are newer than ``since``."""
    summary: str = ""
    """One sentence."""
    resources: tuple[str, ...] = ()
    """The columns of the rows."""
    names: tuple[str, ...] = ()
    """All nodes that were asked for, in order."""
    rows: tuple[NodeRow, ...] = ()
    shapes: tuple[PodShape, ...] = ()
    """Known shapes, the largest first: of pods that run and of pods that wait."""
    totals: tuple[ResourceTotal, ...] = ()
    holes: tuple[HolesTotal, ...] = ()
    known: tuple[KnownCount, ...] = ()
    labels: tuple[LabelValues, ...] = ()
    """Labels by which nodes can be chosen."""
    waiting: int = 0
    """Pods that wait for a node."""
    refused: int = 0
    """Pods that a kubelet refused."""
    remarks: tuple[str, ...] = ()
    """What could not be seen, a sentence each."""


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Nodes that would not let a pod in for the same reason."""

    text: str
    """``3 nodes: no NUMA node has 4 nvidia.com/gpu free``."""
    nodes: str
    """Which these are, in words."""


@dataclass(frozen=True, slots=True)
class StuckPod:
    """A pod that waits for a node, or that a kubelet refused."""

    namespace: str
    name: str
    uid: str
    state: str
    """``waiting``; ``gated``: a scheduling gate holds it back; ``refused``: by the kubelet of its node."""
    since: str
    """When it was made, in UTC; '': not known."""
    shape: str
    """What it asks for."""
    owner: str
    """Who recreates it, as ``StatefulSet db``."""
    node: str
    """Whose kubelet refused it; '': it has none yet."""
    sentence: str
    """What ``why`` says first; '': it was not looked at yet, see ``more``."""
    reasons: tuple[WhyNot, ...] = ()
    """Nodes that would not let it in, by the reason; the reason of most nodes first."""
    able: tuple[str, ...] = ()
    """The best nodes that would let it in now."""
    ask: str = ""
    """The node to ask about it: the best that would let it in, else one that lacks little; '': none."""
    words: str = ""
    """What the scheduler or the kubelet said, in its own words."""
    never: bool = False
    """No node could let it in, even if all were idle."""


@dataclass(frozen=True, slots=True)
class PodListForm:
    """Pods that wait or were refused, those that came first in front."""

    source: BoardSource
    waiting: int = 0
    refused: int = 0
    pods: tuple[StuckPod, ...] = ()
    left_out: int = 0
    """Pods beyond the limit, which are not listed."""
    more: bool = False
    """Some have no sentence yet: ask again."""


# --- one node ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod of a node."""

    namespace: str
    name: str
    uid: str
    shape: str
    """What it asks for; '': not known."""
    owner: str = ""
    since: str = ""
    """When it was bound or made, in UTC; '': not known."""
    runs: bool = True
    """False: it is bound, and its kubelet has not let it in yet, as far as that is seen."""
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class NodeDetailForm:
    """All that is known of one node."""

    source: BoardSource
    room: NodeRoom
    kubelet: str
    """The version of its kubelet; '': not known."""
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    pods: tuple[PodOnNode, ...]
    map: MapForm | None
    """The machine with who holds what; null: the node does not publish its state."""
    remarks: tuple[str, ...] = ()
    """What of the cluster could not be seen or may be old, a sentence each."""


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A file, as other calls take it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class NodeFilesForm:
    """A node in its state of now, and a pod, to be asked about elsewhere."""

    node: str
    files: tuple[NodeFile, ...]
    """Its NodeResourceTopology, from which a prediction is the kubelet's own answer."""
    pod: str
    """The manifest of the pod, as YAML; '': none was asked for."""


# --- what fits --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShapeRoom:
    """How many more pods of a shape would be let in now."""

    name: str
    """As it was given: a shape, the name of a pod, or what pods that run ask for."""
    shape: PodShape
    total: int
    more: bool
    """Counting was ended on some node; it may be more."""
    where: str
    """The first nodes with their numbers, in words; '-': none."""
    counts: tuple[int, ...]
    """How many on each node, in the order of ``nodes``."""
    sentence: str = ""
    """Of a shape that no node would let in: what ``why`` would say first."""
    reasons: tuple[WhyNot, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterRoomForm:
    """How many more pods would be let in, by shape; each shape alone, as if no other came."""

    source: BoardSource
    learned: bool = False
    """The shapes are those seen most often."""
    summary: str = ""
    nodes: tuple[str, ...] = ()
    shapes: tuple[ShapeRoom, ...] = ()
