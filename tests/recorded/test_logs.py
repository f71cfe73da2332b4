"""Every sample of a kubelet's log is read as it should be, and recorded admissions are read back as they were."""

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.logs.groups import LogFilter
from numawise.apps.logs.read import Source, read_log
from tests.logs import (
    SHARED,
    Truth,
    admissions_in,
    cuts,
    differences,
    interleaved,
    recordings,
    samples,
    untrue,
)
from tests.logwriting import FRAMES, framed

HERE = Path(__file__).parent
LOGS = HERE / "kubelet-logs"
OWN = sorted(log for log in LOGS.glob("*.log") if log.with_suffix(".json").is_file())


@pytest.mark.parametrize("log", [pytest.param(log, id=log.stem) for log in OWN])
def test_samples(log: Path) -> None:
    assert not differences(log, log.with_suffix(".json"))


@pytest.mark.skipif(
    not (SHARED / "kubelet-logs").is_dir(), reason="no samples at ../shared/data/kubelet-logs"
)
def test_shared_samples() -> None:
    found = list(samples(SHARED))
    assert len(found) >= 6
    assert {log.name: problems for log, problems in found if problems} == {}


def test_a_whole_run() -> None:
    data = gzip.decompress((LOGS / "run-1.36.4.log.gz").read_bytes())
    found, kubelets, tally = admissions_in(data)
    assert tally.lines == 1864
    assert [(one.pod.shown, one.verdict, one.stated, one.reason) for one in found] == [
        ("default/a-n1", "admitted", True, ""),
        ("default/b-n1", "admitted", True, ""),
        ("default/c-n1", "rejected", True, "TopologyAffinityError"),
        ("default/d-n1", "admitted", True, ""),
    ]
    assert [dict(one.cpus) for one in found] == [{"c": "2-3"}, {"c": "4-5"}, {}, {}]
    assert [dict(one.devices) for one in found] == [
        {"example.com/gpu": "gpu0"},
        {"example.com/gpu": "gpu1"},
        {},
        {},
    ]
    assert found[0].wanted == {"cpu": 2, "example.com/gpu": 1, "memory": 100 << 20}
    (short,) = found[2].rounds[0].shortages.values()
    assert (short.asked, short.available) == (1, 0)
    (kubelet,) = kubelets.all
    assert (kubelet.release, kubelet.policy, kubelet.policy_stated, kubelet.scope) == (
        "v1.36.4",
        "single-numa-node",
        True,
        "container",
    )
    assert kubelet.numas == 0b11


RUNS = [LOGS / "run-1.36.4.log.gz", *sorted(SHARED.glob("kubelet-run-1.36.4/*/kubelet.log.gz"))]
QUIETER = {
    2: ("Topology manager admission", "Pod Admit Result", "Event occurred", "Patch status", "Status for pod"),
    0: ("SyncLoop (PLEG)", "SyncLoop ADD", "Receiving a new pod"),
}
"""What kubelets do not say at lower verbosities."""


def lines_of(run: Path) -> list[str]:
    return gzip.decompress(run.read_bytes()).decode(errors="replace").splitlines()


def truth_of(lines: Sequence[str]) -> tuple[Truth, str]:
    """What became of each pod by the whole log, which states all of it, and the policy."""
    found, kubelets, _ = admissions_in(framed("plain", lines))
    assert all(one.stated for one in found)
    (kubelet,) = kubelets.all
    assert kubelet.policy_stated
    return {one.pod.name: frozenset({one.verdict}) for one in found}, kubelet.policy


@pytest.mark.parametrize("run", [pytest.param(run, id=run.parent.name) for run in RUNS])
def test_a_real_log_that_was_cut_is_never_wrong(run: Path) -> None:
    lines = lines_of(run)
    truth, policy = truth_of(lines)
    assert {*truth.values()} >= {frozenset({"admitted"}), frozenset({"rejected"})}
    chance = random.Random(run.parent.name)
    telling = [line for line in lines if any(name in line for name in truth) or "opology" in line]
    for source in (lines, telling):
        for name, left in cuts(source, list(truth), chance):
            assert [f"{name}: {problem}" for problem in untrue(left, truth, policy)] == []


