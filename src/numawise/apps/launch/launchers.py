"""Which rank of a job a process is on this host, by what its launcher put into the environment.

Rules kept here:

1. A launcher is known by its variable for the rank *on this host*; a global rank is never taken for one.
2. Launchers run inside each other (torchrun in srun, mpirun in a batch job).  The one that starts processes
   inside the other's is asked first, so Slurm, whose variables are in every batch script, comes last.
3. The number of ranks comes from the same launcher as the rank, else from the flag; where neither gives it
   stays unknown, and the caller decides.
4. A value that is not a number, or a rank that is not below the number of ranks, is refused.
5. A Ray worker (``RAY_RAYLET_PID``) has no rank: it goes by the GPUs that Ray shows it, as rank *i* of *n*
   for the *i*-th of the host's *n* GPUs.  Ray's daemon passes on the variables of what started it, so only
   torchrun's and Horovod's, which Ray Train sets in the worker itself, win over that.
"""

import re
from collections.abc import Mapping, Sequence

from numawise.apps.launch.environment import CUDA, CUDA_ORDER, GPUS, HOLD, LEVEL_ZERO, ROCR, gpu_index
from numawise.errors import HostError, InputError, quoted
from numawise.machine.hardware import AMD, INTEL, NVIDIA, Gpu, Hardware
from numawise.machine.locality import short_address, whole_gpus
from numawise.machine.nearest import chip_of, gpus_of
from numawise.strconv import whole_number
from numawise.values import dataclass

MOST_RANKS = 1 << 16
RAY = "RAY_RAYLET_PID"
TASKS = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Launcher:
    """Variables in which a launcher passes a process its place among those on its host."""

    name: str
    rank: str
    sizes: tuple[str, ...] = ()
    """The first that is set counts."""
    unbound: str = ""
    """The option that makes it leave the CPUs of the ranks alone; '' when it does not bind them."""


SLURM = Launcher(
    "srun",
    "SLURM_LOCALID",
    ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"),
    "--cpu-bind=none",
)
LAUNCHERS = (
    Launcher("torchrun", "LOCAL_RANK", ("LOCAL_WORLD_SIZE", "LOCAL_SIZE")),  # the second is DeepSpeed's
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
    """None when it is not known."""
    variable: str = ""
    """The variable that gave the rank; '' when a flag did."""
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
        f"no launcher gave this process a rank on this host (looked for {looked})",
        advice="start it with torchrun, mpirun, srun or Ray, or give --local-rank, --local-size or "
        "--rank-variable",
    )


def is_ray_worker(environment: Mapping[str, str]) -> bool:
    """Whether this process is Ray's, and nothing inside Ray gave it a rank (rule 5)."""
    inside = any(environment.get(launcher.rank) for launcher in LAUNCHERS[:2])
    return bool(environment.get(RAY)) and not inside


def is_launched(environment: Mapping[str, str]) -> bool:
    """Whether a launcher gave this process a rank."""
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
    source = (
        f"{found.variable}={environment[found.variable]}" if found.variable else f"--local-rank {found.rank}"
    )
    raise InputError(
        f"{source} is not a rank: this host has {found.size}, counted from 0",
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
            raise InputError(
                f"{quoted(text)} is not a list of tasks per host", field=name, advice="write 4(x2),3"
            )
        at += whole_number(found[2] or "1")
        if host < at:
            return whole_number(found[1])
    return whole_number(text) if text.isdecimal() else None  # SLURM_NTASKS_PER_NODE is one number for all


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal()) or whole_number(text) >= MOST_RANKS:
        raise InputError(
            f"{quoted(text)} is not a rank or a number of ranks", field=name, advice="give a whole number"
        )
    return whole_number(text)


# --------------------------------------------------------------------------------------------------
# Which GPUs a process will see, in its own order, by the variables that hide and reorder them.
#
# Rules kept here:
#
# 1. NVIDIA: ``CUDA_VISIBLE_DEVICES`` lists indices, UUIDs or beginnings of UUIDs, and MIG instances; the list
#    ends at the first entry that is none of the machine's.  An empty list shows no GPU.
# 2. AMD: ``ROCR_VISIBLE_DEVICES`` lists indices or UUIDs; ``HIP_VISIBLE_DEVICES``, or
#    ``CUDA_VISIBLE_DEVICES``, counts within what that leaves.  Intel: ``ZE_AFFINITY_MASK`` lists cards, with
#    or without a tile.
# 3. Without these a hold's ``NUMAWISE_GPUS`` counts, and without that all GPUs of the machine.
# 4. An unknown UUID is not guessed: without the driver's library the GPU cannot be found, and that is
#    an error.  An index is counted along the PCI bus; where that may be wrong, a remark says so.
# 5. DeepSpeed with ``--num_gpus`` shows its ranks the first GPUs of the machine, whatever it was shown.  So
#    where a list has a GPU outside of the hold, the hold's GPUs take its place; a part of them stays.


HIP = "HIP_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Visible:
    """GPUs in the order a process sees them."""

    gpus: tuple[Gpu, ...]
    variable: str = ""
    """Variable that chose them; '': they are all of the machine's."""
    remarks: tuple[str, ...] = ()


def host_gpus(hardware: Hardware, environment: Mapping[str, str]) -> Visible:
    """The GPUs that all processes of the job on this host see together: the hold's, else all."""
    hiding = (CUDA, ROCR, HIP, LEVEL_ZERO)
    return visible_gpus(hardware, {name: value for name, value in environment.items() if name not in hiding})


