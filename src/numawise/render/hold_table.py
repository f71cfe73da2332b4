"""Holds as a table that is read at a glance: a line for each, and a line for what each NUMA node has left.

Rules kept here:

1. On a terminal a hold has one line, however narrow it is.  What costs most and says least goes first: how
   the job is kept, its process, its command; then lists are cut behind a comma, with their count, and
   names in their middle.
2. In a pipe or a file everything is shown, whatever the width; only commands are cut, as on wide terminals.
3. GPUs are written as ranges that ``--gpu-ids`` understands.
"""

import re
import time
from collections.abc import Mapping, Sequence
from typing import IO

from numawise.errors import one_line
from numawise.render.holds import age, ended_text, free_gpus, gpu_names, owner_text, steps_of
from numawise.render.table import GAP, table, terminal_width
from numawise.render.words import bytes_text, columns, gpu_ranges
from numawise.results.allotment import shared_cpus
from numawise.results.placement import Capacity, EndedHold, Hold, JobUse, default_memory_policy, pool_of
from numawise.sets import format_ids
from numawise.strconv import whole_number
from numawise.values import dataclass

RANGE = re.compile(r"([0-9]{1,5})-([0-9]{1,5})$", re.ASCII)
LONGEST_COMMAND = 40
NONE = "-"
STEP_MARK = "+ "
"""Before the id of a step, which stands below its hold."""


@dataclass(frozen=True, slots=True)
class HoldColumn:
    """A column of the table: how far it gives way before others go, and how far at last."""

    name: str
    soft: int = 0
    """Columns it keeps as long as less important ones can go; 0: it is never cut."""
    hard: int = 0
    """Columns it always keeps."""


HOLD, NAME, USER, OWNER = (
    HoldColumn("HOLD"),
    HoldColumn("NAME", 12, 5),
    HoldColumn("USER", 8, 4),
    HoldColumn("OWNER", 11, 11),
)
CPUS, NUMA, MEMORY = HoldColumn("CPUS", 13, 7), HoldColumn("NUMA", 6, 4), HoldColumn("MEMORY")
DEVICES, BY, SINCE, COMMAND = (
    HoldColumn("DEVICES", 12, 7),
    HoldColumn("BY"),
    HoldColumn("SINCE"),
    HoldColumn("COMMAND", 12, 8),
)
COLUMNS = (HOLD, NAME, USER, OWNER, CPUS, NUMA, MEMORY, DEVICES, BY, SINCE, COMMAND)
BUSY, USED = HoldColumn("BUSY"), HoldColumn("USED")
USE_COLUMNS = (HOLD, NAME, USER, OWNER, CPUS, BUSY, MEMORY, USED, DEVICES, SINCE, COMMAND)
WHEN, TOOK, HOW = HoldColumn("ENDED"), HoldColumn("TOOK"), HoldColumn("HOW", 12, 8)
HISTORY_COLUMNS = (HOLD, NAME, USER, CPUS, NUMA, MEMORY, DEVICES, WHEN, TOOK, HOW, COMMAND)
LISTS = ("CPUS", "NUMA", "DEVICES", "GPUS")
DISPENSABLE = (BY, OWNER, COMMAND)
"""What goes before anything else is cut short."""
AT_LAST = (NUMA, USER, SINCE, MEMORY, DEVICES, CPUS)
"""What goes on terminals that are narrower than any should be."""

Row = dict[HoldColumn, tuple[str, ...]]
"""What a cell may say, the longest form first."""


def write_holds(
    holds: Sequence[Hold],
    capacity: Capacity,
    every: Sequence[Hold],
    file: IO[str],
    *,
    color: bool | None = None,
    steps: Sequence[Hold] = (),
) -> None:
    """Write the table of some holds, each followed by its steps; ``every`` hold makes the shared pool."""
    rows = hold_rows(holds, capacity, every, steps)
    shown, cells = fitting(rows, COLUMNS, terminal_width(file) if file.isatty() else 0)
    table([column.name for column in shown], cells, file, color=color)


def write_uses(
    holds: Sequence[Hold],
    capacity: Capacity,
    every: Sequence[Hold],
    uses: Mapping[tuple[int, str], JobUse],
    file: IO[str],
    *,
    color: bool | None = None,
) -> None:
    """Write the table of some holds with what their jobs use, the busiest first."""
    order = sorted(holds, key=lambda hold: -(uses[hold.owner.uid, hold.id].cpus or 0.0))
    rows = hold_rows(order, capacity, every)
    for row, hold in zip(rows, order, strict=True):
        use = uses[hold.owner.uid, hold.id]
        row[BUSY] = (NONE if use.cpus is None else f"{use.cpus:.1f}",)
        row[USED] = (NONE if use.memory is None else bytes_text(use.memory),)
    shown, cells = fitting(rows, USE_COLUMNS, terminal_width(file) if file.isatty() else 0)
    table([column.name for column in shown], cells, file, color=color)


