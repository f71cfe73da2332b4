"""Drift: where what a container has is no longer what the kubelet granted it.

Pure: what was read comes in as values.  The agent's watcher and ``numawise verify --pods`` both ask here.

Rules kept here:

1. CPUs count over those that are online: the kernel drops the others from what it obeys.
2. A container that may run elsewhere, or on fewer CPUs than it was granted, has drifted.  The kubelet does
   not notice: it writes a cpuset again only when its own record changes.
3. A container with CPUs of its own belongs where they are: its memory (the nodes it is bound to, else those
   near to its CPUs), its devices and its claims are compared with that.  One in the shared pool belongs
   nowhere, so only its cpuset is judged, and its memory where that is bound.
4. Pages are judged as ``verify`` judges them.  Less than ``WORTH_SAYING`` elsewhere is not said.
5. Errors are drift.  Warnings say what could not be known.  Notes (``info``) are for people who ask.
6. Records that differ are no drift of the container: which is right cannot be said from outside, and both
   are shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from numawise.codec.podresources import ListedContainer
from numawise.engine.state import Block
from numawise.explain.grants import KubeletRecords, RecordedGrant
from numawise.explain.placement import (
    ENOUGH,
    FILE_PAGES_REMOTE,
    MEMORY_REMOTE,
    NOTHING_BINDS,
    cpu_list,
    files_matter,
    is_far,
    job_finding,
    made_before,
    may_run_on_another,
    may_run_outside,
    remote_files,
    remote_memory,
)
from numawise.host.pod_groups import GroupCpuset, GroupPages
from numawise.machine.hardware import Hardware
from numawise.machine.locality import memory_near, numa_of
from numawise.node.state.folder import memory_text
from numawise.results.claims import ClaimOutcome
from numawise.results.finding import Finding, Severity
from numawise.results.verification import PAGE_KINDS, Amounts, Remote
from numawise.sets import NumaSet, bits_of, format_ids
from numawise.values import dataclass

WORTH_SAYING = 16 << 20
"""Bytes elsewhere from which on a container's own pages are worth a word."""
CPUSET_CHANGED, MEMS_CHANGED, DEVICE_FAR = "cpuset-changed", "mems-changed", "device-far"
CLAIM_FAR, CLAIM_UNKNOWN, RECORDS_DIFFER = "claim-far", "claim-unknown", "records-differ"
PAGES_UNREAD, CPUSET_UNREAD = "memory-unread", "cpuset-unread"
DRIFTS = (CPUSET_CHANGED, MEMS_CHANGED, MEMORY_REMOTE, DEVICE_FAR, CLAIM_FAR, RECORDS_DIFFER)
"""What the watcher reports, as errors."""
ANONYMOUS, HUGE, _, _, FILE = PAGE_KINDS
MOST = 4


@dataclass(frozen=True, slots=True)
class Mending:
    """What has to be written so that a container has its CPUs and NUMA nodes again; None: nothing."""

    cpus: int | None = None
    mems: int | None = None

    def __bool__(self) -> bool:
        return self.cpus is not None or self.mems is not None


def called(grant: RecordedGrant) -> str:
    """What to call a container beside its pod."""
    return f"container {grant.container}"


# --- cpusets --------------------------------------------------------------------------------------


