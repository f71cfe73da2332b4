"""CPUs, caches and NUMA nodes out of ``/sys/devices/system``.

Rules kept here:

1. A CPU is online when ``cpu/online`` lists it; where that file is missing, when its own ``online`` file
   does not say 0 (CPUs that cannot be unplugged have none).  CPUs with a folder that are not online are
   offline; numbers the kernel merely keeps for CPUs to come are neither.
2. Sets come from the list files (``…_list``, ``cpulist``); old kernels have masks only.
3. A CPU's L2 and L3 are its first cache of that level that holds data.  Which index that is differs
   between architectures, so the level is always read.  Two CPUs that both name the same CPUs, themselves
   included, as sharing it share one cache: its size and id are read once.
4. A CPU belongs to the NUMA node whose folder links to it, as cAdvisor sees it; copies of trees often lack
   the links, and then ``cpulist`` decides.  A node's own ``cpus`` are what its ``cpulist`` says.
5. A distance row counts the online nodes by ascending id.
"""

import re
from collections.abc import Iterable

from numawise.host.files import Tree
from numawise.machine.hardware import DIFFERS, ODD, UNKNOWN, UNREADABLE, Cache, MemoryNode, Thread
from numawise.sets import bits_of, format_ids, ids_of
from numawise.strconv import whole_number

CPUS = "sys/devices/system/cpu"
NODES = "sys/devices/system/node"
NVIDIA = "proc/driver/nvidia/gpus"
SIBLINGS = (("thread_siblings_list", "thread_siblings"), ("core_cpus_list", "core_cpus"))
"""The same set under its old and its new name."""
TOTAL = re.compile(r"MemTotal:\s*([0-9]{1,18}) kB", re.ASCII)
SIZE = re.compile(r"([0-9]{1,15})([KMG]?)", re.ASCII)
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
HUGE_PAGES = re.compile(r"hugepages-([0-9]{1,15})kB", re.ASCII)
GPU_NODE = re.compile(r"^Node:\s*([0-9]{1,9})$", re.ASCII | re.MULTILINE)

Known = dict[tuple[int, int, int, int], Cache]
"""Level, index, first CPU and the CPUs from there on of a cache → the cache, once one of them has read it."""


def read_threads(tree: Tree, nodes: tuple[MemoryNode, ...]) -> tuple[tuple[Thread, ...], int]:
    """Every online CPU, and the offline ones as a set."""
    folders = bits_of(tree.numbered(CPUS, "cpu"))
    online = _online(tree, folders)
    if not online:
        tree.remark(UNKNOWN, CPUS, "no CPU is online here" if folders else "there are no CPUs here")
    numa = _numa_of(tree, nodes, online)
    known: Known = {}
    threads = tuple(_thread(tree, cpu, numa.get(cpu), known) for cpu in ids_of(online))
    _report_missing(tree, threads, nodes)
    return threads, folders & ~online


def read_nodes(tree: Tree) -> tuple[MemoryNode, ...]:
    """Every NUMA node that has a folder."""
    ids = tree.numbered(NODES, "node")
    if not ids:
        tree.remark(UNKNOWN, NODES, "there are no NUMA nodes here")
        return ()
    of_gpus = _gpu_nodes(tree)
    nodes = tuple(
        MemoryNode(
            id=node,
            cpus=_cpus_of_node(tree, node),
            memory=read_memory(tree, f"{NODES}/node{node}/meminfo"),
            hugepages=_huge_pages(tree, f"{NODES}/node{node}/hugepages"),
            distances=_distances(tree, node, ids),
            note="GPU" if node in of_gpus else "",
        )
        for node in ids
    )
    _report_absent(tree, f"{NODES}/node*/meminfo", (n.id for n in nodes if n.memory is None), "NUMA nodes")
    if len(nodes) > 1:
        bare = (n.id for n in nodes if not n.distances)
        _report_absent(tree, f"{NODES}/node*/distance", bare, "NUMA nodes")
    return nodes


def read_memory(tree: Tree, path: str) -> int | None:
    """``MemTotal`` of a ``meminfo`` file, in bytes."""
    text = tree.text(path)
    if text is None:
        return None
    found = TOTAL.search(text)
    if found:
        return whole_number(found[1]) * 1024
    tree.remark(UNREADABLE, path, "does not say MemTotal")
    return None


