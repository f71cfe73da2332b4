"""How much memory each NUMA node could still give, and how much of it a job's control group uses.

Rules kept here:

1. The kernel reports ``MemAvailable`` for the whole machine only.  Here its own estimate is made for each
   node, from the node's counters: free pages, less what each zone keeps back (its high watermark and the
   largest of its reserves for other zones); plus file pages, less the part that is not given up (half of
   them, at most the low watermarks); plus reclaimable memory of the kernel, less the same.  The sum over all
   nodes is ``MemAvailable``, but for the last two: "half, at most" is taken node by node.
2. Without ``/proc/zoneinfo`` the watermarks are those that follow from ``min_free_kbytes``, by a node's share
   of all memory.
3. A node that says nothing is not in the answer: that is "not known", and never 0.
4. A job's memory is what could not be taken away from it: anonymous and shared memory.  File pages count as
   available (rule 1), whosever they are.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from numawise.host.files import Tree
from numawise.host.plan import read
from numawise.strconv import whole_number
from numawise.values import dataclass

ROOT = Path("/")
NODES = "sys/devices/system/node"
AMOUNT = re.compile(r"^Node [0-9]+ ([A-Za-z()]+):\s*([0-9]{1,15}) kB$", re.ASCII | re.MULTILINE)
ZONE = re.compile(r"^Node ([0-9]{1,5}), zone +\S+$", re.ASCII | re.MULTILINE)
MARK = re.compile(r"^ +(low|high|managed) +([0-9]{1,15})$", re.ASCII | re.MULTILINE)
PROTECTION = re.compile(r"^ +protection: \(([0-9, ]{1,200})\)$", re.ASCII | re.MULTILINE)
ON_NODE = re.compile(r" N([0-9]{1,5})=([0-9]{1,18})", re.ASCII)
USED_V2 = ("anon", "shmem")
USED_V1 = (("hierarchical_anon",), ("anon",))
"""In version 1 shared memory is among the anonymous; the groups below count where the kernel sums them up."""
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
    amounts = {}
    for node in nodes:
        text = tree.text(f"{NODES}/node{node}/meminfo")
        found = {name: whole_number(size) << 10 for name, size in AMOUNT.findall(text or "")}
        if "MemFree" in found:
            amounts[node] = found
    if not amounts:
        return {}
    marks = _watermarks(tree, {node: found.get("MemTotal", 0) for node, found in amounts.items()})
    return {node: _available(found, marks.get(node, Watermarks())) for node, found in amounts.items()}


def _available(amounts: dict[str, int], marks: Watermarks) -> int:
    files = amounts.get("Active(file)", 0) + amounts.get("Inactive(file)", 0)
    kernel = amounts.get("KReclaimable", amounts.get("SReclaimable", 0))
    found = amounts["MemFree"] - marks.reserve
    for part in (files, kernel):
        found += part - min(part // 2, marks.low)
    return max(found, 0)


def _watermarks(tree: Tree, totals: dict[int, int]) -> dict[int, Watermarks]:
    zones = ZONE.split(tree.text("proc/zoneinfo") or "")
    found: dict[int, Watermarks] = {}
    for node, text in zip(zones[1::2], zones[2::2], strict=True):
        marks = dict(MARK.findall(text.partition("pagesets")[0]))
        kept = PROTECTION.search(text)
        largest = max(map(whole_number, (kept[1] if kept else "0").replace(",", " ").split()), default=0)
        low, high, managed = (whole_number(marks.get(name, "0")) for name in ("low", "high", "managed"))
        before = found.get(whole_number(node), Watermarks())
        found[whole_number(node)] = Watermarks(
            before.low + low * PAGE, before.reserve + min(high + largest, managed) * PAGE
        )
    if found:
        return found
    least = (tree.number("proc/sys/vm/min_free_kbytes") or 0) << 10
    whole = sum(totals.values()) or 1
    return {
        node: Watermarks(least * total // whole * 5 // 4, least * total // whole * 3 // 2)
        for node, total in totals.items()
    }


def used_by_group(folders: Iterable[str]) -> dict[int, int] | None:
    """NUMA node → bytes that a job's control group uses (rule 4); None where nothing counts them."""
    for folder in folders:
        lines = read(f"{folder}/memory.numa_stat").splitlines()
        if not lines:
            continue
        by_name: dict[str, dict[int, int]] = {}
        for line in lines:
            name, _, rest = line.partition(" ")
            counts = {whole_number(node): whole_number(size) for node, size in ON_NODE.findall(f" {rest}")}
            by_name[name.partition("=")[0]] = counts
        in_pages = "=" in lines[0].partition(" ")[0]  # version 1: ``anon=12 N0=12``
        names = next((some for some in USED_V1 if some[0] in by_name), ()) if in_pages else USED_V2
        used: dict[int, int] = {}
        for name in names:
            for node, size in by_name.get(name, {}).items():
                used[node] = used.get(node, 0) + size * (PAGE if in_pages else 1)
        return used
    return None
