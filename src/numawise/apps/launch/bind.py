"""Binding one rank of a job to its GPU's part of the machine: what to do first as a value, then done.

Rules kept here:

1. What the ranks may share is the hold this runs in, within what the kernel allows; without a hold, what this
   process may use.
2. ``OMP_NUM_THREADS`` is the rank's part of the cores.  A number that the user has set stays; the one that
   ``numawise run`` set for the whole job, and the 1 that torchrun sets, do not.
3. Places for threads are given only where no other rank has the same CPUs.
4. ``UCX_NET_DEVICES`` names the network cards nearest to the rank's GPU.  ``NCCL_IB_HCA`` must be the same on
   all ranks of a host, so it names the cards of all of them, and is left alone when the ranks see different
   GPUs.  ``CUDA_VISIBLE_DEVICES`` stays, since ranks count within it, unless one GPU is options for.
5. Memory is bound strictly: pages that do not fit push out cached files of these NUMA nodes rather than land
   elsewhere.  Where the kernel refuses and it was not options for by name, a remark says so.
"""

import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from numawise.apps.launch.environment import (
    CPUS,
    FREE,
    GOMP,
    GPUS,
    HOLD,
    KMP,
    MEMS,
    NCCL,
    PROC_BIND,
    THREADS,
    UCX,
    Joined,
    cores_of,
    joined,
    network,
    own_threads,
    visible,
    without_ours,
)
from numawise.apps.launch.launchers import (
    LocalRank,
    Visible,
    host_gpus,
    is_launched,
    is_ray_worker,
    visible_gpus,
)
from numawise.apps.launch.launchers import (
    local_rank as launched_rank,
)
from numawise.apps.launch.ranks import (
    MODES,
    RankCpus,
    RankShare,
    Shares,
    TooFew,
    cpus_of_ranks,
    divide,
    joined_share,
    own_share,
)
from numawise.errors import HostError, InputError, quoted
from numawise.host import mempolicy
from numawise.host.child import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    PYTHON_IGNORES,
    CannotStart,
    exec_program,
    find_command,
)
from numawise.host.discover import read_live
from numawise.host.processes import allowed_of, launcher_cpus, set_affinity
from numawise.machine.hardware import Hardware
from numawise.machine.locality import cpus_by_numa
from numawise.results.placement import RankBinding
from numawise.sets import bits_of, format_ids, ids_of, parse_ids
from numawise.values import dataclass, replace

BIND, PREFERRED, OFF = "bind", "preferred", "off"
ALL, ONE = "all", "one"
FLAG = re.compile(r"--([a-z][a-z-]+)", re.ASCII)
TORCHRUN = "TORCHELASTIC_RUN_ID"


@dataclass(frozen=True, slots=True)
class BindOptions:
    """What the flags say."""

    by: str = ""
    threads: int = 0
    one_gpu: bool = False
    cpus: str | None = None
    rank: int | None = None
    size: int | None = None
    variable: str = ""
    machine: tuple[str, ...] = ()
    """Another machine than this one, as it is named."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the ranks of this host get."""

    hardware: Hardware
    shares: Shares
    size: int
    rank: int | None = None
    """Which of them this process is, where that is known."""
    same_gpus: bool = True
    """All ranks see the same GPUs."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How one rank starts."""

    share: RankShare
    environment: Mapping[str, str]
    remarks: tuple[str, ...] = ()


def prepare(options: BindOptions, environment: Mapping[str, str], *, all_ranks: bool) -> Prepared | TooFew:
    """Find out what the ranks get; ``all_ranks``: of every one, and none of them needs to be this process."""
    if not all_ranks and options.rank is None and not options.variable and is_ray_worker(environment):
        return _ray_worker(options, environment)
    found = None
    if not all_ranks or options.rank is not None or options.variable or is_launched(environment):
        found = launched_rank(environment, rank=options.rank, size=options.size, variable=options.variable)
    hardware = _other(options.machine) if options.machine else read_live()
    seen = visible_gpus(hardware, environment)
    room = cpus_on(hardware) if options.machine else cpus_here(hardware, environment, found, os.getpid())
    if not room.cpus:
        advice = "add a print that lists them, such as lscpu -e"
        raise InputError("the machine's CPUs are not known", field="--machine", advice=advice)
    if options.cpus is not None:
        room = within(room, options.cpus)
    size = ranks_meant(found, options.size, seen, len(cpus_by_numa(hardware)))
    rank = found.rank if found else None
    own = room.divided and rank is not None and not all_ranks
    shares = (
        own_share(hardware, room, seen.gpus, rank or 0)
        if own
        else divide(hardware, room, seen.gpus, size, options.by)
    )
    if isinstance(shares, TooFew):
        return shares
    shares = replace(shares, remarks=(*seen.remarks, *room.remarks, *shares.remarks))
    return Prepared(hardware, shares, size, rank, same_gpus=len(seen.gpus) > 1 or size == 1)