def page_size(kib: int) -> str:
    """A page size as Kubernetes names it: 2048 → ``2Mi``."""
    for unit in "KMGT":
        if kib % 1024 or not kib or unit == "T":
            return f"{kib}{unit}i"
        kib //= 1024
    raise AssertionError


def _online(tree: Tree, folders: int) -> int:
    online = tree.ids(f"{CPUS}/online")
    if online:
        return online
    if online is not None:
        tree.garbled(f"{CPUS}/online", "", "a list of CPUs")
    return bits_of(cpu for cpu in ids_of(folders) if tree.number(f"{CPUS}/cpu{cpu}/online") != 0)


def _thread(tree: Tree, cpu: int, numa: int | None, known: Known) -> Thread:
    topology = f"{CPUS}/cpu{cpu}/topology/"
    l2, l3 = _caches(tree, cpu, known)
    return Thread(
        cpu=cpu,
        core=tree.number(topology + "core_id"),
        socket=tree.number(topology + "physical_package_id"),
        die=tree.number(topology + "die_id"),
        numa=numa,
        siblings=_siblings(tree, topology),
        l2=l2,
        l3=l3,
    )


def _siblings(tree: Tree, topology: str) -> int:
    for ids, mask in SIBLINGS:
        found = tree.ids_or_mask(topology + ids, topology + mask)
        if found is not None:
            return found
    return 0


def _caches(tree: Tree, cpu: int, known: Known) -> tuple[Cache | None, Cache | None]:
    folder = f"{CPUS}/cpu{cpu}/cache"
    found: dict[int, list[int]] = {2: [], 3: []}
    for index in tree.numbered(folder, "index"):
        level = tree.number(f"{folder}/index{index}/level")
        if level in found:
            found[level].append(index)
    l2, l3 = (_cache(tree, cpu, level, indexes, known) for level, indexes in found.items())
    return l2, l3


def _cache(tree: Tree, cpu: int, level: int, indexes: list[int], known: Known) -> Cache | None:
    folder = f"{CPUS}/cpu{cpu}/cache"
    if len(indexes) > 1:  # one for data, one for instructions
        indexes = [i for i in indexes if tree.text(f"{folder}/index{i}/type") != "Instruction"]
    if not indexes:
        return None
    place = f"{folder}/index{indexes[0]}/"
    cpus = tree.ids_or_mask(place + "shared_cpu_list", place + "shared_cpu_map") or 0
    first = (cpus & -cpus).bit_length()
    key = level, indexes[0], first, cpus >> first  # sets of neighbours would share a few hash values
    cache = known.get(key)
    if cache is None or not cpus >> cpu & 1:
        cache = Cache(cpus, _cache_size(tree, place + "size"), tree.number(place + "id"))
        if cache.size is not None and cache.id is not None:
            known[key] = cache
    return cache


def _cache_size(tree: Tree, path: str) -> int | None:
    text = tree.text(path)
    if text is None:
        return None
    found = SIZE.fullmatch(text)
    if not found:
        tree.garbled(path, text, "a size")
        return None
    return whole_number(found[1]) * UNITS[found[2]]


def _cpus_of_node(tree: Tree, node: int) -> int:
    place = f"{NODES}/node{node}/"
    by_list, by_mask = tree.ids(place + "cpulist"), tree.mask(place + "cpumap")
    if by_list is not None and by_mask is not None and by_list != by_mask:
        text = f"says {format_ids(by_mask) or 'none'} where cpulist says {format_ids(by_list) or 'none'}"
        tree.remark(DIFFERS, place + "cpumap", text)
    if by_list is not None:
        return by_list
    if by_mask is not None:
        return by_mask
    return bits_of(tree.numbered(place, "cpu"))


def _huge_pages(tree: Tree, folder: str) -> tuple[tuple[str, int], ...]:
    found = []
    for name in tree.names(folder):
        size = HUGE_PAGES.fullmatch(name)
        pages = tree.number(f"{folder}/{name}/nr_hugepages") if size else None
        if size and pages is not None:
            found.append((whole_number(size[1]), pages))
    return tuple((page_size(kib), pages) for kib, pages in sorted(found))


