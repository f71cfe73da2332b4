"""The CPU choice of early kubelets and Go's sort, as the kubelet's own functions and Go itself did it."""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise.engine.cpu.allocate import choose
from numawise.engine.cpu.distribute import take_distributed
from numawise.engine.cpu.goorder import go_sorted
from numawise.engine.cpu.take import NotEnough
from numawise.engine.trace import Defect, Step
from numawise.machine.model import Cpu, cpu_layout
from numawise.rules.behaviour import behaviour_of
from numawise.rules.model import Rules
from numawise.rules.versions import parse_version
from numawise.sets import format_ids, parse_ids
from tests.fidelity import trace_lines

HERE = Path(__file__).parent / "choices"


def recorded(name: str) -> list[Any]:
    return [json.loads(line) for line in trace_lines(HERE / name)]


@pytest.mark.parametrize("case", recorded("go-sort.jsonl.gz"), ids=lambda case: str(len(case["items"])))
def test_contradicting_comparisons_are_sorted_as_go_does(case: Any) -> None:
    size = len(case["items"])
    less = [f"{int(row, 16):0{size}b}" for row in case["less"]]
    assert go_sorted(case["items"], lambda one, other: less[one][other] == "1") == case["sorted"]


@pytest.mark.parametrize("release", ["v1.20.15", "v1.22.17"])
def test_cpus_are_chosen_as_the_kubelet_does(release: str) -> None:
    rules = Rules(behaviour=behaviour_of(parse_version(release)))
    cases = [case for case in recorded("cpus.jsonl.gz") if case["kubernetes"] == release]
    assert len(cases) == 150
    wrong = []
    for case in cases:
        layout = cpu_layout([Cpu(*numbers) for numbers in case["cpus"]])
        steps: list[Step] = []
        found = choose(layout, rules, parse_ids(case["available"]), case["count"], steps.append)
        taken = f"!{found.message}" if isinstance(found, NotEnough) else format_ids(found)
        chance = any(isinstance(step, Defect) for step in steps)
        if taken != case["taken"] and not chance:
            wrong.append(f"{case}: {taken}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("release", ["v1.36.4", "v1.37.1"])
def test_cpus_are_distributed_as_the_kubelet_does(release: str) -> None:
    """Up to 16 NUMA nodes, where the kubelet's comparison of all sets still ends."""
    capped = behaviour_of(parse_version(release)).distribution_minds_sockets
    cases = [case for case in recorded("distributed.jsonl.gz") if case["kubernetes"] == release]
    assert len(cases) > 100
    wrong = []
    for case in cases:
        layout = cpu_layout([Cpu(*numbers) for numbers in case["cpus"]])
        cpus = take_distributed(
            layout,
            parse_ids(case["available"]),
            case["count"],
            case["group"],
            by_socket=case["by_socket"],
            capped=capped,
        )
        if format_ids(cpus) != case["taken"]:
            wrong.append(f"{case}: {format_ids(cpus)}")
    assert not wrong, "\n".join(wrong)
