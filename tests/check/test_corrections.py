"""Corrections: each one mends its finding, none makes anything worse, and all together can be done twice."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.check.lint import lint
from numawise.apps.check.mend import key_of, mended
from numawise.codec.infile import read_instead
from numawise.results.correction import Correction, TextEdit, corrected
from numawise.results.finding import CheckReport, Finding, Severity
from tests.check.examples import Example, examples, inside, output, write
from tests.check.folder import HEAD, STATIC, named, one, pod
from tests.check.folder import check as checked
from tests.cli.run import numawise

Capture = pytest.CaptureFixture[str]
EXAMPLES = {shown.code: shown for shown in examples()}
CERTAIN = frozenset({
    "NW101", "NW102", "NW103", "NW106", "NW111", "NW112", "NW114", "NW121", "NW122", "NW123", "NW124", "NW125",
    "NW202", "NW213", "NW221", "NW235", "NW239", "NW302", "NW304", "NW310", "NW318", "NW412", "NW429", "NW702",
})  # fmt: skip
CHOSEN = frozenset({
    "NW001", "NW104", "NW113", "NW126", "NW127", "NW128", "NW129", "NW132", "NW133", "NW134", "NW136", "NW137",
    "NW138", "NW201", "NW203", "NW205", "NW206", "NW207", "NW208", "NW209", "NW210", "NW222", "NW231", "NW236", "NW312",
    "NW410", "NW411", "NW415", "NW423", "NW424", "NW426", "NW432", "NW434", "NW435", "NW501", "NW502", "NW503",
    "NW504", "NW506", "NW507", "NW508",
})  # fmt: skip


def report_of(shown: Example, folder: Path) -> CheckReport:
    """What the example's command finds, as values again."""
    data = json.loads(output(f"{shown.command} -o json", folder)[1])
    return CheckReport(tuple(map(finding_of, data["findings"])))


def finding_of(data: dict[str, Any]) -> Finding:
    ways = [
        Correction(way["title"], tuple(TextEdit(*edit.values()) for edit in way["edits"]), way["certain"])
        for way in data.get("corrections", ())
    ]
    file, line, field = data.get("file", ""), data.get("line"), data.get("field", "")
    severity = Severity(data["severity"])
    return Finding(data["code"], severity, data["message"], file, line, field, corrections=tuple(ways))