def write_history(
    ended: Sequence[EndedHold], capacity: Capacity, file: IO[str], *, color: bool | None = None
) -> None:
    """Write the table of holds that are no more."""
    rows = hold_rows([one.hold for one in ended], capacity, ())
    for row, one in zip(rows, ended, strict=True):
        row[CPUS] = (format_ids(one.hold.grant.cpus) or "shared",)
        row[WHEN] = (f"{age(time.time() - one.at)} ago",)
        row[TOOK] = (age(one.at - one.hold.since),)
        row[HOW] = (one_line(ended_text(one)),)
    shown, cells = fitting(rows, HISTORY_COLUMNS, terminal_width(file) if file.isatty() else 0)
    table([column.name for column in shown], cells, file, color=color)


def hold_rows(
    holds: Sequence[Hold], capacity: Capacity, every: Sequence[Hold], steps: Sequence[Hold] = ()
) -> list[Row]:
    """What each hold's cells may say, and those of its steps."""
    names = gpu_names(capacity)
    pool = pool_of(capacity, every)
    rows: list[Row] = []
    for hold in [each for first in holds for each in (first, *steps_of(first, steps))]:
        grant = hold.grant
        memory = sum(part.size for part in grant.memory)
        words = {
            HOLD: f"{STEP_MARK}{hold.id}" if hold.parent else hold.id,
            NAME: hold.name,
            USER: hold.owner.user,
            OWNER: owner_text(hold),
            MEMORY: bytes_text(memory) if memory else "",
            DEVICES: devices_text(hold, names),
            BY: hold.mode,
            SINCE: age(time.time() - hold.since),
            COMMAND: cut_end(" ".join(hold.command), LONGEST_COMMAND),
        }
        row: Row = {column: (one_line(text) or NONE,) for column, text in words.items()}
        row[NUMA] = _numa_forms(hold)
        shared = "with its hold" if hold.parent else format_ids(shared_cpus(capacity, pool, hold))
        row[CPUS] = _cpu_forms(hold, shared)
        rows.append(row)
    return rows


def devices_text(hold: Hold, names: dict[str, str]) -> str:
    """``GPU0-3,6 mlx5_0``: GPUs in the order of their numbers."""
    given = [names.get(name, name) for _, some in hold.grant.devices for name in some]
    order = {name: at for at, name in enumerate(names.values())}
    return gpu_ranges(sorted(given, key=lambda name: order.get(name, len(order))))


def _numa_forms(hold: Hold) -> tuple[str, ...]:
    """NUMA nodes of its memory, and how it is kept there where that is not the default of its policy."""
    grant, mems = hold.grant, format_ids(hold.grant.mems)
    if not mems or grant.memory_policy == default_memory_policy(hold.policy):
        return (mems or NONE,)
    return f"{mems} {grant.memory_policy}", mems


def _cpu_forms(hold: Hold, shared: str) -> tuple[str, ...]:
    grant = hold.grant
    if grant.cpus:
        return (format_ids(grant.cpus),)
    limit = f"{grant.cpu_limit / 1000:g} of " if grant.cpu_limit else ""
    return f"{limit}shared {shared}", f"{limit}shared", limit.removesuffix(" of ") or "shared"


# --- making it fit (rule 1) ---------------------------------------------------------------------


def fitting(
    rows: Sequence[Row], every: Sequence[HoldColumn], width: int
) -> tuple[list[HoldColumn], list[tuple[str, ...]]]:
    """The columns that a terminal has room for, and the cells cut to it; ``width`` 0: all as it is."""
    widest = {
        column: max(columns(text) for text in (column.name, *(row[column][0] for row in rows)))
        for column in every
    }
    shown = list(every)
    if not width:
        return shown, [tuple(row[column][0] for column in shown) for row in rows]
    for column in DISPENSABLE:
        if _least(shown, widest, "soft") > width and column in shown:
            shown.remove(column)
    floor = "soft" if _least(shown, widest, "soft") <= width else "hard"
    for column in AT_LAST:
        if _least(shown, widest, floor) > width and column in shown:
            shown.remove(column)
    widths = _shrunk(shown, widest, floor, width)
    return shown, [tuple(_cell(column, row[column], widths[column]) for column in shown) for row in rows]


