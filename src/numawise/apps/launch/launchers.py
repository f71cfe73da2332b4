"""Which rank of a job a process is on this host, by what its launcher put into the environment.

Rules kept here:

1. A launcher is known by its variable for the rank *on this host*; a global rank is never taken for one.
2. Launchers run inside each other (torchrun in srun, mpirun in a batch job).  The one that starts processes
   inside the other's is asked first, so Slurm, whose variables are in every batch script, comes last.
3. The number of ranks comes from the same launcher as the rank, else from the flag; where neither tells it
   stays unknown, and the caller decides.
4. A value that is no number, or a rank that is not below the number of ranks, is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from numawise.errors import InputError

MOST_RANKS = 1 << 16
TASKS = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Launcher:
    """Variables by which a launcher tells a process where it is among those on its host."""

    name: str
    rank: str
    sizes: tuple[str, ...] = ()
    """The first that is set counts."""
    unbound: str = ""
    """How it is told to leave the CPUs of the ranks alone; '' when it does not bind them."""


SLURM = Launcher(
    "srun",
    "SLURM_LOCALID",
    ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"),
    "--cpu-bind=none",
)
LAUNCHERS = (
    Launcher("torchrun", "LOCAL_RANK", ("LOCAL_WORLD_SIZE",)),
    Launcher("Horovod", "HOROVOD_LOCAL_RANK", ("HOROVOD_LOCAL_SIZE",)),
    Launcher(
        "Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK", ("OMPI_COMM_WORLD_LOCAL_SIZE",), "mpirun --bind-to none"
    ),
    Launcher(
        "MVAPICH2", "MV2_COMM_WORLD_LOCAL_RANK", ("MV2_COMM_WORLD_LOCAL_SIZE",), "MV2_ENABLE_AFFINITY=0"
    ),
    Launcher("MVAPICH", "MVP_COMM_WORLD_LOCAL_RANK", ("MVP_COMM_WORLD_LOCAL_SIZE",), "MVP_ENABLE_AFFINITY=0"),
    Launcher("Intel MPI or MPICH", "MPI_LOCALRANKID", ("MPI_LOCALNRANKS",), "mpiexec -bind-to none"),
    Launcher("PALS", "PALS_LOCAL_RANKID", ("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"), "mpiexec --cpu-bind none"),
    Launcher("jsrun", "JSM_NAMESPACE_LOCAL_RANK", ("JSM_NAMESPACE_LOCAL_SIZE",), "jsrun --bind none"),
    Launcher("PMI", "PMI_LOCAL_RANK", ("PMI_LOCAL_SIZE",)),
    Launcher("Flux", "FLUX_TASK_LOCAL_ID", (), "flux run -o cpu-affinity=off"),
    SLURM,
)
"""In the order they are asked (rule 2)."""


@dataclass(frozen=True, slots=True)
class LocalRank:
    """A process among those that its launcher started on this host."""

    rank: int
    size: int | None = None
    """None when nothing tells."""
    variable: str = ""
    """What told the rank; '' when a flag did."""
    launcher: Launcher | None = None


def local_rank(
    environment: Mapping[str, str], *, rank: int | None = None, size: int | None = None, variable: str = ""
) -> LocalRank:
    """Which rank this process is; flags win over the environment."""
    if rank is not None:
        return _checked(LocalRank(rank, size), environment)
    if variable:
        if variable not in environment:
            raise InputError(
                f"the variable {variable} is not set",
                field="--rank-variable",
                advice="give the one in which the launcher puts the rank on this host",
            )
        launcher = next((one for one in LAUNCHERS if one.rank == variable), None)
        return _found(environment, variable, launcher, size)
    for launcher in LAUNCHERS:
        if environment.get(launcher.rank):
            return _found(environment, launcher.rank, launcher, size)
    looked = ", ".join(launcher.rank for launcher in LAUNCHERS)
    raise InputError(
        f"no launcher told this process its rank on this host (looked for {looked})",
        advice="start it by torchrun, mpirun or srun, or give --local-rank, --local-size or --rank-variable",
    )


def is_launched(environment: Mapping[str, str]) -> bool:
    """Whether a launcher told this process its rank."""
    return any(environment.get(launcher.rank) for launcher in LAUNCHERS)


def _found(
    environment: Mapping[str, str], variable: str, launcher: Launcher | None, size: int | None
) -> LocalRank:
    rank = _number(environment[variable], variable)
    if size is None and launcher is not None:
        size = _size(environment, launcher)
    return _checked(LocalRank(rank, size, variable, launcher), environment)


def _checked(found: LocalRank, environment: Mapping[str, str]) -> LocalRank:
    if found.size is None or found.rank < found.size:
        return found
    told = (
        f"{found.variable}={environment[found.variable]}" if found.variable else f"--local-rank {found.rank}"
    )
    raise InputError(
        f"{told} is no rank of {found.size} on this host",
        advice="ranks are counted from 0; check --local-size"
        if found.launcher is None
        else "give --local-size",
    )


def _size(environment: Mapping[str, str], launcher: Launcher) -> int | None:
    for name in launcher.sizes:
        text = environment.get(name, "")
        if text and launcher is SLURM:
            host = _number(environment.get("SLURM_NODEID") or "0", "SLURM_NODEID")
            return tasks_on(text, host, name)
        if text:
            return _number(text, name)
    return None


def tasks_on(text: str, host: int, name: str) -> int | None:
    """Tasks on one host out of Slurm's list such as ``4(x2),3``; None when the list ends before it."""
    at = 0
    for part in text.split(","):
        found = TASKS.fullmatch(part.strip())
        if not found:
            raise InputError(f"{text!r} is no list of tasks per host", field=name, advice="write 4(x2),3")
        at += int(found[2] or 1)
        if host < at:
            return int(found[1])
    return int(text) if text.isdecimal() else None  # SLURM_NTASKS_PER_NODE is one number for all


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) >= MOST_RANKS:
        raise InputError(f"{text!r} is no rank or number of ranks", field=name, advice="give a whole number")
    return int(text)
