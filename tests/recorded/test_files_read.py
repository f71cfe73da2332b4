"""State files in order, damaged and of other releases: what the kubelets of 1.36 and 1.37 made of each."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.decision import state_data
from numawise.codec.machine import machine_from
from numawise.node.node import Files, boot
from numawise.rules.check import Refusal
from numawise.rules.versions import parse_version

PATH = Path(__file__).parent / "state-files" / "read-by-kubelets.jsonl.gz"
HEAD, *ROWS = map(json.loads, gzip.decompress(PATH.read_bytes()).splitlines())


def made_of(row: dict[str, Any]) -> dict[str, Any]:
    """What we make of a file, in the recording's form."""
    gates = {"featureGates": HEAD["pod_level_gates"]} if row["pod_level"] else {}
    node = boot(
        machine_from(HEAD["machine"]),
        {**HEAD["kubelet"], **gates},
        Files({row["file"]: row["text"]}),
        version=parse_version(row["release"]),
    )
    if isinstance(node, Refusal):
        return {"error": {"stage": node.stage, "message": node.message}}
    state = json.loads(json.dumps(state_data(node.rules, node.state, {})))
    return {"state": {name: {k: v for k, v in state[name].items() if v} for name in ("cpu", "memory")}}


@pytest.mark.parametrize("release", ["1.36", "1.37"])
@pytest.mark.parametrize("pod_level", [False, True])
def test_files_are_read_or_refused_as_the_kubelet_does(release: str, pod_level: bool) -> None:  # noqa: FBT001
    rows = [row for row in ROWS if row["release"] == release and row["pod_level"] is pod_level]
    assert len(rows) > 600
    differ = [
        (row["of"], row["file"], row["what"])
        for row in rows
        if made_of(row) != {key: row[key] for key in ("error", "state") if key in row}
    ]
    assert differ == []


def test_a_data_checksum_without_data_is_refused() -> None:
    rows = [row for row in ROWS if row["release"] == "1.37" and row["what"] == "no data"]
    assert rows
    assert all("unexpected end of JSON input" in made_of(row)["error"]["message"] for row in rows)
