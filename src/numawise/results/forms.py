"""The forms of documents that commands build as plain data; ``schema`` makes their JSON Schemas.

An underscore at the end of a name is left away: ``from_`` is ``from``.  CPUs, and NUMA nodes in texts, are
lists as the kernel writes them, such as ``0-3,8``; sizes are bytes.
"""

from typing import Any, Literal, NotRequired, TypedDict

Verdict = Literal["admitted", "rejected", "crashed"]


# --- decisions ------------------------------------------------------------------------------


class Hint(TypedDict):
    """NUMA nodes that a resource, or all of them, can be served from."""

    numa: list[int] | None
    """None: any."""
    preferred: bool


class Outcome(Hint):
    """The hint that a merge came to."""

    admit: bool


class ManyHints(TypedDict):
    """A list of hints that is too long to be shown."""

    count: NotRequired[int]
    preferred: NotRequired[int]
    sha256: NotRequired[str]
    first: NotRequired[list[tuple[list[int], bool]]]
    count_at_most: NotRequired[int]
    narrowest: NotRequired[int]


class Candidate(TypedDict):
    """One hint that a merge compared."""

    numa: list[int]
    kept: bool
    preferred: bool
    why: str
    resources: NotRequired[list[str]]


class Round(TypedDict):
    """One merge of hints."""

    pod: NotRequired[bool]
    """For the pod as a whole."""
    container: NotRequired[str]
    hints: dict[str, dict[str, list[tuple[list[int], bool]] | ManyHints | None] | None]
    """Manager → resource → hints; None: any NUMA node will do."""
    merged: Outcome | None
    decided_by: NotRequired[list[str]]
    candidates: NotRequired[list[Candidate]]


class Block(TypedDict):
    """A block of memory."""

    numa: str
    type: str
    size: int


class Memory(TypedDict):
    """Memory that a container received."""

    numa: str
    blocks: list[Block]


class Container(TypedDict):
    """What one container received; of a refused pod, the affinity that was judged."""

    name: str
    verdict: Verdict
    cpus: NotRequired[str]
    exclusive: NotRequired[bool]
    memory: NotRequired[Memory]
    devices: NotRequired[dict[str, list[str]]]
    affinity: Hint | None
    start_error: NotRequired[str]


class Failed(TypedDict):
    """The allocation that failed."""

    container: str
    provider: str
    error: str


class Defect(TypedDict):
    """A known defect of the kubelet, or a choice left to chance."""

    code: str
    text: str


class SimulatedPod(TypedDict):
    """What became of one pod."""

    name: str
    namespace: str
    uid: str
    qos: str
    verdict: Verdict
    reason: NotRequired[str]
    message: NotRequired[str]
    containers: list[Container]
    failed: NotRequired[Failed]
    rounds: list[Round]
    findings: list[Defect]
    step: NotRequired[int]


# --- simulate -------------------------------------------------------------------------------


class NumaCount(TypedDict):
    """Copies of a pod on the same NUMA nodes."""

    numa: list[int]
    count: int


class Stopped(TypedDict):
    """Why no more copies fit."""

    by: str
    reason: str | None
    message: str | None
    why: str | None


class Copy(TypedDict):
    """One copy of the pod that filled the node."""

    name: str
    containers: list[dict[str, Any]]


class Filled(TypedDict):
    """How many more copies of a pod fit, and where."""

    pod: str
    count: int
    places: list[NumaCount]
    stopped: Stopped
    copies: list[Copy]


class StepPod(TypedDict):
    """A pod that a step named."""

    pod: str
    done: bool


class Refusal(TypedDict):
    """The kubelet did not start."""

    stage: str
    message: str


class Pushed(TypedDict):
    """CPUs that were pushed to a running container."""

    pod: str
    container: str
    cpus: str


class StartedPod(TypedDict):
    """A pod whose containers started."""

    uid: str
    containers: list[dict[str, Any]]


class Step(TypedDict):
    """One step of a scenario."""

    step: int
    at: str | float | None
    op: str
    pods: NotRequired[list[str] | list[StepPod]]
    config: NotRequired[str | None]
    error: NotRequired[Refusal | None]
    readmitted: NotRequired[list[SimulatedPod]]
    started: NotRequired[list[StartedPod]]
    resource: NotRequired[str]
    changes: NotRequired[dict[str, str | list[str]]]
    pushed: NotRequired[list[Pushed]]
    count: NotRequired[int]


