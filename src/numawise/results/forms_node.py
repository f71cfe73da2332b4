"""The forms of what ``verify``, ``doctor``, ``discover`` and ``machine`` print; see ``forms``."""

from typing import Any, NotRequired, TypedDict

from numawise.results.finding import Finding
from numawise.results.placement import MemoryPolicy
from numawise.results.verification import JobGrade

# --- verify, doctor, bundle -----------------------------------------------------------------


class GrantedForm(TypedDict):
    """What a job was granted."""

    cpus: str
    exclusive: bool
    mems: str
    memoryPolicy: MemoryPolicy
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
    fence: NotRequired[str | None]
    pid: NotRequired[int]
    granted: NotRequired[GrantedForm]
    aligned: bool | None
    """False, too, of what has spilled; null: not known."""
    verdict: JobGrade
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
    verdict: JobGrade
    """The worst of all jobs."""
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
