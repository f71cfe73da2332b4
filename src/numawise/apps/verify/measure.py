"""What alignment is worth for a job, measured: memory from its CPUs, and copies to its GPUs.

Rules kept here:

1. Each NUMA node that the job runs on is measured from one of its CPUs, to every node with memory; one core
   alone does not fill a node's memory channels, so only the ratios between nodes matter.
2. Ratios are to local memory, of the same run.  A job that runs meanwhile makes all figures smaller.
3. All of it takes about five seconds, and a second more for each GPU that CUDA has to be started on.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numawise.errors import HostError
from numawise.host.bandwidth import CopyRate, Rate, buffer_size, measure_copies, measure_memory
from numawise.machine.hardware import NVIDIA, Gpu, Hardware
from numawise.machine.locality import cpus_by_numa, memory_near, pci_by_address, short_address
from numawise.machine.nearest import GpuPlace, gpus_of, placed_gpus
from numawise.results.verification import CheckedJob
from numawise.sets import bits_of, ids_of
from numawise.values import dataclass

BUDGET = 2.5
"""Seconds of reading and copying, all NUMA nodes together; and for all GPUs together half as much."""
MEMORY_COLUMNS = ("CPU", "MEMORY", "READ", "COPY", "OF LOCAL", "")
COPY_COLUMNS = ("GPU", "MEMORY", "TO GPU", "FROM GPU", "OF LOCAL", "")
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class FromCpu:
    """Rates from one CPU."""

    cpu: int
    numa: int
    near: int
    """NUMA nodes whose memory is local to it, packed."""
    rates: tuple[Rate, ...]


@dataclass(frozen=True, slots=True)
class ToGpu:
    """Rates between host memory and one GPU."""

    gpu: str
    near: int
    cpu: int
    rates: tuple[CopyRate, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """All figures of a job."""

    memory: tuple[FromCpu, ...] = ()
    gpus: tuple[ToGpu, ...] = ()
    granted: int = 0
    """NUMA nodes that its memory may come from, packed; 0: it has no hold."""
    remarks: tuple[str, ...] = ()


def measure(hardware: Hardware, check: CheckedJob, free: Mapping[int, int]) -> Measured:
    """Measure for one job."""
    cpus = check.wanted.cpus if check.wanted else check.verdict.cpus
    starts = _starts(hardware, cpus)
    budget = BUDGET
    memory = tuple(
        FromCpu(
            cpu, numa, memory_near(hardware, 1 << numa), _rates(hardware, cpu, free, budget / len(starts))
        )
        for numa, cpu in starts.items()
    )
    gpus, remarks = _gpus(hardware, check)
    each = budget / 2 / max(len(gpus), 1)
    copies = tuple(_copies(hardware, place, starts, free, each) for place in gpus)
    granted = check.wanted.mems if check.wanted else 0
    return Measured(memory, copies, granted, tuple(remarks))


def _starts(hardware: Hardware, cpus: int) -> dict[int, int]:
    """NUMA node → the lowest of the job's CPUs there."""
    found = {numa: next(ids_of(own & cpus)) for numa, own in cpus_by_numa(hardware).items() if own & cpus}
    return found or ({0: next(ids_of(cpus))} if cpus else {})


def _sizes(hardware: Hardware, cpu: int, free: Mapping[int, int]) -> tuple[list[tuple[int, int]], list[int]]:
    """NUMA nodes with room for a buffer and its bytes, and those without room."""
    cache = max((t.l3.size or 0 for t in hardware.threads if t.cpu == cpu and t.l3), default=0)
    sizes, short = [], []
    for node in hardware.numa:
        if node.memory == 0:
            continue
        size = buffer_size(cache, free.get(node.id, node.memory or 0))
        if size:
            sizes.append((node.id, size))
        else:
            short.append(node.id)
    if not hardware.numa:
        sizes.append((-1, buffer_size(cache, hardware.memory_capacity or 0) or 16 << 20))
    return sizes, short


def _rates(hardware: Hardware, cpu: int, free: Mapping[int, int], budget: float) -> tuple[Rate, ...]:
    sizes, short = _sizes(hardware, cpu, free)
    found = measure_memory(cpu, sizes, budget) if sizes else ()
    return (*found, *(Rate(numa, problem="too little memory is free there") for numa in short))


def _gpus(hardware: Hardware, check: CheckedJob) -> tuple[list[GpuPlace], list[str]]:
    """The GPUs of a job that copies can be timed to, and what to say about others."""
    wanted = {short_address(gpu.address) for gpu in check.verdict.gpus if gpu.address}
    wanted |= set(check.wanted.gpus) if check.wanted else set()
    if not gpus_of(hardware):
        return [], ["no GPU on this machine: copies to one are not timed"]
    found, remarks, seen = [], [], set()
    devices = pci_by_address(hardware)
    for place in placed_gpus(hardware):
        address = short_address(place.gpu.address)
        if address not in wanted or address in seen:
            continue
        seen.add(address)
        device = devices.get(address)
        if place.gpu.uuid.startswith(("GPU-", "MIG-")) or (device is not None and device.vendor == NVIDIA):
            found.append(place)
        else:
            remarks.append(f"{place.gpu.name}: copies are timed through CUDA only")
    if not found and not remarks:
        remarks.append("the job uses no GPU: copies to one are not timed")
    return found, remarks


