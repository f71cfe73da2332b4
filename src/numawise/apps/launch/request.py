"""What a user wants of this machine, read from flags as they are typed.

Rules kept here:

1. Sizes are read by ``quantity.parse_size``: ``64g``, ``64Gi`` and ``64GiB`` mean the same.
2. Whole CPUs are to have alone; a fraction (``0.5``, ``1500m``) runs in the shared pool.
3. What cannot be meant is refused with the flag, the value and what is allowed.
4. A request made like another one has what that one has, except for what is said anew; a number and the ids
   of one kind replace each other.  Names are not taken over.
"""

import re
from collections.abc import Sequence
from enum import Enum

from numawise.errors import InputError, quoted
from numawise.quantity import parse_size
from numawise.results.allotment import Allotment
from numawise.results.placement import BOUND, MEMORY_POLICIES, MemoryPolicy, default_memory_policy
from numawise.rules.model import BEST_EFFORT, NONE, RESTRICTED, SINGLE
from numawise.sets import LARGEST_ID, CpuSet, NumaSet, parse_ids
from numawise.strconv import whole_number
from numawise.values import dataclass, replace

POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE)
LEAST_MEMORY = 1 << 20
"""No program runs in less; who asks for less has forgotten the unit."""
MILLI_CPUS = re.compile(r"([0-9]{1,9})m", re.ASCII)
CPUS = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,9})?", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
GPU_RANGE = re.compile(r"(|[A-Za-z]{1,8})([0-9]{1,4})-(|[A-Za-z]{1,8})([0-9]{1,4})", re.ASCII)
"""``0-3``, and as 'numawise ps' writes it: ``GPU0-3``."""
EVERY_GPU = "all"
MOST_GPUS = 1000


