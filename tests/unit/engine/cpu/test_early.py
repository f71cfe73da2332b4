"""Early choices of CPUs: without NUMA nodes, and before 1.22 by comparisons that contradict themselves."""

import pytest

from numawise.engine.cpu.allocate import choose
from numawise.engine.cpu.goorder import go_sorted
from numawise.engine.cpu.take import NotEnough
from numawise.engine.trace import Defect, Step
from numawise.machine.model import Cpu
from numawise.rules.behaviour import behaviour_of
from numawise.rules.model import CpuOptions, Rules
from numawise.rules.versions import Version
from numawise.sets import format_ids, parse_ids
from tests.unit.build import LAYOUTS, even, machine


def taken(name: str, available: str, count: int, version: Version) -> str:
    rules = Rules(behaviour=behaviour_of(version))
    found = choose(LAYOUTS[name], rules, parse_ids(available), count)
    return found.message if isinstance(found, NotEnough) else format_ids(found)


@pytest.mark.parametrize(("name", "available", "count", "in_120", "in_122", "in_123"), [
    pytest.param("T1", "0-7",   3, "0-1,4",             "0-1,4",             "0-1,4",             id="a core, then a thread"),
    pytest.param("T1", "1-7",   1, "4",                 "4",                 "4",                 id="the broken core first"),
    pytest.param("T1", "0-3,5", 1, "0",                 "0",                 "0",                 id="every core is broken but one"),
    pytest.param("T5", "0-15",  6, "0-2,8-10",          "0-2,8-10",          "0-2,8-10",          id="no NUMA level, the same CPUs"),
    pytest.param("T5", "1-15",  4, "1-2,9-10",          "1-2,9-10",          "2-3,10-11",         id="cores by id, not a whole node"),
    pytest.param("T5", "0-15",  8, "0-3,8-11",          "0-3,8-11",          "0-3,8-11",          id="a whole socket"),
    pytest.param("T1", "0-7",   9, "not enough cpus available to satisfy request",
                                   "not enough cpus available to satisfy request",
                                   "not enough cpus available to satisfy request",                id="no numbers yet"),
    pytest.param("T1", "0-7",   0, "",                  "",                  "",                  id="nothing asked"),
])  # fmt: skip
def test_choices(name: str, available: str, count: int, in_120: str, in_122: str, in_123: str) -> None:
    found = [taken(name, available, count, (1, minor)) for minor in (20, 22, 23)]
    assert found == [in_120, in_122, in_123]


def test_units_bring_only_what_is_free() -> None:
    """The average is one CPU per core here; from 1.22 on all CPUs of a core come along, CPU 0 among them."""
    cpus = (*even(1, 1, 2, 2)[:3], Cpu(9, 9, 0, 0), Cpu(10, 10, 0, 0))
    layout = machine(cpus).layout
    assert layout.threads_per_core == 1
    early, later = (
        choose(layout, Rules(behaviour=behaviour_of((1, minor))), layout.all & ~1, 2) for minor in (21, 22)
    )
    assert [format_ids(early), format_ids(later)] == ["1-2", "0,2"]  # type: ignore[arg-type]


def test_chance_is_told() -> None:
    """Socket 1 has fewer whole cores than socket 0: which comes first hangs on a Go map."""
    steps: list[Step] = []
    rules = Rules(behaviour=behaviour_of((1, 20)))
    found = choose(LAYOUTS["T3"], rules, parse_ids("0-5,8-13"), 4, steps.append)
    assert [step.name for step in steps if isinstance(step, Defect)] == ["socket-order-by-chance"]
    assert found == parse_ids("4-5,12-13")
    steps.clear()
    choose(LAYOUTS["T3"], rules, parse_ids("2-15"), 4, steps.append)
    assert not [step for step in steps if isinstance(step, Defect)]


def test_half_a_core_in_an_uncore_group() -> None:
    """Up to 1.33 only whole cores were looked for, so that an odd request found no room."""
    found = [
        choose(
            LAYOUTS["T4"],
            Rules(cpu_options=CpuOptions(by_uncore=True), behaviour=behaviour_of((1, minor))),
            parse_ids("0-3,5-15"),
            3,
        )
        for minor in (33, 34)
    ]
    assert list(map(format_ids, found)) == ["0,8,12", "5,12-13"]  # type: ignore[arg-type]


def test_a_sound_comparison_sorts() -> None:
    for size in (0, 1, 12, 13, 49, 50, 200):
        items = [(number * 7919) % 211 for number in range(size)]
        assert go_sorted(items, lambda one, other: one < other) == sorted(items)
        assert go_sorted(sorted(items), lambda one, other: one > other) == sorted(items, reverse=True)
