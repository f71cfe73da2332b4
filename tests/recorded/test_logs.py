"""Every sample of a kubelet's log is read as it should be, and recorded admissions are read back as they were."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.logs.groups import LogFilter
from numawise.apps.logs.read import Source, read_log
from tests.logs import SHARED, admissions_in, differences, recordings, samples
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
    found = list(recordings([str(HERE / "v1.36.4" / f"{name}.jsonl.gz")], most=120))
    assert len(found) >= 15
    assert [(scenario, problems) for scenario, problems, _ in found if problems] == []
    assert sum(counts["admissions"] for _, _, counts in found) > 15
