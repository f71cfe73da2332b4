"""Variables for a job, out of its placement: GPUs, threads, network cards, and what numawise itself says.

Rules kept here:

1. GPUs are named by UUID; only when one of them has none, all go by index, counted along the PCI bus.  A MIG
   instance has no index, so it needs its UUID.
2. A job without GPUs finds those variables as they were, unless the GPUs are to be hidden.
3. ``OMP_NUM_THREADS`` is the number of cores: the second thread of a core helps loops of arithmetic little.
   In the shared pool it is the CPUs asked for, rounded up; without a number nothing is said.
4. ``OMP_PLACES`` has a place for each core, L3 after L3, and ``GOMP_CPU_AFFINITY`` the same order; both only
   with CPUs of its own, since the shared pool changes.  ``OMP_PROC_BIND`` is ``false`` unless asked for: any
   other value ties the first thread of every process to the first core as soon as the OpenMP library is
   loaded, and all workers and ranks it starts with it.
5. What the user has set stays (threads, places, network cards), except for the GPUs: those the grant
   decides.  ``joined`` does this, and says what it replaced.
6. What ``joined`` set instead of the user is listed in ``NUMAWISE_SET``, with a check sum of each value: a
   launcher inside the job may change it again, unless it was changed in between.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING
from zlib import crc32

from numawise.errors import HostError, quoted
from numawise.machine.hardware import AMD, INTEL, NVIDIA, Gpu, Hardware
from numawise.machine.locality import cores_in, pci_by_address, short_address, whole_gpus
from numawise.machine.nearest import gpus_of
from numawise.results.placement import HOLD_VARIABLE
from numawise.sets import format_ids, ids_of
from numawise.strconv import whole_number
from numawise.values import dataclass

if TYPE_CHECKING:
    from numawise.results.placement import Placement

Variables = tuple[tuple[str, str], ...]

CUDA, CUDA_ORDER, NVIDIA_TOOLKIT = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"
ROCR, LEVEL_ZERO, HIERARCHY = "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY"
THREADS, PLACES, PROC_BIND = "OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND"
GOMP, KMP = "GOMP_CPU_AFFINITY", "KMP_AFFINITY"
NCCL, UCX = "NCCL_IB_HCA", "UCX_NET_DEVICES"
HOLD, STEP, NAME, CPUS, MEMS, GPUS, MODE, SET = (
    HOLD_VARIABLE,
    "NUMAWISE_STEP",
    "NUMAWISE_NAME",
    "NUMAWISE_CPUS",
    "NUMAWISE_MEMS",
    "NUMAWISE_GPUS",
    "NUMAWISE_MODE",
    "NUMAWISE_SET",
)
FREE, SPREAD = "false", "spread"
BOUND_BY = (PLACES, GOMP, KMP)
"""A user who has set one of these has placed the threads himself."""
KEPT = frozenset({THREADS, PLACES, PROC_BIND, GOMP, NCCL, UCX})
"""Of these the user's own value wins."""
COUNTED_AFTER = {
    ROCR: ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    LEVEL_ZERO: ("ONEAPI_DEVICE_SELECTOR",),
}
"""Variables that count within what the first one leaves: an old value would mean other GPUs, or none."""
TILED = range(0x0BD0, 0x0BF0)
"""Intel's Max series: several tiles on a card, which are counted instead of cards by default."""


def job_environment(
    placement: "Placement",
    hold: str,
    name: str,
    hardware: Hardware,
    *,
    proc_bind: str = FREE,
    hide_gpus: bool = False,
) -> Variables:
    """All variables that a job with this placement gets, whatever it had before."""
    own = placement.grant.cpus
    found = [
        *visible(hardware, placement.gpus),
        *(hidden(hardware, placement.gpus) if hide_gpus else ()),
        *(own_threads(hardware, own, proc_bind) if own else pool_threads(placement.grant.cpu_limit)),
        *network(nic.hca for nic in placement.nics),
        (HOLD, hold),
        (NAME, name),
    ]
    if own:
        found.append((CPUS, format_ids(own)))
    if placement.mems:
        found.append((MEMS, format_ids(placement.mems)))
    if placement.gpus:
        found.append((GPUS, ",".join(gpu.uuid or gpu.address or gpu.name for gpu in placement.gpus)))
    return tuple(found)


