"""The forms of documents that commands build as plain data; ``schema`` makes their JSON Schemas.

An underscore at the end of a name is left away: ``from_`` is ``from``.  CPUs, and NUMA nodes in texts, are
lists as the kernel writes them, such as ``0-3,8``; sizes are bytes.
"""

from typing import Any, Literal, NotRequired, TypedDict

from numawise.results.alignment import Alignment
from numawise.results.claims import ClaimOutcome
from numawise.results.state import Unmatched

Verdict = Literal["admitted", "rejected", "crashed", "not known"]


# --- decisions ------------------------------------------------------------------------------


class HintForm(TypedDict):
    """NUMA nodes that a resource, or all of them, can be served from."""

    numa: list[int] | None
    """None: any."""
    preferred: bool


class OutcomeForm(HintForm):
    """The hint that a merge came to."""

    admit: bool


class ManyHintsForm(TypedDict):
    """A list of hints that is too long to be shown."""

    count: NotRequired[int]
    preferred: NotRequired[int]
    sha256: NotRequired[str]
    first: NotRequired[list[tuple[list[int], bool]]]
    count_at_most: NotRequired[int]
    narrowest: NotRequired[int]


class CandidateForm(TypedDict):
    """One hint that a merge compared."""

    numa: list[int]
    kept: bool
    preferred: bool
    why: str
    resources: NotRequired[list[str]]


class RoundForm(TypedDict):
    """One merge of hints."""

    pod: NotRequired[bool]
    """For the pod as a whole."""
    container: NotRequired[str]
    hints: dict[str, dict[str, list[tuple[list[int], bool]] | ManyHintsForm | None] | None]
    """Manager → resource → hints; None: any NUMA node will do."""
    merged: OutcomeForm | None
    decided_by: NotRequired[list[str]]
    candidates: NotRequired[list[CandidateForm]]


class BlockForm(TypedDict):
    """A block of memory."""

    numa: str
    type: str
    size: int


class MemoryForm(TypedDict):
    """Memory that a container received."""

    numa: str
    blocks: list[BlockForm]


class ContainerForm(TypedDict):
    """What one container received; of a refused pod, the affinity that was judged."""

    name: str
    verdict: Verdict
    cpus: NotRequired[str]
    exclusive: NotRequired[bool]
    memory: NotRequired[MemoryForm]
    devices: NotRequired[dict[str, list[str]]]
    affinity: HintForm | None
    start_error: NotRequired[str]


class FailedForm(TypedDict):
    """The allocation that failed."""

    container: str
    provider: str
    error: str


class DefectForm(TypedDict):
    """A known defect of the kubelet, or a choice left to chance."""

    code: str
    text: str


class SimulatedPodForm(TypedDict):
    """What became of one pod."""

    name: str
    namespace: str
    uid: str
    qos: str
    verdict: Verdict
    reason: NotRequired[str]
    message: NotRequired[str]
    answer: NotRequired[str]
    """What of an admitted pod is not aligned, and where the rest is."""
    alignment: NotRequired[Alignment]
    containers: list[ContainerForm]
    failed: NotRequired[FailedForm]
    rounds: list[RoundForm]
    findings: list[DefectForm]
    claims: NotRequired[list[ClaimOutcome]]
    preempted: NotRequired[list[str]]
    not_known: NotRequired[list[str]]
    not_judged: NotRequired[list[str]]
    step: NotRequired[int]


# --- simulate -------------------------------------------------------------------------------


class NumaCountForm(TypedDict):
    """Copies of a pod on the same NUMA nodes."""

    numa: list[int]
    count: int


class StoppedForm(TypedDict):
    """Why no more copies fit."""

    by: str
    reason: str | None
    message: str | None
    why: str | None


class CopyForm(TypedDict):
    """One copy of the pod that filled the node."""

    name: str
    containers: list[dict[str, Any]]


class FilledForm(TypedDict):
    """How many more copies of a pod fit, and where."""

    pod: str
    count: int
    places: list[NumaCountForm]
    stopped: StoppedForm
    copies: list[CopyForm]


class StepPodForm(TypedDict):
    """A pod that a step named."""

    pod: str
    done: bool


class RefusalForm(TypedDict):
    """The kubelet did not start."""

    stage: str
    message: str


class PushedForm(TypedDict):
    """CPUs that were pushed to a running container."""

    pod: str
    container: str
    cpus: str


class StartedPodForm(TypedDict):
    """A pod whose containers started."""

    uid: str
    containers: list[dict[str, Any]]


class ResizedForm(TypedDict):
    """What became of a resize when it was tried."""

    pod: str
    uid: str
    outcome: str
    reason: str | None
    message: str | None
    cause: str | None
    resources: dict[str, dict[str, str]] | None
    containers: dict[str, dict[str, dict[str, str]]]
    held: dict[str, str]


class StepForm(TypedDict):
    """One step of a scenario."""

    step: int
    at: str | float | None
    op: str
    pods: NotRequired[list[str] | list[StepPodForm]]
    config: NotRequired[str | None]
    error: NotRequired[RefusalForm | None]
    readmitted: NotRequired[list[SimulatedPodForm]]
    started: NotRequired[list[StartedPodForm]]
    resource: NotRequired[str]
    changes: NotRequired[dict[str, str | list[str]]]
    pushed: NotRequired[list[PushedForm]]
    resizes: NotRequired[list[ResizedForm]]
    count: NotRequired[int]


