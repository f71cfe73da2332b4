"""Hints without a machine: pasted, or out of a log."""

import pytest

from numawise.apps.why.nodes import explain_pasted
from numawise.errors import InputError
from numawise.rules.versions import REFERENCE

SINGLE, RESTRICTED, BEST = "single-numa-node", "restricted", "best-effort"


@pytest.mark.parametrize(("policy", "hints", "answer"), [
    pytest.param(SINGLE,     ["cpu=1! 0-1", "memory=0!"],          "Rejected: CPU hints only on NUMA 1, memory hints only on NUMA 0: no NUMA node serves both", id="the incident"),
    pytest.param(SINGLE,     ["cpu=0! 1! 0-1", "memory=0!"],       "Admitted: on NUMA 0, which all resources prefer", id="together"),
    pytest.param(SINGLE,     ["cpu=any", "memory=1! 0-1"],         "Admitted: on NUMA 1, which memory prefers", id="no preference"),
    pytest.param(SINGLE,     ["cpu=0-1!"],                         "Rejected: cpu: no hint for one NUMA node is preferred, only NUMA 0-1; single-numa-node needs one NUMA node with all of them", id="too wide"),
    pytest.param(SINGLE,     ["cpu=none", "memory=0!"],            "Rejected: cpu: no NUMA nodes can serve it, the list of hints is empty", id="impossible"),
    pytest.param(SINGLE,     ["a/x=0! 1!", "b/y=1! 2!", "c/z=0! 2!"], "Rejected: a/x hints only on NUMA 0 or 1, b/y hints only on NUMA 1 or 2, c/z hints only on NUMA 0 or 2: no NUMA node serves all", id="three that agree by twos"),
    pytest.param(RESTRICTED, ["cpu=0! 0-1", "memory=0-1!"],        "Rejected: CPU needs one NUMA node and memory needs two NUMA nodes; restricted wants the same NUMA nodes preferred by all", id="widths"),
    pytest.param(RESTRICTED, ["cpu=0 0-1", "memory=0!"],           "Rejected: cpu: none of its hints is preferred; restricted takes no more NUMA nodes than an idle machine would need", id="not preferred"),
    pytest.param(RESTRICTED, ["cpu=0-1!", "memory=2-3!"],          "Rejected: CPU hints only on NUMA 0-1, memory hints only on NUMA 2-3: no set of NUMA nodes serves both", id="sets apart"),
    pytest.param(RESTRICTED, ["cpu=0-1!", "memory=0-1! 0-3"],      "Admitted: on NUMA 0-1, which all resources prefer", id="two nodes for both"),
    pytest.param(BEST,       ["cpu=1! 0-1", "memory=0!"],          "Admitted on NUMA 0, but not as preferred: CPU hints only on NUMA 1, memory hints only on NUMA 0: no NUMA node serves both", id="best effort"),
    pytest.param("none",     ["cpu=1!", "memory=0!"],              "Admitted: policy none does not look at hints", id="no policy"),
])  # fmt: skip
def test_answers(policy: str, hints: list[str], answer: str) -> None:
    assert explain_pasted(policy, hints).answer == answer


def test_older_releases_ask_for_less() -> None:
    hints = ["cpu=0-1!", "x/gpu=0! 1! 0-1"]
    assert (
        explain_pasted(RESTRICTED, hints, version=(1, 23)).answer
        == "Admitted: on NUMA 0, which all resources prefer"
    )
    assert not explain_pasted(RESTRICTED, hints, version=REFERENCE).admitted


def test_nodes_are_those_named_or_as_many_as_told() -> None:
    def nodes(count: int | None) -> list[int]:
        found = explain_pasted(SINGLE, ["cpu=0! 2"], count)
        assert found.round is not None
        return [place.numa for place in found.round.hints[0].places]

    assert nodes(None) == [0, 1, 2]
    assert nodes(5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("hints", "count", "words"), [
    (["1! 0-1"],         None, "--hints: '1! 0-1' names no resource; write it like cpu='1! 0-1'"),
    (["cpu=0!", "cpu=1!"], None, "--hints: cpu is given twice; give each resource once"),
    (["cpu=x"],          None, "--hints: cpu: 'x' is not a hint"),
    (["cpu=3!"],         2,    "--numa: there are hints for NUMA 3; give at least 4"),
])  # fmt: skip
def test_bad(hints: list[str], count: int | None, words: str) -> None:
    with pytest.raises(InputError) as raised:
        explain_pasted(SINGLE, hints, count)
    assert str(raised.value).startswith(words)