def _ray_worker(options: BindOptions, environment: Mapping[str, str]) -> Prepared | TooFew:
    """What a Ray worker gets: the part of each GPU that Ray shows it, as if every GPU had its rank."""
    hardware = _other(options.machine) if options.machine else read_live()
    every = host_gpus(hardware, environment)
    seen = visible_gpus(hardware, environment)
    if seen.variable in ("", GPUS) or not seen.gpus:
        raise InputError(
            "Ray shows this worker no GPU, so its place on this host is unknown",
            advice="give the task or actor num_gpus, or give --local-rank and --local-size",
        )
    names = [gpu.name for gpu in every.gpus]
    ranks = [names.index(gpu.name) for gpu in seen.gpus if gpu.name in names]
    if not ranks:
        raise InputError(
            f"none of the GPUs in {seen.variable}={environment.get(seen.variable, '')} belongs to the hold",
            advice="start Ray inside 'numawise run', or give --local-rank and --local-size",
        )
    cpus = cpus_on(hardware) if options.machine else cpus_here(hardware, environment, None, os.getpid())
    if options.cpus is not None:
        cpus = within(cpus, options.cpus)
    shares = divide(hardware, cpus, every.gpus, len(names), options.by)
    if isinstance(shares, TooFew):
        return shares
    shares = joined_share(hardware, shares, ranks)
    shares = replace(shares, remarks=(*seen.remarks, *cpus.remarks, *shares.remarks))
    return Prepared(hardware, shares, len(names), ranks[0], same_gpus=True)


def _other(machine: tuple[str, ...]) -> Hardware:
    from numawise.inputs.machine import read_machine  # noqa: PLC0415 - reads every form of machine file

    return read_machine(machine).hardware


def cpus_here(
    hardware: Hardware, environment: Mapping[str, str], found: LocalRank | None, pid: int
) -> RankCpus:
    """What the ranks of this host may share, on the live machine (rule 1)."""
    allowed = allowed_of(pid)
    if allowed is None:
        raise HostError("the kernel does not report the CPUs this process may run on", "is /proc mounted?")
    variable = found.variable if found else ""
    launcher = found.launcher if found else None
    host = hardware.host
    cpuset = host.cpuset if host is not None else None
    return cpus_of_ranks(
        *allowed,
        hold=_listed(environment, CPUS) if environment.get(HOLD) else None,
        hold_mems=_listed(environment, MEMS) if environment.get(HOLD) else None,
        cpuset=cpuset if cpuset is not None else bits_of(thread.cpu for thread in hardware.threads),
        launcher=launcher_cpus(f"{variable}={environment[variable]}", pid) if variable else None,
        unbound=launcher.unbound if launcher else "",
        tied_by=_tied_by(environment),
    )


def _tied_by(environment: Mapping[str, str]) -> str:
    """The variable, if any, by which OpenMP ties the first thread of every process that loads it."""
    bound = environment.get(PROC_BIND, "").lower()
    names = () if bound == FREE else (PROC_BIND, GOMP, KMP)
    found = next((name for name in names if environment.get(name)), "")
    return f"{found}={environment[found]}" if found else ""


def cpus_on(hardware: Hardware) -> RankCpus:
    """A whole machine, for one that we do not run on."""
    return RankCpus(bits_of(thread.cpu for thread in hardware.threads), 0)


