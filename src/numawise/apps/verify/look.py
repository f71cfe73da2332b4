"""Look at the jobs of this host: whose processes they are, what they were granted, how they are placed.

Rules kept here:

1. A hold's processes are its owner's family, those in its control group or container, and those that carry
   its mark in their environment: what a parent left behind still belongs to the job.
2. A process that belongs to a hold is compared with the hold; any other, with its descendants and, in a
   container, with everything in it, is compared with itself.
3. The ledger is only read.  For a bare process it is not needed, and an unreadable one is reported.
4. What a living hold has is its own: CPUs that it has alone and its GPUs are foreign to every process that
   does not belong to it, with or without a hold.
5. A hold of which nothing runs any more is a leak of the ledger; one whose processes count in another pid
   namespace cannot be judged from here.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.verify.grade import grade
from numawise.apps.verify.leaks import union
from numawise.apps.verify.sources import (
    GLANCE,
    HERE,
    ForeignCpus,
    Seen,
    Stranger,
    boot_time,
    busy_threads,
)
from numawise.errors import InputError, quoted
from numawise.explain.placement import cpu_list, job_finding, union_of
from numawise.host import processes
from numawise.host.confine import fence_stands
from numawise.host.nodememory import read_free
from numawise.host.nvml import GpuUse, kfd_users, nvml_users, opened
from numawise.host.placed import (
    Placed,
    container_of,
    in_container,
    in_group,
    in_hold,
    read_groups,
    read_placed,
    variable_of,
)
from numawise.machine.hardware import Hardware
from numawise.machine.locality import cpus_of, short_address
from numawise.results.allotment import kept_within
from numawise.results.finding import Severity
from numawise.results.placement import HOLD_VARIABLE, RULES, Hold, holds_named, same_device
from numawise.results.verification import NOT_ALIGNED, NOT_KNOWN, CheckedJob, JobGrant, Verdict
from numawise.sets import bits_of
from numawise.values import dataclass, field, replace

TICKS = 100


@dataclass(slots=True)
class JobHost:
    """This host, or the copy of one below a root, with what is held of it."""

    hardware: Hardware
    holds: tuple[Hold, ...] = ()
    root: Path = HERE
    nvml: Any = None
    """NVML's bindings; None where they are not there."""
    namespace: int = 0
    """Number of our pid namespace; 0: not known."""
    glance: float = GLANCE
    """Seconds to look for busy strangers; 0: do not look."""
    _users: tuple[tuple[GpuUse, ...], bool] | None = None
    _groups: dict[int, tuple[str, ...]] = field(default_factory=dict)
    _table: dict[int, processes.Process] = field(default_factory=dict)
    _marks: dict[str, set[int]] | None = None
    _busy: tuple[Stranger, ...] | None = None

    def check_pid(self, pid: int) -> CheckedJob:
        """A process and what belongs to it."""
        first = processes.read_process(pid, self.root)
        if first is None or not processes.threads(pid, self.root):
            raise InputError(
                f"there is no process {pid}", advice="give a process number or a hold, see numawise ps"
            )
        hold = self.hold_of(pid)
        pids = self.family({pid})
        container = container_of(self.groups(pid))
        if container and hold is None:
            pids |= {other for other in self.table() if in_container(self.groups(other), container)}
        found = self.read(pids)
        if not found:
            raise InputError(f"process {pid} has ended", advice="give one that runs")
        if all(process.kernel for process in found):
            raise InputError(
                f"process {pid} ({first.name}) is a thread of the kernel", advice="give a program's"
            )
        wanted = self.wanted(hold) if hold else None
        if wanted and hold and pid != hold.owner.pid:
            wanted = replace(wanted, alone=False)  # the rest of the job has its share of the CPUs
        seen = self.seen(found, hold, wanted)
        label = f"process {pid} ({first.name})" + (f" of hold {title(hold)}" if hold else "")
        return CheckedJob(label, grade(self.hardware, seen, wanted), hold, pid, wanted)

    def check_hold(self, hold: Hold) -> CheckedJob:
        """A hold."""
        wanted = self.wanted(hold)
        found = self.read(self.members(hold))
        label = f"hold {title(hold)}"
        if not found:
            return CheckedJob(label, self.nothing(hold), hold, wanted=wanted)
        return CheckedJob(
            label, grade(self.hardware, self.seen(found, hold, wanted), wanted), hold, wanted=wanted
        )

    def nothing(self, hold: Hold) -> Verdict:
        """The verdict on a hold without processes (rule 5)."""
        return _out_of_sight() if self.is_elsewhere(hold) else _gone(hold)

    def find(self, name: str) -> Hold | None:
        """The hold of this id or name, or ``USER/ID``; of several, our own; None when there is none."""
        found = holds_named(self.holds, name, os.geteuid())
        if len(found) > 1:
            several = ", ".join(f"{hold.owner.user}/{hold.id}" for hold in found)
            raise InputError(f"{quoted(name)} matches several holds", advice=f"give one of {several}")
        return found[0] if found else None

    def read(self, pids: Iterable[int]) -> tuple[Placed, ...]:
        """Those of the processes that still run; the observer is not part of the job."""
        own = os.getpid() if self.root == HERE else 0
        asked = set(pids)
        found = (read_placed(self.root, pid) for pid in sorted(asked - {own} or asked))
        return tuple(process for process in found if process is not None)

    def groups(self, pid: int) -> tuple[str, ...]:
        """Control groups of a process, read once."""
        if pid not in self._groups:
            self._groups[pid] = read_groups(self.root, pid)
        return self._groups[pid]

    def members(self, hold: Hold) -> set[int]:
        """The processes of a hold (rule 1)."""
        owner = hold.owner
        lives = bool(owner.pid) and processes.alive(owner.pid, owner.start, self.root)
        firsts = self.marks().get(hold.id, set()) | ({owner.pid} if lives else set())
        for pid in self.table() if hold.group or owner.container else ():
            inside = bool(hold.group) and in_group(self.groups(pid), hold.group)
            if inside or (owner.container and in_container(self.groups(pid), owner.container)):
                firsts.add(pid)
        return self.family(firsts)

    def table(self) -> dict[int, processes.Process]:
        """Every process, read once."""
        self._table = self._table or {one.pid: one for one in processes.processes(self.root)}
        return self._table

    def marks(self) -> dict[str, set[int]]:
        """Hold → processes that carry its mark, read once."""
        if self._marks is None:
            self._marks = {}
            for pid in self.table():
                mark = variable_of(self.root, pid, HOLD_VARIABLE)
                if mark:
                    self._marks.setdefault(mark, set()).add(pid)
        return self._marks

    def family(self, firsts: Iterable[int]) -> set[int]:
        """Processes and all that descend from them."""
        below: dict[int, list[int]] = {}
        for process in self.table().values():
            below.setdefault(process.parent, []).append(process.pid)
        found: set[int] = set()
        left = [pid for pid in firsts if pid in self.table()]
        while left:
            pid = left.pop()
            if pid not in found:
                found.add(pid)
                left += below.get(pid, ())
        return found

    def hold_of(self, pid: int) -> Hold | None:
        """The hold that a process belongs to."""
        return next(iter(self.holds_of(pid)), None)

    def holds_of(self, pid: int) -> tuple[Hold, ...]:
        """All holds that a process belongs to: one may have been made inside another."""
        table = self.table()
        above: dict[int, int] = {}
        at = pid
        while at in table and at not in above:
            above[at] = table[at].start
            at = table[at].parent
        groups = self.groups(pid)
        mark = next((hold for hold, pids in self.marks().items() if pid in pids), "")
        return tuple(hold for hold in self.holds if in_hold(hold, above, groups, mark))

    def lives(self, hold: Hold) -> bool:
        """Whether something of a hold runs, or cannot be seen from here."""
        return self.is_elsewhere(hold) or bool(self.members(hold))

    def is_elsewhere(self, hold: Hold) -> bool:
        """Whether a hold's processes count in another pid namespace."""
        theirs = 0 if hold.owner.container else hold.owner.namespace
        return bool(theirs and self.namespace) and theirs != self.namespace

    def wanted(self, hold: Hold) -> JobGrant:
        """What a hold was granted: its own CPUs, or the part of the shared pool that it runs on."""
        online = bits_of(thread.cpu for thread in self.hardware.threads)
        cpus = hold.grant.cpus
        if not cpus:
            pool = online
            for other in self.holds:
                pool &= ~other.grant.cpus
            pool = kept_within(pool, hold)
            near = pool & cpus_of(self.hardware, hold.grant.near) if hold.grant.near else pool
            cpus = near or pool
        return JobGrant(
            cpus=cpus,
            mems=hold.grant.mems,
            gpus=frozenset(self.addresses(hold)),
            alone=bool(hold.grant.cpus),
            since=hold.since,
            group=hold.group,
            memory_policy=hold.grant.memory_policy,
        )

    def addresses(self, hold: Hold) -> tuple[str, ...]:
        """PCI addresses of a hold's GPUs."""
        known: dict[str, str] = {}
        for gpu in self.hardware.gpus:
            known |= dict.fromkeys(
                (gpu.uuid, gpu.name, short_address(gpu.address)), short_address(gpu.address)
            )
        for device in self.hardware.pci:
            known[short_address(device.address)] = short_address(device.address)
        ids = (device for _, devices in hold.grant.devices for device in devices)
        found = (known.get(one) or known.get(one.partition("/")[0]) for one in ids if one)
        return tuple(dict.fromkeys(address for address in found if address))

    def seen(self, found: Sequence[Placed], hold: Hold | None, wanted: JobGrant | None) -> Seen:
        """All that the grade needs to know about some processes."""
        users, listed = self.users()
        pids = {process.pid for process in found}
        uses = [use for use in users if use.pid in pids]
        for process in found:
            uses += opened(self.root, self.hardware, process.pid, process.devices)
        others = [other for other in self.holds if hold is None or other.id != hold.id]
        overlaps: tuple[tuple[int, str], ...] = ()
        strangers: tuple[Stranger, ...] = ()
        if hold is not None and wanted is not None and wanted.alone:
            overlaps = tuple(
                (other.grant.cpus & wanted.cpus, holder(other))
                for other in others
                if other.grant.cpus & wanted.cpus
            )
            strangers = self.strangers(wanted.cpus, pids)
        mine = set(wanted.gpus) if wanted else set()
        having = [other for other in others if other.grant.devices and self.lives(other)]
        return Seen(
            processes=tuple(found),
            uses=tuple(uses),
            listed=listed,
            strangers=strangers,
            foreign={
                address: holder(other)
                for other in having
                for address in self.addresses(other)
                if address not in mine
            },
            foreign_cpus=tuple(self.foreign_cpus(found, others, wanted)),
            overlaps=overlaps,
            fence=hold.fence if hold else "",
            fence_stands=(
                fence_stands(hold.mode, hold.group, pids, self.root) if hold and hold.fence == RULES else None
            ),
            free=read_free((node.id for node in self.hardware.numa), self.root),
            boot=boot_time(self.root),
            ticks=os.sysconf("SC_CLK_TCK") if self.root == HERE else TICKS,
        )

    def foreign_cpus(
        self, found: Sequence[Placed], others: Sequence[Hold], wanted: JobGrant | None
    ) -> Iterator[ForeignCpus]:
        """What other holds have alone and these processes may run on; what was granted twice is not meant."""
        granted = wanted.cpus if wanted and wanted.alone else 0
        masks = {process.pid: union((process,)) & ~granted for process in found if not process.kernel}
        for other in others:
            pids = [
                pid
                for pid, mask in masks.items()
                if mask & other.grant.cpus and other not in self.holds_of(pid)
            ]
            if pids and self.lives(other):
                cpus = other.grant.cpus & union_of(masks[pid] for pid in pids)
                yield ForeignCpus(holder(other), cpus, tuple(pids))

    def users(self) -> tuple[tuple[GpuUse, ...], bool]:
        """Who computes on GPUs, and whether drivers report it.

        Inside a container NVML may list processes by numbers of the host; such a list is of no use.
        """
        if self._users is None:
            listed = nvml_users(self.nvml) if self.nvml is not None else ()
            known = all(processes.read_process(use.pid, self.root) for use in listed)
            amd = kfd_users(self.root)
            self._users = (*(listed if known else ()), *amd), (self.nvml is not None and known) or bool(amd)
        return self._users

    def strangers(self, cpus: int, members: set[int]) -> tuple[Stranger, ...]:
        """Busy threads of others that run on these CPUs, the busiest first."""
        found = []
        for one in self.busy():
            if one.pid not in members and cpus >> one.cpu & 1:
                hold = self.hold_of(one.pid)
                found.append(replace(one, hold=f"hold {title(hold)}") if hold else one)
        return tuple(found)

    def busy(self) -> tuple[Stranger, ...]:
        """Every busy thread of the machine but ours, the busiest first; looked for once."""
        if self._busy is None:
            self._busy = ()
            if self.glance and self.root == HERE:
                self._busy = busy_threads([pid for pid in self.table() if pid != os.getpid()], self.glance)
        return self._busy


