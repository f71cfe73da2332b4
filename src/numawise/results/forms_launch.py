"""The forms of what ``run``, ``docker``, ``flags``, ``ps`` and ``bind`` print; see ``forms``."""

from typing import TypedDict


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
