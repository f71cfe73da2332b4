"""Packed choice of CPUs: best fit, whole units first, and the defect on uneven machines."""

import pytest

from numawise.engine.cpu.take import NotEnough, Style, take
from numawise.engine.trace import CpuPassBegan, CpusTaken, Step
from numawise.machine.model import Cpu
from numawise.sets import format_ids, parse_ids
from tests.unit.build import LAYOUTS, even, machine

SPREAD = Style(across_cores=True)
UNCORE = Style(by_uncore=True)


def taken(name: str, available: str, count: int, style: Style = Style()) -> str:  # noqa: B008 - frozen
    found = take(LAYOUTS[name], parse_ids(available), count, style)
    return found.message if isinstance(found, NotEnough) else format_ids(found)


@pytest.mark.parametrize(("name", "available", "count", "expected"), [
    pytest.param("T1", "0-7",   3, "0-1,4",             id="a core, then a thread of the next"),
    pytest.param("T1", "1-7",   1, "4",                 id="the lone thread of a broken core goes first"),
    pytest.param("T1", "1-7",   2, "1,5",               id="a whole core beats two loose threads"),
    pytest.param("T1", "1-7",   3, "1,4-5",             id="whole core, then the loose thread"),
    pytest.param("T1", "4-7",   2, "4-5",               id="no whole core left"),
    pytest.param("T2", "0-11",  8, "0-2,4,6-8,10",      id="a whole node, then a core of the other"),
    pytest.param("T2", "1-11",  2, "2,8",               id="the node with fewer free CPUs first"),
    pytest.param("T2", "1-11",  6, "1,3,5,7,9,11",      id="the whole free node"),
    pytest.param("T3", "1-15",  9, "4-8,12-15",         id="a node, then the loose sibling of CPU 0"),
    pytest.param("T3", "1-15", 10, "1,4-7,9,12-15",     id="a node, then a whole core"),
    pytest.param("T5", "0-15",  6, "0-2,8-10",          id="no socket fits; a node, then a core beside it"),
    pytest.param("T5", "1-15",  4, "2-3,10-11",         id="a whole node of the socket with fewer free"),
    pytest.param("T5", "1-15",  8, "4-7,12-15",         id="a whole socket"),
    pytest.param("T5", "1-15",  5, "2-3,8,10-11",       id="a node, then the loose CPU beside it"),
    pytest.param("T6", "1-15",  6, "1-3,9-11",          id="a socket, then a core in the same node"),
    # reserving works with the same choice
    pytest.param("T1", "0-7",   1, "0",                 id="one CPU of an idle machine"),
    pytest.param("T1", "0-7",   2, "0,4",               id="a whole core of an idle machine"),
    # ends of the range
    pytest.param("T1", "0-7",   0, "",                  id="nothing asked"),
    pytest.param("T1", "0-7",   8, "0-7",               id="everything"),
    pytest.param("T1", "3",     1, "3",                 id="all there is"),
])  # fmt: skip
def test_packed(name: str, available: str, count: int, expected: str) -> None:
    assert taken(name, available, count) == expected


@pytest.mark.parametrize(("name", "available", "count", "expected"), [
    ("T1", "1-7",  4, "1-4"),        # ascending, over cores whose siblings are far apart
    ("T1", "0-7",  2, "0-1"),
    ("T3", "1-15", 4, "1-3,8"),      # the socket with fewer free first
    ("T3", "1-15", 9, "1,4-7,12-15"),  # a whole node is taken whole all the same
])  # fmt: skip
def test_spread(name: str, available: str, count: int, expected: str) -> None:
    assert taken(name, available, count, SPREAD) == expected


def test_spread_packs_where_siblings_are_neighbours() -> None:
    layout = machine(even(1, 1, 4, 2, near=True)).layout
    assert take(layout, parse_ids("1-7"), 2, SPREAD) == parse_ids("1-2")
    assert take(layout, parse_ids("0-7"), 2, SPREAD) == parse_ids("0-1")


@pytest.mark.parametrize(("available", "count", "expected"), [
    ("1-7,9-15",      2, "1,9"),
    ("1-7,9-15",      4, "1-2,9-10"),
    ("1-7,9-15",      5, "1-3,9-10"),           # drops 11
    ("1-7,9-15",      7, "4-7,12-14"),          # the first cache has only 6; the other fits, and drops 15
    ("1-7,9-15",      8, "4-7,12-15"),
    ("1-7,9-15",     10, "1,4-7,9,12-15"),
    ("1-7,9-15",     12, "1-2,4-7,9-10,12-15"),
    ("0-1,4-5,8-9,12-13", 6, "0-1,4,8-9,12"),   # no cache fits: cores as usual
])  # fmt: skip
def test_by_cache(available: str, count: int, expected: str) -> None:
    assert taken("T4", available, count, UNCORE) == expected