def twice_granted(holds: Sequence[Hold]) -> tuple[str, ...]:
    """What two holds have at once, a sentence each."""
    found = []
    for at, one in enumerate(holds):
        devices = [(resource, device) for resource, ids in one.grant.devices for device in ids]
        for other in holds[at + 1 :]:
            both = one.grant.cpus & other.grant.cpus
            if both:
                found.append(
                    f"{cpu_list(both)} granted twice: to hold {title(one)} and to hold {title(other)}"
                )
            shared = {
                (resource, device)
                for resource, ids in other.grant.devices
                for device in ids
                if any(kind == resource and same_device(device, own) for kind, own in devices)
            }
            found += [
                f"{device} of {resource} granted twice: to hold {title(one)} and to hold {title(other)}"
                for resource, device in sorted(shared)
            ]
    return tuple(found)


def title(hold: Hold) -> str:
    """Id and name of a hold."""
    return f"{hold.id} ({hold.name})" if hold.name else hold.id


def holder(hold: Hold) -> str:
    """A hold and whose it is."""
    return f"hold {title(hold)} of {hold.owner.user or hold.owner.uid}"


def _gone(hold: Hold) -> Verdict:
    owner = hold.owner
    finding = job_finding(
        "gone",
        Severity.ERROR,
        f"no process of container {owner.container[:12]} runs"
        if owner.container
        else f"it is not running any more: process {owner.pid} is gone",
        advice="run numawise reap to free it",
    )
    return Verdict(NOT_ALIGNED, f"{NOT_ALIGNED}: {finding.message}", (finding,))


def _out_of_sight() -> Verdict:
    text = "its processes are in another pid namespace"
    finding = job_finding("out-of-sight", Severity.WARNING, text, advice="run it there, or on the host")
    return Verdict(NOT_KNOWN, f"{NOT_KNOWN}: {text}", (finding,))
