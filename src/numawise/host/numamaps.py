"""Where a process' pages lie: ``/proc/PID/numa_maps`` beside ``/proc/PID/maps``.

Rules kept here:

1. The kernel counts pages of a mapping per NUMA node, in units of ``kernelpagesize_kB``: huge pages of
   hugetlbfs by their own size, transparent ones as so many small pages.
2. Kinds of pages, by whose they are:

   * *anonymous*: heap, stacks, private memory, and the process' own copies of pages of a file;
   * *huge*: hugetlbfs, mapped by whatever name;
   * *shared*: memory made to be shared (``/dev/shm``, memfd, System V, shared anonymous mappings); what CUDA
     allocates as pinned host memory is such a mapping, too;
   * *driver*: what a driver has allocated for the process and maps through its device file;
   * *file*: the page cache.  Such a page lies where the first reader on the machine put it, and serves all
     readers; likewise the kernel's own page in every process (vdso).

3. Of a private mapping with copies in it the kernel does not say which of its pages lie where; copies and
   the rest are taken to lie alike.
4. A mapping has the policy of its own or that of the process' first thread; the kernel does not say which.
   A policy may be two words (``prefer (many)``, ``weighted interleave``).
5. What several processes map is identified by device and inode, so that it can be counted once.
6. Lines that make no sense are left out and counted.
"""

import re
from collections.abc import Iterable, Iterator

from numawise.results.verification import PAGE_KINDS
from numawise.values import dataclass

ANONYMOUS, HUGE, SHARED, DRIVER, FILE = PAGE_KINDS
OWN = frozenset({ANONYMOUS, HUGE, SHARED})
"""Kinds that a job answers for; drivers place their memory themselves, the page cache is everybody's."""
DEFAULT = "default"
MEMORY_FILES = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero")  # noqa: S108 - names to recognise
DRIVER_FILES = ("/dev/", "/i915", "/drm mm object", "anon_inode:")
COUNT = re.compile(
    r"(anon|dirty|mapped|mapmax|swapcache|active|writeback|kernelpagesize_kB|N[0-9]{1,5})=([0-9]{1,18})",
    re.ASCII,
)
BEHIND = ((SHARED, MEMORY_FILES), (DRIVER, DRIVER_FILES))
WORDS = frozenset({"heap", "stack", "huge"})
ADDRESS = re.compile(r"[0-9a-f]{1,16}", re.ASCII)
ESCAPE = re.compile(r"\\([0-7]{3})", re.ASCII)
MAPPED = re.compile(
    r"([0-9a-f]{1,16})-[0-9a-f]{1,16} [-rwxsp]{4} [0-9a-f]+ ([0-9a-f]+:[0-9a-f]+) ([0-9]+)", re.ASCII
)
SMALL = 4


@dataclass(frozen=True, slots=True)
class Area:
    """One mapping, as a line of ``numa_maps`` describes it."""

    start: int
    policy: str = DEFAULT
    file: str = ""
    huge: bool = False
    anonymous: int = 0
    """Pages that belong to the process alone or that it copied."""
    pages: tuple[tuple[int, int], ...] = ()
    """NUMA id → pages."""
    size: int = SMALL << 10
    """Bytes of a page."""


@dataclass(frozen=True, slots=True)
class PageRange:
    """Pages of one kind under one policy, and of one file where they have one."""

    kind: str
    policy: str = DEFAULT
    file: str = ""
    """Name as the kernel gives it; '' for anonymous memory, and for the kernel's own page."""
    key: str = ""
    """Device and inode of what may be mapped by others, too; '' where that is not known."""
    bytes: tuple[tuple[int, int], ...] = ()
    """NUMA id → bytes."""


@dataclass(frozen=True, slots=True)
class Pages:
    """All pages of a process."""

    parts: tuple[PageRange, ...] = ()
    garbled: int = 0
    """Lines that could not be read."""


def parse_area(line: str) -> Area | None:
    """A line of ``numa_maps``; None when it is something else."""
    words = line.split(" ")
    if len(words) < 2 or not ADDRESS.fullmatch(words[0]) or not words[1]:
        return None
    policy: list[str] = []
    counts: dict[str, int] = {}
    file = ""
    huge = has_path = False
    for word in words[1:]:
        if word.startswith("file="):
            file, has_path = _unescape(word[5:]), True
        elif word in WORDS:
            huge, has_path = huge or word == "huge", True
        elif found := COUNT.fullmatch(word):
            counts[found[1]], has_path = int(found[2]), True
        elif not has_path:
            policy.append(word)
        elif word:
            return None
    pages = {int(name[1:]): count for name, count in counts.items() if name[0] == "N"}
    return Area(
        start=int(words[0], 16),
        policy=" ".join(policy) or DEFAULT,
        file=file,
        huge=huge,
        anonymous=counts.get("anon", 0),
        pages=tuple(sorted(pages.items())),
        size=(counts.get("kernelpagesize_kB") or SMALL) << 10,
    )


def parse_keys(lines: Iterable[str]) -> dict[int, str]:
    """Start of each mapping with an inode → device and inode, out of ``maps``."""
    found = {}
    for line in lines:
        mapped = MAPPED.match(line)
        if mapped and mapped[3] != "0":
            found[int(mapped[1], 16)] = f"{mapped[2]}:{mapped[3]}"
    return found


def gather(lines: Iterable[str], keys: dict[int, str]) -> Pages:
    """Sum the mappings of a process by kind, policy and file."""
    sums: dict[tuple[str, str, str, str], dict[int, int]] = {}
    garbled = 0
    for line in lines:
        area = parse_area(line)
        if area is None:
            garbled += bool(line.strip())
            continue
        key = keys.get(area.start, "")
        for kind, pages in _kinds(area):
            named = kind in (SHARED, FILE) or (kind == HUGE and bool(key) and not area.anonymous)
            name = area.file if named or kind in (HUGE, DRIVER) else ""
            sizes = sums.setdefault((kind, area.policy, name, key if named else ""), {})
            for numa, count in pages:
                sizes[numa] = sizes.get(numa, 0) + count * area.size
    parts = (
        PageRange(kind, policy, file, key, tuple(sorted(sizes.items())))
        for (kind, policy, file, key), sizes in sums.items()
        if sizes
    )
    return Pages(tuple(parts), garbled)


def _kinds(area: Area) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    """The pages of a mapping by kind."""
    if not area.pages:
        return
    if area.huge:
        yield HUGE, area.pages
        return
    rest = next((kind for kind, names in BEHIND if area.file.startswith(names)), FILE)
    total = sum(count for _, count in area.pages)
    if area.anonymous >= total:
        yield ANONYMOUS, area.pages
        return
    if area.anonymous == 0:
        yield rest, area.pages
        return
    copies = tuple((numa, count) for numa, count in _divide(area.pages, area.anonymous, total) if count)
    left = dict(area.pages)
    for numa, count in copies:
        left[numa] -= count
    yield ANONYMOUS, copies
    yield rest, tuple((numa, count) for numa, count in left.items() if count)


def _divide(pages: tuple[tuple[int, int], ...], wanted: int, total: int) -> tuple[tuple[int, int], ...]:
    """``wanted`` of the pages, in proportion to where all of them lie (rule 3)."""
    found = []
    seen = given = 0
    for numa, count in pages:
        seen += count
        upto = (seen * wanted + total // 2) // total
        found.append((numa, upto - given))
        given = upto
    return tuple(found)


def _unescape(text: str) -> str:
    return ESCAPE.sub(lambda found: chr(int(found[1], 8)), text) if "\\" in text else text
