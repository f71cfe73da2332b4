"""Writing cpusets back: what the kubelet granted and somebody else changed, and nothing more.

Rules kept here:

1. Only ``cpuset.cpus`` and ``cpuset.mems`` of a container's own group are written, and only with what
   the kubelet's record grants that container.  Groups above it are the kubelet's and systemd's.
2. Right before writing, the record and the group are read once more; where either is not as it was when the
   drift was found, nothing is written.
3. Afterwards both are read back.  What the kernel did not take is undone, and said.
4. One container is repaired ``MOST`` times in ``PERIOD`` seconds at most: who undoes it more often has a
   reason, and must be found.
5. Pages are not moved by us.  Version 2 moves them by itself when NUMA nodes are written; version 1 does so
   where ``cpuset.memory_migrate`` is set.
"""

from collections import deque
from collections.abc import Callable

from numawise.errors import HostError
from numawise.explain.drift import Mending, mending
from numawise.explain.pod_check import ContainerCheck, NodeRecord, PodChecker
from numawise.host.plan import Expect, Step, Write, do, read
from numawise.sets import format_ids
from numawise.values import dataclass

MOST, PERIOD = 5, 3600.0
WRITTEN, LEFT, FAILED = "written", "left", "failed"
OUTCOMES = (WRITTEN, LEFT, FAILED)


@dataclass(frozen=True, slots=True)
class Repair:
    """What came of a repair."""

    outcome: str
    text: str


def repair_steps(checker: PodChecker, check: ContainerCheck, wanted: Mending) -> tuple[Step, ...]:
    """What is to be written, as values; NUMA nodes first, because a task needs some of them all the time."""
    steps: list[Step] = []
    for bits, is_mems in ((wanted.mems, True), (wanted.cpus, False)):
        if bits is None:
            continue
        file, text = checker.groups.written_file(check.group, mems=is_mems), format_ids(bits)
        before = read(file)
        steps.append(Write(file, text, back=(file, before or "\n")))
        steps.append(Expect(file, text, "the kernel did not take what was written"))
    return tuple(steps)


class Repairer:
    """Writes cpusets back."""

    def __init__(self, checker: PodChecker, fresh: Callable[[], NodeRecord]) -> None:
        """``fresh`` reads the kubelet's record now; ``HostError``: it cannot be read."""
        self.checker, self.fresh = checker, fresh
        self._times: dict[str, deque[float]] = {}

    def repair(self, found: ContainerCheck, now: float) -> Repair:
        """Write back what a container was granted, if that is still so (rule 2)."""
        try:
            node = self.fresh()
        except HostError as problem:
            return Repair(LEFT, f"not repaired: the kubelet's record cannot be read: {problem}")
        again = self.checker.again(node, found)
        granted_now = again.grant.cpus, again.grant.mems, again.grant.alone
        if granted_now != (found.grant.cpus, found.grant.mems, found.grant.alone):
            return Repair(LEFT, "not repaired: the kubelet's record has just changed")
        wanted = mending(node.hardware, again.grant, again.cpuset)
        if not wanted:
            return Repair(LEFT, "not repaired: its own cpuset is as it was granted, or has gone")
        if not self._may(found.id, now):
            return Repair(
                LEFT, f"not repaired: it was written back {MOST} times within an hour; find who changes it"
            )
        steps = repair_steps(self.checker, again, wanted)
        try:
            do(steps)
        except HostError as problem:
            return Repair(FAILED, f"could not be repaired: {problem}")
        return Repair(WRITTEN, f"repaired: {self._said(again, wanted)}")

    def _may(self, id_: str, now: float) -> bool:
        """Whether a container may be repaired once more (rule 4)."""
        self._times = {one: times for one, times in self._times.items() if times and now - times[-1] < PERIOD}
        times = self._times.setdefault(id_, deque(maxlen=MOST))
        if len(times) == MOST and now - times[0] < PERIOD:
            return False
        times.append(now)
        return True

    def _said(self, check: ContainerCheck, wanted: Mending) -> str:
        cpus_file, mems_file = self.checker.groups.trees.written
        parts = []
        if wanted.cpus is not None:
            parts.append(f"{format_ids(wanted.cpus)} written to {cpus_file}")
        if wanted.mems is not None:
            parts.append(f"{format_ids(wanted.mems)} written to {mems_file}")
            if self.checker.groups.trees.version == 2:
                parts.append("the kernel moves pages there by itself")
            else:
                parts.append("pages stay where they are, unless cpuset.memory_migrate is set")
        if check.group.by_systemd:
            unit = check.group.path.rpartition("/")[2]
            parts.append(f"systemd may write its own again when it is reloaded: systemctl cat {unit}")
        return "; ".join(parts)