def test_without_the_option_caches_do_not_count() -> None:
    assert taken("T4", "1-7,9-15", 8) == "1-4,9-12"


@pytest.mark.parametrize(("available", "count", "style", "message"), [
    ("0-3", 5, Style(),                      "not enough cpus available to satisfy request: requested=5, available=4"),
    ("",    1, Style(),                      "not enough cpus available to satisfy request: requested=1, available=0"),
    ("6-9", 4, Style(),                      "not enough cpus available to satisfy request: requested=4, available=4"),  # 8-9 are not there
    ("0-3", 5, Style(says_numbers=False),    "not enough cpus available to satisfy request"),
])  # fmt: skip
def test_too_few(available: str, count: int, style: Style, message: str) -> None:
    assert taken("T1", available, count, style) == message


# Cores {0,1} {2,3} {4} {5} {6} {7}: 8 CPUs on 6 cores, so one thread a core on average.
HYBRID = machine(
    [
        Cpu(0, 0, 0, 0),
        Cpu(1, 0, 0, 0),
        Cpu(2, 1, 0, 0),
        Cpu(3, 1, 0, 0),
        *(Cpu(i, i, 0, 0) for i in range(4, 8)),
    ]
).layout


def claims_among(steps: list[Step]) -> list[CpusTaken]:
    return [step for step in steps if isinstance(step, CpusTaken)]


@pytest.mark.parametrize(("available", "expected", "not_free"), [
    ("1-7", "0-1", "0"),  # core 0 has one free CPU, counts as whole, and brings CPU 0 along
    ("0-7", "4-5", ""),   # two-thread cores have 2 free, not 1, and are not whole
])  # fmt: skip
def test_the_average_misleads_on_hybrid_machines(available: str, expected: str, not_free: str) -> None:
    steps: list[Step] = []
    found = take(HYBRID, parse_ids(available), 2, note=steps.append)
    assert isinstance(found, int)
    assert format_ids(found) == expected
    along = 0
    for step in claims_among(steps):
        along |= step.not_free
    assert format_ids(along) == not_free


@pytest.mark.parametrize(("name", "available", "count", "steps"), [
    ("T3", "1-15", 11, ["numa 1 4-7,12-15", "core 1 1,9", "cpu 0 8"]),
    ("T5", "0-15",  6, ["numa 0 0-1,8-9", "core 2 2,10"]),
    ("T5", "1-15",  9, ["socket 1 4-7,12-15", "cpu 0 8"]),
    ("T1", "4-7",   2, ["cpu 0 4", "cpu 1 5"]),
])  # fmt: skip
def test_each_pass_says_what_it_took(name: str, available: str, count: int, steps: list[str]) -> None:
    told: list[Step] = []
    take(LAYOUTS[name], parse_ids(available), count, note=told.append)
    assert [f"{one.unit} {one.name} {format_ids(one.cpus)}" for one in claims_among(told)] == steps


def test_each_pass_says_what_it_is_about_to_look_for() -> None:
    told: list[Step] = []
    take(LAYOUTS["T5"], parse_ids("1-15"), 9, note=told.append)
    began = [one for one in told if isinstance(one, CpuPassBegan)]
    assert [(one.unit, one.wanted, format_ids(one.free)) for one in began] == [
        ("socket", 9, "1-15"),
        ("numa", 1, "1-3,8-11"),
        ("core", 1, "1-3,8-11"),
        ("cpu", 1, "1-3,8-11"),
    ]


def test_the_passes_over_caches_say_so_too() -> None:
    told: list[Step] = []
    take(LAYOUTS["T4"], parse_ids("1-7,9-15"), 10, UNCORE, told.append)
    assert [(one.unit, format_ids(one.cpus)) for one in claims_among(told)] == [
        ("uncore", "4-7,12-15"),
        ("uncore part", "1,9"),
    ]


def test_spread_counts_a_socket_of_two_numa_nodes_twice() -> None:
    """Socket 0 reaches into both NUMA nodes, so the walk comes by its CPUs twice."""
    cpus = [Cpu(cpu, cpu, socket=int(cpu > 3), numa=int(cpu > 1)) for cpu in range(8)]
    layout = machine(cpus).layout
    steps: list[Step] = []
    assert take(layout, parse_ids("0,2,5-7"), 4, SPREAD, steps.append) == parse_ids("0,2")
    assert not any(step.not_free for step in steps if isinstance(step, CpusTaken))
