"""The patch that lets a held pod go."""

from typing import Any

import pytest

from numawise.apps.heal.steering import HOST_NAME, REQUIRED, release_patch, steered_to
from tests.unit.apps.heal.pods import held

IN = {"key": HOST_NAME, "operator": "In", "values": ["h1", "h2"]}
HOSTS = {"n1": "h1", "n2": "h2"}
ZONE = {"key": "zone", "operator": "Exists"}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


def terms_of(patch: dict[str, Any]) -> Any:
    return patch["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def with_terms(*terms: dict[str, Any]) -> dict[str, Any]:
    value = held()
    value["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}
    return value


@pytest.mark.parametrize(("own", "expected"), [
    pytest.param([],                                 [{"matchExpressions": [IN]}], id="none of its own"),
    pytest.param([{"matchExpressions": [ZONE]}],     [{"matchExpressions": [ZONE, IN]}], id="one more in its term"),
    pytest.param([{"matchFields": [FIELD]}],         [{"matchFields": [FIELD], "matchExpressions": [IN]}], id="beside fields"),
    pytest.param([{"matchExpressions": [ZONE]}, {}], [{"matchExpressions": [ZONE, IN]}, {}], id="an empty term stays empty"),
])  # fmt: skip
def test_a_requirement_more(own: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert terms_of(release_patch(with_terms(*own), HOSTS, ["n1", "n2"])) == expected


def test_nodes_without_the_label_are_named() -> None:
    assert terms_of(release_patch(held(), {"n1": ""}, ["n1"])) == [{"matchFields": [FIELD]}]


def test_what_cannot_be_said_is_left_out() -> None:
    patch = release_patch(with_terms({"matchExpressions": [ZONE]}), {"n1": ""}, ["n1"])
    assert "affinity" not in patch["spec"]
    assert "annotations" not in patch["metadata"]


def test_our_gate_goes_and_others_stay() -> None:
    value = held()
    value["spec"]["schedulingGates"].append({"name": "example.com/other"})
    assert release_patch(value, {}, [])["spec"] == {"schedulingGates": [{"name": "example.com/other"}]}
    assert release_patch(held(), {}, [])["spec"] == {"schedulingGates": None}


def test_the_patch_names_the_pod_that_was_looked_at() -> None:
    assert release_patch(held("x"), {}, [])["metadata"] == {"uid": "uid-x", "resourceVersion": "7"}


def test_a_steered_pod_is_known_later() -> None:
    value = held()
    value["metadata"]["annotations"] = release_patch(value, HOSTS, ["n1"])["metadata"]["annotations"]
    assert steered_to(value)
    assert not steered_to(held())
