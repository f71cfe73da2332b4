"""An explanation on the terminal: the answer first, no line too wide, marks beside colours."""

import re
from dataclasses import replace

import pytest

from numawise.explain.explain import explain
from numawise.render.why import why_text
from numawise.render.words import columns
from numawise.results.explanation import Explanation
from tests.unit.build import even, machine
from tests.unit.explain.asking import FOUR, SMALL, case, why

SINGLE, RESTRICTED = "single-numa-node", "restricted"
ANSI = re.compile(r"\x1b\[[0-9;]*m")
MANY = machine(even(16, 2, 64), 1 << 34, devices={"example.com/accelerator-of-a-long-name": "a@0 b@3 c@15"})
SAMPLES = {
    "incident": why(
        SMALL, SINGLE, "c cpu=4 memory=40Gi", running=["a cpu=6 memory=1Gi", "b cpu=2 memory=40Gi"]
    ),
    "four": why(FOUR, RESTRICTED, "c cpu=10 memory=1Gi x/gpu=1"),
    "many": explain(
        case(
            MANY,
            SINGLE,
            "c cpu=9 memory=1Gi example.com/accelerator-of-a-long-name=2",
            topologyManagerPolicyOptions={"max-allowable-numa-nodes": "16"},
        )
    ),
    "admitted": why(SMALL, SINGLE, "c cpu=4 memory=1Gi"),
    "best-effort": why(SMALL, "best-effort", "c cpu=9 memory=1Gi x/gpu=1"),
    "allocation": why(SMALL, "none", "c cpu=16 memory=1Gi"),
    "crash": why(SMALL, RESTRICTED, "c cpu=1 memory=1Gi hugepages-2Mi=2Mi"),
}


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("name", SAMPLES)
def test_no_line_is_too_wide(name: str, width: int) -> None:
    for color in (False, True):
        for line in why_text([SAMPLES[name]], width, color=color).splitlines():
            bare = ANSI.sub("", line).strip()
            assert columns(ANSI.sub("", line)) <= width or " " not in bare, line


@pytest.mark.parametrize("name", SAMPLES)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    plain = why_text([SAMPLES[name]], 90)
    assert ANSI.sub("", why_text([SAMPLES[name]], 90, color=True)) == plain
    assert "\x1b" not in plain


@pytest.mark.parametrize("name", SAMPLES)
def test_answer_comes_first(name: str) -> None:
    one = SAMPLES[name]
    told = why_text([one], 10_000).splitlines()
    assert told[:2] == [one.name, f"{one.answer}."]


def test_the_incident() -> None:
    assert (
        why_text([SAMPLES["incident"]], 100).split("\nWhat would help")[0]
        == """\
p
Rejected, not now (2 pods hold 8 CPUs and 41 GiB of memory): CPU hints only on NUMA 1, memory hints
only on NUMA 0: no NUMA node serves both (NUMA 0 lacks 3 of 4 CPUs and NUMA 1 lacks 16 GiB of 40 GiB
of memory).
The kubelet would say: TopologyAffinityError: Resources cannot be allocated with Topology locality

Hints of container c
  RESOURCE  ASKED   NUMA 0             NUMA 1           SEVERAL
  cpu       4 CPUs  no, 1 free         yes!, 6 free     0-1
  memory    40 GiB  yes!, 62 GiB free  no, 24 GiB free  -
  yes!: preferred, as few NUMA nodes as an idle machine would need

Merge
  cpu prefers NUMA 1: NUMA 1 left
  memory prefers NUMA 0: nothing left
  best: no NUMA nodes, not preferred: refused
  rule: single-numa-node admits a pod only when one NUMA node serves all resources that have a
  preference
"""
    )


def test_a_table_that_is_too_wide_is_turned_and_at_last_told_by_line() -> None:
    one = SAMPLES["four"]
    assert "  RESOURCE  ASKED    NUMA 0 " in why_text([one], 120)
    turned = why_text([one], 80)
    assert re.search(r"^  RESOURCE +x/gpu +cpu +memory$", turned, re.MULTILINE)
    assert re.search(r"^  NUMA 3 +yes!, 1 free +no, 8 free +yes!, 16 GiB free$", turned, re.MULTILINE)
    assert "  x/gpu (1): NUMA 0 yes!, 2 free;" in why_text([one], 40)


def test_equal_nodes_share_a_column_where_there_are_many() -> None:
    told = why_text([SAMPLES["many"]], 200)
    assert "NUMA 1-2,4-14" in told


def test_several_pods_are_counted_and_admitted_ones_are_short() -> None:
    told = why_text([SAMPLES["admitted"], SAMPLES["incident"]], 100)
    assert told.startswith(
        "p\nAdmitted: everything on NUMA 0: 4 CPUs (1-4), 1 GiB of memory.\n\np\nRejected, not now ("
    )
    assert told.endswith("\n1 of 2 pods admitted\n")


def test_prices_and_numbers() -> None:
    told = why_text([SAMPLES["incident"]], 100).split("What would help")[1]
    assert re.findall(r"^  (\d)\. ", told, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert "     (requires a restart of the kubelet; running pods stay admitted)\n" in told


def test_nothing_that_helps_is_said() -> None:
    one = replace(SAMPLES["incident"], suggestions=())
    assert "No single change was found that would help." in why_text([one], 80)
    assert "would help" not in why_text([replace(one, searched=False)], 80)


def test_ascii() -> None:
    one: Explanation = SAMPLES["many"]
    assert why_text([one], 100, ascii_only=True).isascii()


def test_names_cannot_smuggle_in_control_characters() -> None:
    one = replace(SAMPLES["incident"], name="a\x1b[31m", message="b\nc")
    assert "\x1b" not in why_text([one], 100)
