"""What we were allotted before anybody asked for anything: the mask, memory policy and GPUs of our start.

Rules kept here:

1. A CPU mask narrower than what could be given here (``taskset``, ``numactl``, a batch system, a service) is
   a limit of the job, not of the machine: others are placed as ever.  The mask that the first process of the
   host has, too, is the machine's default (``CPUAffinity`` of systemd) and nobody's allotment.
2. A strict memory policy (``numactl --membind``) is a limit; one that only prefers or interleaves is
   replaced, and that is said.
3. A variable that shows only some GPUs (``CUDA_VISIBLE_DEVICES`` and its like), or in which Slurm lists a
   job's GPUs, is a limit for a job that asks for GPUs.  An empty one is none.
4. Inside of a hold all of these are that hold's, and nobody else's allotment.  A variable that names a hold
   proves nothing: it is left over in a shell (``tmux``, ``screen``) whose job has ended.
5. The limit is kept and said in one line, or dropped on request, and that is said too.
"""

import os
from collections.abc import Mapping, Sequence

from numawise.apps.launch.environment import CUDA, HOLD, LEVEL_ZERO, ROCR, gpu_index
from numawise.apps.launch.request import JobRequest
from numawise.errors import HostError, LedgerError, quoted
from numawise.host import mempolicy
from numawise.host.processes import allowed_of, pid_namespace
from numawise.machine.hardware import AMD, INTEL, NVIDIA, Gpu
from numawise.results.allotment import Allotment
from numawise.results.placement import Capacity, gpu_id, same_device
from numawise.sets import bits_of, parse_ids
from numawise.values import dataclass, replace

SLURM_GPUS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
FIRST_NAMESPACE = 0xEFFFFFFC
"""Number of the pid namespace that a kernel starts with: there, process 1 is the host's own."""
DROP = "--ignore-affinity"


@dataclass(frozen=True, slots=True)
class StartedWith:
    """What a process was started with."""

    mask: int
    """CPUs it may run on."""
    default: bool = False
    """The first process of this host has the same mask."""
    policy: mempolicy.Policy = mempolicy.Policy()
    in_hold: bool = False
    """It is in a hold, whose mask, policy and variables these are."""


def started_with(capacity: Capacity, environment: Mapping[str, str]) -> StartedWith:
    """What this process was started with."""
    mask = bits_of(os.sched_getaffinity(0))
    first = allowed_of(1) if pid_namespace() == FIRST_NAMESPACE and os.getpid() != 1 else None
    try:
        policy = mempolicy.read_mempolicy()
    except HostError:
        policy = mempolicy.Policy()
    inside = bool(environment.get(HOLD)) and _is_in_a_hold(capacity, environment)
    return StartedWith(mask, first is not None and first[0] == mask, policy, inside)


def _is_in_a_hold(capacity: Capacity, environment: Mapping[str, str]) -> bool:
    """Whether the hold that a variable names is ours, lives, and has this process (rule 4)."""
    from numawise.apps.launch.run import open_holdings  # noqa: PLC0415 - for jobs inside of jobs alone
    from numawise.apps.launch.steps import named_hold  # noqa: PLC0415
    from numawise.host.settings import read_settings  # noqa: PLC0415

    try:
        with open_holdings(capacity, environment, read_settings()) as holdings:
            return named_hold(holdings, environment) is not None
    except LedgerError:
        return False  # what cannot be proved is no reason to leave an allotment


def within_outer(
    capacity: Capacity,
    request: JobRequest,
    environment: Mapping[str, str],
    started: StartedWith | None = None,
) -> tuple[Capacity, JobRequest]:
    """The request with what it is to keep within, and the capacity with what to say about that (rule 5)."""
    outer, remarks = outer_allotment(
        capacity, request, environment, started or started_with(capacity, environment)
    )
    if request.within is not None:  # the user said so
        if outer.limits:
            remarks = (*remarks, f"not kept within what this was started with: {outer.words} ({DROP})")
    else:
        request = replace(request, within=outer)
        if outer.limits:
            remarks = (*remarks, f"kept within what this was started with: {outer.words}; {DROP} drops that")
    return replace(capacity, remarks=(*capacity.remarks, *remarks)), request