def texts_after(way: Correction, folder: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name in dict.fromkeys(edit.file for edit in way.edits):
        text = (folder / name).read_bytes().decode()
        new = corrected(text, [edit for edit in way.edits if edit.file == name])
        assert new != text
        files[name] = new.encode()
    return files


def worse(before: CheckReport, after: CheckReport) -> bool:
    return (after.errors, after.warnings) > (before.errors, before.warnings)


def count(findings: tuple[Finding, ...], finding: Finding) -> int:
    return Counter(map(key_of, findings))[key_of(finding)]


def test_which_codes_are_corrected(tmp_path: Path) -> None:
    certain, chosen = set(), set()
    for code, shown in EXAMPLES.items():
        write(shown.files, tmp_path / code)
        own = [finding for finding in report_of(shown, tmp_path / code).findings if finding.code == code]
        certain |= {code} if any(finding.certain for finding in own) else set()
        chosen |= {code} if any(f.corrections and not f.certain for f in own) else set()
    assert certain == CERTAIN
    assert chosen - certain == CHOSEN


@pytest.mark.parametrize("code", sorted(EXAMPLES))
def test_every_correction_alone_mends_its_finding(code: str, tmp_path: Path) -> None:
    shown = EXAMPLES[code]
    write(shown.files, tmp_path)
    before = report_of(shown, tmp_path)
    for finding in before.findings:
        for way in finding.corrections:
            with read_instead(texts_after(way, tmp_path)):
                after = report_of(shown, tmp_path)
            assert count(after.findings, finding) < count(before.findings, finding), (finding, way)
            assert not (way.certain and worse(before, after)), (finding, way)


@pytest.mark.parametrize("code", sorted(EXAMPLES))
def test_all_together_leave_nothing_certain_and_change_nothing_the_second_time(
    code: str, tmp_path: Path
) -> None:
    shown = EXAMPLES[code]
    write(shown.files, tmp_path)
    before = report_of(shown, tmp_path)
    with inside(tmp_path):
        first = mended(lambda: report_of(shown, tmp_path))
        assert not worse(before, first.report)
        assert not any(finding.certain for finding in first.report.findings)
        assert {one.file for one in first.applied} >= {one.file for one in first.files}
        for file in first.files:
            assert file.before == (tmp_path / file.file).read_bytes().decode()
            (tmp_path / file.file).write_bytes(file.text.encode())
        assert mended(lambda: report_of(shown, tmp_path)).files == ()


@pytest.mark.parametrize("code", sorted(CERTAIN - {"NW103", "NW106", "NW121", "NW213", "NW239", "NW304"}))
def test_a_certain_correction_does_what_the_page_about_the_code_shows(code: str, tmp_path: Path) -> None:
    shown = EXAMPLES[code]
    write(shown.files, tmp_path / "given")
    write({**shown.files, **shown.fixed}, tmp_path / "fixed")
    with inside(tmp_path / "given"):
        for file in mended(lambda: report_of(shown, tmp_path / "given")).files:
            assert sorted(file.text.split()) == sorted(
                (tmp_path / "fixed" / file.file).read_text().split()
            ), file


# --- comments, layout, what is left alone ---------------------------------------------------

BAD = f"""# numawise: ignore NW132
{HEAD}# pinned, as of May
cpuManagerPolicy: Static   # with a capital

cpuManagerPolicyOptions: {{full-pcpus-only: true}}  # whole cores
reservedSystemCPUs: 0
"""


def fixed(files: dict[str, str], folder: Path) -> dict[str, str]:
    write(files, folder)
    with inside(folder):
        given = named(
            configs=tuple(name for name in files if name.startswith("kubelet")),
            pods=tuple(name for name in files if name.startswith("pod")),
        )
        return {file.file: file.text for file in mended(lambda: lint(**given)).files}


def test_comments_order_and_layout_stay(tmp_path: Path) -> None:
    text = fixed({"kubelet.yaml": BAD}, tmp_path)["kubelet.yaml"]
    assert text == BAD.replace("Static", "static").replace("only: true", 'only: "true"').replace(
        "CPUs: 0", 'CPUs: "0"'
    )


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_line_ends_and_the_mark_at_the_beginning_stay(mark: str, ending: str, tmp_path: Path) -> None:
    bad = mark + STATIC.replace("static", "Static").replace("\n", ending) + f"featureGates: {{}}{ending}"
    (tmp_path / "kubelet.yaml").write_bytes(bad.encode())
    with inside(tmp_path):
        (file,) = mended(lambda: lint(**named(configs=("kubelet.yaml",)))).files
    assert file.text == bad.replace("Static", "static")


def test_json_stays_json(tmp_path: Path) -> None:
    value = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"align-by-socket": "true", "full-pcpus-only": True},
        "reservedSystemCPUs": "0, 1",
    }
    text = fixed({"kubelet.json": json.dumps(value, indent=2)}, tmp_path)["kubelet.json"]
    again = json.loads(text)
    assert again["featureGates"] == {"CPUManagerPolicyAlphaOptions": True}
    assert again["cpuManagerPolicyOptions"]["full-pcpus-only"] == "true"
    assert again["reservedSystemCPUs"] == "0,1"
    assert list(again)[:5] == list(value)


@pytest.mark.parametrize("text", [
    pytest.param(f"{HEAD}reservedSystemCPUs: &all 0\nproviderID: *all\n", id="an anchor that others use"),
    pytest.param(f"{HEAD}reservedSystemCPUs: !!int 0\n", id="a tag"),
    pytest.param(f"{HEAD}cpuManagerPolicy: &p Static\n", id="an anchor"),
])  # fmt: skip
def test_what_cannot_be_changed_surely_has_no_correction(text: str, tmp_path: Path) -> None:
    report = checked(tmp_path, {"kubelet.yaml": text})
    assert report.errors
    assert not any(finding.certain for finding in report.findings)


MAP = """apiVersion: v1
kind: ConfigMap
metadata:
  name: kubelet-config
  namespace: kube-system
data:
  kubelet: |
    apiVersion: kubelet.config.k8s.io/v1beta1
    kind: KubeletConfiguration
    # pinned
    cpuManagerPolicy: Static

    cpuManagerPolicyOptions:
      align-by-socket: "true"
    reservedSystemCPUs: 0
    featureGates:
      MemoryManager: true
  other: x
"""


def test_a_configuration_that_is_a_block_of_another_object(tmp_path: Path) -> None:
    text = fixed({"kubelet.yaml": MAP}, tmp_path)["kubelet.yaml"]
    expected = MAP.replace("Static", "static").replace("CPUs: 0", 'CPUs: "0"')
    assert text == expected.replace("MemoryManager: true", "CPUManagerPolicyAlphaOptions: true")


@pytest.mark.parametrize("style", [">", '"'])
def test_a_configuration_that_is_packed_otherwise_is_left(style: str, tmp_path: Path) -> None:
    inner = f"{HEAD}cpuManagerPolicy: Static\n"
    value = (
        json.dumps(inner) if style == '"' else ">\n" + "".join(f"    {row}\n\n" for row in inner.splitlines())
    )
    text = f"kind: ConfigMap\napiVersion: v1\ndata:\n  kubelet: {value}\n"
    report = checked(tmp_path, {"kubelet.yaml": text})
    assert "NW122" in {finding.code for finding in report.findings}
    assert not any(finding.corrections for finding in report.findings)