class SimulationForm(TypedDict):
    """What a kubelet does with pods (``simulate``)."""

    kubernetes: str
    admitted: int
    rejected: int
    pods: list[SimulatedPodForm]
    lost: NotRequired[int]
    steps: NotRequired[list[StepForm]]
    filled: NotRequired[list[FilledForm]]
    interrupted: NotRequired[bool]
    unmatched: NotRequired[list[Unmatched]]


class PodPairForm(TypedDict):
    """One pod under two configurations."""

    name: str
    uid: str
    differs: bool
    outcomes: list[SimulatedPodForm | None]


class ConfigComparisonForm(TypedDict):
    """The same pods under two configurations (``simulate --compare``)."""

    kubernetes: str
    configs: list[str]
    admitted: list[int]
    rejected: list[int]
    lost: list[int]
    differing: int
    pods: list[PodPairForm]
    filled: NotRequired[list[list[FilledForm]]]
    interrupted: NotRequired[bool]


class NodeResourceForm(TypedDict):
    """What one node has of one resource."""

    allocatable: int | float
    requested: int | float


class FleetNodeForm(TypedDict):
    """One node."""

    name: str
    kubernetes: str
    pods: int
    rejected: int
    exclusive_cpus: int
    resources: dict[str, NodeResourceForm]


class ReasonForm(TypedDict):
    """Why nodes did not take a pod."""

    reason: str
    nodes: int


class FleetPodForm(TypedDict):
    """Where one pod went."""

    name: str
    namespace: str
    uid: str
    workload: str
    verdict: str
    node: str | None
    answer: NotRequired[str]
    """What of it is not aligned, and where the rest is."""
    alignment: NotRequired[Alignment]
    containers: NotRequired[list[dict[str, Any]]]
    reasons: NotRequired[list[ReasonForm]]
    why: NotRequired[str]


class FleetSimulationForm(TypedDict):
    """Pods on many nodes (``simulate --nodes``)."""

    choice: str
    placed: int
    rejected: int
    nowhere: int
    nodes: list[FleetNodeForm]
    pods: list[FleetPodForm]
    interrupted: NotRequired[bool]


class CauseForm(TypedDict):
    """A difference between two releases that explains a change."""

    name: str
    text: str


class ChangeForm(TypedDict):
    """Something that fares otherwise in the other release."""

    kind: str
    minor: bool
    pod: NotRequired[str]
    uid: NotRequired[str]
    before: str
    after: str
    reasons: list[CauseForm]


class ComparisonForm(TypedDict):
    """The same pods in two releases (``simulate --compare-kube``)."""

    from_: str
    to: str
    remarks: list[str]
    pods: int
    changes: list[ChangeForm]


# --- plan -----------------------------------------------------------------------------------


class MachineNameForm(TypedDict):
    """The machine a plan is for."""

    name: str | None
    summary: str


class NumaCapacityForm(TypedDict):
    """What one NUMA node has for pods."""

    numa: int
    cpus: int
    memory: int
    devices: dict[str, int]


class KubeletPlanForm(TypedDict):
    """A kubelet configuration and its reasons (``plan kubelet``)."""

    machine: MachineNameForm
    goal: str
    kubernetes: str
    configuration: dict[str, Any]
    reasons: dict[str, str]
    rooms: list[NumaCapacityForm]
    trial: str
    remarks: list[str]


class FieldChangeForm(TypedDict):
    """A field before and after; None: not set."""

    old: Any
    new: Any


class StateFileStepForm(TypedDict):
    """What becomes of one state file."""

    file: str
    remove: bool
    why: str


class PlanStepForm(TypedDict):
    """One step."""

    title: str
    commands: list[str]
    why: str | None


class SwitchedPodForm(TypedDict):
    """What becomes of one pod."""

    name: str
    restart: str | None
    createdAnew: str | None
    why: str | None


class FieldNotSettableForm(TypedDict):
    """A field that a platform does not let people set."""

    field: str
    why: str


class PlatformPlanForm(TypedDict):
    """A switch as the node's platform has it done."""

    name: str
    title: str
    found: str
    regenerates: str
    inPlace: bool
    file: str
    text: str
    notSettable: list[FieldNotSettableForm]
    remarks: list[str]


class SwitchPlanForm(TypedDict):
    """The way to another configuration (``plan switch``)."""

    kubernetes: str
    node: str | None
    refusal: str | None
    kept: list[str]
    changes: dict[str, FieldChangeForm]
    stateFiles: list[StateFileStepForm]
    drain: str | None
    platform: PlatformPlanForm | None
    steps: list[PlanStepForm]
    pods: list[SwitchedPodForm]
    remarks: list[str]


class ManifestChangeForm(TypedDict):
    """One thing that was changed in a manifest."""

    where: str
    text: str


class PlannedContainerForm(TypedDict):
    """What a container received when the pod was tried."""

    name: str
    cpus: str
    memory: str
    devices: list[str]
    numa: str


class ProofForm(TypedDict):
    """What came of the pod that was tried."""

    admitted: bool
    aligned: bool
    text: str
    alignment: Alignment | None
    fits: int
    crosses: str | None
    instead: list[str]
    containers: list[PlannedContainerForm]


class PlannedPodForm(TypedDict):
    """One object that makes pods."""

    name: str
    kind: str
    changes: list[ManifestChangeForm]
    proof: ProofForm | None
    remarks: list[str]


class PodPlanForm(TypedDict):
    """Pods that will be aligned (``plan pod``)."""

    aligned: bool
    pods: list[PlannedPodForm]
    manifests: list[dict[str, Any]]