def judge_cpuset(
    hardware: Hardware,
    grant: RecordedGrant,
    cpuset: GroupCpuset,
    others: Iterable[RecordedGrant] = (),
    *,
    by_systemd: bool = False,
) -> Iterator[Finding]:
    """Compare what a container may use with what it was granted (rules 1 and 2).

    ``by_systemd``: its group is a unit of systemd's.
    """
    unit = (RELOADED,) if by_systemd else ()
    who = called(grant)
    if grant.cpus and cpuset.cpus is not None and cpuset.cpus != grant.cpus:
        online = bits_of(thread.cpu for thread in hardware.threads) or -1
        extra, lost = cpuset.cpus & online & ~grant.cpus, grant.cpus & online & ~cpuset.cpus
        if extra or lost:
            taken = [
                may_run_on_another("it", extra & other.cpus, other.name)
                for other in others
                if other.alone and other.uid != grant.uid and extra & other.cpus
            ]
            more = [f"and on CPUs of {len(taken) - MOST} more"] if len(taken) > MOST else []
            message = may_run_outside(who, grant.cpus) if extra else _kept_off(who, lost, grant.cpus)
            why = (*_cpuset_cause(grant.cpus & online, cpuset, online), *taken[:MOST], *more, *unit)
            yield job_finding(CPUSET_CHANGED, Severity.ERROR, message, why, MEND)
    if grant.mems and cpuset.mems is not None and cpuset.mems != grant.mems:
        extra, lost = cpuset.mems & ~grant.mems, grant.mems & ~cpuset.mems
        granted = format_ids(grant.mems)
        message = (
            f"{who} may use memory outside NUMA {granted}"
            if extra
            else f"{who} may not use memory of NUMA {format_ids(lost)}, and was granted NUMA {granted}"
        )
        yield job_finding(MEMS_CHANGED, Severity.ERROR, message, (*_mems_cause(grant, cpuset), *unit), MEND)
    if cpuset.cpus is None and grant.cpus:
        message = f"which CPUs {who} may run on is not known"
        yield job_finding(CPUSET_UNREAD, Severity.WARNING, message, (NO_CONTROLLER,))


MEND = "let the agent write it back (--watch --repair), or delete the pod so that it is made again"
NO_CONTROLLER = "its control group has no cpuset files, or has just ended"
RESET = "nothing is written in its cpuset any more"
RELOADED = "systemd writes what its unit has as AllowedCPUs= and AllowedMemoryNodes= whenever it is reloaded"
ABOVE = "its own cpuset is as it was granted; a control group above it has fewer"


def _kept_off(who: str, lost: int, cpus: int) -> str:
    return f"{who} may not run on {cpu_list(lost)}, and was granted {cpu_list(cpus)}"


def _cpuset_cause(granted: int, cpuset: GroupCpuset, online: int) -> Iterator[str]:
    now = cpuset.cpus or 0
    yield f"its cpuset has {cpu_list(now)}" if now else "its cpuset has no CPUs"
    if cpuset.written_cpus == 0:
        yield RESET
    elif cpuset.written_cpus is not None and cpuset.written_cpus & online == granted:
        yield ABOVE


def _mems_cause(grant: RecordedGrant, cpuset: GroupCpuset) -> Iterator[str]:
    yield f"its cpuset has NUMA {format_ids(cpuset.mems or 0)}"
    if cpuset.written_mems == 0:
        yield RESET
    elif cpuset.written_mems == grant.mems:
        yield ABOVE


def mending(hardware: Hardware, grant: RecordedGrant, cpuset: GroupCpuset) -> Mending:
    """What has to be written into a container's own group: never more than what it was granted."""
    online = bits_of(thread.cpu for thread in hardware.threads) or -1
    written = cpuset.written_cpus
    cpus = mems = None
    if grant.cpus and cpuset.cpus is not None and written is not None:
        wrong = (cpuset.cpus ^ grant.cpus) & online
        cpus = grant.cpus if wrong and (written ^ grant.cpus) & online else None
    if grant.mems and cpuset.mems is not None and cpuset.written_mems is not None:
        wrong = cpuset.mems ^ grant.mems
        mems = grant.mems if wrong and cpuset.written_mems != grant.mems else None
    return Mending(cpus, mems)


# --- memory ---------------------------------------------------------------------------------------


