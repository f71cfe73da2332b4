"""Checks and plans over the API: as the commands say it, with the changes that mend files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from numawise.results.check_page import CheckPage, PlanPage
from numawise.results.correction import TextEdit, corrected
from numawise.results.schema import definition
from tests.check.examples import examples
from tests.check.folder import HEAD, STATIC, pod
from tests.cli.run import program
from tests.web.calls import Page, named

EIGHT = Path(__file__).parent.parent.parent / "examples/8gpu-server"
BAD = (
    f"{HEAD}cpuManagerPolicy: Static\nreservedSystemCPUs: 0  # the first\ntopologyManagerPolicy: restricted\n"
)
STATE = '{"policyName":"static","defaultCpuSet":"0-3","checksum":12345}'


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page(named("dgx-h100"))
    yield page
    page.close()


def given(**files: str) -> list[dict[str, str]]:
    return [{"name": name.replace("__", "."), "text": text} for name, text in files.items()]


def valid(answer: Any, form: type) -> Any:
    assert answer.status == 200, answer.body
    jsonschema.Draft202012Validator(definition(form)[1]).validate(answer.data)
    return answer.data


def test_findings_lie_beside_their_files_and_lines(page: Page) -> None:
    files = given(
        kubelet__yaml=BAD, pod__yaml=pod('{limits: {nvidia.com/gpu: "1"}}'), cpu_manager_state=STATE
    )
    data = valid(page.post("check", {"files": files}), CheckPage)
    findings = data["report"]["findings"]
    assert [one["kind"] for one in data["files"]] == ["kubelet configuration", "pods", "state file"]
    for file in data["files"]:
        own = [findings[number] for number in file["findings"]]
        assert own
        assert {one["file"] for one in own} == {file["name"]}
        assert [one["line"] for one in own] == sorted(one["line"] for one in own)
    assert data["elsewhere"] == []
    assert b"numawise-page" not in page.post("check", {"files": files}).body


def test_the_report_is_what_the_command_prints(page: Page, tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(BAD)
    printed = json.loads(program("check", "-o", "json", "kubelet.yaml", cwd=tmp_path).out)
    data = page.post("check", {"files": given(kubelet__yaml=BAD)}).data
    assert data["report"] == {
        key: value for key, value in printed.items() if key not in ("apiVersion", "kind")
    }


def test_one_correction_and_all_of_them(page: Page) -> None:
    files = given(kubelet__yaml=BAD)
    data = page.post("check", {"files": files}).data
    (finding,) = (one for one in data["report"]["findings"] if one["code"] == "NW122")
    edits = [TextEdit(*edit.values()) for edit in finding["corrections"][0]["edits"]]
    assert corrected(BAD, edits) == BAD.replace("Static", "static")
    data = valid(page.post("check", {"files": files, "fix": True}), CheckPage)
    assert data["files"][0]["text"] == BAD.replace("Static", "static").replace("CPUs: 0", 'CPUs: "0"')
    assert [one["code"] for one in data["applied"]] == ["NW122", "NW101"]
    assert data["report"]["errors"] == 0


def test_files_without_corrections_have_no_new_text(page: Page) -> None:
    data = page.post("check", {"files": given(kubelet__yaml=STATIC), "fix": True}).data
    assert "text" not in data["files"][0]
    assert data["applied"] == []


def test_the_machine_counts(page: Page) -> None:
    files = given(kubelet__yaml=STATIC.replace('"0"', '"500"'))
    codes = lambda **more: {  # noqa: E731 - a word for the three below
        one["code"] for one in page.post("check", {"files": files, **more}).data["report"]["findings"]
    }
    assert "NW203" not in codes()
    assert "NW203" in codes(served=True)
    assert "NW203" in codes(machine="2s 8c")


@pytest.mark.parametrize(("body", "status", "field", "words"), [
    ({"files": []},                                              422, "$.files",         "nothing to check"),
    ({"files": given(a=BAD) + given(a=BAD)},                     422, "$.files[1].name", "two files are called 'a'"),
    ({"files": given(a=BAD), "machine": "/etc/passwd"},          422, "$.machine",       "neither in the catalogue"),
    ({"files": given(a=BAD), "release": "nonsense"},             422, "$.release",       "nonsense"),
    ({"files": given(a=BAD), "path": "/etc"},                    422, "$",               "path"),
])  # fmt: skip
def test_used_wrongly(page: Page, body: object, status: int, field: str, words: str) -> None:
    problem = page.post("check", body).problem
    assert problem["status"] in (400, status)
    assert problem["field"] == field
    assert words in problem["detail"]


@pytest.mark.parametrize("shown", examples(), ids=lambda shown: shown.code)
def test_every_example_of_a_code_is_answered(page: Page, shown: Any) -> None:
    files = [
        {"name": name.rpartition("/")[2], "text": text}
        for name, text in shown.files.items()
        if not text.startswith("= ") and text.strip()
    ]
    machine = next((text[2:].strip() for text in shown.files.values() if text.startswith("= ")), "")
    if files:
        answer = page.post("check", {"files": files, "machine": machine, "fix": True})
        assert answer.status == 200, answer.body


def test_what_is_no_text_or_hostile_is_answered(page: Page) -> None:
    files = [
        {"name": "../../etc/x.yaml", "text": "kind: Pod\nmetadata: {name: '<script>alert(1)</script>'}\n"},
        {"name": "noise", "base64": "AAECAwQ="},
        {"name": "deep.yaml", "text": "[" * 5000},
    ]
    data = page.post("check", {"files": files, "fix": True}).data
    assert [one["name"] for one in data["files"]] == ["x.yaml", "noise", "deep.yaml"]


# --- plans ----------------------------------------------------------------------------------------


def test_a_plan_is_what_the_command_prints(page: Page, tmp_path: Path) -> None:
    data = valid(page.post("plan", {"node": {"machine": "dgx-h100"}, "goal": "latency"}), PlanPage)
    printed = program(
        "plan", "kubelet", "--machine", "dgx-h100", "--goal", "latency", "-o", "json", cwd=tmp_path
    ).out
    assert data["plan"] == {k: v for k, v in json.loads(printed).items() if k not in ("apiVersion", "kind")}
    assert (
        data["text"]
        == program("plan", "kubelet", "--machine", "dgx-h100", "--goal", "latency", cwd=tmp_path).out
    )
    assert data["switch"] is None
    again = page.post("check", {"files": given(kubelet__yaml=data["text"]), "machine": "dgx-h100"}).data
    assert again["report"]["errors"] == 0


def test_a_plan_over_a_configuration_keeps_it_and_has_the_steps(page: Page) -> None:
    config = (EIGHT / "kubelet.yaml").read_text() + "maxPods: 99\n"
    body = {"node": {"machine": "8gpu-server", "config": config}, "reserveCpus": 8, "reserveMemory": "32Gi"}
    data = valid(page.post("plan", body), PlanPage)
    assert data["plan"]["configuration"]["maxPods"] == 99
    assert data["switch"]["steps"]
    assert "reservedSystemCPUs" in data["switch"]["changes"]


@pytest.mark.parametrize(("more", "field"), [
    ({"reserveMemory": "lots"}, "$.reserveMemory"),
    ({"hugepages": ["1Gi"]},    "$.hugepages"),
    ({"goal": "fun"},           "$.goal"),
    ({"reserveCpus": 0},        "$.reserveCpus"),
])  # fmt: skip
def test_a_plan_asked_wrongly(page: Page, more: dict[str, Any], field: str) -> None:
    problem = page.post("plan", {"node": {"machine": "dgx-h100"}, **more}).problem
    assert problem["field"] == field
