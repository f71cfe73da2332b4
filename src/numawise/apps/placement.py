"""Where a job goes on this machine: the engine's decision, told in what a launcher needs."""

from dataclasses import dataclass

from numawise.ledger.holds import Grant
from numawise.machine.hardware import Gpu


@dataclass(frozen=True, slots=True)
class Nic:
    """A network card that belongs to a placement."""

    name: str
    """What the system calls it: ``eth0``."""
    hca: str = ""
    """Its RDMA device, such as ``mlx5_0``; '' when it has none."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What a job was given, and what to say about it."""

    grant: Grant
    cpus: int
    """CPUs it may run on: its own, or its part of the shared pool."""
    mems: int
    """NUMA nodes its memory comes from."""
    memory: int = 0
    """Bytes it may use; 0: no limit was asked for."""
    gpus: tuple[Gpu, ...] = ()
    """In the order the job shall see them."""
    nics: tuple[Nic, ...] = ()
    """Network cards near to the GPUs, the nearest first."""
    policy: str = ""
    aligned: bool = True
    """Everything lies on one set of NUMA nodes, as small as the request allows."""
    remarks: tuple[str, ...] = ()
    """What the user should know, a sentence each."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables for the job."""
