"""What kube-scheduler asks and is answered, on the wire."""

import json
from pathlib import Path

import pytest

from numawise.codec.extender import (
    ExtenderArgs,
    FilterAnswer,
    NodeVictims,
    filter_body,
    preempt_body,
    priority_body,
    read_args,
    read_preemption,
)
from numawise.errors import InputError

RECORDED = Path(__file__).parents[2] / "recorded/extender"


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.json").read_bytes()


def test_names_are_read() -> None:
    args = read_args(recorded("filter-names"))
    assert args.names == ("n00000", "n00001", "n00002")
    assert args.nodes is None
    assert args.pod["metadata"]["name"] == "b7-a-00000"


def test_whole_nodes_are_read_and_given_back_as_they_came() -> None:
    body = recorded("filter-whole-nodes")
    args = read_args(body)
    assert args.names == ("n00000", "n00001")
    answer = json.loads(filter_body(FilterAnswer(("n00001",), {"n00000": "no"}), args))
    assert answer == {
        "Nodes": {"metadata": {}, "items": [json.loads(body)["Nodes"]["items"][1]]},
        "NodeNames": None,
        "FailedNodes": {"n00000": "no"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_no_node_left_is_an_empty_list() -> None:
    args = ExtenderArgs({"spec": {}}, ("a",))
    answer = json.loads(filter_body(FilterAnswer((), never={"a": "too large"}), args))
    assert answer["NodeNames"] == []
    assert answer["Nodes"] is None
    assert answer["FailedAndUnresolvableNodes"] == {"a": "too large"}


def test_scores() -> None:
    assert json.loads(priority_body({"a": 10, "b": 0})) == [
        {"Host": "a", "Score": 10},
        {"Host": "b", "Score": 0},
    ]


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(
            {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}}}, id="uids"
        ),
        pytest.param(
            {
                "NodeNameToVictims": {"n": {"Pods": [{"metadata": {"uid": "u1"}}], "NumPDBViolations": 1}},
                "NodeNameToMetaVictims": None,
            },
            id="whole pods",
        ),
    ],
)
def test_victims(victims: dict[str, object]) -> None:
    args = read_preemption(json.dumps({"Pod": {"spec": {}}, **victims}).encode())
    assert args.victims == {"n": NodeVictims(("u1",), 1)}
    assert json.loads(preempt_body(args.victims)) == {
        "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}}
    }


# fmt: off
@pytest.mark.parametrize(("body", "words"), [
    pytest.param(b"",                                         "cannot be read",       id="nothing"),
    pytest.param(b"null",                                     "cannot be read",       id="null"),
    pytest.param(b"[]",                                       "cannot be read",       id="a list"),
    pytest.param(b"{",                                        "cannot be read",       id="cut"),
    pytest.param(b"\xff\xfe",                                 "cannot be read",       id="no text"),
    pytest.param(b'{"Pod": null}',                            "there is no Pod",      id="no pod"),
    pytest.param(b'{"Pod": 5}',                               "cannot be read",       id="a number for a pod"),
    pytest.param(b'{"Pod": {"a": 1}, "NodeNames": [5]}',      "cannot be read",       id="a number for a name"),
    pytest.param(b'{"Pod": {"a": 1}, "NodeNames": [""]}',     "has no name",          id="an empty name"),
    pytest.param(b'{"Pod": {"a": 1}, "Nodes": {"items": 5}}', "cannot be read",       id="no list of nodes"),
    pytest.param(b'{"Pod": {"a": 1}, "Nodes": {"items": [{"metadata": {}}]}}', "has no name", id="nameless node"),
    pytest.param(b'{"Pod": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,     "nested too deeply", id="deep"),
    pytest.param(json.dumps({"Pod": {"a": 1}, "NodeNames": ["a"] * 50_001}).encode(), "at most 50000", id="many"),
])
def test_what_cannot_be_read_is_a_sentence(body: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words) as problem:
        read_args(body)
    assert len(str(problem.value)) < 300


def test_empty_lists_are_no_nodes() -> None:
    for nodes in ({"NodeNames": None, "Nodes": None}, {"Nodes": {}}, {"Nodes": {"items": None}}):
        assert read_args(json.dumps({"Pod": {"a": 1}, **nodes}).encode()).names == ()
