"""Gaps of a reading filled by stated rules, for who would rather guess than stop.

Rules kept here; each one applied leaves a remark of the kind ``assumed``:

1. NUMA nodes that nobody lists are those the GPUs name with their CPUs, else there is one with all CPUs.
   A CPU on no node is on the only one.
2. A core has as many threads as ``lscpu`` counts; else as many as the runs of CPUs a NUMA node has
   (``0-15,32-47``: two); else one.
3. Threads of a core are a whole round of CPUs apart (0 and 32 of 64) when that keeps them on one NUMA node,
   as Linux numbers them; else next to each other.
4. Sockets are as many as ``lscpu`` counts, else one for each NUMA node with CPUs; nodes are dealt out to them
   evenly and in order.  Cores are numbered in each socket.
5. A node without known memory has an even share of the machine's, or 64 GiB; without CPUs it has none.
6. A node is 10 from itself and 20 from any other.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from numawise.machine.hardware import ASSUMED, Hardware, MemoryNode, Remark, Thread
from numawise.sets import bits_of, format_ids, ids_of
from numawise.strconv import whole_number
from numawise.values import replace

MEMORY = 64 << 30
LOCAL, REMOTE = 10, 20
THREADS = re.compile(r"\b([0-9]{1,5}) threads per core|Thread\(s\) per core: *([0-9]{1,5})", re.ASCII)
SOCKETS = re.compile(r"\b([0-9]{1,5}) sockets|Socket\(s\): *([0-9]{1,5})", re.ASCII)


def assumed(hardware: Hardware) -> Hardware:
    """Fill what is missing for a machine file (rules 1 to 6)."""
    remarks: list[Remark] = []

    def note(place: str, text: str) -> None:
        remarks.append(Remark(ASSUMED, place, text))

    for fill in (_nodes, _homes, _cores, _sockets, _core_ids, _memory, _distances):
        hardware, place, text = fill(hardware)
        if text:
            note(place, text)
    return replace(hardware, remarks=(*hardware.remarks, *remarks))


Filled = tuple[Hardware, str, str]


def counted(hardware: Hardware, what: re.Pattern[str]) -> int | None:
    """A count that ``lscpu`` printed, out of the remark that keeps it."""
    for remark in hardware.remarks:
        found = what.search(remark.text)
        if found and whole_number(found[1] or found[2]):
            return whole_number(found[1] or found[2])
    return None


def _nodes(hardware: Hardware) -> Filled:
    if hardware.numa:
        return hardware, "", ""
    named: dict[int, int] = {}
    for gpu in hardware.gpus:
        if gpu.numa and len(gpu.numa) == 1 and gpu.cpus:
            named[gpu.numa[0]] = named.get(gpu.numa[0], 0) | gpu.cpus
    if any(i not in named for gpu in hardware.gpus for i in gpu.numa or ()):
        named = {}  # a job's GPUs show the job's CPUs
    every = bits_of(thread.cpu for thread in hardware.threads)
    if every:
        named = {i: cpus & every for i, cpus in named.items()}
    listed = reduce(or_, named.values(), 0)
    overlaps = sum(cpus.bit_count() for cpus in named.values()) != listed.bit_count()
    if named and not overlaps and not every & ~listed:
        threads = tuple(hardware.threads) or tuple(Thread(cpu) for cpu in ids_of(listed))
        nodes = tuple(MemoryNode(i, cpus) for i, cpus in sorted(named.items()))
        text = (
            f"NUMA nodes {', '.join(map(str, sorted(named)))} with the CPUs near to their GPUs, and no other"
        )
        return replace(hardware, threads=threads, numa=nodes), "numa", text
    if not every:
        return hardware, "", ""
    return replace(hardware, numa=(MemoryNode(0, every),)), "numa", "one NUMA node with all CPUs"


def _homes(hardware: Hardware) -> Filled:
    listed = {cpu: node.id for node in reversed(hardware.numa) for cpu in ids_of(node.cpus)}
    only = hardware.numa[0].id if len(hardware.numa) == 1 else None
    homes = {t.cpu: listed.get(t.cpu, only) for t in hardware.threads if t.numa is None}
    homes = {cpu: numa for cpu, numa in homes.items() if numa is not None}
    if not homes:
        return hardware, "", ""
    threads = tuple(replace(t, numa=homes.get(t.cpu, t.numa)) for t in hardware.threads)
    nodes = tuple(
        replace(node, cpus=node.cpus | bits_of(cpu for cpu, numa in homes.items() if numa == node.id))
        for node in hardware.numa
    )
    text = f"CPUs {format_ids(bits_of(homes))} on the first NUMA node that lists them, or on the only one"
    return replace(hardware, threads=threads, numa=nodes), "cpus.numa", text


def _cores(hardware: Hardware) -> Filled:
    """Threads of each core (rules 2 and 3)."""
    if not any(not thread.siblings for thread in hardware.threads):
        return hardware, "", ""
    online = bits_of(thread.cpu for thread in hardware.threads)
    listed = {cpu: node.id for node in reversed(hardware.numa) for cpu in ids_of(node.cpus)}
    homes = listed | {thread.cpu: thread.numa for thread in hardware.threads}
    stated = counted(hardware, THREADS)
    size = stated or _runs(hardware)
    if size > 1 and len(homes) % size:
        size = 1
    together, how = _together(sorted(homes), size, homes)
    groups = {cpu: bits_of(group) & online for group in together for cpu in group}
    threads = tuple(t if t.siblings else replace(t, siblings=groups[t.cpu]) for t in hardware.threads)
    why = "as lscpu counts them" if stated and size == stated else "by the runs of CPUs in the NUMA nodes"
    text = f"{size} threads per core, {why}, {how}" if size > 1 else "one thread per core"
    return replace(hardware, threads=threads), "cpus.siblings", text


def _runs(hardware: Hardware) -> int:
    """How many runs of CPUs, of equal length, every NUMA node has; 1 where they differ."""
    sizes = set()
    for node in hardware.numa:
        runs = [part.split("-") for part in format_ids(node.cpus).split(",")] if node.cpus else []
        lengths = {whole_number(run[-1]) - whole_number(run[0]) for run in runs}
        if runs:
            sizes.add(len(runs) if len(lengths) == 1 and (len(runs) == 1 or 0 not in lengths) else 1)
    return sizes.pop() if len(sizes) == 1 else 1


def _together(cpus: Sequence[int], size: int, homes: Mapping[int, int | None]) -> tuple[list[list[int]], str]:
    step = len(cpus) // size
    rounds = [[cpus[at + turn * step] for turn in range(size)] for at in range(step)]
    if all(len({homes[cpu] for cpu in group}) == 1 for group in rounds):
        return rounds, f"CPU {cpus[0]} with {rounds[0][-1]}"
    return [list(cpus[at : at + size]) for at in range(0, len(cpus), size)], "neighbours together"


def _sockets(hardware: Hardware) -> Filled:
    """Nodes dealt out to sockets (rule 4)."""
    if not hardware.threads or any(thread.socket is not None for thread in hardware.threads):
        return hardware, "", ""
    nodes = sorted({node.id for node in hardware.numa if node.cpus})
    stated = counted(hardware, SOCKETS)
    count = stated or len(nodes) or 1
    if nodes and len(nodes) % count == 0:
        share = len(nodes) // count
        place = {numa: at // share for at, numa in enumerate(nodes)}
        threads = tuple(replace(t, socket=place.get(t.numa or 0, 0)) for t in hardware.threads)
        text = f"{_count(count, 'socket')}, each with {_count(share, 'NUMA node')}"
    else:
        share = -(-len(hardware.threads) // count)
        threads = tuple(replace(t, socket=at // share) for at, t in enumerate(_by_core(hardware.threads)))
        threads = tuple(sorted(threads, key=lambda t: t.cpu))
        text = f"{_count(count, 'socket')}, each with an equal number of CPUs, in order"
    return replace(hardware, threads=threads), "cpus.socket", text


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _by_core(threads: Iterable[Thread]) -> list[Thread]:
    return sorted(threads, key=lambda t: (t.siblings & -t.siblings or 1 << t.cpu, t.cpu))


def _core_ids(hardware: Hardware) -> Filled:
    if not hardware.threads or any(thread.core is not None for thread in hardware.threads):
        return hardware, "", ""
    numbers: dict[int | None, dict[int, int]] = {}
    threads = []
    for thread in _by_core(hardware.threads):
        known = numbers.setdefault(thread.socket, {})
        key = thread.siblings or 1 << thread.cpu
        threads.append(replace(thread, core=known.setdefault(key, len(known))))
    text = "cores numbered from 0 in each socket, by lowest CPU"
    return replace(hardware, threads=tuple(sorted(threads, key=lambda t: t.cpu))), "cpus.core", text


def _memory(hardware: Hardware) -> Filled:
    """Memory of the nodes whose size is unknown (rule 5)."""
    without = [node for node in hardware.numa if node.memory is None]
    if not without:
        return hardware, "", ""
    sharing = sum(bool(node.cpus) for node in without)
    known = sum(node.memory or 0 for node in hardware.numa)
    share, text = MEMORY, "64 GiB on each NUMA node with CPUs"
    if hardware.memory_capacity and sharing and hardware.memory_capacity > known:
        share = (hardware.memory_capacity - known) // sharing
        text = "an even share of the machine's memory on each NUMA node with CPUs"
    nodes = tuple(
        node if node.memory is not None else replace(node, memory=share if node.cpus else 0)
        for node in hardware.numa
    )
    return replace(hardware, numa=nodes), "numa.memory", text


def _distances(hardware: Hardware) -> Filled:
    if len(hardware.numa) < 2 or any(node.distances for node in hardware.numa):
        return hardware, "", ""
    ids = [node.id for node in hardware.numa]
    nodes = tuple(
        replace(node, distances=tuple((i, LOCAL if i == node.id else REMOTE) for i in ids))
        for node in hardware.numa
    )
    text = f"{LOCAL} within a NUMA node and {REMOTE} to any other"
    return replace(hardware, numa=nodes), "numa.distances", text
