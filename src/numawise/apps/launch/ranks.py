"""What each rank of a job gets on this host: its GPU's part of the CPUs and the memory.

Rules kept here:

1. Rank *i* uses the *i*-th GPU that it sees, round robin when there are more ranks than GPUs.  Its home is
   the NUMA node of that GPU; without allowed CPUs there, the nearest node that has some.  Without GPUs the
   ranks are spread over the nodes by the number of cores, neighbours together.
2. The words are torch's.  ``node``: all allowed CPUs of the home.  ``socket``: of the sockets the home has
   CPUs on.  ``exclusive``: the home's cores divided among the ranks there, whole cores, no overlap, the first
   ranks getting what is left over.  ``core-complex``: one L3 of the home, another for each rank as long as
   there are some, those with most allowed CPUs first.
3. Cores are divided L3 after L3, so that a part reaches into as few caches as it can.
4. Memory comes from the nodes of a rank's CPUs, else from the nearest allowed node that has memory.
5. Where the launcher has bound each rank already, nothing is divided: a rank keeps to its own CPUs, those at
   its home if it has any there.
6. All ranks compute the same: the answer depends on nothing that differs between them.
"""

from collections.abc import Mapping, Sequence

from numawise.apps.launch.environment import cores_of
from numawise.machine.hardware import Gpu, Hardware
from numawise.machine.locality import NODE, PHB, PIX, PXB, cpus_by_numa
from numawise.machine.nearest import NearNic, chip_of, near_nics, placed_gpus
from numawise.sets import bits_of, format_ids, ids_of
from numawise.values import dataclass, replace

BY_NODE, BY_SOCKET, BY_EXCLUSIVE, BY_COMPLEX = "node", "socket", "exclusive", "core-complex"
MODES = (BY_NODE, BY_SOCKET, BY_EXCLUSIVE, BY_COMPLEX)
NEAR = (PIX, PXB, PHB, NODE)


