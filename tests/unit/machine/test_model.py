"""How CPUs hang together: cores, sockets, L3 groups and the averages the kubelet believes in."""

import pytest

from numawise.machine.model import Cpu, CpuLayout, Machine, Numa
from numawise.sets import format_ids, parse_ids
from tests.unit.build import LAYOUTS, T1, even, machine


def sets(units: dict[int, int]) -> dict[int, str]:
    return {name: format_ids(cpus) for name, cpus in units.items()}


@pytest.mark.parametrize(("name", "numas", "sockets", "numa_first", "threads"), [
    ("T1", {0: "0-7"},                                                 {0: "0-7"},                           True,  2),
    ("T2", {0: "0,2,4,6,8,10", 1: "1,3,5,7,9,11"},                     {0: "0,2,4,6,8,10", 1: "1,3,5,7,9,11"}, True, 2),
    ("T3", {0: "0-3,8-11", 1: "4-7,12-15"},                            {0: "0-3,8-11", 1: "4-7,12-15"},      True,  2),
    ("T5", {0: "0-1,8-9", 1: "2-3,10-11", 2: "4-5,12-13", 3: "6-7,14-15"}, {0: "0-3,8-11", 1: "4-7,12-15"},  False, 2),
    ("T6", {0: "0-3,8-11", 1: "4-7,12-15"}, {0: "0-1,8-9", 1: "2-3,10-11", 2: "4-5,12-13", 3: "6-7,14-15"},  True,  2),
])  # fmt: skip
def test_even_machines(
    *, name: str, numas: dict[int, str], sockets: dict[int, str], numa_first: bool, threads: int
) -> None:
    layout: CpuLayout = LAYOUTS[name]
    assert sets(dict(layout.numas)) == numas
    assert sets(dict(layout.sockets)) == sockets
    assert layout.numa_first is numa_first
    assert layout.threads_per_core == threads


def test_a_core_is_named_by_its_lowest_cpu() -> None:
    assert sets(dict(LAYOUTS["T1"].cores)) == {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7"}


def test_core_ids_repeat_across_sockets_and_numa_nodes() -> None:
    cpus = [Cpu(0, 0, 0, 0), Cpu(1, 0, 0, 0), Cpu(2, 0, 1, 0), Cpu(3, 0, 1, 1)]
    assert sets(dict(machine(cpus).layout.cores)) == {0: "0-1", 2: "2", 3: "3"}


def test_without_a_cache_the_socket_is_the_l3_group() -> None:
    assert sets(dict(LAYOUTS["T3"].uncores)) == {0: "0-3,8-11", 1: "4-7,12-15"}
    assert sets(dict(LAYOUTS["T4"].uncores)) == {0: "0-3,8-11", 1: "4-7,12-15"}
    assert LAYOUTS["T4"].cpus_per_uncore == 8
    assert LAYOUTS["T4"].uncores_of_numa == {0: (0, 1)}


def test_who_lies_where() -> None:
    layout = LAYOUTS["T5"]
    assert layout.sockets_of_numa == {0: (0,), 1: (0,), 2: (1,), 3: (1,)}
    assert layout.numas_of_socket == {0: (0, 1), 1: (2, 3)}
    assert [core for core, _ in layout.cores_of_socket[1]] == [4, 5, 6, 7]
    assert [core for core, _ in layout.cores_of_numa[1]] == [2, 3]


def test_averages_are_rounded_down() -> None:
    """Cores {0,1} {2,3} {4} {5} {6} {7}: 8 CPUs on 6 cores are one thread a core."""
    hybrid = [
        Cpu(0, 0, 0, 0),
        Cpu(1, 0, 0, 0),
        Cpu(2, 1, 0, 0),
        Cpu(3, 1, 0, 0),
        *(Cpu(i, i, 0, 0) for i in range(4, 8)),
    ]
    assert machine(hybrid).layout.threads_per_core == 1
    offline = even(2, 2, 8, 2)[:-3]  # 13 CPUs on 8 cores and 2 sockets
    layout = machine(offline).layout
    assert (layout.threads_per_core, layout.cpus_per_socket) == (1, 6)


def test_cores_touching() -> None:
    layout = LAYOUTS["T1"]
    assert format_ids(layout.cores_touching(parse_ids("0,6"))) == "0,2,4,6"
    assert layout.cores_touching(0) == 0


def test_memory_only_nodes_count_for_the_machine_and_not_for_the_cpus() -> None:
    with_memory_only = Machine(T1, (Numa(0, 4), Numa(2, 8)))
    assert with_memory_only.numa_bits == 0b101
    assert list(with_memory_only.layout.numas) == [0]
    assert with_memory_only.capacity == 12
    assert Machine(T1, (Numa(0, 4),), memory_capacity=99).capacity == 99
