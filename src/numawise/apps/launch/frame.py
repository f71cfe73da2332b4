"""What the ranks of this host divide among them: which CPUs, how many ranks, which GPUs.

Rules kept here:

1. What the ranks may share is the hold this runs in, within what the kernel allows; without a hold, what this
   process may use.
2. CPUs that another hold has alone are left out, be its user who it may (``others``).  A GPU of another hold
   is reported, or refused where that is asked for: which GPU a rank uses is counted by CUDA, not here.
3. On another machine than this one nobody holds anything.
4. The mask and a strict memory policy that this process was started with are kept to, unless the user says
   otherwise.  The mask of the whole hold is no such mask.
"""

import os
from collections.abc import Mapping

from numawise.apps.launch.environment import CPUS, FREE, GOMP, GPUS, HOLD, KMP, MEMS, PROC_BIND
from numawise.apps.launch.launchers import (
    LocalRank,
    Visible,
    host_gpus,
    is_launched,
    is_ray_worker,
    rank_gpus,
    visible_gpus,
)
from numawise.apps.launch.launchers import (
    local_rank as launched_rank,
)
from numawise.apps.launch.others import NOBODY, OtherHolds, gpu_clashes, left_to_ranks, read_others
from numawise.apps.launch.ranks import (
    RankCpus,
    RankRefused,
    Shares,
    cpus_of_ranks,
    divide,
    joined_share,
    own_share,
)
from numawise.errors import HostError, InputError, quoted
from numawise.host import mempolicy
from numawise.host.discover import read_live
from numawise.host.processes import allowed_of, launcher_cpus
from numawise.machine.hardware import Gpu, Hardware
from numawise.machine.locality import cpus_by_numa, open_cpus
from numawise.sets import bits_of, format_ids, parse_ids
from numawise.values import dataclass, replace


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
    ignore_holds: bool = False
    """Use CPUs that others hold, and do not ask whose the GPUs are."""
    ignore_affinity: bool = False
    """Use CPUs and memory beyond what this process was started with."""
    memory: str = ""
    """How memory is to be kept near; ``off``: as it was."""
    strict: bool = False
    """Refuse to start on a GPU that another hold has."""


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
    clashes: tuple[str, ...] = ()
    """GPUs of these ranks that other holds have, a sentence for each hold."""
    own: bool = False
    """Only this rank was looked at, not those beside it."""
    shown: tuple[Gpu, ...] = ()
    """GPUs to show to the ranks in place of those that the launcher shows them; none: theirs stay."""


def prepare(
    options: BindOptions, environment: Mapping[str, str], *, all_ranks: bool
) -> Prepared | RankRefused:
    """Find out what the ranks get; ``all_ranks``: of every one, and none of them needs to be this process."""
    if not all_ranks and options.rank is None and not options.variable and is_ray_worker(environment):
        return _ray_worker(options, environment)
    found = None
    if not all_ranks or options.rank is not None or options.variable or is_launched(environment):
        found = launched_rank(environment, rank=options.rank, size=options.size, variable=options.variable)
    hardware = _other(options.machine) if options.machine else read_live()
    seen, anew = rank_gpus(hardware, environment)
    room, others = _room(options, hardware, environment, found)
    if isinstance(room, RankRefused):
        return room
    size = ranks_meant(found, options.size, seen, len(cpus_by_numa(hardware)))
    rank = found.rank if found else None
    own = room.divided and rank is not None and not all_ranks
    shares = (
        own_share(hardware, room, seen.gpus, rank or 0)
        if own
        else divide(hardware, room, seen.gpus, size, options.by)
    )
    if isinstance(shares, RankRefused):
        return shares
    shares = replace(shares, remarks=(*seen.remarks, *room.remarks, *shares.remarks))
    used = [share.gpu for share in shares.ranks if share.gpu]
    clashes = gpu_clashes(others, used, seen.gpus)
    if clashes and options.strict:
        return _strictly(clashes)
    same_gpus = len(seen.gpus) > 1 or size == 1
    shown = seen.gpus if anew else ()
    return Prepared(hardware, shares, size, rank, same_gpus, clashes, own=own, shown=shown)


def _ray_worker(options: BindOptions, environment: Mapping[str, str]) -> Prepared | RankRefused:
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
    room, others = _room(options, hardware, environment, None)
    if isinstance(room, RankRefused):
        return room
    shares = divide(hardware, room, every.gpus, len(names), options.by)
    if isinstance(shares, RankRefused):
        return shares
    shares = joined_share(hardware, shares, ranks)
    shares = replace(shares, remarks=(*seen.remarks, *room.remarks, *shares.remarks))
    clashes = gpu_clashes(others, seen.gpus, every.gpus)
    if clashes and options.strict:
        return _strictly(clashes)
    return Prepared(hardware, shares, len(names), ranks[0], True, clashes, own=True)


