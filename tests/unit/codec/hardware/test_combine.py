"""Several readings of one machine: whom to believe, what is said otherwise, what nobody knows."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.hardware import hwloc, lscpu, numactl, nvidia_topo
from numawise.codec.hardware.combine import combine
from numawise.errors import InputError
from numawise.machine.hardware import (
    ASSUMED,
    DIFFERS,
    UNKNOWN,
    Cache,
    Gpu,
    Hardware,
    Host,
    Matrix,
    MemoryNode,
    PciDevice,
    Remark,
    Thread,
)
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Machine
from numawise.sets import format_ids, ids_of, parse_ids

SHARED = Path(__file__).parents[5] / "shared" / "data"
GIB = 1 << 30


def nodes(source: str, *lists: str, **more: Any) -> Hardware:
    """NUMA nodes by their CPU lists: ``0-3 / 4-7`` are two nodes."""
    numa = tuple(MemoryNode(i, parse_ids(cpus)) for i, cpus in enumerate(lists))
    threads = tuple(
        sorted((Thread(cpu, numa=node.id) for node in numa for cpu in ids_of(node.cpus)), key=lambda t: t.cpu)
    )
    return Hardware(**{"threads": threads, "numa": numa, "sources": (source,), **more})


def gpus(**near: str) -> Hardware:
    """GPUs with their CPU list and NUMA node: ``0-3@0``; ``@0`` and ``0-3@`` leave one out."""
    found = []
    for name, text in near.items():
        cpus, _, numa = text.partition("@")
        found.append(Gpu(name, cpus=parse_ids(cpus) if cpus else None, numa=(int(numa),) if numa else None))
    links = {a: {b: "X" if a == b else "NV4" for b in near} for a in near}
    return Hardware(gpus=tuple(found), matrix=Matrix(tuple(near), links=links), sources=("nvidia-topo",))


def remarks(hardware: Hardware, kind: str) -> dict[str, str]:
    return {remark.place: remark.text for remark in hardware.remarks if remark.kind == kind}


TWO = nodes("numactl", "0-3", "4-7")


# --- whom to believe ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "believed"),
    [
        ("sysfs cadvisor hwloc lscpu", "sysfs"),
        ("lscpu numactl", "numactl"),
        ("nvidia-topo nccl", "nccl"),
        ("hwloc cadvisor", "cadvisor"),
        ("something lscpu", "lscpu"),
    ],
)
def test_order_of_trust(sources: str, believed: str) -> None:
    parts = [nodes(source, "0-7", name=source) for source in sources.split()]
    for order in (parts, parts[::-1]):
        found = combine(order)
        assert found.name == believed
        assert found.sources[0] == believed


def test_a_table_of_lscpu_is_believed_before_numactl() -> None:
    table = Hardware(
        threads=tuple(Thread(i, i, 0, None, i // 4, 1 << i) for i in range(8)), sources=("lscpu",)
    )
    assert combine([TWO, table]).sources == ("lscpu", "numactl")


def test_gaps_are_filled() -> None:
    threads = tuple(Thread(i, core=i % 4, socket=0, siblings=0x11 << i % 4) for i in range(8))
    whole = Hardware(
        threads=threads,
        numa=(MemoryNode(0, 0, 5 * GIB, (("2Mi", 1),), ((0, 10),)), MemoryNode(1, 0, 6 * GIB)),
        sources=("hwloc",),
        host=Host(kernel="6.1"),
        memory_capacity=11 * GIB,
    )
    found = combine([TWO, whole])
    assert found.threads[5] == Thread(5, core=1, socket=0, numa=1, siblings=0x22)
    assert found.numa[0] == MemoryNode(0, 0xF, 5 * GIB, (("2Mi", 1),), ((0, 10),))
    assert found.host == Host(kernel="6.1")
    assert not remarks(found, DIFFERS)


def test_memory_may_be_rounded() -> None:
    exact = replace(TWO, numa=(MemoryNode(0, 0xF, 5 * GIB + 12345), MemoryNode(1, 0xF0)), sources=("sysfs",))
    rounded = replace(TWO, numa=(MemoryNode(0, 0xF, 5 * GIB), MemoryNode(1, 0xF0, 7)))
    found = combine([rounded, exact])
    assert [node.memory for node in found.numa] == [5 * GIB + 12345, 7]
    assert not remarks(found, DIFFERS)


def test_cache_sizes_come_from_whoever_knows() -> None:
    one = Hardware(threads=(Thread(0, l3=Cache(3)), Thread(1, l3=Cache(3))), sources=("sysfs",))
    other = Hardware(threads=(Thread(0, l3=Cache(3, 99, 4)), Thread(1)), sources=("hwloc",))
    assert combine([one, other]).threads[0].l3 == Cache(3, 99, 4)


def test_memory_that_hwloc_calls_local_stays_without_cpus() -> None:
    kernel = replace(nodes("sysfs", "0-3"), numa=(MemoryNode(0, 0xF), MemoryNode(1, 0, 9)))
    other = replace(nodes("hwloc", "0-3"), numa=(MemoryNode(0, 0xF), MemoryNode(1, 0xF, 9, note="HBM")))
    found = combine([other, kernel])
    assert found.numa[1] == MemoryNode(1, 0, 9, note="HBM")
    assert not remarks(found, DIFFERS)


def test_offline_cpus_stay_offline() -> None:
    kernel = nodes("sysfs", "0-3", offline=0xF0)
    found = combine([nodes("lscpu", "0-7"), kernel])
    assert (len(found.threads), found.offline) == (4, 0xF0)
    assert remarks(found, DIFFERS)["offline"] == "CPUs 4-7 are online in lscpu"


# --- what is said otherwise -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        pytest.param({"numa": 1}, "cpus.numa", "CPUs 3: 1 there, 0 here", id="numa"),
        pytest.param({"socket": 1}, "cpus.socket", "CPUs 3: 1 there, 0 here", id="socket"),
        pytest.param({"siblings": 8}, "cpus.siblings", "CPUs 3: 3 there, 2-3 here", id="siblings"),
        pytest.param({"l3": Cache(8)}, "cpus.l3", "CPUs 3: 3 there, 0-3 here", id="l3"),
    ],
)
def test_cpus(change: Mapping[str, Any], place: str, words: str) -> None:
    own = tuple(Thread(i, i // 2, 0, None, 0, 3 << i // 2 * 2, None, Cache(0xF)) for i in range(4))
    more = (Thread(4, numa=1),)
    one = Hardware(threads=(*own, *more), sources=("sysfs",))
    other = Hardware(threads=(*own[:3], replace(own[3], **change), *more), sources=("hwloc",))
    found = combine([other, one])
    assert remarks(found, DIFFERS) == {place: f"hwloc says otherwise: {words}"}
    assert found.threads == one.threads


def test_numbers_that_a_tool_counts_itself_are_no_contradiction() -> None:
    one = Hardware(threads=(Thread(0, 8, 0), Thread(1, 9, 36)), sources=("sysfs",))
    other = Hardware(threads=(Thread(0, 0, 0), Thread(1, 1, 1)), sources=("lscpu",))
    assert not remarks(combine([one, other]), DIFFERS)


def test_nodes() -> None:
    one = replace(
        TWO, sources=("sysfs",), numa=(MemoryNode(0, 0xF, 1 << 30, (("2Mi", 1),), ((0, 10), (1, 20))),)
    )
    other = replace(TWO, numa=(MemoryNode(0, 0xF, 2 << 30, (("2Mi", 3),), ((0, 10), (1, 21))),))
    text = remarks(combine([one, other]), DIFFERS)["numa"]
    assert "node 0 has 2147483648 bytes there, 1073741824 here" in text
    assert "3 pages of 2Mi there, 1 here" in text
    assert "other distances to 1" in text


def test_a_job_sees_less() -> None:
    found = combine([TWO, nodes("hwloc", "0-1")])
    assert len(found.threads) == 8
    assert remarks(found, DIFFERS)["cpus"] == "CPUs 2-7 are in numactl only"


def test_devices() -> None:
    one = Hardware(pci=(PciDevice("0000:01:00.0", 0x10DE, numa=0, names=("card0",)),), sources=("sysfs",))
    other = Hardware(
        pci=(PciDevice("0000:01:00.0", numa=1, model="H", names=("nvml0",)), PciDevice("0000:02:00.0")),
        sources=("hwloc",),
    )
    found = combine([one, other])
    assert found.pci[0] == PciDevice("0000:01:00.0", 0x10DE, numa=0, model="H", names=("card0", "nvml0"))
    assert [device.address for device in found.pci] == ["0000:01:00.0", "0000:02:00.0"]
    assert "0000:01:00.0 is on 1 there, on 0 here" in remarks(found, DIFFERS)["devices.numa"]


def test_links_of_the_maker_are_believed() -> None:
    printed = gpus(GPU0="0-3@0", GPU1="0-3@0")
    worked_out = replace(
        gpus(GPU0="0-3@0", GPU1="0-3@0"),
        sources=("hwloc",),
        matrix=Matrix(("GPU0", "GPU1"), links={"GPU0": {"GPU0": "X", "GPU1": "PHB"}}),
    )
    found = combine([worked_out, printed])
    assert found.matrix == printed.matrix
    assert "GPU0 to GPU1 is PHB there, NV4 here" in remarks(found, DIFFERS)["links"]


# --- GPUs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "cpus", "numa"),
    [
        pytest.param("4-7@1", "4-7", (1,), id="both told"),
        pytest.param("@1", "4-7", (1,), id="CPUs follow from the node"),
        pytest.param("4-7@", "4-7", (1,), id="the node follows from CPUs"),
        pytest.param("4-5@", "4-5", (1,), id="also from some of them"),
        pytest.param("0-7@", "0-7", (0, 1), id="both nodes"),
        pytest.param("3-4@", "3-4", None, id="parts of two nodes tell nothing"),
        pytest.param("@", None, None, id="nothing told"),
    ],
)
def test_near(printed: str, cpus: str | None, numa: tuple[int, ...] | None) -> None:
    found = combine([TWO, gpus(GPU0=printed)])
    gpu = found.gpus[0]
    assert (None if gpu.cpus is None else format_ids(gpu.cpus), gpu.numa) == (cpus, numa)
    assert not remarks(found, DIFFERS)


def test_affinity_against_its_node() -> None:
    found = combine([TWO, gpus(GPU0="2-5@1")])
    assert remarks(found, DIFFERS)["gpus.cpus"] == "GPU0 is near CPUs 2-5, and its NUMA nodes have 4-7"


@pytest.mark.parametrize(
    ("known", "more", "count"),
    [
        pytest.param(Gpu("GPU0", uuid="u"), Gpu("GPU5", uuid="u"), 1, id="by id"),
        pytest.param(Gpu("GPU0", address="00000000:1B:00.0"), Gpu("GPU5", address="0000:1b:00.0"), 1, id="by address"),
        pytest.param(Gpu("GPU0"), Gpu("GPU0", address="0000:1b:00.0"), 1, id="by name"),
        pytest.param(Gpu("GPU0", uuid="u"), Gpu("GPU0", uuid="v"), 2, id="another of the same name"),
    ],
)  # fmt: skip
def test_the_same_gpu(known: Gpu, more: Gpu, count: int) -> None:
    parts = [Hardware(gpus=(known,), sources=("nvml",)), Hardware(gpus=(more,), sources=("hwloc",))]
    assert len(combine(parts).gpus) == count


# --- not of one machine -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "words"),
    [
        pytest.param(nodes("lscpu", "8-15"), "numactl has CPUs 0-7, lscpu 8-15", id="no CPU shared"),
        pytest.param(
            nodes("lscpu", "0-7"), "numactl divides the CPUs among 2 NUMA nodes, lscpu to 1", id="NUMA nodes"
        ),
        pytest.param(gpus(GPU0="64-95@1"), "GPUs are near CPUs 64-95, and numactl has 0-7", id="GPUs"),
    ],
)
def test_not_of_one_machine(other: Hardware, words: str) -> None:
    with pytest.raises(InputError, match=f"are not of one machine: .*{words}"):
        combine([TWO, other])


def test_nothing() -> None:
    with pytest.raises(InputError, match="nothing to combine"):
        combine([])


# --- what nobody knows ------------------------------------------------------------------------------------


def test_unknown() -> None:
    found = combine([TWO, gpus(GPU0="@")])
    assert remarks(found, UNKNOWN) == {
        "cpus.siblings": "which CPUs share a core",
        "cpus.core": "the core ids",
        "cpus.socket": "the socket",
        "cpus.l3": "which CPUs share an L3 cache",
        "numa.memory": "the memory of NUMA nodes 0, 1",
        "numa.distances": "the distances between NUMA nodes",
        "numa.hugepages": "the huge pages",
        "gpus.numa": "the NUMA nodes near to GPU0",
    }
    assert isinstance(kubelet_view(found), tuple)


def test_unknown_of_a_matrix_alone() -> None:
    assert set(remarks(combine([gpus(GPU0="@")]), UNKNOWN)) == {"cpus", "numa", "gpus.numa"}


# --- what is assumed --------------------------------------------------------------------------------------


def counts(threads: int = 0, sockets: int = 0) -> tuple[Remark, ...]:
    """What the reader of lscpu's summary keeps of its counts."""
    if not threads:
        return ()
    text = f"the text counts {threads} threads per core, 4 cores per socket, {sockets} sockets, and no more"
    return (Remark(UNKNOWN, "cores", text),)


