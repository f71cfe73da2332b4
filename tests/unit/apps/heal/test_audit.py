"""The audit log: before, after, and nothing that is not written down."""

import io
import json
from pathlib import Path

import pytest

from numawise.apps.heal.audit import AuditedChange, AuditLog
from numawise.errors import ClusterError, HostError, NumawiseError
from numawise.kube.client import ApiConflict
from numawise.service.log import ServiceLog

CHANGE = AuditedChange("delete", "Pod", "default", "web-1", "u1", "too old", {"reason": "OutOfcpu"})


def log() -> ServiceLog:
    return ServiceLog(io.StringIO(), structured=True)


def test_a_line_before_and_a_line_after(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(str(path), log(), "me", lambda: 0.0)
    with audit.change(CHANGE):
        (before,) = map(json.loads, path.read_text().splitlines())
        assert (before["outcome"], before["why"], before["evidence"]) == (
            "intended",
            "too old",
            {"reason": "OutOfcpu"},
        )
    audit.close()
    _, after = map(json.loads, path.read_text().splitlines())
    assert (after["outcome"], after["change"], after["uid"]) == ("done", before["change"], "u1")
    assert audit.counts == {("delete", "intended"): 1, ("delete", "done"): 1}


@pytest.mark.parametrize(("problem", "outcome"), [
    (ApiConflict("changed"), "refused"), (ClusterError("gone"), "failed"),
])  # fmt: skip
def test_what_goes_wrong_is_written_and_raised(tmp_path: Path, problem: ClusterError, outcome: str) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(str(path), log(), "me")
    with pytest.raises(ClusterError, match=problem.message), audit.change(CHANGE):
        raise problem
    audit.close()
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["outcome"], last["problem"]) == (outcome, problem.message)


def test_a_file_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("{}\n")
    audit = AuditLog(str(path), log(), "me")
    with audit.change(CHANGE):
        pass
    audit.close()
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_what_cannot_be_written_down_is_not_done() -> None:
    audit = AuditLog("/dev/full", log(), "me")
    done = []
    with pytest.raises(HostError, match="cannot be written"), audit.change(CHANGE):
        done.append("deleted")
    audit.close()
    assert done == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "no" / "audit.jsonl"):
        with pytest.raises(NumawiseError, match="cannot be written"):
            AuditLog(str(place), log(), "me")


def test_without_a_file_the_lines_are_in_the_log() -> None:
    stream = io.StringIO()
    with AuditLog("", ServiceLog(stream, structured=True), "me").change(CHANGE):
        pass
    lines = [json.loads(line)["audit"]["outcome"] for line in stream.getvalue().splitlines()]
    assert lines == ["intended", "done"]


def test_names_and_reasons_are_one_line_whatever_they_have(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(str(path), log(), "me")
    with audit.change(AuditedChange("delete", "Pod", "d", "n", "u", 'a\n"b"\x1b[31m\u2028', {"m": "x\ny"})):
        pass
    audit.close()
    text = path.read_text()
    assert len(text.splitlines()) == 2
    assert text.isascii()
    assert "\x1b" not in text
