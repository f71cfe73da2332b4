"""What a check of a job is made of, and what it asks this host besides its processes."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numawise.errors import HostError, LedgerError
from numawise.host.files import Tree
from numawise.host.nvml import GpuUse
from numawise.host.placed import Placed, read_tasks
from numawise.host.settings import HostSettings
from numawise.inputs.ledger import ledger_place
from numawise.ledger.place import machine_id
from numawise.ledger.store import Ledger
from numawise.machine.hardware import NVIDIA, Hardware
from numawise.results.placement import Hold
from numawise.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Stranger:
    """A busy thread of another job on CPUs that a job has alone."""

    pid: int
    tid: int
    name: str
    cpu: int
    share: float
    """Of that CPU's time."""
    hold: str = ""
    """The hold it belongs to; '' when none does."""


@dataclass(frozen=True, slots=True)
class ForeignCpus:
    """CPUs that another hold has alone, and that processes of a job may run on nevertheless."""

    holder: str
    """That hold, with its user."""
    cpus: int
    pids: tuple[int, ...]
    """The processes that may run there."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All that was read about a job."""

    processes: tuple[Placed, ...]
    uses: tuple[GpuUse, ...] = ()
    listed: bool = False
    """A driver lists its compute processes, so an open device file alone says nothing."""
    strangers: tuple[Stranger, ...] = ()
    foreign: Mapping[str, str] = field(default_factory=dict)
    """PCI address of a GPU → the other hold that has it."""
    foreign_cpus: tuple[ForeignCpus, ...] = ()
    overlaps: tuple[tuple[int, str], ...] = ()
    """CPUs that another hold has been granted, too, and that hold."""
    fence: str = ""
    """What is to keep the job from GPUs of others: ``rules``, ``variables`` or nothing."""
    fence_stands: bool | None = None
    """Whether the kernel has the rules; None: it may not be asked, or there are to be none."""
    free: Mapping[int, int] = field(default_factory=dict)
    """NUMA id → free bytes."""
    boot: float = 0.0
    """When the machine was started, in seconds since the epoch; 0: not known."""
    ticks: int = 100
    """Clock ticks in a second."""


# --------------------------------------------------------------------------------------------------
# What ``verify`` asks this host besides its processes: the ledger, NVML, the clock, and who is busy.


HERE = Path("/")
GLANCE = 0.25
"""Seconds in which a busy thread shows."""
BUSY = 0.1
"""Share of a CPU from which on a thread is busy."""


def read_ledger(
    environment: Mapping[str, str], settings: HostSettings | None = None, *, needed: bool = True
) -> tuple[tuple[Hold, ...], tuple[str, ...]]:
    """The holds of this host, and remarks; nothing is made where there is no ledger yet.

    ``needed`` is False where they only help; then a ledger that cannot be read becomes a remark.
    """
    try:
        place = ledger_place(environment, settings)
        with Ledger.open(place.folders, machine_id()) as opened_ledger:
            holds = opened_ledger.holds()
            return holds, (*place.warnings, *place.remarks, *opened_ledger.problems)
    except LedgerError as problem:
        if needed:
            raise
        return (), (f"holds are not known: {problem}",)


def load_nvml(hardware: Hardware) -> Any:  # noqa: ANN401 - or a recording
    """NVIDIA's library, ready for use; None where it cannot be used, or there is no GPU of NVIDIA's."""
    if not any(gpu.maker == NVIDIA for gpu in hardware.gpus):
        return None
    from numawise.host.nvml_library import load  # noqa: PLC0415 - only machines with such GPUs need it

    try:
        return load()
    except HostError:
        return None


def boot_time(root: Path) -> float:
    """When the machine was started, in seconds since the epoch; 0 when it is not known."""
    for line in (Tree(root).text("proc/stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "btime" and value.strip().isdecimal():
            return float(value)
    return 0.0


def busy_threads(pids: Sequence[int], seconds: float) -> tuple[Stranger, ...]:
    """Threads of these processes that are busy, the busiest first."""
    before = {brief.tid: brief.ticks for _, brief in read_tasks(HERE, pids) if not brief.kernel}
    began = time.monotonic()
    time.sleep(seconds)
    rate = os.sysconf("SC_CLK_TCK")
    found = []
    for pid, brief in read_tasks(HERE, pids):
        if brief.tid in before and brief.cpu >= 0:
            share = (brief.ticks - before[brief.tid]) / rate / (time.monotonic() - began)
            if share >= BUSY:
                found.append(Stranger(pid, brief.tid, brief.name, brief.cpu, min(share, 1.0)))
    return tuple(sorted(found, key=lambda one: (-one.share, one.tid)))