@pytest.mark.parametrize(
    ("lists", "told", "sets", "sockets"),
    [
        pytest.param("0-3 4-7",         (2, 2), "0-1 2-3 4-5 6-7", "0000 1111", id="neighbours, as the nodes demand"),
        pytest.param("0-1,4-5 2-3,6-7", (2, 2), "0,4 1,5 2,6 3,7", "0011 0011", id="a round apart"),
        pytest.param("0-1,4-5 2-3,6-7", (0, 0), "0,4 1,5 2,6 3,7", "0011 0011", id="by the runs"),
        pytest.param("0-3 4-7",         (0, 0), "0 1 2 3 4 5 6 7", "0000 1111", id="one thread"),
        pytest.param("0-7",             (2, 1), "0,4 1,5 2,6 3,7", "0000 0000", id="one node"),
        pytest.param("0-7",             (1, 4), "0 1 2 3 4 5 6 7", "0011 2233", id="sockets without nodes"),
        pytest.param("0,2,4,6 1,3,5,7", (2, 2), "0,4 1,5 2,6 3,7", "0101 0101", id="odd and even"),
        pytest.param("0-1 2-3 4-5 6-7", (1, 2), "0 1 2 3 4 5 6 7", "0000 1111", id="two nodes a socket"),
        pytest.param("0-6",             (2, 1), "0 1 2 3 4 5 6",   "0000 000",  id="an odd number"),
    ],
)  # fmt: skip
def test_cores_and_sockets(lists: str, told: tuple[int, int], sets: str, sockets: str) -> None:
    found = combine([nodes("lscpu", *lists.split(), remarks=counts(*told))], assume=True)
    groups = sorted({thread.siblings for thread in found.threads}, key=lambda bits: bits & -bits)
    assert " ".join(map(format_ids, groups)) == sets
    assert "".join(str(thread.socket) for thread in found.threads) == sockets.replace(" ", "")
    assert {"cpus.siblings", "cpus.socket", "cpus.core"} <= set(remarks(found, ASSUMED))
    assert isinstance(kubelet_view(found), Machine)