@dataclass(frozen=True, slots=True)
class RankCpus:
    """What the ranks of this host may share."""

    cpus: int
    mems: int
    """NUMA nodes that memory may come from; 0: any."""
    divided: bool = False
    """The launcher has bound this process on its own; ``cpus`` are its alone."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankShare:
    """What one rank gets."""

    rank: int
    cpus: int
    mems: int
    home: int
    """NUMA nodes it is counted to."""
    alone: bool
    """No other rank has any of these CPUs."""
    threads: int
    """Threads to compute with: its part of the cores, at least one."""
    gpu: Gpu | None = None
    nics: tuple[NearNic, ...] = ()
    """Network cards nearest to its GPU."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What all ranks get."""

    by: str
    ranks: tuple[RankShare, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankRefused:
    """There is no place for the ranks: too few cores to have one each, or others hold what they need."""

    message: str
    advice: str


def cpus_of_ranks(
    mask: int,
    mems: int,
    *,
    hold: int | None = None,
    hold_mems: int | None = None,
    cpuset: int | None = None,
    launcher: int | None = None,
    unbound: str = "",
    tied_by: str = "",
) -> RankCpus:
    """What the ranks may share, out of what the kernel allows this process and what a hold gives it.

    ``mask`` and ``mems`` are the process' own; ``cpuset`` is its cgroup's, ``launcher`` the mask of the
    process that started the ranks.  ``tied_by`` is a variable by which OpenMP may have tied the launcher
    itself to its first core.  Within a hold the mask may be widened to it; without one it never is.
    """
    nodes = mems & hold_mems if hold_mems and mems & hold_mems else mems
    reach = mask if cpuset is None else cpuset | mask
    bound = launcher is not None and bool(launcher & reach & ~mask)
    how = f"; start it with {unbound} to let the ranks be placed here" if unbound else ""
    if hold is not None and hold & reach:
        within = hold & reach
        if within & ~mask and (bound or tied_by):
            who = "the launcher" if bound else f"{tied_by} in the launcher"
            text = f"{who} had bound this rank to CPUs {format_ids(mask)}; the hold's are divided instead"
            return RankCpus(within, nodes, remarks=(text,))
        return RankCpus(within & mask or within, nodes)
    remarks: tuple[str, ...] = ()
    if hold is not None:
        text = f"none of the hold's CPUs {format_ids(hold)} may be used here"
        remarks = (f"{text}; CPUs {format_ids(mask)} are divided",)
    if bound:
        text = f"the launcher has bound this rank to CPUs {format_ids(mask)}, and it keeps to them{how}"
        return RankCpus(mask, nodes, divided=True, remarks=(*remarks, text))
    if tied_by and reach & ~mask:
        text = f"{tied_by} may have tied the launcher itself to CPUs {format_ids(mask)}"
        remarks = (*remarks, f"{text}; set it for the command only: numawise bind -- env {tied_by} COMMAND")
    return RankCpus(mask, nodes, remarks=remarks)


def divide(
    hardware: Hardware, room: RankCpus, gpus: Sequence[Gpu], size: int, by: str = ""
) -> Shares | RankRefused:
    """Give each of the ranks its part; without a word for how, ``exclusive`` where that is possible."""
    nodes = _nodes(hardware, room.cpus)
    homes, remarks = _homes(hardware, nodes, gpus, size)
    split = _exclusive(hardware, nodes, homes) if by in ("", BY_EXCLUSIVE) else None
    if isinstance(split, RankRefused):
        if by:
            return split
        remarks = (*remarks, f"{split.message}: ranks of a NUMA node share its CPUs (--by {BY_NODE})")
        split = None
    if split is not None:
        by, cpus = BY_EXCLUSIVE, split
    elif by == BY_SOCKET:
        cpus = [_sockets(hardware, _cpus(nodes, home)) & room.cpus for home in homes]
    elif by == BY_COMPLEX:
        cpus = _complexes(hardware, nodes, homes)
    else:
        by, cpus = BY_NODE, [_cpus(nodes, home) for home in homes]
    ranks = []
    for rank, (own, home) in enumerate(zip(cpus, homes, strict=True)):
        sharing = sum(1 for other in cpus if other & own)
        gpu = gpus[rank % len(gpus)] if gpus else None
        ranks.append(
            RankShare(
                rank=rank,
                cpus=own,
                mems=memory_near(hardware, own, room.mems),
                home=home,
                alone=sharing == 1,
                threads=max(1, len(cores_of(hardware, own)) // sharing),
                gpu=gpu,
            )
        )
    return Shares(by, _with_nics(hardware, ranks), remarks)


def own_share(hardware: Hardware, room: RankCpus, gpus: Sequence[Gpu], rank: int) -> Shares:
    """The part of a rank that its launcher has bound on its own (rule 5); the only one in the answer."""
    gpu = gpus[rank % len(gpus)] if gpus else None
    homes, remarks = _homes(hardware, _nodes(hardware, -1), gpus, rank + 1)
    near = _cpus(_nodes(hardware, -1), homes[rank]) & room.cpus if gpu else 0
    cpus = near or room.cpus
    if gpu and not near:
        remarks = (*remarks, f"none of CPUs {format_ids(room.cpus)} is near to {gpu.name}")
    share = RankShare(
        rank=rank,
        cpus=cpus,
        mems=memory_near(hardware, cpus, room.mems),
        home=homes[rank] if near else _numa_of(hardware, cpus),
        alone=True,
        threads=len(cores_of(hardware, cpus)),
        gpu=gpu,
    )
    return Shares(BY_NODE, _with_nics(hardware, [share]), remarks)


def joined_share(hardware: Hardware, shares: Shares, ranks: Sequence[int]) -> Shares:
    """One process in place of several ranks: all that they would have; the GPU is the first one's."""
    some = [share for share in shares.ranks if share.rank in ranks]
    cpus = mems = home = 0
    for share in some:
        cpus, mems, home = cpus | share.cpus, mems | share.mems, home | share.home
    nics = tuple(dict.fromkeys(nic for share in some for nic in share.nics))
    threads = min(sum(share.threads for share in some), len(cores_of(hardware, cpus)))
    first = min(some, key=lambda share: ranks.index(share.rank))
    alone = all(share.alone for share in some)
    whole = replace(first, cpus=cpus, mems=mems, home=home, alone=alone, threads=threads, nics=nics)
    return replace(shares, ranks=tuple(whole if share is first else share for share in shares.ranks))


def _nodes(hardware: Hardware, allowed: int) -> Mapping[int, int]:
    """Allowed CPUs by NUMA node; a machine without nodes counts as one."""
    found = {numa: cpus & allowed for numa, cpus in cpus_by_numa(hardware).items() if cpus & allowed}
    if found or allowed < 0:
        return found
    return {0: allowed} if allowed else {}


def _cpus(nodes: Mapping[int, int], home: int) -> int:
    cpus = 0
    for numa in ids_of(home):
        cpus |= nodes.get(numa, 0)
    return cpus


def _numa_of(hardware: Hardware, cpus: int) -> int:
    return bits_of(numa for numa, own in cpus_by_numa(hardware).items() if own & cpus)


def _homes(
    hardware: Hardware, nodes: Mapping[int, int], gpus: Sequence[Gpu], size: int
) -> tuple[list[int], tuple[str, ...]]:
    """The NUMA nodes of each rank (rule 1)."""
    if not gpus:
        return _spread(hardware, nodes, size), ()
    known = {chip_of(place.gpu): place for place in placed_gpus(hardware)}
    missing = tuple(gpu for gpu in gpus if chip_of(gpu) not in known)
    if missing:
        known |= {chip_of(place.gpu): place for place in placed_gpus(hardware, missing)}
    remarks: dict[str, None] = {}
    homes = []
    for rank in range(size):
        gpu = gpus[rank % len(gpus)]
        place = known[chip_of(gpu)]
        if place.remark:
            remarks[place.remark] = None
        home = place.numa if any(place.numa >> numa & 1 for numa in nodes) else 0
        if not home:
            home = _nearest(hardware, place.numa or place.near, bits_of(nodes))
            if place.numa:
                text = f"no allowed CPUs on NUMA node {format_ids(place.numa)}"
                remarks[f"{gpu.name}: {text}; node {format_ids(home)} is used"] = None
        homes.append(home)
    return homes, tuple(remarks)


def _spread(hardware: Hardware, nodes: Mapping[int, int], size: int) -> list[int]:
    ids = list(nodes)
    if size < len(ids):
        return [bits_of(ids[i * len(ids) // size : (i + 1) * len(ids) // size]) for i in range(size)]
    at = [numa for numa, cpus in nodes.items() for _ in cores_of(hardware, cpus)]
    return [1 << at[rank * len(at) // size] for rank in range(size)]


def _nearest(hardware: Hardware, start: int, among: int) -> int:
    """The node of a set at the least distance from some node of another; of equals, the lowest."""
    best: tuple[int, int] | None = None
    for node in hardware.numa:
        for other, distance in node.distances:
            for one, far in ((node.id, other), (other, node.id)):
                if one >= 0 and far >= 0 and start >> one & 1 and among >> far & 1:
                    best = min(best or (distance, far), (distance, far))
    return 1 << best[1] if best else among & -among


def memory_near(hardware: Hardware, cpus: int, allowed: int) -> int:
    """NUMA nodes that the memory of these CPUs comes from (rule 4); 0 when the machine reports none."""
    with_memory = bits_of(node.id for node in hardware.numa if node.memory != 0 and node.id >= 0)
    usable = with_memory & allowed if allowed else with_memory
    here = _numa_of(hardware, cpus)
    if here & usable or not usable:
        return here & usable
    return _nearest(hardware, here, usable)


def _exclusive(hardware: Hardware, nodes: Mapping[int, int], homes: Sequence[int]) -> list[int] | RankRefused:
    found = [0] * len(homes)
    for home in dict.fromkeys(homes):
        ranks = [rank for rank, own in enumerate(homes) if own == home]
        cores = cores_of(hardware, _cpus(nodes, home))
        if len(cores) < len(ranks):
            have = "1 core" if len(cores) == 1 else f"{len(cores)} cores"
            return RankRefused(
                f"NUMA node {format_ids(home)} has {have} here for {len(ranks)} ranks",
                f"start fewer ranks, allow more CPUs, or share them with --by {BY_NODE}",
            )
        each, more = divmod(len(cores), len(ranks))
        start = 0
        for at, rank in enumerate(ranks):
            end = start + each + (at < more)
            for core in cores[start:end]:
                found[rank] |= core
            start = end
    return found


def _sockets(hardware: Hardware, cpus: int) -> int:
    """CPUs of all sockets that have one of these."""
    sockets = {thread.socket for thread in hardware.threads if cpus >> thread.cpu & 1}
    every = bits_of(thread.cpu for thread in hardware.threads if thread.socket in sockets)
    return every if sockets and None not in sockets else cpus


def _complexes(hardware: Hardware, nodes: Mapping[int, int], homes: Sequence[int]) -> list[int]:
    found = []
    seen: dict[int, int] = {}
    for home in homes:
        groups = _caches(hardware, _cpus(nodes, home))
        at = seen.get(home, 0)
        seen[home] = at + 1
        found.append(groups[at % len(groups)])
    return found


def _caches(hardware: Hardware, cpus: int) -> list[int]:
    """The CPUs by last cache, most first; where none is known, all together."""
    groups: dict[int, None] = {}
    for thread in hardware.threads:
        cache = thread.l3 or thread.l2
        if cpus >> thread.cpu & 1 and cache is not None:
            groups[cache.cpus & cpus] = None
    return sorted(groups, key=lambda group: (-group.bit_count(), group & -group)) or [cpus]


def _with_nics(hardware: Hardware, ranks: Sequence[RankShare]) -> tuple[RankShare, ...]:
    found = []
    by_chip: dict[str, tuple[NearNic, ...]] = {}
    for share in ranks:
        if share.gpu is None:
            found.append(share)
            continue
        chip = chip_of(share.gpu)
        if chip not in by_chip:
            by_chip[chip] = tuple(
                nic
                for nic in near_nics(hardware, (share.gpu,))
                if nic.hca and nic.nearest and nic.link in NEAR
            )
        found.append(replace(share, nics=by_chip[chip]))
    return tuple(found)
