"""How much memory each NUMA node could still give, and how much of it a job's control group uses.

Rules kept here:

1. The kernel reports ``MemAvailable`` for the whole machine only.  Here its own estimate is made for each
   node, from the node's counters: free pages, less what each zone keeps back (its high watermark and the
   largest of its reserves for other zones); plus file pages, less the part that is not given up (half of
   them, at most the low watermarks); plus reclaimable memory of the kernel, less the same.  The sum over all
   nodes is ``MemAvailable``, but for the last two: "half, at most" is taken node by node.  On a machine with
   one node it is ``MemAvailable`` itself: in a virtual machine that is lent memory as it needs it, the node
   counts only what was lent so far.
2. Without ``/proc/zoneinfo`` the watermarks are those that follow from ``min_free_kbytes``, by a node's share
   of all memory.
3. A node that says nothing is not in the answer: that is "not known", and never 0.
4. A job's memory is what could not be taken away from it: anonymous and shared memory.  File pages count as
   available (rule 1), whosever they are.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from numawise.host.files import Tree
from numawise.host.plan import read
from numawise.strconv import whole_number
from numawise.values import dataclass

ROOT = Path("/")
NODES = "sys/devices/system/node"
MEMORY = "proc/meminfo"
MARKS = ("low", "high", "managed")
USED_V2 = ("anon", "shmem")
USED_V1 = (("hierarchical_anon",), ("anon",))
"""In version 1 shared memory is among the anonymous; the groups below count where the kernel sums them up."""
LONGEST = 18
"""Digits of a number that is taken for one."""
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Watermarks:
    """What the kernel keeps back on a NUMA node, in bytes."""

    low: int = 0
    reserve: int = 0
    """High watermarks and reserves for other zones."""


def read_available(nodes: Iterable[int], root: Path = ROOT) -> dict[int, int]:
    """NUMA node → bytes that could be had there now without swapping (rules 1 to 3)."""
    tree = Tree(root)
    nodes = tuple(nodes)
    if len(nodes) == 1 and tree.numbered(NODES, "node") == list(nodes):
        whole = dict(_amounts(tree.text(MEMORY) or "", 0)).get("MemAvailable")
        if whole is not None:
            return {nodes[0]: whole}
    amounts = {}
    for node in nodes:
        found = _of_node(tree, node)
        if "MemFree" in found:
            amounts[node] = found
    if not amounts:
        return {}
    marks = _watermarks(tree, {node: found.get("MemTotal", 0) for node, found in amounts.items()})
    return {node: _available(found, marks.get(node, Watermarks())) for node, found in amounts.items()}


def read_free(nodes: Iterable[int], root: Path = ROOT) -> dict[int, int]:
    """NUMA node → bytes that nobody uses for anything, of those that report them."""
    amounts = ((node, _of_node(Tree(root), node)) for node in nodes)
    return {node: found["MemFree"] for node, found in amounts if "MemFree" in found}


def _of_node(tree: Tree, node: int) -> dict[str, int]:
    return dict(_amounts(tree.text(f"{NODES}/node{node}/meminfo") or ""))


def _available(amounts: dict[str, int], marks: Watermarks) -> int:
    files = amounts.get("Active(file)", 0) + amounts.get("Inactive(file)", 0)
    kernel = amounts.get("KReclaimable", amounts.get("SReclaimable", 0))
    found = amounts["MemFree"] - marks.reserve
    for part in (files, kernel):
        found += part - min(part // 2, marks.low)
    return max(found, 0)


def _watermarks(tree: Tree, totals: dict[int, int]) -> dict[int, Watermarks]:
    found: dict[int, Watermarks] = {}
    for zone in f"\n{tree.text('proc/zoneinfo') or ''}".split("\nNode ")[1:]:
        node = _number(zone.partition(",")[0])
        marks = dict.fromkeys(MARKS, 0)
        kept = 0
        for line in zone.partition("pagesets")[0].splitlines():  # a line for each CPU follows
            name, _, rest = line.strip().partition(" ")
            if name in marks:
                marks[name] = _number(rest.strip())
            elif name == "protection:":
                kept = max(map(_number, rest.strip("() ").replace(",", " ").split()), default=0)
        low, high, managed = (marks[name] for name in MARKS)
        before = found.get(node, Watermarks())
        reserve = min(high + kept, managed)
        found[node] = Watermarks(before.low + low * PAGE, before.reserve + reserve * PAGE)
    if found:
        return found
    least = (tree.number("proc/sys/vm/min_free_kbytes") or 0) << 10
    whole = sum(totals.values()) or 1
    return {
        node: Watermarks(least * total // whole * 5 // 4, least * total // whole * 3 // 2)
        for node, total in totals.items()
    }


def _amounts(text: str, before: int = 2) -> Iterator[tuple[str, int]]:
    """``Node 0 MemFree:   123 kB``: names and bytes; ``before``: words before the name."""
    for line in text.splitlines():
        words = line.split()[before:]
        if len(words) == 3 and words[2] == "kB" and words[1].isdecimal():
            yield words[0].rstrip(":"), _number(words[1]) << 10


def _number(text: str) -> int:
    """A number of the kernel's; 0 for what is none."""
    return whole_number(text) if text.isascii() and text.isdecimal() and len(text) <= LONGEST else 0


def used_by_group(folders: Iterable[str]) -> dict[int, int] | None:
    """NUMA node → bytes that a job's control group uses (rule 4); None where nothing counts them."""
    for folder in folders:
        lines = read(f"{folder}/memory.numa_stat").splitlines()
        if not lines:
            continue
        by_name: dict[str, dict[int, int]] = {}
        for line in lines:
            name, _, rest = line.partition(" ")
            parts = (count.partition("=") for count in rest.split())
            by_name[name.partition("=")[0]] = {_number(node[1:]): _number(size) for node, _, size in parts}
        in_pages = "=" in lines[0].partition(" ")[0]  # version 1: ``anon=12 N0=12``
        names = next((some for some in USED_V1 if some[0] in by_name), ()) if in_pages else USED_V2
        used: dict[int, int] = {}
        for name in names:
            for node, size in by_name.get(name, {}).items():
                used[node] = used.get(node, 0) + size * (PAGE if in_pages else 1)
        return used
    return None
