"""What to say about a job that the kernel's OOM killer ended: that it did, where memory ran out, what to do.

Rules kept here:

1. What a job's control group counts is a fact.  That the machine's count rose while a job ran, which ended by
   SIGKILL, is not one about this job: it is said as a possibility, and only where no group counts.
2. Exit status and signal stay the job's.
"""

import signal
from pathlib import Path

from numawise.host import confine
from numawise.host.containers import Container
from numawise.host.oom import OomKills, machine_oom_kills
from numawise.render.words import bytes_text
from numawise.results.placement import BOUND, Hold
from numawise.sets import format_ids

KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""How a job ends by SIGKILL: itself, or a shell that passes on the end of its command."""


def oom_text(hold: Hold, code: int, machine_before: int, root: Path) -> str:
    """One sentence where the OOM killer came for the job, or may have; otherwise ''."""
    kills = confine.oom_kills(hold.mode, hold.group, root)
    return _text(hold, code, kills, machine_oom_kills(root) - machine_before)


def container_oom_text(hold: Hold, code: int, container: Container | None, machine_before: int) -> str:
    """The same of a container, as its engine saw it; None: the engine has no more of it."""
    if container is not None and container.oom_killed:
        return _text(hold, code, OomKills(1, at_limit=True), 0)
    return _text(hold, code, None, machine_oom_kills() - machine_before)


def _text(hold: Hold, code: int, kills: OomKills | None, machine: int) -> str:
    name = f"{hold.name} ({hold.id})"
    if kills is not None:
        if not kills.count:
            return ""
        ended = f"{name} was ended by the kernel's OOM killer"
        who = (
            ended if code in KILLED else f"the kernel's OOM killer ended {_processes(kills.count)} of {name}"
        )
        return f"{who}: {_cause(hold, at_limit=kills.at_limit)}"
    if code not in KILLED or machine <= 0:
        return ""
    return (
        f"{name} was ended by SIGKILL, and the kernel's OOM killer ended {_processes(machine)} on this "
        f"machine while it ran, perhaps this one; {_advice(hold)}"
    )


def _cause(hold: Hold, *, at_limit: bool) -> str:
    limit = sum(part.size for part in hold.grant.memory)
    if at_limit and limit:
        from numawise.apps.launch.containers.setup import size  # noqa: PLC0415 - few jobs end so

        more = f"give it more, such as --memory {size(2 * limit)}"
        return f"it needed more than its limit of {bytes_text(limit)}; {more}"
    where = f"NUMA {format_ids(hold.grant.mems)}, to which it is bound," if _bound(hold) else "this machine"
    return f"memory ran out on {where} before it reached a limit of its own; {_advice(hold)}"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _bound(hold: Hold) -> bool:
    return bool(hold.grant.mems) and hold.grant.memory_policy == BOUND


def _advice(hold: Hold) -> str:
    amount = "say how much it needs (--memory 64g), so that it is placed where there is as much"
    if hold.grant.memory:
        amount = "give it more with --memory, or end others first ('numawise ps')"
    spill = "let it use other NUMA nodes, too (--memory-policy preferred), or " if _bound(hold) else ""
    return f"{spill}{amount}"
