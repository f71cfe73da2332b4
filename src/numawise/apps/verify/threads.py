"""Threads that may run where they should not, and why.

Rules kept here:

1. A mask is compared over the CPUs that are online: the kernel drops others from what it obeys.  A thread
   that may run on all of them, or all but isolated ones, is not bound.
2. Affinity is a thread's own.  One that strays while its process keeps to the grant was started before the
   process was bound, or moved itself; a process of which all threads stray was never bound.
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.apps.verify.model import Seen, job_finding
from numawise.host.placed import Placed, ProcessThread, in_group
from numawise.machine.hardware import Hardware
from numawise.machine.locality import cpus_by_numa, numa_of, open_cpus
from numawise.render.words import clean, counted
from numawise.results.finding import Finding, Severity
from numawise.results.verification import JobGrant
from numawise.sets import bits_of, format_ids

MOST = 4
RUN_IT = "start it with numawise run, which binds before the program begins"


def cpu_list(cpus: int) -> str:
    """``CPU 3``, ``CPUs 2-9``."""
    return f"{'CPU' if cpus.bit_count() == 1 else 'CPUs'} {format_ids(cpus)}"


def union(processes: Sequence[Placed]) -> int:
    """CPUs that some thread may run on."""
    found = 0
    for process in processes:
        for thread in process.threads:
            found |= thread.allowed
    return found


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
            f"{of} may run outside {cpu_list(wanted.cpus)}",
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