def visible(hardware: Hardware, gpus: Iterable[Gpu]) -> Variables:
    """What shows these GPUs to a job, and no others of their makers (rule 1)."""
    by_maker: dict[int | None, list[Gpu]] = {}
    for gpu in gpus:
        by_maker.setdefault(gpu.maker, []).append(gpu)
    found: list[tuple[str, str]] = []
    for who, some in by_maker.items():
        if who == AMD:
            found.append((ROCR, ",".join(_ids(hardware, some, "GPU-"))))
        elif who == INTEL:
            found += _level_zero(hardware, some)
        elif who == NVIDIA:
            ids = ",".join(_ids(hardware, some, "GPU-", "MIG-"))
            if not all(gpu.uuid for gpu in some):
                found.append((CUDA_ORDER, "PCI_BUS_ID"))
            found += [(CUDA, ids), (NVIDIA_TOOLKIT, ids)]
    return tuple(found)


def hidden(hardware: Hardware, granted: Iterable[Gpu] = ()) -> Variables:
    """What hides the GPUs of this machine from a job that has none of their maker."""
    makers = {gpu.maker for gpu in gpus_of(hardware)} - {gpu.maker for gpu in granted}
    found: list[tuple[str, str]] = []
    if NVIDIA in makers:
        found += [(CUDA, ""), (NVIDIA_TOOLKIT, "void")]
    if AMD in makers:
        found.append((ROCR, ""))
    return tuple(found)


def gpu_index(hardware: Hardware, gpu: Gpu) -> int:
    """Number of a whole GPU among those of its maker, along the PCI bus."""
    who = gpu.maker
    every = whole_gpus(hardware) or gpus_of(hardware)
    alike = [one for one in every if one.maker == who]
    if gpu.address and all(one.address for one in alike):
        mine = short_address(gpu.address)
        return sorted({mine, *(short_address(one.address) for one in alike)}).index(mine)
    names = [one.name for one in alike]
    if gpu.name in names:
        return names.index(gpu.name)
    digits = gpu.name.removeprefix("GPU")
    return whole_number(digits) if digits.isdecimal() else 0


def _ids(hardware: Hardware, gpus: Iterable[Gpu], *prefixes: str) -> list[str]:
    some = tuple(gpus)
    if all(gpu.uuid.startswith(prefixes) for gpu in some):
        return [gpu.uuid for gpu in some]
    for gpu in some:
        if gpu.parent and not gpu.uuid:
            raise HostError(
                f"the UUID of the MIG instance {gpu.name} is not known, and CUDA takes nothing else for it",
                advice="run 'numawise doctor' to see why NVML does not report it",
            )
        if gpu.parent:
            raise HostError(
                f"the MIG instance {gpu.name} goes by UUID and another GPU of the job has none",
                advice="run 'numawise doctor' to see why NVML does not report it",
            )
    return [str(gpu_index(hardware, gpu)) for gpu in some]


def _level_zero(hardware: Hardware, gpus: Iterable[Gpu]) -> Variables:
    some = tuple(gpus)
    mask = (LEVEL_ZERO, ",".join(str(gpu_index(hardware, gpu)) for gpu in some))
    devices = pci_by_address(hardware)
    tiled = any(
        (device := devices.get(short_address(gpu.address))) is not None and device.device in TILED
        for gpu in some
    )
    return ((HIERARCHY, "COMPOSITE"), mask) if tiled else (mask,)


