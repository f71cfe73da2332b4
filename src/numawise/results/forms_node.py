"""The forms of what ``why``, ``verify``, ``doctor``, ``discover`` and ``machine`` print; see ``forms``."""

from typing import Any, Literal, NotRequired, TypedDict

from numawise.results.alignment import Alignment
from numawise.results.finding import Finding
from numawise.results.forms import DefectForm, HintForm, OutcomeForm

# --- why ------------------------------------------------------------------------------------


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


class ExplainedRoundForm(TypedDict):
    """The merge that decided."""

    pod: NotRequired[bool]
    container: NotRequired[str]
    hints: list[ResourceHintsForm]
    narrowing: list[NarrowingForm]
    best: OutcomeForm


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
    suggestions: NotRequired[list[SuggestionForm]]
    findings: list[DefectForm]
    manifests: NotRequired[list[str]]
    reconstruction: NotRequired[ReconstructionForm]


class ExplanationsForm(TypedDict):
    """Why pods were refused or admitted (``why``)."""

    admitted: int
    rejected: int
    pods: list[ExplanationForm]


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


# --- verify, doctor, bundle -----------------------------------------------------------------


class GrantedForm(TypedDict):
    """What a job was granted."""

    cpus: str
    exclusive: bool
    mems: str
    gpus: list[str]


class JobMemoryForm(TypedDict):
    """Where a job's pages are."""

    own: int
    local: int
    share: float
    swapped: int
    numa: dict[str, dict[str, int]]


class JobGpuForm(TypedDict):
    """A GPU that a job uses."""

    name: str
    address: str
    numa: list[int]
    how: str
    used: bool
    pids: list[int]
    memory: int


class MemoryRateForm(TypedDict):
    """Bytes per second from one CPU."""

    numa: int
    problem: NotRequired[str]
    read: NotRequired[int]
    copy: NotRequired[int]


class MeasuredMemoryForm(TypedDict):
    """Memory measured from one CPU."""

    cpu: int
    numa: int
    local: list[int]
    rates: list[MemoryRateForm]


class CopyRateForm(TypedDict):
    """Bytes per second between the memory of a NUMA node and a GPU."""

    numa: int
    problem: NotRequired[str]
    toGpu: NotRequired[int]
    fromGpu: NotRequired[int]


class MeasuredGpuForm(TypedDict):
    """Copies measured to one GPU."""

    gpu: str
    numa: list[int]
    cpu: int
    problem: NotRequired[str]
    rates: list[CopyRateForm]


class MeasuredForm(TypedDict):
    """Figures (``verify --measure``)."""

    memory: list[MeasuredMemoryForm]
    gpus: list[MeasuredGpuForm]
    remarks: list[str]


class JobForm(TypedDict):
    """A job and its verdict."""

    label: str
    hold: NotRequired[str]
    name: NotRequired[str]
    mode: NotRequired[str]
    pid: NotRequired[int]
    granted: NotRequired[GrantedForm]
    aligned: bool | None
    sentence: str
    processes: int
    threads: int
    cpus: str
    ran: str
    numa: str
    mems: str
    memory: JobMemoryForm
    gpus: list[JobGpuForm]
    findings: list[Finding]
    measured: NotRequired[MeasuredForm]


class VerificationForm(TypedDict):
    """Whether jobs are where they should be (``verify``)."""

    aligned: bool | None
    jobs: list[JobForm]
    overlaps: list[str]
    remarks: list[str]


class ExaminationForm(TypedDict):
    """What stands in the way of alignment (``doctor``)."""

    findings: list[Finding]
    """Everything that was looked at; of severity ``info``: it is as it should be."""


# --- hardware and machine files -------------------------------------------------------------


class HardwareCpuForm(TypedDict):
    """One logical CPU."""

    cpu: int
    core: int | None
    socket: int | None
    numa: int | None
    die: int | None
    siblings: str | None
    l2: str | None
    l2_id: int | None
    l2_size: int | None
    l3: str | None
    l3_id: int | None
    l3_size: int | None


class HardwareNumaForm(TypedDict):
    """One NUMA node."""

    id: int
    cpus: str
    memory: int | None
    hugepages: dict[str, int]
    distances: list[int | None]
    note: str


class PciDeviceForm(TypedDict):
    """A device on PCIe."""

    address: str
    vendor: str | None
    device: str | None
    class_: str | None
    kind: str
    numa: int | None
    local_cpus: str | None
    parents: list[str]
    driver: str
    names: list[str]
    model: str


class GpuForm(TypedDict):
    """A GPU."""

    name: str
    uuid: str
    address: str
    model: str
    memory: int | None
    cpus: str | None
    numa: list[int] | None
    own_numa: int | None
    parent: str
    vendor: str | None
    resource: str


class HostForm(TypedDict):
    """The running system."""

    cpuset: str | None
    mems: str | None
    isolated: str | None
    numa_balancing: bool | None
    cgroup: str
    kernel: str


class RemarkForm(TypedDict):
    """What was noticed while reading."""

    kind: str
    place: str
    text: str


class HardwareForm(TypedDict):
    """A machine as it is (``discover``)."""

    name: str
    sources: list[str]
    cpus: list[HardwareCpuForm]
    offline: str
    numa: list[HardwareNumaForm]
    memory_capacity: int | None
    devices: list[PciDeviceForm]
    gpu_devices: list[GpuForm]
    gpus: list[str]
    nics: list[str]
    links: dict[str, dict[str, str]] | None
    cpu_affinity: dict[str, Any]
    numa_affinity: dict[str, Any]
    gpu_numa_id: dict[str, Any]
    nic_names: dict[str, str]
    host: HostForm | None
    remarks: list[RemarkForm]


class MachineCpuForm(TypedDict):
    """One logical CPU."""

    cpu: int
    core: int
    socket: int
    numa: int
    uncore_cache: NotRequired[int]


class MachineNumaForm(TypedDict):
    """One NUMA node."""

    id: int
    memory: NotRequired[int]
    hugepages: NotRequired[dict[str, int]]
    distances: NotRequired[list[int]]


class MachineDeviceForm(TypedDict):
    """A device of a plugin."""

    id: str
    numa: NotRequired[list[int] | None]
    unhealthy: NotRequired[bool]


class MachinePluginForm(TypedDict):
    """A device plugin."""

    preferred_allocation: NotRequired[str]
    links: NotRequired[list[str]]
    refuses_several: NotRequired[bool]
    devices: list[MachineDeviceForm]


class MachineForm(TypedDict):
    """A machine as the kubelet sees it (``machine new``)."""

    cpus: list[MachineCpuForm]
    numa: list[MachineNumaForm]
    memory_capacity: NotRequired[int]
    devices: NotRequired[dict[str, MachinePluginForm]]