def test_offline_threads_have_their_place() -> None:
    some = nodes("lscpu", "0-1,4-5", "2-3,6-7", offline=0xF8)
    found = combine([replace(some, threads=some.threads[:3])], assume=True)
    assert [(t.cpu, format_ids(t.siblings), t.socket) for t in found.threads] == [
        (0, "0", 0),
        (1, "1", 0),
        (2, "2", 1),
    ]


def test_memory_and_distances() -> None:
    found = combine([TWO], assume=True)
    assert [(node.memory, node.distances) for node in found.numa] == [
        (64 * GIB, ((0, 10), (1, 20))),
        (64 * GIB, ((0, 20), (1, 10))),
    ]
    found = combine([replace(TWO, memory_capacity=10 * GIB)], assume=True)
    assert [node.memory for node in found.numa] == [5 * GIB, 5 * GIB]


def test_what_is_known_is_kept() -> None:
    path = Path(__file__).parents[3] / "machines" / "data" / "hwloc" / "hwloc3-power8gpudistances"
    whole = hwloc.read((path / "topology.xml").read_text())
    assert remarks(combine([whole], assume=True), ASSUMED) == {}


def test_a_matrix_alone_gives_a_machine() -> None:
    found = combine([gpus(GPU0="0-3@0", GPU1="4-7@1")], assume=True)
    machine = kubelet_view(found)
    assert isinstance(machine, Machine)
    assert [(cpu.cpu, cpu.numa) for cpu in machine.cpus][3:5] == [(3, 0), (4, 1)]
    assert [(device.id, device.numa) for device in machine.plugins[0].devices] == [
        ("GPU0", (0,)),
        ("GPU1", (1,)),
    ]