def rank_gpus(hardware: Hardware, environment: Mapping[str, str]) -> tuple[Visible, bool]:
    """The GPUs that a rank is to see, and whether its variables must be set for that (rule 5)."""
    seen = visible_gpus(hardware, environment)
    if not environment.get(HOLD) or not environment.get(GPUS) or seen.variable in ("", GPUS):
        return seen, False
    held = host_gpus(hardware, environment)
    chips = {chip_of(gpu) for gpu in held.gpus}
    if not chips or all(chip_of(gpu) in chips for gpu in seen.gpus):
        return seen, False
    return held, True


def visible_gpus(hardware: Hardware, environment: Mapping[str, str]) -> Visible:
    """The GPUs that a process with this environment will see."""
    every = gpus_of(hardware)
    makers = [gpu.maker for gpu in every]
    who = next((one for one in (NVIDIA, AMD, INTEL) if one in makers), 0)
    variables = {NVIDIA: (CUDA,), AMD: (ROCR, HIP, CUDA), INTEL: (LEVEL_ZERO,)}.get(who, ())
    seen = next((name for name in variables if name in environment), "")
    if not seen:
        if who and environment.get(GPUS):
            return _listed(hardware, every, GPUS, environment[GPUS])
        named = next((name for name in (CUDA, ROCR, LEVEL_ZERO, GPUS) if environment.get(name)), "")
        remark = (
            f"{named}={environment[named]} names GPUs, but none is known here" if named and not who else ""
        )
        return Visible(every, remarks=(remark,) if remark else ())
    alike = tuple(gpu for gpu, one in zip(every, makers, strict=True) if one == who)
    if who == NVIDIA:
        found = _listed(hardware, alike, CUDA, environment[CUDA])
        return Visible(found.gpus, CUDA, found.remarks + _order(hardware, environment))
    if who == AMD:
        return _amd(hardware, alike, environment)
    cards = [entry.partition(".")[0] for entry in environment[LEVEL_ZERO].split(",")]
    return _listed(hardware, alike, LEVEL_ZERO, ",".join(dict.fromkeys(cards)))


def _amd(hardware: Hardware, alike: Sequence[Gpu], environment: Mapping[str, str]) -> Visible:
    first = Visible(tuple(alike))
    if ROCR in environment:
        first = _listed(hardware, alike, ROCR, environment[ROCR])
    inner = next((name for name in (HIP, CUDA) if name in environment), "")
    if not inner:
        return first
    gpus = []
    for entry in environment[inner].split(","):
        if not entry.strip().isdecimal() or whole_number(entry) >= len(first.gpus):
            break
        gpus.append(first.gpus[whole_number(entry)])
    return Visible(tuple(gpus), inner, first.remarks)


def _listed(hardware: Hardware, gpus: Sequence[Gpu], name: str, text: str) -> Visible:
    found: list[Gpu] = []
    remarks = []
    for entry in (part.strip() for part in text.split(",")):
        gpu = _one(hardware, gpus, entry)
        if gpu is None:
            if entry.startswith(("GPU-", "MIG-")) and not any(one.uuid for one in gpus):
                raise HostError(
                    f"{name} names {entry}, and the UUIDs of this machine's GPUs are not known",
                    advice="run 'numawise doctor' to see why NVML does not report them",
                )
            if entry and entry not in ("-1", "NoDevFiles"):
                remarks.append(
                    f"{name}: {quoted(entry)} is not a GPU of this machine; "
                    "it and the entries after it are ignored"
                )
            break
        found.append(gpu)
    return Visible(tuple(found), name, tuple(remarks))


def _one(hardware: Hardware, gpus: Sequence[Gpu], entry: str) -> Gpu | None:
    whole = [gpu for gpu in whole_gpus(hardware) or gpus if not gpu.parent]
    every = [*gpus, *(gpu for gpu in whole if gpu not in gpus)]
    if entry.isascii() and entry.isdecimal():
        alike = [gpu for gpu in whole if gpus and gpu.maker == gpus[0].maker]
        return next((gpu for gpu in alike if gpu_index(hardware, gpu) == whole_number(entry)), None)
    if entry.startswith("MIG-GPU-"):  # MIG-<UUID of the GPU>/<GPU instance>/<compute instance>
        entry = entry.removeprefix("MIG-").partition("/")[0]
    if entry.startswith(("GPU-", "MIG-")):
        fits = [gpu for gpu in every if gpu.uuid.startswith(entry)]
        return fits[0] if len(fits) == 1 or any(gpu.uuid == entry for gpu in fits) else None
    same = [gpu for gpu in every if entry == gpu.name]
    same += [
        gpu for gpu in every if entry and gpu.address and short_address(gpu.address) == short_address(entry)
    ]
    return same[0] if same else None


def _order(hardware: Hardware, environment: Mapping[str, str]) -> tuple[str, ...]:
    """A doubt where CUDA may count otherwise than along the bus."""
    by_index = any(entry.strip().isdecimal() for entry in environment[CUDA].split(","))
    models = {gpu.model for gpu in whole_gpus(hardware) if gpu.maker == NVIDIA}
    if by_index and len(models) > 1 and environment.get(CUDA_ORDER) != "PCI_BUS_ID":
        doubt = f"{CUDA} counts the fastest GPU first on a machine with different ones"
        return (f"{doubt}; set {CUDA_ORDER}=PCI_BUS_ID to count along the bus, as is done here",)
    return ()
