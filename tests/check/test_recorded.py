"""What the kubelet refused is refused with its words, and what it accepted is no error."""

import json
from pathlib import Path

import pytest

from numawise.codec.machine import encode_machine
from numawise.codec.output import to_json
from tests.check.examples import output
from tests.check.traces import HEAD, Start, difference, findings_of, pod_difference, starts
from tests.fidelity import trace_files, trace_lines

ROOT = Path(__file__).parents[2]
HERE = ROOT / "tests" / "recorded" / "v1.36.4"
SHARED = ROOT.parent / "shared" / "traces"
BAD = "bad"
SAMPLE = 12
"""Of files without refusals every so many scenarios are looked at."""


def recorded(folder: Path) -> list[Path]:
    return trace_files([folder]) if folder.is_dir() else []


def starts_in(path: Path) -> list[Start]:
    lines = list(trace_lines(path))
    chosen = lines if BAD in path.name else lines[::SAMPLE]
    found = []
    for line in chosen:
        told = json.loads(line)
        found += starts(told["scenario"], told["result"])
    return found


@pytest.mark.parametrize("path", recorded(HERE), ids=lambda path: path.name)
def test_agrees_with_the_kubelet(path: Path) -> None:
    found = starts_in(path)
    assert found
    assert not (told := [one for one in map(difference, found) if one]), "\n".join(told)


@pytest.mark.parametrize("path", recorded(HERE), ids=lambda path: path.name)
def test_first_pods_fare_as_they_did(path: Path) -> None:
    scenarios = [json.loads(line) for line in list(trace_lines(path))[:: SAMPLE // 3]]
    found = [pod_difference(told["scenario"], told["result"]) for told in scenarios]
    assert not (told := [one for one in found if one]), "\n".join(told)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the other releases are recorded elsewhere")
@pytest.mark.parametrize("path", recorded(SHARED / "versions"), ids=lambda path: path.name)
def test_agrees_with_other_releases(path: Path) -> None:
    if BAD in path.name:
        found = starts_in(path)
        assert any(one.error for one in found)
        assert not (told := [one for one in map(difference, found) if one]), "\n".join(told)


def refused() -> list[Start]:
    return [one for path in recorded(HERE) if BAD in path.name for one in starts_in(path) if one.error]


@pytest.mark.parametrize("start", refused()[::7], ids=lambda start: start.name)
def test_the_command_says_the_same(start: Start, tmp_path: Path) -> None:
    """Likewise through files and the command line."""
    assert start.error is not None
    (tmp_path / "kubelet.yaml").write_text(json.dumps({**HEAD, **start.config}))
    (tmp_path / "machine.yaml").write_text(to_json(encode_machine(start.machine)))
    words = "numawise check --kube 1.36 --kubelet-config kubelet.yaml --machine machine.yaml -o json"
    if start.files:
        (tmp_path / "state").mkdir()
        for name, text in start.files.items():
            (tmp_path / "state" / name).write_text(text)
        words += " --state state"
    status, told = output(words, tmp_path)
    assert status == 1
    messages = [
        one.get("kubelet", one["message"])
        for one in json.loads(told)["findings"]
        if one["severity"] == "error"
    ]
    assert any(message in start.error["message"] for message in messages)


def test_the_comparison_notices() -> None:
    """A refusal that is not told, and an error where there is none, count as differences."""
    start = refused()[0]
    assert not difference(start)
    assert start.error is not None
    other = Start(start.name, start.config, start.machine, start.version, start.files, None)
    assert "the kubelet starts" in difference(other)
    error = {**start.error, "message": "something else"}
    assert difference(Start(start.name, start.config, start.machine, start.version, start.files, error))
    assert findings_of(start)
