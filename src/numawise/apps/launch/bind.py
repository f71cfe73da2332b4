"""Binding one rank of a job to its GPU's part of the machine: what to do first as a value, then done.

Rules kept here:

1. ``OMP_NUM_THREADS`` is the rank's part of the cores.  A number that the user has set stays; the one that
   ``numawise run`` set for the whole job, and the 1 that torchrun and Ray set, do not.
2. Places for threads are given only where no other rank has the same CPUs.
3. ``UCX_NET_DEVICES`` names the network cards nearest to the rank's GPU.  ``NCCL_IB_HCA`` must be the same on
   all ranks of a host, so it names the cards of all of them, and is left alone when the ranks see different
   GPUs.  ``CUDA_VISIBLE_DEVICES`` stays, since ranks count within it, unless one GPU is asked for or
   the launcher shows GPUs that the hold does not have.
4. Memory is bound strictly: pages that do not fit push out cached files of these NUMA nodes rather than land
   elsewhere.  Where the kernel refuses and it was not asked for by name, a remark says so.
"""

import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from numawise.apps.launch.environment import (
    FREE,
    NCCL,
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
from numawise.apps.launch.frame import BindOptions, Prepared, prepare
from numawise.apps.launch.launchers import RAY
from numawise.apps.launch.ranks import MODES, RankRefused, RankShare, Shares
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
from numawise.host.processes import set_affinity
from numawise.machine.hardware import Hardware
from numawise.results.placement import RankBinding
from numawise.sets import format_ids, ids_of
from numawise.values import dataclass

BIND, PREFERRED, OFF = "bind", "preferred", "off"
ALL, ONE = "all", "one"
FLAG = re.compile(r"--([a-z][a-z-]+)", re.ASCII)
TORCHRUN = "TORCHELASTIC_RUN_ID"


@dataclass(frozen=True, slots=True)
class Bound:
    """How one rank starts."""

    share: RankShare
    environment: Mapping[str, str]
    remarks: tuple[str, ...] = ()


def start(prepared: Prepared, options: BindOptions, environment: Mapping[str, str]) -> Bound:
    """How this process starts as its rank."""
    shares, hardware = prepared.shares, prepared.hardware
    share = next(one for one in shares.ranks if one.rank == prepared.rank)
    alike = prepared.same_gpus and len(shares.ranks) == prepared.size
    every = [nic.hca for one in shares.ranks for nic in one.nics] if alike else []
    ours = (
        *_threads(hardware, share, options.threads),
        *_network([nic.hca for nic in share.nics], every),
        *visible(hardware, (share.gpu,) if options.one_gpu and share.gpu else prepared.shown),
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
    if threads or ((TORCHRUN in user or RAY in user) and user.get(THREADS) == "1"):
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
        else:
            mempolicy.prefer_memory(share.mems)
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
    ignore_holds: bool = False,
    ignore_affinity: bool = False,
    strict: bool = False,
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
        ignore_holds=ignore_holds,
        ignore_affinity=ignore_affinity,
        memory=memory,
        strict=strict,
    )
    before = dict(os.environ)
    try:
        prepared = prepare(options, before, all_ranks=False)
    except InputError as problem:
        parts = (problem.message, problem.field, problem.advice)
        message, field, advice = (FLAG.sub(lambda flag: flag[1].replace("-", "_"), text) for text in parts)
        raise InputError(message, field=field, advice=advice) from None
    if isinstance(prepared, RankRefused):
        raise HostError(prepared.message, FLAG.sub(lambda flag: flag[1].replace("-", "_"), prepared.advice))
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
        remarks=(*prepared.clashes, *bound.remarks, *refused),
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
