"""What other jobs hold of this machine, as seen by ranks that take no hold of their own.

Rules kept here:

1. The ledger is only read, the files of all users.  Holds of the dead do not count.
2. A hold that this process lives in is not another's: the one that its environment names, one whose owner is
   among its parents, one whose control group or container it is in.
3. CPUs that another hold has alone are left out.  Where none is left, that is a "no" which says who has them.
4. A ledger that cannot be read, or parts of it, stop nobody: one sentence says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from numawise.apps.launch.environment import HOLD
from numawise.apps.launch.ranks import RankCpus, RankRefused
from numawise.errors import NumawiseError
from numawise.machine.hardware import Gpu, Hardware
from numawise.render.words import both, clean
from numawise.results.placement import Hold, gpu_id, same_device
from numawise.sets import format_ids
from numawise.values import dataclass, replace

if TYPE_CHECKING:
    from numawise.host.settings import HostSettings

MOST = 4
ANYWAY = "--ignore-holds takes no notice of holds"


@dataclass(frozen=True, slots=True)
class OtherHolds:
    """Holds that living jobs beside this one have."""

    holds: tuple[Hold, ...] = ()
    inside: tuple[str, ...] = ()
    """Ids of the holds that this process lives in."""
    remark: str = ""
    """What of the ledger could not be read; '' when all could."""

    @property
    def cpus(self) -> int:
        """CPUs that they have alone."""
        found = 0
        for hold in self.holds:
            found |= hold.grant.cpus
        return found


NOBODY = OtherHolds()


def read_others(hardware: Hardware, environment: Mapping[str, str], pid: int) -> OtherHolds:
    """Read who else holds something here (rules 1, 2 and 4)."""
    from numawise.host.settings import read_settings  # noqa: PLC0415 - as below
    from numawise.inputs.ledger import ledger_place  # noqa: PLC0415 - as below
    from numawise.ledger.place import machine_id  # noqa: PLC0415 - as below
    from numawise.ledger.store import Ledger  # noqa: PLC0415 - a machine of a file has no ledger

    try:
        settings = read_settings(environment)
        place = ledger_place(environment, settings)
        with Ledger.open(place.folders, machine_id()) as opened:
            every, problems = opened.holds(), (*place.warnings, *place.remarks, *opened.problems)
        inside = _inside(every, environment, pid)
        others = [hold for hold in every if (hold.grant.cpus or hold.grant.devices) and hold not in inside]
        if others:
            others = _living(others, hardware, environment, settings)
    except (NumawiseError, OSError) as problem:
        return OtherHolds(remark=f"what others hold is not known, and not left out: {problem}")
    more = f" (and {len(problems) - 1} more such: see 'numawise ps')" if len(problems) > 1 else ""
    remark = f"{problems[0]}{more}" if problems else ""
    return OtherHolds(tuple(others), tuple(hold.id for hold in inside), remark)


def _inside(holds: Iterable[Hold], environment: Mapping[str, str], pid: int) -> tuple[Hold, ...]:
    """The holds that this process lives in (rule 2)."""
    every = tuple(holds)
    if not every:
        return ()
    from numawise.host.placed import in_hold, read_groups  # noqa: PLC0415 - as below
    from numawise.host.processes import ROOT, parents  # noqa: PLC0415 - only where somebody holds something

    above = {process.pid: process.start for process in parents(pid)}
    groups, mark = read_groups(ROOT, pid), environment.get(HOLD, "")
    return tuple(hold for hold in every if in_hold(hold, above, groups, mark))


def _living(
    holds: Sequence[Hold], hardware: Hardware, environment: Mapping[str, str], settings: "HostSettings"
) -> list[Hold]:
    """Those whose jobs run, with their GPUs called as this machine calls them."""
    from numawise.apps.launch.capacity import capacity_of  # noqa: PLC0415 - only where somebody holds something
    from numawise.apps.launch.run import open_holdings  # noqa: PLC0415 - as above

    with open_holdings(capacity_of(hardware), environment, settings) as holdings:
        known = {(hold.owner.uid, hold.id) for hold in holds}
        return [hold for hold in holdings.live() if (hold.owner.uid, hold.id) in known]


def left_to_ranks(room: RankCpus, others: OtherHolds) -> RankCpus | RankRefused:
    """The part of a room that no other hold has alone (rule 3)."""
    remarks = (*room.remarks, *((others.remark,) if others.remark else ()))
    having = [hold for hold in others.holds if hold.grant.cpus & room.cpus]
    if not having:
        return replace(room, remarks=remarks)
    whose = both(
        [f"{format_ids(hold.grant.cpus & room.cpus)} by {hold_text(hold)}" for hold in having[:MOST]]
    )
    more = f", and more by {len(having) - MOST} others" if len(having) > MOST else ""
    left = room.cpus & ~others.cpus
    if not left:
        how = "the launcher bound this rank to are" if room.divided else "this process may use are"
        return RankRefused(
            f"all CPUs that {how} held by others alone: {whose}{more}",
            "wait until they end ('numawise reap' frees what the dead held), let 'numawise run --wait' take "
            f"room for the whole job, or share them: {ANYWAY}",
        )
    said = f"CPUs that others hold alone are left out: {whose}{more}"
    return replace(room, cpus=left, remarks=(*remarks, said))


def gpu_clashes(others: OtherHolds, used: Iterable[Gpu], seen: Sequence[Gpu]) -> tuple[str, ...]:
    """A sentence for each other hold that has GPUs which ranks use; ``seen``: all they could use."""
    ours = tuple(dict.fromkeys(used))
    found = []
    for hold in others.holds:
        names = [gpu.name for gpu in ours if _has(hold, gpu)]
        if names:
            free = [gpu.name for gpu in seen if not any(_has(hold, gpu) for hold in others.holds)]
            choose = f" (free: {', '.join(free)})" if free else ""
            found.append(
                f"{both(names)} {'is' if len(names) == 1 else 'are'} held by {hold_text(hold)}, and this job "
                f"would use {'it' if len(names) == 1 else 'them'}, too: choose others with "
                f"CUDA_VISIBLE_DEVICES or its like{choose}, or let 'numawise run --gpus' choose and hold them"
            )
    return tuple(found)


def _has(hold: Hold, gpu: Gpu) -> bool:
    name = gpu_id(gpu)
    return any(same_device(name, device) for _, devices in hold.grant.devices for device in devices)


def hold_text(hold: Hold) -> str:
    """A hold by user, name and id: ``alice (train, k3x9)``."""
    return f"{clean(hold.owner.user or str(hold.owner.uid))} ({clean(hold.name)}, {hold.id})"
