"""Resizes that the kubelet's own allocation manager was recorded to decide come out the same as a whole."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from numawise.node.replay import replay
from tests.release.compare import cut, unlike

HERE = Path(__file__).parent / "resize"
CHUNK = 20
OUTCOMES = {"allocated", "deferred", "infeasible", "unchanged"}
Data = dict[str, Any]


@cache
def recordings(path: Path) -> tuple[Data, ...]:
    return tuple(json.loads(line) for line in gzip.open(path, "rt", encoding="utf-8"))


def chunks() -> list[Any]:
    return [
        pytest.param(path, at, id=f"{path.name.removesuffix('.jsonl.gz')}-{at}")
        for path in sorted(HERE.glob("*.jsonl.gz"))
        for at in range(0, len(recordings(path)), CHUNK)
    ]


def bare(result: Data) -> Data:
    """A result without state files and hints, which were not recorded here."""
    result = cut(result)
    for step in (result.get("start") or {}, *(result.get("steps") or ())):
        for one in (step, *(step.get("readmitted") or ())):
            one.pop("hint_rounds", None)
            (one.get("state") or {}).pop("checkpoints", None)
    return result


@pytest.mark.parametrize(("path", "start"), chunks())
def test_recorded(path: Path, start: int) -> None:
    found = []
    for line in recordings(path)[start : start + CHUNK]:
        ours = json.loads(json.dumps(replay(line["scenario"])))
        found += [f"{line['scenario']['id']}: {one}" for one in unlike(bare(line["result"]), bare(ours))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", sorted(HERE.glob("*.jsonl.gz")), ids=lambda path: path.name)
def test_everything_that_can_become_of_a_resize_was_recorded(path: Path) -> None:
    steps = [step for line in recordings(path) for step in line["result"]["steps"]]
    assert {one["outcome"] for step in steps for one in step.get("resizes") or ()} == OUTCOMES
    assert any("preempted" in step for step in steps)


def test_a_damaged_recording_is_noticed() -> None:
    path = next(iter(sorted(HERE.glob("*.jsonl.gz"))))
    line = next(one for one in recordings(path) if one["scenario"]["id"] == "others-in-the-way")
    ours = bare(json.loads(json.dumps(replay(line["scenario"]))))
    assert unlike(bare(line["result"]), ours) == []
    step = next(at for at, one in enumerate(ours["steps"]) if one.get("resizes"))
    ours["steps"][step]["resizes"][0]["message"] += "?"
    assert [one.aspect for one in unlike(bare(line["result"]), ours)] == ["resizes"]
