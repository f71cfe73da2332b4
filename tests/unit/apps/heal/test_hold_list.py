"""Holds in the list at the server, and out of it again."""

import json

import pytest

from numawise.apps.heal.hold_list import ListedHold, hold_list, hold_objects, listed_hold
from numawise.results.pending import HOLD_GATE
from tests.unit.apps.heal.pods import refused

OWNER = refused().owner
assert OWNER is not None
HOLD = ListedHold(OWNER, 1_000_000.0, 1_000_060.0, 2, 7, ("n1",))


def test_what_is_written_is_read_again() -> None:
    read = listed_hold(OWNER.of.key, HOLD.text)
    assert read is not None
    assert (read.owner, read.since, read.until, read.number, read.refused) == (OWNER, 1e6, 1e6 + 60, 2, 7)


def changed(**fields: object) -> str:
    return json.dumps({**json.loads(HOLD.text), **fields})


@pytest.mark.parametrize(("key", "text"), [
    pytest.param("u-web",     HOLD.text,                     id="no revision"),
    pytest.param("a/b.c",     HOLD.text,                     id="a key that is a path"),
    pytest.param("u-web.abc", "nonsense",                    id="no JSON"),
    pytest.param("u-web.abc", "[]",                          id="no object"),
    pytest.param("u-web.abc", None,                          id="nothing"),
    pytest.param("u-web.abc", "[" * 100_000,                 id="deep"),
    pytest.param("u-web.abc", changed(name="../../secrets"), id="a name that is a path"),
    pytest.param("u-web.abc", changed(namespace=""),         id="no namespace"),
    pytest.param("u-web.abc", changed(kind=["ReplicaSet"]),  id="a kind that is a list"),
])  # fmt: skip
def test_what_is_not_ours_is_nobody(key: str, text: object) -> None:
    assert listed_hold(key, text) is None


def test_strange_times_and_counts_are_none() -> None:
    read = listed_hold("u-web.abc", changed(until="soon", number="9", refused=None))
    assert read is not None
    assert (read.until, read.number, read.refused) == (0.0, 0, 0)


def test_many_nodes_do_not_make_the_list_long() -> None:
    text = ListedHold(OWNER, 0, 0, nodes=tuple(f"node-{number:05}" for number in range(5000))).text
    assert len(text) < 1000, "a thousand holds fit an object"


def test_objects_fit_together() -> None:
    definition, policy, binding = hold_objects("somewhere", {"app": "x"})
    listing, reference = hold_list("somewhere"), binding["spec"]["paramRef"]
    assert (reference["name"], reference["namespace"]) == (listing["metadata"]["name"], "somewhere")
    assert listing["kind"] == definition["spec"]["names"]["kind"] == policy["spec"]["paramKind"]["kind"]
    assert (
        listing["apiVersion"]
        == f"{definition['spec']['group']}/v1"
        == policy["spec"]["paramKind"]["apiVersion"]
    )
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert policy["spec"]["failurePolicy"] == "Ignore", "no pod is ever refused because of us"
    assert HOLD_GATE in json.dumps(policy["spec"]["mutations"])
    assert policy["metadata"]["labels"] == {"app": "x"}
