"""``numawise replay``: lines in, lines out, nothing half-written."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import ROOT, numawise, process, refused
from tests.recorded.compare import differences

TRACES = ROOT / "tests" / "recorded" / "v1.36.4"
QUIRKS = TRACES / "quirks.jsonl.gz"


def recorded() -> list[dict[str, Any]]:
    with gzip.open(QUIRKS, "rt") as file:
        return [json.loads(line) for line in file]


def results(text: str) -> dict[str, dict[str, Any]]:
    return {line["id"]: line for line in map(json.loads, text.splitlines())}


def test_one_line_for_each_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "replay", "--jobs", 1, QUIRKS)
    assert (ran.status, ran.err) == (0, "")
    found = results(ran.out)
    assert list(found) == [line["scenario"]["id"] for line in recorded()]
    for line in recorded():
        assert not differences(line["result"], found[line["scenario"]["id"]]["result"])


def test_several_processes_give_the_same_in_the_same_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    assert process("replay", "--jobs", 1, "--out", one, QUIRKS).status == 0
    assert process("replay", "--jobs", 2, "--out", two, QUIRKS).status == 0
    assert one.read_text() == two.read_text()


def test_the_recorded_result_is_not_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = recorded()[0]
    bare, lying = tmp_path / "bare.jsonl", tmp_path / "lying.jsonl"
    bare.write_text(json.dumps({"scenario": line["scenario"]}))
    lying.write_text(json.dumps({"scenario": line["scenario"], "result": {"error": "all is lost"}}) + "\n\n")
    assert (
        numawise(capsys, "replay", "--jobs", 1, bare).out
        == numawise(capsys, "replay", "--jobs", 1, lying).out
    )


def test_standard_input() -> None:
    line = json.dumps(recorded()[0])
    ran = process("replay", "--jobs", 1, "-", stdin=line + "\n")
    assert ran.status == 0
    assert list(results(ran.out)) == [recorded()[0]["scenario"]["id"]]


def test_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    first.write_text(json.dumps(recorded()[0]) + "\n")
    second.write_bytes(gzip.compress((json.dumps(recorded()[1]) + "\n").encode()))
    ran = numawise(capsys, "replay", "--jobs", 1, first, second)
    assert list(results(ran.out)) == [line["scenario"]["id"] for line in recorded()[:2]]


def test_a_scenario_that_cannot_be_run_is_told_in_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = recorded()[0]
    bad = {"scenario": {"id": "bad", "machine": {"cpus": [], "numa": []}, "steps": []}}
    file = tmp_path / "mixed.jsonl"
    file.write_text(json.dumps(bad) + "\n" + json.dumps(good) + "\n")
    ran = numawise(capsys, "replay", "--jobs", 1, file)
    assert ran.status == 1
    found = results(ran.out)
    assert set(found["bad"]) == {"id", "failed"}
    assert "result" in found[good["scenario"]["id"]]


@pytest.mark.parametrize("change", [
    {"steps": [{"explode": {}}]},
    {"steps": [5]},
    {"steps": [{}]},
    {"steps": [{"add": 5}]},
    {"steps": [{"restart": {"machine": {}}}]},
    {"steps": [{"devices": {"x/y": 5}}]},
    {"kubernetes": "latest"},
    {"kubelet": "static"},
    {"machine": {"cpus": 5, "numa": None}},
])  # fmt: skip
def test_scenarios_that_make_no_sense(
    change: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each fails in its line; those beside it are run."""
    good = recorded()[0]
    bad = {"scenario": {**good["scenario"], "id": "bad", **change}}
    file = tmp_path / "mixed.jsonl"
    file.write_text(json.dumps(bad) + "\n" + json.dumps(good) + "\n")
    ran = numawise(capsys, "replay", "--jobs", 1, file)
    assert (ran.status, ran.err) == (1, "")
    found = results(ran.out)
    assert found["bad"]["failed"]
    assert "result" in found[good["scenario"]["id"]]


BAD_LINES = [
    pytest.param(b"{",                                   ["is not JSON"],         id="truncated"),
    pytest.param(b"not json",                            ["is not JSON"],         id="no JSON"),
    pytest.param(b"[]",                                  ["has no scenario"],     id="no object"),
    pytest.param(b'{"scenario": 5}',                     ["has no scenario"],     id="no scenario"),
    pytest.param(b'{"scenario": {"id": "x"}}',           ["has no scenario"],     id="no machine"),
    pytest.param(b"\xff\xfe\x00binary",                  ["is not JSON"],         id="binary"),
    pytest.param(b"x" * 10_000_000,                      ["is not JSON"],         id="10 MB of garbage"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "words"), BAD_LINES)
def test_bad_lines(
    content: bytes, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "bad.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(content + b"\n")
    refused(numawise(capsys, "replay", "--jobs", 1, "--out", out, file), f"{file}:1", *words)
    assert not out.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]  # nothing half-written lies about


def test_a_bad_line_after_good_ones_leaves_no_file(tmp_path: Path) -> None:
    file, out = tmp_path / "bad.jsonl", tmp_path / "out.jsonl"
    file.write_text(json.dumps(recorded()[0]) + "\n\n{\n")
    for jobs in (1, 2):
        refused(process("replay", "--jobs", jobs, "--out", out, file), f"{file}:3", "is not JSON")
        assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]


def test_an_older_result_survives_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "bad.jsonl", tmp_path / "out.jsonl"
    file.write_text("{\n")
    out.write_text("as it was")
    refused(numawise(capsys, "replay", "--jobs", 1, "--out", out, file))
    assert out.read_text() == "as it was"


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(
        numawise(capsys, "replay", "--jobs", 1, tmp_path / "none.jsonl"),
        "none.jsonl",
        "there is no such file",
    )


def test_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(numawise(capsys, "replay", "--jobs", 1, tmp_path), str(tmp_path), "directory")


@pytest.mark.parametrize("content", [
    pytest.param(b"plain text",                                         id="not packed"),
    pytest.param(gzip.compress(b'{"a":1}\n' * 100, mtime=0)[:-20],      id="cut off"),
])  # fmt: skip
def test_a_file_that_is_not_what_its_name_says(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "traces.jsonl.gz"
    file.write_bytes(content)
    refused(numawise(capsys, "replay", "--jobs", 1, file), "traces.jsonl.gz")


def test_an_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "no" / "such" / "folder.jsonl"
    refused(numawise(capsys, "replay", "--jobs", 1, "--out", out, QUIRKS), str(out), "cannot be written")