@pytest.mark.parametrize(
    "near",
    [
        pytest.param({"GPU0": "1@0", "GPU1": "@1"}, id="inside a job"),
        pytest.param({"GPU0": "0-3@0", "GPU1": "2-5@1"}, id="nodes overlap"),
    ],
)
def test_a_matrix_that_tells_too_little(near: dict[str, str]) -> None:
    found = combine([gpus(**near)], assume=True)
    assert (found.numa, found.threads) == ((), ())


# --- prints of real machines ------------------------------------------------------------------------------

SETS = {
    "nvidia_topo": ("nvidia-topo", nvidia_topo),
    "lscpu": ("lscpu", lscpu),
    "numactl": ("numactl", numactl),
}


def pairs() -> list[Any]:
    if not (SHARED / "pairs.json").is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"there is no {SHARED}/pairs.json"))]
    found = json.loads((SHARED / "pairs.json").read_text())
    assert len(found) >= 43
    return [pytest.param(pair, id=pair["nvidia_topo"]) for pair in found]


@pytest.mark.parametrize("pair", pairs())
def test_pairs(pair: dict[str, Any]) -> None:
    parts = [
        reader.read((SHARED / folder / f"{pair[name]}.txt").read_bytes().decode(errors="replace"), name)
        for name, (folder, reader) in SETS.items()
        if name in pair
    ]
    found = combine(parts)
    assert not remarks(found, DIFFERS)
    cpus = {node.id: node.cpus for node in found.numa}
    for gpu in found.gpus if cpus else ():
        near = [cpus[numa] for numa in gpu.numa or ()]
        assert gpu.cpus is None or not near or not gpu.cpus & ~sum(near)
        told = pair.get("gpu_affinity_against_lscpu_numa", {}).get(gpu.name)
        if told == "equal":
            assert gpu.cpus == sum(near)
    known = {thread.cpu: thread.numa for thread in found.threads}
    whole = combine(parts, assume=True)
    assert all(known.get(thread.cpu) in (None, thread.numa) for thread in whole.threads)
    assert remarks(whole, ASSUMED)
    machine = kubelet_view(whole)
    assert isinstance(machine, Machine)
    assert sum(len(plugin.devices) for plugin in machine.plugins) == len(found.gpus)