def _strictly(clashes: tuple[str, ...]) -> RankRefused:
    return RankRefused("; ".join(clashes), "or leave out --strict to start all the same")


def _room(
    options: BindOptions,
    hardware: Hardware,
    environment: Mapping[str, str],
    found: LocalRank | None,
) -> tuple[RankCpus | RankRefused, OtherHolds]:
    """What the ranks divide, and who holds what beside them (rules 1 to 3)."""
    if options.machine:
        room, others = cpus_on(hardware), NOBODY
    else:
        others = NOBODY if options.ignore_holds else read_others(hardware, environment, os.getpid())
        room = cpus_here(hardware, environment, found, os.getpid(), others, drop=options.ignore_affinity)
        room = _memory_here(room, environment, options)
    if not room.cpus:
        advice = "add a print that lists them, such as lscpu -e"
        raise InputError("the machine's CPUs are not known", field="--machine", advice=advice)
    if options.cpus is not None:
        room = within(room, options.cpus)
    return left_to_ranks(room, others), others


def _other(machine: tuple[str, ...]) -> Hardware:
    from numawise.inputs.machine import read_machine  # noqa: PLC0415 - reads every form of machine file

    return read_machine(machine).hardware


def cpus_here(
    hardware: Hardware,
    environment: Mapping[str, str],
    found: LocalRank | None,
    pid: int,
    others: OtherHolds = NOBODY,
    *,
    drop: bool = False,
) -> RankCpus:
    """What the ranks of this host may share, on the live machine (rules 1, 4); ``drop``: without a mask."""
    allowed = allowed_of(pid)
    if allowed is None:
        raise HostError("the kernel does not report the CPUs this process may run on", "is /proc mounted?")
    variable = found.variable if found else ""
    launcher = found.launcher if found else None
    host = hardware.host
    cpuset = host.cpuset if host is not None else None
    if drop and not environment.get(HOLD):
        return _unmasked(hardware, *allowed)
    hold = environment.get(HOLD, "")
    held = _listed(environment, CPUS) if hold else None
    ended = bool(held and held & others.cpus) and hold not in others.inside
    room = cpus_of_ranks(
        *allowed,
        hold=None if ended else held,
        hold_mems=_listed(environment, MEMS) if hold and not ended else None,
        cpuset=cpuset if cpuset is not None else bits_of(thread.cpu for thread in hardware.threads),
        launcher=launcher_cpus(f"{variable}={environment[variable]}", pid) if variable else None,
        unbound=launcher.unbound if launcher else "",
        tied_by=_tied_by(environment),
    )
    if ended:
        text = f"hold {quoted(hold)}, which {HOLD} names, has ended, and others have CPUs of it by now"
        room = replace(room, remarks=(f"{text}: it is not divided", *room.remarks))
    return room


def _unmasked(hardware: Hardware, mask: int, mems: int) -> RankCpus:
    """All CPUs that could be used here, whatever mask this process was started with."""
    host = hardware.host
    every = open_cpus(hardware)
    every = every & host.cpuset or every if host is not None and host.cpuset else every
    remark = f"CPUs {format_ids(mask)}, with which this was started, are not kept to (--ignore-affinity)"
    return RankCpus(every, mems, remarks=(remark,) if every & ~mask else ())


def _memory_here(room: RankCpus, environment: Mapping[str, str], options: BindOptions) -> RankCpus:
    """The room with memory only where a policy from outside allows it (rule 4)."""
    if options.memory == "off" or environment.get(HOLD) or room.mems.bit_count() < 2:
        return room
    try:
        policy = mempolicy.read_mempolicy()
    except HostError:
        return room
    nodes = room.mems & policy.nodes
    if policy.mode in (mempolicy.DEFAULT, mempolicy.LOCAL):
        return room
    if policy.mode == mempolicy.BIND and nodes == room.mems:
        return room
    if policy.mode != mempolicy.BIND or not nodes or options.ignore_affinity:
        text = f"the memory policy with which this was started ({policy}) is replaced"
        how = "--memory off keeps it" if not options.ignore_affinity else "--ignore-affinity"
        return replace(room, remarks=(*room.remarks, f"{text} ({how})"))
    text = f"memory stays on NUMA node {format_ids(nodes)}, to which this was bound when it was started"
    return replace(room, mems=nodes, remarks=(*room.remarks, f"{text}; --ignore-affinity drops that"))


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
