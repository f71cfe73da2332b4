"""The forms of documents that commands build as plain data; ``schema`` makes their JSON Schemas.

An underscore at the end of a name is left away: ``from_`` is ``from``.  CPUs, and NUMA nodes in texts, are
lists as the kernel writes them, such as ``0-3,8``; sizes are bytes.
"""

from typing import Any, Literal, NotRequired, TypedDict

from numawise.results.finding import Finding

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


# --- launchers ------------------------------------------------------------------------------


class PlacedGpu(TypedDict):
    """A GPU."""

    name: str
    uuid: str | None
    address: str | None


class PlacedNic(TypedDict):
    """A network card."""

    name: str
    rdma: str | None


class Grant(TypedDict):
    """CPUs, memory and devices for one job."""

    cpus: str
    exclusive: bool
    mems: str
    memory: int | None
    gpus: list[PlacedGpu]
    nics: list[PlacedNic]
    devices: dict[str, list[str]]
    policy: str
    aligned: bool
    remarks: list[str]


class Placement(Grant):
    """What a launcher would do (``run --dry-run``)."""

    mode: str | None
    steps: list[str]
    environment: dict[str, str]
    command: list[str]


class ContainerCommand(Grant):
    """The command that starts a container (``docker --print``)."""

    command: list[str]


class FlagText(TypedDict):
    """A placement in one form."""

    text: str
    argv: list[str] | None
    remarks: list[str]


class Flags(TypedDict):
    """A placement in many forms (``flags``)."""

    placement: Grant
    environment: dict[str, str]
    formats: dict[str, FlagText]


class HeldMemory(TypedDict):
    """Memory that a hold has."""

    numa: str
    bytes: int


class Hold(TypedDict):
    """One hold."""

    id: str
    name: str
    kind: str
    user: str
    uid: int
    pid: int | None
    container: str | None
    cpus: str
    exclusive: bool
    cpuLimit: float | None
    mems: str
    memory: list[HeldMemory]
    devices: dict[str, list[str]]
    mode: str
    group: str | None
    policy: str
    command: list[str]
    since: str
    labels: dict[str, str]


class Waiter(TypedDict):
    """A job that waits."""

    user: str
    pid: int
    request: str
    since: str


class HoldList(TypedDict):
    """Who holds what on this host (``ps``)."""

    ledger: str
    holds: list[Hold]
    waiting: list[Waiter]


class Rank(TypedDict):
    """What one rank gets."""

    rank: int
    gpu: str | None
    gpuUuid: str | None
    numa: list[int]
    cpus: str
    cores: int
    alone: bool
    mems: str
    threads: int
    nics: list[str]


class Ranks(TypedDict):
    """What every rank of a job gets (``bind --dry-run``)."""

    by: str
    memory: str
    ranks: list[Rank]
    remarks: list[str]


# --- why ------------------------------------------------------------------------------------


class NumaFree(TypedDict):
    """What one NUMA node has of one resource."""

    id: int
    hint: Literal["preferred", "possible", "no"]
    free: NotRequired[int]
    size: NotRequired[int]
    note: NotRequired[str]


class ResourceHints(TypedDict):
    """What one resource answered when asked for NUMA nodes."""

    resource: str
    answer: str
    asked: NotRequired[int]
    unit: NotRequired[str]
    numa: list[NumaFree]
    wider: list[Hint]
    complete: bool
    note: NotRequired[str]


class Narrowing(TypedDict):
    """What is left once one more resource was heard."""

    resource: str
    prefers: list[list[int]]
    left: list[list[int]]
    complete: bool


class ExplainedRound(TypedDict):
    """The merge that decided."""

    pod: NotRequired[bool]
    container: NotRequired[str]
    wishes: list[ResourceHints]
    narrowing: list[Narrowing]
    best: Outcome


class PatchOperation(TypedDict):
    """One operation of a JSON Patch (RFC 6902)."""

    op: str
    from_: NotRequired[str]
    path: str
    value: NotRequired[Any]


class Suggestion(TypedDict):
    """A change after which the pod is admitted."""

    kind: str
    text: str
    price: NotRequired[str]
    pod: NotRequired[list[PatchOperation]]
    kubelet: NotRequired[list[PatchOperation]]
    remove: NotRequired[list[str]]
    delete: NotRequired[list[str]]
    heal: NotRequired[list[str]]
    recreate: NotRequired[bool]
    node: NotRequired[str]


class Explanation(TypedDict):
    """What became of one pod, why, and what would change it."""

    name: str
    namespace: str
    uid: str
    qos: str
    verdict: str
    answer: str
    resources: list[str]
    container: NotRequired[str]
    reason: NotRequired[str]
    message: NotRequired[str]
    policy: str
    scope: str
    rule: str
    remarks: list[str]
    round: ExplainedRound | None
    suggestions: NotRequired[list[Suggestion]]
    findings: list[Defect]


class Explanations(TypedDict):
    """Why pods were refused or admitted (``why``)."""

    admitted: int
    rejected: int
    pods: list[Explanation]


class LogReading(TypedDict):
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


class LoggedKubelet(TypedDict):
    """What the log says of a kubelet itself."""

    host: str
    pid: int | str | None
    policy: str
    policies: list[str]
    policyTold: bool
    scope: str
    release: str
    releases: str
    numa: list[int]


class LoggedRound(TypedDict):
    """One merge as the log has it."""

    pod: NotRequired[bool]
    container: NotRequired[str]
    hints: dict[str, list[Hint] | None]
    best: Hint | None
    accepted: bool | None
    complete: bool


