"""Whole admissions, recorded with the kubelet's own handlers: every reason in its order, and preemption.

Rules kept here:

1. Verdict, reason, message and ended pods count, and who holds which CPUs, memory and devices after each step.
2. Hints and files are those of the managers, which other recordings have.
"""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from numawise.node.replay import replay

HERE = Path(__file__).parent / "predicates"
FILES = sorted(HERE.glob("*.jsonl.gz"))
Data = dict[str, Any]
REASONS = {
    "Evicted",
    "SysctlForbidden",
    "TopologyAffinityError",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "PodOSNotSupported",
    "SupplementalGroupsPolicyNotSupported",
    "OutOfpods",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfephemeral-storage",
    "OutOfhugepages-2Mi",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "TaintToleration",
    "UnexpectedAdmissionError",
}


def lines(path: Path) -> list[Data]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def told(result: Data) -> list[Data]:
    """What counts of a result, step by step (rule 1)."""
    if "error" in result:
        return [{"error": result["error"]}]
    return [_step(step) for step in result["steps"]]


def _step(step: Data) -> Data:
    state = step.get("state") or {}
    again = step.get("readmitted") or []
    ended = [*(step.get("preempted") or ())]
    for one in again:  # the recording lists them once, for the whole restart
        ended += one.get("preempted") or []
    return {
        "verdicts": [
            tuple(one.get(name) for name in ("uid", "admitted", "reason", "message"))
            for one in (step, *again)
        ],
        "ended": ended,
        "crashed": "panic" in step,
        "shared": state.get("cpu", {}).get("default"),
        "cpus": _filled(state.get("cpu", {}).get("assignments")),
        "free": (state.get("memory") or {}).get("free"),
        "devices": _filled(state.get("devices")),
    }


def _filled(rows: Data | None) -> Data:
    return {name: row for name, row in (rows or {}).items() if row}


def test_three_releases_were_recorded() -> None:
    assert [path.name.removesuffix(".jsonl.gz") for path in FILES] == ["v1.34.11", "v1.36.4", "v1.37.1"]
    assert all(path.stat().st_size < 300_000 for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_step_comes_out_the_same(path: Path) -> None:
    for line in lines(path):
        scenario = line["scenario"]
        for number, (recorded, ours) in enumerate(
            zip(told(line["result"]), told(replay(scenario)), strict=True)
        ):
            assert ours == recorded, f"{scenario['id']}, step {number}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_reason_was_met(path: Path) -> None:
    steps = [step for line in lines(path) for step in line["result"].get("steps") or ()]
    seen = Counter(step["reason"] for step in steps if "reason" in step)
    assert seen.keys() >= REASONS
    assert sum(bool(step.get("preempted")) for step in steps) > 20
