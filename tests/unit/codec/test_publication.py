"""Attributes that are broken, of another version or hostile: one sentence each, and never an answer."""

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from numawise.codec.publication import (
    NAMES_ATTRIBUTE,
    NODE_ATTRIBUTE,
    STATE_ATTRIBUTE,
    attributes_of,
    publication_from,
)
from numawise.codec.published.envelope import LARGEST_JSON, LARGEST_TEXT, hash_of, sealed, unsealed
from numawise.codec.published.node_part import runs
from numawise.engine.admit import Admitted
from numawise.errors import InputError
from numawise.node.publication import publication_of, published_node
from numawise.values import replace
from tests.unit.build import pod
from tests.unit.published import GPU, busy_nodes

Attributes = dict[str, str]


@pytest.fixture
def good() -> Attributes:
    return attributes_of(publication_of(next(busy_nodes()), "n1"))


def with_json(attributes: Attributes, name: str, edit: Callable[[Any], None]) -> Attributes:
    """The attributes with another JSON in one of them, sealed again as if it were meant."""
    parts = {one: json.loads(unsealed(one, text)[0]) for one, text in attributes.items()}
    edit(parts[name])
    machine = json.dumps(parts[NODE_ATTRIBUTE]).encode()
    if name == NODE_ATTRIBUTE:
        parts[STATE_ATTRIBUTE]["machine"] = hash_of(machine)
    else:
        machine = unsealed(NODE_ATTRIBUTE, attributes[NODE_ATTRIBUTE])[0]
    return {
        NODE_ATTRIBUTE: sealed(machine),
        STATE_ATTRIBUTE: sealed(json.dumps(parts[STATE_ATTRIBUTE]).encode()),
    }


def refused(attributes: Attributes) -> str:
    with pytest.raises(InputError) as caught:
        publication_from(attributes)
    assert "\n" not in str(caught.value)
    assert caught.value.advice
    return str(caught.value)


def test_an_object_without_them_is_not_ours() -> None:
    assert publication_from({"topologyManagerPolicy": "restricted"}) is None


def test_names_are_told_where_they_are_given(good: Attributes) -> None:
    node = next(busy_nodes())
    uid, *others = [uid for uid, pod in node.state.active.items() if pod is not None]
    plain = publication_of(node, "n1")
    assert set(attributes_of(plain)) == {NODE_ATTRIBUTE, STATE_ATTRIBUTE}
    told = attributes_of(replace(plain, names={uid: ("lab", "train-0"), "gone": ("lab", "x")}))
    assert told.pop(NAMES_ATTRIBUTE)
    assert told == good
    named = publication_from(told | {NAMES_ATTRIBUTE: sealed(json.dumps({uid: ["lab", "train-0"]}).encode())})
    unnamed = publication_from(good)
    assert named is not None
    assert unnamed is not None
    pods = named.state.active
    assert [(pod.namespace, pod.name) for pod in [pods[uid]] if pod] == [("lab", "train-0")]
    assert [pods[one] for one in others] == [unnamed.state.active[one] for one in others]
    asked = pod("next", "a cpu=1 memory=1Gi")
    states = []
    for one in (named, unnamed):
        decision = published_node(one).ask(asked)
        assert isinstance(decision, Admitted)
        states.append(replace(decision.state, active={}))
    assert states[0] == states[1]


@pytest.mark.parametrize("names", [
    pytest.param([],                         id="a list"),
    pytest.param({"u": "name"},              id="no namespace"),
    pytest.param({"u": ["a", "b", "c"]},     id="three"),
    pytest.param({"u": ["a", "b" * 300]},    id="a long name"),
    pytest.param({"u": ["", "b"]},           id="an empty one"),
])  # fmt: skip
def test_names_of_another_form_are_refused(good: Attributes, names: object) -> None:
    text = sealed(json.dumps(names).encode())
    assert "is not names of pods" in refused(good | {NAMES_ATTRIBUTE: text})
    assert "damaged" in refused(good | {NAMES_ATTRIBUTE: text.replace(text.split(":")[1], "0" * 16)})


def test_one_alone_is_broken(good: Attributes) -> None:
    for name in good:
        assert "is missing beside" in refused({one: text for one, text in good.items() if one != name})


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(("text", "sentence"), [
    pytest.param("",                                                      "is not a version, a hash and data", id="empty"),
    pytest.param("v1:short:AAAA",                                         "is not a version, a hash and data", id="no hash"),
    pytest.param("v2:0123456789abcdef:AAAA",                              "is of form v2, and this numawise reads v1", id="newer"),
    pytest.param("v1:0123456789abcdef:AAAA",                              "cannot be unpacked",   id="not zlib"),
    pytest.param("v1:0123456789abcdef:AAA",                               "cannot be unpacked",   id="not base64"),
    pytest.param(f"v1:0123456789abcdef:{packed(b'{}')}",                  "is damaged: its hash", id="another hash"),
    pytest.param(f"v1:0123456789abcdef:{packed(bytes(LARGEST_JSON + 1))}", "bytes unpacked",      id="a bomb"),
    pytest.param("v1:0123456789abcdef:" + "A" * LARGEST_TEXT,             "characters, more than", id="too long"),
    pytest.param(sealed(b"[]"),                                           "is not",               id="not an object"),
    pytest.param(sealed(b"{" * 100_000),                                  "is not",               id="deep"),
])  # fmt: skip
def test_a_damaged_text(text: str, sentence: str, good: Attributes) -> None:
    for name in good:
        assert sentence in refused({**good, name: text})


