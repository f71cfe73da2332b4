"""Where a job leaks: threads that may run elsewhere, remote pages, GPUs that are far or shared.

Rules kept here:

1. A mask is compared over the CPUs that are online: the kernel drops others from what it obeys.  A thread
   that may run on all of them, or all but isolated ones, is not bound.
2. Affinity is a thread's own.  One that strays while its process keeps to the grant was started before the
   process was bound, or moved itself; a process of which all threads stray was never bound.
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.apps.verify.sources import Seen
from numawise.explain.placement import (
    NOTHING_BINDS,
    cpu_list,
    is_far,
    job_finding,
    made_before,
    may_run_on_another,
    may_run_outside,
    union_of,
)
from numawise.host.numamaps import OWN, SHARED, PageRange, Pages
from numawise.host.nvml import COMPUTES, OPENED, GpuUse
from numawise.host.placed import Placed, ProcessThread, in_group
from numawise.machine.hardware import Hardware
from numawise.machine.locality import cpus_by_numa, numa_of, open_cpus, short_address
from numawise.machine.nearest import GpuPlace, chip_of, placed_gpus
from numawise.render.words import clean, counted
from numawise.results.finding import Finding, Severity
from numawise.results.verification import PAGE_KINDS, Amounts, GpuSeen, JobGrant, Remote
from numawise.sets import bits_of, format_ids, parse_ids

MOST = 4
RUN_IT = "start it with numawise run, which binds before the program begins"


def union(processes: Sequence[Placed]) -> int:
    """CPUs that some thread may run on."""
    return union_of(thread.allowed for process in processes for thread in process.threads)


def judge_granted(
    hardware: Hardware, processes: Sequence[Placed], wanted: JobGrant, seen: Seen
) -> Iterator[Finding]:
    """Compare masks with the granted CPUs."""
    online = bits_of(thread.cpu for thread in hardware.threads) or -1
    astray: dict[tuple[str, int], list[tuple[Placed, ProcessThread]]] = {}
    count = late = total = 0
    for process in processes:
        strays = [thread for thread in process.threads if thread.allowed & online & ~wanted.cpus]
        total += len(process.threads)
        count += len(strays)
        for thread in strays:
            why = _why(process, thread, strays, wanted, seen, online)
            astray.setdefault((why, thread.allowed & online), []).append((process, thread))
        late += sum(
            1
            for thread in process.threads
            if thread not in strays and thread.cpu >= 0 and not wanted.cpus >> thread.cpu & 1
        )
    if count:
        of = counted(total, "thread") if total == 1 else f"{count} of {total} threads"
        yield job_finding(
            "threads-elsewhere",
            Severity.ERROR,
            may_run_outside(of, wanted.cpus),
            tuple(_names(group, allowed, why) for (why, allowed), group in astray.items()),
            RUN_IT,
        )
    if late:
        yield job_finding(
            "ran-elsewhere",
            Severity.INFO,
            f"{counted(late, 'thread')} last ran outside {cpu_list(wanted.cpus)}, before being bound",
        )
    unused = wanted.cpus & online & ~union(processes) if wanted.alone else 0
    if unused and processes:
        yield job_finding(
            "cpus-unused",
            Severity.INFO,
            f"no thread of the job may run on {cpu_list(unused)} of the hold",
            advice="let the program use them (its own pinning is narrower), or hold fewer",
        )


def _why(
    process: Placed,
    thread: ProcessThread,
    strays: Sequence[ProcessThread],
    wanted: JobGrant,
    seen: Seen,
    online: int,
) -> str:
    if wanted.group and not in_group(process.groups, wanted.group):
        return "its process is not in the hold's control group"
    if len(strays) == len(process.threads):
        if not online & ~thread.allowed:
            return "its process was never bound"
        return "its process is bound elsewhere"
    if wanted.since and seen.boot and seen.boot + thread.start / seen.ticks < wanted.since:
        return "it was started before the hold, and binding its process did not reach it"
    return "its process is bound: it was started before that, or moved itself"


def judge_foreign(processes: Sequence[Placed], seen: Seen) -> Iterator[Finding]:
    """CPUs that other holds have alone."""
    theirs = union_of(one.cpus for one in seen.foreign_cpus)
    for one in seen.foreign_cpus:
        some = [process for process in processes if process.pid in one.pids]
        names = [f"{clean(process.name)} ({process.pid})" for process in some]
        who = names[0] if len(names) == 1 else f"{len(names)} processes"
        rest = union(some) & ~theirs
        move = f"; to move it now: taskset -acp {format_ids(rest)} {some[0].pid}" if rest else ""
        yield job_finding(
            "cpus-of-another",
            Severity.ERROR,
            may_run_on_another(who, one.cpus, one.holder),
            tuple(
                f"{name}: {cpu_list(union((process,)))}"
                for name, process in zip(names[:MOST], some, strict=False)
            ),
            "start it with numawise run, or with numawise bind, which leave out what others hold"
            + (move if len(some) == 1 else ""),
        )


def judge_bound(
    hardware: Hardware, processes: Sequence[Placed], homes: Mapping[int, int]
) -> Iterator[Finding]:
    """Without a grant: threads that nothing binds, on a machine with several NUMA nodes."""
    nodes = cpus_by_numa(hardware)
    every = bits_of(nodes)
    if len(nodes) < 2:
        return
    online = open_cpus(hardware)
    for process in processes:
        loose = [thread for thread in process.threads if not online & ~thread.allowed]
        who = f"{clean(process.name)} ({process.pid})"
        if len(loose) == len(process.threads):
            yield job_finding(
                "unbound",
                Severity.ERROR,
                f"nothing binds {who}: {counted(len(loose), 'thread')} may run on NUMA {format_ids(every)}",
                advice=RUN_IT,
            )
        elif homes[process.pid] == every:
            yield job_finding(
                "spans-all",
                Severity.INFO,
                f"threads of {who} are bound all over NUMA {format_ids(every)}: all memory counts as local",
            )
        elif loose:
            bound = 0
            for thread in process.threads:
                bound |= thread.allowed if thread not in loose else 0
            yield job_finding(
                "threads-elsewhere",
                Severity.ERROR,
                f"{len(loose)} of {len(process.threads)} threads of {who} may run outside NUMA "
                f"{format_ids(numa_of(hardware, bound))}",
                (
                    _names(
                        [(process, thread) for thread in loose],
                        online,
                        "others are bound: started before that, or moved themselves",
                    ),
                ),
                RUN_IT,
            )


def _names(group: Sequence[tuple[Placed, ProcessThread]], allowed: int, why: str) -> str:
    shown = ", ".join(
        f"{clean(thread.name)} ({_number(process, thread)})" for process, thread in group[:MOST]
    )
    more = f" and {len(group) - MOST} more" if len(group) > MOST else ""
    return f"{shown}{more}: {cpu_list(allowed)}; {why}"


def _number(process: Placed, thread: ProcessThread) -> str:
    return str(process.pid) if thread.tid == process.pid else f"{process.pid}/{thread.tid}"


# --------------------------------------------------------------------------------------------------
# How much of a job's memory is local, and why the rest is not.
#
# Rules kept here:
#
# 1. A job answers for its own pages: anonymous ones, copies of file pages, huge pages and shared memory.
#    Pages of the page cache (programs, libraries, data files) lie where their first reader put them and serve
#    the whole machine, and a driver places its memory itself: both are reported and never fail a job.
# 2. What several of its processes map together (shared memory, a file) is counted once: by its inode, on each
#    NUMA node the most that any of them has mapped there.  Pages that a parent and a child still share since
#    the fork cannot be distinguished and count for each.
# 3. A page is local when its NUMA node is one of those given for the process that maps it.
# 4. Why a page is elsewhere follows from what binds the process' memory *now*: where that would not have
#    allowed the page, it was made before the binding, or moved later: the kernel does not record which.


MOST_FILES = 3
SPREADING = ("interleave", "weighted interleave")
CHOOSING = ("bind", "prefer", "prefer (many)")


def weigh(processes: Sequence[Placed], homes: Mapping[int, int], only: int | None = None) -> Amounts:
    """Sum the pages of a job; ``homes`` has the local NUMA nodes of each process, packed.

    ``only`` is the one NUMA node of a machine that has no other: there everything is local, known or not.
    """
    single: list[tuple[PageRange, Placed, int]] = []
    joint: dict[tuple[str, str], tuple[dict[int, int], list[tuple[PageRange, Placed, int]]]] = {}
    for process in processes:
        home = homes.get(process.pid, 0)
        for part in _parts(process, only):
            if not part.key:
                single.append((part, process, home))
                continue
            sizes, who = joint.setdefault((part.kind, part.key), ({}, []))
            who.append((part, process, home))
            for numa, size in part.bytes:
                sizes[numa] = max(sizes.get(numa, 0), size)
    table: dict[int, dict[str, int]] = {}
    far: dict[tuple[str, int, str], dict[str, int]] = {}
    own = local = 0
    rows = [(part.kind, part.bytes, [(part, process, home)]) for part, process, home in single]
    rows += [(kind, tuple(sizes.items()), who) for (kind, _), (sizes, who) in joint.items()]
    for kind, sizes_of, who in rows:
        part, process, _ = who[0]
        home = 0
        for *_, one in who:
            home |= one
        for numa, size in sizes_of:
            kinds = table.setdefault(numa, {})
            kinds[kind] = kinds.get(kind, 0) + size
            near = bool(home >> numa & 1)
            own += size if kind in OWN else 0
            local += size if kind in OWN and near else 0
            if not near:
                files = far.setdefault((kind, numa, reason(part, process, home, numa)), {})
                files[part.file] = files.get(part.file, 0) + size
    remote = [
        Remote(kind, numa, sum(files.values()), why, _largest(files))
        for (kind, numa, why), files in far.items()
    ]
    return Amounts(
        table=tuple(
            (numa, tuple((kind, kinds[kind]) for kind in PAGE_KINDS if kind in kinds))
            for numa, kinds in sorted(table.items())
        ),
        own=own,
        local=local,
        remote=tuple(sorted(remote, key=lambda one: (-one.size, one.kind, one.numa))),
    )


def _parts(process: Placed, only: int | None) -> Sequence[PageRange]:
    """What is known of a process' pages; on a machine with one NUMA node the sums are enough."""
    if process.pages is None and only is not None:
        return [PageRange(kind, bytes=((only, size),)) for kind, size in process.sizes]
    return (process.pages or Pages()).parts