def _copies(
    hardware: Hardware, place: GpuPlace, starts: Mapping[int, int], free: Mapping[int, int], budget: float
) -> ToGpu:
    near = place.near & bits_of(starts)
    cpu = starts[next(ids_of(near))] if near else min(starts.values())
    sizes, _ = _sizes(hardware, cpu, free)
    if not sizes:
        return ToGpu(place.gpu.name, place.near, cpu, problem="too little memory is free")
    gpu: Gpu = place.gpu
    try:
        rates = measure_copies(gpu.address, gpu.uuid, cpu, sizes, budget)
    except HostError as problem:
        return ToGpu(gpu.name, place.near, cpu, problem=problem.message)
    return ToGpu(gpu.name, place.near, cpu, rates)


def memory_rows(measured: Measured) -> list[tuple[str, ...]]:
    """Rates of memory in rows."""
    rows: list[tuple[str, ...]] = []
    for start in measured.memory:
        local = _best(rate.read for rate in start.rates if start.near >> max(rate.numa, 0) & 1)
        for rate in start.rates:
            words = [*(["local"] if start.near >> max(rate.numa, 0) & 1 else [])]
            words += ["granted"] if rate.numa >= 0 and measured.granted >> rate.numa & 1 else []
            rows.append(
                (
                    f"{start.cpu} (NUMA {start.numa})",
                    _place(rate.numa),
                    rate_text(rate.read),
                    rate_text(rate.copy),
                    _ratio(rate.read, local),
                    rate.problem or ", ".join(words),
                )
            )
    return rows


def copy_rows(measured: Measured) -> list[tuple[str, ...]]:
    """Rates of copies in rows."""
    rows: list[tuple[str, ...]] = []
    for gpu in measured.gpus:
        name = f"{gpu.gpu} (NUMA {','.join(map(str, ids_of(gpu.near)))})" if gpu.near else gpu.gpu
        if gpu.problem:
            rows.append((name, "-", "-", "-", "-", gpu.problem))
        local = _best(rate.to_gpu for rate in gpu.rates if rate.numa >= 0 and gpu.near >> rate.numa & 1)
        for rate in gpu.rates:
            words = [*(["near the GPU"] if rate.numa >= 0 and gpu.near >> rate.numa & 1 else [])]
            words += ["granted"] if rate.numa >= 0 and measured.granted >> rate.numa & 1 else []
            rows.append(
                (
                    name,
                    _place(rate.numa),
                    rate_text(rate.to_gpu),
                    rate_text(rate.from_gpu),
                    _ratio(rate.to_gpu, local),
                    rate.problem or ", ".join(words),
                )
            )
    return rows


def measured_data(measured: Measured) -> dict[str, Any]:
    """All figures as plain data; rates are bytes per second."""
    return {
        "memory": [
            {
                "cpu": start.cpu,
                "numa": start.numa,
                "local": list(ids_of(start.near)),
                "rates": list(_rate_data(start)),
            }
            for start in measured.memory
        ],
        "gpus": [
            {
                "gpu": gpu.gpu,
                "numa": list(ids_of(gpu.near)),
                "cpu": gpu.cpu,
                **({"problem": gpu.problem} if gpu.problem else {}),
                "rates": list(_copy_data(gpu.rates)),
            }
            for gpu in measured.gpus
        ],
        "remarks": list(measured.remarks),
    }


def _rate_data(start: FromCpu) -> Iterator[dict[str, Any]]:
    for rate in start.rates:
        figures = (
            {"problem": rate.problem}
            if rate.problem
            else {"read": round(rate.read), "copy": round(rate.copy)}
        )
        yield {"numa": rate.numa, **figures}


def _copy_data(rates: Sequence[CopyRate]) -> Iterator[dict[str, Any]]:
    for rate in rates:
        figures = {"toGpu": round(rate.to_gpu), "fromGpu": round(rate.from_gpu)}
        yield {"numa": rate.numa, **({"problem": rate.problem} if rate.problem else figures)}


def rate_text(rate: float) -> str:
    """A rate as ``11.2 GiB/s``."""
    return f"{rate / GIB:.1f} GiB/s" if rate else "-"


def _ratio(rate: float, local: float) -> str:
    return f"{rate / local:.0%}".replace("%", " %") if rate and local else "-"


def _best(rates: Iterator[float]) -> float:
    return max(rates, default=0.0)


def _place(numa: int) -> str:
    return f"NUMA {numa}" if numa >= 0 else "anywhere"
