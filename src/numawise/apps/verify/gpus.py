"""GPUs that a job uses: which, how near, and whose.

Rules kept here:

1. Where a driver lists its compute processes, only those use a GPU; an open device file alone is told and not
   graded.  Where none does, an open file counts.
2. A GPU is near when one of the NUMA nodes nearest to it is one that the process using it runs on.
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.apps.verify.model import Seen, job_finding
from numawise.host.nvml import COMPUTES, OPENED, GpuUse
from numawise.machine.hardware import Hardware
from numawise.machine.locality import short_address
from numawise.machine.nearest import GpuPlace, chip_of, placed_gpus
from numawise.results.finding import Finding, Severity
from numawise.results.verification import GpuSeen, JobGrant
from numawise.sets import format_ids


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
                f"{gpu.name} is on NUMA {format_ids(gpu.near)} and the job on NUMA {format_ids(home)}",
                ("the grant itself is so: nothing nearer was free",) if granted else (),
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
                "let the job see its own GPUs only: CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES",
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
