"""The forms of what ``run``, ``docker``, ``flags``, ``ps`` and ``bind`` print; see ``forms``."""

from typing import Literal, TypedDict

from numawise.results.placement import MemoryPolicy

WayToEnd = Literal["ended", "released", "overtime", "found ended", "not started"]


class PlacedGpuForm(TypedDict):
    """A GPU."""

    name: str
    uuid: str | None
    address: str | None


class PlacedNicForm(TypedDict):
    """A network card."""

    name: str
    rdma: str | None


class GrantForm(TypedDict):
    """CPUs, memory and devices for one job."""

    cpus: str
    exclusive: bool
    wholeNuma: str | None
    mems: str
    memoryPolicy: MemoryPolicy
    memory: int | None
    gpus: list[PlacedGpuForm]
    nics: list[PlacedNicForm]
    devices: dict[str, list[str]]
    policy: str
    aligned: bool
    remarks: list[str]


class PlacementForm(GrantForm):
    """What a launcher would do (``run --dry-run``)."""

    mode: str | None
    fence: str | None
    steps: list[str]
    environment: dict[str, str]
    command: list[str]


class ContainerCommandForm(GrantForm):
    """The command that starts a container (``docker --print``)."""

    command: list[str]


class FlagTextForm(TypedDict):
    """A placement in one form."""

    text: str
    argv: list[str] | None
    remarks: list[str]


class FlagsForm(TypedDict):
    """A placement in many forms (``flags``)."""

    placement: GrantForm
    environment: dict[str, str]
    formats: dict[str, FlagTextForm]


class HeldMemoryForm(TypedDict):
    """Memory that a hold has."""

    numa: str
    bytes: int


class HoldStepForm(TypedDict):
    """A part of a hold, for a job inside of that hold's."""

    id: str
    parent: str
    name: str
    pid: int
    cpus: str
    exclusive: bool
    cpuLimit: float | None
    mems: str
    memoryPolicy: str
    memory: list[HeldMemoryForm]
    devices: dict[str, list[str]]
    policy: str
    command: list[str]
    since: str


class WhoseHoldForm(TypedDict):
    """A hold and whose it is."""

    id: str
    name: str
    kind: str
    user: str
    uid: int
    pid: int | None
    container: str | None


class HoldForm(WhoseHoldForm):
    """One hold."""

    cpus: str
    exclusive: bool
    cpuLimit: float | None
    mems: str
    memoryPolicy: MemoryPolicy
    memory: list[HeldMemoryForm]
    devices: dict[str, list[str]]
    mode: str
    group: str | None
    fence: str | None
    policy: str
    command: list[str]
    since: str
    timeLeft: float | None
    labels: dict[str, str]
    steps: list[HoldStepForm]


class WaiterForm(TypedDict):
    """A job that waits."""

    id: str
    user: str
    uid: int
    pid: int
    request: str
    asks: dict[str, object] | None
    since: str
    state: str
    missing: str | None
    holders: list[str]


class FreeForm(TypedDict):
    """What a NUMA node has left: exclusive CPUs, bytes, GPUs."""

    numa: int
    cpus: str
    memory: int
    gpus: list[str]


class HoldListForm(TypedDict):
    """Who holds what on this host (``ps``)."""

    ledger: str
    shared: bool | None
    """All users of the machine use this ledger; null: not known."""
    remarks: list[str]
    holds: list[HoldForm]
    free: list[FreeForm]
    waiting: list[WaiterForm]


class EndedHoldForm(WhoseHoldForm):
    """A hold that is no more."""

    cpus: str
    """CPUs that it had alone; '': it ran in the shared pool."""
    mems: str
    memory: list[HeldMemoryForm]
    devices: dict[str, list[str]]
    policy: str
    command: list[str]
    since: str
    ended: str
    """When it ended, or was found to have ended."""
    took: float
    """Seconds."""
    how: WayToEnd
    status: int | None
    """Exit status of its job, negative for a signal; null: not known."""
    by: str | None
    """The user who ended it, where that was not its owner."""
    text: str
    """How it ended, in words."""


class HoldHistoryForm(TypedDict):
    """Holds that are no more, the newest first (``history``)."""

    ledger: str
    shared: bool | None
    remarks: list[str]
    ended: list[EndedHoldForm]
    more: int
    """How many older ones are kept that are not listed here."""


class HoldUseForm(TypedDict):
    """What the job of a hold uses."""

    id: str
    name: str
    user: str
    cpus: float | None
    """CPUs that it kept busy, on average since the look before; null: not known."""
    memory: int | None
    """Bytes that it has in memory now."""
    processes: int


class HoldUsesForm(TypedDict):
    """What jobs use at the moment (``top``)."""

    seconds: float
    """Between the two looks."""
    remarks: list[str]
    uses: list[HoldUseForm]


class BoxForm(HoldListForm):
    """Who holds what on this host, and what may be ended (the page's ``box``)."""

    hostname: str
    user: str
    """Who runs the server."""
    allowChanges: bool
    deviceNames: dict[str, str]
    """What the machine calls devices, by the ids of holds."""
    own: list[str]
    """Ids of holds, and of those who wait, that this user may end."""
    now: str
    """When this was read; ``timeLeft`` counts from here."""


class EndedHereForm(TypedDict):
    """What was ended."""

    id: str
    text: str


class RankForm(TypedDict):
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


class RanksForm(TypedDict):
    """What every rank of a job gets (``bind --dry-run``)."""

    by: str
    memory: str
    ranks: list[RankForm]
    remarks: list[str]
