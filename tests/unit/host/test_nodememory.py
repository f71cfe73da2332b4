"""Memory of NUMA nodes: the kernel's own estimate for each, and what control groups count."""

from pathlib import Path

import pytest

from numawise.host.nodememory import PAGE, read_available, used_by_group

KIB = 1 << 10
NODE = "sys/devices/system/node/node{}/meminfo"


def meminfo(node: int, **amounts: int) -> str:
    names = {"active": "Active(file)", "inactive": "Inactive(file)"}
    return "".join(f"Node {node} {names.get(name, name)}: {size:8} kB\n" for name, size in amounts.items())


def zone(node: int, name: str, low: int, high: int, managed: int, protection: str) -> str:
    return (
        f"Node {node}, zone {name:>8}\n  per-node stats\n      nr_inactive_anon 5\n      low_stat 99\n"
        f"  pages free     100\n        boost    0\n        min      1\n        low      {low}\n"
        f"        high     {high}\n        spanned  {managed}\n        present  {managed}\n"
        f"        managed  {managed}\n        protection: ({protection})\n      nr_free_pages 100\n"
        f"  pagesets\n    cpu: 0\n              count: 1\n              high:  62\n"
    )


def host(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_the_kernels_estimate_node_by_node(tmp_path: Path) -> None:
    root = host(tmp_path, {
        NODE.format(0): meminfo(0, MemTotal=900_000, MemFree=100_000, active=40_000, inactive=60_000, KReclaimable=10_000),
        NODE.format(1): meminfo(1, MemTotal=900_000, MemFree=500_000, active=0, inactive=100, SReclaimable=7_000),
        "proc/zoneinfo": zone(0, "DMA", 10, 12, 3000, "0, 400, 500") + zone(0, "Normal", 500, 600, 200_000, "0, 0, 0")
        + zone(1, "Normal", 600, 700, 200_000, "0, 0, 0") + zone(1, "Movable", 32, 32, 0, "0, 0, 0"),
    })  # fmt: skip
    page = PAGE // KIB
    low, reserve = 510 * page, (12 + 500 + 600) * page
    first = 100_000 - reserve + 100_000 - min(50_000, low) + 10_000 - min(5_000, low)
    second = 500_000 - 700 * page + 100 - 50 + 7_000 - min(3_500, 632 * page)
    assert read_available((0, 1), root) == {0: first * KIB, 1: second * KIB}


def test_on_a_machine_with_one_node_it_is_the_kernels_own(tmp_path: Path) -> None:
    root = host(tmp_path, {
        NODE.format(0): meminfo(0, MemTotal=6_000, MemFree=4_000),
        "proc/meminfo": "MemTotal:       130000 kB\nMemFree:        120000 kB\nMemAvailable:   125000 kB\n",
    })  # fmt: skip
    assert read_available((0,), root) == {0: 125_000 * KIB}
    host(tmp_path, {NODE.format(1): meminfo(1, MemTotal=6_000, MemFree=4_000)})
    assert read_available((0,), root) == {0: 4_000 * KIB}


def test_without_zones_the_watermarks_follow_from_the_kernels_reserve(tmp_path: Path) -> None:
    root = host(tmp_path, {
        NODE.format(0): meminfo(0, MemTotal=750, MemFree=600),
        NODE.format(2): meminfo(2, MemTotal=250, MemFree=1),
        "proc/sys/vm/min_free_kbytes": "80\n",
    })  # fmt: skip
    assert read_available((0, 1, 2), root) == {0: (600 - 90) * KIB, 2: 0}


@pytest.mark.parametrize("text", ["", "Node 0 MemTotal: 5 kB\n", "Node 0 MemFree: many kB\n", "\0"])
def test_a_node_that_says_nothing_is_not_known(tmp_path: Path, text: str) -> None:
    assert read_available((0,), host(tmp_path, {NODE.format(0): text})) == {}


V1 = "total=9 N0=9 N1=0\nfile=2 N0=2 N1=0\nanon=5 N0=3 N1=2\nunevictable=0 N0=0 N1=0\n"
BELOW = "hierarchical_total=9 N0=9 N1=0\nhierarchical_anon=12 N0=5 N1=7\n"
V2 = "anon N0=4096 N1=8192\nfile N0=1 N1=1\nkernel_stack N0=1 N1=1\nshmem N0=100 N1=0\n"


@pytest.mark.parametrize(("text", "used"), [
    pytest.param(V2,         {0: 4196, 1: 8192},         id="version 2, bytes"),
    pytest.param(V1,         {0: 3 * PAGE, 1: 2 * PAGE}, id="version 1, pages"),
    pytest.param(V1 + BELOW, {0: 5 * PAGE, 1: 7 * PAGE}, id="version 1, with groups below"),
    pytest.param("x\n",      {},                         id="nothing that is known"),
])  # fmt: skip
def test_what_a_group_uses(tmp_path: Path, text: str, used: dict[int, int]) -> None:
    host(tmp_path, {"b/memory.numa_stat": text})
    assert used_by_group([f"{tmp_path}/a", f"{tmp_path}/b"]) == used


def test_a_group_that_counts_nothing(tmp_path: Path) -> None:
    assert used_by_group([str(tmp_path)]) is None