def _distances(tree: Tree, node: int, ids: list[int]) -> tuple[tuple[int, int], ...]:
    path = f"{NODES}/node{node}/distance"
    text = tree.text(path)
    if text is None:
        return ()
    parts = text.split()
    if not parts or not all(p.isascii() and p.isdecimal() and len(p) < 10 for p in parts):
        tree.garbled(path, text, "a row of distances")
        return ()
    row = [whole_number(part) for part in parts]
    if len(row) != len(ids):
        # Not a kernel's own tree: a copy that left nodes out.  The lists of nodes may show which.
        lists = (tree.ids(f"{NODES}/{name}") for name in ("online", "possible"))
        ids = next((list(ids_of(b)) for b in lists if b is not None and b.bit_count() == len(row)), [])
        if not ids:
            tree.remark(ODD, path, f"has {len(row)} distances, and no list of nodes is as long")
            return ()
    return tuple(zip(ids, row, strict=True))


def _gpu_nodes(tree: Tree) -> set[int]:
    """NUMA nodes that are the memory of NVIDIA GPUs, as the driver reports (POWER9, Grace)."""
    found: set[int] = set()
    for address in tree.names(NVIDIA):
        text = tree.text(f"{NVIDIA}/{address}/numa_status")
        if text:
            found.update(whole_number(node) for node in GPU_NODE.findall(text))
    return found


def _numa_of(tree: Tree, nodes: tuple[MemoryNode, ...], online: int) -> dict[int, int]:
    """The NUMA node of each CPU, by rule 4."""
    listed: dict[int, list[int]] = {}
    for node in nodes:
        for cpu in ids_of(node.cpus & online):
            listed.setdefault(cpu, []).append(node.id)
    linked: dict[int, int] = {}
    unlinked = []
    for cpu in ids_of(online):
        for node_id in listed.get(cpu, ()):
            if tree.has(f"{NODES}/node{node_id}/cpu{cpu}"):
                linked[cpu] = node_id
                break
        else:
            unlinked.append(cpu)
    if linked or not listed:  # this tree has its links, so look for the rest in all nodes
        for cpu in unlinked:
            for node in nodes:
                if tree.has(f"{NODES}/node{node.id}/cpu{cpu}"):
                    linked[cpu] = node.id
                    break
    _report_contradictions(tree, listed, linked)
    for node in nodes:
        if node.cpus & ~online:
            text = f"lists CPUs {format_ids(node.cpus & ~online)}, which are not online"
            tree.remark(DIFFERS, f"{NODES}/node{node.id}/cpulist", text)
    return {cpu: ids[0] for cpu, ids in listed.items()} | linked


def _report_contradictions(tree: Tree, listed: dict[int, list[int]], linked: dict[int, int]) -> None:
    several: dict[tuple[int, ...], list[int]] = {}
    for cpu, ids in listed.items():
        if len(ids) > 1:
            several.setdefault(tuple(ids), []).append(cpu)
    for nodes, cpus in several.items():
        text = f"NUMA nodes {format_ids(bits_of(nodes))} all list CPUs {format_ids(bits_of(cpus))}"
        tree.remark(ODD, f"{NODES}/node*/cpulist", text)
    elsewhere: dict[int, list[int]] = {}
    for cpu, node in linked.items():
        if node not in listed.get(cpu, ()):
            elsewhere.setdefault(node, []).append(cpu)
    for node, cpus in elsewhere.items():
        text = f"does not list CPUs {format_ids(bits_of(cpus))} that the folder links to"
        tree.remark(DIFFERS, f"{NODES}/node{node}/cpulist", text)


def _report_missing(tree: Tree, threads: tuple[Thread, ...], nodes: tuple[MemoryNode, ...]) -> None:
    """One remark for each thing that some CPUs do not have."""
    coreless = (thread.cpu for thread in threads if thread.core is None)
    _report_absent(tree, f"{CPUS}/cpu*/topology/core_id", coreless, "CPUs")
    homeless = (thread.cpu for thread in threads if thread.socket is None)
    _report_absent(tree, f"{CPUS}/cpu*/topology/physical_package_id", homeless, "CPUs")
    stray = bits_of(thread.cpu for thread in threads if thread.numa is None)
    if nodes and stray:
        tree.remark(UNKNOWN, f"{NODES}/node*/cpulist", f"no NUMA node lists CPUs {format_ids(stray)}")


def _report_absent(tree: Tree, pattern: str, ids: Iterable[int], what: str) -> None:
    """Report which ids have no such file; a file that is there but garbled has its remark already."""
    bits = bits_of(i for i in ids if not tree.has(pattern.replace("*", str(i))))
    if bits:
        tree.remark(UNKNOWN, pattern, f"{what} {format_ids(bits)} have no such file")
