"""Pods whose extended resources a claim backs: the managers, and with them the whole admission, as recorded."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.node.replay import replay
from tests.recorded.compare import differences

FOLDER = Path(__file__).parent / "claims"
NOT_RECORDED = (
    "hint_rounds",
    "checkpoints",
    "state_after_admit",
    "allocate_failed",
    "devices_choice",
    "pushed",
)


def recorded() -> Iterator[Any]:
    for file in sorted(FOLDER.glob("*.jsonl.gz")):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            case = json.loads(line)
            yield pytest.param(case, id=f"{file.name.removesuffix('.jsonl.gz')}-{case['scenario']['id']}")


def told(value: Any) -> Any:
    """A result without what these recordings leave out."""
    if isinstance(value, dict):
        return {key: told(part) for key, part in value.items() if key not in NOT_RECORDED}
    return [told(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", list(recorded()))
def test_claims_fare_as_recorded(case: dict[str, Any]) -> None:
    ours = json.loads(json.dumps(replay(case["scenario"])))
    assert [str(one) for one in differences(told(case["result"]), told(ours))] == []
