"""Every refusal in a sample of the recordings is explained, and every suggestion is admitted when followed.

``python -m tests.why`` does the same for all of them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fidelity import trace_files, trace_lines
from tests.why import Refused, Tally, carried_out, explained, judged, patched, refused_in

HERE = Path(__file__).parent / "v1.36.4"
EVERY = {"traces-dev.jsonl.gz": 50, "doc-cases.jsonl.gz": 12, "bad-config.jsonl.gz": 3}
"""Each so manieth scenario of a file is looked at; of the others, all."""
PARTS = 6


def sample(part: int) -> list[bytes]:
    found = []
    for path in trace_files([HERE]):
        found += list(trace_lines(path))[:: EVERY.get(path.name, 1)]
    return found[part::PARTS]


@pytest.mark.parametrize("part", range(PARTS))
def test_refusals_are_explained_and_suggestions_hold(part: int) -> None:
    total = Tally()
    for line in sample(part):
        total.add(judged(line))
    assert not total.problems, "\n".join(total.problems)
    assert total.several
    assert not total.excess
    assert total.refused > 5
    assert total.helped > 0.75 * total.refused  # rare meetings of features are among them
    assert total.started == total.not_started
    assert sum(total.suggestions.values()) >= total.refused


# --- the judge itself ----------------------------------------------------------------------------


def first_refusal() -> tuple[dict[str, Any], Refused]:
    for line in trace_lines(HERE / "doc-cases.jsonl.gz"):
        scenario = json.loads(line)["scenario"]
        for refused in refused_in(scenario):
            return scenario, refused
    raise AssertionError


def test_a_wrong_suggestion_is_noticed() -> None:
    from numawise.explain.explain import explain  # noqa: PLC0415
    from numawise.results.explanation import Patch, Suggestion  # noqa: PLC0415

    scenario, refused = first_refusal()
    found = explain(refused.case)
    assert explained(found)
    assert carried_out(scenario, refused, found.suggestions[0]) == ""
    assert carried_out(scenario, refused, Suggestion("nothing", "do nothing")).startswith("refused: ")
    path = ("spec", "containers", 0, "resources", "limits", "cpu")
    bad = Suggestion("bad", "", pod=(Patch("add", path, "-1"),))
    assert carried_out(scenario, refused, bad).startswith("the API server would refuse it: ")


def test_json_patch() -> None:
    value = {"a": [{"b": 1}], "x/y": {"k": 2}}
    patches = [
        {"op": "replace", "path": "/a/0/b", "value": 5},
        {"op": "add", "path": "/a/-", "value": {"b": 6}},
        {"op": "remove", "path": "/x~1y/k"},
        {"op": "add", "path": "/x~1y/l", "value": 3},
    ]
    assert patched(value, patches) == {"a": [{"b": 5}, {"b": 6}], "x/y": {"l": 3}}
    assert value == {"a": [{"b": 1}], "x/y": {"k": 2}}
    with pytest.raises(KeyError):
        patched(value, [{"op": "replace", "path": "/a/0/c", "value": 5}])