def test_a_field_that_a_flag_sets_is_not_changed_in_the_file(tmp_path: Path) -> None:
    report = checked(tmp_path, {"kubelet.yaml": STATIC}, flags="--cpu-manager-policy=Static")
    assert not one(report, "NW122").corrections


def test_a_file_that_a_drop_in_overrides_is_left_and_the_drop_in_corrected(tmp_path: Path) -> None:
    files = {"kubelet.yaml": STATIC, "kubelet.conf.d/10-cpus.conf": f"{HEAD}cpuManagerPolicy: Static\n"}
    write(files, tmp_path)
    with inside(tmp_path):
        given = named(configs=("kubelet.yaml",), config_dir="kubelet.conf.d")
        (file,) = mended(lambda: lint(**given)).files
    assert (file.file, file.text) == ("kubelet.conf.d/10-cpus.conf", f"{HEAD}cpuManagerPolicy: static\n")


def test_a_correction_that_would_make_it_worse_is_not_applied(tmp_path: Path) -> None:
    # Three and a half CPUs become four; but each of the two NUMA nodes has three to give.
    resources = '{limits: {cpu: "3500m", memory: 1Gi}}'
    config = STATIC.replace('"0"', '"0,4"') + "topologyManagerPolicy: single-numa-node\n"
    files = {"machine.yaml": "= 2s 8c 64g", "kubelet.yaml": config}
    write({**files, "pod.yaml": pod(resources)}, tmp_path)
    with inside(tmp_path):
        given = named(configs=("kubelet.yaml",), machines=("machine.yaml",), pods=("pod.yaml",))
        done = mended(lambda: lint(**given))
    assert one(done.report, "NW412").certain
    assert not done.report.errors
    assert not any(file.file == "pod.yaml" for file in done.files)


def test_many_pods_of_one_file_are_all_corrected(tmp_path: Path) -> None:
    many = "---\n".join(pod('{limits: {cpu: "2500m", memory: 1Gi}}', name=f"pod-{i}") for i in range(40))
    text = fixed({"pod.yaml": many}, tmp_path)["pod.yaml"]
    assert text == many.replace("2500m", "3")


# --- the command ----------------------------------------------------------------------------


def test_fix_writes_the_file_and_reports_what_is_left(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "kubelet.yaml"
    path.write_text(BAD)
    path.chmod(0o640)
    done = numawise(capsys, "check", "--fix", str(path))
    assert done.status == 0
    assert "3 corrections made in 1 file" in done.out
    assert 'reservedSystemCPUs: "0"' in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    again = numawise(capsys, "check", "--fix", str(path))
    assert "nothing was corrected" in again.out


def test_a_dry_run_shows_a_diff_and_writes_nothing(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "kubelet.yaml"
    path.write_text(BAD)
    done = numawise(capsys, "check", "--fix", "--dry-run", str(path))
    assert path.read_text() == BAD
    assert "\n-reservedSystemCPUs: 0\n" in done.out
    assert '\n+reservedSystemCPUs: "0"\n' in done.out
    assert "would be made" in done.out


def test_json_of_a_fix_is_the_check_of_what_is_left(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "kubelet.yaml"
    path.write_text(BAD)
    done = numawise(capsys, "check", "--fix", "-o", "json", str(path))
    assert json.loads(done.out)["errors"] == 0
    assert "3 corrections made" in done.err


@pytest.mark.parametrize(("words", "said"), [
    (["--dry-run", "kubelet.yaml"], "--dry-run: goes with --fix"),
    (["--fix", "-"],                "--fix: cannot change standard input"),
])  # fmt: skip
def test_used_wrongly(words: list[str], said: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "kubelet.yaml").write_text(BAD)
    with inside(tmp_path):
        done = numawise(capsys, "check", *words)
    assert done.status == 2
    assert said in done.err


def test_state_files_are_repaired_as_state_repair_does_and_the_old_ones_kept(
    tmp_path: Path, capsys: Capture
) -> None:
    write(EXAMPLES["NW302"].files, tmp_path)
    done = numawise(capsys, "check", "--fix", "--state", str(tmp_path / "state"))
    assert done.status == 0, done.err
    assert '"checksum":611748604' in (tmp_path / "state/cpu_manager_state").read_text()
    assert "the old state files are kept in" in done.err


def test_sarif_has_the_changes(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "kubelet.yaml").write_text(BAD)
    with inside(tmp_path):
        run = json.loads(numawise(capsys, "check", "-o", "sarif", "kubelet.yaml").out)["runs"][0]
    (result,) = (one for one in run["results"] if one["ruleId"] == "NW122")
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["artifactLocation"] == {"uri": "kubelet.yaml"}
    (replaced,) = change["replacements"]
    region = replaced["deletedRegion"]
    line = BAD.split("\n")[region["startLine"] - 1]
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == "Static"
    assert replaced["insertedContent"] == {"text": "static"}
