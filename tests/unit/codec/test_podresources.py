"""Answers of a PodResources socket, in the forms that people have them."""

import json
from typing import Any

import pytest

from numawise.codec.document import Document, read_documents
from numawise.codec.podresources import PodResources, pod_resources_data, pod_resources_of
from numawise.engine.state import Block
from numawise.errors import InputError
from numawise.inputs.podresources import located
from tests.unit.nodes import machine

LISTED: dict[str, Any] = {
    "podResources": [
        {
            "name": "train",
            "namespace": "ml",
            "containers": [
                {
                    "name": "c",
                    "cpuIds": ["3", "2"],
                    "devices": [
                        {"resourceName": "x/gpu", "deviceIds": ["g0"], "topology": {"nodes": [{"ID": "1"}]}}
                    ],
                }
            ],
        }
    ]
}
OFFERED: dict[str, Any] = {
    "devices": [
        {"resourceName": "x/gpu", "deviceIds": ["g0"], "topology": {"nodes": [{"ID": "0"}]}},
        {"resourceName": "x/gpu", "deviceIds": ["g0"], "topology": {"nodes": [{"ID": "1"}]}},
        {"resourceName": "x/gpu", "deviceIds": ["g1", "g2"]},
        {"resourceName": "x/nic", "deviceIds": ["n"], "topology": {"nodes": [{}]}},
    ],
    "cpuIds": ["0"],
}


def read(*values: object) -> PodResources:
    return pod_resources_of([Document(value) for value in values])


@pytest.mark.parametrize("values", [
    pytest.param((LISTED, OFFERED),                                     id="one after the other"),
    pytest.param(({"List": LISTED, "Allocatable": OFFERED},),           id="below names"),
    pytest.param(({"pod_resources": LISTED["podResources"]}, OFFERED),  id="as protobuf spells them"),
])  # fmt: skip
def test_forms(values: tuple[object, ...]) -> None:
    answers = read(*values)
    assert answers.allocatable == {
        ("x/gpu", "g0"): (0, 1),
        ("x/gpu", "g1"): None,
        ("x/gpu", "g2"): None,
        ("x/nic", "n"): (0,),
    }
    assert answers.pods is not None
    (pod,) = answers.pods
    assert (pod.namespace, pod.name, pod.containers["c"].cpus) == ("ml", "train", 0b1100)
    assert pod.containers["c"].devices == {"x/gpu": {"g0"}}


def test_json_values_in_a_row_are_read() -> None:
    text = json.dumps(LISTED) + "\n" + json.dumps(OFFERED)
    answers = pod_resources_of(read_documents(text, "answers.json"))
    assert answers.pods
    assert answers.allocatable


def test_what_is_written_is_read_again() -> None:
    answers = read(LISTED, OFFERED)
    assert read(pod_resources_data(answers)) == answers


def test_where_a_device_is() -> None:
    answers = read(LISTED, OFFERED)
    assert answers.numa("x/gpu", "g0") == (True, (0, 1))
    assert answers.numa("x/gpu", "g1") == (True, None)
    assert answers.numa("x/gpu", "empty") == (True, ()), "a topology without nodes is not listed"
    assert read(LISTED).numa("x/gpu", "g0") == (True, (1,))
    assert read(LISTED).numa("x/gpu", "g1")[0] is False


@pytest.mark.parametrize(("value", "message"), [
    pytest.param({"kind": "Pod"},                                                  "has no answer of a PodResources socket", id="something else"),
    pytest.param({"devices": [{"resourceName": "x", "deviceIds": [7]}]},           "must be text, not 7",                    id="an id that is a number"),
    pytest.param({"podResources": [{"name": "p", "containers": [{"name": "c", "cpuIds": ["x"]}]}]}, "must be a whole number", id="a CPU that is none"),
    pytest.param([],                                                               "must be an answer",                      id="a list"),
])  # fmt: skip
def test_bad_answers(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(value)


def test_no_device_of_a_machine_that_is_another() -> None:
    far = {"devices": [{"resourceName": "x/gpu", "deviceIds": ["g"], "topology": {"nodes": [{"ID": 7}]}}]}
    with pytest.raises(InputError, match="on NUMA 7"):
        located(machine(), read(far), None)


def test_memory_of_a_container() -> None:
    block = {"memoryType": "memory", "size": "1048576", "topology": {"nodes": [{"ID": "0"}, {"ID": 1}]}}
    listed = {
        "podResources": [{"name": "a", "namespace": "x", "containers": [{"name": "c", "memory": [block]}]}]
    }
    answers = pod_resources_of([Document(listed, "f")])
    assert answers.pods is not None
    assert answers.pods[0].containers["c"].memory == (Block(0b11, "memory", 1 << 20),)
    assert pod_resources_of([Document(pod_resources_data(answers), "f")]) == answers