def reason(part: PageRange, process: Placed, home: int, numa: int) -> str:
    """Why pages lie on a NUMA node that is not local (rule 4)."""
    mode, nodes = policy_of(part.policy)
    here, there = f"NUMA {format_ids(home)}", f"NUMA {numa}"
    if mode in SPREADING:
        return f"spread by the program itself (policy {part.policy})"
    if mode in CHOOSING and nodes >> numa & 1:
        return f"put there by the program itself (policy {part.policy})"
    if part.kind == SHARED:
        return "shared memory lies where it was first touched, by whichever process"
    if mode == "bind":
        return f"made before its memory was bound to NUMA {format_ids(nodes)}, or moved there later"
    if mode in CHOOSING:
        return f"NUMA {format_ids(nodes)} is only preferred, or became so later, or the pages were moved"
    if process.mems and not process.mems >> numa & 1:
        return made_before(f"off {there}")
    if process.mems and not process.mems & ~home:
        return made_before(f"on {here}")
    return NOTHING_BINDS


def policy_of(text: str) -> tuple[str, int]:
    """A policy as the kernel prints it, such as ``bind=static:0-1``: mode and NUMA nodes."""
    head, colon, list_ = text.rpartition(":")
    try:
        nodes = parse_ids(list_) if colon else 0
    except ValueError:
        nodes = 0
    return (head if colon else text).partition("=")[0], nodes


