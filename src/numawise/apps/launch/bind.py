"""Binding one rank of a job to its GPU's part of the machine: what to do first as a value, then done.

Rules kept here:

1. What the ranks may share is the hold this runs in, within what the kernel allows; without a hold, what this
   process may use.
2. ``OMP_NUM_THREADS`` is the rank's part of the cores.  A number that the user has set stays; the one that
   ``numawise run`` set for the whole job, and the 1 that torchrun sets, do not.
3. Places for threads are told only where no other rank has the same CPUs.
4. ``UCX_NET_DEVICES`` names the network cards nearest to the rank's GPU.  ``NCCL_IB_HCA`` must be the same on
   all ranks of a host, so it names the cards of all of them, and is left alone when the ranks see different
   GPUs.  ``CUDA_VISIBLE_DEVICES`` stays, since ranks count within it, unless one GPU is asked for.
5. Memory is bound strictly: pages that do not fit push out cached files of these NUMA nodes rather than land
   elsewhere.  Where the kernel refuses and it was not asked for by name, a remark says so.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from numawise.apps.launch.environment import (
    CPUS,
    FREE,
    GOMP,
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
from numawise.apps.launch.launchers import LocalRank, Visible, is_launched, local_rank, visible_gpus
from numawise.apps.launch.ranks import RankCpus, Share, Shares, TooFew, cpus_of_ranks, divide, own_share
from numawise.errors import HostError, InputError
from numawise.host import mempolicy
from numawise.host.child import NOT_EXECUTABLE, NOT_FOUND, PYTHON_IGNORES, CannotStart, find_command
from numawise.host.discover import read_live
from numawise.host.processes import allowed_of, launcher_cpus, set_affinity
from numawise.machine.hardware import Hardware
from numawise.machine.locality import cpus_by_numa
from numawise.sets import bits_of, format_ids, ids_of, parse_ids

BIND, PREFERRED, OFF = "bind", "preferred", "off"
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
    machine: str = ""
    """Another machine than this one; '': this one."""


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

    share: Share
    environment: Mapping[str, str]
    remarks: tuple[str, ...] = ()


def prepare(asked: BindOptions, environment: Mapping[str, str], *, all_ranks: bool) -> Prepared | TooFew:
    """Find out what the ranks get; ``all_ranks``: of every one, and none of them needs to be this process."""
    found = None
    if not all_ranks or asked.rank is not None or asked.variable or is_launched(environment):
        found = local_rank(environment, rank=asked.rank, size=asked.size, variable=asked.variable)
    hardware = _other(asked.machine) if asked.machine else read_live()
    seen = visible_gpus(hardware, environment)
    room = cpus_on(hardware) if asked.machine else cpus_here(hardware, environment, found, os.getpid())
    if asked.cpus is not None:
        room = within(room, asked.cpus)
    size = ranks_meant(found, asked.size, seen, len(cpus_by_numa(hardware)))
    rank = found.rank if found else None
    own = room.divided and rank is not None and not all_ranks
    shares = (
        own_share(hardware, room, seen.gpus, rank or 0)
        if own
        else divide(hardware, room, seen.gpus, size, asked.by)
    )
    if isinstance(shares, TooFew):
        return shares
    shares = replace(shares, remarks=(*seen.remarks, *room.remarks, *shares.remarks))
    return Prepared(hardware, shares, size, rank, same_gpus=len(seen.gpus) > 1 or size == 1)


def _other(machine: str) -> Hardware:
    from numawise.inputs.machine import read_machine  # noqa: PLC0415 - reads every form of machine file

    return read_machine(machine).hardware


def cpus_here(
    hardware: Hardware, environment: Mapping[str, str], found: LocalRank | None, pid: int
) -> RankCpus:
    """What the ranks of this host may share, on the live machine (rule 1)."""
    allowed = allowed_of(pid)
    if allowed is None:
        raise HostError("the kernel does not tell on which CPUs this process may run", "is /proc mounted?")
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
            f"{text!r} is no list of CPUs: {problem}", field="--cpus", advice="write 0-15,64-79"
        ) from None
    if not wanted or wanted & ~room.cpus:
        raise InputError(
            f"CPUs {format_ids(wanted & ~room.cpus)} may not be used here" if wanted else "the list is empty",
            field="--cpus",
            advice=f"choose out of {format_ids(room.cpus)}",
        )
    return RankCpus(wanted, room.mems, room.divided, room.remarks)


def _listed(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    try:
        return parse_ids(text) if text else None
    except ValueError as problem:
        raise InputError(f"{text!r} is no list: {problem}", field=name, advice=f"unset {name}") from None


def ranks_meant(found: LocalRank | None, size: int | None, seen: Visible, nodes: int) -> int:
    """How many ranks there are on this host: as told, else one for each GPU, else one for each NUMA node."""
    told = size if size is not None else found.size if found else None
    if told is not None:
        return told
    guess = len(seen.gpus) or max(nodes, 1)
    if found is not None and found.rank >= guess:
        raise InputError(
            f"nothing tells how many ranks there are on this host, and this is rank {found.rank}",
            advice="give --local-size",
        )
    return guess


def start(prepared: Prepared, asked: BindOptions, environment: Mapping[str, str]) -> Bound:
    """How this process starts as its rank."""
    shares, hardware = prepared.shares, prepared.hardware
    share = next(one for one in shares.ranks if one.rank == prepared.rank)
    alike = prepared.same_gpus and len(shares.ranks) == prepared.size
    every = [nic.hca for one in shares.ranks for nic in one.nics] if alike else []
    ours = (
        *_threads(hardware, share, asked.threads),
        *_network([nic.hca for nic in share.nics], every),
        *(visible(hardware, (share.gpu,)) if asked.one_gpu and share.gpu else ()),
    )
    found = _joined(environment, ours, asked.threads)
    return Bound(share, found.environment, (*shares.remarks, *found.remarks))


def _threads(hardware: Hardware, share: Share, threads: int) -> Sequence[tuple[str, str]]:
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


def apply(share: Share, memory: str) -> tuple[str, ...]:
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


def told(share: Share, size: int) -> str:
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
        os.execve(program, list(argv), dict(environment))  # noqa: S606 - that is what this is for
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
    return "a script needs #! in its first line, and a program must be built for this processor"
