"""How much of a job's memory is local, and why the rest is not.

Rules kept here:

1. A job answers for its own pages: anonymous ones, copies of file pages, huge pages and shared memory.  Pages
   of the page cache (programs, libraries, data files) lie where their first reader put them and serve the
   whole machine, and a driver places its memory itself: both are told and never fail a job.
2. What several of its processes map together (shared memory, a file) is counted once: by its inode, on each
   NUMA node the most that any of them has mapped there.  Pages that a parent and a child still share since
   the fork cannot be told apart and count for each.
3. A page is local when its NUMA node is one of those given for the process that maps it.
4. Why a page is elsewhere follows from what binds the process' memory *now*: where that would not have
   allowed the page, it was made before the binding.
"""

from collections.abc import Mapping, Sequence

from numawise.host.numamaps import OWN, SHARED, PageRange, Pages
from numawise.host.placed import Placed
from numawise.results.verification import PAGE_KINDS, Amounts, Remote
from numawise.sets import format_ids, parse_ids

MOST_FILES = 3
SPREADING = ("interleave", "weighted interleave")
CHOOSING = ("bind", "prefer", "prefer (many)")


def weigh(processes: Sequence[Placed], homes: Mapping[int, int], only: int | None = None) -> Amounts:
    """Sum the pages of a job; ``homes`` has the local NUMA nodes of each process, packed.

    ``only`` is the one NUMA node of a machine that has no other: there everything is local, told or not.
    """
    single: list[tuple[PageRange, Placed, int]] = []
    joint: dict[tuple[str, str], tuple[dict[int, int], list[tuple[PageRange, Placed, int]]]] = {}
    for process in processes:
        home = homes.get(process.pid, 0)
        for part in _parts(process, only):
            if not part.key:
                single.append((part, process, home))
                continue
            sizes, who = joint.setdefault((part.kind, part.key), ({}, []))
            who.append((part, process, home))
            for numa, size in part.bytes:
                sizes[numa] = max(sizes.get(numa, 0), size)
    table: dict[int, dict[str, int]] = {}
    far: dict[tuple[str, int, str], dict[str, int]] = {}
    own = local = 0
    rows = [(part.kind, part.bytes, [(part, process, home)]) for part, process, home in single]
    rows += [(kind, tuple(sizes.items()), who) for (kind, _), (sizes, who) in joint.items()]
    for kind, sizes_of, who in rows:
        part, process, _ = who[0]
        home = 0
        for *_, one in who:
            home |= one
        for numa, size in sizes_of:
            kinds = table.setdefault(numa, {})
            kinds[kind] = kinds.get(kind, 0) + size
            near = bool(home >> numa & 1)
            own += size if kind in OWN else 0
            local += size if kind in OWN and near else 0
            if not near:
                files = far.setdefault((kind, numa, reason(part, process, home, numa)), {})
                files[part.file] = files.get(part.file, 0) + size
    remote = [
        Remote(kind, numa, sum(files.values()), why, _largest(files))
        for (kind, numa, why), files in far.items()
    ]
    return Amounts(
        table=tuple(
            (numa, tuple((kind, kinds[kind]) for kind in PAGE_KINDS if kind in kinds))
            for numa, kinds in sorted(table.items())
        ),
        own=own,
        local=local,
        remote=tuple(sorted(remote, key=lambda one: (-one.size, one.kind, one.numa))),
    )


def _parts(process: Placed, only: int | None) -> Sequence[PageRange]:
    """What is known of a process' pages; on a machine with one NUMA node the sums are enough."""
    if process.pages is None and only is not None:
        return [PageRange(kind, bytes=((only, size),)) for kind, size in process.sizes]
    return (process.pages or Pages()).parts


def reason(part: PageRange, process: Placed, home: int, numa: int) -> str:
    """Why pages lie on a NUMA node that is not local (rule 4)."""
    mode, nodes = policy_of(part.policy)
    here, there = f"NUMA {format_ids(home)}", f"NUMA {numa}"
    if mode in SPREADING:
        return f"spread by the program itself (policy {part.policy})"
    if mode in CHOOSING and nodes >> numa & 1:
        return f"put there by the program itself (policy {part.policy})"
    if part.kind == SHARED:
        return "shared memory lies where it was first touched, by whichever process"
    if mode == "bind":
        return f"made before its memory was bound to NUMA {format_ids(nodes)}"
    if mode in CHOOSING:
        return f"NUMA {format_ids(nodes)} is only preferred, or became so later"
    if process.mems and not process.mems >> numa & 1:
        return f"made before its control group kept it off {there}"
    if process.mems and not process.mems & ~home:
        return f"made before its control group kept it on {here}"
    return "nothing binds its memory, and the thread that first touched it ran elsewhere or memory was short"


def policy_of(text: str) -> tuple[str, int]:
    """A policy as the kernel prints it, such as ``bind=static:0-1``: mode and NUMA nodes."""
    head, colon, list_ = text.rpartition(":")
    try:
        nodes = parse_ids(list_) if colon else 0
    except ValueError:
        nodes = 0
    return (head if colon else text).partition("=")[0], nodes


def _largest(files: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    named = [(file, size) for file, size in files.items() if file]
    return tuple(sorted(named, key=lambda one: (-one[1], one[0]))[:MOST_FILES])
