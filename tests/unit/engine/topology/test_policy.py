"""The policies: what each makes of the same hints, and what it admits."""

import pytest

from numawise.engine.failure import Crash
from numawise.engine.hint import Family, Hint, HintList
from numawise.engine.topology.policy import distances_of, judge
from numawise.machine.model import Cpu, Machine, Numa
from numawise.rules.behaviour import Behaviour
from numawise.rules.model import BEST_EFFORT, RESTRICTED, SINGLE, Rules
from numawise.sets import parse_ids
from tests.unit.build import even, hints_of, machine

TWO = machine(even(2, 2, 4))


def families(resources: list[str]) -> list[Family]:
    return [HintList(tuple(hints_of(text))) for text in resources]


def written(found: Hint) -> str:
    return ("*" if found.numa is None else str(found.numa)) + "!" * found.preferred


@pytest.mark.parametrize(("resources", "best", "restricted", "single", "admitted"), [
    #                                             best-effort  restricted   single-numa-node
    pytest.param(["0! 1! 0-1", "0! 1! 0-1"],      "0!",        True,        "0!", True,  id="fits one node"),
    pytest.param(["0! 1! 0-1", "1! 0-1"],         "1!",        True,        "1!", True,  id="fits node 1"),
    pytest.param(["0! 1! 0-1", "0-1!"],           "0-1",       False,       "*",  False, id="16 CPUs and a GPU"),
    pytest.param(["0-1!", "0-1!"],                "0-1!",      True,        "*",  False, id="both need both nodes"),
    pytest.param(["0-1", "0-1!"],                 "0-1",       False,       "*",  False, id="two GPUs that could be nearer"),
    pytest.param([""],                            "0-1",       False,       "*",  False, id="impossible"),
    pytest.param([],                              "0-1!",      True,        "*!", True,  id="no wish"),
    pytest.param(["0!", "1!"],                    "0-1",       False,       "*",  False, id="nothing shared"),
])  # fmt: skip
def test_policies(*, resources: list[str], best: str, restricted: bool, single: str, admitted: bool) -> None:
    found = families(resources)
    hint, verdict = judge(TWO, Rules(topology_policy=BEST_EFFORT), found)
    assert (written(hint), verdict) == (best, True)
    hint, verdict = judge(TWO, Rules(topology_policy=RESTRICTED), found)
    assert (written(hint), verdict) == (best, restricted)
    hint, verdict = judge(TWO, Rules(topology_policy=SINGLE), found)
    assert (written(hint), verdict) == (single, admitted)


def test_on_one_numa_node_single_numa_node_hands_out_no_affinity() -> None:
    one = machine(even(1, 1, 4))
    hint, admitted = judge(one, Rules(topology_policy=SINGLE), families(["0!"]))
    assert (written(hint), admitted) == ("*!", True)
    hint, admitted = judge(one, Rules(topology_policy=RESTRICTED), families(["0!"]))
    assert (written(hint), admitted) == ("0!", True)


def test_memory_only_nodes_belong_to_the_default() -> None:
    extended = Machine(TWO.cpus, (*TWO.numa, Numa(2, 1)))
    hint, _ = judge(extended, Rules(topology_policy=BEST_EFFORT), [])
    assert written(hint) == "0-2!"


def test_up_to_1_23_restricted_admitted_differing_masks() -> None:
    old = Rules(topology_policy=RESTRICTED, behaviour=Behaviour(preferred_needs_equal_masks=False))
    hint, admitted = judge(TWO, old, families(["0! 1! 0-1", "0-1!"]))
    assert (written(hint), admitted) == ("0!", True)


DISTANCES = ((10, 20, 40, 30), (20, 10, 30, 40), (40, 30, 10, 15), (30, 40, 15, 10))


@pytest.mark.parametrize(("closest", "expected"), [(False, "0-1!"), (True, "2-3!")])
def test_closest_numa_nodes(*, closest: bool, expected: str) -> None:
    four = machine(even(4, 4, 4), distances=DISTANCES)
    rules = Rules(topology_policy=RESTRICTED, prefer_closest=closest)
    pairs = "0-1! 0,2! 0,3! 1-2! 1,3! 2-3!"
    hint, _ = judge(four, rules, families([pairs, pairs]))
    assert written(hint) == expected


@pytest.mark.parametrize(
    ("nodes", "total"), [("0", 10), ("2-3", 10 + 15 + 15 + 10), ("0-1,3", 30 + 2 * (20 + 30 + 40))]
)
def test_distance_counts_all_ordered_pairs(nodes: str, total: int) -> None:
    four = machine(even(4, 4, 4), distances=DISTANCES)
    assert distances_of(four)(parse_ids(nodes)) == total


def test_gaps_in_the_ids_crash_the_kubelet_when_distances_count() -> None:
    gaps = Machine(
        (Cpu(0, 0, 0, 0), Cpu(1, 1, 1, 2)), (Numa(0, 1, distances=(10, 20)), Numa(2, 1, distances=(20, 10)))
    )
    closest = Rules(topology_policy=BEST_EFFORT, prefer_closest=True)
    with pytest.raises(Crash, match=r"index out of range \[2\] with length 2"):
        judge(gaps, closest, families(["0! 2! 0,2"]))
    hint, _ = judge(gaps, closest, families(["0! 0,2"]))
    assert written(hint) == "0!"  # different widths: no distance was looked at
    hint, _ = judge(gaps, Rules(topology_policy=BEST_EFFORT), families(["0! 2! 0,2"]))
    assert written(hint) == "0!"