def outer_allotment(
    capacity: Capacity, request: JobRequest, environment: Mapping[str, str], started: StartedWith
) -> tuple[Allotment, tuple[str, ...]]:
    """What this process was started with, as far as it limits a job, and remarks."""
    if started.in_hold:
        return Allotment(), ()
    mems, remarks = _memory(capacity, started.policy)
    gpus, gpus_by = None, ""
    if request.gpus or request.gpu_ids or request.exclusive:
        gpus, gpus_by, more = _gpus(capacity, environment)
        remarks = (*remarks, *more)
    left_out = capacity.machine.layout.all & ~started.mask
    return Allotment(started.mask if left_out and not started.default else 0, mems, gpus, gpus_by), remarks


def _memory(capacity: Capacity, policy: mempolicy.Policy) -> tuple[int, tuple[str, ...]]:
    """The NUMA nodes of a strict policy that leaves out some with memory (rule 2)."""
    having = bits_of(node.id for node in capacity.machine.numa if node.memory)
    if having.bit_count() < 2:
        return 0, ()
    if policy.mode == mempolicy.BIND:
        return (policy.nodes if having & ~policy.nodes else 0), ()
    if policy.mode not in (mempolicy.DEFAULT, mempolicy.LOCAL):
        return 0, (f"the memory policy that this was started with ({policy}) is replaced by the job's",)
    return 0, ()


def _gpus(
    capacity: Capacity, environment: Mapping[str, str]
) -> tuple[tuple[str, ...] | None, str, tuple[str, ...]]:
    """The GPUs that the environment leaves, the variable that says so, and remarks (rule 3)."""
    from numawise.apps.launch.launchers import HIP, visible_gpus  # noqa: PLC0415 - for jobs with GPUs alone

    makers = {gpu.maker for gpu in capacity.gpus}
    names = [
        *((CUDA,) if NVIDIA in makers else ()),
        *((ROCR, HIP, CUDA) if AMD in makers else ()),
        *((LEVEL_ZERO,) if INTEL in makers else ()),
    ]
    name = next((name for name in names if environment.get(name)), "")
    if name:
        try:
            given = {key: value for key, value in environment.items() if value}
            seen: Sequence[Gpu] = visible_gpus(capacity.hardware, given).gpus
        except HostError as problem:
            advice = f"{problem.advice}, or give {DROP}" if problem.advice else f"give {DROP}"
            raise HostError(problem.message, advice) from None
    else:
        name = next((name for name in SLURM_GPUS if environment.get(name)), "")
        if not name or not capacity.gpus:
            return None, "", ()
        listed = _listed(capacity, environment[name])
        if listed is None:
            text = (
                f"{name}={quoted(environment[name])} names GPUs that are not known here, and is not followed"
            )
            return None, "", (text,)
        seen = listed
    ids = tuple(one for one in capacity.gpu_ids if any(same_device(one, gpu_id(gpu)) for gpu in seen))
    if len(ids) == len(capacity.gpu_ids):
        return None, "", ()
    return ids, f"{name}={environment[name]}", ()


def _listed(capacity: Capacity, text: str) -> Sequence[Gpu] | None:
    """GPUs by number along the bus, as Slurm lists them; None when one of them is not known.

    Where Slurm fences GPUs only its own are seen, under other numbers: with no more than it lists, all are.
    """
    try:
        wanted = parse_ids(text)
    except ValueError:
        return None
    if len(capacity.gpus) <= wanted.bit_count():
        return capacity.gpus
    by_number = bits_of(gpu_index(capacity.hardware, gpu) for gpu in capacity.gpus)
    if wanted & ~by_number:
        return None
    return [gpu for gpu in capacity.gpus if wanted >> gpu_index(capacity.hardware, gpu) & 1]
