"""Broken and odd trees: what can be read is read, the rest is one remark each."""

from pathlib import Path
from typing import Any

import pytest

from numawise.codec.hardware.combine import combine
from numawise.host.sysfs import page_size
from numawise.machine.hardware import Cache, Hardware, MemoryNode, Thread
from numawise.render.hardware import summary
from numawise.sets import format_ids
from tests.unit.host.trees import CPU, NODE, read, remarks, two_cpus

L3 = Cache(cpus=0b11, size=8 << 20, id=0)
FIRST = Thread(cpu=0, core=0, socket=0, numa=0, siblings=0b01, l3=L3)
SECOND = Thread(cpu=1, core=1, socket=0, numa=0, siblings=0b10, l3=L3)
ONLY = MemoryNode(id=0, cpus=0b11, memory=1 << 20, hugepages=(("2Mi", 7), ("1Gi", 1)), distances=((0, 10),))


def test_whole(tmp_path: Path) -> None:
    assert read(tmp_path, two_cpus()) == Hardware(
        threads=(FIRST, SECOND), numa=(ONLY,), memory_capacity=1000 << 10, sources=("sysfs",)
    )


def test_nothing(tmp_path: Path) -> None:
    found = read(tmp_path / "absent", {})
    assert (found.threads, found.numa, found.pci, found.host) == ((), (), (), None)
    assert remarks(found) == ["unknown node", "unknown cpu"]


@pytest.mark.parametrize(("path", "content"), [
    ("topology/core_id",              "x"),
    ("topology/core_id",              None),
    ("topology/core_id",              b"\xff\0\1"),
    ("topology/core_id",              "-> core_id"),
    ("topology/core_id",              "-> gone"),
    ("topology/physical_package_id",  ""),
    ("topology/die_id",               "none"),
    ("topology/thread_siblings_list", "0-"),
    ("cache/index0/level",            "one"),
    ("cache/index3/shared_cpu_list",  "0-1,"),
])  # fmt: skip
def test_one_bad_file_of_a_cpu(tmp_path: Path, path: str, content: Any) -> None:
    tree = {place: text for place, text in two_cpus().items() if place != f"{CPU}/cpu1/{path}"}
    found = read(tmp_path, tree | {f"{CPU}/cpu1/{path}": content})
    assert remarks(found) == [f"unreadable cpu/cpu1/{path}"]
    assert (found.threads[0], found.numa) == (FIRST, (ONLY,))
    assert [thread.numa for thread in found.threads] == [0, 0]


@pytest.mark.parametrize(("name", "content", "remark", "node"), [
    ("cpulist",   "0-",      "unreadable node/node0/cpulist",  ONLY),
    ("cpumap",    "3x",      "unreadable node/node0/cpumap",   ONLY),
    ("cpumap",    "1",       "differs node/node0/cpumap",      ONLY),
    ("meminfo",   "Node 0",  "unreadable node/node0/meminfo",  MemoryNode(0, 3, None, ONLY.hugepages, ((0, 10),))),
    ("distance",  "near",    "unreadable node/node0/distance", MemoryNode(0, 3, 1 << 20, ONLY.hugepages)),
    ("distance",  "10 20",   "odd node/node0/distance",        MemoryNode(0, 3, 1 << 20, ONLY.hugepages)),
])  # fmt: skip
def test_one_bad_file_of_a_node(
    tmp_path: Path, name: str, content: str, remark: str, node: MemoryNode
) -> None:
    found = read(tmp_path, two_cpus() | {f"{NODE}/node0/{name}": content})
    assert (found.numa, remarks(found)) == ((node,), [remark])
    assert found.threads == (FIRST, SECOND)


def without(*ends: str) -> dict[str, str | bytes]:
    return {path: text for path, text in two_cpus().items() if not path.endswith(ends)}


@pytest.mark.parametrize(("missing", "expected"), [
    ("core_id",             ["unknown cpu/cpu*/topology/core_id"]),
    ("physical_package_id", ["unknown cpu/cpu*/topology/physical_package_id"]),
    ("meminfo",             ["unknown node/node*/meminfo"]),
    ("distance",            []),  # there is nothing to tell about a single node
    ("cpulist",             []),
    ("level",               []),
    ("siblings_list",       []),
])  # fmt: skip
def test_missing_files(tmp_path: Path, missing: str, expected: list[str]) -> None:
    found = read(tmp_path, without(missing))
    assert remarks(found) == expected
    assert [thread.cpu for thread in found.threads] == [0, 1]
    assert [thread.numa for thread in found.threads] == [0, 0]