class LoggedError(TypedDict):
    """An allocation that failed."""

    manager: str
    container: str
    error: str


class LoggedAdmission(TypedDict):
    """One admission as the log has it."""

    host: str
    pid: int | str | None
    time: str | None
    lines: list[int]
    verdict: str
    told: bool
    reason: str
    message: str
    rounds: list[LoggedRound]
    errors: list[LoggedError]
    cpus: dict[str, str]
    devices: dict[str, str]
    asked: dict[str, int]


class Repeats(TypedDict):
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


class ExplainedAdmission(Explanation):
    """An admission of a log, explained."""

    log: LoggedAdmission
    repeats: Repeats


class KubeletLog(TypedDict):
    """What a kubelet's log says about pods (``why --log``)."""

    read: LogReading
    admitted: int
    rejected: int
    unfinished: int
    leftOut: int
    early: int
    kubelets: list[LoggedKubelet]
    pods: list[ExplainedAdmission]


# --- verify, doctor, bundle -----------------------------------------------------------------


class Granted(TypedDict):
    """What a job was granted."""

    cpus: str
    exclusive: bool
    mems: str
    gpus: list[str]


class JobMemory(TypedDict):
    """Where a job's pages are."""

    own: int
    local: int
    share: float
    swapped: int
    numa: dict[str, dict[str, int]]


class JobGpu(TypedDict):
    """A GPU that a job uses."""

    name: str
    address: str
    numa: list[int]
    how: str
    used: bool
    pids: list[int]
    memory: int


class MemoryRate(TypedDict):
    """Bytes per second from one CPU."""

    numa: int
    problem: NotRequired[str]
    read: NotRequired[int]
    copy: NotRequired[int]


class MeasuredMemory(TypedDict):
    """Memory measured from one CPU."""

    cpu: int
    numa: int
    local: list[int]
    rates: list[MemoryRate]


class CopyRate(TypedDict):
    """Bytes per second between the memory of a NUMA node and a GPU."""

    numa: int
    problem: NotRequired[str]
    toGpu: NotRequired[int]
    fromGpu: NotRequired[int]


class MeasuredGpu(TypedDict):
    """Copies measured to one GPU."""

    gpu: str
    numa: list[int]
    cpu: int
    problem: NotRequired[str]
    rates: list[CopyRate]


class Measured(TypedDict):
    """Figures (``verify --measure``)."""

    memory: list[MeasuredMemory]
    gpus: list[MeasuredGpu]
    remarks: list[str]


class Job(TypedDict):
    """A job and its verdict."""

    label: str
    hold: NotRequired[str]
    name: NotRequired[str]
    mode: NotRequired[str]
    pid: NotRequired[int]
    granted: NotRequired[Granted]
    aligned: bool | None
    sentence: str
    processes: int
    threads: int
    cpus: str
    ran: str
    numa: str
    mems: str
    memory: JobMemory
    gpus: list[JobGpu]
    findings: list[Finding]
    measured: NotRequired[Measured]


class Verification(TypedDict):
    """Whether jobs are where they should be (``verify``)."""

    aligned: bool | None
    jobs: list[Job]
    overlaps: list[str]
    remarks: list[str]


class Examination(TypedDict):
    """What stands in the way of alignment (``doctor``)."""

    findings: list[Finding]
    """Everything that was looked at; of severity ``info``: it is as it should be."""


# --- hardware and machine files -------------------------------------------------------------


class HardwareCpu(TypedDict):
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


class HardwareNuma(TypedDict):
    """One NUMA node."""

    id: int
    cpus: str
    memory: int | None
    hugepages: dict[str, int]
    distances: list[int | None]
    note: str


class PciDevice(TypedDict):
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


class Gpu(TypedDict):
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


class Host(TypedDict):
    """The running system."""

    cpuset: str | None
    mems: str | None
    isolated: str | None
    numa_balancing: bool | None
    cgroup: str
    kernel: str


class Remark(TypedDict):
    """What was noticed while reading."""

    kind: str
    place: str
    text: str


class Hardware(TypedDict):
    """A machine as it is (``discover``)."""

    name: str
    sources: list[str]
    cpus: list[HardwareCpu]
    offline: str
    numa: list[HardwareNuma]
    memory_capacity: int | None
    devices: list[PciDevice]
    gpu_devices: list[Gpu]
    gpus: list[str]
    nics: list[str]
    links: dict[str, dict[str, str]] | None
    cpu_affinity: dict[str, Any]
    numa_affinity: dict[str, Any]
    gpu_numa_id: dict[str, Any]
    nic_names: dict[str, str]
    host: Host | None
    remarks: list[Remark]


class MachineCpu(TypedDict):
    """One logical CPU."""

    cpu: int
    core: int
    socket: int
    numa: int
    uncore_cache: NotRequired[int]


class MachineNuma(TypedDict):
    """One NUMA node."""

    id: int
    memory: NotRequired[int]
    hugepages: NotRequired[dict[str, int]]
    distances: NotRequired[list[int]]


class MachineDevice(TypedDict):
    """A device of a plugin."""

    id: str
    numa: NotRequired[list[int] | None]
    unhealthy: NotRequired[bool]


class MachinePlugin(TypedDict):
    """A device plugin."""

    preferred_allocation: NotRequired[str]
    devices: list[MachineDevice]


class Machine(TypedDict):
    """A machine as the kubelet sees it (``machine new``)."""

    cpus: list[MachineCpu]
    numa: list[MachineNuma]
    memory_capacity: NotRequired[int]
    devices: NotRequired[dict[str, MachinePlugin]]
