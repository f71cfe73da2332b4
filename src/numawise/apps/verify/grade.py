"""The grade of a job: aligned, spilled, or where it leaks and why.

Rules kept here:

1. With a grant: every thread may run on granted CPUs only, at least 98 % of the job's own pages lie on
   granted NUMA nodes (``pages`` says which are its own), and its GPUs are granted and near to its CPUs.
   With or without a grant: no thread may run on CPUs that another hold has alone, and no GPU is another's.
   Where the granted memory policy lets pages spill, fewer of them there make it ``spilled``, whoever moved
   them, unless the program itself has chosen their place: then it is not aligned.
2. Without one a job is compared with itself, process by process: local are the NUMA nodes of the CPUs its
   threads are bound to.  A thread that may run on every CPU is not bound.  A process without any bound thread
   belongs where its GPUs are; without GPUs it belongs nowhere, and that is a leak, too.
3. Memory on a GPU's own NUMA node (Grace, POWER) is local to the job that uses the GPU.
4. On a machine with one NUMA node all memory is local, whether or not its places may be read.
5. What could not be read is reported.  It decides (``not known``) when it could have shown a leak, or that
   what was read is none: pages that are hidden may all be local.
6. Only leaks and spilled memory fail a job.  Notes are for people: file pages elsewhere, CPUs of the grant
   that no thread may use, busy strangers, NUMA balancing, swap.
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.apps.verify.leaks import (
    gpus_seen,
    graded_uses,
    judge_bound,
    judge_foreign,
    judge_gpus,
    judge_granted,
    union,
    weigh,
)
from numawise.apps.verify.sources import Seen
from numawise.explain.placement import (
    ENOUGH,
    FILE_PAGES_REMOTE,
    MEMORY_REMOTE,
    MEMORY_SPILLED,
    cpu_list,
    files_matter,
    grade_of,
    job_finding,
    remote_files,
    remote_memory,
    spilled_memory,
    union_of,
)
from numawise.host.numamaps import ANONYMOUS, FILE, HUGE, OWN, SHARED
from numawise.host.placed import Placed
from numawise.machine.hardware import Hardware
from numawise.machine.locality import cpus_by_numa, memory_near, numa_of, open_cpus
from numawise.render.words import bytes_text, clean, counted, percent
from numawise.results.finding import RANK, Finding, Severity
from numawise.results.placement import BOUND, VARIABLES
from numawise.results.verification import ALIGNED, NOT_KNOWN, Amounts, GpuSeen, JobGrant, Remote, Verdict
from numawise.sets import bits_of, format_ids
from numawise.values import replace

WORDS = {ANONYMOUS: "anonymous memory", HUGE: "huge pages", SHARED: "shared memory"}
MOST = 4
NEARLY_FULL = 0.02
RUN_IT = "start it with numawise run, which binds memory before the program begins"
BOOK_IT = (
    "--memory books the amount when the job starts, where there is room for it; --memory-policy bind allows "
    "no other NUMA node"
)
BY_ITSELF = "by the program itself"
"""In the reason why pages lie where they do: the program has asked for it."""


def grade(hardware: Hardware, seen: Seen, wanted: JobGrant | None = None) -> Verdict:
    """Grade a job by what was read about it."""
    processes = tuple(process for process in seen.processes if not process.kernel)
    uses = graded_uses(seen)
    gpus = gpus_seen(hardware, seen.uses)
    graded = gpus_seen(hardware, uses)
    homes = _homes(hardware, processes, graded, wanted)
    extra = _own_memory(hardware, graded)
    numas = bits_of(cpus_by_numa(hardware))
    mems = {
        process.pid: (
            wanted.mems if wanted and wanted.mems else memory_near(hardware, homes.get(process.pid, 0))
        )
        | extra
        for process in processes
    }
    nodes = [node.id for node in hardware.numa] or [0]
    only = nodes[0] if len(nodes) == 1 else None
    if only is not None:
        mems = dict.fromkeys(mems, 1 << only)
    amounts = weigh(processes, mems, only)
    findings = [
        *(
            judge_granted(hardware, processes, wanted, seen)
            if wanted
            else judge_bound(hardware, processes, homes)
        ),
        *judge_foreign(processes, seen),
        *_judge_pages(hardware, seen, mems, amounts, wanted, unknown=only is None),
        *judge_gpus(gpus, graded, homes, wanted, seen),
        *_judge_fence(seen),
        *_judge_surroundings(hardware, seen, processes, wanted),
    ]
    findings.sort(key=lambda finding: RANK[finding.severity])
    verdict = Verdict(
        grade=grade_of(findings),
        sentence="",
        findings=tuple(findings),
        processes=len(processes),
        threads=sum(len(process.threads) for process in processes),
        cpus=union(processes),
        ran=bits_of(thread.cpu for process in processes for thread in process.threads if thread.cpu >= 0),
        numa=union_of(homes.values()) if homes else numas,
        mems=union_of(mems.values()),
        amounts=amounts,
        gpus=tuple(replace(gpu, used=gpu.name in {one.name for one in graded}) for gpu in gpus),
        swapped=sum(process.swapped for process in processes),
    )
    return replace(verdict, sentence=_sentence(hardware, verdict, graded, same=len(set(mems.values())) <= 1))


def _homes(
    hardware: Hardware, processes: Sequence[Placed], gpus: Sequence[GpuSeen], wanted: JobGrant | None
) -> dict[int, int]:
    """NUMA nodes whose CPUs each process should run on, packed (rules 1 and 2)."""
    every = bits_of(cpus_by_numa(hardware))
    if wanted is not None:
        return dict.fromkeys((process.pid for process in processes), numa_of(hardware, wanted.cpus) or every)
    open_to_all = open_cpus(hardware)
    found = {}
    for process in processes:
        bound = 0
        for thread in process.threads:
            if open_to_all & ~thread.allowed:
                bound |= thread.allowed
        near = union_of(gpu.near for gpu in gpus if process.pid in gpu.pids)
        found[process.pid] = numa_of(hardware, bound) or near or every
    return found


def _own_memory(hardware: Hardware, gpus: Sequence[GpuSeen]) -> int:
    """NUMA nodes that are the memory of GPUs in use (rule 3), packed."""
    used = {gpu.address for gpu in gpus if gpu.address}
    return bits_of(gpu.own_numa for gpu in hardware.gpus if gpu.own_numa is not None and gpu.address in used)


def _judge_pages(
    hardware: Hardware,
    seen: Seen,
    mems: Mapping[int, int],
    amounts: Amounts,
    wanted: JobGrant | None,
    *,
    unknown: bool,
) -> Iterator[Finding]:
    hidden = [process for process in seen.processes if process.pages is None] if unknown else []
    unread = sum(size for process in hidden for kind, size in process.sizes if kind in OWN)
    if amounts.share < ENOUGH and amounts.local + unread < ENOUGH * (amounts.own + unread):
        far = [one for one in amounts.remote if one.kind in OWN]
        near, places = union_of(mems.values()), bits_of(one.numa for one in far)
        full = tuple(_short_of_memory(hardware, seen, amounts))
        chosen = any(BY_ITSELF in one.reason for one in far)
        spilled = may_spill(wanted) and not chosen
        advice = BOOK_IT if spilled else RUN_IT
        if len(mems) == 1 and not chosen:
            move = f"migratepages {min(mems)} {format_ids(places)} {format_ids(near)}"
            advice += f"; to move what is there: {move}"
        yield job_finding(
            MEMORY_SPILLED if spilled else MEMORY_REMOTE,
            Severity.ERROR,
            spilled_memory(amounts, near, places) if spilled else remote_memory(amounts, places),
            (*(_remote_text(one) for one in far[:MOST]), *full),
            advice,
        )
    if hidden:
        size = sum(size for process in hidden for _, size in process.sizes)
        who = ", ".join(f"{clean(process.name)} ({process.pid})" for process in hidden[:MOST])
        more = f" and {len(hidden) - MOST} more" if len(hidden) > MOST else ""
        problems = tuple(dict.fromkeys(process.pages_problem for process in hidden))
        yield job_finding(
            "memory-unread",
            Severity.WARNING,
            f"where {bytes_text(size)} of {who}{more} lie",
            problems,
            "run it as root, or as the user of the job",
        )
    cached = [one for one in amounts.remote if one.kind == FILE]
    size = sum(one.size for one in cached)
    whole = sum(size for _, kinds in amounts.table for _, size in kinds)
    if files_matter(size, whole):
        yield job_finding(
            FILE_PAGES_REMOTE,
            Severity.INFO,
            remote_files(size, bits_of(one.numa for one in cached)),
            tuple(_remote_text(one) for one in cached[:MOST]),
            "read large files from inside the job first, or drop them from the page cache "
            "(sysctl vm.drop_caches=1) before it starts",
        )
    garbled = sum(process.pages.garbled for process in seen.processes if process.pages)
    if garbled:
        yield job_finding(
            "memory-garbled",
            Severity.WARNING if unknown else Severity.INFO,
            f"{counted(garbled, 'line')} of numa_maps could not be understood",
        )


def may_spill(wanted: JobGrant | None) -> bool:
    """Whether the grant lets pages come from other NUMA nodes when its own are full."""
    return wanted is not None and bool(wanted.mems) and wanted.memory_policy != BOUND


def _remote_text(one: Remote) -> str:
    if one.kind == FILE:
        files = ", ".join(f"{clean(file)} ({bytes_text(size)})" for file, size in one.files)
        return f"NUMA {one.numa}: {files or 'pages of the kernel'}, put there by their first reader"
    named = ", ".join(dict.fromkeys(clean(file) for file, _ in one.files))
    what = f"{WORDS[one.kind]}, {named}" if named and one.kind == SHARED else WORDS[one.kind]
    return f"NUMA {one.numa}: {bytes_text(one.size)} of {what}: {one.reason}"


def _short_of_memory(hardware: Hardware, seen: Seen, amounts: Amounts) -> Iterator[str]:
    """Local NUMA nodes that have hardly any memory left."""
    far = {one.numa for one in amounts.remote if one.kind in OWN}
    for node in hardware.numa:
        free = seen.free.get(node.id)
        if node.id in far or free is None or not node.memory or node.id not in dict(amounts.table):
            continue
        if free < NEARLY_FULL * node.memory:
            yield f"NUMA {node.id} is nearly full now: {bytes_text(free)} of {bytes_text(node.memory)} free"


def _judge_fence(seen: Seen) -> Iterator[Finding]:
    """What keeps the job from GPUs of others."""
    if seen.fence == VARIABLES:
        text = "GPUs of others are hidden by variables, which the job could change"
        yield job_finding("gpus-fenced", Severity.INFO, text)
    elif seen.fence and seen.fence_stands is False:
        yield job_finding(
            "fence-open",
            Severity.ERROR,
            "the device rules that were to keep it from GPUs of others are gone",
            advice="start it again with numawise run --fence",
        )
    elif seen.fence:
        unasked = "" if seen.fence_stands else ", as its hold says; only root can look"
        yield job_finding("gpus-fenced", Severity.INFO, f"device rules keep it from GPUs of others{unasked}")


def _judge_surroundings(
    hardware: Hardware, seen: Seen, processes: Sequence[Placed], wanted: JobGrant | None
) -> Iterator[Finding]:
    for cpus, hold in seen.overlaps:
        yield job_finding(
            "cpus-granted-twice",
            Severity.ERROR,
            f"{cpu_list(cpus)} granted to {hold}, too",
            advice="release one of the two",
        )
    if seen.strangers and wanted:
        cpus = bits_of(one.cpu for one in seen.strangers)
        why = [
            f"{clean(one.name)} ({one.pid if one.tid == one.pid else f'{one.pid}/{one.tid}'})"
            + (f" of {one.hold}" if one.hold else "")
            + f": {percent(one.share)} of CPU {one.cpu}"
            for one in seen.strangers[:MOST]
        ]
        left = len(seen.strangers) - MOST
        yield job_finding(
            "cpus-shared",
            Severity.INFO,
            f"{counted(len(seen.strangers), 'busy thread')} of others on {cpu_list(cpus)} of the hold",
            (*why, *([f"and {left} more"] if left > 0 else [])),
            "start other work with numawise run as well, or this job with --isolate",
        )
    host = hardware.host
    if host and host.numa_balancing and len(hardware.numa) > 1:
        yield job_finding(
            "numa-balancing",
            Severity.INFO,
            "NUMA balancing is on: the kernel samples and moves pages that no policy binds",
            advice="sysctl kernel.numa_balancing=0",
        )
    swapped = sum(process.swapped for process in processes)
    if swapped:
        yield job_finding(
            "swapped",
            Severity.INFO,
            f"{bytes_text(swapped)} are swapped out, and lie nowhere now",
            advice="give the job more memory",
        )
    if len(hardware.numa) > 1 and not (wanted and wanted.mems == _memory_nodes(hardware)):
        loose = [process for process in processes if _loose(process, wanted)]
        if loose and wanted:
            yield job_finding(
                "memory-unbound",
                Severity.INFO,
                f"nothing keeps new memory of {clean(loose[0].name)} ({loose[0].pid}) on NUMA "
                f"{format_ids(wanted.mems)}",
                (f"no memory policy, and NUMA {format_ids(loose[0].mems)} are allowed",),
            )


def _loose(process: Placed, wanted: JobGrant | None) -> bool:
    """Nothing binds the memory of a process to what was granted."""
    if wanted is None or not wanted.mems or process.pages is None or not process.mems & ~wanted.mems:
        return False
    policies = {part.policy for part in process.pages.parts if part.kind == ANONYMOUS}
    return policies <= {"default", "local"}


def _memory_nodes(hardware: Hardware) -> int:
    return bits_of(node.id for node in hardware.numa if node.memory != 0)


def _sentence(hardware: Hardware, verdict: Verdict, graded: Sequence[GpuSeen], *, same: bool) -> str:
    leaks = [finding.message for finding in verdict.findings if finding.severity is Severity.ERROR]
    if leaks:
        return f"{verdict.grade}: {'; '.join(leaks)}"
    parts = [_threads_text(hardware, verdict)]
    amounts = verdict.amounts
    unread = [finding.message for finding in verdict.findings if finding.severity is Severity.WARNING]
    if amounts.own:
        share = f"{percent(amounts.share)} of {bytes_text(amounts.own)}"
        where = f"NUMA {format_ids(verdict.mems)}" if same else "its own NUMA nodes"
        parts.append(f"{share} on {where}")
    for gpu in graded:
        if gpu.near:
            parts.append(f"{gpu.name} on NUMA {format_ids(gpu.near)}")
    if verdict.grade == NOT_KNOWN:
        return f"{NOT_KNOWN}: {'; '.join(unread)}; otherwise {', '.join(parts)}"
    return f"{ALIGNED}: {', '.join(parts)}"


def _threads_text(hardware: Hardware, verdict: Verdict) -> str:
    threads = counted(verdict.threads, "thread")
    who = threads if verdict.processes == 1 else f"{threads} of {verdict.processes} processes"
    numa = numa_of(hardware, verdict.cpus)
    return f"{who} on {cpu_list(verdict.cpus)}" + (f" (NUMA {format_ids(numa)})" if numa else "")