def own_threads(hardware: Hardware, cpus: int, proc_bind: str = FREE, threads: int = 0) -> Variables:
    """OpenMP's variables for CPUs that a job has alone (rules 3 and 4); ``threads`` 0: a thread per core."""
    cores = cores_of(hardware, cpus)
    order = [next(ids_of(core)) for core in cores]
    order += [cpu for core in cores for cpu in ids_of(core & core - 1)]
    return (
        (THREADS, str(threads or len(cores))),
        (PLACES, ",".join("{" + ",".join(map(str, ids_of(core))) + "}" for core in cores)),
        (PROC_BIND, proc_bind),
        (GOMP, _runs(order)),
    )


def _runs(cpus: Iterable[int]) -> str:
    """CPUs in their order, neighbours as a range: ``0-3,8,5``."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and parts[-1][-1] + 1 == cpu:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)


def pool_threads(limit: int) -> Variables:
    """OpenMP's variables in the shared pool, for a number of thousandths of a CPU (rule 3)."""
    return ((THREADS, str(-(-limit // 1000))),) if limit else ()


def cores_of(hardware: Hardware, cpus: int) -> tuple[int, ...]:
    """Cores of a set of CPUs, each as its CPUs there, L3 after L3; a CPU of an unknown core is a core."""
    cores = cores_in(hardware, cpus)
    rest = cpus
    for core in cores:
        rest &= ~core
    return (*cores, *(1 << cpu for cpu in ids_of(rest)))


def network(hcas: Iterable[str], shared: Iterable[str] = ()) -> Variables:
    """Variables for RDMA devices; NCCL wants the same on all ranks of a host: ``shared``, if given."""
    mine = list(dict.fromkeys(hca for hca in hcas if hca))
    every = list(dict.fromkeys(hca for hca in shared if hca)) or mine
    found: list[tuple[str, str]] = []
    if every:
        found.append((NCCL, "=" + ",".join(every)))
    if mine:
        found.append((UCX, ",".join(f"{hca}:1" for hca in mine)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Joined:
    """The environment a job starts with, and what to say about it."""

    environment: Mapping[str, str]
    remarks: tuple[str, ...] = ()


def joined(inherited: Mapping[str, str], ours: Variables) -> Joined:
    """Put our variables into an environment; who wins is rule 5."""
    found = without_ours(inherited)
    given = frozenset(found)
    placed = any(name in given for name in BOUND_BY)
    remarks: list[str] = []
    marks = []
    for name, value in ours:
        if name in KEPT and (name in given or (placed and name in (PLACES, GOMP, PROC_BIND))):
            continue
        if name in KEPT:
            marks.append(_mark(name, value))
        elif name in given and found[name] != value and not name.startswith(("NUMAWISE_", NVIDIA_TOOLKIT)):
            remarks.append(
                f"{name} was {quoted(found[name])} and is {quoted(value)} for the job: "
                "the grant decides its GPUs"
            )
        for other in COUNTED_AFTER.get(name, ()):
            if other in found and all(other != one for one, _ in ours):
                del found[other]
                remarks.append(f"{other} is not passed on: it would count within {name}")
        found[name] = value
    _drop_stale(found, {name for name, _ in ours})
    if marks:
        found[SET] = ",".join(marks)
    return Joined(found, tuple(remarks))


def _drop_stale(environment: dict[str, str], ours: Collection[str]) -> None:
    """Take out what an enclosing hold, or step, said of itself and the new one does not say."""
    stale = (CPUS,) if STEP in ours else (STEP, CPUS, GPUS) if HOLD in ours else ()
    for name in stale:
        if name not in ours:
            environment.pop(name, None)


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what ``joined`` set in place of the user (rule 6)."""
    marks = environment.get(SET, "").split(",")
    return {
        name: value
        for name, value in environment.items()
        if name != SET and not (name in KEPT and _mark(name, value) in marks)
    }


def _mark(name: str, value: str) -> str:
    return f"{name}:{crc32(os.fsencode(value)):08x}"