def test_half_of_a_change_is_noticed(good: Attributes) -> None:
    """Two writers: the machine of one, the state of the other."""
    _, other, _ = (attributes_of(publication_of(node, "n1")) for node in busy_nodes())
    mixed = {NODE_ATTRIBUTE: other[NODE_ATTRIBUTE], STATE_ATTRIBUTE: good[STATE_ATTRIBUTE]}
    assert "belongs to machine" in refused(mixed)


@pytest.mark.parametrize(("name", "edit", "sentence"), [
    pytest.param(NODE_ATTRIBUTE,  lambda v: v.update(cores=1),                        "does not know: Object contains unknown field `cores`; use a numawise", id="a field of a later form"),
    pytest.param(NODE_ATTRIBUTE,  lambda v: v["cpus"].update(cpu=[[0, 1, 65536]]),    "more than 8192",           id="too many CPUs"),
    pytest.param(NODE_ATTRIBUTE,  lambda v: v["cpus"].update(cpu=[[0, 0, 16]]),       "different numbers",        id="one CPU twice"),
    pytest.param(NODE_ATTRIBUTE,  lambda v: v["cpus"].update(core=[[0, 1, 3]]),       "core, socket and NUMA",    id="columns of two lengths"),
    pytest.param(NODE_ATTRIBUTE,  lambda v: v["cpus"].update(numa=[[7, 0, 16]]),      "not there",                id="a NUMA node that is not there"),
    pytest.param(NODE_ATTRIBUTE,  lambda v: v.update(numa=[]),                        "NUMA nodes",               id="no NUMA nodes"),
    pytest.param(NODE_ATTRIBUTE,  lambda v: v["numa"][0].update(memory=1 << 70),      "64 bits",                  id="more memory than 64 bits"),
    pytest.param(NODE_ATTRIBUTE,  lambda v: v["numa"][0].update(memory=-1),           ">= 0",                     id="less than none"),
    pytest.param(NODE_ATTRIBUTE,  lambda v: v["devices"][GPU]["ids"].append("x"),     "NUMA node each",           id="an id too many"),
    pytest.param(NODE_ATTRIBUTE,  lambda v: v["devices"][GPU].update(unhealthy=[99]), "fewer devices",            id="a dead device that is not there"),
    pytest.param(NODE_ATTRIBUTE,  lambda v: v["devices"][GPU]["preference"]["points"].pop(), "every two GPUs",    id="links of fewer"),
    pytest.param(STATE_ATTRIBUTE, lambda v: v.update(shared="0-99"),                  "there is no CPU 16-99",    id="CPUs beyond the machine"),
    pytest.param(STATE_ATTRIBUTE, lambda v: v.update(shared="3-1"),                   "invalid range",            id="a range backwards"),
    pytest.param(STATE_ATTRIBUTE, lambda v: v["pods"].append(v["pods"][0]),           "listed twice",             id="a pod twice"),
    pytest.param(STATE_ATTRIBUTE, lambda v: v["pods"][0].update(shape=99),            "there is no shape 99",     id="a shape that is not there"),
    pytest.param(STATE_ATTRIBUTE, lambda v: v["memory"].update({"9": v["memory"]["0"]}), "no NUMA node 9",        id="memory of no NUMA node"),
    pytest.param(STATE_ATTRIBUTE, lambda v: v["pods"][0].update(memory={"a": [["0", "hugepages-8Mi", 1]]}), "NUMA 0 has no 'hugepages-8Mi'", id="memory of no such type"),
    pytest.param(STATE_ATTRIBUTE, lambda v: v["shapes"][0].update(qos="Best"),        "is not a QoS class",       id="no such class"),
    pytest.param(STATE_ATTRIBUTE, lambda v: v["shapes"][0]["containers"][0]["requests"].update(cpu="two"), "quantities must match", id="no amount"),
    pytest.param(STATE_ATTRIBUTE, lambda v: v["pods"][0]["devices"]["a"].update({GPU: [[0, [17]]]}), "no device at place 17", id="a device that is not there"),
    pytest.param(STATE_ATTRIBUTE, lambda v: v.update(pods="all"),                     "Expected `array`",         id="no list"),
])  # fmt: skip
def test_what_does_not_fit(name: str, edit: Callable[[Any], None], sentence: str, good: Attributes) -> None:
    assert sentence in refused(with_json(good, name, edit))


def test_the_edits_alone_do_not_refuse(good: Attributes) -> None:
    """Written by another program, in another order: the content counts."""
    again = publication_from(with_json(good, STATE_ATTRIBUTE, lambda _: None))
    assert again == publication_from(good)


@pytest.mark.parametrize(("numbers", "short"), [
    pytest.param([0, 1, 2, 3],          [(0, 1, 4)],                       id="a row"),
    pytest.param([0, 1, 0, 1],          [(0, 1, 2), (0, 1, 2)],            id="two rows"),
    pytest.param([0, 0, 0, 1, 1, 1],    [(0, 0, 3), (1, 0, 3)],            id="the same"),
    pytest.param([5],                   [(5, 0, 1)],                       id="one"),
    pytest.param([None, None, 3],       [(None, 0, 2), (3, 0, 1)],         id="not known"),
    pytest.param([9, 4, -1],            [(9, -5, 3)],                      id="downwards"),
    pytest.param([],                    [],                                id="none"),
])  # fmt: skip
def test_runs(numbers: list[int | None], short: list[tuple[int | None, int, int]]) -> None:
    assert runs(numbers) == short
