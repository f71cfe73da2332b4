"""cAdvisor's machine info as hardware: ``/api/v1.3/machine`` of cAdvisor, ``/spec`` of a kubelet.

Rules kept here:

1. It is what the kubelet itself goes by: threads of one core and NUMA node count as siblings.
2. An L3 of the node is shared by the whole node; an uncore cache by all cores of the node that name it.
3. A distance row counts the nodes by ascending id, whatever their order in the file.
4. Fields that older versions do not have are not known; fields that are not needed are not looked at.
"""

from collections.abc import Iterable, Mapping

from numawise.codec.document import Part, read_documents
from numawise.codec.scalars import LARGEST_INT
from numawise.errors import InputError
from numawise.machine.hardware import DIFFERS, Cache, Hardware, MemoryNode, Remark, Thread
from numawise.quantity import Quantity
from numawise.sets import LARGEST_ID, bits_of

SOURCE = "cadvisor"
L2, L3 = 2, 3


def read(text: str, file: str = "") -> Hardware:
    """Read cAdvisor's machine info."""
    documents = read_documents(text, file)
    root = documents[0].root
    if not isinstance(root.value, Mapping) or not isinstance(root.value.get("topology"), list):
        advice = "give what /api/v1.3/machine of cAdvisor answers"
        raise root.error("is not cAdvisor's machine info: it has no topology", advice)
    nodes = root.at("topology").items("a list of NUMA nodes")
    ids = [_integer(node, "node_id") or 0 for node in nodes]
    if len(set(ids)) != len(ids):
        raise root.at("topology").error("has a NUMA node twice", "give one machine's info")
    threads: dict[int, Thread] = {}
    numa = []
    for number, node in zip(ids, nodes, strict=True):
        cores = [(core, _threads(core)) for core in node.at("cores").items("a list of cores")]
        cpus = bits_of(cpu for _, own in cores for cpu in own)
        for core, own in cores:
            for cpu in own:
                if cpu in threads:
                    raise core.at("thread_ids").error(f"CPU {cpu} is listed twice")
                threads[cpu] = Thread(
                    cpu,
                    core=_integer(core, "core_id"),
                    socket=_integer(core, "socket_id", lowest=-1),
                    numa=number,
                    siblings=_siblings(core, cores),
                    l2=_cache(core.at("caches"), L2, bits_of(own)),
                    l3=_uncore(core, cores) or _cache(node.at("caches"), L3, cpus),
                )
        numa.append(
            MemoryNode(
                number,
                cpus,
                _integer(node, "memory"),
                _hugepages(node.at("hugepages")),
                _distances(node.at("distances"), sorted(ids)),
            )
        )
    if not threads:
        raise InputError("has no CPUs", file=file, advice="give the info of a whole machine")
    return Hardware(
        threads=tuple(threads[cpu] for cpu in sorted(threads)),
        numa=tuple(numa),
        memory_capacity=_integer(root, "memory_capacity"),
        sources=(SOURCE,),
        remarks=tuple(_counts(root, threads.values())),
    )


def _integer(part: Part, name: str, lowest: int = 0) -> int | None:
    field = part.at(name)
    return None if field.value is None else field.integer(lowest, LARGEST_INT)


def _threads(core: Part) -> list[int]:
    return [cpu.integer(0, LARGEST_ID) for cpu in core.at("thread_ids").items("a list of CPUs")]


def _siblings(core: Part, cores: Iterable[tuple[Part, list[int]]]) -> int:
    """CPUs of a core; old versions list a core once for each of its threads."""
    same = (_integer(core, "core_id"), core.at("socket_id").value)
    found = [own for other, own in cores if (_integer(other, "core_id"), other.at("socket_id").value) == same]
    return bits_of(cpu for own in found for cpu in own)


def _cache(caches: Part, level: int, cpus: int) -> Cache | None:
    for cache in caches.items("a list of caches"):
        if cache.at("level").value == level and cache.at("type").value != "Instruction":
            return Cache(cpus, _integer(cache, "size") or None, _integer(cache, "id"))
    return None


def _uncore(core: Part, cores: Iterable[tuple[Part, list[int]]]) -> Cache | None:
    """The core's uncore cache, with the CPUs of all cores of the node that have the same."""
    own = _cache(core.at("uncore_caches"), L3, 0)
    if own is None:
        return None
    cpus = 0
    for other, threads in cores:
        shared = _cache(other.at("uncore_caches"), L3, 0)
        if shared and shared.id == own.id:
            cpus |= bits_of(threads)
    return Cache(cpus, own.size, own.id)


def _hugepages(pages: Part) -> tuple[tuple[str, int], ...]:
    found = []
    for page in pages.items("a list of page sizes"):
        size = page.at("page_size").integer(1, LARGEST_INT >> 10)
        found.append((size, page.at("num_pages").integer(0, LARGEST_INT)))
    return tuple((str(Quantity.of(size << 10)), pages) for size, pages in sorted(found))


def _distances(row: Part, ids: list[int]) -> tuple[tuple[int, int], ...]:
    values = [value.integer(0, LARGEST_INT) for value in row.items("a list of distances")]
    return tuple(zip(ids, values, strict=True)) if len(values) == len(ids) else ()


def _counts(root: Part, threads: Iterable[Thread]) -> Iterable[Remark]:
    """What the counts at the top say otherwise."""
    every = list(threads)
    found = {"num_cores": len(every), "num_sockets": len({thread.socket for thread in every})}
    for name, count in found.items():
        stated = _integer(root, name)
        if stated and stated != count:
            yield Remark(DIFFERS, name, f"says {stated} where the topology has {count}")