def _floor(column: HoldColumn, widest: dict[HoldColumn, int], floor: str) -> int:
    least: int = getattr(column, floor)
    return min(widest[column], max(least, len(column.name))) if least else widest[column]


def _least(shown: Sequence[HoldColumn], widest: dict[HoldColumn, int], floor: str) -> int:
    return sum(_floor(column, widest, floor) + GAP for column in shown) - GAP


def _shrunk(
    shown: Sequence[HoldColumn], widest: dict[HoldColumn, int], floor: str, width: int
) -> dict[HoldColumn, int]:
    """Widths that fit, the widest columns giving way first."""
    widths = [widest[column] for column in shown]
    least = [_floor(column, widest, floor) for column in shown]
    for _ in range(sum(widths) + GAP * (len(shown) - 1) - width):
        wide = [number for number, own in enumerate(widths) if own > least[number]]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return dict(zip(shown, widths, strict=True))


def _cell(column: HoldColumn, forms: Sequence[str], width: int) -> str:
    for form in forms:
        if columns(form) <= width:
            return form
    if column.name in LISTS:
        return cut_list(forms[-1], width)
    return cut_end(forms[-1], width) if column is COMMAND else cut_middle(forms[-1], width)


def cut_list(text: str, width: int) -> str:
    """A list cut behind a comma, with how many there are: ``1-4,… (16)``; where that is too long, without."""
    count = 0
    for part in text.replace(" ", ",").split(","):
        ends = RANGE.search(part)
        count += whole_number(ends[2]) - whole_number(ends[1]) + 1 if ends else 1
    for tail in (f"… ({count})", "…"):
        head = text[: max(width - len(tail), 0)]
        at = max(head.rfind(","), head.rfind(" "))
        if at > 0:
            return f"{head[: at + 1]}{tail}"
    return cut_end(text, width)


def cut_end(text: str, width: int) -> str:
    """The beginning of a text that is too long."""
    if columns(text) <= width:
        return text
    head = text[: max(width - 1, 0)]
    while head and columns(head) > width - 1:
        head = head[:-1]
    return f"{head}…"


def cut_middle(text: str, width: int) -> str:
    """Both ends of a text that is too long: names are often told apart by their last letters."""
    if columns(text) <= width:
        return text
    tail = text[len(text) - max(width - 1, 0) // 3 :] if width > 3 else ""
    while tail and columns(tail) > width // 3:
        tail = tail[1:]
    return cut_end(text, width - columns(tail)) + tail


# --- what is left -------------------------------------------------------------------------------


FREE_NUMA, FREE_CPUS, FREE_MEMORY, FREE_GPUS = HoldColumn("FREE"), CPUS, MEMORY, HoldColumn("GPUS", 12, 7)
FREE = (FREE_NUMA, FREE_CPUS, FREE_MEMORY, FREE_GPUS)


def write_free(
    capacity: Capacity,
    holds: Sequence[Hold],
    memory: Mapping[int, int],
    file: IO[str],
    *,
    color: bool | None = None,
) -> None:
    """Write what each NUMA node has left; ``memory``: bytes of it."""
    every = [column for column in FREE if column is not FREE_GPUS or capacity.gpus]
    shown, cells = fitting(
        free_rows(capacity, holds, memory), every, terminal_width(file) if file.isatty() else 0
    )
    table([column.name for column in shown], cells, file, color=color)


def free_rows(capacity: Capacity, holds: Sequence[Hold], memory: Mapping[int, int]) -> list[Row]:
    """A row for each NUMA node: exclusive CPUs, memory and GPUs that could be given."""
    pool = pool_of(capacity, holds) & ~capacity.reserved
    total = {node.id: node.memory for node in capacity.machine.numa}
    gpus = free_gpus(capacity, holds)
    rows: list[Row] = []
    for node in dict.fromkeys((*(capacity.cpus or {}), *total)):
        cpus = pool & (capacity.cpus or {}).get(node, 0)
        rows.append(
            {
                FREE_NUMA: (f"NUMA {node}",),
                FREE_CPUS: (format_ids(cpus) or NONE,),
                FREE_MEMORY: (_memory_text(memory[node], total[node]) if total.get(node) else NONE,),
                FREE_GPUS: (gpu_ranges(gpus.pop(1 << node, [])) or NONE,),
            }
        )
    rest = [name for names in gpus.values() for name in names]
    if rest:
        rows.append(
            {FREE_NUMA: ("other",), FREE_CPUS: (NONE,), FREE_MEMORY: (NONE,), FREE_GPUS: (gpu_ranges(rest),)}
        )
    return rows


def _memory_text(free: int, total: int) -> str:
    return f"{bytes_text(free) if free else 0} of {bytes_text(total)}"