def local_memory(hardware: Hardware, grant: RecordedGrant) -> int:
    """NUMA nodes whose memory is local to a container, packed; 0: it belongs nowhere (rule 3)."""
    mems = grant.mems
    if not mems and grant.alone:
        mems = memory_near(hardware, numa_of(hardware, grant.cpus))
    if mems and grant.devices:  # memory on a GPU's own NUMA node is local to who uses the GPU
        mems |= bits_of(gpu.own_numa for gpu in hardware.gpus if gpu.own_numa is not None)
    return mems


def weighed(pages: GroupPages, local: int, reason: str = "") -> Amounts:
    """The pages of a group in the form that all judge by."""
    table: dict[int, dict[str, int]] = {}
    remote = []
    own = near = 0
    for kind, sizes in ((ANONYMOUS, pages.own), (HUGE, pages.huge), (FILE, pages.file)):
        for numa, size in sizes:
            kinds = table.setdefault(numa, {})
            kinds[kind] = kinds.get(kind, 0) + size
            is_local = bool(local >> numa & 1)
            own += size if kind != FILE else 0
            near += size if kind != FILE and is_local else 0
            if not is_local:
                remote.append(Remote(kind, numa, size, reason))
    rows = tuple((numa, tuple(kinds.items())) for numa, kinds in sorted(table.items()))
    return Amounts(rows, own, near, tuple(sorted(remote, key=lambda one: (-one.size, one.kind, one.numa))))


def judge_pages(
    hardware: Hardware, grant: RecordedGrant, cpuset: GroupCpuset, pages: GroupPages | None
) -> Iterator[Finding]:
    """Compare where a container's memory lies with where it belongs (rules 3 and 4)."""
    local = local_memory(hardware, grant)
    if not local or len(hardware.numa) < 2:
        return
    if pages is None:
        message = f"where the memory of {called(grant)} lies is not known"
        yield job_finding(PAGES_UNREAD, Severity.WARNING, message, (NO_NUMA_STAT,))
        return
    bound = grant.mems and cpuset.mems is not None and not cpuset.mems & ~grant.mems
    reason = made_before(f"on NUMA {format_ids(grant.mems)}") if bound else NOTHING_BINDS
    amounts = weighed(pages, local, reason)
    far = [one for one in amounts.remote if one.kind != FILE]
    size = sum(one.size for one in far)
    if amounts.share < ENOUGH and size >= WORTH_SAYING:
        message = f"{called(grant)}: {remote_memory(amounts, bits_of(one.numa for one in far))}"
        advice = START_AGAIN if grant.mems else f"{START_AGAIN}; memoryManagerPolicy Static binds memory"
        yield job_finding(MEMORY_REMOTE, Severity.ERROR, message, (reason,), advice)
    cached = [one for one in amounts.remote if one.kind == FILE]
    whole = sum(size for _, kinds in amounts.table for _, size in kinds)
    if files_matter(sum(one.size for one in cached), whole):
        places = bits_of(one.numa for one in cached)
        message = f"{called(grant)}: {remote_files(sum(one.size for one in cached), places)}"
        yield job_finding(FILE_PAGES_REMOTE, Severity.INFO, message, ("put there by their first reader",))


START_AGAIN = "delete the pod so that it is made again: what is allocated stays where it is"
NO_NUMA_STAT = "its control group has no memory.numa_stat, or has just ended"


# --- devices and claims ---------------------------------------------------------------------------


def judge_devices(hardware: Hardware, grant: RecordedGrant) -> Iterator[Finding]:
    """Compare where a container's devices are with where its CPUs are (rule 3)."""
    home = numa_of(hardware, grant.cpus) if grant.alone else 0
    apart: dict[tuple[str, int], list[str]] = {}
    for device in grant.devices:
        if home and device.numa and not device.numa & home:
            apart.setdefault((device.resource, device.numa), []).append(device.id)
    for (resource, numa), ids in apart.items():
        more = f" and {len(ids) - MOST} more" if len(ids) > MOST else ""
        name = f"{resource} {', '.join(ids[:MOST])}{more}"
        yield job_finding(
            DEVICE_FAR,
            Severity.ERROR,
            is_far(name, numa, home, called(grant)),
            ("it was granted that way",),
            "topologyManagerPolicy single-numa-node refuses what cannot be on one NUMA node; "
            "numawise why says what was free",
        )