@pytest.mark.parametrize(("files", "online", "offline"), [
    ({"online": "0-1"},                                    "0-1", "2-3"),
    ({"online": "1-3"},                                    "1-3", "0"),
    ({"online": "0-1,", "cpu3/online": "0"},               "0-2", "3"),    # garbled: ask each CPU
    ({"online": "", "cpu3/online": "0"},                   "0-2", "3"),
    ({"cpu1/online": "1", "cpu2/online": "0"},             "0-1,3", "2"),
    ({"online": "0-1", "cpu1/online": "0"},                "0-1", "2-3"),  # the list decides
    ({"online": "0-1", "possible": "0-511"},               "0-1", "2-3"),
    ({},                                                   "0-3", ""),
])  # fmt: skip
def test_online(tmp_path: Path, files: dict[str, str], online: str, offline: str) -> None:
    tree = {f"{CPU}/cpu{cpu}/topology/core_id": "0" for cpu in range(4)}
    found = read(tmp_path, tree | {f"{CPU}/{path}": text for path, text in files.items()})
    assert format_ids(sum(1 << thread.cpu for thread in found.threads)) == online
    assert format_ids(found.offline) == offline


def test_masks_where_there_are_no_lists(tmp_path: Path) -> None:
    tree = without("_list", "cpulist")
    for cpu in (0, 1):
        tree[f"{CPU}/cpu{cpu}/topology/thread_siblings"] = f"0000000{1 << cpu}"
        tree[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_map"] = "00000003"
    found = read(tmp_path, tree)
    assert (found.threads, found.numa, found.remarks) == ((FIRST, SECOND), (ONLY,), ())


@pytest.mark.parametrize(("name", "content"), [("size", "8 MB"), ("id", "#1")])
def test_one_cpu_is_enough_to_read_a_cache(tmp_path: Path, name: str, content: str) -> None:
    bad = {f"{CPU}/cpu{cpu}/cache/index3/{name}": content for cpu in (0, 1)}
    first, second = bad
    (tmp_path / "first").mkdir()
    found = read(tmp_path / "first", two_cpus() | {first: content})
    assert (found.threads[1], remarks(found)) == (SECOND, [f"unreadable cpu/cpu0/cache/index3/{name}"])
    (tmp_path / "second").mkdir()
    assert read(tmp_path / "second", two_cpus() | {second: content}).threads == (FIRST, SECOND)


def test_caches_that_only_claim_to_be_one(tmp_path: Path) -> None:
    """CPU 1 is not among those that it says share its L3."""
    tree = two_cpus()
    for cpu in (0, 1):
        tree[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list"] = "0"
        tree[f"{CPU}/cpu{cpu}/cache/index3/id"] = f"{cpu}"
    assert [thread.l3 and thread.l3.id for thread in read(tmp_path, tree).threads] == [0, 1]


def test_the_cache_that_holds_data(tmp_path: Path) -> None:
    place = f"{CPU}/cpu0/cache"
    tree = {
        f"{place}/index1/level": "2",
        f"{place}/index1/type": "Instruction",
        f"{place}/index1/shared_cpu_list": "0-1",
        f"{place}/index2/level": "2",
        f"{place}/index2/type": "Data",
        f"{place}/index2/shared_cpu_map": "1",
        f"{place}/index2/size": "1M",
        f"{place}/index10/level": "2",
        f"{place}/index10/type": "Unified",
    }
    assert read(tmp_path, tree).threads[0].l2 == Cache(cpus=1, size=1 << 20)


@pytest.mark.parametrize(("lists", "links", "numa", "expected"), [
    ({0: "0", 1: "1"},     {},               [0, 1],    []),
    ({0: "0", 1: "1"},     {0: 0, 1: 1},     [0, 1],    []),
    ({0: "0-1", 1: "0-1"}, {0: 0, 1: 1},     [0, 1],    ["odd node/node*/cpulist"]),
    ({0: "0-1", 1: "0-1"}, {},               [0, 0],    ["odd node/node*/cpulist"]),
    ({0: "0-1", 1: ""},    {0: 0, 1: 1},     [0, 1],    ["differs node/node1/cpulist"]),
    ({0: "", 1: ""},       {0: 0, 1: 1},     [0, 1],    ["differs node/node0/cpulist", "differs node/node1/cpulist"]),
    ({0: "0", 1: ""},      {},               [0, None], ["unknown node/node*/cpulist"]),
    ({7: "0", 255: "1"},   {},               [7, 255],  []),
    ({0: "0", 1: "1-9"},   {},               [0, 1],    ["differs node/node1/cpulist"]),
])  # fmt: skip
def test_numa_of_a_cpu(
    tmp_path: Path, lists: dict[int, str], links: dict[int, int], numa: list[int], expected: list[str]
) -> None:
    tree = without("meminfo", "distance", "cpulist", "cpumap", "hugepages")
    for node, cpus in lists.items():
        tree[f"{NODE}/node{node}/cpulist"] = cpus
        tree[f"{NODE}/node{node}/meminfo"] = "MemTotal: 1 kB"
        tree[f"{NODE}/node{node}/distance"] = "10 " * len(lists)
    for cpu, node in links.items():
        tree[f"{NODE}/node{node}/cpu{cpu}"] = f"-> ../../cpu/cpu{cpu}"
    tree = {path: text for path, text in tree.items() if "hugepages" not in path}
    found = read(tmp_path, tree)
    assert ([thread.numa for thread in found.threads], remarks(found)) == (numa, expected)


@pytest.mark.parametrize(("online", "possible", "row", "expected"), [
    ("1,5",   "0-7", "10 20",       ((1, 10), (5, 20))),
    ("1,5-6", "0-7", "10 20 30",    ((1, 10), (5, 20), (6, 30))),  # a copy that left node 6 out
    ("1,5",   "0-2", "10 20 30",    ((0, 10), (1, 20), (2, 30))),
    ("1,5",   "0-7", "10 20 30",    ()),
])  # fmt: skip
def test_distances(tmp_path: Path, online: str, possible: str, row: str, expected: Any) -> None:
    tree: dict[str, str] = {f"{NODE}/online": online, f"{NODE}/possible": possible}
    for node in (1, 5):
        tree[f"{NODE}/node{node}/distance"] = row
    assert read(tmp_path, tree).numa[0].distances == expected


def test_package_ids_that_say_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, two_cpus() | {f"{CPU}/cpu1/topology/physical_package_id": "-1"})
    assert [thread.socket for thread in found.threads] == [0, -1]
    assert found.remarks == ()


def test_memory_that_does_not_add_up(tmp_path: Path) -> None:
    found = read(tmp_path, two_cpus() | {"proc/meminfo": "MemTotal:  2048 kB"})
    assert (found.memory_capacity, remarks(found)) == (2 << 20, ["differs proc/meminfo"])


def test_memory_of_gpus(tmp_path: Path) -> None:
    tree = {
        f"{NODE}/node0/cpulist": "0",
        f"{NODE}/node255/cpulist": "",
        "proc/driver/nvidia/gpus/0004:04:00.0/numa_status": "Node:      255\nStatus:    online",
        "proc/driver/nvidia/gpus/0004:05:00.0/information": "Model: \t\t Tesla V100",
    }
    assert [(node.id, node.note) for node in read(tmp_path, tree).numa] == [(0, ""), (255, "GPU")]


@pytest.mark.parametrize(("kib", "name"), [
    (4, "4Ki"), (64, "64Ki"), (1024, "1Mi"), (2048, "2Mi"), (16384, "16Mi"), (32768, "32Mi"),
    (524288, "512Mi"), (1 << 20, "1Gi"), (1 << 24, "16Gi"), (1 << 30, "1Ti"), (1 << 40, "1024Ti"), (0, "0Ki"),
])  # fmt: skip
def test_page_size(kib: int, name: str) -> None:
    assert page_size(kib) == name


def test_a_node_that_lists_cpus_that_are_not_online(tmp_path: Path) -> None:
    found = read(tmp_path, two_cpus() | {f"{NODE}/node0/cpulist": "0-7", f"{NODE}/node0/cpumap": "ff"})
    assert remarks(found) == ["differs node/node0/cpulist"]
    whole = combine([found], assume=True)
    assert [thread.cpu for thread in whole.threads] == [0, 1]
    assert summary(whole).rows[0][:2] == ("0", "0-1")