class Exclusive(Enum):
    """What a job shares with nobody, beyond the CPUs and devices that it asks for."""

    NUMA = "numa"
    """The NUMA nodes it is placed on: all their CPUs, memory, GPUs and other devices."""
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What is asked for."""

    cpus: int = 0
    """Thousandths of a CPU; 0: no number given.  With ``cpu_ids``: as many as these."""
    memory: int = 0
    """Bytes; 0: no limit."""
    gpus: int = 0
    gpu_ids: tuple[str, ...] = ()
    """GPUs by index, name, UUID or PCI address, or ``all``; ``gpus`` is 0 then."""
    devices: tuple[tuple[str, int], ...] = ()
    """Other resources and how many of each."""
    nics: int = 0
    policy: str = BEST_EFFORT
    full_cores: bool = False
    name: str = ""
    numa: NumaSet | None = None
    """NUMA nodes that everything has to come from; None: any."""
    cpu_ids: CpuSet | None = None
    """The very CPUs to have alone; None: any."""
    exclusive: Exclusive | None = None
    memory_policy: MemoryPolicy | None = None
    """None: as the topology policy has it (``granted_memory_policy``)."""
    within: Allotment | None = None
    """What it keeps within, whatever else it asks for; None: not looked for yet (``outer``)."""

    @property
    def granted_memory_policy(self) -> MemoryPolicy:
        """How its memory will be kept to its NUMA nodes."""
        if self.within and self.within.mems and not self.memory_policy:
            return BOUND
        return self.memory_policy or default_memory_policy(self.policy)

    @property
    def whole_cpus(self) -> int:
        """CPUs to have alone, as far as a number was given."""
        return self.cpus // 1000 if self.cpus % 1000 == 0 else 0

    @property
    def is_placed(self) -> bool:
        """Whether there is anything to place, beside a process in the shared pool."""
        asked = (self.memory, self.gpus, self.gpu_ids, self.devices, self.nics)
        return self.has_own_cpus or any(asked)

    @property
    def has_own_cpus(self) -> bool:
        """Whether it has CPUs alone, instead of a place in the shared pool."""
        return bool(self.whole_cpus or self.exclusive)


def read_request(
    *,
    cpus: str = "",
    memory: str = "",
    gpus: int | str = 0,
    gpu_ids: str | None = None,
    devices: Sequence[str] = (),
    nics: int = 0,
    policy: str = "",
    full_cores: bool = False,
    name: str = "",
    numa: str = "",
    cpu_ids: str = "",
    exclusive: str = "",
    like: JobRequest | None = None,
    memory_policy: str | None = None,
    ignore_affinity: bool = False,
) -> JobRequest:
    """Read the flags of a launcher; ``like``: what is not said is as in this request (rule 4)."""
    if policy and policy not in POLICIES:
        raise InputError(
            f"unknown policy {quoted(policy)}",
            field="--policy",
            advice=f"choose one of {', '.join(POLICIES)}",
        )
    kept = next((known for known in MEMORY_POLICIES if known == memory_policy), None)
    if memory_policy is not None and kept is None:
        raise InputError(
            f"unknown memory policy {quoted(memory_policy)}",
            field="--memory-policy",
            advice=f"choose one of {', '.join(MEMORY_POLICIES)}",
        )
    base = like or JobRequest()
    request = replace(
        base,
        memory=parse_size(memory, least=LEAST_MEMORY) if memory else base.memory,
        devices=tuple(map(_device, devices)) or base.devices,
        nics=nics or base.nics,
        policy=policy or base.policy,
        full_cores=full_cores or base.full_cores,
        name=_name(name),
        memory_policy=kept or base.memory_policy,
        numa=NumaSet(_ids(numa, "--numa", "NUMA nodes", "1 or 0-1")) if numa else base.numa,
        exclusive=_exclusive(exclusive) if exclusive else base.exclusive,
        within=Allotment() if ignore_affinity else None,
    )
    request = _with_cpus(_with_gpus(request, gpus, gpu_ids), cpus, cpu_ids)
    if request.full_cores and not request.whole_cpus:
        raise InputError(
            "needs whole CPUs to have alone", field="--full-cores", advice="give --cpus a whole number"
        )
    if request.exclusive:
        _check_exclusive(request)
    return request


def _with_cpus(request: JobRequest, cpus: str, cpu_ids: str) -> JobRequest:
    """The request with CPUs by number, or by their ids; a number beside ids has to be theirs."""
    if not cpu_ids:
        return replace(request, cpus=parse_cpus(cpus), cpu_ids=None) if cpus else request
    ids = CpuSet(_ids(cpu_ids, "--cpu-ids", "CPUs", "0-7 or 0-3,64-67"))
    if cpus and parse_cpus(cpus) != len(ids) * 1000:
        raise InputError(
            f"{quoted(cpu_ids)} has {len(ids)} CPUs, not {quoted(cpus)}",
            field="--cpus and --cpu-ids",
            advice="leave --cpus out",
        )
    return replace(request, cpus=len(ids) * 1000, cpu_ids=ids)


def _with_gpus(request: JobRequest, gpus: int | str, gpu_ids: str | None) -> JobRequest:
    """The request with GPUs by number, by name, or all of them."""
    if gpus and gpu_ids:
        raise InputError("cannot be used together", field="--gpus and --gpu-ids", advice="give one of them")
    if gpu_ids is not None:
        return replace(request, gpus=0, gpu_ids=_gpu_list(gpu_ids))
    if isinstance(gpus, int):
        return replace(request, gpus=gpus, gpu_ids=()) if gpus else request
    if gpus == EVERY_GPU:
        return replace(request, gpus=0, gpu_ids=(EVERY_GPU,))
    count = whole_number(gpus) if gpus.isascii() and gpus.isdecimal() else 0
    if not 0 < count <= MOST_GPUS:
        raise InputError(
            f"{quoted(gpus)} is not a number of GPUs",
            field="--gpus",
            advice=f"write a number from 1 to {MOST_GPUS}, or all; which ones: --gpu-ids 0-3",
        )
    return replace(request, gpus=count, gpu_ids=())


def _exclusive(text: str) -> Exclusive:
    try:
        return Exclusive(text)
    except ValueError:
        raise InputError(
            f"{quoted(text)} cannot be held alone", field="--exclusive", advice="write numa or machine"
        ) from None


def _check_exclusive(request: JobRequest) -> None:
    """Refuse what asks for less than whole NUMA nodes."""
    if request.cpu_ids is not None:
        raise InputError(
            "cannot be used together: the whole NUMA nodes have more CPUs than these",
            field="--exclusive and --cpu-ids",
            advice="name the nodes with --numa, or leave --exclusive out",
        )
    if request.cpus and not request.whole_cpus:
        raise InputError(
            "cannot be used together: a fraction of a CPU runs in the pool that jobs share",
            field="--exclusive and --cpus",
            advice="give a whole number, or leave --cpus out",
        )
    if request.exclusive is Exclusive.MACHINE and request.numa is not None:
        raise InputError(
            "cannot be used together: the machine has all its NUMA nodes",
            field="--exclusive machine and --numa",
            advice="write --exclusive numa for these nodes alone",
        )


def parse_cpus(text: str, field: str = "--cpus") -> int:
    """Thousandths of a CPU: ``8``, ``0.5`` or ``1500m``."""
    milli = MILLI_CPUS.fullmatch(text)
    if milli:
        found = whole_number(milli[1])
    elif CPUS.fullmatch(text):
        found = round(float(text) * 1000)
    else:
        raise InputError(
            f"{quoted(text)} is not a number of CPUs", field=field, advice="write 8, 0.5 or 1500m"
        )
    if not 0 < found <= LARGEST_ID * 1000:
        raise InputError(
            f"{quoted(text)} is not a number of CPUs to run on", field=field, advice="ask for more than 0"
        )
    return found


def _ids(text: str, field: str, what: str, example: str) -> int:
    """A packed set of a list that a person typed."""
    try:
        bits = parse_ids(text)
    except ValueError:
        raise InputError(
            f"{quoted(text)} is not a list of {what}", field=field, advice=f"write {example}"
        ) from None
    return bits


def _gpu_list(text: str) -> tuple[str, ...]:
    """GPUs as they are named, ranges written out."""
    entries = [part.strip() for part in text.split(",")]
    if not all(entries):
        raise InputError(
            f"{quoted(text)} has an empty entry", field="--gpu-ids", advice="write 0,1 or 0-3 or GPU-uuid,…"
        )
    names: list[str] = []
    for entry in entries:
        bounds = GPU_RANGE.fullmatch(entry)
        if bounds is None:
            names.append(entry)
            continue
        word, first, last = bounds[1], whole_number(bounds[2]), whole_number(bounds[4])
        if last < first or bounds[3] not in ("", word) or last - first >= MOST_GPUS:
            raise InputError(
                f"{quoted(entry)} is not a range of GPUs",
                field="--gpu-ids",
                advice=f"write the lower number first, as in 0-3, and at most {MOST_GPUS} GPUs",
            )
        names += [f"{word}{number}" for number in range(first, last + 1)]
    if EVERY_GPU in names and len(names) > 1:
        raise InputError(
            f"{quoted(text)} names all GPUs and some of them",
            field="--gpu-ids",
            advice="write all, or the ones you want",
        )
    return tuple(names)


def _device(text: str) -> tuple[str, int]:
    resource, equals, count = text.partition("=")
    if (
        not resource
        or not equals
        or not (count.isascii() and count.isdecimal())
        or not 0 < whole_number(count) <= 1000
    ):
        raise InputError(
            f"{quoted(text)} is not RESOURCE=N", field="--device", advice="write nvme=1, for example"
        )
    return resource, whole_number(count)


def _name(text: str) -> str:
    if text and not NAME.fullmatch(text):
        raise InputError(
            f"{quoted(text)} is not a valid name for a hold",
            field="--name",
            advice="use letters, digits, '-', '_' and '.', at most 63, the first a letter or digit",
        )
    return text
