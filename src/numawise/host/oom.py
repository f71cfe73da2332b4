"""Whether the kernel's OOM killer came for a job: what its control group counts, and what the machine does.

Rules kept here:

1. The group is asked while it is there.  It counts every process of it that was ended, whether its own limit,
   one above it, full NUMA nodes or the whole machine were the cause; the count is raised before the process
   gets its signal, so whoever has waited for the process sees it.
2. ``at_limit`` says that the group's own limit was reached.  Version 1 counts each time that it was reached,
   also where something could be freed; newer kernels no longer do, but keep the most that was ever used.
3. Where no group counts (affinity, kernels before 4.13, a scope that systemd has removed already), the
   machine's count is all there is.  It does not say whose processes they were.
"""

from collections.abc import Iterable
from pathlib import Path

from numawise.host.plan import read
from numawise.strconv import whole_number
from numawise.values import dataclass

ROOT = Path("/")
NEARLY = 1 << 20
"""Bytes below a limit from which on it counts as reached: what did not fit any more was not counted."""
LONGEST = 18
"""Digits of a number that is taken for one."""


@dataclass(frozen=True, slots=True)
class OomKills:
    """What a control group says about the OOM killer."""

    count: int
    """Processes of the group that it ended."""
    at_limit: bool
    """The group had reached its own limit."""


def read_oom_kills(folders: Iterable[str]) -> OomKills | None:
    """What a job's group counts (rules 1 and 2); None where nothing does."""
    for folder in folders:
        events = _counts(read(f"{folder}/memory.events"))
        if "oom_kill" in events:
            return OomKills(events["oom_kill"], events.get("oom", 0) > 0)
        control = _counts(read(f"{folder}/memory.oom_control"))
        if "oom_kill" in control:
            return OomKills(control["oom_kill"], _reached(folder))
    return None


def machine_oom_kills(root: Path = ROOT) -> int:
    """Processes that the OOM killer has ended on this machine since its start; 0 where nothing counts."""
    return _counts(read(f"{root}/proc/vmstat")).get("oom_kill", 0)


def _reached(folder: str) -> bool:
    """Whether a group of version 1 came to its limit: of memory, or of memory and swap together."""
    for kind in ("memory", "memory.memsw"):
        failures, most, limit = (
            read(f"{folder}/{kind}.{file}") for file in ("failcnt", "max_usage_in_bytes", "limit_in_bytes")
        )
        if failures.isdecimal() and whole_number(failures):
            return True
        if most.isdecimal() and limit.isdecimal() and whole_number(most) >= whole_number(limit) - NEARLY:
            return True
    return False


def _counts(text: str) -> dict[str, int]:
    """``oom_kill 3``, line by line."""
    rows = (line.partition(" ") for line in text.splitlines())
    return {
        name: whole_number(count)
        for name, _, count in rows
        if count.isascii() and count.isdecimal() and len(count) <= LONGEST
    }