class Simulation(TypedDict):
    """What a kubelet does with pods (``simulate``)."""

    kubernetes: str
    admitted: int
    rejected: int
    pods: list[SimulatedPod]
    lost: NotRequired[int]
    steps: NotRequired[list[Step]]
    filled: NotRequired[list[Filled]]
    interrupted: NotRequired[bool]


class PodPair(TypedDict):
    """One pod under two configurations."""

    name: str
    uid: str
    differs: bool
    outcomes: list[SimulatedPod | None]


class ConfigComparison(TypedDict):
    """The same pods under two configurations (``simulate --compare``)."""

    kubernetes: str
    configs: list[str]
    admitted: list[int]
    rejected: list[int]
    lost: list[int]
    differing: int
    pods: list[PodPair]
    filled: NotRequired[list[list[Filled]]]
    interrupted: NotRequired[bool]


class NodeResource(TypedDict):
    """What one node has of one resource."""

    allocatable: int | float
    requested: int | float


class FleetNode(TypedDict):
    """One node."""

    name: str
    kubernetes: str
    pods: int
    rejected: int
    exclusive_cpus: int
    resources: dict[str, NodeResource]


class Reason(TypedDict):
    """Why nodes did not take a pod."""

    reason: str
    nodes: int


class FleetPod(TypedDict):
    """Where one pod went."""

    name: str
    namespace: str
    uid: str
    workload: str
    verdict: str
    node: str | None
    containers: NotRequired[list[dict[str, Any]]]
    reasons: NotRequired[list[Reason]]
    why: NotRequired[str]


class FleetSimulation(TypedDict):
    """Pods on many nodes (``simulate --nodes``)."""

    choice: str
    placed: int
    rejected: int
    nowhere: int
    nodes: list[FleetNode]
    pods: list[FleetPod]
    interrupted: NotRequired[bool]


class Cause(TypedDict):
    """A difference between two releases that explains a change."""

    name: str
    text: str


class Change(TypedDict):
    """Something that fares otherwise in the other release."""

    kind: str
    minor: bool
    pod: NotRequired[str]
    uid: NotRequired[str]
    before: str
    after: str
    reasons: list[Cause]


class Comparison(TypedDict):
    """The same pods in two releases (``simulate --compare-kube``)."""

    from_: str
    to: str
    remarks: list[str]
    pods: int
    changes: list[Change]


# --- plan -----------------------------------------------------------------------------------


class MachineName(TypedDict):
    """The machine a plan is for."""

    name: str | None
    summary: str


class NumaCapacity(TypedDict):
    """What one NUMA node has for pods."""

    numa: int
    cpus: int
    memory: int
    devices: dict[str, int]


class KubeletPlan(TypedDict):
    """A kubelet configuration and its reasons (``plan kubelet``)."""

    machine: MachineName
    goal: str
    kubernetes: str
    configuration: dict[str, Any]
    reasons: dict[str, str]
    rooms: list[NumaCapacity]
    trial: str
    remarks: list[str]


class FieldChange(TypedDict):
    """A field before and after; None: not set."""

    old: Any
    new: Any


class StateFileStep(TypedDict):
    """What becomes of one state file."""

    file: str
    remove: bool
    why: str


class PlanStep(TypedDict):
    """One step."""

    title: str
    commands: list[str]
    why: str | None


class SwitchedPod(TypedDict):
    """What becomes of one pod."""

    name: str
    restart: str | None
    createdAnew: str | None
    why: str | None


class SwitchPlan(TypedDict):
    """The way to another configuration (``plan switch``)."""

    kubernetes: str
    node: str | None
    refusal: str | None
    changes: dict[str, FieldChange]
    stateFiles: list[StateFileStep]
    drain: str | None
    steps: list[PlanStep]
    pods: list[SwitchedPod]
    remarks: list[str]


class ManifestChange(TypedDict):
    """One thing that was changed in a manifest."""

    where: str
    text: str


class PlannedContainer(TypedDict):
    """What a container received when the pod was tried."""

    name: str
    cpus: str
    memory: str
    devices: list[str]
    numa: str


class Proof(TypedDict):
    """What came of the pod that was tried."""

    admitted: bool
    aligned: bool
    text: str
    fits: int
    crosses: str | None
    instead: list[str]
    containers: list[PlannedContainer]


class PlannedPod(TypedDict):
    """One object that makes pods."""

    name: str
    kind: str
    changes: list[ManifestChange]
    proof: Proof | None
    remarks: list[str]


class PodPlan(TypedDict):
    """Pods that will be aligned (``plan pod``)."""

    aligned: bool
    pods: list[PlannedPod]
    manifests: list[dict[str, Any]]