def judge_claims(hardware: Hardware, grant: RecordedGrant) -> Iterator[Finding]:
    """Compare where a container's claimed devices are with what it has beside them."""
    beside: dict[str, int] = {}
    if grant.alone:
        beside["CPUs"] = numa_of(hardware, grant.cpus)
    if grant.mems:
        beside["memory"] = grant.mems
    for device in grant.devices:
        if device.numa:
            beside[device.resource] = beside.get(device.resource, 0) | device.numa
    numa = 0
    for bits in beside.values():
        numa |= bits
    for claim in grant.claims:
        outcome = ClaimOutcome(
            name=claim.name or claim.claim,
            claim=claim.claim,
            template=claim.template,
            containers=(grant.container,),
            resources=claim.resources,
            devices=claim.devices,
            numa=NumaSet(claim.numa),
            given=tuple(beside),
            beside=NumaSet(numa),
            aligned=claim.numa & ~numa == 0 if claim.placed and numa else None,
            admitted=True,
        )
        message = f"{called(grant)}: {outcome.text}"
        if outcome.aligned is False:
            yield job_finding(CLAIM_FAR, Severity.ERROR, message, (), CLAIM_ADVICE)
        elif outcome.aligned is None and numa:
            yield job_finding(CLAIM_UNKNOWN, Severity.WARNING, message, (), CLAIM_UNKNOWN_ADVICE)


CLAIM_ADVICE = "numawise check shows the claim that keeps devices together; CPUs have to be claimed as well"
CLAIM_UNKNOWN_ADVICE = (
    "it takes a driver that publishes resource.kubernetes.io/numaNode, and the right to list resourceslices"
)


# --- records --------------------------------------------------------------------------------------


def judge_records(
    grant: RecordedGrant, records: KubeletRecords, listed: ListedContainer | None
) -> Iterator[Finding]:
    """Compare what the state files record of a container with what PodResources answers (rule 6)."""
    if listed is None:
        return
    differences = []
    own = records.assigned(grant.uid, grant.container)
    if records.cpu is not None and own != listed.cpus:
        differences.append(f"{_cpus(own)} in cpu_manager_state and {_cpus(listed.cpus)} in PodResources")
    blocks = records.blocks(grant.uid, grant.container)
    if records.memory is not None and _sums(blocks) != _sums(listed.memory):
        texts = (memory_text(one) or "no memory" for one in (blocks, listed.memory))
        differences.append(f"{next(texts)} in memory_manager_state and {next(texts)} in PodResources")
    held = records.held(grant.uid, grant.container)
    for resource in sorted({*held, *listed.devices}):
        recorded, answered = (one.get(resource, frozenset()) for one in (held, listed.devices))
        if recorded != answered:
            texts = (", ".join(sorted(one)) or "none" for one in (recorded, answered))
            differences.append(
                f"{resource} {next(texts)} in kubelet_internal_checkpoint and {next(texts)} in PodResources"
            )
    if differences:
        yield job_finding(
            RECORDS_DIFFER,
            Severity.ERROR,
            f"{called(grant)} has {'; '.join(differences)}",
            ("somebody changed a state file while the kubelet ran, or the kubelet could not write it",),
            "numawise state verify says what is wrong with the files; a restarted kubelet believes them",
        )


def _cpus(cpus: int) -> str:
    return cpu_list(cpus) if cpus else "no CPUs"


def _sums(blocks: Sequence[Block]) -> Mapping[tuple[int, str], int]:
    sums: dict[tuple[int, str], int] = {}
    for block in blocks:
        key = block.numa, block.type
        sums[key] = sums.get(key, 0) + block.size
    return {key: size for key, size in sums.items() if size}
