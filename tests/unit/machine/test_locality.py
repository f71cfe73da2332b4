"""Which memory is local to which CPUs."""

import pytest

from numawise.machine.hardware import Hardware, Host, MemoryNode, Thread
from numawise.machine.locality import cpus_of, memory_near, numa_of, open_cpus
from numawise.sets import bits_of, format_ids, ids_of, parse_ids


def machine(nodes: str, distances: str = "", isolated: int = 0) -> Hardware:
    """``0-3 4-7 - 8-9!``: the CPUs of each NUMA node, ``-`` for none, ``!`` for no memory; rows of distances."""
    rows = [tuple(map(int, row.split())) for row in distances.split(";")] if distances else []
    found = []
    for at, text in enumerate(nodes.split()):
        cpus = parse_ids(text.strip("!-")) if text.strip("!-") else 0
        far = tuple(enumerate(rows[at])) if rows else ()
        found.append(MemoryNode(at, cpus, memory=0 if text.endswith("!") else 1 << 30, distances=far))
    every = bits_of(cpu for node in found for cpu in ids_of(node.cpus))
    threads = tuple(Thread(cpu) for cpu in ids_of(every))
    return Hardware(threads=threads, numa=tuple(found), host=Host(isolated=isolated))


@pytest.mark.parametrize(("nodes", "distances", "asked", "near"), [
    pytest.param("0-3 4-7",         "10 21; 21 10",                                   "0", "0",   id="two sockets"),
    pytest.param("0-3 4-7",         "",                                               "1", "1",   id="no distances"),
    pytest.param("0-3 4-7!",        "10 21; 21 10",                                   "1", "0",   id="no memory: the nearest"),
    pytest.param("0 1 2! 3",        "10 20 12 20; 20 10 20 12; 12 20 10 20; 20 12 20 10", "2", "0", id="the nearest of several"),
    pytest.param("0 1 2!",          "10 20 30; 20 10 30; 30 30 10",                   "2", "0-1", id="equally near"),
    pytest.param("0 1!",            "",                                               "1", "0",   id="no memory and no distances"),
    pytest.param("0-3 4-7 -",       "10 21 24; 21 10 24; 24 24 10",                   "0", "0",   id="CXL is far"),
    pytest.param("0-3 4-7 -",       "10 21 14; 21 10 24; 14 24 10",                   "0", "0,2", id="CXL that the firmware calls near"),
    pytest.param("0 1 2 3 - - - -",
                 "10 12 21 21 13 14 23 23; 12 10 21 21 14 13 23 23; 21 21 10 12 23 23 13 14; 21 21 12 10 23 23 14 13;"
                 "13 14 23 23 10 14 23 23; 14 13 23 23 14 10 23 23; 23 23 13 14 23 23 10 14; 23 23 14 13 23 23 14 10",
                 "1", "1,5", id="memory on the package"),
    pytest.param("0-71 72-143 - -", "10 40 80 120; 40 10 120 80; 80 120 10 160; 120 80 160 10", "0", "0", id="a GPU's memory"),
    pytest.param("0-3 4-7",         "10 21; 21 10",                                   "0-1", "0-1", id="both"),
    pytest.param("0-3! 4-7!",       "10 21; 21 10",                                   "1", "1",   id="no memory told at all"),
])  # fmt: skip
def test_memory_near(nodes: str, distances: str, asked: str, near: str) -> None:
    assert format_ids(memory_near(machine(nodes, distances), parse_ids(asked))) == near


def test_cpus_and_nodes() -> None:
    hardware = machine("0-3 4-7 -", isolated=0b11)
    assert format_ids(numa_of(hardware, parse_ids("3-4"))) == "0-1"
    assert numa_of(hardware, 1 << 20) == 0
    assert format_ids(cpus_of(hardware, 0b110)) == "4-7"
    assert format_ids(open_cpus(hardware)) == "2-7"
    assert format_ids(open_cpus(machine("0-1", isolated=0b11))) == "0-1"