def within(room: RankCpus, text: str) -> RankCpus:
    """The part of a room that a list of CPUs leaves."""
    try:
        wanted = parse_ids(text)
    except ValueError as problem:
        raise InputError(
            f"{quoted(text)} is not a list of CPUs: {problem}", field="--cpus", advice="write 0-15,64-79"
        ) from None
    if not wanted or wanted & ~room.cpus:
        raise InputError(
            f"CPUs {format_ids(wanted & ~room.cpus)} may not be used here" if wanted else "the list is empty",
            field="--cpus",
            advice=f"choose from {format_ids(room.cpus)}",
        )
    return RankCpus(wanted, room.mems, room.divided, room.remarks)


def _listed(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    try:
        return parse_ids(text) if text else None
    except ValueError as problem:
        raise InputError(
            f"{quoted(text)} is not a list: {problem}", field=name, advice=f"unset {name}"
        ) from None


def ranks_meant(found: LocalRank | None, size: int | None, seen: Visible, nodes: int) -> int:
    """How many ranks there are on this host: as given, else one for each GPU, else one for each NUMA node."""
    given = size if size is not None else found.size if found else None
    if given is not None:
        return given
    guess = len(seen.gpus) or max(nodes, 1)
    if found is not None and found.rank >= guess:
        raise InputError(
            f"the number of ranks on this host is not known, and this is rank {found.rank}",
            advice="give --local-size",
        )
    return guess


def start(prepared: Prepared, options: BindOptions, environment: Mapping[str, str]) -> Bound:
    """How this process starts as its rank."""
    shares, hardware = prepared.shares, prepared.hardware
    share = next(one for one in shares.ranks if one.rank == prepared.rank)
    alike = prepared.same_gpus and len(shares.ranks) == prepared.size
    every = [nic.hca for one in shares.ranks for nic in one.nics] if alike else []
    ours = (
        *_threads(hardware, share, options.threads),
        *_network([nic.hca for nic in share.nics], every),
        *(visible(hardware, (share.gpu,)) if options.one_gpu and share.gpu else ()),
    )
    found = _joined(environment, ours, options.threads)
    return Bound(share, found.environment, (*shares.remarks, *found.remarks))


def _threads(hardware: Hardware, share: RankShare, threads: int) -> Sequence[tuple[str, str]]:
    count = threads or share.threads
    if share.alone:
        return own_threads(hardware, share.cpus, FREE, count)
    return ((THREADS, str(count)),)


def _network(hcas: Sequence[str], every: Sequence[str]) -> Sequence[tuple[str, str]]:
    found = network(hcas, every)
    return found if every else tuple((name, value) for name, value in found if name != NCCL)


def _joined(environment: Mapping[str, str], ours: tuple[tuple[str, str], ...], threads: int) -> Joined:
    user = without_ours(environment)
    if threads or (TORCHRUN in user and user.get(THREADS) == "1"):
        user.pop(THREADS, None)
    if threads:
        user[THREADS] = str(threads)
    for name in (NCCL, UCX):  # set for the whole job, and nothing better is known here
        if name in environment and name not in user and all(name != one for one, _ in ours):
            user[name] = environment[name]
    return joined(user, ours)


def apply(share: RankShare, memory: str) -> tuple[str, ...]:
    """Bind this process; remarks on what the kernel refused.  ``memory`` '' is ``bind`` as far as it goes."""
    set_affinity((os.getpid(),), share.cpus)
    if memory == OFF or not share.mems:
        return ()
    try:
        if memory != PREFERRED:
            mempolicy.bind_memory(share.mems)
        elif share.mems.bit_count() == 1:
            mempolicy.set_mempolicy(mempolicy.PREFERRED, share.mems)
        else:
            mempolicy.set_mempolicy(mempolicy.PREFERRED_MANY, share.mems)
    except HostError as problem:
        if memory:
            raise
        return (f"memory is not bound to NUMA node {format_ids(share.mems)}: {problem}",)
    return ()


def bind(
    *,
    by: str = "",
    memory: str = "",
    gpu: str = "all",
    threads: int = 0,
    cpus: str | None = None,
    local_rank: int | None = None,
    local_size: int | None = None,
    rank_variable: str = "",
) -> RankBinding:
    """Bind the calling process, a rank of a job, near to its GPU; what it was bound to.

    The rank comes from the launcher: torchrun, mpirun, srun, Ray and others that ``numawise bind`` knows; the
    options are those of that command.  Bound are all threads of the process and what it starts from then on;
    the memory policy is that of the calling thread and of threads it starts.  Variables such as
    ``OMP_NUM_THREADS`` are set in ``os.environ``, so call it before torch or another user of OpenMP is
    imported.  Raise ``NumawiseError`` when the rank, or a place for it, cannot be found.
    """
    for name, value, known in (("by", by, ("", *MODES)), ("memory", memory, ("", BIND, PREFERRED, OFF))):
        if value not in known:
            raise InputError(
                f"unknown value {quoted(value)}", field=name, advice=f"use {', '.join(known[1:])}"
            )
    if gpu not in (ALL, ONE):
        raise InputError(f"unknown value {quoted(gpu)}", field="gpu", advice=f"use {ALL} or {ONE}")
    options = BindOptions(
        by=by,
        threads=threads,
        one_gpu=gpu == ONE,
        cpus=cpus,
        rank=local_rank,
        size=local_size,
        variable=rank_variable,
    )
    before = dict(os.environ)
    try:
        prepared = prepare(options, before, all_ranks=False)
    except InputError as problem:
        parts = (problem.message, problem.field, problem.advice)
        message, field, advice = (FLAG.sub(lambda flag: flag[1].replace("-", "_"), text) for text in parts)
        raise InputError(message, field=field, advice=advice) from None
    if isinstance(prepared, TooFew):
        raise HostError(prepared.message, FLAG.sub(r"\1", prepared.advice))
    bound = start(prepared, options, before)
    refused = apply(bound.share, memory)
    for name in before.keys() - bound.environment.keys():
        del os.environ[name]
    os.environ.update(bound.environment)
    share = bound.share
    return RankBinding(
        rank=share.rank,
        size=prepared.size,
        cpus=tuple(ids_of(share.cpus)),
        numa=() if memory == OFF or refused else tuple(ids_of(share.mems)),
        gpu=share.gpu,
        threads=threads or share.threads,
        exclusive=share.alone,
        environment={k: v for k, v in bound.environment.items() if before.get(k) != v},
        remarks=(*bound.remarks, *refused),
    )


def rank_line(share: RankShare, size: int) -> str:
    """What a rank got, in a line."""
    gpu = f"{share.gpu.name}, " if share.gpu else ""
    memory = f", memory of NUMA node {format_ids(share.mems)}" if share.mems else ""
    return f"rank {share.rank} of {size}: {gpu}CPUs {format_ids(share.cpus)}{memory}"


def shares_data(hardware: Hardware, shares: Shares) -> list[dict[str, Any]]:
    """All ranks as plain data."""
    return [
        {
            "rank": share.rank,
            "gpu": share.gpu.name if share.gpu else None,
            "gpuUuid": share.gpu.uuid or None if share.gpu else None,
            "numa": list(ids_of(share.home)),
            "cpus": format_ids(share.cpus),
            "cores": len(cores_of(hardware, share.cpus)),
            "alone": share.alone,
            "mems": format_ids(share.mems),
            "threads": share.threads,
            "nics": [nic.hca or nic.name for nic in share.nics],
        }
        for share in shares.ranks
    ]


def become(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Run the command in place of this process."""
    program = find_command(argv[0], environment.get("PATH"))
    sys.stdout.flush()
    sys.stderr.flush()
    before = [(number, signal.signal(number, signal.SIG_DFL)) for number in PYTHON_IGNORES]
    try:
        exec_program(program, argv, environment)
    except OSError as error:
        for number, handler in before:
            signal.signal(number, handler)
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        raise CannotStart(f"{argv[0]}: {error.strerror}", code, _why(program, error)) from error


def _why(program: str, error: OSError) -> str:
    """What is wrong with a file that the kernel refused."""
    try:
        with Path(program).open("rb") as stream:
            first = stream.readline(256)
    except OSError:
        return ""
    if first.startswith(b"#!"):
        interpreter = first[2:].split(maxsplit=1)[:1]
        return (
            f"its first line names {os.fsdecode(interpreter[0])}"
            if interpreter
            else "its first line is #! alone"
        )
    if isinstance(error, FileNotFoundError):
        return "the loader that it was linked for is missing"
    return "a program must be built for this processor"