@pytest.mark.parametrize("run", [pytest.param(run, id=run.parent.name) for run in RUNS])
def test_a_real_log_of_lower_verbosity(run: Path) -> None:
    lines = lines_of(run)
    truth, policy = truth_of(lines)
    for verbosity, missing in QUIETER.items():
        lines = [line for line in lines if not any(f'"{words}' in line for words in missing)]
        assert [f"{verbosity}: {problem}" for problem in untrue(lines, truth, policy)] == []
        found, _, _ = admissions_in(framed("plain", lines))
        rejected = {one.pod.name for one in found if one.rejected}
        assert rejected == {name for name, verdicts in truth.items() if verdicts == {"rejected"}}


def test_kubelets_that_are_mixed_are_kept_apart(tmp_path: Path) -> None:
    """A kubelet that runs, one that does not start, and one whose log was cut at both ends."""
    running = lines_of(RUNS[0])
    failing = [line for case in NOT_STARTED if case["case"] == "state1" for line in case["log"]]
    logs = [
        [f"Aug 15 00:00:00 {host} kubelet[7]: {line}" for line in lines]
        for host, lines in (("a", running), ("b", failing * 3), ("c", running[300:1500]))
    ]
    path = tmp_path / "kubelet.log"
    path.write_text("\n".join(interleaved(logs, random.Random(3))) + "\n")
    report = read_log(Source([str(path)]), LogFilter(all=True))
    (start,) = report.starts
    assert (start.failure.origin.host, start.failure.count, start.failure.code) == ("b", 3, "NW301")
    assert not start.failure.started_later
    verdicts = [
        (one.admission.pod.name, one.admission.verdict)
        for one in report.findings
        if one.admission.origin.host == "a"
    ]
    assert verdicts == [
        ("a-n1", "admitted"),
        ("b-n1", "admitted"),
        ("c-n1", "rejected"),
        ("d-n1", "admitted"),
    ]
    whole = dict(verdicts)
    for one in report.findings:
        assert one.admission.verdict in (whole[one.admission.pod.name], "unfinished")


NOT_STARTED = [
    json.loads(line)
    for line in gzip.decompress((LOGS / "not-started-1.36.4.jsonl.gz").read_bytes()).splitlines()
]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("case", [pytest.param(case, id=case["case"]) for case in NOT_STARTED])
def test_a_kubelet_that_did_not_start(case: dict[str, Any], frame: str, tmp_path: Path) -> None:
    broken = "broken" in frame or "pretty" in frame
    if case["case"].endswith("json") and broken:
        frame = "plain"  # a JSON line that is broken says less than its parts
    path = tmp_path / "kubelet.log"
    path.write_bytes(framed(frame, [*case["log"], *case["log"]]))
    report = read_log(Source([str(path)]), LogFilter())
    assert report.refused
    (start,) = report.starts
    assert (start.failure.stage, start.failure.code) == (case["stage"], case["code"])
    assert start.failure.count == 2
    assert start.explanation.answer.startswith("The kubelet does not start")
    assert start.explanation.remarks


@pytest.mark.parametrize("name", ["traces-dev", "doc-cases", "quirks"])
def test_recorded_admissions_are_read_back(name: str) -> None:
    """Written as many releases log it, in every frame; all scenarios: ``python -m tests.logs --traces DIR``."""
    found = list(recordings([str(HERE / "v1.36.4" / f"{name}.jsonl.gz")], most=30))
    assert len(found) >= 15
    assert [(scenario, problems) for scenario, problems, _ in found if problems] == []
    assert sum(counts["admissions"] for _, _, counts in found) > 15