def _largest(files: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    named = [(file, size) for file, size in files.items() if file]
    return tuple(sorted(named, key=lambda one: (-one[1], one[0]))[:MOST_FILES])


# --------------------------------------------------------------------------------------------------
# GPUs that a job uses: which, how near, and whose.
#
# Rules kept here:
#
# 1. Where a driver lists its compute processes, only those use a GPU; an open device file alone is reported
#    and not graded.  Where none does, an open file counts.
# 2. A GPU is near when one of the NUMA nodes nearest to it is one that the process using it runs on.


def graded_uses(seen: Seen) -> tuple[GpuUse, ...]:
    """The uses that count (rule 1)."""
    return tuple(use for use in seen.uses if use.how == COMPUTES or not seen.listed)


def gpus_seen(hardware: Hardware, uses: Sequence[GpuUse]) -> tuple[GpuSeen, ...]:
    """The GPUs behind some uses, in the machine's order."""
    places: dict[str, GpuPlace] = {}
    for place in placed_gpus(hardware):
        places.setdefault(short_address(place.gpu.address), place)
    order = list(places)
    groups: dict[str, list[GpuUse]] = {}
    for use in uses:
        groups.setdefault(short_address(use.address) if use.address else use.file, []).append(use)
    found = []
    for key, group in sorted(
        groups.items(), key=lambda one: (order.index(one[0]) if one[0] in places else len(order), one[0])
    ):
        at = places.get(key)
        found.append(
            GpuSeen(
                name=chip_of(at.gpu) if at else key,
                address=group[0].address,
                near=at.near if at else 0,
                how=COMPUTES if any(use.how == COMPUTES for use in group) else OPENED,
                pids=tuple(sorted({use.pid for use in group})),
                memory=sum(use.memory or 0 for use in group),
            )
        )
    return tuple(found)


def judge_gpus(
    gpus: Sequence[GpuSeen],
    graded: Sequence[GpuSeen],
    homes: Mapping[int, int],
    wanted: JobGrant | None,
    seen: Seen,
) -> Iterator[Finding]:
    """Compare GPUs with where the job runs and with what it holds."""
    for gpu in graded:
        home = 0
        for pid in gpu.pids:
            home |= homes.get(pid, 0)
        if gpu.near and home and not gpu.near & home:
            granted = wanted is not None and short_address(gpu.address) in wanted.gpus
            yield job_finding(
                "gpu-far",
                Severity.ERROR,
                is_far(gpu.name, gpu.near, home),
                ("it was granted that way: nothing nearer was free",) if granted else (),
                "give it CPUs near to the GPU: numawise run --gpus with the policy single-numa-node"
                if granted
                else f"bind it to NUMA {format_ids(gpu.near)}, or give it a GPU there",
            )
        owner = seen.foreign.get(short_address(gpu.address), "") if gpu.address else ""
        if owner:
            yield job_finding(
                "gpu-of-another",
                Severity.ERROR,
                f"{gpu.name} belongs to {owner}",
                (f"{_verb(gpu)} by {', '.join(map(str, gpu.pids))}",),
                "let the job see its own GPUs only (CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES), or let "
                "numawise run --gpus choose free ones",
            )
        elif wanted is not None and gpu.address and short_address(gpu.address) not in wanted.gpus:
            yield job_finding(
                "gpu-not-held",
                Severity.ERROR,
                f"{gpu.name} is not part of the hold",
                (f"{_verb(gpu)} by {', '.join(map(str, gpu.pids))}",),
                "hold it: numawise run --gpus",
            )
    problems = {process.devices_problem for process in seen.processes if process.devices_problem}
    if problems and not any(gpu.how == COMPUTES for gpu in gpus):
        yield job_finding(
            "gpus-unread", Severity.INFO, "which GPUs it has open is not known", tuple(sorted(problems))
        )
    lost = [gpu.name for gpu in graded if not gpu.near]
    if lost:
        yield job_finding(
            "gpu-unplaced", Severity.INFO, f"which NUMA node {', '.join(lost)} is near to is not known"
        )


def _verb(gpu: GpuSeen) -> str:
    return "used" if gpu.how == COMPUTES else "opened"
