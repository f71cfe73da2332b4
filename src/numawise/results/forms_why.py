"""The forms of what ``why`` prints, of pods and of logs; see ``forms``."""

from typing import Any, Literal, NotRequired, TypedDict

from numawise.results.alignment import Alignment
from numawise.results.forms import DefectForm, HintForm, OutcomeForm
from numawise.results.pending import ClusterAnswer
from numawise.results.state import Unmatched
from numawise.results.walk import WalkStep


class NumaFreeForm(TypedDict):
    """What one NUMA node has of one resource."""

    id: int
    hint: Literal["preferred", "possible", "no"]
    free: NotRequired[int]
    size: NotRequired[int]
    note: NotRequired[str]


class ResourceHintsForm(TypedDict):
    """What one resource answered when asked for NUMA nodes."""

    resource: str
    answer: str
    asked: NotRequired[int]
    unit: NotRequired[str]
    numa: list[NumaFreeForm]
    wider: list[HintForm]
    complete: bool
    note: NotRequired[str]


class NarrowingForm(TypedDict):
    """What is left once one more resource was heard."""

    resource: str
    prefers: list[list[int]]
    left: list[list[int]]
    complete: bool
    """All are listed, and not only the first."""
    reach: list[int]
    """NUMA nodes of all that is left, also of what is not listed."""


class ExplainedRoundForm(TypedDict):
    """The merge that decided."""

    pod: NotRequired[bool]
    container: NotRequired[str]
    hints: list[ResourceHintsForm]
    narrowing: list[NarrowingForm]
    best: OutcomeForm


class DecisionWalkForm(TypedDict):
    """The whole decision, step by step."""

    rounds: list[ExplainedRoundForm]
    """The merges, in order; steps name them by their number."""
    steps: list[WalkStep]


class PatchOperationForm(TypedDict):
    """One operation of a JSON Patch (RFC 6902)."""

    op: str
    from_: NotRequired[str]
    path: str
    value: NotRequired[Any]


class SuggestionForm(TypedDict):
    """A change after which the pod is admitted."""

    kind: str
    text: str
    price: NotRequired[str]
    pod: NotRequired[list[PatchOperationForm]]
    kubelet: NotRequired[list[PatchOperationForm]]
    remove: NotRequired[list[str]]
    delete: NotRequired[list[str]]
    repair: NotRequired[list[str]]
    heal: NotRequired[list[str]]
    recreate: NotRequired[bool]
    node: NotRequired[str]


class ReconstructionForm(TypedDict):
    """What an answer rests on where a node's state was rebuilt."""

    node: str
    moment: str
    machine: str
    configuration: str
    state: str
    pods: int
    unplaced: list[str]
    reproduced: bool | None


class ExplanationForm(TypedDict):
    """What became of one pod, why, and what would change it."""

    name: str
    namespace: str
    uid: str
    qos: str
    verdict: str
    answer: str
    resources: list[str]
    alignment: NotRequired[Alignment]
    container: NotRequired[str]
    reason: NotRequired[str]
    message: NotRequired[str]
    said: NotRequired[bool]
    outlook: NotRequired[str | None]
    heldBy: NotRequired[list[str]]
    policy: str
    scope: str
    rule: str
    remarks: list[str]
    round: ExplainedRoundForm | None
    walk: NotRequired[DecisionWalkForm]
    suggestions: NotRequired[list[SuggestionForm]]
    findings: list[DefectForm]
    manifests: NotRequired[list[str]]
    reconstruction: NotRequired[ReconstructionForm]
    cluster: NotRequired[ClusterAnswer]


class ExplanationsForm(TypedDict):
    """Why pods were refused or admitted (``why``)."""

    admitted: int
    rejected: int
    pods: list[ExplanationForm]
    unmatched: NotRequired[list[Unmatched]]


class LogReadingForm(TypedDict):
    """What was read."""

    files: list[str]
    bytes: int
    lines: int
    kubeletLines: int
    skippedLines: int
    cutLines: int
    first: str | None
    last: str | None
    events: dict[str, int]


class StartFailureForm(TypedDict):
    """A kubelet that did not start, once or again and again for the same reason."""

    host: str
    pid: int | str | None
    stage: str
    message: str
    code: str
    answer: str
    remarks: list[str]
    suggestions: NotRequired[list[SuggestionForm]]
    times: int
    first: str | None
    last: str | None
    seconds: float | None
    lines: list[int]
    startedLater: int


class LoggedKubeletForm(TypedDict):
    """What the log says of a kubelet itself."""

    host: str
    pid: int | str | None
    boot: int
    policy: str
    policies: list[str]
    policyStated: bool
    scope: str
    release: str
    releases: str
    numa: list[int]


class LoggedRoundForm(TypedDict):
    """One merge as the log has it."""

    pod: NotRequired[bool]
    container: NotRequired[str]
    hints: dict[str, list[HintForm] | None]
    best: HintForm | None
    accepted: bool | None
    complete: bool


class LoggedErrorForm(TypedDict):
    """An allocation that failed."""

    manager: str
    container: str
    error: str


class LoggedAdmissionForm(TypedDict):
    """One admission as the log has it."""

    host: str
    pid: int | str | None
    boot: int
    time: str | None
    lines: list[int]
    verdict: str
    stated: bool
    likely: str
    resize: bool
    reason: str
    message: str
    rounds: list[LoggedRoundForm]
    errors: list[LoggedErrorForm]
    cpus: dict[str, str]
    devices: dict[str, str]
    asked: dict[str, int]


class RepeatsForm(TypedDict):
    """How often this happened, and to whom."""

    owner: str
    ownerKind: str
    times: int
    recreated: int
    first: str | None
    last: str | None
    seconds: float | None
    pods: list[str]
    names: int
    changes: int


class ExplainedAdmissionForm(ExplanationForm):
    """An admission of a log, explained."""

    log: LoggedAdmissionForm
    repeats: RepeatsForm


class KubeletLogForm(TypedDict):
    """What a kubelet's log says about pods (``why --log``)."""

    read: LogReadingForm
    admitted: int
    rejected: int
    unfinished: int
    leftOut: int
    early: int
    resizesRefused: int
    starts: list[StartFailureForm]
    startsLeftOut: int
    kubelets: list[LoggedKubeletForm]
    pods: list[ExplainedAdmissionForm]
